//! Activity: who did what, from the tenant's audit.

use docket_domain::audit::AuditEvent;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::actors::Actors;
use crate::field::{self, CHECK, Form, Wrong};
use crate::logs::{Filters, link, webhooks};
use crate::page::{self, Frame, Section};
use crate::parts::{self, Head};
use crate::time::time;
use crate::{count, href};

/// An entry of the audit.
#[derive(Debug, Clone)]
pub struct ActivityEntry {
    /// When the event of the entry happened, or began to happen.
    pub at: Timestamp,
    /// What happened.
    pub event: AuditEvent,
    /// The user who did the action; `None`: no one signed in.
    pub actor: Option<String>,
    /// The object of the event, a kind and an id; `None`: the event concerns only the actor.
    pub subject: Option<String>,
    /// The number of things that the event concerns, such as sign-ins.
    pub count: i64,
    /// The client's address.
    pub address: Option<String>,
    /// Which settings of a webhook changed, or the name and the customer of a webhook that was removed.
    pub detail: Option<String>,
}

/// The page of the audit.
#[derive(Debug, Clone)]
pub struct Activity {
    /// The filters as they were sent.
    pub filters: Filters,
    /// The filters that are wrong, each with what would be right. If there are any, nothing is searched.
    pub wrong: Vec<(String, String)>,
    /// The entries, newest first.
    pub entries: Vec<ActivityEntry>,
    /// The names of the people in the entries.
    pub people: Actors,
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
}

/// The filters, each with its label.
const LABELS: [(&str, &str); 5] =
    [("event", "What"), ("webhook", "Webhook"), ("person", "Person"), ("from", "From"), ("to", "Before")];

/// The page.
pub fn page(frame: &Frame, activity: &Activity) -> String {
    let Activity { filters, wrong, entries, people, next } = activity;
    let section = Section::Activity;
    let form = Form { sent: filters, wrong: Wrong(wrong) };
    let head = Head {
        title: html! { "Activity" },
        below: Some(html! {
            "Who did what, newest first. " a href="/docs/reference/audit.html" { "What is recorded" }
        }),
        actions: Some(periods(frame, filters)),
        ..Head::default()
    };
    let webhooks = webhooks(frame, form.value("webhook"));
    let webhooks = webhooks.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let body = html! {
        form.filters method="get" action=(section.path()) role="search" {
            @let events = AuditEvent::ALL.into_iter().map(|event| (event.as_str(), words(event)));
            (form.select("What", "event", false, &field::options("Anything", events, filters.value("event"))))
            (form.select("Webhook", "webhook", false, &field::options("All webhooks", webhooks, form.value("webhook"))))
            (form.text("Person", "person", "E-mail, check-in name or employee 52"))
            (form.date("From", "from"))
            (form.date("Before", "to"))
            div.row {
                button.primary type="submit" { "Search" }
                a href=(section.path()) { "Clear" }
            }
        }
        @if !wrong.is_empty() {}
        @else if entries.is_empty() { (nothing(filters)) }
        @else { (table(frame, people, entries)) }
    };
    let days = html! { span.small.quiet { "Days begin at 00:00 UTC." } };
    let main = html! {
        (parts::head(&head))
        (form.wrong.summary(CHECK, &LABELS))
        (parts::card("entries", "Entries", &days, &body))
        nav.row aria-label="Pages" {
            @if !filters.value("cursor").is_empty() { a.button href=(filters.at(section, "")) { "Newest" } }
            @if let Some(next) = next { a.button href=(filters.at(section, next)) rel="next" { "Older" } }
        }
    };
    page::page(frame, section, &form.wrong.titled("Activity"), &main)
}

/// Links to the entries of the last days; the other filters stay.
fn periods(frame: &Frame, filters: &Filters) -> Markup {
    let since = |days: i64| {
        let at = frame.now.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(frame.now);
        at.strftime("%Y-%m-%d").to_string()
    };
    let periods = [("Today", since(0)), ("7 days", since(6)), ("30 days", since(29)), ("All", String::new())];
    let kept = ["event", "webhook", "person"].map(|name| (name, filters.value(name)));
    let is_open = filters.value("to").is_empty();
    html! {
        nav.range aria-label="Period" {
            @for (text, from) in &periods {
                @let path = href(Section::Activity.path(), kept.into_iter().chain([("from", from.as_str())]));
                @let is_chosen = is_open && filters.value("from") == from;
                a href=(path) aria-current=[is_chosen.then_some("true")] { (text) }
            }
        }
    }
}

fn nothing(filters: &Filters) -> Markup {
    if filters.is_any() {
        let clear = html! { p { a.button href=(Section::Activity.path()) { "Clear the filters" } } };
        return parts::nothing("No entry matches", &clear);
    }
    let why = html! { p { "Sign-ins, resends and changes of webhooks are recorded here." } };
    parts::nothing("Nothing is recorded yet", &why)
}

