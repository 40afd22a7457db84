//! Countries, and the rules that apply only in the United States.

use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field, named_words};
use crate::json::{Fields, Json};
use crate::problem::{Path, Problems};
use crate::state::UsState;
use crate::text::{Text, is_us_postal_code};

/// The codes of ISO 3166-1 alpha-2, and XK for Kosovo, which is in use but not in the standard.
#[rustfmt::skip]
const COUNTRIES: [&str; 250] = [
    "AD", "AE", "AF", "AG", "AI", "AL", "AM", "AO", "AQ", "AR", "AS", "AT", "AU", "AW", "AX", "AZ", "BA", "BB", "BD", "BE",
    "BF", "BG", "BH", "BI", "BJ", "BL", "BM", "BN", "BO", "BQ", "BR", "BS", "BT", "BV", "BW", "BY", "BZ", "CA", "CC", "CD",
    "CF", "CG", "CH", "CI", "CK", "CL", "CM", "CN", "CO", "CR", "CU", "CV", "CW", "CX", "CY", "CZ", "DE", "DJ", "DK", "DM",
    "DO", "DZ", "EC", "EE", "EG", "EH", "ER", "ES", "ET", "FI", "FJ", "FK", "FM", "FO", "FR", "GA", "GB", "GD", "GE", "GF",
    "GG", "GH", "GI", "GL", "GM", "GN", "GP", "GQ", "GR", "GS", "GT", "GU", "GW", "GY", "HK", "HM", "HN", "HR", "HT", "HU",
    "ID", "IE", "IL", "IM", "IN", "IO", "IQ", "IR", "IS", "IT", "JE", "JM", "JO", "JP", "KE", "KG", "KH", "KI", "KM", "KN",
    "KP", "KR", "KW", "KY", "KZ", "LA", "LB", "LC", "LI", "LK", "LR", "LS", "LT", "LU", "LV", "LY", "MA", "MC", "MD", "ME",
    "MF", "MG", "MH", "MK", "ML", "MM", "MN", "MO", "MP", "MQ", "MR", "MS", "MT", "MU", "MV", "MW", "MX", "MY", "MZ", "NA",
    "NC", "NE", "NF", "NG", "NI", "NL", "NO", "NP", "NR", "NU", "NZ", "OM", "PA", "PE", "PF", "PG", "PH", "PK", "PL", "PM",
    "PN", "PR", "PS", "PT", "PW", "PY", "QA", "RE", "RO", "RS", "RU", "RW", "SA", "SB", "SC", "SD", "SE", "SG", "SH", "SI",
    "SJ", "SK", "SL", "SM", "SN", "SO", "SR", "SS", "ST", "SV", "SX", "SY", "SZ", "TC", "TD", "TF", "TG", "TH", "TJ", "TK",
    "TL", "TM", "TN", "TO", "TR", "TT", "TV", "TW", "TZ", "UA", "UG", "UM", "US", "UY", "UZ", "VA", "VC", "VE", "VG", "VI",
    "VN", "VU", "WF", "WS", "XK", "YE", "YT", "ZA", "ZM", "ZW",
];

/// A country, two capital letters.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Country(&'static str);

impl Country {
    /// The United States, the country of a part without `country`.
    pub const US: Self = Self("US");

    /// The two letters.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

redacted!(Country);

impl Field for Country {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let known = match json {
            Json::String(text) => COUNTRIES.iter().find(|code| *code == text),
            _ => None,
        };
        if known.is_none() {
            problems.push(
                at,
                "must be the two capital letters of a country (ISO 3166-1 alpha-2), such as US, CA or GB",
            );
        }
        known.map(|code| Self(code))
    }

    fn schema(components: &mut Components) -> RefOr<Schema> {
        let about = "A country or territory, by its two letters in ISO 3166-1; Kosovo is XK.";
        named_words("Country", about, COUNTRIES.into_iter(), components)
    }
}

/// Whether a place is in the United States.
pub(crate) fn is_us(country: Option<Country>) -> bool {
    country.unwrap_or(Country::US) == Country::US
}

/// In the United States, refuses a state that is not a US state, and a postal code that is not a US postal code. If
/// the country itself is wrong, the function reports neither state nor postal code.
pub(crate) fn check_us(
    object: &Fields<'_>,
    country: Option<Country>,
    (state, postal_code): (Option<&Text<60>>, Option<&Text<20>>),
    at: &mut Path,
    problems: &mut Problems,
) {
    let is_sent = object.get("country").is_some_and(|json| *json != Json::Null);
    if !is_us(country) || (country.is_none() && is_sent) {
        return;
    }
    if state.is_some_and(|state| UsState::of(state.as_str()).is_none()) {
        let message = "must be the two capital letters of a US state; for another country, send country";
        at.key("state", |at| problems.push(at, message));
    }
    if postal_code.is_some_and(|code| !is_us_postal_code(code.as_str())) {
        let message = "must be a postal code of 5 or 5-4 digits, such as 90012 or 90012-1234; for another country, send country";
        at.key("postalCode", |at| problems.push(at, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn country_must_be_a_known_code_in_capitals() {
        let read = |text: &str| {
            Country::read(&Json::String(text.into()), &mut Path::root(), &mut Problems::default())
        };
        for text in ["US", "CA", "GB", "MX", "JP", "XK"] {
            assert_eq!(read(text).map(Country::as_str), Some(text));
        }
        for text in ["us", "UK", "USA", "EU", "XX", "Canada", ""] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn country_codes_are_sorted_and_unique() {
        assert!(COUNTRIES.is_sorted_by(|a, b| a < b));
    }
}
