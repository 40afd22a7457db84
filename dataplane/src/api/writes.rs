//! Writes: one transaction each, answered again under the same `Idempotency-Key`. A client that disconnects cancels
//! none of it, which [`super::middleware::answer`] sees to.

mod audit;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use docket_domain::delivery::DeliveryId;
use docket_orders::SaveRequest;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use audit::Audit;

use super::body::{LIMIT, json_bytes, problem};
use super::caller::Caller;
use super::error::ApiError;
use super::notes::NoteAnswer;
use super::orders::answers::{ExportAnswer, SaveAnswer};
use super::webhook_logs::resends::answers::{ResendManyAnswer, ResentAnswer, StopAnswer};
use crate::actions::Refusal;
use crate::actions::add_note::{Note, add_note};
use crate::actions::export_order::export_order;
use crate::actions::resend::{self, Many, Resent, resend_many, resend_one};
use crate::actions::save_order::save_order;
use crate::app::App;
use docket_schedule::Hint;
use docket_store::idempotency::{self, Kept};
use docket_store::resends::Resend;
use docket_store::{StoreError, Transaction};

/// The header that makes a write safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Set to `true` on an answer that was kept from an earlier request.
const REPLAYED: &str = "idempotency-replayed";
/// Characters of an idempotency key.
const MAX_KEY: usize = 128;

/// A request that writes: who sends it, which is checked before its body is read, and what.
#[expect(missing_debug_implementations, reason = "a body is personal data")]
pub struct Call<C> {
    /// The caller, and with it the proof of what was checked.
    pub caller: C,
    /// Of the request.
    pub headers: HeaderMap,
    /// A JSON body of at most [`LIMIT`] bytes.
    pub body: Bytes,
}

impl<C: FromRequestParts<Arc<App>, Rejection = ApiError> + Send> FromRequest<Arc<App>> for Call<C> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = C::from_request_parts(&mut parts, app).await?;
        let headers = parts.headers.clone();
        let body = json_bytes(Request::from_parts(parts, body), LIMIT).await?;
        Ok(Self { caller, headers, body })
    }
}

/// What is to be written.
#[expect(missing_debug_implementations, reason = "an order is personal data")]
pub enum Write {
    /// POST /Orders/Save.
    SaveOrder(Box<SaveRequest>),
    /// POST /Orders/Export of this web order.
    ExportOrder(String),
    /// POST /Notes/Add.
    AddNote(Box<Note>),
    /// POST /WebhookLogs/Resend of this delivery.
    Resend(DeliveryId),
    /// POST /WebhookLogs/Resend of these dead letters.
    ResendMany(Many),
    /// POST /WebhookLogs/StopResend of this request for many.
    StopResend(String),
}

/// What a write did.
struct Done {
    /// Its answer.
    body: String,
    /// When to look at what it queued.
    hints: Vec<Hint>,
    /// What the log keeps of it.
    audit: Option<Audit>,
}

impl Write {
    fn route(&self) -> &'static str {
        match self {
            Self::SaveOrder(_) => "/Orders/Save",
            Self::ExportOrder(_) => "/Orders/Export",
            Self::AddNote(_) => "/Notes/Add",
            Self::Resend(_) | Self::ResendMany(_) => "/WebhookLogs/Resend",
            Self::StopResend(_) => "/WebhookLogs/StopResend",
        }
    }

    async fn perform(
        self,
        transaction: &mut Transaction,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Done, Refusal> {
        let Caller { tenant, subject } = caller;
        let webhooks = tenant.webhooks();
        match self {
            Self::SaveOrder(request) => {
                let (saved, hints) = save_order(transaction, tenant, subject, *request, now).await?;
                Ok(Done { body: json(&SaveAnswer::from(saved)), hints, audit: None })
            }
            Self::ExportOrder(id) => {
                let (exported, hints) = export_order(transaction, tenant, subject, &id, now).await?;
                Ok(Done { body: json(&ExportAnswer::from(exported)), hints, audit: None })
            }
            Self::Resend(id) => {
                let (resent, due) = resend_one(transaction, webhooks, id, &caller.name(), now).await?;
                let body = json(&ResentAnswer::from(&resent));
                let Resent { id: delivery, resend_of } = resent;
                let audit = Some(Audit::Resent { delivery, resend_of });
                Ok(Done { body, hints: tenant.hints([due], now), audit })
            }
            Self::ResendMany(many) => {
                let (resend, extent, dues) =
                    resend_many(transaction, webhooks, &many, &caller.name(), now).await?;
                let body = json(&ResendManyAnswer::new(&many, &resend, extent));
                let Resend { id, webhook_name: webhook, count, .. } = resend;
                let audit = Some(Audit::ResentMany { resend: id, webhook, count });
                Ok(Done { body, hints: tenant.hints(dues, now), audit })
            }
            Self::StopResend(id) => {
                let stopped = resend::stop(transaction, &id, &caller.name(), now).await?;
                let body = json(&StopAnswer::new(&id, stopped));
                let audit = Some(Audit::Stopped { resend: id, taken_back: stopped.taken_back });
                Ok(Done { body, hints: Vec::new(), audit })
            }
            Self::AddNote(note) => {
                let (customer, author) = (subject.own_customer(), caller.name());
                let (line_item, hints) = add_note(transaction, tenant, customer, &author, &note, now).await?;
                Ok(Done { body: json(&NoteAnswer { line_item }), hints, audit: None })
            }
        }
    }
}

