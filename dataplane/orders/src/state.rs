//! US states and territories: their postal codes, and the FIPS numbers with which the codes of their counties begin.

use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field, named_words};
use crate::json::Json;
use crate::problem::{Path, Problems};

/// Postal code and FIPS number of each state, the District and the territories. Military mail has no counties and so no number.
const STATES: [(&str, &str); 59] = [
    ("AL", "01"),
    ("AK", "02"),
    ("AZ", "04"),
    ("AR", "05"),
    ("CA", "06"),
    ("CO", "08"),
    ("CT", "09"),
    ("DE", "10"),
    ("DC", "11"),
    ("FL", "12"),
    ("GA", "13"),
    ("HI", "15"),
    ("ID", "16"),
    ("IL", "17"),
    ("IN", "18"),
    ("IA", "19"),
    ("KS", "20"),
    ("KY", "21"),
    ("LA", "22"),
    ("ME", "23"),
    ("MD", "24"),
    ("MA", "25"),
    ("MI", "26"),
    ("MN", "27"),
    ("MS", "28"),
    ("MO", "29"),
    ("MT", "30"),
    ("NE", "31"),
    ("NV", "32"),
    ("NH", "33"),
    ("NJ", "34"),
    ("NM", "35"),
    ("NY", "36"),
    ("NC", "37"),
    ("ND", "38"),
    ("OH", "39"),
    ("OK", "40"),
    ("OR", "41"),
    ("PA", "42"),
    ("RI", "44"),
    ("SC", "45"),
    ("SD", "46"),
    ("TN", "47"),
    ("TX", "48"),
    ("UT", "49"),
    ("VT", "50"),
    ("VA", "51"),
    ("WA", "53"),
    ("WV", "54"),
    ("WI", "55"),
    ("WY", "56"),
    ("AS", "60"),
    ("GU", "66"),
    ("MP", "69"),
    ("PR", "72"),
    ("VI", "78"),
    ("AA", ""),
    ("AE", ""),
    ("AP", ""),
];

/// A US state, two capital letters as on an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UsState(&'static str);

impl UsState {
    /// The state with this postal code.
    pub fn of(text: &str) -> Option<Self> {
        STATES.iter().find(|(code, _)| *code == text).map(|(code, _)| Self(code))
    }

    /// The two letters.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The state's FIPS number, with which the codes of its counties begin; empty for military mail.
    pub fn fips(self) -> &'static str {
        STATES.iter().find(|(code, _)| *code == self.0).map_or("", |(_, fips)| fips)
    }
}

redacted!(UsState);

impl Field for UsState {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let known = match json {
            Json::String(text) => Self::of(text),
            _ => None,
        };
        if known.is_none() {
            problems.push(at, "must be the two capital letters of a US state");
        }
        known
    }

    fn schema(components: &mut Components) -> RefOr<Schema> {
        let codes = STATES.iter().map(|(code, _)| *code);
        named_words("UsState", "A US state or territory, as on an envelope.", codes, components)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<UsState> {
        UsState::read(&Json::String(text.into()), &mut Path::root(), &mut Problems::default())
    }

    #[test]
    fn state_must_be_a_known_code_in_capitals() {
        assert_eq!(read("CA").unwrap().fips(), "06");
        assert_eq!(read("WY").unwrap().fips(), "56");
        for text in ["ca", "XX", "California", ""] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    /// The table has the order of the names of the states, and so of their numbers.
    #[test]
    fn each_state_has_its_fips_number() {
        let numbers =
            (1..=56).filter(|number| ![3, 7, 14, 43, 52].contains(number)).chain([60, 66, 69, 72, 78]);
        let numbers = numbers.map(|number: u8| format!("{number:02}")).chain([""; 3].map(str::to_owned));
        assert!(STATES.iter().map(|(_, fips)| *fips).eq(numbers));
        for (code, fips) in
            [("AK", "02"), ("DC", "11"), ("MO", "29"), ("NY", "36"), ("TX", "48"), ("PR", "72")]
        {
            assert_eq!(read(code).unwrap().fips(), fips, "{code}");
        }
    }

    #[test]
    fn state_codes_are_unique() {
        let mut codes: Vec<&str> = STATES.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), STATES.len());
    }
}
