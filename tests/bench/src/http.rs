//! A client with one kept HTTP/1.1 connection. The client shares the cores with the processes that it measures, so it
//! does no more than it must: requests are bytes that were made beforehand, and a response is a status and a body.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response, read to its end.
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Response<'_> {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.body).into_owned()
    }
}

impl Connection {
    #[expect(clippy::disallowed_methods, reason = "to a process of this benchmark, on loopback")]
    pub(crate) async fn open(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a whole request and reads the whole response. A connection that had an error must not be used again.
    pub(crate) async fn call(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let (status, length) = read_head(&self.buffer[..head]).ok_or(ErrorKind::InvalidData)?;
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        Ok(Response { status, body: &self.buffer[head..head + length] })
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The position at which `what` begins in `bytes`.
pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The status, and the length of the body.
fn read_head(head: &[u8]) -> Option<(u16, usize)> {
    let status = number(head.get(9..12)?)? as u16;
    let mut lines = head.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(15)?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| number(value.trim_ascii()))?
    });
    Some((status, length.unwrap_or(0)))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("content-length: {}\r\n\r\n{body}", body.len());
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_status_and_length() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 42\r\n\r\n";
        assert_eq!(read_head(head), Some((200, 42)));
        assert_eq!(read_head(b"HTTP/1.1 204 No Content\r\n\r\n"), Some((204, 0)));
        assert_eq!(read_head(b"HTTP"), None);
    }
}
