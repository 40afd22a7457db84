//! The outbox notifies the schedule of deliveries. Their rows are the truth, and a sweep finds the rows that the schedule does not know.
//!
//! * Before the commit, the outbox announces the deliveries: they are due after one [`LEASE`]. So a process that dies between the COMMIT
//!   and the notification delays them by that time, and not until the next sweep.
//! * After the commit, the outbox notifies the schedule of when they are due. If that fails, the outbox retries for 30 s. Then a sweep finds
//!   the rows.
//! * After a commit that failed or got no response, the caller drops its [`Ticket`]. After the lease, a worker claims the deliveries and
//!   looks for the rows.
//!
//! The sweep and the command line call the schedule themselves. The sweep must know for which deliveries the schedule has no room, and
//! repeats itself. A command ends before it could retry.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::LEASE;
use docket_schedule::{Entry, HandOffs, Hint, Room, Schedule, ScheduleError};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::telemetry::Metrics;
use crate::tenancy::Tenants;

/// How long a caller waits for the schedule.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How long the circuit breaker stays open after a call without a response.
const OPEN: Duration = Duration::from_secs(1);
/// The most entries of one announcement: some 50 ms of Redis. The schedule is notified of the others only after their commit.
const MOST_ANNOUNCED: usize = 2_500;
/// How often and for how long a failed notification is retried; then the sweep finds the rows.
const RETRY_EVERY: Duration = Duration::from_millis(500);
const RETRY_FOR: Duration = Duration::from_secs(30);
/// The most hints that wait for a retry: some megabytes.
const MAX_PENDING: usize = 10_000;

/// Notifies the schedule of deliveries before and after their commit; one per process.
pub struct Outbox {
    /// The schedule.
    pub schedule: Arc<Schedule>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) metrics: Arc<Metrics>,
    breaker: Breaker,
    /// Hints to retry, each with the time of its first failure, oldest first. While hints are pending, one task retries.
    pending: Mutex<VecDeque<(Instant, Hint)>>,
}

/// Deliveries that are announced, and not committed yet. A dropped ticket loses nothing, also if the commit succeeded.
#[must_use = "the deliveries of committed rows are due only after one lease"]
pub struct Ticket {
    outbox: Arc<Outbox>,
    hints: Vec<Hint>,
}

impl Ticket {
    /// Whether the schedule needs no notification.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty()
    }

    /// Notifies the schedule of the rows, which are committed; see [`Outbox::committed`].
    pub async fn committed(self) {
        self.outbox.committed(self.hints).await;
    }
}

impl Outbox {
    /// Creates the outbox of this schedule. `tenants` records which tenants are at a limit.
    pub fn new(schedule: Arc<Schedule>, tenants: Arc<Tenants>, metrics: Arc<Metrics>) -> Arc<Self> {
        let breaker = Breaker { metrics: Arc::clone(&metrics), open_until: Mutex::default() };
        Arc::new(Self { schedule, tenants, metrics, breaker, pending: Mutex::default() })
    }

    /// Announces deliveries whose rows are about to be committed. Takes at most half a second.
    pub async fn before(self: &Arc<Self>, hints: Vec<Hint>) -> Ticket {
        self.hand_off(hints, Room::default()).await.0
    }

    /// Claims deliveries that are about to be committed, as many as have `room` ([`Schedule::hand_off`]), and announces the others. The
    /// ticket is for the others.
    pub async fn hand_off(self: &Arc<Self>, mut hints: Vec<Hint>, room: Room) -> (Ticket, HandOffs) {
        let handed_off = self.announce(&hints, room).await;
        // The claims are in the order of the hints.
        let mut claimed = handed_off.claims.iter().map(|claim| claim.entry.id).peekable();
        hints.retain(|hint| claimed.next_if_eq(&hint.entry.id).is_none());
        (Ticket { outbox: Arc::clone(self), hints }, handed_off)
    }

    /// Calls the schedule with at most [`MOST_ANNOUNCED`] of the hints, unless the circuit breaker is open.
    async fn announce(&self, hints: &[Hint], room: Room) -> HandOffs {
        if hints.is_empty() {
            return HandOffs::default();
        }
        let entries: Vec<Entry> = hints.iter().take(MOST_ANNOUNCED).map(|hint| hint.entry.clone()).collect();
        let asked = entries.len();
        let response = self.breaker.call(self.schedule.hand_off(entries, room, LEASE)).await;
        let announced = if response.is_some() { asked } else { 0 };
        self.metrics.delivery.not_announced(hints.len() - announced);
        let handed_off = response.unwrap_or_default();
        self.tenants.at_limit.deliveries_wait(&handed_off);
        handed_off
    }

