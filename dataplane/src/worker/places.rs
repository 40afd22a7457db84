//! The places of a tenant that the hand-offs of this process use, each until its claim is settled.
//!
//! A save waits until there are places for its deliveries, so that a burst of saves goes no faster than its deliveries. What finds no
//! place is queued, which costs twice as much, so that the burst would fall behind ever more. But no place counts for longer than
//! 0.1 s, and no save waits for longer than a quarter of a second: slow receivers must not delay the saves of their tenant.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Places count from the beginning of a slice of time to the end of the tenth.
const SLICE_MS: u64 = 10;
const SLICES: u64 = 10;
/// How long a save waits. With 12,500 deliveries a second, each of 256 clients whose orders make ten deliveries waits for 0.2 s.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The places of tenants.
pub(super) struct Places {
    clock: Clock,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Default)]
struct Used {
    /// How many places each tenant has taken in each slice.
    tenants: HashMap<Arc<str>, BTreeMap<u64, usize>>,
    /// The slice in which those that no longer count were forgotten last.
    forgotten: u64,
}

/// Places of a tenant, which are free again when this is dropped.
pub struct Taken {
    places: Arc<Places>,
    tenant: Arc<str>,
    slice: u64,
    count: usize,
}

impl Places {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, used: Mutex::default(), freed: Notify::new() })
    }

    /// Takes so many places, whether they are free or not.
    pub(super) fn take(self: &Arc<Self>, tenant: &Arc<str>, count: usize) -> Taken {
        let (slice, _) = self.slice();
        self.used.lock().take(tenant, slice, count);
        Taken { places: Arc::clone(self), tenant: Arc::clone(tenant), slice, count }
    }

    /// Takes the places that are `wanted`, or half of the `most` that the tenant has, once so many are free. `None`: they were not until
    /// 0.25 s after `since`.
    pub(super) async fn wait(
        self: &Arc<Self>,
        tenant: &Arc<str>,
        most: usize,
        since: Duration,
        wanted: impl Fn() -> usize,
    ) -> Option<Taken> {
        loop {
            // Another turn may have taken some of what waits.
            let count = wanted().min(most.div_ceil(2));
            let mut freed = std::pin::pin!(self.freed.notified());
            // Before the look, so that no place is freed unseen in between.
            freed.as_mut().enable();
            let (slice, until_next) = self.slice();
            if self.used.lock().take_free(tenant, slice, most, count..=count).is_some() {
                return Some(Taken { places: Arc::clone(self), tenant: Arc::clone(tenant), slice, count });
            }
            if self.clock.elapsed() >= since + LONGEST_WAIT {
                return None;
            }
            tokio::select! {
                () = freed => {}
                () = self.clock.sleep(until_next) => {}
            }
        }
    }

    /// The slice of now, and the time until the next one.
    fn slice(&self) -> (u64, Duration) {
        let now_ms = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        (now_ms / SLICE_MS, Duration::from_millis(SLICE_MS - now_ms % SLICE_MS))
    }
}

impl Used {
    fn take(&mut self, tenant: &Arc<str>, slice: u64, count: usize) {
        *self.tenants.entry(Arc::clone(tenant)).or_default().entry(slice).or_default() += count;
    }

    /// Takes as many of these as are free. Returns how many; `None`: fewer are free.
    fn take_free(
        &mut self,
        tenant: &Arc<str>,
        slice: u64,
        most: usize,
        wanted: RangeInclusive<usize>,
    ) -> Option<usize> {
        self.forget_before((slice + 1).saturating_sub(SLICES));
        let used: usize = self.tenants.get(tenant).map_or(0, |slices| slices.values().sum());
        let count = most.saturating_sub(used).min(*wanted.end());
        if count < *wanted.start() {
            return None;
        }
        self.take(tenant, slice, count);
        Some(count)
    }

    fn forget_before(&mut self, first: u64) {
        if self.forgotten < first {
            self.forgotten = first;
            self.tenants.retain(|_, slices| {
                slices.retain(|slice, _| *slice >= first);
                !slices.is_empty()
            });
        }
    }

    fn free(&mut self, Taken { tenant, slice, count, .. }: &Taken) {
        let Some(slices) = self.tenants.get_mut(tenant) else { return };
        if let Some(taken) = slices.get_mut(slice) {
            *taken = taken.saturating_sub(*count);
            if *taken == 0 {
                slices.remove(slice);
            }
        }
        if slices.is_empty() {
            self.tenants.remove(tenant);
        }
    }
}

impl Taken {
    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes more of the `most` that the tenant has, if they are free, until there are as many as are `wanted`.
    pub fn grow(&mut self, most: usize, wanted: usize) {
        let (slice, _) = self.places.slice();
        let mut used = self.places.used.lock();
        // All of them count from now on: those of before may count no longer.
        used.free(self);
        used.take(&self.tenant, slice, self.count);
        let more = wanted.saturating_sub(self.count);
        let taken = used.take_free(&self.tenant, slice, most, 0..=more);
        drop(used);
        self.slice = slice;
        self.count += taken.unwrap_or_default();
    }

    /// Takes so many of them out, or all if there are fewer.
    pub(super) fn take_out(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        self.count -= count;
        Self { places: Arc::clone(&self.places), tenant: Arc::clone(&self.tenant), slice: self.slice, count }
    }

