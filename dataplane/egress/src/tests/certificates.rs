//! Receivers with a mistake in their certificate or their TLS. Each mistake has its own cause.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use docket_domain::failure::{Cause, Explanation};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::harness::{AMPLE, CA, OK, Receiver, post, private_ca, server_config};
use crate::{EgressPolicy, FixedDns, Sender, Trust};

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

fn authority(name: &str) -> CertificateParams {
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn serving(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8");
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has suites").with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).expect("a key that fits"))
}

/// Makes one attempt at a receiver with this configuration.
async fn explained(config: Arc<ServerConfig>, trust: &Trust) -> (Option<FailureClass>, Explanation) {
    let receiver = Receiver::tls_as(config, |mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
    });
    let receiver = receiver.await;
    let outcome = post(&receiver.sender(AMPLE), &receiver.url(), trust, AMPLE).await;
    (outcome.failure(), outcome.report().explanation.clone())
}

/// The cause that an attempt reports about a certificate with these parameters, signed by the tests' authority.
async fn cause_of(params: CertificateParams) -> (Option<Cause>, Option<String>) {
    let key = key();
    let leaf = params.signed_by(&key, &*CA).expect("a certificate");
    let (class, Explanation { cause, detail }) =
        explained(serving(vec![leaf.der().clone()], &key), &private_ca()).await;
    assert_eq!(class, Some(FailureClass::TlsUntrusted));
    (cause, detail)
}

#[tokio::test]
async fn certificate_of_another_time_name_or_purpose_has_its_cause() {
    let mut expired = params(&["receiver.test"]);
    expired.not_after = date_time_ymd(2024, 2, 29);
    let at = Some("2024-02-29T00:00:00Z".to_owned());
    assert_eq!(cause_of(expired).await, (Some(Cause::CertificateExpired), at));

    let mut early = params(&["receiver.test"]);
    early.not_before = date_time_ymd(2999, 1, 1);
    let at = Some("2999-01-01T00:00:00Z".to_owned());
    assert_eq!(cause_of(early).await, (Some(Cause::CertificateNotYetValid), at));

    let names = Some("other.test, *.other.test".to_owned());
    let other = params(&["other.test", "*.other.test"]);
    assert_eq!(cause_of(other).await, (Some(Cause::CertificateForOtherName), names));

    let mut common = params(&[]);
    common.distinguished_name.push(DnType::CommonName, "receiver.test");
    assert_eq!(cause_of(common).await, (Some(Cause::CertificateWithoutNames), None));

    let mut address = params(&[]);
    address.subject_alt_names = vec![rcgen::SanType::IpAddress([192, 0, 2, 7].into())];
    let names = Some("192.0.2.7".to_owned());
    assert_eq!(cause_of(address).await, (Some(Cause::CertificateForOtherName), names));

    let mut client = params(&["receiver.test"]);
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    assert_eq!(cause_of(client).await, (Some(Cause::WrongPurpose), None));

    let mut many = params(&["a.test"; 1]);
    many.subject_alt_names = (0..100)
        .map(|n| rcgen::SanType::DnsName(format!("{}{n}.test", "a".repeat(50)).try_into().expect("a name")))
        .collect();
    let (cause, names) = cause_of(many).await;
    assert_eq!(
        (cause, names.expect("names").matches(", ").count()),
        (Some(Cause::CertificateForOtherName), 4)
    );
}

#[tokio::test]
async fn address_that_the_certificate_has_as_a_dns_name_only_has_its_cause() {
    let mut spelled = params(&["receiver.test"]);
    let name = rcgen::SanType::DnsName("127.0.0.1".try_into().expect("ASCII"));
    spelled.subject_alt_names.push(name);
    let key = key();
    let leaf = spelled.signed_by(&key, &*CA).expect("a certificate");
    let receiver = Receiver::tls_as(serving(vec![leaf.der().clone()], &key), async |_| {}).await;
    let url = format!("https://{}/", receiver.address).parse().expect("a url");
    let outcome = post(&receiver.sender(AMPLE), &url, &private_ca(), AMPLE).await;
    let spelled = Explanation::with(Some(Cause::AddressAsDnsName), "127.0.0.1");
    assert_eq!(outcome.failure(), Some(FailureClass::TlsUntrusted));
    assert_eq!(outcome.report().explanation, spelled);
}

