//! SQLite: one file per tenant, opened when needed and closed when idle.
//!
//! The writers of a process wait here for their turn, instead of in SQLite's busy loop. SQLite's own timeout waits
//! for other processes (the CLI). Every commit syncs the write-ahead log, so acknowledged writes survive a power cut.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::StoreError;
use crate::sql::{Param, Row, Statement as Sql};

/// How long a statement waits for another process's write lock, and how long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(3);
/// The number of connections that read beside the writer.
const READERS: usize = 2;

/// One tenant's file.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<SqliteInner>,
}

struct SqliteInner {
    path: PathBuf,
    /// The version of the schema, as it was last read. At first it is this program's version.
    schema: AtomicI64,
    writer: SqlitePool,
    reader: SqlitePool,
}

/// When the file and its log were last written, and how long they are. The same state means the same content, except
/// for writes within one tick of the file system's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileState([Option<(SystemTime, u64)>; 2]);

impl FileState {
    /// Whether there is no file, or it is empty.
    pub fn does_not_exist(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The state of a file of this length, in bytes, that was written in 1970 and has no log. For tests.
    pub fn of_length(length: u64) -> Self {
        Self([Some((SystemTime::UNIX_EPOCH, length)), None])
    }
}

/// Connections of one kind: how many may be on loan, and the idle connections.
struct SqlitePool {
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<(FileConnection, Instant)>>,
}

impl SqlitePool {
    fn new(size: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(size)), idle: Mutex::new(Vec::new()) }
    }

    fn put_back(&self, connection: FileConnection) {
        self.idle.lock().push((connection, Instant::now()));
    }

    fn take(&self) -> Option<FileConnection> {
        self.idle.lock().pop().map(|(connection, _)| connection)
    }

    fn take_idle_for(&self, time: Duration) -> Vec<FileConnection> {
        self.idle
            .lock()
            .extract_if(.., |(_, since)| since.elapsed() >= time)
            .map(|(connection, _)| connection)
            .collect()
    }
}

/// A connection, and which file it was opened on.
struct FileConnection {
    connection: Connection,
    file: (u64, u64),
}

impl FileConnection {
    /// Whether the path still leads to this file. Writes to a file that was removed or replaced would be lost.
    fn is_current(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|file| file == self.file)
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[derive(Debug, thiserror::Error)]
#[error("the database file {} was removed or replaced", .0.display())]
struct FileGone(PathBuf);

#[derive(Debug, thiserror::Error)]
#[error("no turn within {} s", WAIT.as_secs())]
struct NoTurn;

impl Sqlite {
    /// The database in the file at `path`. It opens and creates nothing yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            shared: Arc::new(SqliteInner {
                path,
                schema: AtomicI64::new(docket_schema::NEWEST),
                writer: SqlitePool::new(1),
                reader: SqlitePool::new(READERS),
            }),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The version of the schema, as it was last read. At first it is this program's version.
    pub(super) fn schema(&self) -> &AtomicI64 {
        &self.shared.schema
    }

    /// When the file and its log were written, and how long they are. An empty log counts as no log: opening a
    /// connection creates one, and closing deletes it.
    pub fn file_state(&self) -> FileState {
        let wal = self.path().with_extension("db-wal");
        FileState([self.path(), &wal].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len())).filter(|(_, length)| *length > 0)
        }))
    }

    /// Whether a connection is open, in use or idle.
    pub fn is_open(&self) -> bool {
        let SqliteInner { writer, reader, .. } = &*self.shared;
        writer.turns.available_permits() < 1
            || reader.turns.available_permits() < READERS
            || !writer.idle.lock().is_empty()
            || !reader.idle.lock().is_empty()
    }

    /// Closes the connections that were idle for `unused_for`. The next call opens connections again.
    pub async fn close_idle(&self, unused_for: Duration) {
        let SqliteInner { writer, reader, .. } = &*self.shared;
        let mut idle = writer.take_idle_for(unused_for);
        idle.extend(reader.take_idle_for(unused_for));
        if !idle.is_empty() {
            // Closing the last connection writes the log into the file, which takes a while.
            let _ = blocking(move || {
                drop(idle);
                Ok(())
            })
            .await;
        }
    }

    pub(super) async fn reader(&self) -> Result<SqliteConnection, StoreError> {
        self.connection(false, Make::Never).await
    }

    pub(super) async fn writer(&self) -> Result<SqliteConnection, StoreError> {
        self.connection(true, Make::Never).await
    }

    async fn connection(&self, writer: bool, make: Make) -> Result<SqliteConnection, StoreError> {
        let shared = Arc::clone(&self.shared);
        let turns = Arc::clone(if writer { &shared.writer.turns } else { &shared.reader.turns });
        let turn = tokio::time::timeout(WAIT, turns.acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| StoreError::Unavailable(Box::new(NoTurn)))?;
        let lane = if writer { &shared.writer } else { &shared.reader };
        let connection = match lane.take().filter(|opened| opened.is_current(&shared.path)) {
            Some(connection) => connection,
            None => {
                let path = shared.path.clone();
                blocking(move || open(&path, make)).await?
            }
        };
        Ok(SqliteConnection {
            connection: Some(connection),
            shared,
            writer,
            in_transaction: false,
            failed: false,
            _turn: turn,
        })
    }

    /// Begins a transaction, and creates the file if there is none.
    pub(super) async fn begin_migration(&self) -> Result<SqliteConnection, StoreError> {
        let mut connection = self.connection(true, Make::IfMissing).await?;
        connection.begin_with(Vec::new()).await?;
        Ok(connection)
    }
}

