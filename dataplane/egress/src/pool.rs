//! Who gets a connection to a target, and who opens one.
//!
//! An attempt takes an idle connection, or joins the line of its target. Whichever is ready first goes to the attempt that has waited
//! longest: a connection that another attempt gives back, or one that was opened meanwhile.
//!
//! - Openings are tasks of their own, so that an attempt never waits for its own handshake while a connection is free. An opening
//!   costs as much CPU as seven POSTs, so at most [`OPENINGS`] run at a time. A line that has waited for [`LONGEST_WAIT`] may have as
//!   many as it has connections in use; without a connection in use, as many as attempts wait.
//! - An idle connection may hold a worker of the receiver: Apache's prefork, or a server with a thread for each connection, serves the
//!   next one only when it closes. So while an opening takes longer than [`LONGEST_WAIT`], idle connections to its receiver are kept
//!   for this time only. An opening for which no attempt waits any more is given up.
//! - An opening that times out fails no attempt if the receiver answered another one meanwhile: all of its workers are busy, and the
//!   attempts wait for a connection that comes back.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Phase, Report};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::connection::Connection;
use crate::kept::Kept;
use crate::target::Target;

/// How many connections to a target are opened at a time while attempts have not waited for [`LONGEST_WAIT`].
pub const OPENINGS: usize = 4;
/// How long an attempt waits before its line opens more connections: its receiver may be far away, so that an opening takes long and
/// no CPU, or it may not respond. An opening that takes longer finds a receiver without a free worker.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Why an attempt has no connection, and how far its opening came.
pub(crate) type Unopened = (FailureClass, Report);
/// The end of an opening: the connection, and how long its phases took.
pub(crate) type Opened = Result<(Connection, Report), Unopened>;

/// Connections to receivers, and the attempts that wait for one. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    idle: Kept<Connection>,
    /// The lines of the targets that have an attempt or an opening.
    lines: HashMap<Arc<Target>, Line>,
    next_ticket: u64,
}

/// The attempts at a target.
#[derive(Default)]
struct Line {
    /// Openings under way.
    opening: usize,
    /// Connections in use.
    in_use: usize,
    /// When an attempt read an answer last.
    answered_at: Option<Instant>,
    /// Of the last opening that timed out without failing an attempt.
    timed_out: Option<FailureClass>,
    /// Those that have no connection yet, by ticket, in the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<Result<Borrowed, Unopened>>>,
}

impl Line {
    /// Whether the line may open one more connection. `has_waited`: an attempt has waited for [`LONGEST_WAIT`].
    fn may_open(&self, has_waited: bool) -> bool {
        let most = match (has_waited, self.in_use) {
            (false, _) => OPENINGS,
            (true, 0) => usize::MAX,
            (true, in_use) => in_use.max(OPENINGS),
        };
        self.opening < self.waiting.len().min(most)
    }

    fn first(&mut self) -> Option<oneshot::Sender<Result<Borrowed, Unopened>>> {
        self.waiting.pop_first().map(|(_, first)| first)
    }

    fn is_empty(&self) -> bool {
        self.opening == 0 && self.in_use == 0 && self.waiting.is_empty()
    }
}

impl State {
    /// Changes the line of a target, and forgets it once nothing is in it.
    fn line<T>(&mut self, target: &Arc<Target>, change: impl FnOnce(&mut Line) -> T) -> T {
        let mut entry = match self.lines.entry(Arc::clone(target)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Line::default()),
        };
        let changed = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        changed
    }
}

/// A connection in use. Dropping it closes the connection.
pub(crate) struct Borrowed {
    pub(crate) connection: Connection,
    /// How long the phases of opening it took; `None`: an earlier attempt used it.
    pub(crate) opened: Option<Report>,
    seat: Seat,
}

/// Counts a connection as in use.
struct Seat {
    pool: Pool,
    target: Arc<Target>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pool.lock().line(&self.target, |line| line.in_use -= 1);
    }
}

impl Borrowed {
    /// Ends the use after an answer: the connection goes to the attempt that waits first, or becomes idle. If it can't take another
    /// request, or `is_whole` is false (the answer was not read to its end), it is closed.
    pub(crate) fn give_back(mut self, is_whole: bool) {
        let (pool, target) = (self.seat.pool.clone(), Arc::clone(&self.seat.target));
        let is_reusable = is_whole && self.connection.exchange.is_reusable();
        let now = Instant::now();
        pool.lock().line(&target, |line| line.answered_at = Some(now));
        if is_reusable {
            self.opened = None;
            pool.hand_over(&target, self);
        }
    }
}

/// An attempt's place in line.
struct Waiting {
    pool: Pool,
    target: Arc<Target>,
    ticket: u64,
    given: oneshot::Receiver<Result<Borrowed, Unopened>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.lock().line(&self.target, |line| line.waiting.remove(&self.ticket));
    }
}

/// A connection that is being opened.
struct Opening {
    pool: Pool,
    target: Arc<Target>,
    since: Instant,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.pool.lock().line(&self.target, |line| line.opening -= 1);
    }
}

impl Opening {
    /// Makes room for an opening that takes long: closes the connections to its receiver that no attempt has used meanwhile. Returns
    /// false if no attempt waits for it, so that it can be given up.
    fn continues(&self) -> bool {
        let mut state = self.pool.lock();
        if state.line(&self.target, |line| line.waiting.is_empty()) {
            return false;
        }
        let idle = state.idle.expired_at(&self.target, LONGEST_WAIT, Instant::now());
        drop(state);
        drop(idle); // closing needs time, but not the lock
        true
    }

