//! The page of a webhook: its state and deliveries, a test, the set-up of its receiver, its secret and its settings.

use docket_domain::delivery::{DeadLetter, Status};
use jiff::Timestamp;
use maud::{Markup, html};

use super::form;
use super::{Done, FormSettings, Keeper, ServedWebhook, Shows, action, done, hidden, snippets, test_form};
use crate::actors::Actors;
use crate::declared::{self, Faulty};
use crate::field::Wrong;
use crate::logs::{Delivery, about, badge, link, remedy};
use crate::notifications::{Notifications, email_card};
use crate::page::{self, Frame, Section, webhook_link};
use crate::parts::{self, Head, Tone};
use crate::period::{self, Period};
use crate::state;
use crate::time::{at, time};
use crate::{count, href};

docket_crds::words! {
    /// Which of the last deliveries the page of a webhook shows.
    #[derive(Default)]
    pub enum Show {
        /// All.
        #[default]
        All = "all",
        /// Open dead letters.
        Lost = "lost",
        /// Deliveries that are tried again.
        Retrying = "retrying",
        /// Deliveries that succeeded.
        Delivered = "delivered",
    }
}

impl Show {
    const fn label(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Lost => "Lost",
            Self::Retrying => "Tried again",
            Self::Delivered => "Delivered",
        }
    }

    /// The filter of Webhook Logs that finds these deliveries.
    const fn filter(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("status", ""),
            Self::Lost => ("deadLetter", DeadLetter::Open.as_str()),
            Self::Retrying => ("status", Status::Failed.as_str()),
            Self::Delivered => ("status", Status::Succeeded.as_str()),
        }
    }
}

/// How many deliveries may be sent to a webhook at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// The number of places in use.
    pub taken: usize,
    /// The number of places.
    pub all: usize,
    /// Whether the webhook has few places because its receiver is slow.
    pub is_reduced: bool,
}

/// The page of a webhook that is served.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The webhook.
    pub webhook: ServedWebhook,
    /// Where the webhook can be changed.
    pub keeper: Keeper,
    /// Settings that could not be saved, and each wrong field with what would be right.
    pub unsaved: Option<(FormSettings, Vec<(String, String)>)>,
    /// Its places; `None`: the schedule did not say.
    pub places: Option<Places>,
    /// When the new secret last became the current one, if an entry of the audit that was read says so.
    pub replaced_at: Option<Timestamp>,
    /// The figures of a period.
    pub period: Period,
    /// Which deliveries are shown.
    pub show: Show,
    /// Its last deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// Its last deliveries of test events, newest first.
    pub tests: Vec<Delivery>,
    /// The names of the people who asked for these tests.
    pub people: Actors,
    /// The messages about webhooks that the user gets.
    pub own: Notifications,
    /// What the user has just done with these messages, as a sentence.
    pub subscribed: Option<&'static str>,
    /// What else the user has just done.
    pub done: Option<Done>,
}

impl Detail {
    /// The page without figures and deliveries.
    pub fn new(
        webhook: ServedWebhook,
        keeper: Keeper,
        unsaved: Option<(FormSettings, Vec<(String, String)>)>,
    ) -> Self {
        let (places, period, show, done) = (None, Period::default(), Show::default(), None);
        Self {
            webhook,
            keeper,
            unsaved,
            places,
            replaced_at: None,
            period,
            show,
            deliveries: Vec::new(),
            tests: Vec::new(),
            people: Actors::default(),
            own: Notifications::default(),
            subscribed: None,
            done,
        }
    }

    /// A link to this page with another period or other deliveries.
    fn link(&self, range: period::Range, show: Show) -> String {
        href(&webhook_link(&self.webhook.full_name), [("range", range.as_str()), ("show", show.as_str())])
    }
}

/// A form of settings.
#[derive(Debug, Clone, Copy)]
pub struct Editable<'a> {
    /// The settings as they are saved.
    pub settings: &'a FormSettings,
    /// The version that the form is made from.
    pub version: &'a str,
    /// Settings that could not be saved, and each wrong field with what would be right.
    pub unsaved: Option<(&'a FormSettings, &'a [(String, String)])>,
}

impl<'a> Editable<'a> {
    fn wrong(&self) -> Wrong<'a> {
        Wrong(self.unsaved.map(|(_, wrong)| wrong).unwrap_or_default())
    }
}

