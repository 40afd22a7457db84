//! The sessions of the portal that their users have ended.
//!
//! A database of the previous release has no table of them.

use docket_schema::ENDED_SESSIONS;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::params;

/// Ends the session with this digest, which would end at `until_ms`. Forgets the sessions that would have ended by now.
pub async fn end(
    transaction: &mut Transaction,
    session_digest: &str,
    until_ms: i64,
    now_ms: i64,
) -> Result<(), StoreError> {
    transaction.needs_step(ENDED_SESSIONS)?;
    transaction.execute("DELETE FROM ended_session WHERE until_ms <= $1", params![now_ms]).await?;
    let sql = "INSERT INTO ended_session (session_digest, until_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    transaction.execute(sql, params![session_digest, until_ms]).await.map(drop)
}

/// Whether the session with this digest was ended.
pub async fn has_ended(connection: &mut Connection, session_digest: &str) -> Result<bool, StoreError> {
    if !connection.has_step(ENDED_SESSIONS) {
        return Ok(false);
    }
    let sql = "SELECT until_ms FROM ended_session WHERE session_digest = $1";
    Ok(connection.query_opt(sql, params![session_digest]).await?.is_some())
}
