//! Why did it not arrive? What an order, an invoice, an event or a delivery has caused, and why webhooks have nothing of it.

mod chain;
mod customer;
mod headline;

use docket_crds::EventCode;
use docket_domain::trace::{TraceKind, WhyNot};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::href;
use crate::logs::Delivery;
use crate::page::{self, Frame, TRACE};
use crate::parts::{self, Head};
use chain::chain_page;
use customer::{customer_page, of_customer};
use headline::headline;

/// Something that a text names, or may name.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its kind.
    pub kind: TraceKind,
    /// Its number, id or code.
    pub id: String,
    /// Its customer, or the name of a customer; may be empty.
    pub about: String,
}

/// What the page says about a text.
#[derive(Debug, Clone)]
pub enum Answer {
    /// There is no text.
    Unasked,
    /// The text has more than this many characters.
    TooLong(usize),
    /// The text names nothing.
    Nothing {
        /// What is nearly the same.
        near: Vec<Named>,
        /// The newest web order, if the text is a later number.
        newest: Option<String>,
    },
    /// The text names several things.
    Several(Vec<Named>),
    /// The text names a customer.
    Customer(CustomerAnswer),
    /// The text names something that events report, or an event or a delivery.
    Chain(Box<Chain>),
}

/// A customer with its webhooks and its newest orders.
#[derive(Debug, Clone)]
pub struct CustomerAnswer {
    /// The customer's code.
    pub code: String,
    /// The customer's name.
    pub name: String,
    /// The webhooks that are served.
    pub webhooks: Vec<CustomerWebhook>,
    /// The number of webhooks that are declared with a mistake and not served.
    pub unserved: usize,
    /// The newest orders: id, status, and when they were saved.
    pub orders: Vec<(String, &'static str, Timestamp)>,
}

/// A webhook of a customer, as it is served.
#[derive(Debug, Clone)]
pub struct CustomerWebhook {
    /// `namespace/name`.
    pub full_name: String,
    /// Whether new events are sent.
    pub active: bool,
    /// The events that it subscribes to and that are on in the catalogue.
    pub takes: Vec<EventCode>,
}

/// What happened, in the order of time.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The kind of what was asked for.
    pub kind: TraceKind,
    /// Its number or id.
    pub id: String,
    /// The code of its customer; empty if it is not known.
    pub customer: String,
    /// The web order, if there is one.
    pub order: Option<OrderView>,
    /// The work order, if it was added by the back office without a web order.
    pub work_order: Option<String>,
    /// The invoices of the number.
    pub invoices: Vec<InvoiceView>,
    /// The newest events, oldest first.
    pub events: Vec<EventView>,
    /// Whether older events or deliveries are left out.
    pub more: bool,
    /// The webhooks of the customer that are served.
    pub webhooks: Vec<CustomerWebhook>,
    /// The number of webhooks of the customer that are declared with a mistake and not served.
    pub unserved: usize,
}

/// A web order.
#[derive(Debug, Clone)]
pub struct OrderView {
    /// Its id.
    pub id: String,
    /// Its type.
    pub order_type: &'static str,
    /// Its status.
    pub status: &'static str,
    /// When the order was saved first.
    pub saved_at: Timestamp,
    /// When the order was exported.
    pub exported_at: Option<Timestamp>,
    /// The work orders that its export made.
    pub work_orders: Vec<String>,
}

/// An invoice.
#[derive(Debug, Clone)]
pub struct InvoiceView {
    /// Its family.
    pub family: &'static str,
    /// Its work order.
    pub work_order: String,
    /// Whether the work order of the invoice exists.
    pub has_work_order: bool,
    /// When the back office added it.
    pub added_at: Timestamp,
    /// When Docket published it, or another program marked it as known.
    pub detected_at: Option<Timestamp>,
}

