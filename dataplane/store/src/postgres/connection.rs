//! A connection on loan: runs statements, and closes itself unless it is fit for the next request.

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::types::ToSql;

use super::budget::Opened;
use super::error::unavailable;
use super::pool::{Acquired, Pool, Retry};
use crate::error::StoreError;
use crate::sql::{Param, Row};

/// A connection on loan. One that is dropped inside a transaction, or with a statement under way, is closed, which
/// rolls it back.
pub struct PostgresConnection {
    opened: Option<Opened>,
    pool: Arc<Pool>,
    pub(super) in_transaction: bool,
    /// A statement was sent and its end was not seen.
    under_way: bool,
    /// Statements that failed, or whose end was not awaited.
    not_done: u32,
    /// Whether statements have a time limit.
    pub(super) limited: bool,
    _turn: Option<OwnedSemaphorePermit>,
    /// Until the database has responded.
    pub(super) retry: Option<Retry>,
    /// While it migrates.
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
            limited: true,
            retry,
            _turn: turn,
            migration: None,
        }
    }

    pub(crate) async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        self.run(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute_raw(&statement, params.iter().map(|param| param as &dyn ToSql)).await
        })
        .await
    }

    pub(crate) async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        let rows = self.run(async |client| {
            let statement = client.prepare_cached(sql).await?;
            let params: Vec<&(dyn ToSql + Sync)> =
                params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
            client.query(&statement, &params).await
        });
        Ok(rows.await?.into_iter().map(Row::Postgres).collect())
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        // PostgreSQL would roll back and report success.
        if self.not_done > 0 {
            return Err(StoreError::Unexpected("a commit after a failed statement"));
        }
        self.batch("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
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
        // Before the await: a future that is dropped in the middle must not leave the connection to the next request.
        self.under_way = true;
        self.not_done += 1;
        let response = self.pool.response(self.limited, statement(&opened.client)).await;
        let response = response.map_err(unavailable)?;
        self.under_way = false;
        let value = response?;
        // Later statements may take long and must not delay other tenants that are tried.
        self.retry = None;
        self.not_done -= 1;
        Ok(value)
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        let fit = !self.in_transaction && !self.under_way;
        if let Some(opened) = self.opened.take().filter(|opened| fit && !opened.client.is_closed()) {
            self.pool.put_back(opened);
        }
    }
}
