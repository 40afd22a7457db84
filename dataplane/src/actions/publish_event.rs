//! Publishes an event: stores its envelope and one delivery per matching webhook, in the transaction that caused it.

use docket_domain::delivery::DeliveryId;
use docket_domain::event::{EventId, Payload, envelope};
use docket_program::random;
use docket_schedule::Hint;
use docket_store::deliveries::{self, Due, NewDelivery};
use docket_store::events::{self, About, Event};
use docket_store::{StoreError, Transaction};
use jiff::Timestamp;

use crate::tenants::ServedTenant;

/// An event to publish.
pub struct Publication<'a> {
    /// The customer that owns it.
    pub customer_code: &'a str,
    /// The orders and invoice that it is about.
    pub about: About,
    /// Its data, and with it its code.
    pub payload: Payload,
    /// At most one delivery per webhook and key.
    pub idempotency_key: Option<String>,
}

/// Queues the event for every webhook of the customer that is active and subscribed to it (Delivery mechanics, 1).
/// Returns the hints about its deliveries, which the caller publishes to the schedule after the commit.
pub async fn publish_event(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    publication: Publication<'_>,
    now: Timestamp,
) -> Result<Vec<Hint>, StoreError> {
    let Publication { customer_code, about, payload, idempotency_key } = publication;
    let mut webhooks = tenant.config.matching_webhooks(customer_code, payload.code()).peekable();
    if webhooks.peek().is_none() {
        return Ok(Vec::new());
    }
    let id = EventId::new(random::bytes());
    let body = envelope(&id, now, customer_code, &payload);
    let event = Event { id, code: payload.code(), customer_code: customer_code.to_owned(), about, body };
    let now_ms = now.as_millisecond();
    events::insert(transaction, &event, now_ms).await?;
    let mut dues = Vec::new();
    let mut inserted = 0;
    for webhook in webhooks {
        let new = NewDelivery {
            id: DeliveryId::new(now, random::bytes()),
            event_id: event.id.as_str().to_owned(),
            webhook: webhook.uid.clone(),
            webhook_name: webhook.full_name(),
            idempotency_key: idempotency_key.clone(),
            resend_of: None,
            requested_by: None,
            resend_id: None,
            due_at_ms: None,
        };
        if deliveries::insert(transaction, &new, now_ms).await? {
            inserted += 1;
            dues.push(Due { id: new.id, webhook: new.webhook, at_ms: now_ms });
        } else {
            // Queued before, perhaps by a process that ended before it could notify the schedule.
            let key = idempotency_key.as_deref().unwrap_or_default();
            dues.extend(deliveries::due_by_key(transaction, &webhook.uid, key).await?);
        }
    }
    if inserted == 0 {
        events::delete(transaction, &event.id).await?;
    }
    Ok(tenant.hints(dues, now))
}
