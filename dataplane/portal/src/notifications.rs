//! Notifications: the e-mail that the user gets when the state of a webhook changes.

use docket_domain::notice::WebhookState;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::field::{UNSAVED, Wrong, id};
use crate::page::{self, Frame, Role, Section, csrf};
use crate::parts::{self, Head, Tone};
use crate::time::at;

/// The fields of the form of a new subscription, each with its label.
const LABELS: [(&str, &str); 3] =
    [("webhook", "Webhook"), ("states", "Send a message when"), ("email", "E-mail address")];

/// The page of the documentation about messages.
const DOCS: &str = "/docs/webhooks/notifications.html";

/// What a user's page of notifications shows.
#[derive(Debug, Clone, Default)]
pub struct Notifications {
    /// Whether Docket sends e-mail here.
    pub sends_mail: bool,
    /// The user's subscriptions, the oldest first.
    pub subscriptions: Vec<SubscriptionView>,
    /// The address that forms propose; empty if no address of the user is known.
    pub address: String,
}

/// A subscription of the user.
#[derive(Debug, Clone)]
pub struct SubscriptionView {
    /// Its id.
    pub id: String,
    /// The webhook, as `namespace/name`; `None`: all webhooks that the user may see.
    pub webhook: Option<String>,
    /// The states that are announced.
    pub states: Vec<WebhookState>,
    /// Where messages go.
    pub address: String,
    /// Until when the owner of the address may confirm it; `None`: messages go to the address.
    pub confirm_until: Option<Timestamp>,
}

/// What a form asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The webhook, as `namespace/name`; empty: all webhooks.
    pub webhook: String,
    /// The states to announce.
    pub states: Vec<WebhookState>,
    /// The address.
    pub address: String,
}

docket_crds::words! {
    /// What the user has done with a subscription: a value of the parameter [`DONE`](crate::DONE).
    pub enum Done {
        /// The subscription was added, and sends messages.
        Added = "email-added",
        /// The subscription was added, and its address has to be confirmed.
        Waiting = "email-waiting",
        /// The subscription has other states.
        Changed = "email-changed",
        /// The subscription has ended.
        Ended = "email-ended",
    }
}

impl Done {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Added => "Added. The next change sends a message.",
            Self::Waiting => {
                "Added. The address gets a message with a link now: open it within 7 days. Until then, the address gets no other message."
            }
            Self::Changed => "Your choice of messages is saved.",
            Self::Ended => "Ended. It sends no more messages.",
        }
    }
}

/// The sentence for a value of the parameter [`DONE`](crate::DONE), if the value belongs to the pages of notifications.
pub fn done(word: &str) -> Option<&'static str> {
    word.parse().ok().map(Done::sentence)
}

