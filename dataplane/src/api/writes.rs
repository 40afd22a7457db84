//! Writes: one transaction each. Under the same `Idempotency-Key` a write is performed once, and repeats get its response.
//!
//! A client that disconnects cancels no write: [`super::middleware::answer`] runs each request in its own task.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use docket_schedule::Hint;
use docket_store::idempotency::{self, Kept};
use docket_store::{StoreError, Transaction};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::body::{LIMIT, json_bytes};
use super::caller::Caller;
use super::error::ApiError;
use super::request::Body;
use crate::actions::Refusal;
use crate::app::App;

/// The header that makes a write safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Set to `true` on a response that was kept from an earlier request.
const REPLAYED: &str = "idempotency-replayed";
/// Characters of an idempotency key.
const MAX_KEY: usize = 128;

/// A request that writes. The caller is checked before the body is read.
#[expect(missing_debug_implementations, reason = "a body is personal data")]
pub struct Call<C, B> {
    /// The caller, and with it the proof of what was checked.
    pub caller: C,
    /// The body.
    pub request: B,
    /// How to perform the write.
    pub write: Write,
}

impl<C, B> FromRequest<Arc<App>> for Call<C, B>
where
    C: FromRequestParts<Arc<App>, Rejection = ApiError> + Send,
    B: Body + Send,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = C::from_request_parts(&mut parts, app).await?;
        let route = parts.extensions.get::<MatchedPath>().ok_or(ApiError::Internal)?.as_str().to_owned();
        let headers = parts.headers.clone();
        let body = json_bytes(Request::from_parts(parts, body), LIMIT).await?;
        let request = B::of_body(&body)?;
        let key = idempotency_key(&headers)?;
        let repeatable = key.map(|key| Repeatable { key, digest: hex::encode(Sha256::digest(&body)) });
        Ok(Self { caller, request, write: Write { route, repeatable } })
    }
}

/// What a write did. The transaction is not committed yet.
#[expect(missing_debug_implementations, reason = "the response may be personal data")]
pub struct Done {
    body: String,
    hints: Vec<Hint>,
    audit: Option<Box<dyn FnOnce(&Caller) + Send>>,
}

impl Done {
    /// With this response.
    pub fn new(answer: &impl Serialize) -> Self {
        let body = serde_json::to_string(answer).expect("plain structs serialise");
        Self { body, hints: Vec::new(), audit: None }
    }

    /// Publishes these hints to the schedule after the commit.
    pub fn hint(self, hints: Vec<Hint>) -> Self {
        Self { hints, ..self }
    }

    /// Writes this line to the log after the commit: who did what, by ids only.
    pub fn audit(self, log: impl FnOnce(&Caller) + Send + 'static) -> Self {
        Self { audit: Some(Box::new(log)), ..self }
    }
}

/// The caller's key for a write, and a digest of the body it was sent with.
struct Repeatable {
    key: String,
    digest: String,
}

/// One write: its route, and the key under which it may be repeated.
#[expect(missing_debug_implementations, reason = "a key is the caller's")]
pub struct Write {
    route: String,
    repeatable: Option<Repeatable>,
}

impl Write {
    /// Runs `work` in a transaction and commits it, unless the write was performed before under the same key. Returns
    /// the response of the one or the other.
    pub async fn perform<W>(self, app: &App, caller: &Caller, work: W) -> Result<Response, ApiError>
    where
        W: AsyncFnOnce(&mut Transaction, Timestamp) -> Result<Done, Refusal>,
    {
        let Self { route, repeatable } = self;
        let Some(repeatable) = repeatable else { return Ok(fresh(once(app, caller, None, work).await?)) };
        if let Some(kept) = find(app, caller, &repeatable).await? {
            return replay(kept, &route, &repeatable);
        }
        // Another request with this key may be under way. Then ours is refused, by the key itself or by what the other
        // one has changed, and gets the other one's response.
        let refused = match once(app, caller, Some((&route, &repeatable)), work).await {
            Ok(body) => return Ok(fresh(body)),
            Err(Failure::Api(error)) => error,
            Err(Failure::KeyTaken) => ApiError::Unavailable,
        };
        match find(app, caller, &repeatable).await? {
            Some(kept) => replay(kept, &route, &repeatable),
            None => Err(refused),
        }
    }
}

enum Failure {
    Api(ApiError),
    KeyTaken,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Api(error) => error,
            Failure::KeyTaken => Self::Unavailable,
        }
    }
}

async fn once<W>(
    app: &App,
    caller: &Caller,
    keep_as: Option<(&str, &Repeatable)>,
    work: W,
) -> Result<String, Failure>
where
    W: AsyncFnOnce(&mut Transaction, Timestamp) -> Result<Done, Refusal>,
{
    let mut transaction = caller.tenant.store.begin(&app.clock).await?;
    let now = transaction.now();
    let Done { body, hints, audit } = match work(&mut transaction, now).await {
        Ok(done) => done,
        Err(refusal) => {
            // A refusal leaves a sound connection, which is worth keeping; a failed rollback closes it.
            let _ = transaction.rollback().await;
            return Err(Failure::Api(refusal.into()));
        }
    };
    if let Some((route, repeatable)) = keep_as {
        keep(&mut transaction, caller, route, repeatable, &body).await?;
    }
    transaction.commit().await?;
    if let Some(log) = audit {
        log(caller);
    }
    // Only a hint: the rows are committed, and a sweep finds what the schedule did not get.
    app.telling.tell(hints).await;
    Ok(body)
}

/// Keeps the response for repeats of the request, in the write's own transaction.
async fn keep(
    transaction: &mut Transaction,
    caller: &Caller,
    route: &str,
    Repeatable { key, digest }: &Repeatable,
    body: &str,
) -> Result<(), Failure> {
    let kept = Kept {
        route: route.to_owned(),
        request_digest: digest.clone(),
        status: i64::from(StatusCode::OK.as_u16()),
        body: body.to_owned(),
    };
    let now_ms = transaction.now().as_millisecond();
    match idempotency::keep(transaction, &caller.name(), key, &kept, now_ms).await {
        Err(StoreError::Conflict) => Err(Failure::KeyTaken),
        other => Ok(other?),
    }
}

async fn find(app: &App, caller: &Caller, repeatable: &Repeatable) -> Result<Option<Kept>, ApiError> {
    let mut reader = caller.reader(app).await?;
    Ok(idempotency::find(&mut reader, &caller.name(), &repeatable.key).await?)
}

fn replay(kept: Kept, route: &str, repeatable: &Repeatable) -> Result<Response, ApiError> {
    if kept.route != route || kept.request_digest != repeatable.digest {
        return Err(ApiError::Conflict("This Idempotency-Key was used for another request; use a new one"));
    }
    let mut response = fresh(kept.body);
    *response.status_mut() =
        u16::try_from(kept.status).ok().and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or_default();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

fn fresh(body: String) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// The header's value, if it is there.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (sent.next(), sent.next());
    let Some(value) = first else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=MAX_KEY).contains(&text.len()) && second.is_none());
    match text {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.to_owned())),
        _ => Err(ApiError::field(
            "Idempotency-Key",
            "must be given once, with 1 to 128 visible ASCII characters",
        )),
    }
}
