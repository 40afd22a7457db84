//! One received delivery as one line for people. Never the payload.

use std::fmt::Write;

use crate::server::Received;

/// Characters shown of an id.
const SHOWN: usize = 8;

/// For example `10:02:31  order.created  evt_9d41…  delivery …a8e07f3c  attempt 1  → 200  signature verified`, with the
/// time as given in `at`. Of the delivery id it shows the end, because the beginning is the time and equal for all of one minute.
pub fn line(received: &Received, at: &str) -> String {
    let event = received.event_code.as_deref().map_or("no event code".to_owned(), clean);
    let id = received.event_id.as_deref().map_or("no event id".to_owned(), head);
    let delivery = received.delivery_id.as_deref().map_or("without id".to_owned(), tail);
    let mut line = format!("{at}  {event}  {id}  delivery {delivery}  attempt {}  → ", received.attempt);
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

fn head(id: &str) -> String {
    let shown = clean(id.get(..SHOWN).unwrap_or(id));
    if id.len() > SHOWN { format!("{shown}…") } else { shown }
}

fn tail(id: &str) -> String {
    match id.len().checked_sub(SHOWN).and_then(|from| id.get(from..)) {
        Some(end) if end.len() < id.len() => format!("…{}", clean(end)),
        _ => clean(id),
    }
}

/// Replaces all but graphic ASCII characters: a sender chooses these texts, and none may move the cursor of a terminal or
/// begin a second line.
fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    text.chars().take(64).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use docket_domain::diagnosis::{Mismatch, SecretFault};
    use http::HeaderMap;

    use super::*;
    use crate::Verdict;

    fn received() -> Received {
        Received {
            delivery_id: Some("0193a1b2-c3d4-7e5f-8a9b-0c1da8e07f3c".to_owned()),
            event_code: Some("order.created".to_owned()),
            event_id: Some("evt_9d41abababababababababababababab".to_owned()),
            path: "/hook".to_owned(),
            verdict: Verdict::Verified,
            seen_before: false,
            attempt: 1,
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

    #[test]
    fn line_stays_one_line_whatever_is_sent() {
        let received = Received {
            delivery_id: Some("ü".repeat(6)),
            event_code: Some("a\u{1b}[2Jb\nc\u{202e}".to_owned()),
            event_id: Some("éééé\u{7}ééééé".to_owned()),
            ..received()
        };
        let line = line(&received, "10:02:31");
        assert!(!line.contains(char::is_control) && !line.contains('\u{202e}'), "{line:?}");
        assert!(line.contains("a?[2Jb?c?"), "{line}");
    }

    #[test]
    fn debug_output_shows_no_body() {
        let debug = format!("{:?}", received());
        assert!(!debug.contains("payload") && debug.contains("body_bytes: 18"), "{debug}");
    }
}
