//! Connections of the admin: at most [`CONNECTIONS`] per server, kept for the next caller.
//!
//! A connection goes back only when its work is done: one that is dropped on the way is closed, which gives up its
//! lock and whatever it was about.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use docket_crds::DatabaseUrl;
use docket_schema::postgres::Target;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::DatabaseError;
use super::error::words;
use super::plan::Step;
use super::session::{CONNECT_TIMEOUT, STATEMENT_TIMEOUT, bounded, configure};

/// How many connections of the admin one server has to bear.
const CONNECTIONS: usize = 8;
/// An idle connection is closed by the next caller after this time.
const UNUSED: Duration = Duration::from_secs(60);

/// A server, by one admin URL.
#[derive(Clone)]
pub(super) struct Admin {
    url: DatabaseUrl,
    pool: Pool,
}

impl Admin {
    /// Opens nothing yet. Errors: what is wrong with the URL, without the URL.
    pub(super) fn new(url: DatabaseUrl) -> Result<Self, String> {
        let mut target = Target::parse(url.expose()).map_err(|error| error.to_string())?;
        configure(&mut target.config);
        // Asks before each use: a server that was restarted costs nobody a failed pass.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = Manager::from_config(target.config, target.tls, recycling);
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
    pub(super) async fn lend(&self) -> Result<Lent, DatabaseError> {
        self.pool.retain(|_, metrics| metrics.last_used() < UNUSED);
        let object = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => DatabaseError::unreachable(words(&error)),
            error => DatabaseError::unreachable(error.to_string()),
        })?;
        Ok(Lent { object: Some(object) })
    }

    /// A connection that alone, of all operators on this server, changes this database.
    pub(super) async fn lock(&self, database: &str) -> Result<Locked, DatabaseError> {
        let mut lent = self.lend().await?;
        lent.query_one("SELECT pg_advisory_lock(hashtextextended($1, 0))", &[&database]).await?;
        Ok(Locked { lent, database: database.to_owned() })
    }

    /// The URL of a tenant's role: the admin's, with another user, password and database.
    pub(super) fn tenant_url(&self, database: &str, role: &str, password: &SecretString) -> DatabaseUrl {
        let mut url = url::Url::parse(self.url.expose()).expect("it is a URL of PostgreSQL");
        url.set_username(role).expect("it has a host");
        url.set_password(Some(password.expose_secret())).expect("it has a host");
        url.path_segments_mut().expect("it has a host").clear().push(database);
        // Who, what and how it is set belong to the admin; how to get there is the same.
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

/// A connection on loan. Dropped without [`give_back`](Self::give_back), it is closed.
pub(super) struct Lent {
    object: Option<Object>,
}

impl Lent {
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

    fn client(&self) -> &tokio_postgres::Client {
        self.object.as_ref().expect("only giving it back takes it")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Out of the pool, and closed.
        drop(self.object.take().map(Object::take));
    }
}

/// A connection that holds the lock of a database.
pub(super) struct Locked {
    lent: Lent,
    database: String,
}

impl Locked {
    pub(super) async fn unlock(mut self) -> Result<(), DatabaseError> {
        let database = std::mem::take(&mut self.database);
        self.query_one("SELECT pg_advisory_unlock(hashtextextended($1, 0))", &[&database]).await?;
        self.lent.give_back();
        Ok(())
    }
}

impl Deref for Locked {
    type Target = Lent;
    fn deref(&self) -> &Lent {
        &self.lent
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Lent {
        &mut self.lent
    }
}