/// An event.
#[derive(Debug, Clone)]
pub struct EventView {
    /// Its id, empty if it is invalid; `None`: no such event is recorded.
    pub id: Option<String>,
    /// Its code.
    pub code: String,
    /// When the event was published, or when the thing that it reports happened.
    pub at: Timestamp,
    /// Whether the event was published to test a webhook.
    pub is_test: bool,
    /// The webhooks with a delivery of the event.
    pub sent: Vec<Sent>,
    /// The webhooks of the customer without a delivery of the event; `None`: the webhooks are not known.
    pub missed: Option<Vec<Missed>>,
    /// How many further webhooks of the customer have no delivery of the event.
    pub more: usize,
    /// The number of webhooks of other customers.
    pub others: usize,
}

/// The deliveries of an event to one webhook.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The latest delivery.
    pub latest: Delivery,
    /// The number of earlier deliveries, which the latest one repeats.
    pub earlier: usize,
    /// The beginning of the receiver's response to the last failed attempt.
    pub said: Option<String>,
}

/// A webhook without a delivery of an event.
#[derive(Debug, Clone)]
pub struct Missed {
    /// `namespace/name`; `None`: it is not known.
    pub webhook: Option<String>,
    /// Why, as far as its state now shows: first the reason to remove first; at least one.
    pub reasons: Vec<WhyNot>,
    /// What is wrong with its settings, in the words that the user knows.
    pub faults: Vec<String>,
    /// When it was added, if that was after the event; `None` also if it is not known.
    pub added_at: Option<Timestamp>,
}

/// A link to the trace of something.
fn trace_link(kind: TraceKind, id: &str) -> String {
    href(TRACE, [("q", id), ("kind", kind.as_str())])
}

/// The page. `asked`: the text of the box. `can_add`: whether the user can add webhooks in the portal.
pub fn page(frame: &Frame, asked: &str, answer: &Answer, can_add: bool) -> String {
    let (title, main) = match answer {
        Answer::Unasked => ("Why did it not arrive?".to_owned(), unasked()),
        Answer::TooLong(most) => {
            let title = format!("Error: enter at most {most} characters");
            let main = html! {
                (parts::head(&Head { title: html! { "The text is too long" }, ..Head::default() }))
                div.wrong role="alert" { p { "Enter at most " (most) " characters: one number, one id, or a name." } }
                (forms())
            };
            (title, main)
        }
        Answer::Nothing { near, newest } => {
            let main = nothing(frame, asked, near, newest.as_deref());
            (format!("Nothing was found for “{asked}”"), main)
        }
        Answer::Several(all) => (format!("“{asked}” may be several things"), several(asked, all)),
        Answer::Customer(customer) => (of_customer(customer), customer_page(frame, customer, can_add)),
        Answer::Chain(chain) => {
            let (title, when) = headline(chain, frame.now);
            let main = chain_page(frame, chain, &title, when, can_add);
            (title, main)
        }
    };
    page::page_asked(frame, None, &title, asked, &main)
}

fn unasked() -> Markup {
    let below = html! { "Enter what you look for into the box at the top of any page." };
    html! {
        (parts::head(&Head { title: html! { "Why did it not arrive?" }, below: Some(below), ..Head::default() }))
        (forms())
    }
}

/// The texts that the box accepts, with examples.
fn forms() -> Markup {
    let body = parts::inside(&html! {
        ul {
            li { "a web order, such as " code { "W00000027" } }
            li { "a work order, such as " code { "CT1000001" } }
            li { "the number of an invoice" }
            li { "an event id, such as " code { "evt_01a21b15e12c4444aa5cb7c4de205d11" } ": the header " code { "webhook-id" } " of a delivery" }
            li { "a delivery id: the header " code { "X-Service-Delivery-Id" } }
            li { "a customer: its code, or a part of its name" }
        }
        p.quiet { "Upper and lower case are the same." }
    });
    parts::card("forms", "What the box takes", &html! {}, &body)
}

