//! The room of deliveries: webhooks out.
//!
//! * [`saves`]: new orders come in here, many in one transaction, with their events and deliveries
//! * [`outbox`]: the one door for what other transactions queue: announces deliveries to the schedule before their commit, and notifies
//!   it afterwards
//! * `admission`: limits the attempts at once, and makes saves wait for the deliveries of earlier saves
//! * [`attempt`]: claim, begin, send, finish, settle; and the hand-off, which begins at a save
//! * [`upkeep`]: sweep, retention, report
//!
//! It uses the actions that save an order and publish its event, the served tenants and telemetry. The detector, the API and the
//! commands use it. No action does: an action returns hints, and its caller gives them to the outbox.

mod admission;
pub mod attempt;
pub mod outbox;
pub mod saves;
pub mod upkeep;

pub use admission::SavePermits;
