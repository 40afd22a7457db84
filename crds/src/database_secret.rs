//! A Secret with the parts of a database's URL, as CloudNativePG, Crunchy's operator and Amazon RDS write it. Pure.

use std::net::Ipv6Addr;

use url::form_urlencoded::byte_serialize;

use crate::DatabaseUrl;
use crate::pem::{self, BadBundle};

/// The keys that are read. Others, such as `uri`, are ignored.
pub const KEYS: [&str; 6] = ["host", "port", "user", "username", "password", "dbname"];
/// The keys of the client's certificate, of its private key, and of the authorities that the server's certificate
/// comes from.
pub const CERTIFICATE_KEYS: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];
/// The values of `sslmode`, as in libpq.
pub const SSL_MODES: [&str; 5] = ["disable", "prefer", "require", "verify-ca", "verify-full"];

/// The longest value of one of [`CERTIFICATE_KEYS`], in bytes. The tenant's configuration contains it.
const LONGEST_PEM: usize = 16 * 1024;

/// What is declared beside the Secret. A part that is set replaces the Secret's key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The server's host name or address.
    pub host: Option<String>,
    /// The server's port.
    pub port: Option<u16>,
    /// The name of the database.
    pub dbname: Option<String>,
    /// One of [`SSL_MODES`]. Default: `verify-full` if there are authorities, otherwise `require`.
    pub ssl_mode: Option<String>,
    /// `system` or a file of authorities. It replaces the key `ca.crt`.
    pub ssl_root_cert: Option<String>,
    /// Whether the host is a pooler in transaction mode.
    pub is_pooled: bool,
}

