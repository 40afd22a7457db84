//! What can go wrong with a database.

/// What went wrong with a database, as far as a caller treats it differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Away, locked, full, or too busy: the same call may succeed later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row with this key exists, or a row that was referred to has just been deleted.
    #[error("a row with this key exists, or one that it refers to does not")]
    Conflict,
    /// A defect of ours: a statement or a stored value that does not fit the schema.
    #[error("unexpected answer of the database: {0}")]
    Unexpected(&'static str),
    /// A defect of ours, with the database's own words.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}
