//! The event catalog: six codes in three categories.

use serde::{Deserialize, Serialize};

crate::words! {
    /// A code of the event catalog; written as in the specification (`order.created`).
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
    pub enum EventCode {
        /// An order was saved for the first time.
        #[serde(rename = "order.created")]
        OrderCreated = "order.created",
        /// A field of a saved order changed.
        #[serde(rename = "order.updated")]
        OrderUpdated = "order.updated",
        /// An order became a work order.
        #[serde(rename = "order.exported")]
        OrderExported = "order.exported",
        /// The status of an order changed.
        #[serde(rename = "order.status_changed")]
        OrderStatusChanged = "order.status_changed",
        /// A note was added to a work order.
        #[serde(rename = "note.created")]
        NoteCreated = "note.created",
        /// An invoice appeared.
        #[serde(rename = "invoice.created")]
        InvoiceCreated = "invoice.created",
    }
}

impl EventCode {
    /// When an event of this code is published.
    pub const fn about(self) -> &'static str {
        match self {
            Self::OrderCreated => "An order was saved for the first time.",
            Self::OrderUpdated => "A saved order was saved again, and something changed.",
            Self::OrderExported => "An export created the work orders of an order.",
            Self::OrderStatusChanged => "A note has a milestone of a photocopy order.",
            Self::NoteCreated => "A note was added to a work order by the API.",
            Self::InvoiceCreated => "The back office has a new invoice.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_text_and_from_json() {
        for code in EventCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(code.to_string(), code.as_str());
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(serde_json::from_value::<EventCode>(code.as_str().into()).unwrap(), code);
            // The category of the catalog is the first word of the code.
            let category = code.as_str().split_once('.').map(|(category, _)| category);
            assert!(matches!(category, Some("order" | "note" | "invoice")), "{code}");
        }
    }

    #[test]
    fn unknown_text_is_refused_with_the_catalog() {
        let message = "order.create".parse::<EventCode>().unwrap_err().to_string();
        assert!(message.starts_with("must be one of order.created, order.updated, "));
        assert!("Order.Created".parse::<EventCode>().is_err());
    }
}
