//! Sample orders with the records that a back office would have added, so that every route returns data on a first run. They
//! publish nothing, because the tenant that creates them has no webhooks. One dead letter can be resent.

use std::time::Duration;

use anyhow::{Context, Result};
use docket_domain::delivery::{
    self, BACKOFF_BASE, DeliveryId, FailureClass, MAX_ATTEMPTS, Next, Outcome, Report,
};
use docket_domain::event::{EventId, OrderExported, Payload};
use docket_domain::invoice::InvoiceFamily;
use docket_domain::token::TokenSubject;
use docket_domain::work_order::WorkOrderType;
use docket_orders::{OrderType, SaveRequest};
use docket_program::owner::Owner;
use docket_program::random;
use docket_store::Transaction;
use docket_store::deliveries::{self, Lease};
use docket_store::events::{self, About};
use docket_store::samples::{self, ServeAttempt};
use jiff::Timestamp;

use crate::actions::add_note::{Note, add_note};
use crate::actions::export_order::Exported;
use crate::actions::publish_event;
use crate::actions::save_order::save_order;
use crate::refusal::Versions;
use crate::tenancy::ServedTenant;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// When the sample orders were exported.
const EXPORTED: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The types of the exported sample orders: one for each family of work orders.
const ORDERS: [OrderType; 5] = [
    OrderType::Court,
    OrderType::Process,
    OrderType::Delivery,
    OrderType::Investigation,
    OrderType::PhotoCopy,
];

/// Adds the orders, notes, service of process, invoices and the dead letter, as of `now`.
pub(super) async fn seed(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    contact: &TokenSubject,
    now: Timestamp,
) -> Result<()> {
    let quiet = tenant.without_webhooks();
    let mut exports = Vec::new();
    for order_type in ORDERS {
        exports.push(export(transaction, &quiet, contact, order_type, now - EXPORTED).await?);
    }
    let work_orders: Vec<&str> = exports.iter().map(|exported| exported.work_order_id.as_str()).collect();
    let [court, process, delivery, investigation, photo_copy] = work_orders[..] else {
        anyhow::bail!("the sample data needs one exported order of each type");
    };
    notes(transaction, &quiet, contact, photo_copy, now).await?;
    service(transaction, process, now).await?;
    let billed = [
        (InvoiceFamily::PhotoCopy, photo_copy),
        (InvoiceFamily::Court, court),
        (InvoiceFamily::Delivery, delivery),
        (InvoiceFamily::Investigation, investigation),
    ];
    invoices(transaction, &billed, now).await?;
    dead_letter(transaction, tenant, &exports[0], now - 2 * HOUR).await
}

async fn export(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    contact: &TokenSubject,
    order_type: OrderType,
    at: Timestamp,
) -> Result<Exported> {
    let (_, example) = docket_orders::examples()
        .into_iter()
        .find(|(its, _)| *its == order_type)
        .context("an example of each type")?;
    let mut request = SaveRequest::read(example.as_bytes())?;
    request.export = true;
    let (saved, _) = save_order(transaction, tenant, contact, request, &Versions::Any, at).await?;
    saved.exported.context("it was exported")
}

async fn notes(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    contact: &TokenSubject,
    work_order: &str,
    now: Timestamp,
) -> Result<()> {
    let milestones = [
        (60, 200, "The request is on its way to the custodian."),
        (30, 210, "The custodian was served at the front desk."),
    ];
    for (hours, milestone, report) in milestones {
        let note = Note {
            work_order: work_order.to_owned(),
            work_order_type: WorkOrderType::PhotoCopy,
            report: report.to_owned(),
            facility_line_item: Some(1),
            milestone_code: Some(milestone),
        };
        let customer = contact.own_customer();
        add_note(transaction, tenant, customer, "Records desk", &note, now - hours * HOUR).await?;
    }
    Ok(())
}

/// Adds the records that a process server's program would write about the first servee.
async fn service(transaction: &mut Transaction, work_order: &str, now: Timestamp) -> Result<()> {
    let attempts = [
        (48, "NoAnswer", "No answer; lights on, a car in the drive."),
        (24, "NotIn", "A neighbor says after 18:00."),
    ];
    for (sequence, (hours, outcome, comments)) in (1..).zip(attempts) {
        let at_ms = (now - hours * HOUR).as_millisecond();
        let attempt = ServeAttempt { work_order, sequence, at_ms, outcome, comments };
        samples::process_attempt(transaction, attempt).await?;
    }
    Ok(())
}

/// Adds one invoice of each family, published long ago.
async fn invoices(
    transaction: &mut Transaction,
    work_orders: &[(InvoiceFamily, &str)],
    now: Timestamp,
) -> Result<()> {
    let at_ms = (now - 12 * HOUR).as_millisecond();
    let date = now.strftime("%Y-%m-%d").to_string();
    for (number, (family, work_order)) in (9001..).zip(work_orders) {
        let number = format!("INV-{number}");
        samples::invoice(transaction, *family, &number, work_order, &date, at_ms).await?;
    }
    Ok(())
}

/// Adds a delivery of an export that its receiver refused five times, by the same steps as a real delivery.
async fn dead_letter(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    exported: &Exported,
    mut at: Timestamp,
) -> Result<()> {
    let Some(webhook) = tenant.config.webhooks.iter().find(|webhook| webhook.active) else { return Ok(()) };
    let payload = Payload::OrderExported(OrderExported::from(exported.clone()));
    let id = EventId::new(at, random::bytes());
    let about = About::web_order(&exported.web_order_id);
    let event = publish_event::event(id, at, webhook.customer_code.as_str(), about, &payload);
    events::insert(transaction, &event, at.as_millisecond()).await?;
    let id = DeliveryId::new(at, random::bytes());
    let new = publish_event::delivery(id, event.id.as_str(), webhook.key(), webhook.full_name());
    deliveries::insert(transaction, &new, at.as_millisecond()).await?;
    let answer = Report {
        http_status: Some(503),
        answer: Some("maintenance".to_owned()),
        times: delivery::PhaseTimes { total: Duration::from_millis(84), ..delivery::PhaseTimes::default() },
        ..Report::default()
    };
    let outcome = Outcome::Failed(FailureClass::ServerError, answer);
    let owner = Owner::new(b"sample");
    for number in 0..MAX_ATTEMPTS {
        let lease = Lease::new(&owner, u64::from(number), Duration::from_secs(1));
        let begun = deliveries::begin_attempts(transaction, &[new.id], &lease, at.as_millisecond()).await?;
        let started = begun.into_iter().next().context("it is due")?;
        let next = delivery::after_attempt(new.id, &outcome, started.attempt, at, BACKOFF_BASE);
        let end = lease.end(started, outcome.clone());
        deliveries::finish_attempt(transaction, &end, next, at.as_millisecond()).await?;
        if let Next::RetryAt(due) = next {
            at = due;
        }
    }
    Ok(())
}
