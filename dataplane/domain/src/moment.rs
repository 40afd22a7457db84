//! A point in time as clients and the command line write it.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;

/// The longest text that is parsed, in characters.
pub const MAX_CHARS: usize = 64;
/// What a text that [`parse`] refuses must be.
const EXPECTED: &str = "must be a date (2026-11-21) or a time with an offset (2026-11-21T09:30:00Z)";

/// What to say of a text that [`parse`] refuses. A `+` in a query string that is not written as `%2B` arrives as a blank.
pub fn expected(text: &str) -> String {
    let with_plus = text.rsplit_once(' ').map(|(time, offset)| format!("{time}+{offset}"));
    match with_plus.and_then(|with_plus| parse(&with_plus)) {
        Some(_) => format!("{EXPECTED}; there is a blank before the offset: in a URL, write + as %2B"),
        None => EXPECTED.to_owned(),
    }
}

/// A point in time as clients get it: in UTC, always with three digits of the second. So all are of one length and one form, and
/// the order of the texts is that of the times.
pub fn written(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Parses a date, which is its first moment in UTC, or a time with an offset. A time beyond what a [`Timestamp`] holds,
/// such as the last day of the year 9999, becomes the nearest one: no order is that far away.
pub fn parse(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let (date_time, offset) = match (pieces.time(), pieces.to_numeric_offset()) {
        (Some(time), Some(offset)) => (pieces.date().to_datetime(time), offset),
        (None, None) if text.len() == "2026-11-21".len() => {
            (pieces.date().at(0, 0, 0, 0), jiff::tz::Offset::UTC)
        }
        _ => return None,
    };
    let nearest = if pieces.date().year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
    Some(offset.to_timestamp(date_time).unwrap_or(nearest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_with_an_offset_are_parsed() {
        let seconds = |text| parse(text).map(Timestamp::as_second);
        assert_eq!(seconds("1970-01-02"), Some(86_400));
        assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(seconds("1970-01-01t00:00:01z"), Some(1));
    }

    #[test]
    fn written_time_has_three_digits_of_the_second() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_100, "2023-11-14T22:13:20.100Z"),
            (1_700_000_000_120, "2023-11-14T22:13:20.120Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        ] {
            assert_eq!(written(Timestamp::from_millisecond(ms).expect("a timestamp")), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "2026-02-30",
            "2026-11-21T09:30:00",
            "09:30:00Z",
            "2026-11-21Z",
            "20261121",
            "x",
            "2026-11-21T25:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn blank_for_a_plus_is_named() {
        for time in ["2026-11-21T09:30:00 00:00", "2026-11-21T09:30:00.5 05:30", "2026-11-21T09:30 0200"] {
            assert!(parse(time).is_none() && expected(time).contains("write + as %2B"), "{time}");
        }
        for other in ["2026-11-21 09:30:00", "x y", "2026-11-21T09:30:00", " ", "2026-11-21 00:00"] {
            assert_eq!(expected(other), EXPECTED, "{other}");
        }
    }

    #[test]
    fn times_out_of_range_become_the_nearest_timestamp() {
        for far in ["9999-12-31", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999Z"] {
            assert_eq!(parse(far), Some(Timestamp::MAX), "{far}");
        }
        assert!(parse("0000-01-01").is_some_and(|time| time < Timestamp::UNIX_EPOCH));
    }
}
