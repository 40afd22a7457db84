//! The rules of the budget: which request gets a connection next, and whose connection is closed for it.
//!
//! The rules know no socket, task or clock. Times are arguments, counted from any fixed point, so that `simulation` moves the clock.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::postgres::counts::{Taken, Wait};

/// How much longer than the tenant's own request another tenant's request must have waited to get the tenant's
/// connection: `PATIENCE` if the other tenant has no place, `PATIENCE_WITH_PLACES` if it has some, which may soon become
/// free. A tenant that has a place leaves idle connections to other tenants for `PATIENCE`.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_WITH_PLACES: Duration = Duration::from_secs(1);
/// A new connection stays with its tenant, also while others wait, until no request has used it for `PAUSE`, and for
/// `VISIT` at most. To save an order takes a read, a transaction and, after the POST, another transaction; a login costs
/// more than all three.
const PAUSE: Duration = Duration::from_millis(10);
const VISIT: Duration = Duration::from_millis(100);
/// Connections that were idle for this long are the first to be closed for other tenants. Workers renew leases more
/// often than this.
const UNUSED: Duration = Duration::from_secs(3);
/// The most connections that are opened at a time, not counting openings that take long. Requests in line wait for an
/// opening before they get a place. So a tenant keeps its connection until another connection can really be opened.
const OPENINGS: usize = 4;

/// The id of a tenant's share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::postgres) struct PoolId(u64);

/// The places, the idle connections (`C`), and the requests in line (`R`).
pub(super) struct Rules<R, C> {
    /// The number of places without a connection.
    pub(super) free: usize,
    /// How many more connections may be opened now.
    openings: usize,
    /// The idle connections, in the order in which they were given back.
    pub(super) idle: BTreeMap<u64, Idle<C>>,
    idle_of: BTreeSet<(PoolId, u64)>,
    /// The requests in line, in the order in which they came.
    line: VecDeque<Waiting<R>>,
    /// The number of places of each tenant that has any.
    places: BTreeMap<PoolId, usize>,
    last_number: u64,
}

pub(super) struct Idle<C> {
    pool: PoolId,
    connection: C,
    opened: Duration,
    since: Duration,
}

impl<C> Idle<C> {
    /// Whether the connection is kept for its tenant, which may need it for work that it has begun.
    fn is_kept(&self, now: Duration) -> bool {
        now < self.since + PAUSE && now < self.opened + VISIT
    }
}

struct Waiting<R> {
    pool: PoolId,
    request: R,
    since: Duration,
    /// Whether the request missed a connection because that was kept for its own tenant.
    met_a_kept_one: bool,
}

/// What the rules decide.
pub(super) enum Step<R, C> {
    /// The request gets this connection of its tenant.
    Give { pool: PoolId, request: R, connection: C },
    /// The request may open a connection. Its place is a free one, or the place of a connection that is closed for it, by
    /// this rule.
    Open { pool: PoolId, request: R, closed: Option<(C, Taken)> },
    /// A request missed a connection that is kept for its own tenant. This is reported once for each request.
    Kept,
}

/// An idle connection of another tenant.
struct Other {
    number: u64,
    unused_for: Duration,
    /// The number of places of the connection's tenant.
    places: usize,
}

/// Chooses which of the idle connections of `others` is closed for a request, and by which rule. `has` is the number
/// of places of the request's tenant, `waited` how long the request has waited. The connection that was idle longest
/// is the first in `others`.
fn choose(has: usize, waited: Duration, others: &[Other]) -> Option<(u64, Taken)> {
    let unused = others.first().filter(|other| other.unused_for >= UNUSED);
    if let Some(other) = unused {
        return Some((other.number, Taken::Unused));
    }
    if let Some(other) = others.iter().find(|other| has + 1 < other.places) {
        return Some((other.number, Taken::TwoMore));
    }
    if has > 0 && waited < PATIENCE {
        return None;
    }
    let rule = if has == 0 { Taken::NoConnection } else { Taken::WaitedLong };
    // It is not the connection that was idle longest: where more tenants take turns than there are connections, the
    // next tenant in turn needs that one.
    let others: Vec<&Other> = others.iter().filter(|other| has <= other.places).collect();
    others.get(others.len() / 2).map(|other| (other.number, rule))
}

