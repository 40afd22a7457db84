//! /WebhookLogs/Resend, /WebhookLogs/StopResend and /WebhookLogs/Resends.

pub mod answers;
pub mod requests;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docket_domain::audit::AuditEvent;
use docket_domain::delivery::DeliveryId;
use docket_store::Transaction;
use docket_store::resends::Resend;

use self::answers::{PreviewAnswer, ResendAnswer, ResendManyAnswer, ResendPage, ResentAnswer, StopAnswer};
use self::requests::{ResendOne, ResendRequest, ResendSearch, StopResendRequest};
use crate::actions::resend::{self, Many, Resent, resend_many, resend_one};
use crate::api::caller::{Administrator, Principal};
use crate::api::idempotency::IdempotencyKey;
use crate::api::state::ApiState;
use crate::api::writes::{Call, Write, WriteDone};
use crate::http::body::JsonResponse;
use crate::http::error::{ApiError, ProblemBody};
use crate::http::paging::page;
use crate::http::request::Query;

/// Resends one delivery that has ended, or the dead letters of a webhook.
///
/// A resend is a new delivery with the same event id and bytes. A bulk resend sends the oldest first, at the given rate, and
/// only the latest delivery of each event.
#[utoipa::path(post, path = "/WebhookLogs/Resend", operation_id = "WebhookLogs.Resend", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey),
    request_body = ResendRequest,
    responses((status = 200, body = ResendAnswer, description = "The deliveries are queued. With preview, the response says what would be queued"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery"),
              (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "Docket is still sending this event to the webhook. Or the webhook is inactive, is not declared, now belongs to another customer, or is not subscribed to the event. Or the event is disabled, or its id is invalid. Or the Idempotency-Key was used for another request")))]
pub async fn resend(
    State(state): State<Arc<ApiState>>,
    Call { caller: Administrator(caller), request, write }: Call<Administrator, ResendRequest>,
) -> Result<Response, ApiError> {
    match request {
        ResendRequest::One(ResendOne { delivery_id }) => {
            one(&state, &caller, delivery_id, write).await.map(|(response, _)| response)
        }
        ResendRequest::Many(request) if request.preview => preview(&state, &caller, request.into()).await,
        ResendRequest::Many(request) => {
            many(&state, &caller, request.into(), write).await.map(|(response, _)| response)
        }
    }
}

/// Resends a delivery that has ended. Returns the response and the new delivery. If the response was kept from an earlier request
/// under the same key, there is no new delivery.
pub async fn one(
    state: &ApiState,
    caller: &Principal,
    id: DeliveryId,
    write: Write,
) -> Result<(Response, Option<DeliveryId>), ApiError> {
    let (tenant, mut made) = (&caller.tenant, None);
    let resend = async |transaction: &mut Transaction, now| {
        let name = caller.name();
        let (resent, due) = resend_one(transaction, caller.by(&name), id, now).await?;
        let done = WriteDone::new(&ResentAnswer::from(&resent)).hint(tenant.hints([due], now));
        let Resent { id, resend_of } = resent;
        made = Some(id);
        let entry = caller.entry(state, AuditEvent::DeliveryResent).about("delivery", &resend_of.to_string());
        Ok(done.record(entry).log(move |caller| {
            let (code, name) = (caller.tenant.config.client_code.as_str(), caller.name());
            tracing::info!(tenant.code = code, caller = name, delivery.id = %id, delivery.resend_of = %resend_of, "delivery resent");
        }))
    };
    let response = write.perform(state, caller, resend).await?;
    Ok((response, made))
}

/// The new deliveries of a bulk resend.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueuedResend {
    /// How many.
    pub count: i64,
    /// The first one.
    pub first: Option<DeliveryId>,
}

