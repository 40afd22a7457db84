//! What happened to a delivery and at its attempts, in words for people.

use docket_domain::delivery::{FailureClass, Status, class_of_status};
use docket_domain::failure::Failure;

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedAttempt {
    /// The number of the attempt, from 1.
    pub(crate) number: i64,
    pub(crate) failure: Option<FailureClass>,
    pub(crate) http_status: Option<i64>,
    /// How long the attempt took, in microseconds.
    pub(crate) total_us: Option<i64>,
}

/// A failure class in a few words.
pub(crate) const fn label(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Dns => "Name not found",
        FailureClass::Connect => "Not reachable",
        FailureClass::Refused => "Connection refused",
        FailureClass::BlockedAddress => "Address not allowed",
        FailureClass::TlsUntrusted => "Certificate not trusted",
        FailureClass::TlsOther => "TLS failed",
        FailureClass::TimeoutDns => "Name lookup too slow",
        FailureClass::TimeoutConnect => "No connection in time",
        FailureClass::TimeoutTls => "TLS too slow",
        FailureClass::TimeoutFirstByte => "No answer in time",
        FailureClass::BodyTimeout => "Answer did not end",
        FailureClass::Transport => "Connection broke",
        FailureClass::NotHttp => "Not HTTP",
        FailureClass::Redirect => "Redirect",
        FailureClass::ClientError => "Error of the request (4xx)",
        FailureClass::ServerError => "Error of the server (5xx)",
        FailureClass::WorkerLost => "Cut off",
        FailureClass::WebhookGone => "Webhook not declared",
        FailureClass::EventTooLong => "Event too long",
        FailureClass::EventIdInvalid => "Event invalid",
        FailureClass::Unknown(word) => word,
    }
}

/// Whether another target URL may repair a failure.
pub(crate) fn may_be_by_url(failure: &Failure<'_>) -> bool {
    match failure.class {
        FailureClass::Dns
        | FailureClass::Connect
        | FailureClass::Refused
        | FailureClass::BlockedAddress
        | FailureClass::TlsUntrusted
        | FailureClass::TlsOther
        | FailureClass::TimeoutDns
        | FailureClass::TimeoutConnect
        | FailureClass::NotHttp
        | FailureClass::Redirect => true,
        FailureClass::ClientError => matches!(failure.http_status, Some(404 | 405 | 410)),
        _ => false,
    }
}

/// The status of a response, if the failure has a response. Otherwise the status of the earlier response stays.
fn answered(class: FailureClass, http_status: Option<i64>) -> Option<u16> {
    let status = u16::try_from(http_status?).ok()?;
    (class_of_status(status) == Some(class) || class == FailureClass::BodyTimeout).then_some(status)
}

/// How an attempt ended in a word or two: the HTTP status, or else the failure.
pub(crate) fn outcome(failure: Option<FailureClass>, http_status: Option<i64>) -> String {
    match failure {
        None => http_status.map(|status| status.to_string()).unwrap_or_default(),
        Some(FailureClass::BodyTimeout) => label(FailureClass::BodyTimeout).to_owned(),
        Some(class) => {
            answered(class, http_status).map_or_else(|| label(class).to_owned(), |status| status.to_string())
        }
    }
}

/// What happened to a delivery, as a sentence without its full stop. The second argument: how its last attempt failed, and the HTTP
/// status of the last response. `attempts`: the number of attempts, also of one under way. `ended`: those that have ended, oldest first.
pub(crate) fn sentence(
    status: Status,
    (failure, http_status): (Option<FailureClass>, Option<i64>),
    attempts: i64,
    ended: &[EndedAttempt],
) -> String {
    if status == Status::Succeeded {
        let status = outcome(None, http_status);
        let with = if status.is_empty() { status } else { format!(" with {status}") };
        return match attempts {
            ..=1 => format!("Your server took it{with}"),
            number => format!("Your server took it{with} at attempt {number}"),
        };
    }
    let Some(class) = failure else {
        return match attempts {
            0 => "No attempt was made yet".to_owned(),
            _ => "The first attempt is under way".to_owned(),
        };
    };
    // A delivery can also fail without an attempt.
    let Some(last) = ended.last().filter(|last| last.failure == Some(class)) else {
        return failed(class, http_status, None);
    };
    let status = answered(class, last.http_status);
    let is_alike =
        |other: &&EndedAttempt| other.failure == last.failure && answered(class, other.http_status) == status;
    let count = ended.iter().rev().take_while(is_alike).count();
    let what = failed(class, last.http_status, last.total_us);
    let separator = if status.is_some() && class != FailureClass::BodyTimeout { " " } else { ", " };
    let often = match count {
        1 if ended.len() == 1 => return what,
        1 => format!("at attempt {}", last.number),
        2 => "twice".to_owned(),
        3 => "three times".to_owned(),
        4 => "four times".to_owned(),
        5 => "five times".to_owned(),
        more => format!("{more} times"),
    };
    let others = if ended.len() > count { ", after other failures" } else { "" };
    format!("{what}{separator}{often}{others}")
}

