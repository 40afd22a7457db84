//! What PostgreSQL's errors mean for a caller.

use docket_schema::postgres::{class_of, shown, with_causes};
use tokio_postgres::error::SqlState;

use crate::error::StoreError;

pub(super) fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}

/// Whether an error means that the database does not respond, or not in time.
pub(super) fn is_away(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::QUERY_CANCELED || class_of(code) == "08",
        None => is_lost(error),
    }
}

/// Whether an error is a response of a working server, even if the server refuses something. A server that is
/// starting or stopping says so; this does not count.
pub(super) fn is_response(error: &tokio_postgres::Error) -> bool {
    error.code().map_or_else(|| !is_lost(error), is_of_a_working_server)
}

fn is_of_a_working_server(code: &SqlState) -> bool {
    let ends = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    class_of(code) != "08" && !ends.contains(code)
}

/// Whether an error with this code means that the database is unavailable now, and not that the statement is wrong.
fn is_of_an_unavailable_database(code: &SqlState) -> bool {
    // Classes: 08 connection, 53 resources (disk, memory, connections), 57 operator (shutdown, cancel), 40
    // rollback (serialization, deadlock), 58 system; 28 and 3D: the role or the database does not exist any more;
    // 25006: standby; 25P03: this transaction was idle for too long, for example because its process was frozen.
    ["08", "53", "57", "40", "58", "28", "3D"].contains(&class_of(code))
        || [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code)
}

/// Whether the connection caused an error that does not come from the server.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// The server's error for the log: its code and its message, cut. The detail is left out, because it repeats the row's values.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct ServerError {
    code: String,
    message: String,
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else {
            // The error does not come from the server: the connection was closed, was reset or timed out; or a value
            // has another type than its column.
            return match is_lost(&error) {
                true => Self::Unavailable(with_causes(&error).into()),
                false => Self::Refused(with_causes(&error).into()),
            };
        };
        let code = server.code();
        let server = ServerError { code: shown(code.code()), message: shown(server.message()) };
        match code {
            &SqlState::UNIQUE_VIOLATION | &SqlState::FOREIGN_KEY_VIOLATION => Self::Conflict,
            _ if is_of_an_unavailable_database(code) => Self::Unavailable(Box::new(server)),
            _ => Self::Refused(Box::new(server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_says_whether_the_database_is_unavailable_or_the_statement_is_wrong() {
        let is_unavailable = |code| is_of_an_unavailable_database(&SqlState::from_code(code));
        let away = [
            "08006", "53100", "53300", "57014", "57P01", "40001", "40P01", "58030", "28P01", "3D000",
            "55P03", "25006", "25P03",
        ];
        assert!(away.into_iter().all(is_unavailable));
        let wrong = ["22001", "23502", "23514", "25001", "42P01", "42703", "55006", "XX000"];
        assert!(!wrong.into_iter().any(is_unavailable));
    }

    #[test]
    fn server_that_starts_or_stops_does_not_work() {
        let works = |code| is_of_a_working_server(&SqlState::from_code(code));
        assert!(!["08006", "57P01", "57P02", "57P03"].into_iter().any(works));
        assert!(["57014", "53300", "28P01", "42P01"].into_iter().all(works), "it refuses something");
    }
}
