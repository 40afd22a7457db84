//! Traces an order, an invoice, an event or a delivery: its events, the deliveries of each, and why other webhooks have none. For the
//! portal, the platform's staff and the command line, never with payloads.

use std::collections::BTreeMap;

use docket_crds::{EventCode, webhook_key};
use docket_domain::delivery::DeliveryId;
use docket_domain::trace::{EventFacts, WhyNot, why_not};
use docket_domain::work_order::WorkOrderType;
use docket_program::clock::Clock;
use docket_store::deliveries::{self, DeliveryFilter, ListedDelivery, StoredAttempt};
use docket_store::events::About;
use docket_store::invoices::{self, TracedInvoice};
use docket_store::orders::OrderHead;
use docket_store::walk::Page;
use docket_store::work_orders::WorkOrder;
use docket_store::{Connection, StoreError, orders, work_orders};

use super::Refusal;
use crate::tenancy::{ServedTenant, Webhooks};

/// The most deliveries of a trace, the newest.
const MAX_TRACED: i64 = 100;

/// The most webhooks without a delivery of an event that a trace describes. It counts the others.
pub const MOST_MISSED: usize = 50;
/// The most faults of one webhook that a trace has.
pub const MOST_FAULTS: usize = 5;

/// What to trace.
#[derive(Debug, Clone, Copy)]
pub enum TraceOf<'a> {
    /// A web order, a work order or an invoice.
    Number(&'a str),
    /// A web order.
    WebOrder(&'a str),
    /// A work order.
    WorkOrder(&'a str),
    /// An invoice.
    Invoice(&'a str),
    /// An event.
    Event(&'a str),
    /// A delivery.
    Delivery(DeliveryId),
}

impl<'a> TraceOf<'a> {
    /// The number of an order or an invoice.
    const fn number(self) -> Option<&'a str> {
        match self {
            Self::Number(number)
            | Self::WebOrder(number)
            | Self::WorkOrder(number)
            | Self::Invoice(number) => Some(number),
            Self::Event(_) | Self::Delivery(_) => None,
        }
    }
}

/// The part of a trace that a user may see; the default is all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sight<'a> {
    /// Only the deliveries to this webhook, `namespace/name`, and their order.
    pub webhook: Option<&'a str>,
    /// Only what is this customer's.
    pub customer: Option<&'a str>,
}

/// What is declared of the tenant now.
pub struct Declared<'a> {
    /// The webhooks that the user may see.
    pub webhooks: Webhooks<'a>,
    /// Whether the tenant is suspended.
    pub is_suspended: bool,
    /// What is wrong with the declarations of webhooks, by uid.
    pub faults: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> Declared<'a> {
    /// What a process serves and holds of a tenant; of its webhooks, only these.
    pub fn of(tenant: &'a ServedTenant, webhooks: Webhooks<'a>) -> Self {
        Self { webhooks, is_suspended: tenant.config.suspended, faults: tenant.all_faults() }
    }

    /// The first faults of a webhook.
    fn faults(&self, uid: &str) -> Vec<String> {
        self.faults.get(uid).into_iter().flatten().take(MOST_FAULTS).cloned().collect()
    }
}

/// The order, invoices, events and deliveries that a trace found, without attempts.
pub struct Found {
    /// The web order, and the work orders that its export made; `None`: there is none.
    pub order: Option<(OrderHead, Vec<(String, WorkOrderType)>)>,
    /// The work order and its number, if the trace is about one.
    pub work_order: Option<(String, WorkOrder)>,
    /// The invoices with the number, if the trace is about an invoice: at most one of each family.
    pub invoices: Vec<TracedInvoice>,
    /// The deliveries, oldest first.
    pub listed: Vec<ListedDelivery>,
    /// Whether there are older deliveries.
    pub more: bool,
}

/// What became of the subject of a trace.
pub struct Traced {
    /// The web order, and the work orders that its export made; `None`: there is none.
    pub order: Option<(OrderHead, Vec<(String, WorkOrderType)>)>,
    /// The invoices with the number, if the trace is about an invoice.
    pub invoices: Vec<TracedInvoice>,
    /// The events, oldest first.
    pub events: Vec<TracedEvent>,
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

/// An event of a trace.
#[derive(Debug, Clone)]
pub struct TracedEvent {
    /// The event's id, empty if it is invalid; `None`: no such event is stored, although what it reports happened.
    pub id: Option<String>,
    /// The event's code, perhaps of a newer version.
    pub code: String,
    /// The customer that owns the event.
    pub customer_code: String,
    /// What the event is about.
    pub about: About,
    /// Whether the event was published to test a webhook.
    pub is_test: bool,
    /// When the event was published, or what it reports happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// The places of its deliveries in [`Found::listed`].
    pub deliveries: Vec<usize>,
    /// The webhooks without a delivery of it; `None`: unknown, because the declarations, the code or some deliveries are not known.
    pub missed: Option<MissedEvent>,
}

/// The webhooks that have no delivery of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissedEvent {
    /// The webhooks of the event's customer: the first [`MOST_MISSED`], and the note that more of them may not be known.
    pub webhooks: Vec<MissingWebhook>,
    /// The number of the other webhooks of this customer.
    pub more: usize,
    /// The number of the webhooks of other customers.
    pub others: usize,
}

impl MissedEvent {
    /// Adds a webhook, or counts it if there are many.
    fn add(&mut self, webhook: impl FnOnce() -> MissingWebhook) {
        if self.webhooks.len() < MOST_MISSED {
            self.webhooks.push(webhook());
        } else {
            self.more += 1;
        }
    }
}

/// A webhook that has no delivery of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingWebhook {
    /// `namespace/name`; `None`: not known.
    pub name: Option<String>,
    /// Why, as far as its state now shows: first the reason to remove first; at least one.
    pub reasons: Vec<WhyNot>,
    /// What is wrong with its declaration: sentences that begin with the field.
    pub faults: Vec<String>,
}

