//! Overview: what is lost and what to do about it, figures of a period, and the webhooks (first those that need attention).

use docket_domain::delivery::{DeadLetter, FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::declared::{self, Unserved};
use crate::logs::{code, link, remedy};
use crate::page::{Frame, Section};
use crate::parts::{self, Head, Tone};
use crate::period::{self, Period};
use crate::state::{self, Signs, WebhookState};
use crate::time::{at, time};
use crate::{count, counted, href, page};

/// A webhook and the state of its deliveries.
#[derive(Debug, Clone)]
pub struct OverviewWebhook {
    /// `namespace/name`.
    pub name: String,
    /// The customer whose events are sent.
    pub customer_code: String,
    /// The customer's name; its code if it has none.
    pub customer_name: String,
    /// Whether new events are sent.
    pub active: bool,
    /// Problems of the settings of a webhook that is served: sentences that begin with the field.
    pub faults: Vec<String>,
    /// The number of deliveries that have not ended, including failed ones.
    pub pending: i64,
    /// The number of pending deliveries whose last attempt failed.
    pub retrying: i64,
    /// The number of its open dead letters: neither resent nor set aside.
    pub dead_letter: i64,
    /// When a delivery to it last succeeded; `None`: no stored delivery has succeeded.
    pub last_success: Option<Timestamp>,
    /// When a delivery to it last became a dead letter that is still open; `None`: there is no open dead letter.
    pub last_dead_letter: Option<Timestamp>,
}

/// Why deliveries to a webhook fail.
#[derive(Debug, Clone)]
pub struct WebhookProblem {
    /// The webhook's name.
    pub webhook: String,
    /// The webhook's dead letters.
    pub dead: Failing,
    /// The webhook's deliveries that are being retried.
    pub retried: Failing,
    /// The last of these failures; of dead letters, if there are any.
    pub last: Option<LastFailed>,
    /// When the webhook's settings were last changed, if that was after this failure.
    pub changed_at: Option<Timestamp>,
}

/// The last delivery of a problem that failed.
#[derive(Debug, Clone)]
pub struct LastFailed {
    /// The delivery's id.
    pub id: String,
    /// The beginning of the receiver's response, if it had a body.
    pub said: Option<String>,
    /// When the first of the problem's deliveries failed for good, or was queued if it is retried.
    pub since: Timestamp,
    /// When the next attempt is due; `None`: none is.
    pub next_attempt_at: Option<Timestamp>,
}

/// A way in which deliveries failed.
#[derive(Debug, Clone)]
pub struct FailedAs {
    /// The class of their last attempts.
    pub class: FailureClass,
    /// The HTTP status, if all these attempts have the same status.
    pub http_status: Option<i64>,
    /// The cause, if all these attempts have the same cause.
    pub cause: Option<Cause>,
    /// The number of examined deliveries that failed in this way.
    pub count: i64,
}

/// Deliveries that failed.
#[derive(Debug, Clone, Default)]
pub struct Failing {
    /// The number of deliveries.
    pub count: i64,
    /// How the last attempts of these deliveries failed, the most frequent failure first.
    pub classes: Vec<FailedAs>,
    /// The number of examined deliveries (of dead letters, the last ones); `None`: all were examined.
    pub of_last: Option<i64>,
}

impl OverviewWebhook {
    fn state(&self) -> WebhookState {
        WebhookState::of(Signs {
            dead_letter: self.dead_letter,
            retrying: self.retrying,
            last_success: self.last_success,
            last_dead_letter: self.last_dead_letter,
            is_faulty: !self.faults.is_empty(),
        })
    }
}

/// The page. `problems` has one entry for each webhook that the page explains, the worst first.
pub fn page(
    frame: &Frame,
    mut webhooks: Vec<OverviewWebhook>,
    unserved: &Unserved,
    problems: &[WebhookProblem],
    period: &Period,
) -> String {
    webhooks.sort_by_key(|webhook| (webhook.state(), std::cmp::Reverse(webhook.dead_letter)));
    let faults = webhooks.iter().map(|webhook| (webhook.name.as_str(), &webhook.faults[..]));
    let is_new = webhooks.is_empty() && unserved.is_none();
    let title = headline(&webhooks, unserved);
    let below = html! { (period::summary(period)) };
    let head = Head { title: html! { (title) }, below: (!is_new).then_some(below), ..Head::default() };
    let main = html! {
        @if is_new {
            (parts::head(&head))
            (first_steps(frame))
        } @else {
            div.row { (page::live(true)) }
            div.stack data-live {
                (parts::head(&Head { actions: Some(period::ranges(period.range, |range| href(Section::Overview.path(), [("range", range.as_str())]))), ..head }))
                (declared::unserved(frame, unserved))
                (repair(frame, &webhooks, problems))
                (declared::faulty(frame, faults))
                (period::section(period))
                (parts::card("webhooks", "Webhooks", &html! { a.button.tiny href=(Section::Webhooks.path()) { "All " (webhooks.len()) } }, &table(frame, &webhooks)))
            }
        }
    };
    page::page(frame, Section::Overview, "Overview", &main)
}

/// The answer to the question with which users come here.
fn headline(webhooks: &[OverviewWebhook], unserved: &Unserved) -> String {
    let sum = |of: fn(&OverviewWebhook) -> i64| webhooks.iter().map(of).sum::<i64>();
    let (lost, retrying) = (sum(|webhook| webhook.dead_letter), sum(|webhook| webhook.retrying));
    let failing = webhooks.iter().filter(|webhook| webhook.state().fails()).count();
    let need = format!(
        "{} need{} attention",
        counted(failing as i64, "webhook"),
        if failing == 1 { "s" } else { "" }
    );
    match (lost, retrying) {
        (0, 0) if webhooks.is_empty() && unserved.is_none() => "No webhook yet".to_owned(),
        (0, 0) if !unserved.is_none() => "Some webhooks are not served".to_owned(),
        (0, 0) => "Everything arrives".to_owned(),
        (0, _) => format!("{} tried again, {need}", deliveries_are(retrying)),
        _ => format!("{} lost, {need}", deliveries_are(lost)),
    }
}

fn deliveries_are(number: i64) -> String {
    format!("{} {}", count(number), if number == 1 { "delivery is" } else { "deliveries are" })
}

fn first_steps(frame: &Frame) -> Markup {
    let is_of_tenant = frame.is_of_tenant();
    html! {
        section.card aria-labelledby="first" {
            header { h2 #first { "How to begin" } }
            div.in {
                p { "No webhook is set up yet, so no event is sent." }
                ol {
                    li { a href=(Section::Webhooks.path()) { "Add a webhook" } @if is_of_tenant { " for a customer" } ", with the URL of a receiver." }
                    li { "Send a test event from the webhook's page, and see it arrive." }
                    li { a href="/docs/api/orders.html" { "Save an order" } @if is_of_tenant { " of the customer" } ", for example with curl. Its delivery is in Webhook Logs." }
                }
            }
        }
    }
}

/// What fails, and what to do about it.
fn repair(frame: &Frame, webhooks: &[OverviewWebhook], problems: &[WebhookProblem]) -> Markup {
    html! {
        @if webhooks.iter().any(|webhook| webhook.state().fails()) {
            section.card aria-labelledby="repair" {
                header { h2 #repair { "What to repair" } (more(webhooks, problems)) }
                @for problem in problems { (article(frame, webhooks, problem)) }
            }
        }
    }
}

fn article(frame: &Frame, webhooks: &[OverviewWebhook], problem: &WebhookProblem) -> Markup {
    let WebhookProblem { webhook, dead, retried, last, changed_at } = problem;
    // A lost delivery needs its remedy first.
    let worst = dead.classes.first().or(retried.classes.first());
    let worst = worst.map(|FailedAs { class, http_status, cause, .. }| Failure {
        class: *class,
        cause: *cause,
        http_status: code(*http_status),
        detail: None,
    });
    // After a change, one delivery shows whether it helped.
    let url = worst.as_ref().filter(|_| changed_at.is_none());
    let url = url.and_then(|failure| frame.url_to_change(webhook, failure));
    let resends = href(Section::Resends.path(), [("webhook", webhook.as_str())]);
    let customer = webhooks.iter().find(|other| other.name == *webhook).map(|other| &other.customer_name);
    html! {
        article.problem {
            div {
                p {
                    @if dead.count > 0 { (parts::badge(Tone::Bad, format!("{} lost", count(dead.count)))) " " }
                    @if retried.count > 0 { (parts::badge(Tone::Wait, format!("{} tried again", count(retried.count)))) " " }
                    strong { (frame.webhook(webhook)) } " "
                    span.quiet {
                        @if let Some(customer) = customer { (customer) }
                        @if let Some(last) = last {
                            " · since " (at(last.since))
                            @if let Some(next) = last.next_attempt_at { " · next attempt " (at(next)) }
                        }
                    }
                }
                @if let Some(said) = last.as_ref().and_then(|last| last.said.as_ref()) { p.said { (said) } }
                p.small {
                    @if dead.count > 0 { (failing(webhook, Status::DeadLetter, dead)) }
                    @if dead.count > 0 && retried.count > 0 { "; " }
                    @if retried.count > 0 { (failing(webhook, Status::Failed, retried)) }
                }
                @if let Some(changed_at) = changed_at {
                    p {
                        "Its settings have changed since, at " (at(*changed_at)) ". "
                        @if dead.count > 0 { a href=(resends) { "Send one to try" } "." } @else { "The next attempt tries it." }
                    }
                }
                @if let Some(failure) = &worst {
                    p.quiet[changed_at.is_some()] { @if changed_at.is_some() { "Before the change: " } (remedy(failure)) }
                }
            }
            div.actions {
                @if let Some(last) = last { a.button href=(link(&last.id)) { "See the last failure" } }
                @if let Some(url) = &url { a.button.primary href=(url) { "Change the URL" } }
                @if dead.count > 0 { a.button.primary[url.is_none()] href=(resends) { "Resend " (count(dead.count)) "…" } }
            }
        }
    }
}

/// A link to the failed deliveries of a status, and how they failed.
fn failing(webhook: &str, status: Status, failing: &Failing) -> Markup {
    let logs = |class: &str| {
        let which = match status {
            Status::DeadLetter => ("deadLetter", DeadLetter::Open.as_str()),
            other => ("status", other.as_str()),
        };
        let filters = [("webhook", webhook), which, ("failureClass", class)];
        href(Section::Logs.path(), filters)
    };
    let became = if status == Status::DeadLetter { "lost" } else { "tried again" };
    let text = format!("{} {became}", deliveries_are(failing.count));
    html! {
        a href=(logs("")) { (text) }
        @if !failing.classes.is_empty() {
            " (" @match (failing.of_last, status) {
                (None, _) => {}
                (Some(last), Status::DeadLetter) => { "of the last " (last) ": " }
                (Some(some), _) => { "of " (some) " of all webhooks: " }
            }
            @for (place, FailedAs { class, count, .. }) in failing.classes.iter().enumerate() {
                @if place > 0 { ", " }
                // A search knows only the classes of this version.
                a href=(logs(if matches!(class, FailureClass::Unknown(_)) { "" } else { class.as_str() })) {
                    @if failing.classes.len() > 1 || failing.of_last.is_some() { (count) " " }
                    strong { (class.as_str()) }
                }
            }
            ")"
        }
    }
}

/// How many webhooks that need attention are not explained, with a link to the table that has them.
fn more(webhooks: &[OverviewWebhook], problems: &[WebhookProblem]) -> Markup {
    let is_left = |webhook: &&OverviewWebhook| {
        webhook.state().fails() && problems.iter().all(|problem| problem.webhook != webhook.name)
    };
    let left: Vec<&OverviewWebhook> = webhooks.iter().filter(is_left).collect();
    let lost = left.iter().filter(|webhook| webhook.dead_letter > 0).count();
    html! {
        @if !left.is_empty() {
            span.small {
                a href="#webhooks" { "And " (left.len()) " more" }
                @match lost {
                    0 => ", whose deliveries are tried again",
                    lost => { ", " (lost) " of them with lost deliveries" }
                }
            }
        }
    }
}

fn table(frame: &Frame, webhooks: &[OverviewWebhook]) -> Markup {
    let heads = [
        ("Webhook", ""),
        ("State", ""),
        ("Customer", "wider"),
        ("To be sent", "num wider"),
        ("Tried again", "num"),
        ("Lost", "num"),
        ("Last success", "wider"),
    ];
    let number = |number, filter: (&str, &str), webhook: &OverviewWebhook| {
        let logs = href(Section::Logs.path(), [("webhook", webhook.name.as_str()), filter]);
        html! { @if number > 0 { a href=(logs) { (count(number)) } } @else { "0" } }
    };
    let rows = html! {
        @for webhook in webhooks {
            tr {
                th scope="row" { (frame.webhook(&webhook.name)) }
                td { (state::badge(webhook.state(), webhook.active)) }
                td.wider { (parts::customer(&webhook.customer_name, &webhook.customer_code)) }
                td.num.wider { (count(webhook.pending)) }
                td.num { (number(webhook.retrying, ("status", Status::Failed.as_str()), webhook)) }
                td.num { (number(webhook.dead_letter, ("deadLetter", DeadLetter::Open.as_str()), webhook)) }
                td.wider { @if let Some(at) = webhook.last_success { (time(at, frame.now)) } @else { "–" } }
            }
        }
    };
    parts::table("Webhooks, those that need attention first", &heads, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::Faulty;
    use crate::logs::tests::frame;

    fn webhook(name: &str, retrying: i64, dead_letter: i64, [success, dead]: [i64; 2]) -> OverviewWebhook {
        let at = |second| (second > 0).then(|| Timestamp::from_second(second).expect("in range"));
        OverviewWebhook {
            name: name.into(),
            customer_code: "C-1".into(),
            customer_name: "<b>One".into(),
            active: name != "off",
            pending: retrying,
            retrying,
            dead_letter,
            last_success: at(success),
            last_dead_letter: at(dead),
            faults: Vec::new(),
        }
    }

    #[test]
    fn next_step_is_to_change_the_url_and_then_to_send_one() {
        let frame = || Frame { changeable: vec!["a/b".into()], ..frame() };
        let shown = |class, changed_at, dead: i64| {
            let failed_as = FailedAs { class, http_status: None, cause: None, count: 7 };
            let failing = Failing { count: 7, classes: vec![failed_as], of_last: None };
            let (lost, retried) =
                if dead > 0 { (failing, Failing::default()) } else { (Failing::default(), failing) };
            let problem =
                WebhookProblem { webhook: "a/b".into(), dead: lost, retried, last: None, changed_at };
            let webhooks = vec![webhook("a/b", 7 - dead, dead, [10, 20])];
            page(&frame(), webhooks, &Unserved::default(), &[problem], &Period::default())
        };
        let refused = shown(FailureClass::Refused, None, 7);
        let change = "<a class=\"button primary\" href=\"/portal/webhooks/a/b#settings\">Change the URL</a>";
        let resend = "<a class=\"button\" href=\"/portal/resends?webhook=a%2Fb\">Resend 7…</a>";
        assert!(refused.contains(change) && refused.contains(resend), "{refused}");
        let primary = "<a class=\"button primary\" href=\"/portal/resends?webhook=a%2Fb\">Resend 7…</a>";
        let down = shown(FailureClass::ServerError, None, 7);
        assert!(down.contains(primary) && !down.contains("Change the URL"), "{down}");
        let changed = shown(FailureClass::Refused, Some(frame().now), 7);
        assert!(changed.contains(primary) && !changed.contains("Change the URL"), "{changed}");
        for part in ["Its settings have changed since", ">Send one to try</a>", "Before the change: "] {
            assert!(changed.contains(part) && !refused.contains(part), "{part}: {changed}");
        }
        let retried = shown(FailureClass::Refused, Some(frame().now), 0);
        assert!(retried.contains("The next attempt tries it.") && !retried.contains("Send one"), "{retried}");
    }

    #[test]
    fn webhooks_that_need_attention_come_first() {
        let webhooks = vec![
            webhook("off", 0, 0, [0, 0]),
            webhook("left", 0, 9, [20, 10]),
            OverviewWebhook { pending: 1_000_000, ..webhook("failing", 1, 0, [10, 0]) },
            webhook("lost", 0, 1, [10, 20]),
        ];
        let failed_as = |class, count| FailedAs { class, http_status: None, cause: None, count };
        let dead = Failing { count: 1, classes: vec![failed_as(FailureClass::Dns, 1)], of_last: None };
        let problem = WebhookProblem {
            webhook: "lost".into(),
            dead,
            retried: Failing::default(),
            last: None,
            changed_at: None,
        };
        let classes = vec![failed_as(FailureClass::Dns, 300), failed_as(FailureClass::Connect, 200)];
        let sampled = Failing { count: 900, classes: classes.clone(), of_last: Some(500) };
        let retried = Failing { of_last: None, ..sampled.clone() };
        let both = WebhookProblem {
            webhook: "left".into(),
            dead: sampled.clone(),
            retried,
            last: None,
            changed_at: None,
        };
        let last = LastFailed {
            id: "d1".into(),
            said: Some("<u>".into()),
            since: frame().now,
            next_attempt_at: None,
        };
        let sampled = WebhookProblem {
            webhook: "left".into(),
            dead: Failing::default(),
            retried: sampled,
            last: Some(last),
            changed_at: None,
        };
        let day = Period::default();
        let text = page(&frame(), webhooks.clone(), &Unserved::default(), &[problem, both, sampled], &day);
        let more = "href=\"/docs/reference/failure-classes.html#dns\">More about Dns</a>";
        assert!(text.contains(more), "{text}");
        assert!(text.contains("deadLetter=open\">900 deliveries are lost</a> (of the last 500: "), "{text}");
        assert!(text.contains("; <a href=\"/portal/logs?webhook=left&amp;status=Failed\">900 deliveries are tried again</a> ("), "{text}");
        assert!(text.contains("900 deliveries are tried again</a> (of 500 of all webhooks: "), "{text}");
        assert!(text.contains("failureClass=Connect\">200 <strong>Connect</strong></a>)"), "{text}");
        assert!(text.contains("more than 10,000</td>"), "{text}");
        assert!(text.contains("deadLetter=open\">1 delivery is lost</a> (<a href="), "{text}");
        assert!(text.contains("failureClass=Dns\"><strong>Dns</strong></a>)"), "{text}");
        assert!(
            text.contains("<a href=\"#webhooks\">And 1 more</a>, whose deliveries are tried again<"),
            "{text}"
        );
        let none = page(&frame(), webhooks, &Unserved::default(), &[], &Period::default());
        assert!(none.contains("And 3 more</a>, 2 of them with lost deliveries<"), "{none}");
        let at = |name: &str| {
            text.find(&format!("<th scope=\"row\">{name} (not served)"))
                .unwrap_or_else(|| panic!("{name}: {text}"))
        };
        assert!(at("lost") < at("left") && at("left") < at("failing") && at("failing") < at("off"), "{text}");
        assert!(
            text.contains("10 deliveries are lost, 3 webhooks need attention") && text.contains(">Inactive<")
        );
        assert!(text.contains("<td class=\"wider\">&lt;b&gt;One<small>C-1</small></td>"), "{text}");
        assert!(text.contains("href=\"/portal/resends?webhook=lost\""), "{text}");
        let held = |count| Unserved {
            known: (0..count)
                .map(|number| Faulty {
                    full_name: format!("a/held-{number}"),
                    faults: vec!["spec.x: <bad>".into()],
                })
                .collect(),
            may_be_more: false,
        };
        let more = Unserved { may_be_more: true, ..held(0) };
        let fine =
            |unserved: &Unserved| page(&frame(), vec![webhook("a", 0, 0, [10, 0])], unserved, &[], &day);
        assert!(
            fine(&held(0)).contains("Everything arrives")
                && !fine(&held(0)).contains("declared and not served")
        );
        let two = fine(&held(2));
        assert!(two.contains("2 webhooks are declared and not served."), "{two}");
        assert!(two.contains("<strong>a/held-1</strong>: spec.x: &lt;bad&gt;</li>"), "{two}");
        let many = fine(&held(23));
        assert!(many.contains("<li>and 3 more</li>") && !many.contains("held-20"), "{many}");
        assert!(
            !fine(&held(1)).contains("Everything arrives") && !fine(&more).contains("Everything arrives")
        );
        let none = |unserved: &Unserved| page(&frame(), Vec::new(), unserved, &[], &day);
        assert!(none(&held(0)).contains("No webhook is set up yet") && none(&held(0)).contains("<ol>"));
        assert!(!none(&more).contains("No webhook is set up yet"));
        assert!(!none(&held(1)).contains("No webhook is set up yet"));
        let odd = OverviewWebhook { faults: vec!["spec.y: odd".into()], ..webhook("a/odd", 0, 0, [10, 0]) };
        let odd = page(&frame(), vec![odd], &held(0), &[], &day);
        assert!(
            odd.contains("The settings of 1 webhook have a problem.")
                && odd.contains("</strong>: spec.y: odd"),
            "{odd}"
        );
        assert!(!odd.contains("And 1 more"), "{odd}");
        for (retrying, dead_letter) in [(1, 0), (0, 1), (1, 1)] {
            let failing = webhook("a/odd", retrying, dead_letter, [10, 20]);
            let failing = OverviewWebhook { faults: vec!["spec.y: odd".into()], ..failing };
            let failing = page(&frame(), vec![failing], &held(0), &[], &day);
            assert!(failing.contains("</strong>: spec.y: odd"), "a failing one has its fault too: {failing}");
        }
    }
}
