//! What can go wrong with a tenant's database, as far as a caller treats it differently.

use docket_schema::NewerSchema;
use tokio_postgres::error::SqlState;

/// Why a database is not as wanted. No message carries a URL, a password or a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// Away, full, too busy, or the login is refused: the same call may succeed later.
    #[error("the database server can't be used now: {reason}")]
    Unreachable {
        /// In the server's or the system's words.
        reason: String,
    },
    /// It is there and somebody else's; nothing was touched.
    #[error("{what} exists and {whose}")]
    NotOwned {
        /// `database "x"` or `role "x_app"`.
        what: String,
        /// Whose it is, and what can be done.
        whose: String,
    },
    /// A step of the schema failed; nothing of it has happened.
    #[error("the schema could not be migrated: {reason}")]
    MigrationFailed {
        /// In the server's words.
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
    /// The server does not let us: a right of the admin role is missing, or a setting is in the way.
    #[error("the database server refuses: {reason}")]
    Refused {
        /// What is missing and how to grant it, or the server's words.
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
        Self::refused(format!("what is set on database {database:?} is changed back by somebody else"))
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = words(&error);
        if is_away(&error) { Self::Unreachable { reason } } else { Self::Refused { reason } }
    }
}

/// Whether there was no answer, or one that says "not now".
pub(super) fn is_away(error: &tokio_postgres::Error) -> bool {
    // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40 rollback
    // (serialization, deadlock), 58 system, 55 not in that state (in use, locked); 28 and 3D: the role or the
    // database is gone; 25006: standby.
    let away = ["08", "53", "57", "40", "58", "55", "28", "3D"];
    error
        .code()
        .is_none_or(|code| away.contains(&&code.code()[..2]) || *code == SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// The server's words without the detail, which may repeat values; or those of the system.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!("{} ({})", server.message(), server.code().code());
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
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_server_names_the_known_ones() {
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
