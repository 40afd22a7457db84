//! Values that must not be printed. They serialize, because the runtime Secret contains them; `Debug` hides them.

use std::fmt;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::pem::BYTE_ORDER_MARKS;

/// Secret bytes exactly as in their Secret; hexadecimal in JSON, and wiped from memory when dropped.
#[derive(Clone)]
pub struct SecretBytes(SecretSlice<u8>);

impl SecretBytes {
    /// The bytes, for signing with them.
    pub fn expose(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl SecretBytes {
    /// Says what about a text looks like a mistake, although it is allowed: every byte of a secret is part of the key.
    /// Returns `None` for random bytes, which may begin and end in any way. The text quotes no part of the secret.
    pub fn oddity(&self) -> Option<&'static str> {
        let bytes = self.expose();
        let [utf_8, utf_16 @ ..] = BYTE_ORDER_MARKS;
        // Random bytes may begin with the two bytes of UTF-16's byte order mark. But a text in UTF-16 has a NUL in
        // each ASCII character.
        let is_utf_16 = bytes.len().is_multiple_of(2) && bytes.contains(&0);
        if bytes.len() > 3
            && (bytes.starts_with(utf_8) || is_utf_16 && utf_16.iter().any(|mark| bytes.starts_with(mark)))
        {
            return Some("begins with a byte order mark");
        }
        let is_binary = |char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r');
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_binary))?;
        ODDITIES.iter().find(|(_, is_odd)| is_odd(text)).map(|(oddity, _)| *oddity)
    }

    /// A sentence about the [`oddity`](Self::oddity) of the secret that `field` names, if it has one.
    pub fn warning(&self, field: &str) -> Option<String> {
        let oddity = self.oddity()?;
        Some(format!(
            "{field}: the secret {oddity}; every byte of it is part of the key, and the receiver must have the same bytes; if it is \
             a mistake, correct the Secret"
        ))
    }
}

/// A mistake that a text may contain: what to say about the text, and whether the text contains it.
type Oddity = (&'static str, fn(&str) -> bool);

/// All oddities. The first mistake that a text has is reported.
const ODDITIES: [Oddity; 9] = [
    ("ends in a newline", |text| text.ends_with(['\n', '\r'])),
    ("ends in a blank", |text| text.ends_with(char::is_whitespace)),
    ("begins with a blank", |text| text.starts_with(char::is_whitespace)),
    ("begins or ends with an invisible character", |text| {
        text.starts_with(is_invisible) || text.ends_with(is_invisible)
    }),
    ("has quotation marks around it", |text| is_between(text, "\"", "\"") || is_between(text, "'", "'")),
    ("begins with whsec_", |text| text.starts_with("whsec_")),
    ("looks like a line NAME=value of an env file", is_env_line),
    ("looks like a placeholder that was not filled in", |text| {
        [("${", "}"), ("$(", ")"), ("{{", "}}"), ("<", ">")]
            .iter()
            .any(|(from, to)| is_between(text, from, to))
    }),
    ("is a word that often stands where a secret is missing", |text| {
        MISSING_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
    }),
];

/// The words that programs and templates write in place of a missing secret, in any case.
const MISSING_WORDS: [&str; 9] =
    ["undefined", "null", "none", "nil", "nan", "[object object]", "changeme", "change-me", "change_me"];

/// Whether a character has no width: zero-width spaces and joiners, marks of direction, a soft hyphen, a byte order mark.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn is_between(text: &str, from: &str, to: &str) -> bool {
    text.strip_prefix(from).and_then(|rest| rest.strip_suffix(to)).is_some_and(|inner| !inner.is_empty())
}

/// Whether the text is `NAME=value`, but neither padded base32 or base64 in capitals nor a password that contains `=`
/// by chance.
fn is_env_line(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|char: char| char.is_ascii_uppercase())
            && (name.len() >= 3 || name.contains('_'))
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let value = text.split_once('=').filter(|(name, _)| is_name(name)).map(|(_, value)| value);
    value.is_some_and(|value| !value.is_empty() && !value.starts_with('='))
}