impl Traced {
    /// All deliveries: each followed by its resends.
    pub fn all(&self) -> Vec<ListedDelivery> {
        let all = self.deliveries.iter().flat_map(|one| std::iter::once(&one.listed).chain(&one.later));
        all.cloned().collect()
    }
}

/// Reads the trace. `declared`: `None` if it is not known what is declared.
///
/// # Errors
///
/// There is no such order, invoice, event or delivery.
pub async fn read(
    reader: &mut Connection,
    clock: &Clock,
    of: TraceOf<'_>,
    sight: Sight<'_>,
    declared: Option<&Declared<'_>>,
) -> Result<Traced, Refusal> {
    let found = find(reader, clock, of, sight).await?;
    let events = match (of, found.listed.first()) {
        // A right to one webhook shows nothing of other webhooks.
        _ if sight.webhook.is_some() => Vec::new(),
        // The other webhooks of the event may have got it.
        (TraceOf::Delivery(_), Some(one)) if !one.event_id.is_empty() => {
            let of = TraceOf::Event(&one.event_id);
            let (listed, more) = listed(reader, clock, of, sight).await?;
            events_of(&listed, more, declared)
        }
        (TraceOf::Delivery(_), _) => Vec::new(),
        _ => events(&found, of, declared),
    };
    let Found { order, invoices, listed, more, .. } = found;
    let mut deliveries = Vec::with_capacity(listed.len());
    for listed in listed {
        // Retention may have deleted it meanwhile.
        let again = match listed.id.parse() {
            Ok(id) => deliveries::find_with_attempts(reader, id).await?,
            Err(_) => None,
        };
        let (listed, attempts) = again.unwrap_or_else(|| (listed, Vec::new()));
        let later = deliveries::later(reader, &listed).await?;
        deliveries.push(TracedDelivery { listed, attempts, later });
    }
    Ok(Traced { order, invoices, events, deliveries, more })
}

