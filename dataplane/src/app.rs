//! What a request handler may use; put together by the modes ([`crate::dev`], later the cluster).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::actions::sign_in::SignIn;
use crate::api::host::Hosts;
use crate::clock::Clock;
use crate::passwords::Passwords;
use crate::schedule::memory::MemorySchedule;
use crate::telemetry::Metrics;
use crate::tenants::Tenants;
use crate::throttle::Throttle;

/// The schedule that this program runs with.
pub type LiveSchedule = MemorySchedule;

/// What a request handler may use.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct App {
    /// The time.
    pub clock: Clock,
    /// Who is served.
    pub tenants: Arc<Tenants>,
    /// When to look at deliveries.
    pub schedule: Arc<LiveSchedule>,
    /// Checks passwords.
    pub passwords: Passwords,
    /// Slows guessing down.
    pub throttle: Throttle,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Which host is what.
    pub hosts: Hosts,
    /// Whether the schedule has been rebuilt and requests are served.
    pub ready: AtomicBool,
}

impl App {
    /// What sign-in works with.
    pub fn sign_in(&self) -> SignIn<'_> {
        let Self { clock, passwords, throttle, metrics, .. } = self;
        SignIn { clock, passwords, throttle, metrics }
    }
}
