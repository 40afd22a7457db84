//! Resends: the user chooses the dead letters of a webhook, sees their count, and sends them again at a pace. Each resend
//! shows its progress.

use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, Status};
use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::actors::Actors;
use crate::field::{self, CHECK, Form, Wrong};
use crate::logs::{Delivery, Filters, link, remedy};
use crate::page::{self, Frame, Section, WebhookName, csrf};
use crate::parts::{self, Head, Tone};
use crate::time::{length, time};
use crate::{count, href};

/// What a bulk resend would queue.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The number of dead letters, one per event.
    pub count: i64,
    /// The number without the limit. One more than [`MAX_COUNT`](crate::MAX_COUNT) means: more than
    /// [`MAX_COUNT`](crate::MAX_COUNT).
    pub total: i64,
    /// When the oldest of these dead letters was queued; `None`: there are none.
    pub oldest: Option<Timestamp>,
    /// Seconds from the first resend to the last.
    pub seconds: i64,
}

/// How many dead letters of a choice can be set aside or back.
#[derive(Debug, Clone, Copy)]
pub struct SetAside {
    /// The number of dead letters that can be set aside, including dead letters that can't be resent.
    pub to_set: i64,
    /// The number that is set aside.
    pub to_undo: i64,
    /// When these dead letters were counted. A click changes only deliveries that ended before, so later dead letters
    /// are not affected.
    pub ended_before: Option<Timestamp>,
}

/// A bulk resend and its progress.
#[derive(Debug, Clone)]
pub struct ResendView {
    /// Its id.
    pub id: String,
    /// The webhook's namespace/name.
    pub webhook: String,
    /// Deliveries due per second.
    pub per_second: i64,
    /// The number of deliveries that it queued.
    pub count: i64,
    /// The user who started the bulk resend.
    pub requested_by: String,
    /// When the bulk resend was started.
    pub created_at: Timestamp,
    /// The user who stopped the bulk resend, and when.
    pub stopped: Option<(String, Timestamp)>,
    /// The number of the resend's deliveries that wait for their first attempt.
    pub waiting: i64,
    /// The number of its deliveries whose last attempt failed and that are tried again.
    pub retrying: i64,
    /// The number of its deliveries that succeeded.
    pub arrived: i64,
    /// The number of its deliveries that became dead letters again.
    pub dead: i64,
    /// The number of its deliveries that were withdrawn when it was stopped.
    pub withdrawn: i64,
}

impl ResendView {
    fn is_under_way(&self) -> bool {
        self.stopped.is_none() && self.waiting > 0
    }

    /// The number of its deliveries that were attempted. Retention may have deleted them since.
    fn sent(&self) -> i64 {
        (self.count - self.waiting - self.withdrawn).max(0)
    }

    /// The result of a resend that has ended and was not stopped.
    fn result(&self) -> (Tone, String) {
        match *self {
            Self { count: 0, .. } => (Tone::Mute, "Nothing to send".to_owned()),
            Self { dead, .. } if dead > 0 => (Tone::Bad, format!("{dead} failed again")),
            Self { retrying, .. } if retrying > 0 => (Tone::Wait, format!("{retrying} tried again")),
            Self { arrived, count, .. } if arrived == count => (Tone::Good, "All arrived".to_owned()),
            _ => (Tone::Mute, "All sent".to_owned()),
        }
    }

    /// A link to its deliveries.
    fn deliveries(&self) -> String {
        href(Section::Logs.path(), [("resendId", self.id.as_str())])
    }
}

