//! Saves the new orders of several requests in one transaction of two round trips.

use docket_program::clock::Clock;

use crate::connection::Transaction;
use crate::counter::begin_with_numbers;
use crate::database::Writer;
use crate::deliveries::{self, NewDelivery, NewHandOff};
use crate::error::StoreError;
use crate::events::{self, Event};
use crate::idempotency::{self, ToKeep};
use crate::orders::{self, StoredOrder};
use crate::sql::Statement;

/// Begins the transaction and takes the numbers of `count` web orders. Returns the first number.
pub async fn begin(writer: Writer, clock: &Clock, count: usize) -> Result<(Transaction, i64), StoreError> {
    begin_with_numbers(writer, clock, "web_order", count).await
}

/// The rows that one request saves.
#[derive(Clone)]
pub struct Save {
    /// The order.
    pub order: StoredOrder,
    /// The order's event; `None`: no webhook takes it.
    pub event: Option<Event>,
    /// The event's deliveries that are queued.
    pub deliveries: Vec<NewDelivery>,
    /// The event's deliveries whose first attempt this process makes.
    pub hand_offs: Vec<NewHandOff>,
    /// The response to keep under the request's Idempotency-Key.
    pub to_keep: Option<ToKeep>,
}

impl Save {
    /// The hand-offs, each with its event.
    pub fn handed_off(&self) -> impl Iterator<Item = (&Event, &NewHandOff)> {
        self.event.iter().flat_map(|event| self.hand_offs.iter().map(move |hand_off| (event, hand_off)))
    }
}

/// Stores the saves and commits. After [`StoreError::Unavailable`], they may be stored or not. After any other error
/// nothing is stored, and the error may come from any of the saves.
pub async fn commit(transaction: Transaction, saves: &[Save]) -> Result<(), StoreError> {
    let now_ms = transaction.now_ms();
    let mut statements: Vec<Statement> =
        orders::inserts(saves.iter().map(|save| &save.order)).into_iter().collect();
    let events: Vec<&Event> = saves.iter().filter_map(|save| save.event.as_ref()).collect();
    statements.extend(events::inserts(events, now_ms));
    statements.extend(deliveries::inserts(saves.iter().flat_map(|save| &save.deliveries), now_ms));
    statements.extend(deliveries::first_attempts(saves.iter().flat_map(Save::handed_off), now_ms));
    // In one order everywhere, so that two groups with the same keys do not wait for each other.
    let mut to_keep: Vec<&ToKeep> = saves.iter().filter_map(|save| save.to_keep.as_ref()).collect();
    to_keep.sort_by(|a, b| (&a.caller, &a.key).cmp(&(&b.caller, &b.key)));
    statements.extend(idempotency::inserts(to_keep, now_ms));
    transaction.commit_after(statements).await.map(drop)
}
