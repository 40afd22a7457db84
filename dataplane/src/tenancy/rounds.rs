//! Rounds over the tenants of a process: which tenant is visited next, and how many at once. A visit works in the tenant's database.
//!
//! [`Timetable`] decides, without I/O and without a clock: times are arguments, by a monotonic clock. [`Rounds`] makes the visits.
//!
//! The visit that is due first begins first. A tenant whose visit left work is due again at once, behind all tenants that are due
//! already. Tenants whose last visit failed have places of their own: unavailable databases delay no others, and a flood of work delays
//! no retry. Where visits may hang, a slow one leaves its place to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use tokio::task::{Id, JoinError, JoinSet};

use super::Tenants;
use crate::telemetry::{Metrics, Task};

/// Visits at once in [`Lane::Aside`].
pub const ASIDE: usize = 2;
/// The shortest time between two visits in [`Lane::Part`].
const APART: Duration = Duration::from_secs(1);
/// The longest time between two reads of the list of tenants. It is not read at every step: there may be ten thousand.
const FOLLOW: Duration = Duration::from_secs(1);

/// Returns how long a process has the turn for a round, if it makes one in each `interval`: until shortly before its next round.
/// If the turn lasted until then, the process would leave out every second round.
pub fn turn(interval: Duration) -> Duration {
    interval * 9 / 10
}

/// Where a visit waits until a place is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Most visits wait here.
    Main,
    /// Visits of tenants whose last visit failed wait here. Their databases are slow.
    Aside,
    /// Visits that continue earlier ones wait here. One runs at a time, in a place of [`Lane::Main`], and the next a second later.
    Part,
}

/// A visit that has begun.
#[derive(Debug)]
pub struct Visit {
    /// The uid of the tenant.
    pub uid: Arc<str>,
    /// The lane in which the visit waited.
    pub lane: Lane,
    /// When the visit began.
    pub begun: Duration,
    /// Once the visit has ended: whether to repeat it.
    pub again: bool,
}

/// The visits of a lane that wait, with their tenants: by due time, then in the order in which they were planned.
type Queue<J> = BTreeMap<(Duration, u64), (Arc<str>, J)>;

/// Which tenants are due when, and how many visits run. `J` is what the visit of a tenant needs.
#[derive(Debug)]
pub struct Timetable<J> {
    /// The limit of visits at once. Visits of [`Lane::Aside`] do not count.
    pub at_once: usize,
    /// A visit that takes longer leaves its place to a waiting visit.
    pub slow: Option<Duration>,
    waiting: [Queue<J>; 3],
    planned: u64,
    /// The visits that have a place, by lane: when they began, and their tenants.
    running: [BTreeSet<(Duration, Arc<str>)>; 3],
    /// The tenants with a visit that waits or runs, and whether it is to be repeated.
    known: HashMap<Arc<str>, bool>,
    /// When the next visit in [`Lane::Part`] may begin.
    part_at: Duration,
    /// When the round began that is under way, and the tenants that it still has to visit.
    round: Option<(Duration, HashSet<Arc<str>>)>,
}

impl<J> Timetable<J> {
    /// Creates a timetable without visits.
    pub fn new(at_once: usize) -> Self {
        let (waiting, planned, running, known, part_at) = Default::default();
        Self { at_once, slow: None, waiting, planned, running, known, part_at, round: None }
    }

    /// Plans a visit. Returns `false`, and changes nothing, if a visit of this tenant waits or runs.
    pub fn plan(&mut self, uid: &Arc<str>, lane: Lane, due: Duration, job: J) -> bool {
        let is_new = !self.has(uid);
        if is_new {
            self.known.insert(Arc::clone(uid), false);
            self.planned += 1;
            self.waiting[lane as usize].insert((due, self.planned), (Arc::clone(uid), job));
        }
        is_new
    }

