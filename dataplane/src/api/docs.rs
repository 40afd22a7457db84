//! /docs/: the documentation as web pages. It is part of the binary and works offline.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use docket_docs::{Asset, ROOT, Site};
use http::request::Parts;
use http::{HeaderValue, header};
use tokio::sync::OnceCell;

use super::state::ApiState;
use crate::http::error::ApiError;
use crate::http::origin::origin;

/// Allows no scripts, nothing from other sites, and no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                      base-uri 'none'";

/// The site. It is rendered when the first page is read, because that takes a while.
async fn site() -> Result<&'static Site, ApiError> {
    static SITE: OnceCell<Site> = OnceCell::const_new();
    let site = SITE.get_or_try_init(|| tokio::task::spawn_blocking(|| Site::new(true))).await;
    site.map_err(|_| ApiError::Internal)
}

/// The routes.
pub(super) fn router() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/docs", get(async || Redirect::permanent(ROOT)))
        .route("/docs/", get(async || page("").await))
        .route("/docs/search", get(search))
        .route("/docs/{*path}", get(file))
}

/// GET /docs/search?q=….
async fn search(State(state): State<Arc<ApiState>>, parts: Parts) -> Result<Response, ApiError> {
    let (source, _) = origin(&parts, &state.proxies)?;
    let query = parts.uri.query().unwrap_or_default();
    let words = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "q");
    let words = words.map(|(_, words)| words.into_owned()).unwrap_or_default();
    let site = site().await?;
    let page = state.searches.run(source, move || site.search(&words)).await?;
    Ok(response("text/html; charset=utf-8", "no-store", page.into_bytes()))
}

/// GET /docs/{path}.
async fn file(path: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    // A path that is not UTF-8 names no page.
    let Path(path) = path.map_err(|_| ApiError::NoSuchRoute)?;
    page(&path).await
}

async fn page(path: &str) -> Result<Response, ApiError> {
    let Asset { kind, bytes } = site().await?.get(path).ok_or(ApiError::NoSuchRoute)?;
    Ok(response(kind, "public, max-age=3600", bytes))
}

fn response(kind: &'static str, cache: &'static str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
