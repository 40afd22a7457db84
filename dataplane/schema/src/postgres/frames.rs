//! Reads the headers of the frames that PostgreSQL sends, and refuses frames that are larger than anything that
//! Docket stores. Pure.
//!
//! The owner of a database decides what its tables are: a view with a cell of 150 MiB, endless rows, errors and
//! notices of any length. The library reads a message as a whole into memory. So this file checks each header before
//! its body is read.

use tokio_postgres::types::Type;

/// The longest row, in bytes. The largest value in a row is an order, and the API accepts at most 1 MiB.
pub const LONGEST_ROW: usize = 2 << 20;
/// The longest message that is not a row, in bytes: errors, notices, descriptions of columns.
pub const LONGEST_MESSAGE: usize = 64 << 10;
/// The limit of all messages for one query, in bytes. The longest lists are a page of notes and the 10,000 deliveries
/// of a bulk resend. Each of a tenant's connections may hold this much at the same time, and again as much in values
/// made from it.
pub const LONGEST_ANSWER: usize = 3 << 20;
/// The limit of messages for one query. Each row is a message.
pub const MOST_MESSAGES: usize = 20_000;
/// The limit of reported settings in the life of a connection, in bytes: the library keeps them all.
pub const MOST_SETTINGS: usize = 64 << 10;

/// Why a connection ends: the server sent something that Docket does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// One message is too long.
    #[error("the database sent a message of {bytes} bytes, more than the {limit} that Docket reads")]
    Message {
        /// The announced length of the message, in bytes.
        bytes: usize,
        /// The limit of this kind of message, in bytes.
        limit: usize,
    },
    /// The result of one query is too long.
    #[error("the database sent more than {LONGEST_ANSWER} bytes for one query")]
    Answer,
    /// The result of one query has too many rows or notices.
    #[error("the database sent more than {MOST_MESSAGES} rows and notices for one query")]
    Messages,
    /// The server reported too many settings.
    #[error("the database reported more than {MOST_SETTINGS} bytes of settings")]
    Settings,
    /// A column has a type that the schema does not use. The library would query the database for the type and its parts.
    #[error("the database sent a column of type {0}, which is no type of PostgreSQL's own")]
    Type(u32),
    /// The bytes are not a message of PostgreSQL.
    #[error("the database sent a message that is not PostgreSQL's")]
    Malformed,
}

/// The tags of messages that need special treatment.
const ROW: u8 = b'D';
const COLUMNS: u8 = b'T';
const PARAMETERS: u8 = b't';
const SETTING: u8 = b'S';
const READY: u8 = b'Z';

/// The length of a header: a tag and a length, in bytes.
const HEADER: usize = 5;

/// The state of a connection between and within the server's messages.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The part of the header that has arrived.
    header: [u8; HEADER],
    arrived: usize,
    /// The number of bytes of the body that have not arrived yet.
    missing: usize,
    /// The body of a message that describes types.
    types: Vec<u8>,
    /// The number of bytes that have arrived since the server was last ready for a query.
    bytes: usize,
    messages: usize,
    /// The number of bytes of settings since the connection began.
    settings: usize,
}

