//! Bulk resends: the user chooses the dead letters of a webhook, sees their count, and resends them at a pace. Each
//! resend shows its progress.

use docket_crds::EventCode;
use docket_domain::delivery::Status;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::logs::{Delivery, Filters, NOT_SEARCHED, link, select};
use crate::page::{Frame, Section, csrf};
use crate::time::time;
use crate::{href, page};

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
    /// The number that can be set aside, including those that can't be resent.
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
    /// The numbers of its deliveries: Pending, Failed, Succeeded, DeadLetter, and withdrawn when it was stopped.
    pub states: [i64; 5],
}

impl ResendView {
    fn is_under_way(&self) -> bool {
        self.stopped.is_none() && self.states[0] > 0
    }
}

/// The page of bulk resends.
#[derive(Debug, Clone)]
pub struct Resends {
    /// The choice of dead letters that the user sent.
    pub choice: Filters,
    /// The fields of the choice that are wrong, each with what would be right. If there are any, there is no preview.
    pub wrong: Vec<(String, String)>,
    /// The preview of the choice; `None`: the user has not chosen yet.
    pub preview: Option<Preview>,
    /// How many dead letters of the choice can be set aside or back; `None`: the user has not chosen yet.
    pub aside: Option<SetAside>,
    /// What the user has just done on this page, if anything.
    pub done: Option<String>,
    /// The one delivery of the choice that was resent first, to see whether the receiver works again.
    pub probe: Option<Delivery>,
    /// The names of the tenant's webhooks.
    pub webhooks: Vec<String>,
    /// The bulk resends, newest first.
    pub resends: Vec<ResendView>,
    /// The cursor of the next page, if there is more.
    pub next: Option<String>,
}

/// The page.
pub fn page(frame: &Frame, page: &Resends) -> String {
    let Resends { choice, wrong, preview, probe, resends, next, .. } = page;
    let main = html! {
        h1 { "Bulk resend" }
        p { "Sends the dead letters of a webhook again, the oldest first, one per event. First see how many there are." }
        @if let Some(done) = &page.done { p.good role="status" { (done) } }
        (page::wrong(NOT_SEARCHED, wrong))
        (form(page))
        @if wrong.is_empty() { (page::live(false)) }
        div data-live {
            @if let Some(probe) = probe { (probed(probe)) }
            @if let Some(preview) = preview { (shown(frame, choice, preview, probe.as_ref())) }
            @if let Some(aside) = page.aside { (set_aside(frame, choice, aside)) }
            h2 { "Started" }
            @if resends.is_empty() { p role="status" { "No bulk resend was started yet." } }
            @else { (table(frame, resends)) }
            @if let Some(next) = next {
                p { a.button href=(href(Section::Resends.path(), [("cursor", next.as_str())])) rel="next" { "Older" } }
            }
        }
    };
    page::page(frame, Section::Resends, "Bulk resend", &main)
}

fn form(page: &Resends) -> Markup {
    let value = |name| page.choice.value(name);
    html! {
        form.filters method="get" action=(Section::Resends.path()) {
            label { "Webhook" input name="webhook" value=(value("webhook")) list="webhooks" required; }
            datalist #webhooks { @for name in &page.webhooks { option value=(name) {} } }
            (select("Event", "event", value("event"), EventCode::WORDS))
            label { "From" input name="from" value=(value("from")) placeholder="2026-11-01"; }
            label { "To" input name="to" value=(value("to")) placeholder="2026-11-01T09:30:00Z"; }
            label { "At most" input name="limit" value=(value("limit")) inputmode="numeric" placeholder="10000"; }
            label { "Per second" input name="perSecond" value=(value("perSecond")) inputmode="numeric" placeholder="10"; }
            div.row { button.primary type="submit" { "Preview" } }
        }
    }
}

