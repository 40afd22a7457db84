//! One step towards the wanted state of a database.

/// Statements to run as one simple query, which makes several of them one transaction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) sql: String,
    /// The right that the step takes, for the message when the server reports that it is missing.
    pub(super) needs: String,
}
