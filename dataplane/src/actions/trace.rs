//! Traces an order, an invoice or a delivery: which deliveries it has, and what became of each. For the platform's staff and the
//! command line, never with payloads.

use docket_domain::delivery::DeliveryId;
use docket_domain::work_order::WorkOrderType;
use docket_program::clock::Clock;
use docket_store::deliveries::{self, DeliveryFilter, ListedDelivery, StoredAttempt};
use docket_store::orders::OrderHead;
use docket_store::walk::Page;
use docket_store::{Connection, StoreError, orders, work_orders};

use super::Refusal;

/// The most deliveries of a trace, the newest.
const MAX_TRACED: i64 = 100;

/// What to trace.
#[derive(Debug, Clone, Copy)]
pub enum TraceOf<'a> {
    /// A web order, a work order or an invoice.
    Number(&'a str),
    /// A delivery.
    Delivery(DeliveryId),
}

/// What became of it.
pub struct Traced {
    /// The web order, and the work orders that its export made; `None`: there is none.
    pub order: Option<(OrderHead, Vec<(String, WorkOrderType)>)>,
    /// The deliveries, oldest first.
    pub deliveries: Vec<TracedDelivery>,
    /// Whether there are older deliveries.
    pub more: bool,
}

/// A delivery of a trace.
pub struct TracedDelivery {
    /// The delivery.
    pub listed: ListedDelivery,
    /// Its attempts, oldest first.
    pub attempts: Vec<StoredAttempt>,
    /// Its resends, and theirs, newest first.
    pub later: Vec<ListedDelivery>,
}

impl Traced {
    /// All deliveries: each followed by its resends.
    pub fn all(&self) -> Vec<ListedDelivery> {
        let all = self.deliveries.iter().flat_map(|one| std::iter::once(&one.listed).chain(&one.later));
        all.cloned().collect()
    }
}

/// Reads the trace. With a webhook, `namespace/name`, it has only the deliveries to this webhook, and their order.
///
/// # Errors
///
/// There is no such order, invoice or delivery.
pub async fn read(
    reader: &mut Connection,
    clock: &Clock,
    of: TraceOf<'_>,
    webhook: Option<&str>,
) -> Result<Traced, Refusal> {
    let (found, more) = match of {
        TraceOf::Number(number) => {
            let (about, webhook) = (Some(number.to_owned()), webhook.map(str::to_owned));
            let filter = DeliveryFilter { about, webhook, ..DeliveryFilter::default() };
            let Page { items, next } = deliveries::search(reader, clock, &filter, MAX_TRACED).await?;
            (items, next.is_some())
        }
        TraceOf::Delivery(id) => {
            let found = deliveries::find(reader, id).await?;
            let is_its = |found: &ListedDelivery| webhook.is_none_or(|name| name == found.webhook_name);
            let found = found.filter(is_its);
            (vec![found.ok_or(Refusal::NotFound("There is no such delivery"))?], false)
        }
    };
    let number = match of {
        // A right to one webhook is a right to the orders whose deliveries went there. An invoice may have the number of another
        // order.
        TraceOf::Number(number) if webhook.is_none() && found.is_empty() => Some(number),
        TraceOf::Number(_) | TraceOf::Delivery(_) => None,
    };
    let order = order(reader, number, found.first()).await?;
    if order.is_none() && found.is_empty() {
        return Err(Refusal::NotFound("There is no web order, work order or invoice of this number"));
    }
    let mut traced = Vec::with_capacity(found.len());
    // Oldest first, as they happened.
    for listed in found.into_iter().rev() {
        // Retention may have deleted it meanwhile.
        let again = match listed.id.parse() {
            Ok(id) => deliveries::find_with_attempts(reader, id).await?,
            Err(_) => None,
        };
        let (listed, attempts) = again.unwrap_or_else(|| (listed, Vec::new()));
        let later = deliveries::later(reader, &listed).await?;
        traced.push(TracedDelivery { listed, attempts, later });
    }
    Ok(Traced { order, deliveries: traced, more })
}

/// The web order that a number or a delivery is about; `None`: there is none, as for invoices of the back office.
async fn order(
    reader: &mut Connection,
    number: Option<&str>,
    delivery: Option<&ListedDelivery>,
) -> Result<Option<(OrderHead, Vec<(String, WorkOrderType)>)>, StoreError> {
    let about = delivery.map(|delivery| &delivery.about);
    let candidates = [
        number,
        about.and_then(|about| about.web_order_id.as_deref()),
        about.and_then(|about| about.work_order.as_deref()),
    ];
    for number in candidates.into_iter().flatten() {
        let of_work_order = work_orders::find(reader, number, None).await?.and_then(|one| one.web_order_id);
        if let Some(order) = orders::find(reader, of_work_order.as_deref().unwrap_or(number), None).await? {
            let made = work_orders::of_web_order(reader, &order.head.id).await?;
            return Ok(Some((order.head, made)));
        }
    }
    Ok(None)
}
