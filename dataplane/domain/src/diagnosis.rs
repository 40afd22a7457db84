//! Explains why a signature does not match: with which change of secret, body or spelling it would match.
//!
//! [`service`] judges the contract's `X-Service-Signature`, [`standard`] the three headers of Standard Webhooks. Both
//! return `Ok` only for a request that a receiver may accept. A mismatch says what differs. It never contains a
//! digest or a part of a digest, so that it does not teach how to sign. The work is bounded: at most 200 HMACs for
//! each secret, and 1,400 if body and signed headers have at most `MAX_COMBINED` bytes together. One HMAC reads the
//! headers and at most about six times the bytes of the body. It is compared with at most [`MAX_SIGNATURES`]
//! signatures.

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

/// How far `webhook-timestamp` may be from the receiver's time, in seconds. The Standard Webhooks libraries allow the same.
pub const TOLERANCE_SECONDS: i64 = 5 * 60;
/// The largest number of signatures of version 1 that are judged. Senders send one for each secret in use.
pub const MAX_SIGNATURES: usize = 8;
/// The largest size of signed headers and body together, in bytes, for which [`explain`] searches for two mistakes together.
const MAX_COMBINED: usize = 16 * 1024;
/// The characters of a SHA-256 digest in hexadecimal.
const HEX_DIGITS: usize = 64;

type Digest = [u8; HEX_DIGITS / 2];

/// Why a signature does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The signature would match with these changes; at least one of them is `Some`.
    Known {
        /// The mistake in the text of the header; `None`: there is no mistake.
        spelling: Option<Spelling>,
        /// The mistake in the secret.
        secret: Option<SecretFault>,
        /// The mistake in the body.
        body: Option<BodyFault>,
    },
    /// The text is not a signature, so there is nothing to compare.
    Unreadable(Unreadable),
    /// The signature matches with no change that this module tries.
    Unknown(Suspicion),
}

/// How the text of the right digest differs from the contract's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Spelling {
    /// Hexadecimal in upper case.
    #[error("it is in upper case, and must be lowercase hexadecimal")]
    UpperCase,
    /// Base64.
    #[error("it is base64, and must be lowercase hexadecimal")]
    Base64,
    /// A word such as `sha256=` before the digest.
    #[error("there is a word in front of it; the value must be nothing but 64 hexadecimal digits")]
    Prefixed,
    /// Blanks or quotation marks around the digest.
    #[error("there are blanks or quotation marks around it, and must be none")]
    Surrounded,
    /// Dashes, colons or blanks between the digest's bytes.
    #[error("there are dashes, colons or blanks between its digits, and must be none; lowercase hexadecimal")]
    Separated,
    /// The hexadecimal text was encoded once more, in base64 or hexadecimal.
    #[error("its hexadecimal text was encoded once more in base64 or hexadecimal; send the text itself")]
    EncodedTwice,
}

/// Why a text contains no digest of SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The text is empty.
    Empty,
    /// The text has this number of hexadecimal digits.
    Length(usize),
    /// The text is a value of `webhook-signature`.
    OfStandardWebhooks,
    /// The text is something else.
    NotHexadecimal,
}