/// The page.
pub fn page(frame: &Frame, detail: &Detail) -> String {
    let Detail { webhook, keeper, unsaved, period, own, .. } = detail;
    let has_messages = own.sends_mail || !own.subscriptions.is_empty();
    let wrong = Wrong(unsaved.as_ref().map(|(_, wrong)| &wrong[..]).unwrap_or_default());
    let main = html! {
        (head(frame, webhook, keeper))
        @if detail.done != Some(Done::TestSent) { (done(detail.done)) }
        (parts::done(detail.subscribed))
        (form::summary(wrong))
        (of_one(frame, &webhook.faults))
        @if is_rotating(webhook, keeper) {
            div.look {
                p { strong { "A new secret waits." } " When the receiver accepts both secrets, " a href="#secret" { "make the new secret the current one" } "." }
            }
        }
        nav.tabs aria-label="Parts of this page" {
            a href="#deliveries" { "Deliveries" }
            a href="#test" { "Try it" }
            a href="#code" { (CODE) }
            a href="#secret" { "Secret" }
            a href="#settings" { "Settings" }
            @if has_messages { a href="#e-mail-me" { "E-mail me" } }
            @if frame.is_of_tenant() { a href=(Section::Activity.path()) { "Activity of everyone" } }
        }
        div.row {
            h2 { "Figures" }
            (period::ranges(period.range, |range| detail.link(range, detail.show)))
            span.quiet.small { "Test events are not counted." }
        }
        (period::tiles(period))
        div.two {
            div.stack {
                (deliveries(detail))
                (test(frame, detail))
                (set_up())
            }
            div.stack {
                (now(frame, detail))
                (secret(frame, detail))
                (settings(frame, detail))
                @if has_messages { (email_card(frame, own, &webhook.full_name)) }
            }
        }
        (period::charts(period))
    };
    page::page(frame, Section::Webhooks, &wrong.titled(webhook.name()), &main)
}

/// The heading of the card with code, and its link.
const CODE: &str = "Code of the receiver";

/// Whether the portal keeps the webhook, and a new secret waits to become the current one.
const fn is_rotating(webhook: &ServedWebhook, keeper: &Keeper) -> bool {
    webhook.has_next_secret && matches!(keeper, Keeper::Portal(_))
}

/// Whether a test event can be sent to the webhook.
const fn takes_tests(webhook: &ServedWebhook) -> bool {
    webhook.settings.active && !webhook.takes.is_empty()
}

fn head(frame: &Frame, webhook: &ServedWebhook, keeper: &Keeper) -> Markup {
    let ServedWebhook { full_name, settings, dead_letter, .. } = webhook;
    let below = html! { code { (settings.target_url) } " " (parts::copy("the URL")) };
    let actions = html! {
        @if takes_tests(webhook) { a.button href="#test" { "Go to the test event" } }
        @if let Keeper::Portal(version) = keeper {
            @if settings.active { (action(frame, full_name, version, "deactivate", &html! { button type="submit" { "Deactivate" } })) }
            @else { (action(frame, full_name, version, "activate", &html! { button type="submit" { "Activate" } })) }
        }
        @if *dead_letter > 0 {
            a.button.primary href=(href(Section::Resends.path(), [("webhook", full_name.as_str())])) { "Resend " (count(*dead_letter)) "…" }
        }
    };
    parts::head(&Head {
        above: Some((Section::Webhooks.path(), "Webhooks")),
        title: html! { (webhook.name()) " " (state::badge(webhook.state(), settings.active)) },
        below: Some(below),
        actions: Some(actions),
    })
}

/// The problems of the webhook that the page is about.
fn of_one(frame: &Frame, faults: &[String]) -> Markup {
    html! {
        @if !faults.is_empty() {
            div.look {
                p { strong { "Its settings have a problem." } }
                ul { @for fault in faults { li { (fault) } } }
                @if !frame.is_of_tenant() { p { (declared::whom_to_ask(frame)) } }
            }
        }
    }
}

