//! A connection to a tenant's database with the tenant's own role: versions, migrations, ownership.

use std::time::Duration;

use docket_schema::postgres::{self, Connected, DatabaseTarget, ExcessFound, MigrateError, class_of};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::error::{DatabaseError, class, is_away, words};
use super::names::Mark;
use super::wanted::MigrationTurn;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit of a response. It is longer than the statement timeout that the server enforces, for a server that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// The time limit of a migration.
const LONGEST_MIGRATION: Duration = Duration::from_secs(30 * 60);

/// Sets the options of every connection to a database server. A pooler refuses start-up options.
pub(super) fn configure(target: &mut DatabaseTarget) {
    let is_pooled = target.is_pooled();
    let config = &mut target.config;
    config.connect_timeout(CONNECT_TIMEOUT);
    if !is_pooled {
        // The second setting ends a statement, such as a long migration, if its client disconnected.
        config.options(format!(
            "-c statement_timeout={} -c client_connection_check_interval={}",
            STATEMENT_TIMEOUT.as_millis(),
            CONNECT_TIMEOUT.as_millis()
        ));
    }
    config.application_name("docket-operator");
    config.keepalives_idle(STATEMENT_TIMEOUT);
    config.tcp_user_timeout(STATEMENT_TIMEOUT);
}

/// Waits for the server's response, within [`ANSWER_TIMEOUT`].
pub(super) async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, DatabaseError> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
    answer.map_err(|_| DatabaseError::unreachable("no response in time"))
}

/// The text for a Tenant's status. The message of an external database's server is only logged, for the platform.
fn reason(error: &Error, is_external: bool) -> String {
    if !is_external {
        return words(error);
    }
    let class = class(error);
    tracing::info!(error = words(error), class, "an external database failed");
    class
}

/// A connection. Dropping it closes the connection immediately, even during a statement.
pub(super) struct Session {
    client: Client,
    excess: ExcessFound,
    is_external: bool,
    _connection: JoinSet<Result<(), Error>>,
}

/// Why a login failed.
#[derive(Debug)]
pub(super) enum LoginError {
    /// The server has another password for the role.
    Password(DatabaseError),
    /// The role or the server has no free connection.
    Full(DatabaseError),
    /// The server did not respond; or a pooler has no connection to it.
    Silent(DatabaseError),
    /// The login failed for another reason.
    Other(DatabaseError),
}

impl From<LoginError> for DatabaseError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Password(error)
            | LoginError::Full(error)
            | LoginError::Silent(error)
            | LoginError::Other(error) => error,
        }
    }
}

impl From<DatabaseError> for LoginError {
    fn from(error: DatabaseError) -> Self {
        Self::Other(error)
    }
}

impl Session {
    /// Connects by a URL that the platform wrote.
    pub(super) async fn open(url: &str) -> Result<Self, LoginError> {
        Self::to(DatabaseTarget::parse(url).map_err(|error| DatabaseError::refused(error.to_string()))?).await
    }

