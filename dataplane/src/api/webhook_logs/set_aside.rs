//! /WebhookLogs/SetAside and /WebhookLogs/UndoSetAside.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docket_domain::delivery::DeliveryId;
use docket_domain::resend::{Aside, MAX_COUNT};
use docket_store::Transaction;
use docket_store::resends::DeadLetterRange;
use serde::Serialize;
use utoipa::ToSchema;

use super::answers::EventWord;
use crate::actions::choice::Choice;
use crate::actions::set_aside;
use crate::api::caller::{Administrator, Principal};
use crate::api::idempotency::IdempotencyKey;
use crate::api::state::ApiState;
use crate::api::writes::{Call, Write, WriteDone};
use crate::http::body::JsonResponse;
use crate::http::error::{ApiError, ProblemBody};
use crate::http::fields::RequestFields;
use crate::http::kinds::{DeliveryIdText, WebhookName, Whole};
use crate::http::request::{FromBody, FromFields, request};
use crate::http::times::{DateOrTime, Time, time};

/// The body of POST /WebhookLogs/SetAside and POST /WebhookLogs/UndoSetAside.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum SetAsideRequest {
    /// One dead letter.
    One(SetAsideOne),
    /// The dead letters of a webhook.
    Many(SetAsideMany),
}

impl FromBody for SetAsideRequest {
    fn from_body(body: &[u8]) -> Result<Self, ApiError> {
        let fields = RequestFields::of_body(body)?;
        match fields.has("deliveryId") {
            true => SetAsideOne::read(fields).map(Self::One),
            false => SetAsideMany::read(fields).map(Self::Many),
        }
    }
}

request! {
    /// One dead letter to set aside.
    body SetAsideOne {
        /// The id of the delivery, which must be a dead letter.
        req delivery_id: DeliveryIdText, example "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
    }
}

request! {
    /// The dead letters of a webhook to set aside.
    body SetAsideMany {
        /// The webhook's namespace/name or its uid.
        req webhook: WebhookName, example "default/acme-orders";
        /// Only deliveries of this event.
        opt event: EventWord;
        /// Only deliveries created at or after this time.
        opt from: DateOrTime;
        /// Only deliveries created before this time.
        opt to: DateOrTime;
        /// Only dead letters that ended before this time. The preview returns one: what died after it is then left out.
        opt ended_before: DateOrTime;
        /// At most this many, the oldest first. The default is 10,000.
        def limit: Whole<1, MAX_COUNT> = MAX_COUNT;
        /// Only reports what would be set aside. Nothing is written.
        def preview: bool = false;
    }
}

impl From<SetAsideMany> for Choice {
    fn from(request: SetAsideMany) -> Self {
        let SetAsideMany { webhook, event, from, to, ended_before, limit, preview: _ } = request;
        Self::new(webhook, event, [from, to, ended_before], limit)
    }
}

/// The response of POST /WebhookLogs/SetAside and POST /WebhookLogs/UndoSetAside: one of two.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum SetAsideAnswer {
    /// The request has no field `preview`.
    Done(SetAsideDone),
    /// The request has the field `preview`.
    Preview(SetAsidePreview),
}

/// Dead letters were set aside, or count again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetAsideDone {
    /// How many dead letters this request changed.
    #[schema(minimum = 0, maximum = 10000)]
    changed: i64,
}

/// The dead letters that would be set aside, or would count again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetAsidePreview {
    /// Always true. Nothing was written.
    #[schema(example = true)]
    preview: bool,
    /// How many there are without the limit; 10,001 stands for more than 10,000.
    #[schema(minimum = 0, maximum = 10001)]
    total: i64,
    /// How many the request would change.
    #[schema(minimum = 0, maximum = 10000)]
    count: i64,
    /// When the oldest of them was created.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    oldest: Option<Time>,
    /// When the newest of them was created.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    newest: Option<Time>,
    /// The time of the preview, or `endedBefore` of the request. Send it as `endedBefore` to change these alone, and none that died
    /// since.
    #[schema(required, value_type = String, format = DateTime)]
    ended_before: Option<Time>,
}

impl SetAsidePreview {
    /// The response for this choice. `total`: how many dead letters it has without the limit.
    pub fn new(extent: DeadLetterRange, total: i64, choice: &Choice) -> Self {
        let [oldest, newest, ended_before] =
            [extent.oldest_ms, extent.newest_ms, choice.ended_before_ms].map(|at_ms| at_ms.map(time));
        Self { preview: true, total, count: extent.count, oldest, newest, ended_before }
    }
}

