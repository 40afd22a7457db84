//! Rekeys rows that were written before webhooks had keys. Such a row has the uid of a Webhook object, and gets the
//! webhook's key.
//!
//! The key follows from the row: the row has the webhook's name, and its event has the customer.

use std::collections::BTreeMap;

use docket_crds::webhook_key;
use docket_domain::delivery::Due;

use super::history::WITH_WEBHOOKS;
use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, params};

/// An SQL expression: the key of the webhook in a row of this table.
macro_rules! key_of {
    ($table:literal) => {
        concat!(
            "(",
            $table,
            ".webhook_name || '/' || coalesce((SELECT e.customer_code FROM event e WHERE e.id = ",
            $table,
            ".event_id), ''))"
        )
    };
}

/// The SQL assignments that rekey a row of this table. They set its idempotency key to NULL if the webhook already
/// has a delivery with it: the row stays a delivery all the same.
macro_rules! keyed {
    ($table:literal) => {
        concat!(
            "webhook = ",
            key_of!($table),
            ", idempotency_key = CASE WHEN EXISTS (SELECT 1 FROM ",
            $table,
            " o WHERE o.webhook = ",
            key_of!($table),
            " AND o.idempotency_key = ",
            $table,
            ".idempotency_key) THEN NULL ELSE idempotency_key END"
        )
    };
}

/// Whether the row of a delivery has the webhook's uid in place of its key.
pub fn has_uid(due: &Due) -> bool {
    webhook_key::full_name(&due.webhook).is_none()
}

static LOCK_RESENDS: Rows = Rows::new("SELECT id FROM resend WHERE webhook {$1 text} ORDER BY id FOR UPDATE");
static RESENDS: Rows = Rows::new(
    "UPDATE resend SET webhook = webhook_name || '/' || coalesce((SELECT e.customer_code FROM delivery d \
     JOIN event e ON e.id = d.event_id WHERE d.resend_id = resend.id LIMIT 1), '') \
     WHERE webhook {$1 text} AND webhook_name LIKE '%/%' AND EXISTS (SELECT 1 FROM delivery d WHERE d.resend_id = resend.id)",
);

/// Rekeys bulk resends to the webhooks with these uids. Call it in a transaction of its own, before their deliveries
/// are rekeyed: a transaction that stops a bulk resend also locks the bulk resend first, and then its deliveries.
pub async fn rekey_resends<'a>(
    transaction: &mut Transaction,
    uids: impl IntoIterator<Item = &'a str>,
) -> Result<(), StoreError> {
    let uids: Vec<_> = uids.into_iter().map(|uid| [Param::from(uid)]).collect();
    transaction.lock_all(LOCK_RESENDS.statement(uids.iter().cloned())).await?;
    transaction.all(RESENDS.statement(uids)).await.map(drop)
}

static LOCK_TESTS: Rows = Rows::new("SELECT id FROM test_event WHERE id {$1 text} ORDER BY id FOR UPDATE");
static TESTS: Rows = Rows::new(
    "WITH v (id, webhook) AS ({text, text}) UPDATE test_event SET webhook = v.webhook FROM v WHERE test_event.id = v.id",
);

/// Rekeys test events. `rows` have the event's id and the webhook's key of rekeyed deliveries.
async fn rekey_tests(transaction: &mut Transaction, rows: &[Row]) -> Result<(), StoreError> {
    let read = |row: &Row| Ok((row.get(0)?, row.get(1)?));
    let keys = rows.iter().map(read).collect::<Result<BTreeMap<String, String>, StoreError>>()?;
    transaction.lock_all(LOCK_TESTS.statement(keys.keys().map(|id| [Param::from(id)]))).await?;
    let values = keys.iter().map(|(id, key)| [Param::from(id), key.into()]);
    transaction.all(TESTS.statement(values)).await.map(drop)
}

static LOCK_QUEUED: Rows =
    Rows::new("SELECT id FROM delivery_queue WHERE id {$1 text} ORDER BY id FOR UPDATE");
static QUEUED: Rows = Rows::new(concat!(
    "UPDATE delivery_queue SET ",
    keyed!("delivery_queue"),
    " WHERE id {$1 text} AND webhook {$2 text} AND webhook_name LIKE '%/%' RETURNING event_id, webhook"
));

/// Rekeys the deliveries of `dues` that have a uid, and their test events.
pub async fn rekey_queued(transaction: &mut Transaction, dues: &[Due]) -> Result<(), StoreError> {
    let mut by_uid: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for due in dues.iter().filter(|due| has_uid(due)) {
        by_uid.entry(&due.webhook).or_default().push(due.id.to_string());
    }
    let ids = by_uid.values().flatten().map(|id| [Param::from(id)]);
    transaction.lock_all(LOCK_QUEUED.statement(ids)).await?;
    let mut rekeyed = Vec::new();
    // One uid at a time, because two uids may become the same key.
    for (uid, ids) in by_uid {
        let rows = ids.iter().map(|id| [Param::from(id), uid.into()]);
        rekeyed.extend(transaction.all(QUEUED.statement(rows)).await?.into_iter().flatten());
    }
    rekey_tests(transaction, &rekeyed).await
}

/// The uids in the history that stand in place of keys. It reads at most the first 20,000 webhooks.
pub async fn uids(connection: &mut Connection) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "{WITH_WEBHOOKS} SELECT webhook FROM (SELECT webhook FROM hook LIMIT 20000) AS found WHERE webhook NOT LIKE '%/%/%'"
    );
    connection.query(&sql, Vec::new()).await?.iter().map(|row| row.id(0)).collect()
}

static FINISHED: Rows = Rows::new(concat!(
    "UPDATE delivery_history SET ",
    keyed!("delivery_history"),
    ", webhook_missing_since_ms = CASE WHEN failure_class = 'WebhookGone' \
     THEN coalesce(webhook_missing_since_ms, finished_at_ms) END WHERE id {$1 text} RETURNING event_id, webhook"
));

/// Rekeys at most `most` finished deliveries with this uid, and their test events. Rows that another transaction is
/// marking are left for the next call. Returns how many it rekeyed.
pub async fn rekey_finished(transaction: &mut Transaction, uid: &str, most: i64) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM delivery_history WHERE webhook = $1 AND webhook_name LIKE '%/%' LIMIT $2";
    let free = transaction.lock_free(&format!("{sql} FOR UPDATE SKIP LOCKED"), params![uid, most]).await?;
    let rows = match free {
        Some(rows) => rows,
        None => transaction.query(sql, params![uid, most]).await?,
    };
    let ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    let rekeyed = transaction.all(FINISHED.statement(ids.iter().map(|id| [Param::from(id)]))).await?;
    rekey_tests(transaction, &rekeyed.into_iter().flatten().collect::<Vec<_>>()).await?;
    Ok(ids.len() as u64)
}
