//! Why did it not arrive?

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Html;
use docket_crds::{EventCode, WebhookConfig, webhook_key};
use docket_domain::audit::{AuditEvent, subject};
use docket_domain::delivery::Status;
use docket_domain::trace::TraceKind;
use docket_portal::logs::Delivery;
use docket_portal::trace::{
    self, Answer, Chain, CustomerAnswer, CustomerWebhook, EventView, InvoiceView, Missed, Named, OrderView,
    Sent,
};
use docket_store::deliveries::ListedDelivery;
use docket_store::invoices::TracedInvoice;
use docket_store::orders::{self, OrderFilter};
use docket_store::{Connection, StoreError, audit, recent};
use http::StatusCode;

use super::declared::in_words_of;
use super::forms::filled_in;
use super::logs::shown;
use super::session::Viewer;
use super::writes::Writes;
use crate::actions::meant::{self, MAX_CHARS, Meant, Near};
use crate::actions::trace::{Declared, Found, MissingWebhook, Sight, TraceOf, TracedEvent, events, find};
use crate::api::state::ApiState;
use crate::api::webhook_logs::waits;
use crate::http::error::ApiError;
use crate::http::times::timestamp;
use crate::refusal::Refusal;

/// The most events of a page, the newest.
const MAX_EVENTS: usize = 20;
/// The most orders of a customer, the newest.
const MAX_ORDERS: i64 = 10;
/// The most webhooks of a customer that a page lists.
const MAX_WEBHOOKS: usize = 50;

/// The answer about a text that names nothing.
const NOTHING: Answer = Answer::Nothing { near: Vec::new(), newest: None };

