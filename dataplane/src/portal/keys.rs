//! API keys.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use docket_crds::KeyVersion;
use docket_portal::keys::{self, ApiKeyView};
use docket_store::key_uses;

use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::http::times::timestamp;

/// GET /portal/keys.
pub async fn get(State(state): State<Arc<ApiState>>, viewer: Viewer) -> Result<Html<String>, ApiError> {
    viewer.must_be_administrator()?;
    let stored = key_uses::all(&mut viewer.caller.reader(&state).await?).await?;
    let keys = viewer.caller.tenant.config.api_keys.iter().map(|key| ApiKeyView {
        name: key.name.clone(),
        fingerprint: key.digest.fingerprint(),
        active: key.active,
        last_used_at: stored
            .get(&key.digest.fingerprint())
            .copied()
            .max(state.key_uses.noted(&key.digest))
            .map(timestamp),
        is_of_this_api: key.version == KeyVersion::V2,
    });
    Ok(Html(keys::page(viewer.frame(), &keys.collect::<Vec<_>>())))
}
