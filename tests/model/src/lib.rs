//! A model of the delivery protocol, from the transaction of a save to the end of the claim, and a search of what can happen to it.
//!
//! [`state`] is what the database, the schedule, the processes and the receiver know. [`World::next`] is one [step](action) of the protocol
//! or one fault. [`search`](search::search) tries every order of the steps, up to a number of states, and checks the [`invariants`] in each
//! state. [`World::without`] leaves out one [`Guard`] of the protocol: the search must then find a history that breaks an invariant.
//! `histories/` keeps these histories. The suite `tests/replay` repeats them, and random ones, with the SQL and the Lua of Docket on real
//! databases and schedules, and compares the real state with the model's state after each step.
//!
//! # What is modelled
//!
//! * One or two deliveries of one save to one webhook, or a publication that is repeated under its idempotency key.
//! * Rows: hand-off, queue or history; attempts, losses, due time, lease with token. The schedule's entries: due time, or claim with fence.
//! * A process that saves, with the outbox and the hand-offs, and two workers. Each makes one attempt at a time.
//! * Faults: a process ends at any step; a worker pauses at any step, because the others go on; the response to a commit or a call is lost;
//!   the schedule loses its entries, returns to an older state, and receives calls late, twice or never; the clocks of database and schedule
//!   run apart, and the database's clock is set back; a webhook is deleted and declared again.
//!
//! Times are whole ticks from now: a lease, a backoff and the grace of a missing webhook each last one tick. Time that has passed does not
//! count further, and a token or fence that no process holds is the same as any other. So the number of states is finite.
//!
//! # What is not modelled
//!
//! * Shares, turns, slots, permits and the limit of a tenant's entries: they decide when an attempt is made, and not whether. A lost
//!   schedule is found by the next sweep here, however `Schedule::lost` finds it.
//! * A restarted process ends its old leases early. Here they expire.
//! * Resends, retention and rows of older versions. A sweep is one step, but what it schedules may arrive later.
//! * Locks within a transaction: each transaction is one step. [`locks`] models only the order of the locks.
//!
//! # Why the search is our own
//!
//! stateright 0.31.0, the newest version, has no optional features: it brings a web server, and second versions of `rand`, `rand_core` and
//! others, which `deny.toml` refuses. Its search follows states by a hash of 64 bits, and cannot say that from each state the end can be
//! reached. The search here is 40 lines, compares whole states, and finds the same shortest history every time.

pub mod action;
pub mod guard;
pub mod history;
pub mod invariant;
pub mod invariants;
pub mod locks;
mod next;
pub mod random;
pub mod search;
pub mod state;
mod world;

pub use guard::Guard;
pub use world::{Faults, World};
