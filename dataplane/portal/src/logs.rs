//! Webhook Logs: a page of deliveries, and the filters that chose them.

use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::page::{Frame, Section};
use crate::time::time;
use crate::{href, page};

/// A delivery in the list.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The delivery's id.
    pub id: String,
    /// The code of the event; empty if another program has stored one that is invalid.
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
    /// Whether its event was published to test the webhook.
    pub is_test: bool,
    /// Whether the dead letter was resent, so that it does not count any more.
    pub resent: bool,
    /// Who set the dead letter aside, and when.
    pub set_aside: Option<(String, Timestamp)>,
}

/// The filters as they were sent: parameters of `/WebhookLogs/Search` and their values.
#[derive(Debug, Clone, Default)]
pub struct Filters(pub Vec<(String, String)>);

impl Filters {
    /// The value of a parameter; empty if the user did not send it.
    pub fn value(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// A link to the page of a section that continues at this cursor, with the same filters.
    pub(crate) fn at(&self, section: Section, cursor: &str) -> String {
        let kept = self.0.iter().filter(|(name, _)| name != "cursor");
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        href(section.path(), kept.chain([("cursor", cursor)]))
    }

    fn is_any(&self) -> bool {
        self.0.iter().any(|(name, _)| name != "cursor" && name != "pageSize")
    }
}

/// The text above the list of wrong filters.
pub(crate) const NOT_SEARCHED: &str = "Nothing was searched:";

/// A page of the log.
#[derive(Debug, Clone)]
pub struct Log {
    /// The filters.
    pub filters: Filters,
    /// The filters that are wrong, each with what would be right. If there are any, nothing is searched.
    pub wrong: Vec<(String, String)>,
    /// The names of the tenant's webhooks, to choose from.
    pub webhooks: Vec<String>,
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
}

/// The page.
pub fn page(frame: &Frame, log: &Log) -> String {
    let Log { filters, wrong, deliveries, next, .. } = log;
    let main = html! {
        h1 { "Webhook Logs" }
        (page::wrong(NOT_SEARCHED, wrong))
        (form(log))
        @if wrong.is_empty() { (page::live(false)) }
        div data-live {
            @if !wrong.is_empty() {}
            @else if deliveries.is_empty() { (empty(filters, next.is_some())) }
            @else { (table(frame, deliveries)) }
            nav.row aria-label="Pages" {
                @if !filters.value("cursor").is_empty() { a.button href=(filters.at(Section::Logs, "")) { "Newest" } }
                @if let Some(next) = next { a.button href=(filters.at(Section::Logs, next)) rel="next" { "Older" } }
            }
        }
    };
    page::page(frame, Section::Logs, "Webhook Logs", &main)
}

fn empty(filters: &Filters, more: bool) -> Markup {
    html! {
        p role="status" {
            @if more { "The search has found nothing so far; continue with Older." }
            @else if filters.is_any() { "No delivery matches. " a href=(Section::Logs.path()) { "Clear the filters" } }
            @else { "No delivery yet. One is queued for each event that an active webhook subscribes to, such as a saved order." }
        }
    }
}

fn form(log: &Log) -> Markup {
    let value = |name| log.filters.value(name);
    let text = |label: &str, name: &'static str, hint: &str| {
        html! { label { (label) input name=(name) value=(value(name)) placeholder=(hint); } }
    };
    html! {
        form.filters method="get" action=(Section::Logs.path()) role="search" {
            (select("Status", "status", value("status"), Status::WORDS))
            (select("Dead letters", "deadLetter", value("deadLetter"), DeadLetter::WORDS))
            (select("Event", "event", value("event"), EventCode::WORDS))
            (select("Failure", "failureClass", value("failureClass"), FailureClass::WORDS))
            label { "Webhook" input name="webhook" value=(value("webhook")) list="webhooks"; }
            datalist #webhooks { @for name in &log.webhooks { option value=(name) {} } }
            (text("From", "from", "2026-11-01"))
            (text("To", "to", "2026-11-01T09:30:00Z"))
            (text("Web order", "webOrderId", ""))
            (text("Work order", "workOrder", ""))
            (text("Invoice", "invoiceNumber", ""))
            (text("Event id", "eventId", "evt_…"))
            (text("Delivery id", "deliveryId", ""))
            (text("HTTP status", "httpStatus", "503"))
            div.row {
                button.primary type="submit" { "Search" }
                a href=(Section::Logs.path()) { "Clear" }
            }
        }
    }
}

pub(crate) fn select<'a>(
    label: &str,
    name: &str,
    chosen: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "Any" }
                @for word in words { option value=(word) selected[word == chosen] { (word) } }
            }
        }
    }
}

