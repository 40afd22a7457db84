//! Gives rows the key of their webhook that were written before webhooks had keys: they have the uid of the object of then.
//!
//! A row tells its key: it has the webhook's name, and its event the customer.

use std::collections::{BTreeMap, BTreeSet};

use docket_crds::webhook_key;
use docket_domain::delivery::Due;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, params};

/// The key of the webhook of a row of this table; an SQL expression.
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

/// What a row of this table gets: the key, and no idempotency key that the webhook has already, for the row is a delivery all the same.
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

/// Whether a delivery has the uid of its webhook, as before keys.
pub fn has_uid(due: &Due) -> bool {
    webhook_key::full_name(&due.webhook).is_none()
}

static LOCK_RESENDS: Rows = Rows::new("SELECT id FROM resend WHERE webhook {$1 text} ORDER BY id FOR UPDATE");
static RESENDS: Rows = Rows::new(
    "UPDATE resend SET webhook = webhook_name || '/' || coalesce((SELECT e.customer_code FROM delivery d \
     JOIN event e ON e.id = d.event_id WHERE d.resend_id = resend.id LIMIT 1), '') \
     WHERE webhook {$1 text} AND webhook_name LIKE '%/%' AND EXISTS (SELECT 1 FROM delivery d WHERE d.resend_id = resend.id)",
);

/// Gives the bulk resends to webhooks with these uids the keys of their webhooks. It needs a transaction of its own, before their
/// deliveries get theirs: what stops a bulk resend locks it first, and its deliveries then.
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

/// Gives the test events of rows that have their keys now, each with its event and its key, the keys.
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

/// Gives those of these queued deliveries that have the uid of their webhook its key, and their test events.
pub async fn rekey_queued(transaction: &mut Transaction, dues: &[Due]) -> Result<(), StoreError> {
    let of = |uid: Option<&str>| {
        let dues = dues.iter().filter(|due| has_uid(due) && uid.is_none_or(|uid| due.webhook == uid));
        dues.map(|due| [Param::from(due.id.to_string()), due.webhook.as_str().into()]).collect::<Vec<_>>()
    };
    let uids: BTreeSet<&str> =
        dues.iter().filter(|due| has_uid(due)).map(|due| due.webhook.as_str()).collect();
    transaction.lock_all(LOCK_QUEUED.statement(of(None).into_iter().map(|[id, _]| [id]))).await?;
    let mut rekeyed = Vec::new();
    // Uid by uid: two may become one key.
    for uid in uids {
        rekeyed.extend(transaction.all(QUEUED.statement(of(Some(uid)))).await?.into_iter().flatten());
    }
    rekey_tests(transaction, &rekeyed).await
}

/// The uids that the history has in place of keys, found from one to the next of the index that begins with them. Keys of the
/// 20,000 first webhooks are passed.
pub async fn uids(connection: &mut Connection) -> Result<Vec<String>, StoreError> {
    let sql = "WITH RECURSIVE hook (webhook) AS (SELECT min(webhook) FROM delivery_history UNION ALL \
        SELECT (SELECT min(h.webhook) FROM delivery_history h WHERE h.webhook > hook.webhook) \
        FROM hook WHERE hook.webhook IS NOT NULL) \
        SELECT webhook FROM (SELECT webhook FROM hook LIMIT 20000) AS found WHERE webhook NOT LIKE '%/%/%'";
    connection.query(sql, Vec::new()).await?.iter().map(|row| row.id(0)).collect()
}

static FINISHED: Rows = Rows::new(concat!(
    "UPDATE delivery_history SET ",
    keyed!("delivery_history"),
    ", webhook_missing_since_ms = CASE WHEN failure_class = 'WebhookGone' \
     THEN coalesce(webhook_missing_since_ms, finished_at_ms) END WHERE id {$1 text} RETURNING event_id, webhook"
));

/// Gives so many finished deliveries, which have this uid, the keys of their webhooks, and their test events. Those that another
/// transaction marks are left for the next time. Returns how many.
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
