//! /swagger and /openapi.json: the documentation. It is part of the binary and works offline.

use std::sync::{Arc, LazyLock};

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use utoipa_swagger_ui::{Config, serve};

use super::body::json_response;
use super::error::ApiError;
use super::openapi;
use super::pages::protect;

/// Swagger UI has styles in its elements, and pictures in its styles.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    Bytes::from(serde_json::to_vec(&openapi::document()).expect("the document has string keys only"))
});

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::from("/openapi.json")
        .try_it_out_enabled(true)
        .persist_authorization(false)
        .validator_url("none")
        .display_request_duration(true);
    Arc::new(config)
});

/// GET /openapi.json.
pub async fn openapi_json() -> Response {
    json_response(DOCUMENT.clone())
}

/// GET /swagger.
pub async fn redirect() -> Redirect {
    Redirect::permanent("/swagger/")
}

/// GET /swagger/.
pub async fn index() -> Result<Response, ApiError> {
    page("index.html")
}

/// GET /swagger/{file}.
pub async fn file(file: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    // A path that is not UTF-8 names no file.
    let Path(file) = file.map_err(|_| ApiError::NoSuchRoute)?;
    page(&file)
}

fn page(file: &str) -> Result<Response, ApiError> {
    let found = serve(file, Arc::clone(&CONFIG)).map_err(|error| {
        tracing::error!(error = %error, "cannot serve the documentation");
        ApiError::Internal
    })?;
    let found = found.ok_or(ApiError::NoSuchRoute)?;
    let mut response = found.bytes.into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&found.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    protect(headers, POLICY);
    Ok(response)
}
