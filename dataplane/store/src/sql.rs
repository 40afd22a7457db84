//! The values and rows of a statement, the same for both databases.

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

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
    /// BYTEA.
    Bytes(Vec<u8>),
}

/// Values are customers' data.
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
    Vec<u8> => |value| Self::Bytes(value),
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

/// Ids in one `IN (…)`: statements have a fixed text, so that a connection prepares them once.
pub(super) const SLOTS: usize = 25;

/// `$first, …` for [`SLOTS`] values.
pub(super) fn slots(first: usize) -> String {
    (first..first + SLOTS).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// The values, and NULL (which matches nothing) for the slots that are left.
pub(super) fn filled(values: impl Iterator<Item = Param>) -> Vec<Param> {
    values.chain(std::iter::repeat(Param::Null)).take(SLOTS).collect()
}

/// A SELECT whose conditions depend on what is asked for.
pub(super) struct Search {
    sql: String,
    params: Vec<Param>,
}

impl Search {
    /// `select` ends before its WHERE.
    pub(super) fn new(select: &str) -> Self {
        Self { sql: format!("{select} WHERE TRUE"), params: Vec::new() }
    }

    /// Adds a condition whose own values are `$1`, `$2`, …
    pub(super) fn and<const N: usize>(&mut self, condition: &str, values: [Param; N]) {
        self.sql.push_str(" AND ");
        self.push(condition, values);
    }

    /// Adds a condition about `$1`, if there is a value.
    pub(super) fn and_some(&mut self, condition: &str, value: Option<impl Into<Param>>) {
        if let Some(value) = value {
            self.and(condition, [value.into()]);
        }
    }

    /// Adds what follows the conditions, with its own values, and returns the statement with all values.
    pub(super) fn end<const N: usize>(mut self, rest: &str, values: [Param; N]) -> (String, Vec<Param>) {
        self.sql.push(' ');
        self.push(rest, values);
        (self.sql, self.params)
    }

    /// Numbers the values of `text` after those that are there.
    fn push<const N: usize>(&mut self, text: &str, values: [Param; N]) {
        let before = self.params.len();
        let mut pieces = text.split('$');
        self.sql.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            let (number, rest) = piece.split_at(digits);
            let number: usize = number.parse().expect("a condition names its values $1, $2, …");
            debug_assert!((1..=N).contains(&number), "{text}");
            self.sql.push_str(&format!("${}{rest}", before + number));
        }
        self.params.extend(values);
    }
}

/// The pattern of a LIKE … ESCAPE '\\' that finds `text` anywhere.
pub(super) fn containing(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

impl ToSql for Param {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql(ty, out),
            Self::Bool(value) => value.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Bytes(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Bool(value) => value.to_sql_checked(ty, out),
            Self::Text(value) => value.to_sql_checked(ty, out),
            Self::Bytes(value) => value.to_sql_checked(ty, out),
        }
    }
}

impl From<Param> for rusqlite::types::Value {
    fn from(param: Param) -> Self {
        match param {
            Param::Null => Self::Null,
            Param::Int(value) => Self::Integer(value),
            Param::Bool(value) => Self::Integer(i64::from(value)),
            Param::Text(value) => Self::Text(value),
            Param::Bytes(value) => Self::Blob(value),
        }
    }
}

/// One row of a result.
pub enum Row {
    /// From SQLite.
    Sqlite(Vec<rusqlite::types::Value>),
    /// From PostgreSQL.
    Postgres(tokio_postgres::Row),
}

impl Row {
    /// The column at `index`, from 0. Another type than the schema's is an internal error.
    pub fn get<T: Column>(&self, index: usize) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(values) => values
                .get(index)
                .and_then(T::from_sqlite)
                .ok_or(StoreError::Unexpected("a column has another type")),
            Self::Postgres(row) => T::from_postgres(row, index).map_err(StoreError::from),
        }
    }

    /// The text at `index`, parsed into one of our words.
    pub fn parsed<T: std::str::FromStr>(&self, index: usize) -> Result<T, StoreError> {
        self.get::<String>(index)?.parse().map_err(|_| StoreError::Unexpected("a stored word is unknown"))
    }
}

/// A type that a column can be read as.
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
