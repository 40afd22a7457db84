//! /ProcessStatus/Search.

use std::sync::Arc;

use axum::extract::State;
use docket_domain::process::{NotServedReason, ServeResult, ServiceOutcome, ServiceStatus, deemed_served_on};
use docket_store::processes::{self, Process, ProcessAttempt, ProcessFilter};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use utoipa::ToSchema;

use super::caller::Caller;
use super::state::ApiState;
use crate::http::body::JsonResponse;
use crate::http::error::ApiError;
use crate::http::kinds::{LineText, WorkOrderNumber};
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, page};
use crate::http::request::{Query, request};
use crate::http::times::{DateOrTime, Time, time};
use crate::http::words::word_schema;

word_schema!(
    /// The status of a service of process: [`ServiceStatus`].
    ServiceState => ServiceStatus,
    "The status of the service."
);

word_schema!(
    /// How a service ended: [`ServeResult`].
    ServeResultWord,
    ServeResult::WORDS,
    "How the service ended."
);
word_schema!(
    /// Why the papers were not served: [`NotServedReason`].
    NotServedReasonWord,
    NotServedReason::WORDS,
    "Why the papers were not served."
);
word_schema!(
    /// What came of one attempt: [`ServiceOutcome`].
    ServiceOutcomeWord,
    ServiceOutcome::WORDS,
    "What came of one attempt to serve."
);

request! {
    /// The parameters of GET /ProcessStatus/Search.
    query ProcessSearch {
        /// Only this work order.
        opt work_order: WorkOrderNumber, example "PR1000001";
        /// Only work orders of this case.
        opt case_number: LineText<250>;
        /// Part of the name of the person to be served; case, accents and the kind of quotation mark, dash and blank do not
        /// matter.
        opt servee: LineText<100>;
        /// Only work orders in this status.
        opt status: ServiceState;
        /// Created at or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Created before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// Work orders per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The nextCursor of the previous page.
        opt cursor: Cursor;
    }
}

/// One process work order: the service of one person.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessItem {
    #[schema(example = "PR1000001")]
    work_order: String,
    /// The web order that the work order was exported from; null if the back office created it.
    #[schema(required, example = "W00000001")]
    web_order_id: Option<String>,
    #[schema(example = "C-1001")]
    customer_code: String,
    #[schema(required)]
    case_number: Option<String>,
    #[schema(required)]
    caption: Option<String>,
    /// The person to be served.
    #[schema(required)]
    servee: Option<String>,
    /// The person's place in the order's `servees`, from 0; null if the back office created the work order.
    #[schema(required, example = 0)]
    servee_index: Option<i64>,
    /// The first of the person's addresses in the order, in one line; null if the back office created the work order.
    #[schema(required, example = "1200 Example Terrace, Pasadena, CA 91101")]
    servee_address: Option<String>,
    #[schema(value_type = ServiceState, example = "Attempted")]
    status: String,
    #[schema(required, value_type = Option<ServeResultWord>)]
    serve_result: Option<String>,
    #[schema(required)]
    service_method: Option<String>,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    served_at: Option<Time>,
    /// The person that took the papers.
    #[schema(required)]
    served_on: Option<PersonServed>,
    /// The day of the mailing after substituted service.
    #[schema(required, value_type = Option<String>, format = Date)]
    mailed_on: Option<Date>,
    /// The day on which substituted service is complete: the tenth after the mailing.
    #[schema(required, value_type = Option<String>, format = Date)]
    deemed_served_on: Option<Date>,
    #[schema(required, value_type = Option<NotServedReasonWord>)]
    not_served_reason: Option<String>,
    /// The day on which the proof of service was signed.
    #[schema(required, value_type = Option<String>, format = Date)]
    proof_signed_on: Option<Date>,
    /// The day on which the proof of service was filed.
    #[schema(required, value_type = Option<String>, format = Date)]
    proof_filed_on: Option<Date>,
    /// The attempts to serve, oldest first.
    attempts: Vec<AttemptItem>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

/// The person that took the papers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonServed {
    #[schema(required)]
    name: Option<String>,
    /// The relationship to the person to be served.
    #[schema(required)]
    relationship: Option<String>,
    /// An age range, such as 45-55.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    age: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
}

impl PersonServed {
    /// Returns `None` if nothing about the person is known.
    fn new(
        name: Option<String>,
        relationship: Option<String>,
        age: Option<String>,
        description: Option<String>,
    ) -> Option<Self> {
        let known = [&name, &relationship, &age, &description].into_iter().any(Option::is_some);
        known.then_some(Self { name, relationship, age, description })
    }
}

