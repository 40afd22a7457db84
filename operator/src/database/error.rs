//! The errors of tenants' databases that callers treat differently.

use std::error::Error as _;
use std::io;

use docket_schema::NewerSchema;
use docket_schema::postgres::{NotAllowed, class_of, shown, with_causes};
use tokio_postgres::error::SqlState;

/// Why a database does not have its declared state. No message contains a URL, a password or a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The server is down, full, too busy, or refuses the login. The same call may succeed later.
    #[error("the database server is not available: {reason}")]
    Unreachable {
        /// The message of the server or of the system.
        reason: String,
    },
    /// The server refuses a session of its administrator: all its databases are unavailable, and this pass has learned
    /// nothing about this database.
    #[error("the database server is not available: {reason}")]
    ServerAway {
        /// The message of the server or of the system.
        reason: String,
    },
    /// The database or role exists and belongs to another owner. It was left unchanged.
    #[error("{what} exists and {whose}")]
    NotOwned {
        /// `database "x"` or `role "x_app"`.
        what: String,
        /// The owner, and what to do.
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
    /// The platform does not allow the URL of an external database.
    #[error("spec.database.external: {reason}")]
    UrlRefused {
        /// The mistake in the URL, without the URL.
        reason: String,
    },
    /// No server has this name.
    #[error("{}", server_unknown(.wanted.as_deref(), .known))]
    ServerUnknown {
        /// The value of `spec.database.managed.server`.
        wanted: Option<String>,
        /// The names in `--database-server`.
        known: Vec<String>,
    },
    /// The server refuses a statement, because the administrator's role lacks a right, or because of a setting.
    #[error("the database server refused: {reason}")]
    Refused {
        /// The missing right and how to grant it; or the server's message.
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

/// Whether the server did not respond, or responded that it can't process the request now.
pub(super) fn is_away(error: &tokio_postgres::Error) -> bool {
    // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40 rollback
    // (serialization, deadlock), 58 system, 55 not in that state (in use, locked); 28 and 3D: the role or the
    // database does not exist any more; 25006: standby.
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
    with_causes(error)
}

/// The reason for the status of a Tenant with an external database. The author of its URL chooses the server, so
/// nothing of its response is repeated, except a code of PostgreSQL's form.
pub(super) fn class(error: &tokio_postgres::Error) -> String {
    let Some(server) = error.as_db_error() else {
        return class_of_connection(error).to_owned();
    };
    let code = server.code();
    let text = match class_of(code) {
        "28" => "the server refused the login",
        "3D" => "the server has no such database",
        "53" => "the server has no connection, memory or disk left",
        "57" => "the server ended the statement, or is stopping",
        "40" | "55" => "a table or the database is in use",
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => "the role lacks a right",
        _ => "the server refused a statement",
    };
    let code = code.code();
    match code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) {
        true => format!("{text} (SQLSTATE {code})"),
        false => text.to_owned(),
    }
}

fn class_of_connection(error: &tokio_postgres::Error) -> &'static str {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let inner = io.and_then(io::Error::get_ref);
    if inner.is_some_and(|inner| inner.is::<NotAllowed>()) {
        return "the host's address is not allowed for external databases; see --allow-external-database";
    }
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return match error {
            rustls::Error::InvalidCertificate(_) => {
                "the server's certificate is not trusted, or has another name"
            }
            _ => "TLS failed",
        };
    }
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "the connection was refused",
        Some(io::ErrorKind::TimedOut) => "no response in time",
        _ if error.is_closed() => "the server closed the connection",
        _ => "the host is not found or does not respond as PostgreSQL",
    }
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
