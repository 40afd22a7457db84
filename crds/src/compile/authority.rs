//! Whether a certificate of a `caBundleRef` can be an authority: Docket can check its kind of key, and it is not the
//! certificate of a receiver.
//!
//! A certificate whose key or extension can't be read here passes: the data plane, which has a TLS library, decides about it.

use crate::certificate::{BIT_STRING, BOOLEAN, Certificate, Der, INTEGER, OBJECT_ID, OCTET_STRING, SEQUENCE};
use crate::pem;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// The largest number of certificates that a warning names.
const MOST_NAMED: usize = 4;

/// Says why no certificate of a bundle (in DER) can be used. Returns `None` if at least one can be used or can't be read here.
pub(super) fn refusal(certificates: &[Vec<u8>]) -> Option<String> {
    let unusable = unusable(certificates);
    let (number, why) = unusable.first().filter(|_| unusable.len() == certificates.len())?;
    Some(format!("certificate {number} can't be used as an authority: {why}"))
}

/// A sentence about the certificates of a bundle in PEM that can't be used, or that may be the certificates of receivers. It begins with
/// the field, and names at most five certificates. Returns `None` if there are none, or if no certificate can be used.
pub fn ca_bundle_warning(bundle: &[u8]) -> Option<String> {
    let certificates = pem::certificates(bundle).ok()?;
    let (unusable, count) = (unusable(&certificates), certificates.len());
    if unusable.len() == count {
        return None;
    }
    let texts: Vec<String> =
        of_unusable(&unusable, count).into_iter().chain(of_doubtful(&certificates)).collect();
    (!texts.is_empty()).then(|| format!("spec.caBundleRef: {}", texts.join("; ")))
}

fn of_unusable(unusable: &[(usize, String)], count: usize) -> Option<String> {
    let named = unusable.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|(number, why)| format!("certificate {number} of {count} can't be used as an authority: {why}"))
        .collect();
    if let Some(more) = unusable.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        named.push(format!("nor can {more} more"));
    }
    (!unusable.is_empty()).then(|| format!("{}; only the others are used", named.join("; ")))
}

/// About the certificates that do not say what they are: each is an old intermediate authority, or the certificate of a receiver.
fn of_doubtful(certificates: &[Vec<u8>]) -> Option<String> {
    let doubtful = (1..).zip(certificates).filter(|(_, der)| is_doubtful(der));
    let doubtful: Vec<usize> = doubtful.map(|(number, _)| number).collect();
    let count = certificates.len();
    let which = match doubtful[..] {
        [] => return None,
        [number] => format!("certificate {number} of {count} does not say that it is an authority (CA:TRUE)"),
        [first, ..] => format!(
            "{} of {count} certificates, first certificate {first}, do not say that they are authorities (CA:TRUE)",
            doubtful.len()
        ),
    };
    Some(format!("{which}; in place of the certificate of a receiver, use that of its issuer"))
}

fn is_doubtful(der: &[u8]) -> bool {
    Certificate::read(der).is_some_and(|Certificate { issuer, subject, key, extensions }| {
        bad_key(key).is_none() && issuer != subject && role(extensions) == Some(Role::Unsaid)
    })
}

/// The certificates that can't be used: each one's number, from 1, and the reason.
fn unusable(certificates: &[Vec<u8>]) -> Vec<(usize, String)> {
    (1..).zip(certificates).filter_map(|(number, der)| Some((number, problem(der)?))).collect()
}

/// The problem of a certificate, if the certificate can be read.
fn problem(der: &[u8]) -> Option<String> {
    let Certificate { issuer, subject, key, extensions } = Certificate::read(der)?;
    if let Some(kind) = bad_key(key) {
        return Some(format!(
            "its key is {kind}; use an authority with RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519"
        ));
    }
    (issuer != subject && role(extensions) == Some(Role::Receiver))
        .then(|| "it is the certificate of a receiver (CA:FALSE); use that of its issuer".to_owned())
}

/// The kind of the key, if TLS can't check signatures by it.
fn bad_key(key: &[u8]) -> Option<String> {
    let mut fields = Der(key);
    let mut algorithm = Der(fields.take(SEQUENCE)?);
    match algorithm.take(OBJECT_ID)? {
        RSA => {
            let content = fields.take(BIT_STRING)?.strip_prefix(&[0])?;
            let modulus = Der(Der(content).take(SEQUENCE)?).take(INTEGER)?;
            let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
            let bits = modulus.len() * 8 - usize::try_from(modulus.first()?.leading_zeros()).ok()?;
            (!(2048..=8192).contains(&bits)).then(|| format!("RSA of {bits} bits"))
        }
        ELLIPTIC => match algorithm.take(OBJECT_ID) {
            Some(P256 | P384) => None,
            Some(P521) => Some("P-521".to_owned()),
            _ => Some("of another elliptic curve".to_owned()),
        },
        ED25519 => None,
        _ => Some("neither RSA nor of an elliptic curve that Docket can check".to_owned()),
    }
}

/// What a certificate says it is for.
#[derive(PartialEq)]
enum Role {
    /// CA:TRUE.
    Authority,
    /// CA:FALSE.
    Receiver,
    /// The certificate has no such extension, like every certificate of version 1.
    Unsaid,
}