/// The state of the delivery that was resent first.
fn probed(probe: &Delivery) -> Markup {
    let delivery = html! { a href=(link(&probe.id)) { "The delivery that was sent first" } };
    html! {
        h2 { "Sent first" }
        @match (probe.status, probe.attempts) {
            (Status::Succeeded, _) => p.good role="status" { (delivery) " succeeded. Resend the others." },
            (_, 0) => p.wait role="status" { (delivery) " waits for its first attempt." },
            _ => p.wrong role="alert" {
                (delivery) " failed" @if let Some(class) = probe.failure { " (" (class.as_str()) ")" }
                ", and nothing else was sent. Its page says what to do."
            },
        }
    }
}

fn shown(frame: &Frame, choice: &Filters, preview: &Preview, probe: Option<&Delivery>) -> Markup {
    let Preview { count, total, oldest, seconds } = preview;
    let webhook = choice.value("webhook");
    let send = |path: &str, button: Markup| send(frame, choice, path, &button);
    html! {
        h2 { "Preview" }
        @if let Some(oldest) = oldest {
            p role="status" {
                (count) " of " (crate::counted(*total, "dead letter")) " of " (webhook) ", the oldest of " (time(*oldest, frame.now))
                "; from the first resend to the last " (seconds) " s."
            }
            @let one = send("/probe", html! { button.primary type="submit" { "Send one first" } });
            @match probe.map(|probe| (probe.status, probe.attempts)) {
                None => {
                    p { "Send one first, and the others if it succeeds: a receiver that still fails then gets no more." }
                    div.row { (one) (send("", html! { button type="submit" { "Resend " (count) } })) }
                }
                Some((Status::Succeeded, _)) => (send("", html! { button.primary type="submit" { "Resend " (count) } })),
                Some((_, 0)) => p.hint { "The others can be resent here when it has succeeded." },
                Some(_) => (one),
            }
        } @else {
            p role="status" { "There is no dead letter of " (webhook) " that can be resent." }
        }
    }
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
    let other = choice.0.iter().filter(|(name, _)| name != ENDED_BEFORE).cloned();
    let seen = ended_before.map(|time| (ENDED_BEFORE.to_owned(), time.to_string()));
    let choice = &Filters(other.chain(seen).collect());
    html! {
        @if to_set > 0 || to_undo > 0 {
            h2 { "Will not be resent" }
            p { "A dead letter that is set aside counts no longer, and bulk resends leave it out. Setting aside can be undone." }
            div.row {
                @if to_set > 0 { (send(frame, choice, "/set-aside", &html! { button type="submit" { "Set aside " (to_set) } })) }
                @if to_undo > 0 { (send(frame, choice, "/undo-set-aside", &html! { button type="submit" { "Undo set aside of " (to_undo) } })) }
            }
        }
    }
}

