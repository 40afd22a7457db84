//! What database, schedule, processes and receiver know at one moment. Times are ticks from now.

use crate::invariant::Invariant;

/// The largest number of deliveries.
pub const DELIVERIES: usize = 2;
/// The number of tasks: a hand-off for each delivery, then the two workers.
pub const TASKS: usize = DELIVERIES + 2;
/// The contract's number of attempts.
pub const MAX_ATTEMPTS: u8 = 5;
/// How long a lease or a claim lasts.
pub const LEASE: i8 = 1;
/// How long a delivery waits after a failed attempt.
pub const BACKOFF: i8 = 1;
/// How long the deliveries of a missing webhook wait until the webhook is declared again.
pub const GRACE: i8 = 1;

/// A task that makes attempts: its place in [`State::tasks`].
pub type TaskId = u8;

/// Where a delivery is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// The delivery is not stored.
    #[default]
    Absent,
    /// The delivery is in the row of its save's hand-offs.
    HandOff,
    /// The delivery is in the queue.
    Queue,
    /// The delivery is in the history, and has arrived.
    Succeeded,
    /// The delivery is in the history, as a dead letter.
    DeadLetter,
}

impl Place {
    /// Whether the delivery is stored.
    pub fn is_stored(self) -> bool {
        self != Self::Absent
    }

    /// Whether the delivery is in the history.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::DeadLetter)
    }

    /// Whether the delivery is stored and not final.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::HandOff | Self::Queue)
    }
}

/// The lease on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowLease {
    /// The task that has the token; `None`: no task has it any more.
    pub holder: Option<TaskId>,
    /// The ticks until it expires. 0: it has expired; -1: it expired at least a tick ago.
    pub left: i8,
}

/// The row of a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// The table.
    pub place: Place,
    /// The number of attempts that were counted.
    pub attempts: u8,
    /// Whether an attempt ended as `WorkerLost`.
    pub has_lost: bool,
    /// The ticks until it is due.
    pub due: i8,
    /// The lease of the attempt in progress.
    pub lease: Option<RowLease>,
}

impl Row {
    /// Moves the delivery to the history.
    pub(crate) fn end(&mut self, place: Place) {
        *self = Self { place, attempts: self.attempts, ..Self::default() };
    }
}

/// The entry of a delivery in the schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The schedule has no entry.
    #[default]
    Absent,
    /// The entry is due after these ticks.
    Waiting(i8),
    /// The entry is claimed.
    Claimed {
        /// The task that has the fence; `None`: no task has it any more.
        holder: Option<TaskId>,
        /// The ticks until the claim expires.
        left: i8,
    },
}

impl Entry {
    /// Whether a claim can take it.
    pub fn is_due(self) -> bool {
        matches!(self, Self::Waiting(0) | Self::Claimed { left: 0, .. })
    }

    /// Whether this task has the fence of the entry.
    pub fn is_held_by(self, task: TaskId) -> bool {
        matches!(self, Self::Claimed { holder: Some(holder), .. } if holder == task)
    }
}

/// What a task does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// The task does nothing.
    #[default]
    Idle,
    /// The task has a claim. The attempt is not begun.
    Claimed(u8),
    /// The attempt is begun, and the POST is not sent.
    Begun {
        /// The delivery.
        delivery: u8,
        /// The number of the attempt.
        attempt: u8,
    },
    /// The POST has ended.
    Ended {
        /// The delivery.
        delivery: u8,
        /// The number of the attempt.
        attempt: u8,
        /// Whether the receiver answered 2xx.
        succeeded: bool,
        /// Whether a commit of this end got no response.
        again: bool,
        /// Whether that commit stored the end.
        is_stored: bool,
    },
    /// The claim is to be ended.
    Settling {
        /// The delivery.
        delivery: u8,
        /// The ticks until the entry is due again; `None`: it is removed.
        again: Option<i8>,
    },
}

impl Task {
    /// The delivery.
    pub fn delivery(self) -> Option<usize> {
        match self {
            Self::Idle => None,
            Self::Claimed(delivery)
            | Self::Begun { delivery, .. }
            | Self::Ended { delivery, .. }
            | Self::Settling { delivery, .. } => Some(delivery.into()),
        }
    }

    /// Whether the task has a lease's token.
    pub fn has_token(self) -> bool {
        matches!(self, Self::Begun { .. } | Self::Ended { .. })
    }
}

/// How far the save is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Save {
    /// The save has not begun.
    #[default]
    Ready,
    /// The deliveries of the save are announced or claimed, and its transaction is open.
    Announced {
        /// Whether this process makes the first attempts.
        hand_off: bool,
    },
    /// The transaction of the save has ended.
    Over,
}

/// What the receiver remembers of a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Received {
    /// The number of POSTs.
    pub posts: u8,
    /// The bytes of the first POST: whether they were of the new rendering.
    pub bytes: Option<bool>,
}

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The rows of the deliveries.
    pub rows: [Row; DELIVERIES],
    /// The schedule.
    pub index: [Entry; DELIVERIES],
    /// The schedule as it was saved to its disk.
    pub snapshot: Option<[Entry; DELIVERIES]>,
    /// Calls of the outbox or the sweep that the schedule has not received: the ticks until the entry is due.
    pub puts: [Option<i8>; DELIVERIES],
    /// A hand-off for each delivery, then the workers.
    pub tasks: [Task; TASKS],
    /// How far the save is.
    pub save: Save,
    /// Whether a client got the response that the order or event is stored.
    pub is_acknowledged: bool,
    /// Whether the last save was refused.
    pub is_refused: bool,
    /// Whether the save is the repetition under the same key.
    pub is_repeated: bool,
    /// Whether the webhook is served.
    pub is_served: bool,
    /// The ticks until the grace of the missing webhook ends; `None`: no sweep has found it missing.
    pub missing: Option<i8>,
    /// What the receiver remembers.
    pub received: [Received; DELIVERIES],
    /// Whether another version of Docket runs, which would write other bytes.
    pub renders_otherwise: bool,
    /// The invariant that the last step broke, if that can't be seen in the state.
    pub broken: Option<Invariant>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rows: Default::default(),
            index: Default::default(),
            snapshot: None,
            puts: Default::default(),
            tasks: Default::default(),
            save: Save::Ready,
            is_acknowledged: false,
            is_refused: false,
            is_repeated: false,
            is_served: true,
            missing: None,
            received: Default::default(),
            renders_otherwise: false,
            broken: None,
        }
    }
}

impl State {
    /// Moves the hand-offs to the queue. They are one row, so they move together.
    pub(crate) fn queue_hand_offs(&mut self) {
        for row in self.rows.iter_mut().filter(|row| row.place == Place::HandOff) {
            row.place = Place::Queue;
        }
    }

    /// Forgets tokens and fences that no task holds any more.
    pub(crate) fn forget_ended(&mut self) {
        let tasks = self.tasks;
        for lease in self.rows.iter_mut().filter_map(|row| row.lease.as_mut()) {
            lease.holder = lease.holder.filter(|holder| tasks[usize::from(*holder)].has_token());
        }
        for index in [Some(&mut self.index), self.snapshot.as_mut()].into_iter().flatten() {
            for (delivery, entry) in index.iter_mut().enumerate() {
                if let Entry::Claimed { holder, .. } = entry {
                    *holder = holder.filter(|task| tasks[usize::from(*task)].delivery() == Some(delivery));
                }
            }
        }
    }
}
