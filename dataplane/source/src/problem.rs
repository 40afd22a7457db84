//! A problem of a declaration, for the person who edits it.

use std::fmt;
use std::path::{Path, PathBuf};

use docket_crds::Violation;

/// The position of a document; ordered by file name, then number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct YamlPosition {
    pub(crate) file: PathBuf,
    /// The document's number in the file, from 1; empty documents do not count.
    pub(crate) document: usize,
}

impl fmt::Display for YamlPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file.display(), self.document)
    }
}

/// A problem of something that is not served as written. The text never contains a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file, below the folder's path as it was given; `None` in a cluster.
    pub file: Option<PathBuf>,
    /// The document in the file, from 1, not counting empty documents. `None`: the file as a whole.
    pub document: Option<usize>,
    /// Kind, namespace and name: `Tenant default/acme`, or `Secret acme`; `None`: the document does not say.
    pub object: Option<String>,
    /// The field, such as `spec.targetURL`; `None`: the problem concerns the whole document or file.
    pub field: Option<String>,
    /// The mistake, and what would be right. For a YAML error, with line and column.
    pub message: String,
}

impl ConfigProblem {
    /// A problem of a whole file, or of a document that can't be parsed.
    pub(crate) fn in_file(file: &Path, document: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), document, object: None, field: None, message: message.into() }
    }

    /// A problem of a document of a file.
    pub(crate) fn at(position: &YamlPosition, object: Option<String>, violation: Violation) -> Self {
        let Violation { field, message } = violation;
        let field = (!field.is_empty()).then_some(field);
        Self { file: Some(position.file.clone()), document: Some(position.document), object, field, message }
    }

    /// A problem of a Secret in a cluster.
    pub(crate) fn of_secret(name: &str, message: impl Into<String>) -> Self {
        Self { object: Some(format!("Secret {name}")), ..Self::general(message) }
    }

    /// A problem of the source as a whole.
    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self { file: None, document: None, object: None, field: None, message: message.into() }
    }

    /// The place of the problem: the first part of its text.
    fn place(&self) -> String {
        let document = self.document.map(|document| format!(", document {document}")).unwrap_or_default();
        match (&self.file, &self.object) {
            (Some(file), Some(object)) => format!("{}{document} ({object})", file.display()),
            (Some(file), None) => format!("{}{document}", file.display()),
            (None, object) => object.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.clone().unwrap_or_default();
        let parts = [self.place(), field, self.message.clone()];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        f.write_str(&parts.join(": "))
    }
}
