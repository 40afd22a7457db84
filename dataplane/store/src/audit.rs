//! The audit: who did what. Rows are added and deleted, never changed.

use std::collections::HashMap;
use std::net::IpAddr;

use docket_domain::audit::{AuditEvent, AuditRecord, Origin, subject};
use docket_schema::AUDIT_DETAILS;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, Search, params};
use crate::walk::{Page, RowPosition};

static INSERT: Rows = Rows::new(
    "INSERT INTO audit (at_ms, id, event, actor, subject, address, request_id, count, detail) \
     {bigint, text, text, text, text, text, text, bigint, text}",
);
/// For a database of the previous release.
static INSERT_WITHOUT_DETAIL: Rows = Rows::new(
    "INSERT INTO audit (at_ms, id, event, actor, subject, address, request_id, count) \
     {bigint, text, text, text, text, text, text, bigint}",
);

/// SQL: the detail of an entry. A database of the previous release has none.
fn detail(connection: &Connection) -> &'static str {
    if connection.has_step(AUDIT_DETAILS) { "detail" } else { "CAST(NULL AS TEXT)" }
}

/// Adds entries to the audit.
pub async fn insert(transaction: &mut Transaction, records: &[AuditRecord]) -> Result<(), StoreError> {
    let columns = |AuditRecord { at_ms, id, event, actor, subject, origin, count, detail }: &AuditRecord| {
        [
            Param::from(*at_ms),
            id.into(),
            Param::Word(event.as_str()),
            actor.as_ref().into(),
            subject.as_ref().into(),
            origin.address.map(|address| address.to_string()).into(),
            origin.request_id.as_ref().into(),
            (*count).into(),
            detail.as_ref().into(),
        ]
    };
    let statement = match transaction.has_step(AUDIT_DETAILS) {
        true => INSERT.statement(records.iter().map(columns)),
        false => INSERT_WITHOUT_DETAIL.statement(records.iter().map(columns).map(|[first @ .., _]| first)),
    };
    transaction.all(statement).await.map(drop)
}

/// Which entries to find; the default finds all.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only this event.
    pub event: Option<AuditEvent>,
    /// Only about the webhook with this namespace/name.
    pub webhook: Option<String>,
    /// Only what this actor did, and what is about it: a text such as `employee 52`.
    pub person: Option<String>,
    /// Recorded at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Recorded before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Only after this place, which a page before ended at.
    pub after: Option<RowPosition>,
}

/// Returns a page of at most `page_size` entries (1 or more), newest first.
pub async fn search(
    connection: &mut Connection,
    filter: &AuditFilter,
    page_size: i64,
) -> Result<Page<AuditRecord>, StoreError> {
    let (sql, params) = matching(connection, filter, page_size + 1);
    let rows = connection.query(&sql, params).await?;
    let mut items = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    let is_more = items.len() as i64 > page_size;
    if is_more {
        items.pop();
    }
    let next = items.last().filter(|_| is_more).map(|last| (last.at_ms, last.id.clone()));
    Ok(Page { items, next })
}

/// The statement for the newest matching entries, at most `limit`, newest first. The entries of a person are two searches, of what the
/// person did and of what is about the person, because each has an index that has its order.
fn matching(connection: &Connection, filter: &AuditFilter, limit: i64) -> (String, Vec<Param>) {
    let event = filter.event.map(AuditEvent::as_str);
    let webhook = filter.webhook.as_ref().map(|webhook| subject("webhook", webhook));
    let of = |first: Option<(&str, &str)>, actor_is_not: Option<&str>| {
        let detail = detail(connection);
        let mut search = Search::new(&format!(
            "SELECT at_ms, id, event, actor, subject, address, request_id, count, {detail} FROM audit"
        ));
        let mut order = NEWEST_FIRST.to_owned();
        if let Some((column, value)) = first {
            // Not `=`: PostgreSQL would drop the column from the order, and might read all entries in the order of their times.
            search.and(&format!("{column} >= $1 AND {column} <= $1"), [value.into()]);
            order = format!("{column} DESC, {order}");
        }
        let is_first = |column: &str| first.is_some_and(|(first, _)| first == column);
        search.and_some("event = $1", event.filter(|_| !is_first("event")));
        search.and_some("subject = $1", webhook.clone().filter(|_| !is_first("subject")));
        search.and_some("actor IS DISTINCT FROM $1", actor_is_not);
        search.and_some("at_ms >= $1", filter.from_ms);
        search.and_some("at_ms < $1", filter.to_ms);
        if let Some((at_ms, id)) = &filter.after {
            search.and("(at_ms, id) < ($1, $2)", [(*at_ms).into(), id.into()]);
        }
        search.and(&format!("TRUE ORDER BY {order}"), []);
        search
    };
    let searches = match (filter.person.as_deref(), webhook.as_deref(), event) {
        // Of an entry about a webhook, the person can only be the actor.
        (Some(person), Some(_), _) => vec![of(Some(("actor", person)), None)],
        (Some(person), None, _) => {
            vec![of(Some(("actor", person)), None), of(Some(("subject", person)), Some(person))]
        }
        (None, Some(webhook), _) => vec![of(Some(("subject", webhook)), None)],
        (None, None, Some(event)) => vec![of(Some(("event", event)), None)],
        (None, None, None) => vec![of(None, None)],
    };
    Search::any(&searches, limit).end(&format!("ORDER BY {NEWEST_FIRST} LIMIT $1"), [limit.into()])
}

const NEWEST_FIRST: &str = "at_ms DESC, id DESC";

