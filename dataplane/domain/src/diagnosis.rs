//! Why a signature does not match: the change with which it would.
//!
//! [`service`] judges the contract's `X-Service-Signature`, [`standard`] the three headers of Standard Webhooks. Both
//! say `Ok` only for what a receiver may accept. A mismatch tells what differs, and never a digest or a part of one, so
//! that it does not teach how to sign. The work is bounded: at most 300 HMACs of the body for each secret, each compared with
//! at most [`MAX_SIGNATURES`].

mod variants;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use hmac::Mac;
use jiff::Timestamp;

use crate::event;
use crate::signature::{
    WEBHOOK_ID_HEADER, WEBHOOK_SIGNATURE_HEADER, WEBHOOK_TIMESTAMP_HEADER, hmac_sha256, verify,
};

/// How far `webhook-timestamp` may be from the receiver's time, in seconds: what the Standard Webhooks libraries accept.
pub const TOLERANCE_SECONDS: i64 = 5 * 60;
/// The most signatures of version 1 that are judged: senders have one for each secret in use.
pub const MAX_SIGNATURES: usize = 8;
/// The characters of a SHA-256 digest in hexadecimal.
const HEX_DIGITS: usize = 64;

type Digest = [u8; HEX_DIGITS / 2];

/// Why a signature does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// It would match with these changes; one of them is `Some`.
    Known {
        /// What is wrong with the text of the header.
        spelling: Option<Spelling>,
        /// What is wrong with the secret.
        secret: Option<SecretFault>,
        /// What is wrong with the body.
        body: Option<BodyFault>,
    },
    /// The text is no signature, so that there is nothing to compare.
    Unreadable(Unreadable),
    /// No change that is known here makes it match.
    Unknown(Suspicion),
}

/// The right digest, written otherwise than the contract says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Hexadecimal in upper case.
    UpperCase,
    /// Base64.
    Base64,
    /// A word such as `sha256=` in front of it.
    Prefixed,
    /// Blanks or quotation marks around it.
    Surrounded,
}

/// A text that holds no digest of SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Nothing.
    Empty,
    /// This number of hexadecimal digits.
    Length(usize),
    /// The value of `webhook-signature`.
    OfStandardWebhooks,
    /// Something else.
    NotHexadecimal,
}

/// The secret that was given and the one that signed differ so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretFault {
    /// A newline at the end of one of them, as `echo` and editors leave it in a file.
    Newline,
    /// Blanks around one of them.
    Whitespace,
    /// Quotation marks around the one that was given, as from an environment file.
    Quoted,
    /// A byte order mark before the one that was given.
    ByteOrderMark,
    /// The given one is the `whsec_` text, and the signing one is what that text encodes.
    WhsecText,
    /// The signing one is the `whsec_` text or the base64 of the given one.
    WhsecAsKey,
    /// The signing one is what the given one encodes in base64 or hexadecimal.
    Decoded,
}

/// The body that was given and the one that was signed differ so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFault {
    /// A newline at the end of one of them.
    Newline,
    /// A byte order mark before one of them.
    ByteOrderMark,
    /// CRLF in one of them, LF in the other.
    LineEnds,
    /// JSON that was parsed and written again.
    Rewritten,
    /// Read or written in another character encoding than UTF-8.
    Encoding,
    /// The signature is that of an empty body.
    Empty,
}

/// What looks wrong about a body whose signature matches with no known change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// The body is empty.
    EmptyBody,
    /// The body is the beginning of a JSON text.
    CutOffBody,
    /// The body is an envelope, but not as Docket writes it.
    RewrittenBody,
    /// Nothing: most likely another secret.
    OtherSecret,
}

/// The three headers of Standard Webhooks, as far as they arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardHeaders<'a> {
    /// `webhook-id`.
    pub id: Option<&'a str>,
    /// `webhook-timestamp`.
    pub timestamp: Option<&'a str>,
    /// `webhook-signature`.
    pub signature: Option<&'a str>,
}

/// Why the headers of Standard Webhooks do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardFault {
    /// The header of this name is missing.
    Missing(&'static str),
    /// `webhook-timestamp` is no number of seconds.
    Timestamp,
    /// `webhook-signature` has no signature of version 1.
    NoVersion1,
    /// `webhook-signature` has more than [`MAX_SIGNATURES`] of version 1.
    TooMany,
    /// A signature of version 1 is no base64 of 32 bytes, and no other one matches.
    CutOff,
    /// No signature matches.
    Mismatch(Mismatch),
    /// A signature matches, and the attempt was made this many seconds ago, more than [`TOLERANCE_SECONDS`].
    Old(i64),
    /// A signature matches, and the attempt is this many seconds in the future, more than [`TOLERANCE_SECONDS`].
    Early(i64),
}

