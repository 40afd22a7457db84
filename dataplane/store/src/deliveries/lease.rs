//! Renews leases, gives them back, and ends leases of dead processes. Hand-offs with such a lease move to the queue first.

use docket_program::owner::Owner;

use super::attempt::Held;
use super::first_attempt::{self, HandOffSelection};
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// Extends these leases to `until_ms`, in milliseconds since 1970. A lease that is not held any more stays as it is.
pub async fn renew(
    transaction: &mut Transaction,
    held: &[Held<'_>],
    until_ms: i64,
) -> Result<(), StoreError> {
    first_attempt::queue_held(transaction, held).await?;
    // Outcomes lock the rows in this order. In another order, the two transactions could wait for each other.
    let mut held: Vec<&Held<'_>> = held.iter().collect();
    held.sort_by_key(|held| held.id);
    // A token belongs to only one delivery, so the two lists match each row only with its own token.
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

/// Which leases end, because their processes are dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedLeases {
    /// All leases: no other process delivers from this database, and this process has just started.
    All,
    /// The leases of earlier incarnations of this process.
    Predecessors(Owner),
}

/// Moves all hand-offs to the queue. Their outcomes can't be stored until this transaction ends. Also ends the leases of processes that are
/// certainly dead, so that other workers take their attempts over at once, even fifth attempts. Returns the number of these leases. Writes
/// nothing if there is nothing to move and no such lease.
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
