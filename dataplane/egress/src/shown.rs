//! What a receiver shows in a TLS handshake. The cause of a failure depends on it, and rustls' errors do not contain it.
//!
//! rustls calls a verifier for the receiver's certificates, and a resolver for a client certificate, while the
//! handshake is polled. Both only note what they see, for the task of the handshake. rustls' own verifier decides.

use std::cell::RefCell;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::ResolvesClientCert;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

/// The number of a certificate's names that are kept.
pub(crate) const MAX_NAMES: usize = 5;
/// The number of a chain's certificates that are read.
const MAX_CHAIN: usize = 10;

tokio::task_local! {
    static SHOWN: RefCell<Shown>;
}

/// What the receiver showed in a handshake.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Where the receiver's chain ends; `None`: the receiver sent no certificate that can be read.
    pub(crate) end: Option<ChainEnd>,
    /// The first DNS names of its certificate.
    pub(crate) names: Vec<String>,
    /// The receiver's certificate, in DER.
    pub(crate) own: Vec<u8>,
    /// Whether the receiver's certificate is trusted, but its signature in the handshake does not fit the certificate's key.
    pub(crate) signs_wrongly: bool,
    /// Whether the receiver asked for a client certificate.
    pub(crate) wants_certificate: bool,
}

impl Shown {
    /// Whether the receiver's own certificate contains this time. rustls does not say which certificate of the chain
    /// has expired.
    pub(crate) fn has_time(&self, time: Timestamp) -> bool {
        let ways = ["%y%m%d%H%M%SZ", "%Y%m%d%H%M%SZ"].map(|way| time.strftime(way).to_string());
        ways.iter().any(|way| self.own.windows(way.len()).any(|part| part == way.as_bytes()))
    }
}

/// The end of a chain of certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainEnd {
    /// The receiver's own certificate is its issuer.
    SelfSigned,
    /// The chain ends at a certificate that is its own issuer.
    Root,
    /// The chain ends at a certificate whose issuer the receiver did not send.
    NotSent,
}

/// Runs a handshake. Returns its result, and what the receiver showed.
pub(crate) async fn watch<T>(handshake: impl Future<Output = T>) -> (T, Shown) {
    let work = async move {
        let result = handshake.await;
        (result, SHOWN.with(RefCell::take))
    };
    SHOWN.scope(RefCell::default(), work).await
}

/// Changes the notes about the current handshake. Outside of [`watch`], for a client of another kind, it does nothing.
fn note(change: impl FnOnce(&mut Shown)) {
    let _ = SHOWN.try_with(|shown| change(&mut shown.borrow_mut()));
}

/// Follows the issuers through a chain.
fn end(chain: &[CertificateDer<'_>]) -> Option<ChainEnd> {
    let read: Vec<EndEntityCert<'_>> =
        chain.iter().take(MAX_CHAIN).filter_map(|der| EndEntityCert::try_from(der).ok()).collect();
    let mut current = read.first()?;
    for _ in &read {
        if current.issuer() == current.subject() {
            return Some(if std::ptr::eq(current, &raw const read[0]) {
                ChainEnd::SelfSigned
            } else {
                ChainEnd::Root
            });
        }
        match read.iter().find(|other| other.subject() == current.issuer()) {
            Some(issuer) => current = issuer,
            None => return Some(ChainEnd::NotSent),
        }
    }
    Some(ChainEnd::Root) // a circle of issuers
}

fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(read) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    read.valid_dns_names().take(MAX_NAMES).map(str::to_owned).collect()
}

/// rustls' verifier for the given roots. Without roots, every certificate has an unknown issuer.
#[derive(Debug)]
pub(crate) struct RootsVerifier {
    webpki: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl RootsVerifier {
    pub(crate) fn new(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Self {
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        Self { webpki: webpki.ok(), provider }
    }
}

impl ServerCertVerifier for RootsVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.webpki {
            Some(webpki) => {
                webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        if verified.is_err() {
            let chain: Vec<CertificateDer<'_>> =
                std::iter::once(end_entity).chain(intermediates).take(MAX_CHAIN).cloned().collect();
            note(|shown| {
                (shown.end, shown.names) = (end(&chain), names(end_entity));
                shown.own = end_entity.to_vec();
            });
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        noted(rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        noted(rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Notes a signature of the handshake that does not fit.
fn noted(verified: Result<HandshakeSignatureValid, Error>) -> Result<HandshakeSignatureValid, Error> {
    verified.inspect_err(|_| note(|shown| shown.signs_wrongly = true))
}

/// Offers no client certificate, and notes that the receiver asked for one.
#[derive(Debug)]
pub(crate) struct NoClientCertificate;

impl ResolvesClientCert for NoClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        note(|shown| shown.wants_certificate = true);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([format!("{name}.test")]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    #[test]
    fn chain_ends_where_its_last_issuer_is_itself_or_was_not_sent() {
        let key = || KeyPair::generate().expect("a key");
        let root = CertifiedIssuer::self_signed(params("root"), key()).expect("a root");
        let middle = CertifiedIssuer::signed_by(params("middle"), key(), &root).expect("an intermediate");
        let leaf = params("leaf").signed_by(&key(), &middle).expect("a leaf");
        let (leaf, middle, root) = (leaf.der(), middle.der(), root.der());
        let ends = |chain: &[&CertificateDer<'static>]| {
            end(&chain.iter().map(|der| (*der).clone()).collect::<Vec<_>>())
        };
        assert_eq!(ends(&[leaf]), Some(ChainEnd::NotSent));
        assert_eq!(ends(&[leaf, middle]), Some(ChainEnd::NotSent));
        assert_eq!(ends(&[leaf, root]), Some(ChainEnd::NotSent), "a root that did not issue it");
        assert_eq!(ends(&[leaf, root, middle]), Some(ChainEnd::Root), "in any order");
        assert_eq!(ends(&[root]), Some(ChainEnd::SelfSigned));
        assert_eq!(ends(&[]), None);
        assert_eq!(end(&[CertificateDer::from(vec![1, 2, 3])]), None);
        assert_eq!(names(leaf), ["leaf.test"]);
    }
}
