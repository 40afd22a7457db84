//! One delivery: what happened at each attempt, what to do, and what was sent and received.

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::failure::{Cause, Failure};
use docket_domain::resend::settled;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::logs::{self, Delivery, about, code, failure, link, remedy, status};
use crate::page::{Frame, Section, csrf};
use crate::time::{duration, time};
use crate::{href, page};

/// The deepest level of indentation. Deeper levels are not indented further.
const MAX_INDENT: usize = 16;

/// An attempt. Durations are in microseconds; `None`: the phase did not succeed, was not reached, or was not needed.
#[derive(Debug, Clone)]
pub struct AttemptView {
    /// From 1.
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
    /// The later deliveries of the same event to the webhook, newest first: resends of this delivery, and resends of these.
    pub later: Vec<Delivery>,
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
    let Detail { delivery, event_id, later, done, attempts, url, sent } = detail;
    let has_ended = delivery.status.is_final();
    let main = html! {
        p { a href=(Section::Logs.path()) { "Webhook Logs" } }
        h1 { "Delivery of " (delivery.event.as_str()) }
        @if let Some(done) = done { p.good role="status" { (done) } }
        @if !has_ended { (page::live(true)) }
        // The attribute is set even if the delivery has ended, so that a page that was opened before shows its last state.
        div data-live {
            (state(frame, delivery, later, event_id, url.is_some()))
            @if has_ended { (actions(frame, delivery)) }
            @else { p.hint { "The delivery has not ended, so there is nothing to resend." } }
            h2 { "Attempts" }
            (timeline(frame, attempts))
        }
        h2 { "Sent" }
        @match sent {
            Some(sent) => (request(url.as_deref(), sent)),
            None => p { "Nothing is sent: another program has stored an event that is too long or whose id or code is invalid." },
        }
        @if !event_id.is_empty() {
            p { a href=(href(Section::Logs.path(), [("eventId", event_id.as_str())])) { "All deliveries of this event" } }
        }
        @if let Some(first) = delivery.about.first() {
            p { a href=(others(first)) { "All deliveries about " (first.0) " " (first.1) } }
        }
    };
    page::page(frame, Section::Logs, &format!("Delivery of {}", delivery.event.as_str()), &main)
}

