//! The errors of tenants' databases that callers treat differently.

use docket_schema::NewerSchema;
use docket_schema::postgres::{class_of, shown};
use tokio_postgres::error::SqlState;

/// Why a database is not as wanted. No message contains a URL, a password or a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The server is down, full, too busy, or refuses the login. The same call may succeed later.
    #[error("the database server is not available: {reason}")]
    Unreachable {
        /// The message of the server or of the system.
        reason: String,
    },
    /// It exists and belongs to another; it was left unchanged.
    #[error("{what} exists and {whose}")]
    NotOwned {
        /// `database "x"` or `role "x_app"`.
        what: String,
        /// Whose it is, and what can be done.
        whose: String,
    },
    /// A migration failed and was rolled back.
    #[error("schema migration failed: {reason}")]
    MigrationFailed {
        /// The server's message.
        reason: String,
    },
    /// The database was migrated by a later version of Docket.
    #[error("{0}")]
    SchemaNewer(NewerSchema),
    /// No server has this name.
    #[error("{}", server_unknown(.wanted.as_deref(), .known))]
    ServerUnknown {
        /// `spec.database.managed.server`.
        wanted: Option<String>,
        /// The names that `--database-server` gives.
        known: Vec<String>,
    },
    /// The server refuses a statement: the admin role lacks a right, or a setting forbids it.
    #[error("the database server refused: {reason}")]
    Refused {
        /// What is missing and how to grant it, or the server's message.
        reason: String,
    },
}

fn server_unknown(wanted: Option<&str>, known: &[String]) -> String {
    let known = match known {
        [] => "the operator has no --database-server".to_owned(),
        known => format!("the operator has {}", known.join(", ")),
    };
    match wanted {
        Some(wanted) => format!("spec.database.managed.server: no server is named {wanted:?}; {known}"),
        None => format!("spec.database.managed: {known}"),
    }
}

impl DatabaseError {
    pub(super) fn unreachable(reason: impl Into<String>) -> Self {
        Self::Unreachable { reason: reason.into() }
    }

    pub(super) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }

    pub(super) fn changing(database: &str) -> Self {
        Self::refused(format!("another program keeps changing database {database:?} back; stop it"))
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = words(&error);
        if is_away(&error) { Self::Unreachable { reason } } else { Self::Refused { reason } }
    }
}

/// Whether the server did not respond, or responded that it can't now.
pub(super) fn is_away(error: &tokio_postgres::Error) -> bool {
    // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40 rollback
    // (serialization, deadlock), 58 system, 55 not in that state (in use, locked); 28 and 3D: the role or the
    // database is gone; 25006: standby.
    let away = ["08", "53", "57", "40", "58", "55", "28", "3D"];
    error
        .code()
        .is_none_or(|code| away.contains(&class_of(code)) || *code == SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// The message of the server or of the system, cut. The server's detail is left out, because it may quote values.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!("{} ({})", shown(server.message()), shown(server.code().code()));
    }
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    shown(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_server_error_names_the_known_servers() {
        let error = |wanted: Option<&str>, known: &[&str]| {
            let known = known.iter().map(ToString::to_string).collect();
            DatabaseError::ServerUnknown { wanted: wanted.map(str::to_owned), known }.to_string()
        };
        assert_eq!(
            error(Some("eu"), &["main", "us"]),
            "spec.database.managed.server: no server is named \"eu\"; the operator has main, us"
        );
        assert_eq!(error(None, &[]), "spec.database.managed: the operator has no --database-server");
    }
}
