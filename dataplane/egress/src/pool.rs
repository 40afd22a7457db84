//! The pool of connections: which attempt gets a connection to a target, and when a connection is opened.
//!
//! An attempt takes an idle connection, or joins the line of its target. The first attempt in line gets the next connection that is ready:
//! another attempt gives it back, or it was opened. A retry takes only a new connection.
//!
//! - Openings are tasks of their own, so that an attempt never waits for its own handshake while a connection is free. An opening
//!   costs as much CPU as seven POSTs, so at most [`OPENINGS`] run at a time. A line whose attempts have waited for [`LONGEST_WAIT`] may
//!   have more: see [`Line::may_open`](state::Line::may_open).
//! - A connection may hold a worker of the receiver: Apache's prefork, or a server with a thread for each connection, serves the next
//!   one only when it closes. So while an opening takes longer than [`LONGEST_WAIT`], idle connections to its host and port are kept for
//!   this time only. An opening that takes longer than [`STARVING`] finds no free worker. While one does, a connection that is older than
//!   this is closed instead of handed on, whatever its URL. Its worker then serves the opening that waits longest at the receiver, which
//!   may be for another URL, for a retry or of another process. If the receiver is far away, both times are longer: [`FAR`] times as long
//!   as opening one of its connections took.
//! - An opening that has taken [`LONGEST_WAIT`] is given up if no attempt waits for it any more. It probably found no free worker, and
//!   the openings of another process find none either. So from then on the connections to the receiver are closed instead of kept, until
//!   one is opened that does not starve, or until none is in use.
//! - Others may starve unseen: another process, or another name of the same host. So a connection that is older than [`OLDEST`] is closed
//!   instead of handed on or kept. The opening of another process then waits for this time, for the time that an idle connection is kept,
//!   and for one request. It has [`HANDSHAKE_LIMIT`](crate::HANDSHAKE_LIMIT), so it waits in vain for a single worker whose requests take
//!   more than 5 s.
//! - An opening that fails because the receiver takes no further connection fails no attempt while the receiver has connections in use,
//!   or if it has answered since: all of its workers are busy, and the attempts wait for a connection. See [`Opening::finds_no_worker`].

mod state;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Report};
use docket_domain::failure::{Cause, Explanation};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use self::state::PoolState;
use crate::connection::ReceiverConnection;
use crate::target::Target;

/// The limit of openings per target at a time, while attempts have not waited for [`LONGEST_WAIT`].
pub const OPENINGS: usize = 4;
/// How long an attempt waits before its line opens more connections. Then the receiver may be far away, so that an
/// opening takes long but no CPU, or it may not respond.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// An opening that takes longer finds a receiver without a free worker, unless the receiver is far away.
pub const STARVING: Duration = Duration::from_millis(500);
/// How many times as long as the quickest one an opening may take at a receiver far away: a packet that gets lost is sent again.
pub const FAR: u32 = 3;
/// Age from which a connection is closed after an answer, instead of handed on or kept.
pub const OLDEST: Duration = Duration::from_secs(3);

/// Why an attempt has no connection, with the report of its opening.
pub(crate) type Unopened = (FailureClass, Report);
/// The end of an opening: the connection, and how long its phases took.
pub(crate) type OpenResult = Result<(ReceiverConnection, Report), Unopened>;
/// Opens a connection to a target. The future is boxed, because it is large and most attempts need none.
pub(crate) type Open = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = OpenResult> + Send>> + Send + Sync>;

/// The numbers of connections to receivers and of attempts that wait for one, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that attempts use.
    pub in_use: usize,
    /// Connections that are kept for the next attempt.
    pub idle: usize,
    /// Connections that are being opened.
    pub opening: usize,
    /// Connections whose opening has taken longer than [`STARVING`]; `opening` counts them too.
    pub starving: usize,
    /// Attempts that wait for a connection.
    pub waiting: usize,
    /// Connections that were opened since the process began.
    pub opened: u64,
    /// Attempts that got a connection that was open before, since the process began.
    pub reused: u64,
}

/// The connections to receivers, and the attempts that wait for a connection. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ReceiverPool(Arc<PoolInner>);

#[derive(Default)]
struct PoolInner {
    state: Mutex<PoolState>,
    opened: AtomicU64,
    reused: AtomicU64,
}

