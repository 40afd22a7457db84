//! Where the tenants of a test are stored: in SQLite files of `docket dev`. With `DOCKET_TESTS_ON=servers` in PostgreSQL and Redis of
//! `docket serve`, and the same tests run on that; with `DOCKET_TESTS_ON=pooler` through a PgBouncer in transaction mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use docket_rig::redis::RedisServer;
use docket_rig::{pgbouncer, postgres};
use rusqlite::params_from_iter;
use rusqlite::types::{FromSql, Value, ValueRef};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

/// Whether the tests run on servers.
#[expect(clippy::disallowed_methods, reason = "a choice of the whole test run, as the binary is")]
pub fn are_servers() -> bool {
    static ARE: LazyLock<bool> =
        LazyLock::new(|| std::env::var("DOCKET_TESTS_ON").is_ok_and(|on| on == "servers"));
    *ARE || pgbouncer::is_wanted()
}

/// The servers of one test: a Redis, and a database for each tenant.
#[derive(Debug, Default)]
pub struct Servers {
    redis: OnceLock<(RedisServer, PathBuf)>,
    databases: Mutex<BTreeMap<String, (String, Arc<Client>)>>,
}

impl Servers {
    /// The file with the URL of Redis, which is in this folder.
    pub fn redis_url_file(&self, folder: &Path) -> &Path {
        let (_, file) = self.redis.get_or_init(|| {
            let (redis, file) = (RedisServer::start(&[]), folder.join("redis-url"));
            write_secret(&file, &redis.url());
            (redis, file)
        });
        file
    }

    /// YAML in which the databases of [`tenant_yaml`](crate::server::tenant_yaml) are on the server.
    pub fn place(&self, yaml: &str) -> String {
        let (mut placed, mut secrets) = (String::new(), String::new());
        let mut parts = yaml.split("managed: {name: tenant_");
        placed.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (name, rest) = part.split_once('}').expect("a name");
            let url = pgbouncer::through(&self.database(&name.to_uppercase()).0);
            placed
                .push_str(&format!("external: {{secretKeyRef: {{name: {name}-database, key: url}}}}{rest}"));
            secrets.push_str(&format!(
                "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}-database}}\nstringData: {{url: \"{url}\"}}\n"
            ));
        }
        placed + &secrets
    }

    /// The database of a tenant: its URL and a connection.
    fn database(&self, client_code: &str) -> (String, Arc<Client>) {
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let database = databases.entry(client_code.to_owned()).or_insert_with(|| {
            static EMPTY: LazyLock<String> = LazyLock::new(|| wait(migrated()));
            let empty = EMPTY.as_str();
            wait(async move {
                let url = postgres::copy(empty).await;
                let client = postgres::client(&url).await;
                (url, Arc::new(client))
            })
        });
        database.clone()
    }

    pub(crate) fn open(&self, client_code: &str) -> Database {
        Database(Connection::Server(self.database(client_code).1))
    }
}

/// A database with the schema and nothing in it, to be copied: migrations take longer.
async fn migrated() -> String {
    let url = postgres::database().await;
    let database = postgres::client(&url).await;
    database.batch_execute(docket_schema::CREATE_VERSION_TABLE).await.expect("a statement");
    for migration in docket_schema::MIGRATIONS {
        database.batch_execute(migration.sql.postgres()).await.expect("a migration");
        for index in migration.indexes {
            database.batch_execute(index.create).await.expect("an index");
        }
        let row: [&(dyn ToSql + Sync); 3] = [&migration.version, &migration.name, &0_i64];
        database.execute(docket_schema::RECORD_VERSION, &row).await.expect("a statement");
    }
    url
}

/// Waits for work on the server, in a test that may be of another runtime.
fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    });
    let (done, result) = std::sync::mpsc::channel();
    RUNTIME.spawn(async move { done.send(work.await) });
    result.recv().expect("no panic")
}

/// A connection of another program to the database of a tenant.
#[derive(Debug)]
pub struct Database(Connection);

#[derive(Debug)]
enum Connection {
    File(rusqlite::Connection),
    Server(Arc<Client>),
}

/// A row of a [`Database`].
#[derive(Debug)]
pub struct Row(Vec<Value>);

