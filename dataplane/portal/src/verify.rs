//! Verify a signature: why the signature of a received delivery does not match. No digest is shown.

use std::fmt;

use maud::{Markup, html};

use crate::field::{self, CHECK, Form, Wrong};
use crate::logs::Filters;
use crate::page::{self, Frame, Section};
use crate::parts::{self, Head, Tone};

/// The result for one of the two kinds of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the header.
    pub header: &'static str,
    /// Why the signature does not match; `None`: the signature matches.
    pub fault: Option<String>,
}

/// How a received body differs from the bytes of the event that `webhook-id` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyComparison {
    /// Docket has no such event, or the user may not see it.
    NoSuchEvent,
    /// Both are the same, of this length.
    Same(usize),
    /// The received body is the beginning.
    CutOff {
        /// The number of bytes that Docket sends.
        sent: usize,
        /// The number of bytes that were received.
        received: usize,
    },
    /// Further bytes follow.
    Longer {
        /// The number of bytes that Docket sends.
        sent: usize,
        /// The number of bytes that follow.
        more: usize,
    },
    /// A byte differs.
    Differs {
        /// The number of bytes that Docket sends.
        sent: usize,
        /// The place of the first byte that differs, from 1.
        at: usize,
    },
}

impl BodyComparison {
    /// Compares the bytes that Docket sends with the received ones.
    pub fn of(sent: &[u8], received: &[u8]) -> Self {
        let same = sent.iter().zip(received).take_while(|(one, other)| one == other).count();
        match (same == sent.len(), same == received.len()) {
            (true, true) => Self::Same(same),
            (true, false) => Self::Longer { sent: same, more: received.len() - same },
            (false, true) => Self::CutOff { sent: sent.len(), received: same },
            (false, false) => Self::Differs { sent: sent.len(), at: same + 1 },
        }
    }

    const fn tone(self) -> (Tone, &'static str) {
        match self {
            Self::NoSuchEvent => (Tone::Mute, "Not compared"),
            Self::Same(_) => (Tone::Good, "Same body"),
            Self::CutOff { .. } | Self::Longer { .. } | Self::Differs { .. } => (Tone::Wait, "Another body"),
        }
    }
}

impl fmt::Display for BodyComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchEvent => {
                f.write_str("Docket has no event with this webhook-id, so the body was compared with nothing")
            }
            Self::Same(bytes) => write!(f, "The body is exactly the {bytes} bytes that Docket sends"),
            Self::CutOff { sent, received } => {
                write!(f, "Docket sent {sent} bytes; yours end after {received} of them")
            }
            Self::Longer { sent, more } => {
                write!(f, "Docket sent {sent} bytes; yours have {more} more at the end")
            }
            Self::Differs { sent, at } => write!(f, "Docket sent {sent} bytes; yours differ at byte {at}"),
        }
    }
}

/// The page of the form.
#[derive(Debug, Clone)]
pub struct Verify {
    /// The values that the user sent.
    pub sent: Filters,
    /// The fields that are wrong, each with what would be right.
    pub wrong: Vec<(String, String)>,
    /// The names of the signed webhooks, to choose from.
    pub webhooks: Vec<String>,
    /// The result; `None`: nothing was judged.
    pub findings: Option<Vec<Finding>>,
    /// The comparison of the body with the stored event; `None`: no event was named, or its body is too long to be sent.
    pub comparison: Option<BodyComparison>,
}

/// The fields of the form, each with its label.
const LABELS: [(&str, &str); 6] = [
    ("webhook", "Webhook"),
    ("body", "Body, exactly as it arrived"),
    ("signature", "X-Service-Signature"),
    ("webhookId", "webhook-id"),
    ("webhookTimestamp", "webhook-timestamp"),
    ("webhookSignature", "webhook-signature"),
];

/// The page.
pub fn page(frame: &Frame, verify: &Verify) -> String {
    let Verify { sent, wrong, webhooks, findings, comparison } = verify;
    let form = Form { sent, wrong: Wrong(wrong) };
    let head = Head {
        title: html! { "Verify a signature" },
        below: Some(html! {
            "Paste what a receiver got. Docket compares it with the secret of the webhook, and says what differs. Nothing of it is kept. "
            a href="/docs/webhooks/verify.html" { "How a receiver verifies" }
        }),
        ..Head::default()
    };
    let main = html! {
        (parts::head(&head))
        (form.wrong.summary(CHECK, &LABELS))
        @if let Some(findings) = findings { (results(findings, *comparison)) }
        @if webhooks.is_empty() {
            section.card aria-label="What arrived" {
                (parts::nothing(
                    "No webhook has a secret",
                    &html! { p { "So no delivery is signed. " a href=(Section::Webhooks.path()) { "Look at the webhooks" } } },
                ))
            }
        } @else {
            (parts::card("arrived", "What arrived", &html! {}, &parts::inside(&asked(frame, form, webhooks))))
        }
    };
    page::page(frame, Section::Verify, &form.wrong.titled("Verify a signature"), &main)
}

