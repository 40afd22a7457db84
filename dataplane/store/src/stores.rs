//! The tenants' databases: finds each database, and before its first use migrates it, or checks its schema.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use anyhow::{Context, bail};
use docket_crds::{DatabaseUrl, TenantConfig};
use docket_program::clock::Clock;
use docket_schema::UnfitSchema;
use docket_schema::postgres::ExternalDatabases;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::connection::{Connection, Transaction};
use crate::database::{Database, Writer};
use crate::error::StoreError;
use crate::postgres::{Budget, Postgres, Watcher};
use crate::sqlite::Sqlite;

/// How long a request waits for the migration. It is longer than the wait for a connection, so that the request gets
/// that error, which says more.
const WAIT: Duration = Duration::from_secs(6);

/// The longest migration. A server that takes longer hangs, and migrations of other databases wait for it.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// How long a database is used before the version of its schema is read again. A newer program may have migrated the
/// database to a version that this program can't use.
const CHECK_CURRENT: Duration = Duration::from_secs(60);
/// The same for a database that lacks steps, or that can't be used: it is probably migrated soon.
const CHECK_OTHERS: Duration = Duration::from_secs(5);

/// What a process does about the schema of a database before it uses the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// The process migrates the database: there is no operator.
    Migrate,
    /// The operator migrates the database. The process expects a version that it works with, and looks again every minute.
    Expect,
}

/// What was last read about a schema.
#[derive(Debug, Clone, Copy)]
struct SchemaCheck {
    /// When the schema was read, by [`Clock::elapsed`].
    at: Duration,
    result: Result<i64, UnfitSchema>,
}

impl SchemaCheck {
    /// Whether the check still counts at `now`.
    fn is_fresh(&self, now: Duration) -> bool {
        let lasts = match self.result {
            Ok(version) if version >= docket_schema::NEWEST => CHECK_CURRENT,
            Ok(_) | Err(_) => CHECK_OTHERS,
        };
        now.saturating_sub(self.at) < lasts
    }
}

/// One tenant's database, migrated or checked before its first use.
pub struct Store {
    database: Database,
    schema: Schema,
    migrated: Arc<OnceLock<()>>,
    checked: Arc<Mutex<Option<SchemaCheck>>>,
    /// The permit of the call that migrates or checks.
    turn: Arc<Semaphore>,
    visits: Mutex<Visits>,
}

/// The visits in progress. After them, the database needs no open connections.
#[derive(Default)]
struct Visits {
    count: usize,
    /// Whether other users had connections open when the first of these visits began.
    was_open: bool,
    /// Whether earlier visits have left connections open.
    left_open: bool,
}

/// A look into a database. Readers that look at the same time count as one visit. When the look is dropped, its connections stay
/// open for the next one.
pub struct StoreVisit<'a>(&'a Store);

impl StoreVisit<'_> {
    /// Ends it. The last one closes the connections, if there were none before the first: hundreds of idle tenants' open files
    /// would cost tens of megabytes.
    pub async fn end(self) {
        let store = self.0;
        drop(self);
        let closes = {
            let mut visits = store.visits.lock();
            visits.count == 0 && std::mem::take(&mut visits.left_open)
        };
        if closes {
            store.database.close_idle(Duration::ZERO).await;
        }
    }
}

impl Drop for StoreVisit<'_> {
    fn drop(&mut self) {
        let mut visits = self.0.visits.lock();
        visits.count -= 1;
        visits.left_open = !visits.was_open;
    }
}

#[derive(Debug, thiserror::Error)]
#[error("migration still running after {} s", WAIT.as_secs())]
struct Migrating;

#[derive(Debug, thiserror::Error)]
#[error("reading the schema's version took longer than {} s", WAIT.as_secs())]
struct Checking;

impl Store {
    /// A store for a database that may not have its schema yet. It migrates the database.
    pub fn new(database: Database) -> Self {
        Self::with(database, Schema::Migrate)
    }

    /// A store for a database that may not have its schema yet.
    pub fn with(database: Database, schema: Schema) -> Self {
        Self {
            database,
            schema,
            migrated: Arc::default(),
            checked: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
            visits: Mutex::default(),
        }
    }

