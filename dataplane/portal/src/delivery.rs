//! One delivery: what happened at each attempt, what to do, and what was sent and answered.

use docket_domain::delivery::{FailureClass, Status};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::logs::{Delivery, about, failure, link, remedy, status};
use crate::page::{Frame, Section, csrf};
use crate::time::{duration, time};
use crate::{href, page};

/// Deeper levels are not indented further.
const MAX_INDENT: usize = 16;

/// An attempt. Durations are in microseconds; `None` if the phase did not succeed, was not
/// reached or not needed.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// From 1.
    pub number: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// Whether it has ended.
    pub has_ended: bool,
    /// How it failed.
    pub failure: Option<FailureClass>,
    /// The HTTP status of the response.
    pub http_status: Option<i64>,
    /// The address and port that the request was sent to.
    pub remote_address: Option<String>,
    /// The first 2,000 characters of the response.
    pub response: Option<String>,
    /// DNS, connect, TLS, first byte and the whole attempt.
    pub phases: [Option<i64>; 5],
}

/// What is sent to the receiver.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The target URL; `None` if the webhook is not served now.
    pub url: Option<String>,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, exactly.
    pub body: String,
}

/// A delivery with everything that is known of it.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The delivery.
    pub delivery: Delivery,
    /// Its event's id.
    pub event_id: String,
    /// The attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// What is sent.
    pub sent: Sent,
}

/// The page.
pub fn page(frame: &Frame, detail: &Detail) -> String {
    let Detail { delivery, event_id, attempts, sent } = detail;
    let has_ended = delivery.status.is_final();
    let main = html! {
        p { a href=(Section::Logs.path()) { "Webhook Logs" } }
        h1 { "Delivery of " (delivery.event.as_str()) }
        @if !has_ended { (page::live(true)) }
        // Also when it has ended, so that a page that was opened before finds its last state.
        div data-live {
            (state(frame, delivery, event_id, sent.url.is_some()))
            @if has_ended { (resend(frame, delivery)) }
            @else { p.hint { "The delivery has not ended, so there is nothing to resend." } }
            h2 { "Attempts" }
            (timeline(frame, attempts))
        }
        h2 { "Sent" }
        (request(sent))
        p { a href=(href(Section::Logs.path(), [("eventId", event_id.as_str())])) { "All deliveries of this event" } }
        @if let Some(first) = delivery.about.first() {
            p { a href=(others(first)) { "All deliveries about " (first.0) " " (first.1) } }
        }
    };
    page::page(frame, Section::Logs, &format!("Delivery of {}", delivery.event.as_str()), &main)
}

fn state(frame: &Frame, delivery: &Delivery, event_id: &str, is_served: bool) -> Markup {
    html! {
        @if let (Some(class), false) = (delivery.failure, delivery.status == Status::Succeeded) {
            div.wrong {
                p { strong { "What happened: " } (failure(delivery)) " at attempt " (delivery.attempts) " of 5." }
                p { strong { "What to do: " } (remedy(class)) }
            }
        }
        dl {
            dt { "Status" } dd { (status(delivery.status)) }
            @if let Some(at) = delivery.next_attempt_at {
                dt { "Next attempt" }
                dd { (time(at, frame.now)) @if let Some(what) = &delivery.waits_for { ", waits for " (what) } }
            }
            dt { "Queued" } dd { (time(delivery.created_at, frame.now)) }
            @if let Some(at) = delivery.finished_at { dt { "Ended" } dd { (time(at, frame.now)) } }
            dt { "Webhook" } dd {
                @if is_served { a href=(crate::webhooks::link(&delivery.webhook)) { (delivery.webhook) } }
                @else { (delivery.webhook) " (not served)" }
            }
            dt { "Customer" } dd { (delivery.customer_code) }
            @if !delivery.about.is_empty() { dt { "About" } dd { (about(&delivery.about)) } }
            dt { "Delivery id" } dd { code { (delivery.id) } }
            dt { "Event id" } dd { code { (event_id) } }
            @if delivery.is_test {
                dt { "Test" }
                dd { "Made to try the webhook" @if let Some(by) = &delivery.requested_by { ", by " (by) } "; it counts in no health." }
            }
            @if let Some(first) = &delivery.resend_of {
                dt { "Resend of" }
                dd { a href=(link(first)) { (first) } @if let Some(by) = &delivery.requested_by { ", by " (by) } }
            }
        }
    }
}

