//! Deliveries from the outside: states, retries, crashes, fairness. Real processes, real sockets, scaled time.
//!
//! [`stage`] starts a `docket dev` on the files of a case and reads its database. Beside a C compiler (which building SQLite
//! needs, too) this needs `python3`, for TLS in front of the receivers and for a second opinion on signatures.

mod addresses;
mod backoff;
pub(crate) mod contract;
mod drain;
mod fairness;
mod faults;
mod invoices;
mod invoices_fairness;
mod kills;
mod libraries;
mod lifecycle;
mod notes;
mod resend;
mod resend_many;
pub(crate) mod stage;
mod states;
mod telemetry;
