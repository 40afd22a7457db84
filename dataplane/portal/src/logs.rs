//! Webhook Logs: a page of deliveries, and the filters that chose them.

use std::collections::BTreeMap;

use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, DeliveryKind, FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::field::{self, CHECK, Form, Wrong};
pub use crate::filters::Filters;
use crate::happened::{label, outcome};
use crate::href;
use crate::page;
use crate::page::{Frame, Section};
use crate::parts::{self, Head, Tone};
use crate::period::Range;
use crate::time::{at, duration};

docket_crds::words! {
    /// What became of a delivery, as the form names it.
    pub enum Became {
        /// Succeeded.
        Delivered,
        /// Pending: no attempt has ended.
        Waiting,
        /// Failed, or a dead letter: the last attempt failed.
        Failed = "Failed (all)",
        /// Failed: another attempt follows.
        TriedAgain = "Tried again",
        /// A dead letter that counts.
        Lost,
        /// A dead letter that was resent.
        Resent,
        /// A dead letter that was set aside.
        SetAside = "Set aside",
        /// A dead letter, whether it counts or not.
        DeadLetter = "Lost, resent or set aside",
    }
}

impl Became {
    /// The parameter of `/WebhookLogs/Search` that finds these deliveries, and its value; `None`: it has no such parameter.
    pub const fn parameter(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Delivered => ("status", Status::Succeeded.as_str()),
            Self::Waiting => ("status", Status::Pending.as_str()),
            Self::Failed => return None,
            Self::TriedAgain => ("status", Status::Failed.as_str()),
            Self::DeadLetter => ("status", Status::DeadLetter.as_str()),
            Self::Lost => ("deadLetter", DeadLetter::Open.as_str()),
            Self::Resent => ("deadLetter", DeadLetter::Resent.as_str()),
            Self::SetAside => ("deadLetter", DeadLetter::SetAside.as_str()),
        })
    }
}

/// The choice of the day that began at 00:00 UTC, beside the periods that end now.
pub const TODAY: &str = "today";

/// A delivery in the list.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The delivery's id.
    pub id: String,
    /// The code of the event; empty if another program has stored an invalid code.
    pub event: String,
    /// The customer that the event is about.
    pub customer_code: String,
    /// The web order, work order or invoice that the event is about, each with its kind.
    pub about: Vec<(&'static str, String)>,
    /// The webhook's namespace/name.
    pub webhook: String,
    /// The status.
    pub status: Status,
    /// The number of attempts so far.
    pub attempts: i64,
    /// How long the last attempt took, in microseconds; `None`: none has ended, or it is not known here.
    pub took: Option<i64>,
    /// How the last attempt failed.
    pub failure: Option<FailureClass>,
    /// The cause of the failure, if it is known.
    pub cause: Option<Cause>,
    /// The detail of the cause, or the Location of a redirect.
    pub detail: Option<String>,
    /// The HTTP status of the receiver's last response.
    pub http_status: Option<i64>,
    /// When the delivery was queued.
    pub created_at: Timestamp,
    /// When the next attempt is due, unless the status is final.
    pub next_attempt_at: Option<Timestamp>,
    /// What the delivery waits for if its next attempt is due: a text that completes "waits for".
    pub waits_for: Option<String>,
    /// When the delivery ended.
    pub finished_at: Option<Timestamp>,
    /// The delivery that this delivery resends.
    pub resend_of: Option<String>,
    /// Who asked for the resend or the test.
    pub requested_by: Option<String>,
    /// Whether the delivery's event was published to test the webhook.
    pub is_test: bool,
    /// Whether the dead letter was resent, so that it does not count any more.
    pub resent: bool,
    /// Who set the dead letter aside, and when.
    pub set_aside: Option<(String, Timestamp)>,
}

/// A page of the log.
#[derive(Debug, Clone)]
pub struct Log {
    /// The filters, as the form or a link has sent them.
    pub filters: Filters,
    /// The filters that are wrong, each with what would be right. If there are any, nothing is searched.
    pub wrong: Vec<(String, String)>,
    /// The codes of the customers to choose from; empty: the user sees only one customer.
    pub customers: Vec<String>,
    /// The names of customers, by code. A customer without a name is shown by its code.
    pub customer_names: BTreeMap<String, String>,
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
    /// The number of lost deliveries of the webhook, if the filters choose exactly these and they can be resent.
    pub lost: Option<i64>,
}

