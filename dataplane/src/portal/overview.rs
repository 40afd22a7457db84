//! Overview.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use docket_portal::overview::{self, Webhook};
use docket_store::health::{WebhookHealth, by_webhook};

use super::session::Viewer;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::api::times::time;

/// GET /portal. Of what the database has, only the tenant's own webhooks are shown.
pub async fn get(State(state): State<Arc<ApiState>>, viewer: Viewer) -> Result<Html<String>, ApiError> {
    let mut reader = viewer.caller.reader(&state).await?;
    let found = by_webhook(&mut reader).await?.into_iter().map(|health| (health.webhook.clone(), health));
    let mut health: HashMap<String, WebhookHealth> = found.collect();
    let webhooks = viewer.caller.tenant.config.webhooks.iter().map(|webhook| {
        let health = health.remove(&webhook.uid).unwrap_or_default();
        Webhook {
            name: webhook.full_name(),
            customer_code: webhook.customer_code.as_str().to_owned(),
            url: webhook.target_url.url().to_string(),
            active: webhook.active,
            pending: health.pending,
            retrying: health.retrying,
            dead_letter: health.dead_letter,
            last_success: health.last_success_at_ms.map(time),
            last_dead_letter: health.last_dead_letter_at_ms.map(time),
        }
    });
    Ok(Html(overview::page(&viewer.frame(&state), webhooks.collect())))
}
