//! The result of compiling a Tenant, for one of its Webhooks: the facts behind that Webhook's status.

use docket_crds::Reason;

use crate::state::name::Name;
use crate::state::pods::Programmed;

/// The result of compiling a Tenant, for one of its Webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOutcome {
    /// The Webhook.
    pub webhook: Name,
    /// Its uid.
    pub uid: String,
    /// The Webhook's generation that was compiled.
    pub generation: i64,
    /// What is wrong with it.
    pub reasons: Vec<Reason>,
    /// It is in the configuration that is handed over, perhaps in its last good form.
    pub served: bool,
    /// Its deliveries are signed.
    pub signed: bool,
    /// The version of the Secret that signs.
    pub secret_version: Option<String>,
    /// What is used and looks like a mistake in one of its secrets or in its CA bundle: sentences that begin with the field.
    pub warning: Option<String>,
    /// Its Tenant is suspended.
    pub tenant_suspended: bool,
    /// Whether every pod serves it; `None`: nothing was handed over.
    pub programmed: Option<Programmed>,
}