fn table(frame: &Frame, people: &Actors, entries: &[ActivityEntry]) -> Markup {
    let heads =
        [("Time", ""), ("What", ""), ("Who", ""), ("Object", ""), ("Count", "num"), ("Address", "wider")];
    let of_person = |actor: &str| href(Section::Activity.path(), [("person", actor)]);
    let rows = html! {
        @for entry in entries {
            tr {
                td { (time(entry.at, frame.now)) }
                td {
                    span title=(entry.event.as_str()) { (words(entry.event)) }
                    @if let Some(detail) = changed(entry) { div.small.quiet { (detail) } }
                }
                td {
                    @match &entry.actor {
                        Some(actor) => a href=(of_person(actor)) { (people.shown(actor)) },
                        None => { "–" },
                    }
                }
                td { @match &entry.subject { Some(subject) => { (object(frame, people, subject)) } None => { "–" } } }
                td.num { (count(entry.count)) }
                td.wider { (entry.address.as_deref().unwrap_or("–")) }
            }
        }
    };
    parts::table("Entries, newest first", &heads, &rows)
}

/// What an entry says beside its event: which settings changed. The name of a removed webhook is its object.
fn changed(entry: &ActivityEntry) -> Option<&str> {
    entry.detail.as_deref().filter(|_| entry.event != AuditEvent::WebhookRemoved)
}

/// The object of an entry, with a link if the object has a page.
fn object(frame: &Frame, people: &Actors, subject: &str) -> Markup {
    let Some((kind, id)) = subject.split_once(' ') else { return html! { (subject) } };
    let linked = |path: String, what: &str| html! { a href=(path) title=(id) { (what) " …" (end_of(id)) } };
    match kind {
        "delivery" => linked(link(id), "Delivery"),
        "event" => linked(href(Section::Logs.path(), [("eventId", id)]), "Event"),
        "resend" => linked(href(Section::Resends.path(), [("resendId", id)]), "Resend"),
        "webhook" => frame.webhook(id),
        "contact" | "employee" => people.shown(subject),
        "customer" => html! { "Customer " (id) },
        "name" => html! { span title="A digest; the name itself is not recorded" { "User name " (id) } },
        _ => html! { (subject) },
    }
}

