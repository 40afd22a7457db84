//! The state of the pool: receivers, the lines of their targets, and idle connections.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Borrowed, Connections, FAR, OPENINGS, Unopened};
use crate::connection::ReceiverConnection;
use crate::kept::IdleConnections;
use crate::target::{HostPort, Target};

/// Sends an attempt its connection, or why there is none.
type Give = oneshot::Sender<Result<Borrowed, Unopened>>;

#[derive(Default)]
pub(super) struct PoolState {
    pub(super) idle: IdleConnections<ReceiverConnection>,
    /// A task closes idle connections when they expire.
    pub(super) has_closer: bool,
    /// The receivers that have an attempt or an opening.
    receivers: HashMap<HostPort, (ReceiverLoad, HashMap<Arc<Target>, Line>)>,
    next_ticket: u64,
}

/// How busy a receiver is, over all its URLs.
#[derive(Default)]
pub(super) struct ReceiverLoad {
    pub(super) in_use: usize,
    /// The number of openings that have taken longer than [`STARVING`](super::STARVING).
    pub(super) starving: usize,
    /// Whether an opening was given up, and no opening has succeeded since without starving.
    pub(super) gave_up: bool,
    /// The shortest time that opening a connection took, among the connections in use.
    pub(super) quickest: Option<Duration>,
    /// When an attempt read an answer last.
    pub(super) answered_at: Option<Instant>,
}

/// The attempts and openings of one target.
#[derive(Default)]
pub(super) struct Line {
    pub(super) opening: usize,
    /// The number of openings in a row that succeeded without starving.
    pub(super) opened: usize,
    pub(super) in_use: usize,
    /// The class of the last opening, if it failed and no attempt failed with it.
    pub(super) failed: Option<FailureClass>,
    /// The attempts that have no connection yet, by ticket, in the order in which they came.
    pub(super) waiting: BTreeMap<u64, WaitingAttempt>,
}

pub(super) struct WaitingAttempt {
    /// Whether the attempt takes no connection that another attempt has used.
    afresh: bool,
    give: Give,
}

impl ReceiverLoad {
    /// Counts a connection as in use.
    pub(super) fn begin(&mut self, connection: &ReceiverConnection) {
        self.in_use += 1;
        self.quickest = Some(self.quickest.map_or(connection.took, |quickest| quickest.min(connection.took)));
    }

    /// From when on an opening takes long: after `least`, or later if the receiver is far away.
    pub(super) fn long(&self, least: Duration) -> Duration {
        self.quickest.map_or(least, |quickest| least.max(quickest * FAR))
    }

    pub(super) fn has_answered_since(&self, since: Instant) -> bool {
        self.answered_at.is_some_and(|at| at > since)
    }
}

impl Line {
    /// Whether the line may open one more connection. `has_waited`: an attempt has waited for
    /// [`LONGEST_WAIT`](super::LONGEST_WAIT). If it has and no connection is in use, the line may open one for each
    /// attempt. If connections are in use, it may open as many as are in use or as were opened in a row without
    /// starving: a receiver without keep-alive needs one for each POST.
    pub(super) fn may_open(&self, has_waited: bool) -> bool {
        let most = match (has_waited, self.in_use) {
            (false, _) => OPENINGS,
            (true, 0) => usize::MAX,
            (true, in_use) => in_use.max(self.opened).max(OPENINGS),
        };
        self.opening < self.waiting.len().min(most)
    }

    /// Removes an attempt from the line: among the attempts that take this connection, the one that has waited longest. `is_new`:
    /// no attempt has used the connection.
    pub(super) fn first(&mut self, is_new: bool) -> Option<Give> {
        let (&ticket, _) = self.waiting.iter().find(|(_, waiter)| is_new || !waiter.afresh)?;
        self.waiting.remove(&ticket).map(|waiter| waiter.give)
    }

    fn is_empty(&self) -> bool {
        self.opening == 0 && self.in_use == 0 && self.waiting.is_empty()
    }
}

impl PoolState {
    /// Changes the line of a target, and what is known of its receiver. Forgets either once nothing is left there.
    pub(super) fn change<T>(
        &mut self,
        target: &Arc<Target>,
        change: impl FnOnce(&mut ReceiverLoad, &mut Line) -> T,
    ) -> T {
        let mut receiver = match self.receivers.entry(target.receiver.clone()) {
            Entry::Occupied(receiver) => receiver,
            Entry::Vacant(receiver) => receiver.insert_entry(Default::default()),
        };
        let (busy, lines) = receiver.get_mut();
        let line = lines.entry(Arc::clone(target)).or_default();
        let changed = change(busy, line);
        if line.is_empty() {
            lines.remove(target);
            if lines.is_empty() {
                receiver.remove();
            }
        }
        changed
    }

    /// Whether no receiver has a connection in use, an opening or a waiting attempt.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.receivers.is_empty()
    }

    pub(super) fn connections(&self) -> Connections {
        let mut connections = Connections { idle: self.idle.count(), ..Connections::default() };
        for (busy, lines) in self.receivers.values() {
            connections.in_use += busy.in_use;
            connections.starving += busy.starving;
            for line in lines.values() {
                connections.opening += line.opening;
                connections.waiting += line.waiting.len();
            }
        }
        connections
    }

    /// Puts an attempt at the end of the line. Returns its ticket.
    pub(super) fn join(&mut self, target: &Arc<Target>, afresh: bool, give: Give) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.change(target, |_, line| line.waiting.insert(ticket, WaitingAttempt { afresh, give }));
        ticket
    }
}
