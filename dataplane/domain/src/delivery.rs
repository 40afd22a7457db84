//! A delivery of one event to one webhook: its states, the transition after an attempt, and the contract's limits.
//!
//! A failed delivery is data, not an error: an attempt ends in an [`Outcome`], and [`after_attempt`] returns the next
//! state of the delivery. `docket-egress` sends; the data plane claims and stores.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::failure::{Explanation, Failure};
pub use crate::failure_class::{FailureClass, class_of_status};

/// The number of attempts per delivery. When the last one fails, the delivery becomes a dead letter (Limits).
pub const MAX_ATTEMPTS: u32 = 5;
/// The base of the backoff: after failed attempt `n`, the delivery waits `2^n` times this duration (Limits).
pub const BACKOFF_BASE: Duration = Duration::from_secs(30);
/// The longest random delay on top of a backoff; at most a thirtieth of the backoff. Each delivery gets its own part
/// of this duration, so that deliveries that failed together are not retried together.
pub const RETRY_SPREAD: Duration = Duration::from_secs(2);
/// The time limit of one attempt, from the DNS lookup to the last byte read of the response (Limits).
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the deliveries of a webhook that is not declared any more wait for its return, unless configured.
pub const WEBHOOK_GRACE: Duration = Duration::from_secs(3600);
/// How long a row or a claim stays with a worker that does not renew it; then another worker takes it over.
pub const LEASE: Duration = Duration::from_secs(4);
/// The most deliveries claimed per poll (Delivery mechanics).
pub const CLAIM_LIMIT: usize = 25;
/// The number of characters (not bytes) of a receiver's response that are stored (Limits).
pub const KEPT_ANSWER_CHARS: usize = 2_000;
/// The number of bytes of a receiver's response that are read: enough for [`KEPT_ANSWER_CHARS`] of four bytes each.
pub const READ_ANSWER_BYTES: usize = 8 * 1024;

/// The id of one delivery, sent in `X-Service-Delivery-Id`. Ids are ordered by time, so that rows land together in an
/// index. The default is the smallest id, which no delivery has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(Uuid);

impl DeliveryId {
    /// A new id from the time and ten random bytes.
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// A random part of `whole`, always the same for the same delivery.
    fn part_of(self, whole: Duration) -> Duration {
        let [.., high, low] = *self.0.as_bytes(); // the last two bytes are random
        whole * u32::from(u16::from_be_bytes([high, low])) / u32::from(u16::MAX)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

/// A text, which may be a key in JSON.
impl Serialize for DeliveryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for DeliveryId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::from_str(text).map(Self)
    }
}

/// The time at which a delivery is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The delivery.
    pub id: DeliveryId,
    /// The key of the delivery's webhook.
    pub webhook: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

docket_crds::words! {
    /// The four states of the contract. `Pending` and `Failed` are due again at some time; the others are final.
    pub enum Status {
        /// The delivery is queued, and no attempt has ended yet.
        Pending,
        /// The last attempt failed and another one is scheduled.
        Failed,
        /// A receiver answered 2xx. Final.
        Succeeded,
        /// No further attempts. Final.
        DeadLetter,
    }
}

impl Status {
    /// Whether no attempt will follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::DeadLetter)
    }
}

docket_crds::words! {
    /// What became of a dead letter.
    pub enum DeadLetter {
        /// The dead letter is open: no one has done anything about it.
        Open = "open",
        /// A later delivery sends its event to the webhook again. That delivery counts instead.
        Resent = "resent",
        /// The dead letter was set aside.
        SetAside = "setAside",
    }
}

docket_crds::words! {
    /// Why there is a delivery. The resend of a test is both a test and a resend.
    pub enum DeliveryKind {
        /// The delivery is the first one of an event to its webhook, and no test.
        First = "first",
        /// The delivery sends an event to its webhook again.
        Resend = "resend",
        /// The event was published to try the webhook.
        Test = "test",
    }
}

/// How long each phase of an attempt took. `None`: the phase did not succeed, was not reached, or a reused connection skipped it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Looking up the name.
    pub dns: Option<Duration>,
    /// Opening the connection.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// The time from the request's first byte to the response's headers.
    pub first_byte: Option<Duration>,
    /// The whole attempt.
    pub total: Duration,
}

/// What Docket records of an attempt, whether it succeeded or failed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The address of the receiver, if a connection was made.
    pub remote: Option<SocketAddr>,
    /// The HTTP status, if a response arrived.
    pub http_status: Option<u16>,
    /// The response's body as text, at most [`KEPT_ANSWER_CHARS`] characters, without NUL.
    pub answer: Option<String>,
    /// The cause and the detail of a failure, beside its class.
    pub explanation: Explanation,
    /// How long the attempt and its phases took.
    pub times: PhaseTimes,
}

