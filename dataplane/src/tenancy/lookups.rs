//! Lookups of rows by key. The lookups of a tenant that wait are made together, so that one connection and one query serve many requests.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use docket_program::clock::Clock;
use docket_store::{Connection, StoreError};
use tokio::sync::oneshot;

use crate::telemetry::{Jobs, Metrics};
use crate::tenancy::groups::{self, Groups, Turn, Work};
use crate::tenancy::{ServedTenant, Tenants};

/// How long a read may take once it has a connection, until the requests that wait for it are refused.
const READ_TIME: Duration = Duration::from_secs(3);

/// What is read.
pub trait Lookup: Sized + 'static {
    /// What distinguishes the rows.
    type Key: Clone + Eq + Hash + Send + Sync;
    /// What is read of a row.
    type Found: Clone + Send;
    /// The most requests that one read serves.
    const MOST: usize;
    /// What the metrics call the requests.
    const JOBS: Jobs;

    /// Reads the rows with these keys. Rows that do not exist are missing from the result.
    fn read(
        reader: Connection,
        keys: HashSet<Self::Key>,
    ) -> impl Future<Output = Result<HashMap<Self::Key, Self::Found>, StoreError>> + Send;
}

/// Lookups of all tenants.
pub struct Lookups<L: Lookup> {
    clock: Clock,
    groups: Arc<Groups<LookupJob<L>>>,
}

struct LookupJob<L: Lookup> {
    key: L::Key,
    result: oneshot::Sender<Result<Read<L::Found>, StoreError>>,
}

/// What a read has found.
#[derive(Debug, Clone)]
pub struct Read<F> {
    /// `None`: there is no such row.
    pub found: Option<F>,
    /// When the query of the row began, in milliseconds since 1970 by the process's clock.
    pub at_ms: i64,
}

impl<L: Lookup> Lookups<L> {
    /// Creates lookups without requests.
    pub fn new(clock: Clock, tenants: &Arc<Tenants>, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { clock, groups: Groups::new(L::JOBS, L::MOST, 1, tenants, metrics) })
    }

    /// Reads the row of the tenant with this key, with other rows that are asked for at the same time.
    ///
    /// # Errors
    ///
    /// The database can't be read.
    pub async fn read(
        self: &Arc<Self>,
        tenant: &Arc<ServedTenant>,
        key: L::Key,
    ) -> Result<Read<L::Found>, StoreError> {
        let (result, read) = oneshot::channel();
        if let Some(turn) = self.groups.add(tenant, LookupJob { key, result }) {
            tokio::spawn(groups::drive(turn, Arc::clone(self)));
        }
        read.await.unwrap_or(Err(StoreError::Unexpected("a read panicked")))
    }
}

impl<L: Lookup> Work<LookupJob<L>> for Arc<Lookups<L>> {
    type Connection = Connection;

    async fn connect(&self, turn: &Turn<LookupJob<L>>) -> Result<Connection, StoreError> {
        turn.tenant.store.reader(&self.clock).await
    }

    async fn perform(&self, turn: &mut Turn<LookupJob<L>>, reader: Connection) -> Result<(), StoreError> {
        // The clients of the other jobs have gone.
        turn.group.retain(|job| !job.result.is_closed());
        let at_ms = self.clock.now_ms();
        let keys = turn.group.iter().map(|job| job.key.clone()).collect();
        let late = |_| Err(StoreError::Unavailable("the read took too long".into()));
        let rows = tokio::time::timeout(READ_TIME, L::read(reader, keys)).await.unwrap_or_else(late)?;
        for LookupJob { key, result } in turn.group.drain(..) {
            // A client that has disconnected waits for nothing: a result that can't be sent is dropped.
            let _ = result.send(Ok(Read { found: rows.get(&key).cloned(), at_ms }));
        }
        Ok(())
    }

