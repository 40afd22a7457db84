//! Reads a connection URL as libpq does: `sslmode` and `sslrootcert` choose how TLS is used.
//!
//! | sslmode | encrypted | certificate | host name |
//! |---|---|---|---|
//! | `disable` | no | | |
//! | `prefer` (default) | if the server can | not checked | not checked |
//! | `require` | yes | checked if `sslrootcert` is given | not checked |
//! | `verify-ca` | yes | checked | not checked |
//! | `verify-full` | yes | checked | checked |
//!
//! Without `sslrootcert`, or with `sslrootcert=system`, the public authorities are trusted.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;

/// How to connect, read from a database URL.
#[derive(Clone)]
pub struct Target {
    /// The server, the role, the database and the session's settings.
    pub config: Config,
    /// The TLS settings of the connection.
    pub tls: MakeRustlsConnect,
}

/// Why a URL can't be used. The message never carries the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// No URL of PostgreSQL, or one with a setting that is not known.
    #[error("must be a URL like postgresql://user:password@host:5432/database?sslmode=verify-full")]
    NotPostgres,
    /// An unknown mode.
    #[error("sslmode must be one of disable, prefer, require, verify-ca, verify-full")]
    SslMode,
    /// The file of authorities can't be read or has none.
    #[error("sslrootcert: {path} must be a readable file of certificates in PEM")]
    SslRootCert {
        /// The file.
        path: String,
    },
}

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    Authority,
    AuthorityAndName,
}

impl Target {
    /// Reads a `postgres://` or `postgresql://` URL, and the file that its `sslrootcert` names.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let mut url = Url::parse(url).map_err(|_| InvalidUrl::NotPostgres)?;
        let (mut mode, mut authorities) = ("prefer".to_owned(), None);
        for (key, value) in url.query_pairs() {
            match &*key {
                "sslmode" => mode = value.into_owned(),
                "sslrootcert" => authorities = Some(value.into_owned()),
                _ => {}
            }
        }
        // The library knows neither, or not all of their values.
        let rest: Vec<&str> = url
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.starts_with("sslmode=") && !pair.starts_with("sslrootcert="))
            .collect();
        let rest = rest.join("&");
        url.set_query(Some(rest.as_str()).filter(|rest| !rest.is_empty()));
        let mut config: Config = url.as_str().parse().map_err(|_| InvalidUrl::NotPostgres)?;
        let (mode, check) = match (mode.as_str(), &authorities) {
            ("disable", _) => (SslMode::Disable, Check::Nothing),
            ("prefer", _) => (SslMode::Prefer, Check::Nothing),
            ("require", None) => (SslMode::Require, Check::Nothing),
            ("require" | "verify-ca", _) => (SslMode::Require, Check::Authority),
            ("verify-full", _) => (SslMode::Require, Check::AuthorityAndName),
            _ => return Err(InvalidUrl::SslMode),
        };
        config.ssl_mode(mode);
        let authorities = authorities.filter(|path| check != Check::Nothing && path != "system");
        Ok(Self { config, tls: MakeRustlsConnect::new(client_config(check, authorities.as_deref())?) })
    }
}

fn client_config(check: Check, authorities: Option<&str>) -> Result<ClientConfig, InvalidUrl> {
    let provider = Arc::new(ring::default_provider());
    let roots = match authorities {
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        Some(path) => read_authorities(path).ok_or(InvalidUrl::SslRootCert { path: path.to_owned() })?,
    };
    let authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .expect("there is an authority, and no revocation list");
    let verifier = Arc::new(Verifier { check, authority, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

fn read_authorities(path: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).ok()? {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}

/// rustls' own check, of which `sslmode` may ask for less. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    check: Check,
    authority: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last, so all else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> Option<InvalidUrl> {
        Target::parse(url).err()
    }

    #[test]
    fn a_url_says_how_encrypted() {
        for (query, expected) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=prefer&application_name=x", SslMode::Prefer),
            ("?application_name=x&sslmode=require", SslMode::Require),
            ("?sslmode=verify-ca", SslMode::Require),
            ("?sslmode=verify-full&sslrootcert=system", SslMode::Require),
        ] {
            let target = Target::parse(&format!("postgres://u:p%40@db.example:5433/x{query}")).unwrap();
            assert_eq!(target.config.get_ssl_mode(), expected, "{query}");
            assert_eq!(target.config.get_password(), Some(&b"p@"[..]), "{query}");
            assert_eq!(target.config.get_ports(), [5433]);
        }
    }

    #[test]
    fn a_wrong_url_is_named_without_being_repeated() {
        for (url, expected) in [
            ("hunter2", InvalidUrl::NotPostgres),
            ("mysql://u:hunter2@h/x", InvalidUrl::NotPostgres),
            ("postgres://u:hunter2@h/x?colour=red", InvalidUrl::NotPostgres),
            ("postgres://u:hunter2@h/x?sslmode=verify", InvalidUrl::SslMode),
            (
                "postgres://u:hunter2@h/x?sslmode=verify-ca&sslrootcert=/nowhere/ca.crt",
                InvalidUrl::SslRootCert { path: "/nowhere/ca.crt".to_owned() },
            ),
        ] {
            let error = problem(url).unwrap();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
