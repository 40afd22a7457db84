//! Save permits: how many deliveries the saves of a tenant may make at a time, in this process.
//!
//! A save waits for a permit for each of its deliveries, so that a burst of saves goes no faster than its deliveries. A delivery for which
//! the schedule has no place is queued, which costs twice as much, so the burst would fall behind ever more. A permit is free again when
//! its claim is settled, and ends 0.1 s after the claim at the latest: slow receivers must not delay the saves of their tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::{Clock, millis};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Admission;

/// How long a permit lasts after the claim of its delivery.
const LASTS: Duration = Duration::from_millis(100);
/// How long a save waits. With 12,500 deliveries a second, each of 256 clients whose orders make ten deliveries waits for 0.2 s.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The semaphore of each tenant, by its uid and the number of its permits.
pub(super) type Permits = Mutex<HashMap<(Arc<str>, usize), Arc<Semaphore>>>;

/// The permits of a group of saves, whose deliveries are not claimed yet. They are free again when this is dropped.
pub struct SavePermits(OwnedSemaphorePermit);

/// The permit of one claim, which is free again when this is dropped. The permits of a group are one value, which each claim shares.
pub(in crate::delivery) struct SavePermit(Arc<Mutex<OwnedSemaphorePermit>>);

impl Admission {
    /// Waits for a permit for each of the `deliveries` of a tenant that has `most` permits, or for half of `most`. `None`: they were not free
    /// until 0.25 s after `since`, by [`Clock::elapsed`].
    pub(in crate::delivery) async fn save(
        &self,
        tenant_uid: &Arc<str>,
        most: usize,
        since: Duration,
        deliveries: usize,
    ) -> Option<SavePermits> {
        let count = u32::try_from(deliveries.min(most.div_ceil(2))).ok()?;
        let left = (since + LONGEST_WAIT).saturating_sub(self.clock.elapsed());
        tokio::select! {
            // Biased: a save that has waited for too long still takes permits that are free.
            biased;
            permits = self.semaphore(tenant_uid, most).acquire_many_owned(count) => permits.ok().map(SavePermits),
            () = self.clock.sleep(left) => None,
        }
    }

    /// Returns the semaphore of a tenant. A tenant whose limit changes gets a new semaphore.
    fn semaphore(&self, tenant_uid: &Arc<str>, most: usize) -> Arc<Semaphore> {
        let (key, mut semaphores) = ((Arc::clone(tenant_uid), most), self.permits.lock());
        if !semaphores.contains_key(&key) {
            // A semaphore that only this map refers to has all of its permits.
            semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        Arc::clone(semaphores.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most))))
    }
}

impl SavePermits {
    /// Returns the number of permits.
    pub fn count(&self) -> usize {
        self.0.num_permits()
    }

    /// Takes permits that are free until there are `wanted`.
    pub fn grow(&mut self, wanted: usize) {
        let semaphore = self.0.semaphore();
        let more = wanted.saturating_sub(self.count()).min(semaphore.available_permits());
        // Another group may take permits between these two lines. Then this group does not grow.
        if let Ok(permits) = Arc::clone(semaphore).try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
            self.0.merge(permits);
        }
    }

    /// Returns a permit for each of the claims, if there are enough, and keeps one for each delivery that was `queued` although its webhook
    /// is quick. All of these end 0.1 s from now. The rest is free at once.
    pub(in crate::delivery) fn assign(
        self,
        clock: &Clock,
        claims: usize,
        queued: usize,
    ) -> impl Iterator<Item = SavePermit> {
        let mut permits = self.0;
        drop(permits.split(permits.num_permits().saturating_sub(claims + queued)));
        let claims = claims.min(permits.num_permits());
        let (permits, end_ms) = (Arc::new(Mutex::new(permits)), clock.now_ms() + millis(LASTS));
        let (clock, ending) = (clock.clone(), Arc::clone(&permits));
        tokio::spawn(async move {
            clock.sleep_until_ms(end_ms).await;
            let mut permits = ending.lock();
            let left = permits.num_permits();
            drop(permits.split(left));
        });
        (0..claims).map(move |_| SavePermit(Arc::clone(&permits)))
    }
}

