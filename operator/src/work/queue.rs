//! The queue of objects to reconcile. An object runs at most once at a time. First come users' changes whose last steps are left, then
//! other changes of users, then new objects, then scheduled ones, then objects that no user waits for. Failures have a backoff.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::state::Urgency;
use crate::state::done::Done;

/// The delay after a first failure.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay after a failure.
pub const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// Keys in the order in which they are due.
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    wake: Notify,
}

#[derive(Debug)]
struct Inner<K> {
    /// Objects that are due, the most urgent first, and among equals in order of arrival, which the number counts.
    waiting: BTreeMap<(Reverse<Urgency>, u64), K>,
    /// Scheduled objects in order of time. The number separates two with the same time.
    scheduled: BTreeMap<(Instant, u64), K>,
    entries: HashMap<K, QueueEntry>,
    count: u64,
}

#[derive(Debug)]
struct QueueEntry {
    state: QueueState,
    failures: u32,
    /// The time since when the object is due.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Idle,
    Waiting(Urgency, u64),
    Scheduled(Instant, u64),
    Running,
    /// The object runs, and has changed meanwhile.
    RunningChanged(Urgency),
}

/// An object whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueKey<K> {
    /// The object.
    pub key: K,
    /// How long the object has been due.
    pub waited: Duration,
    /// Why it is the object's turn now.
    pub urgency: Urgency,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let inner =
            Inner { waiting: BTreeMap::new(), scheduled: BTreeMap::new(), entries: HashMap::new(), count: 0 };
        Self { inner: Mutex::new(inner), wake: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// The object changed: it is due, however often it failed before.
    pub fn changed(&self, key: K, urgency: Urgency) {
        self.inner.lock().changed(key, urgency, Instant::now());
        self.wake.notify_one();
    }

    /// The object is due because a turn was offered to it. An object that failed keeps its backoff: its next try takes the turn.
    pub fn offered(&self, key: K) {
        self.inner.lock().offered(key, Instant::now());
        self.wake.notify_one();
    }

    /// The object is due after `delay`, unless it is scheduled earlier.
    #[cfg(test)]
    fn after(&self, key: K, delay: Duration) {
        let now = Instant::now();
        self.inner.lock().schedule(key, now + delay, now);
        self.wake.notify_one();
    }

    /// Waits for the next object that is due; give it back with [`Queue::done`]. `closed_until` gets the time now, and returns when
    /// work that no user waits for may begin; `None`: at once.
    pub async fn take(&self, closed_until: impl Fn(Instant) -> Option<Instant>) -> DueKey<K> {
        loop {
            let next = {
                let (mut inner, now) = (self.inner.lock(), Instant::now());
                match inner.take(now, closed_until(now)) {
                    Ok(turn) => {
                        // Further objects may be due without a notification of their own.
                        self.wake.notify_one();
                        return turn;
                    }
                    Err(next) => next,
                }
            };
            match next {
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    /// Ends the pass over an object.
    pub fn done(&self, key: K, done: Done) {
        self.inner.lock().done(key, done, Instant::now());
        self.wake.notify_one();
    }

    /// Makes all failed objects due, because the cause of their failures may have ended.
    pub fn retry(&self) {
        self.inner.lock().retry(Instant::now());
        self.wake.notify_one();
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn entry(&mut self, key: &K, now: Instant) -> &mut QueueEntry {
        let idle = || QueueEntry { state: QueueState::Idle, failures: 0, since: now };
        self.entries.entry(key.clone()).or_insert_with(idle)
    }

    fn retry(&mut self, now: Instant) {
        let failed = self.entries.iter().filter(|(_, entry)| entry.failures > 0);
        for key in failed.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let failures = self.entry(&key, now).failures;
            self.changed(key.clone(), Urgency::Routine, now);
            // The number of failures stays, because the cause may be the same if it fails again.
            self.entry(&key, now).failures = failures;
        }
    }

    fn offered(&mut self, key: K, now: Instant) {
        if self.entries.get(&key).is_none_or(|entry| entry.failures == 0) {
            self.changed(key, Urgency::Routine, now);
        }
    }

    fn changed(&mut self, key: K, urgency: Urgency, now: Instant) {
        let number = self.count;
        self.count += 1;
        // What has changed is at least routine.
        let urgency = urgency.max(Urgency::Routine);
        let entry = self.entry(&key, now);
        entry.failures = 0;
        let before = entry.state;
        entry.state = match before {
            QueueState::Running => QueueState::RunningChanged(urgency),
            QueueState::RunningChanged(before) => QueueState::RunningChanged(before.max(urgency)),
            // The object keeps its place among objects of the same urgency.
            QueueState::Waiting(before, _) if before >= urgency => return,
            QueueState::Waiting(..) | QueueState::Idle | QueueState::Scheduled(..) => {
                QueueState::Waiting(urgency, number)
            }
        };
        match before {
            QueueState::Running | QueueState::RunningChanged(_) => return,
            QueueState::Idle => entry.since = now,
            QueueState::Scheduled(at, number) => {
                entry.since = now;
                self.scheduled.remove(&(at, number));
            }
            QueueState::Waiting(before, number) => {
                // For a more urgent object, a user has waited since then.
                if before == Urgency::Routine {
                    entry.since = now;
                }
                self.waiting.remove(&(Reverse(before), number));
            }
        }
        self.waiting.insert((Reverse(urgency), number), key);
    }

    fn schedule(&mut self, key: K, at: Instant, now: Instant) {
        let number = self.count;
        self.count += 1;
        let entry = self.entry(&key, now);
        let before = match entry.state {
            QueueState::Idle => None,
            QueueState::Scheduled(planned, number) if at < planned => Some((planned, number)),
            _ => return,
        };
        entry.state = QueueState::Scheduled(at, number);
        entry.since = at;
        if let Some(before) = before {
            self.scheduled.remove(&before);
        }
        self.scheduled.insert((at, number), key);
    }

    fn take(&mut self, now: Instant, closed_until: Option<Instant>) -> Result<DueKey<K>, Option<Instant>> {
        let (key, urgency) = self.next(now, closed_until)?;
        let entry = self.entry(&key, now);
        entry.state = QueueState::Running;
        let waited = now.saturating_duration_since(entry.since);
        Ok(DueKey { key, waited, urgency })
    }

    fn next(&mut self, now: Instant, closed_until: Option<Instant>) -> Result<(K, Urgency), Option<Instant>> {
        let first = self.waiting.first_key_value().map(|((Reverse(urgency), _), _)| *urgency);
        let planned = self.scheduled.first_key_value().map(|((at, _), _)| *at);
        match (first, planned, closed_until) {
            (Some(urgency), ..) if urgency > Urgency::Routine => {}
            (_, Some(at), _) if at <= now => {
                return Ok((self.scheduled.pop_first().expect("it has a first entry").1, Urgency::Scheduled));
            }
            (None, ..) => return Err(planned),
            (Some(_), _, Some(open)) => return Err(Some(planned.map_or(open, |at| at.min(open)))),
            (Some(_), _, None) => {}
        }
        let ((Reverse(urgency), _), key) = self.waiting.pop_first().expect("it has a first entry");
        Ok((key, urgency))
    }

    fn done(&mut self, key: K, done: Done, now: Instant) {
        let entry = self.entry(&key, now);
        let changed = match entry.state {
            QueueState::RunningChanged(urgency) => Some(urgency),
            _ => None,
        };
        entry.state = QueueState::Idle;
        let delay = match done {
            Done::After(delay) => {
                entry.failures = 0;
                delay
            }
            Done::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                Some(delay_after(entry.failures))
            }
            Done::Withheld => Some(FIRST_DELAY),
        };
        match (changed, delay) {
            (Some(urgency), _) => self.changed(key, urgency, now),
            (None, Some(delay)) => self.schedule(key, now + delay, now),
            (None, None) => {
                self.entries.remove(&key);
                // After a start all objects wait at once. This frees the memory that the table took for them.
                if self.entries.is_empty() {
                    self.entries = HashMap::new();
                }
            }
        }
    }
}

/// The delay after this number of failures in a row.
pub fn delay_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with a manual clock.
    struct Moved {
        inner: Inner<&'static str>,
        now: Instant,
        closed_until: Option<Instant>,
    }

    impl Moved {
        fn new() -> Self {
            Self { inner: Queue::default().inner.into_inner(), now: Instant::now(), closed_until: None }
        }

        fn changed(&mut self, key: &'static str) {
            self.inner.changed(key, Urgency::Awaited, self.now);
        }

        fn routine(&mut self, key: &'static str) {
            self.inner.changed(key, Urgency::Routine, self.now);
        }

        fn offered(&mut self, key: &'static str) {
            self.inner.offered(key, self.now);
        }

        fn finishing(&mut self, key: &'static str) {
            self.inner.changed(key, Urgency::Finishing, self.now);
        }

        fn after(&mut self, key: &'static str, seconds: u64) {
            self.inner.schedule(key, self.now + Duration::from_secs(seconds), self.now);
        }

        fn done(&mut self, key: &'static str, done: Done) {
            self.inner.done(key, done, self.now);
        }

        /// The next object, and after how many seconds it is due.
        fn next(&mut self) -> Option<(&'static str, u64)> {
            let begun = self.now;
            loop {
                match self.inner.take(self.now, self.closed_until.filter(|open| *open > self.now)) {
                    Ok(turn) => return Some((turn.key, (self.now - begun).as_secs())),
                    Err(None) => return None,
                    Err(Some(at)) => self.now = at,
                }
            }
        }
    }

    #[test]
    fn change_goes_ahead_of_planned_keys_and_counts_once() {
        let mut queue = Moved::new();
        queue.after("routine", 0);
        queue.changed("a");
        queue.changed("a");
        assert_eq!(queue.next(), Some(("a", 0)));
        assert_eq!(queue.next(), Some(("routine", 0)));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn users_change_goes_ahead_of_ten_thousand_passes_after_a_failover() {
        let mut queue = Moved::new();
        let many: Vec<&'static str> =
            (0..10_000).map(|number| &*Box::leak(format!("tenant-{number}").into_boxed_str())).collect();
        many.iter().for_each(|key| queue.routine(key));
        queue.changed("new");
        queue.changed(many[9_000]);
        queue.after("retried", 0);
        for key in ["new", many[9_000], "retried", many[0], many[1]] {
            assert_eq!(queue.next(), Some((key, 0)));
        }
        queue.routine(many[2]);
        assert_eq!(queue.next(), Some((many[2], 0)), "it keeps its place");
        queue.changed(many[2]);
        queue.done(many[2], Done::After(None));
        assert_eq!(queue.next(), Some((many[2], 0)), "its change is not lost");
    }

    /// Eight workers create the databases of 300 Tenants, which takes each of them a second. Pods report a second later.
    #[test]
    fn half_of_a_batch_is_finished_in_half_of_its_time() {
        let mut queue = Moved::new();
        let batch: Vec<&'static str> =
            (0..300).map(|number| &*Box::leak(format!("tenant-{number}").into_boxed_str())).collect();
        batch.iter().for_each(|key| queue.changed(key));
        let (begun, mut reported, mut finished) = (queue.now, Vec::new(), Vec::new());
        while finished.len() < batch.len() {
            for key in std::mem::take(&mut reported) {
                queue.finishing(key);
            }
            let mut workers = 8;
            while workers > 0
                && let Ok(turn) = queue.inner.take(queue.now, None)
            {
                if turn.urgency == Urgency::Finishing {
                    // The last steps take no time that counts.
                    finished.push((queue.now - begun).as_secs());
                } else {
                    workers -= 1;
                    reported.push(turn.key);
                }
                queue.done(turn.key, Done::After(None));
            }
            queue.now += Duration::from_secs(1);
        }
        let [first, half, all] = [0, 149, 299].map(|index: usize| finished[index]);
        assert!(first <= 3, "{first} s");
        assert!(half * 10 <= all * 6, "half after {half} s, all after {all} s");
    }

    #[test]
    fn object_moves_ahead_when_pods_report_on_it_and_has_waited_since_it_changed() {
        let mut queue = Moved::new();
        queue.changed("first");
        queue.changed("reported");
        queue.now += Duration::from_secs(5);
        queue.finishing("reported");
        let turn = queue.inner.take(queue.now, None).unwrap();
        let expected =
            DueKey { key: "reported", waited: Duration::from_secs(5), urgency: Urgency::Finishing };
        assert_eq!(turn, expected);
        queue.done("reported", Done::After(None));
        assert_eq!((queue.next(), queue.next()), (Some(("first", 0)), None), "it waits once");
    }

    #[test]
    fn last_steps_go_ahead_of_users_changes_and_keep_their_place() {
        let mut queue = Moved::new();
        queue.changed("new");
        queue.routine("a");
        queue.finishing("a");
        queue.changed("a");
        assert_eq!(queue.next(), Some(("a", 0)));
        queue.changed("a");
        queue.finishing("a");
        queue.done("a", Done::After(None));
        assert_eq!(queue.next(), Some(("a", 0)), "what was reported meanwhile");
        queue.finishing("a");
        queue.routine("a");
        queue.done("a", Done::After(None));
        assert_eq!(queue.next(), Some(("a", 0)), "also if something less urgent follows");
        queue.done("a", Done::After(None));
        assert_eq!(queue.next(), Some(("new", 0)));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn what_no_user_waits_for_yields_while_the_budget_is_spent() {
        let mut queue = Moved::new();
        queue.routine("routine");
        queue.closed_until = Some(queue.now + Duration::from_secs(2));
        queue.changed("change");
        queue.after("planned", 1);
        assert_eq!(queue.next(), Some(("change", 0)));
        assert_eq!(queue.next(), Some(("planned", 1)));
        assert_eq!(queue.next(), Some(("routine", 1)));
    }

    #[test]
    fn running_key_is_not_taken_again_and_its_change_is_not_lost() {
        let mut queue = Moved::new();
        queue.changed("a");
        assert_eq!(queue.next(), Some(("a", 0)));
        queue.changed("a");
        assert_eq!(queue.next(), None);
        queue.done("a", Done::After(Some(Duration::from_secs(600))));
        assert_eq!(queue.next(), Some(("a", 0)));
    }

    #[test]
    fn failed_key_backs_off_until_a_change() {
        let mut queue = Moved::new();
        queue.changed("a");
        queue.next();
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            queue.done("a", Done::Failed);
            assert_eq!(queue.next(), Some(("a", seconds)));
        }
        queue.done("a", Done::Failed);
        queue.changed("a");
        assert_eq!(queue.next(), Some(("a", 0)));
        queue.done("a", Done::Failed);
        assert_eq!(queue.next(), Some(("a", 1)));
    }

    #[test]
    fn offer_begins_a_pass_unless_the_last_one_failed() {
        let mut queue = Moved::new();
        queue.after("a", 600);
        queue.offered("a");
        assert_eq!(queue.next(), Some(("a", 0)));
        for seconds in [1, 2, 4] {
            queue.done("a", Done::Failed);
            queue.offered("a");
            assert_eq!(queue.next(), Some(("a", seconds)), "it keeps its backoff");
        }
        queue.done("a", Done::After(Some(Duration::from_secs(600))));
        queue.offered("a");
        assert_eq!(queue.next(), Some(("a", 0)), "the last pass did not fail");
    }

    #[test]
    fn success_ends_the_backoff_and_a_pass_that_was_withheld_does_not_count() {
        let mut queue = Moved::new();
        queue.changed("a");
        queue.next();
        for seconds in [1, 2, 4] {
            queue.done("a", Done::Failed);
            assert_eq!(queue.next(), Some(("a", seconds)));
        }
        queue.done("a", Done::Withheld);
        assert_eq!(queue.next(), Some(("a", 1)), "it is tried again soon");
        queue.done("a", Done::Failed);
        assert_eq!(queue.next(), Some(("a", 8)), "it was no failure, and no success");
        queue.done("a", Done::After(Some(Duration::from_secs(600))));
        assert_eq!(queue.next(), Some(("a", 600)));
        queue.done("a", Done::Failed);
        assert_eq!(queue.next(), Some(("a", 1)));
        queue.done("a", Done::After(None));
        assert!(queue.inner.entries.is_empty(), "nothing is kept of it");
    }

    #[test]
    fn object_waits_from_the_time_at_which_it_is_due() {
        let mut queue = Moved::new();
        let second = Duration::from_secs(1);
        queue.after("planned", 5);
        queue.changed("changed");
        queue.now += 7 * second;
        queue.changed("changed");
        let waited =
            |queue: &mut Moved| queue.inner.take(queue.now, None).map(|turn| (turn.key, turn.waited));
        assert_eq!(waited(&mut queue), Ok(("changed", 7 * second)));
        assert_eq!(waited(&mut queue), Ok(("planned", 2 * second)));
    }

    #[test]
    fn earlier_of_two_plans_counts() {
        let mut queue = Moved::new();
        queue.after("a", 100);
        queue.after("a", 5);
        queue.after("a", 50);
        assert_eq!(queue.next(), Some(("a", 5)));
        queue.done("a", Done::After(None));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn retry_is_immediate_and_keeps_the_backoff() {
        let mut queue = Moved::new();
        queue.changed("a");
        queue.next();
        for _ in 0..3 {
            queue.done("a", Done::Failed);
            queue.next();
        }
        queue.done("a", Done::Failed);
        queue.after("well", 9);
        queue.inner.retry(queue.now);
        assert_eq!(queue.next(), Some(("a", 0)));
        queue.done("a", Done::Failed);
        assert_eq!(queue.next(), Some(("well", 9)));
        assert_eq!(queue.next(), Some(("a", 7)));
    }

    #[tokio::test]
    async fn waiting_take_is_woken() {
        let queue = std::sync::Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { (queue.take(|_| None).await.key, queue.take(|_| None).await.key) }
        });
        queue.after("later", Duration::from_millis(5));
        queue.changed("now", Urgency::Awaited);
        assert_eq!(waiting.await.unwrap(), ("now", "later"));
    }
}