    /// Whether a visit of this tenant waits or runs.
    pub fn has(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    /// Returns the tenants with a visit that waits or runs.
    pub fn uids(&self) -> HashSet<Arc<str>> {
        self.known.keys().cloned().collect()
    }

    /// Records that the visit of this tenant that waits or runs may miss what is new. Returns `false` if there is none.
    pub fn repeat(&mut self, uid: &str) -> bool {
        let Some(again) = self.known.get_mut(uid) else { return false };
        *again = true;
        true
    }

    /// Begins the next visit, if one is due and a place is free or has a slow visit.
    pub fn begin(&mut self, now: Duration) -> Option<(Visit, J)> {
        let (_, lane) = self.next().filter(|(at, _)| *at <= now)?;
        let (_, (uid, job)) = self.waiting[lane as usize].pop_first()?;
        if !self.is_free(lane) {
            self.running[lane as usize].pop_first();
        }
        self.running[lane as usize].insert((now, Arc::clone(&uid)));
        Some((Visit { uid, lane, begun: now, again: false }, job))
    }

    /// Ends a visit, whose tenant may be visited again. Returns whether it is to be repeated.
    pub fn end(&mut self, visit: &Visit, now: Duration) -> bool {
        self.running[visit.lane as usize].remove(&(visit.begun, Arc::clone(&visit.uid)));
        if visit.lane == Lane::Part {
            self.part_at = now + APART;
        }
        if let Some((_, left)) = &mut self.round {
            left.remove(&visit.uid);
        }
        self.known.remove(&visit.uid).unwrap_or_default()
    }

    /// Returns when the next visit can begin, and its lane. `None`: not before a visit ends or is planned.
    pub fn next(&self) -> Option<(Duration, Lane)> {
        let first = |lane: Lane| {
            let ((due, _), _) = self.waiting[lane as usize].first_key_value()?;
            let free = match self.is_free(lane) {
                true if lane == Lane::Part => self.part_at,
                true => Duration::ZERO,
                false => self.running[lane as usize].first()?.0 + self.slow?,
            };
            Some(((*due).max(free), lane))
        };
        [Lane::Main, Lane::Aside, Lane::Part].into_iter().filter_map(first).min()
    }

    fn is_free(&self, lane: Lane) -> bool {
        let [main, aside, part] = self.running.each_ref().map(BTreeSet::len);
        match lane {
            Lane::Main => main + part < self.at_once,
            Lane::Aside => aside < ASIDE,
            Lane::Part => part == 0 && main < self.at_once,
        }
    }

    /// Begins a round of each visit that waits or runs, unless a round is under way.
    fn begin_round(&mut self, now: Duration) {
        if self.round.is_none() {
            self.round = Some((now, self.uids()));
        }
    }

    /// Ends the round if each of its visits has ended, and returns how long it took.
    fn complete_round(&mut self, now: Duration) -> Option<Duration> {
        self.round.take_if(|(_, left)| left.is_empty()).map(|(begun, _)| now.saturating_sub(begun))
    }
}

/// Makes the visits of a timetable, each in a task of its own.
pub struct Rounds<J, T> {
    /// The visits, by [`Clock::elapsed`].
    pub timetable: Timetable<J>,
    task: Task,
    clock: Clock,
    metrics: Arc<Metrics>,
    tasks: JoinSet<T>,
    running: HashMap<Id, Visit>,
    /// When [`next_of_all`](Self::next_of_all) reads the list of tenants next.
    list_at: Duration,
}

/// A visit that has ended, and what it returned, if it did not panic.
pub type EndedVisit<T> = (Visit, Result<T, JoinError>);

impl<J, T: Send + 'static> Rounds<J, T> {
    /// Creates rounds of this task without visits. At most `at_once` visits run at once, and [`ASIDE`] in addition.
    pub fn new(task: Task, clock: Clock, metrics: Arc<Metrics>, at_once: usize) -> Self {
        let (tasks, running, list_at) = Default::default();
        Self { timetable: Timetable::new(at_once), task, clock, metrics, tasks, running, list_at }
    }

    /// Begins a round of the visits that wait or run, unless one is under way. The metrics count it when each of them has ended.
    pub fn begin_round(&mut self) {
        self.timetable.begin_round(self.clock.elapsed());
        self.complete_round();
    }

    fn complete_round(&mut self) {
        if let Some(took) = self.timetable.complete_round(self.clock.elapsed()) {
            self.metrics.upkeep.round(self.task, self.clock.now_ms(), took);
        }
    }

