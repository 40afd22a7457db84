//! /WebhookLogs/Resend, /WebhookLogs/StopResend and /WebhookLogs/Resends.

pub mod answers;

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use docket_domain::delivery::DeliveryId;
use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT, MAX_PER_SECOND};

use self::answers::{PreviewAnswer, ResendAnswer, ResendPage, ResendRequest, StopAnswer, StopResendRequest};

use super::{ID, MAX_WEBHOOK, delivery_id};
use crate::actions::resend::{self, Many};
use crate::api::body::{Fields, problem};
use crate::api::caller::Administrator;
use crate::api::error::{ApiError, ProblemBody};
use crate::api::query::{Cursor, Query, page};
use crate::api::writes::{self, Call, Write};
use crate::app::App;

/// Characters of a resend's id.
const RESEND_ID: usize = 32;

/// What POST /WebhookLogs/Resend asks for.
enum Asked {
    One(DeliveryId),
    Many(Many),
    Preview(Many),
}

impl Asked {
    fn read(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        if fields.has("deliveryId") {
            let id = fields.required_text("deliveryId", ID);
            fields.finish()?;
            return Ok(Self::One(delivery_id(&id)?));
        }
        let many = Many {
            webhook: fields.required_text("webhook", MAX_WEBHOOK),
            from_ms: fields.time_ms("from"),
            to_ms: fields.time_ms("to"),
            limit: fields.integer("limit", 1..=MAX_COUNT).unwrap_or(MAX_COUNT),
            per_second: fields.integer("perSecond", 1..=MAX_PER_SECOND).unwrap_or(DEFAULT_PER_SECOND),
        };
        let preview = fields.boolean("preview").unwrap_or(false);
        fields.finish()?;
        Ok(if preview { Self::Preview(many) } else { Self::Many(many) })
    }
}

/// Sends a delivery that has ended again, or the dead letters of a webhook: as new deliveries with the same event id and
/// bytes. Many go out oldest first, so many per second; of each event only its latest delivery is sent again.
#[utoipa::path(post, path = "/WebhookLogs/Resend", operation_id = "WebhookLogs.Resend", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the call safe to repeat.", min_length = 1, max_length = 128, pattern = "^[!-~]+$")),
    request_body = ResendRequest,
    responses((status = 200, body = ResendAnswer, description = "Queued; or with preview, what would be"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery"),
              (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The event is still being sent to this webhook; or the webhook is inactive, not declared, another customer's now, or not subscribed to the event, or the event is switched off; or the Idempotency-Key was used for another request")))]
pub async fn resend(State(app): State<Arc<App>>, call: Call<Administrator>) -> Result<Response, ApiError> {
    let Call { caller: Administrator(caller), headers, body } = call;
    let write = match Asked::read(&body)? {
        Asked::One(id) => Write::Resend(id),
        Asked::Many(many) => Write::ResendMany(many),
        Asked::Preview(many) => {
            writes::idempotency_key(&headers)?;
            let mut reader = caller.reader(&app).await?;
            let (extent, total) = resend::preview(&mut reader, caller.tenant.webhooks(), &many).await?;
            return Ok(Json(PreviewAnswer::new(&many, extent, total)).into_response());
        }
    };
    writes::write(app, caller, &headers, &body, write).await
}

/// Takes back what a request for many has queued and nobody has attempted. Stopping it again changes nothing.
#[utoipa::path(post, path = "/WebhookLogs/StopResend", operation_id = "WebhookLogs.StopResend", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the call safe to repeat.", min_length = 1, max_length = 128, pattern = "^[!-~]+$")),
    request_body = StopResendRequest,
    responses((status = 200, body = StopAnswer, description = "Stopped"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such resend")))]
pub async fn stop(State(app): State<Arc<App>>, call: Call<Administrator>) -> Result<Response, ApiError> {
    let Call { caller: Administrator(caller), headers, body } = call;
    let mut fields = Fields::parse(&body)?;
    let id = fields.required_text("resendId", RESEND_ID);
    fields.finish()?;
    let id = resend_id(id)?;
    writes::write(app, caller, &headers, &body, Write::StopResend(id)).await
}

fn resend_id(text: String) -> Result<String, ApiError> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match text.len() == RESEND_ID && text.bytes().all(is_hex) {
        true => Ok(text),
        false => Err(problem("resendId", "must be the resendId of an answer")),
    }
}

/// Requests for many, newest first, and how far each is.
#[utoipa::path(get, path = "/WebhookLogs/Resends", operation_id = "WebhookLogs.Resends", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("resendId" = Option<String>, Query, description = "Only this one.", min_length = 32, max_length = 32, pattern = "^[0-9a-f]{32}$"),
           ("pageSize" = Option<i64>, Query, description = "Requests per page.", minimum = 1, maximum = 100),
           ("cursor" = Option<Cursor>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = ResendPage, description = "A page")))]
pub async fn list(
    State(app): State<Arc<App>>,
    Administrator(caller): Administrator,
    RawQuery(query): RawQuery,
) -> Result<Json<ResendPage>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let id = query.text("resendId", RESEND_ID);
    let (after, page_size) = (query.cursor(), query.page_size());
    query.finish()?;
    let id = id.map(resend_id).transpose()?;
    let mut reader = caller.reader(&app).await?;
    let found = resend::progress(&mut reader, id.as_deref(), after.as_ref(), page_size + 1).await?;
    let (found, next_cursor) =
        page(found, page_size, |last| (last.resend.created_at_ms, last.resend.id.clone()));
    Ok(Json(ResendPage { items: found.into_iter().map(Into::into).collect(), next_cursor }))
}