/// How the secret that the receiver gave (*given*) differs from the key that made the signature (*key*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    /// Only one of the two secrets ends in a newline, as `echo` and editors leave it in a file.
    #[error("the secret ends in a newline on one side only")]
    Newline,
    /// Only one of the two secrets has blanks around it.
    #[error("the secret has spaces around it on one side only")]
    Whitespace,
    /// Only one of the two secrets has quotation marks around it, as in an environment file.
    #[error("the secret has quotation marks around it that do not belong to it")]
    Quoted,
    /// Only one of the two secrets begins with a byte order mark.
    #[error("the secret begins with a byte order mark that does not belong to it")]
    ByteOrderMark,
    /// The given secret is a `whsec_` text, and the key is the bytes that this text encodes.
    #[error(
        "the secret given is the whsec_ text for Standard Webhooks libraries; the key is what it encodes in base64"
    )]
    WhsecText,
    /// The key is the `whsec_` text or the base64 of the given secret.
    #[error(
        "the whsec_ text or the base64 of the secret was used as the key; the key is the secret's own bytes"
    )]
    WhsecAsKey,
    /// Only one of the two secrets begins with `whsec_`, and neither is decoded.
    #[error("the secret begins with whsec_ on one side only")]
    WhsecPrefix,
    /// The key is the hexadecimal text of the given secret.
    #[error("the hexadecimal text of the secret was used as the key; the key is the secret's own bytes")]
    HexAsKey,
    /// The key is the SHA-256 of the given secret, or its hexadecimal text.
    #[error("the SHA-256 of the secret was used as the key; the key is the secret's own bytes")]
    Hashed,
    /// The key is the bytes that the given secret encodes in base64 or hexadecimal.
    #[error(
        "the secret was decoded from hexadecimal or base64 on one side only; the key is its text as it is"
    )]
    Decoded,
    /// One of the two secrets is the text of the other in UTF-16, as PowerShell and Notepad save a file.
    #[error(
        "the secret is in UTF-16 on one side only, as PowerShell and Notepad save a file; save it as UTF-8 without a byte order mark"
    )]
    Utf16,
    /// The given secret is an assignment `NAME=value`, and the key is the value.
    #[error("the secret given has the name of a variable and `=` in front of it, which do not belong to it")]
    Assigned,
    /// The key is empty or a word such as `undefined`.
    #[error("the key was empty or a word such as undefined or null: the program did not find its secret")]
    NotSet,
    /// The secret and the body were swapped: the body is the key.
    #[error("key and body were interchanged: the secret is the key, the body is the message")]
    Swapped,
    /// The digest is the SHA-256 of secret and body in a row, not an HMAC.
    #[error(
        "it is the SHA-256 of secret and body in a row; it must be the HMAC-SHA256 of the body with the secret as key"
    )]
    Concatenated,
    /// The digest is the SHA-256 of the body, without a key.
    #[error(
        "it is the SHA-256 of the body without the secret; it must be the HMAC-SHA256 with the secret as key"
    )]
    Unkeyed,
    /// The digest is the HMAC of an HMAC.
    #[error("it is the HMAC of an HMAC; compute it once")]
    Twice,
}

/// How the body that the receiver gave differs from the body that was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// Only one of the two bodies ends in a newline.
    #[error("the body lost or gained a final newline; use the raw bytes")]
    Newline,
    /// Only one of the two bodies begins with a byte order mark.
    #[error("the body lost or gained a byte order mark; use the raw bytes")]
    ByteOrderMark,
    /// One of the two bodies has CRLF, the other LF.
    #[error("the body's line ends were changed between LF and CRLF; use the raw bytes")]
    LineEnds,
    /// A program parsed the JSON and wrote it again.
    #[error("the body's JSON was parsed and written again; use the raw bytes, before any JSON parser")]
    Rewritten,
    /// A program read or wrote the body in another encoding than UTF-8.
    #[error("the body was read or written in another encoding than UTF-8; use the raw bytes")]
    Encoding,
    /// An empty body was signed.
    #[error("an empty body was signed; the body was read before, so keep its bytes at the first read")]
    Empty,
    /// One of the bodies is the base64 of the other, as API gateways forward a body.
    #[error("the body is in base64 on one side only, as API gateways pass it on; decode it before the check")]
    Base64,
    /// `webhook-id`, `webhook-timestamp` or both were signed before the body, as in Standard Webhooks.
    #[error(
        "webhook-id or webhook-timestamp was signed with the body; X-Service-Signature is that of the body alone"
    )]
    WithHeaders,
    /// The SHA-256 of the body was signed, in bytes or as its hexadecimal text.
    #[error("the SHA-256 of the body was signed in place of the body itself")]
    Hashed,
}

/// An odd property of a body whose signature matches with none of the known changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Suspicion {
    /// The body is empty.
    #[error("the body is empty; another part of the program may have read it already")]
    EmptyBody,
    /// The body is the beginning of a JSON text.
    #[error("the body is cut off: its JSON does not end")]
    CutOffBody,
    /// The body is an envelope, but not as Docket writes it.
    #[error("another secret; and the body's JSON was parsed and written again, so use the raw bytes")]
    RewrittenBody,
    /// The body looks right: most likely the secret is wrong.
    #[error("another secret, or not the raw body")]
    OtherSecret,
}

