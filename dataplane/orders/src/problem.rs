//! Problems of a body: what is wrong, and where. Neither path nor message contains a value that the client sent: both
//! are in responses and may reach logs, and orders are full of personal data.

use std::fmt::{self, Write};

use serde::Serialize;
use utoipa::ToSchema;

/// The name used for the body as a whole.
pub const BODY: &str = "body";

/// The largest number of problems in one response.
pub const MAX_PROBLEMS: usize = 100;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FieldProblem)] // `Problem` is what an RFC 9457 answer would be called
pub struct Problem {
    /// The path of the field: `servees[0].addresses[1].postalCode`, or `body` for the whole.
    pub field: String,
    /// What the value must be.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for Problem {}

/// All problems, in the order of the fields; at most [`MAX_PROBLEMS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a problem, unless the list is full.
    pub fn push(&mut self, at: &Path, message: impl Into<String>) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Problem { field: at.to_string(), message: message.into() });
        }
    }

    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of problems.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The problems in the order of the fields.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// `Ok` if there are no problems.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().take(MAX_PROBLEMS).collect())
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The position of the reader in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// The whole body.
    pub fn root() -> Self {
        Self(String::with_capacity(64))
    }

    /// Moves to a field while `step` runs.
    pub fn key<R>(&mut self, name: &str, step: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter_key(name);
        let result = step(self);
        self.leave(before);
        result
    }

    /// Moves to an item of a list, counted from 0, while `step` runs.
    pub fn index<R>(&mut self, index: usize, step: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.enter_index(index);
        let result = step(self);
        self.leave(before);
        result
    }

    /// Moves to a field. Returns the position before, for [`Path::leave`].
    pub(crate) fn enter_key(&mut self, name: &str) -> usize {
        let before = self.0.len();
        if before > 0 {
            self.0.push('.');
        }
        self.0.push_str(shown(name));
        before
    }

    /// Moves to an item. Returns the position before, for [`Path::leave`].
    pub(crate) fn enter_index(&mut self, index: usize) -> usize {
        let before = self.0.len();
        write!(self.0, "[{index}]").expect("writing to a String does not fail");
        before
    }

    /// Moves back to the position `before`, which an `enter` method returned.
    pub(crate) fn leave(&mut self, before: usize) {
        self.0.truncate(before);
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { BODY } else { &self.0 })
    }
}

/// The key itself if a message may show it, else `?`. A value in the wrong place may be read as a key, so a message
/// shows only a key that looks like a field name.
fn shown(name: &str) -> &str {
    let named = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
    if named { name } else { "?" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_fields_and_items_and_moves_back() {
        let mut at = Path::root();
        at.key("servees", |at| {
            at.index(0, |at| {
                at.key("party", |at| assert_eq!(at.to_string(), "servees[0].party"));
            });
        });
        assert_eq!(at.to_string(), "body");
    }

    #[test]
    fn key_that_looks_like_a_value_is_hidden() {
        Path::root().key("078-05-1120", |at| assert_eq!(at.to_string(), "?"));
        Path::root().key("Silas Petrakis", |at| assert_eq!(at.to_string(), "?"));
    }

    #[test]
    fn list_of_problems_is_bounded() {
        let mut problems = Problems::default();
        for _ in 0..1_000 {
            problems.push(&Path::root(), "no");
        }
        assert_eq!(problems.len(), MAX_PROBLEMS);
    }
}
