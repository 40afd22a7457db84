//! Reads the bytes of request bodies, within their limits, and makes responses of JSON text.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;

use super::error::ApiError;
use crate::fair_share::{FairShare, Share};

/// Limit of sign-in bodies: an e-mail address, a password and a short code.
pub const SIGN_IN_LIMIT: usize = 4 * 1024;
/// Limit of an order: one with hundreds of documents and parties is far below it.
pub const ORDER_LIMIT: usize = 1024 * 1024;
/// Limit of other bodies: a note has at most 4,000 characters.
pub const LIMIT: usize = 64 * 1024;
/// Shorter bodies need no share: the bound of connections covers them.
const SMALL: usize = 16 * 1024;
/// What a body takes as JSON, as an order, as it is stored and as it is sent to the database, in its own lengths.
const COPIES: usize = 8;
/// What the largest tree of JSON takes beside its texts.
const TREE: usize = 6 * 1024 * 1024;
/// The time in which a body must arrive.
const TIME: Duration = Duration::from_secs(20);

/// The memory for bodies that are longer than 16 KiB. A tenant has at most half of it.
#[derive(Debug)]
pub struct Bodies {
    /// KiB of bodies that are arriving, at the pace of their clients.
    arriving: FairShare<String>,
    /// KiB of bodies that have arrived, until their requests end.
    processed: FairShare<String>,
}

/// A body and what it takes, until its request ends.
pub struct Arrived {
    /// The body.
    pub bytes: Bytes,
    /// Its share.
    pub share: Option<Share>,
}

impl Bodies {
    /// With this many bytes in all.
    pub fn new(bytes: u64) -> Self {
        let half = u32::try_from(bytes / 2 / 1024).unwrap_or(u32::MAX / 2);
        Self {
            arriving: FairShare::new(half, kib(ORDER_LIMIT)),
            processed: FairShare::new(half, kib(ORDER_LIMIT * COPIES + TREE)),
        }
    }

    /// Reads the JSON body of a request of this tenant with these headers, of at most `limit` bytes.
    pub async fn read(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<Arrived, ApiError> {
        check_head(headers, &body, limit)?;
        // A client that does not say how much it sends may send as much as it may.
        let announced =
            body.size_hint().upper().and_then(|length| usize::try_from(length).ok()).unwrap_or(limit);
        if announced.min(limit) <= SMALL {
            return Ok(Arrived { bytes: bytes(body, limit).await?, share: None });
        }
        let arriving = self.arriving.take(tenant.to_owned(), kib(announced.min(limit))).await?;
        let bytes = bytes(body, limit).await?;
        let share = self.processed.take(tenant.to_owned(), kib(bytes.len() * COPIES + TREE)).await?;
        drop(arriving);
        Ok(Arrived { bytes, share: Some(share) })
    }
}

impl Arrived {
    /// What is kept of the share once the body's tree of JSON is gone.
    pub fn without_tree(self) -> Option<Share> {
        self.share.map(|share| share.without(kib(TREE)))
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Reads the JSON body of a request with these headers, of at most `limit` bytes.
pub async fn json_bytes(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    check_head(headers, &body, limit)?;
    bytes(body, limit).await
}

fn check_head(headers: &HeaderMap, body: &Body, limit: usize) -> Result<(), ApiError> {
    check_content_type(headers)?;
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::TooLarge(limit));
    }
    Ok(())
}

async fn bytes(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(TIME, copied(body, limit)).await {
        Err(_) => Err(ApiError::RequestTimeout),
        Ok(copied) => copied,
    }
}

/// Copies each frame and drops it: one of a few bytes holds on to a buffer of kilobytes.
async fn copied(mut body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::BadRequest("The body is incomplete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(ApiError::TooLarge(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
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
