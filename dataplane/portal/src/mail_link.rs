//! The page of the link in a message about webhooks. Its user need not sign in: the message is the proof.

use maud::{Markup, html};

use crate::{ROOT, page};

/// What the link can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailLink {
    /// Confirm the address.
    Confirm,
    /// End the subscription.
    Unsubscribe,
    /// Nothing: the subscription has ended, or the address was not confirmed in time.
    Nothing,
    /// Nothing more: the address was confirmed just now.
    Confirmed,
    /// Nothing more: the subscription was ended just now.
    Unsubscribed,
}

/// The path of a link.
pub fn path(token: &str) -> String {
    format!("{ROOT}/mail/{token}")
}

/// The page.
pub fn page(tenant: &str, token: &str, link: MailLink) -> String {
    let (title, main) = match link {
        MailLink::Confirm => {
            ("Confirm your e-mail address", button(tenant, token, "confirm", "Get messages about webhooks"))
        }
        MailLink::Unsubscribe => {
            ("End this subscription", button(tenant, token, "unsubscribe", "Get no more messages"))
        }
        MailLink::Nothing => ("Nothing to do", said("This link sends no message any more.")),
        MailLink::Confirmed => {
            ("Your address is confirmed", said("You get a message when the state of a webhook changes."))
        }
        MailLink::Unsubscribed => ("The subscription has ended", said("You get no more messages of it.")),
    };
    page::bare(title, &html! { h1 { (title) } (main) })
}

fn said(text: &str) -> Markup {
    html! { p role="status" { (text) } }
}

fn button(tenant: &str, token: &str, action: &str, label: &str) -> Markup {
    html! {
        p { "This link is of a message about webhooks of " (tenant) "." }
        form method="post" action=(path(token)) {
            input type="hidden" name="action" value=(action);
            button.primary type="submit" { (label) }
        }
    }
}
