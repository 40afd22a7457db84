//! Why something is not served as declared, for the user who declared it.

use std::fmt;

use crate::Violation;
use crate::conditions::ReasonCode;

/// Why something is not served as declared. It contains no secret, so a status, an Event and a log may show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind of problem.
    pub code: ReasonCode,
    /// The field, such as `spec.apiKeys[0].secretKeyRef`; empty for the whole object.
    pub field: String,
    /// The problem, and what would be right.
    pub message: String,
}

impl Reason {
    pub(crate) fn new(code: ReasonCode, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, field, message } = self;
        if field.is_empty() {
            write!(f, "{code}: {message}")
        } else {
            write!(f, "{code}: {field}: {message}")
        }
    }
}

impl From<Violation> for Reason {
    fn from(violation: Violation) -> Self {
        Self::new(ReasonCode::InvalidSpec, violation.field, violation.message)
    }
}
