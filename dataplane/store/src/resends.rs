//! Bulk resends: the choice of dead letters, the request, its progress, and how it is stopped.

use docket_crds::{EventCode, webhook_key};
use docket_domain::delivery::Status;
use docket_domain::event::LONGEST_EVENT_ID;

use crate::connection::{Connection, Transaction};
use crate::deliveries::{self, search::named};
use crate::error::StoreError;
use crate::events::NO_TEST;
use crate::marks::{self, OPEN, SET_ASIDE};
use crate::sql::{Param, Row, Search, params, read};

/// The choice of dead letters to resend or to set aside. Times are inclusive at the start and exclusive at the end.
/// The default chooses none, because its limit is 0.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// The webhook's key.
    pub webhook: String,
    /// The webhook's customer; `None`: unknown at this moment.
    pub customer_code: Option<String>,
    /// Only dead letters of these event codes; `None`: dead letters of any event code.
    pub event_codes: Option<Vec<EventCode>>,
    /// Created at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Created before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Ended before this time, in milliseconds since 1970.
    pub ended_before_ms: Option<i64>,
    /// At most this many dead letters, the oldest first.
    pub limit: i64,
    /// Whether to choose dead letters that are set aside, instead of open ones.
    pub set_aside: bool,
    /// Whether to choose only dead letters that can be resent. The event's id must fit into a header, and another
    /// program may have changed it.
    pub sendable: bool,
}

/// A dead letter to resend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadDelivery {
    /// The delivery.
    pub id: String,
    /// The id of its event.
    pub event_id: String,
    /// When the delivery was created, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// The number of chosen dead letters, and when the first and the last of them were created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadLetterRange {
    /// How many.
    pub count: i64,
    /// When the oldest was created, in milliseconds since 1970; `None`: there are none.
    pub oldest_ms: Option<i64>,
    /// When the newest was created, in milliseconds since 1970; `None`: there are none.
    pub newest_ms: Option<i64>,
}

impl DeadLetterRange {
    /// The range of these dead letters.
    pub fn of(dead: &[DeadDelivery]) -> Self {
        let times = || dead.iter().map(|dead| dead.created_at_ms);
        Self { count: dead.len() as i64, oldest_ms: times().min(), newest_ms: times().max() }
    }
}

/// The dead letters of a webhook, oldest first, without dead letters of test events. Of each event, only the latest delivery to the webhook
/// counts. So a dead letter that was resent is not sent a third time.
pub async fn dead_letters(
    connection: &mut Connection,
    filter: &DeadFilter,
) -> Result<Vec<DeadDelivery>, StoreError> {
    let webhooks = names(connection, &filter.webhook).await?;
    let columns = "SELECT d.id, d.event_id, d.created_at_ms";
    let (sql, params) = dead(columns, filter, &webhooks, connection.is_postgres());
    let rows = connection.query(&sql, params).await?;
    rows.iter().map(|row| Ok(read!(row => DeadDelivery { id, event_id: event_id, created_at_ms }))).collect()
}

/// The values in the history's column `webhook` for the webhook with this key: the key, and uids in older rows.
pub(crate) async fn names(connection: &mut Connection, key: &str) -> Result<Vec<String>, StoreError> {
    let mut names = vec![key.to_owned()];
    if let Some(full_name) = webhook_key::full_name(key) {
        let found = named(connection, full_name).await?;
        names.extend(found.into_iter().filter(|name| webhook_key::full_name(name).is_none()));
    }
    Ok(names)
}