    /// Like [`next`](Self::next), for rounds over all tenants: a new tenant is due at once. Waits until there is a tenant.
    pub async fn next_of_all<F>(
        &mut self,
        tenants: &Tenants,
        visit: impl Fn(Arc<str>, J) -> F,
    ) -> EndedVisit<T>
    where
        J: Default,
        F: Future<Output = T> + Send + 'static,
    {
        let clock = self.clock.clone();
        loop {
            let now = clock.elapsed();
            if now >= self.list_at {
                self.list_at = now + FOLLOW;
                self.plan_all(tenants, now);
            }
            let pause = self.list_at.saturating_sub(now);
            tokio::select! {
                Some(ended) = self.next(&visit) => return ended,
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// Plans a visit of each tenant that has none, and begins a round.
    fn plan_all(&mut self, tenants: &Tenants, now: Duration)
    where
        J: Default,
    {
        let tenants = tenants.all();
        for tenant in &tenants {
            self.timetable.plan(&tenant.uid, Lane::Main, now, J::default());
        }
        if !tenants.is_empty() {
            self.begin_round();
        }
    }

    /// Begins visits that are due while places are free, and waits until a visit ends. `None`: none waits or runs. Nothing is lost if the
    /// future is dropped.
    pub async fn next<F>(&mut self, visit: impl Fn(Arc<str>, J) -> F) -> Option<EndedVisit<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let clock = self.clock.clone();
        loop {
            let now = clock.elapsed();
            while let Some((begun, job)) = self.timetable.begin(now) {
                let task = self.tasks.spawn(visit(Arc::clone(&begun.uid), job));
                self.running.insert(task.id(), begun);
            }
            let next = self.timetable.next().map(|(at, _)| at);
            tokio::select! {
                Some(ended) = self.join() => return Some(ended),
                () = clock.sleep(next.unwrap_or_default().saturating_sub(now)), if next.is_some() => {}
                else => return None,
            }
        }
    }

    /// Waits until a visit ends, and begins none. `None`: none runs. Nothing is lost if the future is dropped.
    pub async fn join(&mut self) -> Option<EndedVisit<T>> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, returned)) => (id, Ok(returned)),
            Err(error) => (error.id(), Err(error)),
        };
        let mut visit = self.running.remove(&id)?;
        if result.is_err() {
            self.metrics.upkeep.visited(self.task, false);
        }
        visit.again = self.timetable.end(&visit, self.clock.elapsed());
        self.complete_round();
        Some((visit, result))
    }

    /// Cuts off all visits, and forgets the waiting visits and the round.
    pub fn clear(&mut self) {
        let Timetable { at_once, slow, .. } = self.timetable;
        self.timetable = Timetable { slow, ..Timetable::new(at_once) };
        (self.tasks, self.running) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 1_000;
    const PLACES: usize = 8;

    /// How a visit of the detector ended.
    #[derive(Clone, Copy)]
    enum End {
        Done,
        More,
        Failed,
        Gone,
    }

    fn name(number: usize) -> String {
        format!("{number:04}")
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn plan(timetable: &mut Timetable<()>, uid: &str, at: u64) -> bool {
        timetable.plan(&uid.into(), Lane::Main, millis(at), ())
    }

    fn timetable(tenants: usize) -> Timetable<()> {
        let mut timetable = Timetable::new(PLACES);
        assert!((0..tenants).all(|number| plan(&mut timetable, &name(number), 0)));
        timetable
    }

    fn begin(timetable: &mut Timetable<()>, now: u64) -> Option<Visit> {
        timetable.begin(millis(now)).map(|(visit, ())| visit)
    }

    fn begun(timetable: &mut Timetable<()>, now: u64) -> Vec<Visit> {
        std::iter::from_fn(|| begin(timetable, now)).collect()
    }

    fn next(timetable: &Timetable<()>) -> Option<Duration> {
        timetable.next().map(|(at, _)| at)
    }

    /// Ends a visit and plans the next one, as the detector does.
    fn end(timetable: &mut Timetable<()>, visit: &Visit, end: End, now: u64) {
        timetable.end(visit, millis(now));
        let later = visit.begun + millis(INTERVAL);
        let (lane, due) = match end {
            End::Done => (Lane::Main, later),
            End::More => (Lane::Main, millis(now)),
            End::Failed => (Lane::Aside, later),
            End::Gone => return,
        };
        assert!(timetable.plan(&visit.uid, lane, due, ()));
    }

    /// Visits every tenant that is due, and returns their order.
    fn round(timetable: &mut Timetable<()>, now: u64, how: impl Fn(&str) -> End) -> Vec<String> {
        let mut order = Vec::new();
        loop {
            let some = begun(timetable, now);
            if some.is_empty() {
                return order;
            }
            assert!(some.len() <= PLACES + ASIDE);
            for visit in some {
                order.push(visit.uid.to_string());
                end(timetable, &visit, how(&visit.uid), now);
            }
        }
    }

    #[test]
    fn turn_ends_a_tenth_of_the_interval_before_the_next_round() {
        assert_eq!(turn(millis(10_000)), millis(9_000));
    }

    #[test]
    fn thousand_tenants_have_one_visit_each_per_interval() {
        let mut timetable = timetable(1_000);
        let all: Vec<String> = (0..1_000).map(name).collect();
        let first = begun(&mut timetable, 0);
        assert_eq!((first.len(), next(&timetable)), (PLACES, None));
        for visit in first {
            end(&mut timetable, &visit, End::Done, 0);
        }
        assert_eq!(round(&mut timetable, 0, |_| End::Done), all[PLACES..]);
        assert_eq!(next(&timetable), Some(millis(INTERVAL)));
        assert!(round(&mut timetable, INTERVAL - 1, |_| End::Done).is_empty());
        for at in 1..=3 {
            assert_eq!(round(&mut timetable, at * INTERVAL, |_| End::Done), all);
        }
    }

    #[test]
    fn tenant_with_more_work_comes_back_behind_those_that_are_due() {
        let mut timetable = timetable(1_000);
        let left = std::cell::Cell::new(50);
        let order = round(&mut timetable, 0, |uid| {
            if uid != "0000" || left.get() == 0 {
                return End::Done;
            }
            left.set(left.get() - 1);
            End::More
        });
        assert_eq!(order[..1_000], (0..1_000).map(name).collect::<Vec<_>>());
        assert_eq!(order[1_000..], vec![name(0); 50]);
    }

    #[test]
    fn tenant_that_falls_due_during_a_flood_has_the_next_visit() {
        let mut timetable = timetable(2);
        round(&mut timetable, 0, |_| End::Done);
        let mut flood = begin(&mut timetable, INTERVAL).expect("due");
        for at in INTERVAL..2 * INTERVAL {
            end(&mut timetable, &flood, End::More, at);
            let next = begin(&mut timetable, at).expect("due");
            flood = match &*next.uid {
                "0001" => {
                    assert_eq!(at, INTERVAL);
                    end(&mut timetable, &next, End::Done, at);
                    begin(&mut timetable, at).expect("the flood continues")
                }
                _ => next,
            };
        }
    }

    #[test]
    fn failed_tenants_use_two_places_and_delay_no_others() {
        let mut timetable = timetable(1_000);
        let dead = |uid: &str| uid < "0900";
        let how = |uid: &str| if dead(uid) { End::Failed } else { End::Done };
        round(&mut timetable, 0, how);
        let some = begun(&mut timetable, INTERVAL);
        let (aside, main): (Vec<_>, Vec<_>) = some.into_iter().partition(|visit| visit.lane == Lane::Aside);
        assert_eq!((aside.len(), main.len()), (ASIDE, PLACES));
        assert!(aside.iter().all(|visit| dead(&visit.uid)) && main.iter().all(|visit| !dead(&visit.uid)));
        for visit in main {
            end(&mut timetable, &visit, End::Done, INTERVAL);
        }
        // While the two run, all others are visited.
        assert_eq!(round(&mut timetable, INTERVAL, |_| End::Done).len(), 100 - PLACES);
        for visit in aside {
            end(&mut timetable, &visit, End::Done, INTERVAL);
        }
        assert_eq!(round(&mut timetable, INTERVAL, |_| End::Done).len(), 900 - ASIDE);
        let some = begun(&mut timetable, 2 * INTERVAL);
        assert_eq!(some.into_iter().filter(|visit| visit.lane == Lane::Aside).count(), 0);
    }

    #[test]
    fn endless_flood_does_not_delay_retries() {
        let mut timetable = timetable(PLACES + 1);
        round(&mut timetable, 0, |uid| if uid == "0000" { End::Failed } else { End::Done });
        let flood = begun(&mut timetable, INTERVAL);
        assert_eq!(flood.iter().filter(|visit| visit.lane == Lane::Aside).count(), 1);
    }

    #[test]
    fn new_tenants_are_due_at_once_and_gone_ones_are_forgotten() {
        let mut timetable = timetable(1);
        let visit = begin(&mut timetable, 0).expect("due");
        assert_eq!(["0000", "new"].map(|uid| plan(&mut timetable, uid, 5)), [false, true]);
        assert_eq!(begin(&mut timetable, 4).map(|visit| visit.uid), None);
        let new = begin(&mut timetable, 5).expect("due");
        assert_eq!(&*new.uid, "new");
        end(&mut timetable, &new, End::Gone, 5);
        end(&mut timetable, &visit, End::Done, 5);
        assert_eq!(round(&mut timetable, INTERVAL, |_| End::Done), ["0000"]);
        assert!(plan(&mut timetable, "new", INTERVAL));
        assert_eq!(round(&mut timetable, INTERVAL, |_| End::Done), ["new"]);
    }

    #[test]
    fn slow_visits_leave_their_places_to_those_that_wait() {
        let mut timetable = timetable(PLACES);
        timetable.slow = Some(millis(100));
        let slow = begun(&mut timetable, 0);
        assert_eq!((slow.len(), next(&timetable)), (PLACES, None), "none waits");
        assert!(["one", "two"].into_iter().all(|uid| plan(&mut timetable, uid, 10)));
        assert_eq!((begun(&mut timetable, 99).len(), next(&timetable)), (0, Some(millis(100))));
        assert_eq!(begun(&mut timetable, 100).len(), 2);
        assert!(!plan(&mut timetable, "0000", 100), "it still runs");
        for visit in &slow {
            timetable.end(visit, millis(101));
        }
        assert!((0..PLACES).all(|number| plan(&mut timetable, &name(number), 101)));
        assert_eq!((begun(&mut timetable, 101).len(), next(&timetable)), (PLACES - 2, Some(millis(200))));
    }

    #[test]
    fn parts_have_one_place_of_the_others_and_run_a_second_apart() {
        let mut timetable = Timetable::new(2);
        assert!(["a", "b"].into_iter().all(|uid| timetable.plan(&uid.into(), Lane::Part, millis(500), ())));
        let a = begun(&mut timetable, 500);
        assert_eq!((a.len(), next(&timetable)), (1, None), "the other one waits for the first");
        timetable.end(&a[0], millis(800));
        assert_eq!(next(&timetable), Some(millis(1_800)));
        assert!(["c", "d"].into_iter().all(|uid| plan(&mut timetable, uid, 900)));
        let others = begun(&mut timetable, 1_799);
        assert_eq!((others.len(), next(&timetable)), (2, None), "no place is free");
        timetable.end(&others[0], millis(1_900));
        assert!(plan(&mut timetable, "e", 1_850));
        let b = begun(&mut timetable, 1_900);
        assert_eq!(b.iter().map(|visit| &*visit.uid).collect::<Vec<_>>(), ["b"], "due first");
    }

    #[test]
    fn round_ends_with_its_last_visit_however_long_it_takes() {
        let mut timetable = timetable(0);
        assert_eq!(timetable.complete_round(millis(1)), None, "none has begun");
        assert!(["1", "2"].into_iter().all(|uid| plan(&mut timetable, uid, 0)));
        let visits = begun(&mut timetable, 10);
        timetable.begin_round(millis(10));
        timetable.end(&visits[0], millis(15));
        // The next one begins after this one.
        assert!(["1", "3"].into_iter().all(|uid| plan(&mut timetable, uid, 15)));
        let others = begun(&mut timetable, 20);
        timetable.begin_round(millis(20));
        timetable.end(&others[1], millis(25));
        assert_eq!((timetable.complete_round(millis(25)), timetable.round.is_some()), (None, true));
        timetable.end(&visits[1], millis(40));
        assert_eq!(timetable.complete_round(millis(40)), Some(millis(30)));
        assert!(timetable.round.is_none());
        timetable.end(&others[0], millis(45));
        timetable.begin_round(millis(50));
        assert_eq!(timetable.complete_round(millis(51)), Some(millis(1)), "there is no tenant");
    }

    #[test]
    fn visit_that_may_miss_something_is_to_be_repeated_once() {
        let mut timetable = timetable(1);
        assert!(!timetable.repeat("another"));
        let visit = begin(&mut timetable, 0).expect("due");
        assert!(timetable.repeat("0000") && timetable.repeat("0000"));
        assert!(!plan(&mut timetable, "0000", 1));
        assert!(timetable.end(&visit, millis(1)));
        assert!(plan(&mut timetable, "0000", 1));
        let visit = begin(&mut timetable, 1).expect("due");
        assert!(!timetable.end(&visit, millis(2)));
    }
}
