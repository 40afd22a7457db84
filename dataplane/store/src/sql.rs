//! The values and rows of a statement, the same for both databases.

use docket_domain::delivery::FailureClass;
use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use docket_domain::event::LONGEST_EVENT_ID;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;

/// A value bound to `$1`, `$2`, … of a statement.
#[derive(Clone)]
pub enum Param {
    /// SQL NULL of any type.
    Null,
    /// BIGINT.
    Int(i64),
    /// BOOLEAN.
    Bool(bool),
    /// TEXT.
    Text(String),
    /// TEXT: one of Docket's own words.
    Word(&'static str),
    /// BYTEA.
    Bytes(Bytes),
    /// An array; only for PostgreSQL.
    Array(Vec<Param>),
}

/// Does not print the values, because they are customers' data.
impl std::fmt::Debug for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

macro_rules! param_from {
    ($($type:ty => |$value:ident| $param:expr),* $(,)?) => {
        $(impl From<$type> for Param { fn from($value: $type) -> Self { $param } })*
    };
}

param_from! {
    i64 => |value| Self::Int(value),
    u32 => |value| Self::Int(i64::from(value)),
    bool => |value| Self::Bool(value),
    &str => |value| Self::Text(value.to_owned()),
    &String => |value| Self::Text(value.clone()),
    String => |value| Self::Text(value),
    Bytes => |value| Self::Bytes(value),
    Vec<u8> => |value| Self::Bytes(value.into()),
}

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// `params![a, b]`: a list of [`Param`]s.
macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$($crate::sql::Param::from($value)),*] };
}
pub(crate) use params;

pub(crate) struct Statement {
    text: SqlText,
    params: Vec<Param>,
}

enum SqlText {
    /// The text as it is.
    One(&'static str),
    /// A text about several rows, with the values of each column.
    Rows(&'static Rows, Vec<Vec<Param>>),
}

impl Statement {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { text: SqlText::One(sql), params }
    }

    /// The text and the values for PostgreSQL. Each column of the rows becomes an array, so that one text serves any
    /// number of rows.
    pub(crate) fn for_postgres(self) -> (&'static str, Vec<Param>) {
        match self.text {
            SqlText::One(sql) => (sql, self.params),
            SqlText::Rows(rows, columns) => {
                (rows.for_postgres(), columns.into_iter().map(Param::Array).collect())
            }
        }
    }

    /// The texts and the values for SQLite. The rows are split into pieces of few sizes, so that a connection
    /// prepares few texts.
    pub(crate) fn for_sqlite(self) -> Vec<(&'static str, Vec<Param>)> {
        let (rows, columns) = match self.text {
            SqlText::One(sql) => return vec![(sql, self.params)],
            SqlText::Rows(rows, columns) => (rows, columns),
        };
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let mut pieces = Vec::new();
        for (place, size) in SIZES.into_iter().enumerate() {
            while columns.first().is_some_and(|column| column.len() >= size) {
                let mut params = Vec::with_capacity(size * columns.len());
                for _ in 0..size {
                    params.extend(columns.iter_mut().filter_map(Iterator::next));
                }
                pieces.push((rows.for_sqlite(place, columns.len()), params));
            }
        }
        pieces
    }
}

/// The numbers of rows that one statement for SQLite may have.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// A statement about several rows. Braces in its text contain one of these: the types of a row's values, `{text,
/// bigint}`, which become a list of rows to insert; the number and type of one value, `a {$1 text}`, which means that
/// the column before is one of the rows' values; or a lock, `{for key share}`, only for PostgreSQL.
pub(crate) struct Rows {
    template: &'static str,
    postgres: OnceLock<String>,
    /// The text for each of [`SIZES`].
    sqlite: [OnceLock<String>; SIZES.len()],
}

impl Rows {
    pub(crate) const fn new(template: &'static str) -> Self {
        let sqlite = [const { OnceLock::new() }; SIZES.len()];
        Self { template, postgres: OnceLock::new(), sqlite }
    }

    /// The statement about these rows; `None` without rows. Each row has `N` values, and the template uses all of them.
    pub(crate) fn statement<const N: usize>(
        &'static self,
        rows: impl IntoIterator<Item = [Param; N]>,
    ) -> Option<Statement> {
        let rows = rows.into_iter();
        let mut columns: Vec<_> = (0..N).map(|_| Vec::with_capacity(rows.size_hint().0)).collect();
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let is_empty = columns.first().is_none_or(Vec::is_empty);
        (!is_empty).then_some(Statement { text: SqlText::Rows(self, columns), params: Vec::new() })
    }

