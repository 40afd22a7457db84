//! Reads a connection URL as libpq does: `sslmode`, `sslrootcert`, `sslcert` and `sslkey` choose how TLS is used.
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
//!
//! Other than in libpq, the value of `sslrootcert`, `sslcert` and `sslkey` may be the PEM text itself instead of the
//! name of a file: a process may get it from a Secret. And two parameters are Docket's own: `pooler=transaction` says
//! that the host is a pooler in transaction mode, and `server=<host>:<port>` names the server behind the pooler.

use std::path::Path;
use std::sync::Arc;

use docket_crds::pem::{self, BadBundle};
use docket_crds::secret::SERVER;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;

use super::external::{self, ExternalDatabases, PARAMETERS};
use super::words::shown;

/// How to connect, read from a database URL.
#[derive(Clone)]
pub struct DatabaseTarget {
    /// The server, the role, the database and the session's settings.
    pub config: Config,
    /// The TLS settings of the connection.
    pub tls: MakeRustlsConnect,
    /// Limits for an external database; `None`: the platform chose the server, so there are none.
    pub(super) external: Option<Arc<ExternalDatabases>>,
    is_pooled: bool,
}

/// The parameters that the library does not know, or whose values it does not all know.
const OURS: [&str; 6] = ["sslmode", "sslrootcert", "sslcert", "sslkey", "pooler", SERVER];
/// The beginning of a PEM text, which stands in place of a file's name.
const PEM: &str = "-----BEGIN ";

/// Why a URL can't be used. The message never contains the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// The text is not a URL of PostgreSQL, or has an unknown setting.
    #[error("must be a URL like postgresql://user:password@host:5432/database?sslmode=verify-full")]
    NotPostgres,
    /// `sslmode` has an unknown value.
    #[error("sslmode must be one of disable, prefer, require, verify-ca, verify-full")]
    SslMode,
    /// The file of authorities can't be read.
    #[error("sslrootcert: {path} must be a readable file of certificates in PEM, of at most 1 MiB")]
    SslRootCert {
        /// The path of the file.
        path: String,
    },
    /// The file of authorities contains none, or a broken one.
    #[error("sslrootcert: {path}: {why}")]
    BadRootCert {
        /// The path of the file.
        path: String,
        /// The mistake in the file.
        why: BadBundle,
    },
    /// The file of authorities that the URL of an external database names can't be read.
    #[error(
        "sslrootcert must be \"system\" or a file of certificates in PEM below the folder of --ca-folder, of at most 1 MiB"
    )]
    ExternalRootCert,
    /// The file of the client's certificate or of its private key can't be read.
    #[error("{name}: {path} must be a readable file in PEM, of at most 1 MiB")]
    ClientFile {
        /// `sslcert` or `sslkey`.
        name: &'static str,
        /// The path of the file.
        path: String,
    },
    /// The URL of an external database names a file of the client's certificate.
    #[error(
        "{name} can't name a file in the URL of an external database; put tls.crt and tls.key into the Secret of \
         spec.database.external.secretRef"
    )]
    ExternalClientFile {
        /// `sslcert` or `sslkey`.
        name: &'static str,
    },
    /// The client's certificate has no private key, or the other way round.
    #[error("sslcert and sslkey must be set together")]
    HalfOfCertificate,
    /// The file of the client's certificate contains none, or a broken one.
    #[error("sslcert: {0}")]
    BadClientCertificate(BadBundle),
    /// The private key can't be read, or belongs to another certificate.
    #[error("sslkey must be the private key of sslcert in PEM, without a password")]
    BadClientKey,
    /// `pooler` has an unknown value.
    #[error("pooler must be transaction; leave it out for a pooler in session mode")]
    Pooler,
    /// The URL has a parameter that is not allowed for an external database.
    #[error("the parameter {name:?} is not allowed in the URL of an external database; allowed are {}", PARAMETERS.join(", "))]
    Parameter {
        /// The name of the parameter.
        name: String,
    },
    /// The URL of an external database names several hosts or a socket.
    #[error("the URL of an external database must name one host, by its name or address")]
    Host,
}

