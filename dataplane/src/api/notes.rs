//! /Notes/Add and /Notes/Search.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use docket_domain::work_order::{WorkOrderKey, WorkOrderType};
use docket_orders::holds_card_number;
use docket_orders::text::Text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::Fields;
use super::caller::Caller;
use super::error::{ApiError, ProblemBody};
use super::limits::{LARGEST_NUMBER, WORK_ORDER_KEY};
use super::query::{Cursor, DateOrTime, Query, page, time};
use super::words::words;
use super::writes::{self, Call, Write};
use crate::actions::add_note::Note;
use crate::app::App;
use docket_store::notes::{self, NoteFilter, StoredNote};

/// Characters of a note.
const MAX_REPORT: usize = 4000;

words!(
    /// The five families of work orders. For documentation of [`WorkOrderType`].
    WorkOrderFamily,
    WorkOrderType::ALL.map(WorkOrderType::as_str),
    "Court, Process, Delivery, Investigation or PhotoCopy."
);

/// The body of POST /Notes/Add.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, missing_debug_implementations, reason = "only its schema is used")]
pub struct NoteRequest {
    /// The work order's number. For a stop of a photocopy work order also `<workOrder>-<facilityId>`.
    #[schema(example = "PC1000001", min_length = 1, max_length = 80, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    work_order: String,
    /// The family of the work order.
    #[schema(value_type = WorkOrderFamily, example = "PhotoCopy")]
    work_order_type: String,
    /// The text, 1 to 4000 characters. It leaves the system with note.created: no social security or card number.
    #[schema(
        example = "The custodian has the subpoena.",
        min_length = 1,
        max_length = 4000,
        pattern = r"^[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*[^\u0000-\u0020\u007F-\u009F][^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*$"
    )]
    report: String,
    /// Photocopy only: the stop, by its place in the order, from 1.
    #[schema(example = 1, minimum = 1, maximum = 999_999_999)]
    facility_line_item: Option<i64>,
    /// Photocopy only: the milestone that was reached; publishes order.status_changed.
    #[schema(example = 210, minimum = 0, maximum = 999_999_999)]
    milestone_code: Option<i64>,
}

/// The answer of POST /Notes/Add.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoteAnswer {
    /// The note's place in its work order, from 1.
    #[schema(example = 1)]
    pub line_item: i64,
}

/// A note, or a status line that the back office wrote without one.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "legal content")]
pub struct NoteItem {
    #[schema(example = "PC1000001")]
    work_order: String,
    #[schema(value_type = WorkOrderFamily, example = "PhotoCopy")]
    work_order_type: String,
    /// The web order it was exported from; null for a work order made in the back office.
    #[schema(example = "W00000001")]
    web_order_id: Option<String>,
    #[schema(example = "C-1001")]
    customer_code: String,
    /// Its place in the work order, from 1.
    line_item: i64,
    /// The photocopy stop; null: the whole work order.
    facility_line_item: Option<i64>,
    /// The text; null on a status line without one.
    report: Option<String>,
    /// The milestone that was reached with it.
    milestone_code: Option<i64>,
    /// That milestone's title.
    milestone: Option<String>,
    /// Who wrote it: `contact 1001`, `employee 100`, or what the back office says.
    author: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<StoredNote> for NoteItem {
    fn from(note: StoredNote) -> Self {
        Self {
            work_order: note.work_order,
            work_order_type: note.work_order_type,
            web_order_id: note.web_order_id,
            customer_code: note.customer_code,
            line_item: note.line_item,
            facility_line_item: note.facility_line_item,
            report: note.report,
            milestone_code: note.milestone_code,
            milestone: note.milestone,
            author: note.author,
            created_at: time(note.created_at_ms),
        }
    }
}

/// A page of notes, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_debug_implementations, reason = "legal content")]
pub struct NotePage {
    items: Vec<NoteItem>,
    /// For the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Adds a note to a work order and publishes note.created; with a milestone also order.status_changed.
#[utoipa::path(post, path = "/Notes/Add", operation_id = "Notes.Add", tag = "Notes",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the call safe to repeat.", min_length = 1, max_length = 128, pattern = "^[!-~]+$")),
    request_body(content = NoteRequest, example = json!({"workOrder": "PC1000001", "workOrderType": "PhotoCopy", "report": "The custodian has the subpoena.", "facilityLineItem": 1, "milestoneCode": 210})),
    responses((status = 200, body = NoteAnswer, description = "Added"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "No such work order for this caller")))]