/// Why a Secret does not say how to connect. The message quotes no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDatabaseSecret {
    /// The host or the database is in no key and not set beside.
    #[error("has no key {0:?}; add it, or set {0} beside the Secret's name")]
    NoPart(&'static str),
    /// The role is missing.
    #[error("has no key \"user\" or \"username\"; add the name of the role")]
    NoUser,
    /// The role has neither a password nor a certificate.
    #[error("has no key \"password\"; add it, or tls.crt and tls.key for a login with a certificate")]
    NoPassword,
    /// The database is `*`.
    #[error(
        "key \"dbname\" is *, which CloudNativePG writes for superusers; set dbname beside the Secret's name, such as postgres"
    )]
    AllDatabases,
    /// The host has another form.
    #[error("host must be a host name such as db.example.com, or an address")]
    Host,
    /// The port is not a number.
    #[error("port must be a number from 1 to 65535")]
    Port,
    /// The value is not a text.
    #[error("key {0:?} must be text in UTF-8")]
    NotText(&'static str),
    /// The value is too long.
    #[error("key {0:?} must have at most {LONGEST_PEM} bytes")]
    TooLong(&'static str),
    /// The certificates can't be read.
    #[error("key {key:?}: {why}")]
    Certificates {
        /// `tls.crt` or `ca.crt`.
        key: &'static str,
        /// The mistake in the value.
        why: BadBundle,
    },
    /// A certificate has no private key, or the other way round.
    #[error("must have both tls.crt and tls.key, or neither")]
    HalfOfCertificate,
    /// The private key is not one.
    #[error("key \"tls.key\" must be a private key in PEM (-----BEGIN PRIVATE KEY-----), without a password")]
    PrivateKey,
}

/// The URL that the Secret and the parts beside it describe. `value` returns the value under one of [`KEYS`] or
/// [`CERTIFICATE_KEYS`]. The certificates become part of the URL, in place of the files that libpq expects there.
pub fn url(
    value: &dyn Fn(&'static str) -> Option<Vec<u8>>,
    beside: &Beside,
) -> Result<DatabaseUrl, InvalidDatabaseSecret> {
    use InvalidDatabaseSecret as Invalid;
    let text = |key| text(value(key), key);
    let host = beside.host.clone().map_or_else(|| text("host"), |host| Ok(Some(host)))?;
    let host = host_in_url(&host.ok_or(Invalid::NoPart("host"))?)?;
    let port = match (beside.port, text("port")?) {
        (Some(port), _) => port,
        (None, Some(port)) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(Invalid::Port)?,
        (None, None) => 5432,
    };
    let user = text("user")?.map_or_else(|| text("username"), |user| Ok(Some(user)))?;
    let user = encoded(&user.ok_or(Invalid::NoUser)?);
    let dbname = beside.dbname.clone().map_or_else(|| text("dbname"), |name| Ok(Some(name)))?;
    let dbname = dbname.ok_or(Invalid::NoPart("dbname"))?;
    if dbname == "*" {
        return Err(Invalid::AllDatabases);
    }
    let parameters = parameters(value, beside)?;
    let password = match text("password")? {
        Some(password) => format!(":{}", encoded(&password)),
        None if parameters.iter().any(|(name, _)| *name == "sslcert") => String::new(),
        None => return Err(Invalid::NoPassword),
    };
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let url = format!("postgresql://{user}{password}@{host}:{port}/{}?{}", encoded(&dbname), query.join("&"));
    DatabaseUrl::parse(&url).map_err(|_| Invalid::Host)
}

fn parameters(
    value: &dyn Fn(&'static str) -> Option<Vec<u8>>,
    beside: &Beside,
) -> Result<Vec<(&'static str, String)>, InvalidDatabaseSecret> {
    let authorities = match &beside.ssl_root_cert {
        Some(place) => Some(place.clone()),
        None => certificates(value("ca.crt"), "ca.crt")?,
    };
    let default = if authorities.is_some() { "verify-full" } else { "require" };
    let mode = beside.ssl_mode.clone().unwrap_or_else(|| default.to_owned());
    let mut parameters = vec![("sslmode", mode)];
    parameters.extend(authorities.map(|authorities| ("sslrootcert", authorities)));
    match (certificates(value("tls.crt"), "tls.crt")?, private_key(value("tls.key"))?) {
        (Some(certificate), Some(key)) => {
            parameters.extend([("sslcert", certificate), ("sslkey", key)]);
        }
        (None, None) => {}
        _ => return Err(InvalidDatabaseSecret::HalfOfCertificate),
    }
    if beside.is_pooled {
        parameters.push(("pooler", "transaction".to_owned()));
    }
    Ok(parameters)
}

/// A value without the line break that editors put at the end. An empty value counts as absent.
fn text(value: Option<Vec<u8>>, key: &'static str) -> Result<Option<String>, InvalidDatabaseSecret> {
    let Some(value) = value else { return Ok(None) };
    let text = String::from_utf8(value).map_err(|_| InvalidDatabaseSecret::NotText(key))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty()))
}

fn certificates(value: Option<Vec<u8>>, key: &'static str) -> Result<Option<String>, InvalidDatabaseSecret> {
    let Some(value) = short(value, key)? else { return Ok(None) };
    let certificates = pem::certificates(&value);
    let certificates = certificates.map_err(|why| InvalidDatabaseSecret::Certificates { key, why })?;
    Ok(Some(pem::text(&certificates)))
}

fn private_key(value: Option<Vec<u8>>) -> Result<Option<String>, InvalidDatabaseSecret> {
    let Some(value) = short(value, "tls.key")? else { return Ok(None) };
    let text = text(Some(value), "tls.key")?.map(|text| text.trim().to_owned());
    let is_key = |text: &String| text.starts_with("-----BEGIN ") && text.contains("PRIVATE KEY-----");
    match text.filter(is_key).filter(|text| !text.contains("ENCRYPTED")) {
        Some(key) => Ok(Some(key)),
        None => Err(InvalidDatabaseSecret::PrivateKey),
    }
}

/// A value of bounded length. An empty value counts as absent.
fn short(value: Option<Vec<u8>>, key: &'static str) -> Result<Option<Vec<u8>>, InvalidDatabaseSecret> {
    match value.filter(|value| !value.is_empty()) {
        Some(value) if value.len() > LONGEST_PEM => Err(InvalidDatabaseSecret::TooLong(key)),
        value => Ok(value),
    }
}

fn host_in_url(host: &str) -> Result<String, InvalidDatabaseSecret> {
    if host.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{host}]"));
    }
    match is_host(host) {
        true => Ok(host.to_owned()),
        false => Err(InvalidDatabaseSecret::Host),
    }
}

