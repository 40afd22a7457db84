//! Hand-offs: new deliveries whose first attempt is made by the process that saves them. Only this file knows their table, `hand_off`.
//!
//! A row of the table has the hand-offs of one transaction to one webhook, and names the batch of their lease. `inserts` stores
//! hand-offs with the attempt begun. When attempts end, `take_out` takes the hand-offs that succeeded for the history, and `deletes`
//! deletes the rows of a batch with the last end. In any other case `queue` or `queue_held` moves a whole row to the queue first, so
//! the other steps read and write only the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use docket_domain::delivery::DeliveryId;
use docket_domain::event::EventId;
use docket_program::clock::Clock;

use super::attempt::{End, Held, Lease};
use super::history::{self, Unfinished};
use crate::connection::Transaction;
use crate::database::Writer;
use crate::error::StoreError;
use crate::events::{self, Event};
use crate::sql::{Param, Row, Rows, Statement, params};

/// A new delivery whose first attempt begins with the commit.
#[derive(Debug, Clone)]
pub struct NewHandOff {
    /// Its id.
    pub id: DeliveryId,
    /// The webhook's key.
    pub webhook: String,
    /// `namespace/name` of the webhook, for people.
    pub webhook_name: String,
    /// The lease of its batch, made by [`Lease::of_first_attempts`].
    pub lease: Lease,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO hand_off (batch, webhook, webhook_name, deliveries, lease_until_ms, started_at_ms) \
     {text, text, text, text, bigint, bigint}",
);

pub(crate) fn inserts<'a>(
    hand_offs: impl IntoIterator<Item = (&'a Event, &'a NewHandOff)>,
    now_ms: i64,
) -> Option<Statement> {
    let mut rows: BTreeMap<_, (&NewHandOff, BTreeMap<DeliveryId, &EventId>)> = BTreeMap::new();
    for (event, hand_off) in hand_offs {
        let key = (hand_off.lease.batch(), hand_off.webhook.as_str());
        let (_, deliveries) = rows.entry(key).or_insert((hand_off, BTreeMap::new()));
        deliveries.insert(hand_off.id, &event.id);
    }
    INSERT.statement(rows.into_values().map(
        |(NewHandOff { webhook, webhook_name, lease, .. }, deliveries)| {
            [
                Param::from(lease.batch()),
                webhook.into(),
                webhook_name.into(),
                serde_json::to_string(&deliveries).expect("ids are texts").into(),
                lease.until_ms(now_ms).into(),
                now_ms.into(),
            ]
        },
    ))
}

/// The deliveries of a row, from its column at `index`: the id of each delivery with the id of its event.
fn deliveries(row: &Row, index: usize) -> Result<BTreeMap<String, String>, StoreError> {
    serde_json::from_str(&row.get::<String>(index)?)
        .map_err(|_| StoreError::Unexpected("the deliveries of a hand-off"))
}

/// Batch and webhook of a row.
type RowKey<'a> = (&'a str, &'a str);

/// The row of an attempt with this lease; `None`: the attempt was begun in the queue.
fn key<'a>(lease: &'a Lease, webhook: &'a str) -> Option<RowKey<'a>> {
    lease.unstored.as_ref().map(|_| (lease.batch(), webhook))
}

fn key_of(end: &End) -> Option<RowKey<'_>> {
    key(end.lease.as_ref()?, &end.started.webhook)
}

/// Rows that no other transaction can move until the present transaction ends: of each batch the webhooks with their names.
type RemainingRows = HashMap<String, HashMap<String, String>>;

/// Locks rows in the order of [`LOCK`], so that two transactions do not wait for each other.
static KEEP: Rows = Rows::new(
    "SELECT batch, webhook, webhook_name FROM hand_off WHERE batch {$1 text} ORDER BY batch, webhook {for key share}",
);

/// The name of the end's webhook, if the attempt is a hand-off whose row is in `kept`.
fn name_of<'a>(kept: &'a RemainingRows, end: &End) -> Option<&'a str> {
    let (batch, webhook) = key_of(end)?;
    kept.get(batch)?.get(webhook).map(String::as_str)
}

