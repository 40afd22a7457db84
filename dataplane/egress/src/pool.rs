//! Open connections between two POSTs to the same target, and the right to open more.
//!
//! To open a connection costs as much CPU as seven POSTs. Where many attempts begin at once, it takes the cores from the POSTs on
//! connections in use, which are soon free. So only some connections to a target are opened at a time; a connection that comes back
//! goes to the attempt that waits first.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::target::Target;

/// How long an unused connection is kept. Receivers close theirs after 5 s by default (Node.js, Apache, uvicorn), and a
/// POST that crosses with that close is a failed attempt; so this side closes well before.
pub const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// Connections kept per target: as many attempts as a webhook can have at a time.
pub const MAX_PER_TARGET: usize = 256;
/// Connections kept in total. Each takes 35 KiB, most of it hyper's buffers, and two file descriptors.
const MAX_KEPT: usize = 512;

/// How many connections to a target are opened at a time.
pub const OPENINGS: usize = 4;
/// How long an attempt waits for a connection or for the right to open one. Then it opens one: its receiver may be far away, so that an
/// opening takes long and no CPU, or it may not respond.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Connections between two POSTs, and the attempts that wait for one. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    kept: Kept<Connection>,
    /// Of the targets to which connections are being opened.
    lines: HashMap<Arc<Target>, Line>,
}

/// The attempts at a target that have no connection yet.
#[derive(Default)]
struct Line {
    /// How many open one.
    opening: usize,
    /// The others, in the order in which they came. Some may have given up.
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// What an attempt gets.
pub(crate) enum Turn {
    /// An open connection.
    Kept(Connection),
    /// The right to open one, which counts as being opened until this is dropped.
    Open(Opening),
}

/// A connection that is being opened.
pub(crate) struct Opening {
    pool: Pool,
    target: Arc<Target>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        let next = self.pool.lock().opened(&self.target);
        if let Some(waiting) = next {
            // An attempt that has just given up drops the right again, for the next in line.
            let _ = waiting.send(Turn::Open(self.pool.opening(&self.target)));
        }
    }
}

impl State {
    /// A connection was opened, or failed to. Returns the attempt that gets the right to open one now.
    fn opened(&mut self, target: &Arc<Target>) -> Option<oneshot::Sender<Turn>> {
        let Entry::Occupied(mut line) = self.lines.entry(Arc::clone(target)) else { return None };
        let next = if line.get().opening > OPENINGS { None } else { line.get_mut().next() };
        if next.is_none() {
            line.get_mut().opening -= 1;
            if line.get().opening == 0 {
                line.remove();
            }
        }
        next
    }
}

impl Line {
    /// Counts the attempt as one that opens a connection (`None`), or has it wait.
    fn join(&mut self) -> Option<oneshot::Receiver<Turn>> {
        if self.opening < OPENINGS {
            self.opening += 1;
            return None;
        }
        // All wait for the same time, so those that have given up are in front.
        while self.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            self.waiting.pop_front();
        }
        let (give, given) = oneshot::channel();
        self.waiting.push_back(give);
        Some(given)
    }

    /// The first attempt that waits.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        std::iter::from_fn(|| self.waiting.pop_front()).find(|waiting| !waiting.is_closed())
    }
}

impl Pool {
    /// Returns an open connection to `target`, or the right to open one. Waits for either for 100 ms, and not beyond `until`; then
    /// gives the right in any case.
    pub(crate) async fn take(&self, target: &Arc<Target>, until: Instant) -> Turn {
        self.drop_idle();
        let mut given = loop {
            let connection = {
                let mut state = self.lock();
                match state.kept.pop(target) {
                    Some(connection) => connection,
                    None => match state.lines.entry(Arc::clone(target)).or_default().join() {
                        Some(given) => break given,
                        None => return Turn::Open(self.opening(target)),
                    },
                }
            };
            // Asks the system, which needs time, but not the lock.
            if connection.is_open() {
                return Turn::Kept(connection);
            }
        };
        let turn = timeout_at(until.min(Instant::now() + LONGEST_WAIT), &mut given).await;
        given.close();
        match turn.ok().and_then(Result::ok).or_else(|| given.try_recv().ok()) {
            Some(Turn::Kept(connection)) if !connection.is_open() => self.open(target),
            Some(turn) => turn,
            None => self.open(target),
        }
    }

