//! What is wrong with a folder, said to the person who edits it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use docket_crds::Violation;

/// Where a document is; ordered by file name, then position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// From 1; empty documents do not count.
    pub(crate) document: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file.display(), self.document)
    }
}

/// Something that is not served as it was written. It never holds a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, below the folder's path as it was given.
    pub file: PathBuf,
    /// Which document of the file, from 1; empty documents do not count. `None`: the file as a whole.
    pub document: Option<usize>,
    /// Kind, namespace and name: `Tenant default/acme`; `None` when the document does not say.
    pub object: Option<String>,
    /// The field: `spec.targetURL`; `None` when it is about the whole document or file.
    pub field: Option<String>,
    /// What is wrong and what would be right. Of a YAML error, with line and column.
    pub message: String,
}

impl Problem {
    pub(crate) fn in_file(file: &Path, document: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), document, object: None, field: None, message: message.into() }
    }

    pub(crate) fn at(place: &Place, object: Option<String>, violation: Violation) -> Self {
        let Violation { field, message } = violation;
        let field = (!field.is_empty()).then_some(field);
        Self { file: place.file.clone(), document: Some(place.document), object, field, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, document, object, field, message } = self;
        write!(f, "{}", file.display())?;
        if let Some(document) = document {
            write!(f, ", document {document}")?;
        }
        if let Some(object) = object {
            write!(f, " ({object})")?;
        }
        if let Some(field) = field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {message}")
    }
}
