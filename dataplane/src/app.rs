//! What a request handler may use; put together by the modes ([`crate::dev`], later the cluster).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::actions::sign_in::SignIn;
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

/// Which host is what. Lower case, without port or trailing dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// `{base_url}`; its subdomains are tenants.
    pub base_domain: String,
    /// `{legacy_base_url}`, if the older API is served.
    pub legacy: Option<String>,
}

/// What a request's host means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// The base host, or one we have no name for: only an API key can tell the tenant.
    Base,
    /// Below the base domain, with this label.
    Subdomain(String),
    /// The older API.
    Legacy,
}

impl Hosts {
    /// What `host` means: exact names only, never a suffix of one.
    pub fn kind(&self, host: &str) -> HostKind {
        if self.legacy.as_deref() == Some(host) {
            return HostKind::Legacy;
        }
        match host.strip_suffix(&self.base_domain).and_then(|rest| rest.strip_suffix('.')) {
            Some(label) if !label.is_empty() => HostKind::Subdomain(label.to_owned()),
            _ => HostKind::Base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_count() {
        let hosts = Hosts { base_domain: "api.example".into(), legacy: Some("old.api.example".into()) };
        assert_eq!(hosts.kind("api.example"), HostKind::Base);
        assert_eq!(hosts.kind("acme.api.example"), HostKind::Subdomain("acme".into()));
        assert_eq!(hosts.kind("a.b.api.example"), HostKind::Subdomain("a.b".into()));
        assert_eq!(hosts.kind("old.api.example"), HostKind::Legacy);
        assert_eq!(hosts.kind("evilapi.example"), HostKind::Base);
        assert_eq!(hosts.kind("api.example.evil"), HostKind::Base);
        assert_eq!(hosts.kind(".api.example"), HostKind::Base);
    }
}
