//! The page about a chain: what happened, in the order of time.

use docket_domain::delivery::{MAX_ATTEMPTS, Status};
use docket_domain::trace::{TraceKind, WhyNot};
use jiff::Timestamp;
use maud::{Markup, html};

use super::customer::{none, webhooks_card};
use super::headline::capitalized;
use super::{Chain, EventView, Missed, OrderView, Sent, trace_link};
use crate::declared::whom_to_ask;
use crate::logs::{self, link, remedy};
use crate::page::{Frame, Section};
use crate::parts::{self, Head, Tone};
use crate::time::at;
use crate::{counted, href};

/// The page about a chain. `answer`: the answer in one sentence; `when`: when it happened.
pub(super) fn chain_page(
    frame: &Frame,
    chain: &Chain,
    answer: &str,
    when: Option<Timestamp>,
    can_add: bool,
) -> Markup {
    let Chain { kind, id, customer, .. } = chain;
    let filter = match kind {
        TraceKind::WebOrder => "webOrderId",
        TraceKind::WorkOrder => "workOrder",
        TraceKind::Invoice => "invoiceNumber",
        TraceKind::Event => "eventId",
        TraceKind::Delivery => "deliveryId",
        TraceKind::Customer => "customerCode",
    };
    let has_deliveries = chain.events.iter().any(|event| !event.sent.is_empty());
    let actions = html! {
        @if *kind == TraceKind::Delivery { a.button href=(link(id)) { "The delivery" } }
        @else if has_deliveries { a.button href=(href(Section::Logs.path(), [(filter, id.as_str())])) { "Its deliveries" } }
    };
    let below = html! {
        (capitalized(kind.name())) " " code { (id) }
        @if !customer.is_empty() {
            " · customer " @if frame.is_of_tenant() { a href=(trace_link(TraceKind::Customer, customer)) { (customer) } } @else { (customer) }
        }
    };
    let is_missing = chain.events.iter().any(|event| event.id.is_none());
    let steps = html! {
        ol.chain {
            (beginning(chain))
            @if chain.more { li { div.quiet { "Older events are left out." } } }
            @for event in &chain.events { (event_steps(frame, event)) }
        }
        @if is_missing {
            (parts::inside(&html! {
                p.hint {
                    "Docket records an event only if a webhook gets it, so an event that is not recorded cannot be sent later. Docket deletes an "
                    "event some time after its deliveries ended: after 30 days, unless the platform keeps deliveries for another time. The reasons "
                    "are about the webhooks as they are now. "
                    a href="/docs/webhooks/why-failed.html" { "Find out why a delivery failed" }
                }
            }))
        }
    };
    html! {
        (parts::head(&Head {
            title: html! { (answer) @if let Some(when) = when { " " (at(when)) } },
            below: Some(below),
            actions: Some(actions),
            ..Head::default()
        }))
        (parts::card("chain", "What happened", &html! {}, &steps))
        (webhooks_card(frame, &chain.webhooks, &none(frame, customer, chain.unserved, can_add)))
    }
}

/// A step of the chain, with the tone of its dot.
fn step(tone: Option<Tone>, what: &Markup, when: Option<Timestamp>) -> Markup {
    html! {
        li class=[tone.map(Tone::class)] {
            div { (what) }
            span.quiet.small { @if let Some(when) = when { (at(when)) } }
        }
    }
}

/// What happened before there was an event.
fn beginning(chain: &Chain) -> Markup {
    // The subject of the page has no link, because the link would lead to the same page.
    let named = |kind: TraceKind, id: &str| {
        let is_own = kind == chain.kind && id == chain.id;
        html! { @if is_own { (id) } @else { a href=(trace_link(kind, id)) { (id) } } }
    };
    html! {
        @if let Some(OrderView { id, order_type, status, saved_at, exported_at, work_orders }) = &chain.order {
            (step(None, &html! {
                strong { "Saved" } " as web order " (named(TraceKind::WebOrder, id))
                span.quiet { " · " (order_type) ", now " (status) }
            }, Some(*saved_at)))
            @if let Some(exported_at) = exported_at {
                (step(None, &html! {
                    strong { "Exported" } " as "
                    @for (place, number) in work_orders.iter().enumerate() {
                        @if place > 0 { ", " }
                        (named(TraceKind::WorkOrder, number))
                    }
                }, Some(*exported_at)))
            }
        } @else if let Some(number) = &chain.work_order {
            (step(None, &html! {
                strong { "Added" } " by the back office as work order " (named(TraceKind::WorkOrder, number))
            }, None))
        }
        @for invoice in &chain.invoices {
            (step(None, &html! {
                strong { "Invoice added" } " by the back office to work order " (invoice.work_order) span.quiet { " · " (invoice.family) }
            }, Some(invoice.added_at)))
            @match (invoice.detected_at, invoice.has_work_order) {
                (Some(detected_at), _) => (step(None, &html! { strong { "Invoice seen" } " by Docket" }, Some(detected_at))),
                (None, true) => (step(Some(Tone::Wait), &html! { strong { "Not seen yet" } ": Docket looks for new invoices every minute." }, None)),
                (None, false) => (step(Some(Tone::Wait), &html! {
                    strong { "Not published" } ": the invoice waits until the back office adds its work order."
                }, None)),
            }
        }
    }
}