    /// Notifies the schedule of committed rows, or leaves that to a task that retries. Takes at most half a second. The caller has no
    /// connection to a database any more, so the circuit breaker does not stop it.
    pub async fn committed(self: &Arc<Self>, hints: Vec<Hint>) {
        if hints.is_empty() {
            return;
        }
        let failed = match timeout(TIMEOUT, self.schedule.put(hints.clone())).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no response within {} ms", TIMEOUT.as_millis()),
        };
        // One line in the log and one task, and not one for each call until the schedule is back.
        if self.keep(hints) {
            tracing::warn!(
                error = failed,
                "schedule not notified of new deliveries; retrying, then a sweep finds them"
            );
            let outbox = Arc::clone(self);
            tokio::spawn(run_to_its_end(move || Arc::clone(&outbox).retry()));
        }
    }

    /// Keeps hints for the retry, and gives up those for which there is no room. Returns whether none was pending.
    fn keep(&self, hints: Vec<Hint>) -> bool {
        let now = Instant::now();
        let mut pending = self.pending.lock();
        let was_empty = pending.is_empty();
        let room = MAX_PENDING.saturating_sub(pending.len());
        self.metrics.delivery.given_up(hints.len().saturating_sub(room));
        pending.extend(hints.into_iter().take(room).map(|hint| (now, hint)));
        self.metrics.delivery.pending(pending.len());
        was_empty
    }

    /// Retries until no hint is pending.
    async fn retry(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RETRY_EVERY).await;
            let hints = self.left();
            let count = hints.len();
            if count == 0 {
                return;
            }
            // A repeated hint does no harm: the rows decide.
            if self.schedule.put(hints).await.is_err() {
                continue;
            }
            tracing::info!(count, "schedule notified of the deliveries it had missed");
            let mut pending = self.pending.lock();
            // Hints that were added meanwhile come after these hints.
            pending.drain(..count);
            self.metrics.delivery.pending(pending.len());
            // Under the lock: the next call that adds a hint starts another task.
            if pending.is_empty() {
                return;
            }
        }
    }

    /// Gives up the hints that have been pending for too long, and returns the others with the time that is left of their wait.
    fn left(&self) -> Vec<Hint> {
        let now = Instant::now();
        let mut pending = self.pending.lock();
        let over = pending.iter().take_while(|(since, _)| now - *since > RETRY_FOR).count();
        pending.drain(..over);
        self.metrics.delivery.given_up(over);
        self.metrics.delivery.pending(pending.len());
        let left = |(since, hint): &(Instant, Hint)| Hint {
            entry: hint.entry.clone(),
            wait: hint.wait.saturating_sub(now - *since),
        };
        pending.iter().map(left).collect()
    }
}

/// Runs a task to its end, and starts it again after each panic: while hints are pending, no call starts another retry. The retry begins
/// with a pause, so that it panics at most twice a second.
async fn run_to_its_end<F: Future<Output = ()> + Send + 'static>(task: impl Fn() -> F) {
    while tokio::spawn(task()).await.is_err_and(|error| error.is_panic()) {}
}

