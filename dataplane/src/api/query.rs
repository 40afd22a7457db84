//! Reads query strings: each parameter at most once, none that the route does not know.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use docket_domain::moment;
use docket_orders::Problem;
use docket_orders::problem::Path;
use jiff::Timestamp;
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::body::to_result;
use super::error::ApiError;

/// The default and the largest `pageSize`.
const DEFAULT_PAGE_SIZE: i64 = 25;
/// See [`DEFAULT_PAGE_SIZE`].
const MAX_PAGE_SIZE: i64 = 100;
/// Characters of a cursor.
const MAX_CURSOR: usize = 1024;

/// What [`Query::time_ms`] reads. For documentation.
#[derive(Debug)]
pub struct DateOrTime;

impl PartialSchema for DateOrTime {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let date = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)));
        let time = text()
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .max_length(Some(moment::MAX_CHARS));
        AnyOfBuilder::new().item(date).item(time).examples(["2026-11-01", "2026-11-01T09:30:00-08:00"]).into()
    }
}

impl ToSchema for DateOrTime {}

/// What [`Query::cursor`] reads. For documentation.
#[derive(Debug)]
pub struct Cursor;

impl PartialSchema for Cursor {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_CURSOR));
        // A format of our own, since no pattern says what is a cursor: only one that was given is.
        let text = text.format(Some(SchemaFormat::Custom("docket-cursor".to_owned())));
        text.description(Some("The nextCursor of an answer, unchanged.")).into()
    }
}

impl ToSchema for Cursor {}

/// The parameters of a request, taken out one by one; what is left over is refused.
#[expect(missing_debug_implementations, reason = "search texts are names")]
pub struct Query {
    values: BTreeMap<String, String>,
    taken: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl Query {
    /// From the raw query string.
    pub fn parse(raw: Option<&str>) -> Self {
        let mut query = Self { values: BTreeMap::new(), taken: Vec::new(), problems: Vec::new() };
        for (name, value) in url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            // The parser puts U+FFFD where the bytes were no UTF-8.
            if value.contains('\u{fffd}') || value.chars().any(char::is_control) {
                query.problem(&name, "must be UTF-8 text without control characters");
            } else if query.values.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                query.problem(&name, "must be given once");
            }
        }
        query
    }

    fn problem(&mut self, field: &str, message: &str) {
        // A misplaced value can end up as a name; the path shows only what looks like one.
        let field = Path::root().key(field, |at| at.to_string());
        self.problems.push(Problem { field, message: message.to_owned() });
    }

    /// A text of 1 to `max` characters.
    pub fn text(&mut self, name: &'static str, max: usize) -> Option<String> {
        self.taken.push(name);
        let value = self.values.remove(name)?;
        if (1..=max).contains(&value.chars().count()) {
            return Some(value);
        }
        self.problem(name, &format!("must have 1 to {max} characters"));
        None
    }

    /// Like [`text`](Self::text), and must be there.
    pub fn required_text(&mut self, name: &'static str, max: usize) -> String {
        let before = self.problems.len();
        let value = self.text(name, max);
        if value.is_none() && self.problems.len() == before {
            self.problem(name, "required");
        }
        value.unwrap_or_default()
    }

    /// One of a few words.
    pub fn word<T: FromStr>(
        &mut self,
        name: &'static str,
        words: impl Iterator<Item = &'static str>,
    ) -> Option<T> {
        let text = self.text(name, 64)?;
        let word = text.parse().ok();
        if word.is_none() {
            self.problem(name, &format!("must be one of {}", words.collect::<Vec<_>>().join(", ")));
        }
        word
    }

    /// A whole number within these bounds.
    pub fn integer(&mut self, name: &'static str, bounds: RangeInclusive<i64>) -> Option<i64> {
        let text = self.text(name, 20)?;
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        if number.is_none() {
            let message = format!("must be a whole number from {} to {}", bounds.start(), bounds.end());
            self.problem(name, &message);
        }
        number
    }

    /// A point in time: ISO 8601 with an offset, or a date, which is its first moment in UTC. In milliseconds.
    pub fn time_ms(&mut self, name: &'static str) -> Option<i64> {
        let text = self.text(name, moment::MAX_CHARS)?;
        let time = moment::parse(&text);
        if time.is_none() {
            self.problem(name, moment::EXPECTED);
        }
        time.map(Timestamp::as_millisecond)
    }

    /// `pageSize`, from 1 to 100; 25 if it is not given.
    pub fn page_size(&mut self) -> i64 {
        self.integer("pageSize", 1..=MAX_PAGE_SIZE).unwrap_or(DEFAULT_PAGE_SIZE)
    }

    /// `cursor`: the `nextCursor` of the page before.
    pub fn cursor(&mut self) -> Option<(i64, String)> {
        self.cursor_of(|at_ms, id| Some((at_ms, id.to_owned())))
    }

    /// Like [`cursor`](Self::cursor), where the place in the list is more than a time and an id.
    pub fn cursor_of<T>(&mut self, place: impl FnOnce(i64, &str) -> Option<T>) -> Option<T> {
        let text = self.text("cursor", MAX_CURSOR)?;
        let cursor = decode_cursor(&text).and_then(|(at_ms, id)| place(at_ms, &id));
        if cursor.is_none() {
            self.problem("cursor", "must be the nextCursor of an answer");
        }
        cursor
    }

    /// Refuses what was not taken, and all that was wrong.
    pub fn finish(mut self) -> Result<(), ApiError> {
        let message = match self.taken.is_empty() {
            true => "unknown parameter; this route takes none".to_owned(),
            false => format!("unknown parameter; this route takes: {}", self.taken.join(", ")),
        };
        for name in std::mem::take(&mut self.values).into_keys() {
            self.problem(&name, &message);
        }
        to_result(self.problems)
    }
}

