//! The head of a response as it arrived, and which rule of HTTP/1.1 it breaks. hyper does not say which.

use std::sync::Arc;

use docket_domain::failure::{Cause, Explanation};
use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

/// The largest number of headers of a response: hyper's default, made explicit.
pub const MAX_HEADERS: usize = 100;
/// The limit for the headers of a response, in bytes.
pub const MAX_HEADER_BYTES: usize = 32 * 1024;
/// The number of bytes of a response that are recorded: enough for interim responses and a head.
const MOST: usize = 2 * MAX_HEADER_BYTES;
/// The capacity of the record, in bytes, that is kept for the next response.
const ROOM: usize = 1024;

/// What gets the received bytes of a stream.
type Record = Box<dyn FnMut(&[u8]) + Send>;

/// A stream whose received bytes are recorded.
pub(crate) type Recorded<S> = InspectReader<S, Record>;

/// The bytes that a [`Recorded`] stream has received. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Head(Arc<Mutex<Recording>>);

#[derive(Default)]
struct Recording {
    is_on: bool,
    bytes: Vec<u8>,
}

impl Head {
    /// Records what `stream` receives, while recording is on.
    pub(crate) fn of<S: AsyncRead>(&self, stream: S) -> Recorded<S> {
        let head = self.clone();
        let record: Record = Box::new(move |bytes: &[u8]| head.add(bytes));
        InspectReader::new(stream, record)
    }

    /// Begins to record bytes that arrive.
    pub(crate) fn begin(&self) {
        self.0.lock().is_on = true;
    }

    /// Stops recording, and drops the recorded bytes.
    pub(crate) fn end(&self) {
        let mut recording = self.0.lock();
        recording.is_on = false;
        recording.bytes.clear();
        recording.bytes.shrink_to(ROOM);
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().bytes)
    }

    fn add(&self, bytes: &[u8]) {
        let mut recording = self.0.lock();
        if recording.is_on {
            let room = MOST.saturating_sub(recording.bytes.len());
            recording.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}

/// The first rule that a response breaks, after hyper refused it. Empty if it breaks none of the rules that this file
/// checks; then the class says enough.
pub(crate) fn explain(mut bytes: &[u8]) -> Explanation {
    loop {
        match read(bytes) {
            // This is an interim response; another response follows it.
            Ok(Some(rest)) => bytes = rest,
            Ok(None) => return Explanation::default(),
            Err(explanation) => return explanation,
        }
    }
}

/// Reads one head. Returns the bytes after it if it is a valid interim response.
fn read(bytes: &[u8]) -> Result<Option<&[u8]>, Explanation> {
    let cause = |cause| Err(Explanation::of(cause));
    if is_http2(bytes) {
        return cause(Cause::Http2Answer);
    }
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let head = &bytes[blank..];
    let Some(version) = head.strip_prefix(b"HTTP/") else {
        return if b"HTTP/".starts_with(head) { Ok(None) } else { cause(Cause::NoStatusLine) };
    };
    if !version.starts_with(b"1.0") && !version.starts_with(b"1.1") {
        return cause(Cause::HttpVersion);
    }
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().and_then(line) else { return Ok(None) };
    let Some(status) = status(first) else { return cause(Cause::InvalidStatusLine) };
    let is_old = version.starts_with(b"1.0");
    let (mut count, mut length, mut last) = (0, None, None);
    let mut used = blank + first_length(head);
    for (number, raw) in (2..).zip(lines) {
        used += raw.len();
        if count >= MAX_HEADERS && raw.first().is_none_or(|byte| !matches!(byte, b'\r' | b'\n')) {
            return cause(Cause::TooManyHeaders);
        }
        let Some(text) = line(raw) else {
            // The head is cut off, so only the rule about its length can be broken.
            return if used > MAX_HEADER_BYTES { cause(Cause::HeadersTooLong) } else { Ok(None) };
        };
        if text.is_empty() {
            return match status {
                _ if used > MAX_HEADER_BYTES => cause(Cause::HeadersTooLong),
                100..=199 if status != 101 => Ok(Some(&bytes[used..])),
                _ => Ok(None),
            };
        }
        let (name, value) = header(text, number, last)?;
        if name.eq_ignore_ascii_case(b"content-length") && !same_length(value, &mut length) {
            return cause(Cause::InvalidContentLength);
        }
        if is_old && name.eq_ignore_ascii_case(b"transfer-encoding") {
            return cause(Cause::TransferEncoding);
        }
        (count, last) = (count + 1, Some(name));
    }
    if used > MAX_HEADER_BYTES { cause(Cause::HeadersTooLong) } else { Ok(None) }
}

fn first_length(head: &[u8]) -> usize {
    head.split_inclusive(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len)
}

/// A whole line without its end.
fn line(raw: &[u8]) -> Option<&[u8]> {
    let text = raw.strip_suffix(b"\n")?;
    Some(text.strip_suffix(b"\r").unwrap_or(text))
}

/// Whether the bytes begin with HTTP/2's preface, or with a SETTINGS frame of the connection, the first frame of a server.
fn is_http2(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PRI * HTTP/2") || matches!(bytes, [0, _, _, 4, _, 0, 0, 0, 0, ..])
}

/// The status in the first line of a head.
fn status(first: &[u8]) -> Option<u16> {
    let rest = first.get(8..)?.strip_prefix(b" ")?;
    let (digits, reason) = rest.split_at_checked(3)?;
    let status = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let is_valid = reason.is_empty() || (reason[0] == b' ' && reason.iter().all(|byte| is_text(*byte)));
    status.parse().ok().filter(|status| *status >= 100 && is_valid)
}

/// The name and the value of a header in line `number` of the head. `last` is the name of the header before it.
fn header<'a>(
    text: &'a [u8],
    number: usize,
    last: Option<&[u8]>,
) -> Result<(&'a [u8], &'a [u8]), Explanation> {
    let at = |cause, name: Option<&[u8]>| {
        let name = name.map_or(String::new(), |name| format!("{} on ", String::from_utf8_lossy(name)));
        Explanation::with(Some(cause), &format!("{name}line {number}"))
    };
    if let (Some(last), [b' ' | b'\t', ..]) = (last, text) {
        return Err(at(Cause::FoldedHeader, Some(last)));
    }
    let Some(colon) = text.iter().position(|byte| *byte == b':') else {
        return Err(at(Cause::InvalidHeaderName, None));
    };
    let (name, value) = (&text[..colon], &text[colon + 1..]);
    if !is_token(name) {
        // If only blanks before the colon are wrong, the detail quotes the name. Other texts may be data, so it does
        // not quote them.
        let name = name.trim_ascii_end();
        return Err(at(Cause::InvalidHeaderName, Some(name).filter(|name| is_token(name))));
    }
    match value.iter().all(|byte| is_text(*byte)) {
        true => Ok((name, value)),
        false => Err(at(Cause::InvalidHeaderValue, Some(name))),
    }
}

