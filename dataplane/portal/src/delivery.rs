//! One delivery: what happened at each attempt, what to do, and what was sent and received.

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use docket_domain::resend::settled;
use jiff::Timestamp;
use maud::{Markup, html};
use url::form_urlencoded::byte_serialize;

use crate::actors::Actors;
use crate::happened::{EndedAttempt, outcome, sentence};
use crate::logs::{self, Delivery, about, code, link, remedy};
use crate::page::{Frame, Section, csrf};
use crate::parts::{self, Head, Tone};
use crate::time::{at, duration, time};
use crate::{href, page};

/// The deepest level of indentation. Deeper levels are not indented further.
const MAX_INDENT: usize = 16;
/// The number of characters of the receiver's last response that the page begins with.
const MAX_SAID: usize = 300;
/// The largest body, in bytes as a form sends it, that the page sends to the form that verifies a signature. A form may have 64
/// KiB.
const MAX_IN_FORM: usize = 60 * 1024;
/// The header with the contract's signature, as the request has it.
const SIGNATURE: &str = "x-service-signature";
/// The phases of an attempt: the class of each in the picture, and its name.
const PHASES: [(&str, &str); 4] =
    [("dns", "name"), ("connect", "connection"), ("tls", "TLS"), ("first-byte", "first byte")];
/// The width of the picture of an attempt's phases, in its own units.
const WIDTH: i64 = 1_000;

/// An attempt. Durations are in microseconds; `None`: the phase did not succeed, was not reached, or was not needed.
#[derive(Debug, Clone)]
pub struct AttemptView {
    /// The number of the attempt, from 1.
    pub number: i64,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// Whether the attempt has ended.
    pub has_ended: bool,
    /// How the attempt failed.
    pub failure: Option<FailureClass>,
    /// The cause of the failure, if it is known.
    pub cause: Option<Cause>,
    /// The detail of the cause, or the Location of a redirect.
    pub detail: Option<String>,
    /// The HTTP status of the response.
    pub http_status: Option<i64>,
    /// The address and port that the request was sent to.
    pub remote_address: Option<String>,
    /// The first 2,000 characters of the response.
    pub response: Option<String>,
    /// The durations of DNS, connect, TLS, first byte and the whole attempt.
    pub phases: [Option<i64>; 5],
}

impl AttemptView {
    fn failed(&self) -> Option<Failure<'_>> {
        let (class, detail) = (self.failure?, self.detail.as_deref());
        Some(Failure { class, cause: self.cause, http_status: code(self.http_status), detail })
    }
}

/// The request that is sent to the receiver.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: String,
}

/// A delivery with all its details.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The delivery.
    pub delivery: Delivery,
    /// The id of its event; empty if the id is invalid.
    pub event_id: String,
    /// The customer's name; its code if it has none.
    pub customer_name: String,
    /// The delivery to the same webhook that ended just before.
    pub previous: Option<String>,
    /// The delivery to the same webhook that ended just after.
    pub next: Option<String>,
    /// The later deliveries of the same event to the webhook, newest first: resends of this delivery, and resends of these.
    pub later: Vec<Delivery>,
    /// The names of the people who asked for a resend or a test, or set a dead letter aside.
    pub people: Actors,
    /// What the user has just done on this page, if anything.
    pub done: Option<&'static str>,
    /// The attempts, oldest first.
    pub attempts: Vec<AttemptView>,
    /// The target URL; `None` if the webhook is not served now.
    pub url: Option<String>,
    /// What is sent; `None`: nothing is, since the event is too long, or its id or code is invalid.
    pub sent: Option<SentRequest>,
}

/// The page.
pub fn page(frame: &Frame, detail: &Detail) -> String {
    let Detail { delivery, done, url, .. } = detail;
    let has_ended = delivery.status.is_final();
    let webhook = &delivery.webhook;
    let name = if url.is_some() { frame.name_of(webhook) } else { frame.last_name(webhook) };
    let head = Head {
        above: Some((Section::Logs.path(), "Webhook Logs")),
        title: html! { (delivery.event.as_str()) " to " (name) " " (logs::badge(delivery)) (logs::marks(delivery)) },
        below: Some(html! {
            @if !delivery.about.is_empty() { (about(&delivery.about)) " · " }
            "customer " (detail.customer_name) " "
            @if detail.customer_name != delivery.customer_code { "(" (delivery.customer_code) ") " }
            "· " (time(delivery.created_at, frame.now))
        }),
        actions: has_ended.then(|| actions(frame, delivery)),
    };
    let main = html! {
        (parts::done(*done))
        @if !has_ended { (page::live(true)) }
        // The attribute is set even if the delivery has ended, so that a page that was opened before shows its last state.
        div.stack data-live {
            (parts::head(&head))
            (happened(frame, detail))
            (parts::card("chain", "What happened", &html! {}, &chain(frame, detail)))
        }
        (neighbours(detail))
        div.two {
            (parts::card("sent", "Sent", &html! {}, &parts::inside(&sent(detail))))
            div.stack {
                @if let Some(check) = check(frame, detail) { (check) }
                (parts::card("details", "Details", &html! {}, &parts::inside(&facts(frame, detail))))
            }
        }
    };
    let title = format!("{} to {name}: {}", delivery.event, delivery.became().1);
    page::page(frame, Section::Logs, &title, &main)
}

