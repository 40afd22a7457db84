//! What programs do to a secret or a body by mistake: each with the bytes that result.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::{BodyFault, SecretFault};
use crate::event;

/// A key, and how it differs from the secret; `None`: not at all.
pub(super) type Secret<'a> = (Option<SecretFault>, Cow<'a, [u8]>);
/// A body, and how it differs from the one given; `None`: not at all.
pub(super) type Body<'a> = (Option<BodyFault>, Cow<'a, [u8]>);

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The keys that a program may have made of `secret`.
pub(super) fn of_secret(secret: &[u8]) -> Vec<Secret<'_>> {
    let mut keys = vec![(None, Cow::Borrowed(secret))];
    let mut add = |fault, key: Cow<'_, [u8]>| {
        if key != secret && !key.is_empty() {
            keys.push((Some(fault), Cow::Owned(key.into_owned())));
        }
    };
    add(SecretFault::Newline, without_newline(secret).into());
    add(SecretFault::Newline, [secret, b"\n"].concat().into());
    add(SecretFault::Newline, [secret, b"\r\n"].concat().into());
    let trimmed = secret.trim_ascii();
    add(SecretFault::Whitespace, trimmed.into());
    add(SecretFault::Whitespace, [secret, b" "].concat().into());
    add(SecretFault::Whitespace, [b" ", secret].concat().into());
    for quote in [b"\"", b"'"] {
        let bare = trimmed.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        add(SecretFault::Quoted, bare.unwrap_or(secret).into());
    }
    add(SecretFault::ByteOrderMark, secret.strip_prefix(BYTE_ORDER_MARK).unwrap_or(secret).into());
    match trimmed.strip_prefix(b"whsec_") {
        Some(encoded) => add(SecretFault::WhsecText, BASE64.decode(encoded).unwrap_or_default().into()),
        None => {
            add(SecretFault::Decoded, BASE64.decode(trimmed).unwrap_or_default().into());
            add(SecretFault::Decoded, hex::decode(trimmed).unwrap_or_default().into());
        }
    }
    let encoded = BASE64.encode(secret);
    add(SecretFault::WhsecAsKey, format!("whsec_{encoded}").into_bytes().into());
    add(SecretFault::WhsecAsKey, encoded.into_bytes().into());
    keys
}

/// The bodies that a program may have made of `body`, or this one of.
pub(super) fn of_body(body: &[u8]) -> Vec<Body<'_>> {
    let mut bodies = vec![(None, Cow::Borrowed(body))];
    let mut add = |fault, other: Vec<u8>| {
        if other != body && bodies.iter().all(|(_, known)| **known != *other) {
            bodies.push((Some(fault), Cow::Owned(other)));
        }
    };
    add(BodyFault::Newline, without_newline(body).to_vec());
    add(BodyFault::Newline, [body, b"\n"].concat());
    add(BodyFault::Newline, [body, b"\r\n"].concat());
    add(BodyFault::ByteOrderMark, body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body).to_vec());
    add(BodyFault::ByteOrderMark, [BYTE_ORDER_MARK, body].concat());
    if let Ok(text) = std::str::from_utf8(body) {
        let unix = text.replace("\r\n", "\n");
        add(BodyFault::LineEnds, unix.replace('\n', "\r\n").into_bytes());
        add(BodyFault::LineEnds, unix.into_bytes());
        // Read as Latin-1 and written as UTF-8.
        add(BodyFault::Encoding, body.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes());
    }
    add(BodyFault::Encoding, before_latin_1(body).unwrap_or_default());
    add(BodyFault::Encoding, before_utf_16(body).unwrap_or_default());
    for rewritten in rewritten(body) {
        add(BodyFault::Rewritten, rewritten);
    }
    bodies.retain(|(fault, other)| fault.is_none() || !other.is_empty());
    if !body.is_empty() {
        bodies.push((Some(BodyFault::Empty), Cow::Borrowed(b"")));
    }
    bodies
}

fn without_newline(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r\n").or_else(|| text.strip_suffix(b"\n")).unwrap_or(text)
}

/// The bytes that, read as Latin-1 and written as UTF-8, give `body`.
fn before_latin_1(body: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(body).ok()?.chars().map(|char| u8::try_from(char).ok()).collect()
}

/// The UTF-8 of a body that was saved as UTF-16, as some shells do.
fn before_utf_16(body: &[u8]) -> Option<Vec<u8>> {
    let units =
        body.strip_prefix(b"\xff\xfe")?.chunks(2).map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?)));
    Some(String::from_utf16(&units.collect::<Option<Vec<_>>>()?).ok()?.into_bytes())
}

/// The event as Docket writes it, and as the usual libraries do; empty if `body` is no envelope.
fn rewritten(body: &[u8]) -> Vec<Vec<u8>> {
    let Some(sent) = event::as_sent(body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)) else {
        return vec![];
    };
    let sorted = serde_json::from_slice::<Value>(&sent).map(|value| value.to_string().into_bytes());
    let spaced = [None, Some(2), Some(4)].map(|indent| respaced(&sent, indent));
    spaced.into_iter().chain(sorted).chain([sent]).collect()
}

/// Compact JSON with a blank after each comma and colon, or with one value on each line.
fn respaced(compact: &[u8], indent: Option<usize>) -> Vec<u8> {
    let mut written = Vec::with_capacity(2 * compact.len());
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let new_line = |written: &mut Vec<u8>, depth: usize| {
        if let Some(indent) = indent {
            written.push(b'\n');
            written.extend(std::iter::repeat_n(b' ', indent * depth));
        }
    };
    for &byte in compact {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            written.push(byte);
            continue;
        }
        in_text = byte == b'"';
        if matches!(byte, b'}' | b']') {
            depth -= 1;
            new_line(&mut written, depth);
        }
        written.push(byte);
        match byte {
            b'{' | b'[' => {
                depth += 1;
                new_line(&mut written, depth);
            }
            b',' if indent.is_some() => new_line(&mut written, depth),
            b',' | b':' => written.push(b' '),
            _ => {}
        }
    }
    written
}