/// How much of a server's certificate is checked, by `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateCheck {
    Nothing,
    Authority,
    AuthorityAndName,
}

impl DatabaseTarget {
    /// Reads a `postgres://` or `postgresql://` URL of the platform, and the file that its `sslrootcert` names.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let parts = Parts::read(url)?;
        let ca = |path: &str| {
            external::read(Path::new(path)).ok_or_else(|| InvalidUrl::SslRootCert { path: path.to_owned() })
        };
        let own = |name: &'static str, path: &str| {
            let content = external::read(Path::new(path));
            content.ok_or_else(|| InvalidUrl::ClientFile { name, path: path.to_owned() })
        };
        Ok(Self {
            tls: parts.tls(ca, own)?,
            external: None,
            is_pooled: parts.is_pooled,
            config: parts.config,
        })
    }

    /// Reads the URL of an external database, which a tenant's owner writes. It may have only listed parameters, one
    /// host, and certificates below one folder. Each connection checks the host's addresses.
    pub fn external(url: &str, databases: &Arc<ExternalDatabases>) -> Result<Self, InvalidUrl> {
        let parts = Parts::read(url)?;
        if let Some(name) = parts.names.iter().find(|name| !PARAMETERS.contains(&name.as_str())) {
            return Err(InvalidUrl::Parameter { name: shown(name) });
        }
        match parts.config.get_hosts() {
            [Host::Tcp(host)] if !host.contains([',', '/']) && parts.config.get_ports().len() < 2 => {}
            _ => return Err(InvalidUrl::Host),
        }
        let ca = |path: &str| databases.ca_file(path).ok_or(InvalidUrl::ExternalRootCert);
        let own = |name: &'static str, _: &str| Err(InvalidUrl::ExternalClientFile { name });
        let (tls, is_pooled) = (parts.tls(ca, own)?, parts.is_pooled);
        Ok(Self { tls, config: parts.config, external: Some(Arc::clone(databases)), is_pooled })
    }

    /// Whether the host is a pooler in transaction mode: it refuses start-up options, and each transaction may have
    /// another session of the server. So a session has no settings, no locks and no prepared statements of its own.
    pub fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Whether a tenant's owner writes the URL.
    pub fn is_external(&self) -> bool {
        self.external.is_some()
    }

    /// The name of the database in a URL; `None`: the URL has none. It reads no file.
    pub fn database_name(url: &str) -> Option<String> {
        Parts::read(url).ok()?.config.get_dbname().map(str::to_owned)
    }
}

/// The parts of a URL.
struct Parts {
    config: Config,
    /// The names of its parameters.
    names: Vec<String>,
    check: CertificateCheck,
    authorities: Option<String>,
    /// The client's certificate and its private key, each a file or a text.
    client: Option<(String, String)>,
    is_pooled: bool,
}

