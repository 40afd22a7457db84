//! The check of one signature (Signature verification). Pure.

use std::fmt;

use docket_domain::diagnosis::{self, Mismatch, StandardHeaders};

/// The result of checking the signature of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The signature matches the body and one of the secrets.
    Verified,
    /// There is no signature, and the receiver expects no signature. Accepted.
    Unsigned,
    /// There is no signature, but a secret is known. Rejected.
    Missing,
    /// There is a signature, and it does not match. Rejected.
    Wrong(Mismatch),
    /// There is a signature, but no secret for its verification. Accepted, unverified.
    NoSecret,
}

impl Verdict {
    /// Checks the `signature` header of `body` with the candidate `secrets`. Without candidates, no signature is
    /// expected. The `headers` of Standard Webhooks only help to name a mistake.
    pub fn of(
        secrets: &[Vec<u8>],
        signature: Option<&str>,
        headers: &StandardHeaders<'_>,
        body: &[u8],
    ) -> Self {
        match signature {
            None if secrets.is_empty() => Self::Unsigned,
            None => Self::Missing,
            Some(_) if secrets.is_empty() => Self::NoSecret,
            Some(signature) => match diagnosis::service(secrets, signature, headers, body) {
                Ok(()) => Self::Verified,
                Err(mismatch) => Self::Wrong(mismatch),
            },
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
            Self::Wrong(mismatch) => write!(f, "signature wrong: {mismatch}"),
            Self::NoSecret => f.write_str("signed, but no secret is configured here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_domain::diagnosis::{BodyFault, SecretFault, Suspicion};
    use docket_domain::signature::sign;

    use super::*;

    const BODY: &[u8] = b"{\"id\":\"evt_1\"}";

    /// The verdict on a request without headers of Standard Webhooks.
    fn of(secrets: &[Vec<u8>], signature: Option<&str>) -> Verdict {
        Verdict::of(secrets, signature, &StandardHeaders::default(), BODY)
    }

    fn judge(secret: &[u8], signature: &str) -> Verdict {
        of(&[b"another".to_vec(), secret.to_vec()], Some(signature))
    }

    #[test]
    fn signature_of_any_secret_is_verified() {
        assert_eq!(judge(b"s", &sign(b"s", BODY)), Verdict::Verified);
        assert_eq!(judge(b"s", &sign(b"another", BODY)), Verdict::Verified);
    }

    #[test]
    fn missing_signature_or_secret_has_its_own_verdict() {
        assert_eq!(of(&[], None), Verdict::Unsigned);
        assert_eq!(of(&[b"s".to_vec()], None), Verdict::Missing);
        assert_eq!(of(&[], Some("00")), Verdict::NoSecret);
    }

    #[test]
    fn wrong_signature_names_its_likely_cause() {
        let newline = Mismatch::Known { spelling: None, secret: Some(SecretFault::Newline), body: None };
        assert_eq!(judge(b"s\n", &sign(b"s", BODY)), Verdict::Wrong(newline));
        let unknown = Mismatch::Unknown(Suspicion::OtherSecret);
        assert_eq!(judge(b"s", &sign(b"t", BODY)), Verdict::Wrong(unknown));
        assert!(judge(b"s", &sign(b"t", BODY)).rejects());
        let headers = StandardHeaders { id: Some("evt_1"), timestamp: Some("7"), signature: None };
        let signature = sign(b"s", &[b"evt_1.7.", BODY].concat());
        let with_headers =
            Mismatch::Known { spelling: None, secret: None, body: Some(BodyFault::WithHeaders) };
        let verdict = Verdict::of(&[b"s".to_vec()], Some(&signature), &headers, BODY);
        assert_eq!(verdict, Verdict::Wrong(with_headers));
    }

    #[test]
    fn only_a_missing_or_wrong_signature_is_rejected() {
        let wrong = Verdict::Wrong(Mismatch::Unknown(Suspicion::OtherSecret));
        let all = [Verdict::Verified, Verdict::Unsigned, Verdict::NoSecret, Verdict::Missing, wrong];
        assert_eq!(all.map(Verdict::rejects), [false, false, false, true, true]);
    }
}
