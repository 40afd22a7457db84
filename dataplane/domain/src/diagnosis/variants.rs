//! Common mistakes of programs with a secret or a body: each with the bytes that result from it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::Mac;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{BodyFault, Digest, SecretFault, StandardHeaders, matches};
use crate::event::{self, LONGEST_ENVELOPE, LONGEST_EVENT_ID};
use crate::signature::hmac_sha256;

/// A key, and how it differs from the secret; `None`: it is the secret.
pub(super) type Secret<'a> = (Option<SecretFault>, Cow<'a, [u8]>);
/// A body, and how it differs from the given body; `None`: it is the given body.
pub(super) type Body<'a> = (Option<BodyFault>, Cow<'a, [u8]>);

/// How many bodies, from the first on, are tried together with a mistake in the secret.
pub(super) const COMBINED_BODIES: usize = 29;

/// The longest body, in bytes, for which [`rewritten`] assumes that a program wrote the event again. Docket sends at
/// most [`LONGEST_ENVELOPE`] bytes, and line breaks and indents add to them.
const LONGEST_REWRITTEN: usize = 2 * LONGEST_ENVELOPE;

/// The keys with which programs sign if they do not find their secret.
const NOT_SET: [&[u8]; 7] = [b"", b"undefined", b"null", b"None", b"nil", b"NULL", b"[object Object]"];

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The keys that a program may have made of `secret`.
pub(super) fn of_secret(secret: &[u8]) -> Vec<Secret<'_>> {
    let mut keys = vec![(None, Cow::Borrowed(secret))];
    let mut add = |fault, key: Cow<'_, [u8]>| {
        if key != secret && !key.is_empty() && keys.iter().all(|(_, known)| **known != *key) {
            keys.push((Some(fault), Cow::Owned(key.into_owned())));
        }
    };
    add(SecretFault::Newline, without_newline(secret).into());
    add(SecretFault::Newline, [secret, b"\n"].concat().into());
    add(SecretFault::Newline, [secret, b"\r\n"].concat().into());
    let trimmed = secret.trim_ascii();
    add(SecretFault::Whitespace, trimmed.into());
    add(SecretFault::Whitespace, std::str::from_utf8(secret).unwrap_or_default().trim().as_bytes().into());
    for blank in [" ", "\t", "\r", "\u{a0}"] {
        add(SecretFault::Whitespace, [secret, blank.as_bytes()].concat().into());
    }
    add(SecretFault::Whitespace, [b" ", secret].concat().into());
    for quote in [b"\"", b"'"] {
        let bare = trimmed.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        add(SecretFault::Quoted, bare.unwrap_or(secret).into());
        add(SecretFault::Quoted, [&quote[..], trimmed, quote].concat().into());
    }
    add(SecretFault::ByteOrderMark, unmarked(secret).into());
    add(SecretFault::ByteOrderMark, without_newline(unmarked(secret)).into());
    add(SecretFault::ByteOrderMark, [BYTE_ORDER_MARK, secret].concat().into());
    let narrow = from_utf_16(secret).unwrap_or_default().into_bytes();
    add(SecretFault::Utf16, without_newline(&narrow).into());
    add(SecretFault::Utf16, narrow.into());
    let wide: Vec<u8> = String::from_utf8_lossy(secret).encode_utf16().flat_map(u16::to_le_bytes).collect();
    add(SecretFault::Utf16, [&b"\xff\xfe"[..], &wide].concat().into());
    add(SecretFault::Utf16, wide.into());
    add(SecretFault::Assigned, assigned(trimmed).unwrap_or_default().into());
    match trimmed.strip_prefix(b"v1,").unwrap_or(trimmed).strip_prefix(b"whsec_") {
        Some(encoded) => {
            add(SecretFault::WhsecText, BASE64.decode(encoded).unwrap_or_default().into());
            add(SecretFault::WhsecPrefix, encoded.into());
        }
        None => {
            add(SecretFault::WhsecPrefix, [&b"whsec_"[..], trimmed].concat().into());
            add(SecretFault::Decoded, BASE64.decode(trimmed).unwrap_or_default().into());
            add(SecretFault::Decoded, hex::decode(trimmed).unwrap_or_default().into());
        }
    }
    let encoded = BASE64.encode(secret);
    add(SecretFault::WhsecAsKey, format!("whsec_{encoded}").into_bytes().into());
    add(SecretFault::WhsecAsKey, format!("v1,whsec_{encoded}").into_bytes().into());
    add(SecretFault::WhsecAsKey, encoded.into_bytes().into());
    add(SecretFault::HexAsKey, hex::encode(secret).into_bytes().into());
    add(SecretFault::HexAsKey, hex::encode_upper(secret).into_bytes().into());
    for hash in [hex::encode(Sha256::digest(secret)).into_bytes(), Sha256::digest(secret).to_vec()] {
        add(SecretFault::Hashed, hash.into());
    }
    let not_set = NOT_SET.into_iter().filter(|word| *word != secret);
    keys.extend(not_set.map(|word| (Some(SecretFault::NotSet), Cow::Borrowed(word))));
    keys
}