/// One attempt to serve.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProcessAttempt)]
pub struct AttemptItem {
    /// The number of the attempt, from 1.
    sequence: i64,
    #[schema(value_type = String, format = DateTime)]
    attempted_at: Time,
    /// The time zone of the place, as an IANA name.
    #[schema(required, example = "America/Los_Angeles")]
    time_zone: Option<String>,
    #[schema(required)]
    address: Option<String>,
    #[schema(value_type = ServiceOutcomeWord, example = "NoAnswer")]
    outcome: String,
    #[schema(required)]
    service_method: Option<String>,
    #[schema(required)]
    person_served: Option<PersonServed>,
    #[schema(required)]
    comments: Option<String>,
    #[schema(required)]
    latitude: Option<f64>,
    #[schema(required)]
    longitude: Option<f64>,
    #[schema(required)]
    gps_accuracy_meters: Option<f64>,
    #[schema(required)]
    photo_count: Option<i64>,
    #[schema(required)]
    server_name: Option<String>,
    /// Registration number and county of the process server.
    #[schema(required)]
    server_registration: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    recorded_at: Time,
}

impl From<ProcessAttempt> for AttemptItem {
    fn from(attempt: ProcessAttempt) -> Self {
        Self {
            sequence: attempt.sequence,
            attempted_at: time(attempt.attempted_at_ms),
            time_zone: attempt.time_zone,
            address: attempt.address,
            outcome: attempt.outcome,
            service_method: attempt.service_method,
            person_served: PersonServed::new(
                attempt.person_served_name,
                attempt.person_served_relationship,
                attempt.person_served_age,
                attempt.person_served_description,
            ),
            comments: attempt.comments,
            latitude: attempt.latitude,
            longitude: attempt.longitude,
            gps_accuracy_meters: attempt.gps_accuracy_meters,
            photo_count: attempt.photo_count,
            server_name: attempt.server_name,
            server_registration: attempt.server_registration,
            recorded_at: time(attempt.recorded_at_ms),
        }
    }
}

/// Reads a day that the back office stored; `None` if there is no such day.
fn day(text: String) -> Option<Date> {
    text.parse().ok()
}

fn item(process: Process, attempts: Vec<ProcessAttempt>) -> ProcessItem {
    let deemed_served_on = deemed_served_on(process.serve_result.as_deref(), process.mailed_on.as_deref());
    ProcessItem {
        work_order: process.work_order,
        web_order_id: process.web_order_id,
        customer_code: process.customer_code,
        case_number: process.case_number,
        caption: process.caption,
        servee: process.servee,
        // A negative index is a work order that the back office added to an order of Docket.
        servee_index: process.servee_index.filter(|index| *index >= 0),
        servee_address: process.servee_address,
        status: process.status,
        serve_result: process.serve_result,
        service_method: process.service_method,
        served_at: process.served_at_ms.map(time),
        served_on: PersonServed::new(process.served_on_name, process.served_on_relationship, None, None),
        mailed_on: process.mailed_on.and_then(day),
        deemed_served_on,
        not_served_reason: process.not_served_reason,
        proof_signed_on: process.proof_signed_on.and_then(day),
        proof_filed_on: process.proof_filed_on.and_then(day),
        attempts: attempts.into_iter().map(Into::into).collect(),
        created_at: time(process.created_at_ms),
    }
}

/// A page of process work orders, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessPage {
    items: Vec<ProcessItem>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Searches process work orders, newest first.
///
/// Each has its status and every attempt to serve.
#[utoipa::path(get, path = "/ProcessStatus/Search", operation_id = "ProcessStatus.Search", tag = "Process status",
    security(("ApiKey" = [], "Bearer" = [])),
    params(ProcessSearch),
    responses((status = 200, body = ProcessPage, description = "A page of process work orders")))]
pub async fn search(
    State(state): State<Arc<ApiState>>,
    caller: Caller,
    Query(search): Query<ProcessSearch>,
) -> Result<JsonResponse<ProcessPage>, ApiError> {
    let ProcessSearch { work_order, case_number, servee, status, from, to, page_size, cursor } = search;
    let filter = ProcessFilter {
        customer_code: caller.subject.own_customer().map(str::to_owned),
        work_order,
        case_number,
        servee,
        status,
        from_ms: from.map(Timestamp::as_millisecond),
        to_ms: to.map(Timestamp::as_millisecond),
        after: cursor,
    };
    let mut reader = caller.reader(&state).await?;
    let found = processes::search(&mut reader, &filter, page_size + 1).await?;
    caller.searched("process work orders");
    let (found, next_cursor) = page(found, page_size, |last| (last.created_at_ms, last.work_order.clone()));
    let numbers: Vec<&str> = found.iter().map(|process| process.work_order.as_str()).collect();
    let mut attempts = processes::attempts(&mut reader, &numbers).await?;
    let items = found.into_iter().map(|process| {
        let its = attempts.remove(&process.work_order).unwrap_or_default();
        item(process, its)
    });
    Ok(JsonResponse(ProcessPage { items: items.collect(), next_cursor }))
}
