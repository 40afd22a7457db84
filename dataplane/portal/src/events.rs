//! Events: the catalogue of event codes, each with a sample and the webhooks that get it.

use docket_crds::EventCode;
use docket_domain::sample::TEST_ID_PREFIX;
use maud::{Markup, html};

use crate::page::{self, Frame, Section};
use crate::parts::{self, Head, Tone};

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
    let below = html! {
        "What a webhook can subscribe to. The ids in the samples begin with " code { (TEST_ID_PREFIX) }
        ", as in a test event, which the page of a webhook sends."
    };
    let main = html! {
        (parts::head(&Head { title: html! { "Event catalogue" }, below: Some(below), ..Head::default() }))
        @for event in events { (card(frame, event)) }
    };
    page::page(frame, Section::Events, "Event catalogue", &main)
}

fn card(frame: &Frame, event: &EventView) -> Markup {
    let EventView { code, is_on, sample, webhooks } = event;
    let state = match (is_on, webhooks.len()) {
        (false, _) => parts::badge(Tone::Mute, "Switched off"),
        (true, 0) => parts::badge(Tone::Mute, "No webhook"),
        (true, count) => parts::badge(Tone::Good, crate::counted(count as i64, "webhook")),
    };
    let body = parts::inside(&html! {
        p { (code.about()) " " a href={ "/docs/reference/events.html#" (code.as_str().replace('.', "")) } { "Its fields" } }
        @if !is_on {
            p.quiet { "Switched off for this tenant: it is not published. The platform can switch it on." }
        } @else if webhooks.is_empty() {
            p.quiet { "No active webhook subscribes to it." }
        } @else {
            details {
                summary { "Who gets it" }
                ul { @for name in webhooks { li { (frame.webhook(name)) } } }
            }
        }
        details {
            summary { "Sample of " (code.as_str()) }
            pre id={ "sample-" (code.as_str()) } { (crate::delivery::pretty(sample)) }
            p { button.tiny type="button" data-copy={ "sample-" (code.as_str()) } hidden { "Copy the sample" } }
        }
    });
    parts::card(code.as_str(), code.as_str(), &state, &body)
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
        for badge in ["1 webhook", "No webhook", "Switched off"] {
            assert!(text.contains(&format!("<span>{badge}</span></span>")), "{badge}: {text}");
        }
        assert!(
            text.contains("default/&lt;i&gt;") && !text.contains("<i>") && !text.contains("<b>"),
            "{text}"
        );
    }
}