/// Judges `X-Service-Signature` by the candidate `secrets`.
///
/// # Errors
///
/// The signature is not that of `body` by any of the secrets.
pub fn service(secrets: &[Vec<u8>], signature: &str, body: &[u8]) -> Result<(), Mismatch> {
    if secrets.iter().any(|secret| verify(secret, body, signature)) {
        return Ok(());
    }
    let (digest, spelling) = read(signature).map_err(Mismatch::Unreadable)?;
    Err(explain(secrets, &[digest], spelling, b"", body))
}

/// Judges the headers of Standard Webhooks by the candidate `secrets`, at the time `now`.
///
/// # Errors
///
/// A library of Standard Webhooks refuses the request.
pub fn standard(
    secrets: &[Vec<u8>],
    headers: &StandardHeaders<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), StandardFault> {
    let id = headers.id.ok_or(StandardFault::Missing(WEBHOOK_ID_HEADER))?;
    let timestamp = headers.timestamp.ok_or(StandardFault::Missing(WEBHOOK_TIMESTAMP_HEADER))?;
    let signature = headers.signature.ok_or(StandardFault::Missing(WEBHOOK_SIGNATURE_HEADER))?;
    let seconds: i64 = timestamp.parse().map_err(|_| StandardFault::Timestamp)?;

    let signatures: Vec<&str> = signature.split(' ').filter_map(|one| one.strip_prefix("v1,")).collect();
    if signatures.is_empty() {
        return Err(StandardFault::NoVersion1);
    }
    if signatures.len() > MAX_SIGNATURES {
        return Err(StandardFault::TooMany);
    }
    let decoded = signatures.iter().filter_map(|one| BASE64.decode(one).ok()?.try_into().ok());
    let digests: Vec<Digest> = decoded.collect();
    if digests.is_empty() {
        return Err(StandardFault::CutOff);
    }
    let head = format!("{id}.{timestamp}.");
    let signed = secrets.iter().any(|secret| matches(secret, &digests, head.as_bytes(), body));
    if !signed && digests.len() < signatures.len() {
        return Err(StandardFault::CutOff);
    }
    if !signed {
        return Err(StandardFault::Mismatch(explain(secrets, &digests, None, head.as_bytes(), body)));
    }
    match now.as_second().saturating_sub(seconds) {
        age if age > TOLERANCE_SECONDS => Err(StandardFault::Old(age)),
        age if age < -TOLERANCE_SECONDS => Err(StandardFault::Early(age.saturating_neg())),
        _ => Ok(()),
    }
}

fn matches(key: &[u8], digests: &[Digest], head: &[u8], body: &[u8]) -> bool {
    let mac = hmac_sha256(key, &[head, body]);
    digests.iter().any(|digest| mac.clone().verify_slice(digest).is_ok())
}

/// The digest in the text of `X-Service-Signature`, and how its spelling is wrong.
fn read(signature: &str) -> Result<(Digest, Option<Spelling>), Unreadable> {
    let bare = signature.trim().trim_matches(['"', '\'']);
    let surrounded = (bare.len() < signature.len()).then_some(Spelling::Surrounded);
    if bare.is_empty() {
        return Err(Unreadable::Empty);
    }
    if bare.starts_with("v1,") {
        return Err(Unreadable::OfStandardWebhooks);
    }
    let hexadecimal = |text: &str| -> Option<Digest> { hex::decode(text).ok()?.try_into().ok() };
    if let Some(digest) = hexadecimal(bare) {
        let upper_case = bare.bytes().any(|byte| byte.is_ascii_uppercase()).then_some(Spelling::UpperCase);
        return Ok((digest, surrounded.or(upper_case)));
    }
    if bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Unreadable::Length(bare.len()));
    }
    if let Some(digest) = bare.split_once(['=', ':']).and_then(|(_, rest)| hexadecimal(rest.trim())) {
        return Ok((digest, Some(Spelling::Prefixed)));
    }
    let base64 = BASE64.decode(bare).or_else(|_| BASE64_URL.decode(bare.trim_end_matches('='))).ok();
    let digest = base64.and_then(|bytes| bytes.try_into().ok()).ok_or(Unreadable::NotHexadecimal)?;
    Ok((digest, Some(Spelling::Base64)))
}

/// The smallest change with which one of the `digests` is that of `head` and `body`.
fn explain(
    secrets: &[Vec<u8>],
    digests: &[Digest],
    spelling: Option<Spelling>,
    head: &[u8],
    body: &[u8],
) -> Mismatch {
    let bodies = variants::of_body(body);
    for secret in secrets {
        let keys = variants::of_secret(secret);
        let pairs = keys.iter().flat_map(|key| bodies.iter().map(move |body| (key, body)));
        let fitting = pairs.filter(|((_, key), (_, body))| matches(key, digests, head, body));
        let changes = |((secret, _), (body, _)): &(&variants::Secret<'_>, &variants::Body<'_>)| {
            usize::from(secret.is_some()) + usize::from(body.is_some())
        };
        if let Some(((secret, _), (body, _))) = fitting.min_by_key(changes) {
            return Mismatch::Known { spelling, secret: *secret, body: *body };
        }
    }
    Mismatch::Unknown(suspicion(body))
}