/// Begins the transaction that stores `ends`, and takes out the deliveries of `last`, the ends that are final. Returns these deliveries
/// as they were, by id, without those whose lease was lost. `again`: an earlier commit without a response may have stored some ends.
pub(super) async fn take_out(
    writer: Writer,
    clock: &Clock,
    ends: &[End],
    last: Vec<&End>,
    again: bool,
) -> Result<(Transaction, HashMap<DeliveryId, Unfinished>), StoreError> {
    let (handed_off, queued): (Vec<&End>, Vec<&End>) =
        last.into_iter().partition(|end| key_of(end).is_some());
    let (mut transaction, mut kept, mut taken) = begin(writer, clock, ends, &queued).await?;
    // A hand-off that has not just succeeded goes through the queue.
    let through_queue: BTreeSet<RowKey<'_>> = ends
        .iter()
        .filter(|end| (again || end.outcome.failure().is_some()) && name_of(&kept, end).is_some())
        .filter_map(key_of)
        .collect();
    let moved = move_to_queue(&mut transaction, through_queue).await?;
    for (batch, webhook) in moved {
        kept.get_mut(&batch).and_then(|webhooks| webhooks.remove(&webhook));
    }
    let mut late = Vec::new();
    for end in handed_off {
        match name_of(&kept, end) {
            Some(name) => drop(taken.insert(end.started.id, Unfinished::at_first(&end.started, name))),
            None => late.push(end),
        }
    }
    taken.extend(history::taken_out(transaction.all(history::take_out(&late)).await?)?);
    Ok((transaction, taken))
}

/// Begins a transaction: keeps the rows with hand-offs of `ends` until it ends, and takes the deliveries of `queued` ends out of the queue.
async fn begin(
    writer: Writer,
    clock: &Clock,
    ends: &[End],
    queued: &[&End],
) -> Result<(Transaction, RemainingRows, HashMap<DeliveryId, Unfinished>), StoreError> {
    let batches: BTreeSet<&str> = ends.iter().filter_map(key_of).map(|(batch, _)| batch).collect();
    let keep = KEEP.statement(batches.into_iter().map(|batch| [Param::from(batch)]));
    // Without a hand-off there is no statement for the rows, and no result of one.
    let results_of_keep = usize::from(keep.is_some());
    let statements = keep.into_iter().chain(history::take_out(queued));
    let (transaction, results) = writer.begin_with(clock, statements).await?;
    let mut results = results.into_iter();
    let mut kept = RemainingRows::new();
    for row in results.by_ref().take(results_of_keep).flatten() {
        kept.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
    }
    Ok((transaction, kept, history::taken_out(results)?))
}

static DELETE: Rows = Rows::new("DELETE FROM hand_off WHERE batch {$1 text}");

/// The statement that deletes the rows of each batch whose last ends are among these. If two transactions store ends of a batch at the same
/// time, its rows stay, and the next sweep deletes them.
pub(super) fn deletes(ends: &[End]) -> Option<Statement> {
    let mut batches: BTreeMap<&str, (usize, &AtomicUsize)> = BTreeMap::new();
    for lease in ends.iter().filter_map(|end| end.lease.as_ref()) {
        if let Some(unstored) = lease.unstored.as_deref() {
            batches.entry(lease.batch()).or_insert((0, unstored)).0 += 1;
        }
    }
    batches.retain(|_, (ended, unstored)| *ended >= unstored.load(Ordering::Relaxed));
    DELETE.statement(batches.into_keys().map(|batch| [Param::from(batch)]))
}