/// Finds an order, its invoices, events and deliveries, in few statements.
///
/// # Errors
///
/// There is no such order, invoice, event or delivery.
pub async fn find(
    reader: &mut Connection,
    clock: &Clock,
    of: TraceOf<'_>,
    sight: Sight<'_>,
) -> Result<Found, Refusal> {
    let (listed, more) = listed(reader, clock, of, sight).await?;
    let about = listed.last().map(|newest| newest.about.clone()).unwrap_or_default();
    let owned = |number: &str| Some(number.to_owned());
    let [web_order, work_order, invoice] = match of {
        // A right to one webhook is a right to the orders whose deliveries went there.
        _ if listed.is_empty() && sight.webhook.is_some() => [None, None, None],
        // An invoice may have the number of another order.
        TraceOf::Number(number) if listed.is_empty() => [owned(number), owned(number), owned(number)],
        TraceOf::WebOrder(number) => [owned(number), None, None],
        TraceOf::WorkOrder(number) => [None, owned(number), None],
        TraceOf::Invoice(number) => [None, None, owned(number)],
        TraceOf::Number(_) | TraceOf::Event(_) | TraceOf::Delivery(_) => {
            [about.web_order_id, about.work_order, about.invoice_number]
        }
    };
    // The number of an invoice there may also be the number of another customer's.
    let of_webhook = sight.webhook.and_then(|_| listed.last());
    let customer = sight.customer.or_else(|| of_webhook.map(|one| &*one.customer_code));
    let mut invoices = match invoice {
        Some(number) => invoices::with_numbers(reader, &[number]).await?,
        None => Vec::new(),
    };
    let is_own = |code: Option<&str>| customer.is_none_or(|customer| code == Some(customer));
    invoices.retain(|one| is_own(one.customer_code.as_deref()));
    let work_order = match work_order.or_else(|| Some(invoices.first()?.work_order.clone())) {
        Some(number) => {
            let found = work_orders::find(reader, &number, customer).await?;
            found.map(|found| (number, found))
        }
        None => None,
    };
    let of_work_order = work_order.as_ref().and_then(|(_, found)| found.web_order_id.clone());
    let order = order(reader, [of_work_order, web_order], customer).await?;
    if order.is_none() && work_order.is_none() && invoices.is_empty() && listed.is_empty() {
        return Err(Refusal::NotFound(match of {
            TraceOf::Delivery(_) => "There is no such delivery",
            TraceOf::Event(_) => "There is no such event",
            _ => "There is no web order, work order or invoice of this number",
        }));
    }
    Ok(Found { order, work_order, invoices, listed, more })
}

/// The newest deliveries, oldest first, and whether there are older ones.
async fn listed(
    reader: &mut Connection,
    clock: &Clock,
    of: TraceOf<'_>,
    sight: Sight<'_>,
) -> Result<(Vec<ListedDelivery>, bool), StoreError> {
    let Sight { webhook, customer } = sight;
    let all = DeliveryFilter {
        webhook: webhook.map(str::to_owned),
        customer_code: customer.map(str::to_owned),
        ..DeliveryFilter::default()
    };
    let filter = match of {
        TraceOf::Number(number) => DeliveryFilter { about: Some(number.to_owned()), ..all },
        TraceOf::WebOrder(number) => DeliveryFilter { web_order_id: Some(number.to_owned()), ..all },
        TraceOf::WorkOrder(number) => DeliveryFilter { work_order: Some(number.to_owned()), ..all },
        TraceOf::Invoice(number) => DeliveryFilter { invoice_number: Some(number.to_owned()), ..all },
        TraceOf::Event(id) => DeliveryFilter { event_id: Some(id.to_owned()), ..all },
        TraceOf::Delivery(id) => DeliveryFilter { id: Some(id), ..all },
    };
    let Page { mut items, next } = deliveries::search(reader, clock, &filter, MAX_TRACED).await?;
    // The search returns the newest first; a trace shows the oldest first.
    items.reverse();
    Ok((items, next.is_some()))
}

/// The first of these web orders that exists, and the work orders that its export made.
async fn order(
    reader: &mut Connection,
    ids: [Option<String>; 2],
    customer: Option<&str>,
) -> Result<Option<(OrderHead, Vec<(String, WorkOrderType)>)>, StoreError> {
    for id in ids.into_iter().flatten() {
        if let Some(order) = orders::find(reader, &id, customer).await? {
            let made = work_orders::of_web_order(reader, &order.head.id).await?;
            return Ok(Some((order.head, made)));
        }
    }
    Ok(None)
}

/// The events of what was found, oldest first, also the events that were not stored: an event that no webhook gets is not stored.
pub fn events(found: &Found, of: TraceOf<'_>, declared: Option<&Declared<'_>>) -> Vec<TracedEvent> {
    let mut events = events_of(&found.listed, found.more, declared);
    // An older delivery may be of any event.
    let unstored = if found.more { Vec::new() } else { unstored(found, of, &events) };
    events.extend(unstored.into_iter().map(|event| with_missed(event, &[], declared)));
    events.sort_by_key(|event| event.at_ms);
    events
}