#[tokio::test]
async fn certificate_that_breaks_a_rule_of_x509_has_its_cause() {
    let root = CertifiedIssuer::self_signed(authority("root"), key()).expect("a root");
    let leaf_key = key();
    let leaf = |issuer: &CertifiedIssuer<'static, KeyPair>| {
        params(&["receiver.test"]).signed_by(&leaf_key, issuer).expect("a leaf").der().clone()
    };
    let mut unknown = authority("unknown");
    let mut extension = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
    extension.set_criticality(true);
    unknown.custom_extensions = vec![extension];
    let unknown = CertifiedIssuer::signed_by(unknown, key(), &root).expect("an intermediate");
    let trust = Trust::with_bundle(root.pem()).expect("a bundle");
    let chain = vec![leaf(&unknown), unknown.der().clone()];
    let untrusted = |cause| (Some(FailureClass::TlsUntrusted), Explanation::of(cause));
    assert_eq!(explained(serving(chain, &leaf_key), &trust).await, untrusted(Cause::CriticalExtension));

    let mut limited = authority("limited");
    limited.name_constraints = Some(rcgen::NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("other.test".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let limited = CertifiedIssuer::self_signed(limited, key()).expect("an authority");
    let trust = Trust::with_bundle(limited.pem()).expect("a bundle");
    let chain = vec![leaf(&limited)];
    assert_eq!(explained(serving(chain, &leaf_key), &trust).await, untrusted(Cause::BrokenConstraint));
}

#[tokio::test]
async fn chain_that_does_not_lead_to_a_trusted_authority_has_its_cause() {
    let root = CertifiedIssuer::self_signed(authority("root"), key()).expect("a root");
    let middle = CertifiedIssuer::signed_by(authority("middle"), key(), &root).expect("an intermediate");
    let leaf_key = key();
    let leaf = params(&["receiver.test"]).signed_by(&leaf_key, &middle).expect("a leaf");
    let of = |chain: &[&CertificateDer<'static>]| {
        serving(chain.iter().map(|der| (*der).clone()).collect(), &leaf_key)
    };
    let trusted = Trust::with_bundle(root.pem()).expect("a bundle");

    let mut old = authority("middle");
    old.not_after = date_time_ymd(2024, 2, 29);
    let old = CertifiedIssuer::signed_by(old, key(), &root).expect("an intermediate");
    let old_leaf = params(&["receiver.test"]).signed_by(&leaf_key, &old).expect("a leaf");
    let expired = explained(of(&[old_leaf.der(), old.der()]), &trusted).await;
    let at = Explanation::with(Some(Cause::IntermediateExpired), "2024-02-29T00:00:00Z");
    assert_eq!(expired, (Some(FailureClass::TlsUntrusted), at));

    let whole = explained(of(&[leaf.der(), middle.der()]), &trusted).await;
    assert_eq!(whole, (None, Explanation::default()));
    for (chain, trust, cause) in [
        (&[leaf.der()][..], &trusted, Cause::IssuerNotSent),
        (&[leaf.der(), middle.der()], &private_ca(), Cause::IssuerNotSent),
        (&[leaf.der(), middle.der(), root.der()], &private_ca(), Cause::UnknownAuthority),
        (&[leaf.der(), middle.der(), root.der()], &Trust::none(), Cause::UnknownAuthority),
        (&[leaf.der()], &Trust::public(), Cause::IssuerNotSent),
    ] {
        let untrusted = (Some(FailureClass::TlsUntrusted), Explanation::of(cause));
        assert_eq!(explained(of(chain), trust).await, untrusted, "{}", chain.len());
    }
}

#[tokio::test]
async fn certificate_that_signs_itself_is_trusted_if_it_is_no_authority() {
    let own = key();
    // The tests' authority has this name too, but another key.
    let alike = params(&["receiver.test"]).self_signed(&own).expect("a certificate");
    let (class, explanation) = explained(serving(vec![alike.der().clone()], &own), &private_ca()).await;
    assert_eq!(
        (class, explanation.cause),
        (Some(FailureClass::TlsUntrusted), Some(Cause::SignatureMismatch))
    );

    let mut named = params(&["receiver.test"]);
    named.distinguished_name.push(DnType::CommonName, "own");
    let leaf = named.self_signed(&own).expect("a certificate");
    let config = serving(vec![leaf.der().clone()], &own);
    let (class, explanation) = explained(config.clone(), &private_ca()).await;
    assert_eq!((class, explanation.cause), (Some(FailureClass::TlsUntrusted), Some(Cause::SelfSigned)));
    let pinned = Trust::with_bundle(leaf.pem()).expect("a bundle");
    assert_eq!(explained(config, &pinned).await.0, None);

    // A certificate as `openssl req -x509` makes it: an authority and a receiver in one.
    let mut both = params(&["receiver.test"]);
    both.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let both = both.self_signed(&own).expect("a certificate");
    let pinned = Trust::with_bundle(both.pem()).expect("a bundle");
    let (class, explanation) = explained(serving(vec![both.der().clone()], &own), &pinned).await;
    let authority = (Some(FailureClass::TlsUntrusted), Some(Cause::AuthorityAsReceiver));
    assert_eq!((class, explanation.cause), authority);
}

#[tokio::test]
async fn receiver_that_wants_a_client_certificate_says_so_in_both_versions() {
    let config = server_config(&["receiver.test"], true);
    let wanted = (Some(FailureClass::TlsOther), Explanation::of(Cause::ClientCertificate));
    assert_eq!(explained(config, &private_ca()).await, wanted);
}

/// The folder of a test, which is removed at the test's end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("docket-egress-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn openssl(&self, arguments: &str) {
        let run = Command::new("openssl").args(arguments.split(' ')).current_dir(&self.0).output();
        let run = run.expect("openssl is installed");
        assert!(run.status.success(), "{arguments}: {}", String::from_utf8_lossy(&run.stderr));
    }

    fn trust(&self, file: &str) -> Trust {
        let pem = std::fs::read_to_string(self.0.join(file)).expect("a file");
        Trust::with_bundle(&pem).expect("a bundle")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `openssl s_server`.
struct Server(Child, SocketAddr);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    async fn start(folder: &Path, arguments: &str) -> Self {
        let free =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("an address");
        let server = Command::new("openssl")
            .args(["s_server", "-quiet", "-www", "-accept", &free.port().to_string()])
            .args(arguments.split(' '))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let server = Self(server, free);
        let listens = async {
            while std::net::TcpStream::connect(free).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(AMPLE, listens).await.expect("it listens");
        server
    }

    async fn attempt(&self, trust: &Trust) -> (Option<FailureClass>, Option<Cause>) {
        let dns = FixedDns::new().answer("receiver.test", [self.1.ip()]);
        let sender = Sender::new(EgressPolicy::new(vec![], vec![self.1]), dns, AMPLE);
        let url = format!("https://receiver.test:{}/", self.1.port()).parse().expect("a url");
        let outcome = post(&sender, &url, trust, AMPLE).await;
        (outcome.failure(), outcome.report().explanation.cause)
    }
}

const SAN: &str = "-addext subjectAltName=DNS:receiver.test -subj /CN=receiver.test -days 2 -nodes";

#[tokio::test]
async fn keys_and_signatures_that_can_not_be_checked_have_their_cause() {
    let folder = Folder::new("algorithms");
    // The authority has a P-521 key. It issues a P-256 certificate, and P-256 signs with SHA-512.
    for (name, curve) in [("a521", "secp521r1"), ("a256", "prime256v1")] {
        folder.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:{curve} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2 -nodes"
        ));
    }
    std::fs::write(folder.0.join("san"), "subjectAltName=DNS:receiver.test\n").expect("a file");
    folder.openssl("req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout leaf.key -out leaf.csr -subj /CN=x -nodes");
    for (name, digest) in [("a521", "sha512"), ("a256", "sha512")] {
        folder.openssl(&format!(
            "x509 -req -in leaf.csr -CA {name}.pem -CAkey {name}.key -CAcreateserial -{digest} -days 2 -extfile san -out {name}-leaf.pem"
        ));
        let server = Server::start(&folder.0, &format!("-cert {name}-leaf.pem -key leaf.key")).await;
        let end = server.attempt(&folder.trust(&format!("{name}.pem"))).await;
        assert_eq!(end, (Some(FailureClass::TlsUntrusted), Some(Cause::UnsupportedAlgorithm)), "{name}");
    }
    // The receiver has an RSA key of 1024 bits under a good authority: its chain is trusted, but the handshake's
    // signature is not.
    folder.openssl("req -x509 -newkey rsa:2048 -keyout rsa.key -out rsa.pem -subj /CN=rsa -days 2 -nodes");
    folder.openssl("req -new -newkey rsa:1024 -keyout weak.key -out weak.csr -subj /CN=x -nodes");
    let issue = "-CA rsa.pem -CAkey rsa.key -CAcreateserial -days 2";
    folder.openssl(&format!("x509 -req -in weak.csr {issue} -extfile san -out weak.pem"));
    let server = Server::start(&folder.0, "-cert weak.pem -key weak.key -cipher DEFAULT@SECLEVEL=0").await;
    let end = server.attempt(&folder.trust("rsa.pem")).await;
    assert_eq!(end, (Some(FailureClass::TlsUntrusted), Some(Cause::UnsupportedAlgorithm)), "1024 bits");
    // Without a file of extensions openssl makes a certificate of version 1.
    folder.openssl(&format!("x509 -req -in leaf.csr {issue} -out v1.pem"));
    let server = Server::start(&folder.0, "-cert v1.pem -key leaf.key").await;
    let end = server.attempt(&folder.trust("rsa.pem")).await;
    assert_eq!(end, (Some(FailureClass::TlsUntrusted), Some(Cause::CertificateWithoutNames)), "version 1");
    // The receiver's own key is P-521, which the handshake can't use.
    folder.openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp521r1 -keyout own.key -out own.pem -addext basicConstraints=critical,CA:FALSE {SAN}"
    ));
    let server = Server::start(&folder.0, "-cert own.pem -key own.key").await;
    let end = server.attempt(&folder.trust("own.pem")).await;
    assert_eq!(end, (Some(FailureClass::TlsOther), Some(Cause::NoCommonAlgorithm)));
}