/// What is so now, in words.
fn now(frame: &Frame, Detail { webhook, places, .. }: &Detail) -> Markup {
    let ServedWebhook { full_name, settings, customer_name, is_signed, has_next_secret, .. } = webhook;
    let new_events = match webhook {
        ServedWebhook { lacks_customer: true, .. } => "are not sent: Docket knows no such customer",
        _ if !settings.active => "are not sent: the webhook is inactive",
        _ if webhook.takes.is_empty() => "are not sent: each event that it subscribes to is switched off",
        _ => "are sent",
    };
    let body = parts::inside(&html! {
        dl.facts {
            @if frame.is_of_tenant() {
                dt { "Customer" }
                dd { (customer_name) @if *customer_name != settings.customer_code { " " span.quiet { "(" (settings.customer_code) ")" } } }
            }
            dt { "New events" } dd { (new_events) }
            @if let Some(places) = places { dt { "Sent at once" } dd { (at_once(*places)) } }
            dt { "Signed" }
            dd {
                (if *is_signed { "yes" } else { "no" }) @if *has_next_secret { ", with the current and the new secret" }
            }
            dt { "Last success" }
            dd { @match webhook.last_success_at { Some(last) => { (time(last, frame.now)) } None => { "none yet; test events are not counted" } } }
            @if frame.is_of_tenant() { dt { "Declared as" } dd { code.small { (full_name) } } }
        }
    });
    parts::card("now", "Now", &html! {}, &body)
}

/// How many deliveries Docket sends at once.
fn at_once(Places { taken, all, is_reduced }: Places) -> String {
    let most = if all == 1 { "1 delivery".to_owned() } else { format!("{all} deliveries") };
    let why = if is_reduced { " because the receiver is slow" } else { "" };
    format!("at most {most}{why}; {taken} now")
}

fn deliveries(detail: &Detail) -> Markup {
    let Detail { webhook, period, show, deliveries, .. } = detail;
    let beside = html! {
        nav.range aria-label="Deliveries" {
            @for word in Show::ALL {
                a href={ (detail.link(period.range, word)) "#deliveries" } aria-current=[(word == *show).then_some("true")] { (word.label()) }
            }
        }
    };
    let heads = [("Queued", ""), ("Event", ""), ("About", "wider"), ("Result", "")];
    let rows = html! { @for delivery in deliveries { (row(delivery)) } };
    let logs = href(Section::Logs.path(), [("webhook", webhook.full_name.as_str()), show.filter()]);
    let body = html! {
        // With the test, whose delivery is in this table too.
        div data-live {
            @if deliveries.is_empty() {
                (parts::nothing("No delivery", &html! { p { (none_of(*show, webhook)) } }))
            } @else {
                (parts::table("The last deliveries", &heads, &rows))
            }
        }
        (parts::inside(&html! { a href=(logs) { "All of them in Webhook Logs" } }))
    };
    parts::card("deliveries", "Last deliveries", &beside, &body)
}

/// Why there is no delivery.
const fn none_of(show: Show, webhook: &ServedWebhook) -> &'static str {
    match show {
        Show::All if webhook.lacks_customer => {
            "Docket knows no customer with the code of this webhook, so no event is sent."
        }
        Show::All if !webhook.settings.active => "The webhook is inactive, so no event is sent.",
        Show::All => {
            "One is queued when an event happens that the webhook subscribes to, such as a saved order. A test event shows whether the receiver works."
        }
        Show::Lost => "Nothing is lost.",
        Show::Retrying => "Nothing is tried again.",
        Show::Delivered => "No delivery has succeeded yet.",
    }
}

fn row(delivery: &Delivery) -> Markup {
    html! {
        tr {
            td { a href=(link(&delivery.id)) { (at(delivery.created_at)) } }
            td { (delivery.event) @if delivery.is_test { small { "test" } } }
            td.wider { div.long tabindex="0" { (about(&delivery.about)) } }
            td.wrap { (result(delivery)) }
        }
    }
}

/// What became of a delivery, and its HTTP status or else how it failed.
fn result(delivery: &Delivery) -> Markup {
    html! { (badge(delivery)) " " span.beside { (delivery.ended_as()) } }
}