impl Row {
    /// A column by its place, from 0.
    pub fn get<T: FromSql>(&self, place: usize) -> T {
        let value = &self.0[place];
        T::column_result(ValueRef::from(value)).unwrap_or_else(|error| panic!("{error}: {value:?}"))
    }
}

impl Database {
    pub(crate) fn file(path: &Path) -> Self {
        use rusqlite::OpenFlags;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).expect("a database");
        connection.busy_timeout(Duration::from_secs(10)).expect("settable");
        Self(Connection::File(connection))
    }

    /// Runs statements.
    pub fn change(&self, sql: &str) {
        match &self.0 {
            Connection::File(connection) => connection.execute_batch(sql).expect("statements"),
            Connection::Server(client) => {
                let (client, sql) = (Arc::clone(client), sql.to_owned());
                wait(async move { client.batch_execute(&sql).await }).expect("statements");
            }
        }
    }

    /// The rows of a query, with `?1`, `?2` … for the values.
    pub fn rows(&self, sql: &str, values: &[&str]) -> Vec<Row> {
        match &self.0 {
            Connection::File(connection) => {
                let mut statement = connection.prepare(sql).expect("a statement");
                let columns = statement.column_count();
                let rows = statement.query_map(params_from_iter(values), |row| {
                    (0..columns).map(|place| row.get(place)).collect::<Result<_, _>>().map(Row)
                });
                rows.expect("rows").collect::<Result<_, _>>().expect("rows")
            }
            Connection::Server(client) => {
                let values = values.iter().enumerate();
                let sql = values.fold(sql.to_owned(), |sql, (place, value)| {
                    sql.replace(&format!("?{}", place + 1), &format!("'{}'", value.replace('\'', "''")))
                });
                let client = Arc::clone(client);
                let rows = wait(async move { client.query(&sql, &[]).await }).expect("rows");
                let columns =
                    |row: &tokio_postgres::Row| (0..row.len()).map(|place| value(row, place)).collect();
                rows.iter().map(|row| Row(columns(row))).collect()
            }
        }
    }

    /// Begins a transaction that lets no other program save an order, until a `ROLLBACK` or `COMMIT`.
    pub fn lock_orders(&self) {
        self.change(match &self.0 {
            Connection::File(_) => "BEGIN IMMEDIATE",
            Connection::Server(_) => "BEGIN; LOCK TABLE web_order IN EXCLUSIVE MODE",
        });
    }

    /// The one value of a query.
    pub fn get<T: FromSql>(&self, sql: &str) -> T {
        let rows = self.rows(sql, &[]);
        assert_eq!(rows.len(), 1, "{sql}");
        rows[0].get(0)
    }
}

/// What sorts the rows of a table in the order in which they were added.
pub fn order() -> &'static str {
    if are_servers() { "ctid" } else { "rowid" }
}

/// These bytes in SQL.
pub fn bytes(bytes: &[u8]) -> String {
    let digits = hex::encode(bytes);
    if are_servers() { format!("'\\x{digits}'::bytea") } else { format!("x'{digits}'") }
}

/// The time of the database in SQL, in milliseconds since 1970.
pub fn now_ms() -> &'static str {
    match are_servers() {
        true => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        false => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    }
}

/// A column of a row, in the type that SQLite has for it.
fn value(row: &tokio_postgres::Row, place: usize) -> Value {
    let value = match *row.columns()[place].type_() {
        Type::INT8 => row.get::<_, Option<i64>>(place).map(Value::Integer),
        Type::INT4 => row.get::<_, Option<i32>>(place).map(|number| Value::Integer(number.into())),
        Type::BOOL => row.get::<_, Option<bool>>(place).map(|is| Value::Integer(is.into())),
        Type::BYTEA => row.get::<_, Option<Vec<u8>>>(place).map(Value::Blob),
        _ => row.get::<_, Option<String>>(place).map(Value::Text),
    };
    value.unwrap_or(Value::Null)
}

/// Writes a file that only its owner can read.
pub fn write_secret(file: &Path, text: &str) {
    std::fs::write(file, text).expect("writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(file, mode).expect("its owner");
}