/// The caller's key for this write, with what it was sent with.
struct Repeatable {
    key: String,
    digest: String,
}

/// Performs a write and answers it.
pub async fn write(
    app: Arc<App>,
    caller: Caller,
    headers: &HeaderMap,
    body: &Bytes,
    write: Write,
) -> Result<Response, ApiError> {
    let repeatable =
        idempotency_key(headers)?.map(|key| Repeatable { key, digest: hex::encode(Sha256::digest(body)) });
    match repeatable {
        None => Ok(fresh(once(&app, &caller, write, None).await?)),
        Some(repeatable) => repeatably(&app, &caller, write, repeatable).await,
    }
}

async fn repeatably(
    app: &App,
    caller: &Caller,
    write: Write,
    repeatable: Repeatable,
) -> Result<Response, ApiError> {
    let route = write.route();
    if let Some(kept) = find(app, caller, &repeatable).await? {
        return replay(kept, route, &repeatable);
    }
    // Another request with this key may be under way: then ours is refused, by the key itself or by what the other one
    // has changed, and the other one's answer is ours.
    let refused = match once(app, caller, write, Some(&repeatable)).await {
        Ok(body) => return Ok(fresh(body)),
        Err(Failure::Api(error)) => error,
        Err(Failure::KeyTaken) => ApiError::Unavailable,
    };
    match find(app, caller, &repeatable).await? {
        Some(kept) => replay(kept, route, &repeatable),
        None => Err(refused),
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

async fn once(
    app: &App,
    caller: &Caller,
    write: Write,
    repeatable: Option<&Repeatable>,
) -> Result<String, Failure> {
    let route = write.route();
    let mut transaction = caller.tenant.store.begin(&app.clock).await?;
    let now = transaction.now();
    let Done { body, hints, audit } = match write.perform(&mut transaction, caller, now).await {
        Ok(done) => done,
        Err(refusal) => {
            // A refusal leaves a sound connection, which is worth keeping; a failed rollback closes it.
            let _ = transaction.rollback().await;
            return Err(Failure::Api(refusal.into()));
        }
    };
    if let Some(Repeatable { key, digest }) = repeatable {
        let kept = Kept {
            route: route.into(),
            request_digest: digest.clone(),
            status: i64::from(StatusCode::OK.as_u16()),
            body: body.clone(),
        };
        match idempotency::keep(&mut transaction, &caller.name(), key, &kept, now.as_millisecond()).await {
            Ok(()) => {}
            Err(StoreError::Conflict) => return Err(Failure::KeyTaken),
            Err(error) => return Err(error.into()),
        }
    }
    transaction.commit().await?;
    if let Some(audit) = audit {
        audit.log(caller);
    }
    // Only a hint: the rows are committed, and a sweep finds what the schedule was not told.
    app.telling.tell(hints).await;
    Ok(body)
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
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], Body::from(body)).into_response()
}

fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("plain structs serialise")
}

/// The header's value, if it is there.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (sent.next(), sent.next());
    let Some(value) = first else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=MAX_KEY).contains(&text.len()) && second.is_none());
    match text {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.to_owned())),
        _ => Err(problem("Idempotency-Key", "must be given once, with 1 to 128 visible ASCII characters")),
    }
}