/// The value of `NAME=value`, as in an environment file, without quotation marks.
fn assigned(line: &[u8]) -> Option<&[u8]> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&line[..equals], line[equals + 1..].trim_ascii());
    let name = name.strip_prefix(b"export ").unwrap_or(name);
    let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let quoted = [b"\"", b"'"].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    is_name.then_some(quoted.unwrap_or(value))
}

/// Finds out how one of the `digests` was computed from `secret` and `message` in another way than as their HMAC.
pub(super) fn not_an_hmac(secret: &[u8], digests: &[Digest], message: &[u8]) -> Option<SecretFault> {
    let is_hmac_of = |text: &[u8]| matches(secret, digests, b"", text);
    let is_sha256 = |parts: &[&[u8]]| {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        digests.contains(&hash.finalize().into())
    };
    if matches(message, digests, b"", secret) {
        Some(SecretFault::Swapped)
    } else if is_sha256(&[secret, message]) || is_sha256(&[message, secret]) {
        Some(SecretFault::Concatenated)
    } else if is_sha256(&[message]) {
        Some(SecretFault::Unkeyed)
    } else {
        let hmac = hmac_sha256(secret, &[message]).finalize().into_bytes().to_vec();
        (is_hmac_of(hex::encode(&hmac).as_bytes()) || is_hmac_of(&hmac)).then_some(SecretFault::Twice)
    }
}

/// The `id` in an envelope.
pub(super) fn event_id(body: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<Value>(body).ok()?.get("id")?.as_str()?.to_owned())
}

/// The texts that a signer for Standard Webhooks may put before the body: id and time, the time alone, or the id
/// alone. The sender chooses id and time, so a value that is longer than any id is left out.
pub(super) fn heads(headers: &StandardHeaders<'_>, body: &[u8]) -> Vec<String> {
    let is_short = |value: &String| value.len() <= LONGEST_EVENT_ID;
    let id = headers.id.map(str::to_owned).or_else(|| event_id(body)).filter(is_short);
    let timestamp = headers.timestamp.map(str::to_owned).filter(is_short);
    let both = id.as_ref().zip(timestamp.as_ref()).map(|(id, timestamp)| format!("{id}.{timestamp}."));
    let one = |value: String| format!("{value}.");
    [both, timestamp.map(one), id.map(one)].into_iter().flatten().collect()
}

/// Makes another body of the given one, or an empty one if it can't.
type MakeVariant = fn(&[u8]) -> Vec<u8>;

