//! Events: the catalogue of event codes, each with a sample and the webhooks that get it.

use docket_crds::EventCode;
use docket_domain::sample::TEST_ID_PREFIX;
use maud::html;

use crate::page::{self, Frame, Section, webhook_link};

/// An event of the catalogue.
#[derive(Debug, Clone)]
pub struct EventView {
    /// Its code.
    pub code: EventCode,
    /// Whether the event is active in the tenant's catalogue.
    pub is_on: bool,
    /// The body of a delivery of this event, with sample data.
    pub sample: String,
    /// The names of the active webhooks that get this event.
    pub webhooks: Vec<String>,
}

/// The page.
pub fn page(frame: &Frame, events: &[EventView]) -> String {
    let main = html! {
        h1 { "Event catalogue" }
        p {
            "What a webhook can subscribe to. The ids in the samples begin with " code { (TEST_ID_PREFIX) }
            ", as in a test event, which the page of a webhook sends."
        }
        @for EventView { code, is_on, sample, webhooks } in events {
            section aria-labelledby=(code.as_str()) {
                h2 id=(code.as_str()) { (code.as_str()) }
                p { (code.about()) }
                @if !is_on {
                    p.wait { span aria-hidden="true" { "○ " } "Switched off for this tenant: it is not published. The platform can switch it on." }
                } @else if webhooks.is_empty() {
                    p.hint { "No active webhook subscribes to it." }
                } @else {
                    p {
                        "Sent to "
                        @for (place, name) in webhooks.iter().enumerate() { @if place > 0 { ", " } a href=(webhook_link(name)) { (name) } }
                    }
                }
                details {
                    summary { "Sample of " (code.as_str()) }
                    pre { (crate::delivery::pretty(sample)) }
                }
            }
        }
    };
    page::page(frame, Section::Events, "Event catalogue", &main)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    #[test]
    fn catalogue_says_what_is_off_and_who_gets_an_event() {
        let event =
            |code, is_on, webhooks| EventView { code, is_on, sample: r#"{"a":"<b>"}"#.into(), webhooks };
        let text = page(
            &frame(),
            &[
                event(EventCode::OrderCreated, true, vec!["default/<i>".into()]),
                event(EventCode::NoteCreated, true, Vec::new()),
                event(EventCode::InvoiceCreated, false, Vec::new()),
            ],
        );
        assert_eq!(text.matches("Switched off for this tenant").count(), 1);
        assert_eq!(text.matches("No active webhook subscribes").count(), 1);
        assert!(
            text.contains("default/&lt;i&gt;</a>") && !text.contains("<i>") && !text.contains("<b>"),
            "{text}"
        );
    }
}