fn event_steps(frame: &Frame, event: &EventView) -> Markup {
    let EventView { id, code, at: when, is_test, sent, missed, more, others } = event;
    let code = if code.is_empty() { "An event without a valid code" } else { code.as_str() };
    html! {
        @match id.as_deref() {
            None => (step(None, &html! { "No " strong { (code) } " is recorded" }, Some(*when))),
            Some("") => (step(None, &html! { strong { (code) } " with an invalid id" }, Some(*when))),
            Some(id) => (step(None, &html! {
                strong { (code) } @if *is_test { " (test)" } " " code { (id) } " " (parts::copy("the event id"))
            }, Some(*when))),
        }
        @for sent in sent { (sent_step(frame, sent)) }
        @for missed in missed.iter().flatten() { (missed_step(frame, missed, code)) }
        @if *more > 0 {
            (step(Some(Tone::Mute), &html! {
                span.quiet { (counted(*more as i64, "more webhook")) " of the customer did not get it." }
            }, None))
        }
        @if missed.as_ref().is_some_and(Vec::is_empty) && sent.is_empty() {
            (step(Some(Tone::Mute), &html! { "The customer has no webhook now." }, None))
        }
        @if frame.is_of_tenant() && *others > 0 {
            (step(Some(Tone::Mute), &html! {
                span.quiet { (counted(*others as i64, "webhook")) " of other customers " @if *others == 1 { "does" } @else { "do" } " not get it." }
            }, None))
        }
    }
}

fn sent_step(frame: &Frame, Sent { latest, earlier, said }: &Sent) -> Markup {
    let (tone, _) = latest.became();
    let has_failed = latest.status != Status::Succeeded;
    // The webhooks have links in the table below.
    let what = html! {
        a href=(link(&latest.id)) { strong { (frame.name_of(&latest.webhook)) } " " (logs::badge(latest)) }
        " " span.quiet.small {
            "after " (latest.attempts) " of " (MAX_ATTEMPTS) " attempts"
            @if *earlier > 0 { ", sent again after " (counted_deliveries(*earlier)) }
            @if has_failed && latest.failure.is_some() { " · " (latest.ended_as()) }
            @if let Some(next) = latest.next_attempt_at {
                " · next attempt " (at(next))
                @if let Some(what) = &latest.waits_for { ", waits for " (what) }
            }
        }
        @if has_failed {
            @if let Some(said) = said { div.said { (said) } }
            @if let (Some(failed), false) = (latest.failed(), tone == Tone::Mute) {
                div.small {
                    (remedy(&failed))
                    @if let Some(path) = frame.url_to_change(&latest.webhook, &failed) { " " a href=(path) { "Change the URL" } }
                }
            }
        }
    };
    step(Some(tone), &what, latest.finished_at)
}

fn counted_deliveries(number: usize) -> String {
    if number == 1 { "an earlier delivery".to_owned() } else { format!("{number} earlier deliveries") }
}

fn missed_step(frame: &Frame, Missed { webhook, reasons, faults, added_at }: &Missed, code: &str) -> Markup {
    let is_served = |name: &&String| frame.webhooks.iter().any(|webhook| webhook.full_name == **name);
    let name = html! {
        @match webhook.as_ref().filter(|name| frame.is_of_tenant() || is_served(name)) {
            Some(name) if is_served(&name) => (frame.webhook(name)),
            Some(name) => (name),
            None => "A webhook",
        }
    };
    let would_get_it = reasons.contains(&WhyNot::ChangedSince);
    let what = html! {
        @if reasons.contains(&WhyNot::Unreadable) { "Perhaps more webhooks" } @else { strong { (name) } }
        span.quiet {
            " did not get it: "
            @if let Some(added_at) = added_at { "it was added " (at(*added_at)) ", after the event" }
            @if added_at.is_some() && !would_get_it { ", and " }
            @if added_at.is_none() || !would_get_it { (WhyNot::sentences(reasons, code)) }
            "."
        }
        @for fault in faults { div.small { (fault) } }
        @if reasons.contains(&WhyNot::NotServed) { div.small { (whom_to_ask(frame)) } }
    };
    step(Some(Tone::Mute), &what, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;
    use crate::trace::headline::headline;
    use crate::trace::tests::{at_second, chain, event, missed, said, sent};

    #[test]
    fn webhook_that_was_added_after_the_event_is_not_counted() {
        let late = |reason| {
            let added_at = Some(at_second(1_800_000_050));
            Missed { added_at, ..missed("a/late", reason) }
        };
        let event = |sent| event(sent, vec![late(WhyNot::ChangedSince), late(WhyNot::Inactive)]);
        assert_eq!(said(vec![event(vec![sent("a/1", Status::Succeeded)])]), "Web order W1 was delivered");
        let none = event(Vec::new());
        assert_eq!(
            said(vec![none.clone()]),
            "Nothing was sent for web order W1: its customer had no webhook yet"
        );
        let text = event_steps(&frame(), &none).into_string();
        for part in [
            " did not get it: it was added <time datetime=\"2027-01-15T08:00:50Z\">",
            "</time>, after the event.</span>",
            "</time>, after the event, and it is inactive now.</span>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn webhooks_beyond_the_described_ones_are_counted() {
        let off = || vec![missed("a/off", WhyNot::Inactive)];
        let event = |sent| EventView { more: 20, ..event(sent, off()) };
        let said = |event: EventView| headline(&chain(vec![event]), at_second(1_800_000_100)).0;
        let some = event(vec![sent("a/on", Status::Succeeded)]);
        assert_eq!(said(some.clone()), "Web order W1 reached 1 of 22 webhooks");
        assert!(said(event(Vec::new())).contains("its customer's 21 webhooks"));
        let text = event_steps(&frame(), &some).into_string();
        assert!(text.contains("20 more webhooks of the customer did not get it."), "{text}");
    }
}