/// The page. `refused`: the form that was sent last and each field that is wrong, with what would be right; the name of a field is
/// empty if the whole form is refused.
pub fn page(
    frame: &Frame,
    own: &Notifications,
    done: Option<&str>,
    refused: Option<(&Wanted, &[(String, String)])>,
) -> String {
    let below = html! {
        "An e-mail to you when the state of a webhook changes: one for each change, however many deliveries it concerns. "
        a href=(DOCS) { "How messages work" }
    };
    let fresh =
        Wanted { webhook: String::new(), states: WebhookState::ALL.into(), address: own.address.clone() };
    let (wanted, wrong) = refused.unwrap_or((&fresh, &[]));
    let wrong = Wrong(wrong);
    let main = html! {
        (parts::head(&Head { title: html! { "Notifications" }, below: Some(below), ..Head::default() }))
        (parts::done(done))
        (wrong.summary(UNSAVED, &LABELS))
        @if !own.sends_mail {
            section.card aria-labelledby="not-set-up" {
                header { h2 #not-set-up { "Messages are off" } }
                (parts::nothing("E-mail is not set up here", &not_set_up()))
            }
        }
        @if own.sends_mail || !own.subscriptions.is_empty() {
            (parts::card("own", "Your notifications", &html! {}, &list(frame, own)))
        }
        @if own.sends_mail {
            (parts::card("add", "Add a notification", &html! {}, &form(frame, wanted, wrong)))
        }
    };
    page::page(frame, Section::Notifications, &wrong.titled("Notifications"), &main)
}

/// The card of a webhook's page with which the user chooses the messages about this webhook.
pub fn email_card(frame: &Frame, own: &Notifications, full_name: &str) -> Markup {
    let about = |one: &&SubscriptionView| one.webhook.as_deref() == Some(full_name);
    let found = own.subscriptions.iter().find(about);
    let more = own.subscriptions.iter().filter(about).count().saturating_sub(1);
    let states = found.map(|one| &*one.states).unwrap_or_default();
    let body = if own.sends_mail {
        html! {
            form.fields.in method="post" action={ (Section::Notifications.path()) "/webhook" } {
                (csrf(frame))
                input type="hidden" name="webhook" value=(full_name);
                fieldset {
                    legend { "Send me a message when" }
                    (boxes(states, None))
                }
                @if let Some(found) = found {
                    input type="hidden" name="id" value=(found.id);
                    p.hint { "To " (found.address) ". " (state(frame, found)) " Without a tick, it ends." }
                } @else {
                    (address(frame, &own.address, Wrong(&[])))
                }
                @if more > 0 { p.hint { "There " (if more == 1 { "is" } else { "are" }) " " (more) " more about this webhook, to other addresses." } }
                @if own.subscriptions.iter().any(|one| one.webhook.is_none()) {
                    p.hint { "You also get messages about all webhooks." }
                }
                button.primary type="submit" { "Save the choice" }
            }
        }
    } else {
        parts::inside(&html! { p { "E-mail is not set up here." } (not_set_up()) })
    };
    let beside = html! { a href=(Section::Notifications.path()) { "All your notifications" } };
    parts::card("e-mail-me", "E-mail me", &beside, &body)
}

fn not_set_up() -> Markup {
    html! {
        p {
            "Ask the people who run Docket: " a href="/docs/kubernetes/mail.html" { "they can connect it to a mail server" }
            ". Until then, this portal shows which webhooks need attention, on each page."
        }
    }
}

fn list(frame: &Frame, own: &Notifications) -> Markup {
    if own.subscriptions.is_empty() {
        let why = html! { p { "You get no message when a webhook fails. Add one below." } };
        return parts::nothing("You have no notification", &why);
    }
    let heads = [("Webhook", ""), ("Message when", ""), ("Address", ""), ("State", ""), ("Action", "")];
    let rows = html! {
        @for one in &own.subscriptions {
            tr {
                th scope="row" {
                    @match &one.webhook {
                        Some(webhook) => (frame.webhook(webhook)),
                        None => "All webhooks",
                    }
                }
                td { @for state in &one.states { div { (label(*state)) } } }
                td { div.long tabindex="0" { (one.address) } }
                td { (state(frame, one)) }
                td {
                    form method="post" action={ (Section::Notifications.path()) "/end" } {
                        (csrf(frame))
                        input type="hidden" name="id" value=(one.id);
                        button.tiny type="submit" aria-label={ "Stop these e-mails: to " (one.address) } { "Stop these e-mails" }
                    }
                }
            }
        }
    };
    parts::table("Your notifications", &heads, &rows)
}

/// Whether messages go to the address.
fn state(frame: &Frame, one: &SubscriptionView) -> Markup {
    html! {
        @match one.confirm_until {
            None => (parts::badge(Tone::Good, "Active")),
            Some(until) if until > frame.now => {
                (parts::badge(Tone::Wait, "Not confirmed yet")) small { "Open the link in the message by " (at(until)) }
            }
            Some(_) => { (parts::badge(Tone::Mute, "Not confirmed in time")) small { "Add it again" } }
        }
    }
}

const fn label(state: WebhookState) -> &'static str {
    match state {
        WebhookState::Failing => "attempts fail",
        WebhookState::Lost => "deliveries are lost",
        WebhookState::Works => "it works again",
    }
}

/// The form of a new subscription.
fn form(frame: &Frame, wanted: &Wanted, wrong: Wrong<'_>) -> Markup {
    html! {
        form.fields.in method="post" action=(Section::Notifications.path()) {
            (csrf(frame))
            (wrong.field("webhook", "", &html! {
                "Webhook"
                select id=(id("webhook")) name="webhook" aria-invalid=[wrong.invalid("webhook")] aria-describedby=[wrong.described("webhook", "")] {
                    option value="" { "All webhooks, later ones too" }
                    @for webhook in &frame.webhooks {
                        option value=(webhook.full_name) selected[webhook.full_name == wanted.webhook] { (webhook.name) }
                    }
                }
            }))
            fieldset id=(id("states")) tabindex="-1" aria-describedby=[wrong.described("states", "")] {
                legend { "Send a message when" }
                (boxes(&wanted.states, wrong.invalid("states")))
                (wrong.below("states", ""))
            }
            p.hint {
                "Attempts fail: the third attempt of a delivery has failed, or a later one; Docket tries it again. Deliveries are lost: "
                "Docket does not try them again by itself."
            }
            (address(frame, &wanted.address, wrong))
            p.hint { "You may have 20 notifications, and all users of " (frame.tenant) " together 200." }
            button.primary type="submit" { "Add the notification" }
        }
    }
}

/// The three checkboxes. The name of each is the state.
fn boxes(states: &[WebhookState], invalid: Option<&str>) -> Markup {
    html! {
        @for state in WebhookState::ALL {
            label.check {
                input type="checkbox" name=(state.as_str()) value="yes" checked[states.contains(&state)] aria-invalid=[invalid];
                " " (label(state))
            }
        }
    }
}

