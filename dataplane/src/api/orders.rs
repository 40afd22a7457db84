//! /Orders/Save, /Orders/Export, /Orders/Get and /Orders/Search.

pub mod answers;

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use docket_orders::openapi::STORED_ORDER;
use docket_orders::order_type::OrderTypeComponent;
use docket_orders::{OrderType, SaveRequest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use answers::{ExportAnswer, OrderState, SaveAnswer};

use super::body::Fields;
use super::caller::Caller;
use super::error::{ApiError, ProblemBody};
use super::limits::WEB_ORDER_ID;
use super::query::{Cursor, DateOrTime, Query, page, time};
use super::writes::{self, Call, Write};
use crate::actions::export_order::work_orders_of;
use crate::app::App;
use docket_store::orders::{self, OrderFilter, OrderHead, OrderStatus};

/// The body of POST /Orders/Export.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, missing_debug_implementations, reason = "only its schema is used")]
pub struct ExportRequest {
    /// The web order to export.
    #[schema(example = "W00000001", min_length = 1, max_length = 32, pattern = "^[A-Za-z0-9]+$")]
    web_order_id: String,
}

/// An order in a list: ids, status, dates, and what the order is known by.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "personal data")]
pub struct OrderSummary {
    #[schema(value_type = OrderTypeComponent)]
    order_type: OrderType,
    #[schema(example = "W00000001")]
    web_order_id: String,
    /// Draft, Finalized (photocopy), Exported or Cancelled.
    #[schema(value_type = OrderState, example = "Draft")]
    status: &'static str,
    #[schema(example = "C-1001")]
    customer_code: String,
    case_number: Option<String>,
    caption: Option<String>,
    client_matter_number: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    exported_at: Option<Timestamp>,
}

impl From<OrderHead> for OrderSummary {
    fn from(head: OrderHead) -> Self {
        Self {
            order_type: head.order_type,
            web_order_id: head.id,
            status: head.status.as_str(),
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

/// The answer of GET /Orders/Get.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "personal data")]
pub struct OrderAnswer {
    #[serde(flatten)]
    summary: OrderSummary,
    /// Photocopy only: whether the order was finalized.
    #[serde(skip_serializing_if = "Option::is_none")]
    finalized: Option<bool>,
    /// The order as it was saved.
    #[schema(schema_with = stored_order)]
    order: Box<RawValue>,
    /// Once exported: the primary work order.
    work_order_id: Option<String>,
    /// Once exported: the court work order of a file-and-serve order.
    court_work_order: Option<String>,
    /// Once exported: the process work orders, if there are any.
    process_work_orders: Option<Vec<String>>,
}

fn stored_order() -> RefOr<Schema> {
    Ref::from_schema_name(STORED_ORDER).into()
}

/// A page of orders, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "personal data")]
pub struct OrderPage {
    items: Vec<OrderSummary>,
    /// For the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Creates an order, or changes a draft; with `export` exports it at once.
#[utoipa::path(post, path = "/Orders/Save", operation_id = "Orders.Save", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the call safe to repeat: the same key with the same body gets the same answer, and nothing is done twice. Kept for at least 24 hours.", min_length = 1, max_length = 128, pattern = "^[!-~]+$")),
    request_body = SaveRequest,
    responses((status = 200, body = SaveAnswer, description = "Saved"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such web order for this caller")))]
pub async fn save(State(app): State<Arc<App>>, call: Call<Caller>) -> Result<Response, ApiError> {
    let Call { caller, headers, body } = call;
    let request = SaveRequest::read(&body).map_err(ApiError::Invalid)?;
    writes::write(app, caller, &headers, &body, Write::SaveOrder(Box::new(request))).await
}

/// Exports an order to the back office; names every field that is still missing. A second export answers the first
/// one's numbers.
#[utoipa::path(post, path = "/Orders/Export", operation_id = "Orders.Export", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the call safe to repeat.", min_length = 1, max_length = 128, pattern = "^[!-~]+$")),
    request_body = ExportRequest,
    responses((status = 200, body = ExportAnswer, description = "Exported"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such web order for this caller")))]
pub async fn export(State(app): State<Arc<App>>, call: Call<Caller>) -> Result<Response, ApiError> {
    let Call { caller, headers, body } = call;
    let mut fields = Fields::parse(&body)?;
    let id = fields.required_text("webOrderId", WEB_ORDER_ID);
    fields.finish()?;
    writes::write(app, caller, &headers, &body, Write::ExportOrder(id)).await
}

/// One order, whole.
#[utoipa::path(get, path = "/Orders/Get", operation_id = "Orders.Get", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("webOrderId" = String, Query, description = "The web order.", example = "W00000001", min_length = 1, max_length = 32, pattern = "^[A-Za-z0-9]+$")),
    responses((status = 200, body = OrderAnswer, description = "The order"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such web order for this caller")))]
pub async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<OrderAnswer>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let id = query.required_text("webOrderId", WEB_ORDER_ID);
    query.finish()?;
    let mut reader = caller.reader(&app).await?;
    let stored = orders::find(&mut reader, &id, caller.subject.own_customer()).await?;
    let stored = stored.ok_or(ApiError::NotFound("There is no such web order"))?;
    let exported = work_orders_of(&mut reader, &stored).await?;
    // Who has seen a whole order, by ids only.
    let code = caller.tenant.config.client_code.as_str();
    tracing::info!(tenant.code = code, caller = caller.name(), web_order.id = id, "order read");
    let order = RawValue::from_string(stored.body).map_err(|_| ApiError::Internal)?;
    let (work_order_id, court_work_order, process_work_orders) = match exported {
        Some(exported) => {
            (Some(exported.work_order_id), exported.court_work_order, exported.process_work_orders)
        }
        None => (None, None, None),
    };
    let finalized = stored.head.finalized;
    let summary = stored.head.into();
    Ok(Json(OrderAnswer { summary, finalized, order, work_order_id, court_work_order, process_work_orders }))
}

/// Orders by what they are known by, newest first.
#[utoipa::path(get, path = "/Orders/Search", operation_id = "Orders.Search", tag = "Orders",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("orderType" = Option<OrderTypeComponent>, Query, description = "Only of this type."),
           ("status" = Option<OrderState>, Query, description = "Only in this status."),
           ("from" = Option<DateOrTime>, Query, description = "Created at or after: a date (its first moment in UTC), or a time with an offset."),
           ("to" = Option<DateOrTime>, Query, description = "Created before: a date (its first moment in UTC), or a time with an offset."),
           ("text" = Option<String>, Query, description = "Part of a case number, caption, matter number, organization or surname.", min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("pageSize" = Option<i64>, Query, description = "Orders per page.", minimum = 1, maximum = 100),
           ("cursor" = Option<Cursor>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = OrderPage, description = "A page")))]
pub async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<OrderPage>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let filter = OrderFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        order_type: query.word("orderType", OrderType::ALL.iter().map(|kind| kind.as_str())),
        status: query.word("status", OrderStatus::ALL.iter().map(|status| status.as_str())),
        from_ms: query.time_ms("from"),
        to_ms: query.time_ms("to"),
        text: query.text("text", 100).map(|text| text.to_lowercase()),
        after: query.cursor(),
    };
    let page_size = query.page_size();
    query.finish()?;
    let mut reader = caller.reader(&app).await?;
    let heads = orders::search(&mut reader, &filter, page_size + 1).await?;
    let (heads, next_cursor) = page(heads, page_size, |last| (last.created_at_ms, last.id.clone()));
    Ok(Json(OrderPage { items: heads.into_iter().map(Into::into).collect(), next_cursor }))
}
