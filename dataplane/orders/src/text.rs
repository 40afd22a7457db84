//! Texts: free text of a bounded length, and formatted text (e-mail, phone, postal code, …). Each format exists
//! twice, as a check and as a pattern for the documentation; a test compares the two.

use std::fmt;

use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};
use crate::sensitive::holds_full_ssn;

/// Free text of 1 to `MAX` characters (Unicode code points), stored unchanged. Tabs and line ends are allowed. Other
/// control characters (PostgreSQL cannot store NUL) and text of blanks only are refused.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The same rule as [`is_printable`] and [`is_blank`]: one character that is neither blank nor control, and
/// no forbidden one around it.
const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*",
    r"[^\u0000-\u0020\u007F-\u009F]",
    r"[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*$"
);

fn is_printable(c: char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

impl<const MAX: usize> Field for Text<MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let text = read_string(json, at, problems)?;
        // A character has at most 4 bytes, so the characters of a megabyte need not be counted.
        if text.len() > MAX * 4 || text.chars().count() > MAX {
            problems.push(at, format!("must have at most {MAX} characters"));
        } else if text.chars().all(is_blank) {
            problems.push(at, format!("must have 1 to {MAX} characters, not only blanks"));
        } else if !text.chars().all(is_printable) {
            problems.push(at, "must not contain control characters");
        } else if holds_full_ssn(text) {
            problems
                .push(at, "must not contain a full social security number; send its last four digits only where a field asks for them");
        } else {
            return Some(Self(text.to_owned()));
        }
        None
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.min_length(Some(1)).max_length(Some(MAX)).pattern(Some(TEXT_PATTERN)).into()
    }
}

fn read_string<'a>(json: &'a Json<'_>, at: &Path, problems: &mut Problems) -> Option<&'a str> {
    match json {
        Json::String(text) => Some(text),
        _ => {
            problems.push(at, "must be a string");
            None
        }
    }
}

/// Defines a formatted text: its description, maximum length, pattern, check and message.
macro_rules! formed_text {
    ($( $(#[doc = $doc:literal])* $name:ident max $max:literal pattern $pattern:literal check $check:path, $message:literal; )*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The format as a regular expression (ECMA-262).
            pub const PATTERN: &'static str = $pattern;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[redacted]")
            }
        }

        impl Field for $name {
            fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
                let text = read_string(json, at, problems)?;
                if text.len() <= $max && $check(text) {
                    return Some(Self(text.to_owned()));
                }
                problems.push(at, $message);
                None
            }

            fn schema(_: &mut Components) -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.max_length(Some($max)).pattern(Some($pattern)).into()
            }
        }
    )* };
}

formed_text! {
    /// An e-mail address of 6 to 254 characters; a plain one, without quotes or comments.
    Email max 254
        pattern r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){1,8}$"
        check is_email, "must be an e-mail address (at most 254 characters)";
    /// A telephone number in E.164: `+12135550142`.
    Phone max 16 pattern r"^\+[1-9][0-9]{6,14}$"
        check is_phone, "must be a phone number in E.164, such as +12135550100";
    /// A US postal code, 5 or 5-4 digits.
    PostalCode max 10 pattern r"^[0-9]{5}(-[0-9]{4})?$"
        check is_postal_code, "must be a postal code of 5 or 5-4 digits, such as 90012 or 90012-1234";
    /// An absolute https URL without user information. It is only stored: fetching a URL that a client chose would let the
    /// client reach internal networks.
    HttpsUrl max 2000 pattern r"^https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[0-9]{1,5})?(/[!-~]*)?$"
        check is_https_url, "must be an https URL of at most 2000 characters";
    /// The last four digits of a social security number. More is never accepted.
    SsnLast4 max 4 pattern r"^[0-9]{4}$"
        check is_last4, "must be the last 4 digits only; a full number is never accepted";
    /// The last four characters of a driver licence.
    LicenseLast4 max 4 pattern r"^[0-9A-Za-z]{4}$"
        check is_license_last4, "must be the last 4 characters only; a full number is never accepted";
    /// A county's 5-digit FIPS code; the first two are the state's.
    CountyFips max 5 pattern r"^[0-9]{5}$"
        check is_county_fips, "must be the county's FIPS code of 5 digits, such as 06037";
    /// The id of a web order.
    WebOrderId max 32 pattern r"^[A-Za-z0-9]{1,32}$"
        check is_web_order_id, "must be 1 to 32 letters and digits";
}

fn digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let local_char = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&b);
    let label =
        |l: &str| (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let labels = domain.split('.').count();
    (1..=64).contains(&local.len())
        && local.bytes().all(local_char)
        && (2..=9).contains(&labels)
        && domain.split('.').all(label)
}

fn is_phone(text: &str) -> bool {
    let Some(number) = text.strip_prefix('+') else { return false };
    (7..=15).contains(&number.len()) && digits(number, number.len()) && !number.starts_with('0')
}