/// Resends the dead letters of a webhook. Returns the response and the new deliveries. If the response was kept from an earlier
/// request under the same key, there is no new delivery.
pub async fn many(
    state: &ApiState,
    caller: &Principal,
    many: Many,
    write: Write,
) -> Result<(Response, QueuedResend), ApiError> {
    let (tenant, mut queued) = (&caller.tenant, QueuedResend::default());
    let resend = async |transaction: &mut Transaction, now| {
        let (resend, extent, dues) =
            resend_many(transaction, caller.webhooks(), &many, &caller.name(), now).await?;
        let answer = ResendManyAnswer::new(&many, &resend, extent);
        queued = QueuedResend { count: resend.count, first: dues.first().map(|due| due.id) };
        let Resend { id, webhook_name, count, .. } = resend;
        let entry = caller.entry(state, AuditEvent::ResendStarted).about("resend", &id).times(count);
        Ok(WriteDone::new(&answer).hint(tenant.hints(dues, now)).record(entry).log(move |caller| {
            tracing::info!(
                tenant.code = caller.tenant.config.client_code.as_str(),
                caller = caller.name(),
                resend.id = id,
                webhook.name = webhook_name,
                count,
                "dead letters resent"
            );
        }))
    };
    let response = write.perform(state, caller, resend).await?;
    Ok((response, queued))
}

/// Returns what [`many`] would queue, as a response.
pub async fn preview(state: &ApiState, caller: &Principal, many: Many) -> Result<Response, ApiError> {
    let mut reader = caller.reader(state).await?;
    let (extent, total) = resend::preview(&mut reader, caller.webhooks(), &many).await?;
    Ok(JsonResponse(PreviewAnswer::new(&many, extent, total)).into_response())
}

/// Stops a bulk resend.
///
/// Its deliveries that were not attempted yet are withdrawn. Stopping it again changes nothing.
#[utoipa::path(post, path = "/WebhookLogs/StopResend", operation_id = "WebhookLogs.StopResend", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey),
    request_body = StopResendRequest,
    responses((status = 200, body = StopAnswer, description = "Stopped"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such resend")))]
pub async fn stop(
    State(state): State<Arc<ApiState>>,
    Call { caller: Administrator(caller), request, write }: Call<Administrator, StopResendRequest>,
) -> Result<Response, ApiError> {
    stop_one(&state, &caller, request.resend_id, write).await.map(|(response, _)| response)
}

/// Stops the bulk resend with this id. Returns the response and how many deliveries were withdrawn. If the response was kept from an
/// earlier request under the same key, there are none.
pub async fn stop_one(
    state: &ApiState,
    caller: &Principal,
    id: String,
    write: Write,
) -> Result<(Response, i64), ApiError> {
    let mut withdrawn = 0;
    let stop = async |transaction: &mut Transaction, now| {
        let stopped =
            resend::stop(transaction, caller.concern().as_deref(), &id, &caller.name(), now).await?;
        let (resend, taken_back) = (id.clone(), stopped.taken_back);
        withdrawn = taken_back;
        let entry = caller.entry(state, AuditEvent::ResendStopped).about("resend", &id).times(taken_back);
        Ok(WriteDone::new(&StopAnswer::new(&id, stopped)).record(entry).log(move |caller| {
            tracing::info!(
                tenant.code = caller.tenant.config.client_code.as_str(),
                caller = caller.name(),
                resend.id = resend,
                taken_back,
                "resend stopped"
            );
        }))
    };
    let response = write.perform(state, caller, stop).await?;
    Ok((response, withdrawn))
}

/// Lists bulk resends, newest first, each with its progress.
///
/// The list includes resends that have ended or were stopped. The resend of one delivery is no bulk resend; /WebhookLogs/Search
/// finds it.
#[utoipa::path(get, path = "/WebhookLogs/Resends", operation_id = "WebhookLogs.Resends", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(ResendSearch),
    responses((status = 200, body = ResendPage, description = "A page of bulk resends")))]
pub async fn list(
    State(state): State<Arc<ApiState>>,
    Administrator(caller): Administrator,
    Query(ResendSearch { resend_id: id, page_size, cursor }): Query<ResendSearch>,
) -> Result<JsonResponse<ResendPage>, ApiError> {
    let mut reader = caller.reader(&state).await?;
    let found = resend::progress(&mut reader, None, id.as_deref(), cursor.as_ref(), page_size + 1).await?;
    let (found, next_cursor) =
        page(found, page_size, |last| (last.resend.created_at_ms, last.resend.id.clone()));
    Ok(JsonResponse(ResendPage { items: found.into_iter().map(Into::into).collect(), next_cursor }))
}
