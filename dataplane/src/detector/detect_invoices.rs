//! Detects new invoices of one family: marks each and publishes invoice.created in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use docket_domain::event::{InvoiceCreated, Payload};
use docket_domain::invoice::{self, InvoiceFamily};
use docket_program::clock::{Clock, millis};
use docket_schedule::Hint;
use docket_store::events::About;
use docket_store::invoices::{self, Invoice};
use docket_store::{Database, StoreError, Transaction};
use jiff::Timestamp;

use crate::actions::publish_event::{Publication, publish_event};
use crate::delivery::outbox::Outbox;
use crate::tenancy::ServedTenant;

/// The most invoices in one transaction.
pub const BATCH: usize = 100;

/// The result of one batch.
#[derive(Debug, Default)]
pub struct Detected {
    /// Invoices that this batch marked.
    pub count: usize,
    /// How many of them are too old to be announced.
    pub old: usize,
    /// The hints about the deliveries of the announced invoices. The outbox has notified the schedule of these deliveries.
    pub hints: Vec<Hint>,
    /// Whether there may be more new invoices.
    pub full: bool,
    /// Whether invoices stay new because another session has them.
    pub left: bool,
    /// The last error, if some invoices stay new because of errors. The others are announced.
    pub failed: Option<StoreError>,
}

impl Detected {
    fn add(&mut self, marked: Marked) {
        self.count += 1;
        match marked {
            Marked::Announced(hints) => self.hints.extend(hints),
            Marked::TooOld => self.old += 1,
        }
    }
}

/// The result of marking an invoice.
enum Marked {
    /// The invoice is published. Holds the hints about its deliveries.
    Announced(Vec<Hint>),
    /// The invoice is marked and not published.
    TooOld,
}

impl Marked {
    fn hints(&self) -> &[Hint] {
        match self {
            Self::Announced(hints) => hints,
            Self::TooOld => &[],
        }
    }
}

/// Detects one batch of a family. Invoices that were created longer than `max_age` ago are marked and not announced; with zero,
/// none is too old. After an error, its invoices stay new. If two detectors run at once, they share the invoices: the second
/// detector to reach a row skips it.
pub async fn detect_invoices(
    database: &Database,
    tenant: &ServedTenant,
    outbox: &Arc<Outbox>,
    family: InvoiceFamily,
    max_age: Duration,
    clock: &Clock,
) -> Result<Detected, StoreError> {
    // This connection is returned before the next one is taken: a task that holds one must not wait for another.
    let find = async { invoices::find_new(&mut database.reader().await?, family, BATCH as i64).await };
    let numbers = in_time(find).await?;
    let mut detected = Detected::default();
    if numbers.is_empty() {
        return Ok(detected);
    }
    let mut groups = vec![&numbers[..]];
    while let Some(group) = groups.pop() {
        match announce_all(database, tenant, outbox, family, group, max_age, clock).await {
            Ok(marked) => marked.into_iter().for_each(|one| detected.add(one)),
            Err(error @ StoreError::Unavailable(_)) if group.len() == numbers.len() => return Err(error),
            // One of the invoices failed. Announce them one by one, as long as the database is available.
            Err(_) if group.len() > 1 => groups.extend(group.chunks(1).rev()),
            Err(error) => {
                log_failure(tenant, family, &group[0], &error);
                if matches!(error, StoreError::Unavailable(_)) {
                    groups.clear();
                }
                detected.failed = Some(error);
            }
        }
    }
    detected.left = detected.count < numbers.len();
    detected.full = numbers.len() >= BATCH && detected.count > 0 && detected.failed.is_none();
    Ok(detected)
}

/// Marks these invoices and publishes each, in one transaction. Returns those that this transaction marked.
async fn announce_all(
    database: &Database,
    tenant: &ServedTenant,
    outbox: &Arc<Outbox>,
    family: InvoiceFamily,
    numbers: &[String],
    max_age: Duration,
    clock: &Clock,
) -> Result<Vec<Marked>, StoreError> {
    let mut transaction = in_time(database.begin(clock)).await?;
    let now = transaction.now();
    let numbers = in_time(invoices::lock_new(&mut transaction, family, numbers)).await?;
    let mut marked = Vec::new();
    for number in &numbers {
        match in_time(announce(&mut transaction, tenant, family, number, max_age, now)).await {
            Ok(one) => marked.extend(one),
            Err(error) => {
                // The next batch skips locked rows, so unlock them now, not when the server notices the closed connection.
                let _ = in_time(transaction.rollback()).await;
                return Err(error);
            }
        }
    }
    let hints = marked.iter().flat_map(Marked::hints).cloned().collect();
    let (committed, ticket) = tokio::join!(in_time(transaction.commit()), outbox.before(hints));
    committed?;
    ticket.committed().await;
    Ok(marked)
}

