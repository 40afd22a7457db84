//! The steps of the protocol and the faults.

use std::fmt;

use crate::state::{DELIVERIES, TASKS, TaskId};

/// A step or a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The save claims its deliveries in the schedule, or announces them.
    Announce {
        /// Whether the announcement claims the deliveries.
        hand_off: bool,
    },
    /// The announcement does not reach the schedule.
    AnnounceLost,
    /// The save's transaction commits.
    Commit,
    /// The save's transaction commits, and the response is lost.
    CommitUnanswered,
    /// The save's transaction is rolled back.
    Refuse,
    /// The client repeats the publication.
    Repeat,
    /// A worker claims a delivery.
    Claim(TaskId, u8),
    /// The schedule gives a claim to a worker that gets no response.
    ClaimUnanswered(u8),
    /// A worker begins the attempt.
    Begin(TaskId),
    /// A worker begins the attempt, and the response to the commit is lost.
    BeginUnanswered(TaskId),
    /// A task gives the attempt back.
    GiveBack(TaskId),
    /// A task makes the POST, and the receiver answers 2xx or not.
    Post(TaskId, bool),
    /// A task stores the end.
    Finish(TaskId),
    /// A task stores the end, and the response to the commit is lost.
    FinishUnanswered(TaskId),
    /// A task can't store the end, and gives up.
    GiveUp(TaskId),
    /// A task ends its claim.
    Settle(TaskId),
    /// The end of the claim does not reach the schedule.
    SettleLost(TaskId),
    /// A task renews its lease and its claim.
    Renew(TaskId),
    /// The process of a task ends.
    Crash(TaskId),
    /// The schedule gets a notification or what a sweep found.
    Put(u8),
    /// The same, and the response is lost, so that the call is repeated.
    PutUnanswered(u8),
    /// The call is given up.
    PutLost(u8),
    /// A sweep reads the rows.
    Sweep,
    /// A tick by the database's clock.
    TickDatabase,
    /// A tick by the schedule's clock.
    TickSchedule,
    /// The database's clock is set back by a tick.
    SetBack,
    /// The schedule loses its entries.
    LoseIndex,
    /// The schedule is saved to its disk.
    SaveIndex,
    /// The schedule is again as it was saved.
    RestoreIndex,
    /// The webhook is deleted.
    DeleteWebhook,
    /// The webhook is declared again.
    DeclareWebhook,
    /// A version of Docket starts that would write other bytes.
    RenderOtherwise,
}

impl Action {
    /// All of them, in the order in which the search tries them.
    pub fn all() -> Vec<Self> {
        use Action::*;
        let mut all = vec![
            Announce { hand_off: true },
            Announce { hand_off: false },
            AnnounceLost,
            Commit,
            CommitUnanswered,
            Refuse,
            Repeat,
        ];
        for delivery in (0..).take(DELIVERIES) {
            all.extend((0..).take(TASKS).skip(DELIVERIES).map(|task| Claim(task, delivery)));
            all.extend([ClaimUnanswered, Put, PutUnanswered, PutLost].map(|action| action(delivery)));
        }
        for task in (0..).take(TASKS) {
            all.extend([Begin, BeginUnanswered, GiveBack].map(|action| action(task)));
            all.extend([Post(task, true), Post(task, false)]);
            all.extend(
                [Finish, FinishUnanswered, GiveUp, Settle, SettleLost, Renew, Crash]
                    .map(|action| action(task)),
            );
        }
        all.extend([Sweep, TickDatabase, TickSchedule, SetBack, LoseIndex, SaveIndex, RestoreIndex]);
        all.extend([DeleteWebhook, DeclareWebhook, RenderOtherwise]);
        all
    }

    /// Whether the action is a fault, or a rare step. A random history has fewer rare actions.
    pub fn is_rare(self) -> bool {
        use Action::*;
        !matches!(
            self,
            Announce { .. }
                | Commit
                | Claim(..)
                | Begin(_)
                | Post(..)
                | Finish(_)
                | Settle(_)
                | Put(_)
                | TickDatabase
                | TickSchedule
        )
    }

    /// Whether the action happens only to a schedule that outlives its processes.
    pub fn needs_redis(self) -> bool {
        matches!(self, Self::LoseIndex | Self::SaveIndex | Self::RestoreIndex)
    }
}

/// The action in words, by which `histories/` names it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Action::*;
        match *self {
            Announce { hand_off: true } => write!(f, "the save claims its deliveries"),
            Announce { hand_off: false } => write!(f, "the save announces its deliveries"),
            AnnounceLost => write!(f, "the save announces its deliveries, but the schedule does not respond"),
            Commit => write!(f, "the save commits"),
            CommitUnanswered => write!(f, "the save commits, but gets no response"),
            Refuse => write!(f, "the save is refused"),
            Repeat => write!(f, "the publication is repeated"),
            Claim(task, delivery) => write!(f, "{} claims delivery {}", name(task), delivery + 1),
            ClaimUnanswered(delivery) => {
                write!(f, "a worker claims delivery {}, but gets no response", delivery + 1)
            }
            Begin(task) => write!(f, "{} begins the attempt", name(task)),
            BeginUnanswered(task) => write!(f, "{} begins the attempt, but gets no response", name(task)),
            GiveBack(task) => write!(f, "{} gives the attempt back", name(task)),
            Post(task, true) => write!(f, "{} makes the POST, which succeeds", name(task)),
            Post(task, false) => write!(f, "{} makes the POST, which fails", name(task)),
            Finish(task) => write!(f, "{} stores the end", name(task)),
            FinishUnanswered(task) => write!(f, "{} stores the end, but gets no response", name(task)),
            GiveUp(task) => write!(f, "{} can't store the end", name(task)),
            Settle(task) => write!(f, "{} ends its claim", name(task)),
            SettleLost(task) => write!(f, "{} can't end its claim", name(task)),
            Renew(task) => write!(f, "{} renews its lease", name(task)),
            Crash(0) => write!(f, "the saving process ends"),
            Crash(task) => write!(f, "the process of {} ends", name(task)),
            Put(delivery) => write!(f, "the schedule is notified of delivery {}", delivery + 1),
            PutUnanswered(delivery) => {
                write!(f, "the schedule is notified of delivery {}, but does not respond", delivery + 1)
            }
            PutLost(delivery) => write!(f, "the notification of delivery {} is given up", delivery + 1),
            Sweep => write!(f, "a sweep reads the queue"),
            TickDatabase => write!(f, "a tick passes for the database"),
            TickSchedule => write!(f, "a tick passes for the schedule"),
            SetBack => write!(f, "the database's clock is set back"),
            LoseIndex => write!(f, "the schedule loses everything"),
            SaveIndex => write!(f, "the schedule is saved"),
            RestoreIndex => write!(f, "the schedule is restored"),
            DeleteWebhook => write!(f, "the webhook is deleted"),
            DeclareWebhook => write!(f, "the webhook is declared again"),
            RenderOtherwise => write!(f, "a version starts that writes other bytes"),
        }
    }
}

fn name(task: TaskId) -> String {
    match usize::from(task).checked_sub(DELIVERIES) {
        None => format!("hand-off {}", task + 1),
        Some(worker) => format!("worker {}", worker + 1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_action_has_its_own_words() {
        let all = Action::all();
        let words: HashSet<String> = all.iter().map(Action::to_string).collect();
        assert_eq!(words.len(), all.len());
    }
}