/// The statement that selects the chosen dead letters from the history `d`. `webhooks` are the [`names`] of the
/// filter's webhook.
pub(crate) fn dead(
    select: &str,
    filter: &DeadFilter,
    webhooks: &[String],
    is_postgres: bool,
) -> (String, Vec<Param>) {
    let DeadFilter { customer_code, event_codes, from_ms, to_ms, limit, set_aside, sendable, .. } = filter;
    // The key of a webhook names its customer, so most choices need not read the event of each dead letter.
    let is_of_key =
        |code: &String| webhooks.len() == 1 && webhook_key::customer_code(&webhooks[0]) == Some(code);
    let reads_events = *sendable || event_codes.is_some() || !customer_code.as_ref().is_none_or(is_of_key);
    let events = if reads_events { " JOIN event e ON e.id = d.event_id" } else { "" };
    let mut search = Search::new(&format!("{select} FROM delivery_history d{events}"));
    search.and(if *set_aside { SET_ASIDE } else { OPEN }, []);
    let places: Vec<String> = (1..=webhooks.len()).map(|place| format!("${place}")).collect();
    search.and(&format!("d.webhook IN ({})", places.join(", ")), webhooks.iter().map(Param::from));
    search.and(NO_TEST, []);
    if reads_events {
        search.and_some("e.customer_code = $1", customer_code.as_ref());
    }
    if let Some(codes) = event_codes {
        // The codes are Docket's own words, so they need no escaping. The empty text matches no event, so an empty
        // list finds none.
        let codes: Vec<String> = codes.iter().map(|code| format!(", '{code}'")).collect();
        search.and(&format!("e.code IN (''{})", codes.concat()), []);
    }
    search.and_some("d.created_at_ms >= $1", *from_ms);
    search.and_some("d.created_at_ms < $1", *to_ms);
    search.and_some("d.finished_at_ms < $1", filter.ended_before_ms);
    if *sendable {
        // The condition is the rule of `Row::event_id`. PostgreSQL estimates that few rows pass a comparison with a
        // function's result, but that half of them pass a CASE.
        let is_printable = match is_postgres {
            true => r#"d.event_id COLLATE "C" !~ '[^!-~]'"#,
            // Functions of SQLite read a text up to the first NUL.
            false => "d.event_id NOT GLOB '*[^!-~]*' AND instr(d.event_id, char(0)) = 0",
        };
        let length = format!("length(d.event_id) BETWEEN 1 AND {LONGEST_EVENT_ID}");
        search.and(&format!("CASE WHEN {length} AND {is_printable} THEN TRUE ELSE FALSE END"), []);
    }
    // The marks are not enough, because older programs, and other programs that write the queue, resend without a
    // mark. The condition is written so that PostgreSQL can use only the index by event. Without statistics, as after
    // an outage that filled the table, it chose an index by webhook and compared each dead letter with all others. A
    // delivery in the queue is always later than one in the history.
    let latest = "NOT EXISTS (SELECT 1 FROM delivery_history n WHERE n.event_id = d.event_id \
                  AND n.webhook_name = d.webhook_name AND (n.created_at_ms, n.id) > (d.created_at_ms, d.id)) \
                  AND NOT EXISTS (SELECT 1 FROM delivery_queue q WHERE q.event_id = d.event_id \
                  AND q.webhook_name = d.webhook_name)";
    search.and(latest, []);
    search.end("ORDER BY d.created_at_ms, d.id LIMIT $1", [(*limit).into()])
}

/// The number of dead letters that [`dead_letters()`] would return, and the number without the filter's limit. It
/// counts at most `most` or the limit, whichever is higher.
pub async fn extent(
    connection: &mut Connection,
    filter: &DeadFilter,
    most: i64,
) -> Result<(DeadLetterRange, i64), StoreError> {
    let limit = filter.limit;
    let counted = DeadFilter { limit: limit.max(most), ..filter.clone() };
    let webhooks = names(connection, &filter.webhook).await?;
    let (sql, params) =
        dead("SELECT d.created_at_ms AS at_ms", &counted, &webhooks, connection.is_postgres());
    // The number is Docket's own, so it needs no escaping.
    let sql = format!(
        "SELECT count(CASE WHEN place <= {limit} THEN 1 END), min(at_ms), max(CASE WHEN place <= {limit} THEN at_ms END), \
         count(*) FROM (SELECT at_ms, row_number() OVER (ORDER BY at_ms) AS place FROM ({sql}) AS found) AS chosen"
    );
    let rows = connection.query(&sql, params).await?;
    let row = rows.first().ok_or(StoreError::Unexpected("a count without a row"))?;
    Ok((DeadLetterRange { count: row.get(0)?, oldest_ms: row.get(1)?, newest_ms: row.get(2)? }, row.get(3)?))
}

/// The `namespace/name` and the customer of a webhook that has dead letters. `name` is its name, its key or, in older
/// rows, its uid. If several webhooks had this name, the last webhook counts.
pub async fn webhook_of_dead(
    connection: &mut Connection,
    name: &str,
) -> Result<Option<(String, String)>, StoreError> {
    let mut webhooks = named(connection, name).await?;
    webhooks.push(name.to_owned());
    // One look-up for each webhook, since only the dead letters of one webhook have an index in the order of time.
    let last = |place| {
        format!(
            "(SELECT l.id FROM delivery_history l WHERE l.status = 'DeadLetter' AND l.webhook = ${place} \
             ORDER BY l.created_at_ms DESC LIMIT 1)"
        )
    };
    let last: Vec<String> = (1..=webhooks.len()).map(last).collect();
    let sql = format!(
        "SELECT d.webhook_name, e.customer_code FROM delivery_history d JOIN event e ON e.id = d.event_id \
         WHERE d.id IN ({}) ORDER BY d.created_at_ms DESC LIMIT 1",
        last.join(", ")
    );
    let row = connection.query_opt(&sql, webhooks.iter().map(Param::from).collect()).await?;
    row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// A bulk resend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct Resend {
    pub id: String,
    pub webhook: String,
    pub webhook_name: String,
    pub from_ms: Option<i64>,
    pub to_ms: Option<i64>,
    pub per_second: i64,
    /// The number of deliveries that it queued.
    pub count: i64,
    pub requested_by: String,
    pub created_at_ms: i64,
    pub stopped_by: Option<String>,
    pub stopped_at_ms: Option<i64>,
    pub taken_back: i64,
}

