//! Reads the bytes of request bodies, within their limits, and makes responses of JSON text.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::error::ApiError;

/// Limit of sign-in bodies: an e-mail address, a password and a short code.
pub const SIGN_IN_LIMIT: usize = 4 * 1024;
/// Limit of other bodies: an order with hundreds of documents and parties is far below it.
pub const LIMIT: usize = 1024 * 1024;
/// The time in which a body must arrive.
const TIME: Duration = Duration::from_secs(20);

/// Reads the JSON body of a request with these headers, of at most `limit` bytes.
pub async fn json_bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    check_content_type(headers)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(ApiError::TooLarge(limit));
    }
    bytes(body, limit).await
}

async fn bytes(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(TIME, Limited::new(body, limit).collect()).await {
        Err(_) => Err(ApiError::RequestTimeout),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge(limit)),
        Ok(Err(_)) => Err(ApiError::BadRequest("The body is incomplete")),
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    // Compressed bodies are refused: a small one can decompress to gigabytes.
    if headers.get_all(CONTENT_ENCODING).iter().any(|coding| coding.as_bytes() != b"identity") {
        return Err(ApiError::UnsupportedMediaType);
    }
    let mut sent = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return Err(ApiError::UnsupportedMediaType) };
    let text = value.to_str().map_err(|_| ApiError::UnsupportedMediaType)?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next() == Some("application/json");
    let is_utf8 =
        parts.filter_map(|part| part.strip_prefix("charset=")).all(|set| set.trim_matches('"') == "utf-8");
    if is_json && is_utf8 { Ok(()) } else { Err(ApiError::UnsupportedMediaType) }
}

/// A response of this JSON text.
pub fn json_response(body: impl Into<Body>) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], body.into()).into_response()
}
