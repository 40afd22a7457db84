//! The tenants' databases: where they are, and each migrated before its first use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use docket_crds::TenantConfig;
use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;
use crate::store::{Database, StoreError, Transaction};

/// One tenant's database, migrated before its first use.
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub struct Store {
    database: Database,
    migrated: OnceCell<()>,
}

impl Store {
    /// Around a database that may not have its schema yet.
    pub fn new(database: Database) -> Self {
        Self { database, migrated: OnceCell::new() }
    }

    /// The database with its schema. An error leaves the migration to the next call.
    pub async fn ready(&self, clock: &Clock) -> Result<&Database, StoreError> {
        self.migrated.get_or_try_init(|| self.database.migrate(clock)).await?;
        Ok(&self.database)
    }

    /// A transaction of the database with its schema.
    pub async fn begin(&self, clock: &Clock) -> Result<Transaction, StoreError> {
        self.ready(clock).await?.begin(clock).await
    }

    /// The database as it is, for what needs no schema.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Where tenants' databases are.
#[derive(Debug, Clone)]
pub enum StoreSource {
    /// A file per tenant below this folder.
    Files(PathBuf),
    /// The URL in the tenant's configuration, with so many connections at most.
    Postgres {
        /// Connections per tenant.
        connections: usize,
    },
}

/// The databases by tenant uid, kept while the process runs.
#[expect(missing_debug_implementations, reason = "holds URLs with passwords")]
pub struct Stores {
    source: StoreSource,
    by_uid: Mutex<HashMap<String, Arc<Store>>>,
}

impl Stores {
    /// None is opened yet.
    pub fn new(source: StoreSource) -> Self {
        Self { source, by_uid: Mutex::default() }
    }

    /// The database of this tenant.
    pub fn of(&self, config: &TenantConfig) -> Result<Arc<Store>, StoreError> {
        let mut by_uid = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = by_uid.get(&config.uid) {
            return Ok(Arc::clone(store));
        }
        let database = match (&self.source, &config.database) {
            (StoreSource::Files(folder), _) => {
                Database::Sqlite(Sqlite::new(file_of(folder, config.client_code.as_str())))
            }
            (StoreSource::Postgres { connections }, Some(url)) => {
                Database::Postgres(Postgres::new(url.expose(), *connections)?)
            }
            (StoreSource::Postgres { .. }, None) => {
                return Err(StoreError::Unexpected("a tenant without a database URL"));
            }
        };
        let store = Arc::new(Store::new(database));
        by_uid.insert(config.uid.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// The file of a tenant's database below the data folder.
pub fn file_of(data_dir: &Path, client_code: &str) -> PathBuf {
    data_dir.join("tenants").join(client_code).join("tenant.db")
}
