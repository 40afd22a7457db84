//! One received delivery as one line for people or programs. The line never contains the payload.

use std::fmt::Write;

use docket_program::screen;
use serde_json::json;

use crate::server::Received;
use crate::{Forwarded, NoAnswer, Verdict};

/// The number of characters of an id that are shown.
const SHOWN: usize = 8;
/// The number of characters of a URL that are shown.
const SHOWN_OF_URL: usize = 100;

/// A line for people: `10:02:31Z  order.created  evt_9d41…  delivery …a8e07f3c  attempt 1  → 200  signature
/// verified`. It shows the time as given in `at`, and the end of the delivery id: the beginning is the time, and the
/// same within a minute.
pub fn line(received: &Received, at: &str) -> String {
    let event = received.event_code.as_deref().map_or("no event code".to_owned(), word);
    let id = received.event_id.as_deref().map_or("no event id".to_owned(), head);
    let delivery = received.delivery_id.as_deref().map_or("without id".to_owned(), tail);
    let mut line = format!("{at}  {event}  {id}  delivery {delivery}  attempt {}  → ", received.attempt);
    if let Some(Forwarded { to, result, took }) = &received.forwarded {
        let to: String = to.chars().take(SHOWN_OF_URL).collect();
        let _ = match result {
            Ok(status) => write!(line, "{to} [{status}] {} ms  → ", took.as_millis()),
            Err(reason) => write!(line, "{to} [{reason}] {} ms  → ", took.as_millis()),
        };
    }
    let _ = match received.answered {
        Some(status) => write!(line, "{status}"),
        None => write!(line, "hung up after {:.1} s", received.took.as_secs_f64()),
    };
    let _ = write!(line, "  {}", received.verdict);
    if received.seen_before {
        line.push_str("  seen before");
    }
    line
}

/// A line for programs, as one JSON object. `signature` is `verified`, `unsigned`, `missing` or `wrong`, or `unknown`
/// if there is no secret for the verification. `reason` names the mistake.
pub fn json(received: &Received, at: &str) -> String {
    let (signature, reason) = match received.verdict {
        Verdict::Verified => ("verified", None),
        Verdict::Unsigned => ("unsigned", None),
        Verdict::Missing => ("missing", None),
        Verdict::Wrong(mismatch) => ("wrong", Some(mismatch.to_string())),
        Verdict::NoSecret => ("unknown", None),
    };
    let forwarded = received.forwarded.as_ref().map(|Forwarded { to, result, took }| {
        json!({"to": to, "status": result.ok(), "error": result.err().map(NoAnswer::as_str), "milliseconds": took.as_millis()})
    });
    let text = |text: &Option<String>| text.as_deref().map(word);
    json!({
        "at": at,
        "event": text(&received.event_code),
        "eventId": text(&received.event_id),
        "deliveryId": text(&received.delivery_id),
        "path": word(&received.path),
        "attempt": received.attempt,
        "seenBefore": received.seen_before,
        "signature": signature,
        "reason": reason,
        "forwarded": forwarded,
        "status": received.answered,
        "milliseconds": received.took.as_millis(),
    })
    .to_string()
}

fn head(id: &str) -> String {
    let shown = word(id.get(..SHOWN).unwrap_or(id));
    if id.len() > SHOWN { format!("{shown}…") } else { shown }
}

fn tail(id: &str) -> String {
    match id.len().checked_sub(SHOWN).and_then(|from| id.get(from..)) {
        Some(end) if end.len() < id.len() => format!("…{}", word(end)),
        _ => word(id),
    }
}

