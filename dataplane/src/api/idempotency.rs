//! `Idempotency-Key`: under the same key a write is performed once, and repeats of the request get its response.

use axum::response::Response;
use docket_store::idempotency::{self, KeptAnswer, ToKeep};
use http::header::IF_MATCH;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::caller::Principal;
use super::state::ApiState;
use crate::http::body::json_response;
use crate::http::error::ApiError;
use crate::http::if_match::tagged;

/// The header that makes a request repeatable.
pub const HEADER: &str = "Idempotency-Key";
/// Set to `true` on a response that was kept from an earlier request.
pub const REPLAYED: &str = "Idempotency-Replayed";
/// The most characters of a key.
pub const MAX_CHARS: usize = 128;

/// The key of a request, with the request's route and digest.
#[derive(Clone)]
pub struct IdempotencyKey {
    key: String,
    route: String,
    digest: String,
}

impl IdempotencyKey {
    /// Reads the key from the header, if the request has one.
    pub fn of_request(headers: &HeaderMap, route: &str, body: &[u8]) -> Result<Option<Self>, ApiError> {
        let mut sent = headers.get_all(HEADER).iter();
        let (first, second) = (sent.next(), sent.next());
        let Some(value) = first else { return Ok(None) };
        let key = value.to_str().ok().filter(|key| (1..=MAX_CHARS).contains(&key.len()) && second.is_none());
        match key.filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic())) {
            Some(key) => {
                Ok(Some(Self { key: key.to_owned(), route: route.to_owned(), digest: digest(headers, body) }))
            }
            None => {
                Err(ApiError::field(HEADER, "must be given once, with 1 to 128 visible ASCII characters"))
            }
        }
    }

    /// The response of a write as it is kept, in the write's own transaction.
    pub fn to_keep(&self, caller: &Principal, body: &str) -> ToKeep {
        let kept = KeptAnswer {
            route: self.route.clone(),
            request_digest: self.digest.clone(),
            status: i64::from(StatusCode::OK.as_u16()),
            body: body.to_owned(),
        };
        ToKeep { caller: caller.name(), key: self.key.clone(), kept }
    }

    /// The response that was kept under this key. A key that was used for another request is refused.
    pub async fn find(&self, state: &ApiState, caller: &Principal) -> Result<Option<Response>, ApiError> {
        let mut reader = caller.reader(state).await?;
        match idempotency::find(&mut reader, &caller.name(), &self.key).await? {
            None => Ok(None),
            Some(kept) if kept.route == self.route && kept.request_digest == self.digest => {
                Ok(Some(replayed(kept)))
            }
            Some(_) => Err(ApiError::KeyReused),
        }
    }
}

/// The digest of what a request asks for. Another `If-Match` makes it another request.
fn digest(headers: &HeaderMap, body: &[u8]) -> String {
    let mut digest = Sha256::new_with_prefix(body);
    for condition in headers.get_all(IF_MATCH) {
        digest.update(b"\nIf-Match: ");
        digest.update(condition.as_bytes());
    }
    hex::encode(digest.finalize())
}

/// The field of a kept response about a web order.
#[derive(Deserialize)]
struct Versioned {
    version: Option<i64>,
}

fn replayed(kept: KeptAnswer) -> Response {
    let version = serde_json::from_str::<Versioned>(&kept.body).ok().and_then(|read| read.version);
    let mut response = json_response(kept.body);
    if let Some(version) = version {
        response = tagged(response, version);
    }
    *response.status_mut() =
        u16::try_from(kept.status).ok().and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or_default();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let schema =
            ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_CHARS));
        let header = ParameterBuilder::new()
            .name(HEADER)
            .parameter_in(ParameterIn::Header)
            .description(Some(
                "Makes the request safe to repeat. A second request with the same key, body and `If-Match` gets the \
                 same response, and does nothing again. Docket keeps the key for at least 24 hours.",
            ))
            .required(Required::False)
            .schema(Some(schema.pattern(Some("^[!-~]+$"))));
        vec![header.build()]
    }
}
