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
    let title = if *is_next { "The new secret" } else { "Webhook added" };
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
                @if *is_next { (both()) } @else { (one()) }
                (next(frame, full_name, *is_next, takes))
                (to_webhook(full_name))
            }
            SecretDisplay::Before => {
                div.look role="alert" {
                    p { strong { "The secret was shown before." } " The first answer to this form showed it, and it is not shown again." }
                    p { "If you do not have it, replace it on the webhook's page." }
                }
                (to_webhook(full_name))
            }
            SecretDisplay::NotYet => {
                div.look role="alert" {
                    p { strong { "The change is saved and not in effect yet, so the secret cannot be shown." } }
                    @if *is_next {
                        p { "When the webhook's page shows that a new secret waits, delete the new secret there, and make another one, which is shown." }
                    } @else {
                        p { "When the webhook is served, replace its secret on its page, which shows the new one." }
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
    let title = if is_next { "1. Copy the new secret" } else { "1. Copy the secret" };
    parts::card(
        "secret",
        title,
        &html! {},
        &parts::inside(&html! {
            p { strong { "It is shown this once." } " Give it to the author of the receiver over a safe channel." }
            p { "These are two spellings of the same secret. Send both if you are not sure which one the author needs." }
            dl.facts {
                dt { "For X-Service-Signature" } dd { code { (secret) } " " (parts::copy("the secret")) }
                dt { "For Standard Webhooks libraries" } dd { code { (whsec) } " " (parts::copy("the secret for Standard Webhooks libraries")) }
            }
        }),
    )
}

/// How the receiver of a new webhook verifies deliveries.
fn one() -> Markup {
    let body = html! {
        p { "The receiver verifies each delivery with this secret. " a href="/docs/webhooks/verify.html" { "Verify a delivery" } " has the whole procedure and test vectors." }
        (snippets::all())
    };
    parts::card("code", "2. Verify it in the receiver", &html! {}, &parts::inside(&body))
}

/// How the receiver verifies deliveries during a rotation.
fn both() -> Markup {
    let body = html! {
        p { "Until step 3, X-Service-Signature is by the old secret. From step 3 on, it is by the new one. So the receiver must accept both secrets before step 3." }
        p { "A receiver with a library of Standard Webhooks takes the new secret at any time, because webhook-signature has a signature by each secret." }
        (snippets::of_two_secrets())
    };
    parts::card("code", "2. Let the receiver accept both secrets", &html! {}, &parts::inside(&body))
}

fn next(frame: &Frame, full_name: &str, is_next: bool, takes: &[EventCode]) -> Markup {
    let change = html! {
        p { "Do this on " a href={ (webhook_link(full_name)) "#secret" } { "the webhook's page" } " when the receiver accepts both secrets:" }
        ol {
            li { "Send a test event: it must arrive before you change over." }
            li { "Make the new secret the current one." }
            li { "Send another test event: it shows that the receiver accepts the new secret." }
        }
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
        assert!(next.contains("verify_either(") && !text.contains("verify_either("), "{next}");
        for (step, title) in
            ["Copy the new secret", "Let the receiver accept both secrets", "Change over"].iter().enumerate()
        {
            assert!(next.contains(&format!(">{}. {title}</h2>", step + 1)), "{title}: {next}");
        }
    }

    #[test]
    fn secret_that_is_not_shown_says_why_and_what_to_do() {
        let before = page(&frame(), &of(false, SecretDisplay::Before));
        assert!(
            before.contains("was shown before") && before.contains("replace it on the webhook's page"),
            "{before}"
        );
        let later = |frame: &Frame, is_next| page(frame, &of(is_next, SecretDisplay::NotYet));
        assert!(later(&frame(), true).contains("delete the new secret there, and make another one"));
        assert!(later(&frame(), false).contains("not in effect yet"));
        assert!(later(&contact(), false).contains("Ask the administrators of Acme"));
    }
}