    /// Gives what was opened, or why nothing was, to the attempt that waits first.
    fn end(self, opened: Opened) {
        let (pool, target) = (self.pool.clone(), Arc::clone(&self.target));
        match opened {
            Ok((connection, report)) => {
                pool.lock().line(&target, |line| line.in_use += 1);
                let seat = Seat { pool: pool.clone(), target: Arc::clone(&target) };
                // It no longer counts as being opened when the next one may be.
                drop(self);
                pool.hand_over(&target, Borrowed { connection, opened: Some(report), seat });
            }
            Err((class, report)) => {
                let timed_out = matches!(class, FailureClass::Timeout(Phase::Connect | Phase::Tls));
                let fails = pool.lock().line(&target, |line| {
                    if timed_out && line.answered_at.is_some_and(|at| at > self.since) {
                        line.timed_out = Some(class);
                        return None;
                    }
                    line.first()
                });
                if let Some(fails) = fails {
                    let _ = fails.send(Err((class, report))); // it has just ended by itself
                }
            }
        }
    }
}

impl Pool {
    /// Returns an open connection to `target`. Waits for one until `until` at the latest. `open` opens one, in a task of its own.
    ///
    /// With `afresh` it takes none that is idle: a receiver that closes idle connections without notice may have failed the attempt
    /// before. It closes one instead, whose place at the receiver the new one needs.
    ///
    /// # Errors
    ///
    /// No connection could be opened, or none became free in time.
    pub(crate) async fn take<O, F>(
        &self,
        target: &Arc<Target>,
        afresh: bool,
        until: Instant,
        open: O,
    ) -> Result<Borrowed, Unopened>
    where
        O: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Opened> + Send + 'static,
    {
        self.drop_idle();
        loop {
            let mut waiting = match self.join(target, afresh) {
                Ok(idle) => return Ok(idle),
                Err(waiting) => waiting,
            };
            self.open_more(target, false, &open);
            let given = loop {
                match timeout_at(until.min(Instant::now() + LONGEST_WAIT), &mut waiting.given).await {
                    Ok(given) => break given.expect("the line keeps it until it gives something"),
                    Err(_) if Instant::now() < until => self.open_more(target, true, &open),
                    Err(_) => {
                        let timed_out = self.lock().line(target, |line| line.timed_out);
                        let class = timed_out.unwrap_or(FailureClass::Timeout(Phase::Connect));
                        return Err((class, Report::default()));
                    }
                }
            };
            match given {
                // The receiver closed it before this attempt woke.
                Ok(borrowed) if borrowed.opened.is_none() && !borrowed.connection.is_open() => {}
                given => return given,
            }
        }
    }

    /// Returns an idle connection, or a place in line.
    fn join(&self, target: &Arc<Target>, afresh: bool) -> Result<Borrowed, Waiting> {
        loop {
            let mut state = self.lock();
            let idle = state.idle.pop(target);
            let Some(connection) = idle.filter(|_| !afresh) else {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                let (give, given) = oneshot::channel();
                state.line(target, |line| line.waiting.insert(ticket, give));
                return Err(Waiting { pool: self.clone(), target: Arc::clone(target), ticket, given });
            };
            state.line(target, |line| line.in_use += 1);
            drop(state);
            let seat = Seat { pool: self.clone(), target: Arc::clone(target) };
            // Asks the system, which needs time, but not the lock.
            if connection.is_open() {
                return Ok(Borrowed { connection, opened: None, seat });
            }
        }
    }

    /// Begins to open a connection if the line may have one more.
    fn open_more<O, F>(&self, target: &Arc<Target>, has_waited: bool, open: &O)
    where
        O: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Opened> + Send + 'static,
    {
        let may = self.lock().line(target, |line| {
            let may = line.may_open(has_waited);
            line.opening += usize::from(may);
            may
        });
        if may {
            let (pool, target) = (self.clone(), Arc::clone(target));
            let opening = Opening { pool, target, since: Instant::now() };
            tokio::spawn(opened(opening, open.clone()));
        }
    }

    /// Gives a connection to the attempt that waits first, or keeps it.
    fn hand_over(&self, target: &Arc<Target>, mut borrowed: Borrowed) {
        loop {
            let first = self.lock().line(target, Line::first);
            let Some(first) = first else { break };
            match first.send(Ok(borrowed)) {
                Err(Ok(back)) => borrowed = back, // that attempt has just ended
                Ok(()) | Err(Err(_)) => return,
            }
        }
        let Borrowed { connection, seat, .. } = borrowed;
        let mut state = self.lock();
        let replaced = state.idle.push(Arc::clone(target), connection, Instant::now());
        drop(state);
        drop((replaced, seat)); // closing needs time, but not the lock
    }

    /// Drops connections that were unused for too long.
    pub(crate) fn drop_idle(&self) {
        let now = Instant::now();
        let expired = self.lock().idle.expired(now);
        drop(expired); // closing needs time, but not the lock
    }

    #[cfg(test)]
    pub(crate) fn keep_idle(&self, target: &Arc<Target>, connection: Connection) {
        self.lock().idle.push(Arc::clone(target), connection, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection, and then the next one if attempts still wait.
async fn opened<O, F>(opening: Opening, open: O)
where
    O: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = Opened> + Send + 'static,
{
    let mut work = pin!(open());
    let opened = loop {
        match timeout(LONGEST_WAIT, &mut work).await {
            Ok(opened) => break opened,
            Err(_) if opening.continues() => {}
            Err(_) => return,
        }
    };
    let (pool, target) = (opening.pool.clone(), Arc::clone(&opening.target));
    opening.end(opened);
    pool.open_more(&target, false, &open);
}

#[cfg(test)]
mod tests;
