//! The answer to the form that made a secret: the secret, once, and what to do next.

use docket_crds::EventCode;
use maud::{Markup, html};

use super::{snippets, test_form};
use crate::page::{self, Frame, Section, webhook_link};
use crate::parts::{self, Head};

/// Whether a secret is shown. Each is shown once.
#[derive(Debug, Clone)]
pub enum SecretDisplay {
    /// Now.
    Now {
        /// The secret as text; its bytes sign.
        secret: String,
        /// The secret in the form for libraries of Standard Webhooks.
        whsec: String,
    },
    /// The same form has already shown the secret.
    Before,
    /// The change that generated the secret is not in effect yet.
    NotYet,
}

/// The page of a secret.
#[derive(Debug, Clone)]
pub struct Secret<'a> {
    /// The webhook's `namespace/name`.
    pub full_name: &'a str,
    /// The webhook's name for people.
    pub name: &'a str,
    /// Whether it is the next secret of a webhook; otherwise the webhook was added.
    pub is_next: bool,
    /// Whether the secret is shown.
    pub shown: SecretDisplay,
    /// The events that the webhook takes now, for a test; none if it is inactive or not served yet.
    pub takes: Vec<EventCode>,
}

/// The page.
pub fn page(frame: &Frame, secret: &Secret<'_>) -> String {
    let Secret { full_name, name, is_next, shown, takes } = secret;
    let title = if *is_next { "The next secret" } else { "Webhook added" };
    let head = Head {
        above: Some((Section::Webhooks.path(), "Webhooks")),
        title: html! { (title) },
        below: Some(html! { (name) }),
        ..Head::default()
    };
    let main = html! {
        (parts::head(&head))
        @match shown {
            SecretDisplay::Now { secret, whsec } => {
                (now(secret, whsec, *is_next))
                (to_webhook(full_name))
                (parts::card("code", "2. Verify it in the receiver", &html! {}, &parts::inside(&html! {
                    p { "The receiver verifies each delivery with this secret. " a href="/docs/webhooks/verify.html" { "Verify a delivery" } " has the whole procedure and test vectors." }
                    (snippets::all())
                })))
                (next(frame, full_name, *is_next, takes))
            }
            SecretDisplay::Before => {
                div.look role="alert" {
                    p { strong { "The secret was shown before." } " The first answer to this form showed it, and it is not shown again." }
                    p { "If you do not have it, make a next secret on the webhook's page. When the receiver has the next secret, make it the current one." }
                }
                (to_webhook(full_name))
            }
            SecretDisplay::NotYet => {
                div.look role="alert" {
                    p { strong { "The change is saved and not in effect yet, so the secret cannot be shown." } }
                    @if *is_next {
                        p { "When the webhook's page shows a next secret, drop it, and make another one, which is shown." }
                    } @else {
                        p { "When the webhook is served, make a next secret on its page, which is shown, and make that the current one." }
                    }
                    p { "If it stays so: " (crate::declared::whom_to_ask(frame)) }
                }
                (to_webhook(full_name))
            }
        }
    };
    page::page(frame, Section::Webhooks, title, &main)
}

fn to_webhook(full_name: &str) -> Markup {
    html! { p { a.button href=(webhook_link(full_name)) { "Go to the webhook" } } }
}

fn now(secret: &str, whsec: &str, is_next: bool) -> Markup {
    parts::card(
        "secret",
        "1. Copy the secret",
        &html! {},
        &parts::inside(&html! {
            p { strong { "It is shown this once." } " Give it to the author of the receiver over a safe channel." }
            dl.facts {
                dt { "For X-Service-Signature" } dd { code { (secret) } " " (parts::copy("the secret")) }
                dt { "For Standard Webhooks libraries" } dd { code { (whsec) } " " (parts::copy("the secret for Standard Webhooks libraries")) }
            }
            @if is_next {
                p { "Both secrets sign from now on. X-Service-Signature stays that of the current secret until you make this one the current one, so the receiver must accept both." }
            }
        }),
    )
}

fn next(frame: &Frame, full_name: &str, is_next: bool, takes: &[EventCode]) -> Markup {
    let change = html! {
        p { "When the receiver accepts both secrets, make the next secret the current one on " a href={ (webhook_link(full_name)) "#secret" } { "the webhook's page" } "." }
    };
    let test = html! {
        @if takes.is_empty() {
            p { "When the webhook is active, send a test event from its page." }
        } @else {
            p { "Copy the secret first: the next page, with the result of the test, does not show it." }
            (test_form(frame, full_name, takes))
        }
        p { "Then " a href="/docs/api/orders.html" { "save an order" } @if frame.is_of_tenant() { " of the customer" } ": its delivery is in Webhook Logs." }
    };
    match is_next {
        true => parts::card("next", "3. Change over", &html! {}, &parts::inside(&change)),
        false => parts::card("next", "3. Try it", &html! {}, &parts::inside(&test)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::contact;
    use super::*;
    use crate::logs::tests::frame;

    fn of(is_next: bool, shown: SecretDisplay) -> Secret<'static> {
        let takes = vec![EventCode::OrderCreated];
        Secret { full_name: "default/orders", name: "<b>Orders", is_next, shown, takes }
    }

    #[test]
    fn secret_is_shown_once_with_what_to_do_next() {
        let now = SecretDisplay::Now { secret: "5ec<i>".into(), whsec: "whsec_<u>".into() };
        let text = page(&frame(), &of(false, now.clone()));
        for part in [
            "<h1>Webhook added</h1>",
            "For X-Service-Signature</dt><dd><code>5ec&lt;i&gt;</code> <button",
            "<code>whsec_&lt;u&gt;</code> <button",
            "class=\"button\" href=\"/portal/webhooks/default/orders\"",
            "<summary>Ruby</summary>",
            "action=\"/portal/webhooks/default/orders/test\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<b>Orders"), "{text}");
        let next = page(&frame(), &of(true, now));
        assert!(next.contains("the receiver must accept both") && !next.contains("/test\""), "{next}");
    }

    #[test]
    fn secret_that_is_not_shown_says_why_and_what_to_do() {
        let before = page(&frame(), &of(false, SecretDisplay::Before));
        assert!(before.contains("was shown before") && before.contains("make a next secret"), "{before}");
        let later = |frame: &Frame, is_next| page(frame, &of(is_next, SecretDisplay::NotYet));
        assert!(later(&frame(), true).contains("drop it, and make another one"));
        assert!(later(&frame(), false).contains("not in effect yet"));
        assert!(later(&contact(), false).contains("Ask the administrators of Acme"));
    }
}
