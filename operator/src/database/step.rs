//! One step towards the wanted state of a database.

/// Statements to run as one simple query. Several statements are then one transaction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) sql: String,
    /// The right that the step needs, for the message if the server reports that the right is missing.
    pub(super) needs: String,
}