/// The last characters of an id, which differ between ids of one time.
fn end_of(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

/// What happened, in words for people.
const fn words(event: AuditEvent) -> &'static str {
    match event {
        AuditEvent::SignedIn => "Signed in",
        AuditEvent::SignInRefused => "Sign-in refused",
        AuditEvent::SignedOut => "Signed out everywhere",
        AuditEvent::PasswordChanged => "Password changed",
        AuditEvent::PayloadRead => "Payload read",
        AuditEvent::PeopleRead => "List of people read",
        AuditEvent::DeliveryResent => "Delivery resent",
        AuditEvent::TestSent => "Test event sent",
        AuditEvent::ResendStarted => "Lost deliveries resent",
        AuditEvent::ResendStopped => "Resend stopped",
        AuditEvent::DeadLettersSetAside => "Lost deliveries set aside",
        AuditEvent::SetAsideUndone => "Setting aside undone",
        AuditEvent::WebhookAdded => "Webhook added",
        AuditEvent::WebhookChanged => "Webhook changed",
        AuditEvent::WebhookActivated => "Webhook activated",
        AuditEvent::WebhookDeactivated => "Webhook deactivated",
        AuditEvent::NextSecretMade => "Next secret made",
        AuditEvent::NextSecretPromoted => "Next secret became the current one",
        AuditEvent::NextSecretDropped => "Next secret dropped",
        AuditEvent::SecretShown => "Secret shown",
        AuditEvent::WebhookRemoved => "Webhook removed",
        AuditEvent::CustomerAdded => "Customer added",
        AuditEvent::ContactAdded => "Contact added",
        AuditEvent::EmployeeAdded => "Employee added",
        AuditEvent::RightGranted => "Right granted",
        AuditEvent::RightRevoked => "Right taken back",
        AuditEvent::UserDeactivated => "User deactivated",
        AuditEvent::UserActivated => "User activated",
        AuditEvent::SubscriptionAdded => "Subscription added",
        AuditEvent::SubscriptionConfirmed => "Address confirmed",
        AuditEvent::SubscriptionEnded => "Subscription ended",
        AuditEvent::Unknown(word) => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;
    use crate::page::WebhookName;

    fn entry(event: AuditEvent, actor: Option<&str>, subject: Option<&str>) -> ActivityEntry {
        let [actor, subject] = [actor, subject].map(|text| text.map(str::to_owned));
        let address = Some("192.0.2.7".into());
        ActivityEntry { at: frame().now, event, actor, subject, count: 1, address, detail: None }
    }

    fn shown(filters: &[(&str, &str)], entries: Vec<ActivityEntry>) -> String {
        let filters = filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let people = Actors::from_iter([("employee 52".to_owned(), "Nora <b>".to_owned())]);
        let activity = Activity {
            filters: Filters(filters.collect()),
            wrong: Vec::new(),
            entries,
            people,
            next: Some("c".into()),
        };
        let named =
            |full_name: &str, name: &str| WebhookName { full_name: full_name.into(), name: name.into() };
        let (webhooks, removed) = (vec![named("a/b", "Orders")], vec![named("a/gone", "Before <i>")]);
        page(&Frame { webhooks, removed, ..frame() }, &activity)
    }

    #[test]
    fn entry_says_in_words_who_did_what_to_which_object() {
        let entries = vec![
            entry(AuditEvent::PayloadRead, Some("employee 52"), Some("delivery 0193f0c2-5a4b3c2d1e0f")),
            ActivityEntry {
                detail: Some("displayName, events (+order.exported)".into()),
                ..entry(AuditEvent::WebhookChanged, Some("cluster user <i>"), Some("webhook a/b"))
            },
            entry(AuditEvent::SignInRefused, None, Some("name 647aba08c1875c4c")),
            entry(AuditEvent::ResendStarted, Some("contact 9"), Some("resend 0f9d2c5b7a3e")),
            entry(AuditEvent::PasswordChanged, Some("command line (uid 0)"), Some("employee 52")),
            entry(AuditEvent::PayloadRead, None, Some("event evt_<u>")),
            entry(AuditEvent::stored("FromTheFuture"), None, None),
            ActivityEntry {
                detail: Some("Before <i>".into()),
                ..entry(AuditEvent::WebhookRemoved, None, Some("webhook a/gone"))
            },
            entry(AuditEvent::WebhookAdded, None, Some("webhook a/gone")),
            entry(AuditEvent::WebhookRemoved, None, Some("webhook a/b")),
            entry(AuditEvent::WebhookAdded, None, Some("webhook a/other")),
        ];
        let text = shown(&[("event", "PayloadRead")], entries);
        for part in [
            "<span title=\"PayloadRead\">Payload read</span>",
            "<a href=\"/portal/activity?person=employee+52\"><span title=\"employee 52\">Nora &lt;b&gt;</span></a>",
            "<div class=\"small quiet\">displayName, events (+order.exported)</div>",
            "href=\"/portal/logs/0193f0c2-5a4b3c2d1e0f\" title=\"0193f0c2-5a4b3c2d1e0f\">Delivery …3c2d1e0f</a>",
            "cluster user &lt;i&gt;",
            "title=\"a/b\">Orders</a>",
            ">User name 647aba08c1875c4c</span>",
            "href=\"/portal/resends?resendId=0f9d2c5b7a3e\"",
            "href=\"/portal/logs?eventId=evt_%3Cu%3E\"",
            ">FromTheFuture</span>",
            "<option value=\"PayloadRead\" selected>Payload read</option>",
            "href=\"/portal/activity?event=PayloadRead&amp;cursor=c\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<u>") && text.contains("<td>–</td>"), "{text}");
        let removed = "<td><span title=\"a/gone\">Before &lt;i&gt; (removed)</span></td>";
        assert_eq!(text.matches(removed).count(), 2, "{text}");
        assert_eq!(
            text.matches("Before &lt;i&gt;").count(),
            2,
            "its object says it, and nothing else: {text}"
        );
        assert_eq!(text.matches("title=\"a/b\">Orders</a>").count(), 2, "{text}");
        assert!(text.contains("<td>a/other (not served)</td>"), "{text}");
    }

    #[test]
    fn filters_choose_a_webhook_even_a_removed_one_and_a_person() {
        let text = shown(&[("webhook", "a/gone"), ("person", "employee 52")], Vec::new());
        for part in [
            "<option value=\"a/b\">Orders</option>",
            "<option value=\"a/gone\" selected>Before &lt;i&gt; (removed)</option>",
            "name=\"person\" value=\"employee 52\"",
            "href=\"/portal/activity?webhook=a%2Fgone&amp;person=employee+52&amp;from=2027-01-09\">7 days</a>",
            "No entry matches",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn periods_keep_the_event_and_mark_the_chosen_one() {
        // The time of the frame is 2027-01-15.
        let text = shown(&[("event", "TestSent"), ("from", "2027-01-09")], Vec::new());
        let chosen =
            "href=\"/portal/activity?event=TestSent&amp;from=2027-01-09\" aria-current=\"true\">7 days</a>";
        assert!(text.contains(chosen), "{text}");
        assert!(text.contains("href=\"/portal/activity?event=TestSent\">All</a>"), "{text}");
        for (from, words) in [("2027-01-15", "Today"), ("2026-12-17", "30 days")] {
            let link = format!("href=\"/portal/activity?event=TestSent&amp;from={from}\">{words}</a>");
            assert!(text.contains(&link), "{link}: {text}");
        }
        assert!(!text.contains(">Newest</a>") && text.contains("rel=\"next\">Older</a>"), "{text}");
        let older = shown(&[("event", "TestSent"), ("cursor", "b")], Vec::new());
        assert!(older.contains("href=\"/portal/activity?event=TestSent\">Newest</a>"), "{older}");
        assert!(text.contains("No entry matches") && text.contains("type=\"date\" name=\"from\""), "{text}");
        assert!(shown(&[], Vec::new()).contains("Nothing is recorded yet"));
    }

    #[test]
    fn every_event_has_words_of_its_own() {
        let mut all: Vec<&str> = AuditEvent::ALL.into_iter().map(words).collect();
        assert!(all.iter().all(|words| words.contains(' ')), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), AuditEvent::ALL.len());
    }
}
