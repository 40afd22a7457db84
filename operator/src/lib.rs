//! The operator of Docket: watches Tenants and Webhooks, provisions what they need, and reports their status.
//!
//! - `work` is the loop: queues, workers, resync. It calls the drivers `tenant` and `webhook`, one file per step.
//! - `state` is pure: the declared objects, which objects a change concerns, and the content of a status.
//! - `kube` calls the API server: watches, writes, the Lease. `database` calls PostgreSQL, `observe` calls Redis.
//! - `run` connects all parts; `admin` and `metrics` report the state of the process.

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
