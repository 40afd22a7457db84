//! What can go wrong with a database.

/// What went wrong with a database, as far as callers treat it differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, locked, full or too busy: the same call may succeed later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row with this key exists, or a row that the new one refers to does not.
    #[error("a row with this key exists, or one that it refers to does not")]
    Conflict,
    /// An internal error: a statement or a stored value does not fit the schema.
    #[error("unexpected result of the database: {0}")]
    Unexpected(&'static str),
    /// An internal error, in the database's own words.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Requests of the tenant itself use all connections that it may have, for as long as one waits: the cause of a
/// [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[error("the tenant uses all its connections (spec.limits.databaseConnections)")]
pub struct AtConnectionLimit;

impl StoreError {
    /// Whether the tenant's own requests leave it no connection: [`AtConnectionLimit`] is among the causes.
    pub fn is_at_connection_limit(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if error.is::<AtConnectionLimit>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