fn suspicion(body: &[u8]) -> Suspicion {
    if body.is_empty() {
        Suspicion::EmptyBody
    } else if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err_and(|error| error.is_eof()) {
        Suspicion::CutOffBody
    } else if event::as_sent(body).is_some_and(|sent| sent != body) {
        Suspicion::RewrittenBody
    } else {
        Suspicion::OtherSecret
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known { spelling, secret, body } => {
                let parts = [
                    spelling.map(|fault| fault.to_string()),
                    secret.map(|fault| fault.to_string()),
                    body.map(|fault| fault.to_string()),
                ];
                f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; and "))
            }
            Self::Unreadable(fault) => fault.fmt(f),
            Self::Unknown(suspicion) => suspicion.fmt(f),
        }
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UpperCase => "it is in upper case, and must be lowercase hexadecimal",
            Self::Base64 => "it is base64, and must be lowercase hexadecimal",
            Self::Prefixed => "there is a word in front of it, and must be nothing but 64 hexadecimal digits",
            Self::Surrounded => "there are blanks or quotation marks around it, and must be none",
        })
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty; it must be 64 hexadecimal digits"),
            Self::Length(digits @ ..HEX_DIGITS) => {
                write!(
                    f,
                    "it has {digits} hexadecimal digits of {HEX_DIGITS}: cut off, or made by another hash than SHA-256"
                )
            }
            Self::Length(digits) => {
                write!(
                    f,
                    "it has {digits} hexadecimal digits and must have {HEX_DIGITS}: made by another hash than SHA-256"
                )
            }
            Self::OfStandardWebhooks => f.write_str(
                "it is the value of webhook-signature; X-Service-Signature is 64 hexadecimal digits",
            ),
            Self::NotHexadecimal => f.write_str("it is not 64 hexadecimal digits"),
        }
    }
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newline => "the secret ends in a newline on one side only",
            Self::Whitespace => "the secret has spaces around it on one side only",
            Self::Quoted => "the secret has quotation marks around it that do not belong to it",
            Self::ByteOrderMark => "the secret begins with a byte order mark that does not belong to it",
            Self::WhsecText => {
                "the secret given is the whsec_ text for Standard Webhooks libraries; the key is what it encodes in base64"
            }
            Self::WhsecAsKey => {
                "the whsec_ text or the base64 of the secret was used as the key; the key is the secret's own bytes"
            }
            Self::Decoded => {
                "the secret was decoded from hexadecimal or base64 on one side only; the key is its text as it is"
            }
        })
    }
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newline => "the body lost or gained a final newline; use the raw bytes",
            Self::ByteOrderMark => "the body lost or gained a byte order mark; use the raw bytes",
            Self::LineEnds => "the body's line ends were changed between LF and CRLF; use the raw bytes",
            Self::Rewritten => {
                "the body's JSON was parsed and written again; use the raw bytes, before any JSON parser"
            }
            Self::Encoding => {
                "the body was read or written in another encoding than UTF-8; use the raw bytes"
            }
            Self::Empty => {
                "an empty body was signed; the body was read before, so keep its bytes at the first read"
            }
        })
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyBody => "the body is empty; another part of the program may have read it already",
            Self::CutOffBody => "the body is cut off: its JSON does not end",
            Self::RewrittenBody => {
                "another secret; and the body's JSON was parsed and written again, so use the raw bytes"
            }
            Self::OtherSecret => "another secret, or not the raw body",
        })
    }
}

impl fmt::Display for StandardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the header {name} is missing"),
            Self::Timestamp => f.write_str("webhook-timestamp is not a whole number of seconds since 1970"),
            Self::NoVersion1 => f.write_str("webhook-signature has no part that begins with `v1,`"),
            Self::TooMany => {
                write!(f, "webhook-signature has more than {MAX_SIGNATURES} signatures of version 1")
            }
            Self::CutOff => {
                f.write_str("webhook-signature is cut off: after `v1,` follows the base64 of 32 bytes")
            }
            Self::Mismatch(mismatch) => mismatch.fmt(f),
            Self::Old(age) => write!(
                f,
                "the signature matches, but webhook-timestamp is {age} s old: receivers refuse more than {TOLERANCE_SECONDS} s"
            ),
            Self::Early(ahead) => write!(
                f,
                "the signature matches, but webhook-timestamp is {ahead} s in the future: one of the clocks is wrong"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
