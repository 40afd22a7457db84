//! Why did it not arrive? What an order, an invoice, an event or a delivery has caused, and why webhooks have nothing of it.

use std::collections::BTreeSet;

use docket_crds::EventCode;
use docket_domain::delivery::{MAX_ATTEMPTS, Status};
use docket_domain::trace::{TraceKind, WhyNot};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::declared::whom_to_ask;
use crate::logs::{self, Delivery, link, remedy};
use crate::page::{self, Frame, NEW_WEBHOOK, Section, TRACE};
use crate::parts::{self, Head, Tone};
use crate::time::at;
use crate::{counted, href};

/// The age from which the events of an order may have been deleted, because their deliveries ended long ago.
const OLD: SignedDuration = SignedDuration::from_hours(24);

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
    /// When it was saved first.
    pub saved_at: Timestamp,
    /// When it was exported.
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
    /// Whether its work order exists.
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
    /// When it was published, or what it reports happened.
    pub at: Timestamp,
    /// Whether it was published to test a webhook.
    pub is_test: bool,
    /// The webhooks that have deliveries of it.
    pub sent: Vec<Sent>,
    /// The webhooks of the customer that have none; `None`: they are not known.
    pub missed: Option<Vec<Missed>>,
    /// The number of further webhooks of the customer that have none.
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
            let main = chain_page(frame, chain, (&title, when), can_add);
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

/// What the box takes.
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

/// The answer about a customer.
fn of_customer(CustomerAnswer { name, webhooks, unserved, .. }: &CustomerAnswer) -> String {
    let inactive = webhooks.iter().filter(|webhook| !webhook.active).count();
    let mut parts = Vec::new();
    for (count, state) in
        [(webhooks.len() - inactive, "active"), (inactive, "inactive"), (*unserved, "unserved")]
    {
        parts.extend((count > 0).then(|| counted(count as i64, &format!("{state} webhook"))));
    }
    let parts = if parts.is_empty() { "no webhook".to_owned() } else { parts.join(" and ") };
    let then = if webhooks.len() == inactive { ", so nothing is sent" } else { "" };
    format!("{name} has {parts}{then}")
}

fn customer_page(frame: &Frame, customer: &CustomerAnswer, can_add: bool) -> Markup {
    let CustomerAnswer { code, orders, webhooks, unserved, .. } = customer;
    let filter = if frame.is_of_tenant() { code.as_str() } else { "" };
    let logs = href(Section::Logs.path(), [("customerCode", filter)]);
    let rows = html! {
        @for (id, status, saved_at) in orders {
            tr {
                th scope="row" { a href=(trace_link(TraceKind::WebOrder, id)) { (id) } }
                td { (status) }
                td { (at(*saved_at)) }
            }
        }
    };
    let orders = match orders.is_empty() {
        true => parts::nothing("No order yet", &html! { p { "What the customer saves is listed here." } }),
        false => parts::table("Newest orders", &[("Order", ""), ("Status", ""), ("Saved", "")], &rows),
    };
    let actions = html! { a.button href=(logs) { "Its deliveries" } };
    html! {
        (parts::head(&Head {
            title: html! { (of_customer(customer)) },
            below: Some(html! { "Customer " (code) }),
            actions: Some(actions),
            ..Head::default()
        }))
        (webhooks_card(frame, webhooks, &none(frame, code, *unserved, can_add)))
        (parts::card("orders", "Newest orders", &html! { span.small.quiet { "at most 10" } }, &orders))
    }
}

/// What is there instead of the webhooks of a customer, of which none is served.
fn none(frame: &Frame, customer: &str, unserved: usize, can_add: bool) -> Markup {
    let what = match unserved {
        0 => "No webhook exists for this customer".to_owned(),
        1 => "The webhook of this customer has a mistake in its settings".to_owned(),
        more => format!("The {more} webhooks of this customer have mistakes in their settings"),
    };
    // A contact's webhooks are always of its own customer.
    let code = if frame.is_of_tenant() { customer } else { "" };
    let why = html! {
        p { "A webhook gets only events that happen after it was added. Earlier events cannot be sent to it." }
        @if unserved > 0 {
            p { a.button href=(Section::Webhooks.path()) { "See what is wrong" } }
        } @else if can_add {
            p {
                a.button.primary href=(href(NEW_WEBHOOK, [("customerCode", code)])) {
                    "Add a webhook" @if !code.is_empty() { " for " (code) }
                }
            }
        } @else if frame.is_of_tenant() {
            p { "Ask the people who run Docket to add a webhook for " (customer) "." }
        } @else {
            p { "Ask the administrators of " (frame.tenant) " to add a webhook." }
        }
    };
    parts::nothing(&what, &why)
}