fn table(frame: &Frame, deliveries: &[Delivery]) -> Markup {
    html! {
        div.wide role="region" aria-label="Deliveries" tabindex="0" {
            table {
                caption { "Deliveries, newest first" }
                thead {
                    tr {
                        @for head in ["Queued", "Status", "Event", "About", "Customer", "Webhook", "Attempts", "Last failure"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for delivery in deliveries {
                        tr {
                            td { a href=(link(&delivery.id)) { (time(delivery.created_at, frame.now)) } }
                            td {
                                (status(delivery.status)) (settled(delivery))
                                @if let Some(what) = &delivery.waits_for { " " span.beside { "waits for " (what) } }
                            }
                            td { (delivery.event.as_str()) @if delivery.is_test { " (test)" } }
                            td { (about(&delivery.about)) }
                            td { (delivery.customer_code) }
                            td { (delivery.webhook) }
                            td { (delivery.attempts) " of 5" }
                            td { (failure(delivery)) }
                        }
                    }
                }
            }
        }
    }
}

/// The path of a delivery's page.
pub fn link(id: &str) -> String {
    format!("{}/{id}", Section::Logs.path())
}

/// A status as shape, colour and word.
pub(crate) fn status(status: Status) -> Markup {
    let (class, shape) = match status {
        Status::Pending => ("wait", "○"),
        Status::Failed => ("wait", "↻"),
        Status::Succeeded => ("good", "✓"),
        Status::DeadLetter => ("bad", "✕"),
    };
    html! { span class=(class) { span aria-hidden="true" { (shape) " " } (status.as_str()) } }
}

/// Why a dead letter does not count any more.
pub(crate) fn settled(delivery: &Delivery) -> Markup {
    html! {
        @if delivery.set_aside.is_some() { " (set aside)" }
        @else if delivery.resent { " (resent)" }
    }
}

pub(crate) fn about(about: &[(&'static str, String)]) -> Markup {
    html! { @for (place, (kind, number)) in about.iter().enumerate() { @if place > 0 { ", " } (kind) " " (number) } }
}

pub(crate) fn failure(delivery: &Delivery) -> Markup {
    html! {
        @let cause = delivery.failed().and_then(|failed| failed.known_cause());
        @match (delivery.failure, delivery.http_status) {
            (Some(class), Some(http)) => { (class.as_str()) " (HTTP " (http) ")" }
            (Some(class), None) => { (class.as_str()) }
            (None, _) => { "–" }
        }
        @if let Some(cause) = cause { ": " (cause.as_str()) }
    }
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
        let filters = filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let log = Log {
            wrong: Vec::new(),
            filters: Filters(filters.collect()),
            webhooks: vec!["default/orders".into()],
            deliveries,
            next: next.map(str::to_owned),
        };
        page(&frame(), &log)
    }

    #[test]
    fn log_escapes_all_texts_and_links_to_each_delivery() {
        let text = log(&[], vec![delivery()], None);
        for raw in ["<i>C-1", "<script>1", "<img src=x>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
        assert!(text.contains("href=\"/portal/logs/0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f\""));
        assert!(
            text.contains("ServerError (HTTP 503)") && text.contains("1 min ago")
                || text.contains("100 s ago")
        );
    }

    #[test]
    fn older_keeps_the_filters_and_replaces_the_cursor() {
        let sent = [("status", "DeadLetter"), ("webhook", "a/b&c"), ("cursor", "old")];
        let text = log(&sent, vec![delivery()], Some("new"));
        let href = "/portal/logs?status=DeadLetter&amp;webhook=a%2Fb%26c";
        assert!(text.contains(&format!("href=\"{href}&amp;cursor=new\"")), "{text}");
        assert!(text.contains(&format!("href=\"{href}\"")), "{text}");
        assert!(text.contains("<option value=\"DeadLetter\" selected>"));
    }

    #[test]
    fn dead_letter_that_counts_no_longer_says_why() {
        let resent = Delivery { resent: true, ..delivery() };
        let set_aside = Delivery { set_aside: Some(("me".into(), frame().now)), ..delivery() };
        assert!(log(&[], vec![resent], None).contains("DeadLetter</span> (resent)</td>"));
        assert!(log(&[], vec![set_aside], None).contains("DeadLetter</span> (set aside)</td>"));
        assert!(log(&[], vec![delivery()], None).contains("DeadLetter</span></td>"));
    }

    #[test]
    fn empty_log_says_why() {
        assert!(log(&[], Vec::new(), None).contains("No delivery yet"));
        assert!(log(&[("status", "Failed")], Vec::new(), None).contains("No delivery matches"));
        assert!(log(&[("status", "Failed")], Vec::new(), Some("x")).contains("nothing so far"));
    }
}