/// Whether to create a missing file. Only the migration does this, before the first use. If the file is missing
/// later, another program has removed it, and an empty file in its place would hide that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Make {
    Never,
    IfMissing,
}

fn open(path: &Path, make: Make) -> Result<FileConnection, StoreError> {
    // One thread at a time uses a connection, which the lanes ensure.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if make == Make::IfMissing {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(WAIT)?;
    use_write_ahead_log(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    // 512 KiB per connection, because hundreds of tenants' files may be open at the same time.
    connection.pragma_update(None, "cache_size", "-512")?;
    // SQLite's own function changes only ASCII letters, PostgreSQL's all letters.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("lower", 1, flags, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).to_lowercase()),
            _ => None,
        })
    })?;
    connection.set_prepared_statement_cache_capacity(64);
    if make == Make::Never {
        // An emptied file is not Docket's database any more. Without this check, each statement would fail in its own way.
        connection
            .query_row("SELECT version FROM schema_version LIMIT 1", (), |_| Ok(()))
            .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    }
    let file = identity(path).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(FileConnection { connection, file })
}

/// Switches a file to a write-ahead log, once. SQLite's busy timeout does not apply if two connections switch at the same time.
fn use_write_ahead_log(connection: &Connection) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < WAIT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return Ok(other?),
        }
    }
}

/// A borrowed connection. If it is dropped inside a transaction, it is closed, which rolls the transaction back.
pub struct SqliteConnection {
    connection: Option<FileConnection>,
    shared: Arc<SqliteInner>,
    writer: bool,
    in_transaction: bool,
    failed: bool,
    _turn: OwnedSemaphorePermit,
}

impl SqliteConnection {
    pub(super) fn schema(&self) -> &AtomicI64 {
        &self.shared.schema
    }

