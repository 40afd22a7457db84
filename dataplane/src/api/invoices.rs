//! /Invoices/Search.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use docket_domain::invoice::{self, InvoiceFamily};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::error::ApiError;
use super::limits::{INVOICE_NUMBER, WORK_ORDER};
use super::query::{Cursor, DateOrTime, Query, page, time};
use super::words::words;
use crate::app::App;
use docket_store::invoices::{self, Invoice, InvoiceFilter};

words!(
    /// The families of work orders that have invoices. For documentation of [`InvoiceFamily`].
    InvoiceOrderType,
    InvoiceFamily::ALL.map(InvoiceFamily::as_str),
    "Court, Delivery, Investigation or PhotoCopy."
);

/// The header of a work order's invoice.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "an answer")]
pub struct InvoiceSummary {
    /// Unique among the invoices of its order type.
    #[schema(example = "88214")]
    invoice_number: String,
    #[schema(value_type = InvoiceOrderType, example = "PhotoCopy")]
    order_type: &'static str,
    #[schema(example = "PC1000001")]
    work_order: String,
    /// The web order that the work order was exported from, if it was.
    #[schema(example = "W00000001")]
    web_order_id: Option<String>,
    #[schema(example = "C-1001")]
    customer_code: String,
    /// Photocopy only: the stop that is billed, if it is a single one.
    facility_line_item: Option<i64>,
    /// A date and a time without a zone.
    #[schema(example = "2026-11-21T00:00:00")]
    invoice_date: Option<String>,
    /// Who pays, who is not always who ordered.
    bill_to_customer_code: Option<String>,
    /// Photocopy only: the total.
    #[schema(example = 230.0)]
    amount: Option<f64>,
    /// When it became available.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
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
#[expect(missing_debug_implementations, reason = "an answer")]
pub struct InvoicePage {
    items: Vec<InvoiceSummary>,
    /// For the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Invoices of work orders, newest first.
#[utoipa::path(get, path = "/Invoices/Search", operation_id = "Invoices.Search", tag = "Invoices",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("workOrder" = Option<String>, Query, description = "Only of this work order.", example = "PC1000001", min_length = 1, max_length = 32, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("orderType" = Option<InvoiceOrderType>, Query, description = "Only of this type."),
           ("invoiceNumber" = Option<String>, Query, description = "Only with this number, which an invoice of each type may have.", example = "88214", min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("from" = Option<DateOrTime>, Query, description = "Created at or after: a date (its first moment in UTC), or a time with an offset."),
           ("to" = Option<DateOrTime>, Query, description = "Created before: a date (its first moment in UTC), or a time with an offset."),
           ("pageSize" = Option<i64>, Query, description = "Invoices per page.", minimum = 1, maximum = 100),
           ("cursor" = Option<Cursor>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = InvoicePage, description = "A page")))]
pub async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<InvoicePage>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let filter = InvoiceFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        work_order: query.text("workOrder", WORK_ORDER),
        family: query.word("orderType", InvoiceFamily::ALL.iter().map(|family| family.as_str())),
        invoice_number: query.text("invoiceNumber", INVOICE_NUMBER),
        from_ms: query.time_ms("from"),
        to_ms: query.time_ms("to"),
        after: query.cursor(),
    };
    let page_size = query.page_size();
    query.finish()?;
    let mut reader = caller.reader(&app).await?;
    let found = invoices::search(&mut reader, &filter, page_size + 1).await?;
    let (found, next_cursor) = page(found, page_size, |last| (last.created_at_ms, last.id()));
    Ok(Json(InvoicePage { items: found.into_iter().map(Into::into).collect(), next_cursor }))
}