/// The page of resends.
#[derive(Debug, Clone)]
pub struct Resends {
    /// The choice of dead letters that the user sent.
    pub choice: Filters,
    /// The fields of the choice that are wrong, each with what would be right. If there are any, there is no preview.
    pub wrong: Vec<(String, String)>,
    /// The preview of the choice; `None`: the user has not chosen yet.
    pub preview: Option<Preview>,
    /// How many dead letters of the choice can be set aside or back; `None`: the user has not chosen yet, or no webhook
    /// with dead letters had this name.
    pub aside: Option<SetAside>,
    /// What the user has just done on this page, if anything.
    pub done: Option<String>,
    /// The one delivery of the choice that was resent first, to see whether the receiver works again.
    pub probe: Option<Delivery>,
    /// The bulk resends, newest first.
    pub resends: Vec<ResendView>,
    /// The names of the people who started and stopped the bulk resends.
    pub people: Actors,
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
}

/// The fields of the choice, each with its label.
const LABELS: [(&str, &str); 6] = [
    ("webhook", "Webhook"),
    ("event", "Event"),
    ("from", "From"),
    ("to", "Before"),
    ("limit", "At most"),
    ("perSecond", "Per second"),
];

/// The page.
pub fn page(frame: &Frame, page: &Resends) -> String {
    let Resends { choice, wrong, preview, probe, resends, .. } = page;
    let form = Form { sent: choice, wrong: Wrong(wrong) };
    let (running, ended): (Vec<&ResendView>, Vec<&ResendView>) =
        resends.iter().partition(|resend| resend.is_under_way());
    let changes = probe.as_ref().is_some_and(|probe| !probe.status.is_final()) || !running.is_empty();
    let head = Head {
        title: html! { "Resends" },
        below: Some(html! {
            "Sends the lost deliveries of a webhook again, the oldest first, one per event. First see how many there are. "
            a href="/docs/webhooks/resend.html" { "How it works" }
        }),
        ..Head::default()
    };
    let main = html! {
        (parts::head(&head))
        (parts::done(page.done.as_deref()))
        (form.wrong.summary(CHECK, &LABELS))
        @if preview.is_some() {
            details.card { summary { "Choose other deliveries" } (chooser(frame, form, page.aside.is_some())) }
        } @else {
            (parts::card("choose", "What to send again", &html! {}, &chooser(frame, form, page.aside.is_some())))
        }
        @if changes && wrong.is_empty() { (page::live(true)) }
        div.stack data-live {
            @if let Some(probe) = probe { (probed(frame, probe)) }
            @if let Some(preview) = preview { (shown(frame, choice, preview, probe.as_ref())) }
            @if let Some(aside) = page.aside { (set_aside(frame, choice, aside)) }
            @if !running.is_empty() { (under_way(frame, page, &running)) }
            (earlier(frame, page, &ended))
        }
    };
    page::page(frame, Section::Resends, &form.wrong.titled("Resends"), &main)
}

/// The form of the choice. `is_known`: the chosen webhook has dead letters, even if it is served no longer.
fn chooser(frame: &Frame, form: Form<'_>, is_known: bool) -> Markup {
    let chosen = form.value("webhook");
    let gone = is_known && frame.webhooks.iter().all(|webhook| webhook.full_name != chosen);
    let name = || frame.removed_name(chosen).unwrap_or_else(|| format!("{chosen} (not served)"));
    let gone = gone.then(|| WebhookName { full_name: chosen.to_owned(), name: name() });
    if frame.webhooks.is_empty() && gone.is_none() {
        let add = html! { p { a.button href=(Section::Webhooks.path()) { "Go to the webhooks" } } };
        return parts::nothing("There is no webhook, so nothing can be sent again", &add);
    }
    let codes = EventCode::WORDS.into_iter().map(|code| (code, code));
    html! {
        form.filters method="get" action=(Section::Resends.path()) {
            (form.select("Webhook", "webhook", true, &field::webhooks(frame.webhooks.iter().chain(&gone), chosen)))
            (form.select("Event", "event", false, &field::options("Any event", codes, form.value("event"))))
            (form.date("From", "from"))
            (form.date("Before", "to"))
            (form.number("At most", "limit", MAX_COUNT))
            (form.number("Per second", "perSecond", DEFAULT_PER_SECOND))
            div.row { button.primary type="submit" { "Preview" } }
            p.hint { "Days begin at 00:00 UTC." }
        }
    }
}