    async fn refuse(&self, turn: &mut Turn<LookupJob<L>>, error: StoreError) {
        // Requests that waited while the database was not available do not wait for another try.
        let is_away = matches!(error, StoreError::Unavailable(_));
        let others = if is_away { turn.take_all() } else { Vec::new() };
        groups::refuse_all(turn.group.drain(..).chain(others).map(|job| job.result), error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use docket_rig::scratch::Folder;
    use docket_store::sqlite::Sqlite;

    use super::*;
    use crate::tenancy::testing;

    /// Finds even numbers.
    struct Even;
    static READS: AtomicUsize = AtomicUsize::new(0);

    impl Lookup for Even {
        type Key = u32;
        type Found = String;
        const MOST: usize = 10;
        const JOBS: Jobs = Jobs::ReadOrder;

        async fn read(
            mut reader: Connection,
            keys: HashSet<u32>,
        ) -> Result<HashMap<u32, String>, StoreError> {
            READS.fetch_add(usize::from(keys.contains(&3)), Ordering::Relaxed);
            let mut found = HashMap::new();
            if keys.contains(&13) {
                return Err(StoreError::Unexpected("an unlucky number"));
            }
            for key in keys {
                let row = reader.query_opt("SELECT $1 WHERE $1 % 2 = 0", vec![key.into()]).await?;
                found.extend(
                    row.map(|row| row.get::<i64>(0)).transpose()?.map(|even| (key, even.to_string())),
                );
            }
            Ok(found)
        }
    }

    /// A tenant with a database of its own.
    struct Rig {
        tenant: Arc<ServedTenant>,
        lookups: Arc<Lookups<Even>>,
        _folder: Folder,
    }

    impl Rig {
        fn new(name: &str) -> Self {
            let folder = Folder::new(name);
            let tenant = testing::tenant("uid-a", Sqlite::new(folder.path().join("tenant.db")));
            let lookups = Lookups::new(Clock::System, &Arc::default(), &Arc::default());
            Self { tenant, lookups, _folder: folder }
        }

        async fn read(&self, key: u32) -> Result<Option<String>, StoreError> {
            Ok(self.lookups.read(&self.tenant, key).await?.found)
        }
    }

    #[tokio::test]
    async fn what_is_asked_for_at_once_is_read_together_and_each_gets_its_own() {
        let rig = Rig::new("together");
        let (two, three, also_two) = tokio::join!(rig.read(2), rig.read(3), rig.read(2));
        let found = [two, three, also_two].map(|read| read.expect("a database"));
        assert_eq!(found.each_ref().map(Option::as_deref), [Some("2"), None, Some("2")]);
        assert_eq!(READS.load(Ordering::Relaxed), 1);
        assert_eq!(rig.read(4).await.expect("a database").as_deref(), Some("4"));
    }

    #[tokio::test]
    async fn row_that_cannot_be_read_fails_alone() {
        let rig = Rig::new("alone");
        let (good, bad, also_good) = tokio::join!(rig.read(6), rig.read(13), rig.read(8));
        assert!(matches!(bad, Err(StoreError::Unexpected(_))));
        let found = [good, also_good].map(|read| read.expect("it is sound"));
        assert_eq!(found, [Some("6".to_owned()), Some("8".to_owned())]);
    }

    /// Never answers.
    struct Hangs;

    impl Lookup for Hangs {
        type Key = u32;
        type Found = ();
        const MOST: usize = 10;
        const JOBS: Jobs = Jobs::ReadOrder;

        async fn read(_: Connection, _: HashSet<u32>) -> Result<HashMap<u32, ()>, StoreError> {
            // Only now: the file was opened in real time.
            tokio::time::pause();
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn read_that_hangs_is_refused_after_three_seconds() {
        let rig = Rig::new("hangs");
        let lookups = Lookups::<Hangs>::new(Clock::System, &Arc::default(), &Arc::default());
        let begun = tokio::time::Instant::now();
        let read = lookups.read(&rig.tenant, 2).await;
        assert!(matches!(read, Err(StoreError::Unavailable(_))));
        assert!((3..6).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn all_that_wait_hear_that_the_database_cannot_be_read() {
        let tenant = testing::tenant("uid-a", Sqlite::new("/no/such/folder.db".into()));
        let lookups = Lookups::<Even>::new(Clock::System, &Arc::default(), &Arc::default());
        let (first, second) = tokio::join!(lookups.read(&tenant, 2), lookups.read(&tenant, 4));
        assert!(matches!(
            (&first, &second),
            (Err(StoreError::Unavailable(_)), Err(StoreError::Unavailable(_)))
        ));
    }
}
