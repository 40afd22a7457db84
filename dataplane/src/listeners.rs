//! What a process serves on each listener. The API's listener has the API and the portal; the management port has probes, metrics
//! and the platform's routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::IntoResponse;
use axum::routing::get;
use docket_listener::protection::protected;
use http::request::Parts;

use crate::api::landing::Landing;
use crate::api::middleware::{self, Responses};
use crate::api::state::ApiState;
use crate::api::{self, openapi};
use crate::http::error::ApiError;
use crate::platform;
use crate::platform::reviews::Reviews;
use crate::portal::{self, PAGES, Portal};

/// What a process serves on the listener of the API.
#[derive(Debug, Clone)]
pub struct Serves {
    /// The API.
    pub api: bool,
    /// With the API, its documentation: /docs/, /swagger/, /openapi.json and /openapi/events.json.
    pub docs: bool,
    /// The portal.
    pub portal: Option<Portal>,
}

/// The routes of the API's listener, below the middleware that all requests have in common.
pub fn router(state: Arc<ApiState>, serves: Serves) -> Router {
    let landing =
        Landing { api: serves.api, docs: serves.api && serves.docs, portal: serves.portal.is_some() };
    let paths = if serves.api { openapi::paths() } else { Vec::new() };
    let api = if serves.api { api::routes(&state, serves.docs) } else { Router::new() };
    let portal = serves.portal.map(|served| portal::router(&state, served)).unwrap_or_default();
    let responses = Responses { state: Arc::clone(&state), pages: Some(PAGES) };
    api.merge(portal)
        .fallback(async move |State(state): State<Arc<ApiState>>, parts: Parts| {
            let page = landing.page(&parts, &state.hosts);
            page.unwrap_or_else(|| api::no_such_route(&state, &parts, &paths).into_response())
        })
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        // A layer of the router, so that the matched route is known. The outermost layer comes last.
        .layer(from_fn_with_state(responses, middleware::answer))
        .with_state(state)
}

/// The routes of the management port. Only the routes of `platform` have data of tenants.
pub fn management(state: Arc<ApiState>, platform: Option<Reviews>) -> Router {
    let platform = platform.map(|reviews| platform::router(&state, reviews)).unwrap_or_default();
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(api::management::readyz))
        .route("/metrics", get(api::management::metrics))
        .with_state(state)
        .merge(platform)
        .layer(map_response(protected))
}
