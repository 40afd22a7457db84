//! /Notes/Add and /Notes/Search.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use docket_domain::work_order::{WorkOrderKey, WorkOrderType};
use docket_orders::field::{Components, Field};
use docket_orders::holds_card_number;
use docket_orders::text::Text;
use docket_store::Transaction;
use docket_store::notes::{self, NoteFilter, StoredNote};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::caller::Caller;
use super::idempotency::IdempotencyKey;
use super::state::ApiState;
use super::writes::{Call, WriteDone};
use crate::actions::add_note::{Note, add_note};
use crate::http::body::JsonResponse;
use crate::http::error::{ApiError, ProblemBody};
use crate::http::fields::{Kind, RequestPart, SentValue};
use crate::http::kinds::{LineItem, MilestoneCode, WorkOrderKeyText, of_order};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, page};
use crate::http::request::{Query, request};
use crate::http::times::{DateOrTime, Time, time};
use crate::http::words::word_schema;

type ReportText = Text<4000>;

word_schema!(
    /// The family of a work order: [`WorkOrderType`].
    WorkOrderFamily => WorkOrderType,
    "Court, Process, Delivery, Investigation or PhotoCopy."
);

/// The text of a note.
#[derive(Debug)]
pub struct NoteText;

impl Kind for NoteText {
    type Value = String;

    fn read(sent: SentValue) -> Result<String, String> {
        let text = of_order::<ReportText>(sent)?;
        match holds_card_number(text.as_str()) {
            true => Err("must not contain a card number: notes are sent to webhooks".to_owned()),
            false => Ok(text.as_str().to_owned()),
        }
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        ReportText::schema(&mut Components::new())
    }
}

request! {
    /// The body of POST /Notes/Add.
    body NoteRequest {
        /// The work order's number; for a stop of a photocopy work order also `<workOrder>-<facilityId>`.
        req work_order: WorkOrderKeyText, example "PC1000001";
        /// The family of the work order.
        req work_order_type: WorkOrderFamily;
        /// The text, 1 to 4000 characters. It must not contain a social security or card number: it is sent to webhooks with
        /// note.created.
        req report: NoteText, example "The custodian has the subpoena.";
        /// Photocopy only: the stop's place in the order, from 1.
        opt facility_line_item: LineItem, example 1;
        /// Photocopy only: the milestone that was reached. Publishes order.status_changed.
        opt milestone_code: MilestoneCode, example 210;
    }
}

impl From<NoteRequest> for Note {
    fn from(request: NoteRequest) -> Self {
        let NoteRequest { work_order, work_order_type, report, facility_line_item, milestone_code } = request;
        Self { work_order, work_order_type, report, facility_line_item, milestone_code }
    }
}

request! {
    /// The parameters of GET /Notes/Search.
    query NoteSearch {
        /// Only notes on this work order; with `-<facilityId>` only on this facility's stops.
        opt work_order: WorkOrderKeyText, example "PC1000001";
        /// Only notes on this photocopy stop.
        opt facility_line_item: LineItem;
        /// Added at or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Added before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// Notes per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: NoteCursor;
    }
}

/// A [`Cursor`] whose id is a work order and a line item.
#[derive(Debug)]
pub struct NoteCursor;

impl Kind for NoteCursor {
    type Value = (i64, String, i64);

    fn read(sent: SentValue) -> Result<Self::Value, String> {
        Cursor::read_as(sent, |at_ms, id| {
            let (work_order, line_item) = id.split_once(':')?;
            Some((at_ms, work_order.to_owned(), line_item.parse().ok()?))
        })
    }

    fn schema(part: RequestPart) -> RefOr<Schema> {
        <Cursor as Kind>::schema(part)
    }
}

/// The response of POST /Notes/Add.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoteAnswer {
    /// The number of the note in its work order, from 1.
    #[schema(example = 1, minimum = 1)]
    pub line_item: i64,
}

/// A note, or a status line of the back office without a note.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoteItem {
    #[schema(example = "PC1000001")]
    work_order: String,
    #[schema(value_type = WorkOrderFamily, example = "PhotoCopy")]
    work_order_type: String,
    /// The web order that the work order was exported from; null if the back office created it.
    #[schema(required, example = "W00000001")]
    web_order_id: Option<String>,
    #[schema(example = "C-1001")]
    customer_code: String,
    /// The number of the note in its work order, from 1.
    line_item: i64,
    /// The photocopy stop; null if it is about the whole work order.
    #[schema(required)]
    facility_line_item: Option<i64>,
    /// The text; null on a status line without a note.
    #[schema(required)]
    report: Option<String>,
    /// The code of the milestone that was reached.
    #[schema(required)]
    milestone_code: Option<i64>,
    /// The title of the milestone that was reached.
    #[schema(required)]
    milestone: Option<String>,
    /// Who wrote it: `contact 1001`, `employee 100`, or what the back office says.
    #[schema(required)]
    author: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
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
pub struct NotePage {
    items: Vec<NoteItem>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Adds a note to a work order and publishes note.created.
///
/// With a milestone it also publishes order.status_changed.
#[utoipa::path(post, path = "/Notes/Add", operation_id = "Notes.Add", tag = "Notes",
    security(("ApiKey" = [], "Bearer" = [])),
    params(IdempotencyKey),
    request_body(content = NoteRequest, example = json!({"workOrder": "PC1000001", "workOrderType": "PhotoCopy", "report": "The custodian has the subpoena.", "facilityLineItem": 1, "milestoneCode": 210})),
    responses((status = 200, body = NoteAnswer, description = "The note is added"),
              (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The caller has no such work order")))]
pub async fn add(
    State(state): State<Arc<ApiState>>,
    Call { caller, request, write }: Call<Caller, NoteRequest>,
) -> Result<Response, ApiError> {
    let note = Note::from(request);
    let add = async |transaction: &mut Transaction, now| {
        let (customer, author) = (caller.subject.own_customer(), caller.name());
        let (line_item, hints) = add_note(transaction, &caller.tenant, customer, &author, &note, now).await?;
        Ok(WriteDone::new(&NoteAnswer { line_item }).hint(hints))
    };
    write.perform(&state, &caller, add).await
}

/// Searches notes and status lines, newest first.
///
/// It also returns those that the back office has written, which caused no event.
#[utoipa::path(get, path = "/Notes/Search", operation_id = "Notes.Search", tag = "Notes",
    security(("ApiKey" = [], "Bearer" = [])),
    params(NoteSearch),
    responses((status = 200, body = NotePage, description = "A page of notes")))]
pub async fn search(
    State(state): State<Arc<ApiState>>,
    caller: Caller,
    Query(search): Query<NoteSearch>,
) -> Result<JsonResponse<NotePage>, ApiError> {
    let NoteSearch { work_order, facility_line_item, from, to, page_size, cursor } = search;
    let key = work_order.as_deref().map(WorkOrderKey::new);
    let filter = NoteFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        work_order: key.map(|key| key.number.to_owned()),
        facility_id: key.and_then(|key| key.facility_id).map(str::to_owned),
        facility_line_item,
        from_ms: from.map(Timestamp::as_millisecond),
        to_ms: to.map(Timestamp::as_millisecond),
        after: cursor,
    };
    let mut reader = caller.reader(&state).await?;
    let found = notes::search(&mut reader, &filter, page_size + 1).await?;
    caller.searched("notes");
    let (notes, next_cursor) = page(found, page_size, |last| {
        (last.created_at_ms, format!("{}:{}", last.work_order, last.line_item))
    });
    Ok(JsonResponse(NotePage { items: notes.into_iter().map(Into::into).collect(), next_cursor }))
}
