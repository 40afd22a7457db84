//! The format of a JSON document that the operator writes, and that programs of other versions read.
//!
//! A document has two numbers. `format` is the format of its writer, and every change of the form raises it. `minReader` is the oldest
//! format whose readers may use the document:
//!
//! - A change that older readers may ignore leaves `minReader` as it is: a field without which the document allows no more than with
//!   it, or a new word where readers skip unknown words.
//! - A change that older readers must not ignore raises `minReader`: a restriction, a new meaning, a field that ends.
//!
//! A reader ignores the fields that it does not know, and refuses a document whose `minReader` is newer than what the reader knows.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The two numbers of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Format {
    /// The format of the program that wrote the document.
    #[serde(default = "first")]
    pub format: u32,
    /// The oldest format whose readers may use the document.
    #[serde(default = "first")]
    pub min_reader: u32,
}

/// Why a document can't be read. The text follows the document's name, and quotes nothing of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A newer operator wrote it, for newer readers.
    #[error(
        "was written by a newer operator for readers of format {min_reader}; this program reads up to {known}"
    )]
    Newer {
        /// The oldest format whose readers may use the document.
        min_reader: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The document has a newer format. Readers of this version should be able to use it, and can't.
    #[error(
        "was written by a newer operator in format {format} and can't be read (line {line}, column {column}); \
         this program reads up to {known}"
    )]
    NewerAndDamaged {
        /// The format of the program that wrote the document.
        format: u32,
        /// The newest format that this program knows.
        known: u32,
        /// The line of the mistake.
        line: usize,
        /// The column of the mistake.
        column: usize,
    },
    /// The document has no newer format, and is wrong.
    #[error("is not what this version's operator writes (line {line}, column {column})")]
    Damaged {
        /// The line of the mistake.
        line: usize,
        /// The column of the mistake.
        column: usize,
    },
}

impl Unreadable {
    /// Whether a newer operator wrote the document, so that a newer program can read it.
    pub const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::NewerAndDamaged { .. })
    }
}

/// The first format, which has no number, because the versions that wrote it had no formats yet.
pub(crate) const fn first() -> u32 {
    1
}

/// Reads a document of this version, an older one or a newer one. `known` is the newest format that this program knows.
///
/// # Errors
///
/// The document is for newer readers, or is no such document.
pub fn read<T: DeserializeOwned>(json: &[u8], known: u32) -> Result<T, Unreadable> {
    // The parser's own message could quote a secret, so it is dropped.
    let damaged = |error: &serde_json::Error| (error.line(), error.column());
    let Format { format, min_reader } = serde_json::from_slice(json).map_err(|error| {
        let (line, column) = damaged(&error);
        Unreadable::Damaged { line, column }
    })?;
    if min_reader > known {
        return Err(Unreadable::Newer { min_reader, known });
    }
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = damaged(&error);
        match format > known {
            true => Unreadable::NewerAndDamaged { format, known, line, column },
            false => Unreadable::Damaged { line, column },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Document {
        value: u32,
    }

    fn read_two(json: &str) -> Result<u32, Unreadable> {
        read::<Document>(json.as_bytes(), 2).map(|document| document.value)
    }

    #[test]
    fn document_without_numbers_and_newer_document_for_older_readers_are_read() {
        assert_eq!(read_two(r#"{"value": 7}"#), Ok(7));
        assert_eq!(read_two(r#"{"format": 2, "minReader": 2, "value": 7}"#), Ok(7));
        assert_eq!(read_two(r#"{"format": 9, "minReader": 2, "value": 7, "more": [1]}"#), Ok(7));
    }

    #[test]
    fn document_for_newer_readers_is_refused_whatever_it_contains() {
        for rest in ["", r#", "value": 7"#, r#", "value": "hunter2""#] {
            let refused = read_two(&format!(r#"{{"format": 4, "minReader": 3{rest}}}"#)).unwrap_err();
            assert_eq!(refused, Unreadable::Newer { min_reader: 3, known: 2 });
            assert!(refused.is_newer());
            assert_eq!(
                refused.to_string(),
                "was written by a newer operator for readers of format 3; this program reads up to 2"
            );
        }
    }

    #[test]
    fn wrong_document_is_newer_only_if_its_format_is() {
        for damaged in ["", "{", "7", "{}", r#"{"value": "hunter2"}"#, r#"{"format": 2, "value": []}"#] {
            let refused = read_two(damaged).unwrap_err();
            assert!(matches!(refused, Unreadable::Damaged { .. }) && !refused.is_newer(), "{damaged}");
            assert!(!refused.to_string().contains("hunter2"));
        }
        let newer = read_two(r#"{"format": 3, "value": "hunter2"}"#).unwrap_err();
        assert!(newer.is_newer());
        assert!(newer.to_string().contains("in format 3 and can't be read (line 1, column "), "{newer}");
        assert!(!newer.to_string().contains("hunter2"));
    }
}