/// The links to the deliveries that ended just before and just after.
fn neighbours(Detail { previous, next, .. }: &Detail) -> Markup {
    html! {
        @if previous.is_some() || next.is_some() {
            nav.row aria-label="Deliveries to this webhook, by the time of their end" {
                @if let Some(id) = previous { a.button href=(link(id)) rel="prev" { "Previous of this webhook" } }
                @if let Some(id) = next { a.button href=(link(id)) rel="next" { "Next of this webhook" } }
            }
        }
    }
}

/// What happened, the receiver's own words, and what to do.
fn happened(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { delivery, later, attempts, url, .. } = detail;
    let ended = attempts.iter().filter(|attempt| attempt.has_ended).map(|attempt| EndedAttempt {
        number: attempt.number,
        failure: attempt.failure,
        http_status: attempt.http_status,
        total_us: attempt.phases[4],
    });
    let ended: Vec<EndedAttempt> = ended.collect();
    let last = (delivery.failure, delivery.http_status);
    let sentence = sentence(delivery.status, last, delivery.attempts, &ended);
    let mut responses =
        attempts.iter().rev().filter_map(|attempt| attempt.response.as_deref()).map(str::trim);
    let said = responses.find(|text| !text.is_empty());
    let failed = delivery.failed().filter(|_| delivery.status != Status::Succeeded);
    let since = settled(later.first().map(|latest| latest.status), delivery.set_aside.is_some());
    // Another customer's webhook may have its name now.
    let to_change = failed.as_ref().filter(|_| since.is_none() && url.is_some());
    let to_change = to_change.and_then(|failed| frame.url_to_change(&delivery.webhook, failed));
    html! {
        section.card aria-labelledby="happened" {
            div.in {
                h2 #happened { (sentence) }
                @if let Some(said) = said { p.said { (beginning(said)) } }
                @if let Some(failed) = failed {
                    @match (since, delivery.status) {
                        (Some(since), _) => {
                            p {
                                (since)
                                @if let Some(latest) = later.first() { " " a href=(link(&latest.id)) { "Open the resend" } }
                            }
                        }
                        (None, Status::DeadLetter) => { p { (remedy(&failed)) " Then resend it, or set it aside." } }
                        (None, _) => { p { (remedy(&failed)) " Docket tries it again by itself." } }
                    }
                    @if let Some(path) = to_change { p { a.button href=(path) { "Change the URL" } } }
                }
                @if !delivery.status.is_final() {
                    p.hint { "The delivery has not ended, so there is nothing to resend." }
                } @else {
                    p.hint {
                        em { "Resend" } " queues a new delivery with the same event id and bytes. A receiver that has processed the event ignores it by its id."
                        @if can_be_set_aside(delivery) {
                            " " em { "Set aside" } " makes the lost delivery count no longer, and resends leave it out. This can be undone."
                        }
                    }
                }
            }
        }
    }
}

/// The beginning of a text, at most [`MAX_SAID`] characters.
fn beginning(text: &str) -> String {
    let mut characters = text.chars();
    let mut beginning: String = characters.by_ref().take(MAX_SAID).collect();
    if characters.next().is_some() {
        beginning.push('…');
    }
    beginning
}

fn can_be_set_aside(delivery: &Delivery) -> bool {
    delivery.status == Status::DeadLetter && !delivery.resent && delivery.set_aside.is_none()
}

fn actions(frame: &Frame, delivery: &Delivery) -> Markup {
    let form = |path: &str, button: Markup| {
        html! {
            form method="post" action=(format!("{}/{path}", Section::Logs.path())) {
                (csrf(frame))
                input type="hidden" name="deliveryId" value=(delivery.id);
                (button)
            }
        }
    };
    html! {
        @if delivery.set_aside.is_some() {
            (form("undo-set-aside", html! { button type="submit" { "Undo set aside" } }))
        } @else if can_be_set_aside(delivery) {
            (form("set-aside", html! { button type="submit" { "Set aside" } }))
        }
        (form("resend", html! { button.primary type="submit" { "Resend" } }))
    }
}