fn is_postal_code(text: &str) -> bool {
    match text.split_once('-') {
        Some((zip, four)) => digits(zip, 5) && digits(four, 4),
        None => digits(text, 5),
    }
}

fn is_https_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else { return false };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    (1..=253).contains(&host.len())
        && host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
        && port.is_none_or(|port| (1..=5).contains(&port.len()) && digits(port, port.len()))
        && path.bytes().all(|b| b.is_ascii_graphic())
}

fn is_last4(text: &str) -> bool {
    digits(text, 4)
}

fn is_license_last4(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn is_county_fips(text: &str) -> bool {
    digits(text, 5)
}

fn is_web_order_id(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Field>(text: &str) -> Result<T, String> {
        let mut problems = Problems::default();
        let value = T::read(&Json::String(text.into()), &mut Path::root(), &mut problems);
        value.ok_or_else(|| problems.to_string())
    }

    /// What the schema of `T` says of a text: its pattern and its lengths.
    fn fits<T: Field>(text: &str) -> bool {
        let RefOr::T(Schema::Object(schema)) = T::schema(&mut Components::new()) else { panic!("an object") };
        let pattern = regex::Regex::new(&schema.pattern.expect("a pattern")).expect("a regular expression");
        let length = text.chars().count();
        pattern.is_match(text)
            && length >= schema.min_length.unwrap_or(0)
            && schema.max_length.is_none_or(|max| length <= max)
    }

    fn all<T: Field>(good: &[&str], bad: &[&str]) {
        for text in good.iter().chain(bad) {
            assert_eq!(fits::<T>(text), good.contains(text), "the schema on {text:?}");
        }
        for text in good {
            assert!(read::<T>(text).is_ok(), "{text:?} must be taken");
        }
        for text in bad {
            let problem = read::<T>(text).err().unwrap_or_else(|| panic!("{text:?} must be refused"));
            assert!(text.len() < 3 || !problem.contains(text), "{problem}");
        }
    }

    #[test]
    fn text_length_is_counted_in_characters() {
        all::<Text<3>>(
            &["a", "äöü", "😀😀😀", "a\nb", "a\tb", "a\r\n"],
            &["", "abcd", "😀😀😀😀", "   ", "\n"],
        );
    }

    #[test]
    fn control_characters_are_refused() {
        all::<Text<9>>(&[], &["a\0b", "a\u{7}b", "a\u{7f}b", "a\u{85}b", "\u{1b}[31m"]);
    }

    #[test]
    fn text_of_a_megabyte_is_refused_without_quoting_it() {
        let problem = read::<Text<50>>(&"x".repeat(1_000_000)).expect_err("too long");
        assert_eq!(problem, "body: must have at most 50 characters");
    }

    #[test]
    fn formatted_texts_accept_and_refuse_like_their_patterns() {
        all::<Email>(
            &["a@b.c", "first.last+tag@mail.example.co"],
            &["a", "a@b", "@b.c", "a@@b.c", "a b@c.d", "a@b..c", "a@.c", "a@b.c\n", "ä@b.c"],
        );
        all::<Phone>(
            &["+12135550142", "+4930123456"],
            &["2135550142", "+0123456789", "+1 213", "+12345", "+1234567890123456"],
        );
        all::<PostalCode>(
            &["90012", "90012-1234"],
            &["7531", "753124", "75312-", "75312-753", "7531a", "75312\n"],
        );
        all::<HttpsUrl>(
            &["https://example.com", "https://e.co:8443/a?b=c#d"],
            &[
                "http://example.com",
                "https://",
                "https:///x",
                "https://u@h/x",
                "https://h/a b",
                "https://h:/x",
                "https://h?x",
            ],
        );
        all::<SsnLast4>(&["0000", "1234"], &["123", "12345", "078051120", "078-05-1120", "12a4", "١٢٣٤"]);
        all::<LicenseLast4>(&["A123"], &["A12", "A1234", "A-12"]);
        all::<CountyFips>(&["06037"], &["7531", "753124", "7531x"]);
        all::<WebOrderId>(&["W00012345"], &["", "W-1", "W 1", "x12345678901234567890123456789012345"]);
    }

    #[test]
    fn value_that_is_no_string_is_refused() {
        let mut problems = Problems::default();
        assert!(Text::<9>::read(&Json::Bool(true), &mut Path::root(), &mut problems).is_none());
        assert_eq!(problems.to_string(), "body: must be a string");
    }

    #[test]
    fn debug_output_is_redacted() {
        assert_eq!(format!("{:?}", read::<Text<9>>("secret").unwrap()), "[redacted]");
        assert_eq!(format!("{:?}", read::<SsnLast4>("1234").unwrap()), "[redacted]");
    }
}
