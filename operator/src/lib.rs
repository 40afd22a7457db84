//! The operator of Docket: watches Tenants and Webhooks, provisions what they need, and reports their status.
//!
//! - `work` is the loop: queues, workers, resync. It calls the drivers `tenant` and `webhook`, one file per step.
//! - `state` is pure: what is declared, which objects a change concerns, and what a status says.
//! - `kube` talks to the API server: watches, writes, the lease. `database` talks to PostgreSQL, `observe` to Redis.
//! - `run` wires it all up; `admin` and `metrics` report how the process is.

pub mod admin;
pub mod args;
pub mod context;
pub mod database;
pub mod kube;
pub mod metrics;
pub mod observe;
pub mod run;
pub mod state;
pub mod tenant;
pub mod webhook;
pub mod work;