impl From<Vec<u8>> for SecretBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl PartialEq for SecretBytes {
    // The comparison takes no constant time: it compares configurations, never what a client sends.
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes([REDACTED])")
    }
}

impl Serialize for SecretBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.expose()))
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SecretString::from(String::deserialize(deserializer)?);
        // The decoder's own error would quote a character of the secret.
        let bytes = hex::decode(text.expose_secret());
        bytes.map(Self::from).map_err(|_| de::Error::custom("a secret must be hexadecimal"))
    }
}

/// A PostgreSQL connection URL with its password.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

/// Why a text is not the URL of a database. The message does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDatabaseUrl {
    /// The text has another form.
    #[error("must be a URL like postgresql://user:password@host:5432/database")]
    NotPostgres,
    /// The user or the password contains a character that ends this part of a URL.
    #[error(
        "must have special characters of the user and the password percent-encoded: / as %2F, ? as %3F, # as %23, @ as %40"
    )]
    NotEncoded,
    /// The database is `*`.
    #[error(
        "must name a database, such as postgres: *, which CloudNativePG writes for superusers, stands for all databases"
    )]
    AllDatabases,
}

impl DatabaseUrl {
    /// Reads a URL of scheme `postgres` or `postgresql` with a host and a database.
    pub fn parse(text: &str) -> Result<Self, InvalidDatabaseUrl> {
        // Without this check, a piece of the password would become the host, and be looked up.
        if has_raw_character(text) {
            return Err(InvalidDatabaseUrl::NotEncoded);
        }
        Self::stored(text)
    }

    /// Reads a URL that an operator of any version has handed over: an earlier one accepted what [`parse`](Self::parse) refuses.
    fn stored(text: &str) -> Result<Self, InvalidDatabaseUrl> {
        let url = url::Url::parse(text).map_err(|_| InvalidDatabaseUrl::NotPostgres)?;
        let scheme = matches!(url.scheme(), "postgres" | "postgresql");
        let named = url.has_host() && url.path().len() > "/".len();
        match (scheme && named, url.path()) {
            (false, _) => Err(InvalidDatabaseUrl::NotPostgres),
            (true, "/*") => Err(InvalidDatabaseUrl::AllDatabases),
            (true, _) => Ok(Self(text.into())),
        }
    }

    /// The URL, for connecting.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether both URLs lead to the same host and port, whatever their users, databases and settings. A URL that
    /// leads through a pooler leads to the server that its parameter `server` names.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let (one, other) = (self.parsed(), other.parsed());
        match (parameter(&one, SERVER), parameter(&other, SERVER)) {
            (None, None) => {
                let address = |url: &url::Url| parameter(url, "hostaddr");
                host_and_port(&one) == host_and_port(&other) && address(&one) == address(&other)
            }
            (behind_one, behind_other) => {
                let named =
                    |url: &url::Url, behind: Option<String>| behind.unwrap_or_else(|| named_server(url));
                named(&one, behind_one) == named(&other, behind_other)
            }
        }
    }

    /// The server's `host:port`, as the parameter `server` of a URL through a pooler has it.
    pub fn server(&self) -> String {
        let url = self.parsed();
        parameter(&url, SERVER).unwrap_or_else(|| named_server(&url))
    }

    /// Whether both URLs have the same user, database, host and port, whatever their passwords and settings.
    pub fn is_same_database(&self, other: &Self) -> bool {
        let (one, other) = (self.parsed(), other.parsed());
        host_and_port(&one) == host_and_port(&other)
            && (one.username(), one.path()) == (other.username(), other.path())
    }

    fn parsed(&self) -> url::Url {
        url::Url::parse(self.expose()).expect("a DatabaseUrl is a URL")
    }
}

/// The parameter of a URL through a pooler that names the server behind it.
pub const SERVER: &str = "server";

/// Whether a character that ends the host part of a URL comes before an `@`: only users and passwords precede an `@`.
/// A URL of a database has no `#`.
fn has_raw_character(text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let after = rest.find(['/', '?', '#']).map_or("", |end| &rest[end..]);
    after.contains(['@', '#'])
}

