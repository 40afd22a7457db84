//! Renews leases, gives them back, and ends those of dead processes.

use docket_program::owner::Owner;

use super::attempt::Held;
use super::hand_off;
use crate::connection::Transaction;
use crate::error::StoreError;
use crate::sql::{SLOTS, filled, params, slots};

/// Extends those of these leases that are still held, to `until_ms` in milliseconds since 1970. Hand-offs move to the queue.
pub async fn renew(
    transaction: &mut Transaction,
    held: &[Held<'_>],
    until_ms: i64,
) -> Result<(), StoreError> {
    hand_off::queue(transaction, held.iter().filter_map(Held::hand_off)).await?;
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

/// Gives an attempt back whose POST has not begun: it was not made and does not count. `false`: the lease was lost.
pub async fn give_back(transaction: &mut Transaction, held: &Held<'_>) -> Result<bool, StoreError> {
    hand_off::queue(transaction, held.hand_off()).await?;
    let sql = "UPDATE delivery_queue SET attempt_count = attempt_count - 1, lease_token = NULL, lease_until_ms = NULL, \
               started_at_ms = NULL WHERE id = $1 AND lease_token = $2";
    Ok(transaction.execute(sql, params![held.id.to_string(), held.lease.token_of(held.id)]).await? == 1)
}

/// Whose leases have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dead {
    /// Everybody's: no other process delivers from this database, and this one has just started.
    All,
    /// Of those that had the `process` of this owner before it.
    Predecessors(Owner),
}

/// Ends the leases of holders that are dead for certain, so that their attempts are taken over at once; even a fifth one has
/// no late end. Writes nothing if there is no lease.
pub async fn release_leases(transaction: &mut Transaction, dead: &Dead) -> Result<u64, StoreError> {
    const RELEASE: &str = "UPDATE delivery_queue SET lease_until_ms = 0 WHERE lease_until_ms > 0";
    match dead {
        Dead::All => transaction.execute(RELEASE, Vec::new()).await,
        Dead::Predecessors(Owner { process, incarnation }) => {
            let sql = format!("{RELEASE} AND lease_token LIKE $1 AND lease_token NOT LIKE $2");
            let params = params![format!("{process}.%"), format!("{process}.{incarnation}.%")];
            transaction.execute(&sql, params).await
        }
    }
}