/// Omits the response: a receiver may echo the payload, which is legal content.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("remote", &self.remote)
            .field("http_status", &self.http_status)
            .field("cause", &self.explanation.cause)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver responded 2xx. The headers decide: a broken body does not make the attempt fail.
    Succeeded(Report),
    /// The attempt failed.
    Failed(FailureClass, Report),
}

impl Outcome {
    /// The report of the attempt.
    pub fn report(&self) -> &Report {
        match self {
            Self::Succeeded(report) | Self::Failed(_, report) => report,
        }
    }

    /// The failure with everything that chooses the remedy; `None`: the attempt succeeded.
    pub fn failed(&self) -> Option<Failure<'_>> {
        let Self::Failed(class, report) = self else { return None };
        let Explanation { cause, detail } = &report.explanation;
        Some(Failure {
            class: *class,
            cause: *cause,
            http_status: report.http_status,
            detail: detail.as_deref(),
        })
    }

    /// The class of the failure; `None`: the attempt succeeded.
    pub fn failure(&self) -> Option<FailureClass> {
        self.failed().map(|failure| failure.class)
    }
}

/// The state of a delivery after an attempt has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// `Succeeded`.
    Succeeded,
    /// `Failed`; the next attempt is due at this time.
    RetryAt(Timestamp),
    /// `DeadLetter`.
    DeadLetter,
}

impl Next {
    /// The state to store.
    pub fn status(self) -> Status {
        match self {
            Self::Succeeded => Status::Succeeded,
            Self::RetryAt(_) => Status::Failed,
            Self::DeadLetter => Status::DeadLetter,
        }
    }
}

/// The transition function: the next state of a delivery after an attempt (States and transitions).
///
/// `id` is the delivery's id, which decides where in [`RETRY_SPREAD`] its retry is. `attempts_made` counts attempts
/// including the one that has just ended (1 to 5). `now` is the end of the attempt. `backoff_base` is [`BACKOFF_BASE`]
/// unless configured. If the webhook is missing or the event can't be sent, the delivery becomes a dead letter without
/// a retry.
pub fn after_attempt(
    id: DeliveryId,
    outcome: &Outcome,
    attempts_made: u32,
    now: Timestamp,
    backoff_base: Duration,
) -> Next {
    match outcome.failure() {
        None => Next::Succeeded,
        Some(FailureClass::WebhookGone | FailureClass::EventTooLong | FailureClass::EventIdInvalid) => {
            Next::DeadLetter
        }
        Some(_) if attempts_made >= MAX_ATTEMPTS => Next::DeadLetter,
        Some(_) => {
            let delay = backoff(attempts_made, backoff_base);
            Next::RetryAt(now + delay + id.part_of(RETRY_SPREAD.min(delay / 30)))
        }
    }
}

/// Like [`after_attempt`], for an attempt whose worker was lost. After the first loss, the next attempt is due
/// immediately. From the second loss on, the backoff applies, so that no crash loop uses up the attempts.
/// `lost_before` counts the earlier losses.
pub fn after_lost_attempt(
    id: DeliveryId,
    attempts_made: u32,
    lost_before: u32,
    now: Timestamp,
    backoff_base: Duration,
) -> Next {
    let lost = Outcome::Failed(FailureClass::WorkerLost, Report::default());
    match after_attempt(id, &lost, attempts_made, now, backoff_base) {
        Next::RetryAt(_) if lost_before == 0 => Next::RetryAt(now),
        next => next,
    }
}

/// The delay after failed attempt `attempts_made`: `2^attempts_made * base`, so 60, 120, 240, 480 seconds.
pub fn backoff(attempts_made: u32, base: Duration) -> Duration {
    base.saturating_mul(2u32.saturating_pow(attempts_made.min(MAX_ATTEMPTS)))
}