    pub(super) async fn to(mut target: DatabaseTarget) -> Result<Self, LoginError> {
        configure(&mut target);
        let is_external = target.is_external();
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, target.connect()).await;
        let silent = || LoginError::Silent(DatabaseError::unreachable("no response in time"));
        let connected = connected.map_err(|_| silent())?;
        let Connected { client, connection, excess } = connected.map_err(|error| {
            let reason = DatabaseError::unreachable(reason(&error, is_external));
            match error.code() {
                Some(&SqlState::INVALID_PASSWORD) => LoginError::Password(reason),
                Some(&SqlState::TOO_MANY_CONNECTIONS) => LoginError::Full(reason),
                code if code.is_none_or(|code| class_of(code) == "08") => LoginError::Silent(reason),
                _ => LoginError::Other(reason),
            }
        })?;
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        Ok(Self { client, excess, is_external, _connection: tasks })
    }

    /// Converts the error of a statement. The library says only that a connection is closed, not why.
    fn error(&self, error: Error) -> DatabaseError {
        match self.excess.get() {
            Some(excess) => DatabaseError::unreachable(excess.to_string()),
            None if is_away(&error) => DatabaseError::unreachable(self.reason(&error)),
            None => DatabaseError::refused(self.reason(&error)),
        }
    }

    fn reason(&self, error: &Error) -> String {
        reason(error, self.is_external)
    }

    /// The schema's version, and whether it needs a migration.
    async fn version(&self) -> Result<(i64, bool), DatabaseError> {
        let applied = bounded(postgres::applied(&self.client)).await?.map_err(|error| self.error(error))?;
        let missing = applied.missing().map_err(DatabaseError::SchemaNewer)?;
        Ok((applied.version, !missing.is_empty()))
    }

    /// Checks that the database responds. A pooler may accept a login before it has a connection to the server.
    pub(super) async fn check(&self) -> Result<(), LoginError> {
        let answer = bounded(self.client.simple_query("SELECT 1")).await.map_err(LoginError::Silent)?;
        answer.map(drop).map_err(|error| match is_away(&error) {
            true => LoginError::Silent(self.error(error)),
            false => LoginError::Other(self.error(error)),
        })
    }

    /// Whether the schema needs a migration. Returns false if the version can't be read; then the migration reports why.
    pub(super) async fn is_behind(&self) -> bool {
        self.version().await.is_ok_and(|(_, is_behind)| is_behind)
    }

    /// Migrates the schema to this program's version, if its turn has come, and returns the version that it has then.
    /// Only a few migrations run at a time, because a tenant can make one slow. An existing database waits for a later
    /// pass, because its Tenant works meanwhile. A new database waits here; if it waits too long, the pass is retried.
    pub(super) async fn migrate(&mut self, turn: MigrationTurn<'_>) -> Result<i64, DatabaseError> {
        let (version, is_behind) = self.version().await?;
        let is_new = version == 0;
        if !is_behind || !(is_new || turn.is_now) {
            return Ok(version);
        }
        let _place = if is_new {
            let place = tokio::time::timeout(STATEMENT_TIMEOUT, turn.places.acquire()).await;
            place
                .map_err(|_| DatabaseError::unreachable("waiting for the migrations of other databases"))?
                .ok()
        } else {
            match turn.places.try_acquire() {
                Ok(place) => Some(place),
                Err(_) => return Ok(version),
            }
        };
        let migrated = tokio::time::timeout(LONGEST_MIGRATION, postgres::migrate(&mut self.client)).await;
        let migrated = migrated.map_err(|_| {
            DatabaseError::unreachable(format!("the migration did not finish within {LONGEST_MIGRATION:?}"))
        })?;
        if let Err(MigrateError::Database(error)) = &migrated
            && !is_new
            && error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
        {
            // A table is in use, so the database works. Its migration waits for another offer.
            return Ok(version);
        }
        migrated.map_err(|error| match error {
            MigrateError::Newer(error) => DatabaseError::SchemaNewer(error),
            MigrateError::Database(error) if is_away(&error) => self.error(error),
            MigrateError::Database(error) => DatabaseError::MigrationFailed { reason: self.reason(&error) },
        })
    }

    /// The UID of the Tenant for which an operator created this database; `None`: no operator created it.
    pub(super) async fn made_for(&self) -> Result<Option<String>, DatabaseError> {
        let comment = bounded(postgres::comment(&self.client)).await?.map_err(|error| self.error(error))?;
        Ok(comment.and_then(|comment| Mark::read(&comment).map(|mark| mark.uid.to_owned())))
    }

    /// The UID of the Tenant that uses this external database; `None`: no Tenant yet.
    pub(super) async fn owner(&self) -> Result<Option<String>, DatabaseError> {
        bounded(postgres::owner(&self.client)).await?.map_err(|error| self.error(error))
    }

    /// Records that a Tenant uses the database, unless another Tenant does. With `adopt`, it replaces the other Tenant.
    pub(super) async fn claim(&mut self, uid: &str, adopt: bool) -> Result<(), DatabaseError> {
        bounded(postgres::claim(&mut self.client, uid, adopt)).await?.map_err(|error| match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => DatabaseError::refused(format!(
                "{}; the URL's role must own the database, or have CREATE on its schema",
                self.reason(&error)
            )),
            _ => self.error(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_ends_statements_after_half_a_minute_and_a_pooler_gets_no_options() {
        let options = |url: &str| {
            let mut target = DatabaseTarget::parse(url).expect(url);
            configure(&mut target);
            target.config.get_options().map(str::to_owned)
        };
        let expected = "-c statement_timeout=30000 -c client_connection_check_interval=5000";
        assert_eq!(options("postgres://docket@db.example/docket").as_deref(), Some(expected));
        assert_eq!(options("postgres://docket@db.example/docket?pooler=transaction"), None);
    }
}
