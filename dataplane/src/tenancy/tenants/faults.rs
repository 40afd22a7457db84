//! The faults that the data plane finds in a webhook that is served as it is declared. The source finds the faults for which it refuses a
//! webhook.

use docket_crds::WebhookConfig;
use docket_crds::compile::ca_bundle_warning;
use docket_egress::{EgressPolicy, Trust};

use super::tenant::{LocalReceiver, literal_targets};

/// Returns why a webhook can't work: sentences that begin with the field. `local` is the receiver of this process, if it has one.
pub(super) fn of(
    webhook: &WebhookConfig,
    policy: &EgressPolicy,
    local: Option<&LocalReceiver>,
) -> Vec<String> {
    out_of_reach(webhook, policy, local).into_iter().chain(unusable_bundle(webhook)).collect()
}

/// Returns what looks like a mistake and may be meant: sentences that begin with the field.
pub(super) fn warnings(webhook: &WebhookConfig) -> impl Iterator<Item = String> {
    let secrets = [("spec.secretRef", &webhook.secret), ("spec.secretRef.nextKey", &webhook.next_secret)];
    let secrets = secrets.into_iter().filter_map(|(field, secret)| secret.as_ref()?.warning(field));
    let bundle = webhook.ca_bundle.as_ref().and_then(|bundle| ca_bundle_warning(bundle.as_bytes()));
    secrets.chain(bundle)
}

/// Finds a target that is written as an address and is refused at each attempt. A name is looked up only at the attempt.
fn out_of_reach(
    webhook: &WebhookConfig,
    policy: &EgressPolicy,
    local: Option<&LocalReceiver>,
) -> Option<String> {
    let sockets = literal_targets(webhook);
    let socket = sockets.first()?;
    if !webhook.active || sockets.iter().any(|socket| policy.permits(*socket)) {
        return None;
    }
    let receiver = match local.and_then(|local| local.sockets.first()) {
        Some(local) => format!("the built-in receiver is at {local}"),
        None => "there is no built-in receiver".to_owned(),
    };
    Some(format!(
        "spec.targetURL: {socket} is not an allowed address, so deliveries fail as BlockedAddress; {receiver}; allow other \
         addresses with --allow-egress"
    ))
}

/// The fault that the tenant has no such customer, which only its database knows.
pub const UNKNOWN_CUSTOMER: &str = "spec.customerCode: the tenant has no customer with this code, so no event is sent; add the customer, or declare the \
     webhook again for one that exists";

fn unusable_bundle(webhook: &WebhookConfig) -> Option<String> {
    let error = Trust::with_bundle(webhook.ca_bundle.as_ref()?).err()?;
    Some(format!("spec.caBundleRef: {error}; its deliveries fail as TlsUntrusted"))
}
