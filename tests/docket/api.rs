//! The API from the outside: one file per resource or concern, one test per behaviour.

mod audit;
mod auth;
mod auth_refused;
mod bad_input;
mod cli;
mod config;
mod faults;
mod idempotency;
mod invoices_search;
mod legacy;
mod limits;
mod notes_add;
mod notes_search;
mod orders_export;
mod orders_get;
mod orders_save;
mod orders_search;
mod process_status;
mod query_strings;
pub(crate) mod rig;
mod routes;
mod tenancy;
mod throttling;
mod tokens;
pub(crate) mod webhook_logs;
mod webhook_resends;
mod wire;
