//! The section Webhooks: the tenant's webhooks, with the settings that the specification names.

pub mod detail;
mod form;
pub mod list;
pub mod new;
pub mod secret;
mod snippets;

use docket_crds::EventCode;
use jiff::Timestamp;
use maud::{Markup, html};

pub use form::Customers;

use crate::page::{self, Frame, webhook_link};
use crate::parts;
use crate::state::{Signs, WebhookState};

/// A webhook as it is served.
#[derive(Debug, Clone, Default)]
pub struct ServedWebhook {
    /// `namespace/name`.
    pub full_name: String,
    /// The settings.
    pub settings: FormSettings,
    /// The name of its customer; the code, if the tenant has no such customer.
    pub customer_name: String,
    /// The events that it subscribes to and that are on in the catalogue.
    pub takes: Vec<EventCode>,
    /// Whether the tenant has no customer with the code, so that no event is sent.
    pub lacks_customer: bool,
    /// Whether the webhook's deliveries are signed.
    pub is_signed: bool,
    /// Whether the webhook's deliveries are also signed with the next secret.
    pub has_next_secret: bool,
    /// Problems of its settings, although it is served, and possible mistakes, each as a sentence.
    pub faults: Vec<String>,
    /// The number of its deliveries that have not ended, including failed ones.
    pub pending: i64,
    /// The number of pending deliveries whose last attempt failed.
    pub retrying: i64,
    /// The number of its open dead letters: neither resent nor set aside.
    pub dead_letter: i64,
    /// When a delivery last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// When a delivery last became a dead letter that is still open.
    pub last_dead_letter_at: Option<Timestamp>,
}

impl ServedWebhook {
    /// The name for people.
    fn name(&self) -> &str {
        self.settings.name_or(&self.full_name)
    }

    fn state(&self) -> WebhookState {
        WebhookState::of(Signs {
            dead_letter: self.dead_letter,
            retrying: self.retrying,
            last_success: self.last_success_at,
            last_dead_letter: self.last_dead_letter_at,
            is_faulty: !self.faults.is_empty(),
        })
    }
}

/// The fields of a webhook's form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormSettings {
    /// The name for people.
    pub display_name: String,
    /// The customer whose events are sent.
    pub customer_code: String,
    /// The receiver.
    pub target_url: String,
    /// The events that it subscribes to.
    pub events: Vec<EventCode>,
    /// Whether new events are sent.
    pub active: bool,
}

impl FormSettings {
    /// The name for people; `full_name` if the webhook has none.
    fn name_or<'a>(&'a self, full_name: &'a str) -> &'a str {
        if self.display_name.trim().is_empty() { full_name } else { &self.display_name }
    }
}

/// Where a webhook can be changed.
#[derive(Debug, Clone)]
pub enum Keeper {
    /// The portal can change the webhook. Its forms send this version of the webhook.
    Portal(String),
    /// Only another program can change the webhook.
    Other {
        /// The place: who has the object.
        place: String,
        /// What the YAML shows.
        what: Shows,
        /// The YAML, without the values of secrets.
        yaml: String,
    },
}

/// What the page of a webhook shows as YAML if the webhook can't be changed in the portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// The document of its file.
    Document,
    /// The object of the cluster, as it may be applied again.
    Object,
    /// Only the fields that can be changed.
    Fields,
}

/// The note about parts that [`Shows::Fields`] leaves out.
pub const LEFT_OUT: &str = "A part of the object, to change line by line. Left out, and to be kept as they are: metadata, tenantRef, \
                            customerCode, secretRef, generateSecret and caBundleRef.";

docket_crds::words! {
    /// What the user has just done.
    pub enum Done {
        /// A webhook was added with a secret that the user chose.
        Added = "added",
        /// The settings were saved.
        Saved = "saved",
        /// A change was saved and is not in effect yet.
        Later = "later",
        /// The webhook was activated.
        Activated = "activated",
        /// The webhook was deactivated.
        Deactivated = "deactivated",
        /// The next secret became the current one.
        Promoted = "promoted",
        /// The next secret was dropped.
        Dropped = "dropped",
        /// The webhook was removed.
        Removed = "removed",
        /// A test event was sent.
        TestSent = "test-sent",
    }
}

impl Done {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Added => {
                "The webhook is added. Docket signs its deliveries with the secret that you chose."
            }
            Self::Saved => "The settings are saved and in effect.",
            Self::Later => {
                "The change is saved, and not in effect yet. Open this page again in some seconds."
            }
            Self::Activated => "The webhook is active: new events are sent.",
            Self::Deactivated => {
                "The webhook is inactive: no new event is sent. Deliveries that wait are still sent."
            }
            Self::Promoted => {
                "Docket signs with the new secret alone now, and the old one is deleted. Send a test event to see that the receiver accepts it."
            }
            Self::Dropped => "The new secret is deleted. Docket signs with the current one, as before.",
            Self::Removed => "The webhook is removed.",
            Self::TestSent => {
                "The test event is queued. Its result appears here when the receiver has answered."
            }
        }
    }
}