/// The page.
pub fn page(frame: &Frame, log: &Log) -> String {
    let Log { filters, wrong, deliveries, next, .. } = log;
    let is_right = wrong.is_empty();
    let (values, wrong) = (values(filters), by_field(wrong));
    let fields = Form { sent: &values, wrong: Wrong(&wrong) };
    let head = Head {
        title: html! { "Webhook Logs" },
        below: Some(html! { "Every delivery and what became of it, newest first. Days begin at 00:00 UTC." }),
        actions: is_right.then(|| page::live(false)),
        ..Head::default()
    };
    let main = html! {
        (parts::head(&head))
        (fields.wrong.summary(CHECK, &FIELDS.map(|(name, label, _)| (name, label))))
        @if !filters.value("resendId").is_empty() { p.quiet { "Only the deliveries that one resend has queued." } }
        (form(frame, log, fields))
        div.stack data-live {
            @if is_right {
                @if deliveries.is_empty() {
                    section.card aria-label="Deliveries" { (empty(filters, next.is_some())) }
                } @else {
                    (parts::card("found", &found(log), &resend(log), &table(frame, log)))
                }
            }
            @let is_older = !filters.value("cursor").is_empty();
            @if is_older || next.is_some() {
                nav.row aria-label="Pages" {
                    @if is_older { a.button href=(filters.at(Section::Logs, "")) { "Newest" } }
                    @if let Some(next) = next { a.button href=(filters.at(Section::Logs, next)) rel="next" { "Older" } }
                }
            }
        }
    };
    page::page(frame, Section::Logs, &fields.wrong.titled("Webhook Logs"), &main)
}

/// How many deliveries there are, as far as the page knows it.
fn found(Log { filters, deliveries, next, lost, .. }: &Log) -> String {
    let (count, is_older) = (deliveries.len(), !filters.value("cursor").is_empty());
    let many = |count: i64| match count {
        1 => "1 delivery".to_owned(),
        count => format!("{} deliveries", crate::count(count)),
    };
    let shown = many(count as i64);
    match (*lost, is_older, next.is_some()) {
        (Some(1), ..) => "1 delivery is lost".to_owned(),
        (Some(lost), ..) => format!("{} are lost", many(lost)),
        (None, true, _) => format!("{shown}, older ones"),
        (None, false, true) => format!("The newest {shown}"),
        (None, false, false) => shown,
    }
}

/// A link to the preview of the resend of all that is shown, if it can be resent.
fn resend(Log { filters, lost, .. }: &Log) -> Markup {
    let webhook = filters.value("webhook");
    html! {
        @if let Some(lost) = lost {
            a.button.primary href=(href(Section::Resends.path(), [("webhook", webhook)])) {
                @if *lost == 1 { "Resend it…" } @else { "Resend these " (crate::count(*lost)) "…" }
            }
        }
    }
}

fn empty(filters: &Filters, more: bool) -> Markup {
    let clear = html! { p { a.button href=(Section::Logs.path()) { "Clear the filters" } } };
    if more {
        let why =
            html! { p { "The search ended after half a second. Press Older to continue where it ended." } };
        return parts::nothing("Nothing was found so far", &why);
    }
    if filters.is_any() {
        let why = html! {
            p { "A delivery is made when an event is published, for each active webhook of its customer that subscribes to the event." }
            (clear)
        };
        return parts::nothing("No delivery matches", &why);
    }
    let why = html! {
        p { "One is queued for each event that an active webhook subscribes to, such as a saved order." }
        p { a.button href=(Section::Webhooks.path()) { "See the webhooks" } }
    };
    parts::nothing("No delivery yet", &why)
}

/// The fields of the form: name and label, with the parameters that a field stands for.
const FIELDS: [(&str, &str, &[&str]); 11] = [
    ("find", "Find", &["find", "webOrderId", "workOrder", "invoiceNumber", "eventId", "deliveryId"]),
    ("webhook", "Webhook", &["webhook"]),
    ("customerCode", "Customer", &["customerCode"]),
    ("result", "Result", &["result", "status", "deadLetter"]),
    ("last", "When", &["last"]),
    ("httpStatus", "HTTP status", &["httpStatus"]),
    ("event", "Event", &["event"]),
    ("kind", "Kind", &["kind"]),
    ("failureClass", "Failure", &["failureClass"]),
    ("from", "From", &["from"]),
    ("to", "Before", &["to"]),
];
/// The fields that only a narrow window folds, and the fields that every window folds.
const FOLDED: [&str; 5] = ["webhook", "customerCode", "result", "last", "httpStatus"];
const MORE: [&str; 5] = ["event", "kind", "failureClass", "from", "to"];