/// The state of the delivery that was resent first.
fn probed(frame: &Frame, probe: &Delivery) -> Markup {
    let (tone, word) = match probe.status {
        Status::Succeeded => (Tone::Good, "Arrived"),
        Status::DeadLetter => (Tone::Bad, "Failed again"),
        Status::Pending => (Tone::Mute, "On its way"),
        Status::Failed => (Tone::Wait, "Failed, tried again"),
    };
    let linked = |words: &str| html! { a href=(link(&probe.id)) { (words) } };
    let delivery = linked("The delivery that was sent first");
    let text = html! {
        @match probe.status {
            Status::Succeeded => {
                p role="status" {
                    (delivery) " arrived" @if let Some(http) = probe.http_status { " (HTTP " (http) ")" }
                    ". Resend the others."
                }
            }
            Status::Pending => {
                p role="status" { "Waiting for the answer to " (linked("the delivery that was sent first")) "…" }
            }
            Status::DeadLetter | Status::Failed => {
                p role="status" {
                    (delivery) " failed" @if probe.failure.is_some() { ": " (probe.ended_as()) }
                    ". Nothing else was sent."
                    @if let Some(at) = probe.next_attempt_at { " Its next attempt: " (time(at, frame.now)) "." }
                }
                @if let Some(failed) = probe.failed() {
                    p { (remedy(&failed)) }
                    @if let Some(url) = frame.url_to_change(&probe.webhook, &failed) {
                        p { a.button href=(url) { "Change the URL" } }
                    }
                }
            }
        }
    };
    parts::card("first", "Sent first", &parts::badge(tone, word), &parts::inside(&text))
}

fn shown(frame: &Frame, choice: &Filters, preview: &Preview, probe: Option<&Delivery>) -> Markup {
    let Preview { count, total, oldest, seconds } = preview;
    let webhook = frame.webhook(choice.value("webhook"));
    let send = |path: &str, button: Markup| send(frame, choice, path, &button);
    let others = format!("Resend {count}");
    let Some(oldest) = oldest else {
        let why = html! {
            p {
                "No lost delivery of " (webhook) " fits the choice and can be sent again: each was resent, is set aside, or belongs "
                "to an event that the webhook does not take any more."
            }
        };
        let body = parts::nothing("Nothing to send again", &why);
        return parts::card("preview", "Preview", &html! {}, &body);
    };
    let body = parts::inside(&html! {
        p role="status" {
            strong { (count) " of " (lost(*total)) } " of " (webhook) " will be sent again. "
            "The oldest is of " (time(*oldest, frame.now)) "."
            @if *count > 1 { " From the first to the last it takes " (length(*seconds)) "." }
        }
        @let one = send("/probe", html! { button.primary type="submit" { "Send one first" } });
        @match probe.map(|probe| probe.status) {
            None => {
                p { "Send one first, and the others if it arrives: a receiver that still fails then gets no more." }
                div.row { (one) (send("", html! { button type="submit" { (others) } })) }
            }
            Some(Status::Succeeded) => { (send("", html! { button.primary type="submit" { (others) } })) }
            Some(Status::Pending) => { p.hint { "The others can be sent here when it has arrived." } }
            Some(Status::Failed | Status::DeadLetter) => { (one) }
        }
    });
    let dead = [
        ("webhook", choice.value("webhook")),
        ("deadLetter", DeadLetter::Open.as_str()),
        ("event", choice.value("event")),
        ("from", choice.value("from")),
        ("to", choice.value("to")),
    ];
    let beside = html! { a.small href=(href(Section::Logs.path(), dead)) { "See these deliveries" } };
    parts::card("preview", "Preview", &beside, &body)
}

