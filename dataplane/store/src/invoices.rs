//! Invoice headers, one table per family. Other programs insert them; a row is new until its `detected_at_ms` is set.
//!
//! There is no watermark: a partial index contains exactly the new rows. So the order in which transactions commit
//! hides no row, and rows that were detected before cost nothing.

use std::cmp::Reverse;

use docket_domain::invoice::InvoiceFamily;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, SLOTS, Search, filled, params, read, slots};

/// An invoice header, with some columns of its work order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the tables")]
pub struct Invoice {
    pub family: InvoiceFamily,
    pub invoice_number: String,
    pub work_order: String,
    /// The text as it was inserted; [`docket_domain::invoice::date_time`] reads it.
    pub invoice_date: Option<String>,
    pub bill_to_customer_code: Option<String>,
    pub created_at_ms: i64,
    /// Photocopy only.
    pub facility_line_item: Option<i64>,
    /// Photocopy only.
    pub amount_cents: Option<i64>,
    /// The customer of the work order.
    pub customer_code: String,
    /// The web order of the work order; `None`: the work order was created in the back office.
    pub web_order_id: Option<String>,
}

pub(super) const fn table(family: InvoiceFamily) -> &'static str {
    match family {
        InvoiceFamily::Court => "court_invoice",
        InvoiceFamily::Delivery => "delivery_invoice",
        InvoiceFamily::Investigation => "investigation_invoice",
        InvoiceFamily::PhotoCopy => "photo_copy_invoice",
    }
}

/// The columns of a header in the order of [`invoice`]; `i` is the header's name in the statement.
fn columns(family: InvoiceFamily, i: &str) -> String {
    let own = match family {
        InvoiceFamily::PhotoCopy => format!("{i}.facility_line_item, {i}.amount_cents"),
        _ => "CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)".to_owned(),
    };
    format!(
        "{i}.invoice_number, {i}.work_order, {i}.invoice_date, {i}.bill_to_customer_code, {i}.created_at_ms, {own}"
    )
}

/// The work order of the header `i`. It is a value and not a join: without statistics, PostgreSQL may read all work
/// orders for a join. The value costs one look-up per new invoice.
const WORK_ORDER: &str = "(SELECT w.number FROM work_order w WHERE w.number = i.work_order)";

fn invoice(family: InvoiceFamily, row: &Row) -> Result<Invoice, StoreError> {
    Ok(Invoice {
        family,
        invoice_number: row.get(0)?,
        work_order: row.get(1)?,
        invoice_date: row.get(2)?,
        bill_to_customer_code: row.get(3)?,
        created_at_ms: row.get(4)?,
        facility_line_item: row.get(5)?,
        amount_cents: row.get(6)?,
        customer_code: row.get(7)?,
        web_order_id: row.get(8)?,
    })
}

/// The numbers of at most `limit` new invoices, in order. An invoice whose work order does not exist (possible where
/// foreign keys are not enforced) waits for it, and does not hide other invoices.
pub async fn find_new(
    connection: &mut Connection,
    family: InvoiceFamily,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    connection.column(&find_new_sql(family), params![limit]).await
}

/// The statement of [`find_new`], public so that tests can check its plan.
pub fn find_new_sql(family: InvoiceFamily) -> String {
    format!(
        "SELECT i.invoice_number FROM {} i WHERE i.detected_at_ms IS NULL AND {WORK_ORDER} IS NOT NULL \
         ORDER BY i.invoice_number LIMIT $1",
        table(family)
    )
}

/// Locks the new invoices that no other transaction has locked, and returns these invoices in order.
pub async fn lock_new(
    transaction: &mut Transaction,
    family: InvoiceFamily,
    numbers: &[String],
) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT invoice_number FROM {} WHERE invoice_number IN ({}) AND detected_at_ms IS NULL \
         ORDER BY invoice_number FOR UPDATE SKIP LOCKED",
        table(family),
        slots(1)
    );
    let mut free = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(SLOTS) {
        match transaction.lock_free(&sql, filled(chunk.iter().map(Param::from))).await? {
            Some(rows) => {
                for row in &rows {
                    free.push(row.get(0)?);
                }
            }
            None => free.extend_from_slice(chunk),
        }
    }
    Ok(free)
}

/// Marks an invoice as detected and returns it. `None`: another process was faster, or the invoice or its work order
/// does not exist any more.
pub async fn mark_detected(
    transaction: &mut Transaction,
    family: InvoiceFamily,
    invoice_number: &str,
    now_ms: i64,
) -> Result<Option<Invoice>, StoreError> {
    // SQLite's RETURNING accepts only the table's own name.
    let (t, columns) = (table(family), columns(family, table(family)));
    let sql = format!(
        "UPDATE {t} SET detected_at_ms = $1 WHERE invoice_number = $2 AND detected_at_ms IS NULL \
         AND EXISTS (SELECT 1 FROM work_order w WHERE w.number = {t}.work_order) RETURNING {columns}, \
         (SELECT w.customer_code FROM work_order w WHERE w.number = {t}.work_order), \
         (SELECT w.web_order_id FROM work_order w WHERE w.number = {t}.work_order)"
    );
    let row = transaction.query_opt(&sql, params![now_ms, invoice_number]).await?;
    row.map(|row| invoice(family, &row)).transpose()
}

/// How many new invoices wait for a work order that does not exist.
pub async fn count_without_work_order(connection: &mut Connection) -> Result<i64, StoreError> {
    let count = connection.value(&count_without_work_order_sql(), Vec::new()).await?;
    count.ok_or(StoreError::Unexpected("no count"))
}