fn test(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { webhook, tests, people, .. } = detail;
    let ServedWebhook { full_name, settings, takes, .. } = webhook;
    let is_sent = detail.done == Some(Done::TestSent);
    let is_queued = tests.first().is_some_and(|test| test.status == Status::Pending);
    let is_under_way = tests.first().is_some_and(|test| !test.status.is_final());
    let body = parts::inside(&html! {
        @if !settings.active {
            p { "The webhook is inactive, so it gets no test event. " (activate_first(frame, detail)) }
        } @else if takes.is_empty() {
            p { "Each event that it subscribes to is switched off for this tenant, so there is none to send." }
        } @else {
            (test_form(frame, full_name, takes))
        }
        @if is_under_way { (page::live(true)) }
        // The attribute is set even if the test has ended, so that a page that was opened before shows its last state.
        div.stack data-live {
            @if is_sent && is_queued { (done(detail.done)) }
            @if is_sent && !is_queued { (parts::done(Some("The test event was sent. Its result:"))) }
            @for test in tests { (tested(frame, people, test)) }
        }
    });
    parts::card("test", "Try it", &html! {}, &body)
}

/// Who can activate the webhook.
fn activate_first(frame: &Frame, Detail { webhook, keeper, .. }: &Detail) -> Markup {
    html! {
        @match keeper {
            Keeper::Portal(_) => "Activate it at the top of the page.",
            Keeper::Other { place, .. } => (changed_elsewhere(frame, place, &format!("set active of {} to true", webhook.full_name))),
        }
    }
}

/// How a test went.
fn tested(frame: &Frame, people: &Actors, test: &Delivery) -> Markup {
    html! {
        div {
            p {
                (result(test)) " " (test.event) " " (time(test.created_at, frame.now))
                @if let Some(by) = &test.requested_by { " by " (people.shown(by)) }
                ". " a href=(link(&test.id)) { "What was sent and received" }
            }
            @match test.status {
                Status::Succeeded => p.quiet { "The receiver took it at attempt " (test.attempts) "." },
                Status::Pending => p.quiet { @match &test.waits_for { Some(what) => { "It waits for " (what) "." } None => "Its first attempt begins in a moment.", } },
                Status::Failed | Status::DeadLetter => {
                    @if let Some(failed) = test.failed() { p { (failed.heading()) ": " (remedy(&failed)) } }
                    @if let Some(next) = test.next_attempt_at { p.quiet { "Next attempt: " (time(next, frame.now)) } }
                }
            }
        }
    }
}

fn set_up() -> Markup {
    let body = parts::inside(&html! {
        p {
            "A receiver verifies each delivery with the secret, answers with a status from 200 to 299 within 30 seconds, and ignores what it has processed. "
            a href="/docs/webhooks/verify.html" { "Verify a delivery" } ", " a href="/docs/webhooks/duplicates.html" { "ignore duplicates" } "."
        }
        (snippets::all())
        p { "A signature does not match? " a href=(Section::Verify.path()) { "Find out why" } }
    });
    parts::card("code", CODE, &html! {}, &body)
}

fn secret(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { webhook, keeper, .. } = detail;
    let body = match keeper {
        Keeper::Portal(version) => rotation(frame, detail, version),
        Keeper::Other { place, .. } => html! {
            p { @if webhook.is_signed { "Deliveries are signed." } @else { "Deliveries are not signed." } }
            p { (changed_elsewhere(frame, place, &format!("replace the signing secret of {}", webhook.full_name))) }
        },
    };
    let beside =
        html! { @if is_rotating(webhook, keeper) { (parts::badge(Tone::Wait, "A new secret waits")) } };
    parts::card("secret", "Secret", &beside, &parts::inside(&body))
}

/// Where a webhook is changed that the portal can't change, and whom to ask for what. `wish`: the change, such as "set active of a/b to
/// true".
fn changed_elsewhere(frame: &Frame, place: &str, wish: &str) -> Markup {
    html! {
        @if frame.is_of_tenant() {
            "This webhook is declared in " (place) ", so a change here would be undone. Ask the people who run Docket to change it, for example: “Please " (wish) ".”"
        }
        @else { "This webhook is set up by " (frame.tenant) ": ask its administrators to change it." }
    }
}

