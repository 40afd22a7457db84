//! The page of the link in a message about webhooks. Its user need not sign in: the message is the proof.

use maud::{Markup, html};

use crate::brand::Brand;
use crate::page::Section;
use crate::{ROOT, page};

/// What a subscription is about.
#[derive(Debug, Clone, Default)]
pub struct Subscribed {
    /// The address; `None`: the address with which a contact signs in.
    pub address: Option<String>,
    /// The webhook's name for people; `None`: all webhooks that the user may see.
    pub webhook: Option<String>,
}

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
    /// Nothing more: its address was refused just now.
    Refused,
}

/// The path of a link.
pub fn path(token: &str) -> String {
    format!("{ROOT}/mail/{token}")
}

/// The page. `subscribed`: the subscription of the link; `None`: there is none any more.
pub fn page(
    tenant: &str,
    brand: &Brand,
    token: &str,
    link: MailLink,
    subscribed: Option<&Subscribed>,
) -> String {
    let (title, body) = match link {
        MailLink::Confirm => (
            "Confirm your e-mail address",
            html! {
                p { "A user of " (tenant) " wants this address to get messages when the state of a webhook changes." }
                (button(token, "confirm", "Get messages about webhooks"))
                p.hint { "If you did not ask for it, close this page. Without your confirmation, the address gets no message about webhooks." }
                (button(token, "refuse", "Never write to this address"))
            },
        ),
        MailLink::Unsubscribe => (
            "End this subscription",
            html! {
                p { "This link is of a message about webhooks of " (tenant) "." }
                (button(token, "unsubscribe", "Get no more messages"))
            },
        ),
        MailLink::Nothing => (
            "Nothing to do",
            html! {
                p role="status" { "This link sends no message any more." }
                p.hint { "The subscription has ended, or its address was not confirmed within 7 days." }
            },
        ),
        MailLink::Confirmed => (
            "Your address is confirmed",
            html! { div.done role="status" { p { "You get a message when the state of a webhook changes." } } },
        ),
        MailLink::Unsubscribed => (
            "The subscription has ended",
            html! { div.done role="status" { p { "You get no more messages of it." } } },
        ),
        MailLink::Refused => (
            "No more messages",
            html! { div.done role="status" { p { "No user of " (tenant) " can subscribe with this address any more." } } },
        ),
    };
    let main = html! {
        h1 { (title) }
        section.card aria-label=(title) {
            div.in {
                @if let Some(subscribed) = subscribed { (about(subscribed)) }
                (body)
                @if link != MailLink::Confirm {
                    p { a href=(Section::Notifications.path()) { "All your notifications" } }
                }
            }
        }
    };
    page::of_tenant(tenant, brand, title, &main)
}

/// The address and the webhook.
fn about(Subscribed { address, webhook }: &Subscribed) -> Markup {
    html! {
        dl.facts {
            @if let Some(address) = address { dt { "Address" } dd { (address) } }
            dt { "Messages about" } dd { (webhook.as_deref().unwrap_or("all webhooks")) }
        }
    }
}

fn button(token: &str, action: &str, label: &str) -> Markup {
    html! {
        form method="post" action=(path(token)) {
            input type="hidden" name="action" value=(action);
            button.primary[action != "refuse"] type="submit" { (label) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_has_a_button_only_while_it_can_do_something() {
        for (link, action) in [
            (MailLink::Confirm, Some("confirm")),
            (MailLink::Confirm, Some("refuse")),
            (MailLink::Refused, None),
            (MailLink::Unsubscribe, Some("unsubscribe")),
            (MailLink::Nothing, None),
            (MailLink::Confirmed, None),
            (MailLink::Unsubscribed, None),
        ] {
            let text = page("Acme <b>", &Brand::default(), "0f", link, None);
            assert_eq!(text.contains("<form method=\"post\" action=\"/portal/mail/0f\">"), action.is_some());
            assert!(action.is_none_or(|action| text.contains(&format!("value=\"{action}\""))), "{text}");
            assert!(!text.contains("<b>") && text.matches("<h1>").count() == 1, "{text}");
        }
    }

    #[test]
    fn page_names_the_address_and_the_webhook() {
        let shown = |address: Option<&str>, webhook: Option<&str>| {
            let [address, webhook] = [address, webhook].map(|text| text.map(str::to_owned));
            let subscribed = Subscribed { address, webhook };
            page("Acme", &Brand::default(), "0f", MailLink::Confirm, Some(&subscribed))
        };
        let one = shown(Some("ada@one.example"), Some("Orders <b>"));
        assert!(
            one.contains("<dd>ada@one.example</dd>") && one.contains("<dd>Orders &lt;b&gt;</dd>"),
            "{one}"
        );
        let all = shown(None, None);
        assert!(all.contains("<dd>all webhooks</dd>") && !all.contains("Address"), "{all}");
    }
}