/// The sentence about what the user has just done, if anything.
fn done(done: Option<Done>) -> Markup {
    parts::done(done.map(Done::sentence))
}

/// A form with one button that does something to a webhook.
fn action(frame: &Frame, full_name: &str, version: &str, what: &str, button: &Markup) -> Markup {
    html! {
        form method="post" action={ (webhook_link(full_name)) "/" (what) } {
            (hidden(frame, version))
            (button)
        }
    }
}

fn hidden(frame: &Frame, version: &str) -> Markup {
    html! { (page::csrf(frame)) input type="hidden" name="version" value=(version); }
}

/// The form that sends a test event of one of the events that the webhook takes.
fn test_form(frame: &Frame, full_name: &str, takes: &[EventCode]) -> Markup {
    html! {
        form.row method="post" action={ (webhook_link(full_name)) "/test" } {
            (page::csrf(frame))
            label { "Event" select name="event" { @for code in takes { option value=(code.as_str()) { (code.as_str()) } } } }
            button type="submit" { "Send a test event" }
        }
        p.hint {
            "It is signed, tried again and logged as any other delivery, with sample data and the header "
            code { "X-Service-Test: true" } ". It does not count as lost if it fails."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{Faulty, Unserved};
    use crate::logs::tests::{delivery, frame};
    use crate::page::Role;

    pub(super) fn webhook() -> ServedWebhook {
        ServedWebhook {
            full_name: "default/orders".into(),
            settings: FormSettings {
                display_name: "<b>Orders</b>".into(),
                customer_code: "<i>C-1".into(),
                target_url: "https://h.example/?a=<u>".into(),
                events: vec![EventCode::OrderCreated],
                active: true,
            },
            customer_name: "<i>One".into(),
            takes: vec![EventCode::OrderCreated],
            is_signed: true,
            dead_letter: 3,
            pending: 5,
            retrying: 2,
            ..ServedWebhook::default()
        }
    }

    pub(super) fn contact() -> Frame {
        Frame { role: Role::Contact("One".into()), ..frame() }
    }

    #[test]
    fn pages_escape_all_texts() {
        let faulty = || Faulty { full_name: "a/<x>".into(), faults: vec!["<y>".into(), "<x>".into()] };
        let webhook = || ServedWebhook { faults: faulty().faults, ..webhook() };
        let wrong = [("targetUrl".to_owned(), "<y>".to_owned()), (String::new(), "<x>".to_owned())];
        let settings = webhook().settings;
        let other = Keeper::Other { place: "<a>".into(), what: Shows::Object, yaml: "<pre>".into() };
        let own = Keeper::Portal("v".into());
        let customers = Customers { known: vec![("<i>C-1".into(), "<b>Orders".into())], are_more: true };
        let list = list::List {
            webhooks: vec![webhook()],
            unserved: Unserved { known: vec![faulty()], may_be_more: false },
            choice: list::Choice { text: "<x>".into(), ..list::Choice::default() },
            can_add: true,
            done: None,
        };
        let all = list::List { choice: list::Choice::default(), ..list.clone() };
        let detail = |keeper, unsaved| detail::Detail {
            deliveries: vec![delivery()],
            tests: vec![delivery()],
            ..detail::Detail::new(webhook(), keeper, unsaved)
        };
        let new = new::NewForm {
            form: "<a>",
            settings: &settings,
            wrong: &wrong,
            customers: Some(&customers),
            may_give: true,
        };
        let editable =
            detail::Editable { settings: &settings, version: "<a>", unsaved: Some((&settings, &wrong[..])) };
        let unsaved = Some((settings.clone(), wrong.to_vec()));
        for text in [
            list::page(&frame(), &list),
            list::page(&frame(), &all),
            detail::page(&frame(), &detail(other, None)),
            detail::page(&frame(), &detail(own, unsaved)),
            new::page(&frame(), &new),
            detail::unserved(&frame(), &faulty(), Some(&editable), None),
            detail::unserved(&contact(), &faulty(), None, None),
        ] {
            for raw in
                ["<b>Orders", "<i>", "=<u>", "<a>", "<pre><code><pre>", "<x>", "<y>", "<script>1", "<img"]
            {
                assert!(!text.contains(raw), "{raw}: {text}");
            }
        }
    }

    #[test]
    fn every_deed_has_its_sentence() {
        for word in Done::ALL {
            let text = done(Some(word)).into_string();
            assert!(text.starts_with("<div class=\"done\" role=\"status\"><p>"), "{text}");
        }
        assert_eq!(done(None).into_string(), "");
    }
}
