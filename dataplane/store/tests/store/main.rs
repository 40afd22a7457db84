//! The contract of the store: the same cases on a SQLite file and on a real PostgreSQL. Each case is a function that
//! takes a [`TenantDatabase`](docket_rig::tenant_database::TenantDatabase). Only cases about waiting wait for real
//! time.

mod attempts;
mod audit;
mod back_office;
mod budget;
mod buffers;
mod cancellation;
mod dead_letters;
mod deliveries;
mod ended;
mod events;
mod hand_offs;
mod health;
mod idempotency;
mod idle;
mod indexes;
mod invoices_plan;
mod invoices_search;
mod key_uses;
mod notes;
mod orders;
mod parameters;
mod people;
mod processes;
mod recent;
mod retention;
mod schema;
mod search;
mod shown_secrets;
mod together;
mod transactions;
mod unavailable;
mod upgrade;
mod watcher;
mod work_orders;