/// A connection in use. Dropping it closes the connection.
pub(crate) struct Borrowed {
    pub(crate) connection: ReceiverConnection,
    /// How long the phases of opening it took; `None`: an earlier attempt used it.
    pub(crate) opened: Option<Report>,
    /// Whether the opening took longer than [`STARVING`].
    starved: bool,
    seat: Seat,
}

/// Counts a connection as in use, until it is dropped.
struct Seat {
    pool: ReceiverPool,
    target: Arc<Target>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pool.lock().change(&self.target, |busy, line| {
            line.in_use -= 1;
            busy.in_use -= 1;
        });
    }
}

impl Borrowed {
    /// Ends the use after a response: the connection goes to the first attempt in line, or becomes idle. It is closed
    /// if it can't take another request, if `is_whole` is false (the response was not read to its end), or if another
    /// opening needs or may need its worker.
    pub(crate) fn give_back(mut self, is_whole: bool) {
        let (pool, target) = (self.seat.pool.clone(), Arc::clone(&self.seat.target));
        let is_reusable = is_whole && self.connection.exchange.is_reusable();
        let (now, age) = (Instant::now(), self.connection.opened_at.elapsed());
        let is_needed = pool.lock().change(&target, |busy, _| {
            busy.answered_at = Some(now);
            age >= OLDEST || (busy.starving > 0 && age >= STARVING)
        });
        if is_reusable && !is_needed {
            self.opened = None;
            pool.hand_over(&target, self);
        }
    }
}

struct PlaceInLine {
    pool: ReceiverPool,
    target: Arc<Target>,
    ticket: u64,
    given: oneshot::Receiver<Result<Borrowed, Unopened>>,
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        self.pool.lock().change(&self.target, |_, line| line.waiting.remove(&self.ticket));
    }
}

struct Opening {
    pool: ReceiverPool,
    target: Arc<Target>,
    since: Instant,
    /// Whether the opening has taken longer than [`STARVING`].
    starves: bool,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.pool.lock().change(&self.target, |busy, line| {
            line.opening -= 1;
            busy.starving -= usize::from(self.starves);
        });
    }
}

impl Opening {
    /// Makes room for an opening that takes long: closes connections to its receiver that were idle for
    /// [`LONGEST_WAIT`]. Returns false if no attempt waits for the opening, so that the caller gives it up; then all
    /// idle connections to its receiver are closed.
    fn continues(&mut self) -> bool {
        let took = self.since.elapsed();
        let mut state = self.pool.lock();
        let (is_long, is_needed, starves) = state.change(&self.target, |busy, line| {
            let (is_long, is_needed) = (took >= busy.long(LONGEST_WAIT), !line.waiting.is_empty());
            let starves = self.starves || took >= busy.long(STARVING);
            busy.starving += usize::from(starves && !self.starves);
            busy.gave_up |= is_long && !is_needed;
            (is_long, is_needed, starves)
        });
        self.starves = starves;
        if !is_long {
            return true;
        }
        let unused_for = if is_needed { LONGEST_WAIT } else { Duration::ZERO };
        let idle = state.idle.expired_at(&self.target.receiver, unused_for, Instant::now());
        drop(state);
        drop(idle); // closing needs time, but not the lock
        is_needed
    }

    /// Whether an opening failed although the receiver is well, because all workers of the receiver are busy. Such a receiver does not
    /// answer, or it refuses the connection, or closes it during the handshake, as at its limit of connections.
    fn finds_no_worker(&self, (class, report): &Unopened) -> bool {
        let may_be_full = is_refusal(*class, report)
            || matches!(class, FailureClass::TimeoutConnect | FailureClass::TimeoutTls);
        may_be_full
            && self
                .pool
                .lock()
                .change(&self.target, |busy, _| busy.in_use > 0 || busy.has_answered_since(self.since))
    }