fn table(frame: &Frame, resends: &[ResendView]) -> Markup {
    html! {
        div.wide role="region" aria-label="Bulk resends" tabindex="0" {
            table {
                caption { "Bulk resends, newest first" }
                thead {
                    tr {
                        @for head in ["Started", "Webhook", "By", "Queued", "Pending", "Failed", "Succeeded", "DeadLetter", "Withdrawn", "Pace", "State"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for resend in resends {
                        tr {
                            td { (time(resend.created_at, frame.now)) }
                            td { (resend.webhook) }
                            td { (resend.requested_by) }
                            td { (resend.count) }
                            @for count in resend.states { td { (count) } }
                            td { (resend.per_second) " per second" }
                            td { (state(frame, resend)) }
                        }
                    }
                }
            }
        }
    }
}

fn state(frame: &Frame, resend: &ResendView) -> Markup {
    html! {
        @if let Some((by, at)) = &resend.stopped { "Stopped by " (by) " " (time(*at, frame.now)) }
        @else if resend.is_under_way() {
            form method="post" action={ (Section::Resends.path()) "/stop" } {
                (csrf(frame))
                input type="hidden" name="resendId" value=(resend.id);
                button type="submit" { "Stop" }
            }
        } @else { "All sent" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_COUNT;
    use crate::logs::tests::frame;

    fn resends(states: [i64; 5], stopped: bool, preview: Option<Preview>) -> String {
        let resend = ResendView {
            id: "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a".into(),
            webhook: "default/<b>orders".into(),
            per_second: 10,
            count: 7,
            requested_by: "employee 52".into(),
            created_at: frame().now,
            stopped: stopped.then(|| ("employee 53".into(), frame().now)),
            states,
        };
        let sent = [("webhook", "default/\"><script>"), ("perSecond", "5")];
        let choice = Filters(sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        page(
            &frame(),
            &Resends {
                wrong: Vec::new(),
                choice,
                preview,
                aside: Some(SetAside { to_set: 8, to_undo: 3, ended_before: None }),
                done: Some("<i>".into()),
                webhooks: Vec::new(),
                probe: None,
                resends: vec![resend],
                next: None,
            },
        )
    }

    #[test]
    fn one_that_was_sent_first_says_whether_the_others_may_follow() {
        let shown = |status, attempts| {
            let probe = Delivery { status, attempts, ..crate::logs::tests::delivery() };
            probed(&probe).into_string()
        };
        assert!(shown(Status::Pending, 0).contains("waits for its first attempt"));
        assert!(shown(Status::Failed, 1).contains("nothing else was sent"));
        assert!(shown(Status::DeadLetter, 5).contains("nothing else was sent"));
        assert!(shown(Status::Succeeded, 2).contains("Resend the others"));
    }

    #[test]
    fn others_are_offered_only_after_one_that_succeeded() {
        let preview = Preview { count: 7, total: 9, oldest: Some(frame().now), seconds: 2 };
        let offered = |probe: Option<(Status, i64)>| {
            let probe = probe.map(|(status, attempts)| Delivery {
                status,
                attempts,
                ..crate::logs::tests::delivery()
            });
            let text = shown(&frame(), &Filters(Vec::new()), &preview, probe.as_ref()).into_string();
            [text.contains("Send one first</button>"), text.contains("Resend 7</button>")]
        };
        assert_eq!(offered(None), [true, true]);
        assert_eq!(offered(Some((Status::Pending, 0))), [false, false]);
        assert_eq!(offered(Some((Status::Failed, 1))), [true, false]);
        assert_eq!(offered(Some((Status::DeadLetter, 5))), [true, false]);
        assert_eq!(offered(Some((Status::Succeeded, 2))), [false, true]);
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
        let page = resends([0, 0, 7, 0, 0], false, None);
        assert!(page.contains("role=\"status\">&lt;i&gt;</p>") && page.contains("Set aside 8"), "{page}");
    }

    #[test]
    fn only_a_resend_that_is_under_way_can_be_stopped() {
        for (states, stopped, offered) in
            [([1, 0, 6, 0, 0], false, true), ([0, 1, 6, 0, 0], false, false), ([1, 0, 6, 0, 0], true, false)]
        {
            let text = resends(states, stopped, None);
            assert_eq!(text.contains("action=\"/portal/resends/stop\""), offered, "{states:?} {stopped}");
            assert!(!text.contains("<b>orders") && !text.contains("\"><script>"), "{text}");
        }
    }

    #[test]
    fn preview_carries_the_choice_to_the_resend_unless_there_is_nothing() {
        let some = Preview { count: 7, total: 9, oldest: Some(frame().now), seconds: 2 };
        let text = resends([0, 0, 7, 0, 0], false, Some(some.clone()));
        assert!(text.contains("7 of 9 dead letters") && text.contains("Resend 7</button>"), "{text}");
        assert!(text.contains("name=\"perSecond\" value=\"5\""));
        let many = Preview { total: MAX_COUNT + 1, ..some.clone() };
        assert!(resends([0, 0, 7, 0, 0], false, Some(many)).contains("7 of more than 10,000 dead letters"));
        let text =
            resends([0, 0, 7, 0, 0], false, Some(Preview { count: 0, total: 0, oldest: None, ..some }));
        assert!(text.contains("There is no dead letter") && !text.contains("Resend 0"), "{text}");
    }
}