impl Frames {
    /// Processes the next bytes, however they are split. After an error the connection must end.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Excess> {
        while !bytes.is_empty() {
            if self.arrived < HEADER {
                let (part, rest) = bytes.split_at(bytes.len().min(HEADER - self.arrived));
                self.header[self.arrived..self.arrived + part.len()].copy_from_slice(part);
                self.arrived += part.len();
                bytes = rest;
                if self.arrived < HEADER {
                    return Ok(());
                }
                self.begin()?;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.missing));
            if matches!(self.header[0], COLUMNS | PARAMETERS) {
                self.types.extend_from_slice(part);
            }
            self.missing -= part.len();
            bytes = rest;
            if self.missing == 0 {
                self.end()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Excess> {
        let [tag, length @ ..] = self.header;
        // The length includes its own four bytes.
        let length = u32::from_be_bytes(length) as usize;
        self.missing = length.checked_sub(length_of_length()).ok_or(Excess::Malformed)?;
        let limit = if tag == ROW { LONGEST_ROW } else { LONGEST_MESSAGE };
        if self.missing > limit {
            return Err(Excess::Message { bytes: self.missing, limit });
        }
        self.bytes += HEADER + self.missing;
        self.messages += 1;
        if tag == SETTING {
            self.settings += self.missing;
        }
        match () {
            () if self.bytes > LONGEST_ANSWER => Err(Excess::Answer),
            () if self.messages > MOST_MESSAGES => Err(Excess::Messages),
            () if self.settings > MOST_SETTINGS => Err(Excess::Settings),
            () => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Excess> {
        self.arrived = 0;
        match self.header[0] {
            READY => (self.bytes, self.messages) = (0, 0),
            tag @ (COLUMNS | PARAMETERS) => {
                let types = std::mem::take(&mut self.types);
                let oids = if tag == COLUMNS { columns(&types) } else { parameters(&types) };
                for oid in oids.ok_or(Excess::Malformed)? {
                    Type::from_oid(oid).ok_or(Excess::Type(oid))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

const fn length_of_length() -> usize {
    size_of::<u32>()
}

/// The types in a description of columns: each column has a name that ends in 0, and 18 bytes, with the type after the first 6.
fn columns(body: &[u8]) -> Option<Vec<u32>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut oids = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let name = rest.iter().position(|byte| *byte == 0)?;
        let (column, after) = rest.get(name + 1..)?.split_first_chunk::<18>()?;
        oids.push(u32::from_be_bytes(*column[6..].first_chunk()?));
        rest = after;
    }
    Some(oids)
}

fn parameters(body: &[u8]) -> Option<Vec<u32>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut oids = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (oid, after) = rest.split_first_chunk()?;
        oids.push(u32::from_be_bytes(*oid));
        rest = after;
    }
    Some(oids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![tag];
        message.extend((body.len() as u32 + 4).to_be_bytes());
        message.extend(body);
        message
    }

    fn columns_of(oids: &[u32]) -> Vec<u8> {
        let mut body = (oids.len() as u16).to_be_bytes().to_vec();
        for oid in oids {
            body.extend(b"name\0\0\0\0\x01\0\x02");
            body.extend(oid.to_be_bytes());
            body.extend([0, 8, 255, 255, 255, 255, 0, 1]);
        }
        message(COLUMNS, &body)
    }

    fn parameters_of(oids: &[u32]) -> Vec<u8> {
        let mut body = (oids.len() as u16).to_be_bytes().to_vec();
        body.extend(oids.iter().flat_map(|oid| oid.to_be_bytes()));
        message(PARAMETERS, &body)
    }

    fn ready() -> Vec<u8> {
        message(READY, b"I")
    }

    /// The result for the whole text, which must be the same byte by byte and in pieces of every small size.
    fn result(bytes: &[u8]) -> Result<(), Excess> {
        let in_pieces = |size: usize| {
            let mut frames = Frames::default();
            bytes.chunks(size).try_for_each(|piece| frames.take(piece))
        };
        let whole = in_pieces(bytes.len().max(1));
        for size in [1, 2, 3, 4, 5, 6, 7, 11, 64, 4096] {
            assert_eq!(in_pieces(size), whole, "in pieces of {size}");
        }
        whole
    }

    /// A header without its body: after this header, no body is read.
    fn header(tag: u8, body: usize) -> Vec<u8> {
        let mut header = vec![tag];
        header.extend((body as u32 + 4).to_be_bytes());
        header
    }

    #[test]
    fn limits_have_room_for_the_largest_values_of_the_api_and_no_more() {
        assert_eq!((LONGEST_ROW, LONGEST_MESSAGE, LONGEST_ANSWER), (2_097_152, 65_536, 3_145_728));
        assert_eq!((MOST_MESSAGES, MOST_SETTINGS), (20_000, 65_536));
    }

    #[test]
    fn answers_of_the_schema_pass() {
        let answer = [
            message(b'1', b""),
            parameters_of(&[25, 20, 1009, 1016]),
            columns_of(&[20, 25, 16, 17, 19, 26, 701]),
            message(ROW, &[0; 300]),
            message(b'C', b"SELECT 1\0"),
            ready(),
        ]
        .concat();
        assert_eq!(result(&answer), Ok(()));
        assert_eq!(result(&answer.repeat(50)), Ok(()));
        assert_eq!(result(b""), Ok(()));
    }

    #[test]
    fn message_that_is_too_long_is_refused_by_its_header() {
        for (tag, limit) in [(ROW, LONGEST_ROW), (b'E', LONGEST_MESSAGE), (b'N', LONGEST_MESSAGE)] {
            assert_eq!(result(&header(tag, limit)), Ok(()));
            let bytes = limit + 1;
            assert_eq!(result(&header(tag, bytes)), Err(Excess::Message { bytes, limit }));
        }
        for (tag, limit) in [(b'd', LONGEST_MESSAGE), (COLUMNS, LONGEST_MESSAGE), (ROW, LONGEST_ROW)] {
            let bytes = u32::MAX as usize - 4;
            assert_eq!(result(&header(tag, bytes)), Err(Excess::Message { bytes, limit }));
        }
    }

    #[test]
    fn answer_is_bounded_until_the_server_is_ready() {
        let row = message(ROW, &vec![7; LONGEST_ANSWER / 8]);
        let mut frames = Frames::default();
        for _ in 0..20 {
            for _ in 0..7 {
                assert_eq!(frames.take(&row), Ok(()));
            }
            assert_eq!(frames.take(&ready()), Ok(()));
        }
        for _ in 0..7 {
            assert_eq!(frames.take(&row), Ok(()));
        }
        assert_eq!(frames.take(&row), Err(Excess::Answer));
    }

    #[test]
    fn rows_and_notices_are_counted_until_the_server_is_ready() {
        let mut frames = Frames::default();
        let half = [message(ROW, b"\0\0"), message(b'N', b"\0")].concat().repeat(MOST_MESSAGES / 4);
        for _ in 0..3 {
            assert_eq!(frames.take(&half), Ok(()));
            assert_eq!(frames.take(&ready()), Ok(()));
        }
        assert_eq!(frames.take(&half), Ok(()));
        assert_eq!(frames.take(&half), Ok(()));
        assert_eq!(frames.take(&message(b'N', b"\0")), Err(Excess::Messages));
    }

    #[test]
    fn settings_are_bounded_for_the_life_of_a_connection() {
        let mut frames = Frames::default();
        let setting = [message(SETTING, &[b'a'; 1 << 10]), ready()].concat();
        for _ in 0..MOST_SETTINGS >> 10 {
            assert_eq!(frames.take(&setting), Ok(()));
        }
        assert_eq!(frames.take(&setting), Err(Excess::Settings));
    }

    #[test]
    fn type_that_is_not_postgresqls_own_is_refused() {
        assert_eq!(result(&columns_of(&[20, 16_384])), Err(Excess::Type(16_384)));
        assert_eq!(result(&parameters_of(&[25, 16_385])), Err(Excess::Type(16_385)));
        assert_eq!(result(&columns_of(&[])), Ok(()));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for length in 0..4_u32 {
            let message = [&[ROW][..], &length.to_be_bytes()].concat();
            assert_eq!(result(&message), Err(Excess::Malformed));
        }
        // Fewer columns and parameters than the message announces.
        for (tag, body) in [
            (COLUMNS, &b"\0\x01"[..]),
            (COLUMNS, b"\0\x01a\0\0\0"),
            (COLUMNS, b"\0"),
            (PARAMETERS, b"\0\x01\0"),
        ] {
            assert_eq!(result(&message(tag, body)), Err(Excess::Malformed));
        }
    }
}
