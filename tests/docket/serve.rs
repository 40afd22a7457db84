//! `docket serve` from outside: processes with different roles on a real PostgreSQL and a real Redis, tenants from a
//! folder and from runtime Secrets of a real Kubernetes API.

mod audit;
mod away;
mod cluster;
mod commands;
mod faults;
mod hostile;
mod hostile_clients;
mod hostile_together;
mod limits;
mod metrics;
mod notices;
mod older_schema;
mod pooler;
mod proxies;
mod recreated;
mod redis_changes;
mod redis_users;
mod roles;
mod settings;
mod simultaneous;
pub(crate) mod stage;
mod watcher;