/// A count of lost deliveries.
fn lost(number: i64) -> String {
    format!("{} lost {}", count(number), if number == 1 { "delivery" } else { "deliveries" })
}

/// A form that posts the choice to `path`.
fn send(frame: &Frame, choice: &Filters, path: &str, button: &Markup) -> Markup {
    html! {
        form method="post" action={ (Section::Resends.path()) (path) } {
            (csrf(frame))
            @for (name, value) in &choice.0 { input type="hidden" name=(name) value=(value); }
            (button)
        }
    }
}

/// The name of the field with the time at which the dead letters were counted.
const ENDED_BEFORE: &str = "endedBefore";

fn set_aside(frame: &Frame, choice: &Filters, aside: SetAside) -> Markup {
    let SetAside { to_set, to_undo, ended_before } = aside;
    if to_set == 0 && to_undo == 0 {
        return html! {};
    }
    let other = choice.0.iter().filter(|(name, _)| name != ENDED_BEFORE).cloned();
    let seen = ended_before.map(|time| (ENDED_BEFORE.to_owned(), time.to_string()));
    let choice = &Filters(other.chain(seen).collect());
    let body = parts::inside(&html! {
        p { "A lost delivery that is set aside counts no longer, and resends leave it out. Setting aside can be undone." }
        div.row {
            @if to_set > 0 { (send(frame, choice, "/set-aside", &html! { button type="submit" { "Set aside " (to_set) } })) }
            @if to_undo > 0 { (send(frame, choice, "/undo-set-aside", &html! { button type="submit" { "Undo set aside of " (to_undo) } })) }
        }
    });
    parts::card("aside", "Not needed any more", &html! {}, &body)
}

/// The resends that have deliveries to send, each with its progress and a button that stops it.
fn under_way(frame: &Frame, page: &Resends, running: &[&ResendView]) -> Markup {
    let body = html! {
        @for resend in running {
            article.problem {
                div {
                    p {
                        strong { (frame.webhook(&resend.webhook)) } " "
                        span.quiet {
                            "by " (page.people.shown(&resend.requested_by)) " · " (time(resend.created_at, frame.now))
                            " · " (resend.per_second) " per second"
                        }
                    }
                    progress max=(resend.count) value=(resend.sent()) aria-label="Sent again" {}
                    p.small {
                        (resend.sent()) " of " (resend.count) " sent again"
                        @for (number, word) in [(resend.arrived, "arrived"), (resend.retrying, "tried again"), (resend.dead, "failed again")] {
                            @if number > 0 { " · " (number) " " (word) }
                        }
                    }
                }
                div.actions {
                    a.button href=(resend.deliveries()) { "Its deliveries" }
                    form method="post" action={ (Section::Resends.path()) "/stop" } {
                        (csrf(frame))
                        input type="hidden" name="resendId" value=(resend.id);
                        button type="submit" { "Stop" }
                    }
                }
            }
        }
    };
    parts::card("under-way", "Under way", &html! {}, &body)
}

fn earlier(frame: &Frame, page: &Resends, ended: &[&ResendView]) -> Markup {
    let heads = [
        ("Started", ""),
        ("Webhook", ""),
        ("By", "wider"),
        ("Queued", "num wider"),
        ("Sent again", "num"),
        ("Arrived", "num"),
        ("Failed again", "num"),
        ("Not sent", "num wider"),
        ("Result", ""),
    ];
    let rows = html! { @for resend in ended { (row(frame, &page.people, resend)) } };
    let body = match (ended, page.resends.is_empty()) {
        ([], true) => parts::nothing(
            "No resend was started yet",
            &html! { p { "Each resend of many deliveries is listed here, with what became of it." } },
        ),
        ([], false) => parts::nothing("No resend has ended yet", &html! {}),
        _ => parts::table("Earlier resends, newest first", &heads, &rows),
    };
    let is_later = !page.choice.value("cursor").is_empty();
    html! {
        (parts::card("earlier", "Earlier resends", &html! {}, &body))
        nav.row aria-label="Pages" {
            @if is_later { a.button href=(Section::Resends.path()) { "Newest" } }
            @if let Some(next) = &page.next {
                a.button href=(href(Section::Resends.path(), [("cursor", next.as_str())])) rel="next" { "Older" }
            }
        }
    }
}

