//! Texts: free text of a bounded length, and formatted text (e-mail, phone, URL, …). Each format exists
//! twice, as a check and as a pattern for the documentation; a test compares the two.

use std::fmt;
use std::net::Ipv6Addr;

use serde::Serialize;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::blank::is_unseen;
use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};
use crate::sensitive::holds_full_ssn;

pub use crate::blank::is_blank;

/// Free text of 1 to `MAX` characters (Unicode code points), stored unchanged. Tabs and line ends are allowed. Other
/// control characters (PostgreSQL cannot store NUL), text without a visible character, and a full social security
/// number are refused.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, for a field whose limit is higher.
    pub(crate) fn widened<const TO: usize>(&self) -> Text<TO> {
        const { assert!(MAX <= TO, "the field takes shorter texts") };
        Text(self.0.clone())
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The rule of [`is_printable`] and [`is_unseen`] as a pattern: one character that is no blank, mark or control
/// character, and no forbidden character around it. The pattern knows only the marks of Latin letters, and no
/// invisible characters beyond U+FFFF: no form for them works in every program that reads the pattern.
const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*",
    r"[^\s\u0000-\u001F\u007F-\u009F\u00AD\u0300-\u036F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F\u202A-\u202E",
    r"\u2060-\u206F\u2800\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFC]",
    r"[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*$"
);

fn is_printable(c: char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r')
}

/// The problem of a free text of at most `max` characters. The function does not search for numbers that the text must
/// not contain.
fn text_problem(text: &str, max: usize) -> Option<String> {
    // A character has at most 4 bytes. So the first check spares counting the characters of a megabyte.
    if text.len() > max * 4 || text.chars().count() > max {
        Some(format!("must have at most {max} characters"))
    } else if is_unseen(text) {
        Some(format!("must have 1 to {max} characters, not only blanks and invisible ones"))
    } else if !text.chars().all(is_printable) {
        Some("must not contain control characters".to_owned())
    } else {
        None
    }
}

impl<const MAX: usize> Field for Text<MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let text = read_string(json, at, problems)?;
        let problem = text_problem(text, MAX).or_else(|| {
            holds_full_ssn(text).then(|| {
                "must not contain a full social security number; send its last four digits only where a field asks for them".to_owned()
            })
        });
        match problem {
            None => Some(Self(text.to_owned())),
            Some(problem) => {
                problems.push(at, problem);
                None
            }
        }
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.min_length(Some(1)).max_length(Some(MAX)).pattern(Some(TEXT_PATTERN)).into()
    }
}

/// A number that an authority, a bank or the service gives to a thing, and that is never a person's, 1 to `MAX` characters. Some
/// numbers, as of parcels, have the form of a social security number, so that form is not refused here.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RecordNumber<const MAX: usize>(String);

impl<const MAX: usize> RecordNumber<MAX> {
    /// The number.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for RecordNumber<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<const MAX: usize> Field for RecordNumber<MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let text = read_string(json, at, problems)?;
        match text_problem(text, MAX) {
            None => Some(Self(text.to_owned())),
            Some(problem) => {
                problems.push(at, problem);
                None
            }
        }
    }

    fn schema(components: &mut Components) -> RefOr<Schema> {
        Text::<MAX>::schema(components)
    }
}

/// The name of a file without its folder, 1 to 255 characters. The back office's programs store files by it, so a name is refused
/// that is a path, that Windows refuses or gives to a device, or that is shown as another name or not at all.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FileName(Text<255>);

impl FileName {
    /// The form as a regular expression (ECMA-262). It requires one visible character anywhere in the name. So it
    /// accepts some names that [`is_reserved`] and [`is_hidden`] refuse: names of devices, names with nothing visible
    /// before the ending, and names that begin with a combining mark.
    const PATTERN: &'static str = concat!(
        r#"^[^/\\:<>"|?*\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\u2215\u2216\uFE68\uFF0F\uFF3C]*"#,
        r#"[^./\\:<>"|?*\s\u0000-\u001F\u007F-\u009F\u061C\u200B-\u200F\u2028-\u202E\u2060-\u206F\u2215\u2216\uFE68\uFEFF\uFF0F\uFF3C]"#,
        r#"[^/\\:<>"|?*\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\u2215\u2216\uFE68\uFF0F\uFF3C]*$"#
    );
}

