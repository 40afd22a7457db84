//! /Orders/Save, /Orders/Export, /Orders/Get and /Orders/Search.

pub mod answers;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docket_orders::openapi::STORED_ORDER;
use docket_orders::order_type::OrderTypeComponent;
use docket_orders::{OrderType, SaveRequest};
use docket_store::orders::{self, OrderFilter, OrderHead, OrderStatus, ReadOrder};
use docket_store::walk::Page;
use docket_store::{Connection, Transaction};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use super::caller::Caller;
use super::idempotency::IdempotencyKey;
use super::state::ApiState;
use super::writes::{Call, WriteDone, body_of};
use crate::actions::export_order::{Exported, export_order, work_orders_of};
use crate::actions::save_order::{Saved, save_order};
use crate::http::body::{JsonResponse, ORDER_LIMIT};
use crate::http::error::{ApiError, ProblemBody};
use crate::http::if_match::{IfMatch, tagged};
use crate::http::kinds::{LineText, WebOrderIdText};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, cursor_of};
use crate::http::request::{FromBody, Query, request};
use crate::http::times::{DateOrTime, Time, time};
use crate::refusal::Versions;
use answers::{ExportAnswer, OrderState, SaveAnswer};

impl FromBody for SaveRequest {
    const LIMIT: usize = ORDER_LIMIT;

    fn from_body(body: &[u8]) -> Result<Self, ApiError> {
        Self::read(body).map_err(ApiError::Invalid)
    }
}

request! {
    /// The body of POST /Orders/Export.
    body ExportRequest {
        /// The id of the web order.
        req web_order_id: WebOrderIdText, example "W00000001";
        /// The order's type. If sent, it must be the type of the stored order.
        opt order_type: OrderType, example "Court";
    }
}

request! {
    /// The parameters of GET /Orders/Get.
    query OrderQuery {
        /// The id of the web order.
        req web_order_id: WebOrderIdText, example "W00000001";
    }
}

request! {
    /// The parameters of GET /Orders/Search.
    query OrderSearch {
        /// Only orders of this type.
        opt order_type: OrderType;
        /// Only orders in this status.
        opt status: OrderState;
        /// Created at or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Created before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// The caller's own key, exactly as it was saved.
        opt external_reference: LineText<64>;
        /// Part of a case number, caption, matter number, organization, surname or fictitious name.
        opt text: LineText<100>;
        /// Orders per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: Cursor;
    }
}

/// An order in a list: ids, status, dates, case and matter.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderSummary {
    #[schema(value_type = OrderTypeComponent)]
    order_type: OrderType,
    #[schema(example = "W00000001")]
    web_order_id: String,
    /// Draft, Finalized (photocopy), Exported or Cancelled.
    #[schema(value_type = OrderState, example = "Draft")]
    status: &'static str,
    /// How often it was changed, its first save and its export included. Send it with a change, to lose no other change.
    #[schema(example = 1, minimum = 1)]
    version: i64,
    #[schema(example = "C-1001")]
    customer_code: String,
    #[schema(required)]
    case_number: Option<String>,
    #[schema(required)]
    caption: Option<String>,
    #[schema(required)]
    client_matter_number: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    exported_at: Option<Time>,
}

impl From<OrderHead> for OrderSummary {
    fn from(head: OrderHead) -> Self {
        Self {
            order_type: head.order_type,
            web_order_id: head.id,
            status: head.status.as_str(),
            version: head.version,
            customer_code: head.customer_code,
            case_number: head.case_number,
            caption: head.caption,
            client_matter_number: head.client_matter_number,
            created_at: time(head.created_at_ms),
            updated_at: time(head.updated_at_ms),
            exported_at: head.exported_at_ms.map(time),
        }
    }
}

/// The response of GET /Orders/Get.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderAnswer {
    #[serde(flatten)]
    summary: OrderSummary,
    /// Photocopy only: whether the order is finalized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finalized: Option<bool>,
    /// The order as it was saved.
    #[schema(schema_with = stored_order)]
    order: Box<RawValue>,
    /// The primary work order; null before the export.
    #[schema(required)]
    work_order_id: Option<String>,
    /// The court work order of an exported file-and-serve order.
    #[schema(required)]
    court_work_order: Option<String>,
    /// The process work orders of an exported order, if it has any.
    #[schema(required)]
    process_work_orders: Option<Vec<String>>,
}

fn stored_order() -> RefOr<Schema> {
    Ref::from_schema_name(STORED_ORDER).into()
}

/// A page of orders, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderPage {
    items: Vec<OrderSummary>,
    /// The cursor of the next page; null on the last one. A page can be short, even empty, before the last one: a search for
    /// something rare returns after half a second what it has found.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Creates a web order or changes a draft.