/// The three headers of Standard Webhooks; `None`: the header did not arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardHeaders<'a> {
    /// `webhook-id`.
    pub id: Option<&'a str>,
    /// `webhook-timestamp`.
    pub timestamp: Option<&'a str>,
    /// `webhook-signature`.
    pub signature: Option<&'a str>,
}

/// Why the headers of Standard Webhooks are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StandardFault {
    /// The header of this name is missing.
    #[error("the header {0} is missing")]
    Missing(&'static str),
    /// `webhook-timestamp` is not a number of seconds.
    #[error("webhook-timestamp is not a whole number of seconds since 1970")]
    Timestamp,
    /// `webhook-signature` has no signature of version 1.
    #[error("webhook-signature has no part that begins with `v1,`")]
    NoVersion1,
    /// `webhook-signature` has more than [`MAX_SIGNATURES`] of version 1.
    #[error("webhook-signature has more than {most} signatures of version 1", most = MAX_SIGNATURES)]
    TooMany,
    /// A signature of version 1 is not the base64 of 32 bytes, and no other signature matches.
    #[error("webhook-signature is cut off: after `v1,` follows the base64 of 32 bytes")]
    CutOff,
    /// `webhook-id` and `webhook-timestamp` are swapped.
    #[error("webhook-id and webhook-timestamp have each other's values")]
    Interchanged,
    /// `webhook-signature` has the hexadecimal digest of `X-Service-Signature`.
    #[error(
        "it is the value of X-Service-Signature; webhook-signature is `v1,` and the base64 of another digest"
    )]
    OfService,
    /// A signature of version 1 is hexadecimal.
    #[error("hexadecimal follows after `v1,`, and must be the base64 of the same 32 bytes")]
    Hexadecimal,
    /// A signature was made of the body alone.
    #[error(
        "it is the signature of the body alone; sign webhook-id, webhook-timestamp and body, with dots between them"
    )]
    BodyAlone,
    /// A signature matches if `webhook-id` is the `id` of the event in the body.
    #[error("webhook-id is not the id that was signed: it is the id in the body, which begins with evt_")]
    OtherId,
    /// No signature matches.
    #[error("{0}")]
    Mismatch(Mismatch),
    /// A signature matches, and the attempt was made this many seconds ago, more than [`TOLERANCE_SECONDS`].
    #[error(
        "the signature matches, but webhook-timestamp is {0} s old: receivers refuse more than {tolerance} s",
        tolerance = TOLERANCE_SECONDS
    )]
    Old(i64),
    /// A signature matches, and the attempt is this many seconds in the future, more than [`TOLERANCE_SECONDS`].
    #[error(
        "the signature matches, but webhook-timestamp is {0} s in the future: one of the clocks is wrong"
    )]
    Early(i64),
}

/// Judges `X-Service-Signature` with the candidate `secrets`. The `headers` of the same request only help to name a mistake.
///
/// # Errors
///
/// The signature was not made of `body` with any of the secrets.
pub fn service(
    secrets: &[Vec<u8>],
    signature: &str,
    headers: &StandardHeaders<'_>,
    body: &[u8],
) -> Result<(), Mismatch> {
    if secrets.iter().any(|secret| verify(secret, body, signature)) {
        return Ok(());
    }
    let (digest, spelling) = read(signature).map_err(Mismatch::Unreadable)?;
    Err(explain(secrets, &[digest], spelling, b"", body, &variants::heads(headers, body)))
}

