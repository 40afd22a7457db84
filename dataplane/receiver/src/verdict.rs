//! The check of one signature (Signature verification). Pure.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use docket_domain::signature::verify;

/// The result of checking the signature of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The signature matches the body and one of the secrets.
    Verified,
    /// There is no signature, and none is expected. Accepted.
    Unsigned,
    /// There is no signature, but a secret is known. Rejected.
    Missing,
    /// There is a signature, and it does not match. Rejected.
    Wrong(Advice),
    /// There is a signature, but no secret to verify it with. Accepted, unverified.
    NoSecret,
}

/// Why a signature is probably wrong: the change with which it would match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// One side's secret ends in a newline, as a file written by `echo` does.
    SecretNewline,
    /// One side's secret has spaces around it.
    SecretWhitespace,
    /// The right digest in upper-case hexadecimal.
    UpperCase,
    /// The right digest in base64.
    Base64,
    /// The body that was signed and the one that arrived differ in a final newline.
    BodyNewline,
    /// None of these. Most likely another secret, or a body that was serialized again.
    Unknown,
}

impl Verdict {
    /// Checks the `signature` header of `body` by the candidate `secrets`; no candidates: no signature is expected.
    pub fn of(secrets: &[Vec<u8>], signature: Option<&str>, body: &[u8]) -> Self {
        match signature {
            None if secrets.is_empty() => Self::Unsigned,
            None => Self::Missing,
            Some(_) if secrets.is_empty() => Self::NoSecret,
            Some(signature) if secrets.iter().any(|secret| verify(secret, body, signature)) => Self::Verified,
            Some(signature) => Self::Wrong(
                secrets.iter().find_map(|secret| cause(secret, signature, body)).unwrap_or(Advice::Unknown),
            ),
        }
    }

    /// Whether a receiver must reject the request (Signature verification, 5).
    pub fn rejects(self) -> bool {
        match self {
            Self::Missing | Self::Wrong(_) => true,
            Self::Verified | Self::Unsigned | Self::NoSecret => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified => f.write_str("signature verified"),
            Self::Unsigned => f.write_str("unsigned"),
            Self::Missing => f.write_str("signature missing"),
            Self::Wrong(hint) => write!(f, "signature wrong: {hint}"),
            Self::NoSecret => f.write_str("signed, but no secret is configured here"),
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecretNewline => "the secret ends in a newline on one side only",
            Self::SecretWhitespace => "the secret has spaces around it on one side only",
            Self::UpperCase => "it is in upper case, and must be lowercase hexadecimal",
            Self::Base64 => "it is base64, and must be lowercase hexadecimal",
            Self::BodyNewline => "the body lost or gained a final newline; use the raw bytes",
            Self::Unknown => "another secret, or not the raw body",
        })
    }
}

fn cause(secret: &[u8], signature: &str, body: &[u8]) -> Option<Advice> {
    let by_secret = |other: &[u8]| other != secret && verify(other, body, signature);
    let by_body = |other: &[u8]| other != body && verify(secret, other, signature);
    let joined = |parts: &[&[u8]]| parts.concat();

    if by_secret(without_newline(secret))
        || by_secret(&joined(&[secret, b"\n"]))
        || by_secret(&joined(&[secret, b"\r\n"]))
    {
        Some(Advice::SecretNewline)
    } else if by_secret(secret.trim_ascii())
        || by_secret(&joined(&[secret, b" "]))
        || by_secret(&joined(&[b" ", secret]))
    {
        Some(Advice::SecretWhitespace)
    } else if verify(secret, body, &signature.to_ascii_lowercase()) {
        Some(Advice::UpperCase)
    } else if hex_of_base64(signature).is_some_and(|signature| verify(secret, body, &signature)) {
        Some(Advice::Base64)
    } else if by_body(without_newline(body))
        || by_body(&joined(&[body, b"\n"]))
        || by_body(&joined(&[body, b"\r\n"]))
    {
        Some(Advice::BodyNewline)
    } else {
        None
    }
}

fn without_newline(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r\n").or_else(|| text.strip_suffix(b"\n")).unwrap_or(text)
}

fn hex_of_base64(signature: &str) -> Option<String> {
    Some(BASE64.decode(signature).ok()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use docket_domain::signature::sign;

    use super::*;

    const BODY: &[u8] = b"{\"id\":\"evt_1\"}";

    fn judge(secret: &[u8], signature: &str, body: &[u8]) -> Verdict {
        Verdict::of(&[b"another".to_vec(), secret.to_vec()], Some(signature), body)
    }

    #[test]
    fn signature_of_any_secret_is_verified() {
        assert_eq!(judge(b"s", &sign(b"s", BODY), BODY), Verdict::Verified);
        assert_eq!(judge(b"s", &sign(b"another", BODY), BODY), Verdict::Verified);
    }

    #[test]
    fn missing_signature_or_secret_has_its_own_verdict() {
        assert_eq!(Verdict::of(&[], None, BODY), Verdict::Unsigned);
        assert_eq!(Verdict::of(&[b"s".to_vec()], None, BODY), Verdict::Missing);
        assert_eq!(Verdict::of(&[], Some("00"), BODY), Verdict::NoSecret);
    }

    #[test]
    fn wrong_signature_names_its_likely_cause() {
        let base64 = {
            let hex = sign(b"s", BODY);
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            BASE64.encode((0..64).step_by(2).map(byte).collect::<Vec<_>>())
        };
        let with_newline = [BODY, b"\n"].concat();
        for (secret, signature, body, hint) in [
            (b"s\n".as_slice(), sign(b"s", BODY), BODY, Advice::SecretNewline),
            (b"s\r\n", sign(b"s", BODY), BODY, Advice::SecretNewline),
            (b"s", sign(b"s\n", BODY), BODY, Advice::SecretNewline),
            (b" s ", sign(b"s", BODY), BODY, Advice::SecretWhitespace),
            (b"s", sign(b"s ", BODY), BODY, Advice::SecretWhitespace),
            (b"s", sign(b"s", BODY).to_uppercase(), BODY, Advice::UpperCase),
            (b"s", base64, BODY, Advice::Base64),
            (b"s", sign(b"s", BODY), &with_newline, Advice::BodyNewline),
            (b"s", sign(b"s", &with_newline), BODY, Advice::BodyNewline),
            (b"s", sign(b"t", BODY), BODY, Advice::Unknown),
            (b"s", String::new(), BODY, Advice::Unknown),
        ] {
            assert_eq!(judge(secret, &signature, body), Verdict::Wrong(hint), "{secret:?} {signature}");
        }
    }
}
