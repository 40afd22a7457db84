//! The data plane of Docket.
//!
//! * [`app`]: what handlers share; the edges are [`api`]: HTTP in, [`worker`]: webhooks out, and [`detector`]: the invoices
//!   that other programs insert
//! * [`actions`]: what the service does, free of HTTP
//! * [`tenants`]: who is served
//! * [`passwords`], [`throttle`]: what sign-in needs
//! * [`service`] puts the parts together; [`dev`]: the embedded mode, [`serve`]: one of many processes; [`serving`]: from
//!   what is declared to what is served; [`args`], [`cli`]: the command line
//! * [`readiness`], [`telemetry`]: what the process reports about itself
//!
//! The tenant's database is in `docket-store`, when to look at a delivery in `docket-schedule`, the rules themselves in
//! `docket-domain` and `docket-orders`.

pub mod actions;
pub mod api;
pub mod app;
pub mod args;
pub mod cli;
pub mod detector;
pub mod dev;
pub mod passwords;
pub mod readiness;
pub mod redis;
pub mod serve;
pub mod service;
pub mod telemetry;
pub mod tenants;
pub mod throttle;
pub mod wake;
pub mod worker;
