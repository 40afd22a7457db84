//! Hand-offs: new deliveries whose first attempt is made by the process that saves them.
//!
//! They have no row each. The hand-offs of a transaction to one webhook share a row of the table `hand_off`, which names the batch of
//! their lease. A success goes from there to the history at once, and the row is deleted with the last of its batch. Whatever else
//! happens to a hand-off, those of its row move to the queue first, so that everything else knows rows of the queue only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use docket_domain::delivery::DeliveryId;
use docket_domain::event::EventId;

use super::attempt::{End, Lease};
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::events::Event;
use crate::sql::{Param, Row, Rows, Statement};

/// A new delivery whose first attempt begins with the commit.
#[derive(Debug, Clone)]
pub struct NewHandOff {
    /// Its id.
    pub id: DeliveryId,
    /// The webhook's key.
    pub webhook: String,
    /// `namespace/name` of the webhook, for people.
    pub webhook_name: String,
    /// Of its batch: [`Lease::of_first_attempts`].
    pub lease: Lease,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO hand_off (batch, webhook, webhook_name, deliveries, lease_until_ms, started_at_ms) \
     {text, text, text, text, bigint, bigint}",
);

/// The statement that stores hand-offs, each with its event.
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

/// The deliveries of a row, from its column at `index`: their ids, each with that of its event.
fn deliveries(row: &Row, index: usize) -> Result<BTreeMap<String, String>, StoreError> {
    serde_json::from_str(&row.get::<String>(index)?)
        .map_err(|_| StoreError::Unexpected("the deliveries of a hand-off"))
}

/// The rows of batches that are still there: of each batch the webhooks with their names. They stay until the transaction ends.
pub(super) struct Kept(HashMap<String, HashMap<String, String>>);

/// In the order of [`LOCK`], so that two transactions do not wait for each other.
static KEEP: Rows = Rows::new(
    "SELECT batch, webhook, webhook_name FROM hand_off WHERE batch {$1 text} ORDER BY batch, webhook {for key share}",
);

impl Kept {
    /// The statement that keeps the rows of these batches; [`Self::read`] reads its result.
    pub(super) fn keep<'a>(batches: impl IntoIterator<Item = &'a str>) -> Option<Statement> {
        let batches: BTreeSet<&str> = batches.into_iter().collect();
        KEEP.statement(batches.into_iter().map(|batch| [Param::from(batch)]))
    }

    pub(super) fn read(rows: impl Iterator<Item = Row>) -> Result<Self, StoreError> {
        let mut kept: HashMap<_, HashMap<_, _>> = HashMap::new();
        for row in rows {
            kept.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
        }
        Ok(Self(kept))
    }

    /// The name of the webhook of this end, if it is of a hand-off whose row is there.
    pub(super) fn webhook_name(&self, end: &End) -> Option<&str> {
        let (batch, webhook) = end.hand_off()?;
        self.0.get(batch)?.get(webhook).map(String::as_str)
    }

    /// Forgets rows that were moved to the queue.
    pub(super) fn forget(&mut self, moved: Vec<Key>) {
        for (batch, webhook) in moved {
            self.0.get_mut(&batch).and_then(|webhooks| webhooks.remove(&webhook));
        }
    }
}

static DELETE: Rows = Rows::new("DELETE FROM hand_off WHERE batch {$1 text}");

/// The statement that deletes the rows of batches of which these ends are the last ones. If two transactions store ends of a batch at
/// once, its rows stay, and the next sweep deletes them.
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

/// Which hand-offs are to be queued.
#[derive(Debug, Clone, Copy)]
pub enum HandOffs<'a> {
    /// All.
    All,
    /// Those that share a row with one of these deliveries.
    With(&'a [DeliveryId]),
    /// Those whose lease has expired.
    Expired,
}

/// Moves hand-offs to the queue that are not finished. Those under way keep their lease there; until this transaction ends, their
/// outcomes can't be stored.
pub async fn queue_hand_offs(transaction: &mut Transaction, which: HandOffs<'_>) -> Result<(), StoreError> {
    // Deliveries only where they are looked at: an answer of the database is bounded.
    let sql = match which {
        HandOffs::With(_) => "SELECT batch, webhook, lease_until_ms, deliveries FROM hand_off",
        HandOffs::All | HandOffs::Expired => "SELECT batch, webhook, lease_until_ms FROM hand_off",
    };
    let rows = transaction.query(sql, Vec::new()).await?;
    let mut keys: Vec<Key> = Vec::new();
    for row in rows {
        let is_one = match which {
            HandOffs::All => true,
            HandOffs::Expired => row.get::<i64>(2)? <= transaction.now_ms(),
            HandOffs::With(ids) => has_one_of(&row, ids),
        };
        if is_one {
            keys.push((row.get(0)?, row.get(1)?));
        }
    }
    // In the order in which outcomes lock them.
    keys.sort();
    for keys in keys.chunks(AT_ONCE) {
        queue(transaction, keys.iter().map(|(batch, webhook)| (batch.as_str(), webhook.as_str()))).await?;
    }
    Ok(())
}

/// Whether a row has one of these. A row that another program has spoiled has none.
fn has_one_of(row: &Row, ids: &[DeliveryId]) -> bool {
    let is_one = |id: &String| id.parse::<DeliveryId>().is_ok_and(|id| ids.contains(&id));
    deliveries(row, 3).is_ok_and(|deliveries| deliveries.keys().any(is_one))
}

/// Rows that are queued with one statement: some 5 kB each.
const AT_ONCE: usize = 200;

/// Batch and webhook of a row.
pub(super) type Key = (String, String);

// These may find more rows than they are asked for: those of one pair's batch and another one's webhook.
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

/// Moves the hand-offs of rows, named by batch and webhook, to the queue that are not finished. Returns the rows that are moved.
pub(super) async fn queue<'a>(
    transaction: &mut Transaction,
    rows: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Key>, StoreError> {
    let rows: BTreeSet<(&str, &str)> = rows.into_iter().collect();
    let rows: Vec<[Param; 2]> =
        rows.into_iter().map(|(batch, webhook)| [batch.into(), webhook.into()]).collect();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // Waits, in the order of `KEEP`, for transactions that are just storing successes of them; the last statement sees these.
    transaction.lock_all(LOCK.statement(rows.clone())).await?;
    let taken = transaction.all(TAKE_OUT.statement(rows)).await?;
    let (mut moved, mut keys) = (Vec::new(), Vec::new());
    for row in taken.iter().flatten() {
        let (batch, webhook, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (until_ms, started_at_ms): (i64, i64) = (row.get(4)?, row.get(5)?);
        moved.extend(deliveries(row, 3)?.into_iter().map(|(id, event_id)| {
            let token = format!("{batch}{id}");
            let name = name.as_str();
            [
                id.into(),
                event_id.into(),
                Param::from(&webhook),
                name.into(),
                token.into(),
                until_ms.into(),
                started_at_ms.into(),
            ]
        }));
        keys.push((batch, webhook));
    }
    transaction.all(QUEUE.statement(moved)).await?;
    Ok(keys)
}
