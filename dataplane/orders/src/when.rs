//! Dates and times as the client sends them. Nothing here reads a clock or converts a time zone.

use jiff::{ToSpan, civil};
use serde::Serialize;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};

/// A day of the calendar, `YYYY-MM-DD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Date(civil::Date);

impl Date {
    /// The day.
    pub fn get(self) -> civil::Date {
        self.0
    }
}

/// A date and time, ISO 8601 (RFC 3339) with seconds and offset: `2026-12-04T15:30:00-08:00`. Stored as text, because
/// the offset shows which day the sender meant. Fractions of a second are stored but not compared.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DateTime {
    text: String,
    #[serde(skip)]
    day: civil::Date,
    #[serde(skip)]
    seconds: i64,
}

impl DateTime {
    /// The text as it was sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The day that the sender means. An offset of the Americas comes from a place, so the day is the day at that
    /// place. Any other offset comes from a computer that converted the time. Then the day is the earliest day that
    /// it is anywhere in the United States at that moment.
    pub fn day(&self) -> Date {
        Date(self.day)
    }

    /// Seconds since 1970 UTC.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }
}

/// A time of day, `HH:MM`, local to the court.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LocalTime(String);

impl LocalTime {
    /// The text as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

redacted!(Date, DateTime, LocalTime);

impl Field for Date {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let date = text(json).and_then(parse_date);
        if date.is_none() {
            problems.push(at, "must be a calendar date, YYYY-MM-DD");
        }
        date.map(Self)
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let date = ObjectBuilder::new().schema_type(Type::String);
        date.format(Some(SchemaFormat::KnownFormat(KnownFormat::Date))).into()
    }
}

/// The longest date and time, in bytes: room for a finer fraction of a second than any clock has.
const MAX_DATE_TIME: usize = 64;

impl Field for DateTime {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let moment = text(json).filter(|text| text.len() <= MAX_DATE_TIME).and_then(parse_date_time);
        if moment.is_none() {
            problems.push(at, "must be a date and time with offset, such as 2026-12-04T15:30:00-08:00");
        }
        moment
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let moment = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_DATE_TIME));
        moment.format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).into()
    }
}

impl Field for LocalTime {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let time = text(json).filter(|text| text.len() == 5 && parse_minutes(text).is_some());
        if time.is_none() {
            problems.push(at, "must be a time of day, HH:MM");
        }
        time.map(|text| Self(text.to_owned()))
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let time = ObjectBuilder::new().schema_type(Type::String);
        time.pattern(Some("^([01][0-9]|2[0-3]):[0-5][0-9]$")).into()
    }
}

/// Reports a start that is after its end. The problem is at the field of the start.
pub(crate) fn in_order<T: PartialOrd>(
    from: Option<T>,
    (name, until): (&str, &str),
    to: Option<T>,
    at: &mut Path,
    problems: &mut Problems,
) {
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        at.key(name, |at| problems.push(at, format!("must not be after {until}")));
    }
}

fn text<'a>(json: &'a Json<'_>) -> Option<&'a str> {
    match json {
        Json::String(text) => Some(text),
        _ => None,
    }
}

/// Parses two digits at the start of `text` as a number of at most `max`.
fn two_digits(text: &str, max: i64) -> Option<i64> {
    let digits = text.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|value| *value <= max)
}

/// Parses exactly YYYY-MM-DD. jiff alone would also accept other ISO formats.
fn parse_date(text: &str) -> Option<civil::Date> {
    let form = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    if form { text.parse().ok() } else { None }
}

/// Parses HH:MM at the start of `text` into minutes.
fn parse_minutes(text: &str) -> Option<i64> {
    let hours = two_digits(text, 23)?;
    let minutes = two_digits(text.get(2..)?.strip_prefix(':')?, 59)?;
    Some(hours * 60 + minutes)
}