/// Counts these ends, which are stored now, for the next [`deletes`].
pub(super) fn count_stored(ends: &[End]) {
    for unstored in ends.iter().filter_map(|end| end.lease.as_ref()?.unstored.as_deref()) {
        unstored.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which hand-offs to queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandOffSelection<'a> {
    All,
    /// Hand-offs that share a row with one of these deliveries.
    With(&'a [DeliveryId]),
    /// Hand-offs whose lease has expired.
    Expired,
}

/// Moves unfinished hand-offs to the queue. Attempts in progress keep their lease there. Their outcomes can't be stored until this
/// transaction ends.
pub(crate) async fn queue(
    transaction: &mut Transaction,
    which: HandOffSelection<'_>,
) -> Result<(), StoreError> {
    let (sql, params) = match which {
        HandOffSelection::All => ("SELECT batch, webhook FROM hand_off", Vec::new()),
        HandOffSelection::Expired => {
            ("SELECT batch, webhook FROM hand_off WHERE lease_until_ms <= $1", params![transaction.now_ms()])
        }
        // Only this case reads the deliveries, because the size of a result is limited.
        HandOffSelection::With(_) => ("SELECT batch, webhook, deliveries FROM hand_off", Vec::new()),
    };
    let rows = transaction.query(sql, params).await?;
    let mut keys: Vec<(String, String)> = Vec::new();
    for row in rows {
        if let HandOffSelection::With(ids) = which
            && !has_one_of(&row, ids)
        {
            continue;
        }
        keys.push((row.get(0)?, row.get(1)?));
    }
    // In the order in which transactions that store outcomes lock the rows.
    keys.sort();
    for keys in keys.chunks(AT_ONCE) {
        let keys = keys.iter().map(|(batch, webhook)| (batch.as_str(), webhook.as_str())).collect();
        move_to_queue(transaction, keys).await?;
    }
    Ok(())
}

/// Whether a row has one of these deliveries. A row that another program has made unreadable has none.
fn has_one_of(row: &Row, ids: &[DeliveryId]) -> bool {
    let is_one = |id: &String| id.parse::<DeliveryId>().is_ok_and(|id| ids.contains(&id));
    deliveries(row, 2).is_ok_and(|deliveries| deliveries.keys().any(is_one))
}

/// Moves hand-offs that share a row with one of these attempts to the queue, as [`queue`] does.
pub(super) async fn queue_held(transaction: &mut Transaction, held: &[Held<'_>]) -> Result<(), StoreError> {
    let keys = held.iter().filter_map(|held| key(held.lease, held.webhook)).collect();
    move_to_queue(transaction, keys).await.map(drop)
}

/// Rows that are queued with one statement: some 5 kB each.
const AT_ONCE: usize = 200;

// These statements may also find a row with the batch of one pair and the webhook of another. Such a row moves too, which does no harm.
static LOCK: Rows = Rows::new(
    "SELECT batch FROM hand_off WHERE batch {$1 text} AND webhook {$2 text} ORDER BY batch, webhook FOR UPDATE",
);
static TAKE_OUT: Rows = Rows::new(
    "DELETE FROM hand_off WHERE batch {$1 text} AND webhook {$2 text} \
     RETURNING batch, webhook, webhook_name, deliveries, lease_until_ms, started_at_ms",
);
static QUEUE: Rows = Rows::new(
    "INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, lease_token, \
     lease_until_ms, started_at_ms, created_at_ms) \
     WITH moved (id, event_id, webhook, webhook_name, lease_token, lease_until_ms, started_at_ms) AS \
     ({text, text, text, text, text, bigint, bigint}) \
     SELECT id, event_id, webhook, webhook_name, 'Pending', 1, started_at_ms, lease_token, lease_until_ms, \
     started_at_ms, started_at_ms FROM moved \
     WHERE NOT EXISTS (SELECT 1 FROM delivery_history h WHERE h.id = moved.id)",
);

/// Moves the unfinished hand-offs of these rows to the queue. Returns batch and webhook of the rows that it moved.
async fn move_to_queue(
    transaction: &mut Transaction,
    keys: BTreeSet<RowKey<'_>>,
) -> Result<Vec<(String, String)>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<[Param; 2]> =
        keys.into_iter().map(|(batch, webhook)| [batch.into(), webhook.into()]).collect();
    // Waits, in the order of `KEEP`, for transactions that are storing successes of these hand-offs. The last statement sees the successes.
    transaction.lock_all(LOCK.statement(keys.clone())).await?;
    let rows = transaction.all(TAKE_OUT.statement(keys)).await?;
    let (mut hand_offs, mut moved) = (Vec::new(), Vec::new());
    for row in rows.iter().flatten() {
        let (batch, webhook, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (until_ms, started_at_ms): (i64, i64) = (row.get(4)?, row.get(5)?);
        hand_offs.extend(deliveries(row, 3)?.into_iter().map(|(id, event_id)| {
            let token = format!("{batch}{id}");
            [
                id.into(),
                event_id.into(),
                Param::from(&webhook),
                Param::from(&name),
                token.into(),
                until_ms.into(),
                started_at_ms.into(),
            ]
        }));
        moved.push((batch, webhook));
    }
    transaction.all(QUEUE.statement(hand_offs)).await?;
    Ok(moved)
}

static DELETE_UNDELIVERED: Rows = Rows::new(
    "DELETE FROM event WHERE id {$1 text} AND NOT EXISTS (SELECT 1 FROM delivery_history h WHERE h.event_id = event.id) \
     AND NOT EXISTS (SELECT 1 FROM delivery_queue q WHERE q.event_id = event.id) \
     AND NOT EXISTS (SELECT 1 FROM hand_off h WHERE h.deliveries LIKE '%' || event.id || '%')",
);

/// Deletes the events among these that no delivery carries any more. One statement reads all tables, because a delivery that ends meanwhile
/// is in one of them at any moment.
pub async fn delete_undelivered_events(
    transaction: &mut Transaction,
    ids: &[String],
) -> Result<(), StoreError> {
    // Waits for transactions that are queueing a delivery of one of the events. The DELETE then sees this delivery.
    events::lock_many(transaction, ids).await?;
    transaction.all(DELETE_UNDELIVERED.statement(ids.iter().map(|id| [Param::from(id)]))).await.map(drop)
}