/// Whether a text has the characters of a host name or an address.
pub(crate) fn is_host(text: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.parse::<Ipv6Addr>().is_ok() || !text.is_empty() && text.bytes().all(is_name_byte)
}

/// Percent-encodes a text so that every reader of URLs reads the same text.
fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(entries: &[(&str, &str)], beside: &Beside) -> Result<String, String> {
        let value = |key: &'static str| {
            let found = entries.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| value.as_bytes().to_vec())
        };
        let url = url(&value, beside);
        url.map(|url| url.expose().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_of_other_operators_are_read_as_they_are() {
        let cloud_native_pg = [
            ("username", "acme"),
            ("user", "acme"),
            ("password", "p@ss/w#rd%41 +"),
            ("host", "acme-rw"),
            ("port", "5432"),
            ("dbname", "acme"),
            ("uri", "postgresql://acme:secret@acme-rw.db:5432/acme"),
            ("jdbc-uri", "jdbc:postgresql://…"),
            ("pgpass", "acme-rw:5432:acme:acme:…\n"),
        ];
        let url = "postgresql://acme:p%40ss%2Fw%23rd%2541%20%2B@acme-rw:5432/acme?sslmode=require";
        assert_eq!(made(&cloud_native_pg, &Beside::default()).as_deref(), Ok(url));
        let of_rds = [("username", "postgres"), ("password", "x\n")];
        let beside = Beside {
            host: Some("x.eu-central-1.rds.amazonaws.com".to_owned()),
            port: Some(5433),
            dbname: Some("docket".to_owned()),
            ssl_mode: Some("verify-full".to_owned()),
            ..Beside::default()
        };
        let url = "postgresql://postgres:x@x.eu-central-1.rds.amazonaws.com:5433/docket?sslmode=verify-full";
        assert_eq!(made(&of_rds, &beside).as_deref(), Ok(url));
        let pooled = Beside { is_pooled: true, host: Some("2a00::1".to_owned()), ..beside };
        let url = made(&of_rds, &pooled).unwrap();
        assert!(url.contains("@[2a00::1]:5433/docket?"), "{url}");
        assert!(url.ends_with("&pooler=transaction"), "{url}");
    }

    #[test]
    fn missing_or_wrong_part_is_named_without_a_value() {
        let whole =
            [("host", "db.example"), ("user", "hunter2"), ("password", "hunter2"), ("dbname", "hunter2")];
        assert!(made(&whole, &Beside::default()).is_ok());
        for (key, expected) in [
            ("host", "has no key \"host\"; add it, or set host beside"),
            ("user", "has no key \"user\" or \"username\""),
            ("password", "has no key \"password\""),
            ("dbname", "has no key \"dbname\"; add it, or set dbname beside"),
        ] {
            let rest: Vec<_> = whole.iter().copied().filter(|(name, _)| *name != key).collect();
            let error = made(&rest, &Beside::default()).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        for (key, wrong, expected) in [
            ("dbname", "*", "key \"dbname\" is *"),
            ("host", "hunter2/x@y", "host must be a host name"),
            ("port", "hunter2", "port must be a number"),
            ("port", "65536", "port must be a number"),
            ("tls.crt", "hunter2", "key \"tls.crt\": must contain at least one certificate"),
            ("tls.key", "hunter2", "key \"tls.key\" must be a private key"),
            ("tls.key", "-----BEGIN PRIVATE KEY-----\nAA==\n", "must have both tls.crt and tls.key"),
        ] {
            let entries: Vec<_> = [(key, wrong)].into_iter().chain(whole).collect();
            let error = made(&entries, &Beside::default()).unwrap_err();
            assert!(error.starts_with(expected), "{key}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let long = "x".repeat(LONGEST_PEM + 1);
        let entries: Vec<_> = [("ca.crt", long.as_str())].into_iter().chain(whole).collect();
        assert!(
            made(&entries, &Beside::default()).unwrap_err().starts_with("key \"ca.crt\" must have at most")
        );
    }
}
