//! The routes of the management port: readiness and metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docket_listener::client::Proxies;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::state::ApiState;
use crate::http::error::ApiError;
use crate::http::origin::origin;

/// GET /readyz: 200 if nothing is missing, otherwise 503 with the missing parts.
pub async fn readyz(State(state): State<Arc<ApiState>>) -> Response {
    match state.readiness.missing().as_slice() {
        [] => "ready\n".into_response(),
        missing => {
            let text = format!("not ready: {}\n", missing.join(", "));
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// GET /metrics: the counters in Prometheus' text format.
pub async fn metrics(State(state): State<Arc<ApiState>>, parts: Parts) -> Result<Response, ApiError> {
    // No proxy is trusted on this port.
    let (source, _) = origin(&parts, &Proxies::default())?;
    let metrics = Arc::clone(&state.metrics);
    let text = state.scrapes.run(source, move || metrics.text()).await?;
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
