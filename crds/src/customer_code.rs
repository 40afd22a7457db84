//! The code of a tenant's customer, whose events a webhook gets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rules::{Check, Rule};

/// 1 to 64 characters, none of them a control character. Compared exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CustomerCode(String);

/// The text is not a customer code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("customerCode must have 1 to 64 characters, no control characters, and no blanks at its ends")]
pub struct InvalidCustomerCode;

const LENGTH: std::ops::RangeInclusive<usize> = 1..=64;

const CHECKS: &[Check<str>] = &[
    Check {
        holds: has_no_control_characters,
        cel: r"!self.matches('\\p{Cc}')",
        message: "customerCode must not contain control characters",
    },
    Check {
        holds: is_trimmed,
        cel: "self.trim() == self",
        message: "customerCode must not begin or end with a blank",
    },
];

/// The CRD's rule for `spec.customerCode`.
pub(crate) const RULE: Rule = Rule::Text { length: LENGTH, checks: CHECKS };

fn has_no_control_characters(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// A code with a blank at its end looks like the code without it and never matches it.
fn is_trimmed(text: &str) -> bool {
    text.trim() == text
}

impl CustomerCode {
    /// The messages of all rules but the limit of the length, for programs that say them in other words.
    pub fn messages() -> impl Iterator<Item = &'static str> {
        CHECKS.iter().map(|check| check.message)
    }

    /// The code as it was declared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CustomerCode {
    type Err = InvalidCustomerCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for CustomerCode {
    type Error = InvalidCustomerCode;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let fits =
            LENGTH.contains(&text.chars().count()) && has_no_control_characters(&text) && is_trimmed(&text);
        if fits { Ok(Self(text)) } else { Err(InvalidCustomerCode) }
    }
}

impl From<CustomerCode> for String {
    fn from(code: CustomerCode) -> Self {
        code.0
    }
}

impl fmt::Display for CustomerCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_up_to_64_characters() {
        for good in ["C-1001", "Müller & Söhne", &"ü".repeat(64)] {
            assert_eq!(good.parse::<CustomerCode>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn refuses_empty_long_untrimmed_and_control_characters() {
        for bad in ["", &"x".repeat(65), "a\nb", "a\u{7f}", " a", "a ", "\u{a0}a"] {
            assert_eq!(bad.parse::<CustomerCode>(), Err(InvalidCustomerCode), "{bad:?}");
        }
    }
}
