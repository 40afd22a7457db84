//! Waits until a change of a webhook is served.

use std::time::Duration;

use docket_crds::WebhookConfig;
use tokio::time::timeout;

use super::editor::Editor;
use crate::portal::writes::Declared;
use crate::tenancy::Revisions;

/// How long a page waits until a change in the folder is served.
const FOLDER_WAIT: Duration = Duration::from_secs(5);
/// How long a page waits until a change in the cluster is served, where the operator compiles it.
const CLUSTER_WAIT: Duration = Duration::from_secs(20);

impl Editor<'_> {
    /// Waits until a webhook is served as it is declared, and returns it; `None`: it is not served so when the time is up.
    pub(super) async fn until_served(&self, declared: &Declared) -> Option<WebhookConfig> {
        self.until(declared, |webhook| webhook.is_some_and(|webhook| declared.is_served_as(webhook))).await
    }

    /// Waits until a webhook is not served any more, or the time is up.
    pub(super) async fn until_removed(&self, declared: &Declared) {
        self.until(declared, |webhook| webhook.is_none()).await;
    }

    /// Waits until `is_so` accepts the webhook as it is served, or `None` because it is not served, and returns what was accepted.
    /// `None`: it is not served, or the time is up.
    async fn until(
        &self,
        Declared { namespace, name, .. }: &Declared,
        is_so: impl Fn(Option<&WebhookConfig>) -> bool,
    ) -> Option<WebhookConfig> {
        let mut found = None;
        let is_served = |_: &Revisions| {
            let tenant = self.state.tenants.by_uid(&self.viewer.caller.tenant.uid);
            let Some(tenant) = tenant else { return false };
            let mut webhooks = tenant.config.webhooks.iter();
            let webhook = webhooks.find(|webhook| webhook.namespace == *namespace && webhook.name == *name);
            let is_served = is_so(webhook);
            found = webhook.filter(|_| is_served).cloned();
            is_served
        };
        let most = if self.writer.is_folder() { FOLDER_WAIT } else { CLUSTER_WAIT };
        let mut revisions = self.state.tenants.revisions();
        // If the time is up, `found` is `None`.
        let _ = timeout(most, revisions.wait_for(is_served)).await;
        found
    }
}