    /// Gives what was opened, or why nothing was, to the attempt that waits first. `fails`: an attempt fails with it.
    fn end(self, opened: OpenResult, fails: bool) {
        let (pool, target) = (self.pool.clone(), Arc::clone(&self.target));
        match opened {
            Ok((mut connection, report)) => {
                connection.took = self.since.elapsed();
                pool.lock().change(&target, |busy, line| {
                    line.in_use += 1;
                    busy.begin(&connection);
                    line.opened = if self.starves { 0 } else { line.opened + 1 };
                    line.failed = None;
                    busy.gave_up &= self.starves;
                });
                pool.0.opened.fetch_add(1, Ordering::Relaxed);
                let (starved, seat) =
                    (self.starves, Seat { pool: pool.clone(), target: Arc::clone(&target) });
                // The opening must not count any more when the next one is decided about.
                drop(self);
                pool.hand_over(&target, Borrowed { connection, opened: Some(report), starved, seat });
            }
            Err((class, report)) => {
                let attempt = pool.lock().change(&target, |_, line| {
                    line.opened = 0;
                    if fails {
                        return line.first(true);
                    }
                    line.failed = Some(class);
                    None
                });
                if let Some(attempt) = attempt {
                    let _ = attempt.send(Err((class, report))); // the attempt may have ended meanwhile
                }
            }
        }
    }
}

impl ReceiverPool {
    /// Returns an open connection to `target`. Waits for one until `until` at the latest. `open` opens one, in a task of its own.
    ///
    /// With `afresh`, it takes no connection that another attempt has used: a receiver that closes connections
    /// without notice may have failed the attempt before. Instead it closes an idle connection, because the new one
    /// needs its worker.
    ///
    /// # Errors
    ///
    /// No connection could be opened, or none became free in time.
    pub(crate) async fn take(
        &self,
        target: &Arc<Target>,
        afresh: bool,
        until: Instant,
        open: Open,
    ) -> Result<Borrowed, Unopened> {
        let since = Instant::now();
        loop {
            let mut waiting = match self.join(target, afresh) {
                Ok(idle) => return Ok(self.counted(idle)),
                Err(waiting) => waiting,
            };
            self.open_more(target, false, &open);
            let given = loop {
                match timeout_at(until.min(Instant::now() + LONGEST_WAIT), &mut waiting.given).await {
                    Ok(given) => break given.expect("the line keeps it until it gives something"),
                    Err(_) if Instant::now() < until => self.open_more(target, true, &open),
                    Err(_) => {
                        let (has_answered, failed) = self
                            .lock()
                            .change(target, |busy, line| (busy.has_answered_since(since), line.failed));
                        let cause = has_answered.then_some(Cause::ReceiverBusy);
                        let class = cause.map(Cause::class).or(failed);
                        let report =
                            Report { explanation: Explanation { cause, detail: None }, ..Report::default() };
                        return Err((class.unwrap_or(FailureClass::TimeoutConnect), report));
                    }
                }
            };
            match given {
                // The receiver may have closed the connection before this attempt woke; then the attempt joins the line again.
                Ok(mut borrowed) => {
                    if borrowed.opened.is_some() || borrowed.connection.is_open() {
                        return Ok(self.counted(borrowed));
                    }
                }
                Err(unopened) => return Err(unopened),
            }
        }
    }

    /// Counts the connection as reused if an earlier attempt used it.
    fn counted(&self, borrowed: Borrowed) -> Borrowed {
        if borrowed.opened.is_none() {
            self.0.reused.fetch_add(1, Ordering::Relaxed);
        }
        borrowed
    }

    fn join(&self, target: &Arc<Target>, afresh: bool) -> Result<Borrowed, PlaceInLine> {
        loop {
            let mut state = self.lock();
            let idle = state.idle.pop(target);
            if idle.is_none() || afresh {
                let (give, given) = oneshot::channel();
                let ticket = state.join(target, afresh, give);
                drop(state);
                drop(idle); // closing needs time, but not the lock
                return Err(PlaceInLine { pool: self.clone(), target: Arc::clone(target), ticket, given });
            }
            let idle = state.change(target, |busy, line| {
                line.in_use += 1;
                idle.inspect(|idle| busy.begin(idle))
            });
            drop(state);
            let seat = Seat { pool: self.clone(), target: Arc::clone(target) };
            // Asking the system needs time, but not the lock.
            if let Some(connection) = idle.and_then(|mut idle| idle.is_open().then_some(idle)) {
                return Ok(Borrowed { connection, opened: None, starved: false, seat });
            }
        }
    }

