//! The mistakes in a document, for the user who wrote it.

use std::fmt;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The field, such as `spec.targetURL` or `spec.events[2]`; empty for the whole document.
    pub field: String,
    /// The mistake and what would be right; the CRD's message if it has one.
    pub message: String,
}

impl Violation {
    /// A violation of `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_prints_its_field_before_the_message() {
        assert_eq!(Violation::new("spec.events", "is required").to_string(), "spec.events: is required");
        assert_eq!(Violation::new("", "must be an object").to_string(), "must be an object");
    }
}