/// The circuit breaker: while the schedule hangs, one save a second waits for it, and the others do without it. A save holds a connection to
/// its database meanwhile, so that saves of some tenants would keep all connections from the others.
#[derive(Default)]
struct Breaker {
    /// Until when the breaker is open, so that no call is made; `None`: the breaker is closed.
    open_until: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

impl Breaker {
    /// Waits for the call, at most half a second. `None`: it failed or did not respond in time, or the breaker is open.
    async fn call<T>(&self, call: impl Future<Output = Result<T, ScheduleError>>) -> Option<T> {
        {
            let mut open_until = self.open_until.lock();
            if let Some(until) = *open_until {
                let now = Instant::now();
                if now < until {
                    return None;
                }
                // Half-open: this call is the trial, and the breaker is open to the others.
                *open_until = Some(now + TIMEOUT);
            }
        }
        let response = timeout(TIMEOUT, call).await;
        // A failure opens nothing: it takes no time.
        let open_until = response.is_err().then(|| Instant::now() + OPEN);
        *self.open_until.lock() = open_until;
        self.metrics.delivery.breaker_open(open_until);
        response.ok().and_then(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use docket_domain::delivery::DeliveryId;
    use docket_program::clock::{Clock, ManualClock};
    use docket_program::owner::Owner;
    use docket_redis::{Keys, RedisConnection, RedisUrl};
    use docket_rig::redis::RedisServer;
    use docket_schedule::SHARES;
    use jiff::Timestamp;

    use super::*;

    struct Rig {
        outbox: Arc<Outbox>,
        metrics: Arc<Metrics>,
        /// The clock of the schedule.
        time: ManualClock,
    }

    impl Rig {
        fn new() -> Self {
            let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
            let schedule = Schedule::in_memory(Clock::Manual(time.clone()), SHARES);
            let metrics = Arc::<Metrics>::default();
            let outbox = Outbox::new(Arc::new(schedule), Arc::default(), Arc::clone(&metrics));
            Self { outbox, metrics, time }
        }

        /// Claims what is due, and returns how many deliveries that is.
        async fn claim(&self) -> usize {
            let room = Room { slots: 9, slow: 9, without_claim: 0 };
            self.outbox.schedule.claim(room, LEASE).await.expect("it is in memory").len()
        }

        /// How many hints are pending and were given up.
        fn pending(&self) -> (usize, usize) {
            let [pending, given_up] =
                ["docket_notifications_pending ", "docket_notifications_given_up_total "]
                    .map(|series| number(&self.metrics, series));
            (pending, given_up)
        }
    }

    fn number(metrics: &Metrics, series: &str) -> usize {
        let text = metrics.text();
        text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).expect("a number")
    }

    fn is_open(breaker: &Breaker) -> bool {
        number(&breaker.metrics, "docket_schedule_left_alone ") == 1
    }

    /// Hints for `count` deliveries that are due at once.
    fn hints(count: usize) -> Vec<Hint> {
        let hint = |number: usize| {
            let mut random = [0; 10];
            random[2..].copy_from_slice(&number.to_be_bytes());
            let id = DeliveryId::new(Timestamp::UNIX_EPOCH, random);
            Hint { entry: Entry { tenant: "a".into(), webhook: "w".into(), id }, wait: Duration::ZERO }
        };
        (0..count).map(hint).collect()
    }

    /// The other tests use these by name, so a wrong unit or a missing digit would change the tests as well.
    #[test]
    fn times_and_bounds_are_the_documented_ones() {
        let times = [TIMEOUT, OPEN, RETRY_EVERY, RETRY_FOR];
        assert_eq!(times.map(|time| time.as_millis()), [500, 1_000, 500, 30_000]);
        assert_eq!((MOST_ANNOUNCED, MAX_PENDING), (2_500, 10_000));
    }

    #[tokio::test]
    async fn announced_deliveries_are_due_at_once_after_their_commit() {
        let rig = Rig::new();
        let ticket = rig.outbox.before(hints(2)).await;
        assert_eq!(rig.claim().await, 0);
        ticket.committed().await;
        assert_eq!(rig.claim().await, 2);
        assert_eq!(rig.pending(), (0, 0));
    }

    /// A ticket is dropped after a commit that failed or got no response. A process that dies drops all its tickets.
    #[tokio::test]
    async fn announced_deliveries_whose_ticket_is_dropped_are_due_after_one_lease() {
        let rig = Rig::new();
        drop(rig.outbox.before(hints(2)).await);
        rig.time.advance(LEASE - Duration::from_millis(1));
        assert_eq!(rig.claim().await, 0);
        rig.time.advance(Duration::from_millis(1));
        assert_eq!(rig.claim().await, 2);
    }

    #[tokio::test]
    async fn ticket_of_a_hand_off_is_for_deliveries_without_a_claim() {
        let rig = Rig::new();
        let room = Room { slots: 2, slow: 2, without_claim: 0 };
        let (ticket, handed_off) = rig.outbox.hand_off(hints(3), room).await;
        assert_eq!(handed_off.claims.len(), 2);
        assert_eq!(ticket.hints, hints(3)[2..]);
        ticket.committed().await;
        assert_eq!(rig.claim().await, 1);
        let (ticket, _) = rig.outbox.hand_off(Vec::new(), room).await;
        assert!(ticket.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn pending_hints_are_repeated_with_the_rest_of_their_wait() {
        let rig = Rig::new();
        let mut hints = hints(2);
        hints[1].wait = Duration::from_secs(1);
        assert!(rig.outbox.keep(hints));
        assert_eq!(rig.pending(), (2, 0));
        Arc::clone(&rig.outbox).retry().await;
        assert_eq!((rig.claim().await, rig.pending()), (1, (0, 0)));
        rig.time.advance(Duration::from_millis(500));
        assert_eq!(rig.claim().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pending_hints_are_bounded_and_given_up_after_30_s() {
        let rig = Rig::new();
        assert!(rig.outbox.keep(hints(MAX_PENDING + 3)));
        assert!(!rig.outbox.keep(hints(1)), "some are pending");
        assert_eq!(rig.pending(), (MAX_PENDING, 4));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(rig.outbox.left().len(), MAX_PENDING);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(rig.outbox.left(), []);
        assert_eq!(rig.pending(), (0, MAX_PENDING + 4));
        Arc::clone(&rig.outbox).retry().await;
        assert!(rig.outbox.keep(hints(1)), "the task has ended");
    }

    /// Redis stands still, so that a call takes a while.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hint_that_comes_while_others_are_repeated_stays_pending() {
        let redis = RedisServer::start(&[]);
        let url = RedisUrl::parse(&redis.url()).expect("a URL");
        let connection = RedisConnection::new(url, None).expect("without TLS");
        let (keys, owner) = (Keys::new(None).expect("the only one"), Owner::new(b"process"));
        let schedule = Arc::new(Schedule::on_redis(connection, &keys, owner, SHARES));
        assert_eq!(schedule.next_due().await.expect("it responds"), None);
        let outbox = Outbox::new(Arc::clone(&schedule), Arc::default(), Arc::default());
        let mut both = hints(2);
        assert!(outbox.keep(both.split_off(1)));
        redis.freeze();
        let retry = tokio::spawn(Arc::clone(&outbox).retry());
        tokio::time::sleep(RETRY_EVERY + Duration::from_millis(200)).await;
        assert!(!outbox.keep(both));
        redis.thaw();
        retry.await.expect("no panic");
        let room = Room { slots: 9, slow: 9, without_claim: 0 };
        assert_eq!(schedule.claim(room, LEASE).await.expect("it responds").len(), 2);
    }

    #[tokio::test]
    async fn task_that_panics_runs_again_until_it_ends() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        run_to_its_end(move || {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert_eq!(run, 2, "it panics twice") }
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_schedule_hangs_one_caller_waits_in_a_while() {
        let breaker = Breaker::default();
        let hangs = || pending::<Result<(), ScheduleError>>();
        let began = Instant::now();
        let took = || began.elapsed().as_millis();
        assert_eq!(breaker.call(ready(Ok(1))).await, Some(1));
        assert_eq!(breaker.call(hangs()).await, None);
        assert_eq!(took(), 500);
        assert!(is_open(&breaker));
        assert_eq!(breaker.call(ready(Ok(1))).await, None, "no caller asks it");
        tokio::time::advance(OPEN).await;
        assert!(!is_open(&breaker), "the next caller asks");
        let (one, other) = tokio::join!(breaker.call(hangs()), breaker.call(ready(Ok(1))));
        assert_eq!((one, other, took()), (None, None, 2_000), "one asks");
        tokio::time::advance(OPEN).await;
        assert_eq!(breaker.call(ready(Ok(1))).await, Some(1));
        assert_eq!(breaker.call(ready(Ok(2))).await, Some(2));
        assert!(!is_open(&breaker));
        let refused = || ready(Err::<(), _>(ScheduleError("refused".into())));
        assert_eq!(breaker.call(refused()).await, None);
        assert_eq!(breaker.call(ready(Ok(3))).await, Some(3), "a failure takes no time");
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_that_are_not_announced_are_counted() {
        let rig = Rig::new();
        let not_announced = || number(&rig.metrics, "docket_deliveries_not_announced_total ");
        drop(rig.outbox.before(hints(2)).await);
        assert_eq!(not_announced(), 0);
        drop(rig.outbox.before(hints(MOST_ANNOUNCED + 3)).await);
        assert_eq!(not_announced(), 3, "too many of one call");
        assert_eq!(rig.outbox.breaker.call(pending::<Result<(), ScheduleError>>()).await, None);
        drop(rig.outbox.before(hints(5)).await);
        assert_eq!(not_announced(), 8, "the breaker is open");
    }
}
