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
use docket_crds::secret::SERVER;
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
    /// Where the data plane connects, if not to the server itself.
    pooler: Option<Pooler>,
    pool: Pool,
}

/// The address of a pooler in transaction mode, in front of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pooler {
    pub(super) host: String,
    pub(super) port: u16,
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
    pub(super) fn new(url: DatabaseUrl, pooler: Option<Pooler>) -> Result<Self, String> {
        let mut target = DatabaseTarget::parse(url.expose()).map_err(|error| error.to_string())?;
        if target.is_pooled() {
            // The administrator takes locks for the time of a session.
            return Err("must lead to the server itself, not to a pooler; name the pooler with the setting \
                        pooler=<host>:<port> of the flag"
                .to_owned());
        }
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
        Ok(Self { url, pooler, pool: pool.build().map_err(|error| error.to_string())? })
    }

    pub(super) fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    pub(super) fn pooler(&self) -> Option<&Pooler> {
        self.pooler.as_ref()
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
        let kept = query(url.query().unwrap_or_default().split('&').filter(|pair| is_route(pair)));
        url.set_query(kept.as_deref());
        DatabaseUrl::parse(url.as_str()).expect("a URL of PostgreSQL with another user is one")
    }

    /// The URL for the data plane: a tenant's URL, through the pooler if there is one.
    pub(super) fn served_url(&self, direct: &DatabaseUrl) -> DatabaseUrl {
        let Some(Pooler { host, port }) = &self.pooler else { return direct.clone() };
        let mut url = url::Url::parse(direct.expose()).expect("a DatabaseUrl is a URL");
        url.set_host(Some(host)).expect("the flag names a host");
        url.set_port(Some(*port)).expect("a DatabaseUrl has a host");
        let kept = query(url.query().unwrap_or_default().split('&').filter(|pair| !is_of_server(pair)));
        url.set_query(kept.as_deref());
        url.query_pairs_mut().append_pair("pooler", "transaction").append_pair(SERVER, &direct.server());
        DatabaseUrl::parse(url.as_str()).expect("a URL of PostgreSQL with another host is one")
    }
}

/// Whether a parameter says how to reach the server. The administrator's certificate does not: with it, a tenant could
/// log in as the administrator.
fn is_route(pair: &str) -> bool {
    let key = key_of(pair);
    let routes = ["hostaddr", "channel_binding", "target_session_attrs", "load_balance_hosts"];
    let is_certificate = matches!(key, "sslcert" | "sslkey" | "sslpassword");
    !is_certificate && (key.starts_with("ssl") || key.starts_with("keepalives") || routes.contains(&key))
}

/// Whether a parameter is about the server itself and not about a pooler in front of it.
fn is_of_server(pair: &str) -> bool {
    matches!(key_of(pair), "hostaddr" | "channel_binding" | "load_balance_hosts")
}

fn key_of(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

/// A query of these pairs; `None` without pairs.
fn query<'a>(pairs: impl Iterator<Item = &'a str>) -> Option<String> {
    Some(pairs.collect::<Vec<_>>().join("&")).filter(|query| !query.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn served(admin: &str, pooler: Option<(&str, u16)>) -> String {
        let pooler = pooler.map(|(host, port)| Pooler { host: host.to_owned(), port });
        let admin = AdminPool::new(DatabaseUrl::parse(admin).unwrap(), pooler).unwrap();
        let direct = admin.tenant_url("tenant_a", "tenant_a_app", &SecretString::from("p@/"));
        admin.served_url(&direct).expose().to_owned()
    }

    #[test]
    fn tenant_goes_the_administrators_way_without_its_session_settings() {
        let admin =
            "postgres://root:hunter2@db:5433/docket?sslmode=require&application_name=x&hostaddr=10.0.0.1";
        assert_eq!(
            served(admin, None),
            "postgres://tenant_a_app:p%40%2F@db:5433/tenant_a?sslmode=require&hostaddr=10.0.0.1"
        );
        assert_eq!(
            served(admin, Some(("pooler", 6432))),
            "postgres://tenant_a_app:p%40%2F@pooler:6432/tenant_a?sslmode=require&pooler=transaction&server=db%3A5433"
        );
        assert_eq!(
            served("postgres://root:hunter2@db/docket", Some(("pooler", 5432))),
            "postgres://tenant_a_app:p%40%2F@pooler:5432/tenant_a?pooler=transaction&server=db%3A5432"
        );
    }

    #[test]
    fn certificate_of_the_administrator_stays_with_it() {
        for pair in ["sslcert=/x", "sslkey=/x", "sslpassword=x", "options=-cx", "pooler=transaction"] {
            assert!(!is_route(pair), "{pair}");
        }
        for pair in ["sslmode=require", "sslrootcert=/x", "keepalives=1"] {
            assert!(is_route(pair), "{pair}");
        }
    }

    #[test]
    fn administrator_behind_a_pooler_is_refused() {
        let url = DatabaseUrl::parse("postgres://root:hunter2@pooler/docket?pooler=transaction").unwrap();
        let error = AdminPool::new(url, None).err().unwrap();
        assert!(error.contains("must lead to the server itself") && !error.contains("hunter2"), "{error}");
    }
}
