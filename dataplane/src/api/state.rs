//! The state that request handlers share.

use std::sync::Arc;

use docket_listener::anonymous::Anonymous;
use docket_listener::client::Proxies;
use docket_listener::fair_share::FairShare;
use docket_listener::source::RequestSource;
use docket_program::clock::Clock;

use crate::access::passwords::Passwords;
use crate::access::rates::Rates;
use crate::access::throttle::Throttle;
use crate::actions::read_order::ById;
use crate::actions::sign_in::SignIn;
use crate::audit::Audit;
use crate::delivery::outbox::Outbox;
use crate::delivery::saves::CreateOrders;
use crate::http::body::Bodies;
use crate::http::host::Hosts;
use crate::readiness::Readiness;
use crate::telemetry::Metrics;
use crate::tenancy::Tenants;
use crate::tenancy::key_uses::KeyUses;
use crate::tenancy::lookups::Lookups;
use crate::tenancy::token_users::TokenUsers;

/// The state that request handlers share.
pub struct ApiState {
    /// The clock.
    pub clock: Clock,
    /// The tenants that are served.
    pub tenants: Arc<Tenants>,
    /// Notifies the schedule of deliveries.
    pub outbox: Arc<Outbox>,
    /// Creates web orders.
    pub create_orders: Arc<CreateOrders>,
    /// Checks passwords.
    pub passwords: Passwords,
    /// Turns to diagnose signatures, shared fairly between tenants.
    pub diagnoses: FairShare<Arc<str>>,
    /// Turns to search the documentation.
    pub searches: Anonymous,
    /// Turns to read the metrics.
    pub scrapes: Anonymous,
    /// Requests with the link of a message, by source.
    pub mail_links: FairShare<RequestSource>,
    /// Whether Docket sends e-mail, so that users may subscribe.
    pub sends_mail: bool,
    /// Records when API keys are used.
    pub key_uses: Arc<KeyUses>,
    /// Checks that a token's user has not changed.
    pub token_users: TokenUsers,
    /// Reads web orders by their ids.
    pub orders: Arc<Lookups<ById>>,
    /// Bounds the memory of request bodies.
    pub bodies: Bodies,
    /// Limits the requests and sign-ins of a tenant.
    pub rates: Arc<Rates>,
    /// Slows password guessing down.
    pub throttle: Throttle,
    /// The proxies in front of the API.
    pub proxies: Arc<Proxies>,
    /// The audit: who did what.
    pub audit: Arc<Audit>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The host names of the API.
    pub hosts: Hosts,
    /// Whether the process is ready.
    pub readiness: Arc<Readiness>,
}

impl ApiState {
    /// The dependencies of a sign-in.
    pub fn sign_in(&self) -> SignIn<'_> {
        let Self { clock, tenants, passwords, throttle, rates, metrics, .. } = self;
        SignIn { clock, passwords, throttle, rates, at_limit: &tenants.at_limit, metrics }
    }
}
