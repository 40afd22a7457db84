//! A Kubernetes Event about a Tenant or Webhook, before it is published.

use docket_crds::EventReason;

use crate::state::name::Name;

/// A Kubernetes Event about a Tenant or Webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// Why it is published.
    pub reason: EventReason,
    /// What was done, in `PascalCase`.
    pub action: &'static str,
    /// For people, without secrets.
    pub note: String,
    /// Whether it is of type `Warning`.
    pub warning: bool,
    /// The Secret it is about as well.
    pub secret: Option<Name>,
}
