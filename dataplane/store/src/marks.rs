//! The marks of dead letters. A dead letter counts until its event is sent to the webhook again, or until it is set aside.
//!
//! Both are marks on its row, so that the dead letters that count have an index of their own: counting them does not look at what
//! was sent since.

use docket_domain::delivery::DeadLetter;

use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{Param, Rows};

/// The condition of a dead letter that counts, in a statement about `delivery_history` without another table that has its columns.
pub(crate) const OPEN: &str = "status = 'DeadLetter' AND resent IS NULL AND set_aside_at_ms IS NULL";
/// The condition of a dead letter that is set aside.
pub(crate) const SET_ASIDE: &str = "status = 'DeadLetter' AND set_aside_at_ms IS NOT NULL";
/// The condition of a dead letter that was resent.
const RESENT: &str = "status = 'DeadLetter' AND resent IS NOT NULL";

/// The condition of the dead letters of which this became.
pub(crate) const fn condition(of: DeadLetter) -> &'static str {
    match of {
        DeadLetter::Open => OPEN,
        DeadLetter::Resent => RESENT,
        DeadLetter::SetAside => SET_ASIDE,
    }
}

// By the webhook's name, as in `resends::dead`: a dead letter of before keys has a uid.
static MARK_RESENT: Rows = Rows::new(
    "UPDATE delivery_history SET resent = TRUE, set_aside_by = NULL, set_aside_at_ms = NULL \
     WHERE event_id {$1 text} AND webhook_name {$2 text} AND status = 'DeadLetter' AND resent IS NULL",
);
static UNMARK: Rows = Rows::new("UPDATE delivery_history SET resent = NULL WHERE id {$1 text}");

/// Marks the dead letters of these events, each to the webhook of this name: a new delivery counts instead. An event has one customer, so
/// that the name is enough.
pub(crate) async fn mark_resent(
    transaction: &mut Transaction,
    events_and_names: impl Iterator<Item = [Param; 2]>,
) -> Result<(), StoreError> {
    transaction.all(MARK_RESENT.statement(events_and_names)).await.map(drop)
}

/// Removes the marks of these dead letters, whose resend was withdrawn.
pub(crate) async fn unmark(transaction: &mut Transaction, ids: &[String]) -> Result<(), StoreError> {
    transaction.all(UNMARK.statement(ids.iter().map(|id| [Param::from(id)]))).await.map(drop)
}