/// Judges the headers of Standard Webhooks with the candidate `secrets`, at the time `now`.
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
    let seconds: i64 = match timestamp.parse() {
        Ok(seconds) => seconds,
        Err(_) if id.parse::<i64>().is_ok() => return Err(StandardFault::Interchanged),
        Err(_) => return Err(StandardFault::Timestamp),
    };

    let is_hexadecimal = |text: &str| text.len() == HEX_DIGITS && hex::decode(text).is_ok();
    let signatures: Vec<&str> = signature.split(' ').filter_map(|one| one.strip_prefix("v1,")).collect();
    if signatures.is_empty() {
        let of_service = is_hexadecimal(signature.trim());
        return Err(if of_service { StandardFault::OfService } else { StandardFault::NoVersion1 });
    }
    if signatures.len() > MAX_SIGNATURES {
        return Err(StandardFault::TooMany);
    }
    let decoded = signatures.iter().filter_map(|one| BASE64.decode(one).ok()?.try_into().ok());
    let digests: Vec<Digest> = decoded.collect();
    if digests.is_empty() {
        let hexadecimal = signatures.iter().any(|one| is_hexadecimal(one));
        return Err(if hexadecimal { StandardFault::Hexadecimal } else { StandardFault::CutOff });
    }
    let head = format!("{id}.{timestamp}.");
    let signed = secrets.iter().any(|secret| matches(secret, &digests, head.as_bytes(), body));
    if !signed && digests.len() < signatures.len() {
        return Err(StandardFault::CutOff);
    }
    let matches_with =
        |head: &str| secrets.iter().any(|secret| matches(secret, &digests, head.as_bytes(), body));
    if !signed && matches_with("") {
        return Err(StandardFault::BodyAlone);
    }
    if !signed
        && let Some(event) = variants::event_id(body)
        && matches_with(&format!("{event}.{timestamp}."))
    {
        return Err(StandardFault::OtherId);
    }
    if !signed {
        return Err(StandardFault::Mismatch(explain(secrets, &digests, None, head.as_bytes(), body, &[])));
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

/// Reads the digest in the text of `X-Service-Signature`, and says how its spelling is wrong.
fn read(signature: &str) -> Result<(Digest, Option<Spelling>), Unreadable> {
    let trimmed = signature.trim();
    // Python writes bytes as b'…'.
    let bare = trimmed.strip_prefix("b'").unwrap_or(trimmed).trim_matches(['"', '\'']);
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
    let base64 = BASE64.decode(bare).or_else(|_| BASE64_URL.decode(bare.trim_end_matches('='))).ok();
    let once_more = [base64.clone(), hex::decode(bare).ok()].into_iter().flatten();
    if let Some(digest) = once_more.filter_map(|text| hexadecimal(std::str::from_utf8(&text).ok()?)).next() {
        return Ok((digest, Some(Spelling::EncodedTwice)));
    }
    if bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Unreadable::Length(bare.len()));
    }
    let word = bare.strip_prefix("0x").or_else(|| Some(bare.split_once(['=', ':'])?.1));
    if let Some(digest) = word.and_then(|rest| hexadecimal(rest.trim())) {
        return Ok((digest, Some(Spelling::Prefixed)));
    }
    if let Some(digest) = hexadecimal(&bare.replace(['-', ':', ' '], "")) {
        return Ok((digest, Some(Spelling::Separated)));
    }
    let digest = base64.and_then(|bytes| bytes.try_into().ok()).ok_or(Unreadable::NotHexadecimal)?;
    Ok((digest, Some(Spelling::Base64)))
}

/// Finds the smallest change with which one of the `digests` is the digest of `head` and `body`. It also tries each
/// of the `heads` between `head` and `body`.
fn explain(
    secrets: &[Vec<u8>],
    digests: &[Digest],
    spelling: Option<Spelling>,
    head: &[u8],
    body: &[u8],
    heads: &[String],
) -> Mismatch {
    let fits = |key: &variants::Secret<'_>, other: &variants::Body<'_>| {
        matches(&key.1, digests, head, &other.1).then_some((key.0, other.0))
    };
    let bodies = || variants::of_body(body, heads);
    let few = if head.len() + body.len() <= MAX_COMBINED { variants::COMBINED_BODIES } else { 0 };
    for secret in secrets {
        // Both `keys` and `bodies` begin with the unchanged value.
        let keys = variants::of_secret(secret);
        let with_any_key = |other: variants::Body<'_>| keys.iter().find_map(|key| fits(key, &other));
        // The search tries one mistake first, then two.
        let found = with_any_key((None, body.into()))
            .or_else(|| bodies().find_map(|other| fits(&keys[0], &other)))
            .or_else(|| bodies().take(few).find_map(with_any_key));
        if let Some((secret, body)) = found {
            return Mismatch::Known { spelling, secret, body };
        }
        if let Some(fault) = variants::not_an_hmac(secret, digests, &[head, body].concat()) {
            return Mismatch::Known { spelling, secret: Some(fault), body: None };
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

#[cfg(test)]
mod tests;