redacted!(FileName);

impl Field for FileName {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let text = Text::<255>::read(json, at, problems)?;
        // Some programs replace characters by the plain characters that Unicode calls compatible, for example fullwidth ones.
        let plain = text.0.nfkc().collect::<String>();
        let problem = if plain.contains(is_slash)
            || text.0.contains('\u{2044}')
            || text.0.contains(is_refused_by_windows)
        {
            "must be a file's name without folder: no / \\ : * ? \" < > or |"
        } else if text.0.contains(|c: char| c.is_control() || is_direction(c)) {
            "must not contain control characters or marks that change the direction of writing"
        } else if is_reserved(&plain) {
            "must not be a name of dots only or of a device, such as CON, PRN, AUX, NUL, COM1 or LPT1"
        } else if is_hidden(&text.0) {
            "must have a visible character before its ending, and must not begin with a combining mark"
        } else {
            return Some(Self(text));
        };
        problems.push(at, problem);
        None
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String);
        name.min_length(Some(1)).max_length(Some(255)).pattern(Some(Self::PATTERN)).into()
    }
}

/// Whether a character separates folders, or looks like such a character.
fn is_slash(c: char) -> bool {
    matches!(c, '/' | '\\' | '\u{2215}' | '\u{2216}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}')
}

/// Whether Windows does not allow the character in a name, or the character ends a line.
fn is_refused_by_windows(c: char) -> bool {
    matches!(c, ':' | '*' | '?' | '"' | '<' | '>' | '|' | '\u{2028}' | '\u{2029}')
}

/// Whether a character changes the direction of writing: it can make `gpj.exe` look like `exe.jpg`.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a name has nothing visible before its ending, or begins with a mark, which would join the character before the name.
fn is_hidden(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem).replace('.', "");
    (!stem.is_empty() && is_unseen(&stem)) || name.starts_with(is_combining_mark)
}

/// Whether a name leads to another folder or, on Windows, to a device, whatever its extension. Windows drops dots and
/// blanks at the end. The name must be in Unicode's normalization form KC, which makes a raised digit a plain one.
fn is_reserved(name: &str) -> bool {
    let is_end = |c: char| c == '.' || is_blank(c);
    if name.chars().all(is_end) {
        return true;
    }
    let stem = name.split('.').next().unwrap_or_default().trim_matches(is_end).to_ascii_uppercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device).unwrap_or_default();
        number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit())
    };
    matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" | "CLOCK$")
        || is_numbered("COM")
        || is_numbered("LPT")
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

        redacted!($name);

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
    /// An e-mail address of at most 254 bytes, in any script (RFC 6531); a plain one, without quotes or comments.
    Email max 254
        pattern r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00A1-\uFFFF-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00A1-\uFFFF-]+)*@([A-Za-z0-9\u00A1-\uFFFF]([A-Za-z0-9\u00A1-\uFFFF-]{0,61}[A-Za-z0-9\u00A1-\uFFFF])?\.){1,8}[A-Za-z0-9\u00A1-\uFFFF]([A-Za-z0-9\u00A1-\uFFFF-]{0,61}[A-Za-z0-9\u00A1-\uFFFF])?$"
        check is_email, "must be an e-mail address, such as ada@example.com (at most 254 bytes)";
    /// A telephone number in E.164: `+12135550142`.
    Phone max 16 pattern r"^\+[1-9][0-9]{6,14}$"
        check is_phone, "must be a phone number in E.164, such as +12135550100";
    /// An absolute https URL without user information, in any script. It is only stored: fetching a URL that a client chose would let the
    /// client reach internal networks.
    HttpsUrl max 2000
        pattern r"^[Hh][Tt][Tt][Pp][Ss]://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9\u00A1-\uFFFF]([A-Za-z0-9\u00A1-\uFFFF-]{0,61}[A-Za-z0-9\u00A1-\uFFFF])?(\.[A-Za-z0-9\u00A1-\uFFFF]([A-Za-z0-9\u00A1-\uFFFF-]{0,61}[A-Za-z0-9\u00A1-\uFFFF])?)*)(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?#][!-~\u00A1-\uFFFF]*)?$"
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

