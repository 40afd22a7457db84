//! Process work orders: the state of each servee's service, and the attempts to serve.

use std::collections::HashMap;

use docket_domain::fold::{folded, is_unseen};
use docket_domain::process::ServiceStatus;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sql::{Row, Search, containing, read};

/// A process work order. Dates are YYYY-MM-DD texts.
#[derive(Clone)]
#[expect(missing_docs, reason = "the columns of the tables; personal data")]
pub struct Process {
    pub work_order: String,
    pub web_order_id: Option<String>,
    pub customer_code: String,
    pub case_number: Option<String>,
    pub caption: Option<String>,
    pub servee: Option<String>,
    /// The servee's index in the order, from 0; `None`: there is no web order.
    pub servee_index: Option<i64>,
    pub servee_address: Option<String>,
    pub status: String,
    pub serve_result: Option<String>,
    pub service_method: Option<String>,
    pub served_at_ms: Option<i64>,
    pub served_on_name: Option<String>,
    pub served_on_relationship: Option<String>,
    pub mailed_on: Option<String>,
    pub not_served_reason: Option<String>,
    pub proof_signed_on: Option<String>,
    pub proof_filed_on: Option<String>,
    pub created_at_ms: i64,
}

/// One attempt to serve.
#[derive(Clone)]
#[expect(missing_docs, reason = "the columns of the table; personal data")]
pub struct ProcessAttempt {
    pub sequence: i64,
    pub attempted_at_ms: i64,
    pub time_zone: Option<String>,
    pub address: Option<String>,
    pub outcome: String,
    pub service_method: Option<String>,
    pub person_served_name: Option<String>,
    pub person_served_relationship: Option<String>,
    pub person_served_age: Option<String>,
    pub person_served_description: Option<String>,
    pub comments: Option<String>,
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
    pub gps_accuracy_meters: Option<f64>,
    pub photo_count: Option<i64>,
    pub server_name: Option<String>,
    pub server_registration: Option<String>,
    pub recorded_at_ms: i64,
}

/// The conditions of a search. Times are inclusive at the start and exclusive at the end.
#[derive(Clone, Default)]
pub struct ProcessFilter {
    /// Only work orders of this customer.
    pub customer_code: Option<String>,
    /// Only this work order.
    pub work_order: Option<String>,
    /// Only work orders of this case.
    pub case_number: Option<String>,
    /// A part of the servee's name, in any case.
    pub servee: Option<String>,
    /// Only work orders in this status.
    pub status: Option<ServiceStatus>,
    /// Created at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Created before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Only work orders after this position in the order of the search: `created_at_ms` and number of the last work
    /// order on the previous page.
    pub after: Option<(i64, String)>,
}

/// The newest `limit` matching process work orders, newest first. New ones do not change the pages.
pub async fn search(
    connection: &mut Connection,
    filter: &ProcessFilter,
    limit: i64,
) -> Result<Vec<Process>, StoreError> {
    let ProcessFilter { customer_code, work_order, case_number, servee, status, from_ms, to_ms, after } =
        filter;
    if servee.as_deref().is_some_and(is_unseen) {
        return Ok(Vec::new());
    }
    let mut search = Search::new(
        "SELECT w.number, w.web_order_id, w.customer_code, w.case_number, w.caption, w.servee, \
         coalesce(p.status, 'New'), p.serve_result, p.service_method, p.served_at_ms, p.served_on_name, \
         p.served_on_relationship, p.mailed_on, p.not_served_reason, p.proof_signed_on, p.proof_filed_on, \
         w.created_at_ms, w.position - CASE o.order_type WHEN 'Process' THEN 0 WHEN 'FileAndServe' THEN 1 END, \
         w.servee_address FROM work_order w LEFT JOIN process_status p ON p.work_order = w.number \
         LEFT JOIN web_order o ON o.id = w.web_order_id",
    );
    search.and("w.work_order_type = 'Process'", []);
    search.and_some("w.customer_code = $1", customer_code.as_ref());
    search.and_some("w.number = $1", work_order.as_ref());
    search.and_some("w.case_number = $1", case_number.as_ref());
    if let Some(servee) = servee {
        // Other programs need not fill servee_key, and in PostgreSQL's C locale lower() changes only ASCII.
        let name = "(w.servee_key LIKE $1 ESCAPE '\\' OR lower(w.servee) LIKE $2 ESCAPE '\\')";
        search.and(name, [folded(servee), servee.to_lowercase()].map(|text| containing(text.trim()).into()));
    }
    search.and_some("coalesce(p.status, 'New') = $1", status.map(ServiceStatus::as_str));
    search.and_some("w.created_at_ms >= $1", *from_ms);
    search.and_some("w.created_at_ms < $1", *to_ms);
    if let Some((at_ms, number)) = after {
        search.and("(w.created_at_ms, w.number) < ($1, $2)", [(*at_ms).into(), number.into()]);
    }
    let (sql, params) = search.end("ORDER BY w.created_at_ms DESC, w.number DESC LIMIT $1", [limit.into()]);
    connection.query(&sql, params).await?.iter().map(process).collect()
}

fn process(row: &Row) -> Result<Process, StoreError> {
    Ok(read!(row => Process {
        work_order, web_order_id, customer_code, case_number, caption, servee, status, serve_result, service_method,
        served_at_ms, served_on_name, served_on_relationship, mailed_on, not_served_reason, proof_signed_on,
        proof_filed_on, created_at_ms, servee_index, servee_address,
    }))
}

/// The attempts of each of these work orders, in order of their sequence.
pub async fn attempts(
    connection: &mut Connection,
    work_orders: &[&str],
) -> Result<HashMap<String, Vec<ProcessAttempt>>, StoreError> {
    let sql = "SELECT work_order, sequence, attempted_at_ms, time_zone, address, outcome, service_method, \
               person_served_name, person_served_relationship, person_served_age, person_served_description, comments, \
               latitude, longitude, gps_accuracy_meters, photo_count, server_name, server_registration, recorded_at_ms \
               FROM process_attempt WHERE work_order IN ({values}) ORDER BY work_order, sequence";
    let mut attempts: HashMap<String, Vec<ProcessAttempt>> = HashMap::new();
    for row in connection.query_in(sql, Vec::new(), work_orders).await? {
        attempts.entry(row.get(0)?).or_default().push(attempt(&row)?);
    }
    Ok(attempts)
}

fn attempt(row: &Row) -> Result<ProcessAttempt, StoreError> {
    Ok(read!(row, 1 => ProcessAttempt {
        sequence, attempted_at_ms, time_zone, address, outcome, service_method, person_served_name,
        person_served_relationship, person_served_age, person_served_description, comments, latitude, longitude,
        gps_accuracy_meters, photo_count, server_name, server_registration, recorded_at_ms,
    }))
}
