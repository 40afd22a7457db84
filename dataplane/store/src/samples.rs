//! Writes rows that usually other programs write. Only the samples of the embedded mode use it.

use docket_domain::invoice::InvoiceFamily;

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::invoices::table;
use crate::sql::params;

/// An attempt to serve.
#[derive(Clone)]
pub struct ServeAttempt<'a> {
    /// The process work order.
    pub work_order: &'a str,
    /// The number of the attempt, from 1.
    pub sequence: i64,
    /// When the attempt was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The outcome: one of the words of the column.
    pub outcome: &'a str,
    /// The server's comments.
    pub comments: &'a str,
}

/// Adds an attempt to serve, which failed.
pub async fn process_attempt(
    transaction: &mut Transaction,
    attempt: ServeAttempt<'_>,
) -> Result<(), StoreError> {
    let ServeAttempt { work_order, sequence, at_ms, outcome, comments } = attempt;
    let sql = "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, time_zone, address, outcome, \
               comments, photo_count, server_name, server_registration, recorded_at_ms) VALUES ($1, $2, $3, \
               'America/Los_Angeles', '1200 Example Terrace, Pasadena, CA 91101', $4, $5, 1, 'Sam Sample', \
               '9999, Los Angeles', $3)";
    transaction.execute(sql, params![work_order, sequence, at_ms, outcome, comments]).await?;
    let sql = "UPDATE process_status SET status = 'Attempted' WHERE work_order = $1";
    transaction.execute(sql, params![work_order]).await.map(|_| ())
}

/// Adds an invoice that is already marked as detected.
pub async fn invoice(
    transaction: &mut Transaction,
    family: InvoiceFamily,
    invoice_number: &str,
    work_order: &str,
    invoice_date: &str,
    at_ms: i64,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO {} (invoice_number, work_order, invoice_date, created_at_ms, detected_at_ms) \
         VALUES ($1, $2, $3, $4, $4)",
        table(family)
    );
    transaction.execute(&sql, params![invoice_number, work_order, invoice_date, at_ms]).await?;
    if family == InvoiceFamily::PhotoCopy {
        let sql = "UPDATE photo_copy_invoice SET facility_line_item = 1, bill_to_customer_code = 'CARR01', \
                   amount_cents = 23000 WHERE invoice_number = $1";
        transaction.execute(sql, params![invoice_number]).await?;
    }
    Ok(())
}
