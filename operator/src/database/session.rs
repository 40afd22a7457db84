//! One connection to a tenant's database, for as long as a migration takes.

use std::time::Duration;

use docket_schema::postgres::{self, MigrateError, Target};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};

use super::DatabaseError;
use super::error::{is_away, words};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The server ends a statement itself; this is for a server that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// What all our connections have in common.
pub(super) fn configure(config: &mut Config) {
    config.connect_timeout(CONNECT_TIMEOUT);
    // The second setting ends the statement of a caller that has gone, such as a long migration.
    config.options(format!(
        "-c statement_timeout={} -c client_connection_check_interval={}",
        STATEMENT_TIMEOUT.as_millis(),
        CONNECT_TIMEOUT.as_millis()
    ));
    config.application_name("docket-operator");
    config.keepalives_idle(STATEMENT_TIMEOUT);
    config.tcp_user_timeout(STATEMENT_TIMEOUT);
}

/// Waits for an answer of the server, not for ever.
pub(super) async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, DatabaseError> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
    answer.map_err(|_| DatabaseError::unreachable("the server does not answer"))
}

/// A connection. Dropped, it is closed at once, also in the middle of a statement.
pub(super) struct Session {
    client: Client,
    _connection: JoinSet<Result<(), tokio_postgres::Error>>,
}

/// Why a login failed.
#[derive(Debug)]
pub(super) enum LoginError {
    /// The password is not the role's.
    Password(DatabaseError),
    /// There is no connection left, for the role or at all.
    Full(DatabaseError),
    /// Anything else.
    Other(DatabaseError),
}

impl From<LoginError> for DatabaseError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Password(error) | LoginError::Full(error) | LoginError::Other(error) => error,
        }
    }
}

impl From<DatabaseError> for LoginError {
    fn from(error: DatabaseError) -> Self {
        Self::Other(error)
    }
}

impl Session {
    pub(super) async fn open(url: &str) -> Result<Self, LoginError> {
        let mut target = Target::parse(url).map_err(|error| DatabaseError::refused(error.to_string()))?;
        configure(&mut target.config);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, target.config.connect(target.tls)).await;
        let connected = connected.map_err(|_| DatabaseError::unreachable("the server does not answer"))?;
        let (client, connection) = connected.map_err(|error| {
            let reason = DatabaseError::unreachable(words(&error));
            match error.code() {
                Some(&SqlState::INVALID_PASSWORD) => LoginError::Password(reason),
                Some(&SqlState::TOO_MANY_CONNECTIONS) => LoginError::Full(reason),
                _ => LoginError::Other(reason),
            }
        })?;
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        Ok(Self { client, _connection: tasks })
    }

    /// The schema's version; 0: there is none.
    pub(super) async fn version(&self) -> Result<i64, DatabaseError> {
        Ok(bounded(postgres::version(&self.client)).await??)
    }

    /// Brings the schema to this version's; answers the version.
    pub(super) async fn migrate(&mut self) -> Result<i64, DatabaseError> {
        postgres::migrate(&mut self.client).await.map_err(|error| match error {
            MigrateError::Newer(error) => DatabaseError::SchemaNewer(error),
            MigrateError::Database(error) if is_away(&error) => DatabaseError::unreachable(words(&error)),
            MigrateError::Database(error) => DatabaseError::MigrationFailed { reason: words(&error) },
        })
    }

    /// The Tenant that has this external database, by UID; `None`: nobody yet.
    pub(super) async fn owner(&self) -> Result<Option<String>, DatabaseError> {
        Ok(bounded(postgres::owner(&self.client)).await??)
    }

    /// Writes that a Tenant has it, if nobody does; in another's place only if `adopt`.
    pub(super) async fn claim(&mut self, uid: &str, adopt: bool) -> Result<(), DatabaseError> {
        Ok(bounded(postgres::claim(&mut self.client, uid, adopt)).await??)
    }
}
