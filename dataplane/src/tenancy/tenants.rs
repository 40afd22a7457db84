//! The tenants that are served: found by API key, by subdomain, by client code or by uid.
//!
//! [`Activation`] replaces the whole list at once when the source declares a change. A request keeps the tenant that it began with.
//! Databases outlive a change of configuration: they are kept by uid.

mod activation;
mod at_limit;
mod faults;
mod registry;
mod tenant;

pub use activation::Activation;
pub use at_limit::AtLimit;
pub use faults::UNKNOWN_CUSTOMER;
pub use registry::{Revisions, SOURCE_LAG, Tenants};
pub use tenant::{HeldWebhooks, LocalReceiver, ServedTenant, Webhooks};
