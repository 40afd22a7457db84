//! The data plane of Docket.
//!
//! * [`app`]: what handlers share; the edges are [`api`]: HTTP in, [`worker`]: webhooks out, and [`detector`]: the invoices
//!   that other programs insert
//! * [`actions`]: what the service does, free of HTTP
//! * [`store`]: the tenant's database, which is the truth; [`schedule`]: when to look, which can be thrown away
//! * [`tenants`]: who is served
//! * [`passwords`], [`throttle`]: what sign-in needs
//! * [`service`] puts the parts together; [`dev`]: the embedded mode, [`serve`]: one of many processes; [`serving`]: from
//!   what is declared to what is served; [`args`], [`cli`]: the command line
//! * [`clock`], [`random`], [`readiness`], [`shutdown`], [`telemetry`]: the outside world as arguments
//!
//! The rules themselves are in `docket-domain` and `docket-orders`.

pub mod actions;
pub mod api;
pub mod app;
pub mod args;
pub mod cli;
pub mod clock;
pub mod detector;
pub mod dev;
pub mod passwords;
pub mod random;
pub mod readiness;
pub mod schedule;
pub mod serve;
pub mod service;
pub mod serving;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod tenants;
pub mod throttle;
pub mod worker;
