//! Rows that older versions wrote: a sweep gives deliveries the keys of their webhooks, and folds searched texts.

use std::collections::BTreeSet;
use std::time::Duration;

use docket_store::{Database, StoreError, deliveries, unfolded};

use super::Scan;

/// Rows of older versions per transaction.
const ROWS: i64 = 200;
/// How long a sweep works on these rows; the next sweep continues.
const TIME: Duration = Duration::from_secs(1);

impl Scan {
    /// Gives finished deliveries with the uid of their webhook its key, for a while; the next sweep continues.
    pub(super) async fn rekey_finished(&self, database: &Database) -> Result<(), StoreError> {
        let end = self.clock.elapsed() + TIME;
        for uid in deliveries::uids(&mut database.reader().await?).await? {
            self.rekey_resends(database, [uid.as_str()].into()).await?;
            loop {
                if self.clock.elapsed() >= end {
                    return Ok(());
                }
                let mut transaction = database.begin(&self.clock).await?;
                let count = deliveries::rekey_finished(&mut transaction, &uid, ROWS).await?;
                transaction.commit().await?;
                if count < ROWS as u64 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Folds searched texts that older versions wrote, for a while; the next sweep continues.
    pub(super) async fn fold_searches(&self, database: &Database) -> Result<(), StoreError> {
        let end = self.clock.elapsed() + TIME;
        if !unfolded::are_left(&mut database.reader().await?).await? {
            return Ok(());
        }
        while self.clock.elapsed() < end {
            let mut transaction = database.begin(&self.clock).await?;
            let is_more = unfolded::fold(&mut transaction, ROWS).await?;
            transaction.commit().await?;
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// Replaces these uids of webhooks in bulk resends by the keys of the webhooks.
    pub(super) async fn rekey_resends(
        &self,
        database: &Database,
        uids: BTreeSet<&str>,
    ) -> Result<(), StoreError> {
        let mut transaction = database.begin(&self.clock).await?;
        deliveries::rekey_resends(&mut transaction, uids).await?;
        transaction.commit().await
    }
}
