//! /swagger, /openapi.json and /openapi/events.json: the documentation. It is part of the binary and works offline.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::{Config, Url, serve};

use super::openapi;
use crate::http::body::json_response;
use crate::http::error::ApiError;

/// Allows what Swagger UI needs: styles in elements, and pictures in styles.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// A document as it is sent. It is made and compressed once, not for each request.
struct ServedDocument {
    plain: Bytes,
    gzip: Bytes,
    tag: HeaderValue,
}

static API: LazyLock<ServedDocument> = LazyLock::new(|| ServedDocument::new(&openapi::document()));
static EVENTS: LazyLock<ServedDocument> = LazyLock::new(|| ServedDocument::new(&openapi::events::document()));

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    // Swagger UI opens the first document; its top bar offers both.
    let documents = [Url::new("API", "/openapi.json"), Url::new("Events", "/openapi/events.json")];
    let config = Config::new(documents)
        .try_it_out_enabled(true)
        .persist_authorization(false)
        .validator_url("none")
        .display_request_duration(true);
    Arc::new(config)
});

impl ServedDocument {
    fn new(document: &OpenApi) -> Self {
        let plain = serde_json::to_vec(document).expect("a document has string keys only");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = gzip.write_all(&plain).and_then(|()| gzip.finish()).expect("a Vec takes all");
        // A weak tag, because it is the same with and without compression.
        let tag = format!("W/\"{}\"", hex::encode(&Sha256::digest(&plain)[..16]));
        Self {
            plain: plain.into(),
            gzip: gzip.into(),
            tag: tag.try_into().expect("hexadecimal digits are ASCII"),
        }
    }

    fn response(&self, asked: &HeaderMap) -> Response {
        let known = items(asked, header::IF_NONE_MATCH).any(|one| one == "*" || of_same(one, &self.tag));
        let mut response = match (known, takes_gzip(asked)) {
            (true, _) => StatusCode::NOT_MODIFIED.into_response(),
            (false, true) => {
                let mut response = json_response(self.gzip.clone());
                response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            (false, false) => json_response(self.plain.clone()),
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.tag.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        response
    }
}

/// GET /openapi.json.
pub async fn openapi_json(asked: HeaderMap) -> Response {
    API.response(&asked)
}

/// GET /openapi/events.json.
pub async fn events_json(asked: HeaderMap) -> Response {
    EVENTS.response(&asked)
}

/// Whether two tags name the same document, weak or not.
fn of_same(one: &str, tag: &HeaderValue) -> bool {
    let strong = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tag.to_str().is_ok_and(|tag| strong(tag) == strong(one))
}

/// Whether the client accepts gzip: its header names gzip or `*`, with a weight above 0.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let weight = |name: &str| {
        items(asked, header::ACCEPT_ENCODING).find_map(|one| {
            let (coding, parameters) = one.split_once(';').unwrap_or((one, ""));
            let weight =
                parameters.trim().strip_prefix(['q', 'Q']).and_then(|text| text.trim().strip_prefix('='));
            coding.trim().eq_ignore_ascii_case(name).then(|| match weight {
                Some(weight) => weight.trim().parse().unwrap_or(0.0),
                None => 1.0_f32,
            })
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// The items of a header that is a list.
fn items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
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
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        let takes = |text: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        for text in ["gzip", "deflate, GZIP;q=0.5", "*", "br , gzip ; q=1.0", "identity;q=0, *;q=0.1"] {
            assert!(takes(text), "{text}");
        }
        for text in ["", "identity", "br", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", "gzip;q=x", "xgzip"] {
            assert!(!takes(text), "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