fn parse_date_time(text: &str) -> Option<DateTime> {
    let date = parse_date(text.get(..10)?)?;
    let time = text.get(10..)?.strip_prefix(['T', 't'])?;
    let minutes = parse_minutes(time)?;
    let seconds = two_digits(time.get(5..)?.strip_prefix(':')?, 59)?;
    let mut rest = time.get(8..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == fraction.len() {
            return None;
        }
    }
    let offset = parse_offset(rest)?;
    let epoch = civil::date(1970, 1, 1);
    let days = date.duration_since(epoch).as_hours() / 24;
    let seconds = days * 86_400 + minutes * 60 + seconds - offset * 60;
    let day = match offset > EASTERNMOST {
        true => epoch.checked_add((seconds + WESTERNMOST * 60).div_euclid(86_400).days()).ok()?,
        false => date,
    };
    Some(DateTime { text: text.to_owned(), day, seconds })
}

/// The offsets in minutes at which a day ends first and last in the United States: Puerto Rico's (and New York's in
/// summer), and American Samoa's.
const EASTERNMOST: i64 = -4 * 60;
const WESTERNMOST: i64 = -11 * 60;

/// Parses an offset (`Z`, `+HH:MM`, `-HH:MM`) into minutes east of UTC.
fn parse_offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let offset = text.get(1..).filter(|offset| offset.len() == 5)?;
    Some(sign * parse_minutes(offset)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Field>(text: &str) -> Option<T> {
        let mut problems = Problems::default();
        let value = T::read(&Json::String(text.into()), &mut Path::root(), &mut problems);
        assert_eq!(value.is_some(), problems.is_empty());
        assert!(!problems.to_string().contains(text) || text.is_empty());
        value
    }

    #[test]
    fn date_must_exist_in_the_calendar() {
        assert!(read::<Date>("2028-02-29").is_some());
        for text in
            ["2026-02-29", "2026-13-01", "2026-1-1", "20260101", "2026-01-01T00:00:00Z", "", "2026-01-0١"]
        {
            assert!(read::<Date>(text).is_none(), "{text}");
        }
    }

    #[test]
    fn date_time_needs_seconds_and_offset() {
        for text in
            ["2026-12-04T15:30:00-08:00", "2026-12-04t23:30:00.123456789012345z", "0001-01-01T00:00:00+23:59"]
        {
            assert!(read::<DateTime>(text).is_some(), "{text}");
        }
        for text in [
            "2026-12-05",
            "2026-12-05T15:30:00",
            "2026-12-04T15:30-08:00",
            "2026-12-04T24:00:00Z",
            "2026-12-04T15:30:60Z",
            "2026-02-30T15:30:00Z",
            "2026-12-04T15:30:00.Z",
            "2026-12-04T15:30:00-0800",
            "2026-12-04T15:30:00é",
        ] {
            assert!(read::<DateTime>(text).is_none(), "{text}");
        }
    }

    #[test]
    fn date_times_compare_across_offsets_and_keep_their_text() {
        let here = read::<DateTime>("2026-12-04T15:30:00-08:00").unwrap();
        let there = read::<DateTime>("2026-12-04T23:30:00Z").unwrap();
        assert_eq!(here.seconds(), there.seconds());
        assert_eq!(there.seconds(), 1_796_427_000);
        assert_eq!(serde_json::to_string(&here).unwrap(), "\"2026-12-04T15:30:00-08:00\"");
    }

    #[test]
    fn day_is_that_of_the_place_and_not_of_the_computer() {
        for (text, day) in [
            ("2026-12-18T17:00:00-08:00", "2026-12-18"),
            ("2026-12-19T00:30:00-08:00", "2026-12-19"),
            ("2026-12-19T00:30:00-04:00", "2026-12-19"),
            ("2026-12-19T01:00:00.000Z", "2026-12-18"),
            ("2026-12-19T01:00:00+00:00", "2026-12-18"),
            ("2026-12-19T06:30:00+05:30", "2026-12-18"),
            ("2026-12-19T10:59:59z", "2026-12-18"),
            ("2026-12-19T11:00:00Z", "2026-12-19"),
            ("0001-01-01T00:00:00+23:59", "0000-12-30"),
        ] {
            assert_eq!(read::<DateTime>(text).unwrap().day().get().to_string(), day, "{text}");
        }
    }

    #[test]
    fn local_time_needs_hours_and_minutes() {
        assert!(read::<LocalTime>("08:30").is_some());
        for text in ["8:30", "24:00", "08:60", "08:30:00", "0830"] {
            assert!(read::<LocalTime>(text).is_none(), "{text}");
        }
    }
}
