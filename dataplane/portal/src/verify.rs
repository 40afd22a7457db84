//! Verify a signature: why the signature of a received delivery does not match. No digest is shown.

use maud::{Markup, html};

use crate::logs::Filters;
use crate::page::{self, Frame, Section};

/// The result for one of the two kinds of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the header.
    pub header: &'static str,
    /// Why the signature does not match; `None`: the signature matches.
    pub fault: Option<String>,
}

/// The page of the form.
#[derive(Debug, Clone)]
pub struct Verify {
    /// The values that the user sent.
    pub sent: Filters,
    /// The names of the signed webhooks, to choose from.
    pub webhooks: Vec<String>,
    /// The result; `None`: nothing was sent yet.
    pub findings: Option<Vec<Finding>>,
}

/// The page.
pub fn page(frame: &Frame, verify: &Verify) -> String {
    let Verify { sent, webhooks, findings } = verify;
    let value = |name| sent.value(name);
    let line = |label: &str, name: &'static str, hint: &str| {
        html! { label { (label) input name=(name) value=(value(name)) placeholder=(hint) maxlength="4096" autocomplete="off"; } }
    };
    let main = html! {
        h1 { "Verify a signature" }
        p { "Paste what a receiver got. Docket compares it with the secret of the webhook, and says what differs. Nothing of it is kept." }
        @if let Some(findings) = findings { (results(findings)) }
        @if webhooks.is_empty() {
            p role="status" { "No webhook has a secret, so no delivery is signed." }
        } @else {
            form.fields method="post" action=(Section::Verify.path()) {
                (page::csrf(frame))
                label {
                    "Webhook"
                    select name="webhook" required {
                        @for name in webhooks { option value=(name) selected[name == value("webhook")] { (name) } }
                    }
                }
                label {
                    "Body, exactly as it arrived"
                    textarea name="body" rows="8" maxlength="60000" spellcheck="false" { "\n" (value("body")) }
                }
                p.hint { "A browser sends line ends as CRLF. If the body has any, use " code { "docket verify" } ", which reads bytes." }
                (line("X-Service-Signature", "signature", "64 hexadecimal digits"))
                fieldset {
                    legend { "And, if they came, the headers of Standard Webhooks" }
                    (line("webhook-id", "webhookId", "evt_…"))
                    (line("webhook-timestamp", "webhookTimestamp", "seconds since 1970"))
                    (line("webhook-signature", "webhookSignature", "v1,…"))
                }
                button.primary type="submit" { "Verify" }
            }
        }
    };
    page::page(frame, Section::Verify, "Verify a signature", &main)
}

fn results(findings: &[Finding]) -> Markup {
    html! {
        div role="status" {
            @if findings.is_empty() { p.wrong { "Fill in X-Service-Signature or webhook-signature." } }
            @for Finding { header, fault } in findings {
                @match fault {
                    None => { p.good { span aria-hidden="true" { "✓ " } (header) " matches" } }
                    Some(fault) => { p.bad { span aria-hidden="true" { "✕ " } (header) " does not match: " (fault) } }
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
    fn what_was_pasted_comes_back_as_text() {
        let verify = Verify {
            sent: Filters(vec![
                ("body".into(), "</textarea><script>".into()),
                ("signature".into(), "\"><b>".into()),
            ]),
            webhooks: vec!["default/<i>".into()],
            findings: Some(vec![
                Finding { header: "X-Service-Signature", fault: Some("<u>".into()) },
                Finding { header: "webhook-signature", fault: None },
            ]),
        };
        let text = page(&frame(), &verify);
        for raw in ["</textarea><script>", "<b>", "<i>", "<u>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
        assert!(
            text.contains("webhook-signature matches") && text.contains("X-Service-Signature does not match")
        );
        let none = Verify { webhooks: Vec::new(), findings: None, ..verify };
        assert!(page(&frame(), &none).contains("no delivery is signed"));
    }
}
