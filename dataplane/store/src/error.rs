//! The errors of a database.

/// The errors of a database, as far as callers treat them differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, locked, full or too busy: the same call may succeed later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row with this key exists already, or a row to which the new row refers does not exist.
    #[error("a row with this key exists already, or a row that it refers to does not exist")]
    Conflict,
    /// An internal error: a statement or a stored value does not fit the schema.
    #[error("unexpected result of the database: {0}")]
    Unexpected(&'static str),
    /// An internal error, in the database's own words.
    #[error("the database refused a statement: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// For as long as a request may wait, the tenant's own requests used all connections that the tenant may have. A
/// cause of [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[error("the tenant uses all its connections (spec.limits.databaseConnections)")]
pub struct AtConnectionLimit;

/// What a call needs is in a step of the schema that the database does not have yet. A cause of
/// [`StoreError::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[error("this needs schema version {needed}, and the database has {found} until the operator migrates it")]
pub(crate) struct NeedsMigration {
    /// The step.
    pub(crate) needed: i64,
    /// The version of the schema.
    pub(crate) found: i64,
}

impl StoreError {
    /// Whether the database lacks a step of the schema that only this call needs.
    pub fn needs_migration(&self) -> bool {
        matches!(self, Self::Unavailable(cause) if cause.is::<NeedsMigration>())
    }

    /// Whether the tenant's own requests used all its connections: [`AtConnectionLimit`] is among the causes.
    pub fn is_at_connection_limit(&self) -> bool {
        let this: &(dyn std::error::Error + 'static) = self;
        let mut causes = std::iter::successors(Some(this), |error| (*error).source());
        causes.any(|cause| cause.is::<AtConnectionLimit>())
    }
}