/// The replacement of the secret: folded, until it has begun.
fn rotation(frame: &Frame, detail: &Detail, version: &str) -> Markup {
    html! {
        @if detail.webhook.has_next_secret {
            (steps(frame, &detail.webhook, version))
        } @else {
            @if let Some(at) = detail.replaced_at { p.quiet { "Last replaced: " (time(at, frame.now)) } }
            details {
                summary { "Replace the secret…" }
                (steps(frame, &detail.webhook, version))
            }
        }
    }
}

/// The steps of a rotation: what each does to receivers, with the step that is next.
fn steps(frame: &Frame, webhook: &ServedWebhook, version: &str) -> Markup {
    let ServedWebhook { full_name, has_next_secret: has_next, .. } = webhook;
    let step = |is_done: bool, is_next: bool, title: &str, body: Markup| {
        html! {
            li.good[is_done].wait[is_next] aria-current=[is_next.then_some("step")] {
                div.fields {
                    p { strong { (title) } @if is_done { " " (parts::badge(Tone::Good, "Done")) } @if is_next { " " (parts::badge(Tone::Mute, "Next step")) } }
                    (body)
                }
            }
        }
    };
    html! {
        p { "No delivery is lost if you follow the three steps." }
        ol.chain {
            (step(*has_next, !has_next, "1. Make a new secret", html! {
                p.quiet { "It is shown once. Receivers notice nothing: webhook-signature gets a second signature, X-Service-Signature stays as it is." }
                @if !has_next { (action(frame, full_name, version, "rotate", &html! { button type="submit" { "Make a new secret" } })) }
            }))
            (step(false, *has_next, "2. Let the receiver accept both secrets", html! {
                p.quiet { "Give the new secret to the author of the receiver. Take your time: the old secret stays valid until step 3." }
                @if *has_next {
                    p { "The code that accepts two secrets:" }
                    (snippets::of_two_secrets())
                }
            }))
            (step(false, false, "3. Change over", html! {
                p.quiet { "Then only the new secret signs, and the old one is deleted. A receiver that does not know the new secret refuses each delivery." }
                @if *has_next {
                    p { a href="#test" { "Send a test event" } " before you change over, and another one afterwards." }
                    (change_over(frame, full_name, version))
                }
            }))
        }
    }
}

/// What ends a rotation: the new secret becomes the current one, or is deleted.
fn change_over(frame: &Frame, full_name: &str, version: &str) -> Markup {
    html! {
        form.fields method="post" action={ (webhook_link(full_name)) "/promote" } {
            (hidden(frame, version))
            label.check { input type="checkbox" required; "The receiver accepts the new secret. I know that this cannot be undone." }
            button.primary type="submit" { "Make the new secret the current one" }
        }
        details.small {
            summary { "Cancel: delete the new secret…" }
            div.fields {
                p { "Docket then signs with the current secret alone, as before. A receiver that has only the new secret refuses each delivery." }
                (action(frame, full_name, version, "withdraw", &html! { button.tiny type="submit" { "Delete the new secret" } }))
            }
        }
    }
}

fn settings(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { webhook, keeper, unsaved, .. } = detail;
    let ServedWebhook { full_name, settings, .. } = webhook;
    match keeper {
        Keeper::Portal(version) => {
            let unsaved = unsaved.as_ref().map(|(settings, wrong)| (settings, &wrong[..]));
            html! {
                (settings_form(frame, full_name, &Editable { settings, version, unsaved }))
                (remove_form(frame, full_name, version))
            }
        }
        Keeper::Other { place, what, yaml } => read_only(frame, webhook, place, *what, yaml),
    }
}

fn read_only(frame: &Frame, webhook: &ServedWebhook, place: &str, what: Shows, yaml: &str) -> Markup {
    let ServedWebhook { full_name, settings, .. } = webhook;
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
    let body = parts::inside(&html! {
        p { (changed_elsewhere(frame, place, &format!("change targetURL of {full_name} to https://…"))) }
        dl.facts {
            dt { "URL" } dd { (settings.target_url) }
            dt { "Events" }
            dd { @for (place, code) in settings.events.iter().enumerate() { @if place > 0 { ", " } (code.as_str()) } }
        }
        @if frame.is_of_tenant() {
            details {
                summary { (title) }
                p.hint { (said) }
                pre { code { (yaml) } }
                (parts::copy("the YAML"))
            }
        }
    });
    let beside = parts::badge(Tone::Mute, "Read-only");
    parts::card("settings", "Settings", &beside, &body)
}