/// The history of a delivery: from the queue to the end, and what was done since.
fn chain(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { delivery, later, attempts, people, .. } = detail;
    html! {
        ol.chain {
            li { (queued(delivery, people)) span.quiet.small { (time(delivery.created_at, frame.now)) } }
            @for group in attempts.chunk_by(is_alike) {
                @if let Some((first, others)) = group.split_first() {
                    (attempt(frame, delivery, first))
                    @if let Some(last) = others.last() { (folded(delivery, others, last)) }
                }
            }
            @if let Some(due) = delivery.next_attempt_at {
                li.wait {
                    div { strong { "Next attempt" } @if delivery.waits_for.is_some() { " · " (logs::next(delivery)) } }
                    @if delivery.waits_for.is_none() { span.quiet.small { (time(due, frame.now)) } }
                }
            }
            @for resend in later.iter().rev() {
                li.(resend.became().0.class()) {
                    div {
                        "Resent" @if let Some(by) = &resend.requested_by { " by " (people.shown(by)) } ": "
                        a href=(link(&resend.id)) { (logs::badge(resend)) }
                    }
                    span.quiet.small { (time(resend.created_at, frame.now)) }
                }
            }
            @if let Some((by, at)) = &delivery.set_aside {
                li { div { "Set aside by " (people.shown(by)) } span.quiet.small { (time(*at, frame.now)) } }
            }
        }
    }
}

/// How the delivery came into being.
fn queued(delivery: &Delivery, people: &Actors) -> Markup {
    let by = html! { @if let Some(by) = &delivery.requested_by { ", by " (people.shown(by)) } };
    html! {
        div {
            strong { "Queued" }
            @if delivery.is_test { div { "Made to try the webhook" (by) "; it does not affect health." } }
            @if let Some(first) = &delivery.resend_of {
                div { "Resend of " a href=(link(first)) { "the delivery before" } @if !delivery.is_test { (by) } }
            }
        }
    }
}

/// Whether two attempts failed in the same way, with the same answer.
fn is_alike(one: &AttemptView, other: &AttemptView) -> bool {
    let of = |attempt: &AttemptView| (attempt.has_ended, attempt.failure, attempt.cause, attempt.http_status);
    of(one) == of(other)
        && one.has_ended
        && one.failure.is_some()
        && (&one.detail, &one.response) == (&other.detail, &other.response)
}

/// The class of an attempt in the chain: red only if this attempt made the delivery a dead letter.
fn class(delivery: &Delivery, attempt: &AttemptView) -> &'static str {
    let is_last = attempt.number == delivery.attempts;
    match attempt.failure {
        None if attempt.has_ended => Tone::Good.class(),
        Some(_) if is_last && delivery.became().0 == Tone::Bad => Tone::Bad.class(),
        _ => Tone::Wait.class(),
    }
}

fn attempt(frame: &Frame, delivery: &Delivery, attempt: &AttemptView) -> Markup {
    html! {
        li.(class(delivery, attempt)) {
            div {
                strong { "Attempt " (attempt.number) }
                " · "
                @if attempt.has_ended { (outcome(attempt.failure, attempt.http_status)) " · " (duration(attempt.phases[4])) }
                @else { "under way" }
                (phases(attempt))
                @if attempt.failure.is_some() || attempt.response.is_some() { (answer(attempt)) }
            }
            span.quiet.small { (time(attempt.started_at, frame.now)) }
        }
    }
}

/// What an attempt means and the receiver's response, folded.
fn answer(attempt: &AttemptView) -> Markup {
    let failed = attempt.failed();
    html! {
        details {
            summary { @if failed.is_some() { "What it means, and the answer" } @else { "The answer" } }
            @if let Some(failed) = failed { p { (remedy(&failed)) } }
            @if let Some(address) = &attempt.remote_address { p.small { "Sent to " (address) } }
            @match &attempt.response {
                Some(text) if !text.is_empty() => {
                    p.hint { "The first 2,000 characters of the answer's body:" }
                    pre { (text) }
                }
                _ => { p.hint { "The answer had no body, or none was kept." } }
            }
        }
    }
}

