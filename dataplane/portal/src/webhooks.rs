//! Customer ▸ Webhooks: the tenant's webhooks, with the settings that the specification names.

use docket_crds::EventCode;
use docket_domain::delivery::DeadLetter;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::declared::{self, Faulty, Unserved};
use crate::page::{self, Frame, Section, webhook_link};
use crate::time::time;
use crate::{count, counted, href};

/// A webhook as it is served.
#[derive(Debug, Clone, Default)]
pub struct ServedWebhook {
    /// `namespace/name`.
    pub full_name: String,
    /// The settings.
    pub settings: FormSettings,
    /// Those of its events that are on in the catalogue.
    pub takes: Vec<EventCode>,
    /// Whether its deliveries are signed.
    pub is_signed: bool,
    /// Whether its deliveries are also signed with the next secret.
    pub has_next_secret: bool,
    /// Problems of its declaration, although it is served, and possible mistakes: sentences that begin with the field.
    pub faults: Vec<String>,
    /// The number of its deliveries that have not ended, including failed ones.
    pub pending: i64,
    /// The number of pending deliveries whose last attempt failed.
    pub retrying: i64,
    /// The number of its open dead letters: neither resent nor set aside.
    pub dead_letter: i64,
    /// When a delivery last succeeded.
    pub last_success_at: Option<Timestamp>,
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

/// The sentence above the fields of a form with mistakes.
const NOT_SAVED: &str = "Nothing was saved:";

/// The list. `can_add`: whether the portal can declare webhooks here.
pub fn list(frame: &Frame, webhooks: &[ServedWebhook], unserved: &Unserved, can_add: bool) -> String {
    let faults = webhooks.iter().map(|webhook| (webhook.full_name.as_str(), &webhook.faults[..]));
    let main = html! {
        h1 { "Customer ▸ Webhooks" }
        @if can_add { p { a.button href={ (Section::Webhooks.path()) "/new" } { "Add a webhook" } } }
        @else { p.hint { "Webhooks are declared as objects here: the portal shows them, with the YAML to change." } }
        (declared::unserved(unserved))
        (declared::faulty(frame, faults))
        @if webhooks.is_empty() && unserved.is_none() {
            p role="status" {
                "No webhook yet. A webhook sends the events of one customer to a receiver of theirs. "
                @if can_add { a href={ (Section::Webhooks.path()) "/new" } { "Add the first one" } }
            }
        } @else if !webhooks.is_empty() {
            div.wide role="region" aria-label="Webhooks" tabindex="0" {
                table {
                    caption { "The tenant's webhooks" }
                    thead { tr {
                        @for head in ["Name", "Customer", "Target URL", "Events", "Active", "Signed", "Health", "Last success"] {
                            th scope="col" { (head) }
                        }
                    } }
                    tbody { @for webhook in webhooks { (row(frame, webhook)) } }
                }
            }
        }
    };
    page::page(frame, Section::Webhooks, "Webhooks", &main)
}

fn row(frame: &Frame, webhook: &ServedWebhook) -> Markup {
    let ServedWebhook { full_name, settings, is_signed, .. } = webhook;
    let FormSettings { display_name, customer_code, target_url, events, active } = settings;
    html! {
        tr {
            th scope="row" { a href=(webhook_link(full_name)) { (if display_name.is_empty() { full_name } else { display_name }) } }
            td { (customer_code) }
            td.long { (target_url) }
            td { (events.len()) }
            td { (yes(*active)) }
            td { (yes(*is_signed)) }
            td { (health(webhook)) }
            td { @match webhook.last_success_at { Some(at) => { (time(at, frame.now)) } None => { "–" } } }
        }
    }
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn health(webhook: &ServedWebhook) -> Markup {
    let ServedWebhook { full_name, pending, retrying, dead_letter, .. } = webhook;
    let logs = |name, value| href(Section::Logs.path(), [("webhook", full_name.as_str()), (name, value)]);
    html! {
        @if *dead_letter > 0 {
            a.bad href=(logs("deadLetter", DeadLetter::Open.as_str())) { span aria-hidden="true" { "✕ " } (counted(*dead_letter, "dead letter")) } " "
        }
        @if *retrying > 0 { a.wait href=(logs("status", "Failed")) { span aria-hidden="true" { "↻ " } (count(*retrying)) " retrying" } " " }
        @if *pending > *retrying { span.wait { (count(pending - retrying)) " waiting" } }
        @if *dead_letter == 0 && *pending == 0 { span.good { span aria-hidden="true" { "✓ " } "nothing waits" } }
    }
}

/// The page with the form of a new webhook, or of a new one that could not be saved: then `wrong` has each wrong
/// field with what would be right. `form`: the form's id, which it sends. `may_give`: whether the user may choose the
/// secret.
pub fn new(
    frame: &Frame,
    form: &str,
    settings: &FormSettings,
    wrong: &[(String, String)],
    may_give: bool,
) -> String {
    let main = html! {
        p { a href=(Section::Webhooks.path()) { "Customer ▸ Webhooks" } }
        h1 { "Add a webhook" }
        (page::wrong(NOT_SAVED, wrong))
        form.fields method="post" action={ (Section::Webhooks.path()) "/new" } {
            (page::csrf(frame))
            input type="hidden" name="form" value=(form);
            (fields(settings, frame.is_of_tenant()))
            @if may_give {
                label { "Secret (optional)" input name="secret" minlength="16" maxlength="256" autocomplete="off" spellcheck="false"; }
                p.hint { "Leave it empty: then Docket makes the secret that signs deliveries, and shows it once." }
            } @else {
                p.hint { "Docket makes the secret that signs deliveries, and shows it once." }
            }
            button.primary type="submit" { "Add the webhook" }
        }
    };
    page::page(frame, Section::Webhooks, "Add a webhook", &main)
}

/// The fields of a form, with the customer if it can be chosen.
fn fields(settings: &FormSettings, has_customer: bool) -> Markup {
    let FormSettings { display_name, customer_code, target_url, events, active } = settings;
    html! {
        label { "Name" input name="displayName" value=(display_name) maxlength="128"; }
        @if has_customer {
            label { "Customer code" input name="customerCode" value=(customer_code) maxlength="64" required; }
        }
        label { "Target URL" input name="targetUrl" type="url" value=(target_url) maxlength="2048" placeholder="https://" required; }
        fieldset {
            legend { "Events" }
            @for code in EventCode::ALL {
                label {
                    input type="checkbox" name=(code.as_str()) value="yes" checked[events.contains(&code)];
                    " " (code.as_str())
                }
            }
        }
        label { input type="checkbox" name="active" value="yes" checked[*active]; " Active: new events are sent" }
    }
}

/// The page of a webhook. `wrong` is as in [`new`]; if there is any, `settings` could not be saved.
pub fn detail(
    frame: &Frame,
    webhook: &ServedWebhook,
    keeper: &Keeper,
    unsaved: Option<(&FormSettings, &[(String, String)])>,
) -> String {
    let ServedWebhook { full_name, settings, is_signed, has_next_secret, .. } = webhook;
    let title = if settings.display_name.is_empty() { full_name } else { &settings.display_name };
    let main = html! {
        p { a href=(Section::Webhooks.path()) { "Customer ▸ Webhooks" } }
        h1 { (title) }
        (declared::of_one(&webhook.faults))
        dl {
            dt { "Object" } dd { code { (full_name) } }
            dt { "Customer" } dd { (settings.customer_code) }
            dt { "Health" } dd { (health(webhook)) }
            dt { "Signed" } dd {
                (yes(*is_signed)) @if *has_next_secret { ", with the current and the next secret" }
            }
            dt { "Last success" }
            dd { @match webhook.last_success_at { Some(at) => { (time(at, frame.now)) } None => { "–" } } }
        }
        p { a href=(href(Section::Logs.path(), [("webhook", full_name.as_str())])) { "Its deliveries in Webhook Logs" } }
        (test(frame, webhook))
        @match keeper {
            Keeper::Portal(version) => (forms(frame, webhook, version, unsaved)),
            Keeper::Other { place, what, yaml } => (read_only(settings, place, *what, yaml)),
        }
    };
    page::page(frame, Section::Webhooks, title, &main)
}

fn test(frame: &Frame, webhook: &ServedWebhook) -> Markup {
    let ServedWebhook { full_name, settings, takes, .. } = webhook;
    html! {
        h2 { "Try it" }
        @if !settings.active {
            p.hint { "The webhook is inactive. Activate it to send a test event." }
        } @else if takes.is_empty() {
            p.hint { "Each event that it subscribes to is switched off for this tenant, so there is none to send." }
        } @else {
            form.row method="post" action={ (webhook_link(full_name)) "/test" } {
                (page::csrf(frame))
                label {
                    "Event "
                    select name="event" { @for code in takes { option value=(code.as_str()) { (code.as_str()) } } }
                }
                button type="submit" { "Send a test event" }
            }
            p.hint {
                "It is signed, retried and logged as any other delivery, with sample data and the header "
                code { "X-Service-Test: true" } ", and counts in no health."
            }
        }
    }
}

fn read_only(settings: &FormSettings, place: &str, what: Shows, yaml: &str) -> Markup {
    let (title, said) = match what {
        Shows::Document => ("The document", "The whole document, as the file has it now, without comments."),
        Shows::Object => (
            "The object",
            "The whole object without its status. If you apply it, no label or annotation of the object gets lost.",
        ),
        Shows::Fields => (
            "The fields to change",
            "A part of the object. What it leaves out must stay: see its first line.",
        ),
    };
    html! {
        h2 { "Settings" }
        p { "This webhook is declared in " (place) ". Change it there: a change here would be undone." }
        dl {
            dt { "Target URL" } dd { (settings.target_url) }
            dt { "Events" }
            dd { @for (place, code) in settings.events.iter().enumerate() { @if place > 0 { ", " } (code.as_str()) } }
            dt { "Active" } dd { (yes(settings.active)) }
        }
        h2 { (title) }
        p.hint { (said) }
        pre { code { (yaml) } }
    }
}

fn forms(
    frame: &Frame,
    webhook: &ServedWebhook,
    version: &str,
    unsaved: Option<(&FormSettings, &[(String, String)])>,
) -> Markup {
    let ServedWebhook { full_name, settings, is_signed, has_next_secret, .. } = webhook;
    let (shown, wrong) = unsaved.unwrap_or((settings, &[]));
    let action = |what: &str, words: &str| action(frame, full_name, version, what, words);
    html! {
        (settings_form(frame, full_name, version, shown, wrong))
        h2 { "Secret" }
        @if *has_next_secret {
            p { "Deliveries carry a signature by each secret in webhook-signature; X-Service-Signature is by the current one." }
            p { "When the receiver knows the next secret, make it the current one." }
            div.row { (action("promote", "Make the next secret the current one")) (action("withdraw", "Drop the next secret")) }
        } @else if *is_signed {
            p { "Make a next secret, and show it once. Both sign until you make the next one the current one." }
            (action("rotate", "Make a next secret"))
        } @else {
            p { "Deliveries are unsigned. Make a secret, and show it once; from then on deliveries are signed." }
            (action("rotate", "Make a secret"))
        }
        h2 { "Active" }
        @if settings.active { (action("deactivate", "Deactivate: send no new events")) }
        @else { (action("activate", "Activate: send new events")) }
        (remove_form(frame, full_name, version))
    }
}

/// The page of a webhook that the portal declares and that is not served, with the reason if it is known. `unsaved`
/// is as in [`detail`].
pub fn unserved(
    frame: &Frame,
    Faulty { full_name, faults }: &Faulty,
    settings: &FormSettings,
    version: &str,
    unsaved: Option<(&FormSettings, &[(String, String)])>,
) -> String {
    let title = if settings.display_name.is_empty() { full_name } else { &settings.display_name };
    let (shown, wrong) = unsaved.unwrap_or((settings, &[]));
    let main = html! {
        p { a href=(Section::Webhooks.path()) { "Customer ▸ Webhooks" } }
        h1 { (title) }
        div.wrong role="status" {
            p { strong { "This webhook is not served yet, so it gets no event." } }
            @if !faults.is_empty() { ul { @for fault in faults { li { (fault) } } } }
            p { "A change takes some seconds: open this page again. If it stays so, ask who runs Docket: the Webhook object's conditions or the log say why." }
        }
        dl {
            dt { "Object" } dd { code { (full_name) } }
            dt { "Customer" } dd { (settings.customer_code) }
        }
        (settings_form(frame, full_name, version, shown, wrong))
        (remove_form(frame, full_name, version))
    };
    page::page(frame, Section::Webhooks, title, &main)
}

fn settings_form(
    frame: &Frame,
    full_name: &str,
    version: &str,
    shown: &FormSettings,
    wrong: &[(String, String)],
) -> Markup {
    html! {
        h2 { "Settings" }
        (page::wrong(NOT_SAVED, wrong))
        form.fields method="post" action=(webhook_link(full_name)) {
            (hidden(frame, version))
            (fields(shown, false))
            button.primary type="submit" { "Save" }
        }
    }
}

fn remove_form(frame: &Frame, full_name: &str, version: &str) -> Markup {
    html! {
        h2 { "Remove" }
        details {
            summary { "Remove this webhook …" }
            p { "Deliveries that wait are kept for a while, by default an hour: they are sent if the webhook is declared again under the same name and for the same customer, and become dead letters otherwise. The log keeps what was delivered." }
            (action(frame, full_name, version, "remove", "Remove it"))
        }
    }
}

fn action(frame: &Frame, full_name: &str, version: &str, what: &str, words: &str) -> Markup {
    html! {
        form method="post" action={ (webhook_link(full_name)) "/" (what) } {
            (hidden(frame, version))
            button type="submit" { (words) }
        }
    }
}

fn hidden(frame: &Frame, version: &str) -> Markup {
    html! { (page::csrf(frame)) input type="hidden" name="version" value=(version); }
}

/// The answer to the form that made a secret: the current one or the next.
pub fn secret(frame: &Frame, full_name: &str, is_next: bool, shown: &SecretDisplay) -> String {
    let title = if is_next { "The next secret" } else { "The secret" };
    let main = html! {
        h1 { (title) }
        @match shown {
          SecretDisplay::Now { secret, whsec } => {
            p { strong { "It is shown this once." } " Give it to the author of the receiver over a safe channel." }
            dl {
                dt { "For X-Service-Signature" } dd { code { (secret) } }
                dt { "For Standard Webhooks libraries" } dd { code { (whsec) } }
            }
          }
          SecretDisplay::Before => {
            p.wrong role="alert" { "The secret of " code { (full_name) } " was shown before, in the first answer to this form, and is not shown again." }
            p { "If you don't have it, make a next secret on the webhook's page, which is shown, and make that the current one." }
          }
          SecretDisplay::NotYet => {
            p.wrong role="alert" { "The change is saved as " code { (full_name) } ", but is not in effect yet, so the secret can't be shown." }
            @if is_next {
                p { "When the webhook's page shows a next secret, drop it, and make another one, which is shown." }
            } @else {
                p { "When the webhook is served, make a next secret on its page, which is shown, and make that the current one." }
            }
            p { "If it stays so, ask who runs Docket: the Webhook object's conditions or the log say why." }
          }
        }
        p {
            a.button href=(webhook_link(full_name)) { "Go on to the webhook" }
        }
    };
    page::page(frame, Section::Webhooks, title, &main)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    fn webhook() -> ServedWebhook {
        ServedWebhook {
            full_name: "default/orders".into(),
            settings: FormSettings {
                display_name: "<b>Orders</b>".into(),
                customer_code: "<i>C-1".into(),
                target_url: "https://h.example/?a=<u>".into(),
                events: vec![EventCode::OrderCreated],
                active: true,
            },
            takes: vec![EventCode::OrderCreated],
            is_signed: true,
            dead_letter: 3,
            pending: 5,
            retrying: 2,
            ..ServedWebhook::default()
        }
    }

    #[test]
    fn pages_escape_all_texts() {
        let keeper = Keeper::Other { place: "<a>".into(), what: Shows::Object, yaml: "<pre>".into() };
        let fault = || Faulty { full_name: "a/<x>".into(), faults: vec!["<y>".into(), "<x>".into()] };
        let one = Unserved { known: vec![fault()], may_be_more: false };
        let webhook = || ServedWebhook { faults: fault().faults, ..webhook() };
        let own = Keeper::Portal("v".into());
        let wrong = [("<x>".to_owned(), "<y>".to_owned())];
        let unsaved =
            Some((&webhook().settings, &wrong[..])).map(|(settings, wrong)| (settings.clone(), wrong));
        let unsaved = unsaved.as_ref().map(|(settings, wrong)| (settings, *wrong));
        for text in [
            list(&frame(), &[webhook()], &one, true),
            detail(&frame(), &webhook(), &keeper, None),
            detail(&frame(), &webhook(), &own, unsaved),
            new(&frame(), "<a>", &webhook().settings, &wrong, true),
            unserved(&frame(), &fault(), &webhook().settings, "v", None),
        ] {
            for raw in ["<b>Orders", "<i>C-1", "=<u>", "<a>", "<pre><code><pre>", "<x>", "<y>"] {
                assert!(!text.contains(raw), "{raw}: {text}");
            }
        }
    }

    #[test]
    fn only_the_keeper_has_forms() {
        let other = Keeper::Other { place: "a file".into(), what: Shows::Document, yaml: String::new() };
        let given = detail(&frame(), &webhook(), &other, None);
        assert_eq!(given.matches("<form").count(), 3, "to sign out, twice, and to send a test event");
        let own = detail(&frame(), &webhook(), &Keeper::Portal("v7".into()), None);
        assert_eq!(own.matches("name=\"version\" value=\"v7\"").count(), 4);
        assert_eq!(own.matches("name=\"csrf\"").count(), 7);
        assert!(own.contains("Make a next secret") && !own.contains("Make the next secret the current one"));
    }

    #[test]
    fn test_event_needs_an_active_webhook_and_an_event_that_is_on() {
        let own = Keeper::Portal("v7".into());
        let button = |webhook: ServedWebhook| {
            detail(&frame(), &webhook, &own, None).contains("Send a test event</button>")
        };
        assert!(button(webhook()));
        assert!(!button(ServedWebhook { takes: Vec::new(), ..webhook() }));
        let settings = FormSettings { active: false, ..webhook().settings };
        assert!(!button(ServedWebhook { settings, ..webhook() }));
    }

    #[test]
    fn health_names_what_is_wrong_and_leads_to_it() {
        let text = list(&frame(), &[webhook()], &Unserved::default(), false);
        assert!(text.contains("/portal/logs?webhook=default%2Forders&amp;deadLetter=open"), "{text}");
        assert!(text.contains("3 dead letters") && text.contains("2 retrying") && text.contains("3 waiting"));
        let lost = ServedWebhook { dead_letter: 10_001, ..webhook() };
        assert!(
            list(&frame(), &[lost], &Unserved::default(), false).contains("more than 10,000 dead letters")
        );
        let calm = ServedWebhook { dead_letter: 0, pending: 0, retrying: 0, ..webhook() };
        assert!(list(&frame(), &[calm], &Unserved::default(), false).contains("nothing waits"));
    }
}
