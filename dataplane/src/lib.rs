//! The data plane of Docket.
//!
//! * [`app`]: what handlers share; the edges are [`api`]: HTTP in, [`worker`]: webhooks out, and [`detector`]: the invoices
//!   that other programs insert
//! * [`actions`]: what the service does, free of HTTP
//! * [`store`]: the tenant's database, which is the truth; [`schedule`]: when to look, which can be thrown away
//! * [`tenants`]: who is served
//! * [`passwords`], [`throttle`]: what sign-in needs
//! * [`dev`]: the embedded mode, which puts it all together; [`args`], [`cli`]: the command line
//! * [`clock`], [`random`], [`shutdown`], [`telemetry`]: the outside world as arguments
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
pub mod schedule;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod tenants;
pub mod throttle;
pub mod worker;