/// What a failed attempt was, as the beginning of a sentence. `total_us`: how long the attempt took.
fn failed(class: FailureClass, http_status: Option<i64>, total_us: Option<i64>) -> String {
    let answer = answered(class, http_status).map(|status| format!(" {status}")).unwrap_or_default();
    let text = match class {
        FailureClass::ClientError | FailureClass::ServerError if answer.is_empty() => {
            "Your server answered with an error"
        }
        FailureClass::ClientError | FailureClass::ServerError => {
            return format!("Your server answered{answer}");
        }
        FailureClass::Redirect if answer.is_empty() => "Your server answered with a redirect",
        FailureClass::Redirect => return format!("Your server answered{answer} (a redirect)"),
        FailureClass::BodyTimeout => {
            return format!("Your server answered{answer}, and its answer did not end in time");
        }
        FailureClass::TimeoutFirstByte => {
            return match total_us.map(|micros| (micros + 500_000) / 1_000_000) {
                Some(seconds @ 1..) => format!("No answer came within {seconds} s"),
                _ => "No answer came in time".to_owned(),
            };
        }
        FailureClass::Dns => "The name of your server was not found",
        FailureClass::Connect => "Your server could not be reached",
        FailureClass::Refused => "Your server refused the connection",
        FailureClass::BlockedAddress => "Your server has an address that deliveries may not reach",
        FailureClass::TlsUntrusted => "The certificate of your server was not trusted",
        FailureClass::TlsOther => "The TLS handshake with your server failed",
        FailureClass::TimeoutDns => "The name of your server was not found in time",
        FailureClass::TimeoutConnect => "Your server accepted no connection in time",
        FailureClass::TimeoutTls => "Your server did not finish the TLS handshake in time",
        FailureClass::Transport => "The connection to your server broke before an answer came",
        FailureClass::NotHttp => "The answer of your server was not valid HTTP",
        FailureClass::WorkerLost => "The attempt was cut off before its outcome was known",
        FailureClass::WebhookGone => "The webhook was not declared any more, so nothing could be sent",
        FailureClass::EventTooLong => "Nothing was sent: the stored event is too long",
        FailureClass::EventIdInvalid => "Nothing was sent: the stored event has no valid id or code",
        FailureClass::Unknown(word) => return format!("The attempt failed: {word}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentence about attempts that ended so, one after the other.
    fn said(ends: &[(FailureClass, Option<i64>)]) -> String {
        let ended = (1..).zip(ends).map(|(number, (class, http_status))| EndedAttempt {
            number,
            failure: Some(*class),
            http_status: *http_status,
            total_us: Some(30_004_000),
        });
        let ended: Vec<EndedAttempt> = ended.collect();
        let last = ends.last().map_or((None, None), |(class, http_status)| (Some(*class), *http_status));
        sentence(Status::DeadLetter, last, ended.len() as i64, &ended)
    }

    #[test]
    fn each_class_has_a_sentence_of_its_own_and_a_label() {
        let mut sentences: Vec<String> = FailureClass::ALL.map(|class| said(&[(class, None); 5])).into();
        for sentence in &sentences {
            assert!(sentence.ends_with(" five times") && !sentence.contains("  "), "{sentence}");
        }
        sentences.sort();
        sentences.dedup();
        // `said` gives no HTTP status, so the classes for a 4xx and for a 5xx have the same sentence.
        assert_eq!(sentences.len(), FailureClass::ALL.len() - 1);
        let mut labels = FailureClass::ALL.map(label).to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), FailureClass::ALL.len());
        assert_eq!(said(&[(FailureClass::Unknown("Medlar"), None)]), "The attempt failed: Medlar");
    }

    #[test]
    fn sentence_has_the_answer_and_how_often_it_came() {
        use FailureClass::{BodyTimeout, ClientError, Redirect, Refused, ServerError, TimeoutFirstByte};
        let down = (ServerError, Some(500));
        for (ends, expected) in [
            (&[down; 5][..], "Your server answered 500 five times"),
            (&[down], "Your server answered 500"),
            (&[down, down], "Your server answered 500 twice"),
            (&[(TimeoutFirstByte, None)], "No answer came within 30 s"),
            // A failure without a response keeps the status of the response before.
            (
                &[down, (Refused, Some(500))],
                "Your server refused the connection, at attempt 2, after other failures",
            ),
            (&[(Refused, None), (Refused, Some(500))], "Your server refused the connection, twice"),
            (&[(ServerError, Some(503)), down, down], "Your server answered 500 twice, after other failures"),
            (&[(ClientError, Some(401)); 3], "Your server answered 401 three times"),
            (&[(Redirect, Some(301)); 4], "Your server answered 301 (a redirect) four times"),
            (&[(BodyTimeout, Some(500))], "Your server answered 500, and its answer did not end in time"),
        ] {
            assert_eq!(said(ends), expected);
        }
    }

    #[test]
    fn sentence_about_a_delivery_that_has_not_failed_says_how_far_it_is() {
        let of = |status, attempts, http_status| sentence(status, (None, http_status), attempts, &[]);
        assert_eq!(of(Status::Pending, 0, None), "No attempt was made yet");
        assert_eq!(of(Status::Pending, 1, None), "The first attempt is under way");
        assert_eq!(of(Status::Succeeded, 1, Some(200)), "Your server took it with 200");
        assert_eq!(of(Status::Succeeded, 3, Some(204)), "Your server took it with 204 at attempt 3");
        let gone = sentence(Status::DeadLetter, (Some(FailureClass::WebhookGone), None), 0, &[]);
        assert!(gone.starts_with("The webhook was not declared any more"), "{gone}");
    }

    #[test]
    fn outcome_is_the_status_or_the_failure() {
        assert_eq!(outcome(None, Some(204)), "204");
        assert_eq!(outcome(Some(FailureClass::ServerError), Some(503)), "503");
        assert_eq!(outcome(Some(FailureClass::Refused), Some(503)), "Connection refused");
        assert_eq!(outcome(Some(FailureClass::BodyTimeout), Some(500)), "Answer did not end");
    }

    #[test]
    fn time_without_an_answer_is_rounded_to_seconds() {
        let said = |total_us| failed(FailureClass::TimeoutFirstByte, None, total_us);
        for (micros, seconds) in [(29_500_000, 30), (29_499_999, 29), (500_000, 1)] {
            assert_eq!(said(Some(micros)), format!("No answer came within {seconds} s"));
        }
        assert_eq!([Some(499_999), None].map(said), ["No answer came in time"; 2]);
    }

    #[test]
    fn another_url_may_help_if_no_server_of_the_webhook_answered() {
        let by_url =
            |class, http_status| may_be_by_url(&Failure { class, cause: None, http_status, detail: None });
        let classes = FailureClass::ALL.into_iter().filter(|class| !by_url(*class, None));
        let others = [
            FailureClass::TimeoutTls,
            FailureClass::TimeoutFirstByte,
            FailureClass::BodyTimeout,
            FailureClass::Transport,
            FailureClass::ClientError,
            FailureClass::ServerError,
            FailureClass::WorkerLost,
            FailureClass::WebhookGone,
            FailureClass::EventTooLong,
            FailureClass::EventIdInvalid,
        ];
        assert_eq!(Vec::from_iter(classes), others);
        let statuses =
            [400, 401, 403, 404, 405, 410, 429].map(|status| by_url(FailureClass::ClientError, Some(status)));
        assert_eq!(statuses, [false, false, false, true, true, true, false]);
    }
}