#[tokio::test]
async fn versions_and_ciphers_of_before_and_client_certificates_have_their_cause() {
    let folder = Folder::new("versions");
    folder.openssl(&format!(
        "req -x509 -newkey rsa:2048 -keyout own.key -out own.pem -addext basicConstraints=critical,CA:FALSE {SAN}"
    ));
    let trust = folder.trust("own.pem");
    for (arguments, class, cause) in [
        ("-tls1_1 -cipher DEFAULT@SECLEVEL=0", Some(FailureClass::TlsOther), Some(Cause::OldTlsVersion)),
        ("-tls1_2 -cipher AES128-SHA", Some(FailureClass::TlsOther), Some(Cause::NoCommonAlgorithm)),
        ("-tls1_2 -Verify 1", Some(FailureClass::TlsOther), Some(Cause::ClientCertificate)),
        ("-tls1_3 -Verify 1", Some(FailureClass::TlsOther), Some(Cause::ClientCertificate)),
        ("-alpn h2", Some(FailureClass::TlsOther), Some(Cause::Http2Only)),
        (
            "-servername other.test -servername_fatal -cert2 own.pem -key2 own.key",
            Some(FailureClass::TlsOther),
            Some(Cause::UnknownHost),
        ),
    ] {
        let server = Server::start(&folder.0, &format!("-cert own.pem -key own.key {arguments}")).await;
        assert_eq!(server.attempt(&trust).await, (class, cause), "{arguments}");
    }
}