impl Parts {
    fn read(url: &str) -> Result<Self, InvalidUrl> {
        let mut url = Url::parse(url).map_err(|_| InvalidUrl::NotPostgres)?;
        let (mut mode, mut authorities, mut names) = ("prefer".to_owned(), None, Vec::new());
        let (mut certificate, mut key, mut pooler) = (None, None, None);
        for (name, value) in url.query_pairs() {
            match &*name {
                "sslmode" => mode = value.into_owned(),
                "sslrootcert" => authorities = Some(value.into_owned()),
                "sslcert" => certificate = Some(value.into_owned()),
                "sslkey" => key = Some(value.into_owned()),
                "pooler" => pooler = Some(value.into_owned()),
                _ => {}
            }
            names.push(name.into_owned());
        }
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(InvalidUrl::HalfOfCertificate),
        };
        let is_pooled = match pooler.as_deref() {
            None => false,
            Some("transaction") => true,
            Some(_) => return Err(InvalidUrl::Pooler),
        };
        let is_ours = |pair: &&str| OURS.contains(&pair.split('=').next().unwrap_or_default());
        let rest: Vec<&str> =
            url.query().unwrap_or_default().split('&').filter(|pair| !is_ours(pair)).collect();
        let rest = rest.join("&");
        url.set_query(Some(rest.as_str()).filter(|rest| !rest.is_empty()));
        let mut config: Config = url.as_str().parse().map_err(|_| InvalidUrl::NotPostgres)?;
        let (mode, check) = match (mode.as_str(), &authorities) {
            ("disable", _) => (SslMode::Disable, CertificateCheck::Nothing),
            ("prefer", _) => (SslMode::Prefer, CertificateCheck::Nothing),
            ("require", None) => (SslMode::Require, CertificateCheck::Nothing),
            ("require" | "verify-ca", _) => (SslMode::Require, CertificateCheck::Authority),
            ("verify-full", _) => (SslMode::Require, CertificateCheck::AuthorityAndName),
            _ => return Err(InvalidUrl::SslMode),
        };
        config.ssl_mode(mode);
        let authorities = authorities.filter(|path| check != CertificateCheck::Nothing && path != "system");
        Ok(Self { config, names, check, authorities, client, is_pooled })
    }

    /// The TLS settings. `ca` reads a file of authorities, `own` the file that `sslcert` or `sslkey` names.
    fn tls(
        &self,
        ca: impl FnOnce(&str) -> Result<Vec<u8>, InvalidUrl>,
        own: impl Fn(&'static str, &str) -> Result<Vec<u8>, InvalidUrl>,
    ) -> Result<MakeRustlsConnect, InvalidUrl> {
        let roots = match &self.authorities {
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
            Some(text) if text.starts_with(PEM) => authorities(text.as_bytes())
                .map_err(|why| InvalidUrl::BadRootCert { path: "the Secret's ca.crt".to_owned(), why })?,
            Some(path) => {
                authorities(&ca(path)?).map_err(|why| InvalidUrl::BadRootCert { path: path.clone(), why })?
            }
        };
        // A text of several lines is no path, but may be a key, which no message shows.
        let is_no_path = |place: &str| place.contains(PEM) || place.contains(['\n', '\r']);
        let content = |name, place: &str| match place.starts_with(PEM) {
            false if is_no_path(place) => Err(InvalidUrl::BadClientKey),
            true => Ok(place.as_bytes().to_vec()),
            false => own(name, place),
        };
        let client = match &self.client {
            None => None,
            Some((certificate, key)) => {
                let certificate = pem::certificates(&content("sslcert", certificate)?);
                let certificate = certificate.map_err(InvalidUrl::BadClientCertificate)?;
                let key = PrivateKeyDer::from_pem_slice(&content("sslkey", key)?);
                let chain = certificate.into_iter().map(CertificateDer::from).collect();
                Some((chain, key.map_err(|_| InvalidUrl::BadClientKey)?))
            }
        };
        Ok(MakeRustlsConnect::new(client_config(self.check, roots, client)?))
    }
}

/// The client's certificate with its chain, and its private key.
type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_config(
    check: CertificateCheck,
    roots: RootCertStore,
    client: Option<ClientCertificate>,
) -> Result<ClientConfig, InvalidUrl> {
    let provider = Arc::new(ring::default_provider());
    let authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .expect("there is an authority, and no revocation list");
    let verifier = Arc::new(Verifier { check, authority });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            builder.with_client_auth_cert(chain, key).map_err(|_| InvalidUrl::BadClientKey)?
        }
    };
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

fn authorities(bundle: &[u8]) -> Result<RootCertStore, BadBundle> {
    let mut roots = RootCertStore::empty();
    pem::add_each(bundle, |certificate| roots.add(certificate.into()))?;
    Ok(roots)
}

