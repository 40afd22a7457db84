//! The watcher of a server finds out by one query which of the server's databases were written, without connecting to
//! any of them. Its role may log in to one database that belongs to no tenant, and has no other right.
//!
//! A server counts the inserted, updated and deleted rows of each database. Reading and vacuuming change no count. A
//! session reports its counts after its transaction became visible, but perhaps much later: at most once a second, and
//! not during its next transaction, however long that is. A session reports all its counts before it leaves
//! `pg_stat_activity`. So while another program is connected to a database, the counts of this database mean nothing,
//! and the query omits the database. Docket's own sessions never wait within a transaction, and write no invoices.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use docket_schema::postgres::{Connected, DatabaseTarget, InvalidUrl};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

use super::counts::{Server, UsedConnections};
use super::error::unavailable;
use super::pool::{NO_RESPONSE, NoResponse, configured};
use crate::error::StoreError;

/// The query for the databases whose counts are complete. PostgreSQL reads the condition of a row before its columns.
/// So it reads `pg_stat_activity` before the counts of any database.
///
/// When the server loses all counts, which happens at a crash, `pg_stat_bgwriter.stats_reset` becomes the time of the loss.
const LOOK: &str = "SELECT d.datname::text, d.oid, \
    coalesce((extract(epoch FROM (SELECT stats_reset FROM pg_stat_bgwriter)) * 1000000)::bigint, 0), \
    coalesce((extract(epoch FROM pg_stat_get_db_stat_reset_time(d.oid)) * 1000000)::bigint, 0), \
    coalesce(pg_stat_get_db_tuples_inserted(d.oid) + pg_stat_get_db_tuples_updated(d.oid) \
    + pg_stat_get_db_tuples_deleted(d.oid), 0) \
    FROM pg_database d WHERE d.datallowconn AND current_setting('track_counts')::boolean \
    AND d.oid NOT IN (SELECT datid FROM pg_stat_activity \
    WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND application_name IS DISTINCT FROM 'docket')";

/// The query for the used connections. Every role may read who is connected, and how many connections a role may have.
/// A limit of -1 means that there is none.
const USED: &str = "SELECT (sum(s.used) / (current_setting('max_connections')::int \
    - current_setting('superuser_reserved_connections')::int \
    - coalesce(current_setting('reserved_connections', true), '0')::int))::float8, \
    coalesce(max(s.used / nullif(greatest(r.rolconnlimit, 0), 0)::float8), 0) \
    FROM (SELECT usesysid, count(*) AS used FROM pg_stat_activity \
    WHERE datid IS NOT NULL AND usesysid IS NOT NULL GROUP BY usesysid) s \
    LEFT JOIN pg_roles r ON r.oid = s.usesysid";

/// The number of intervals for which the result of a query is valid.
const KEPT: u32 = 3;

/// The server's counters for a database. Any difference means that the database may have been written; also a count that fell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The id of the database. A database that was dropped and created again has a new oid.
    pub oid: u32,
    /// When the server lost all counts, and when the counts of this database were reset, in microseconds since 1970; 0: never.
    pub resets: [i64; 2],
    /// The number of rows that were inserted, updated and deleted.
    pub written: i64,
}

/// The watcher of one server.
pub struct Watcher {
    url: SecretString,
    /// The connection. The query that is running holds the lock.
    client: tokio::sync::Mutex<Option<ClientWrapper>>,
    answer: Mutex<Option<Answer>>,
    /// Whether the last query failed.
    is_away: AtomicBool,
    /// What the used connections are reported to; it ends with the last tenant of the server.
    server: Mutex<Weak<Server>>,
}

struct Answer {
    until: Instant,
    by_name: HashMap<Box<str>, Counters>,
}

impl Watcher {
    /// The watcher of the server at `url`. It does not connect yet.
    ///
    /// Errors: the URL can't be used. The message never contains the URL.
    pub fn new(url: &str) -> Result<Self, InvalidUrl> {
        DatabaseTarget::parse(url)?;
        Ok(Self {
            url: url.into(),
            client: tokio::sync::Mutex::default(),
            answer: Mutex::default(),
            is_away: AtomicBool::new(false),
            server: Mutex::default(),
        })
    }

    /// Sets the server that is watched, which gets its used connections from each query.
    pub(super) fn counts_for(&self, server: &Arc<Server>) {
        *self.server.lock() = Arc::downgrade(server);
    }

    /// The counters of this database from the last query. `None`: unknown, so the database has to be read.
    pub fn counters(&self, database: &str) -> Option<Counters> {
        let answer = self.answer.lock();
        let answer = answer.as_ref().filter(|answer| Instant::now() < answer.until)?;
        answer.by_name.get(database).copied()
    }

    /// Queries the server, unless the last query is still running. The result is valid for some multiples of `every`,
    /// the time until the next query.
    pub async fn look(&self, every: Duration) {
        let Ok(mut client) = self.client.try_lock() else { return };
        let until = Instant::now() + every * KEPT;
        let answered = timeout(NO_RESPONSE, self.ask(&mut client)).await;
        let answered = answered.map_err(|_| unavailable(NoResponse)).flatten();
        let used = match client.as_ref().filter(|_| answered.is_ok()) {
            Some(client) => timeout(NO_RESPONSE, used(client)).await.ok().flatten(),
            None => None,
        };
        if let Some(server) = self.server.lock().upgrade() {
            server.uses(used);
        }
        match answered {
            Ok(by_name) => {
                *self.answer.lock() = Some(Answer { until, by_name });
                self.is_away.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                *client = None;
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error = %error,
                        "asking a PostgreSQL server which databases changed failed; all its databases are read; retrying"
                    );
                }
            }
        }
    }

    async fn ask(
        &self,
        client: &mut Option<ClientWrapper>,
    ) -> Result<HashMap<Box<str>, Counters>, StoreError> {
        let client = match client {
            Some(open) if !open.is_closed() => open,
            _ => client.insert(self.connect().await?),
        };
        let rows = client.query_typed(LOOK, &[]).await?;
        let counters = |row: &tokio_postgres::Row| {
            let resets = [row.try_get(2)?, row.try_get(3)?];
            let counters = Counters { oid: row.try_get(1)?, resets, written: row.try_get(4)? };
            Ok((row.try_get::<_, &str>(0)?.into(), counters))
        };
        rows.iter().map(counters).collect()
    }

    async fn connect(&self) -> Result<ClientWrapper, StoreError> {
        let target = configured(DatabaseTarget::parse(self.url.expose_secret()).map_err(unavailable)?);
        let Connected { client, connection, excess: _ } = target.connect().await?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(ClientWrapper::new(client, task))
    }
}

/// Returns which parts of the server's connections are used. `None`: the server does not say; no tenant notices.
async fn used(client: &ClientWrapper) -> Option<UsedConnections> {
    let row = client.query_one(USED, &[]).await.ok()?;
    Some(UsedConnections { server: row.try_get(0).ok()?, role: row.try_get(1).ok()? })
}