fn asked(frame: &Frame, form: Form<'_>, webhooks: &[String]) -> Markup {
    let signed = frame.webhooks.iter().filter(|webhook| webhooks.contains(&webhook.full_name));
    html! {
        form.fields method="post" action=(Section::Verify.path()) {
            (page::csrf(frame))
            (form.select("Webhook", "webhook", true, &field::webhooks(signed, form.value("webhook"))))
            (form.area("Body, exactly as it arrived", "body"))
            p.hint { "A browser sends line ends as CRLF. If the body has any, use " code { "docket verify" } ", which reads bytes." }
            (form.text("X-Service-Signature", "signature", "64 hexadecimal digits"))
            fieldset {
                legend { "And, if they came, the headers of Standard Webhooks" }
                (form.text("webhook-id", "webhookId", "evt_…"))
                p.hint { "With this id, Docket also compares the body with the bytes that it sent." }
                (form.text("webhook-timestamp", "webhookTimestamp", "seconds since 1970"))
                (form.text("webhook-signature", "webhookSignature", "v1,…"))
            }
            button.primary type="submit" { "Verify" }
        }
    }
}

fn results(findings: &[Finding], comparison: Option<BodyComparison>) -> Markup {
    let body = parts::inside(&html! {
        div.stack role="status" {
            @for Finding { header, fault } in findings {
                @match fault {
                    None => { p { (parts::badge(Tone::Good, "Matches")) " " (header) " matches" } }
                    Some(fault) => { p { (parts::badge(Tone::Wait, "No match")) " " (header) " does not match: " (fault) } }
                }
            }
            @if let Some(comparison) = comparison {
                @let (tone, words) = comparison.tone();
                p { (parts::badge(tone, words)) " " (comparison) }
            }
        }
    });
    parts::card("result", "Result", &html! {}, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;
    use crate::page::WebhookName;

    #[test]
    fn comparison_names_the_first_byte_that_differs() {
        for (received, text) in [
            (&b"{\"a\":1}"[..], "The body is exactly the 7 bytes that Docket sends"),
            (b"{\"a\":1}\r\n", "Docket sent 7 bytes; yours have 2 more at the end"),
            (b"{\"a\":", "Docket sent 7 bytes; yours end after 5 of them"),
            (b"", "Docket sent 7 bytes; yours end after 0 of them"),
            (b"{\"a\": 1}", "Docket sent 7 bytes; yours differ at byte 6"),
            (b"[]", "Docket sent 7 bytes; yours differ at byte 1"),
        ] {
            assert_eq!(BodyComparison::of(b"{\"a\":1}", received).to_string(), text);
        }
    }

    #[test]
    fn what_was_pasted_comes_back_as_text() {
        let verify = Verify {
            sent: Filters(vec![
                ("webhook".into(), "a/orders".into()),
                ("body".into(), "</textarea><script>".into()),
                ("signature".into(), "\"><b>".into()),
            ]),
            wrong: Vec::new(),
            webhooks: vec!["a/orders".into(), "a/other".into()],
            findings: Some(vec![
                Finding { header: "X-Service-Signature", fault: Some("<u>".into()) },
                Finding { header: "webhook-signature", fault: None },
            ]),
            comparison: Some(BodyComparison::Differs { sent: 301, at: 96 }),
        };
        let names = [("a/orders", "<i>"), ("a/other", "Other"), ("a/unsigned", "Unsigned")];
        let name =
            |(full_name, name): (&str, &str)| WebhookName { full_name: full_name.into(), name: name.into() };
        let frame = Frame { webhooks: names.map(name).into(), ..frame() };
        let text = page(&frame, &verify);
        for raw in ["</textarea><script>", "<b>", "<i>", "<u>", "Unsigned"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
        for part in [
            " webhook-signature matches</p>",
            " X-Service-Signature does not match: &lt;u&gt;</p>",
            " Docket sent 301 bytes; yours differ at byte 96</p>",
            "<option value=\"a/orders\" selected>&lt;i&gt;</option>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let wrong = vec![("signature".to_owned(), "Paste this".to_owned())];
        let refused = page(&frame, &Verify { wrong, findings: None, comparison: None, ..verify.clone() });
        assert!(
            refused.contains("href=\"#field-signature\">X-Service-Signature: Paste this</a>"),
            "{refused}"
        );
        assert!(refused.contains("<title>Error: Verify") && !refused.contains("Result"), "{refused}");
        let none = Verify { webhooks: Vec::new(), findings: None, ..verify };
        assert!(page(&frame, &none).contains("No webhook has a secret"));
    }
}
