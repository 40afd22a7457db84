//! Activity: who did what, from the tenant's audit.

use docket_domain::audit::AuditEvent;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::logs::{Filters, NOT_SEARCHED, select};
use crate::page;
use crate::page::{Frame, Section};
use crate::time::time;

/// An entry of the audit.
#[derive(Debug, Clone)]
pub struct ActivityEntry {
    /// When it happened, or began to.
    pub at: Timestamp,
    /// What happened.
    pub event: AuditEvent,
    /// The user who did the action; `None`: no one signed in.
    pub actor: Option<String>,
    /// The object of the event; `None`: the event concerns only the actor.
    pub subject: Option<String>,
    /// The number of things that the event concerns, such as sign-ins.
    pub count: i64,
    /// The client's address.
    pub address: Option<String>,
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
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
}

/// The page.
pub fn page(frame: &Frame, activity: &Activity) -> String {
    let Activity { filters, wrong, entries, next } = activity;
    let value = |name| filters.value(name);
    let section = Section::Activity;
    let main = html! {
        h1 { "Activity" }
        (page::wrong(NOT_SEARCHED, wrong))
        form.filters method="get" action=(section.path()) role="search" {
            (select("What", "event", value("event"), AuditEvent::WORDS))
            label { "From" input name="from" value=(value("from")) placeholder="2026-11-01"; }
            label { "To" input name="to" value=(value("to")) placeholder="2026-11-01T09:30:00Z"; }
            div.row {
                button.primary type="submit" { "Search" }
                a href=(section.path()) { "Clear" }
            }
        }
        @if !wrong.is_empty() {}
        @else if entries.is_empty() { p role="status" { "No entry matches." } }
        @else { (table(frame, entries)) }
        nav.row aria-label="Pages" {
            @if !value("cursor").is_empty() { a.button href=(filters.at(section, "")) { "Newest" } }
            @if let Some(next) = next { a.button href=(filters.at(section, next)) rel="next" { "Older" } }
        }
    };
    page::page(frame, section, "Activity", &main)
}

fn table(frame: &Frame, entries: &[ActivityEntry]) -> Markup {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    html! {
        div.wide role="region" aria-label="Entries" tabindex="0" {
            table {
                caption { "Entries of the audit, newest first" }
                thead { tr { @for head in ["When", "What", "Who", "To what", "How many", "From"] { th scope="col" { (head) } } } }
                tbody {
                    @for entry in entries {
                        tr {
                            td { (time(entry.at, frame.now)) }
                            td { (entry.event.as_str()) }
                            td { (or_dash(&entry.actor)) }
                            td { (or_dash(&entry.subject)) }
                            td { (entry.count) }
                            td { (or_dash(&entry.address)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    #[test]
    fn entry_is_a_row_of_escaped_texts() {
        let entry = ActivityEntry {
            at: frame().now,
            event: AuditEvent::PayloadRead,
            actor: Some("employee <b>52".into()),
            subject: None,
            count: 1,
            address: Some("192.0.2.7".into()),
        };
        let filters = Filters(vec![("event".into(), "PayloadRead".into())]);
        let text = page(
            &frame(),
            &Activity { filters, wrong: Vec::new(), entries: vec![entry], next: Some("c".into()) },
        );
        assert!(text.contains("employee &lt;b&gt;52") && text.contains("<td>–</td>"), "{text}");
        assert!(text.contains("href=\"/portal/activity?event=PayloadRead&amp;cursor=c\""), "{text}");
    }
}
