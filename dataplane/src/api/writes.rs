//! Writes. Each is one transaction, whose work is a closure of the handler.
//!
//! A client that disconnects cancels no write: [`super::middleware`] runs each request in its own task.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::response::Response;
use docket_crds::Limit;
use docket_domain::audit::AuditRecord;
use docket_domain::token::TokenSubject;
use docket_listener::fair_share::Share;
use docket_orders::SaveRequest;
use docket_schedule::Hint;
use docket_store::{StoreError, Transaction, audit, idempotency};
use jiff::Timestamp;
use serde::Serialize;

use super::caller::{Caller, Principal};
use super::idempotency::IdempotencyKey;
use super::state::ApiState;
use crate::actions::save_order::{NewOrder, Saved, customer_of_new};
use crate::delivery::saves::MakeToKeep;
use crate::http::body::json_response;
use crate::http::error::ApiError;
use crate::http::if_match::tagged;
use crate::http::request::FromBody;
use crate::refusal::Refusal;

/// A request that writes. The caller is checked before the body is read.
pub struct Call<C, B> {
    /// The caller, which proves what was checked.
    pub caller: C,
    /// The body.
    pub request: B,
    /// Performs the write.
    pub write: Write,
}

impl<C, B> FromRequest<Arc<ApiState>> for Call<C, B>
where
    C: FromRequestParts<Arc<ApiState>, Rejection = ApiError> + AsRef<Caller> + Send,
    B: FromBody + Send,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = C::from_request_parts(&mut parts, state).await?;
        let route = parts.extensions.get::<MatchedPath>().cloned().ok_or(ApiError::Internal)?;
        let tenant = &caller.as_ref().tenant;
        let limit = B::LIMIT.min(usize::try_from(tenant.config.limits.body_bytes).unwrap_or(usize::MAX));
        let arrived = state.bodies.read(&tenant.uid, &parts.headers, body, limit).await;
        let arrived = arrived.inspect_err(|error| {
            if matches!(error, ApiError::TooLarge(limit) if *limit < B::LIMIT) {
                state.tenants.at_limit.reached(&tenant.uid, Limit::BodyBytes);
            }
        })?;
        let request = B::from_body(&arrived.bytes)?;
        let key = IdempotencyKey::of_request(&parts.headers, route.as_str(), &arrived.bytes)?;
        Ok(Self { caller, request, write: Write { key, _body: arrived.without_tree() } })
    }
}

type LogLine = Box<dyn FnOnce(&Principal) + Send>;

/// The JSON text of a response.
pub fn body_of(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("plain structs serialise")
}

/// What a write did. Its transaction is not committed yet.
pub struct WriteDone {
    body: String,
    /// The version of the web order that the response is about.
    version: Option<i64>,
    hints: Vec<Hint>,
    log: Option<LogLine>,
    entry: Option<AuditRecord>,
}

impl WriteDone {
    /// Describes a write that succeeded, with this response.
    pub fn new(answer: &impl Serialize) -> Self {
        Self { body: body_of(answer), version: None, hints: Vec::new(), log: None, entry: None }
    }

    /// Sets the version of the web order that the response is about.
    pub fn version(self, version: i64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Has these hints published to the schedule after the commit.
    pub fn hint(self, hints: Vec<Hint>) -> Self {
        Self { hints, ..self }
    }

    /// Has a line written to the log after the commit: who did what, by ids only.
    pub fn log(self, log: impl FnOnce(&Principal) + Send + 'static) -> Self {
        Self { log: Some(Box::new(log)), ..self }
    }

    /// Has an entry added to the audit, in the transaction.
    pub fn record(self, entry: AuditRecord) -> Self {
        Self { entry: Some(entry), ..self }
    }
}

/// One write, and the key under which it may be repeated.
pub struct Write {
    key: Option<IdempotencyKey>,
    _body: Option<Share>,
}

impl Write {
    /// A write without a key, of a request with a short body: a repeated request performs it again.
    pub const fn each_time() -> Self {
        Self { key: None, _body: None }
    }

    /// Runs `work` in a transaction and commits it. If the write was performed before under the same key, returns the response of
    /// that time instead.
    pub async fn perform<W>(self, state: &ApiState, caller: &Principal, work: W) -> Result<Response, ApiError>
    where
        W: AsyncFnOnce(&mut Transaction, Timestamp) -> Result<WriteDone, Refusal>,
    {
        self.unless_kept(state, caller, async |key| once(state, caller, key, work).await).await
    }