    fn for_postgres(&'static self) -> &'static str {
        self.postgres.get_or_init(|| {
            self.text(|list| match list {
                SqlList::Rows(types) => {
                    let arrays: Vec<String> =
                        (1..).zip(types).map(|(number, of)| format!("${number}::{of}[]")).collect();
                    format!("SELECT * FROM unnest({})", arrays.join(", "))
                }
                SqlList::Values(number, of) => format!("= ANY (${number}::{of}[])"),
                SqlList::Lock(lock) => lock.to_owned(),
            })
        })
    }

    fn for_sqlite(&'static self, place: usize, columns: usize) -> &'static str {
        let list = |row: &dyn Fn(usize) -> String| {
            (0..SIZES[place]).map(|place| row(place * columns)).collect::<Vec<_>>().join(", ")
        };
        self.sqlite[place].get_or_init(|| {
            self.text(|found| match found {
                SqlList::Rows(_) => {
                    let numbers = |before| (1..=columns).map(move |number| format!("${}", before + number));
                    let row = |before| format!("({})", numbers(before).collect::<Vec<_>>().join(", "));
                    format!("VALUES {}", list(&row))
                }
                SqlList::Values(number, _) => {
                    format!("IN ({})", list(&|before| format!("${}", before + number)))
                }
                SqlList::Lock(_) => String::new(),
            })
        })
    }

    fn text(&self, list: impl Fn(SqlList<'_>) -> String) -> String {
        let mut pieces = self.template.split('{');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (inner, after) = piece.split_once('}').expect("a brace is closed");
            let found = match inner.strip_prefix('$').and_then(|value| value.split_once(' ')) {
                Some((number, of)) => SqlList::Values(number.parse().expect("a number"), of),
                None if inner.starts_with("for ") => SqlList::Lock(inner),
                None => SqlList::Rows(inner.split(", ").collect()),
            };
            text.push_str(&list(found));
            text.push_str(after);
        }
        text
    }
}

/// The content of braces in a statement.
enum SqlList<'a> {
    /// The types of a row.
    Rows(Vec<&'a str>),
    /// The number of a row's value, from 1, and its type.
    Values(usize, &'a str),
    /// How the rows are locked.
    Lock(&'a str),
}

/// The number of ids in one `IN (…)`. It is fixed, so that statements have a fixed text and a connection prepares them once.
pub(super) const SLOTS: usize = 25;

/// `$first, …`: [`SLOTS`] values.
pub(super) fn slots(first: usize) -> String {
    (first..first + SLOTS).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// The values, filled up with NULL, which matches nothing, to [`SLOTS`].
pub(super) fn filled(values: impl Iterator<Item = Param>) -> Vec<Param> {
    values.chain(std::iter::repeat(Param::Null)).take(SLOTS).collect()
}

/// A SELECT with optional conditions.
#[derive(Clone)]
pub(super) struct Search {
    sql: String,
    params: Vec<Param>,
}

impl Search {
    /// A search with this `select`, which ends before its WHERE.
    pub(super) fn new(select: &str) -> Self {
        Self { sql: format!("{select} WHERE TRUE"), params: Vec::new() }
    }

    /// The union of these searches. Each returns at most `limit` rows.
    pub(super) fn any(searches: &[Search], limit: i64) -> Self {
        let mut any = Self { sql: String::new(), params: Vec::new() };
        for search in searches {
            let separator = if any.sql.is_empty() { "" } else { " UNION ALL " };
            let (sql, params) = search.clone().end("LIMIT $1", [limit.into()]);
            any.push(&format!("{separator}SELECT * FROM ({sql}) AS one"), params);
        }
        any
    }

    /// A SELECT from the rows of this search: `before` and `after` are the text around it.
    pub(super) fn within(self, before: &str, after: &str) -> Self {
        Self { sql: format!("{before} ({}) {after} WHERE TRUE", self.sql), params: self.params }
    }

    /// Adds a condition whose own values are `$1`, `$2`, …
    pub(super) fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Param>) {
        self.sql.push_str(" AND ");
        self.push(condition, values);
    }

    /// Adds a condition about `$1`, if there is a value.
    pub(super) fn and_some(&mut self, condition: &str, value: Option<impl Into<Param>>) {
        if let Some(value) = value {
            self.and(condition, [value.into()]);
        }
    }

    /// Adds the text after the conditions, with its own values. Returns the whole statement with all values.
    pub(super) fn end<const N: usize>(mut self, rest: &str, values: [Param; N]) -> (String, Vec<Param>) {
        self.sql.push(' ');
        self.push(rest, values);
        (self.sql, self.params)
    }

    /// Adds `text` with its values. The parameter numbers in `text` are raised by the number of earlier values.
    fn push(&mut self, text: &str, values: impl IntoIterator<Item = Param>) {
        self.sql.push_str(&numbered(text, self.params.len()));
        self.params.extend(values);
    }
}

/// Raises each number of a value by `before`.
fn numbered(text: &str, before: usize) -> String {
    let mut pieces = text.split('$');
    let mut numbered = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        let number: usize = number.parse().expect("a value is named $1, $2, …");
        numbered.push_str(&format!("${}{rest}", before + number));
    }
    numbered
}

/// The pattern for LIKE … ESCAPE '\\' that finds `text` anywhere.
pub(super) fn containing(text: &str) -> String {
    format!("{}%", ending(text))
}

/// The pattern for LIKE … ESCAPE '\\' that finds `text` at the end.
pub(super) fn ending(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}")
}

impl ToSql for Param {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        if *ty == Type::UNKNOWN {
            return Ok(self.to_text().map_or(IsNull::Yes, |text| {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }));
        }
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Bool(value) => value.to_sql_checked(ty, out),
            Self::Text(value) => value.to_sql_checked(ty, out),
            Self::Word(value) => value.to_sql_checked(ty, out),
            Self::Bytes(value) => value.as_ref().to_sql_checked(ty, out),
            Self::Array(values) => values.to_sql_checked(ty, out),
        }
    }

