//! Answers of the platform's routes and the command line that the API does not have.

use docket_domain::audit::AuditRecord;
use docket_domain::trace::WhyNot;
use docket_domain::work_order::WorkOrderType;
use docket_store::contacts::ListedContact;
use docket_store::deliveries::{ListedDelivery, StoredAttempt};
use docket_store::employees::ListedEmployee;
use docket_store::invoices::TracedInvoice;
use docket_store::orders::OrderHead;
use docket_store::walk::Page;
use serde::Serialize;
use serde_json::{Value, json};

use crate::actions::resend::remedy;
use crate::actions::trace::{MissingWebhook, Traced, TracedEvent};
use crate::api::webhook_logs::answers::{AttemptSummary, DeliverySummary};
use crate::audit::AuditLine;
use crate::http::times::{Time, time};

/// What became of an order or an invoice.
#[derive(Serialize)]
pub struct Trace {
    /// The web order; null if there is none.
    pub order: Option<TracedOrder>,
    /// The invoices of the number.
    pub invoices: Vec<InvoiceAnswer>,
    /// Its events, oldest first.
    pub events: Vec<EventAnswer>,
    /// Its deliveries, oldest first.
    pub deliveries: Vec<TracedDelivery>,
    /// Whether there are older deliveries.
    pub more: bool,
}

impl Trace {
    /// A trace, with what each delivery waits for: in the order of [`Traced::all`].
    pub fn new(traced: Traced, waits: Vec<Option<String>>) -> Self {
        let mut waits = waits.into_iter();
        let mut waiting = |listed| (listed, waits.next().flatten());
        let deliveries = traced.deliveries.into_iter().map(|one| {
            let listed = waiting(one.listed);
            TracedDelivery::new(listed, one.attempts, one.later.into_iter().map(&mut waiting).collect())
        });
        let deliveries = deliveries.collect();
        let order = traced.order.map(|(head, made)| TracedOrder::new(head, made));
        let invoices = traced.invoices.into_iter().map(InvoiceAnswer::from).collect();
        let events = traced.events.into_iter().map(EventAnswer::from).collect();
        Self { order, invoices, events, deliveries, more: traced.more }
    }
}

/// An invoice of the back office.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceAnswer {
    invoice_number: String,
    order_type: &'static str,
    work_order: String,
    /// Null if there is no such work order: then the invoice waits for it.
    customer_code: Option<String>,
    created_at: Time,
    /// When Docket published the invoice, or another program marked it as known; null if it is new.
    detected_at: Option<Time>,
}

impl From<TracedInvoice> for InvoiceAnswer {
    fn from(invoice: TracedInvoice) -> Self {
        Self {
            invoice_number: invoice.invoice_number,
            order_type: invoice.family.as_str(),
            work_order: invoice.work_order,
            customer_code: invoice.customer_code,
            created_at: time(invoice.created_at_ms),
            detected_at: invoice.detected_at_ms.map(time),
        }
    }
}

/// An event, and the webhooks that have no delivery of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventAnswer {
    /// Null if no such event is stored, although what it reports happened.
    event_id: Option<String>,
    event: String,
    customer_code: String,
    at: Time,
    /// The webhooks of the customer without a delivery of the event, some 50; null if they are not known.
    webhooks: Option<Vec<MissingWebhookAnswer>>,
    /// The number of further webhooks of the customer without a delivery; null if it is not known.
    more_webhooks: Option<usize>,
    /// The number of webhooks of other customers; null if it is not known.
    other_customers: Option<usize>,
}

impl From<TracedEvent> for EventAnswer {
    fn from(event: TracedEvent) -> Self {
        let more = event.missed.as_ref().map(|missed| missed.more);
        let (webhooks, others) = event.missed.map(|missed| (missed.webhooks, missed.others)).unzip();
        let missing = |webhook| MissingWebhookAnswer::new(webhook, &event.code);
        let webhooks =
            webhooks.map(|webhooks: Vec<MissingWebhook>| webhooks.into_iter().map(missing).collect());
        Self {
            webhooks,
            more_webhooks: more,
            other_customers: others,
            event_id: event.id,
            customer_code: event.customer_code,
            at: time(event.at_ms),
            event: event.code,
        }
    }
}

/// A webhook that has no delivery of an event.
#[derive(Serialize)]
struct MissingWebhookAnswer {
    /// Null if it is not known.
    webhook: Option<String>,
    /// The first of the reasons: the reason to remove first. Null only if there is none.
    reason: Option<&'static str>,
    /// All reasons.
    reasons: Vec<&'static str>,
    /// The reasons as a sentence.
    explanation: String,
    /// What is wrong with the webhook's declaration.
    faults: Vec<String>,
}

impl MissingWebhookAnswer {
    fn new(MissingWebhook { name, reasons, faults }: MissingWebhook, event: &str) -> Self {
        let explanation = WhyNot::sentences(&reasons, event);
        let reasons: Vec<&'static str> = reasons.into_iter().map(WhyNot::as_str).collect();
        Self { webhook: name, reason: reasons.first().copied(), reasons, explanation, faults }
    }
}

