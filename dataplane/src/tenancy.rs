//! The room of tenants: who is served, and what the process does in their databases together.
//!
//! * [`Tenants`], [`Activation`]: the tenants that are served, and what replaces them
//! * [`groups`]: what waits in one tenant and is done together; [`lookups`]: one query for many requests
//! * [`token_users`]: whether a token still belongs to its user; [`key_uses`]: when each API key was used last
//! * [`rounds`]: whose database a task visits next; [`seen`]: the databases that need not be read again
//!
//! It uses telemetry, and no other room. Every room that works for a tenant uses it.

pub mod groups;
pub mod key_uses;
pub mod lookups;
pub mod rounds;
pub mod seen;
mod tenants;
#[cfg(test)]
pub(crate) mod testing;
pub mod token_users;

pub use tenants::{
    Activation, AtLimit, HeldWebhooks, LocalReceiver, Revisions, SOURCE_LAG, ServedTenant, Tenants,
    UNKNOWN_CUSTOMER, Webhooks,
};
