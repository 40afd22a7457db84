//! A hostile PostgreSQL at the level of the wire protocol: it accepts every password and then does harm.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The harm that a hostile server does to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Responds to each question with one byte a second, without end.
    Drip,
    /// Refuses logins and questions with an SQLSTATE of one character and a message of 10 bytes or 1 MiB.
    Shout,
}

const READY: &[u8] = b"Z\0\0\0\x05I";
const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0";
/// The codes of the requests for TLS and for encryption by Kerberos, which a client sends before it says who it is.
const WISHES: [u32; 2] = [80_877_103, 80_877_104];

/// Serves one connection until the client ends it. `number`: the number of the connection.
pub(super) fn serve(mut client: TcpStream, manner: Manner, number: usize) {
    let _ = match manner {
        Manner::Drip => drip(&mut client),
        Manner::Shout => shout(&mut client, number),
    };
}

fn drip(client: &mut TcpStream) -> Result<()> {
    greet(client)?;
    client.write_all(&[LOGGED_IN, READY].concat())?;
    asked(client)?;
    for byte in message(b'N', "SNOTICE\0V", "NOTICE", 50_000) {
        client.write_all(&[byte])?;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn shout(client: &mut TcpStream, number: usize) -> Result<()> {
    let length = if number.is_multiple_of(2) { 10 } else { 1 << 20 };
    let error = message(b'E', "SFATAL\0V", "FATAL", length);
    greet(client)?;
    if number % 4 < 2 {
        return client.write_all(&error);
    }
    client.write_all(&[LOGGED_IN, READY].concat())?;
    loop {
        asked(client)?;
        client.write_all(&error)?;
        client.write_all(READY)?;
    }
}

/// Refuses encryption and reads the startup message, which says who the client is.
fn greet(client: &mut TcpStream) -> Result<()> {
    loop {
        let mut head = [0; 8];
        client.read_exact(&mut head)?;
        let (length, code) = head.split_at(4);
        if !WISHES.contains(&number(code)) {
            let rest = u64::from(number(length)).saturating_sub(8);
            std::io::copy(&mut client.take(rest), &mut std::io::sink())?;
            return Ok(());
        }
        client.write_all(b"N")?;
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Waits for a question. Errors: the client has closed the connection.
fn asked(client: &mut TcpStream) -> Result<()> {
    match client.read(&mut [0; 65_536])? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn message(kind: u8, severity: &str, again: &str, length: usize) -> Vec<u8> {
    let body = format!("{severity}{again}\0C4\0M{}\0\0", "x".repeat(length));
    let size = u32::try_from(body.len() + 4).expect("a short text").to_be_bytes();
    [&[kind][..], &size, body.as_bytes()].concat()
}