/// The part of a response that is stored: valid text without NUL, which PostgreSQL refuses, of at most
/// [`KEPT_ANSWER_CHARS`] characters.
pub fn kept_answer(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| *c != '\0').take(KEPT_ANSWER_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use docket_crds::UnknownWord;

    use super::*;

    /// The classes after which a retry is useless.
    const ENDING: [FailureClass; 3] =
        [FailureClass::WebhookGone, FailureClass::EventTooLong, FailureClass::EventIdInvalid];

    fn failed(class: FailureClass) -> Outcome {
        Outcome::Failed(class, Report::default())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// A delivery id whose retries are due as early as possible: its random part is 0.
    fn first() -> DeliveryId {
        DeliveryId::default()
    }

    #[test]
    fn the_limits_are_the_contracts_numbers() {
        assert_eq!((MAX_ATTEMPTS, CLAIM_LIMIT, KEPT_ANSWER_CHARS), (5, 25, 2_000));
        assert_eq!([BACKOFF_BASE, ATTEMPT_TIMEOUT].map(|time| time.as_secs()), [30, 30]);
    }

    /// The other tests use these by name, so a wrong unit or a missing digit would change the tests as well.
    #[test]
    fn numbers_of_our_own_are_the_documented_ones() {
        let seconds = [RETRY_SPREAD, WEBHOOK_GRACE, LEASE].map(|time| time.as_secs());
        assert_eq!((seconds, READ_ANSWER_BYTES), ([2, 3_600, 4], 8_192));
    }

    #[test]
    fn backoff_is_60_120_240_480_seconds() {
        let delays: Vec<u64> = (1..=4).map(|n| backoff(n, BACKOFF_BASE).as_secs()).collect();
        assert_eq!(delays, [60, 120, 240, 480]);
    }

    #[test]
    fn transitions_follow_every_arrow_of_the_diagram() {
        let now = at(1_000);
        for attempts in 1..=5 {
            assert_eq!(
                after_attempt(first(), &Outcome::Succeeded(Report::default()), attempts, now, BACKOFF_BASE),
                Next::Succeeded
            );
        }
        for class in FailureClass::ALL.into_iter().filter(|class| !ENDING.contains(class)) {
            for (attempts, delay) in [(1, 60), (2, 120), (3, 240), (4, 480)] {
                let next = after_attempt(first(), &failed(class), attempts, now, BACKOFF_BASE);
                assert_eq!(next, Next::RetryAt(at(1_000 + delay)));
                assert_eq!(next.status(), Status::Failed);
            }
            let last = after_attempt(first(), &failed(class), 5, now, BACKOFF_BASE);
            assert_eq!((last, last.status()), (Next::DeadLetter, Status::DeadLetter));
        }
    }

    #[test]
    fn retries_of_one_moment_are_spread_over_two_seconds_and_never_earlier() {
        let now = at(1_000);
        let retry = |random: [u8; 10], attempts| match after_attempt(
            DeliveryId::new(now, random),
            &failed(FailureClass::Refused),
            attempts,
            now,
            BACKOFF_BASE,
        ) {
            Next::RetryAt(due) => due.duration_since(now).as_millis(),
            next => panic!("{next:?}"),
        };
        let ids = (0..=255).map(|byte| [byte; 10]);
        for (attempts, delay_ms) in [(1, 60_000), (2, 120_000), (3, 240_000), (4, 480_000)] {
            let mut due: Vec<i128> = ids.clone().map(|random| retry(random, attempts)).collect();
            assert!(due.iter().all(|due| (delay_ms..=delay_ms + 2_000).contains(due)));
            due.dedup();
            assert_eq!(due.len(), 256, "each has its own time");
            assert_eq!(retry([7; 10], attempts), retry([7; 10], attempts));
        }
    }

    #[test]
    fn spread_is_a_thirtieth_of_a_short_backoff_at_most() {
        let last = DeliveryId::new(at(0), [0xff; 10]);
        let base = Duration::from_millis(150);
        let next = after_attempt(last, &failed(FailureClass::Refused), 1, at(1_000), base);
        assert_eq!(next, Next::RetryAt(at(1_000) + Duration::from_millis(310)));
        let next = after_attempt(last, &failed(FailureClass::Refused), 1, at(1_000), BACKOFF_BASE);
        assert_eq!(next, Next::RetryAt(at(1_062)));
    }

    #[test]
    fn deleted_webhook_or_event_that_cannot_be_sent_ends_the_delivery_at_the_first_attempt() {
        for class in ENDING {
            assert_eq!(after_attempt(first(), &failed(class), 1, at(0), BACKOFF_BASE), Next::DeadLetter);
        }
    }

    #[test]
    fn lost_attempt_is_repeated_at_once_and_a_second_lost_one_after_the_backoff() {
        let after = |attempts, lost| after_lost_attempt(first(), attempts, lost, at(1_000), BACKOFF_BASE);
        assert_eq!(after(1, 0), Next::RetryAt(at(1_000)));
        assert_eq!(after(4, 0), Next::RetryAt(at(1_000)));
        assert_eq!(after(2, 1), Next::RetryAt(at(1_120)));
        assert_eq!(after(4, 3), Next::RetryAt(at(1_480)));
        assert_eq!((after(5, 0), after(5, 4)), (Next::DeadLetter, Next::DeadLetter));
    }

    #[test]
    fn an_answer_is_cut_at_2000_characters_not_bytes() {
        let kept = kept_answer("é\0".repeat(3_000).as_bytes());
        assert_eq!(kept.chars().count(), 2_000);
        assert!(kept.chars().all(|c| c == 'é'));
        assert_eq!(kept_answer(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn statuses_parse_from_their_words() {
        assert_eq!("DeadLetter".parse(), Ok(Status::DeadLetter));
        assert_eq!("deadletter".parse::<Status>(), Err(UnknownWord(&Status::WORDS)));
    }

    #[test]
    fn delivery_ids_sort_by_time_as_text() {
        let (a, b) = (DeliveryId::new(at(1), [9; 10]), DeliveryId::new(at(2), [0; 10]));
        assert!(a.to_string() < b.to_string());
        assert_eq!(a.to_string().parse(), Ok(a));
    }
}