fn settings_form(frame: &Frame, full_name: &str, editable: &Editable<'_>) -> Markup {
    let shown = editable.unsaved.map_or(editable.settings, |(settings, _)| settings);
    let body = parts::inside(&html! {
        form.fields method="post" action=(webhook_link(full_name)) {
            (hidden(frame, editable.version))
            (form::fields(shown, None, false, editable.wrong()))
            button.primary type="submit" { "Save" }
        }
    });
    parts::card("settings", "Settings", &html! {}, &body)
}

fn remove_form(frame: &Frame, full_name: &str, version: &str) -> Markup {
    let body = parts::inside(&html! {
        details {
            summary { "Remove this webhook…" }
            p { "Deliveries that wait are kept for a while, by default an hour, and are lost then. The log keeps what was delivered." }
            (action(frame, full_name, version, "remove", &html! { button type="submit" { "Remove it" } }))
        }
    });
    parts::card("remove", "Remove", &html! {}, &body)
}

/// The page of a webhook that is declared and not served, with the reason if it is known. `editable`: its settings, if
/// the portal declares it.
pub fn unserved(
    frame: &Frame,
    Faulty { full_name, faults }: &Faulty,
    editable: Option<&Editable<'_>>,
    just: Option<Done>,
) -> String {
    let name = editable.map_or(full_name.as_str(), |editable| editable.settings.name_or(full_name));
    let wrong = editable.map_or(Wrong(&[]), Editable::wrong);
    let main = html! {
        (parts::head(&Head {
            above: Some((Section::Webhooks.path(), "Webhooks")),
            title: html! { (name) " " (parts::badge(Tone::Wait, "Not served")) },
            ..Head::default()
        }))
        (done(just))
        (form::summary(wrong))
        div.look role="status" {
            p { strong { "This webhook is not served yet, so it gets no event." } }
            @if !faults.is_empty() { ul { @for fault in faults { li { (fault) } } } }
            p { "A change takes some seconds: open this page again. If it stays so: " (declared::whom_to_ask(frame)) }
        }
        @if let Some(editable) = editable {
            (settings_form(frame, full_name, editable))
            (remove_form(frame, full_name, editable.version))
        }
    };
    page::page(frame, Section::Webhooks, &wrong.titled(name), &main)
}

#[cfg(test)]
mod tests {
    use docket_crds::EventCode;
    use docket_domain::delivery::FailureClass;

    use super::super::tests::{contact, webhook};
    use super::*;
    use crate::logs::tests::{delivery, frame};

    fn own(webhook: ServedWebhook) -> Detail {
        Detail::new(webhook, Keeper::Portal("v7".into()), None)
    }

    fn other() -> Keeper {
        Keeper::Other { place: "a file".into(), what: Shows::Document, yaml: "targetURL: x".into() }
    }

    #[test]
    fn only_the_keeper_has_forms() {
        let given = page(&frame(), &Detail::new(webhook(), other(), None));
        let frames = given.matches("action=\"/portal/sign-out\"").count();
        assert_eq!(
            given.matches("<form").count(),
            frames + 2,
            "to sign out, to ask, and to send a test event"
        );
        let own = page(&frame(), &own(webhook()));
        assert_eq!(own.matches("name=\"version\" value=\"v7\"").count(), 4, "{own}");
        assert!(own.contains(">Make a new secret</button>") && !own.contains("/promote\""), "{own}");
    }

    #[test]
    fn rotation_marks_the_next_step_and_asks_before_the_last() {
        let rotating = ServedWebhook { has_next_secret: true, ..webhook() };
        let text = page(&frame(), &own(rotating));
        let (_, step) = text.split_once("aria-current=\"step\"").expect("a step");
        assert!(
            step.contains("2. Let the receiver accept both secrets")
                && !step.contains("1. Make a new secret"),
            "{text}"
        );
        assert!(text.contains("<input type=\"checkbox\" required>"), "{text}");
        assert!(text.contains("A new secret waits.") && text.contains("verify_either("), "{text}");
        let (_, cancel) = text.split_once("Cancel: delete the new secret…</summary>").expect("it is folded");
        assert!(cancel.contains("/withdraw\""), "{text}");
        assert!(
            text.contains("/promote\"") && text.contains("/withdraw\"") && !text.contains("/rotate\""),
            "{text}"
        );
    }