/// The statement of [`count_without_work_order`], public so that tests can check its plan.
pub fn count_without_work_order_sql() -> String {
    let waiting = InvoiceFamily::ALL.map(|family| {
        format!(
            "(SELECT count(*) FROM {} i WHERE i.detected_at_ms IS NULL AND {WORK_ORDER} IS NULL)",
            table(family)
        )
    });
    format!("SELECT {}", waiting.join(" + "))
}

/// The conditions of a search. Times are inclusive at the start and exclusive at the end.
#[derive(Debug, Clone, Default)]
pub struct InvoiceFilter {
    /// Only invoices of this customer's work orders.
    pub customer_code: Option<String>,
    /// Only invoices of this family.
    pub family: Option<InvoiceFamily>,
    /// Only invoices of this work order.
    pub work_order: Option<String>,
    /// Only invoices with this number. Each family may have one.
    pub invoice_number: Option<String>,
    /// Created at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Created before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Only invoices after this position in the order of the search: the `created_at_ms` and [`Invoice::id`] of the
    /// last invoice on the previous page.
    pub after: Option<(i64, String)>,
}

impl Invoice {
    /// `<orderType>:<invoiceNumber>`, unique in the tenant.
    pub fn id(&self) -> String {
        format!("{}:{}", self.family.as_str(), self.invoice_number)
    }
}

/// An invoice header, as a trace needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedInvoice {
    /// The family of the invoice.
    pub family: InvoiceFamily,
    /// The invoice's number, unique in its family.
    pub invoice_number: String,
    /// The number of its work order, which may be missing.
    pub work_order: String,
    /// When the back office added the invoice, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When Docket published the invoice, in milliseconds since 1970, or another program marked it as known; `None`: it is new.
    pub detected_at_ms: Option<i64>,
    /// The customer of the work order; `None`: there is no such work order.
    pub customer_code: Option<String>,
}

/// The invoices with one of these numbers, new or not. Each family may have one.
pub async fn with_numbers(
    connection: &mut Connection,
    numbers: &[String],
) -> Result<Vec<TracedInvoice>, StoreError> {
    let rows = connection.query_in(&with_numbers_sql("{values}"), Vec::new(), numbers).await?;
    let traced = |row: &Row| {
        Ok(read!(row => TracedInvoice {
            family: parsed, invoice_number, work_order, created_at_ms, detected_at_ms, customer_code,
        }))
    };
    rows.iter().map(traced).collect()
}

/// The statement of [`with_numbers`] for this list of values, public so that tests can check its plan.
pub fn with_numbers_sql(values: &str) -> String {
    let of = |family: InvoiceFamily| {
        format!(
            "SELECT CAST('{}' AS TEXT), i.invoice_number, i.work_order, i.created_at_ms, i.detected_at_ms, \
             (SELECT w.customer_code FROM work_order w WHERE w.number = i.work_order) \
             FROM {} i WHERE i.invoice_number IN ({values})",
            family.as_str(),
            table(family)
        )
    };
    InvoiceFamily::ALL.map(of).join(" UNION ALL ")
}

/// The newest `limit` matching invoices, newest first. At the same time, they are ordered by family and then by
/// number, backwards.
pub async fn search(
    connection: &mut Connection,
    filter: &InvoiceFilter,
    limit: i64,
) -> Result<Vec<Invoice>, StoreError> {
    let mut found = Vec::new();
    let families = InvoiceFamily::ALL.into_iter().rev();
    for family in families.filter(|family| filter.family.is_none_or(|only| only == *family)) {
        let (sql, params) = search_sql(family, filter, limit);
        for row in connection.query(&sql, params).await? {
            found.push(invoice(family, &row)?);
        }
    }
    // The sort is stable, so invoices of the same time stay in the order of families, and in the database's order of numbers.
    found.sort_by_key(|invoice| Reverse(invoice.created_at_ms));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

fn search_sql(family: InvoiceFamily, filter: &InvoiceFilter, limit: i64) -> (String, Vec<Param>) {
    let InvoiceFilter { customer_code, family: _, work_order, invoice_number, from_ms, to_ms, after } =
        filter;
    let mut search = Search::new(&format!(
        "SELECT {}, w.customer_code, w.web_order_id FROM {} i JOIN work_order w ON w.number = i.work_order",
        columns(family, "i"),
        table(family)
    ));
    search.and_some("w.customer_code = $1", customer_code.as_ref());
    search.and_some("i.work_order = $1", work_order.as_ref());
    search.and_some("i.invoice_number = $1", invoice_number.as_ref());
    search.and_some("i.created_at_ms >= $1", *from_ms);
    search.and_some("i.created_at_ms < $1", *to_ms);
    if let Some((at_ms, id)) = after {
        let (word, number) = id.split_once(':').unwrap_or((id, ""));
        match family.as_str().cmp(word) {
            std::cmp::Ordering::Less => search.and("i.created_at_ms <= $1", [(*at_ms).into()]),
            std::cmp::Ordering::Greater => search.and("i.created_at_ms < $1", [(*at_ms).into()]),
            std::cmp::Ordering::Equal => {
                search
                    .and("(i.created_at_ms, i.invoice_number) < ($1, $2)", [(*at_ms).into(), number.into()]);
            }
        }
    }
    search.end("ORDER BY i.created_at_ms DESC, i.invoice_number DESC LIMIT $1", [limit.into()])
}