    /// Gives so many of them up. They still count for 0.1 s, since their deliveries are queued.
    pub(super) fn give_up(&mut self, count: usize) {
        self.count = self.count.saturating_sub(count);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.count > 0 {
            self.places.used.lock().free(self);
            self.places.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_program::clock::ManualClock;
    use futures_util::FutureExt;
    use jiff::Timestamp;

    use super::*;

    const MOST: usize = 10;

    struct Stage {
        places: Arc<Places>,
        time: ManualClock,
        tenant: Arc<str>,
    }

    impl Stage {
        fn new() -> Self {
            let time = ManualClock::new(Timestamp::UNIX_EPOCH);
            Self { places: Places::new(Clock::Manual(time.clone())), time, tenant: "a".into() }
        }

        fn wait(&self, wanted: usize) -> impl Future<Output = Option<Taken>> {
            self.places.wait(&self.tenant, MOST, Duration::MAX / 2, move || wanted)
        }

        /// What there is without waiting.
        fn now(&self, wanted: usize) -> Option<Taken> {
            self.wait(wanted).now_or_never().flatten()
        }
    }

    #[test]
    fn what_is_wanted_is_taken_once_it_is_free() {
        let stage = Stage::new();
        let (four, three) = (stage.now(4), stage.now(3));
        assert_eq!((four.as_ref().map(Taken::count), three.as_ref().map(Taken::count)), (Some(4), Some(3)));
        assert!(stage.now(4).is_none(), "three are free");
        let other: Arc<str> = "b".into();
        let other = stage.places.wait(&other, MOST, Duration::ZERO, || 4).now_or_never();
        assert!(other.is_some_and(|taken| taken.is_some()), "it has its own");
        let mut wait = Box::pin(stage.wait(4));
        assert!(wait.as_mut().now_or_never().is_none());
        drop(four);
        assert_eq!(wait.now_or_never().flatten().map(|taken| taken.count()), Some(4));
        drop(three);
        assert!(stage.places.used.lock().tenants.is_empty());
    }

    #[test]
    fn a_wait_takes_at_most_half_of_the_places() {
        let stage = Stage::new();
        let (first, second) = (stage.now(99), stage.now(99));
        assert_eq!((first.map(|taken| taken.count()), second.map(|taken| taken.count())), (Some(5), Some(5)));
        let other: Arc<str> = "b".into();
        let one = stage.places.wait(&other, 1, Duration::ZERO, || 3).now_or_never().flatten();
        assert_eq!(one.map(|taken| taken.count()), Some(1), "it has only one");
    }

    #[test]
    fn places_grow_to_what_is_free() {
        let stage = Stage::new();
        let _four = stage.now(4);
        let mut two = stage.now(2).expect("they are free");
        two.grow(MOST, 1);
        assert_eq!(two.count(), 2);
        two.grow(MOST, 3);
        assert_eq!(two.count(), 3);
        two.grow(MOST, 99);
        assert_eq!(two.count(), 6);
        drop(two);
        assert!(stage.now(5).is_some());
    }

    #[test]
    fn a_place_that_is_taken_out_is_free_on_its_own() {
        let stage = Stage::new();
        let mut taken = stage.places.take(&stage.tenant, 9);
        let out = taken.take_out(3);
        assert_eq!((out.count(), taken.count()), (3, 6));
        assert!(stage.now(2).is_none());
        drop(out);
        assert!(stage.now(4).is_some());
    }

    #[tokio::test]
    async fn a_place_counts_for_a_tenth_of_a_second() {
        let stage = Stage::new();
        let mut taken = stage.places.take(&stage.tenant, MOST);
        taken.give_up(MOST - 1);
        let mut wait = Box::pin(stage.wait(MOST));
        assert!(wait.as_mut().now_or_never().is_none(), "a place that is given up counts too");
        stage.time.advance(Duration::from_millis(99));
        assert!(wait.as_mut().now_or_never().is_none());
        stage.time.advance(Duration::from_millis(1));
        assert_eq!(wait.await.map(|taken| taken.count()), Some(MOST / 2));
        drop(taken);
        assert_eq!(stage.now(MOST).map(|taken| taken.count()), Some(MOST / 2), "it is not freed twice");
    }

    #[tokio::test]
    async fn no_wait_is_longer_than_a_quarter_of_a_second() {
        let stage = Stage::new();
        stage.time.advance(Duration::from_millis(200));
        let _all = stage.places.take(&stage.tenant, MOST);
        let mut wait = Box::pin(stage.places.wait(&stage.tenant, MOST, Duration::ZERO, || 1));
        stage.time.advance(Duration::from_millis(49));
        assert!(wait.as_mut().now_or_never().is_none());
        stage.time.advance(Duration::from_millis(1));
        assert!(wait.await.is_none(), "it began when the save came");
    }

    #[test]
    fn places_that_grow_count_from_then_on() {
        let stage = Stage::new();
        let mut five = stage.now(MOST).expect("they are free");
        stage.time.advance(LONGEST_WAIT);
        five.grow(MOST, MOST - 1);
        assert_eq!(five.count(), MOST - 1);
        assert!(stage.now(2).is_none());
        drop(five);
        assert!(stage.now(2).is_some());
    }
}