    /// Begins a look into the database by a reader that leaves it as it found it: open or closed.
    pub fn visit(&self) -> StoreVisit<'_> {
        let mut visits = self.visits.lock();
        if visits.count == 0 {
            visits.was_open = !visits.left_open && self.database.is_open();
        }
        visits.count += 1;
        StoreVisit(self)
    }

    /// Returns the database with its schema. After an error, the next call migrates or checks again. A migration that
    /// takes long continues even if no call waits for it any more.
    pub async fn ready(&self, clock: &Clock) -> Result<&Database, StoreError> {
        match self.schema {
            Schema::Migrate if self.migrated.get().is_some() => {}
            Schema::Migrate => {
                let migrated = tokio::time::timeout(WAIT, self.migrate(clock)).await;
                migrated.map_err(|_| StoreError::Unavailable(Box::new(Migrating)))??;
            }
            Schema::Expect => {
                let expected = self.expect(clock).await?;
                expected.map_err(|unfit| StoreError::Unavailable(Box::new(unfit)))?;
            }
        }
        Ok(&self.database)
    }

    /// Returns the version of the schema, or why this program can't use it. If a check is due, a database in use is
    /// used as before meanwhile. The call that opens a database waits for the check.
    async fn expect(&self, clock: &Clock) -> Result<Result<i64, UnfitSchema>, StoreError> {
        let now = clock.elapsed();
        let checked = *self.checked.lock();
        match checked {
            Some(check) if check.is_fresh(now) => Ok(check.result),
            Some(SchemaCheck { result: Ok(version), .. }) => match Arc::clone(&self.turn).try_acquire_owned()
            {
                Ok(turn) if self.database.is_open() => {
                    // After an error, the next call tries again. The request itself reports an error of the database.
                    tokio::spawn(self.check(turn, clock));
                    Ok(Ok(version))
                }
                Ok(turn) => self.check(turn, clock).await,
                Err(_) => Ok(Ok(version)),
            },
            Some(_) | None => {
                let check = tokio::time::timeout(WAIT, async {
                    // Semaphores are never closed here.
                    let turn = Arc::clone(&self.turn).acquire_owned().await;
                    let turn = turn.map_err(|_| StoreError::Unexpected("a closed semaphore"))?;
                    // Another call may have checked meanwhile.
                    let checked = *self.checked.lock();
                    match checked.filter(|check| check.is_fresh(clock.elapsed())) {
                        Some(check) => Ok(check.result),
                        None => self.check(turn, clock).await,
                    }
                });
                check.await.map_err(|_| StoreError::Unavailable(Box::new(Checking)))?
            }
        }
    }

    /// Reads the version of the schema and remembers it.
    fn check(
        &self,
        turn: OwnedSemaphorePermit,
        clock: &Clock,
    ) -> impl Future<Output = Result<Result<i64, UnfitSchema>, StoreError>> + Send + use<> {
        let (database, checked, clock) = (self.database.clone(), Arc::clone(&self.checked), clock.clone());
        async move {
            let _turn = turn;
            let result = database.applied().await?.usable();
            *checked.lock() = Some(SchemaCheck { at: clock.elapsed(), result });
            Ok(result)
        }
    }

    async fn migrate(&self, clock: &Clock) -> Result<(), StoreError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        if self.migrated.get().is_some() {
            return Ok(());
        }
        let (database, migrated, clock) = (self.database.clone(), Arc::clone(&self.migrated), clock.clone());
        let migration = tokio::spawn(async move {
            let _turn = turn;
            let ended = tokio::time::timeout(LONGEST, database.migrate(&clock)).await;
            ended.map_err(|_| StoreError::Unavailable(Box::new(Migrating)))??;
            let _ = migrated.set(());
            Ok(())
        });
        migration.await.unwrap_or(Err(StoreError::Unexpected("the migration panicked")))
    }

    /// Begins a transaction on the database with its schema.
    pub async fn begin(&self, clock: &Clock) -> Result<Transaction, StoreError> {
        self.ready(clock).await?.begin(clock).await
    }

    /// A connection to the database with its schema, for statements outside of a transaction.
    pub async fn reader(&self, clock: &Clock) -> Result<Connection, StoreError> {
        self.ready(clock).await?.reader().await
    }

    /// A connection to the database with its schema, for one transaction.
    pub async fn writer(&self, clock: &Clock) -> Result<Writer, StoreError> {
        self.ready(clock).await?.writer().await
    }

    /// The database as it is, for work that needs no schema.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Where the tenants' databases are.
#[derive(Clone)]
pub enum StoreSource {
    /// A file per tenant below this folder.
    Files(PathBuf),
    /// On PostgreSQL, at the URL in the tenant's configuration, with a share of the process's connections.
    Postgres(Budget),
}

