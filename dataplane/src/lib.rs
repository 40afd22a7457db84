//! The data plane of Docket.
//!
//! * [`app`]: the composition root, which starts the parts of a process. The modes choose the parts: [`dev`], the embedded
//!   mode, and [`serve`], one of many processes. [`args`] is the command line, [`cli`] the commands beside the servers.
//! * [`listeners`]: what a process serves on each port: [`api`], the API; [`portal`], the pages of the administration; [`platform`], the
//!   API for the platform's staff, without payloads. [`mod@http`]: how all three read and refuse requests
//! * [`delivery`]: webhooks out, from the save to the history; [`detector`]: the invoices that other programs insert
//! * [`notices`]: e-mail to people who subscribed to changes of webhooks
//! * [`actions`]: what the service does, free of HTTP; [`refusal`]: why it refuses
//! * [`tenancy`]: the tenants that are served, and what is done together for one of them
//! * [`access`]: what a caller may try, and how often
//! * [`readiness`], [`telemetry`]: what the process reports about itself; [`audit`]: who did what
//! * [`redis`], [`wake`]: how a process reaches Redis, and a command a running `docket dev`
//!
//! Tenants come from `docket-source`. A tenant's database is in `docket-store`, the times of deliveries in
//! `docket-schedule`, the rules in `docket-domain` and `docket-orders`.

// A handler awaits what an action awaits, and so on down to the statement: the compiler follows that chain of futures.
#![recursion_limit = "256"]

pub mod access;
pub mod actions;
pub mod api;
pub mod app;
pub mod args;
pub mod audit;
pub mod cli;
pub mod delivery;
pub mod detector;
pub mod dev;
pub mod http;
pub mod listeners;
pub mod notices;
pub mod platform;
pub mod portal;
pub mod readiness;
pub mod redis;
pub mod refusal;
pub mod serve;
pub mod telemetry;
pub mod tenancy;
pub mod wake;