/// The items of one page of a search that was asked for one more, and the cursor of the next page if there is one.
/// `place_of` tells where an item stands in the order of the search.
pub fn page<T>(
    mut items: Vec<T>,
    page_size: i64,
    place_of: impl FnOnce(&T) -> (i64, String),
) -> (Vec<T>, Option<String>) {
    let size = usize::try_from(page_size).unwrap_or(usize::MAX);
    let more = items.len() > size;
    items.truncate(size);
    let place = items.last().filter(|_| more).map(place_of);
    (items, place.map(|(at_ms, id)| encode_cursor(at_ms, &id)))
}

/// A stored time, for an answer.
pub fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A place in a list, opaque to clients.
fn encode_cursor(at_ms: i64, id: &str) -> String {
    hex::encode(format!("{at_ms}.{id}"))
}

fn decode_cursor(text: &str) -> Option<(i64, String)> {
    let plain = String::from_utf8(hex::decode(text).ok()?).ok()?;
    let (at_ms, id) = plain.split_once('.')?;
    let sound = !id.is_empty() && !id.contains('\0');
    Some((at_ms.parse().ok()?, id.to_owned())).filter(|_| sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back() {
        assert_eq!(decode_cursor(&encode_cursor(5, "W1")), Some((5, "W1".into())));
        for noise in ["", "zz", "00", &hex::encode("5"), &hex::encode("x.W1"), &hex::encode("5.W\0")] {
            assert_eq!(decode_cursor(noise), None, "{noise}");
        }
    }

    #[test]
    fn everything_wrong_is_named() {
        let mut query = Query::parse(Some("a=1&a=2&b=%ff&pageSize=0&cursor=x&from=yesterday&other=%00"));
        let _ = (
            query.text("a", 9),
            query.text("b", 9),
            query.page_size(),
            query.cursor(),
            query.time_ms("from"),
        );
        let Err(ApiError::Invalid(problems)) = query.finish() else { panic!("refused") };
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["a", "b", "other", "pageSize", "cursor", "from"]);
    }

    #[test]
    fn times_are_dates_or_timestamps() {
        let mut query =
            Query::parse(Some("a=1970-01-02&b=1970-01-01T01:00:00%2B01:00&c=1970-01-01t00:00:01z"));
        assert_eq!((query.time_ms("a"), query.time_ms("b")), (Some(86_400_000), Some(0)));
        assert_eq!(query.time_ms("c"), Some(1_000));
        assert!(query.finish().is_ok());
    }
}
