//! Responses to writes, kept by the caller's Idempotency-Key.

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Rows, Statement, params, read};

/// The kept response to an earlier request.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The route it was sent to.
    pub route: String,
    /// SHA-256 of the request's body, in hexadecimal.
    pub request_digest: String,
    /// The HTTP status of the response.
    pub status: i64,
    /// The body of the response.
    pub body: String,
}

/// The answer kept for this caller and key.
pub async fn find(
    connection: &mut Connection,
    caller: &str,
    key: &str,
) -> Result<Option<KeptAnswer>, StoreError> {
    let sql = "SELECT route, request_digest, answer_status, answer_body FROM idempotency \
               WHERE caller = $1 AND key = $2";
    let row = connection.query_opt(sql, params![caller, key]).await?;
    row.map(|row| Ok(read!(row => KeptAnswer { route, request_digest, status, body }))).transpose()
}

/// A response to keep.
#[derive(Clone)]
pub struct ToKeep {
    /// The caller who sent the request.
    pub caller: String,
    /// The request's Idempotency-Key.
    pub key: String,
    /// The answer.
    pub kept: KeptAnswer,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO idempotency (caller, key, route, request_digest, answer_status, answer_body, created_at_ms) \
     {text, text, text, text, bigint, text, bigint}",
);

/// Keeps a response, in the transaction of the write itself. [`StoreError::Conflict`]: another request with the same
/// key was faster, and its response counts.
pub async fn keep(transaction: &mut Transaction, to_keep: &ToKeep, now_ms: i64) -> Result<(), StoreError> {
    transaction.all(inserts([to_keep], now_ms)).await.map(drop)
}

pub(crate) fn inserts<'a>(answers: impl IntoIterator<Item = &'a ToKeep>, now_ms: i64) -> Option<Statement> {
    INSERT.statement(answers.into_iter().map(|ToKeep { caller, key, kept }| {
        let KeptAnswer { route, request_digest, status, body } = kept;
        [
            Param::from(caller),
            key.into(),
            route.into(),
            request_digest.into(),
            (*status).into(),
            body.into(),
            now_ms.into(),
        ]
    }))
}

/// Deletes responses that were stored before `before_ms`.
pub async fn forget(transaction: &mut Transaction, before_ms: i64) -> Result<u64, StoreError> {
    transaction.execute("DELETE FROM idempotency WHERE created_at_ms < $1", params![before_ms]).await
}