    #[test]
    fn secret_says_when_it_was_replaced_and_folds_the_steps_until_they_begin() {
        let calm = page(&frame(), &own(webhook()));
        let (_, steps) = calm.split_once("<summary>Replace the secret…</summary>").expect("it is folded");
        assert!(steps.contains("/rotate\"") && !calm.contains("Last replaced"), "{calm}");
        assert!(!calm.contains("A new secret waits"), "{calm}");
        let replaced = Detail { replaced_at: Some(Timestamp::UNIX_EPOCH), ..own(webhook()) };
        assert!(page(&frame(), &replaced).contains("Last replaced: <time"));
        // The rotation ends where the webhook is declared.
        let rotating = ServedWebhook { has_next_secret: true, ..webhook() };
        assert!(!page(&frame(), &Detail::new(rotating, other(), None)).contains("A new secret waits"));
    }

    #[test]
    fn webhook_of_others_says_whom_to_ask_for_what() {
        let settings = FormSettings { active: false, ..webhook().settings };
        let resting = || ServedWebhook { settings: settings.clone(), ..webhook() };
        let text = page(&frame(), &Detail::new(resting(), other(), None));
        for wish in [
            "“Please change targetURL of default/orders to https://….”",
            "“Please replace the signing secret of default/orders.”",
            "“Please set active of default/orders to true.”",
        ] {
            assert!(text.contains(wish) && text.contains("Ask the people who run Docket"), "{wish}: {text}");
        }
        assert!(!text.contains("Activate it") && !text.contains("Go to the test event"), "{text}");
        assert!(page(&frame(), &own(resting())).contains("Activate it at the top of the page."));
        let contact = page(&contact(), &Detail::new(resting(), other(), None));
        assert!(!contact.contains("Please") && contact.contains("ask its administrators"), "{contact}");
    }

    #[test]
    fn webhook_of_an_unknown_customer_says_everywhere_that_nothing_is_sent() {
        let text = page(&frame(), &own(ServedWebhook { lacks_customer: true, ..webhook() }));
        assert!(text.contains("<dd>are not sent: Docket knows no such customer</dd>"), "{text}");
        assert!(
            text.contains("no customer with the code of this webhook") && !text.contains("One is queued"),
            "{text}"
        );
    }

    #[test]
    fn contact_sees_neither_yaml_nor_objects() {
        let text = page(&contact(), &Detail::new(webhook(), other(), None));
        assert!(!text.contains("targetURL") && !text.contains("<dt>Declared as</dt>"), "{text}");
        assert!(text.contains("This webhook is set up by Acme: ask its administrators"), "{text}");
        let text = page(&frame(), &Detail::new(webhook(), other(), None));
        assert!(text.contains("targetURL: x") && text.contains("<dt>Declared as</dt>"), "{text}");
        let held = Faulty { full_name: "default/held".into(), faults: Vec::new() };
        assert!(unserved(&contact(), &held, None, None).contains("Ask the administrators of Acme"));
    }

    #[test]
    fn test_event_needs_an_active_webhook_and_an_event_that_is_on() {
        let button =
            |webhook: ServedWebhook| page(&frame(), &own(webhook)).contains("Send a test event</button>");
        assert!(button(webhook()));
        assert!(!button(ServedWebhook { takes: Vec::new(), ..webhook() }));
        let settings = FormSettings { active: false, ..webhook().settings };
        assert!(!button(ServedWebhook { settings, ..webhook() }));
    }