    /// The right to open a connection, without a wait.
    pub(crate) fn open(&self, target: &Arc<Target>) -> Turn {
        self.lock().lines.entry(Arc::clone(target)).or_default().opening += 1;
        Turn::Open(self.opening(target))
    }

    fn opening(&self, target: &Arc<Target>) -> Opening {
        Opening { pool: self.clone(), target: Arc::clone(target) }
    }

    /// Gives a connection whose last answer has been read to its end to the attempt that waits first, or keeps it, if it is
    /// reusable.
    pub(crate) fn keep(&self, target: Arc<Target>, mut connection: Connection) {
        if !connection.exchange.is_reusable() {
            return;
        }
        let mut state = self.lock();
        while let Some(waiting) = state.lines.get_mut(&target).and_then(Line::next) {
            match waiting.send(Turn::Kept(connection)) {
                // That attempt has just given up.
                Err(Turn::Kept(back)) => connection = back,
                Ok(()) | Err(Turn::Open(_)) => return,
            }
        }
        let replaced = state.kept.push(target, connection, Instant::now());
        drop(state);
        drop(replaced); // closing needs time, but not the lock
    }

    /// Drops connections that were unused for too long.
    pub(crate) fn drop_idle(&self) {
        let now = Instant::now();
        let expired = self.lock().kept.expired(now);
        drop(expired); // closing needs time, but not the lock
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept, within its bounds and times. Where a bound is reached, the connection that was unused for longest is closed. No step
/// walks over all of it.
struct Kept<C> {
    /// Numbered in the order in which they came: the one that was unused for longest is the first.
    idle: BTreeMap<u64, Idle<C>>,
    /// The numbers of each target, in the same order. A target that has none is not in it.
    by_target: HashMap<Arc<Target>, VecDeque<u64>>,
    next: u64,
}

struct Idle<C> {
    target: Arc<Target>,
    connection: C,
    since: Instant,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self { idle: BTreeMap::new(), by_target: HashMap::new(), next: 0 }
    }
}

impl<C> Kept<C> {
    /// Adds a connection. Returns the one that it replaces, if there is no room for both.
    fn push(&mut self, target: Arc<Target>, connection: C, now: Instant) -> Option<C> {
        let numbers = self.by_target.get(&target).filter(|numbers| numbers.len() >= MAX_PER_TARGET);
        let oldest = match numbers {
            Some(numbers) => numbers.front().copied(),
            None if self.idle.len() >= MAX_KEPT => self.idle.keys().next().copied(),
            None => None,
        };
        let replaced = oldest.and_then(|number| self.remove(number));
        self.by_target.entry(Arc::clone(&target)).or_default().push_back(self.next);
        self.idle.insert(self.next, Idle { target, connection, since: now });
        self.next += 1;
        replaced
    }

    /// Removes the connection to `target` that was added last.
    fn pop(&mut self, target: &Target) -> Option<C> {
        let number = *self.by_target.get(target)?.back()?;
        self.remove(number)
    }

    /// Removes the connections that have been here for too long.
    fn expired(&mut self, now: Instant) -> Vec<C> {
        let mut expired = Vec::new();
        while let Some((&number, idle)) = self.idle.first_key_value()
            && now.duration_since(idle.since) >= IDLE_LIMIT
        {
            expired.extend(self.remove(number));
        }
        expired
    }

