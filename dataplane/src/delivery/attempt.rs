//! The attempts of deliveries. An attempt passes through these files in order:
//!
//! 1. `claim`, the worker, claims due deliveries from the schedule, as many as slots are free.
//! 2. `batch` takes the claims of one tenant through the steps below.
//! 3. `begin` counts the attempts and leases the rows, in one transaction of the tenant's database.
//! 4. [`send`] makes the POST.
//! 5. `finish` asks the domain for the transition and stores the outcome.
//! 6. `settle` ends the claim in the schedule.
//!
//! The row decides: a stale claim finds its row leased or finished, and is settled without an attempt. A delivery that this
//! process has saved itself may skip the first and the third step: see `hand_off`. `lease` renews the leases of long attempts.

mod batch;
mod begin;
mod claim;
mod finish;
mod hand_off;
mod lease;
pub mod send;
mod settle;

pub use claim::{Worker, WorkerSettings};
pub use hand_off::{HandOff, HandedOff};