/// Sets a dead letter aside, or the dead letters of a webhook.
///
/// They count nowhere from then on, and bulk resends leave them out. Setting them aside again changes nothing. A resend of one
/// ends its setting aside.
#[utoipa::path(post, path = "/WebhookLogs/SetAside", operation_id = "WebhookLogs.SetAside", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey),
    request_body = SetAsideRequest,
    responses((status = 200, body = SetAsideAnswer, description = "The dead letters are set aside. With preview, the response says which would be"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery, or no such webhook"),
              (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The delivery is no dead letter, or was resent. Or the Idempotency-Key was used for another request")))]
pub async fn set(
    State(state): State<Arc<ApiState>>,
    Call { caller: Administrator(caller), request, write }: Call<Administrator, SetAsideRequest>,
) -> Result<Response, ApiError> {
    change(&state, &caller, request, Aside::Set, write).await
}

/// Undoes the setting aside of a dead letter, or of the dead letters of a webhook.
///
/// They count again, and bulk resends send them. Of others it changes nothing.
#[utoipa::path(post, path = "/WebhookLogs/UndoSetAside", operation_id = "WebhookLogs.UndoSetAside", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey),
    request_body = SetAsideRequest,
    responses((status = 200, body = SetAsideAnswer, description = "The dead letters count again. With preview, the response says which would"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery, or no such webhook"),
              (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The delivery is no dead letter, or was resent. Or the Idempotency-Key was used for another request")))]
pub async fn undo(
    State(state): State<Arc<ApiState>>,
    Call { caller: Administrator(caller), request, write }: Call<Administrator, SetAsideRequest>,
) -> Result<Response, ApiError> {
    change(&state, &caller, request, Aside::Undo, write).await
}

async fn change(
    state: &ApiState,
    caller: &Principal,
    request: SetAsideRequest,
    aside: Aside,
    write: Write,
) -> Result<Response, ApiError> {
    match request {
        SetAsideRequest::One(SetAsideOne { delivery_id }) => {
            one(state, caller, delivery_id, aside, write).await.map(|(response, _)| response)
        }
        SetAsideRequest::Many(request) if request.preview => {
            preview(state, caller, &request.into(), aside).await
        }
        SetAsideRequest::Many(request) => {
            many(state, caller, request.into(), aside, write).await.map(|(response, _)| response)
        }
    }
}

/// Returns what [`many`] would change, as a response.
pub async fn preview(
    state: &ApiState,
    caller: &Principal,
    choice: &Choice,
    aside: Aside,
) -> Result<Response, ApiError> {
    let mut reader = caller.reader(state).await?;
    let name = caller.name();
    let seen = choice.as_of(state.clock.now());
    let (extent, total) = set_aside::preview(&mut reader, caller.by(&name), &seen, aside).await?;
    Ok(JsonResponse(SetAsidePreview::new(extent, total, &seen)).into_response())
}

/// Sets a dead letter aside, or undoes that. Returns the response, and how many dead letters this request changed: none if the
/// response was kept from an earlier request under the same key.
pub async fn one(
    state: &ApiState,
    caller: &Principal,
    id: DeliveryId,
    aside: Aside,
    write: Write,
) -> Result<(Response, i64), ApiError> {
    let mut changed = 0;
    let work = async |transaction: &mut Transaction, now| {
        let name = caller.name();
        let is_changed = set_aside::one(transaction, caller.by(&name), id, aside, now).await?;
        changed = i64::from(is_changed);
        Ok(done(state, caller, aside, changed, ("delivery", id.to_string())))
    };
    let response = write.perform(state, caller, work).await?;
    Ok((response, changed))
}

/// Like [`one`], for a choice among the dead letters of a webhook.
pub async fn many(
    state: &ApiState,
    caller: &Principal,
    choice: Choice,
    aside: Aside,
    write: Write,
) -> Result<(Response, i64), ApiError> {
    let mut changed = 0;
    let work = async |transaction: &mut Transaction, now| {
        let name = caller.name();
        let (webhook, count) = set_aside::many(transaction, caller.by(&name), &choice, aside, now).await?;
        changed = count;
        Ok(done(state, caller, aside, count, ("webhook", webhook)))
    };
    let response = write.perform(state, caller, work).await?;
    Ok((response, changed))
}

fn done(
    state: &ApiState,
    caller: &Principal,
    aside: Aside,
    count: i64,
    (kind, id): (&'static str, String),
) -> WriteDone {
    let done = WriteDone::new(&SetAsideDone { changed: count });
    if count == 0 {
        return done;
    }
    let entry = caller.entry(state, aside.event()).about(kind, &id).times(count);
    done.record(entry).log(move |caller| {
        let (code, name) = (caller.tenant.config.client_code.as_str(), caller.name());
        match aside {
            Aside::Set => {
                tracing::info!(tenant.code = code, caller = name, kind, id, count, "dead letters set aside")
            }
            Aside::Undo => {
                tracing::info!(
                    tenant.code = code,
                    caller = name,
                    kind,
                    id,
                    count,
                    "setting aside of dead letters undone"
                );
            }
        }
    })
}
