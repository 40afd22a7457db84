//! The state of a database that is known without reading it, for finding out whether it was written.

use crate::postgres::Counters;
use crate::sqlite::FileState;

/// The state of a database at a moment. As long as it is the same, nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseState {
    /// The times and lengths of the database's files.
    Files(FileState),
    /// The server's counters for the database.
    Counters(Counters),
}

impl DatabaseState {
    /// Whether there is no file, or it is empty.
    pub fn does_not_exist(&self) -> bool {
        matches!(self, Self::Files(files) if files.does_not_exist())
    }

    /// Whether a write may leave this state unchanged. Times of files are coarse: a second write within the same tick
    /// does not change them.
    pub fn is_coarse(&self) -> bool {
        matches!(self, Self::Files(_))
    }
}
