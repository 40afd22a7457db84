//! Notes and status lines of work orders, and the milestones of status lines.

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Row, Search, params, read};

/// A milestone that a photocopy stop can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Milestone {
    /// The milestone's code.
    pub code: i64,
    /// The milestone's title, if it has one.
    pub title: Option<String>,
    /// Whether the milestone may still be set.
    pub active: bool,
}

/// The milestone with this code.
pub async fn milestone(connection: &mut Connection, code: i64) -> Result<Option<Milestone>, StoreError> {
    let sql = "SELECT code, title, active FROM milestone WHERE code = $1";
    connection.query_opt(sql, params![code]).await?.as_ref().map(to_milestone).transpose()
}

fn to_milestone(row: &Row) -> Result<Milestone, StoreError> {
    Ok(read!(row => Milestone { code, title, active }))
}

/// The milestone of the last status line. With a stop, only status lines of the stop or of the whole work order
/// count; without, all count.
pub async fn last_milestone(
    connection: &mut Connection,
    work_order: &str,
    facility_line_item: Option<i64>,
) -> Result<Option<Milestone>, StoreError> {
    let mut search = Search::new(
        "SELECT m.code, m.title, m.active FROM note n JOIN milestone m ON m.code = n.milestone_code",
    );
    search.and("n.work_order = $1", [work_order.into()]);
    search.and_some("(n.facility_line_item = $1 OR n.facility_line_item IS NULL)", facility_line_item);
    let (sql, params) = search.end("ORDER BY n.line_item DESC LIMIT 1", []);
    connection.query_opt(&sql, params).await?.as_ref().map(to_milestone).transpose()
}

/// The next line item of a work order. The work order's row stays locked until the transaction ends.
pub async fn next_line_item(transaction: &mut Transaction, work_order: &str) -> Result<i64, StoreError> {
    // Other programs may have added lines without updating the count in the work order's row.
    let sql = "UPDATE work_order SET last_line_item = 1 + (SELECT max(n) FROM (SELECT last_line_item AS n \
               UNION ALL SELECT coalesce(max(line_item), 0) FROM note WHERE work_order = $1) AS given) \
               WHERE number = $1 RETURNING last_line_item";
    let line_item = transaction.value(sql, params![work_order]).await?;
    line_item.ok_or(StoreError::Unexpected("the work order of a note"))
}

/// A note to be added.
#[derive(Clone)]
pub struct NewNote<'a> {
    /// The work order's number.
    pub work_order: &'a str,
    /// The number of the note on the work order.
    pub line_item: i64,
    /// The stop that the note is about.
    pub facility_line_item: Option<i64>,
    /// The text of the note.
    pub report: &'a str,
    /// The milestone that was reached.
    pub milestone_code: Option<i64>,
    /// The author of the note.
    pub author: &'a str,
}

/// Adds a note.
pub async fn insert(
    transaction: &mut Transaction,
    note: &NewNote<'_>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let NewNote { work_order, line_item, facility_line_item, report, milestone_code, author } = note.clone();
    let sql = "INSERT INTO note (work_order, line_item, facility_line_item, report, milestone_code, author, \
               created_at_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let params = params![work_order, line_item, facility_line_item, report, milestone_code, author, now_ms];
    transaction.execute(sql, params).await.map(|_| ())
}

/// A note or status line, with columns of its work order and milestone.
#[derive(Clone)]
#[expect(missing_docs, reason = "the columns of the tables")]
pub struct StoredNote {
    pub work_order: String,
    pub work_order_type: String,
    pub web_order_id: Option<String>,
    pub customer_code: String,
    pub line_item: i64,
    pub facility_line_item: Option<i64>,
    pub report: Option<String>,
    pub milestone_code: Option<i64>,
    pub milestone: Option<String>,
    pub author: Option<String>,
    pub created_at_ms: i64,
}

/// The conditions of a search. Times are inclusive at the start and exclusive at the end.
#[derive(Debug, Clone, Default)]
pub struct NoteFilter {
    /// Only notes of this customer's work orders.
    pub customer_code: Option<String>,
    /// Only notes of this work order.
    pub work_order: Option<String>,
    /// Only notes about this stop.
    pub facility_line_item: Option<i64>,
    /// Only notes about stops with this facility.
    pub facility_id: Option<String>,
    /// Added at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Added before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Only notes after this position in the order of the search: time, work order and line item of the last note on
    /// the previous page.
    pub after: Option<(i64, String, i64)>,
}

/// The newest `limit` matching notes, newest first. New notes do not change the pages.
pub async fn search(
    connection: &mut Connection,
    filter: &NoteFilter,
    limit: i64,
) -> Result<Vec<StoredNote>, StoreError> {
    let NoteFilter { customer_code, work_order, facility_line_item, facility_id, from_ms, to_ms, after } =
        filter;
    let mut search = Search::new(
        "SELECT n.work_order, w.work_order_type, w.web_order_id, w.customer_code, n.line_item, \
         n.facility_line_item, n.report, n.milestone_code, m.title, n.author, n.created_at_ms \
         FROM note n JOIN work_order w ON w.number = n.work_order LEFT JOIN milestone m ON m.code = n.milestone_code",
    );
    search.and_some("w.customer_code = $1", customer_code.as_ref());
    search.and_some("n.work_order = $1", work_order.as_ref());
    search.and_some("n.facility_line_item = $1", *facility_line_item);
    let of_facility = "EXISTS (SELECT 1 FROM facility f WHERE f.work_order = n.work_order \
                       AND f.facility_line_item = n.facility_line_item AND f.facility_id = $1)";
    search.and_some(of_facility, facility_id.as_ref());
    search.and_some("n.created_at_ms >= $1", *from_ms);
    search.and_some("n.created_at_ms < $1", *to_ms);
    if let Some((at_ms, number, line_item)) = after {
        let last = [(*at_ms).into(), number.into(), (*line_item).into()];
        search.and("(n.created_at_ms, n.work_order, n.line_item) < ($1, $2, $3)", last);
    }
    let order = "ORDER BY n.created_at_ms DESC, n.work_order DESC, n.line_item DESC LIMIT $1";
    let (sql, params) = search.end(order, [limit.into()]);
    let rows = connection.query(&sql, params).await?;
    let note = |row: &Row| {
        Ok(read!(row => StoredNote {
            work_order, work_order_type, web_order_id, customer_code, line_item, facility_line_item, report,
            milestone_code, milestone, author, created_at_ms,
        }))
    };
    rows.iter().map(note).collect()
}