    pub(super) async fn execute(&mut self, sql: &str, params: Vec<Param>) -> Result<u64, StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            bind(&mut statement, params)?;
            Ok(statement.raw_execute()? as u64)
        })
        .await
    }

    pub(super) async fn query(&mut self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| query(connection, &sql, params)).await
    }

    /// Runs statements in one call of the thread.
    pub(super) async fn all(&mut self, statements: Vec<Sql>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.run(move |connection| all(connection, statements)).await
    }

    /// Begins a transaction and runs statements.
    pub(super) async fn begin_with(&mut self, statements: Vec<Sql>) -> Result<Vec<Vec<Row>>, StoreError> {
        let only_begins = statements.is_empty();
        // IMMEDIATE takes the write lock now, so that nothing that the transaction reads is stale when it writes.
        let begun = self.run(move |connection| {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            all(connection, statements)
        });
        let rows = begun.await;
        self.in_transaction = rows.is_ok() || !only_begins;
        rows
    }

    /// Runs statements and commits, in one call of the thread.
    pub(super) async fn commit_after(mut self, statements: Vec<Sql>) -> Result<Vec<Vec<Row>>, StoreError> {
        // After a failed statement, SQLite would commit the other statements; or none, if a full disk has already
        // ended the transaction.
        if self.failed {
            return Err(StoreError::Unexpected("a commit after a failed statement"));
        }
        if !self.connection.as_ref().is_some_and(|opened| opened.is_current(&self.shared.path)) {
            return Err(StoreError::Unavailable(Box::new(FileGone(self.shared.path.clone()))));
        }
        let rows = self
            .run(move |connection| {
                let rows = all(connection, statements)?;
                connection.execute_batch("COMMIT")?;
                Ok(rows)
            })
            .await?;
        self.in_transaction = false;
        Ok(rows)
    }

    pub(super) async fn rollback(mut self) -> Result<(), StoreError> {
        self.batch("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| Ok(connection.execute_batch(&sql)?)).await
    }

    /// Runs `work` on a thread that may block. If this future is dropped meanwhile, the connection is not given back,
    /// but closed when the thread is done.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let connection =
            self.connection.take().ok_or(StoreError::Unexpected("a connection used after it was lost"))?;
        let (connection, result) = blocking(move || {
            let result = work(&connection.connection);
            Ok((connection, result))
        })
        .await?;
        self.connection = Some(connection);
        self.failed |= result.is_err();
        result
    }
}

impl Drop for SqliteConnection {
    fn drop(&mut self) {
        let lane = if self.writer { &self.shared.writer } else { &self.shared.reader };
        match self.connection.take() {
            Some(connection) if !self.in_transaction => lane.put_back(connection),
            _ => {}
        }
    }
}

/// Runs statements, each in pieces, and returns the rows of each.
fn all(connection: &Connection, statements: Vec<Sql>) -> Result<Vec<Vec<Row>>, StoreError> {
    let rows = |statement: Sql| {
        let mut rows = Vec::new();
        for (sql, params) in statement.for_sqlite() {
            rows.extend(query(connection, sql, params)?);
        }
        Ok(rows)
    };
    statements.into_iter().map(rows).collect()
}

fn query(connection: &Connection, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    bind(&mut statement, params)?;
    let rows = statement.raw_query().mapped(|row| {
        (0..columns).map(|index| row.get_ref(index).map(value)).collect::<Result<_, _>>().map(Row::Sqlite)
    });
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads a stored value. SQLite accepts any bytes as a text, and other programs may write another encoding. Such a
/// text is shown with replacement characters; an error would hide its row and all rows beside it.
fn value(stored: ValueRef<'_>) -> Value {
    match stored {
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        other => other.try_into().unwrap_or(Value::Null),
    }
}

/// Binds the values by name. SQLite numbers `$1` by where it first appears, not by its digits. So a list of values
/// would fit only a statement that mentions them in order. As on PostgreSQL, a statement uses each of its values.
fn bind(statement: &mut Statement<'_>, params: Vec<Param>) -> Result<(), rusqlite::Error> {
    if statement.parameter_count() != params.len() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), statement.parameter_count()));
    }
    for (number, param) in (1..).zip(params) {
        statement.raw_bind_parameter(format!("${number}").as_str(), Value::from(param))?;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Unavailable(Box::new(error)))?
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                let keys = [
                    rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE,
                    rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
                    rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
                ];
                match error.sqlite_error() {
                    Some(detail) if keys.contains(&detail.extended_code) => Self::Conflict,
                    _ => Self::Refused(Box::new(error)),
                }
            }
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed,
            ) => Self::Unavailable(Box::new(error)),
            _ => Self::Refused(Box::new(error)),
        }
    }
}