/// The databases by tenant uid. Each is kept while its tenant is served.
pub struct Stores {
    source: StoreSource,
    schema: Schema,
    /// The watcher's URL for tenants whose configuration has none.
    watcher: Option<DatabaseUrl>,
    /// Where external databases may be.
    external: Arc<ExternalDatabases>,
    by_uid: Mutex<HashMap<Arc<str>, CachedStore>>,
    /// By URL. Each lives as long as a database that it watches is served.
    watchers: Mutex<HashMap<String, Weak<Watcher>>>,
}

struct CachedStore {
    /// `None`: a file.
    url: Option<DatabaseUrl>,
    watcher: Option<DatabaseUrl>,
    /// How many connections the tenant may have; `None`: the database is a file.
    connections: Option<usize>,
    store: Arc<Store>,
}

impl Stores {
    /// The databases of this source. None is open yet. This process does `schema` about their schemas.
    pub fn new(source: StoreSource, schema: Schema) -> Self {
        let (by_uid, watchers) = (Mutex::default(), Mutex::default());
        Self { source, schema, watcher: None, external: Arc::default(), by_uid, watchers }
    }

    /// Sets where external databases may be.
    #[must_use]
    pub fn with_external(self, databases: ExternalDatabases) -> Self {
        Self { external: Arc::new(databases), ..self }
    }

    /// Sets the watcher of one PostgreSQL server, for tenants whose configuration has none.
    #[must_use]
    pub fn watched_by(self, watcher: Option<DatabaseUrl>) -> Self {
        Self { watcher, ..self }
    }

    /// The database of this tenant. With another URL than before (another password, another server, another watcher) or another
    /// limit of connections it is a new one, and the connections of the old one are closed once they are idle.
    ///
    /// Errors: the tenant has no database that this process can open. The message says what to set.
    pub fn of(&self, config: &TenantConfig) -> anyhow::Result<Arc<Store>> {
        let (url, budget) = match &self.source {
            StoreSource::Files(_) => (None, None),
            StoreSource::Postgres(budget) => {
                let most = usize::try_from(config.limits.database_connections).unwrap_or(usize::MAX);
                (Some(config.database.clone().context(NO_URL)?), Some(budget.with_at_most(most)))
            }
        };
        let connections = budget.as_ref().map(Budget::per_tenant);
        let watcher = url.as_ref().and_then(|url| self.watcher_of(config, url));
        let mut by_uid = self.by_uid.lock();
        let is_kept = |kept: &&CachedStore| {
            (&kept.url, &kept.watcher, kept.connections) == (&url, &watcher, connections)
        };
        if let Some(kept) = by_uid.get(&config.uid).filter(is_kept) {
            return Ok(Arc::clone(&kept.store));
        }
        let database = match (&self.source, &url, &budget) {
            (StoreSource::Postgres(_), Some(url), Some(budget)) => {
                let postgres = match config.database_is_external {
                    true => Postgres::external(url.expose(), budget, &self.external)
                        .context("spec.database.external")?,
                    false => Postgres::within(url.expose(), budget)?,
                };
                Database::Postgres(match watcher.as_ref().and_then(|watcher| self.watcher_at(watcher)) {
                    Some(watcher) => postgres.watched_by(watcher),
                    None => postgres,
                })
            }
            (StoreSource::Files(folder), ..) => {
                Database::Sqlite(Sqlite::new(file_of(folder, config.client_code.as_str())))
            }
            (StoreSource::Postgres(_), ..) => bail!(NO_URL),
        };
        let store = Arc::new(Store::with(database, self.schema));
        let kept = CachedStore { url, watcher, connections, store: Arc::clone(&store) };
        by_uid.insert(Arc::clone(&config.uid), kept);
        Ok(store)
    }

    /// The URL of the watcher of the server at `url`. A watcher of another server must not be used: that server may
    /// have a database of the same name.
    fn watcher_of(&self, config: &TenantConfig, url: &DatabaseUrl) -> Option<DatabaseUrl> {
        let watcher = config.watcher.as_ref().or(self.watcher.as_ref())?;
        Some(watcher.clone()).filter(|watcher| watcher.is_same_server(url))
    }