impl<R, C> Rules<R, C> {
    pub(super) fn new(places: usize) -> Self {
        Self {
            free: places,
            openings: OPENINGS,
            idle: BTreeMap::new(),
            idle_of: BTreeSet::new(),
            line: VecDeque::new(),
            places: BTreeMap::new(),
            last_number: 0,
        }
    }

    pub(super) fn new_pool(&mut self) -> PoolId {
        PoolId(self.number())
    }

    pub(super) fn has_idle(&self, pool: PoolId) -> bool {
        self.newest_idle_of(pool).is_some()
    }

    pub(super) fn is_waiting(&self, pool: PoolId) -> bool {
        self.line.iter().any(|waiting| waiting.pool == pool)
    }

    /// Adds a request to the line.
    pub(super) fn ask(&mut self, pool: PoolId, request: R, now: Duration) {
        self.line.push_back(Waiting { pool, request, since: now, met_a_kept_one: false });
    }

    /// Removes the requests from the line that do not wait any more.
    pub(super) fn retain(&mut self, waits: impl Fn(&R) -> bool) {
        self.line.retain(|waiting| waits(&waiting.request));
    }

    /// Takes back a connection that is fit for the next request.
    pub(super) fn give_back(&mut self, pool: PoolId, connection: C, opened: Duration, now: Duration) {
        let number = self.number();
        self.idle.insert(number, Idle { pool, connection, opened, since: now });
        self.idle_of.insert((pool, number));
    }

    /// Frees a place of this tenant, whose connection is closed or could not be opened.
    pub(super) fn give_up_place(&mut self, pool: PoolId) {
        self.remove_place(pool);
        self.free += 1;
    }

    /// Ends an opening, or stops counting it because it takes long.
    pub(super) fn opening_ended(&mut self) {
        self.openings += 1;
    }

