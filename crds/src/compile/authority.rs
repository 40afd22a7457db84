//! Whether a certificate of a `caBundleRef` can vouch for a receiver: the kind of its key, and that it is no receiver's own.
//!
//! Reads the few fields of X.509 (RFC 5280, 4.1) that this needs. What it can't read passes: the data plane, which has a TLS
//! library, decides about it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Why none of these certificates can be used; `None`: one can, or may.
///
/// `pem` has certificate blocks only.
pub(super) fn unusable(pem: &str) -> Option<String> {
    let mut first = None;
    for (number, block) in (1..).zip(pem.split("-----BEGIN CERTIFICATE-----").skip(1)) {
        let body = block.split("-----").next().unwrap_or_default();
        let der = STANDARD.decode(body.split_ascii_whitespace().collect::<String>()).ok()?;
        let why = problem(&der)?;
        first.get_or_insert_with(|| format!("certificate {number} can't be used as an authority: {why}"));
    }
    first
}

/// What is wrong with a certificate, if it can be read.
fn problem(der: &[u8]) -> Option<String> {
    let mut fields = Der(Der(Der(der).take(SEQUENCE)?).take(SEQUENCE)?);
    fields.skip(VERSION);
    fields.take(INTEGER)?; // serial number
    fields.take(SEQUENCE)?; // algorithm of the signature
    let issuer = fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?; // validity
    let subject = fields.take(SEQUENCE)?;
    let key = fields.take(SEQUENCE)?;
    if let Some(kind) = bad_key(key) {
        return Some(format!(
            "its key is {kind}; use an authority with RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519"
        ));
    }
    while !fields.0.is_empty() && fields.0[0] != EXTENSIONS {
        fields.next()?;
    }
    let extensions =
        fields.take(EXTENSIONS).and_then(|content| Der(content).take(SEQUENCE)).unwrap_or_default();
    (issuer != subject && is_receiver(extensions) == Some(true))
        .then(|| "it is the certificate of a receiver (CA:FALSE); use that of its issuer".to_owned())
}

/// The kind of a key that can't be checked.
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

/// Whether the extensions say CA:FALSE; `None`: they say nothing about it.
fn is_receiver(extensions: &[u8]) -> Option<bool> {
    let mut extensions = Der(extensions);
    while let Some(extension) = extensions.take(SEQUENCE) {
        let mut extension = Der(extension);
        if extension.take(OBJECT_ID)? == BASIC_CONSTRAINTS {
            extension.skip(BOOLEAN); // whether it is critical
            let constraints = Der(extension.take(OCTET_STRING)?).take(SEQUENCE)?;
            return Some(Der(constraints).take(BOOLEAN).is_none_or(|is_authority| is_authority == [0]));
        }
    }
    None
}

/// DER that is still to be read.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        (*self.0.first()? == tag).then(|| self.next()).flatten()
    }

    /// Leaves out the next value if it has this tag.
    fn skip(&mut self, tag: u8) {
        let _ = self.take(tag);
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&[_, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            ..=0x7f => (usize::from(length), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by openssl; the last one is signed by the authority with P-256.
    const P521_PEM: &str = include_str!("authority/secp521r1.pem");
    const P256_PEM: &str = include_str!("authority/prime256v1.pem");
    const RSA_1024_PEM: &str = include_str!("authority/rsa1024.pem");
    const RECEIVER_PEM: &str = include_str!("authority/leaf.pem");

    #[test]
    fn certificate_that_can_not_vouch_is_named_with_its_reason() {
        for (pem, why) in [
            (P521_PEM, "its key is P-521; use an authority with RSA"),
            (RSA_1024_PEM, "its key is RSA of 1024 bits; use"),
            (RECEIVER_PEM, "it is the certificate of a receiver (CA:FALSE)"),
        ] {
            let text = unusable(pem).expect(why);
            assert!(
                text.starts_with("certificate 1 can't be used as an authority: ") && text.contains(why),
                "{text}"
            );
            assert_eq!(unusable(&format!("{pem}{P256_PEM}")), None, "one of them can be used");
        }
        assert_eq!(unusable(P256_PEM), None);
    }

    #[test]
    fn what_can_not_be_read_passes() {
        let whole =
            P521_PEM.split("-----").nth(2).expect("a body").split_ascii_whitespace().collect::<String>();
        let der = STANDARD.decode(whole).expect("base64");
        for end in 0..der.len() {
            let cut = format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                STANDARD.encode(&der[..end])
            );
            assert_eq!(unusable(&cut), None, "{end}");
        }
        for text in ["", "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"] {
            assert_eq!(unusable(text), None);
        }
    }
}
