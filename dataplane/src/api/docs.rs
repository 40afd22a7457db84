//! /docs/: the documentation as web pages. It is part of the binary and works offline.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use docket_docs::{Asset, ROOT, Site};
use http::{HeaderValue, header};

use super::error::ApiError;
use super::pages::protect;

/// No script, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                      base-uri 'none'";

static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(true));

/// The routes.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/docs", get(async || Redirect::permanent(ROOT)))
        .route("/docs/", get(async || page("")))
        .route("/docs/search", get(search))
        .route("/docs/{*path}", get(file))
}

/// GET /docs/search?q=….
async fn search(RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let words = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "q");
    let page = SITE.search(&words.map(|(_, words)| words.into_owned()).unwrap_or_default());
    protected("text/html; charset=utf-8", "no-store", page.into_bytes())
}

/// GET /docs/{path}.
async fn file(path: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    // A path that is not UTF-8 names no page.
    let Path(path) = path.map_err(|_| ApiError::NoSuchRoute)?;
    page(&path)
}

fn page(path: &str) -> Result<Response, ApiError> {
    let Asset { kind, bytes } = SITE.get(path).ok_or(ApiError::NoSuchRoute)?;
    Ok(protected(kind, "public, max-age=3600", bytes))
}

fn protected(kind: &'static str, cache: &'static str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    protect(headers, POLICY);
    response
}
