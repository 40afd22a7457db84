//! What the pages of webhooks show.

use docket_crds::{EventCode, WebhookConfig, WebhookSpec};
use docket_portal::webhooks::{self, FormSettings, Keeper, ServedWebhook};
use docket_store::health;

use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::http::times::timestamp;
use crate::portal::declared;
use crate::portal::session::Viewer;
use crate::portal::writes::Declared;

/// The page of a webhook that is declared and not served.
pub(super) fn unserved(
    viewer: &Viewer,
    declared: &Declared,
    version: &str,
    unsaved: Option<(&FormSettings, &[(String, String)])>,
) -> String {
    let WebhookSpec { display_name, customer_code, target_url, events, active, .. } = declared.spec.clone();
    let display_name = display_name.unwrap_or_default();
    let settings = FormSettings { display_name, customer_code, target_url, events, active };
    let faulty = declared::of_unserved(viewer, &declared.full_name());
    webhooks::unserved(viewer.frame(), &faulty, &settings, version, unsaved)
}

/// The page of a webhook that is served.
pub(super) async fn served(
    state: &ApiState,
    viewer: &Viewer,
    webhook: &WebhookConfig,
    keeper: &Keeper,
    unsaved: Option<(&FormSettings, &[(String, String)])>,
) -> Result<String, ApiError> {
    let webhook = shown(state, viewer, &[webhook]).await?.pop().ok_or(ApiError::Internal)?;
    Ok(webhooks::detail(viewer.frame(), &webhook, keeper, unsaved))
}

/// What pages show of webhooks that are served, in the same order.
pub(super) async fn shown(
    state: &ApiState,
    viewer: &Viewer,
    served: &[&WebhookConfig],
) -> Result<Vec<ServedWebhook>, ApiError> {
    let mut reader = viewer.caller.reader(state).await?;
    let healths = health::by_webhook_bounded(&mut reader).await?;
    let mut healths = viewer.caller.webhooks().health(healths);
    let mut faults = declared::faults(&mut reader, viewer, served).await?;
    let shown = |webhook: &&WebhookConfig| {
        let health = healths.remove(&webhook.uid).unwrap_or_default();
        // Why it can't work, then what may be a mistake.
        let mut faults = faults.remove(&webhook.uid).unwrap_or_default();
        faults.extend_from_slice(viewer.caller.tenant.warnings(&webhook.uid));
        let takes = |code: &EventCode| viewer.caller.tenant.webhooks().takes(webhook, *code);
        ServedWebhook {
            full_name: webhook.full_name(),
            settings: settings(webhook),
            takes: EventCode::ALL.into_iter().filter(takes).collect(),
            is_signed: webhook.secret.is_some(),
            has_next_secret: webhook.next_secret.is_some(),
            faults,
            pending: health.pending,
            retrying: health.retrying,
            dead_letter: health.dead_letter,
            last_success_at: health.last_success_at_ms.map(timestamp),
        }
    };
    Ok(served.iter().map(shown).collect())
}

/// The settings with which a webhook is served.
pub(super) fn settings(webhook: &WebhookConfig) -> FormSettings {
    FormSettings {
        display_name: webhook.display_name.clone().unwrap_or_default(),
        customer_code: webhook.customer_code.to_string(),
        target_url: webhook.target_url.url().to_string(),
        events: webhook.events.iter().copied().collect(),
        active: webhook.active,
    }
}
