//! A Kubernetes Event about a Tenant or Webhook, before it is published.

use docket_crds::EventReason;

use crate::state::name::Name;

/// A Kubernetes Event about a Tenant or Webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// The reason of the Event.
    pub reason: EventReason,
    /// The action of the Event, in `PascalCase`.
    pub action: &'static str,
    /// The note for people, without secrets.
    pub note: String,
    /// Whether the Event has the type `Warning`.
    pub warning: bool,
    /// The Secret that the Event is also about.
    pub secret: Option<Name>,
}