/// The events of these deliveries, which are oldest first. `more`: there are older deliveries, perhaps of the first event.
fn events_of(listed: &[ListedDelivery], more: bool, declared: Option<&Declared<'_>>) -> Vec<TracedEvent> {
    let mut events: Vec<TracedEvent> = Vec::new();
    for (place, one) in listed.iter().enumerate() {
        let is_same =
            |event: &&mut TracedEvent| !one.event_id.is_empty() && event.id.as_ref() == Some(&one.event_id);
        match events.iter_mut().find(is_same) {
            Some(event) => event.deliveries.push(place),
            None => events.push(TracedEvent {
                id: Some(one.event_id.clone()),
                code: one.event_code.clone(),
                customer_code: one.customer_code.clone(),
                about: one.about.clone(),
                is_test: one.is_test,
                at_ms: one.created_at_ms,
                deliveries: vec![place],
                missed: None,
            }),
        }
    }
    let with = |(place, event): (usize, TracedEvent)| {
        let is_cut = place == 0 && more;
        // Deliveries of an event with an invalid id are not known to belong together.
        let is_invalid = event.id.as_deref() == Some("");
        if is_cut || is_invalid { event } else { with_missed(event, listed, declared) }
    };
    events.into_iter().enumerate().map(with).collect()
}

/// The events that what was found has caused and that are not stored.
fn unstored(found: &Found, of: TraceOf<'_>, stored: &[TracedEvent]) -> Vec<TracedEvent> {
    let Some(number) = of.number() else { return Vec::new() };
    let event = |code: EventCode, customer_code: &str, about: About, at_ms: i64| TracedEvent {
        id: None,
        code: code.as_str().to_owned(),
        customer_code: customer_code.to_owned(),
        about,
        is_test: false,
        at_ms,
        deliveries: Vec::new(),
        missed: None,
    };
    let mut all = Vec::new();
    if let Some((head, made)) = &found.order {
        let about = || About::web_order(&head.id);
        if head.id == number {
            all.push(event(EventCode::OrderCreated, &head.customer_code, about(), head.created_at_ms));
        }
        let is_of_export = head.id == number || made.iter().any(|(made, _)| made == number);
        if let Some(at_ms) = head.exported_at_ms.filter(|_| is_of_export) {
            all.push(event(EventCode::OrderExported, &head.customer_code, about(), at_ms));
        }
    }
    for invoice in found.invoices.iter().filter(|one| one.invoice_number == number) {
        // A new invoice is published later.
        if let (Some(customer_code), Some(at_ms)) = (&invoice.customer_code, invoice.detected_at_ms) {
            let about = About { invoice_number: Some(number.to_owned()), ..About::default() };
            all.push(event(EventCode::InvoiceCreated, customer_code, about, at_ms));
        }
    }
    let is_stored = |event: &TracedEvent| {
        let About { web_order_id, invoice_number, .. } = &event.about;
        stored.iter().any(|other| {
            other.code == event.code
                && match invoice_number {
                    Some(_) => other.about.invoice_number == *invoice_number,
                    None => other.about.web_order_id == *web_order_id,
                }
        })
    };
    all.retain(|event| !is_stored(event));
    all
}

/// The same event with the webhooks that have no delivery of it. `listed`: where the places of its deliveries are.
fn with_missed(
    event: TracedEvent,
    listed: &[ListedDelivery],
    declared: Option<&Declared<'_>>,
) -> TracedEvent {
    let code = event.code.parse::<EventCode>().ok();
    let missed = declared.zip(code).map(|(declared, code)| missed(&event, code, listed, declared));
    TracedEvent { missed, ..event }
}

