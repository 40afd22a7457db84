//! Deliveries and their attempts, in the order of a delivery's life.
//!
//! An attempt is counted, with a lease and a fencing token, before its POST. Only that token can finish it. So no
//! more than five attempts reach the wire, and a worker that comes back late changes nothing.
//!
//! Unfinished deliveries are in the table `delivery_queue`, which stays small. While the process that saved them makes their first
//! attempt, they are in the table of `first_attempt` instead. Finished ones are in `delivery_history`, whose rows change only by the
//! marks of dead letters, and when a webhook's uid is replaced by its key. The view `delivery` shows all. Attempts that failed are in
//! `attempt_history`; the view `attempt` also shows the attempt that succeeded and the attempt in progress.

mod attempt;
mod begin;
mod due;
mod finish;
mod first_attempt;
mod history;
mod lease;
mod missing;
mod neighbours;
mod queue;
mod rekey;
pub(crate) mod search;

pub use attempt::{End, Held, Lease, Started};
pub use begin::begin_attempts;
pub use docket_domain::delivery::Due;
pub use due::{LATE_END_MS, due_again, due_by_key, unfinished};
pub use finish::{EndResult, end_lost_attempts, finish_attempt, finish_attempts};
pub(crate) use first_attempt::{HandOffSelection, inserts as first_attempts, queue as queue_first_attempts};
pub use first_attempt::{NewHandOff, delete_undelivered_events};
pub(crate) use history::WITH_WEBHOOKS;
pub use lease::{EndedLeases, give_back, queue_unfinished, renew};
pub use missing::{
    MOST_COUNTED, MissingWebhook, begin_to_end, count_queued, end_without_webhook, forget_missing, missing,
    note_missing,
};
pub use neighbours::{Neighbours, neighbours, neighbours_sql};
pub(crate) use queue::inserts;
pub use queue::{NewDelivery, begun, insert, insert_many, is_under_way};
pub use rekey::{has_uid, rekey_finished, rekey_queued, rekey_resends, uids};
pub use search::{
    DeliveryFilter, ListedDelivery, StoredAttempt, find, find_with_attempts, has_webhook, last_tests,
    last_times, later, search,
};