/// Runs rustls' own check, and ignores failures that `sslmode` does not ask for. Signatures of the handshake are
/// always checked.
#[derive(Debug)]
struct Verifier {
    check: CertificateCheck,
    authority: Arc<WebPkiServerVerifier>,
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
        if self.check == CertificateCheck::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let verified =
            self.authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // rustls checks the name last, so everything else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == CertificateCheck::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> Option<InvalidUrl> {
        DatabaseTarget::parse(url).err()
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
            let target =
                DatabaseTarget::parse(&format!("postgres://u:p%40@db.example:5433/x{query}")).unwrap();
            assert_eq!(target.config.get_ssl_mode(), expected, "{query}");
            assert_eq!(target.config.get_password(), Some(&b"p@"[..]), "{query}");
            assert_eq!(target.config.get_ports(), [5433]);
        }
    }

    #[test]
    fn hosts_of_a_url_are_named_without_the_rest_of_it() {
        for (place, hosts) in [
            ("db.example", "db.example:5432"),
            ("db.example:5433", "db.example:5433"),
            ("a.example,b.example:5433", "a.example:5432,b.example:5433"),
            ("[2a00::1]:5433", "[2a00::1]:5433"),
        ] {
            let target = DatabaseTarget::parse(&format!("postgres://user:hunter2@{place}/x")).expect(place);
            assert_eq!(target.hosts(), hosts);
        }
        let target =
            DatabaseTarget::parse("postgres://u:hunter2@db.example:5433/x?hostaddr=10.1.2.3").unwrap();
        assert_eq!(target.hosts(), "10.1.2.3:5433", "an address replaces the name");
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

    #[test]
    fn pooler_and_client_certificate_are_read_from_a_url() {
        let made = rcgen::generate_simple_self_signed(["docket".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let encode = |text: &str| {
            let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
            bytes.collect::<String>()
        };
        let url = |query: &str| format!("postgres://u@db.example/x?sslmode=require{query}");
        let whole = format!("&sslcert={}&sslkey={}", encode(&certificate), encode(&key));
        let parsed = DatabaseTarget::parse(&url(&whole)).map(|target| target.is_pooled());
        assert_eq!(parsed.ok(), Some(false));
        let pooled = DatabaseTarget::parse(&url("&pooler=transaction&server=db:5432")).unwrap();
        assert!(pooled.is_pooled() && pooled.config.get_hosts().len() == 1);
        let other = rcgen::generate_simple_self_signed(["docket".to_owned()]).unwrap();
        let other = encode(&other.signing_key.serialize_pem());
        for (query, expected) in [
            ("&pooler=session".to_owned(), InvalidUrl::Pooler),
            (format!("&sslcert={}", encode(&certificate)), InvalidUrl::HalfOfCertificate),
            (
                "&sslcert=/nowhere/tls.crt&sslkey=/nowhere/tls.key".to_owned(),
                InvalidUrl::ClientFile { name: "sslcert", path: "/nowhere/tls.crt".to_owned() },
            ),
            (format!("&sslcert={}&sslkey={other}", encode(&certificate)), InvalidUrl::BadClientKey),
        ] {
            assert_eq!(problem(&url(&query)), Some(expected));
        }
        let folder = std::env::temp_dir();
        let files = external("?sslcert=/etc/passwd&sslkey=/etc/passwd", "db.example", &folder).err();
        assert_eq!(files, Some(InvalidUrl::ExternalClientFile { name: "sslcert" }));
        assert!(external(&format!("?sslmode=require{whole}"), "db.example", &folder).is_ok());
        assert!(external("?pooler=transaction", "db.example", &folder).is_ok());
        let server = external("?pooler=transaction&server=db:5432", "db.example", &folder).err();
        assert_eq!(server, Some(InvalidUrl::Parameter { name: "server".to_owned() }));
    }

    fn external(query: &str, host: &str, ca_folder: &Path) -> Result<DatabaseTarget, InvalidUrl> {
        let databases = ExternalDatabases::new(Vec::new(), Some(ca_folder.to_owned()));
        DatabaseTarget::external(&format!("postgres://u:hunter2@{host}/x{query}"), &Arc::new(databases))
    }

    #[test]
    fn external_url_has_parameters_of_a_list() {
        let folder = std::env::temp_dir();
        for good in [
            "",
            "?sslmode=verify-full&sslrootcert=system",
            "?application_name=x&connect_timeout=5&sslmode=require",
            "?channel_binding=prefer&target_session_attrs=read-write",
        ] {
            assert!(external(good, "db.example", &folder).is_ok(), "{good}");
        }
        for name in [
            "options",
            "host",
            "hostaddr",
            "port",
            "user",
            "password",
            "dbname",
            "tcp_user_timeout",
            "sslnegotiation",
        ] {
            let value = if name == "hostaddr" { "127.0.0.1" } else { "5" };
            let query = format!("?sslmode=require&{name}={value}");
            let error = external(&query, "db.example", &folder).err().expect(name);
            assert!(
                error == InvalidUrl::Parameter { name: name.to_owned() } || error == InvalidUrl::NotPostgres,
                "{name}: {error}"
            );
        }
        let error =
            external("?options=-csearch_path%3Devil", "db.example", &folder).err().unwrap().to_string();
        assert!(error.contains("\"options\"") && error.contains("sslmode, sslrootcert"), "{error}");
    }

    #[test]
    fn external_url_has_one_host_and_no_socket() {
        let folder = std::env::temp_dir();
        for host in ["a.example,b.example", "%2Fvar%2Frun%2Fpostgresql", ""] {
            let error = external("", host, &folder).err().expect(host);
            assert!(matches!(error, InvalidUrl::Host | InvalidUrl::NotPostgres), "{host:?}: {error}");
        }
        assert!(external("", "[2a00::1]:5433", &folder).is_ok());
        assert!(external("", "10.1.2.3", &folder).is_ok());
    }

    #[test]
    fn external_url_names_certificates_of_one_folder() {
        use std::os::unix::fs::symlink;
        let scratch = std::env::temp_dir().join(format!("schema-ca-{}", std::process::id()));
        let folder = scratch.join("ca");
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["db.example".to_owned()]).unwrap();
        let pem = made.cert.pem();
        std::fs::write(folder.join("ca.crt"), &pem).unwrap();
        std::fs::write(scratch.join("outside.crt"), &pem).unwrap();
        std::fs::write(folder.join("large.crt"), pem.repeat((1 << 20) / pem.len() + 1)).unwrap();
        symlink(scratch.join("outside.crt"), folder.join("link-out.crt")).unwrap();
        symlink("/dev/zero", folder.join("zero.crt")).unwrap();
        symlink("ca.crt", folder.join("link-in.crt")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(folder.join("fifo.crt")).status().unwrap();
        assert!(fifo.success());
        let at = |path: &str| {
            let query = format!("?sslmode=verify-full&sslrootcert={path}");
            external(&query, "db.example", &folder).map(drop)
        };
        let inside = |name: &str| at(&folder.join(name).display().to_string());
        let wide: Vec<u8> = format!("\u{feff}{pem}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        std::fs::write(folder.join("wide.crt"), wide).unwrap();
        assert_eq!(inside("wide.crt"), Ok(()), "UTF-16, as PowerShell writes it");
        std::fs::write(folder.join("broken.crt"), format!("{pem}{}", pem.replace("-----END", "----END")))
            .unwrap();
        let error = inside("broken.crt").unwrap_err().to_string();
        assert!(error.contains("broken.crt: certificate 2 of 2 has no line -----END"), "{error}");
        std::fs::write(folder.join("empty.crt"), "# none").unwrap();
        let error = inside("empty.crt").unwrap_err();
        assert!(matches!(error, InvalidUrl::BadRootCert { why: BadBundle::Empty, .. }), "{error}");
        assert_eq!(inside("ca.crt"), Ok(()));
        assert_eq!(inside("link-in.crt"), Ok(()));
        for name in ["large.crt", "link-out.crt", "zero.crt", "fifo.crt", "../outside.crt", "absent.crt", "."]
        {
            assert_eq!(inside(name), Err(InvalidUrl::ExternalRootCert), "{name}");
        }
        assert_eq!(at("/dev/zero"), Err(InvalidUrl::ExternalRootCert));
        // Even in the platform's own URL, only regular files are read.
        for path in ["/dev/zero".to_owned(), folder.join("fifo.crt").display().to_string()] {
            let error = problem(&format!("postgres://u@h/x?sslmode=verify-ca&sslrootcert={path}")).unwrap();
            assert_eq!(error, InvalidUrl::SslRootCert { path });
        }
        std::fs::remove_dir_all(scratch).unwrap();
    }
}