fn row(frame: &Frame, people: &Actors, resend: &ResendView) -> Markup {
    html! {
        tr {
            td { (time(resend.created_at, frame.now)) }
            td { (frame.webhook(&resend.webhook)) }
            td.wider { (people.shown(&resend.requested_by)) }
            td.num.wider { (resend.count) }
            td.num { a href=(resend.deliveries()) { (resend.sent()) } }
            td.num { (resend.arrived) }
            td.num { (resend.dead) }
            td.num.wider { (resend.withdrawn) }
            td {
                @if let Some((by, at)) = &resend.stopped {
                    (parts::badge(Tone::Mute, "Stopped")) " by " (people.shown(by)) " " (time(*at, frame.now))
                } @else {
                    @let (tone, words) = resend.result();
                    (parts::badge(tone, words))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::{delivery, frame};

    fn resend() -> ResendView {
        ResendView {
            id: "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a".into(),
            webhook: "default/<b>orders".into(),
            per_second: 10,
            count: 13,
            requested_by: "employee 52".into(),
            created_at: frame().now,
            stopped: None,
            waiting: 0,
            retrying: 0,
            arrived: 13,
            dead: 0,
            withdrawn: 0,
        }
    }

    fn empty() -> Resends {
        Resends {
            choice: Filters(Vec::new()),
            wrong: Vec::new(),
            preview: None,
            aside: None,
            done: None,
            probe: None,
            resends: Vec::new(),
            people: Actors::from_iter([
                ("employee 52".to_owned(), "Nora Boss".to_owned()),
                ("employee 53".to_owned(), "Max <i>".to_owned()),
            ]),
            next: None,
        }
    }

    fn chosen(preview: Preview) -> Resends {
        let sent = [("webhook", "default/\"><script>"), ("perSecond", "5")];
        let choice = Filters(sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        Resends { choice, preview: Some(preview), ..empty() }
    }

    fn seven() -> Preview {
        Preview { count: 7, total: 9, oldest: Some(frame().now), seconds: 2 }
    }

    fn probe(status: Status, attempts: i64) -> Delivery {
        Delivery { status, attempts, ..delivery() }
    }

    #[test]
    fn state_of_the_first_delivery_says_whether_the_others_may_follow() {
        let shown = |status, attempts| probed(&frame(), &probe(status, attempts)).into_string();
        // The first attempt is counted when it begins.
        for attempts in [0, 1] {
            let text = shown(Status::Pending, attempts);
            assert!(text.contains("Waiting for the answer") && !text.contains("failed"), "{text}");
        }
        for (status, attempts) in [(Status::Failed, 1), (Status::DeadLetter, 5)] {
            let text = shown(status, attempts);
            assert!(text.contains("failed: 503. Nothing else was sent."), "{text}");
            assert!(text.contains("More about ServerError"), "{text}");
        }
        assert!(shown(Status::Succeeded, 2).contains(" arrived (HTTP 503). Resend the others."));
    }

    #[test]
    fn others_are_offered_only_after_one_that_succeeded() {
        let offered = |first: Option<(Status, i64)>| {
            let probe = first.map(|(status, attempts)| probe(status, attempts));
            let text = shown(&frame(), &Filters(Vec::new()), &seven(), probe.as_ref()).into_string();
            [text.contains("Send one first</button>"), text.contains("Resend 7</button>")]
        };
        assert_eq!(offered(None), [true, true]);
        assert_eq!(offered(Some((Status::Pending, 1))), [false, false]);
        assert_eq!(offered(Some((Status::Failed, 1))), [true, false]);
        assert_eq!(offered(Some((Status::DeadLetter, 5))), [true, false]);
        assert_eq!(offered(Some((Status::Succeeded, 2))), [false, true]);
    }

    #[test]
    fn page_updates_itself_until_nothing_changes() {
        let is_live = |status| {
            let page = Resends { probe: Some(probe(status, 1)), ..chosen(seven()) };
            super::page(&frame(), &page).contains("id=\"live\" type=\"checkbox\" checked")
        };
        assert_eq!([is_live(Status::Failed), is_live(Status::Succeeded)], [true, false]);
        let running = ResendView { waiting: 7, arrived: 6, ..resend() };
        let page = |resend| page(&frame(), &Resends { resends: vec![resend], ..empty() });
        assert!(page(running).contains("id=\"live\"") && !page(resend()).contains("id=\"live\""));
    }

    #[test]
    fn what_will_not_be_resent_can_be_set_aside_and_back() {
        let shown = |to_set, to_undo| {
            let choice = Filters(vec![("webhook".into(), "a/\"b".into())]);
            set_aside(&frame(), &choice, SetAside { to_set, to_undo, ended_before: None }).into_string()
        };
        let both = shown(8, 3);
        assert!(
            both.contains("Set aside 8</button>") && both.contains("Undo set aside of 3</button>"),
            "{both}"
        );
        assert!(both.contains("value=\"a/&quot;b\"") && both.contains("name=\"csrf\""), "{both}");
        assert!(!shown(8, 0).contains("undo-set-aside") && !shown(0, 3).contains("/set-aside"));
        assert_eq!(shown(0, 0), "");
        let page = page(&frame(), &Resends { done: Some("<i>".into()), ..empty() });
        assert!(page.contains("role=\"status\"><p>&lt;i&gt;</p>"), "{page}");
    }

    #[test]
    fn resend_under_way_shows_its_progress_and_can_be_stopped() {
        let page = |resend| page(&frame(), &Resends { resends: vec![resend], ..empty() });
        let running = page(ResendView { waiting: 7, arrived: 4, dead: 2, ..resend() });
        for part in [
            "<progress max=\"13\" value=\"6\" aria-label=\"Sent again\"></progress>",
            "6 of 13 sent again · 4 arrived · 2 failed again",
            "action=\"/portal/resends/stop\"",
            "by <span title=\"employee 52\">Nora Boss</span>",
            "href=\"/portal/logs?resendId=0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a\"",
            "No resend has ended yet",
        ] {
            assert!(running.contains(part), "{part}: {running}");
        }
        let stopped = Some(("employee 53".to_owned(), frame().now));
        let stopped = page(ResendView { arrived: 6, withdrawn: 7, stopped, ..resend() });
        assert!(!stopped.contains("resends/stop") && !stopped.contains("<progress"), "{stopped}");
        let numbers = "<td class=\"num wider\">13</td><td class=\"num\"><a href=\"/portal/logs?resendId=0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a\">6</a></td>\
                       <td class=\"num\">6</td><td class=\"num\">0</td><td class=\"num wider\">7</td>";
        assert!(stopped.contains(numbers), "{stopped}");
        assert!(
            stopped
                .contains("<span>Stopped</span></span> by <span title=\"employee 53\">Max &lt;i&gt;</span>")
        );
        assert!(!stopped.contains("<b>orders") && !stopped.contains("No resend was started"), "{stopped}");
    }

    #[test]
    fn result_names_what_failed_before_what_arrived() {
        let of = |change: fn(ResendView) -> ResendView| change(resend()).result();
        assert_eq!(of(|resend| resend), (Tone::Good, "All arrived".into()));
        assert_eq!(
            of(|resend| ResendView { arrived: 10, dead: 2, retrying: 1, ..resend }),
            (Tone::Bad, "2 failed again".into())
        );
        assert_eq!(
            of(|resend| ResendView { arrived: 12, retrying: 1, ..resend }),
            (Tone::Wait, "1 tried again".into())
        );
        assert_eq!(
            of(|resend| ResendView { arrived: 0, ..resend }),
            (Tone::Mute, "All sent".into()),
            "deleted since"
        );
        assert_eq!(
            of(|resend| ResendView { count: 0, arrived: 0, ..resend }),
            (Tone::Mute, "Nothing to send".into())
        );
    }

    #[test]
    fn preview_carries_the_choice_to_the_resend_unless_there_is_nothing() {
        let text = page(&frame(), &chosen(seven()));
        assert!(
            text.contains("<strong>7 of 9 lost deliveries</strong>") && text.contains("Resend 7</button>"),
            "{text}"
        );
        assert!(text.contains("name=\"perSecond\" value=\"5\"") && !text.contains("\"><script>"), "{text}");
        assert!(
            text.contains("<summary>Choose other deliveries</summary>") && text.contains("it takes 2 s."),
            "{text}"
        );
        let many = page(&frame(), &chosen(Preview { total: crate::MAX_COUNT + 1, ..seven() }));
        assert!(many.contains("7 of more than 10,000 lost deliveries"), "{many}");
        let none = page(&frame(), &chosen(Preview { count: 0, total: 0, oldest: None, seconds: 0 }));
        assert!(none.contains("Nothing to send again") && !none.contains("Resend 0"), "{none}");
    }

    #[test]
    fn preview_leads_to_its_deliveries_and_the_list_to_older_resends() {
        let sent =
            [("webhook", "a/b"), ("event", "order.created"), ("from", "2026-11-01"), ("to", "2026-11-02")];
        let choice = Filters(sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let text =
            page(&frame(), &Resends { choice, preview: Some(seven()), next: Some("c/1".into()), ..empty() });
        let filters = "event=order.created&amp;from=2026-11-01&amp;to=2026-11-02\"";
        for link in [
            "href=\"/portal/resends?cursor=c%2F1\" rel=\"next\">Older</a>",
            &format!("href=\"/portal/logs?webhook=a%2Fb&amp;deadLetter=open&amp;{filters}"),
        ] {
            assert!(text.contains(link), "{link}: {text}");
        }
        assert!(!text.contains(">Newest</a>"), "{text}");
        let choice = Filters(vec![("cursor".into(), "c".into())]);
        let last = page(&frame(), &Resends { choice, ..empty() });
        assert!(
            last.contains("href=\"/portal/resends\">Newest</a>") && !last.contains(">Older</a>"),
            "{last}"
        );
    }

    #[test]
    fn choice_is_made_by_the_names_of_webhooks_and_says_what_is_wrong() {
        let name =
            |full_name: &str, name: &str| WebhookName { full_name: full_name.into(), name: name.into() };
        let frame =
            Frame { webhooks: vec![name("a/crm", "CRM sync"), name("a/orders", "Orders")], ..frame() };
        let choice = Filters(vec![("webhook".into(), "a/gone".into())]);
        let wrong = vec![("webhook".to_owned(), "is <not> served".to_owned())];
        let text = page(&frame, &Resends { choice: choice.clone(), wrong: wrong.clone(), ..empty() });
        assert!(text.contains("<option value=\"a/crm\">CRM sync</option>"), "{text}");
        assert!(
            text.contains("<title>Error: Resends") && text.contains("<a href=\"#field-webhook\">"),
            "{text}"
        );
        assert!(text.contains("is &lt;not&gt; served") && !text.contains("a/gone"), "{text}");
        let aside = Some(SetAside { to_set: 1, to_undo: 0, ended_before: None });
        let text = page(&frame, &Resends { choice, wrong, aside, ..empty() });
        assert!(text.contains("<option value=\"a/gone\" selected>a/gone (not served)</option>"), "{text}");
    }
}
