//! The operator of Docket: Tenants and Webhooks of a cluster become what the data plane serves.
//!
//! - `watch` feeds `cluster` (what we know, indexed) and the `queue`s; `operator` gives the drivers work.
//! - `tenant` is the driver of Tenants, one file per step; `webhook` that of Webhooks.
//! - `database` makes managed databases; `kube_api` has the calls to the API server.
//! - `observe` reads what the data plane reports through Redis.
//! - `lease` says who may write; `admin` and `metrics` say how it is.
//!
//! Rules are pure (`cluster`, `keys`, `conditions`, `programmed`, `tenant::{validate, build, signing, generated, status}`,
//! `webhook::status`); everything else is I/O around them.

pub mod admin;
pub mod args;
pub mod cluster;
pub mod conditions;
pub mod database;
pub mod declared;
pub mod keys;
pub mod kube_api;
pub mod labels;
pub mod lease;
pub mod metrics;
pub mod name;
pub mod observe;
pub mod operator;
pub mod programmed;
pub mod queue;
pub mod run;
pub mod tenant;
pub mod watch;
pub mod webhook;