/// The number of newest entries that [`last_times`] reads.
const NEWEST: i64 = 5_000;

/// When `event` last happened to each subject, such as `webhook default/orders`, at `from_ms` or later, in milliseconds since 1970.
/// It reads only the newest 5,000 entries, because no index has the subject. So an earlier one may be missing.
pub async fn last_times(
    connection: &mut Connection,
    event: AuditEvent,
    from_ms: i64,
) -> Result<HashMap<String, i64>, StoreError> {
    let sql = "SELECT subject, max(at_ms) FROM (SELECT event, subject, at_ms FROM audit WHERE at_ms >= $1 \
               ORDER BY at_ms DESC, id DESC LIMIT $2) AS newest WHERE event = $3 AND subject IS NOT NULL GROUP BY subject";
    let rows = connection.query(sql, params![from_ms, NEWEST, event.as_str()]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

fn record(row: &Row) -> Result<AuditRecord, StoreError> {
    // Another program may have stored a text that is not an address.
    let address = row.get::<Option<String>>(5)?.and_then(|address| address.parse::<IpAddr>().ok());
    Ok(AuditRecord {
        at_ms: row.get(0)?,
        id: row.get(1)?,
        event: AuditEvent::stored(&row.get::<String>(2)?),
        actor: row.get(3)?,
        subject: row.get(4)?,
        origin: Origin { address, request_id: row.get(6)? },
        count: row.get(7)?,
        detail: row.get(8)?,
    })
}

/// The most webhooks that [`removed_webhooks`] returns.
const MOST_REMOVED: i64 = 200;

/// The webhooks that were last removed in the portal, at most 200, the latest first: the subject and the detail of each entry. A database
/// of the previous release has neither the details nor the index, so none is read there.
pub async fn removed_webhooks(
    connection: &mut Connection,
) -> Result<Vec<(String, Option<String>)>, StoreError> {
    if !connection.has_step(AUDIT_DETAILS) {
        return Ok(Vec::new());
    }
    // The event is part of the text, so that PostgreSQL finds the index of these entries.
    let sql = format!(
        "SELECT subject, detail FROM audit WHERE event = '{}' AND subject IS NOT NULL ORDER BY at_ms DESC LIMIT $1",
        AuditEvent::WebhookRemoved.as_str()
    );
    let rows = connection.query(&sql, params![MOST_REMOVED]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// A user who signed in, and the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedInUser {
    /// Its kind and key, such as `contact ada@quillfeather.example`.
    pub user: String,
    /// The client's address.
    pub address: IpAddr,
    /// When the user last signed in from the address, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Returns who has signed in since `from_ms` and from which addresses, at most `limit`, the latest first. It returns
/// at most the last eight addresses of a user, so that a user with many addresses leaves room for other users.
pub async fn signed_in(
    connection: &mut Connection,
    from_ms: i64,
    limit: i64,
) -> Result<Vec<SignedInUser>, StoreError> {
    let sql = "WITH found AS (SELECT actor, address, max(at_ms) AS at_ms, \
                 row_number() OVER (PARTITION BY actor ORDER BY max(at_ms) DESC) AS place FROM audit \
                 WHERE event = $1 AND at_ms >= $2 AND address IS NOT NULL GROUP BY actor, address), \
               signed_in AS (SELECT actor, address, at_ms FROM found WHERE place <= 8 ORDER BY at_ms DESC LIMIT $3) \
               SELECT 'contact ' || email_key, address, at_ms FROM signed_in \
                 JOIN contact ON code = substr(actor, 9) WHERE actor LIKE 'contact %' \
               UNION ALL SELECT 'employee ' || user_key, address, at_ms FROM signed_in \
                 JOIN employee ON code = substr(actor, 10) WHERE actor LIKE 'employee %' \
               ORDER BY 3 DESC";
    let params = params![AuditEvent::SignedIn.as_str(), from_ms, limit];
    let rows = connection.query(sql, params).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        // Another program may have stored a text that is not an address.
        if let Ok(address) = row.get::<String>(1)?.parse() {
            found.push(SignedInUser { user: row.get(0)?, address, at_ms: row.get(2)? });
        }
    }
    Ok(found)
}

/// Returns the events with more than `most` entries. It returns at most a hundred events, because another program may
/// store any text as an event.
pub async fn crowded(transaction: &mut Transaction, most: i64) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT event FROM audit GROUP BY event HAVING count(*) > $1 ORDER BY event LIMIT 100";
    transaction.column(sql, params![most]).await
}

/// The time of the newest of those entries of `event` that exceed the newest `most` entries, in milliseconds since
/// 1970; `None`: there are at most `most` entries.
pub async fn surplus(
    transaction: &mut Transaction,
    event: &str,
    most: i64,
) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT at_ms FROM audit WHERE event = $1 ORDER BY at_ms DESC, id DESC LIMIT 1 OFFSET $2";
    transaction.value(sql, params![event, most]).await
}

/// Deletes the oldest entries before `before_ms`, at most `limit`; if `event` is given, only entries of this event.
/// Returns how many it deleted.
pub async fn delete_before(
    transaction: &mut Transaction,
    event: Option<&str>,
    before_ms: i64,
    limit: i64,
) -> Result<u64, StoreError> {
    let mut search = Search::new("DELETE FROM audit WHERE (at_ms, id) IN (SELECT at_ms, id FROM audit");
    search.and("at_ms < $1", [before_ms.into()]);
    search.and_some("event = $1", event);
    let (sql, params) = search.end("ORDER BY at_ms, id LIMIT $1)", [limit.into()]);
    transaction.execute(&sql, params).await
}
