//! The certificate authorities that a POST trusts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use docket_crds::pem::{self, BadBundle};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};

use crate::shown::{NoClientCertificate, RootsVerifier};

/// The certificate authorities that a receiver's certificate may come from. Verification cannot be switched off.
///
/// Create one per webhook configuration and keep it: it remembers TLS sessions, and only POSTs with the same `Trust`
/// share open connections. Clones are the same `Trust`, and so are trusts of equal bundles: ten thousand webhooks
/// with the CA of their platform share one.
#[derive(Clone)]
pub struct Trust {
    pub(crate) config: Arc<ClientConfig>,
    /// The id of the trust in the pool. The pointer of `config` can't be the id, because the allocator reuses addresses.
    pub(crate) id: u64,
}

/// A trust as long as it is used somewhere, with its id.
type WeakTrust = (Weak<ClientConfig>, u64);

impl Trust {
    /// Trusts the public authorities (Mozilla's list, compiled in). One instance for the whole process.
    pub fn public() -> Self {
        static PUBLIC: LazyLock<Trust> =
            LazyLock::new(|| Trust::of(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()));
        PUBLIC.clone()
    }

    /// Trusts the authorities in `bundle` *instead of* the public ones. `caBundle` means this everywhere in
    /// Kubernetes. It is also stricter: no public authority can vouch for a receiver with a private CA. To trust
    /// both, put both into the bundle, which is in PEM as [`pem`] reads it.
    pub fn with_bundle(bundle: impl AsRef<[u8]>) -> Result<Self, BadBundle> {
        static BUNDLES: Mutex<BTreeMap<[u8; 32], WeakTrust>> = Mutex::new(BTreeMap::new());
        let bundle = bundle.as_ref();
        let digest = Sha256::digest(bundle).into();
        let mut bundles = BUNDLES.lock();
        if let Some((config, id)) = bundles.get(&digest).and_then(|(kept, id)| Some((kept.upgrade()?, *id))) {
            return Ok(Self { config, id });
        }
        bundles.retain(|_, (kept, _)| kept.strong_count() > 0);
        let trust = Self::read(bundle)?;
        bundles.insert(digest, (Arc::downgrade(&trust.config), trust.id));
        Ok(trust)
    }

    fn read(bundle: &[u8]) -> Result<Self, BadBundle> {
        let mut roots = RootCertStore::empty();
        pem::add_each(bundle, |certificate| roots.add(certificate.into()))?;
        Ok(Self::of(roots))
    }

    /// The settings of rustls, for an ordinary HTTP client that must trust the same authorities.
    pub fn tls(&self) -> ClientConfig {
        ClientConfig::clone(&self.config)
    }

    /// Trusts no authority: every certificate is untrusted.
    pub fn none() -> Self {
        Self::of(RootCertStore::empty())
    }

    fn of(roots: RootCertStore) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(RootsVerifier::new(roots, provider.clone()));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for TLS 1.2 and 1.3")
            .dangerous() // the verifier is rustls' own, and notes what it sees
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(NoClientCertificate));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { config: Arc::new(config), id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use docket_crds::pem::PemProblem;

    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(["receiver.test".to_owned()]).expect("a name").cert.pem()
    }

    #[test]
    fn bundle_of_several_certificates_with_text_between_them_is_read() {
        let pem = format!("# team A\n{}\n# team B\n{}", certificate(), certificate());
        assert!(Trust::with_bundle(&pem).is_ok());
    }

    #[test]
    fn bundle_of_windows_and_of_openssl_is_read() {
        let pem = certificate();
        let old = pem.replace("CERTIFICATE", "X509 CERTIFICATE");
        let trusted = trusted(&certificate());
        let marked = format!("\u{feff}{}", certificate().replace('\n', "\r\n"));
        for bundle in [&old, &trusted, &marked, &format!("{pem}{old}{marked}{trusted}")] {
            assert!(Trust::with_bundle(bundle).is_ok(), "{bundle}");
        }
        let wide: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(Trust::with_bundle(&wide).is_ok(), "UTF-16, as PowerShell writes it");
    }

    /// The text that `openssl x509 -trustout` writes.
    fn trusted(pem: &str) -> String {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let command = Command::new("openssl")
            .args(["x509", "-trustout", "-addtrust", "serverAuth"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut openssl = command.expect("openssl");
        openssl.stdin.take().expect("a pipe").write_all(pem.as_bytes()).expect("written");
        let written = openssl.wait_with_output().expect("it ends");
        let trusted = String::from_utf8(written.stdout).expect("PEM");
        assert!(trusted.contains("BEGIN TRUSTED CERTIFICATE"), "{trusted}");
        trusted
    }

    #[test]
    fn unusable_bundle_names_the_reason() {
        let good = certificate();
        let cut = &good[..good.len() / 2];
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bad = |number, count, problem| BadBundle::Block { number, count, problem };
        for (pem, reason) in [
            ("", BadBundle::Empty),
            ("no PEM at all", BadBundle::Empty),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", BadBundle::Empty),
            (cut, bad(1, 1, PemProblem::NoEnd)),
            (garbage, bad(1, 1, PemProblem::NotACertificate)),
            (&format!("{good}{garbage}"), bad(2, 2, PemProblem::NotACertificate)),
            (&format!("{good}{cut}\n{good}"), bad(2, 3, PemProblem::NoEnd)),
        ] {
            assert_eq!(Trust::with_bundle(pem).expect_err(pem), reason, "{pem}");
        }
    }

    #[test]
    fn equal_bundles_are_one_trust_as_long_as_one_of_them_is_kept() {
        let pem = certificate();
        let (one, other) = (Trust::with_bundle(&pem).expect("a bundle"), Trust::with_bundle(&pem));
        let other = other.expect("a bundle");
        assert!(one.id == other.id && Arc::ptr_eq(&one.config, &other.config));
        assert_ne!(Trust::with_bundle(certificate()).expect("a bundle").id, one.id);
        let id = one.id;
        drop((one, other));
        assert_ne!(Trust::with_bundle(&pem).expect("a bundle").id, id, "nothing keeps it");
    }

    #[test]
    fn clones_share_connections_and_different_trusts_do_not() {
        let trust = Trust::with_bundle(certificate()).expect("a bundle");
        assert_eq!(trust.id, trust.clone().id);
        assert_eq!(Trust::public().id, Trust::public().id);
        assert_ne!(trust.id, Trust::public().id);
    }
}
