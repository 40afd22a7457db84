//! The administrator's connections: at most [`CONNECTIONS`] per server, reused.
//!
//! A connection goes back to the pool only when its work is done. If it is dropped earlier, it is closed, which
//! releases its lock and rolls back its transaction.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use docket_crds::DatabaseUrl;
use docket_schema::postgres::{Boxed, Connected, DatabaseTarget};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row};

use super::error::{DatabaseError, words};
use super::session::{CONNECT_TIMEOUT, STATEMENT_TIMEOUT, bounded, configure};
use super::step::Step;

/// The largest number of administrator connections to one server.
const CONNECTIONS: usize = 8;
/// Connections that were idle for longer than this are closed by the next caller.
const UNUSED: Duration = Duration::from_secs(60);

/// The pool of connections to one server with one administrator URL.
#[derive(Clone)]
pub(super) struct AdminPool {
    url: DatabaseUrl,
    pool: Pool,
}

/// Connects as every part of Docket does: a tenant decides the comment on its database.
struct Connect(DatabaseTarget);

impl deadpool_postgres::Connect for Connect {
    fn connect(&self, _: &Config) -> Boxed<'_, Result<(Client, JoinHandle<()>), Error>> {
        Box::pin(async {
            let Connected { client, connection, excess: _ } = self.0.connect().await?;
            // The task ends with the client. A running statement then returns an error.
            let task = tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok((client, task))
        })
    }
}

impl AdminPool {
    /// A pool without connections. Errors: the mistake in the URL, without quoting the URL.
    pub(super) fn new(url: DatabaseUrl) -> Result<Self, String> {
        let mut target = DatabaseTarget::parse(url.expose()).map_err(|error| error.to_string())?;
        configure(&mut target);
        // Each connection is checked before use, so that a restart of the server does not fail a pass.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = Manager::from_connect(target.config.clone(), Connect(target), recycling);
        let timeouts = Timeouts {
            wait: Some(STATEMENT_TIMEOUT),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let pool = Pool::builder(manager).max_size(CONNECTIONS).timeouts(timeouts).runtime(Runtime::Tokio1);
        Ok(Self { url, pool: pool.build().map_err(|error| error.to_string())? })
    }

    pub(super) fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// A connection for reading.
    pub(super) async fn connection(&self) -> Result<AdminConnection, DatabaseError> {
        self.pool.retain(|_, metrics| metrics.last_used() < UNUSED);
        let object = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => DatabaseError::unreachable(words(&error)),
            error => DatabaseError::unreachable(error.to_string()),
        })?;
        Ok(AdminConnection { object: Some(object) })
    }

    /// A connection that holds the lock of this database, against all operators that use this server.
    pub(super) async fn lock(&self, database: &str) -> Result<LockedDatabase, DatabaseError> {
        let mut connection = self.connection().await?;
        connection.query_one("SELECT pg_advisory_lock(hashtextextended($1, 0))", &[&database]).await?;
        Ok(LockedDatabase { connection, database: database.to_owned() })
    }

    /// The URL of a tenant's role: the administrator's URL with another user, password and database.
    pub(super) fn tenant_url(&self, database: &str, role: &str, password: &SecretString) -> DatabaseUrl {
        let mut url = url::Url::parse(self.url.expose()).expect("a DatabaseUrl is a URL");
        url.set_username(role).expect("a DatabaseUrl has a host");
        url.set_password(Some(password.expose_secret())).expect("a DatabaseUrl has a host");
        url.path_segments_mut().expect("a DatabaseUrl has a host").clear().push(database);
        // The settings for reaching the server stay. The user, the database and session settings are the
        // administrator's and are dropped.
        let kept: Vec<&str> =
            url.query().unwrap_or_default().split('&').filter(|pair| is_route(pair)).collect();
        let kept = kept.join("&");
        url.set_query(Some(kept.as_str()).filter(|kept| !kept.is_empty()));
        DatabaseUrl::parse(url.as_str()).expect("a URL of PostgreSQL with another user is one")
    }
}

fn is_route(pair: &str) -> bool {
    let key = pair.split('=').next().unwrap_or_default();
    let routes = ["hostaddr", "channel_binding", "target_session_attrs", "load_balance_hosts"];
    key.starts_with("ssl") || key.starts_with("keepalives") || routes.contains(&key)
}

/// A connection from the pool. Dropping it without [`give_back`](Self::give_back) closes it.
pub(super) struct AdminConnection {
    object: Option<Object>,
}

impl AdminConnection {
    pub(super) fn give_back(mut self) {
        self.object.take();
    }

    pub(super) async fn query_one(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, DatabaseError> {
        Ok(bounded(self.client().query_one(sql, params)).await??)
    }

    pub(super) async fn batch(&mut self, step: &Step) -> Result<(), DatabaseError> {
        bounded(self.client().batch_execute(&step.sql)).await?.map_err(|error| match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let needs = &step.needs;
                DatabaseError::refused(format!("the admin role lacks {needs}: {}", words(&error)))
            }
            _ => error.into(),
        })
    }

    fn client(&self) -> &Client {
        self.object.as_ref().expect("only give_back takes it")
    }
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        // The connection is taken out of the pool, so that it is closed.
        drop(self.object.take().map(Object::take));
    }
}

/// A connection that holds the lock of a database. Dropping it without [`unlock`](Self::unlock) closes it, which
/// releases the lock.
pub(super) struct LockedDatabase {
    connection: AdminConnection,
    database: String,
}

impl LockedDatabase {
    pub(super) async fn unlock(mut self) -> Result<(), DatabaseError> {
        let database = std::mem::take(&mut self.database);
        self.query_one("SELECT pg_advisory_unlock(hashtextextended($1, 0))", &[&database]).await?;
        self.connection.give_back();
        Ok(())
    }
}

impl Deref for LockedDatabase {
    type Target = AdminConnection;
    fn deref(&self) -> &AdminConnection {
        &self.connection
    }
}

impl DerefMut for LockedDatabase {
    fn deref_mut(&mut self) -> &mut AdminConnection {
        &mut self.connection
    }
}