/// The values of the form's fields. A field stands for several parameters, and shows the first of them that has a value.
fn values(filters: &Filters) -> Filters {
    let value = |(name, _, parameters): (&str, &str, &[&str])| {
        let mut values = parameters.iter().map(|parameter| filters.value(parameter));
        Some((name.to_owned(), values.find(|value| !value.is_empty())?.to_owned()))
    };
    let mut values = Filters(FIELDS.into_iter().filter_map(value).collect());
    let became = Became::ALL.into_iter().find(|became| {
        became.parameter().is_some_and(|(parameter, value)| filters.value(parameter) == value)
    });
    if let (Some(became), Some((_, value))) = (became, values.0.iter_mut().find(|(name, _)| name == "result"))
    {
        became.as_str().clone_into(value);
    }
    values
}

/// What is wrong, by the fields of the form.
fn by_field(wrong: &[(String, String)]) -> Vec<(String, String)> {
    let name_of = |parameter: &str| {
        let field = FIELDS.into_iter().find(|(.., parameters)| parameters.contains(&parameter));
        field.map_or(parameter, |(name, ..)| name).to_owned()
    };
    wrong.iter().map(|(parameter, what)| (name_of(parameter), what.clone())).collect()
}

fn form(frame: &Frame, log: &Log, form: Form<'_>) -> Markup {
    let is_used = |names: &[&str]| {
        names.iter().any(|name| !form.value(name).is_empty() || form.wrong.invalid(name).is_some())
    };
    let choice = |name: &str, any: &str, options: &[(&str, &str)]| {
        let label = FIELDS.iter().find(|(field, ..)| *field == name).map_or("", |(_, label, _)| *label);
        let chosen = form.value(name);
        // A link may choose what the list does not have.
        let is_other = !chosen.is_empty() && options.iter().all(|(value, _)| *value != chosen);
        let all = options.iter().copied().chain(is_other.then_some((chosen, chosen)));
        form.select(label, name, false, &field::options(any, all, chosen))
    };
    let webhooks = webhooks(frame, form.value("webhook"));
    let webhooks: Vec<(&str, &str)> =
        webhooks.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let customers = customers(log);
    let customers: Vec<(&str, &str)> =
        customers.iter().map(|(code, text)| (code.as_str(), text.as_str())).collect();
    let periods = Range::ALL.into_iter().map(|range| (range.as_str(), range.choice()));
    let periods: Vec<(&str, &str)> = std::iter::once((TODAY, "Today (UTC)")).chain(periods).collect();
    let kinds = DeliveryKind::ALL.map(|kind| (kind.as_str(), kind_text(kind)));
    let failures = FailureClass::ALL.map(|class| (class.as_str(), label(class)));
    html! {
        form.card method="get" action=(Section::Logs.path()) role="search" {
            div.filters {
                (form.text("Find", "find", "Order, invoice, event or delivery id"))
            }
            details.narrow open[is_used(&FOLDED)] {
                summary { "Filters" }
                div.filters {
                    (choice("webhook", "All webhooks", &webhooks))
                    @if !customers.is_empty() { (choice("customerCode", "All customers", &customers)) }
                    (choice("result", "Any result", &Became::WORDS.map(|word| (word, word))))
                    (choice("last", "Any time", &periods))
                    (form.text("HTTP status", "httpStatus", "503 or 5xx"))
                }
            }
            details open[is_used(&MORE)] {
                summary { "More filters" }
                div.filters {
                    (choice("event", "Any event", &EventCode::WORDS.map(|word| (word, word))))
                    (choice("kind", "Any kind", &kinds))
                    (choice("failureClass", "Any failure", &failures))
                    (form.date("From", "from"))
                    (form.date("Before", "to"))
                }
            }
            div.in {
                div.row {
                    button.primary type="submit" { "Search" }
                    a href=(Section::Logs.path()) { "Clear" }
                }
            }
            // What the form has no field for stays.
            @for name in ["resendId", "pageSize"] {
                @let value = log.filters.value(name);
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
        }
    }
}

/// The webhooks to choose from: `namespace/name`, and the name for people; with both if two webhooks have one name. A link may have
/// `chosen` a webhook that is not served any more.
pub(crate) fn webhooks(frame: &Frame, chosen: &str) -> Vec<(String, String)> {
    let text = |webhook: &page::WebhookName| {
        let is_one = frame.webhooks.iter().filter(|other| other.name == webhook.name).count() == 1;
        if is_one { webhook.name.clone() } else { format!("{} ({})", webhook.name, webhook.full_name) }
    };
    let is_other = !chosen.is_empty() && frame.webhooks.iter().all(|webhook| webhook.full_name != chosen);
    let other = is_other.then(|| (chosen.to_owned(), frame.last_name(chosen)));
    let served = frame.webhooks.iter().map(|webhook| (webhook.full_name.clone(), text(webhook)));
    served.chain(other).collect()
}

/// The customers to choose from, by name: the code, and the name with the code.
fn customers(log: &Log) -> Vec<(String, String)> {
    let text = |code: &String| match log.customer_names.get(code).filter(|name| *name != code) {
        Some(name) => format!("{name} ({code})"),
        None => code.clone(),
    };
    let mut customers: Vec<_> = log.customers.iter().map(|code| (code.clone(), text(code))).collect();
    customers.sort_by_cached_key(|(_, text)| text.to_lowercase());
    customers
}

const fn kind_text(kind: DeliveryKind) -> &'static str {
    match kind {
        DeliveryKind::First => "Neither test nor resend",
        DeliveryKind::Resend => "Resends",
        DeliveryKind::Test => "Tests",
    }
}

