//! /WebhookLogs: deliveries and their attempts, and resends. For administrators of the tenant.

pub mod answers;
pub mod named;
pub mod resends;
pub mod set_aside;
pub mod test_events;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use bytes::Bytes;
use docket_crds::WebhookConfig;
use docket_domain::audit::AuditEvent;
use docket_domain::delivery::DeliveryId;
use docket_schedule::WebhookPlaces;
use docket_store::deliveries::{self, DeliveryFilter, ListedDelivery, StoredAttempt};
use docket_store::events;
use docket_store::walk::Page;
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::caller::{Administrator, Principal};
use super::state::ApiState;
use crate::actions::{meant, wait};
use crate::http::body::JsonResponse;
use crate::http::error::{ApiError, ProblemBody};
use crate::http::kinds::{
    CustomerCodeText, DeliveryIdText, FindText, HttpStatus, InvoiceNumber, LineText, ResendIdText,
    WebhookName, WorkOrderKeyText,
};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, cursor_of};
use crate::http::request::{Query, request};
use crate::http::times::DateOrTime;
use crate::tenancy::ServedTenant;
use answers::{
    DeadLetterState, DeliveryAnswer, DeliveryKindWord, DeliveryPage, DeliveryState, EventWord, FailureWord,
};
use named::check_webhook;

/// How long a page of the log waits for what the schedule knows.
const PATIENCE: Duration = Duration::from_millis(500);

request! {
    /// The parameters of GET /WebhookLogs/Search.
    query DeliverySearch {
        /// Only deliveries in this status.
        opt status: DeliveryState;
        /// Only dead letters, and of these only those that are open, were resent, or are set aside.
        opt dead_letter: DeadLetterState;
        /// Only tests, only resends, or neither: the first deliveries of events.
        opt kind: DeliveryKindWord;
        /// Only deliveries to this webhook: its namespace/name, its uid, or its name for people if only one webhook has it. The name of a
        /// webhook that is neither declared nor has deliveries is refused.
        opt webhook: WebhookName, example "default/acme-orders";
        /// Only deliveries of this customer's events.
        opt customer_code: CustomerCodeText, example "C-1001";
        /// Only deliveries of this event.
        opt event: EventWord;
        /// Only deliveries whose last attempt failed this way.
        opt failure_class: FailureWord;
        /// Only deliveries whose last response had this HTTP status.
        opt http_status: HttpStatus;
        /// Only this delivery: the header X-Service-Delivery-Id that the receiver gets.
        opt delivery_id: DeliveryIdText, example "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
        /// Only deliveries of the event with this id: the header webhook-id and the `id` in the payload. Resends of an event have
        /// the same one.
        opt event_id: LineText<64>, example "evt_0193f0c2a1b07c3e9d6f5a4b3c2d1e0f";
        /// Only deliveries that this bulk resend has queued.
        opt resend_id: ResendIdText, example "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a";
        /// Only deliveries about the web order, work order or invoice with this number, or the delivery or event with this id. Case does
        /// not matter in numbers and ids that Docket gave.
        opt find: FindText, example "W00000026";
        /// Created at or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Created before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// Only deliveries about this web order.
        opt web_order_id: LineText<32>;
        /// Only deliveries about this work order, or about the export that created it. A facilityKey stands for its work
        /// order.
        opt work_order: WorkOrderKeyText;
        /// Only deliveries about this invoice.
        opt invoice_number: InvoiceNumber;
        /// Deliveries per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: Cursor;
    }
}

request! {
    /// The parameters of GET /WebhookLogs/Get.
    query DeliveryQuery {
        /// The id of the delivery.
        req delivery_id: DeliveryIdText, example "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
    }
}