const CHANGES: [(BodyFault, MakeVariant); 16] = [
    (BodyFault::Newline, |body| without_newline(body).to_vec()),
    (BodyFault::Newline, |body| [body, b"\n"].concat()),
    (BodyFault::Newline, |body| [body, b"\r\n"].concat()),
    (BodyFault::ByteOrderMark, |body| unmarked(body).to_vec()),
    (BodyFault::ByteOrderMark, |body| [BYTE_ORDER_MARK, body].concat()),
    (BodyFault::LineEnds, |body| unix(body).replace('\n', "\r\n").into_bytes()),
    (BodyFault::LineEnds, |body| unix(body).into_bytes()),
    // The body was read as Latin-1 and written as UTF-8.
    (BodyFault::Encoding, |body| text(body).bytes().map(char::from).collect::<String>().into_bytes()),
    (BodyFault::Encoding, |body| before_latin_1(body).unwrap_or_default()),
    (BodyFault::Encoding, |body| from_utf_16(body).unwrap_or_default().into_bytes()),
    (BodyFault::Base64, |body| BASE64.decode(body.trim_ascii()).unwrap_or_default()),
    (BodyFault::Base64, |body| BASE64.encode(body).into_bytes()),
    (BodyFault::Hashed, |body| hex::encode(Sha256::digest(body)).into_bytes()),
    (BodyFault::Hashed, |body| Sha256::digest(body).to_vec()),
    // The body is a JSON string that contains the JSON.
    (BodyFault::Rewritten, |body| serde_json::from_slice::<String>(body).unwrap_or_default().into_bytes()),
    (BodyFault::Rewritten, |body| serde_json::to_vec(&String::from_utf8_lossy(body)).unwrap_or_default()),
];

/// The bodies that a program may have made of `body`, and from which `body` may have been made; also `body` behind
/// each of the `heads`. `body` itself comes first, and no body comes twice. Together they can have hundreds of times
/// the bytes of `body`, so each is computed only when the caller takes it.
pub(super) fn of_body<'a>(body: &'a [u8], heads: &'a [String]) -> impl Iterator<Item = Body<'a>> {
    let changed = CHANGES.iter().map(move |(fault, change)| (*fault, change(body)));
    let behind = heads.iter().map(move |head| (BodyFault::WithHeaders, [head.as_bytes(), body].concat()));
    let rewritten = rewritten(body).map(|other| (BodyFault::Rewritten, other));
    let others = changed.chain(behind).chain(rewritten).filter(|(_, other)| !other.is_empty());
    let mut seen = BTreeSet::<Digest>::new();
    iter::once((None, Cow::Borrowed(body)))
        .chain(others.map(|(fault, other)| (Some(fault), Cow::Owned(other))))
        .chain(iter::once((Some(BodyFault::Empty), Cow::Borrowed(&b""[..]))))
        .filter(move |(_, other)| seen.insert(Sha256::digest(other).into()))
}

/// The text of a body; empty if it is not UTF-8.
fn text(body: &[u8]) -> &str {
    std::str::from_utf8(body).unwrap_or_default()
}

/// The text of a body with the line ends of Unix.
fn unix(body: &[u8]) -> String {
    text(body).replace("\r\n", "\n")
}

/// The text without a byte order mark.
fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

fn without_newline(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r\n").or_else(|| text.strip_suffix(b"\n")).unwrap_or(text)
}

/// The bytes that become `body` if a program reads them as Latin-1 and writes UTF-8.
fn before_latin_1(body: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(body).ok()?.chars().map(|char| u8::try_from(char).ok()).collect()
}

/// The text of a file that was saved as UTF-16, as some shells do: with a byte order mark, or ASCII without one.
fn from_utf_16(bytes: &[u8]) -> Option<String> {
    let units = |bytes: &[u8], unit: fn([u8; 2]) -> u16| -> Option<Vec<u16>> {
        bytes.chunks(2).map(|pair| Some(unit(pair.try_into().ok()?))).collect()
    };
    let units = match bytes {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes)?,
        [_, 0, ..] => units(bytes, u16::from_le_bytes)?,
        [0, _, ..] => units(bytes, u16::from_be_bytes)?,
        _ => return None,
    };
    String::from_utf16(&units).ok()
}