/// Stores a bulk resend, in the transaction that queues its deliveries.
pub async fn insert(transaction: &mut Transaction, resend: &Resend) -> Result<(), StoreError> {
    let sql = "INSERT INTO resend (id, webhook, webhook_name, from_ms, to_ms, per_second, count, requested_by, \
               created_at_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let Resend { id, webhook, webhook_name, from_ms, to_ms, per_second, count, .. } = resend;
    let Resend { requested_by, created_at_ms, .. } = resend;
    let params = params![
        id,
        webhook,
        webhook_name,
        *from_ms,
        *to_ms,
        *per_second,
        *count,
        requested_by,
        *created_at_ms
    ];
    transaction.execute(sql, params).await.map(|_| ())
}

/// Bulk resends, newest first; if `webhooks` (keys) are given, only to these. `after` is the `created_at_ms` and the
/// id of the last bulk resend on the previous page.
pub async fn search(
    connection: &mut Connection,
    webhooks: Option<&[String]>,
    id: Option<&str>,
    after: Option<&(i64, String)>,
    limit: i64,
) -> Result<Vec<Resend>, StoreError> {
    let mut search = Search::new(
        "SELECT id, webhook, webhook_name, from_ms, to_ms, per_second, count, requested_by, created_at_ms, \
         stopped_by, stopped_at_ms, taken_back FROM resend",
    );
    search.and_some("id = $1", id);
    if let Some(webhooks) = webhooks {
        // The empty text is no key, so an empty list of webhooks finds no bulk resend.
        let places: Vec<String> = (1..=webhooks.len()).map(|place| format!(", ${place}")).collect();
        search.and(&format!("webhook IN (''{})", places.concat()), webhooks.iter().map(Param::from));
    }
    if let Some((created_at_ms, id)) = after {
        search.and("(created_at_ms, id) < ($1, $2)", [(*created_at_ms).into(), id.into()]);
    }
    let (sql, params) = search.end("ORDER BY created_at_ms DESC, id DESC LIMIT $1", [limit.into()]);
    let rows = connection.query(&sql, params).await?;
    let resend = |row: &Row| {
        Ok(read!(row => Resend {
            id, webhook, webhook_name, from_ms, to_ms, per_second, count, requested_by, created_at_ms, stopped_by,
            stopped_at_ms, taken_back,
        }))
    };
    rows.iter().map(resend).collect()
}

/// The number of deliveries of each of these bulk resends in each status.
pub async fn statuses(
    connection: &mut Connection,
    ids: &[String],
) -> Result<Vec<(String, Status, i64)>, StoreError> {
    let sql = "SELECT resend_id, status, count(*) FROM delivery WHERE resend_id IN ({values}) GROUP BY resend_id, status";
    let rows = connection.query_in(sql, Vec::new(), ids).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.parsed(1)?, row.get(2)?))).collect()
}

/// Deletes the deliveries of a bulk resend that no worker has attempted, and records who stopped it. Returns how many
/// it deleted; `None`: the bulk resend does not exist. Stopping it again deletes only deliveries that workers have
/// given back since.
pub async fn stop(
    transaction: &mut Transaction,
    id: &str,
    stopped_by: &str,
    now_ms: i64,
) -> Result<Option<i64>, StoreError> {
    let sql = "UPDATE resend SET stopped_by = coalesce(stopped_by, $1), stopped_at_ms = coalesce(stopped_at_ms, $2) \
               WHERE id = $3";
    if transaction.execute(sql, params![stopped_by, now_ms, id]).await? == 0 {
        return Ok(None);
    }
    let sql = "DELETE FROM delivery_queue WHERE resend_id = $1 AND attempt_count = 0 AND lease_token IS NULL \
               RETURNING event_id, resend_of";
    let rows = transaction.query(sql, params![id]).await?;
    let event_ids = rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()?;
    let originals = rows.iter().map(|row| row.get(1)).collect::<Result<Vec<Option<String>>, _>>()?;
    marks::unmark(transaction, &originals.into_iter().flatten().collect::<Vec<_>>()).await?;
    // Retention may have deleted the dead letters meanwhile: then these were the last ones to need their events.
    deliveries::delete_undelivered_events(transaction, &event_ids).await?;
    let taken_back = event_ids.len() as i64;
    let sql = "UPDATE resend SET taken_back = taken_back + $1 WHERE id = $2";
    transaction.execute(sql, params![taken_back, id]).await?;
    Ok(Some(taken_back))
}