    /// Each variant checks the type itself.
    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        if *ty == Type::UNKNOWN { Format::Text } else { Format::Binary }
    }

    to_sql_checked!();
}

impl Param {
    /// The value as PostgreSQL reads it from a text, whatever type the statement gives it; `None`: NULL.
    fn to_text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Null => return None,
            Self::Int(value) => value.to_string().into(),
            Self::Bool(value) => value.to_string().into(),
            Self::Text(value) => value.as_str().into(),
            Self::Word(value) => (*value).into(),
            Self::Bytes(value) => format!("\\x{}", hex_digits(value)).into(),
            Self::Array(values) => {
                let elements: Vec<String> = values.iter().map(Self::to_element).collect();
                format!("{{{}}}", elements.join(",")).into()
            }
        })
    }

    /// The value as an element of an array's text.
    fn to_element(&self) -> String {
        match self.to_text() {
            None => "NULL".to_owned(),
            Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

fn hex_digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl From<Param> for rusqlite::types::Value {
    fn from(param: Param) -> Self {
        match param {
            Param::Null => Self::Null,
            Param::Int(value) => Self::Integer(value),
            Param::Bool(value) => Self::Integer(i64::from(value)),
            Param::Text(value) => Self::Text(value),
            Param::Word(value) => Self::Text(value.to_owned()),
            Param::Bytes(value) => Self::Blob(value.into()),
            // Statements for SQLite have no arrays. SQLite would store NULL.
            Param::Array(_) => Self::Null,
        }
    }
}

/// The longest id, in bytes, that is kept after its row was read: a queue, a schedule or an attempt holds it.
/// Docket's ids and customer codes are shorter, so a cut id is an unknown one. The longest id is a webhook's key,
/// with a namespace of 63, a name of 253 and a customer's code of 256 bytes: 574.
const LONGEST_ID: usize = 580;

/// One row of a result.
pub enum Row {
    /// A row of SQLite.
    Sqlite(Vec<rusqlite::types::Value>),
    /// A row of PostgreSQL.
    Postgres(tokio_postgres::Row),
}

impl Row {
    /// The value of the column at `index`, from 0. If the column has another type than in the schema, this is an
    /// internal error.
    pub fn get<T: Column>(&self, index: usize) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(values) => values
                .get(index)
                .and_then(T::from_sqlite)
                .ok_or(StoreError::Unexpected("a column has another type")),
            Self::Postgres(row) => T::from_postgres(row, index).map_err(StoreError::from),
        }
    }

    /// The text of the column at `index`, cut at [`LONGEST_ID`] bytes.
    pub(crate) fn id(&self, index: usize) -> Result<String, StoreError> {
        let mut text: String = self.get(index)?;
        text.truncate(text.floor_char_boundary(LONGEST_ID));
        text.shrink_to_fit();
        Ok(text)
    }

    /// The id or the code of an event in the column at `index`. The owner of a database may write anything there, and both are
    /// sent in headers. So a text that no header can carry becomes the empty text, which no event has as its id or code.
    pub(crate) fn event_id(&self, index: usize) -> Result<String, StoreError> {
        let mut text: String = self.get(index)?;
        if text.len() > LONGEST_EVENT_ID || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            text = String::new();
        }
        Ok(text)
    }

    /// The class in the column at `index`, which a newer program may have stored; `None`: the column is NULL.
    pub(crate) fn class(&self, index: usize) -> Result<Option<FailureClass>, StoreError> {
        Ok(self.get::<Option<String>>(index)?.map(|word| FailureClass::stored(&word)))
    }

    /// Like [`parsed`](Self::parsed); `None`: the column is NULL, or has a word that only a newer program knows.
    pub(crate) fn known<T: std::str::FromStr>(&self, index: usize) -> Result<Option<T>, StoreError> {
        Ok(self.get::<Option<String>>(index)?.and_then(|word| word.parse().ok()))
    }

    /// The number in the column at `index`, which counts something.
    pub(crate) fn count(&self, index: usize) -> Result<u32, StoreError> {
        u32::try_from(self.get::<i64>(index)?).map_err(|_| StoreError::Unexpected("a count"))
    }

    /// The text of the column at `index`, parsed as one of Docket's words.
    pub fn parsed<T: std::str::FromStr>(&self, index: usize) -> Result<T, StoreError> {
        self.get::<String>(index)?.parse().map_err(|_| StoreError::Unexpected("a stored word is unknown"))
    }
}

