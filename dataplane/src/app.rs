//! What a request handler may use; put together in [`crate::service`].

use std::sync::Arc;

use crate::actions::sign_in::SignIn;
use crate::api::host::Hosts;
use crate::passwords::Passwords;
use crate::readiness::Readiness;
use crate::telemetry::Metrics;
use crate::tenants::Tenants;
use crate::throttle::Throttle;
use docket_program::clock::Clock;
use docket_schedule::live::LiveSchedule;
use docket_schedule::notifier::Notifier;

/// What a request handler may use.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct App {
    /// The time.
    pub clock: Clock,
    /// Who is served.
    pub tenants: Arc<Tenants>,
    /// Says when to look at deliveries.
    pub notifier: Arc<Notifier<LiveSchedule>>,
    /// Checks passwords.
    pub passwords: Passwords,
    /// Slows guessing down.
    pub throttle: Throttle,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Which host is what.
    pub hosts: Hosts,
    /// What is still missing before requests are served.
    pub readiness: Arc<Readiness>,
}

impl App {
    /// What sign-in works with.
    pub fn sign_in(&self) -> SignIn<'_> {
        let Self { clock, passwords, throttle, metrics, .. } = self;
        SignIn { clock, passwords, throttle, metrics }
    }
}