/// The event as Docket writes it, and as common JSON libraries write it, the most frequent forms first. Each is
/// computed only when the caller takes it. Empty if `body` is not an envelope or is longer than
/// [`LONGEST_REWRITTEN`].
fn rewritten(body: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const INDENTS: [Option<usize>; 3] = [None, Some(2), Some(4)];
    let sent = Some(unmarked(body)).filter(|body| body.len() <= LONGEST_REWRITTEN).and_then(event::as_sent);
    let sorted = sent.as_ref().and_then(|sent| serde_json::from_slice::<Value>(sent).ok());
    let mut compact: Vec<Vec<u8>> = Vec::from_iter(sent);
    compact.extend(sorted.map(|value| value.to_string().into_bytes()));
    compact.extend(compact.iter().map(|json| without_fraction(json)).collect::<Vec<_>>());

    let count = compact.len() * (1 + INDENTS.len());
    let plain = move |place: usize| match place.checked_sub(compact.len()) {
        None => compact[place].clone(),
        Some(place) => respaced(&compact[place / INDENTS.len()], INDENTS[place % INDENTS.len()]),
    };
    let escapes = iter::once(None).chain(ESCAPES.iter().map(Some));
    escapes.flat_map(move |escape| (0..count).map(move |place| (escape, place))).filter_map(
        move |(escape, place)| match escape {
            None => Some(plain(place)),
            Some(escape) => escape.applied(&plain(place)),
        },
    )
}

/// Which characters of a text a library escapes, beside those that JSON requires.
struct Escape {
    ascii: &'static str,
    /// The digits in which all characters outside ASCII are escaped; `None`: they are not escaped.
    others: Option<HexDigits>,
    /// Whether `/` is written as `\/`.
    slash: bool,
}

enum HexDigits {
    Lower,
    Upper,
}

const ESCAPES: [Escape; 5] = [
    Escape { ascii: "", others: Some(HexDigits::Lower), slash: false }, // Python
    Escape { ascii: "", others: Some(HexDigits::Lower), slash: true },  // PHP
    Escape { ascii: "<>&", others: None, slash: false },                // Go
    Escape { ascii: "<>&='", others: None, slash: false },              // Gson
    Escape { ascii: "<>&+'`\"", others: Some(HexDigits::Upper), slash: false }, // System.Text.Json
];

impl Escape {
    /// Applies these escapes to `json`, compact or indented. Returns `None` if it has no such character.
    fn applied(&self, json: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(json).ok()?;
        let mut written = String::with_capacity(text.len());
        let (mut in_text, mut escaped) = (false, false);
        for char in text.chars() {
            let is_quote_inside = escaped && char == '"' && self.ascii.contains('"');
            let is_escaped = self.ascii.contains(char) || (!char.is_ascii() && self.others.is_some());
            if is_quote_inside {
                written.pop(); // the backslash
                written.push_str("\\u0022");
            } else if char == '/' && self.slash {
                written.push_str("\\/");
            } else if in_text && char != '"' && is_escaped {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    written.push_str(&match self.others {
                        Some(HexDigits::Upper) => format!("\\u{unit:04X}"),
                        Some(HexDigits::Lower) | None => format!("\\u{unit:04x}"),
                    });
                }
            } else {
                written.push(char);
            }
            in_text = if char == '"' && !escaped { !in_text } else { in_text };
            escaped = in_text && !escaped && char == '\\';
        }
        (written != text).then(|| written.into_bytes())
    }
}

/// Writes numbers such as `150.0` as `150`, as JavaScript does.
fn without_fraction(json: &[u8]) -> Vec<u8> {
    let mut written: Vec<u8> = Vec::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    let mut at = 0;
    while at < json.len() {
        let byte = json[at];
        let follows = |offset: usize| json.get(at + offset).copied().unwrap_or(b' ');
        let is_fraction = !in_text && byte == b'.' && follows(1) == b'0' && !follows(2).is_ascii_digit();
        if is_fraction && !matches!(follows(2), b'e' | b'E') {
            at += 2;
            continue;
        }
        in_text = if byte == b'"' && !escaped { !in_text } else { in_text };
        escaped = in_text && !escaped && byte == b'\\';
        written.push(byte);
        at += 1;
    }
    written
}

/// Adds a blank after each comma and colon of compact JSON; or, with an indent, puts each value on its own line.
fn respaced(compact: &[u8], indent: Option<usize>) -> Vec<u8> {
    let mut written = Vec::with_capacity(2 * compact.len());
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let new_line = |written: &mut Vec<u8>, depth: usize| {
        if let Some(indent) = indent {
            written.push(b'\n');
            written.extend(iter::repeat_n(b' ', indent * depth));
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