    #[test]
    fn test_shows_its_result_and_updates_until_it_has_ended() {
        let of = |test: Delivery| page(&frame(), &Detail { tests: vec![test], ..own(webhook()) });
        let sent = |status| {
            let test = Delivery { status, failure: None, ..delivery() };
            page(&frame(), &Detail { tests: vec![test], done: Some(Done::TestSent), ..own(webhook()) })
        };
        let (queued, ended) = (sent(Status::Pending), sent(Status::Succeeded));
        assert!(queued.contains("event is queued") && !queued.contains("event was sent"), "{queued}");
        assert!(ended.contains("The test event was sent.") && !ended.contains("event is queued"), "{ended}");
        assert_eq!(queued.matches("data-live").count(), 2, "the table of deliveries, too: {queued}");
        let waiting = of(Delivery { status: Status::Pending, attempts: 0, failure: None, ..delivery() });
        assert!(waiting.contains("id=\"live\"") && waiting.contains("first attempt begins"), "{waiting}");
        let taken = of(Delivery { status: Status::Succeeded, attempts: 1, failure: None, ..delivery() });
        assert!(!taken.contains("id=\"live\"") && taken.contains("took it at attempt 1"), "{taken}");
        let lost = of(Delivery { failure: Some(FailureClass::ServerError), ..delivery() });
        assert!(lost.contains("ServerError: ") && lost.contains("More about ServerError"), "{lost}");
    }

    #[test]
    fn test_names_the_person_who_sent_it() {
        let people = Actors::from_iter([("employee 52".to_owned(), "Nora <b>".to_owned())]);
        let test = Delivery { requested_by: Some("employee 52".into()), ..delivery() };
        let text = page(&frame(), &Detail { tests: vec![test], people, ..own(webhook()) });
        assert!(text.contains(" by <span title=\"employee 52\">Nora &lt;b&gt;</span>"), "{text}");
    }

    #[test]
    fn card_of_messages_is_there_if_docket_sends_mail_or_the_user_has_subscriptions() {
        let of = |sends_mail, subscribed| {
            let messages = Notifications { sends_mail, ..Notifications::default() };
            page(&frame(), &Detail { own: messages, subscribed, ..own(webhook()) })
        };
        let sends = of(true, Some("Saved."));
        for part in [
            "href=\"#e-mail-me\"",
            "id=\"e-mail-me\"",
            "name=\"webhook\" value=\"default/orders\"",
            "role=\"status\"><p>Saved.</p>",
        ] {
            assert!(sends.contains(part), "{part}: {sends}");
        }
        assert!(!of(false, None).contains("e-mail-me"));
    }

    #[test]
    fn places_say_when_the_receiver_is_slow() {
        let places = |taken, all, is_reduced| at_once(Places { taken, all, is_reduced });
        assert_eq!(places(1, 8, false), "at most 8 deliveries; 1 now");
        assert_eq!(places(2, 2, true), "at most 2 deliveries because the receiver is slow; 2 now");
        assert_eq!(places(0, 1, true), "at most 1 delivery because the receiver is slow; 0 now");
        let text = page(
            &frame(),
            &Detail { places: Some(Places { taken: 0, all: 2, is_reduced: true }), ..own(webhook()) },
        );
        assert!(text.contains("<dt>Sent at once</dt><dd>at most 2 deliveries because"), "{text}");
    }

    #[test]
    fn deliveries_are_chosen_and_lead_to_the_log() {
        let shown = Detail { show: Show::Lost, deliveries: vec![delivery()], ..own(webhook()) };
        let text = page(&frame(), &shown);
        assert!(
            text.contains("?range=day&amp;show=lost#deliveries\" aria-current=\"true\">Lost</a>"),
            "{text}"
        );
        assert!(
            text.contains("/portal/logs?webhook=default%2Forders&amp;deadLetter=open\">All of them"),
            "{text}"
        );
        assert!(text.contains("?range=week&amp;show=lost\">Week</a>"), "{text}");
        let none = page(&frame(), &Detail { show: Show::Lost, ..own(webhook()) });
        assert!(none.contains("Nothing is lost."), "{none}");
        for show in Show::ALL {
            assert!(!none_of(show, &webhook()).is_empty(), "{show}");
        }
    }

    #[test]
    fn settings_that_could_not_be_saved_are_kept() {
        let wrong = vec![("displayName".to_owned(), "Give it a name.".to_owned())];
        let settings = FormSettings { events: vec![EventCode::NoteCreated], ..FormSettings::default() };
        let text = page(&frame(), &Detail { unsaved: Some((settings, wrong)), ..own(webhook()) });
        assert!(
            text.contains("<title>Error: &lt;b&gt;Orders") && text.contains("id=\"error-displayName\""),
            "{text}"
        );
        assert!(text.contains("name=\"note.created\" value=\"yes\" checked"), "{text}");
        assert!(!text.contains("name=\"active\""), "a button does that: {text}");
    }
}