///
/// With `export` it is exported at once. With `version`, or with the header If-Match, a draft is changed only if no one else has
/// changed it meanwhile.
#[utoipa::path(post, path = "/Orders/Save", operation_id = "Orders.Save", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey, IfMatch),
    request_body = SaveRequest,
    responses((status = 200, body = SaveAnswer, description = "Saved", headers(("ETag" = String, description = "The order's version"))),
              (status = 412, body = ProblemBody, content_type = "application/problem+json", description = "The order has another version than If-Match names"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The caller has no such web order")))]
pub async fn save(
    State(state): State<Arc<ApiState>>,
    IfMatch(versions): IfMatch,
    Call { caller, request, write }: Call<Caller, SaveRequest>,
) -> Result<Response, ApiError> {
    if request.web_order_id.is_none() && versions != Versions::Any {
        return Err(ApiError::field("If-Match", "only beside webOrderId: a new order has no version yet"));
    }
    if request.web_order_id.is_none() && !request.export {
        let answer = |saved: &Saved| body_of(&SaveAnswer::from(saved.clone()));
        return write.create_order(&state, &caller, request, answer).await;
    }
    let (tenant, subject) = (&caller.tenant, &caller.subject);
    let save = async move |transaction: &mut Transaction, now| {
        let (saved, hints) = save_order(transaction, tenant, subject, request, &versions, now).await?;
        let version = saved.version;
        Ok(WriteDone::new(&SaveAnswer::from(saved)).version(version).hint(hints))
    };
    // Boxed: most saves create an order, which needs a much smaller future.
    Box::pin(write.perform(&state, &caller, save)).await
}

/// Exports a web order to the back office.
///
/// If fields are missing, the response lists all of them. A second export returns the numbers of the first.
#[utoipa::path(post, path = "/Orders/Export", operation_id = "Orders.Export", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey, IfMatch),
    request_body = ExportRequest,
    responses((status = 200, body = ExportAnswer, description = "Exported", headers(("ETag" = String, description = "The order's version"))),
              (status = 412, body = ProblemBody, content_type = "application/problem+json", description = "The order has another version than If-Match names"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The caller has no such web order")))]
pub async fn export(
    State(state): State<Arc<ApiState>>,
    IfMatch(versions): IfMatch,
    Call { caller, request, write }: Call<Caller, ExportRequest>,
) -> Result<Response, ApiError> {
    let (tenant, subject) = (&caller.tenant, &caller.subject);
    let export = async |transaction: &mut Transaction, now| {
        let order = (request.web_order_id.as_str(), request.order_type);
        let (exported, hints) = export_order(transaction, tenant, subject, order, &versions, now).await?;
        let version = exported.version;
        Ok(WriteDone::new(&ExportAnswer::from(exported)).version(version).hint(hints))
    };
    write.perform(&state, &caller, export).await
}

/// The same message for an order of another customer, so that the caller does not learn that it exists.
const NO_SUCH_ORDER: ApiError = ApiError::NotFound("There is no such web order");

/// Returns one web order with its whole content.
///
/// The content is what the last save stored. A contact can read the orders of its own customer only.
#[utoipa::path(get, path = "/Orders/Get", operation_id = "Orders.Get", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(OrderQuery),
    responses((status = 200, body = OrderAnswer, description = "The order", headers(("ETag" = String, description = "The order's version"))),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The caller has no such web order")))]
pub async fn get(
    State(state): State<Arc<ApiState>>,
    caller: Caller,
    Query(OrderQuery { web_order_id: id }): Query<OrderQuery>,
) -> Result<Response, ApiError> {
    let customer = caller.subject.own_customer().map(str::to_owned);
    let read = state.orders.read(&caller.tenant, (id.clone(), customer)).await?;
    let ReadOrder { head, body } = read.found.ok_or(NO_SUCH_ORDER)?;
    let (head, body, exported) = match body {
        Some(body) if head.status != OrderStatus::Exported => (head, body, None),
        // Other parts of an order are not read in a group.
        body => rest_of(caller.reader(&state).await?, &caller, head, body).await?,
    };
    // An audit of who has read an order, by ids only.
    let code = caller.tenant.config.client_code.as_str();
    tracing::info!(tenant.code = code, caller = caller.name(), web_order.id = id, "order read");
    let order = RawValue::from_string(body).map_err(|_| ApiError::Internal)?;
    let (work_order_id, court_work_order, process_work_orders) = match exported {
        Some(exported) => {
            (Some(exported.work_order_id), exported.court_work_order, exported.process_work_orders)
        }
        None => (None, None, None),
    };
    let (finalized, version) = (head.finalized, head.version);
    let summary = head.into();
    let answer =
        OrderAnswer { summary, finalized, order, work_order_id, court_work_order, process_work_orders };
    Ok(tagged(JsonResponse(answer).into_response(), version))
}

/// Completes an order with its body, if that was not read yet, and with its work orders.
async fn rest_of(
    mut reader: Connection,
    caller: &Caller,
    head: OrderHead,
    body: Option<String>,
) -> Result<(OrderHead, String, Option<Exported>), ApiError> {
    let (head, body) = match body {
        Some(body) => (head, body),
        None => {
            let stored = orders::find(&mut reader, &head.id, caller.subject.own_customer()).await?;
            let stored = stored.ok_or(NO_SUCH_ORDER)?;
            (stored.head, stored.body)
        }
    };
    let exported = work_orders_of(&mut reader, &head).await?;
    Ok((head, body, exported))
}

/// Searches web orders, newest first.
///
/// The items have no content; get it from /Orders/Get. A contact finds the orders of its own customer only.
#[utoipa::path(get, path = "/Orders/Search", operation_id = "Orders.Search", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(OrderSearch),
    responses((status = 200, body = OrderPage, description = "A page of orders")))]
pub async fn search(
    State(state): State<Arc<ApiState>>,
    caller: Caller,
    Query(search): Query<OrderSearch>,
) -> Result<JsonResponse<OrderPage>, ApiError> {
    let OrderSearch { order_type, status, from, to, external_reference, text, page_size, cursor } = search;
    let filter = OrderFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        order_type,
        status,
        external_reference,
        from_ms: from.map(Timestamp::as_millisecond),
        to_ms: to.map(Timestamp::as_millisecond),
        text,
        after: cursor,
    };
    let mut reader = caller.reader(&state).await?;
    let Page { items, next } = orders::search(&mut reader, &state.clock, &filter, page_size).await?;
    caller.searched("orders");
    Ok(JsonResponse(OrderPage {
        items: items.into_iter().map(Into::into).collect(),
        next_cursor: cursor_of(next),
    }))
}