fn missed(
    event: &TracedEvent,
    code: EventCode,
    listed: &[ListedDelivery],
    declared: &Declared<'_>,
) -> MissedEvent {
    let facts = EventFacts {
        code,
        customer_code: &event.customer_code,
        is_test: event.is_test,
        is_on: declared.webhooks.can_get(code),
        is_suspended: declared.is_suspended,
    };
    let its: Vec<&ListedDelivery> = event.deliveries.iter().filter_map(|place| listed.get(*place)).collect();
    let mut missed = MissedEvent::default();
    for webhook in declared.webhooks.served() {
        if its.iter().any(|one| webhook.is(&one.webhook)) {
            continue;
        }
        let reasons = why_not(Some(webhook), &facts);
        if reasons.contains(&WhyNot::OtherCustomer) {
            missed.others += 1;
            continue;
        }
        missed.add(|| MissingWebhook {
            name: Some(webhook.full_name()),
            reasons,
            faults: declared.faults(&webhook.uid),
        });
    }
    for (uid, key) in declared.webhooks.held() {
        let name = webhook_key::full_name(key).unwrap_or(key);
        if its.iter().any(|one| one.webhook == uid || !name.is_empty() && one.webhook_name == name) {
            continue;
        }
        if webhook_key::customer_code(key).is_some_and(|customer| customer != event.customer_code) {
            missed.others += 1;
            continue;
        }
        missed.add(|| {
            let faults = declared.faults(uid);
            // If nothing else is known of a webhook, it may be another tenant's.
            let is_own = webhook_key::full_name(key).is_some() || !faults.is_empty();
            let name = (is_own && !name.is_empty()).then(|| name.to_owned());
            MissingWebhook { name, reasons: why_not(None, &facts), faults }
        });
    }
    if declared.webhooks.are_incomplete() {
        let reasons = vec![WhyNot::Unreadable];
        missed.webhooks.push(MissingWebhook { name: None, reasons, faults: Vec::new() });
    }
    missed
}

#[cfg(test)]
pub(crate) mod testing {
    use docket_domain::delivery::Status;

    use super::*;