    /// Takes the connections out that were idle for `unused_for`, of this tenant or of all.
    pub(super) fn take_unused(
        &mut self,
        pool: Option<PoolId>,
        unused_for: Duration,
        now: Duration,
    ) -> Vec<C> {
        let is_its = |idle: &Idle<C>| pool.is_none_or(|pool| idle.pool == pool);
        let is_unused = |idle: &Idle<C>| now.saturating_sub(idle.since) >= unused_for;
        let unused = self.idle.iter().filter(|(_, idle)| is_its(idle) && is_unused(idle));
        let numbers: Vec<u64> = unused.map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| Some(self.take_idle(number)?.connection)).collect()
    }

    /// Whether time alone may lead to a next step.
    pub(super) fn depends_on_time(&self) -> bool {
        self.openings > 0 && !self.line.is_empty() && !self.idle.is_empty()
    }

    /// Whether all of the tenant's connections are in use or being opened, and a request would get the place of a further
    /// connection at once.
    pub(super) fn would_open_another(&self, pool: PoolId, now: Duration) -> bool {
        let has = self.places_of(pool);
        let is_neediest = || self.line.iter().all(|waiting| has < self.places_of(waiting.pool));
        has > 0
            && !self.has_idle(pool)
            && (self.free > 0 || is_neediest() && self.to_close(pool, Duration::ZERO, now).is_some())
    }

    /// Why a request of this tenant that has just come waits.
    pub(super) fn why_waiting(&self, pool: PoolId, now: Duration) -> Wait {
        let has_place = || self.free > 0 || self.to_close(pool, Duration::ZERO, now).is_some();
        if self.openings == 0 && has_place() { Wait::Opening } else { Wait::ProcessLimit }
    }

    /// The next step. After each change, and regularly while it [depends on time](Self::depends_on_time), steps are taken
    /// until there is none.
    pub(super) fn next_step(&mut self, now: Duration) -> Option<Step<R, C>> {
        let neediest = self.neediest()?;
        match self.first_with_idle() {
            Some((own, number)) => self.give_or_pass(own, number, neediest, now),
            None if self.openings == 0 => None,
            None if self.free > 0 => self.open(neediest, None),
            None => self.open_for_another(neediest, now),
        }
    }

    /// The first request in line whose tenant has an idle connection, by its index, and the number of that connection.
    fn first_with_idle(&self) -> Option<(usize, u64)> {
        let mut line = self.line.iter().enumerate();
        line.find_map(|(at, waiting)| Some((at, self.newest_idle_of(waiting.pool)?)))
    }

    /// Gives an idle connection to `own`, a request of the connection's tenant, unless it goes to the neediest request.
    fn give_or_pass(
        &mut self,
        own: usize,
        number: u64,
        neediest: usize,
        now: Duration,
    ) -> Option<Step<R, C>> {
        let is_kept = self.idle.get(&number).is_some_and(|idle| idle.is_kept(now));
        let (of_tenant, other) = (self.line.get(own)?, self.line.get(neediest)?);
        let (rule, met_a_kept_one) = (self.passes(of_tenant, other), other.met_a_kept_one);
        match rule {
            Some(rule) if !is_kept => self.open(neediest, Some((number, rule))),
            Some(_) if !met_a_kept_one => self.keep(neediest),
            _ => self.give(own, number),
        }
    }

    /// Lets a request in line open a connection in place of another tenant's idle connection, if there is one to close.
    fn open_for_another(&mut self, at: usize, now: Duration) -> Option<Step<R, C>> {
        let Waiting { pool, since, met_a_kept_one, .. } = *self.line.get(at)?;
        let waited = now.saturating_sub(since);
        if let Some(closed) = self.to_close(pool, waited, now) {
            return self.open(at, Some(closed));
        }
        let misses_a_kept_one = !met_a_kept_one && self.of_another(pool, waited, now, |_| true).is_some();
        if misses_a_kept_one { self.keep(at) } else { None }
    }

    /// Gives a request in line this idle connection of its tenant.
    fn give(&mut self, at: usize, number: u64) -> Option<Step<R, C>> {
        let Idle { connection, .. } = self.take_idle(number)?;
        let Waiting { pool, request, .. } = self.line.remove(at)?;
        Some(Step::Give { pool, request, connection })
    }

    /// Lets a request in line open a connection, in the place of this idle one or in a free place.
    fn open(&mut self, at: usize, closed: Option<(u64, Taken)>) -> Option<Step<R, C>> {
        let Waiting { pool, request, .. } = self.line.remove(at)?;
        let closed = closed.and_then(|(number, rule)| Some((self.take_idle(number)?, rule)));
        match &closed {
            Some((idle, _)) => self.remove_place(idle.pool),
            None => self.free -= 1,
        }
        self.openings -= 1;
        *self.places.entry(pool).or_default() += 1;
        Some(Step::Open { pool, request, closed: closed.map(|(idle, rule)| (idle.connection, rule)) })
    }

    /// Leaves a connection to its tenant that a request in line misses.
    fn keep(&mut self, at: usize) -> Option<Step<R, C>> {
        self.line.get_mut(at)?.met_a_kept_one = true;
        Some(Step::Kept)
    }

    /// The rule by which an idle connection goes to `other`, although `own` is a request of the connection's tenant.
    fn passes(&self, own: &Waiting<R>, other: &Waiting<R>) -> Option<Taken> {
        let (ours, theirs) = (self.places_of(own.pool), self.places_of(other.pool));
        if own.pool == other.pool || self.free > 0 || self.openings == 0 {
            return None;
        }
        if theirs + 1 < ours {
            return Some(Taken::TwoMore);
        }
        let patience = if theirs == 0 { PATIENCE } else { PATIENCE_WITH_PLACES };
        (theirs <= ours && other.since + patience <= own.since).then_some(Taken::WaitedLong)
    }

    /// The number of the idle connection of another tenant that may be closed for a request of this tenant, and the
    /// rule. `waited` is how long the request has waited.
    fn to_close(&self, pool: PoolId, waited: Duration, now: Duration) -> Option<(u64, Taken)> {
        self.of_another(pool, waited, now, |idle| !idle.is_kept(now))
    }

    /// Like [`to_close`](Self::to_close), of the idle connections that are `candidates`.
    fn of_another(
        &self,
        pool: PoolId,
        waited: Duration,
        now: Duration,
        candidates: impl Fn(&Idle<C>) -> bool,
    ) -> Option<(u64, Taken)> {
        let others = self.idle.iter().filter(|(_, idle)| candidates(idle));
        let others: Vec<Other> = others
            .map(|(number, idle)| Other {
                number: *number,
                unused_for: now.saturating_sub(idle.since),
                places: self.places_of(idle.pool),
            })
            .collect();
        choose(self.places_of(pool), waited, &others)
    }

    /// The index in line of the neediest request: its tenant has the fewest places, and among equals it has waited
    /// longest.
    fn neediest(&self) -> Option<usize> {
        let places = |at: &usize| self.line.get(*at).map(|waiting| self.places_of(waiting.pool));
        (0..self.line.len()).min_by_key(places)
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The most recently used one, which is the least likely to be dead.
    fn newest_idle_of(&self, pool: PoolId) -> Option<u64> {
        self.idle_of.range((pool, 0)..=(pool, u64::MAX)).next_back().map(|(_, number)| *number)
    }

    fn take_idle(&mut self, number: u64) -> Option<Idle<C>> {
        let idle = self.idle.remove(&number)?;
        self.idle_of.remove(&(idle.pool, number));
        Some(idle)
    }

    fn remove_place(&mut self, pool: PoolId) {
        if let Entry::Occupied(mut places) = self.places.entry(pool) {
            *places.get_mut() -= 1;
            if *places.get() == 0 {
                places.remove();
            }
        }
    }

    fn places_of(&self, pool: PoolId) -> usize {
        self.places.get(&pool).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: PoolId = PoolId(1);
    const OTHER: PoolId = PoolId(2);
    const NOW: Duration = Duration::from_secs(60);

    /// Decides who gets a connection of [`OURS`]. `ours` and `theirs` are places; `waiting` is the line, each request
    /// with the time that it has waited, in ms.
    fn next(ours: usize, theirs: usize, waiting: &[(PoolId, u64)]) -> Option<PoolId> {
        next_of(false, ours, theirs, waiting)
    }

    fn next_of(is_kept: bool, ours: usize, theirs: usize, waiting: &[(PoolId, u64)]) -> Option<PoolId> {
        ruled(is_kept, (ours, theirs), waiting).0
    }

    /// Like `next`, with the rules that were reported.
    fn ruled(
        is_kept: bool,
        (ours, theirs): (usize, usize),
        waiting: &[(PoolId, u64)],
    ) -> (Option<PoolId>, Vec<&'static str>) {
        let mut rules = Rules::new(ours + theirs);
        rules.free = 0;
        rules.places = BTreeMap::from([(OURS, ours), (OTHER, theirs)]);
        for (pool, waited_ms) in waiting {
            rules.ask(*pool, (), NOW - Duration::from_millis(*waited_ms));
        }
        rules.give_back(OURS, (), if is_kept { NOW } else { Duration::ZERO }, NOW);
        let mut reported = Vec::new();
        loop {
            match rules.next_step(NOW) {
                Some(Step::Kept) => reported.push(Wait::Kept.as_str()),
                Some(Step::Give { pool, .. }) => return (Some(pool), reported),
                Some(Step::Open { pool, closed, .. }) => {
                    reported.extend(closed.map(|((), rule)| rule.as_str()));
                    return (Some(pool), reported);
                }
                None => return (None, reported),
            }
        }
    }

    #[test]
    fn rule_that_decides_is_counted() {
        assert_eq!(ruled(false, (3, 1), &[(OTHER, 1)]), (Some(OTHER), vec!["TwoMore"]));
        assert_eq!(ruled(false, (1, 0), &[(OTHER, 1)]), (Some(OTHER), vec!["NoConnection"]));
        assert_eq!(ruled(false, (1, 0), &[(OTHER, 150), (OURS, 9)]), (Some(OTHER), vec!["WaitedLong"]));
        assert_eq!(ruled(true, (3, 1), &[(OTHER, 1)]), (None, vec!["Kept"]));
        assert_eq!(ruled(false, (1, 1), &[(OTHER, 1)]), (None, vec![]));
        assert_eq!(ruled(true, (1, 1), &[(OURS, 1)]), (Some(OURS), vec![]));
        assert_eq!(ruled(false, (1, 0), &[]), (None, vec![]));
    }

    #[test]
    fn tenant_without_a_place_gets_one_of_several_at_once_and_the_only_one_after_a_while() {
        assert_eq!(next(2, 0, &[(OURS, 9), (OTHER, 1)]), Some(OTHER));
        assert_eq!(next(1, 0, &[(OTHER, 50), (OURS, 9)]), Some(OURS));
        assert_eq!(next(1, 0, &[(OTHER, 150), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 0, &[(OURS, 200), (OTHER, 150)]), Some(OURS), "ours came first");
        assert_eq!(next(1, 0, &[(OTHER, 1)]), Some(OTHER), "ours does not wait");
    }

    #[test]
    fn idle_connection_goes_to_a_tenant_that_needs_it_more() {
        let chosen = |has, waited_ms, others: &[(usize, u64)]| {
            let other = |(number, (places, unused_ms)): (usize, &(usize, u64))| Other {
                number: number as u64,
                unused_for: Duration::from_millis(*unused_ms),
                places: *places,
            };
            let others: Vec<Other> = others.iter().enumerate().map(other).collect();
            choose(has, Duration::from_millis(waited_ms), &others)
        };
        assert_eq!(
            chosen(0, 0, &[(1, 30), (1, 20), (1, 10)]),
            Some((1, Taken::NoConnection)),
            "the middle one"
        );
        assert_eq!(chosen(0, 0, &[(1, 30), (1, 20), (2, 10)]), Some((2, Taken::TwoMore)));
        assert_eq!(chosen(0, 0, &[(1, 3_000), (1, 20), (2, 10)]), Some((0, Taken::Unused)));
        assert_eq!(chosen(1, 0, &[(1, 30), (2, 20)]), None);
        assert_eq!(chosen(1, 0, &[(1, 30), (3, 20)]), Some((1, Taken::TwoMore)));
        assert_eq!(chosen(1, 0, &[(1, 3_000), (1, 20)]), Some((0, Taken::Unused)));
        assert_eq!(chosen(1, 100, &[(1, 30), (1, 20), (1, 10)]), Some((1, Taken::WaitedLong)));
        assert_eq!(chosen(2, 100, &[(1, 30), (1, 20)]), None, "the others have fewer");
        assert_eq!(chosen(0, 0, &[]), None);
    }

    #[test]
    fn new_connection_is_for_requests_of_the_tenant_that_opened_it() {
        assert_eq!(next_of(true, 3, 0, &[(OTHER, 900), (OURS, 9)]), Some(OURS));
        assert_eq!(next_of(true, 3, 0, &[(OTHER, 900)]), None);
    }

    #[test]
    fn new_connection_is_kept_until_no_request_uses_it_or_the_visit_ends() {
        let idle = |opened, since| Idle { pool: OURS, connection: (), opened, since };
        assert!(idle(NOW, NOW).is_kept(NOW));
        assert!(!idle(NOW, NOW).is_kept(NOW + PAUSE));
        assert!(idle(NOW, NOW + PAUSE * 5).is_kept(NOW + PAUSE * 5));
        assert!(!idle(NOW, NOW + VISIT).is_kept(NOW + VISIT));
    }

    #[test]
    fn tenant_with_places_gets_another_if_it_has_two_fewer_or_waits_long() {
        assert_eq!(next(3, 1, &[(OURS, 9), (OTHER, 1)]), Some(OTHER));
        assert_eq!(next(2, 1, &[(OTHER, 900), (OURS, 9)]), Some(OURS));
        assert_eq!(next(2, 1, &[(OTHER, 1_100), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 1, &[(OTHER, 1_100), (OURS, 9)]), Some(OTHER));
        assert_eq!(next(1, 2, &[(OTHER, 2_900), (OURS, 9)]), Some(OURS), "it has more");
        assert_eq!(next(1, 1, &[(OTHER, 90)]), None, "its own one may come back");
        assert_eq!(next(1, 1, &[(OTHER, 900)]), Some(OTHER), "ours does not wait");
        assert_eq!(next(1, 2, &[(OTHER, 2_900)]), None, "it has more");
    }

    #[test]
    fn requests_wait_for_an_opening_before_they_get_a_place() {
        let mut rules: Rules<u64, ()> = Rules::new(10);
        for request in 0..6 {
            let pool = rules.new_pool();
            rules.ask(pool, request, NOW);
        }
        let mut opened = Vec::new();
        while let Some(Step::Open { request, closed: None, .. }) = rules.next_step(NOW) {
            opened.push(request);
        }
        assert_eq!(opened, [0, 1, 2, 3]);
        let newcomer = rules.new_pool();
        assert_eq!((rules.free, rules.why_waiting(newcomer, NOW)), (6, Wait::Opening));
        rules.opening_ended();
        assert!(matches!(rules.next_step(NOW), Some(Step::Open { request: 4, .. })));
        assert!(rules.next_step(NOW).is_none());
    }
}
