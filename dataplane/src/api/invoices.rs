//! /Invoices/Search.

use std::sync::Arc;

use axum::extract::State;
use docket_domain::invoice::{self, InvoiceFamily};
use docket_store::invoices::{self, Invoice, InvoiceFilter};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::state::ApiState;
use crate::http::body::JsonResponse;
use crate::http::error::ApiError;
use crate::http::kinds::{InvoiceNumber, WorkOrderNumber};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, page};
use crate::http::request::{Query, request};
use crate::http::times::{DateOrTime, Time, time};
use crate::http::words::word_schema;

word_schema!(
    /// The family of a work order that has invoices: [`InvoiceFamily`].
    InvoiceOrderType => InvoiceFamily,
    "Court, Delivery, Investigation or PhotoCopy."
);

request! {
    /// The parameters of GET /Invoices/Search.
    query InvoiceSearch {
        /// Only invoices of this work order.
        opt work_order: WorkOrderNumber, example "PC1000001";
        /// Only invoices of this order type.
        opt order_type: InvoiceOrderType;
        /// Only invoices with this number. Invoices of different order types may have the same one.
        opt invoice_number: InvoiceNumber, example "88214";
        /// Created at or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Created before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// Invoices per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: Cursor;
    }
}

/// The header of a work order's invoice.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceSummary {
    /// The number, unique within its order type.
    #[schema(example = "88214")]
    invoice_number: String,
    #[schema(value_type = InvoiceOrderType, example = "PhotoCopy")]
    order_type: &'static str,
    #[schema(example = "PC1000001")]
    work_order: String,
    /// The web order that the work order was exported from; null if the back office created it.
    #[schema(required, example = "W00000001")]
    web_order_id: Option<String>,
    #[schema(example = "C-1001")]
    customer_code: String,
    /// Photocopy only: the stop, if a single one is billed.
    #[schema(required)]
    facility_line_item: Option<i64>,
    /// Date and time without a time zone.
    #[schema(required, example = "2026-11-21T00:00:00")]
    invoice_date: Option<String>,
    /// The customer that pays; it may differ from the customer that ordered.
    #[schema(required)]
    bill_to_customer_code: Option<String>,
    /// Photocopy only: the total in USD.
    #[schema(required, example = 230.0)]
    amount: Option<f64>,
    /// When the invoice became available.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

impl From<Invoice> for InvoiceSummary {
    fn from(invoice: Invoice) -> Self {
        Self {
            invoice_number: invoice.invoice_number,
            order_type: invoice.family.as_str(),
            work_order: invoice.work_order,
            web_order_id: invoice.web_order_id,
            customer_code: invoice.customer_code,
            facility_line_item: invoice.facility_line_item,
            invoice_date: invoice.invoice_date.as_deref().and_then(invoice::date_time),
            bill_to_customer_code: invoice.bill_to_customer_code,
            amount: invoice.amount_cents.map(invoice::amount),
            created_at: time(invoice.created_at_ms),
        }
    }
}

/// A page of invoices, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoicePage {
    items: Vec<InvoiceSummary>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Searches invoices of work orders, newest first.
///
/// It shows the invoices as they are now in the back office: a change of an old invoice is seen here, and causes no event.
#[utoipa::path(get, path = "/Invoices/Search", operation_id = "Invoices.Search", tag = "Invoices",
    security(("ApiKey" = [], "Bearer" = [])),
    params(InvoiceSearch),
    responses((status = 200, body = InvoicePage, description = "A page of invoices")))]
pub async fn search(
    State(state): State<Arc<ApiState>>,
    caller: Caller,
    Query(search): Query<InvoiceSearch>,
) -> Result<JsonResponse<InvoicePage>, ApiError> {
    let InvoiceSearch { work_order, order_type, invoice_number, from, to, page_size, cursor } = search;
    let filter = InvoiceFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        work_order,
        family: order_type,
        invoice_number,
        from_ms: from.map(Timestamp::as_millisecond),
        to_ms: to.map(Timestamp::as_millisecond),
        after: cursor,
    };
    let mut reader = caller.reader(&state).await?;
    let found = invoices::search(&mut reader, &filter, page_size + 1).await?;
    caller.searched("invoices");
    let (found, next_cursor) = page(found, page_size, |last| (last.created_at_ms, last.id()));
    Ok(JsonResponse(InvoicePage { items: found.into_iter().map(Into::into).collect(), next_cursor }))
}