/// Searches deliveries to webhooks, newest first.
///
/// Payloads are left out; get them from /WebhookLogs/Get.
#[utoipa::path(get, path = "/WebhookLogs/Search", operation_id = "WebhookLogs.Search", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(DeliverySearch),
    responses((status = 200, body = DeliveryPage, description = "A page of deliveries"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No webhook has this name")))]
pub async fn search(
    State(state): State<Arc<ApiState>>,
    Administrator(caller): Administrator,
    Query(mut search): Query<DeliverySearch>,
) -> Result<JsonResponse<DeliveryPage>, ApiError> {
    check_webhook(&state, &caller, &mut search).await?;
    listed(&state, &caller, search).await
}

/// Returns a page of deliveries, each with what it waits for.
pub async fn listed(
    state: &ApiState,
    caller: &Principal,
    search: DeliverySearch,
) -> Result<JsonResponse<DeliveryPage>, ApiError> {
    let (items, next_cursor) = find(state, caller, search, false).await?;
    let waits = waits(state, caller, &items).await?;
    Ok(JsonResponse(DeliveryPage::new(items, waits, next_cursor)))
}

/// What each of these deliveries waits for, if it is due, as text that completes "waits for".
pub async fn waits(
    state: &ApiState,
    caller: &Principal,
    listed: &[ListedDelivery],
) -> Result<Vec<Option<String>>, ApiError> {
    let ServedTenant { config, uid, .. } = &*caller.tenant;
    let tenant =
        wait::TenantState { is_suspended: config.suspended, webhooks: Some(caller.tenant.webhooks()) };
    let schedule = &state.outbox.schedule;
    let places = async |webhooks: &[String]| schedule.places_within(uid, webhooks, PATIENCE).await;
    let mut reader = caller.reader(state).await?;
    let waits = wait::waits(&mut reader, state.clock.now_ms(), &tenant, listed, places).await?;
    Ok(waits.into_iter().map(|wait| wait.map(|wait| wait.to_string())).collect())
}

/// The places of a webhook, by key; `None`: the schedule did not respond in time.
pub async fn places(state: &ApiState, caller: &Principal, webhook: String) -> Option<WebhookPlaces> {
    let schedule = &state.outbox.schedule;
    let places = schedule.places_within(&caller.tenant.uid, &[webhook], PATIENCE).await?;
    places.webhooks.first().copied()
}

/// Searches deliveries. Returns a page of them, and the cursor of the next page. `is_failed`: only deliveries whose last attempt failed.
pub async fn find(
    state: &ApiState,
    caller: &Principal,
    search: DeliverySearch,
    is_failed: bool,
) -> Result<(Vec<ListedDelivery>, Option<String>), ApiError> {
    // The facilityKey of an event begins with the number of its work order.
    let work_order_of = |key: String| key.split(['-', ':']).next().unwrap_or_default().to_owned();
    if let (Some(own), Some(other)) = (&caller.customer, &search.customer_code)
        && own != other
    {
        return Ok((Vec::new(), None));
    }
    let filter = DeliveryFilter {
        status: search.status,
        dead_letter: search.dead_letter,
        is_failed,
        webhook: search
            .webhook
            .map(|name| caller.webhooks().named(&name).map_or(name, WebhookConfig::full_name)),
        event_code: search.event,
        failure_class: search.failure_class,
        http_status: search.http_status,
        id: search.delivery_id,
        event_id: search.event_id,
        resend_id: search.resend_id,
        from_ms: search.from.map(Timestamp::as_millisecond),
        to_ms: search.to.map(Timestamp::as_millisecond),
        web_order_id: search.web_order_id,
        work_order: search.work_order.map(work_order_of),
        invoice_number: search.invoice_number,
        about: None,
        customer_code: caller.customer.clone().or(search.customer_code),
        kind: search.kind,
        after: search.cursor,
    };
    let mut reader = caller.reader(state).await?;
    let (clock, size) = (&state.clock, search.page_size);
    let Page { items, next } = match &search.find {
        Some(text) => meant::deliveries_about(&mut reader, clock, text, &filter, size).await?,
        None => deliveries::search(&mut reader, clock, &filter, size).await?,
    };
    Ok((items, cursor_of(next)))
}

/// Returns one delivery with its payload and every attempt.
///
/// An attempt has its outcome, the time of each phase, the receiver's response, and what to do about a failure.
#[utoipa::path(get, path = "/WebhookLogs/Get", operation_id = "WebhookLogs.Get", tag = "WebhookLogs",
    security(("ApiKey" = [], "Bearer" = [])),
    params(DeliveryQuery),
    responses((status = 200, body = DeliveryAnswer, description = "The delivery"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such delivery")))]
pub async fn get(
    State(state): State<Arc<ApiState>>,
    Administrator(caller): Administrator,
    Query(DeliveryQuery { delivery_id: id }): Query<DeliveryQuery>,
) -> Result<JsonResponse<DeliveryAnswer>, ApiError> {
    let ReadDelivery { listed, attempts, later, payload } = read(&state, &caller, id).await?;
    let all: Vec<ListedDelivery> = std::iter::once(&listed).chain(&later).cloned().collect();
    let mut waits = waits(&state, &caller, &all).await?.into_iter();
    let waits_for = waits.next().flatten();
    let later = later.into_iter().zip(waits).collect();
    // Another program may have stored something that is no JSON.
    let payload = payload.and_then(|body| RawValue::from_string(String::from_utf8(body.into()).ok()?).ok());
    Ok(JsonResponse(DeliveryAnswer::new((listed, waits_for), attempts, later, payload)))
}

/// A delivery, its attempts and its payload.
pub struct ReadDelivery {
    /// The delivery.
    pub listed: ListedDelivery,
    /// The attempts, oldest first.
    pub attempts: Vec<StoredAttempt>,
    /// The resends of the delivery and of its resends, newest first.
    pub later: Vec<ListedDelivery>,
    /// Exactly the bytes that are sent; `None` if the event is too long or its id is invalid, so that nothing is sent.
    pub payload: Option<Bytes>,
}

/// Reads a delivery with its payload. The audit records that the caller did, once in five minutes.
pub async fn read(state: &ApiState, caller: &Principal, id: DeliveryId) -> Result<ReadDelivery, ApiError> {
    let mut reader = caller.reader(state).await?;
    let found = deliveries::find_with_attempts(&mut reader, id).await?;
    let found = found.filter(|(listed, _)| caller.concerns(&listed.customer_code));
    let (listed, attempts) = found.ok_or(ApiError::NotFound("There is no such delivery"))?;
    let later = deliveries::later(&mut reader, &listed).await?;
    let payload = events::body(&mut reader, &listed.event_id).await?;
    let entry = caller.entry(state, AuditEvent::PayloadRead).about("delivery", &id.to_string());
    state.audit.record_read(&caller.tenant, entry);
    let code = caller.tenant.config.client_code.as_str();
    tracing::info!(tenant.code = code, caller = caller.name(), delivery.id = %id, "delivery read");
    Ok(ReadDelivery { listed, attempts, later, payload })
}