    /// The watcher at this URL. `None`: the URL can't be used; the tenant keeps its database without a watcher.
    fn watcher_at(&self, url: &DatabaseUrl) -> Option<Arc<Watcher>> {
        let mut watchers = self.watchers.lock();
        if let Some(watcher) = watchers.get(url.expose()).and_then(Weak::upgrade) {
            return Some(watcher);
        }
        let watcher = Watcher::new(url.expose()).map(Arc::new);
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(error = %error, "the watcher of a PostgreSQL server can't be used; all databases of the server are read");
        });
        let watcher = watcher.ok()?;
        watchers.insert(url.expose().to_owned(), Arc::downgrade(&watcher));
        Some(watcher)
    }

    /// Queries each server that has a watcher, at each interval, until the future is dropped.
    pub async fn watch(&self, every: Duration) {
        let mut looks = JoinSet::new();
        loop {
            for watcher in self.watchers() {
                looks.spawn(async move { watcher.look(every).await });
            }
            tokio::time::sleep(every).await;
            while looks.try_join_next().is_some() {}
        }
    }

    fn watchers(&self) -> Vec<Arc<Watcher>> {
        let mut watchers = self.watchers.lock();
        watchers.retain(|_, watcher| watcher.strong_count() > 0);
        watchers.values().filter_map(Weak::upgrade).collect()
    }

    /// Drops the databases of all tenants but these. Each is closed once it is idle.
    pub fn retain(&self, uids: &HashSet<&str>) {
        self.by_uid.lock().retain(|uid, _| uids.contains(&**uid));
    }

    /// Closes the connections that were idle for `unused_for`. The next call opens connections again.
    pub async fn close_idle(&self, unused_for: Duration) {
        match &self.source {
            StoreSource::Postgres(budget) => budget.close_idle(unused_for),
            StoreSource::Files(_) => {
                let stores: Vec<_> =
                    self.by_uid.lock().values().map(|kept| Arc::clone(&kept.store)).collect();
                for store in stores {
                    store.database().close_idle(unused_for).await;
                }
            }
        }
    }
}

const NO_URL: &str = "spec.database: its URL is not known here; name one that exists as \
    external: {secretKeyRef: {name: …, key: …}}, since managed ones are made by the operator";

/// The file of a tenant's database below the data folder.
pub fn file_of(data_dir: &Path, client_code: &str) -> PathBuf {
    data_dir.join("tenants").join(client_code).join("tenant.db")
}

#[cfg(test)]
mod tests {
    use docket_program::clock::ManualClock;
    use docket_rig::scratch::Folder;

    use super::*;
    use crate::postgres::ConnectionLimits;

    #[tokio::test]
    async fn readers_that_meet_leave_a_database_as_they_found_it() {
        let folder = Folder::new("visits");
        let store = Store::new(Database::Sqlite(Sqlite::new(folder.path().join("tenant.db"))));
        let database = store.ready(&Clock::System).await.expect("a file");
        database.close_idle(Duration::ZERO).await;
        let first = store.visit();
        let reads = database.reader().await.expect("a reader");
        let second = store.visit();
        let reads_too = database.reader().await.expect("a reader");
        drop(reads);
        first.end().await;
        drop(reads_too);
        second.end().await;
        assert!(!database.is_open(), "neither of them needs it any more");
        // A visit that is dropped leaves the connection to the next visit.
        let continues = store.visit();
        drop(database.reader().await.expect("a reader"));
        drop(continues);
        assert!(database.is_open());
        store.visit().end().await;
        assert!(!database.is_open());
        // A request has the database open.
        drop(database.reader().await.expect("a reader"));
        store.visit().end().await;
        assert!(database.is_open());
    }

    #[test]
    fn tenant_keeps_its_database_until_something_about_it_changes() {
        let budget = Budget::new(ConnectionLimits { total: 10, per_tenant: 8 });
        let stores = Stores::new(StoreSource::Postgres(budget), Schema::Expect);
        let url = |text: &str| DatabaseUrl::parse(text).ok();
        let of = |config: &TenantConfig| stores.of(config).expect("a database");
        let config = docket_rig::tenant_database::tenant_config("uid-a", "SMITH", "C-1", 0);
        let mut config: TenantConfig = serde_json::from_value(config).expect("a configuration");
        assert!(stores.of(&config).is_err(), "it has no URL");
        config.database = url("postgres://u:p@db/x");
        let mut before = of(&config);
        assert!(Arc::ptr_eq(&before, &of(&config)));
        config.watcher = url("postgres://w:p@another/w");
        assert!(Arc::ptr_eq(&before, &of(&config)), "a watcher of another server is none");
        type Change<'a> = (&'a str, &'a dyn Fn(&mut TenantConfig));
        let changes: [Change<'_>; 4] = [
            ("another password", &|config| config.database = url("postgres://u:another@db/x")),
            ("fewer connections", &|config| config.limits.database_connections = 3),
            ("a watcher", &|config| config.watcher = url("postgres://w:p@db/w")),
            ("another tenant", &|config| config.uid = "uid-b".into()),
        ];
        for (change, make) in changes {
            make(&mut config);
            let now = of(&config);
            assert!(!Arc::ptr_eq(&before, &now) && Arc::ptr_eq(&now, &of(&config)), "{change}");
            before = now;
        }
        stores.retain(&HashSet::from(["uid-b"]));
        assert!(Arc::ptr_eq(&before, &of(&config)), "it is still served");
        stores.retain(&HashSet::from(["uid-a"]));
        assert!(!Arc::ptr_eq(&before, &of(&config)));
    }