    /// Removes the first or the last connection of its target.
    fn remove(&mut self, number: u64) -> Option<C> {
        let Idle { target, connection, .. } = self.idle.remove(&number)?;
        if let Entry::Occupied(mut numbers) = self.by_target.entry(target) {
            let place = numbers.get().binary_search(&number);
            let _ = place.map(|place| numbers.get_mut().remove(place));
            if numbers.get().is_empty() {
                numbers.remove();
            }
        }
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::connection::tests::{connection, exchange};

    fn target(number: usize) -> Arc<Target> {
        let url = format!("https://r{number}.example/").parse().expect("a url");
        Arc::new(Target::of(&url, &crate::Trust::public()).expect("a target"))
    }

    /// Numbers stand for the connections.
    fn kept(connections: impl IntoIterator<Item = (usize, usize)>, now: Instant) -> Kept<usize> {
        let mut kept = Kept::default();
        for (number, connection) in connections {
            kept.push(target(number), connection, now);
        }
        kept
    }

    #[test]
    fn connection_used_last_is_returned_first_and_once() {
        let mut kept = kept([(1, 10), (2, 20), (1, 11), (1, 12)], Instant::now());
        assert_eq!([(); 4].map(|()| kept.pop(&target(1))), [Some(12), Some(11), Some(10), None]);
        assert_eq!(
            (kept.pop(&target(3)), kept.pop(&target(2)), kept.pop(&target(2))),
            (None, Some(20), None)
        );
        assert!(kept.idle.is_empty() && kept.by_target.is_empty());
    }

    #[test]
    fn full_target_replaces_its_own_oldest_connection() {
        let now = Instant::now();
        let others = kept([(2, 0)], now);
        let mut kept = (0..MAX_PER_TARGET).fold(others, |mut kept, connection| {
            assert_eq!(kept.push(target(1), connection, now), None);
            kept
        });
        assert_eq!(kept.push(target(1), MAX_PER_TARGET, now), Some(0));
        assert_eq!(kept.push(target(1), MAX_PER_TARGET + 1, now), Some(1));
        assert_eq!(kept.by_target[&target(1)].len(), MAX_PER_TARGET);
        assert_eq!((kept.pop(&target(1)), kept.pop(&target(2))), (Some(MAX_PER_TARGET + 1), Some(0)));
    }

    #[test]
    fn ten_thousand_receivers_replace_the_oldest_connections() {
        let mut kept = kept((0..10_000).map(|number| (number, number)), Instant::now());
        assert_eq!((kept.idle.len(), kept.by_target.len()), (MAX_KEPT, MAX_KEPT));
        let oldest = 10_000 - MAX_KEPT;
        assert_eq!(kept.pop(&target(oldest - 1)), None);
        assert_eq!(kept.push(target(0), 0, Instant::now()), Some(oldest));
        assert_eq!(kept.pop(&target(9_999)), Some(9_999));
    }

    #[test]
    fn connections_expire_after_1500_ms_in_the_order_of_their_use() {
        let start = Instant::now();
        let mut kept = kept([(1, 10), (2, 20), (1, 11)], start);
        assert_eq!(kept.pop(&target(1)), Some(11));
        kept.push(target(1), 11, start + Duration::from_millis(1));
        assert!(kept.expired(start + Duration::from_millis(1_499)).is_empty());
        assert_eq!(kept.expired(start + IDLE_LIMIT), [10, 20]);
        assert_eq!((kept.idle.len(), kept.by_target.len()), (1, 1));
        assert_eq!(kept.expired(start + Duration::from_millis(1_501)), [11]);
        assert!(kept.idle.is_empty() && kept.by_target.is_empty());
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    /// The first so many attempts at the target, all of which open a connection.
    async fn opening(pool: &Pool, count: usize) -> Vec<Opening> {
        let mut opening = Vec::new();
        for _ in 0..count {
            let Turn::Open(one) = pool.take(&target(1), later()).await else { panic!("none is open") };
            opening.push(one);
        }
        opening
    }

    /// Lets it begin; it must wait.
    async fn waits(take: &mut (impl Future<Output = Turn> + Unpin)) {
        let begun = poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *take).poll(context)));
        assert!(begun.await.is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn four_connections_to_a_target_are_opened_at_a_time() {
        let (pool, begun) = (Pool::default(), Instant::now());
        let mut four = opening(&pool, OPENINGS).await;
        let one = target(1);
        let (mut fifth, mut sixth) = (pin!(pool.take(&one, later())), pin!(pool.take(&one, later())));
        waits(&mut fifth).await;
        waits(&mut sixth).await;
        assert!(matches!(pool.take(&target(2), later()).await, Turn::Open(_)), "another target");
        four.pop();
        assert!(matches!(fifth.await, Turn::Open(_)));
        assert!(matches!(sixth.await, Turn::Open(_)), "the fifth was opened");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(four);
        assert!(pool.lock().lines.is_empty());
    }

    #[tokio::test]
    async fn connection_that_comes_back_goes_to_the_first_that_waits() {
        let (mut back, mut theirs) = connection().await;
        exchange(&mut back, &mut theirs).await;
        let pool = Pool::default();
        let four = opening(&pool, OPENINGS).await;
        let one = target(1);
        let mut gives_up = Box::pin(pool.take(&one, later()));
        let (mut first, mut second) = (pin!(pool.take(&one, later())), pin!(pool.take(&one, later())));
        waits(&mut gives_up).await;
        waits(&mut first).await;
        waits(&mut second).await;
        drop(gives_up);
        pool.keep(target(1), back);
        assert!(matches!(first.await, Turn::Kept(_)));
        drop(four);
        assert!(matches!(second.await, Turn::Open(_)));
        assert!(pool.lock().lines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_opens_a_connection_after_100_ms_whatever_the_others_do() {
        let pool = Pool::default();
        let hanging = opening(&pool, OPENINGS).await;
        let begun = Instant::now();
        let Turn::Open(fifth) = pool.take(&target(1), later()).await else { panic!("none is open") };
        assert_eq!(begun.elapsed(), LONGEST_WAIT);
        let begun = Instant::now();
        let one = target(1);
        let mut sixth = pin!(pool.take(&one, later()));
        waits(&mut sixth).await;
        drop(fifth);
        assert!(matches!(sixth.await, Turn::Open(_)));
        assert_eq!(begun.elapsed(), LONGEST_WAIT, "four are still being opened");
        drop(hanging);
        assert!(pool.lock().lines.is_empty());
    }

    #[tokio::test]
    async fn connection_that_closes_before_the_attempt_wakes_is_not_used() {
        let (mut back, mut theirs) = connection().await;
        exchange(&mut back, &mut theirs).await;
        let pool = Pool::default();
        let four = opening(&pool, OPENINGS).await;
        let one = target(1);
        let mut fifth = pin!(pool.take(&one, later()));
        waits(&mut fifth).await;
        let socket = back.socket.try_clone().expect("a descriptor");
        pool.keep(target(1), back);
        drop(theirs);
        while socket.peek(&mut [0]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(matches!(fifth.await, Turn::Open(_)));
        drop(four);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_gave_up_take_no_memory() {
        let pool = Pool::default();
        let hanging = opening(&pool, OPENINGS).await;
        let mut more = Vec::new();
        for _ in 0..100 {
            more.push(pool.take(&target(1), later()).await);
        }
        assert_eq!(pool.lock().lines[&target(1)].waiting.len(), 1, "the last one");
        drop((hanging, more));
        assert!(pool.lock().lines.is_empty());
    }

    /// The right was sent to an attempt that ended before it woke.
    #[tokio::test(start_paused = true)]
    async fn right_of_an_attempt_that_ends_goes_to_the_next() {
        let (pool, begun) = (Pool::default(), Instant::now());
        let mut four = opening(&pool, OPENINGS).await;
        let one = target(1);
        let mut ends = Box::pin(pool.take(&one, later()));
        let mut next = pin!(pool.take(&one, later()));
        waits(&mut ends).await;
        waits(&mut next).await;
        four.pop();
        drop(ends);
        assert!(matches!(next.await, Turn::Open(_)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(four);
        assert!(pool.lock().lines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_waits_no_longer_than_its_own_time() {
        let pool = Pool::default();
        let hanging = opening(&pool, OPENINGS).await;
        let (begun, short) = (Instant::now(), Duration::from_millis(30));
        assert!(matches!(pool.take(&target(1), begun + short).await, Turn::Open(_)));
        assert_eq!(begun.elapsed(), short);
        drop(hanging);
    }
}
