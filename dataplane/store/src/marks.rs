//! The marks of dead letters. A dead letter counts (is open) until its event is resent to the webhook, or until it is
//! set aside.
//!
//! Both are marks in its row. So open dead letters have an index of their own, and counting them does not read later
//! deliveries.

use docket_domain::delivery::DeadLetter;

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{Param, Rows};

/// The condition of an open dead letter, in a statement about `delivery_history` in which no other table has its columns.
pub(crate) const OPEN: &str = "status = 'DeadLetter' AND resent IS NULL AND set_aside_at_ms IS NULL";
/// The condition of a dead letter that is set aside.
pub(crate) const SET_ASIDE: &str = "status = 'DeadLetter' AND set_aside_at_ms IS NOT NULL";
/// The condition of a dead letter that was resent.
const RESENT: &str = "status = 'DeadLetter' AND resent IS NOT NULL";

/// The condition of dead letters in this state.
pub(crate) const fn condition(of: DeadLetter) -> &'static str {
    match of {
        DeadLetter::Open => OPEN,
        DeadLetter::Resent => RESENT,
        DeadLetter::SetAside => SET_ASIDE,
    }
}

// The statement finds dead letters by the webhook's name, as in `resends::dead`, because an older dead letter has the webhook's
// uid.
static MARK_RESENT: Rows = Rows::new(
    "UPDATE delivery_history SET resent = TRUE, set_aside_by = NULL, set_aside_at_ms = NULL \
     WHERE event_id {$1 text} AND webhook_name {$2 text} AND status = 'DeadLetter' AND resent IS NULL",
);
static UNMARK: Rows = Rows::new("UPDATE delivery_history SET resent = NULL WHERE id {$1 text}");

/// Marks the dead letters of these events to the webhooks with these names as resent: a new delivery counts instead.
/// The name is enough, because an event belongs to one customer.
pub(crate) async fn mark_resent(
    transaction: &mut Transaction,
    events_and_names: impl Iterator<Item = [Param; 2]>,
) -> Result<(), StoreError> {
    transaction.all(MARK_RESENT.statement(events_and_names)).await.map(drop)
}

/// Removes the marks of these dead letters, because their resend was withdrawn.
pub(crate) async fn unmark(transaction: &mut Transaction, ids: &[String]) -> Result<(), StoreError> {
    transaction.all(UNMARK.statement(ids.iter().map(|id| [Param::from(id)]))).await.map(drop)
}
