//! The fields that all order types have, and the macro that defines an order type from them and its own fields.

/// Defines an order type: the fields common to all types, and then its own fields. `attorney` is `req` or `opt`.
/// After `documents` come `req` or `opt` and the smallest number of documents that an export accepts.
macro_rules! order {
    ($(#[doc = $about:literal])* pub struct $name:ident (attorney $attorney:ident, documents $documents:ident $fewest:literal) {
        $($fields:tt)*
    }) => {
        part! { @define $(#[doc = $about])* pub struct $name {
            /// The firm's matter number; printed on proof and invoice.
            opt client_matter_number: $crate::text::Text<50>,
            /// The caller's own key.
            opt external_reference: $crate::text::Text<64>,
            /// Who to call; by default the contact who signed in.
            opt ordered_by: $crate::parts::ContactPerson,
            /// The attorney the work is for.
            $attorney attorney: $crate::parts::Attorney,
            /// Who else pays; by default the customer.
            opt bill_to: $crate::list::List<$crate::parts::BillTo, 0, 5>,
            /// How soon: Routine within 3 business days, Rush the next, SameDay, Immediate within hours.
            def service_level: $crate::choices::ServiceLevel = $crate::choices::ServiceLevel::Routine,
            /// Finish by.
            opt due_by: $crate::when::DateTime,
            /// Report progress by.
            opt status_by: $crate::when::Date,
            /// The papers.
            $documents documents: $crate::list::List<$crate::parts::Document, $fewest, 100>,
            /// Money to be laid out: court, witness, recorder, custodian.
            opt advance_fees: $crate::list::List<$crate::parts::AdvanceFee, 0, 20>,
            /// USD; not to be exceeded without asking.
            opt fee_limit: $crate::number::Money,
            /// Special instructions.
            opt instructions: $crate::text::Text<4000>,
            /// Who gets mail about the status.
            opt notify_emails: $crate::list::List<$crate::text::Email, 0, 10>,
            $($fields)*
        } }
    };
}