    /// Creates a web order, in one transaction with others. If it was created before under the same key, returns the response of
    /// that time instead.
    pub async fn create_order(
        self,
        state: &ApiState,
        caller: &Caller,
        request: SaveRequest,
        answer: fn(&Saved) -> String,
    ) -> Result<Response, ApiError> {
        self.unless_kept(state, caller, async |key| create(state, caller, key, request, answer).await).await
    }

    async fn unless_kept(
        self,
        state: &ApiState,
        caller: &Principal,
        write: impl AsyncFnOnce(Option<&IdempotencyKey>) -> Result<Response, WriteFailure>,
    ) -> Result<Response, ApiError> {
        let Some(key) = self.key else {
            return write(None).await.map_err(WriteFailure::into_error);
        };
        // Boxed, since most requests have no key.
        if let Some(kept) = Box::pin(key.find(state, caller)).await? {
            return Ok(kept);
        }
        // Another request with this key may be under way. Then ours is refused, by the key itself or by what the other request has
        // changed, and gets the response of the other request.
        match write(Some(&key)).await {
            Ok(response) => Ok(response),
            Err(failure) => Box::pin(key.find(state, caller)).await?.ok_or(failure.into_error()),
        }
    }
}

/// Why a write was not committed.
enum WriteFailure {
    Api(ApiError),
    /// Another request has used the key in the meantime.
    KeyTaken,
}

impl WriteFailure {
    fn into_error(self) -> ApiError {
        match self {
            Self::Api(error) => error,
            Self::KeyTaken => ApiError::Unavailable,
        }
    }
}

impl From<StoreError> for WriteFailure {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

async fn once<W>(
    state: &ApiState,
    caller: &Principal,
    key: Option<&IdempotencyKey>,
    work: W,
) -> Result<Response, WriteFailure>
where
    W: AsyncFnOnce(&mut Transaction, Timestamp) -> Result<WriteDone, Refusal>,
{
    let mut transaction = caller.tenant.store.begin(&state.clock).await?;
    let now = transaction.now();
    let WriteDone { body, version, hints, log, entry } = match work(&mut transaction, now).await {
        Ok(done) => done,
        Err(refusal) => {
            // A refused write's connection is sound and worth keeping; a failed rollback closes it.
            let _ = transaction.rollback().await;
            return Err(WriteFailure::Api(refusal.into()));
        }
    };
    audit::insert(&mut transaction, entry.as_slice()).await?;
    if let Some(key) = key {
        match idempotency::keep(&mut transaction, &key.to_keep(caller, &body), now.as_millisecond()).await {
            Err(StoreError::Conflict) => return Err(WriteFailure::KeyTaken),
            kept => kept?,
        }
    }
    let (committed, ticket) = tokio::join!(transaction.commit(), state.outbox.before(hints));
    committed?;
    if let Some(entry) = &entry {
        state.audit.stored(&caller.tenant, entry);
    }
    if let Some(log) = log {
        log(caller);
    }
    ticket.committed().await;
    let response = json_response(body);
    Ok(match version {
        Some(version) => tagged(response, version),
        None => response,
    })
}

async fn create(
    state: &ApiState,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
    request: SaveRequest,
    answer: fn(&Saved) -> String,
) -> Result<Response, WriteFailure> {
    let (tenant, subject) = (&caller.tenant, &caller.subject);
    let customer_code = match subject {
        // A contact's customer is known without a connection.
        TokenSubject::Contact { customer_code, .. } if request.customer_code.is_none() => {
            customer_code.clone()
        }
        _ => {
            let mut reader = Box::pin(caller.reader(state)).await?;
            let customer = customer_of_new(&mut reader, subject, request.customer_code.as_deref());
            Box::pin(customer).await.map_err(|refusal| WriteFailure::Api(refusal.into()))?
        }
    };
    let new = NewOrder::new(tenant, customer_code, request, state.clock.now());
    let new = new.map_err(|refusal| WriteFailure::Api(refusal.into()))?;
    let to_keep = key.map(|key| {
        let (key, caller) = (key.clone(), caller.clone());
        Box::new(move |saved: &Saved| key.to_keep(&caller, &answer(saved))) as MakeToKeep
    });
    match state.create_orders.create(tenant, new, to_keep).await {
        Ok(saved) => Ok(tagged(json_response(answer(&saved)), saved.version)),
        Err(StoreError::Conflict) if key.is_some() => Err(WriteFailure::KeyTaken),
        Err(error) => Err(WriteFailure::Api(Refusal::Store(error).into())),
    }
}