fn parameter(url: &url::Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn named_server(url: &url::Url) -> String {
    let (host, port) = host_and_port(url);
    format!("{}:{port}", host.unwrap_or_default())
}

fn host_and_port(url: &url::Url) -> (Option<&str>, u16) {
    (url.host_str(), url.port().unwrap_or(5432))
}

impl PartialEq for DatabaseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for DatabaseUrl {}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl([REDACTED])")
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SecretString::from(String::deserialize(deserializer)?);
        Self::stored(text.expose_secret()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_url_of_an_earlier_version_is_still_read() {
        let url = "postgres://u:p@h/db?application_name=team@acme";
        assert_eq!(DatabaseUrl::parse(url).err(), Some(InvalidDatabaseUrl::NotEncoded));
        let read: DatabaseUrl = serde_json::from_value(serde_json::json!(url)).expect("it was valid");
        assert_eq!(read.expose(), url);
    }

    #[test]
    fn bytes_read_back_and_do_not_print() {
        let secret = SecretBytes::from(vec![0, 0xff, b'\n']);
        assert_eq!(format!("{secret:?}"), "SecretBytes([REDACTED])");
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(json, "\"00ff0a\"");
        assert_eq!(serde_json::from_str::<SecretBytes>(&json).unwrap(), secret);
        let error = serde_json::from_str::<SecretBytes>("\"hunter2\"").unwrap_err().to_string();
        assert!(error.starts_with("a secret must be hexadecimal"), "it repeats nothing: {error}");
    }

    #[test]
    fn database_urls_are_postgresql_and_do_not_print() {
        for good in ["postgres://u:p@db/x", "postgresql://u:hunter2@db.example:5432/tenant_a?sslmode=require"]
        {
            let url = DatabaseUrl::parse(good).unwrap();
            assert_eq!(url.expose(), good);
            assert_eq!(format!("{url:?}"), "DatabaseUrl([REDACTED])");
        }
        for bad in ["", "mysql://u:p@db/x", "postgres://u:p@db", "postgres:///x", "host=db user=u"] {
            assert_eq!(DatabaseUrl::parse(bad), Err(InvalidDatabaseUrl::NotPostgres), "{bad}");
        }
        let all = DatabaseUrl::parse("postgresql://u:p@db:5432/*");
        assert_eq!(all, Err(InvalidDatabaseUrl::AllDatabases));
    }

    #[test]
    fn password_with_a_raw_character_is_refused_without_a_piece_of_it() {
        for raw in [
            "postgres://u:p@ss/w#rd@db:5432/x",
            "postgres://u:hunter/2@db/x",
            "postgres://u:12/hunter@db/x",
            "postgres://u:hunter?2@db/x",
            "postgres://u:12?hunter@db/x?sslmode=require",
            "postgres://u:hunter#2@db/x",
            "postgres://u:p@ss?w@db/x",
            "postgres://u/v:p@db/x",
        ] {
            let error = DatabaseUrl::parse(raw).expect_err(raw);
            assert_eq!(error, InvalidDatabaseUrl::NotEncoded, "{raw}");
        }
        for encoded in [
            "postgres://u:p%40ss%2Fw%23rd@db:5432/x",
            "postgres://u:p@ss:word@db/x",
            "postgres://u:p@db/x?application_name=a%40b",
        ] {
            assert!(DatabaseUrl::parse(encoded).is_ok(), "{encoded}");
        }
    }

    #[test]
    fn urls_of_one_server_differ_in_user_and_database() {
        let same = |one: &str, other: &str| {
            let url = |text| DatabaseUrl::parse(text).unwrap();
            url(one).is_same_server(&url(other))
        };
        let one = "postgres://u:p@db/x?sslmode=require";
        assert!(same(one, "postgresql://v:q@db:5432/y"));
        for other in ["postgres://u:p@eb/x", "postgres://u:p@db:1/x", "postgres://u:p@db/x?hostaddr=10.0.0.1"]
        {
            assert!(!same(one, other), "{other}");
        }
        let pooled = "postgres://v:q@pooler:6432/y?pooler=transaction&server=db:5432";
        assert!(same(one, pooled) && same(pooled, one));
        assert!(!same("postgres://u:p@pooler:6432/x", pooled), "the pooler is not the server");
        assert!(!same(one, "postgres://v:q@pooler:6432/y?pooler=transaction"));
    }

    #[test]
    fn text_that_looks_like_a_mistake_is_odd() {
        let oddity = |bytes: &[u8]| SecretBytes::from(bytes.to_vec()).oddity();
        for (odd, expected) in [
            (&b"hunter2\n"[..], "ends in a newline"),
            (b"hunter2\r\n", "ends in a newline"),
            (b"\n", "ends in a newline"),
            (b"hunter2 ", "ends in a blank"),
            (b" hunter2", "begins with a blank"),
            (b"\xef\xbb\xbfhunter2\r\n", "begins with a byte order mark"),
            (b"\xff\xfeh\0u\0", "begins with a byte order mark"),
            (b"\"hunter2\"", "has quotation marks around it"),
            (b"whsec_aHVudGVyMg==", "begins with whsec_"),
            ("hunter2\u{a0}".as_bytes(), "ends in a blank"),
            ("\u{2009}hunter2".as_bytes(), "begins with a blank"),
            ("hunter2\u{200b}".as_bytes(), "begins or ends with an invisible character"),
            ("\u{2060}hunter2".as_bytes(), "begins or ends with an invisible character"),
            ("hunter2\u{feff}".as_bytes(), "begins or ends with an invisible character"),
            (b"WEBHOOK_SECRET=hunter2", "looks like a line NAME=value of an env file"),
            (b"${WEBHOOK_SECRET}", "looks like a placeholder that was not filled in"),
            (b"{{ .Values.secret }}", "looks like a placeholder that was not filled in"),
            (b"<your secret>", "looks like a placeholder that was not filled in"),
            (b"undefined", "is a word that often stands where a secret is missing"),
            (b"None", "is a word that often stands where a secret is missing"),
            (b"null", "is a word that often stands where a secret is missing"),
            (b"ChangeMe", "is a word that often stands where a secret is missing"),
        ] {
            assert_eq!(oddity(odd), Some(expected));
        }
        for fine in [
            &b"hunter2"[..],
            b"two words",
            b"a\nb",
            b"\x01\x02\n",
            b"\xfd\x80\n",
            b"'",
            b"MFRGGZDFMZTWQ2LK======",
            b"AB==",
            b"K=3vR!x",
            b"\xff\xfeabcd",
            b"\xfe\xff\0bc",
            b"Name=value",
            b"=A",
            b"A=",
            b"${",
            b"a${B}",
            b"{{}}",
            b"nullable",
            "a\u{200b}b".as_bytes(),
            "schl\u{fc}ssel".as_bytes(),
        ] {
            assert_eq!(oddity(fine), None);
        }
    }

    #[test]
    fn warning_names_the_field_and_never_the_value() {
        for odd in ["hunter2 ", "SECRET=hunter2", "${hunter2}", "\"hunter2\""] {
            let warning = SecretBytes::from(odd.as_bytes().to_vec()).warning("spec.secretRef").expect(odd);
            assert!(
                warning.starts_with("spec.secretRef: the secret ") && !warning.contains("hunter2"),
                "{warning}"
            );
        }
    }

    #[test]
    fn urls_of_one_database_differ_in_password_and_settings() {
        let same = |one: &str, other: &str| {
            let url = |text| DatabaseUrl::parse(text).unwrap();
            url(one).is_same_database(&url(other))
        };
        let one = "postgres://u:p@db/x";
        assert!(same(one, "postgresql://u:q@db:5432/x?sslmode=require"));
        for other in
            ["postgres://v:p@db/x", "postgres://u:p@eb/x", "postgres://u:p@db:1/x", "postgres://u:p@db/y"]
        {
            assert!(!same(one, other), "{other}");
        }
    }
}
