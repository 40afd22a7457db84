//! The outcome of compiling a Tenant for one of its Webhooks: the facts for this Webhook's status.

use docket_crds::Reason;

use crate::state::name::Name;
use crate::state::pods::Programmed;

/// The outcome of compiling a Tenant for one of its Webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOutcome {
    /// The Webhook's namespace and name.
    pub webhook: Name,
    /// The Webhook's uid.
    pub uid: String,
    /// The generation of the Webhook that was compiled.
    pub generation: i64,
    /// The problems of the Webhook.
    pub reasons: Vec<Reason>,
    /// Whether the configuration that is handed over contains the Webhook, perhaps in its last good form.
    pub served: bool,
    /// Whether the deliveries of the Webhook are signed.
    pub signed: bool,
    /// The version of the Secret that signs.
    pub secret_version: Option<String>,
    /// Possible mistakes in its secrets or its CA bundle, although they are used: sentences that begin with the field.
    pub warning: Option<String>,
    /// Whether the Tenant of the Webhook is suspended.
    pub tenant_suspended: bool,
    /// Whether every pod serves the Webhook; `None`: nothing was handed over.
    pub programmed: Option<Programmed>,
}