fn log_failure(tenant: &ServedTenant, family: InvoiceFamily, number: &str, error: &StoreError) {
    tracing::error!(
        tenant.code = tenant.config.client_code.as_str(),
        order_type = family.as_str(),
        invoice.number = %number.escape_debug(),
        error = %error,
        "publishing an invoice failed; it stays new; retrying"
    );
}

/// Counts the new invoices whose work order does not exist yet.
pub async fn count_waiting(database: &Database) -> Result<i64, StoreError> {
    in_time(async { invoices::count_without_work_order(&mut database.reader().await?).await }).await
}

/// Marks one invoice, and publishes it unless it is too old. Returns `None` if another process has marked it.
async fn announce(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    family: InvoiceFamily,
    number: &str,
    max_age: Duration,
    now: Timestamp,
) -> Result<Option<Marked>, StoreError> {
    match invoices::mark_detected(transaction, family, number, now.as_millisecond()).await? {
        Some(invoice) if is_too_old(&invoice, max_age, now) => Ok(Some(Marked::TooOld)),
        Some(invoice) => Ok(Some(Marked::Announced(publish(transaction, tenant, invoice, now).await?))),
        // The number was not UTF-8, so no row has this text as its number.
        None if number.contains(char::REPLACEMENT_CHARACTER) => {
            Err(StoreError::Unexpected("an invoice number that is not UTF-8"))
        }
        None => Ok(None),
    }
}

/// Decides by the row's time of creation. `invoice_date` proves nothing: a program may date a new invoice back.
fn is_too_old(invoice: &Invoice, max_age: Duration, now: Timestamp) -> bool {
    max_age > Duration::ZERO && now.as_millisecond() - invoice.created_at_ms > millis(max_age)
}

async fn publish(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    invoice: Invoice,
    now: Timestamp,
) -> Result<Vec<Hint>, StoreError> {
    let about = About {
        web_order_id: invoice.web_order_id.clone(),
        work_order: Some(invoice.work_order.clone()),
        invoice_number: Some(invoice.invoice_number.clone()),
    };
    let key = invoice::idempotency_key(invoice.family, &invoice.invoice_number);
    let customer_code = invoice.customer_code.clone();
    let publication = Publication {
        customer_code: &customer_code,
        about,
        payload: Payload::InvoiceCreated(data(tenant, invoice)),
        idempotency_key: Some(key),
    };
    publish_event(transaction, tenant, publication, now).await
}

fn data(tenant: &ServedTenant, invoice: Invoice) -> InvoiceCreated {
    let invoice_date = invoice.invoice_date.as_deref().and_then(invoice::date_time);
    if invoice_date.is_none() && invoice.invoice_date.is_some() {
        tracing::warn!(
            tenant.code = tenant.config.client_code.as_str(),
            order_type = invoice.family.as_str(),
            invoice.number = %invoice.invoice_number.escape_debug(),
            "invoice date is not a local date and time (YYYY-MM-DDThh:mm:ss); sending null"
        );
    }
    InvoiceCreated {
        work_order: invoice.work_order,
        order_type: invoice.family.as_str().to_owned(),
        invoice_number: invoice.invoice_number,
        invoice_date,
        bill_to_customer_code: invoice.bill_to_customer_code,
        facility_line_item: invoice.facility_line_item,
        amount: invoice.amount_cents.map(invoice::amount),
    }
}

/// How long each step may take, so that a database that hangs does not keep a place in the detector. The batch as a whole
/// has no limit: a slow database still makes progress.
const STEP: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("timeout after {} s", STEP.as_secs())]
struct Timeout;

async fn in_time<T>(step: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(STEP, step).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(Box::new(Timeout))),
    }
}