/// The first 64 characters of a text that the sender chooses, as one word: it moves no cursor, begins no second line, and looks like
/// no other part of the line.
fn word(text: &str) -> String {
    let text: String = text.chars().take(64).collect();
    screen::clean(&text).replace(char::is_whitespace, "?")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use docket_domain::diagnosis::{Mismatch, SecretFault, Suspicion};
    use http::HeaderMap;

    use super::*;

    fn received() -> Received {
        Received {
            delivery_id: Some("0193a1b2-c3d4-7e5f-8a9b-0c1da8e07f3c".to_owned()),
            event_code: Some("order.created".to_owned()),
            event_id: Some("evt_9d41abababababababababababababab".to_owned()),
            path: "/hook".to_owned(),
            verdict: Verdict::Verified,
            seen_before: false,
            attempt: 1,
            forwarded: None,
            answered: Some(200),
            took: Duration::from_millis(3),
            body: Bytes::from_static(b"{\"data\":\"payload\"}"),
            headers: HeaderMap::new(),
        }
    }

    #[test]
    fn line_reads_as_documented() {
        assert_eq!(
            line(&received(), "10:02:31"),
            "10:02:31  order.created  evt_9d41…  delivery …a8e07f3c  attempt 1  → 200  signature verified"
        );
    }

    #[test]
    fn line_shows_verdict_repetition_and_hang_up() {
        let verdict = Verdict::Wrong(Mismatch::Known {
            spelling: None,
            secret: Some(SecretFault::Newline),
            body: None,
        });
        let received = Received { verdict, answered: Some(401), attempt: 2, seen_before: true, ..received() };
        assert!(line(&received, "10:02:31").ends_with(
            "attempt 2  → 401  signature wrong: the secret ends in a newline on one side only  seen before"
        ));
        let received = Received { answered: None, took: Duration::from_secs(30), ..received };
        assert!(line(&received, "").contains("→ hung up after 30.0 s"));
    }

    fn forwarded(result: Result<u16, NoAnswer>) -> Option<Forwarded> {
        Some(Forwarded {
            to: "http://localhost:3000/hook".to_owned(),
            result,
            took: Duration::from_millis(12),
        })
    }

    #[test]
    fn line_shows_what_became_of_it_where_it_was_passed_on_to() {
        let received = Received { forwarded: forwarded(Ok(500)), answered: Some(500), ..received() };
        let shown = line(&received, "10:02:31");
        assert!(
            shown.contains("attempt 1  → http://localhost:3000/hook [500] 12 ms  → 500  signature"),
            "{shown}"
        );
        let received =
            Received { forwarded: forwarded(Err(NoAnswer::TimedOut)), answered: Some(502), ..received };
        assert!(line(&received, "").contains("/hook [no answer in time] 12 ms  → 502"));
    }

    #[test]
    fn json_says_the_same_without_the_payload() {
        let verdict = Verdict::Wrong(Mismatch::Unknown(Suspicion::OtherSecret));
        let received = Received {
            verdict,
            forwarded: forwarded(Err(NoAnswer::NotConnected)),
            answered: Some(502),
            ..received()
        };
        let read: serde_json::Value =
            serde_json::from_str(&json(&received, "2026-11-21T10:02:31Z")).expect("JSON");
        assert_eq!(
            read,
            json!({
                "at": "2026-11-21T10:02:31Z", "event": "order.created", "eventId": "evt_9d41abababababababababababababab",
                "deliveryId": "0193a1b2-c3d4-7e5f-8a9b-0c1da8e07f3c", "path": "/hook", "attempt": 1, "seenBefore": false,
                "signature": "wrong", "reason": "another secret, or not the raw body",
                "forwarded": {"to": "http://localhost:3000/hook", "status": null, "error": "not connected", "milliseconds": 12},
                "status": 502, "milliseconds": 3
            })
        );
    }

    #[test]
    fn line_stays_one_line_whatever_is_sent() {
        let received = Received {
            delivery_id: Some("ü".repeat(6)),
            event_code: Some("a\u{1b}[2Jb\nc\u{202e} \u{9b}\u{a0}".to_owned()),
            event_id: Some("éééé\u{7}ééééé".to_owned()),
            ..received()
        };
        let line = line(&received, "10:02:31");
        assert!(!line.contains(screen::is_unseen), "{line:?}");
        assert!(line.contains("  a?[2Jb?c????  "), "{line}");
        let read: serde_json::Value = serde_json::from_str(&json(&received, "")).expect("JSON");
        assert_eq!(read["event"], "a?[2Jb?c????");
    }

    #[test]
    fn long_texts_are_cut() {
        let to = format!("http://localhost:3000/{}", "x".repeat(200));
        let forwarded = forwarded(Ok(200)).map(|forwarded| Forwarded { to: to.clone(), ..forwarded });
        let received = Received { event_code: Some("y".repeat(200)), forwarded, ..received() };
        let line = line(&received, "10:02:31");
        assert!(line.contains(&format!("  {}  evt_9d41…", "y".repeat(64))), "{line}");
        assert!(line.contains(&format!("→ {} [200]", &to[..100])), "{line}");
    }

    #[test]
    fn debug_output_shows_no_body() {
        let debug = format!("{:?}", received());
        assert!(!debug.contains("payload") && debug.contains("body_bytes: 18"), "{debug}");
    }

    #[test]
    fn each_verdict_has_its_word_and_texts_are_cut() {
        let mismatch = Mismatch::Unknown(Suspicion::OtherSecret);
        for (verdict, word) in [
            (Verdict::Verified, "verified"),
            (Verdict::Unsigned, "unsigned"),
            (Verdict::Missing, "missing"),
            (Verdict::Wrong(mismatch), "wrong"),
            (Verdict::NoSecret, "unknown"),
        ] {
            let text = json(&Received { verdict, ..received() }, "");
            let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(read["signature"], word);
            assert_eq!(read["reason"].is_null(), word != "wrong", "{read}");
        }
        let to = format!("http://localhost/{}", "x".repeat(200));
        let forwarded = Some(Forwarded { to, result: Ok(200), took: Duration::ZERO });
        let event_code = Some("x".repeat(65));
        let text = line(&Received { forwarded, event_code, ..received() }, "");
        assert!(text.contains(&format!("  {}  evt_", "x".repeat(64))), "{text}");
        assert!(text.contains(&format!("→ http://localhost/{} [200]", "x".repeat(83))), "{text}");
        let short = Received {
            delivery_id: Some("a8e07f3c".into()),
            event_id: Some("evt_9d41".into()),
            ..received()
        };
        assert!(line(&short, "").contains("  evt_9d41  delivery a8e07f3c  "), "nothing is left out of it");
    }
}
