//! Overview: problems and their causes, the webhooks (first those that need attention), and the last 24 hours.

use docket_domain::delivery::{DeadLetter, FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::day::{self, Day};
use crate::declared::{self, Faulty, Unserved};
use crate::logs::{code, remedy};
use crate::page::{Frame, Section};
use crate::time::time;
use crate::{count, counted, href, page};

/// A webhook and the state of its deliveries.
#[derive(Debug, Clone)]
pub struct OverviewWebhook {
    /// `namespace/name`.
    pub name: String,
    /// The customer whose events are sent.
    pub customer_code: String,
    /// The receiver's URL.
    pub url: String,
    /// Whether new events are sent.
    pub active: bool,
    /// Problems of its declaration, although it is served: sentences that begin with the field.
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

/// Whether a webhook needs an administrator; the worst state is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WebhookState {
    /// The last delivery that ended was given up.
    Lost,
    /// There are dead letters, but later deliveries succeeded.
    Left,
    /// Attempts fail.
    Failing,
    /// No delivery fails, but the webhook's declaration has a problem.
    Faulty,
    /// Nothing is wrong.
    Fine,
}

impl OverviewWebhook {
    fn state(&self) -> WebhookState {
        match (self.dead_letter, self.retrying) {
            (0, 0) if self.faults.is_empty() => WebhookState::Fine,
            (0, 0) => WebhookState::Faulty,
            (0, _) => WebhookState::Failing,
            (_, 0) if self.last_success > self.last_dead_letter => WebhookState::Left,
            _ => WebhookState::Lost,
        }
    }
}

/// The page. `problems` has one entry for each webhook that the page explains, the worst first.
pub fn page(
    frame: &Frame,
    mut webhooks: Vec<OverviewWebhook>,
    unserved: &Unserved,
    problems: &[WebhookProblem],
    day: &Day,
) -> String {
    webhooks.sort_by_key(|webhook| (webhook.state(), std::cmp::Reverse(webhook.dead_letter)));
    let wrong = webhooks.iter().filter(|webhook| webhook.state() != WebhookState::Fine).count();
    let faulty: Vec<Faulty> = webhooks
        .iter()
        .filter(|webhook| !webhook.faults.is_empty())
        .map(|webhook| Faulty { full_name: webhook.name.clone(), faults: webhook.faults.clone() })
        .collect();
    let main = html! {
        h1 { "Overview" }
        (declared::unserved(unserved))
        @if webhooks.is_empty() && unserved.is_none() {
            p role="status" { "No webhook is declared yet, so no event is sent." }
            ol {
                li { a href=(Section::Webhooks.path()) { "Add a webhook" } " for a customer, with the URL of a receiver." }
                li { "Send a test event from the webhook's page, and see it arrive." }
                li { a href="/docs/api/orders.html" { "Save an order" } " of the customer, for example with curl. Its delivery is in Webhook Logs." }
            }
        } @else {
            p role="status" {
                @match wrong {
                    0 if !unserved.is_none() => {}
                    0 => { span.good { span aria-hidden="true" { "✓ " } "Nothing is wrong." } }
                    1 => { span.bad { span aria-hidden="true" { "✕ " } "1 webhook needs attention." } }
                    _ => { span.bad { span aria-hidden="true" { "✕ " } (wrong) " webhooks need attention." } }
                }
            }
            @for problem in problems { (reason(problem)) }
            (more(&webhooks, problems))
            (declared::faulty(&faulty))
            h2 #webhooks { "Webhooks" }
            (table(frame, &webhooks))
            (day::section(day))
        }
    };
    page::page(frame, Section::Overview, "Overview", &main)
}

fn reason(problem: &WebhookProblem) -> Markup {
    let WebhookProblem { webhook, dead, retried } = problem;
    // What is lost needs its remedy first.
    let worst = dead.classes.first().or(retried.classes.first());
    let again = if retried.count == 1 { " is tried again" } else { " are tried again" };
    html! {
        div.wrong {
            p {
                a href=(page::webhook_link(webhook)) { (webhook) } ": "
                @if dead.count > 0 {
                    (failing(webhook, Status::DeadLetter, dead, &counted(dead.count, "dead letter")))
                }
                @if dead.count > 0 && retried.count > 0 { "; " }
                @if retried.count > 0 {
                    @let text = format!("{}{again}", counted_deliveries(retried.count));
                    (failing(webhook, Status::Failed, retried, &text))
                }
            }
            @if let Some(FailedAs { class, http_status, cause, .. }) = worst {
                p { (remedy(&Failure { class: *class, cause: *cause, http_status: code(*http_status), detail: None })) }
            }
        }
    }
}

fn counted_deliveries(number: i64) -> String {
    format!("{} {}", count(number), if number == 1 { "delivery" } else { "deliveries" })
}

/// A link to the failed deliveries, and how they failed.
fn failing(webhook: &str, status: Status, failing: &Failing, text: &str) -> Markup {
    let logs = |class: &str| {
        let which = match status {
            Status::DeadLetter => ("deadLetter", DeadLetter::Open.as_str()),
            other => ("status", other.as_str()),
        };
        let filters = [("webhook", webhook), which, ("failureClass", class)];
        href(Section::Logs.path(), filters)
    };
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
                a href=(logs(class.as_str())) {
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
        !matches!(webhook.state(), WebhookState::Fine | WebhookState::Faulty)
            && problems.iter().all(|problem| problem.webhook != webhook.name)
    };
    let left: Vec<&OverviewWebhook> = webhooks.iter().filter(is_left).collect();
    let lost = left.iter().filter(|webhook| webhook.dead_letter > 0).count();
    html! {
        @if !left.is_empty() {
            p {
                a href="#webhooks" { "And " (left.len()) " more" }
                @match lost {
                    0 => ", whose deliveries are tried again.",
                    lost => { ", " (lost) " of them with dead letters." }
                }
            }
        }
    }
}

fn table(frame: &Frame, webhooks: &[OverviewWebhook]) -> Markup {
    html! {
        div.wide role="region" aria-label="Webhooks" tabindex="0" {
            table {
                caption { "Webhooks, those that need attention first" }
                thead {
                    tr {
                        @for head in ["Webhook", "State", "Customer", "Receiver", "To be sent", "Failing", "Dead letters", "Last success"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for webhook in webhooks {
                        tr {
                            th scope="row" { a href=(page::webhook_link(&webhook.name)) { (webhook.name) } }
                            td { (state(webhook)) }
                            td { (webhook.customer_code) }
                            td.long { (webhook.url) }
                            td { (count(webhook.pending)) }
                            td { @if webhook.retrying > 0 { a href=(log(webhook, "status", Status::Failed.as_str())) { (count(webhook.retrying)) } } @else { "0" } }
                            td { (dead(webhook)) }
                            td { @if let Some(at) = webhook.last_success { (time(at, frame.now)) } @else { "–" } }
                        }
                    }
                }
            }
        }
    }
}

fn log(webhook: &OverviewWebhook, name: &str, value: &str) -> String {
    href(Section::Logs.path(), [("webhook", webhook.name.as_str()), (name, value)])
}

fn dead(webhook: &OverviewWebhook) -> Markup {
    html! {
        @if webhook.dead_letter > 0 {
            a href=(log(webhook, "deadLetter", DeadLetter::Open.as_str())) { (count(webhook.dead_letter)) }
            " "
            a href=(href(Section::Resends.path(), [("webhook", webhook.name.as_str())])) { "Resend…" }
        } @else { "0" }
    }
}

fn state(webhook: &OverviewWebhook) -> Markup {
    let (class, shape, text) = match webhook.state() {
        WebhookState::Lost => ("bad", "✕", "Deliveries are lost"),
        WebhookState::Failing => ("wait", "↻", "Attempts fail"),
        WebhookState::Faulty => ("wait", "○", "No failure; its declaration needs a look"),
        WebhookState::Left => ("wait", "○", "Works again; dead letters are left"),
        WebhookState::Fine => ("good", "✓", "No failure"),
    };
    html! {
        span class=(class) { span aria-hidden="true" { (shape) " " } (text) }
        @if !webhook.active { " (inactive: gets no new event)" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    fn webhook(name: &str, retrying: i64, dead_letter: i64, [success, dead]: [i64; 2]) -> OverviewWebhook {
        let at = |second| (second > 0).then(|| Timestamp::from_second(second).expect("in range"));
        OverviewWebhook {
            name: name.into(),
            customer_code: "C-1".into(),
            url: "https://r.example/<b>".into(),
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
    fn webhooks_that_need_attention_come_first() {
        let webhooks = vec![
            webhook("off", 0, 0, [0, 0]),
            webhook("left", 0, 9, [20, 10]),
            OverviewWebhook { pending: 1_000_000, ..webhook("failing", 1, 0, [10, 0]) },
            webhook("lost", 0, 1, [10, 20]),
        ];
        let failed_as = |class, count| FailedAs { class, http_status: None, cause: None, count };
        let dead = Failing { count: 1, classes: vec![failed_as(FailureClass::Dns, 1)], of_last: None };
        let problem = WebhookProblem { webhook: "lost".into(), dead, retried: Failing::default() };
        let classes = vec![failed_as(FailureClass::Dns, 300), failed_as(FailureClass::Connect, 200)];
        let sampled = Failing { count: 900, classes: classes.clone(), of_last: Some(500) };
        let retried = Failing { of_last: None, ..sampled.clone() };
        let both = WebhookProblem { webhook: "left".into(), dead: sampled.clone(), retried };
        let sampled = WebhookProblem { webhook: "left".into(), dead: Failing::default(), retried: sampled };
        let day = Day::default();
        let text = page(&frame(), webhooks.clone(), &Unserved::default(), &[problem, both, sampled], &day);
        let more = "href=\"/docs/reference/failure-classes.html#dns\">More about Dns</a>";
        assert!(text.contains(more), "{text}");
        assert!(text.contains("deadLetter=open\">900 dead letters</a> (of the last 500: "), "{text}");
        assert!(text.contains("; <a href=\"/portal/logs?webhook=left&amp;status=Failed\">900 deliveries are tried again</a> ("), "{text}");
        assert!(text.contains("900 deliveries are tried again</a> (of 500 of all webhooks: "), "{text}");
        assert!(text.contains("failureClass=Connect\">200 <strong>Connect</strong></a>)"), "{text}");
        assert!(text.contains("<td>more than 10,000</td>"), "{text}");
        assert!(text.contains("deadLetter=open\">1 dead letter</a> (<a href="), "{text}");
        assert!(text.contains("failureClass=Dns\"><strong>Dns</strong></a>)"), "{text}");
        assert!(
            text.contains("<a href=\"#webhooks\">And 1 more</a>, whose deliveries are tried again."),
            "{text}"
        );
        let none = page(&frame(), webhooks, &Unserved::default(), &[], &Day::default());
        assert!(none.contains("And 3 more</a>, 2 of them with dead letters."), "{none}");
        let at =
            |name: &str| text.find(&format!(">{name}</a></th>")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(at("lost") < at("left") && at("left") < at("failing") && at("failing") < at("off"), "{text}");
        assert!(
            text.contains("3 webhooks need attention.") && text.contains("(inactive: gets no new event)")
        );
        assert!(text.contains("href=\"/portal/resends?webhook=lost\"") && !text.contains("/<b>"), "{text}");
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
        assert!(fine(&held(0)).contains("Nothing is wrong.") && !fine(&held(0)).contains("not served"));
        let two = fine(&held(2));
        assert!(two.contains("2 webhooks are declared and not served."), "{two}");
        assert!(two.contains("<strong>a/held-1</strong>: spec.x: &lt;bad&gt;</li>"), "{two}");
        let many = fine(&held(23));
        assert!(many.contains("<li>and 3 more</li>") && !many.contains("held-20"), "{many}");
        assert!(!fine(&held(1)).contains("Nothing is wrong.") && !fine(&more).contains("Nothing is wrong."));
        let none = |unserved: &Unserved| page(&frame(), Vec::new(), unserved, &[], &day);
        assert!(none(&held(0)).contains("No webhook is declared yet") && none(&held(0)).contains("<ol>"));
        assert!(!none(&more).contains("No webhook is declared yet"));
        assert!(!none(&held(1)).contains("No webhook is declared yet"));
        let odd = OverviewWebhook { faults: vec!["spec.y: odd".into()], ..webhook("a/odd", 0, 0, [10, 0]) };
        let odd = page(&frame(), vec![odd], &held(0), &[], &day);
        assert!(
            odd.contains("1 webhook needs attention.") && odd.contains("</a></strong>: spec.y: odd"),
            "{odd}"
        );
        assert!(!odd.contains("And 1 more"), "{odd}");
        for (retrying, dead_letter) in [(1, 0), (0, 1), (1, 1)] {
            let failing = webhook("a/odd", retrying, dead_letter, [10, 20]);
            let failing = OverviewWebhook { faults: vec!["spec.y: odd".into()], ..failing };
            let failing = page(&frame(), vec![failing], &held(0), &[], &day);
            assert!(
                failing.contains("</a></strong>: spec.y: odd"),
                "a failing one has its fault too: {failing}"
            );
        }
    }
}