    /// The numbers are documented.
    #[test]
    fn schema_of_this_version_is_read_again_after_a_minute_and_another_after_five_seconds() {
        let unfit = docket_schema::AppliedMigrations::default().usable().expect_err("it has no schema");
        for (result, seconds) in
            [(Ok(docket_schema::NEWEST), 60), (Ok(docket_schema::NEWEST - 1), 5), (Err(unfit), 5)]
        {
            let (check, limit) = (SchemaCheck { at: WAIT, result }, WAIT + Duration::from_secs(seconds));
            assert!(check.is_fresh(limit - Duration::from_millis(1)), "{result:?}");
            assert!(!check.is_fresh(limit), "{result:?}");
        }
    }

    /// A file with the steps of the previous release, and a store that expects a schema.
    async fn of_previous_release(folder: &Folder) -> (Database, Store) {
        let file = || Database::Sqlite(Sqlite::new(folder.path().join("tenant.db")));
        let steps = &docket_schema::MIGRATIONS[..usize::try_from(docket_schema::OLDEST).expect("a number")];
        file().migrate_to(&Clock::System, steps).await.expect("a file");
        (file(), Store::with(file(), Schema::Expect))
    }

    #[tokio::test]
    async fn schema_that_is_expected_is_never_migrated_and_read_again_when_it_is_due() {
        let folder = Folder::new("expected");
        let (other, store) = of_previous_release(&folder).await;
        let moved = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let clock = Clock::Manual(moved.clone());
        let version = async || store.expect(&clock).await.expect("a file");
        assert_eq!(version().await, Ok(docket_schema::OLDEST));
        other.migrate(&Clock::System).await.expect("it is migrated");
        assert_eq!(version().await, Ok(docket_schema::OLDEST), "it was just read");
        store.database().close_idle(Duration::ZERO).await;
        moved.advance(CHECK_OTHERS);
        assert_eq!(version().await, Ok(docket_schema::NEWEST));
    }

    #[tokio::test]
    async fn database_with_a_step_that_is_needed_and_unknown_is_refused_until_it_ends() {
        let folder = Folder::new("newer");
        let (other, store) = of_previous_release(&folder).await;
        other.migrate(&Clock::System).await.expect("it is migrated");
        let moved = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let clock = Clock::Manual(moved.clone());
        store.ready(&clock).await.expect("the schema of this version");
        let write = async |sql: &str| {
            let mut transaction = other.begin(&Clock::System).await.expect("a transaction");
            transaction.execute(sql, Vec::new()).await.expect("a statement");
            transaction.commit().await.expect("a commit");
        };
        let newer = docket_schema::NEWEST + 1;
        write(&format!("INSERT INTO schema_version VALUES ({newer}, 'another order', 0)")).await;
        moved.advance(CHECK_CURRENT);
        store.database().close_idle(Duration::ZERO).await;
        let refused = store.ready(&clock).await.err().expect("it can't be used").to_string();
        assert!(refused.contains(&format!("schema version {newer}")), "{refused}");
        write(&format!("DELETE FROM schema_version WHERE version = {newer}")).await;
        moved.advance(CHECK_OTHERS);
        store.ready(&clock).await.expect("the schema of this version again");
    }

    #[tokio::test]
    async fn database_that_is_too_old_is_refused_and_left_as_it_is() {
        let folder = Folder::new("older");
        let file = || Database::Sqlite(Sqlite::new(folder.path().join("tenant.db")));
        file().migrate_to(&Clock::System, &docket_schema::MIGRATIONS[..12]).await.expect("a file");
        let refused = Store::with(file(), Schema::Expect).ready(&Clock::System).await.err();
        let refused = refused.expect("it can't be used").to_string();
        assert!(refused.contains("has schema version 12") && refused.contains("the operator"), "{refused}");
        assert_eq!(file().applied().await.expect("a file").version, 12);
    }
}
