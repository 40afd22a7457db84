//! Publishes an event: stores its envelope and one delivery per matching webhook, in the transaction that caused it.

use docket_crds::{EventCode, WebhookConfig};
use docket_domain::delivery::DeliveryId;
use docket_domain::event::{EventId, Payload, envelope};
use docket_program::random;
use docket_schedule::Hint;
use docket_store::deliveries::{self, Due, NewDelivery};
use docket_store::events::{self, About, Event};
use docket_store::{StoreError, Transaction};
use jiff::Timestamp;

use crate::tenancy::ServedTenant;

/// An event to publish.
pub struct Publication<'a> {
    /// The customer that owns the event.
    pub customer_code: &'a str,
    /// The orders and the invoice that the event is about.
    pub about: About,
    /// The event's data, which determines its code.
    pub payload: Payload,
    /// A key that at most one delivery to each webhook can have.
    pub idempotency_key: Option<String>,
}

/// The ids of an event and of its deliveries, one for each webhook of the customer that is active and subscribed to it
/// (Delivery mechanics, 1).
#[derive(Debug, Clone)]
pub struct Ids {
    event: EventId,
    deliveries: Vec<(DeliveryId, EventWebhook)>,
}

/// A webhook that receives an event.
#[derive(Debug, Clone)]
struct EventWebhook {
    key: String,
    full_name: String,
}

impl Ids {
    /// New ids; `None`: no webhook receives the event.
    pub fn new(tenant: &ServedTenant, customer_code: &str, code: EventCode, now: Timestamp) -> Option<Self> {
        let delivery = |webhook: &WebhookConfig| {
            let webhook = EventWebhook { key: webhook.key(), full_name: webhook.full_name() };
            (DeliveryId::new(now, random::bytes()), webhook)
        };
        let deliveries: Vec<_> = tenant.config.matching_webhooks(customer_code, code).map(delivery).collect();
        (!deliveries.is_empty()).then(|| Self { event: EventId::new(now, random::bytes()), deliveries })
    }

    /// The deliveries, each with its webhook's key.
    pub fn deliveries(&self) -> impl Iterator<Item = (DeliveryId, &str)> {
        self.deliveries.iter().map(|(id, webhook)| (*id, webhook.key.as_str()))
    }

    /// The event and its deliveries, as they are stored.
    pub fn rows(&self, publication: Publication<'_>, now: Timestamp) -> (Event, Vec<NewDelivery>) {
        let Publication { customer_code, about, payload, idempotency_key } = publication;
        let event = event(self.event.clone(), now, customer_code, about, &payload);
        let new = |(id, webhook): &(DeliveryId, EventWebhook)| NewDelivery {
            idempotency_key: idempotency_key.clone(),
            ..delivery(*id, self.event.as_str(), webhook.key.clone(), webhook.full_name.clone())
        };
        (event, self.deliveries.iter().map(new).collect())
    }
}

/// The event with this id, published at this time, as it is stored.
pub fn event(id: EventId, now: Timestamp, customer_code: &str, about: About, payload: &Payload) -> Event {
    let body = envelope(&id, now, customer_code, payload).into();
    Event { id, code: payload.code(), customer_code: customer_code.to_owned(), about, body }
}

/// A delivery of an event to the webhook with this key and name, due at once. It has no idempotency key and resends nothing.
pub fn delivery(id: DeliveryId, event_id: &str, webhook: String, webhook_name: String) -> NewDelivery {
    NewDelivery {
        id,
        event_id: event_id.to_owned(),
        webhook,
        webhook_name,
        idempotency_key: None,
        resend_of: None,
        requested_by: None,
        resend_id: None,
        due_at_ms: None,
    }
}

/// Queues the event for every webhook that receives it. Returns the hints about its deliveries, which the caller publishes
/// to the schedule after the commit.
pub async fn publish_event(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    publication: Publication<'_>,
    now: Timestamp,
) -> Result<Vec<Hint>, StoreError> {
    let code = publication.payload.code();
    let Some(ids) = Ids::new(tenant, publication.customer_code, code, now) else { return Ok(Vec::new()) };
    let (event, new) = ids.rows(publication, now);
    let now_ms = now.as_millisecond();
    events::insert(transaction, &event, now_ms).await?;
    let inserted = deliveries::insert_many(transaction, &new, now_ms).await?;
    let mut dues = Vec::with_capacity(new.len());
    for new in new {
        if inserted.contains(&new.id) {
            dues.push(Due { id: new.id, webhook: new.webhook, at_ms: now_ms });
        } else {
            // This delivery was queued before, perhaps by a process that ended before it could notify the schedule.
            let key = new.idempotency_key.as_deref().unwrap_or_default();
            dues.extend(deliveries::due_by_key(transaction, &new.webhook, key).await?);
        }
    }
    if inserted.is_empty() {
        events::delete(transaction, &event.id).await?;
    }
    Ok(tenant.hints(dues, now))
}