/// Whether a text is an e-mail address: parts with single dots between them, and a host name with at least two labels.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(c) || is_foreign(c);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_atom);
    let labels = domain.split('.').count();
    local.len() <= 64
        && local.split('.').all(is_part)
        && (2..=9).contains(&labels)
        && domain.split('.').all(is_label)
}

/// Whether a character is a visible letter, digit or mark outside ASCII.
fn is_foreign(c: char) -> bool {
    c > '\u{a0}' && !is_blank(c)
}

/// Whether a text is a label of a host name: at most 63 characters, with `-` inside only.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.chars().count())
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || is_foreign(c))
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_phone(text: &str) -> bool {
    let Some(number) = text.strip_prefix('+') else { return false };
    (7..=15).contains(&number.len()) && digits(number, number.len()) && !number.starts_with('0')
}

/// Whether a text is a US postal code.
pub(crate) fn is_us_postal_code(text: &str) -> bool {
    match text.split_once('-') {
        Some((zip, four)) => digits(zip, 5) && digits(four, 4),
        None => digits(text, 5),
    }
}

fn is_https_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_at_checked("https://".len()) else { return false };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.len() <= 253 && host.split('.').all(is_label),
    };
    let is_port =
        |port: &str| digits(port, port.len()) && !port.starts_with('0') && port.parse::<u16>().is_ok();
    scheme.eq_ignore_ascii_case("https://")
        && is_host
        && port.is_none_or(is_port)
        && path.chars().all(|c| c.is_ascii_graphic() || is_foreign(c))
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

    /// Whether a text fits the schema of `T`: its pattern and its lengths.
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
    fn text_of_which_nothing_is_seen_is_refused() {
        for c in [
            '\u{a0}', '\u{ad}', '\u{3000}', '\u{200b}', '\u{200d}', '\u{202e}', '\u{2060}', '\u{2800}',
            '\u{3164}', '\u{feff}', '\u{fe0f}', '\u{ffa0}', '\u{61c}', '\u{180e}',
        ] {
            all::<Text<9>>(&[&format!("{c}x{c}")], &[&c.to_string(), &format!(" {c}\t{c}")]);
        }
        for text in ["\u{e0020}\u{e007f}", "\u{1d159}", "\u{fff9}", "\u{301}", "\u{5b0}", " \u{94d}\u{20dd}"]
        {
            assert!(read::<Text<9>>(text).is_err(), "{text:?}");
        }
        assert!(
            read::<Text<9>>("e\u{301}").is_ok() && fits::<Text<9>>("e\u{301}") && !fits::<Text<9>>("\u{301}")
        );
        assert!(read::<RecordNumber<9>>("\u{200b}").is_err() && read::<FileName>("\u{200b}").is_err());
    }

    #[test]
    fn record_number_may_have_the_form_of_a_social_security_number() {
        assert!(read::<RecordNumber<30>>("116-05-0790").is_ok());
        assert!(read::<Text<30>>("116-05-0790").is_err());
        assert!(read::<RecordNumber<3>>("1234").is_err());
    }

    #[test]
    fn file_name_is_no_path_and_no_device() {
        let good = [
            "deed.pdf",
            "Notice of Motion (2nd).pdf",
            ".hidden",
            "Klage Müller & Söhne.pdf",
            "訴状.pdf",
            "console.txt",
            "COM10",
            "a..b",
            "質問？.pdf",
            "1½.pdf",
            "Exhibit A.",
            "Cafe\u{301}.pdf",
            "¨.pdf",
            "¯.pdf",
            "˜.pdf",
            "´.pdf",
            "\u{640}.pdf",
        ];
        let bad = [
            "../../etc/passwd",
            "..\\x",
            "C:x",
            "..",
            ".",
            "...",
            ". .",
            "a\tb",
            "a\nb",
            "a\0",
            "a\u{202e}fdp.exe",
            "a\u{2066}b",
            "a\u{200f}b",
            "a\u{2028}b",
            "a*b?.pdf",
            "a<b>",
            "a|b",
            "a\"b",
            "．．／x",
            "..＼x",
            "a∕b",
            "",
        ];
        all::<FileName>(&good, &bad);
        for device in [
            "CON",
            "con.pdf",
            "Nul .txt",
            "AUX..",
            "com1",
            "LPT9.tar.gz",
            "com¹",
            "conout$",
            " prn",
            "CLOCK$",
            "ＣＯＮ.pdf",
            "．．",
            "…",
            "\u{200b}.pdf",
            " .pdf",
            "..\u{200b}.pdf",
            "\u{301}.pdf",
            ".\u{301}\u{20dd}.pdf",
            "\u{301} .pdf",
            "\u{301}a.pdf",
            "\u{301}a",
            "\u{3164}.pdf",
            "\u{2800}.pdf",
            "\u{1160}.pdf",
            "\u{3164}\u{2800}.\u{1160}.pdf",
        ] {
            assert!(read::<FileName>(device).is_err(), "{device}");
        }
        assert!(read::<FileName>(&"x".repeat(256)).is_err());
        assert!(read::<FileName>("078-05-1120.pdf").is_err());
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
            &[
                "a@b.c",
                "first.last+tag@mail.example.co",
                "ä@b.c",
                "josé@münchen.example",
                "用户@例子.测试",
                "a@xn--bcher-kva.ch",
            ],
            &[
                "a",
                "a@b",
                "@b.c",
                "a@@b.c",
                "a b@c.d",
                "a@b..c",
                "a@.c",
                "a@b.c\n",
                "a..b@b.co",
                ".a@b.co",
                "a.@b.co",
                "a@-b.co",
                "a@b-.co",
                "a@b.c-",
                "a@b.c.",
                "\"a\"@b.c",
                "a\u{a0}@b.c",
            ],
        );
        let label = |length| format!("a@{}.c", "x".repeat(length));
        all::<Email>(
            &[&label(63), "a@1.2.3.4.5.6.7.8.9"],
            &[&label(64), "a@0.1.2.3.4.5.6.7.8.9", &label(254)],
        );
        assert!(read::<Email>(&format!("{}@b.co", "x".repeat(64))).is_ok());
        assert!(read::<Email>(&format!("{}@b.co", "x".repeat(65))).is_err());
        all::<Phone>(
            &["+12135550142", "+4930123456", "+1234567", "+123456789012345"],
            &["2135550142", "+0123456789", "+1 213", "+123456", "+1234567890123456"],
        );
        assert!(["90012", "90012-1234"].into_iter().all(is_us_postal_code));
        for code in ["7531", "753124", "75312-", "75312-753", "7531a", "75312\n", ""] {
            assert!(!is_us_postal_code(code), "{code:?}");
        }
        all::<HttpsUrl>(
            &[
                "https://example.com",
                "https://e.co:8443/a?b=c#d",
                "https://h?x",
                "https://h#x",
                "HTTPS://H.Example:65535/",
                "https://10.0.0.1/",
                "https://müller.example/",
                "https://例え.テスト:8443/käse?ü",
                "https://[::1]/x",
                "https://[2001:db8::1]:8443",
            ],
            &[
                "http://example.com",
                "https://",
                "https:///x",
                "https://u@h/x",
                "https://h/a b",
                "https://h:/x",
                "https://h:99999/",
                "https://h:65536",
                "https://h:0/",
                "https://a..b/",
                "https://-a.b/",
                "https:/ä.example",
                "https://u@[::1]/x",
                "https://[::1",
                "https://::1/",
                "https://[fe80::1%25eth0]/",
                "https://[]/",
                "https://ä .example/",
            ],
        );
        all::<SsnLast4>(&["0000", "1234"], &["123", "12345", "078051120", "078-05-1120", "12a4", "١٢٣٤"]);
        all::<LicenseLast4>(&["A123"], &["A12", "A1234", "A-12"]);
        all::<CountyFips>(&["06037"], &["7531", "753124", "7531x"]);
        all::<WebOrderId>(&["W00012345", &"x".repeat(32)], &["", "W-1", "W 1", &"x".repeat(33)]);
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
