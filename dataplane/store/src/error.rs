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