    /// Begins to open a connection if the line may have one more.
    fn open_more(&self, target: &Arc<Target>, has_waited: bool, open: &Open) {
        let may = self.lock().change(target, |_, line| {
            let may = line.may_open(has_waited);
            line.opening += usize::from(may);
            may
        });
        if may {
            let (pool, target) = (self.clone(), Arc::clone(target));
            let opening = Opening { pool, target, since: Instant::now(), starves: false };
            tokio::spawn(opened(opening, Arc::clone(open)));
        }
    }

    /// Gives a connection to the first attempt in line that takes it. If no attempt takes it, the connection becomes
    /// idle. But it is closed if an opening may need the receiver's worker: if attempts (retries) still wait, if an
    /// opening starves or was given up, or if the opening of this connection starved.
    fn hand_over(&self, target: &Arc<Target>, mut borrowed: Borrowed) {
        let is_new = borrowed.opened.is_some();
        loop {
            let mut state = self.lock();
            let (first, is_needed) = state.change(target, |busy, line| {
                (line.first(is_new), busy.starving > 0 || busy.gave_up || !line.waiting.is_empty())
            });
            let Some(first) = first else {
                let Borrowed { connection, starved, seat, .. } = borrowed;
                if is_needed || starved {
                    drop(state);
                    drop((connection, seat)); // closing needs time, but not the lock
                } else {
                    self.keep(state, target, connection);
                    drop(seat);
                }
                return;
            };
            drop(state);
            match first.send(Ok(borrowed)) {
                Err(Ok(back)) => borrowed = back, // that attempt has ended meanwhile
                Ok(()) | Err(Err(_)) => return,
            }
        }
    }

    /// Keeps an idle connection until it expires.
    fn keep(
        &self,
        mut state: MutexGuard<'_, PoolState>,
        target: &Arc<Target>,
        connection: ReceiverConnection,
    ) {
        let replaced = state.idle.push(Arc::clone(target), connection, Instant::now());
        let is_first = !std::mem::replace(&mut state.has_closer, true);
        drop(state);
        drop(replaced); // closing needs time, but not the lock
        if is_first {
            tokio::spawn(self.clone().close_idle());
        }
    }

    /// Closes idle connections when they expire. Ends when no connection is idle.
    async fn close_idle(self) {
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.idle.next_expiry();
                state.has_closer = next.is_some();
                next
            };
            let Some(next) = next else { return };
            sleep_until(next).await;
            let expired = self.lock().idle.expired(Instant::now());
            drop(expired); // closing needs time, but not the lock
        }
    }

    #[cfg(test)]
    pub(crate) fn keep_idle(&self, target: &Arc<Target>, connection: ReceiverConnection) {
        self.keep(self.lock(), target, connection);
    }

    pub(crate) fn connections(&self) -> Connections {
        let PoolInner { opened, reused, .. } = &*self.0;
        let (opened, reused) = (opened.load(Ordering::Relaxed), reused.load(Ordering::Relaxed));
        Connections { opened, reused, ..self.lock().connections() }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.0.state.lock()
    }
}

/// Whether the receiver did not take the connection.
fn is_refusal(class: FailureClass, report: &Report) -> bool {
    matches!(class, FailureClass::Refused | FailureClass::Connect)
        || report.explanation.cause == Some(Cause::HandshakeClosed)
}

/// Opens a connection, and then the next one if attempts still wait.
async fn opened(mut opening: Opening, open: Open) {
    let mut work = open();
    let opened = loop {
        match timeout(LONGEST_WAIT, &mut work).await {
            Ok(opened) => break opened,
            Err(_) if opening.continues() => {}
            Err(_) => return,
        }
    };
    let (pool, target) = (opening.pool.clone(), Arc::clone(&opening.target));
    let finds_no_worker = opened.as_ref().is_err_and(|unopened| opening.finds_no_worker(unopened));
    if finds_no_worker && opened.as_ref().is_err_and(|(class, report)| is_refusal(*class, report)) {
        // The next opening would be refused at once as well.
        sleep(LONGEST_WAIT).await;
    }
    opening.end(opened, !finds_no_worker);
    pool.open_more(&target, false, &open);
}

#[cfg(test)]
mod tests;