fn is_token(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token)
}

const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Whether `value`, a Content-Length, is a number and equals the earlier `length`, if there is one.
fn same_length(value: &[u8], length: &mut Option<u64>) -> bool {
    value.split(|byte| *byte == b',').all(|part| {
        let part = part.trim_ascii();
        let number = std::str::from_utf8(part)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok());
        number.is_some_and(|number| *length.get_or_insert(number) == number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(bytes: impl AsRef<[u8]>) -> (Option<Cause>, Option<String>) {
        let Explanation { cause, detail } = explain(bytes.as_ref());
        (cause, detail)
    }

    #[test]
    fn first_broken_rule_is_named_with_its_place() {
        for (answer, cause, detail) in [
            ("hello\r\n\r\n", Cause::NoStatusLine, None),
            ("<html></html>", Cause::NoStatusLine, None),
            ("HTTP/2 200\r\n\r\n", Cause::HttpVersion, None),
            ("HTTP/1.2 200 OK\r\n\r\n", Cause::HttpVersion, None),
            ("HTTP/1.1 abc\r\n\r\n", Cause::InvalidStatusLine, None),
            ("HTTP/1.1  200 OK\r\n\r\n", Cause::InvalidStatusLine, None),
            ("HTTP/1.1 099 OK\r\n\r\n", Cause::InvalidStatusLine, None),
            ("HTTP/1.1 2000\r\n\r\n", Cause::InvalidStatusLine, None),
            ("HTTP/1.1 200 OK\r\nx-a: 1\r\n more\r\n\r\n", Cause::FoldedHeader, Some("x-a on line 3")),
            ("HTTP/1.1 200 OK\r\nx-a : 1\r\n\r\n", Cause::InvalidHeaderName, Some("x-a on line 2")),
            ("HTTP/1.1 200 OK\r\na: b\r\n<br />\r\n\r\n", Cause::InvalidHeaderName, Some("line 3")),
            ("HTTP/1.1 200 OK\r\n<b>Warning</b>: secret\r\n\r\n", Cause::InvalidHeaderName, Some("line 2")),
            ("HTTP/1.1 200 OK\r\n: v\r\n\r\n", Cause::InvalidHeaderName, Some("line 2")),
            ("HTTP/1.1 200 OK\r\nx-a: a\0b\r\n\r\n", Cause::InvalidHeaderValue, Some("x-a on line 2")),
            ("HTTP/1.1 200 OK\r\nx-a: a\rb\r\n\r\n", Cause::InvalidHeaderValue, Some("x-a on line 2")),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", Cause::InvalidContentLength, None),
            ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Cause::InvalidContentLength, None),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n",
                Cause::InvalidContentLength,
                None,
            ),
            ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Cause::TransferEncoding, None),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Cause::Http2Answer, None),
            ("\0\0\x12\x04\0\0\0\0\0\0\x03", Cause::Http2Answer, None),
        ] {
            assert_eq!(explained(answer), (Some(cause), detail.map(str::to_owned)), "{answer:?}");
            let interim = format!("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n{answer}");
            assert_eq!(explained(interim).0, Some(cause), "{answer:?} after an interim answer");
        }
    }

    #[test]
    fn bounds_of_headers_are_named() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert_eq!(explained(many), (Some(Cause::TooManyHeaders), None));
        let hundred = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert_eq!(explained(hundred), (None, None));
        for end in ["\r\n\r\n", ""] {
            let long = format!("HTTP/1.1 200 OK\r\nx-a: {}{end}", "a".repeat(40_000));
            assert_eq!(explained(long), (Some(Cause::HeadersTooLong), None));
        }
    }

    #[test]
    fn answer_that_breaks_none_of_the_rules_has_no_cause() {
        for answer in [
            "",
            "HT",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\nx-a",
            "HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\ncontent-length: 3\r\n\r\n",
            "\r\nHTTP/1.1 200\nx-a:\n\n",
            "HTTP/1.1 101 Switching\r\n\r\nnot HTTP",
        ] {
            assert_eq!(explained(answer), (None, None), "{answer:?}");
        }
    }

    #[test]
    fn recording_is_bounded_and_off_until_an_answer_is_awaited() {
        let head = Head::default();
        head.add(b"before");
        assert!(head.take().is_empty());
        head.begin();
        for _ in 0..100 {
            head.add(&[b'a'; 1_000]);
        }
        assert_eq!(head.take().len(), MOST);
        head.end();
        head.add(b"after");
        assert!(head.take().is_empty());
    }
}
