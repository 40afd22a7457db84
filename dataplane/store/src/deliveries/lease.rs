//! Renews leases, gives them back, and ends those of dead processes. What they hold moves to the queue first.

use docket_program::owner::Owner;

use super::attempt::Held;
use super::first_attempt::{self, HandOffSelection};
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// Extends those of these leases that are still held, to `until_ms` in milliseconds since 1970.
pub async fn renew(
    transaction: &mut Transaction,
    held: &[Held<'_>],
    until_ms: i64,
) -> Result<(), StoreError> {
    first_attempt::queue_held(transaction, held).await?;
    // A token is of one delivery only, so each row is compared with its own.
    let sql = format!(
        "UPDATE delivery_queue SET lease_until_ms = $1 WHERE id IN ({}) AND lease_token IN ({})",
        slots(2),
        slots(2 + SLOTS)
    );
    for chunk in held.chunks(SLOTS) {
        let mut params = params![until_ms];
        params.extend(filled(chunk.iter().map(|held| held.id.to_string().into())));
        params.extend(filled(chunk.iter().map(|held| held.lease.token_of(held.id).into())));
        transaction.execute(&sql, params).await?;
    }
    Ok(())
}

/// Gives back an attempt whose POST has not begun. The attempt does not count. `false`: the lease was lost.
pub async fn give_back(transaction: &mut Transaction, held: &Held<'_>) -> Result<bool, StoreError> {
    first_attempt::queue_held(transaction, std::slice::from_ref(held)).await?;
    let sql = "UPDATE delivery_queue SET attempt_count = attempt_count - 1, lease_token = NULL, lease_until_ms = NULL, \
               started_at_ms = NULL WHERE id = $1 AND lease_token = $2";
    Ok(transaction.execute(sql, params![held.id.to_string(), held.lease.token_of(held.id)]).await? == 1)
}

/// Which processes are dead, so that their leases end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedLeases {
    /// Everybody's: no other process delivers from this database, and this one has just started.
    All,
    /// Earlier incarnations of this process.
    Predecessors(Owner),
}

/// Moves all unfinished deliveries to the queue; until this transaction ends, the outcomes of those that it moves can't be stored.
/// Ends the leases of holders that are dead for certain, so that their attempts are taken over at once, and returns how many; even a
/// fifth attempt has no late end. Writes nothing if there is nothing to move and no such lease.
pub async fn queue_unfinished(
    transaction: &mut Transaction,
    dead: Option<&EndedLeases>,
) -> Result<u64, StoreError> {
    const RELEASE: &str = "UPDATE delivery_queue SET lease_until_ms = 0 WHERE lease_until_ms > 0";
    first_attempt::queue(transaction, HandOffSelection::All).await?;
    match dead {
        None => Ok(0),
        Some(EndedLeases::All) => transaction.execute(RELEASE, Vec::new()).await,
        Some(EndedLeases::Predecessors(Owner { process, incarnation })) => {
            let sql = format!("{RELEASE} AND lease_token LIKE $1 AND lease_token NOT LIKE $2");
            let params = params![format!("{process}.%"), format!("{process}.{incarnation}.%")];
            transaction.execute(&sql, params).await
        }
    }
}
