//! Values that must not be printed. They serialize, because the runtime Secret contains them; `Debug` hides them.

use std::fmt;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
    /// Returns what about a text looks like a mistake, although it is allowed: every byte of a secret is part of the key.
    /// `None` for random bytes, which may begin and end in any way.
    pub fn oddity(&self) -> Option<&'static str> {
        const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
        let bytes = self.expose();
        if MARKS.iter().any(|mark| bytes.starts_with(mark)) && bytes.len() > 3 {
            return Some("begins with a byte order mark");
        }
        let is_text = std::str::from_utf8(bytes).is_ok_and(|text| {
            !text.chars().any(|char| char.is_control() && !matches!(char, '\t' | '\n' | '\r'))
        });
        let is_quoted =
            |quote: &u8| bytes.len() > 2 && bytes.starts_with(&[*quote]) && bytes.ends_with(&[*quote]);
        match bytes {
            _ if !is_text => None,
            [.., b'\n' | b'\r'] => Some("ends in a newline"),
            [.., b' ' | b'\t'] => Some("ends in a blank"),
            [b' ' | b'\t' | b'\n' | b'\r', ..] => Some("begins with a blank"),
            _ if b"\"'".iter().any(is_quoted) => Some("has quotation marks around it"),
            _ if bytes.starts_with(b"whsec_") => Some("begins with whsec_"),
            _ => None,
        }
    }

    /// A sentence about the [`oddity`](Self::oddity) of the secret that `field` names, if it has one.
    pub fn warning(&self, field: &str) -> Option<String> {
        let oddity = self.oddity()?;
        Some(format!(
            "{field}: the secret {oddity}, which is part of the key: the receiver must have the same bytes; if it is a mistake, \
             correct the Secret"
        ))
    }
}

impl From<Vec<u8>> for SecretBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl PartialEq for SecretBytes {
    // Not in constant time: it compares configurations, never what a client sends.
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

/// The text is not a PostgreSQL URL; the message does not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a URL like postgresql://user:password@host:5432/database")]
pub struct InvalidDatabaseUrl;

impl DatabaseUrl {
    /// Reads a URL of scheme `postgres` or `postgresql` with a host and a database.
    pub fn parse(text: &str) -> Result<Self, InvalidDatabaseUrl> {
        let url = url::Url::parse(text).map_err(|_| InvalidDatabaseUrl)?;
        let scheme = matches!(url.scheme(), "postgres" | "postgresql");
        let named = url.has_host() && url.path().len() > "/".len();
        if scheme && named { Ok(Self(text.into())) } else { Err(InvalidDatabaseUrl) }
    }

    /// The URL, for connecting.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether both lead to the same host and port, with any user, database and settings.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let address = |url: &url::Url| {
            let address = url.query_pairs().find(|(key, _)| key == "hostaddr");
            address.map(|(_, address)| address.into_owned())
        };
        let (one, other) = (self.parsed(), other.parsed());
        (host_and_port(&one), address(&one)) == (host_and_port(&other), address(&other))
    }

    /// Whether both name the same user and database on the same host and port, with any password and settings.
    pub fn is_same_database(&self, other: &Self) -> bool {
        let (one, other) = (self.parsed(), other.parsed());
        host_and_port(&one) == host_and_port(&other)
            && (one.username(), one.path()) == (other.username(), other.path())
    }

    fn parsed(&self) -> url::Url {
        url::Url::parse(self.expose()).expect("a DatabaseUrl is a URL")
    }
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
        Self::parse(text.expose_secret()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(DatabaseUrl::parse(bad), Err(InvalidDatabaseUrl), "{bad}");
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
            "schl\u{fc}ssel".as_bytes(),
        ] {
            assert_eq!(oddity(fine), None);
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