/// Attempts that failed as the attempt before them.
fn folded(delivery: &Delivery, attempts: &[AttemptView], last: &AttemptView) -> Markup {
    let numbers = match attempts {
        [first, _, ..] => format!("Attempts {} to {}", first.number, last.number),
        _ => format!("Attempt {}", last.number),
    };
    html! {
        li.(class(delivery, last)) {
            div {
                strong { (numbers) } " · " (outcome(last.failure, last.http_status)) ", the same answer"
                details {
                    summary { "Show each" }
                    @for attempt in attempts {
                        p.small {
                            strong { "Attempt " (attempt.number) } " · " (at(attempt.started_at)) " · " (duration(attempt.phases[4]))
                            @if let Some(address) = &attempt.remote_address { " · sent to " (address) }
                        }
                        (phases(attempt))
                    }
                }
            }
            span.quiet.small { "until " (at(last.started_at)) }
        }
    }
}

/// The phases of an attempt that has ended, as a picture and in numbers.
fn phases(attempt: &AttemptView) -> Markup {
    let Some(total) = attempt.phases[4].filter(|total| *total > 0) else { return html! {} };
    let mut known = Vec::new();
    let mut from = 0;
    for ((class, name), time) in PHASES.iter().zip(attempt.phases) {
        let Some(time) = time else { continue };
        let width = time.saturating_mul(WIDTH).checked_div(total).unwrap_or(0).clamp(1, WIDTH);
        let width = width.min(WIDTH - from);
        known.push((*class, format!("{name} {}", duration(Some(time))), from, width));
        from += width;
    }
    let words: Vec<&str> = known.iter().map(|(_, words, ..)| words.as_str()).collect();
    html! {
        @if !known.is_empty() {
            svg.phases viewBox={ "0 0 " (WIDTH) " 8" } preserveAspectRatio="none" role="img" aria-label={ "Phases of attempt " (attempt.number) } {
                @for (class, _, from, width) in &known { rect class=(class) x=(from) y="0" width=(width) height="8" {} }
            }
            p.small.quiet { (words.join(" · ")) }
        }
    }
}

fn others((kind, number): &(&'static str, String)) -> String {
    let parameter = match *kind {
        "web order" => "webOrderId",
        "work order" => "workOrder",
        _ => "invoiceNumber",
    };
    href(Section::Logs.path(), [(parameter, number.as_str())])
}

fn facts(frame: &Frame, detail: &Detail) -> Markup {
    let Detail { delivery, event_id, url, .. } = detail;
    html! {
        dl.facts {
            dt { "Webhook" }
            dd { @if url.is_some() { (frame.webhook(&delivery.webhook)) } @else { (frame.unserved(&delivery.webhook)) } }
            @if let Some(url) = url { dt { "Target URL" } dd { span { (url) } " " (parts::copy("the URL")) } }
            dt { "Attempts" } dd { (delivery.attempts) " of 5" }
            @if let Some(at) = delivery.finished_at { dt { "Ended" } dd { (time(at, frame.now)) } }
            dt { "Delivery id" } dd { code { (delivery.id) } " " (parts::copy("the delivery id")) }
            dt { "Event id" }
            @if event_id.is_empty() { dd { "invalid" } }
            @else { dd { code { (event_id) } " " (parts::copy("the event id")) } }
        }
        @if !event_id.is_empty() {
            p { a href=(href(Section::Logs.path(), [("eventId", event_id.as_str())])) { "All deliveries of this event" } }
        }
        @for about in &delivery.about {
            p { a href=(others(about)) { "All deliveries about " (about.0) " " (about.1) } }
        }
    }
}

fn sent(detail: &Detail) -> Markup {
    let (Some(sent), url) = (&detail.sent, detail.url.as_deref()) else {
        return html! {
            p { "Nothing is sent: another program has stored an event that is too long or whose id or code is invalid." }
        };
    };
    html! {
        pre { (pretty(&sent.body)) }
        p { button.tiny type="button" data-copy="raw" hidden { "Copy the body" } }
        p.hint {
            "With line breaks and blanks added. Every attempt sends the exact bytes below. The headers are those of a request that is sent now; "
            code { "webhook-timestamp" } " and " code { "webhook-signature" } " hold the time of the attempt."
        }
        @if url.is_none() { p.hint { "The webhook is not served now, so the signatures are left out." } }
        details {
            summary { "Body, exactly the bytes (" (sent.body.len()) ")" }
            pre #raw { (sent.body) }
        }
        details {
            summary { "Headers" }
            pre #headers { @for (name, value) in &sent.headers { (name) ": " (value) "\n" } }
            p { button.tiny type="button" data-copy="headers" hidden { "Copy the headers" } }
        }
        @if let Some(url) = url {
            details {
                summary { "As a curl command, with the signature" }
                pre #curl { (curl(url, &sent.headers, &sent.body)) }
                p { button.tiny type="button" data-copy="curl" hidden { "Copy the command" } }
            }
        }
    }
}

/// The form that compares what the receiver computed with the signature, if the webhook is served and signs.
fn check(frame: &Frame, detail: &Detail) -> Option<Markup> {
    let (sent, _) = (detail.sent.as_ref()?, detail.url.as_ref()?);
    sent.headers.iter().find(|(name, _)| name == SIGNATURE)?;
    // A form has no bare line ends.
    let fits = !sent.body.contains(['\r', '\n'])
        && byte_serialize(sent.body.as_bytes()).map(str::len).sum::<usize>() <= MAX_IN_FORM;
    let body = html! {
        @if fits {
            form.fields method="post" action=(Section::Verify.path()) {
                (csrf(frame))
                input type="hidden" name="webhook" value=(detail.delivery.webhook);
                input type="hidden" name="body" value=(sent.body);
                input type="hidden" name="webhookId" value=(detail.event_id);
                label {
                    "X-Service-Signature that your code computed"
                    input name="signature" required maxlength="4096" autocomplete="off" spellcheck="false" placeholder="64 hexadecimal digits";
                }
                p.hint { "Webhook and body are filled in. The page that opens says whether the signature is right, and if not, what differs." }
                button type="submit" { "Compare" }
            }
        } @else {
            p {
                "This body does not fit into a form. Save its exact bytes, and compare with "
                a href="/docs/webhooks/verify.html" { code { "docket verify" } } "."
            }
        }
    };
    Some(parts::card("check", "Check the signature", &html! {}, &parts::inside(&body)))
}

/// JSON with line breaks, indentation and blanks between its tokens. The tokens themselves do not change.
pub(crate) fn pretty(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    for character in json.chars() {
        let breaks_after = !in_string && matches!(character, '{' | '[' | ',');
        let blank_after = !in_string && character == ':';
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = in_string,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => {
                depth = depth.saturating_sub(1);
                text.push('\n');
                text.push_str(&"  ".repeat(depth.min(MAX_INDENT)));
            }
            _ => {}
        }
        text.push(character);
        if blank_after {
            text.push(' ');
        }
        if breaks_after {
            text.push('\n');
            text.push_str(&"  ".repeat(depth.min(MAX_INDENT)));
        }
    }
    text
}