/// Reads the columns of a row into a struct, whose fields have the order of the columns: `read!(row => Type { a, b: method })`. This
/// method of [`Row`] reads the column of `b`, instead of [`get`](Row::get). `read!(row, 2 => …)` begins at the column with index 2.
macro_rules! read {
    (@column $row:expr, $index:expr) => { $row.get($index)? };
    (@column $row:expr, $index:expr, $method:ident) => { $row.$method($index)? };
    ($row:expr => $type:ident { $($fields:tt)+ }) => { $crate::sql::read!($row, 0 => $type { $($fields)+ }) };
    ($row:expr, $first:expr => $type:ident { $($field:ident $(: $method:ident)?),+ $(,)? }) => {{
        let mut next = $first;
        $type { $($field: { next += 1; $crate::sql::read!(@column $row, next - 1 $(, $method)?) }),+ }
    }};
}
pub(crate) use read;

/// A type as which a column can be read.
pub trait Column: Sized {
    #[doc(hidden)]
    fn from_sqlite(value: &rusqlite::types::Value) -> Option<Self>;
    #[doc(hidden)]
    fn from_postgres(row: &tokio_postgres::Row, index: usize) -> Result<Self, tokio_postgres::Error>;
}

macro_rules! column {
    ($($type:ty => $pattern:pat => $value:expr),* $(,)?) => {$(
        impl Column for $type {
            fn from_sqlite(value: &rusqlite::types::Value) -> Option<Self> {
                match value { $pattern => $value, _ => None }
            }
            fn from_postgres(row: &tokio_postgres::Row, index: usize) -> Result<Self, tokio_postgres::Error> {
                row.try_get(index)
            }
        }
        impl Column for Option<$type> {
            fn from_sqlite(value: &rusqlite::types::Value) -> Option<Self> {
                match value {
                    rusqlite::types::Value::Null => Some(None),
                    other => <$type>::from_sqlite(other).map(Some),
                }
            }
            fn from_postgres(row: &tokio_postgres::Row, index: usize) -> Result<Self, tokio_postgres::Error> {
                row.try_get(index)
            }
        }
    )*};
}

column! {
    i64 => rusqlite::types::Value::Integer(value) => Some(*value),
    f64 => rusqlite::types::Value::Real(value) => Some(*value),
    bool => rusqlite::types::Value::Integer(value) => Some(*value != 0),
    String => rusqlite::types::Value::Text(value) => Some(value.clone()),
    Vec<u8> => rusqlite::types::Value::Blob(value) => Some(value.clone()),
}

#[cfg(test)]
mod tests {
    use super::*;

    static PAIRS: Rows = Rows::new("INSERT INTO a (b, c) {text, bigint} RETURNING b");
    static LISTS: Rows = Rows::new("DELETE FROM a WHERE b {$1 text} AND c {$2 bigint}");

    fn rows(count: i64) -> impl Iterator<Item = [Param; 2]> {
        (0..count).map(|row| [Param::Int(row), Param::Null])
    }

