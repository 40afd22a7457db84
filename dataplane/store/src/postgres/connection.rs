//! A borrowed connection: runs statements, and closes itself unless it is fit for the next request.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesOrdered;
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{ToSql, Type};

use super::budget::OpenConnection;
use super::error::unavailable;
use super::pool::{Acquired, Pool, Retry, StatementLimit};
use crate::error::StoreError;
use crate::sql::{Param, Row, Statement};

/// Begins a transaction and returns its time in microseconds since 1970, in one round trip.
const BEGIN: &str = "BEGIN; SELECT floor(extract(epoch FROM now()) * 1000000)::bigint";
/// Like [`BEGIN`], through a pooler, whose sessions have no settings of ours. Statements are planned at each use, so
/// they need no setting of the planner.
const BEGIN_POOLED: &str = "BEGIN; SET LOCAL statement_timeout = '10s'; \
                            SET LOCAL idle_in_transaction_session_timeout = '15s'; \
                            SELECT floor(extract(epoch FROM now()) * 1000000)::bigint";

/// A borrowed connection. If it is dropped inside a transaction, or while a statement is running, it is closed, which
/// rolls the transaction back.
pub struct PostgresConnection {
    opened: Option<OpenConnection>,
    pool: Arc<Pool>,
    pub(super) in_transaction: bool,
    /// Whether a statement was sent whose end was not seen.
    under_way: bool,
    /// The number of statements that failed, or whose end was not awaited.
    not_done: u32,
    /// Whether no other work may use the session: its settings were changed, or a statement did not fit the tables,
    /// which may have been changed after it was prepared.
    pub(super) for_no_other: bool,
    pub(super) limit: StatementLimit,
    pub(super) turn: Option<OwnedSemaphorePermit>,
    /// The permits of the request that tries whether the database responds, until it has responded.
    pub(super) retry: Option<Retry>,
    pub(super) migration: Option<OwnedSemaphorePermit>,
}

impl PostgresConnection {
    pub(super) fn new(pool: Arc<Pool>, Acquired { opened, turn, retry }: Acquired) -> Self {
        Self {
            opened: Some(opened),
            pool,
            in_transaction: false,
            under_way: false,
            not_done: 0,
            for_no_other: false,
            limit: StatementLimit::Request,
            retry,
            turn,
            migration: None,
        }
    }

    /// The version of the schema, as it was last read; at first the newest that this program knows.
    pub(crate) fn schema(&self) -> &AtomicI64 {
        &self.pool.schema
    }

    pub(crate) async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        let is_pooled = self.pool.is_pooled;
        self.run(async |client| {
            if is_pooled {
                return client.execute_typed(sql, &of_unknown_types(&params)).await;
            }
            let statement = client.prepare_cached(sql).await?;
            client.execute_raw(&statement, params.iter().map(|param| param as &dyn ToSql)).await
        })
        .await
    }

    pub(crate) async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        let is_pooled = self.pool.is_pooled;
        self.run(async |client| {
            let statement = prepare(client, sql, is_pooled).await?;
            rows(client, &statement, &params).await
        })
        .await
    }

    /// Runs statements in one round trip.
    pub(crate) async fn all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        let is_pooled = self.pool.is_pooled;
        self.run(async |client| pipelined(client, &prepared(client, statements, is_pooled).await?).await)
            .await
    }

    /// Runs statements (each a transaction of its own), begins a transaction, and runs statements in it, in one round
    /// trip. Returns the time of the begin by the server's clock, and the rows of each statement.
    pub(crate) async fn begin_around(
        &mut self,
        before: Vec<Statement>,
        within: Vec<Statement>,
    ) -> Result<(Timestamp, Vec<Vec<Row>>), StoreError> {
        // Set before the await: if this future is dropped in the middle, the next request must not get an open transaction.
        self.in_transaction = true;
        let is_pooled = self.pool.is_pooled;
        let begin = async |client: &ClientWrapper| {
            let before = prepared(client, before, is_pooled).await?;
            let within = prepared(client, within, is_pooled).await?;
            let (mut rows, messages, rows_within) = tokio::try_join!(
                biased;
                pipelined(client, &before),
                client.simple_query(if is_pooled { BEGIN_POOLED } else { BEGIN }),
                pipelined(client, &within)
            )?;
            rows.extend(rows_within);
            Ok((messages, rows))
        };
        let (messages, rows) = self.run(begin).await?;
        let now = time_in(&messages).ok_or(StoreError::Unexpected("the server's time"))?;
        Ok((now, rows))
    }

    /// Runs statements and commits, in one round trip.
    pub(crate) async fn commit_after(
        mut self,
        statements: Vec<Statement>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        // After a failed statement, PostgreSQL would roll back and report success. This may be an earlier statement
        // or one of these. So the result of each statement is required before the result of the COMMIT.
        if self.not_done > 0 {
            return Err(StoreError::Unexpected("a commit after a failed statement"));
        }
        let is_pooled = self.pool.is_pooled;
        let commit = async |client: &ClientWrapper| {
            let prepared = prepared(client, statements, is_pooled).await?;
            let (rows, ()) =
                tokio::try_join!(biased; pipelined(client, &prepared), client.batch_execute("COMMIT"))?;
            Ok(rows)
        };
        let rows = self.run(commit).await?;
        self.in_transaction = false;
        Ok(rows)
    }

    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        self.batch("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.run(async |client| client.batch_execute(sql).await).await
    }

    pub(super) async fn run<T>(
        &mut self,
        statement: impl AsyncFnOnce(&ClientWrapper) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let opened = self.opened.as_ref();
        let opened = opened.ok_or(StoreError::Unexpected("a connection used after it was lost"))?;
        // Set before the await: if this future is dropped in the middle, the next request must not get the connection.
        self.under_way = true;
        self.not_done += 1;
        let response = self.pool.response(self.limit, statement(&opened.client)).await;
        let response = response.map_err(unavailable)?;
        self.under_way = false;
        // The library's error says only that the connection is closed; `excess` says why.
        let value = response.map_err(|error| opened.excess.get().map_or(error, unavailable));
        self.for_no_other |= matches!(value, Err(StoreError::Refused(_)));
        let value = value?;
        // Later statements may take long, and must not delay other tenants that try their databases.
        self.retry = None;
        self.not_done -= 1;
        Ok(value)
    }
}