impl Drop for SavePermit {
    fn drop(&mut self) {
        // `split` returns `None` if the permits have ended.
        drop(self.0.lock().split(1));
    }
}

#[cfg(test)]
mod tests {
    use docket_program::clock::ManualClock;
    use futures_util::FutureExt;
    use jiff::Timestamp;

    use super::*;

    const MOST: usize = 10;
    const MS: Duration = Duration::from_millis(1);

    struct Stage {
        admission: Arc<Admission>,
        clock: Clock,
        time: ManualClock,
        tenant: Arc<str>,
    }

    impl Stage {
        fn new() -> Self {
            let time = ManualClock::new(Timestamp::UNIX_EPOCH);
            let clock = Clock::Manual(time.clone());
            Self { admission: Admission::new(clock.clone(), 0), clock, time, tenant: "a".into() }
        }

        fn wait(&self, wanted: usize) -> impl Future<Output = Option<SavePermits>> {
            self.admission.save(&self.tenant, MOST, Duration::MAX / 2, wanted)
        }

        /// Takes permits without waiting.
        fn now(&self, wanted: usize) -> Option<SavePermits> {
            self.wait(wanted).now_or_never().flatten()
        }

        fn all(&self) -> SavePermits {
            let mut permits = self.now(MOST).expect("they are free");
            permits.grow(MOST);
            assert_eq!(permits.count(), MOST);
            permits
        }

        /// Takes all permits, for this number of claims and of queued deliveries of quick webhooks.
        fn assigned(&self, claims: usize, queued: usize) -> Vec<SavePermit> {
            self.all().assign(&self.clock, claims, queued).collect()
        }