/// GET /portal/trace.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Html<String>), ApiError> {
    let query = filled_in(&query.unwrap_or_default());
    let value = |name: &str| query.iter().find(|(other, _)| other == name).map(|(_, value)| value.trim());
    let only = value("kind").map(str::parse::<TraceKind>).transpose();
    let only = only.map_err(|unknown| ApiError::field("kind", &unknown.to_string()))?;
    let asked = value("q").unwrap_or_default();
    let answer = answer(&state, &viewer, asked, only).await?;
    let status = match answer {
        Answer::TooLong(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let shown: String = asked.chars().filter(|c| !c.is_control()).take(MAX_CHARS).collect();
    let can_add = writes.is_some_and(|writer| writer.is_open());
    let frame = viewer.frame_with_removed(&mut viewer.caller.reader(&state).await?).await?;
    Ok((status, Html(trace::page(&frame, &shown, &answer, can_add))))
}

async fn answer(
    state: &ApiState,
    viewer: &Viewer,
    asked: &str,
    only: Option<TraceKind>,
) -> Result<Answer, ApiError> {
    if asked.is_empty() {
        return Ok(Answer::Unasked);
    }
    if asked.chars().count() > MAX_CHARS {
        return Ok(Answer::TooLong(MAX_CHARS));
    }
    // PostgreSQL has no text with a NUL, and no number, id or name has a control character.
    if asked.chars().any(char::is_control) {
        return Ok(NOTHING);
    }
    let customer = viewer.caller.customer.as_deref();
    let mut reader = viewer.caller.reader(state).await?;
    let mut all = meant::meant(&mut reader, &state.clock, asked, only, customer).await?;
    let named = |all: Vec<Meant>| {
        all.into_iter().map(|Meant { kind, id, about }| Named { kind, id, about }).collect()
    };
    match (all.len(), all.pop()) {
        (1, Some(Meant { kind: TraceKind::Customer, id, about })) => {
            Ok(Answer::Customer(of_customer(state, viewer, &mut reader, id, about).await?))
        }
        (1, Some(one)) => match chain(state, viewer, reader, &one).await {
            Ok(chain) => Ok(Answer::Chain(Box::new(chain))),
            // Deleted a moment ago.
            Err(ApiError::NotFound(_)) => Ok(NOTHING),
            Err(error) => Err(error),
        },
        (_, Some(last)) => {
            all.push(last);
            Ok(Answer::Several(named(all)))
        }
        (_, None) => {
            let Near { orders, newest } = meant::near(&mut reader, asked, customer).await?;
            Ok(Answer::Nothing { near: named(orders), newest })
        }
    }
}

async fn of_customer(
    state: &ApiState,
    viewer: &Viewer,
    reader: &mut Connection,
    code: String,
    name: String,
) -> Result<CustomerAnswer, ApiError> {
    let filter = OrderFilter { customer_code: Some(code.clone()), ..OrderFilter::default() };
    let found = orders::search(reader, &state.clock, &filter, MAX_ORDERS).await?;
    let orders = found.items.into_iter();
    let orders = orders.map(|head| (head.id, head.status.as_str(), timestamp(head.created_at_ms))).collect();
    let (webhooks, unserved) = webhooks(viewer, &code);
    Ok(CustomerAnswer { code, name, webhooks, unserved, orders })
}

/// The served webhooks of a customer, and the number of its webhooks that are declared and not served.
fn webhooks(viewer: &Viewer, customer_code: &str) -> (Vec<CustomerWebhook>, usize) {
    let all = viewer.caller.webhooks();
    let own = all.served().filter(|webhook| webhook.customer_code.as_str() == customer_code);
    let webhook = |webhook: &WebhookConfig| CustomerWebhook {
        full_name: webhook.full_name(),
        active: webhook.active,
        takes: EventCode::ALL.into_iter().filter(|code| all.takes(webhook, *code)).collect(),
    };
    let is_its = |(_, key): &(&str, &str)| webhook_key::customer_code(key) == Some(customer_code);
    (own.take(MAX_WEBHOOKS).map(webhook).collect(), all.held().filter(is_its).count())
}

/// When webhooks that have no delivery of one of these events were added in the portal after it, by the subject of the audit's entry, in
/// milliseconds since 1970, as far as the audit has it.
async fn added(reader: &mut Connection, events: &[TracedEvent]) -> Result<HashMap<String, i64>, StoreError> {
    let misses = |event: &&TracedEvent| {
        let mut missed = event.missed.iter().flat_map(|missed| &missed.webhooks);
        missed.any(|webhook| webhook.name.is_some())
    };
    let Some(first_ms) = events.iter().filter(misses).map(|event| event.at_ms).min() else {
        return Ok(HashMap::new());
    };
    audit::last_times(reader, AuditEvent::WebhookAdded, first_ms).await
}

async fn chain(
    state: &ApiState,
    viewer: &Viewer,
    mut reader: Connection,
    Meant { kind, id, .. }: &Meant,
) -> Result<Chain, ApiError> {
    let sight = Sight { webhook: None, customer: viewer.caller.customer.as_deref() };
    let of = match kind {
        TraceKind::WebOrder => TraceOf::WebOrder(id),
        TraceKind::WorkOrder => TraceOf::WorkOrder(id),
        TraceKind::Invoice => TraceOf::Invoice(id),
        TraceKind::Event => TraceOf::Event(id),
        TraceKind::Delivery => {
            TraceOf::Delivery(id.parse().map_err(|_| Refusal::NotFound("There is no such delivery"))?)
        }
        TraceKind::Customer => return Err(ApiError::Internal),
    };
    let found = find(&mut reader, &state.clock, of, sight).await?;
    // The other webhooks of a delivery's event belong to the answer.
    let event_id = found.listed.first().map(|one| one.event_id.clone()).filter(|id| !id.is_empty());
    let (of, found) = match (of, event_id.as_deref()) {
        (TraceOf::Delivery(_), Some(event_id)) => {
            let of = TraceOf::Event(event_id);
            (of, find(&mut reader, &state.clock, of, sight).await?)
        }
        _ => (of, found),
    };
    let declared = Declared::of(&viewer.caller.tenant, viewer.caller.webhooks());
    let (events, is_cut) = newest(events(&found, of, Some(&declared)));
    let latest: Vec<usize> = events.iter().flat_map(|event| latest(event, &found.listed)).collect();
    let listed: Vec<ListedDelivery> = latest.iter().map(|place| found.listed[*place].clone()).collect();
    let failed = listed.iter().filter(|one| one.status != Status::Succeeded).map(|one| one.id.clone());
    let said = recent::last_responses(&mut reader, &failed.collect::<Vec<_>>()).await?;
    let added = added(&mut reader, &events).await?;
    drop(reader);
    let waits = waits(state, &viewer.caller, &listed).await?;
    let deliveries = listed.into_iter().zip(waits);
    let deliveries = deliveries.map(|(listed, waits_for)| Delivery { waits_for, ..shown(listed) });
    let mut by_place: HashMap<usize, Delivery> = latest.into_iter().zip(deliveries).collect();
    let in_words = |faults: &[String]| in_words_of(viewer, faults);
    let views =
        events.into_iter().map(|event| view(event, &found.listed, &mut by_place, (&said, &added), in_words));
    let events: Vec<EventView> = views.collect();
    Ok(made(*kind, id, found, events, is_cut, |code| webhooks(viewer, code)))
}

/// The newest of these events, which are oldest first, and whether others are left out.
fn newest(mut events: Vec<TracedEvent>) -> (Vec<TracedEvent>, bool) {
    let left_out = events.len().saturating_sub(MAX_EVENTS);
    events.drain(..left_out);
    (events, left_out > 0)
}

/// The places of the latest delivery of an event to each webhook.
fn latest(event: &TracedEvent, listed: &[ListedDelivery]) -> Vec<usize> {
    let mut latest: Vec<usize> = Vec::new();
    for place in &event.deliveries {
        // The deliveries are oldest first.
        latest.retain(|other| listed[*other].webhook_name != listed[*place].webhook_name);
        latest.push(*place);
    }
    latest
}

/// What the page shows of an event. `said`: what receivers said, by delivery; `added`: what [`added`] found.
fn view(
    event: TracedEvent,
    listed: &[ListedDelivery],
    by_place: &mut HashMap<usize, Delivery>,
    (said, added): (&HashMap<String, String>, &HashMap<String, i64>),
    in_words: impl Fn(&[String]) -> Vec<String>,
) -> EventView {
    let count =
        |name: &str| event.deliveries.iter().filter(|place| listed[**place].webhook_name == name).count();
    let sent = latest(&event, listed).into_iter().filter_map(|place| {
        let latest = by_place.remove(&place)?;
        let (earlier, said) = (count(&latest.webhook) - 1, said.get(&latest.id).cloned());
        Some(Sent { latest, earlier, said })
    });
    let sent = sent.collect();
    let (more, others) = event.missed.as_ref().map_or((0, 0), |missed| (missed.more, missed.others));
    let added_at = |name: Option<&str>| {
        let at_ms = added.get(&subject("webhook", name?)).filter(|at_ms| **at_ms > event.at_ms)?;
        Some(timestamp(*at_ms))
    };
    let missed = |MissingWebhook { name, reasons, faults }: MissingWebhook| Missed {
        added_at: added_at(name.as_deref()),
        webhook: name,
        reasons,
        faults: in_words(&faults),
    };
    EventView {
        id: event.id,
        code: event.code,
        at: timestamp(event.at_ms),
        is_test: event.is_test,
        sent,
        missed: event.missed.map(|all| all.webhooks.into_iter().map(missed).collect()),
        more,
        others,
    }
}

fn made(
    kind: TraceKind,
    id: &str,
    found: Found,
    events: Vec<EventView>,
    is_cut: bool,
    webhooks: impl Fn(&str) -> (Vec<CustomerWebhook>, usize),
) -> Chain {
    let Found { order, work_order, invoices, listed, more } = found;
    let of_order = order.as_ref().map(|(head, _)| head.customer_code.clone());
    let of_work_order = work_order.as_ref().map(|(_, found)| found.customer_code.clone());
    let of_invoice = invoices.iter().find_map(|invoice| invoice.customer_code.clone());
    let of_delivery = listed.first().map(|one| one.customer_code.clone());
    let customer = of_delivery.or(of_invoice).or(of_work_order).or(of_order).unwrap_or_default();
    let order = order.map(|(head, made)| OrderView {
        id: head.id,
        order_type: head.order_type.as_str(),
        status: head.status.as_str(),
        saved_at: timestamp(head.created_at_ms),
        exported_at: head.exported_at_ms.map(timestamp),
        work_orders: made.into_iter().map(|(number, _)| number).collect(),
    });
    let invoice = |invoice: TracedInvoice| InvoiceView {
        family: invoice.family.as_str(),
        work_order: invoice.work_order,
        has_work_order: invoice.customer_code.is_some(),
        added_at: timestamp(invoice.created_at_ms),
        detected_at: invoice.detected_at_ms.map(timestamp),
    };
    let (webhooks, unserved) = webhooks(&customer);
    Chain {
        kind,
        id: id.to_owned(),
        webhooks,
        unserved,
        customer,
        order,
        work_order: work_order.map(|(number, _)| number),
        invoices: invoices.into_iter().map(invoice).collect(),
        events,
        more: more || is_cut,
    }
}

#[cfg(test)]
mod tests {
    use docket_store::events::About;

    use super::*;
    use crate::actions::trace::MissedEvent;
    use crate::actions::trace::testing::delivery;

    /// An event that was published at this time.
    fn event(at_ms: i64) -> TracedEvent {
        TracedEvent {
            id: Some("evt_1".into()),
            code: "order.created".into(),
            customer_code: "C-1".into(),
            about: About::default(),
            is_test: false,
            at_ms,
            deliveries: Vec::new(),
            missed: None,
        }
    }

    #[test]
    fn page_has_the_newest_twenty_events() {
        let shown = |count: i64| {
            let (events, is_cut) = newest((0..count).map(event).collect());
            (events.first().map(|event| event.at_ms), events.last().map(|event| event.at_ms), is_cut)
        };
        assert_eq!([shown(20), shown(22)], [(Some(0), Some(19), false), (Some(2), Some(21), true)]);
    }

    #[test]
    fn webhook_was_added_later_only_if_that_was_after_the_event() {
        let missed = MissedEvent {
            webhooks: vec![MissingWebhook {
                name: Some("a/b".into()),
                reasons: Vec::new(),
                faults: Vec::new(),
            }],
            ..MissedEvent::default()
        };
        let added_at = |added_ms: i64| {
            let event = TracedEvent { missed: Some(missed.clone()), ..event(5) };
            let added = HashMap::from([(subject("webhook", "a/b"), added_ms)]);
            let known = (&HashMap::new(), &added);
            let shown = view(event, &[], &mut HashMap::new(), known, <[String]>::to_vec);
            shown.missed.and_then(|webhooks| webhooks[0].added_at)
        };
        assert_eq!([4, 5, 6].map(added_at), [None, None, Some(timestamp(6))]);
    }

    #[test]
    fn latest_delivery_to_each_webhook_is_shown_with_the_number_of_earlier_ones() {
        let listed = ["1", "2", "1", "1"].map(|webhook| delivery("evt_1", "order.created", webhook, 0));
        let event = TracedEvent { deliveries: vec![0, 1, 2, 3], ..event(0) };
        let places = latest(&event, &listed);
        assert_eq!(places, [1, 3]);
        let mut known: HashMap<usize, Delivery> =
            places.into_iter().map(|place| (place, shown(listed[place].clone()))).collect();
        let view = view(event, &listed, &mut known, (&HashMap::new(), &HashMap::new()), <[String]>::to_vec);
        let sent: Vec<_> =
            view.sent.iter().map(|sent| (sent.latest.webhook.as_str(), sent.earlier)).collect();
        assert_eq!(sent, [("a/2", 0), ("a/1", 2)]);
    }
}
