//! Keeps the last good configuration: a part that can't be resolved now stays as it last was.

use super::{Compilation, Inputs};
use crate::conditions::ReasonCode;
use crate::{ApiKey, Reason, TenantConfig, WebhookConfig};

impl Compilation {
    /// Restores from `previous` what this compilation could not resolve. The reasons stay. The reasons of a tenant
    /// that keeps its previous configuration move to `degraded`.
    ///
    /// - Without a new configuration, the previous one stays.
    /// - A webhook that was left out stays as it was, unless the Tenant no longer allows or takes it.
    /// - A key that was left out stays. To end the key, a user sets `active: false` or removes its entry.
    ///
    /// Switching off takes effect immediately: `suspend`, `active: false` and removed entries. A `previous` with
    /// another uid belongs to another tenant and changes nothing.
    #[must_use]
    pub fn or_last_good(mut self, inputs: &Inputs<'_>, previous: &TenantConfig) -> Self {
        if *previous.uid != *inputs.uid {
            return self;
        }
        let mut config = match self.config {
            Ok(config) => config,
            Err(reasons) => {
                self.degraded.extend(reasons);
                without_members(inputs, previous)
            }
        };
        config.webhooks.extend(last_webhooks(inputs, &self.webhooks, &config, previous));
        config.api_keys.extend(last_api_keys(inputs, &config, previous));
        Self { config: Ok(config), ..self }
    }
}

/// The previous configuration without its webhooks and keys, which are restored one by one.
fn without_members(inputs: &Inputs<'_>, previous: &TenantConfig) -> TenantConfig {
    TenantConfig {
        suspended: previous.suspended || inputs.tenant.spec.suspend,
        limits: inputs.platform_limits.at_most(previous.limits),
        webhooks: Vec::new(),
        api_keys: Vec::new(),
        ..previous.clone()
    }
}

fn last_webhooks(
    inputs: &Inputs<'_>,
    compiled: &[(usize, Vec<Reason>)],
    config: &TenantConfig,
    previous: &TenantConfig,
) -> Vec<WebhookConfig> {
    let forbidden =
        |reason: &Reason| matches!(reason.code, ReasonCode::RefNotPermitted | ReasonCode::TooManyWebhooks);
    let allowed = compiled.iter().filter(|(_, reasons)| !reasons.iter().any(forbidden));
    let declared = allowed.map(|(index, _)| &inputs.webhooks[*index]);
    let left_out = declared.filter(|(uid, _)| config.webhooks.iter().all(|served| served.uid != *uid));
    let last_good = left_out.filter_map(|(uid, webhook)| {
        let last = previous.webhooks.iter().find(|last| last.uid == *uid)?;
        Some(WebhookConfig { active: last.active && webhook.spec.active, ..last.clone() })
    });
    last_good.collect()
}

fn last_api_keys(inputs: &Inputs<'_>, config: &TenantConfig, previous: &TenantConfig) -> Vec<ApiKey> {
    let served =
        |last: &ApiKey| config.api_keys.iter().any(|key| key.name == last.name || key.digest == last.digest);
    let wanted = inputs.tenant.spec.api_keys.iter().filter(|spec| spec.active);
    let last_good = wanted.filter_map(|spec| {
        let last = previous.api_keys.iter().find(|last| last.name == spec.name && !served(last))?;
        Some(ApiKey { active: true, version: spec.version, ..last.clone() })
    });
    last_good.collect()
}