    #[test]
    fn values_of_a_statement_are_in_no_log() {
        let secret = || Param::from("hunter2");
        let all = [secret(), Param::from(b"hunter2".to_vec()), Param::Array(vec![secret()]), Param::Int(7)];
        assert_eq!(format!("{all:?}"), format!("[{}]", ["[redacted]"; 4].join(", ")));
    }

    #[test]
    fn rows_are_divided_among_few_texts_for_sqlite() {
        let pieces = PAIRS.statement(rows(87)).expect("there are rows").for_sqlite();
        assert_eq!(pieces.iter().map(|(_, params)| params.len()).collect::<Vec<_>>(), [128, 32, 8, 2, 2, 2]);
        assert_eq!(
            pieces[2].0,
            "INSERT INTO a (b, c) VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8) RETURNING b"
        );
        let first = |(_, params): &(&str, Vec<Param>)| match params[0] {
            Param::Int(number) => number,
            _ => -1,
        };
        assert_eq!(pieces.iter().map(first).collect::<Vec<_>>(), [0, 64, 80, 84, 85, 86]);
        let lists = LISTS.statement(rows(4)).expect("there are rows").for_sqlite();
        assert_eq!(lists[0].0, "DELETE FROM a WHERE b IN ($1, $3, $5, $7) AND c IN ($2, $4, $6, $8)");
        assert!(PAIRS.statement(rows(0)).is_none());
    }

    #[test]
    fn rows_are_an_array_for_each_column_for_postgresql() {
        let (sql, params) = PAIRS.statement(rows(3)).expect("there are rows").for_postgres();
        assert_eq!(sql, "INSERT INTO a (b, c) SELECT * FROM unnest($1::text[], $2::bigint[]) RETURNING b");
        let lengths = params.iter().map(|param| match param {
            Param::Array(values) => values.len(),
            _ => 0,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [3, 3]);
        let (sql, _) = LISTS.statement(rows(3)).expect("there are rows").for_postgres();
        assert_eq!(sql, "DELETE FROM a WHERE b = ANY ($1::text[]) AND c = ANY ($2::bigint[])");
    }

    #[test]
    fn id_of_an_event_that_no_header_could_carry_is_empty() {
        let read = |text: &str| {
            let row = Row::Sqlite(vec![rusqlite::types::Value::Text(text.to_owned())]);
            row.event_id(0).expect("a text")
        };
        let ours = "evt_01a1fc7f5a93abababababababababab";
        assert_eq!(read(ours), ours);
        for other in
            ["evt_x\nINJECTED", "evt_x\r\na: b", "evt \u{e9}", "a b", "\0", "\u{7f}", &"x".repeat(65)]
        {
            assert_eq!(read(other), "", "{other:?}");
        }
    }

    #[test]
    fn value_of_an_unknown_type_is_the_text_that_postgresql_reads() {
        let text = |param: Param| param.to_text().map(Cow::into_owned);
        assert_eq!(text(Param::Null), None);
        assert_eq!(text(Param::from(-5_i64)).as_deref(), Some("-5"));
        assert_eq!(text(Param::from(true)).as_deref(), Some("true"));
        assert_eq!(text(Param::from("it's \\")).as_deref(), Some("it's \\"));
        assert_eq!(text(Param::from(vec![0_u8, 0xab])).as_deref(), Some("\\x00ab"));
        let list = vec![Param::Null, 1_i64.into(), "a\"b\\,{".into(), vec![1_u8].into(), "null".into()];
        let expected = r#"{NULL,"1","a\"b\\,{","\\x01","null"}"#;
        assert_eq!(text(Param::Array(list)).as_deref(), Some(expected));
        assert_eq!(text(Param::Array(Vec::new())).as_deref(), Some("{}"));
    }

    #[test]
    fn search_numbers_the_values_of_each_condition_after_those_before() {
        let mut search = Search::new("SELECT a FROM b");
        search.and_some("c = $1", Some(1_i64));
        search.and_some("d = $1", None::<i64>);
        search.and("(e, f) < ($2, $1) AND g = $2", [2_i64.into(), 3_i64.into()]);
        let (sql, params) = search.end("LIMIT $1", [4_i64.into()]);
        assert_eq!(sql, "SELECT a FROM b WHERE TRUE AND c = $1 AND (e, f) < ($3, $2) AND g = $3 LIMIT $4");
        let numbers: Vec<i64> = params
            .iter()
            .map(|param| match param {
                Param::Int(number) => *number,
                _ => 0,
            })
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
    }
}
