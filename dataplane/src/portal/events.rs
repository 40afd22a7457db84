//! The event catalogue.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use docket_crds::EventCode;
use docket_domain::event::{EventId, envelope};
use docket_domain::sample;
use docket_portal::events::{self, EventView};
use jiff::Timestamp;

use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;

/// The customer of the samples.
const CUSTOMER: &str = "C-1001";

/// GET /portal/events.
pub async fn get(State(state): State<Arc<ApiState>>, viewer: Viewer) -> Result<Html<String>, ApiError> {
    let tenant = &viewer.caller.tenant;
    let event = |code| {
        let gets = |webhook: &&_| tenant.webhooks().takes(webhook, code);
        let active = viewer.caller.webhooks().served().filter(|webhook| webhook.active);
        EventView {
            code,
            is_on: tenant.config.active_events.contains(&code),
            sample: sample_of(code, state.clock.now()),
            webhooks: active.filter(gets).map(|webhook| webhook.full_name()).collect(),
        }
    };
    let events: Vec<EventView> = EventCode::ALL.into_iter().map(event).collect();
    Ok(Html(events::page(viewer.frame(), &events)))
}

fn sample_of(code: EventCode, now: Timestamp) -> String {
    let id = EventId::new(now, [0; 10]);
    String::from_utf8_lossy(&envelope(&id, now, CUSTOMER, &sample::payload(code))).into_owned()
}