fn state(frame: &Frame, delivery: &Delivery, later: &[Delivery], event_id: &str, is_served: bool) -> Markup {
    let latest = later.first().map(|latest| latest.status);
    html! {
        @if let (Some(failed), false) = (delivery.failed(), delivery.status == Status::Succeeded) {
            @let happened = html! {
                p { strong { "What happened: " } (failure(delivery)) " at attempt " (delivery.attempts) " of 5." }
            };
            @if let Some(since) = settled(latest, delivery.set_aside.is_some()) {
                div { (happened) p { strong { "What to do: " } (since) } }
            } @else {
                div.wrong {
                    (happened)
                    p {
                        strong { "What to do: " } (remedy(&failed))
                        @if delivery.status == Status::DeadLetter { " Then resend it, or set it aside." }
                    }
                }
            }
        }
        dl {
            dt { "Status" } dd { (status(delivery.status)) (logs::settled(delivery)) }
            @for resend in later {
                dt { "Resent" }
                dd {
                    (time(resend.created_at, frame.now)) @if let Some(by) = &resend.requested_by { " by " (by) }
                    ": " a href=(link(&resend.id)) { (status(resend.status)) }
                }
            }
            @if let Some((by, at)) = &delivery.set_aside {
                dt { "Set aside" } dd { (time(*at, frame.now)) " by " (by) }
            }
            @if let Some(at) = delivery.next_attempt_at {
                dt { "Next attempt" }
                dd { (time(at, frame.now)) @if let Some(what) = &delivery.waits_for { ", waits for " (what) } }
            }
            dt { "Queued" } dd { (time(delivery.created_at, frame.now)) }
            @if let Some(at) = delivery.finished_at { dt { "Ended" } dd { (time(at, frame.now)) } }
            dt { "Webhook" } dd {
                @if is_served { a href=(page::webhook_link(&delivery.webhook)) { (delivery.webhook) } }
                @else { (delivery.webhook) " (not served)" }
            }
            dt { "Customer" } dd { (delivery.customer_code) }
            @if !delivery.about.is_empty() { dt { "About" } dd { (about(&delivery.about)) } }
            dt { "Delivery id" } dd { code { (delivery.id) } }
            dt { "Event id" } dd { @if event_id.is_empty() { "invalid" } @else { code { (event_id) } } }
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

fn actions(frame: &Frame, delivery: &Delivery) -> Markup {
    let form = |path: &str, button: Markup, hint: &str| {
        html! {
            form method="post" action=(format!("{}/{path}", Section::Logs.path())) {
                (csrf(frame))
                input type="hidden" name="deliveryId" value=(delivery.id);
                (button)
                p.hint { (hint) }
            }
        }
    };
    let resend = html! { button.primary type="submit" { "Resend" } };
    let resent = "Queues a new delivery with the same event id and bytes. A receiver that has processed the event ignores it by its id.";
    html! {
        (form("resend", resend, resent))
        @if delivery.set_aside.is_some() {
            (form("undo-set-aside", html! { button type="submit" { "Undo set aside" } }, "The dead letter counts again, and bulk resends send it."))
        } @else if delivery.status == Status::DeadLetter && !delivery.resent {
            (form("set-aside", html! { button type="submit" { "Set aside" } }, "The dead letter counts no longer, and bulk resends leave it out. This can be undone."))
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

fn timeline(frame: &Frame, attempts: &[AttemptView]) -> Markup {
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
                    @if let Some(failed) = attempt.failed() { p { (remedy(&failed)) } }
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

fn outcome(attempt: &AttemptView) -> Markup {
    html! {
        @match (attempt.has_ended, attempt.failure) {
            (false, _) => { span.wait { span aria-hidden="true" { "○ " } "UnderWay" } }
            (true, None) => { span.good { span aria-hidden="true" { "✓ " } "Succeeded" } }
            (true, Some(class)) => { span.bad { span aria-hidden="true" { "✕ " } (class.as_str()) } }
        }
        @if let Some(cause) = attempt.failed().and_then(|failed| failed.known_cause()) { " " (cause.as_str()) }
        @if let Some(http) = attempt.http_status { " HTTP " (http) }
    }
}

fn request(url: Option<&str>, sent: &SentRequest) -> Markup {
    html! {
        p {
            "Every attempt sends these bytes. The headers are those of a request that is sent now; "
            code { "webhook-timestamp" } " and " code { "webhook-signature" } " hold the time of the attempt."
        }
        @if url.is_none() { p.hint { "The webhook is not served now, so the signatures are left out." } }
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
        @if let Some(url) = url {
            details {
                summary { "As a curl command, with the signature" }
                pre #curl { (curl(url, &sent.headers, &sent.body)) }
                button type="button" data-copy="curl" hidden { "Copy the command" }
            }
        }
    }
}

/// JSON with line breaks and indentation between its tokens. The tokens themselves do not change.
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
            later,
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
        assert!(
            text.contains(" Then resend it, or set it aside.")
                && text.contains(">30.0 s<")
                && text.contains(">2 ms<")
        );
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
            text.contains(" by &lt;b&gt;me: <a href=\"/portal/logs/new\"><span class=\"good\">"),
            "{text}"
        );
        assert!(text.contains("A resend delivered the event") && !text.contains("class=\"wrong\""), "{text}");
        assert!(!text.contains("Then resend") && !text.contains("/portal/logs/set-aside"), "{text}");
        assert!(shown(vec![resend.clone()], Status::Pending).contains("is being sent again"));
        assert!(shown(vec![resend], Status::DeadLetter).contains("became a dead letter as well"));
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
            text.contains(" by employee 9</dd>") && text.contains("role=\"status\">It is set aside.</p>"),
            "{text}"
        );
        assert!(
            text.contains("action=\"/portal/logs/resend\"") && !text.contains("class=\"wrong\""),
            "{text}"
        );
        let fine = page(&frame(), &detail(Delivery { status: Status::Succeeded, ..delivery() }));
        assert!(!fine.contains("set-aside"), "{fine}");
    }

    #[test]
    fn only_a_webhook_that_is_served_has_a_page_to_lead_to() {
        let linked = |url: Option<&str>| {
            let mut detail = detail(delivery());
            detail.url = url.map(str::to_owned);
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