/// What the extensions say; `None`: they can't be read.
fn role(extensions: &[u8]) -> Option<Role> {
    let mut extensions = Der(extensions);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        if extension.take(OBJECT_ID)? == BASIC_CONSTRAINTS {
            let _critical = extension.take(BOOLEAN);
            let constraints = Der(extension.take(OCTET_STRING)?).take(SEQUENCE)?;
            let is_authority = Der(constraints).take(BOOLEAN).is_some_and(|value| value != [0]);
            return Some(if is_authority { Role::Authority } else { Role::Receiver });
        }
    }
    Some(Role::Unsaid)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by openssl; the last two are signed by an authority with P-256, the very last without extensions.
    const P521_PEM: &str = include_str!("authority/secp521r1.pem");
    const P256_PEM: &str = include_str!("authority/prime256v1.pem");
    const RSA_1024_PEM: &str = include_str!("authority/rsa1024.pem");
    const RECEIVER_PEM: &str = include_str!("authority/leaf.pem");
    const VERSION_1_PEM: &str = include_str!("authority/leaf_version_1.pem");

    fn refused(bundle: &str) -> Option<String> {
        refusal(&pem::certificates(bundle.as_bytes()).expect("certificates"))
    }

    #[test]
    fn certificate_that_can_not_vouch_is_named_with_its_reason() {
        for (pem, why) in [
            (P521_PEM, "its key is P-521; use an authority with RSA"),
            (RSA_1024_PEM, "its key is RSA of 1024 bits; use"),
            (RECEIVER_PEM, "it is the certificate of a receiver (CA:FALSE)"),
        ] {
            let text = refused(pem).expect(why);
            assert!(
                text.starts_with("certificate 1 can't be used as an authority: ") && text.contains(why),
                "{text}"
            );
            assert_eq!(ca_bundle_warning(pem.as_bytes()), None, "it is refused");
            let beside = format!("{P256_PEM}{pem}");
            assert_eq!(refused(&beside), None, "one of them can be used");
            let text = ca_bundle_warning(beside.as_bytes()).expect(why);
            let begin = format!("spec.caBundleRef: certificate 2 of 2 can't be used as an authority: {why}");
            assert!(text.starts_with(&begin) && text.ends_with("; only the others are used"), "{text}");
        }
        assert_eq!(refused(P256_PEM), None);
        assert_eq!(ca_bundle_warning(P256_PEM.as_bytes()), None);
        assert_eq!(ca_bundle_warning(b"no bundle"), None);
    }

    #[test]
    fn warning_names_four_certificates_and_counts_the_others() {
        let text =
            ca_bundle_warning(format!("{}{P256_PEM}", P521_PEM.repeat(6)).as_bytes()).expect("a warning");
        assert!(text.contains("certificate 4 of 7 ") && !text.contains("certificate 5 of 7"), "{text}");
        assert!(text.ends_with("; nor can 2 more; only the others are used"), "{text}");
    }

    /// `openssl x509 -req` makes such a certificate without a file of extensions.
    #[test]
    fn certificate_that_does_not_say_what_it_is_passes_with_a_warning() {
        assert_eq!(refused(VERSION_1_PEM), None);
        let warning = |bundle: String| ca_bundle_warning(bundle.as_bytes()).expect("a warning");
        assert_eq!(
            warning(VERSION_1_PEM.to_owned()),
            "spec.caBundleRef: certificate 1 of 1 does not say that it is an authority (CA:TRUE); in place of the certificate of a \
             receiver, use that of its issuer"
        );
        let many = warning(format!("{P256_PEM}{P521_PEM}{}", VERSION_1_PEM.repeat(6)));
        let key = "spec.caBundleRef: certificate 2 of 8 can't be used as an authority: its key is P-521; ";
        let rest = "only the others are used; 6 of 8 certificates, first certificate 3, do not say that they are authorities";
        assert!(many.starts_with(key) && many.contains(rest), "{many}");
    }

    /// The certificate with one byte changed: the last byte of the first `tag` after `oid`.
    fn spoiled(pem: &str, oid: &[u8], tag: &[u8]) -> Vec<u8> {
        let mut der = pem::certificates(pem.as_bytes()).expect("a certificate").remove(0);
        let from = der.windows(oid.len()).rposition(|bytes| bytes == oid).expect("it has this") + oid.len();
        let at = der[from..].windows(tag.len()).position(|bytes| bytes == tag).expect("it follows");
        der[from + at + tag.len() - 1] = 0x1f;
        der
    }

    #[test]
    fn key_and_extension_that_can_not_be_read_pass() {
        // The first has a broken sequence in the bit string of its key, the second a broken value of its extension.
        for der in [
            spoiled(RSA_1024_PEM, RSA, &[0, SEQUENCE]),
            spoiled(RECEIVER_PEM, BASIC_CONSTRAINTS, &[OCTET_STRING]),
        ] {
            assert!(Certificate::read(&der).is_some());
            assert!(!is_doubtful(&der));
            assert_eq!(refusal(&[der]), None);
        }
    }
}