fn resend(frame: &Frame, delivery: &Delivery) -> Markup {
    html! {
        form method="post" action=(format!("{}/resend", Section::Logs.path())) {
            (csrf(frame))
            input type="hidden" name="deliveryId" value=(delivery.id);
            button.primary type="submit" { "Resend" }
            p.hint { "Queues a new delivery with the same event id and bytes. A receiver that has processed the event ignores it by its id." }
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

fn timeline(frame: &Frame, attempts: &[Attempt]) -> Markup {
    html! {
        @if attempts.is_empty() { p role="status" { "No attempt was made yet." } }
        @else {
            div.wide role="region" aria-label="Attempts" tabindex="0" {
                table {
                    caption { "Attempts, oldest first; – is a phase that did not succeed, was not reached, or was not needed because the connection was open" }
                    thead {
                        tr {
                            @for head in ["Attempt", "Begun", "Outcome", "DNS", "Connect", "TLS", "First byte", "Total", "Sent to"] {
                                th scope="col" { (head) }
                            }
                        }
                    }
                    tbody {
                        @for attempt in attempts {
                            tr {
                                th scope="row" { (attempt.number) }
                                td { (time(attempt.started_at, frame.now)) }
                                td { (outcome(attempt)) }
                                @for phase in attempt.phases { td { (duration(phase)) } }
                                td { (attempt.remote_address.as_deref().unwrap_or("–")) }
                            }
                        }
                    }
                }
            }
        }
        @for attempt in attempts {
            @if attempt.failure.is_some() || attempt.response.is_some() {
                details {
                    summary { "Attempt " (attempt.number) ": what it means, and the receiver's response" }
                    @if let Some(class) = attempt.failure { p { (remedy(class)) } }
                    @match &attempt.response {
                        Some(text) if !text.is_empty() => {
                            p.hint { "The first 2,000 characters of the response's body:" }
                            pre { (text) }
                        }
                        _ => { p.hint { "The response had no body, or none was kept." } }
                    }
                }
            }
        }
    }
}

fn outcome(attempt: &Attempt) -> Markup {
    html! {
        @match (attempt.has_ended, attempt.failure) {
            (false, _) => { span.wait { span aria-hidden="true" { "○ " } "UnderWay" } }
            (true, None) => { span.good { span aria-hidden="true" { "✓ " } "Succeeded" } }
            (true, Some(class)) => { span.bad { span aria-hidden="true" { "✕ " } (class.as_str()) } }
        }
        @if let Some(http) = attempt.http_status { " HTTP " (http) }
    }
}

fn request(sent: &Sent) -> Markup {
    html! {
        p {
            "Every attempt sends these bytes. The headers are those of a request that is sent now; "
            code { "webhook-timestamp" } " and " code { "webhook-signature" } " hold the time of the attempt."
        }
        @if sent.url.is_none() { p.hint { "The webhook is not served now, so the signatures are left out." } }
        details {
            summary { "Headers" }
            pre { @for (name, value) in &sent.headers { (name) ": " (value) "\n" } }
        }
        details open {
            summary { "Body, with line breaks added" }
            pre { (pretty(&sent.body)) }
        }
        details {
            summary { "Body, exactly the bytes (" (sent.body.len()) ")" }
            pre #raw { (sent.body) }
            button type="button" data-copy="raw" hidden { "Copy the body" }
        }
        @if let Some(url) = &sent.url {
            details {
                summary { "As a curl command, with the signature" }
                pre #curl { (curl(url, &sent.headers, &sent.body)) }
                button type="button" data-copy="curl" hidden { "Copy the command" }
            }
        }
    }
}

/// JSON with line breaks and indentation between its tokens, which stay as they are.
pub(crate) fn pretty(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    for character in json.chars() {
        let breaks_after = !in_string && matches!(character, '{' | '[' | ',');
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
        if breaks_after {
            text.push('\n');
            text.push_str(&"  ".repeat(depth.min(MAX_INDENT)));
        }
    }
    text
}

/// A POSIX shell command that sends the request.
fn curl(url: &str, headers: &[(String, String)], body: &str) -> String {
    let mut command = format!("curl -X POST {}", quoted(url));
    for (name, value) in headers {
        command.push_str(" \\\n  -H ");
        command.push_str(&quoted(&format!("{name}: {value}")));
    }
    // --data-binary reads a file if the text begins with @; a body is an object.
    command.push_str(" \\\n  --data-binary ");
    command.push_str(&quoted(body));
    command
}

/// One word of a POSIX shell, whatever the text holds.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::{delivery, frame};

    const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"x";

    fn detail(delivery: Delivery) -> Detail {
        let attempt = Attempt {
            number: 1,
            started_at: frame().now,
            has_ended: true,
            failure: Some(FailureClass::ServerError),
            http_status: Some(503),
            remote_address: Some(HOSTILE.into()),
            response: Some(HOSTILE.into()),
            phases: [Some(2_000), None, None, Some(30_000_000), Some(30_002_000)],
        };
        let sent = Sent {
            url: Some("https://receiver.example/hook?a=1&b='2'".into()),
            headers: vec![("x-service-event".into(), HOSTILE.into())],
            body: format!("{{\"note\":\"it's {HOSTILE}\"}}"),
        };
        Detail { delivery, event_id: "evt_1".into(), attempts: vec![attempt], sent }
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
    fn failed_delivery_says_what_happened_and_what_to_do() {
        let text = page(&frame(), &detail(delivery()));
        assert!(text.contains("ServerError (HTTP 503) at attempt 5 of 5"), "{text}");
        assert!(text.contains("then resend.") && text.contains(">30.0 s<") && text.contains(">2 ms<"));
    }

    #[test]
    fn only_a_webhook_that_is_served_has_a_page_to_lead_to() {
        let linked = |url: Option<&str>| {
            let mut detail = detail(delivery());
            detail.sent.url = url.map(str::to_owned);
            page(&frame(), &detail).contains("<a href=\"/portal/webhooks/")
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
    fn pretty_json_adds_line_breaks_between_tokens_only() {
        let json = r#"{"b":"x,{\"]","a":[1.0,{}]}"#;
        let expected = "{\n  \"b\":\"x,{\\\"]\",\n  \"a\":[\n    1.0,\n    {\n      \n    }\n  ]\n}";
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty(json).replace(['\n', ' '], ""), json);
    }

    #[test]
    fn curl_command_gives_the_shell_exactly_the_bytes() {
        let body = "{\"a\":\"it's $HOME `id` \\\\ \\n\"}";
        let headers = [("x-a".to_owned(), "b'c".to_owned())];
        let command = curl("https://r.example/?a='", &headers, body);
        let script = format!("curl() {{ printf '%s\\n' \"$@\"; }}\n{command}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
        let words = String::from_utf8(output.stdout).expect("UTF-8");
        let expected = format!("-X\nPOST\nhttps://r.example/?a='\n-H\nx-a: b'c\n--data-binary\n{body}\n");
        assert_eq!(words, expected);
    }
}
