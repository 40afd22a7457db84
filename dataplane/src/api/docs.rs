//! /docs/: the documentation as web pages. It is part of the binary and works offline.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use docket_docs::{Asset, ROOT, Site, SiteAddress};
use docket_listener::protection::is_https;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::OnceCell;

use super::state::ApiState;
use crate::http::error::ApiError;
use crate::http::host::{host, port};
use crate::http::origin::origin;

/// No inline code, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";
const HTML: &str = "text/html; charset=utf-8";
const KEPT: &str = "public, max-age=3600";

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
        .route("/docs/", get(first))
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
    Ok(response(HTML, "no-store", page.into_bytes()))
}

/// GET /docs/.
async fn first(parts: Parts) -> Result<Response, ApiError> {
    page("", &parts).await
}

/// GET /docs/{path}.
async fn file(path: Result<Path<String>, PathRejection>, parts: Parts) -> Result<Response, ApiError> {
    // A path that is not UTF-8 names no page, and neither does this character.
    let path = path.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(path)| path);
    page(&path, &parts).await
}

/// The page or file at a path. A page on the API names the host of the request, if that is not the reader's own machine.
async fn page(path: &str, parts: &Parts) -> Result<Response, ApiError> {
    let site = site().await?;
    let host = host(parts)?.unwrap_or_default();
    let address = SiteAddress::new(is_https(&parts.headers), &host, port(parts));
    if let Some(page) = address.and_then(|address| site.page_at(path, &address)) {
        return Ok(response(HTML, KEPT, page.into_bytes()));
    }
    match site.get(path) {
        Some(Asset { kind, bytes }) => Ok(response(kind, KEPT, bytes)),
        None => Ok((StatusCode::NOT_FOUND, response(HTML, "no-store", site.missing(path))).into_response()),
    }
}

fn response(kind: &'static str, cache: &'static str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
