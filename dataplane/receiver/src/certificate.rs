//! A throw-away authority and its only certificate, for this machine. The authority's key is dropped as soon as it
//! has signed, so trusting the authority means trusting only this certificate.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};

/// The names of the certificate. rustls and OpenSSL refuse a wildcard directly below a top-level domain. So for them
/// `*.localhost` matches nothing, and only the other three names can be used.
const NAMES: [&str; 4] = ["localhost", "*.localhost", "127.0.0.1", "::1"];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The validity of the certificate. It is below the 398 days that Apple's clients accept.
const VALID: Duration = DAY.saturating_mul(365);
/// A certificate with less than this validity left is replaced at start, so that it does not expire during a long run.
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);

const CA_FILE: &str = "receiver-ca.pem";
const LEAF_FILE: &str = "receiver.pem";
const KEY_FILE: &str = "receiver-key.pem";

/// A certificate for `localhost`, `*.localhost`, `127.0.0.1` and `::1`, with its key and the authority that signed
/// it. Docket's own worker and curl connect only by `localhost` or an address: they refuse such a wildcard.
#[derive(Clone)]
pub struct Certificate {
    ca_pem: String,
    leaf_pem: String,
    key_pem: String,
}

impl Certificate {
    /// Generates an authority and a certificate, valid for 365 days from `now` (seconds since 1970).
    pub fn generate(now: i64) -> anyhow::Result<Self> {
        let now = since_1970(now);
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(
            valid_from(authority, now, "Docket receiver, throw-away authority"),
            KeyPair::generate()?,
        )?;
        let mut leaf = CertificateParams::new(NAMES.map(str::to_owned))?;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let leaf = valid_from(leaf, now, "Docket receiver").signed_by(&key, &authority)?;
        Ok(Self { ca_pem: authority.pem(), leaf_pem: leaf.pem(), key_pem: key.serialize_pem() })
    }

    /// Loads the certificate from `dir`: `receiver-ca.pem`, `receiver.pem` and `receiver-key.pem` (mode 0600). So a
    /// user needs to trust the authority only once. A new one replaces it if it can't be read, if its parts do not
    /// belong together, or if it has less than 30 days left at `now` (seconds since 1970). The error means that `dir`
    /// can't be written.
    pub fn load_or_generate(dir: &Path, now: i64) -> anyhow::Result<Self> {
        if let Ok(kept) = Self::load(dir)
            && kept.check(since_1970(now)).is_ok()
            && kept.check(since_1970(now) + RENEW_BEFORE).is_ok()
        {
            return Ok(kept);
        }
        let new = Self::generate(now)?;
        new.save(dir)
            .with_context(|| format!("cannot write the receiver's certificate to {}", dir.display()))?;
        Ok(new)
    }

    /// The authority in PEM. A sender must trust it, for example as a webhook's `caBundle`.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// TLS 1.2 and 1.3 with this certificate, for HTTP/1.1.
    pub fn server_config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).context(KEY_FILE)?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.leaf()?], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn leaf(&self) -> anyhow::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.leaf_pem.as_bytes()).context(LEAF_FILE)
    }

    /// Checks whether a client that trusts the authority would connect at `at`. The verifier checks dates, names and
    /// signature together, so this needs no certificate parser and no stored date.
    fn check(&self, at: Duration) -> anyhow::Result<()> {
        self.server_config()?; // fails if the key does not belong to the certificate
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca_pem.as_bytes()).context(CA_FILE)?)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let name = ServerName::try_from("127.0.0.1")?;
        verifier.verify_server_cert(&self.leaf()?, &[], &name, &[], UnixTime::since_unix_epoch(at))?;
        Ok(())
    }

    fn load(dir: &Path) -> std::io::Result<Self> {
        let read = |name| fs::read_to_string(dir.join(name));
        Ok(Self { ca_pem: read(CA_FILE)?, leaf_pem: read(LEAF_FILE)?, key_pem: read(KEY_FILE)? })
    }

    fn save(&self, dir: &Path) -> std::io::Result<()> {
        let Self { ca_pem, leaf_pem, key_pem } = self;
        fs::create_dir_all(dir)?;
        for (name, mode, text) in
            [(KEY_FILE, 0o600, key_pem), (LEAF_FILE, 0o644, leaf_pem), (CA_FILE, 0o644, ca_pem)]
        {
            // Writes a new file and renames it, because an existing file would keep its mode.
            let new = dir.join(format!("{name}.new"));
            let _ = fs::remove_file(&new);
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, dir.join(name))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("names", &NAMES).finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn since_1970(now: i64) -> Duration {
    Duration::from_secs(u64::try_from(now).unwrap_or(0))
}

/// Sets the validity, which begins a day before `now`: a sender's clock may be behind.
fn valid_from(mut params: CertificateParams, now: Duration, name: &str) -> CertificateParams {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + VALID;
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    const NOW: i64 = 1_795_000_000;
    const DAYS: i64 = 24 * 60 * 60;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("docket-receiver-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            Self(dir)
        }
        fn ca(&self, now: i64) -> String {
            Certificate::load_or_generate(&self.0, now).expect("a writable directory").ca_pem().to_owned()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn certificate_is_kept_until_30_days_before_it_expires() {
        let dir = Dir::new("kept");
        let first = dir.ca(NOW);
        assert_eq!(dir.ca(NOW), first);
        assert_eq!(dir.ca(NOW - DAYS / 2), first, "a clock may be behind by less than a day");
        assert_eq!(dir.ca(NOW + 334 * DAYS), first);
        let second = dir.ca(NOW + 336 * DAYS);
        assert_ne!(second, first);
        assert_eq!(dir.ca(NOW + 336 * DAYS), second);
        assert_ne!(dir.ca(NOW), second, "not valid yet on a clock that was set back");
    }

    #[test]
    fn key_file_is_readable_by_its_owner_only() {
        let dir = Dir::new("mode");
        dir.ca(NOW);
        let key = dir.0.join(KEY_FILE);
        let mode = || fs::metadata(&key).expect("the key").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::write(&key, "damaged").expect("writable");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours");
        dir.ca(NOW);
        assert_eq!(mode(), 0o600, "also when it replaces a file anyone could read");
    }

    #[test]
    fn damaged_or_mixed_files_are_replaced() {
        let dir = Dir::new("damaged");
        let other = Certificate::generate(NOW).expect("generated");
        for (file, text) in [
            (CA_FILE, ""),
            (LEAF_FILE, "not PEM"),
            (CA_FILE, other.ca_pem.as_str()),
            (LEAF_FILE, &other.leaf_pem),
            (KEY_FILE, &other.key_pem),
        ] {
            let before = dir.ca(NOW);
            fs::write(dir.0.join(file), text).expect("writable");
            let after = dir.ca(NOW);
            assert!(after != before && after != text, "{file}");
            assert_eq!(dir.ca(NOW), after);
        }
    }

    #[test]
    fn error_names_the_directory_that_cannot_be_written() {
        let error =
            Certificate::load_or_generate(Path::new("/dev/null/docket"), NOW).expect_err("no directory");
        assert!(error.to_string().contains("/dev/null/docket"), "{error}");
    }

    #[test]
    fn debug_output_shows_no_key() {
        let certificate = Certificate::generate(NOW).expect("generated");
        assert!(!format!("{certificate:?}").contains("PRIVATE"));
    }
}