/// The field of the address.
fn address(frame: &Frame, address: &str, wrong: Wrong<'_>) -> Markup {
    let hint = match frame.role {
        Role::Contact(_) => {
            "The address with which you sign in gets messages at once. Another address first gets a link that confirms it."
        }
        Role::Administrator | Role::None => {
            "The address first gets one message, with a link that confirms it."
        }
    };
    wrong.field("email", hint, &html! {
        "E-mail address"
        input id=(id("email")) name="email" type="email" value=(address) maxlength="254" required autocomplete="email"
            aria-invalid=[wrong.invalid("email")] aria-describedby=[wrong.described("email", hint)];
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    fn subscription(webhook: Option<&str>, confirm_until: Option<Timestamp>) -> SubscriptionView {
        SubscriptionView {
            id: "5eed".into(),
            webhook: webhook.map(str::to_owned),
            states: vec![WebhookState::Lost],
            address: "<i>@one.example".into(),
            confirm_until,
        }
    }

    fn own(subscriptions: Vec<SubscriptionView>) -> Notifications {
        Notifications { sends_mail: true, subscriptions, address: "ada@one.example".into() }
    }

    #[test]
    fn each_subscription_says_about_what_where_to_and_whether_its_address_is_confirmed() {
        let frame = frame();
        let later = Timestamp::from_second(frame.now.as_second() + 60).expect("in range");
        let before = Timestamp::from_second(frame.now.as_second() - 60).expect("in range");
        let all = vec![
            subscription(None, None),
            subscription(None, Some(later)),
            subscription(Some("default/gone"), Some(before)),
        ];
        let text = page(&frame, &own(all), None, None);
        for part in [
            ">All webhooks</th>",
            "default/gone (not served)",
            "Active",
            "Not confirmed yet",
            "Not confirmed in time",
            ">Stop these e-mails</button>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("<div>deliveries are lost</div>").count(), 3, "{text}");
        assert!(text.contains("&lt;i&gt;@one.example") && !text.contains("<i>"), "{text}");
    }

    #[test]
    fn refused_form_keeps_what_was_sent_and_each_error_leads_to_its_field() {
        let wanted =
            Wanted { webhook: "default/none".into(), states: vec![WebhookState::Works], address: "x".into() };
        let wrong = ["webhook", "states", "email", ""].map(|field| (field.to_owned(), "is <b>".to_owned()));
        let text = page(&frame(), &own(Vec::new()), None, Some((&wanted, &wrong)));
        assert!(text.contains("<title>Error: Notifications"), "{text}");
        for field in ["webhook", "states", "email"] {
            assert!(text.contains(&format!("<a href=\"#field-{field}\">")), "{field}: {text}");
            assert!(text.contains(&format!("id=\"error-{field}\"")), "{field}: {text}");
            assert!(text.contains(&format!(" id=\"field-{field}\"")), "{field}: {text}");
        }
        assert!(text.contains("name=\"Works\" value=\"yes\" checked"), "{text}");
        assert!(!text.contains("name=\"Lost\" value=\"yes\" checked") && !text.contains("<b>"), "{text}");
    }

    #[test]
    fn without_a_mail_server_no_form_is_shown_and_what_is_there_can_be_ended() {
        let own = Notifications { sends_mail: false, ..own(vec![subscription(None, None)]) };
        let text = page(&frame(), &own, None, None);
        assert!(text.contains("E-mail is not set up here") && text.contains("/docs/kubernetes/mail.html"));
        assert!(text.contains("/portal/notifications/end") && !text.contains("name=\"email\""), "{text}");
        let card = email_card(&frame(), &own, "default/orders").into_string();
        assert!(card.contains("E-mail is not set up here") && !card.contains("<form"), "{card}");
    }

    #[test]
    fn card_has_the_address_only_until_the_webhook_has_a_subscription() {
        let card = |all| email_card(&frame(), &own(all), "default/orders").into_string();
        let fresh = card(vec![subscription(Some("default/other"), None)]);
        assert!(fresh.contains("value=\"ada@one.example\"") && !fresh.contains(" checked"), "{fresh}");
        assert!(!fresh.contains("name=\"id\""), "{fresh}");
        let of_it = || subscription(Some("default/orders"), None);
        let kept = card(vec![subscription(None, None), of_it(), of_it()]);
        for part in [
            "name=\"Lost\" value=\"yes\" checked",
            "name=\"id\" value=\"5eed\"",
            "is 1 more",
            "about all webhooks",
        ] {
            assert!(kept.contains(part), "{part}: {kept}");
        }
        assert!(!kept.contains("name=\"email\""), "{kept}");
    }

    #[test]
    fn only_own_words_become_a_sentence() {
        assert!(Done::ALL.into_iter().all(|one| done(one.as_str()).is_some()));
        assert_eq!(done("<b>"), None);
    }
}