/// A web order without what its client wrote.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedOrder {
    web_order_id: String,
    order_type: &'static str,
    customer_code: String,
    status: &'static str,
    created_at: Time,
    updated_at: Time,
    exported_at: Option<Time>,
    work_orders: Vec<String>,
}

impl TracedOrder {
    /// The metadata of an order, and the work orders that its export made.
    pub fn new(head: OrderHead, made: Vec<(String, WorkOrderType)>) -> Self {
        Self {
            web_order_id: head.id,
            order_type: head.order_type.as_str(),
            customer_code: head.customer_code,
            status: head.status.as_str(),
            created_at: time(head.created_at_ms),
            updated_at: time(head.updated_at_ms),
            exported_at: head.exported_at_ms.map(time),
            work_orders: made.into_iter().map(|(number, _)| number).collect(),
        }
    }
}

/// A delivery with its attempts.
#[derive(Serialize)]
pub struct TracedDelivery {
    #[serde(flatten)]
    summary: DeliverySummary,
    /// What to do about the last failure, or what became of it since; null if the delivery Succeeded.
    remedy: Option<String>,
    /// The resends of the delivery and of its resends, newest first.
    resends: Vec<DeliverySummary>,
    attempts: Vec<AttemptSummary>,
}

impl TracedDelivery {
    /// A delivery with its attempts, oldest first, and its resends, newest first, each with what it waits for.
    pub fn new(
        delivery: (ListedDelivery, Option<String>),
        attempts: Vec<StoredAttempt>,
        later: Vec<(ListedDelivery, Option<String>)>,
    ) -> Self {
        Self {
            remedy: remedy(&delivery.0, later.first().map(|(newest, _)| newest.status)),
            summary: DeliverySummary::new(delivery),
            resends: later.into_iter().map(DeliverySummary::new).collect(),
            attempts: attempts.into_iter().map(Into::into).collect(),
        }
    }
}

/// Entries of a tenant's audit.
#[derive(Serialize)]
pub struct AuditList {
    /// The entries, newest first, with the fields of a line of the stream.
    entries: Vec<Value>,
    /// Whether there are older ones.
    more: bool,
}

impl AuditList {
    /// A page of the audit of the tenant with this client code.
    pub fn new(client_code: &str, page: &Page<AuditRecord>) -> Self {
        let entry = |record: &AuditRecord| json!(AuditLine::new(Some(client_code), record));
        Self { entries: page.items.iter().map(entry).collect(), more: page.next.is_some() }
    }
}

/// A contact, as a list shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContactAnswer {
    /// The contact's code.
    pub contact_code: String,
    /// The code of its customer.
    pub customer_code: String,
    /// The e-mail address with which it signs in.
    pub email: String,
    /// Its name.
    pub name: String,
    /// Whether the contact manages the webhooks of its customer.
    pub manages_webhooks: bool,
    /// Whether the contact can sign in.
    pub active: bool,
}

impl From<ListedContact> for ContactAnswer {
    fn from(contact: ListedContact) -> Self {
        Self {
            contact_code: contact.code,
            customer_code: contact.customer_code,
            email: contact.email,
            name: contact.name,
            manages_webhooks: contact.manages_webhooks,
            active: contact.active,
        }
    }
}

/// Contacts of a tenant.
#[derive(Serialize)]
pub struct ContactList {
    /// The contacts, by e-mail address.
    contacts: Vec<ContactAnswer>,
    /// Whether there are more.
    more: bool,
}

impl ContactList {
    /// The first `limit` of these contacts.
    pub fn new(mut found: Vec<ListedContact>, limit: i64) -> Self {
        let more = cut(&mut found, limit);
        Self { contacts: found.into_iter().map(Into::into).collect(), more }
    }
}

/// An employee, as a list shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmployeeAnswer {
    /// The employee's code.
    pub employee_code: String,
    /// The check-in name with which it signs in.
    pub user: String,
    /// Its name.
    pub name: String,
    /// Whether the employee is an administrator.
    pub administrator: bool,
    /// Whether the employee can sign in.
    pub active: bool,
}

impl From<ListedEmployee> for EmployeeAnswer {
    fn from(employee: ListedEmployee) -> Self {
        Self {
            employee_code: employee.code,
            user: employee.user_name,
            name: employee.name,
            administrator: employee.administrator,
            active: employee.active,
        }
    }
}

/// Employees of a tenant.
#[derive(Serialize)]
pub struct EmployeeList {
    /// The employees, by check-in name.
    employees: Vec<EmployeeAnswer>,
    /// Whether there are more.
    more: bool,
}

impl EmployeeList {
    /// The first `limit` of these employees.
    pub fn new(mut found: Vec<ListedEmployee>, limit: i64) -> Self {
        let more = cut(&mut found, limit);
        Self { employees: found.into_iter().map(Into::into).collect(), more }
    }
}

/// Cuts a list off after `limit` items. Returns whether there were more.
fn cut<T>(found: &mut Vec<T>, limit: i64) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_cut_after_its_limit_and_says_so() {
        for (found, kept, more) in [(0, 0, false), (2, 2, false), (3, 2, true)] {
            let mut list = vec![(); found];
            assert_eq!((cut(&mut list, 2), list.len()), (more, kept), "{found}");
        }
    }
}
