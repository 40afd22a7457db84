//! The tenant's database, which is the truth: orders, the back office, events, deliveries, attempts, people.
//!
//! One file per noun holds its statements, written once for both databases; [`sqlite`] and [`postgres`] only know how
//! to open, run and close. Every write happens in a [`Transaction`]: one that is dropped before its end takes its
//! connection with it, so that nobody can inherit a half-done transaction from a cancelled request.

mod connection;
pub mod contacts;
mod counter;
mod database;
pub mod deliveries;
pub mod employees;
mod error;
pub mod events;
pub mod health;
pub mod idempotency;
pub mod invoices;
mod migrate;
pub mod notes;
pub mod orders;
pub mod postgres;
pub mod processes;
pub mod resends;
pub mod retention;
pub mod samples;
pub mod sql;
pub mod sqlite;
pub mod stores;
pub mod work_orders;

pub use connection::{Connection, Transaction};
pub use counter::next_number;
pub use database::Database;
pub use error::StoreError;