/// The webhooks of a customer; `none`: what is there if none is served.
fn webhooks_card(frame: &Frame, webhooks: &[CustomerWebhook], none: &Markup) -> Markup {
    let rows = html! {
        @for CustomerWebhook { full_name, active, takes } in webhooks {
            tr {
                th scope="row" { (frame.webhook(full_name)) }
                td { @if *active { (parts::badge(Tone::Good, "Active")) } @else { (parts::badge(Tone::Mute, "Inactive")) } }
                td { div.long tabindex="0" {
                    @for (place, code) in takes.iter().enumerate() { @if place > 0 { ", " } (code.as_str()) }
                    @if takes.is_empty() { "no event that is switched on" }
                } }
                td.wider { a href=(href(Section::Logs.path(), [("webhook", full_name.as_str())])) { "Its deliveries" } }
            }
        }
    };
    let heads = [("Webhook", ""), ("State", ""), ("Gets", ""), ("Log", "wider")];
    let body = match webhooks.is_empty() {
        true => none.clone(),
        false => parts::table("Webhooks of the customer", &heads, &rows),
    };
    parts::card("webhooks", "Webhooks of the customer now", &html! {}, &body)
}

/// The answer in one sentence, and when it happened.
fn headline(chain: &Chain, now: Timestamp) -> (String, Option<Timestamp>) {
    let what = match chain.kind {
        TraceKind::Event | TraceKind::Delivery => "The event".to_owned(),
        TraceKind::WebOrder | TraceKind::WorkOrder | TraceKind::Invoice | TraceKind::Customer => {
            format!("{} {}", capitalized(chain.kind.name()), chain.id)
        }
    };
    let all: Vec<&Delivery> =
        chain.events.iter().flat_map(|event| &event.sent).map(|sent| &sent.latest).collect();
    if all.is_empty() {
        return (unsent(chain, now), None);
    }
    let with = |status: Status| all.iter().filter(move |one| one.status == status);
    let names: BTreeSet<&str> = all.iter().map(|one| one.webhook.as_str()).collect();
    let late: BTreeSet<&str> =
        all.iter().filter(|one| one.status != Status::Succeeded).map(|one| one.webhook.as_str()).collect();
    let missed: BTreeSet<&str> = chain
        .events
        .iter()
        .flat_map(|event| event.missed.iter().flatten())
        .filter(|missed| missed.added_at.is_none())
        .filter_map(|missed| missed.webhook.as_deref())
        .filter(|name| !names.contains(name))
        .collect();
    let more = chain.events.iter().map(|event| event.more).max().unwrap_or_default();
    let (total, reached) = (names.len() + missed.len() + more, names.len() - late.len());
    let lost = with(Status::DeadLetter).filter(|one| one.set_aside.is_none()).count();
    let (retried, waiting) = (with(Status::Failed).count(), with(Status::Pending).count());
    let mut rest = Vec::new();
    for (count, then) in [(lost, "lost"), (retried, "tried again"), (waiting, "waiting")] {
        let are = if count == 1 { "delivery is" } else { "deliveries are" };
        rest.extend((count > 0).then(|| format!("{count} {are} {then}")));
    }
    let rest = if rest.is_empty() { String::new() } else { format!(": {}", rest.join(", ")) };
    match (&all[..], reached, total) {
        ([one], 1, 1) => (format!("{what} was delivered"), one.finished_at),
        (_, 1, 1) => (format!("{what} reached its webhook"), None),
        (_, reached, total) if reached == total => (format!("{what} reached all {total} webhooks"), None),
        (_, 0, 1) => (format!("{what} did not reach its webhook{rest}"), None),
        (_, reached, total) => (format!("{what} reached {reached} of {total} webhooks{rest}"), None),
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The answer if there is no delivery.
fn unsent(chain: &Chain, now: Timestamp) -> String {
    let what = format!("{} {}", chain.kind.name(), chain.id);
    if let Some(new) = chain.invoices.iter().find(|invoice| invoice.detected_at.is_none()) {
        return match new.has_work_order {
            true => format!("Nothing was sent for {what} yet: Docket has not seen the invoice yet"),
            false => format!(
                "Nothing was sent for {what}: it waits for work order {}, which does not exist",
                new.work_order
            ),
        };
    }
    let Some(event) = chain.events.first() else {
        return format!("Nothing was sent for {what}: nothing has happened that is an event");
    };
    let is_old = now.duration_since(event.at) > OLD;
    let nothing = if is_old { "No delivery is recorded" } else { "Nothing was sent" };
    format!("{nothing} for {what}: {}", why(event))
}

/// Why no webhook has a delivery of an event: the reasons that all webhooks have.
fn why(event: &EventView) -> String {
    let code = &event.code;
    let Some(all) = &event.missed else { return "the reason is not known".to_owned() };
    let missed: Vec<&Missed> = all.iter().filter(|missed| missed.added_at.is_none()).collect();
    let webhooks = match missed.len() + event.more {
        0 if !all.is_empty() => return "its customer had no webhook yet".to_owned(),
        0 => return "its customer has no webhook now".to_owned(),
        1 => "its customer's webhook".to_owned(),
        count => format!("its customer's {count} webhooks"),
    };
    let is_one = missed.len() + event.more == 1;
    let verb = |one: &'static str, many: &'static str| if is_one { one } else { many };
    // What concerns the whole tenant, and what the webhooks have done.
    let (mut of_tenant, mut own) = (Vec::new(), Vec::new());
    let is_common = |reason: &&WhyNot| missed.iter().all(|missed| missed.reasons.contains(reason));
    for reason in missed.first().into_iter().flat_map(|first| &first.reasons).filter(is_common) {
        match reason {
            WhyNot::Inactive => own.push(format!("{} inactive now", verb("is", "are"))),
            WhyNot::NotServed => own.push(format!(
                "{} settings with a mistake and {} not served",
                verb("has", "have"),
                verb("is", "are")
            )),
            WhyNot::NotSubscribed => {
                own.push(format!("{} not subscribe to {code} now", verb("does", "do")));
            }
            WhyNot::EventOff => of_tenant.push(format!("{code} is switched off for the tenant now")),
            WhyNot::TenantSuspended => of_tenant.push("the tenant is suspended".to_owned()),
            WhyNot::ChangedSince => of_tenant.push("no webhook got it at that time".to_owned()),
            WhyNot::Unreadable => of_tenant.push("it may have webhooks that are not served".to_owned()),
            WhyNot::OtherCustomer | WhyNot::TestOfAnother => {}
        }
    }
    if !own.is_empty() {
        of_tenant.push(format!("{webhooks} {}", own.join(" and ")));
    }
    if of_tenant.is_empty() { format!("none of {webhooks} got it") } else { of_tenant.join(", and ") }
}

/// The page about a chain. `answer`: the answer in one sentence, and when it happened.
fn chain_page(
    frame: &Frame,
    chain: &Chain,
    (answer, when): (&str, Option<Timestamp>),
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
    // What the page is about does not lead to the same page.
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
    use crate::logs::tests::{delivery, frame};
    use crate::page::Role;

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn missed(name: &str, reason: WhyNot) -> Missed {
        Missed { webhook: Some(name.into()), reasons: vec![reason], faults: Vec::new(), added_at: None }
    }

    fn sent(webhook: &str, status: Status) -> Sent {
        let finished_at = status.is_final().then(|| at_second(1_800_000_060));
        let latest = Delivery { webhook: webhook.into(), status, finished_at, ..delivery() };
        Sent { latest, earlier: 0, said: Some("<b>boom".into()) }
    }

    fn event(sent: Vec<Sent>, missed: Vec<Missed>) -> EventView {
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

    fn chain(events: Vec<EventView>) -> Chain {
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

    fn said(events: Vec<EventView>) -> String {
        headline(&chain(events), frame().now).0
    }

    #[test]
    fn headline_says_what_became_of_an_order() {
        use Status::{DeadLetter, Failed, Pending, Succeeded};
        let off = || vec![missed("a/off", WhyNot::Inactive)];
        for (sent, missed, expected) in [
            (vec![sent("a/1", Succeeded)], Vec::new(), "Web order W1 was delivered"),
            (vec![sent("a/1", Succeeded)], off(), "Web order W1 reached 1 of 2 webhooks"),
            (
                vec![sent("a/1", Succeeded), sent("a/2", Succeeded)],
                Vec::new(),
                "Web order W1 reached all 2 webhooks",
            ),
            (
                vec![sent("a/1", DeadLetter)],
                Vec::new(),
                "Web order W1 did not reach its webhook: 1 delivery is lost",
            ),
            (
                vec![sent("a/1", Failed), sent("a/2", Failed), sent("a/3", Pending)],
                Vec::new(),
                "Web order W1 reached 0 of 3 webhooks: 2 deliveries are tried again, 1 delivery is waiting",
            ),
        ] {
            assert_eq!(said(vec![event(sent, missed)]), expected);
        }
        let twice = || event(vec![sent("a/1", Succeeded)], Vec::new());
        assert_eq!(said(vec![twice(), twice()]), "Web order W1 reached its webhook");
        let (_, when) = headline(&chain(vec![twice()]), frame().now);
        assert_eq!(when, Some(at_second(1_800_000_060)));
    }

    #[test]
    fn headline_says_why_nothing_was_sent() {
        let all = |reasons: &[WhyNot]| {
            let missed = reasons.iter().map(|reason| missed("a/x", *reason)).collect();
            said(vec![event(Vec::new(), missed)])
        };
        for (reasons, expected) in [
            (&[][..], "its customer has no webhook now"),
            (&[WhyNot::Inactive], "its customer's webhook is inactive now"),
            (&[WhyNot::Inactive; 2], "its customer's 2 webhooks are inactive now"),
            (&[WhyNot::NotServed], "its customer's webhook has settings with a mistake and is not served"),
            (&[WhyNot::NotSubscribed], "its customer's webhook does not subscribe to order.created now"),
            (&[WhyNot::EventOff; 2], "order.created is switched off for the tenant now"),
            (&[WhyNot::ChangedSince], "no webhook got it at that time"),
            (&[WhyNot::Inactive, WhyNot::NotServed], "none of its customer's 2 webhooks got it"),
        ] {
            assert_eq!(all(reasons), format!("Nothing was sent for web order W1: {expected}"));
        }
        let old = EventView { at: at_second(1_700_000_000), ..event(Vec::new(), Vec::new()) };
        assert_eq!(
            said(vec![old]),
            "No delivery is recorded for web order W1: its customer has no webhook now",
            "its deliveries may have been deleted"
        );
        assert!(said(Vec::new()).ends_with("nothing has happened that is an event"));
    }

    #[test]
    fn headline_names_all_reasons_that_all_webhooks_have() {
        use WhyNot::{EventOff, Inactive, NotSubscribed};
        let all = |of: &[&[WhyNot]]| {
            let missed =
                |reasons: &&[WhyNot]| Missed { reasons: reasons.to_vec(), ..missed("a/x", reasons[0]) };
            said(vec![event(Vec::new(), of.iter().map(missed).collect())])
        };
        for (of, expected) in [
            (
                &[&[Inactive, NotSubscribed][..]][..],
                "its customer's webhook is inactive now and does not subscribe to order.created now",
            ),
            (
                &[&[EventOff, Inactive]],
                "order.created is switched off for the tenant now, and its customer's webhook is inactive now",
            ),
            (
                &[&[Inactive, NotSubscribed], &[NotSubscribed]],
                "its customer's 2 webhooks do not subscribe to order.created now",
            ),
        ] {
            assert_eq!(all(of), format!("Nothing was sent for web order W1: {expected}"));
        }
    }

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
    fn customer_without_a_webhook_can_be_given_one() {
        let of = |frame: &Frame, unserved, can_add| none(frame, "C&1", unserved, can_add).into_string();
        let text = of(&frame(), 0, true);
        assert!(
            text.contains("href=\"/portal/webhooks/new?customerCode=C%261\">Add a webhook for C&amp;1</a>"),
            "{text}"
        );
        assert!(
            of(&frame(), 0, false).contains("Ask the people who run Docket to add a webhook for C&amp;1.")
        );
        let held = of(&frame(), 1, true);
        assert!(held.contains("has a mistake in its settings") && !held.contains("/new"), "{held}");
        let contact = Frame { role: Role::Contact("One".into()), ..frame() };
        assert!(of(&contact, 0, true).contains("href=\"/portal/webhooks/new\">Add a webhook</a>"));
        assert!(of(&contact, 0, false).contains("Ask the administrators of Acme to add a webhook."));
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

    #[test]
    fn answer_about_a_customer_counts_its_webhooks() {
        let of = |active: &[bool], unserved| {
            let webhook = |active: &bool| CustomerWebhook {
                full_name: "a/x".into(),
                active: *active,
                takes: vec![EventCode::OrderCreated],
            };
            let webhooks = active.iter().map(webhook).collect();
            let (code, name, orders) = ("C-1".into(), "One".into(), Vec::new());
            of_customer(&CustomerAnswer { code, name, webhooks, unserved, orders })
        };
        assert_eq!(of(&[], 0), "One has no webhook, so nothing is sent");
        assert_eq!(of(&[], 1), "One has 1 unserved webhook, so nothing is sent");
        assert_eq!(of(&[false], 0), "One has 1 inactive webhook, so nothing is sent");
        assert_eq!(
            of(&[true, false], 2),
            "One has 1 active webhook and 1 inactive webhook and 2 unserved webhooks"
        );
        assert_eq!(of(&[true, true], 0), "One has 2 active webhooks");
    }
}