        /// Moves the clock, and runs the tasks that waited for that time.
        async fn advance(&self, by: Duration) {
            self.time.advance(by);
            for _ in 0..9 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn count(permits: Option<SavePermits>) -> Option<usize> {
        permits.map(|permits| permits.count())
    }

    #[test]
    fn what_is_wanted_is_taken_once_it_is_free() {
        let stage = Stage::new();
        let (four, three) = (stage.now(4), stage.now(3));
        assert_eq!(four.as_ref().map(SavePermits::count), Some(4));
        assert_eq!(three.as_ref().map(SavePermits::count), Some(3));
        assert!(stage.now(4).is_none(), "three are free");
        let other: Arc<str> = "b".into();
        let of_other = stage.admission.save(&other, MOST, Duration::ZERO, 4).now_or_never();
        assert!(of_other.flatten().is_some(), "it has its own");
        let mut wait = Box::pin(stage.wait(4));
        assert!(wait.as_mut().now_or_never().is_none());
        drop(four);
        assert_eq!(count(wait.now_or_never().flatten()), Some(4));
        drop(three);
        let third: Arc<str> = "c".into();
        assert_eq!(
            count(stage.admission.save(&third, MOST, Duration::ZERO, 1).now_or_never().flatten()),
            Some(1)
        );
        assert_eq!(
            stage.admission.permits.lock().len(),
            1,
            "tenants whose permits are all free are forgotten"
        );
    }

    #[test]
    fn a_wait_takes_at_most_half_of_the_permits() {
        let stage = Stage::new();
        let (first, second) = (stage.now(99), stage.now(99));
        assert_eq!((count(first), count(second)), (Some(5), Some(5)));
        let other: Arc<str> = "b".into();
        let one = stage.admission.save(&other, 1, Duration::ZERO, 3).now_or_never().flatten();
        assert_eq!(count(one), Some(1), "it has only one");
    }

    #[test]
    fn permits_grow_to_what_is_free() {
        let stage = Stage::new();
        let _four = stage.now(4);
        let mut two = stage.now(2).expect("they are free");
        two.grow(1);
        assert_eq!(two.count(), 2);
        two.grow(3);
        assert_eq!(two.count(), 3);
        two.grow(99);
        assert_eq!(two.count(), 6);
        drop(two);
        assert!(stage.now(5).is_some());
    }

    #[tokio::test]
    async fn a_permit_of_a_claim_is_free_on_its_own() {
        let stage = Stage::new();
        let mut of_claims = stage.assigned(9, 0);
        assert_eq!(of_claims.len(), 9);
        assert!(stage.now(2).is_none(), "one was not needed");
        of_claims.truncate(6);
        assert!(stage.now(4).is_some());
        drop(of_claims);
        assert_eq!(stage.assigned(99, 99).len(), MOST, "there are no more");
    }

    #[tokio::test]
    async fn a_permit_lasts_for_a_tenth_of_a_second() {
        let stage = Stage::new();
        let of_claim = stage.assigned(1, MOST - 1);
        let mut wait = Box::pin(stage.wait(MOST));
        assert!(wait.as_mut().now_or_never().is_none(), "a permit of a queued delivery counts too");
        stage.advance(Duration::from_millis(99)).await;
        assert!(wait.as_mut().now_or_never().is_none());
        stage.advance(MS).await;
        assert_eq!(count(wait.now_or_never().flatten()), Some(MOST / 2));
        drop(of_claim);
        let _all = stage.all();
        assert!(stage.now(1).is_none(), "it is not freed twice");
    }

    #[tokio::test]
    async fn no_wait_is_longer_than_a_quarter_of_a_second() {
        let stage = Stage::new();
        stage.advance(Duration::from_millis(200)).await;
        let all = stage.all();
        let mut wait = Box::pin(stage.admission.save(&stage.tenant, MOST, Duration::ZERO, 1));
        stage.advance(Duration::from_millis(49)).await;
        assert!(wait.as_mut().now_or_never().is_none());
        stage.advance(MS).await;
        assert!(wait.await.is_none(), "it began when the save came");
        drop(all);
        let late = stage.admission.save(&stage.tenant, MOST, Duration::ZERO, 1).await;
        assert_eq!(count(late), Some(1), "a late save takes what is free");
    }

    #[tokio::test]
    async fn permits_last_from_the_claim_on() {
        let stage = Stage::new();
        let mut five = stage.now(MOST).expect("they are free");
        stage.advance(LONGEST_WAIT).await;
        five.grow(MOST - 1);
        assert_eq!(five.count(), MOST - 1);
        assert!(stage.now(2).is_none());
        let _of_claims: Vec<SavePermit> = five.assign(&stage.clock, MOST - 1, 0).collect();
        stage.advance(LASTS - MS).await;
        assert!(stage.now(2).is_none());
        stage.advance(MS).await;
        assert!(stage.now(2).is_some());
    }

    #[tokio::test]
    async fn group_that_has_waited_longest_gets_its_permits_first() {
        let stage = Stage::new();
        let mut of_claims = stage.assigned(MOST, 0);
        let (mut first, mut second) = (Box::pin(stage.wait(4)), Box::pin(stage.wait(1)));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        of_claims.truncate(MOST - 3);
        assert!(second.as_mut().now_or_never().is_none(), "three of the first one's four are free");
        assert!(first.as_mut().now_or_never().is_none());
        of_claims.truncate(MOST - 4);
        assert_eq!(count(first.await), Some(4));
        assert_eq!(count(second.await), Some(1));
    }

    #[tokio::test]
    async fn tenant_with_one_permit_saves_on_while_its_receiver_is_slow() {
        let stage = Stage::new();
        let wait = || stage.admission.save(&stage.tenant, 1, stage.clock.elapsed(), 8);
        let first = wait().await.expect("it is free");
        let _slow: Vec<SavePermit> = first.assign(&stage.clock, 1, 0).collect();
        let mut second = Box::pin(wait());
        assert!(second.as_mut().now_or_never().is_none());
        stage.advance(LASTS).await;
        let second = second.await.expect("the first one has ended");
        // The schedule has no place for this delivery, whose webhook is not quick any more.
        assert_eq!(second.assign(&stage.clock, 0, 0).count(), 0);
        assert!(wait().now_or_never().flatten().is_some());
    }

    #[test]
    fn tenant_whose_limit_changes_has_as_many_permits_at_once() {
        let stage = Stage::new();
        let all = stage.all();
        let of = |most| {
            count(stage.admission.save(&stage.tenant, most, Duration::ZERO, 99).now_or_never().flatten())
        };
        assert_eq!(of(20), Some(10));
        assert_eq!(of(2), Some(1));
        drop(all);
        assert_eq!(of(2), Some(1));
    }
}