fn nothing(frame: &Frame, asked: &str, near: &[Named], newest: Option<&str>) -> Markup {
    let whose = if frame.is_of_tenant() { "The tenant has" } else { "Your firm has" };
    let below = html! {
        (whose) " no web order, work order, invoice, event, delivery or customer of this number, id or name. "
        "Deliveries and events are deleted 30 days after they ended, unless the platform keeps them for another time."
    };
    html! {
        (parts::head(&Head { title: html! { "Nothing was found for “" (asked) "”" }, below: Some(below), ..Head::default() }))
        @if let Some(newest) = newest {
            p { "The newest web order is " a href=(trace_link(TraceKind::WebOrder, newest)) { (newest) } "." }
        }
        @if !near.is_empty() { (parts::card("near", "Did you mean", &html! {}, &choices(near))) }
        (forms())
    }
}

fn several(asked: &str, all: &[Named]) -> Markup {
    html! {
        (parts::head(&Head { title: html! { "“" (asked) "” may be several things" }, ..Head::default() }))
        (parts::card("several", "Choose one", &html! {}, &choices(all)))
    }
}

fn choices(all: &[Named]) -> Markup {
    parts::inside(&html! {
        ul {
            @for Named { kind, id, about } in all {
                li { a href=(trace_link(*kind, id)) { (kind.name()) " " (id) } @if !about.is_empty() { span.quiet { " · " (about) } } }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::Status;

    use super::*;
    use crate::logs::tests::{delivery, frame};
    use crate::page::Role;

    pub(super) fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    pub(super) fn missed(name: &str, reason: WhyNot) -> Missed {
        Missed { webhook: Some(name.into()), reasons: vec![reason], faults: Vec::new(), added_at: None }
    }

    pub(super) fn sent(webhook: &str, status: Status) -> Sent {
        let finished_at = status.is_final().then(|| at_second(1_800_000_060));
        let latest = Delivery { webhook: webhook.into(), status, finished_at, ..delivery() };
        Sent { latest, earlier: 0, said: Some("<b>boom".into()) }
    }

    pub(super) fn event(sent: Vec<Sent>, missed: Vec<Missed>) -> EventView {
        EventView {
            id: (!sent.is_empty()).then(|| "evt_1".into()),
            code: "order.created".into(),
            at: at_second(1_800_000_000),
            is_test: false,
            sent,
            missed: Some(missed),
            more: 0,
            others: 3,
        }
    }

    pub(super) fn chain(events: Vec<EventView>) -> Chain {
        let order = OrderView {
            id: "W1".into(),
            order_type: "Court",
            status: "Draft",
            saved_at: at_second(1_800_000_000),
            exported_at: None,
            work_orders: Vec::new(),
        };
        Chain {
            kind: TraceKind::WebOrder,
            id: "W1".into(),
            customer: "C-1".into(),
            order: Some(order),
            work_order: None,
            invoices: Vec::new(),
            events,
            more: false,
            webhooks: Vec::new(),
            unserved: 0,
        }
    }

    pub(super) fn said(events: Vec<EventView>) -> String {
        headline(&chain(events), frame().now).0
    }

    #[test]
    fn step_leads_to_the_delivery_and_the_page_not_to_itself() {
        let failed = sent("a/1", Status::DeadLetter);
        let id = failed.latest.id.clone();
        let text = page(
            &frame(),
            "W1",
            &Answer::Chain(Box::new(chain(vec![event(vec![failed], Vec::new())]))),
            true,
        );
        assert!(
            text.contains(&format!(
                "<a href=\"/portal/logs/{id}\"><strong>a/1</strong> <span class=\"badge bad\">"
            )),
            "{text}"
        );
        assert!(!text.contains("q=W1&amp;kind=web-order"), "{text}");
        assert!(text.contains("<code>evt_1</code> <button"), "{text}");
    }

    #[test]
    fn invoice_that_is_not_published_says_what_it_waits_for() {
        let of = |has_work_order| {
            let invoice = InvoiceView {
                family: "Court",
                work_order: "<i>WO1".into(),
                has_work_order,
                added_at: at_second(1_800_000_000),
                detected_at: None,
            };
            let chain =
                Chain { invoices: vec![invoice], order: None, kind: TraceKind::Invoice, ..chain(Vec::new()) };
            page(&frame(), "W1", &Answer::Chain(Box::new(chain)), true)
        };
        assert!(of(true).contains("Docket looks for new invoices every minute"));
        let waits = of(false);
        assert!(waits.contains("it waits for work order &lt;i&gt;WO1, which does not exist"), "{waits}");
    }

    #[test]
    fn chain_shows_each_webhook_and_escapes_all_texts() {
        let held = Missed {
            webhook: Some("a/<u>held".into()),
            reasons: vec![WhyNot::NotServed],
            faults: vec!["spec.x: <s>wrong".into()],
            added_at: None,
        };
        let events =
            vec![event(vec![sent("a/1", Status::Failed)], vec![held, missed("a/off", WhyNot::Inactive)])];
        let text = page(&frame(), "<q>", &Answer::Chain(Box::new(chain(events.clone()))), true);
        for part in [
            "Tried again",
            "&lt;b&gt;boom",
            "a/off</strong><span class=\"quiet\"> did not get it: it is inactive now.",
            "a/&lt;u&gt;held",
            "spec.x: &lt;s&gt;wrong",
            "3 webhooks of other customers do not get it.",
            "name=\"q\" value=\"&lt;q&gt;\"",
            "/portal/logs?webOrderId=W1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for raw in ["<b>boom", "<u>", "<s>", "<q>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
        let contact = Frame { role: Role::Contact("One".into()), ..frame() };
        let text = page(&contact, "W1", &Answer::Chain(Box::new(chain(events))), true);
        for hidden in ["held", "other customers", "a/off"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        assert!(text.contains("Ask the administrators of Acme."), "{text}");
    }

    #[test]
    fn event_that_is_not_recorded_is_said_to_be_missing() {
        let text =
            page(&frame(), "W1", &Answer::Chain(Box::new(chain(vec![event(Vec::new(), Vec::new())]))), true);
        assert!(text.contains("No <strong>order.created</strong> is recorded"), "{text}");
        assert!(text.contains("an event that is not recorded cannot be sent later"), "{text}");
        assert!(text.contains("The customer has no webhook now."), "{text}");
        assert!(text.contains("The reasons are about the webhooks as they are now."), "{text}");
    }

    #[test]
    fn text_that_names_several_things_or_nothing_leads_on() {
        let named = |kind, id: &str| Named { kind, id: id.into(), about: "<i>C-1".into() };
        let both = vec![named(TraceKind::Invoice, "7&1"), named(TraceKind::WorkOrder, "7")];
        let several = page(&frame(), "7", &Answer::Several(both.clone()), true);
        assert!(
            several.contains("href=\"/portal/trace?q=7%261&amp;kind=invoice\">invoice 7&amp;1</a>"),
            "{several}"
        );
        let newest = Some("W<i>9".to_owned());
        let nothing = page(&frame(), "<b>", &Answer::Nothing { near: both, newest }, true);
        assert!(
            nothing.contains("Did you mean") && nothing.contains("Nothing was found for “&lt;b&gt;”"),
            "{nothing}"
        );
        assert!(!several.contains("<i>") && !nothing.contains("<b>") && !nothing.contains("<i>"));
        assert!(nothing.contains(">W&lt;i&gt;9</a>.</p>"), "{nothing}");
        assert!(page(&frame(), "", &Answer::Unasked, true).contains("What the box takes"));
        assert!(
            page(&frame(), "x", &Answer::TooLong(100), true)
                .contains("<title>Error: enter at most 100 characters")
        );
    }
}
