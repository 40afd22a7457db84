//! The short code of a tenant, which API clients may send as `clientCode`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rules::{Check, Rule};

/// 1 to 63 ASCII letters, digits, `-` and `_`, beginning with a letter or digit, that do not look like an API key.
///
/// Equality is exact; use [`Self::matches`] for what a client sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientCode(String);

/// Why a text is not a client code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidClientCode(&'static str);

const MAX_CHARS: usize = 63;
/// How many hexadecimal digits a text needs to look like an API key.
pub(crate) const API_KEY_MIN_CHARS: usize = 32;

const CHECKS: &[Check<str>] = &[
    Check {
        holds: |text| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        },
        cel: "self.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$')",
        message: "must be letters, digits, \"-\" and \"_\", beginning with a letter or digit",
    },
    Check {
        // The API reports a key that a client sends as clientCode as a mistake. So no code may look like a key.
        holds: |text| !looks_like_api_key(text),
        cel: "!self.matches('^[0-9a-fA-F]{32,}$')",
        message: "clientCode must not look like a hexadecimal API key",
    },
];

/// The CRD's rule for `spec.clientCode`.
pub(crate) const RULE: Rule = Rule::Text { length: 1..=MAX_CHARS, checks: CHECKS };

/// Whether `text` is 32 or more hexadecimal digits, in either case, and nothing else.
pub(crate) fn looks_like_api_key(text: &str) -> bool {
    text.len() >= API_KEY_MIN_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl ClientCode {
    /// The code as it was declared.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `sent`, a clientCode from a client, is this code. ASCII case is ignored.
    pub fn matches(&self, sent: &str) -> bool {
        self.0.eq_ignore_ascii_case(sent)
    }
}

impl FromStr for ClientCode {
    type Err = InvalidClientCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for ClientCode {
    type Error = InvalidClientCode;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() || text.len() > MAX_CHARS {
            return Err(InvalidClientCode("clientCode must have 1 to 63 characters"));
        }
        match CHECKS.iter().find(|check| !(check.holds)(&text)) {
            Some(broken) => Err(InvalidClientCode(broken.message)),
            None => Ok(Self(text)),
        }
    }
}

impl From<ClientCode> for String {
    fn from(code: ClientCode) -> Self {
        code.0
    }
}

impl fmt::Display for ClientCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_short_codes() {
        for good in ["ACME", "a", "0", "a_b-c", &"z".repeat(63), &"a".repeat(31)] {
            assert_eq!(good.parse::<ClientCode>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for bad in ["", "_a", "-a", "a b", "ä", &"z".repeat(64)] {
            assert!(bad.parse::<ClientCode>().is_err(), "{bad}");
        }
        let error = "0123456789abcdefABCDEF0123456789".parse::<ClientCode>().unwrap_err();
        assert_eq!(error.to_string(), "clientCode must not look like a hexadecimal API key");
        assert!("0123456789abcdef".repeat(3).parse::<ClientCode>().is_err(), "a longer key");
    }

    #[test]
    fn sent_code_matches_in_any_case() {
        let code: ClientCode = "Acme".parse().unwrap();
        assert!(code.matches("aCME"));
        assert!(!code.matches("acme "));
    }
}
