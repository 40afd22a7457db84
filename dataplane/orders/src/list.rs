//! Lists of a bounded length.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};

/// A list of at most `MAX` values. `MIN` applies at export only: a draft may have fewer.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> Deref for List<T, MIN, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MIN: usize, const MAX: usize> fmt::Debug for List<T, MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[redacted; {}]", self.0.len())
    }
}

impl<T: Field, const MIN: usize, const MAX: usize> Field for List<T, MIN, MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let Json::Array(items) = json else {
            problems.push(at, "must be a list");
            return None;
        };
        if items.len() > MAX {
            problems.push(at, format!("must have at most {MAX} items"));
            return None;
        }
        let read = |(index, item)| at.index(index, |at| T::read(item, at, problems));
        Some(Self(items.iter().enumerate().filter_map(read).collect()))
    }

    fn contradictions(&self, at: &mut Path, problems: &mut Problems) {
        for (index, item) in self.iter().enumerate() {
            at.index(index, |at| item.contradictions(at, problems));
        }
    }

    fn missing(&self, at: &mut Path, problems: &mut Problems) {
        if self.len() < MIN {
            problems.push(at, format!("must have at least {MIN} at export"));
        }
        for (index, item) in self.iter().enumerate() {
            at.index(index, |at| item.missing(at, problems));
        }
    }

    fn schema(components: &mut Components) -> RefOr<Schema> {
        ArrayBuilder::new().items(T::schema(components)).max_items(Some(MAX)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    fn read(json: &str) -> Result<List<Text<5>, 1, 3>, String> {
        let mut problems = Problems::default();
        let list = List::read(&Json::parse(json.as_bytes()).unwrap(), &mut Path::root(), &mut problems);
        if problems.is_empty() { Ok(list.unwrap()) } else { Err(problems.to_string()) }
    }

    #[test]
    fn list_refuses_too_many_items_and_names_the_wrong_item() {
        assert_eq!(read(r#"["a","b","c"]"#).unwrap().len(), 3);
        assert_eq!(read(r#"["a","b","c","d"]"#).unwrap_err(), "body: must have at most 3 items");
        assert_eq!(read(r#"["a",1,null]"#).unwrap_err(), "[1]: must be a string; [2]: must be a string");
        assert_eq!(read("{}").unwrap_err(), "body: must be a list");
    }

    #[test]
    fn list_needs_its_fewest_items_at_export_only() {
        let empty = read("[]").unwrap();
        let mut problems = Problems::default();
        empty.missing(&mut Path::root(), &mut problems);
        assert_eq!(problems.to_string(), "body: must have at least 1 at export");
    }
}
