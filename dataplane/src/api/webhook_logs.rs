//! /WebhookLogs: what became of the deliveries, and sending them again. For administrators of the tenant.

pub mod answers;
pub mod resends;

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, FailureClass, Status};
use serde_json::value::RawValue;

use answers::{DeliveryAnswer, DeliveryPage, DeliveryState, EventWord, FailureWord};

use super::body::problem;
use super::caller::Administrator;
use super::error::{ApiError, ProblemBody};
use super::limits::{INVOICE_NUMBER, WEB_ORDER_ID, WORK_ORDER_KEY};
use super::query::{Cursor, DateOrTime, Query, page};
use crate::app::App;
use docket_store::deliveries::{self, DeliveryFilter};
use docket_store::events;

/// Characters of a delivery id.
const ID: usize = 36;
/// Characters of a webhook's uid or name.
const MAX_WEBHOOK: usize = 330;

/// Deliveries to webhooks, newest first, without their payloads.
#[utoipa::path(get, path = "/WebhookLogs/Search", operation_id = "WebhookLogs.Search", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("status" = Option<DeliveryState>, Query, description = "Only in this status."),
           ("webhook" = Option<String>, Query, description = "Only to this webhook: namespace/name, or its uid.", example = "default/acme-orders", min_length = 1, max_length = 330, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("event" = Option<EventWord>, Query, description = "Only of this event."),
           ("failureClass" = Option<FailureWord>, Query, description = "Only those whose last attempt failed like this."),
           ("from" = Option<DateOrTime>, Query, description = "Created at or after: a date (its first moment in UTC), or a time with an offset."),
           ("to" = Option<DateOrTime>, Query, description = "Created before: a date (its first moment in UTC), or a time with an offset."),
           ("webOrderId" = Option<String>, Query, description = "Only about this web order.", min_length = 1, max_length = 32, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("workOrder" = Option<String>, Query, description = "Only about this work order, or about the export that made it. A facilityKey means its work order.", min_length = 1, max_length = 80, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("invoiceNumber" = Option<String>, Query, description = "Only about this invoice.", min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("pageSize" = Option<i64>, Query, description = "Deliveries per page.", minimum = 1, maximum = 100),
           ("cursor" = Option<Cursor>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = DeliveryPage, description = "A page")))]
pub async fn search(
    State(app): State<Arc<App>>,
    Administrator(caller): Administrator,
    RawQuery(query): RawQuery,
) -> Result<Json<DeliveryPage>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let filter = DeliveryFilter {
        status: query.word("status", Status::ALL.iter().map(|status| status.as_str())),
        webhook: query.text("webhook", MAX_WEBHOOK),
        event_code: query.word("event", EventCode::ALL.iter().map(|code| code.as_str())),
        failure_class: query.word("failureClass", FailureClass::ALL.iter().map(|class| class.as_str())),
        from_ms: query.time_ms("from"),
        to_ms: query.time_ms("to"),
        web_order_id: query.text("webOrderId", WEB_ORDER_ID),
        // A facilityKey that an event carried names its work order as well.
        work_order: query
            .text("workOrder", WORK_ORDER_KEY)
            .map(|key| key.split(['-', ':']).next().unwrap_or_default().to_owned()),
        invoice_number: query.text("invoiceNumber", INVOICE_NUMBER),
        about: None,
        after: query.cursor(),
    };
    let page_size = query.page_size();
    query.finish()?;
    let mut reader = caller.reader(&app).await?;
    let listed = deliveries::search(&mut reader, &filter, page_size + 1).await?;
    let (listed, next_cursor) = page(listed, page_size, |last| (last.created_at_ms, last.id.clone()));
    Ok(Json(DeliveryPage { items: listed.into_iter().map(Into::into).collect(), next_cursor }))
}

/// One delivery with its payload and every attempt: how it ended, how long each phase took, what the receiver answered,
/// and what to do about a failure.
#[utoipa::path(get, path = "/WebhookLogs/Get", operation_id = "WebhookLogs.Get", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("deliveryId" = String, Query, description = "The delivery.", example = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f", min_length = 36, max_length = 36, pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")),
    responses((status = 200, body = DeliveryAnswer, description = "The delivery"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery")))]
pub async fn get(
    State(app): State<Arc<App>>,
    Administrator(caller): Administrator,
    RawQuery(query): RawQuery,
) -> Result<Json<DeliveryAnswer>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let id = query.required_text("deliveryId", ID);
    query.finish()?;
    let id = delivery_id(&id)?;
    let mut reader = caller.reader(&app).await?;
    let listed = deliveries::find(&mut reader, id).await?;
    let listed = listed.ok_or(ApiError::NotFound("There is no such delivery"))?;
    let attempts = deliveries::attempts(&mut reader, id).await?;
    let body = events::body(&mut reader, &listed.event_id).await?.ok_or(ApiError::Internal)?;
    // The very bytes that are sent.
    let payload = String::from_utf8(body).ok().and_then(|text| RawValue::from_string(text).ok());
    let payload = payload.ok_or(ApiError::Internal)?;
    // Who has seen a payload, by ids only.
    let code = caller.tenant.config.client_code.as_str();
    tracing::info!(tenant.code = code, caller = caller.name(), delivery.id = %id, "delivery read");
    Ok(Json(DeliveryAnswer::new(listed, attempts, payload)))
}

/// The id as it is shown everywhere; no other spelling.
fn delivery_id(text: &str) -> Result<DeliveryId, ApiError> {
    let id = text.parse::<DeliveryId>().ok().filter(|id| id.to_string() == text);
    id.ok_or_else(|| problem("deliveryId", "must be the deliveryId of an answer"))
}