fn table(frame: &Frame, log: &Log) -> Markup {
    let heads = [
        ("When", ""),
        ("Result", ""),
        ("About", ""),
        ("Event", ""),
        ("Webhook", ""),
        ("Customer", "wider"),
        ("Took", "num wider"),
        ("Attempts", "num wider"),
    ];
    let rows = html! {
        @for delivery in &log.deliveries {
            @let customer = delivery.customer_code.as_str();
            tr {
                td { a href=(link(&delivery.id)) { (at(delivery.created_at)) } }
                td.wrap {
                    (badge(delivery)) " " span.beside { (delivery.ended_as()) } (marks(delivery))
                    @if delivery.next_attempt_at.is_some() { small { "next attempt " (next(delivery)) } }
                }
                td { (numbers(&delivery.about)) }
                td { (delivery.event.as_str()) }
                td.wrap { (frame.webhook(&delivery.webhook)) }
                td.wrap.wider { (parts::customer(log.customer_names.get(customer).map_or(customer, String::as_str), customer)) }
                td.num.wider { (duration(delivery.took)) }
                td.num.wider { (delivery.attempts) " of 5" }
            }
        }
    };
    parts::table("Deliveries, newest first", &heads, &rows)
}

/// The numbers of what the delivery is about, with their kinds as the title.
fn numbers(about: &[(&'static str, String)]) -> Markup {
    let all: Vec<&str> = about.iter().map(|(_, number)| number.as_str()).collect();
    let kinds: Vec<String> = about.iter().map(|(kind, number)| format!("{kind} {number}")).collect();
    html! { span title=(kinds.join(", ")) { (all.join(", ")) } }
}

/// When the next attempt is due, or what it waits for.
pub(crate) fn next(delivery: &Delivery) -> Markup {
    html! {
        @match (delivery.next_attempt_at, &delivery.waits_for) {
            (None, _) => { "–" }
            (Some(_), Some(what)) => { "due, waits for " (what) }
            (Some(due), None) => { (at(due)) }
        }
    }
}

/// The path of a delivery's page.
pub fn link(id: &str) -> String {
    format!("{}/{id}", Section::Logs.path())
}

/// What became of a delivery, as a badge.
pub(crate) fn badge(delivery: &Delivery) -> Markup {
    let (tone, words) = delivery.became();
    parts::badge(tone, words)
}

/// The marks of a test and of a resend.
pub(crate) fn marks(delivery: &Delivery) -> Markup {
    html! {
        @if delivery.is_test { " " (parts::badge(Tone::Mute, "a test")) }
        @if delivery.resend_of.is_some() { " " (parts::badge(Tone::Mute, "a resend")) }
    }
}

pub(crate) fn about(about: &[(&'static str, String)]) -> Markup {
    html! { @for (place, (kind, number)) in about.iter().enumerate() { @if place > 0 { ", " } (kind) " " (number) } }
}

/// What to do about a failure, and where the documentation says more.
pub(crate) fn remedy(failure: &Failure<'_>) -> Markup {
    let heading = failure.heading();
    let page = format!("/docs/reference/failure-classes.html#{}", heading.to_lowercase());
    html! { (failure.remedy()) " " a href=(page) { "More about " (heading) } }
}

/// A stored HTTP status.
pub(crate) fn code(http_status: Option<i64>) -> Option<u16> {
    u16::try_from(http_status?).ok()
}

impl Delivery {
    /// What became of the delivery, in a word or two.
    pub(crate) fn became(&self) -> (Tone, &'static str) {
        match self.status {
            Status::Succeeded => (Tone::Good, "Delivered"),
            Status::Failed => (Tone::Wait, "Tried again"),
            Status::Pending => (Tone::Mute, "Waiting"),
            Status::DeadLetter if self.set_aside.is_some() => (Tone::Mute, "Set aside"),
            Status::DeadLetter if self.resent => (Tone::Mute, "Lost, then resent"),
            Status::DeadLetter => (Tone::Bad, "Lost"),
        }
    }

    /// The HTTP status of the last attempt, or else how it failed.
    pub(crate) fn ended_as(&self) -> String {
        outcome(self.failure.filter(|_| self.status != Status::Succeeded), self.http_status)
    }

    /// The delivery's last failure.
    pub(crate) fn failed(&self) -> Option<Failure<'_>> {
        let (class, detail) = (self.failure?, self.detail.as_deref());
        Some(Failure { class, cause: self.cause, http_status: code(self.http_status), detail })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::brand::Brand;
    use crate::page::Role;

    pub(crate) fn frame() -> Frame {
        Frame {
            tenant: "Acme".into(),
            brand: Brand::default(),
            user: "Nora Boss".into(),
            role: Role::Administrator,
            csrf: "c0ffee".into(),
            now: Timestamp::from_second(1_800_000_100).expect("in range"),
            attention: 0,
            webhooks: Vec::new(),
            changeable: Vec::new(),
            removed: Vec::new(),
        }
    }

    pub(crate) fn delivery() -> Delivery {
        Delivery {
            id: "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f".into(),
            event: EventCode::ALL[0].to_string(),
            customer_code: "<i>C-1</i>".into(),
            about: vec![("web order", "<script>1</script>".into())],
            webhook: "default/<img src=x>".into(),
            status: Status::DeadLetter,
            attempts: 5,
            took: None,
            failure: Some(FailureClass::ServerError),
            cause: None,
            detail: None,
            http_status: Some(503),
            created_at: Timestamp::from_second(1_800_000_000).expect("in range"),
            next_attempt_at: None,
            waits_for: None,
            finished_at: None,
            resend_of: None,
            requested_by: None,
            is_test: false,
            resent: false,
            set_aside: None,
        }
    }

    fn log(filters: &[(&str, &str)], deliveries: Vec<Delivery>, next: Option<&str>) -> String {
        page(&frame(), &of(filters, deliveries, next))
    }

    fn of(filters: &[(&str, &str)], deliveries: Vec<Delivery>, next: Option<&str>) -> Log {
        let filters = filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Log {
            wrong: Vec::new(),
            filters: Filters(filters.collect()),
            customers: vec!["C-1".into(), "C-2".into()],
            customer_names: [("<i>C-1</i>".into(), "<b>One".into()), ("C-2".into(), "<b>Two".into())].into(),
            deliveries,
            next: next.map(str::to_owned),
            lost: None,
        }
    }

    #[test]
    fn log_escapes_all_texts_and_links_to_each_delivery() {
        let text = log(&[], vec![delivery()], None);
        for raw in ["<i>C-1", "<script>1", "<img src=x>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
        assert!(text.contains("href=\"/portal/logs/0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f\""));
        assert!(text.contains(">Lost</span></span> <span class=\"beside\">503</span>"), "{text}");
        let customer = "&lt;b&gt;One<small>&lt;i&gt;C-1&lt;/i&gt;</small>";
        assert!(text.contains(customer), "{text}");
    }

    #[test]
    fn row_says_what_became_of_a_delivery_in_words() {
        let row = |delivery: Delivery| log(&[], vec![delivery], None);
        let fine =
            Delivery { status: Status::Succeeded, http_status: Some(200), took: Some(29_000), ..delivery() };
        let fine = row(Delivery { is_test: true, resend_of: Some("x".into()), ..fine });
        for part in [">Delivered<", ">200<", ">29 ms<", ">a test<", ">a resend<"] {
            assert!(fine.contains(part), "{part}: {fine}");
        }
        let due = frame().now;
        let failed =
            Delivery { status: Status::Failed, attempts: 3, next_attempt_at: Some(due), ..delivery() };
        let text = row(Delivery { failure: Some(FailureClass::Refused), ..failed.clone() });
        for part in
            [">Tried again<", ">Connection refused<", "3 of 5", "<small>next attempt <time datetime=\"2027-"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // A time that has passed while the delivery waits is not shown.
        let text = row(Delivery { waits_for: Some("one of 2 places".into()), ..failed });
        assert!(text.contains("<small>next attempt due, waits for one of 2 places</small>"), "{text}");
        let waiting =
            row(Delivery { status: Status::Pending, failure: None, http_status: None, ..delivery() });
        assert!(
            waiting.contains(">Waiting<") && waiting.contains("<span class=\"beside\"></span>"),
            "{waiting}"
        );
    }

    #[test]
    fn form_shows_what_was_asked_by_a_link_or_by_itself() {
        let failed = log(&[("result", "Failed (all)"), ("last", TODAY)], Vec::new(), None);
        for part in
            ["value=\"Failed (all)\" selected>", "<option value=\"today\" selected>Today (UTC)</option>"]
        {
            assert!(failed.contains(part), "{part}: {failed}");
        }
        for sent in [("deadLetter", "open"), ("result", "Lost")] {
            assert!(
                log(&[sent], Vec::new(), None).contains("<option value=\"Lost\" selected>Lost</option>"),
                "{sent:?}"
            );
        }
        let text = log(&[("eventId", "evt_1")], Vec::new(), None);
        assert!(text.contains("name=\"find\" value=\"evt_1\""), "{text}");
        let dated = log(&[("from", "2026-11-01"), ("last", "day")], Vec::new(), None);
        assert!(dated.contains("type=\"date\" name=\"from\" value=\"2026-11-01\""), "{dated}");
        assert!(dated.contains("<option value=\"day\" selected>Last 24 hours</option>"), "{dated}");
        // The choice has not lost a webhook that is not served any more.
        let gone = log(&[("webhook", "default/gone")], Vec::new(), None);
        assert!(gone.contains("<option value=\"default/gone\" selected>default/gone</option>"), "{gone}");
        let open = |text: &str| {
            text.matches("<details open").count() + text.matches("<details class=\"narrow\" open").count()
        };
        assert_eq!(
            [log(&[], Vec::new(), None), gone, log(&[("kind", "test")], Vec::new(), None)]
                .map(|text| open(&text)),
            [0, 1, 1]
        );
    }

    #[test]
    fn webhooks_are_chosen_by_their_names_for_people() {
        let named = |full_name: &str, name: &str| page::WebhookName {
            full_name: full_name.into(),
            name: name.into(),
        };
        let webhooks = vec![named("a/one", "CRM"), named("a/two", "CRM"), named("a/three", "<b>")];
        let text = page(&Frame { webhooks, ..frame() }, &of(&[("webhook", "a/three")], Vec::new(), None));
        for part in
            [">CRM (a/one)<", ">CRM (a/two)<", "<option value=\"a/three\" selected>&lt;b&gt;</option>"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let own = page(&frame(), &Log { customers: Vec::new(), ..of(&[], Vec::new(), None) });
        assert!(text.contains(">&lt;b&gt;Two (C-2)</option>") && !own.contains("customerCode"), "{own}");
        assert!(text.contains(">C-1</option>"), "it has no name: {text}");
        let names = [("C-1", "one"), ("C-2", "Two"), ("C-3", "Another")];
        let customer_names = names.map(|(code, name)| (code.to_owned(), name.to_owned())).into();
        let codes = names.map(|(code, _)| code.to_owned()).to_vec();
        let log = Log { customers: codes, customer_names, ..of(&[], Vec::new(), None) };
        let codes: Vec<String> = customers(&log).into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, ["C-3", "C-1", "C-2"], "by their names");
    }

    #[test]
    fn error_stands_beside_its_field_and_the_summary_leads_there() {
        let wrong = [("from", "must be a date"), ("eventId", "too long"), ("x", "unknown parameter")];
        let wrong = wrong.map(|(name, what)| (name.to_owned(), what.to_owned())).to_vec();
        let sent = [("from", "soon"), ("eventId", "evt_1")];
        let text = page(&frame(), &Log { wrong, ..of(&sent, Vec::new(), None) });
        for part in [
            "<title>Error: Webhook Logs",
            "<a href=\"#field-from\">From: must be a date</a>",
            "<a href=\"#field-find\">Find: too long</a>",
            "<li>x: unknown parameter</li>",
            "<p class=\"error\" id=\"error-from\">must be a date</p>",
            "<p class=\"error\" id=\"error-find\">too long</p>",
            "<details open>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("No delivery") && !text.contains("id=\"live\""), "{text}");
    }

    #[test]
    fn older_keeps_the_filters_and_replaces_the_cursor() {
        let sent = [("status", "DeadLetter"), ("webhook", "a/b&c"), ("cursor", "old")];
        let text = log(&sent, vec![delivery()], Some("new"));
        let href = "/portal/logs?status=DeadLetter&amp;webhook=a%2Fb%26c";
        assert!(text.contains(&format!("href=\"{href}&amp;cursor=new\"")), "{text}");
        assert!(text.contains(&format!("href=\"{href}\"")), "{text}");
        assert!(text.contains("<option value=\"Lost, resent or set aside\" selected>"), "{text}");
    }

    #[test]
    fn next_search_stays_within_the_resend_of_a_link_and_begins_at_its_newest_delivery() {
        let sent = [("resendId", "0f"), ("pageSize", "7"), ("cursor", "old")];
        let text = log(&sent, vec![delivery()], None);
        for (name, value) in [("resendId", "0f"), ("pageSize", "7")] {
            let field = format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
            assert!(text.contains(&field), "{field}: {text}");
        }
        assert!(text.contains("one resend has queued") && !text.contains("name=\"cursor\""), "{text}");
    }

    #[test]
    fn lost_deliveries_of_a_webhook_are_counted_with_a_link_to_their_resend() {
        let lost = |lost| {
            let filters = [("webhook", "a/b&c"), ("result", "Lost")];
            page(&frame(), &Log { lost, ..of(&filters, vec![delivery()], Some("x")) })
        };
        let many = lost(Some(7));
        for part in [
            "<h2 id=\"found\">7 deliveries are lost</h2>",
            "href=\"/portal/resends?webhook=a%2Fb%26c\">Resend these 7…</a>",
        ] {
            assert!(many.contains(part), "{part}: {many}");
        }
        assert!(
            lost(Some(1)).contains(">1 delivery is lost</h2>") && lost(Some(1)).contains(">Resend it…</a>")
        );
        assert!(lost(Some(20_000)).contains(">more than 10,000 deliveries are lost</h2>"));
        let other = lost(None);
        assert!(
            other.contains(">The newest 1 delivery</h2>") && !other.contains("/portal/resends?"),
            "{other}"
        );
        assert!(log(&[], vec![delivery(); 2], None).contains(">2 deliveries</h2>"));
        assert!(log(&[("cursor", "x")], vec![delivery()], None).contains(">1 delivery, older ones</h2>"));
    }

    #[test]
    fn dead_letter_that_counts_no_longer_says_why() {
        let resent = Delivery { resent: true, ..delivery() };
        let set_aside = Delivery { set_aside: Some(("me".into(), frame().now)), ..delivery() };
        assert!(log(&[], vec![resent], None).contains("<span class=\"badge mute\"><span>Lost, then resent<"));
        assert!(log(&[], vec![set_aside], None).contains("<span class=\"badge mute\"><span>Set aside<"));
        assert!(log(&[], vec![delivery()], None).contains("<span class=\"badge bad\">"));
    }

    #[test]
    fn empty_log_says_why() {
        assert!(log(&[], Vec::new(), None).contains("No delivery yet"));
        assert!(log(&[("status", "Failed")], Vec::new(), None).contains("No delivery matches"));
        assert!(log(&[("status", "Failed")], Vec::new(), Some("x")).contains("found so far"));
    }
}
