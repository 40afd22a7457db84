//! Deliveries and their attempts, in the order of a delivery's life.
//!
//! An attempt is counted, with a lease and a fencing token, before its POST, and finished only with that token: so
//! that never more than five reach the wire, and a worker that comes back late changes nothing.

mod begin;
mod due;
mod end;
mod finish;
mod queue;
mod search;

pub use begin::{Started, begin_attempts, release_leases, renew};
pub use docket_domain::delivery::Due;
pub use due::{LATE_END_MS, due_again, due_by_key, unfinished};
pub use end::{end_lost_fifths, end_lost_fifths_of, end_without_webhook};
pub use finish::finish_attempt;
pub use queue::{NewDelivery, insert, insert_many, is_under_way};
pub use search::{DeliveryFilter, ListedDelivery, StoredAttempt, attempts, find, search};