/// A POSIX shell command that sends the request.
fn curl(url: &str, headers: &[(String, String)], body: &str) -> String {
    // Without --globoff, curl reads brackets and braces in the URL as several URLs.
    let mut command = format!("curl --globoff -X POST {}", quoted(url));
    for (name, value) in headers {
        command.push_str(" \\\n  -H ");
        command.push_str(&quoted(&format!("{name}: {value}")));
    }
    // --data-binary reads a file if the text begins with @. A body is an object, so it begins with {.
    command.push_str(" \\\n  --data-binary ");
    command.push_str(&quoted(body));
    command
}

/// Quotes any text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::{delivery, frame};

    const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"x";

    fn detail(delivery: Delivery) -> Detail {
        let attempt = AttemptView {
            number: 1,
            started_at: frame().now,
            has_ended: true,
            failure: Some(FailureClass::ServerError),
            cause: None,
            detail: None,
            http_status: Some(503),
            remote_address: Some(HOSTILE.into()),
            response: Some(HOSTILE.into()),
            phases: [Some(2_000), None, None, Some(30_000_000), Some(30_002_000)],
        };
        let sent = SentRequest {
            headers: vec![("x-service-event".into(), HOSTILE.into())],
            body: format!("{{\"note\":\"it's {HOSTILE}\"}}"),
        };
        let (later, done) = (Vec::new(), None);
        let url = Some("https://receiver.example/hook?a=1&b='2'".into());
        Detail {
            delivery,
            event_id: "evt_1".into(),
            customer_name: HOSTILE.into(),
            previous: None,
            next: None,
            later,
            people: Actors::from_iter([("employee 9".to_owned(), "Nora Boss".to_owned())]),
            done,
            attempts: vec![attempt],
            url,
            sent: Some(sent),
        }
    }

    #[test]
    fn delivery_of_which_nothing_can_be_sent_says_why() {
        let text = page(&frame(), &Detail { event_id: String::new(), sent: None, ..detail(delivery()) });
        assert!(text.contains("<dt>Event id</dt><dd>invalid</dd>"), "{text}");
        assert!(text.contains("Nothing is sent: ") && !text.contains("eventId="), "{text}");
    }

    #[test]
    fn delivery_leads_to_its_neighbours() {
        let alone = page(&frame(), &detail(delivery()));
        assert!(!alone.contains("rel=\"prev\"") && !alone.contains("rel=\"next\""), "{alone}");
        let (previous, next) = (Some("d1".to_owned()), Some("d3".to_owned()));
        let between = page(&frame(), &Detail { previous, next, ..detail(delivery()) });
        for link in ["href=\"/portal/logs/d1\" rel=\"prev\"", "href=\"/portal/logs/d3\" rel=\"next\""] {
            assert!(between.contains(link), "{link}: {between}");
        }
    }

    #[test]
    fn each_number_leads_to_all_deliveries_about_it() {
        let about = ["web order", "work order", "invoice"].map(|kind| (kind, "N&1".to_owned())).to_vec();
        let text = page(&frame(), &detail(Delivery { about, ..delivery() }));
        for (parameter, kind) in
            [("webOrderId", "web order"), ("workOrder", "work order"), ("invoiceNumber", "invoice")]
        {
            let link = format!("?{parameter}=N%261\">All deliveries about {kind} N&amp;1</a>");
            assert!(text.contains(&link), "{link}: {text}");
        }
    }

    #[test]
    fn no_text_of_a_receiver_or_an_order_is_markup() {
        let mut hostile = delivery();
        hostile.requested_by = Some(HOSTILE.into());
        hostile.resend_of = Some(HOSTILE.into());
        let text = page(&frame(), &detail(hostile));
        assert!(
            !text.contains("<script>") && !text.contains("<img") && !text.contains("\" onclick=\""),
            "{text}"
        );
        assert!(text.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn page_begins_with_what_happened_the_receivers_words_and_what_to_do() {
        let long = format!(" {}{}", "x".repeat(MAX_SAID), "y");
        let mut shown = detail(delivery());
        shown.attempts[0].response = Some(long);
        let text = page(&frame(), &shown);
        for part in [
            "<title>order.created to default/&lt;img src=x&gt;: Lost · ",
            "<h2 id=\"happened\">Your server answered 503</h2>",
            &format!("<p class=\"said\">{}…</p>", "x".repeat(MAX_SAID)),
            " Then resend it, or set it aside.",
            "<li class=\"wait\"><div><strong>Attempt 1</strong> · 503 · 30.0 s",
            "name 2 ms · first byte 30.0 s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("style="), "the policy allows none");
    }

    #[test]
    fn attempts_that_failed_alike_are_folded_and_only_the_last_is_red() {
        let mut shown = detail(delivery());
        let first = shown.attempts[0].clone();
        let numbered =
            |number, response: &str| AttemptView { number, response: Some(response.into()), ..first.clone() };
        shown.attempts = (1..=5).map(|number| numbered(number, "down")).collect();
        let text = page(&frame(), &shown);
        for part in [
            "<h2 id=\"happened\">Your server answered 503 five times</h2>",
            "<li class=\"bad\"><div><strong>Attempts 2 to 5</strong> · 503, the same answer",
            "<p class=\"small\"><strong>Attempt 4</strong>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("<li class=\"bad\">").count(), 1);
        shown.attempts[4].response = Some("other".into());
        let text = page(&frame(), &shown);
        assert!(text.contains("<p class=\"said\">other</p>"), "the last answer: {text}");
        assert!(
            text.contains("<strong>Attempts 2 to 4</strong>")
                && text.contains("<strong>Attempt 5</strong> · 503 · "),
            "{text}"
        );
        shown.attempts.truncate(2);
        assert!(page(&frame(), &shown).contains("<strong>Attempt 2</strong> · 503, the same answer"));
    }

    #[test]
    fn picture_of_the_phases_stays_within_its_width() {
        let mut of = detail(delivery()).attempts.remove(0);
        let picture = |phases| {
            of.phases = phases;
            self::phases(&of).into_string()
        };
        let [text, over, none, open] = [
            [Some(100), Some(200), Some(300), Some(400), Some(1_000)],
            [Some(900), None, None, Some(900), Some(1_000)],
            [Some(1), None, None, None, None],
            [None, None, None, None, Some(1_000)],
        ]
        .map(picture);
        assert!(
            text.contains("<rect class=\"tls\" x=\"300\" y=\"0\" width=\"300\" height=\"8\"></rect>"),
            "{text}"
        );
        assert!(over.contains("class=\"first-byte\" x=\"900\" y=\"0\" width=\"100\""), "{over}");
        assert_eq!((none.as_str(), open.as_str()), ("", ""), "no byte came, and no phase is claimed");
    }

    #[test]
    fn time_that_passed_while_the_delivery_waits_is_not_the_next_attempt() {
        let due = Timestamp::from_second(1_800_000_000).expect("in range");
        let failed =
            Delivery { status: Status::Failed, attempts: 1, next_attempt_at: Some(due), ..delivery() };
        let waits_for = Some("one of 2 places: the receiver was slow".to_owned());
        let waiting = page(&frame(), &detail(Delivery { waits_for, ..failed.clone() }));
        let said = "<strong>Next attempt</strong> · due, waits for one of 2 places: the receiver was slow</div></li>";
        assert!(waiting.contains(said), "{waiting}");
        assert!(
            page(&frame(), &detail(failed))
                .contains("<strong>Next attempt</strong></div><span class=\"quiet small\"><time")
        );
    }

    #[test]
    fn signature_is_checked_with_the_webhook_and_the_bytes_filled_in() {
        let mut shown = detail(delivery());
        assert!(!page(&frame(), &shown).contains("Check the signature"), "it is not signed");
        let sent =
            |body: &str| SentRequest { headers: vec![(SIGNATURE.into(), "00".into())], body: body.into() };
        shown.sent = Some(sent("{\"a\":\"b\"}"));
        let text = page(&frame(), &shown);
        for part in [
            "<form class=\"fields\" method=\"post\" action=\"/portal/verify\">",
            "name=\"body\" value=\"{&quot;a&quot;:&quot;b&quot;}\"",
            "name=\"webhookId\" value=\"evt_1\"",
            "name=\"webhook\" value=\"default/&lt;img src=x&gt;\"",
            "name=\"signature\" required",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Each quotation mark has three bytes in a form.
        for body in ["\"".repeat(MAX_IN_FORM / 3 + 1), "{\n}".to_owned()] {
            shown.sent = Some(sent(&body));
            let text = page(&frame(), &shown);
            assert!(
                text.contains("does not fit into a form") && !text.contains("name=\"body\""),
                "{}",
                body.len()
            );
        }
        shown.url = None;
        assert!(!page(&frame(), &shown).contains("Check the signature"), "it is not served");
    }

    #[test]
    fn dead_letter_that_was_resent_says_what_became_of_that_and_offers_no_setting_aside() {
        let resend = Delivery {
            id: "new".into(),
            status: Status::Succeeded,
            requested_by: Some("<b>me".into()),
            ..delivery()
        };
        let shown = |later: Vec<Delivery>, status| {
            let later = later.into_iter().map(|resend| Delivery { status, ..resend }).collect();
            page(&frame(), &Detail { later, ..detail(Delivery { resent: true, ..delivery() }) })
        };
        let text = shown(vec![resend.clone()], Status::Succeeded);
        assert!(
            text.contains(
                "Resent by <span>&lt;b&gt;me</span>: <a href=\"/portal/logs/new\"><span class=\"badge good\">"
            ),
            "{text}"
        );
        assert!(text.contains("A resend delivered the event") && !text.contains("badge bad"), "{text}");
        assert!(text.contains("<a href=\"/portal/logs/new\">Open the resend</a>"), "{text}");
        assert!(!text.contains("Then resend") && !text.contains("/portal/logs/set-aside"), "{text}");
        assert!(shown(vec![resend.clone()], Status::Pending).contains("is being sent again"));
        let newest = Delivery { id: "newest".into(), ..resend.clone() };
        let text = shown(vec![newest, resend.clone()], Status::Succeeded);
        let links = text.split("href=\"/portal/logs/").skip(1).filter_map(|rest| rest.split('"').next());
        let links: Vec<&str> = links.filter(|id| id.starts_with("new")).collect();
        assert_eq!(links, ["newest", "new", "newest"], "the newest is opened, and the last of the chain");
        assert!(shown(vec![resend], Status::DeadLetter).contains("failed for good as well"));
    }

    #[test]
    fn dead_letter_that_is_set_aside_says_who_did_it_and_offers_to_undo_it() {
        let text = page(&frame(), &detail(delivery()));
        assert!(
            text.contains("action=\"/portal/logs/set-aside\"") && !text.contains("/undo-set-aside"),
            "{text}"
        );
        let set_aside = Delivery { set_aside: Some(("employee 9".into(), frame().now)), ..delivery() };
        let done = Some("It is set aside.");
        let text = page(&frame(), &Detail { done, ..detail(set_aside) });
        assert!(
            text.contains("action=\"/portal/logs/undo-set-aside\"") && !text.contains("logs/set-aside\""),
            "{text}"
        );
        assert!(
            text.contains("Set aside by <span title=\"employee 9\">Nora Boss</span></div>")
                && text.contains("role=\"status\"><p>It is set aside.</p>"),
            "{text}"
        );
        assert!(text.contains("action=\"/portal/logs/resend\"") && !text.contains("badge bad"), "{text}");
        let fine = page(&frame(), &detail(Delivery { status: Status::Succeeded, ..delivery() }));
        assert!(!fine.contains("set-aside"), "{fine}");
    }

    #[test]
    fn only_a_webhook_that_is_served_has_a_page_to_lead_to() {
        let linked = |url: Option<&str>| {
            let mut detail = detail(delivery());
            detail.url = url.map(str::to_owned);
            let full_name = detail.delivery.webhook.clone();
            let webhooks = vec![page::WebhookName { full_name, name: "CRM".into() }];
            let text = page(&Frame { webhooks, ..frame() }, &detail);
            assert_eq!(text.contains("order.created to CRM "), url.is_some(), "{text}");
            text.contains("<a href=\"/portal/webhooks/")
        };
        assert_eq!([linked(Some("https://r.example/")), linked(None)], [true, false]);
    }

    #[test]
    fn only_a_delivery_that_has_ended_offers_a_resend() {
        for (status, offered) in [
            (Status::Pending, false),
            (Status::Failed, false),
            (Status::Succeeded, true),
            (Status::DeadLetter, true),
        ] {
            let text = page(&frame(), &detail(Delivery { status, ..delivery() }));
            assert_eq!(text.contains("action=\"/portal/logs/resend\""), offered, "{status}");
            assert_eq!(text.contains("id=\"live\""), !offered, "{status}");
            assert!(
                text.contains("data-live"),
                "a page that was opened before finds the last state: {status}"
            );
        }
    }

    #[test]
    fn pretty_json_adds_blanks_and_line_breaks_between_tokens_only() {
        let json = r#"{"b":"x,{\"]","a":[1.0,{}]}"#;
        let expected = "{\n  \"b\": \"x,{\\\"]\",\n  \"a\": [\n    1.0,\n    {\n      \n    }\n  ]\n}";
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty(json).replace(['\n', ' '], ""), json);
    }

    /// Runs the command, and returns the requests that it sends to a server: head and body of each.
    fn sent_by_curl(url: &str, headers: &[(String, String)], body: &str) -> Vec<String> {
        use std::io::{Read, Write};
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = server.local_addr().expect("an address").port();
        let command = curl(&url.replace("r.example", &format!("127.0.0.1:{port}")), headers, body);
        let serving = std::thread::spawn(move || {
            let mut requests = Vec::new();
            while let Ok((mut stream, _)) = server.accept() {
                let mut request = Vec::new();
                // The test itself sends a last line, which has no header.
                while !is_whole(&request) {
                    let mut part = [0; 4096];
                    match stream.read(&mut part).expect("a request") {
                        0 => return requests,
                        length => request.extend_from_slice(&part[..length]),
                    }
                }
                requests.push(String::from_utf8(request).expect("UTF-8"));
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            }
            requests
        });
        // Runs curl without the settings of the user who runs the test.
        let run =
            std::process::Command::new("sh").args(["-c", &command]).env("HOME", "/nonexistent").output();
        assert!(run.as_ref().is_ok_and(|run| run.status.success()), "{command}: {run:?}");
        drop(std::net::TcpStream::connect(("127.0.0.1", port)).expect("the server runs"));
        serving.join().expect("it ends")
    }

    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        body.len() >= length.unwrap_or(0)
    }

    #[test]
    fn curl_command_sends_one_request_with_exactly_the_bytes() {
        let body = "{\"a\":\"it's $HOME `id` \\\\ \\n\"}";
        let headers = [("x-a".to_owned(), "b'c".to_owned())];
        for query in ["a='", "filter[user_id]=me", "part={a,b}&n=[1-3]", "a=[", "b=%7B}&$HOME`id`"] {
            let requests = sent_by_curl(&format!("http://r.example/hook?{query}"), &headers, body);
            assert_eq!(requests.len(), 1, "{query}: {requests:?}");
            assert!(requests[0].starts_with(&format!("POST /hook?{query} HTTP/1.1\r\n")), "{}", requests[0]);
            assert!(
                requests[0].contains("x-a: b'c\r\n") && requests[0].ends_with(&format!("\r\n\r\n{body}")),
                "{}",
                requests[0]
            );
        }
    }
}
