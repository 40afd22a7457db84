//! Sends a test event: one ordinary delivery, to one webhook, of an event with sample data. It is signed, retried and logged like
//! any other delivery, carries `X-Service-Test: true`, and does not affect health, metrics or alerts.

use docket_crds::EventCode;
use docket_domain::delivery::DeliveryId;
use docket_domain::event::{EventId, Payload};
use docket_domain::sample;
use docket_program::random;
use docket_store::deliveries::{self, Due, NewDelivery};
use docket_store::events::{self, About, Event};
use docket_store::{StoreError, Transaction};
use jiff::Timestamp;

use super::publish_event::{delivery, event};
use super::resend::{INACTIVE, NOT_DECLARED, NOT_SUBSCRIBED};
use crate::refusal::Refusal;
use crate::tenancy::Webhooks;

const UNDER_WAY: Refusal = Refusal::Conflict(
    "A test event is being sent to this webhook already; wait until that delivery has ended",
);

/// Queues a test event for a webhook, named by uid or `namespace/name`. The event has this code, or the first code that the webhook
/// takes.
///
/// # Errors
///
/// The webhook is not served, is inactive or does not take the event, or another test event is on its way to it.
pub async fn send_test(
    transaction: &mut Transaction,
    webhooks: Webhooks<'_>,
    uid_or_name: &str,
    code: Option<EventCode>,
    requested_by: &str,
    now: Timestamp,
) -> Result<(DeliveryId, Due), Refusal> {
    let webhook = webhooks.named(uid_or_name).ok_or(NOT_DECLARED)?;
    if !webhook.active {
        return Err(INACTIVE);
    }
    let mut taken = EventCode::ALL.into_iter().filter(|code| webhooks.takes(webhook, *code));
    let code = taken.find(|taken| code.is_none_or(|code| code == *taken)).ok_or(NOT_SUBSCRIBED)?;
    if events::is_test_under_way(transaction, &webhook.key()).await? {
        return Err(UNDER_WAY);
    }
    let (payload, event_id) = (sample::payload(code), EventId::new(now, random::bytes()));
    let event = event(event_id, now, webhook.customer_code.as_str(), about(&payload), &payload);
    let id = DeliveryId::new(now, random::bytes());
    let new = NewDelivery {
        requested_by: Some(requested_by.to_owned()),
        ..delivery(id, event.id.as_str(), webhook.key(), webhook.full_name())
    };
    store(transaction, &event, &new, now.as_millisecond()).await?;
    Ok((new.id, Due { id: new.id, webhook: new.webhook, at_ms: now.as_millisecond() }))
}

async fn store(
    transaction: &mut Transaction,
    event: &Event,
    new: &NewDelivery,
    now_ms: i64,
) -> Result<(), StoreError> {
    events::insert(transaction, event, now_ms).await?;
    events::mark_as_test(transaction, &event.id, &new.webhook).await?;
    deliveries::insert(transaction, new, now_ms).await.map(drop)
}

fn about(payload: &Payload) -> About {
    let work_order = |number: &str| About { work_order: Some(number.to_owned()), ..About::default() };
    match payload {
        Payload::OrderCreated(saved) | Payload::OrderUpdated(saved) => About::web_order(&saved.web_order_id),
        Payload::OrderExported(exported) => About::web_order(&exported.web_order_id),
        Payload::OrderStatusChanged(changed) => work_order(&changed.work_order),
        Payload::NoteCreated(note) => work_order(&note.work_order),
        Payload::InvoiceCreated(invoice) => {
            About { invoice_number: Some(invoice.invoice_number.clone()), ..work_order(&invoice.work_order) }
        }
    }
}