    /// A delivery that succeeded, of an event about the web order W1.
    pub(crate) fn delivery(event: &str, code: &str, webhook: &str, at_ms: i64) -> ListedDelivery {
        ListedDelivery {
            id: String::new(),
            event_id: event.into(),
            event_code: code.into(),
            about: About::web_order("W1"),
            customer_code: "C-1".into(),
            webhook: format!("a/{webhook}/C-1"),
            webhook_name: format!("a/{webhook}"),
            status: Status::Succeeded,
            attempt_count: 1,
            due_at_ms: at_ms,
            failure_class: None,
            http_status: None,
            idempotency_key: None,
            resend_of: None,
            requested_by: None,
            resend_id: None,
            created_at_ms: at_ms,
            finished_at_ms: Some(at_ms),
            is_test: false,
            resent: false,
            set_aside: None,
            failure_cause: None,
            failure_detail: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use docket_crds::WebhookConfig;
    use docket_store::orders::OrderStatus;
    use serde_json::json;

    use super::testing::delivery;
    use super::*;
    use crate::tenancy::HeldWebhooks;

    fn found(listed: Vec<ListedDelivery>, more: bool) -> Found {
        let head = OrderHead {
            id: "W1".into(),
            order_type: docket_domain::order_type::OrderType::Court,
            customer_code: "C-1".into(),
            status: OrderStatus::Exported,
            finalized: None,
            case_number: None,
            caption: None,
            client_matter_number: None,
            created_at_ms: 10,
            updated_at_ms: 30,
            exported_at_ms: Some(30),
            version: 2,
        };
        let made = vec![("CT1".to_owned(), WorkOrderType::Court)];
        Found { order: Some((head, made)), work_order: None, invoices: Vec::new(), listed, more }
    }

    /// The events of a trace with the webhooks `on`, `off`, `other` (of C-2), and with three webhooks on hold.
    fn traced(found: &Found, of: TraceOf<'_>) -> Vec<TracedEvent> {
        let webhook = |name: &str, customer: &str, active: bool| -> WebhookConfig {
            let webhook = json!({"uid": name, "namespace": "a", "name": name, "displayName": null, "customerCode": customer,
                "targetUrl": "https://h.example/", "secret": null, "caBundle": null, "events": ["order.created"],
                "active": active});
            serde_json::from_value(webhook).expect("a webhook")
        };
        let served =
            [webhook("on", "C-1", true), webhook("off", "C-1", false), webhook("other", "C-2", true)];
        let active = BTreeSet::from([EventCode::OrderCreated, EventCode::OrderExported]);
        let held = [("h1", "a/h1/C-1"), ("h2", "a/h2/C-2"), ("h3", "a/h3")];
        let held = HeldWebhooks::These(held.map(|(uid, key)| (uid.to_owned(), key.to_owned())).into());
        let faults = BTreeMap::from([("h1".to_owned(), vec!["spec.x: wrong".to_owned()])]);
        let declared = Declared {
            webhooks: Webhooks::new(&served, &active, &held),
            is_suspended: false,
            faults: &faults,
        };
        events(found, of, Some(&declared))
    }

    /// The event's id, its code, the reasons of each webhook, and the number of other customers' webhooks.
    type Shown<'a> = (Option<&'a str>, &'a str, Vec<(Option<&'a str>, &'a [WhyNot])>, usize);

    fn shown(event: &TracedEvent) -> Shown<'_> {
        let missed = event.missed.as_ref().expect("it is known");
        let webhooks = missed.webhooks.iter().map(|one| (one.name.as_deref(), &one.reasons[..])).collect();
        (event.id.as_deref(), &event.code, webhooks, missed.others)
    }

    #[test]
    fn webhooks_without_a_delivery_are_named_with_their_reasons() {
        let stored = found(vec![delivery("e1", "order.created", "on", 10)], false);
        let events = traced(&stored, TraceOf::WebOrder("W1"));
        let unserved: [(Option<&str>, &[WhyNot]); 2] =
            [(Some("a/h1"), &[WhyNot::NotServed]), (None, &[WhyNot::NotServed])];
        let of = |first: &[(Option<&'static str>, &'static [WhyNot])]| [first, &unserved[..]].concat();
        let off: &'static [WhyNot] = &[WhyNot::Inactive];
        assert_eq!(shown(&events[0]), (Some("e1"), "order.created", of(&[(Some("a/off"), off)]), 2));
        let on: &'static [WhyNot] = &[WhyNot::NotSubscribed];
        let both: &'static [WhyNot] = &[WhyNot::Inactive, WhyNot::NotSubscribed];
        let missed = of(&[(Some("a/on"), on), (Some("a/off"), both)]);
        assert_eq!(shown(&events[1]), (None, "order.exported", missed, 2));
        assert_eq!(events.len(), 2);
        let held = &events[0].missed.as_ref().expect("known").webhooks[1];
        assert_eq!(held.faults, ["spec.x: wrong"]);
    }

    #[test]
    fn many_webhooks_without_a_delivery_are_counted_and_their_faults_cut() {
        let held = (0..70).map(|number| (format!("h{number:02}"), format!("a/h{number:02}/C-1")));
        let held = HeldWebhooks::These(held.collect());
        let faults = (0..9).map(|number| format!("spec.x{number}: wrong")).collect();
        let (active, faults) = (BTreeSet::new(), BTreeMap::from([("h00".to_owned(), faults)]));
        let declared =
            Declared { webhooks: Webhooks::new(&[], &active, &held), is_suspended: false, faults: &faults };
        let events = events(&found(Vec::new(), false), TraceOf::WebOrder("W1"), Some(&declared));
        let missed = events[0].missed.as_ref().expect("known");
        assert_eq!((missed.webhooks.len(), missed.more), (MOST_MISSED, 70 - MOST_MISSED));
        assert_eq!(missed.webhooks.iter().map(|one| one.faults.len()).max(), Some(MOST_FAULTS));
    }

    #[test]
    fn resend_is_a_delivery_of_the_same_event() {
        let twice = ["on", "on"].map(|webhook| delivery("e1", "order.created", webhook, 10));
        let events = traced(&found(twice.into(), false), TraceOf::Number("W1"));
        assert_eq!((events.len(), &events[0].deliveries[..]), (2, &[0, 1][..]));
    }

    #[test]
    fn only_events_of_what_was_asked_for_are_missed() {
        let codes = |of, more| -> Vec<String> {
            traced(&found(Vec::new(), more), of).into_iter().map(|event| event.code).collect()
        };
        assert_eq!(codes(TraceOf::Number("W1"), false), ["order.created", "order.exported"]);
        assert_eq!(codes(TraceOf::WorkOrder("CT1"), false), ["order.exported"]);
        assert!(codes(TraceOf::Invoice("7"), false).is_empty());
        assert!(codes(TraceOf::Event("e1"), false).is_empty());
        assert!(codes(TraceOf::WebOrder("W1"), true).is_empty(), "its event may be older");
    }

    fn invoice(detected_at_ms: Option<i64>) -> TracedInvoice {
        TracedInvoice {
            family: docket_domain::invoice::InvoiceFamily::Court,
            invoice_number: "7".into(),
            work_order: "CT1".into(),
            created_at_ms: 40,
            detected_at_ms,
            customer_code: Some("C-1".into()),
        }
    }

    #[test]
    fn new_invoice_has_no_event_yet() {
        let codes = |detected_at_ms| {
            let found = Found { invoices: vec![invoice(detected_at_ms)], ..found(Vec::new(), false) };
            traced(&found, TraceOf::Invoice("7")).len()
        };
        assert_eq!((codes(None), codes(Some(50))), (0, 1));
    }

    #[test]
    fn event_of_one_invoice_does_not_stand_for_that_of_another() {
        let events = |number: &str| {
            let about = About { invoice_number: Some(number.to_owned()), ..About::default() };
            let listed = vec![ListedDelivery { about, ..delivery("e1", "invoice.created", "on", 60) }];
            let found = Found { invoices: vec![invoice(Some(50))], ..found(listed, false) };
            traced(&found, TraceOf::Invoice("7")).len()
        };
        assert_eq!((events("7"), events("8")), (1, 2));
    }

    #[test]
    fn events_are_oldest_first_also_those_that_are_not_stored() {
        let exported = found(vec![delivery("e1", "order.exported", "on", 30)], false);
        let events = traced(&exported, TraceOf::WebOrder("W1"));
        let shown: Vec<_> = events.iter().map(|event| (event.id.as_deref(), event.at_ms)).collect();
        assert_eq!(shown, [(None, 10), (Some("e1"), 30)]);
    }

    #[test]
    fn deliveries_whose_events_have_an_invalid_id_are_not_put_together() {
        let invalid = ["on", "off"].map(|webhook| delivery("", "order.created", webhook, 10));
        let events = traced(&found(invalid.into(), false), TraceOf::Event(""));
        let shown: Vec<_> =
            events.into_iter().map(|event| (event.deliveries, event.missed.is_none())).collect();
        assert_eq!(shown, [(vec![0], true), (vec![1], true)]);
    }

    #[test]
    fn webhook_on_hold_that_got_the_event_before_is_not_missed() {
        let by_key = delivery("e1", "order.created", "h1", 10);
        // Rows of versions before keys have the uid.
        let by_uid = ListedDelivery { webhook: "h1".into(), webhook_name: String::new(), ..by_key.clone() };
        for got in [by_key, by_uid] {
            let events = traced(&found(vec![got], false), TraceOf::WebOrder("W1"));
            let missed = events[0].missed.as_ref().expect("it is known");
            let names: Vec<_> = missed.webhooks.iter().map(|one| one.name.as_deref()).collect();
            assert_eq!(names, [Some("a/on"), Some("a/off"), None]);
        }
    }

    #[test]
    fn suspension_and_declarations_that_cannot_be_read_are_reasons() {
        let (active, faults) = (BTreeSet::from([EventCode::OrderCreated]), BTreeMap::new());
        let missed = |held: &HeldWebhooks, is_suspended| {
            let declared =
                Declared { webhooks: Webhooks::new(&[], &active, held), is_suspended, faults: &faults };
            let all = events(&found(Vec::new(), false), TraceOf::WebOrder("W1"), Some(&declared));
            all[0].missed.clone().expect("it is known").webhooks
        };
        let held = HeldWebhooks::These([("h1".to_owned(), "a/h1/C-1".to_owned())].into());
        assert_eq!(missed(&held, true)[0].reasons, [WhyNot::NotServed, WhyNot::TenantSuspended]);
        let unread = missed(&HeldWebhooks::AllUnknown, false);
        let note = MissingWebhook { name: None, reasons: vec![WhyNot::Unreadable], faults: Vec::new() };
        assert_eq!(unread, [note]);
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let newer = delivery("e1", "order.archived", "on", 10);
        let newer = traced(&found(vec![newer], false), TraceOf::Event("e1"));
        assert_eq!(newer[0].missed, None, "the code is of a newer version");
        let cut =
            traced(&found(vec![delivery("e1", "order.created", "on", 10)], true), TraceOf::Number("W1"));
        assert_eq!(cut[0].missed, None, "an older delivery of the event may be left out");
        let unread = events(&found(Vec::new(), false), TraceOf::Number("W1"), None);
        assert_eq!(unread[0].missed, None, "what is declared is not known");
    }
}
