//! Waits until a change of a webhook is served.

use std::time::Duration;

use docket_crds::WebhookConfig;
use tokio::time::timeout;

use super::editor::Editor;
use crate::portal::writes::Declared;
use crate::tenancy::Revisions;

/// How long a page waits until a change is served: of a folder, and of a cluster, where the operator compiles it.
const MAX_WAIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(20));

impl Editor<'_> {
    /// Waits until a webhook is served as it is declared, and returns it; `None`: it is not served so when the time is up.
    pub(super) async fn until_served(&self, declared: &Declared) -> Option<WebhookConfig> {
        self.until(declared, |webhook| webhook.is_some_and(|webhook| declared.is_served_as(webhook))).await
    }

    /// Waits until a webhook is not served any more, or the time is up.
    pub(super) async fn until_removed(&self, declared: &Declared) {
        self.until(declared, |webhook| webhook.is_none()).await;
    }

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
        let most = if self.writer.is_folder() { MAX_WAIT.0 } else { MAX_WAIT.1 };
        let mut revisions = self.state.tenants.revisions();
        // If the time is up, `found` is `None`.
        let _ = timeout(most, revisions.wait_for(is_served)).await;
        found
    }
}