pub async fn add(State(app): State<Arc<App>>, call: Call<Caller>) -> Result<Response, ApiError> {
    let Call { caller, headers, body } = call;
    writes::write(app, caller, &headers, &body, Write::AddNote(Box::new(read(&body)?))).await
}

fn read(body: &[u8]) -> Result<Note, ApiError> {
    let mut fields = Fields::parse(body)?;
    let work_order = fields.required_text("workOrder", WORK_ORDER_KEY);
    let work_order_type =
        fields.required_word("workOrderType", WorkOrderType::ALL.map(WorkOrderType::as_str));
    let report: Option<Text<MAX_REPORT>> = fields.required_field("report");
    let report = report.map(|text| text.as_str().to_owned()).unwrap_or_default();
    if holds_card_number(&report) {
        fields.problem("report", "must not hold a card number: notes leave the system".to_owned());
    }
    let facility_line_item = fields.integer("facilityLineItem", 1..=LARGEST_NUMBER);
    let milestone_code = fields.integer("milestoneCode", 0..=LARGEST_NUMBER);
    fields.finish()?;
    // What is missing was refused.
    let work_order_type = work_order_type.ok_or(ApiError::Internal)?;
    Ok(Note { work_order, work_order_type, report, facility_line_item, milestone_code })
}

/// Notes and status lines, newest first.
#[utoipa::path(get, path = "/Notes/Search", operation_id = "Notes.Search", tag = "Notes",
    security(("ApiKey" = [], "Bearer" = [])),
    params(("workOrder" = Option<String>, Query, description = "Only on this work order; with `-<facilityId>` only about this facility.", example = "PC1000001", min_length = 1, max_length = 80, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$"),
           ("facilityLineItem" = Option<i64>, Query, description = "Only about this photocopy stop.", minimum = 1, maximum = 999_999_999),
           ("from" = Option<DateOrTime>, Query, description = "Added at or after: a date (its first moment in UTC), or a time with an offset."),
           ("to" = Option<DateOrTime>, Query, description = "Added before: a date (its first moment in UTC), or a time with an offset."),
           ("pageSize" = Option<i64>, Query, description = "Notes per page.", minimum = 1, maximum = 100),
           ("cursor" = Option<Cursor>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = NotePage, description = "A page")))]
pub async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<NotePage>, ApiError> {
    let mut query = Query::parse(query.as_deref());
    let work_order = query.text("workOrder", WORK_ORDER_KEY);
    let key = work_order.as_deref().map(WorkOrderKey::new);
    let filter = NoteFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        work_order: key.map(|key| key.number.to_owned()),
        facility_id: key.and_then(|key| key.facility_id).map(str::to_owned),
        facility_line_item: query.integer("facilityLineItem", 1..=LARGEST_NUMBER),
        from_ms: query.time_ms("from"),
        to_ms: query.time_ms("to"),
        after: query.cursor_of(place),
    };
    let page_size = query.page_size();
    query.finish()?;
    let mut reader = caller.reader(&app).await?;
    let found = notes::search(&mut reader, &filter, page_size + 1).await?;
    let (notes, next_cursor) = page(found, page_size, |last| {
        (last.created_at_ms, format!("{}:{}", last.work_order, last.line_item))
    });
    Ok(Json(NotePage { items: notes.into_iter().map(Into::into).collect(), next_cursor }))
}

/// The place of a note, out of a cursor's id.
fn place(at_ms: i64, id: &str) -> Option<(i64, String, i64)> {
    let (work_order, line_item) = id.split_once(':')?;
    Some((at_ms, work_order.to_owned(), line_item.parse().ok()?))
}
