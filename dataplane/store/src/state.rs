//! What a database looks like without being read, to tell whether it was written since.

use crate::postgres::Counters;
use crate::sqlite::FileState;

/// What a database looks like at a moment. While it looks the same, nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseState {
    /// The times and lengths of its files.
    Files(FileState),
    /// What its server has counted.
    Counters(Counters),
}

impl DatabaseState {
    /// There is no file, or it is empty.
    pub fn does_not_exist(&self) -> bool {
        matches!(self, Self::Files(files) if files.does_not_exist())
    }

    /// Whether a write may leave it as it is: file times are coarse, and a second write in the same tick does not change
    /// them.
    pub fn is_coarse(&self) -> bool {
        matches!(self, Self::Files(_))
    }
}