/// The time in the response to [`BEGIN`].
fn time_in(messages: &[SimpleQueryMessage]) -> Option<Timestamp> {
    let micros = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.try_get(0).ok()??.parse().ok(),
        _ => None,
    });
    Timestamp::from_microsecond(micros?).ok()
}

/// A statement as it is sent.
enum Prepared<'a> {
    /// The connection has prepared it under a name.
    Named(tokio_postgres::Statement),
    /// Its text is sent each time: a pooler in transaction mode would lose a name.
    Unnamed(&'a str),
}

/// Prepares a statement, unless the connection has prepared it already, or is pooled.
async fn prepare<'a>(
    client: &ClientWrapper,
    sql: &'a str,
    is_pooled: bool,
) -> Result<Prepared<'a>, tokio_postgres::Error> {
    match is_pooled {
        true => Ok(Prepared::Unnamed(sql)),
        false => client.prepare_cached(sql).await.map(Prepared::Named),
    }
}

/// Prepares the statements that the connection has not prepared yet, each in a round trip of its own. Returns each
/// with its values.
async fn prepared(
    client: &ClientWrapper,
    statements: Vec<Statement>,
    is_pooled: bool,
) -> Result<Vec<(Prepared<'static>, Vec<Param>)>, tokio_postgres::Error> {
    let mut prepared = Vec::with_capacity(statements.len());
    for (sql, params) in statements.into_iter().map(Statement::for_postgres) {
        prepared.push((prepare(client, sql, is_pooled).await?, params));
    }
    Ok(prepared)
}

/// Sends all statements in order, before it waits for the first result.
async fn pipelined(
    client: &ClientWrapper,
    prepared: &[(Prepared<'static>, Vec<Param>)],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let query =
        async |(statement, params): &(Prepared<'static>, Vec<Param>)| rows(client, statement, params).await;
    // The futures are first polled in the order in which they were added. The first poll sends the statement.
    prepared.iter().map(query).collect::<FuturesOrdered<_>>().try_collect().await
}

/// Sends a statement and waits for its rows.
async fn rows(
    client: &ClientWrapper,
    statement: &Prepared<'_>,
    params: &[Param],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let rows = match statement {
        Prepared::Named(statement) => {
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            client.query(statement, &params).await?
        }
        Prepared::Unnamed(sql) => client.query_typed(sql, &of_unknown_types(params)).await?,
    };
    Ok(rows.into_iter().map(Row::Postgres).collect())
}

/// The values, whose types the server infers, as for a statement that is prepared.
fn of_unknown_types(params: &[Param]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    params.iter().map(|param| (param as &(dyn ToSql + Sync), Type::UNKNOWN)).collect()
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        let fit = !self.in_transaction && !self.under_way && !self.for_no_other;
        self.pool.take_back(self.opened.take().filter(|opened| fit && !opened.client.is_closed()));
    }
}
