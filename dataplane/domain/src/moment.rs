//! A point in time as clients and the command line write it.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;

/// The longest text that is parsed, in characters.
pub const MAX_CHARS: usize = 64;
/// What [`parse`] accepts, for error messages.
const EXPECTED: &str = "must be a date (2026-11-21) or a time with an offset (2026-11-21T09:30:00Z)";

/// Like [`parse`], with an error message for a text that is refused. The message mentions that a `+` in a query string arrives as a
/// blank, unless the client writes `%2B`.
pub fn read(text: &str) -> Result<Timestamp, String> {
    let with_plus = || text.rsplit_once(' ').map(|(time, offset)| format!("{time}+{offset}"));
    parse(text).ok_or_else(|| match with_plus().and_then(|with_plus| parse(&with_plus)) {
        Some(_) => format!("{EXPECTED}; there is a blank before the offset: in a URL, write + as %2B"),
        None => EXPECTED.to_owned(),
    })
}

/// A point in time as clients get it: in UTC, always with three digits of the second. All these texts have one length
/// and one form, so the order of the texts is the order of the times.
pub fn written(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Parses a date or a time with an offset. A date means its first moment in UTC. A time beyond the range of
/// [`Timestamp`], such as the last day of the year 9999, becomes the nearest one in range: no order is that far away.
pub fn parse(text: &str) -> Option<Timestamp> {
    let pieces = has_form(text).then(|| Pieces::parse(text).ok())??;
    let (date_time, offset) = match (pieces.time(), pieces.to_numeric_offset()) {
        (Some(time), Some(offset)) => (pieces.date().to_datetime(time), offset),
        _ => (pieces.date().at(0, 0, 0, 0), jiff::tz::Offset::UTC),
    };
    let nearest = if pieces.date().year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
    Some(offset.to_timestamp(date_time).unwrap_or(nearest))
}

/// The form of texts that [`parse`] accepts, as a regular expression (ECMA-262).
pub const PATTERN: &str = concat!(
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}",
    r"([Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$"
);

/// Whether a text fits [`PATTERN`]. jiff alone would also accept other forms of ISO 8601, and a leap second.
fn has_form(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(time) = shape.strip_prefix("0000-00-00") else { return false };
    if time.is_empty() {
        return true;
    }
    let Some(rest) = time.strip_prefix(['T', 't']).and_then(|rest| rest.strip_prefix("00:00")) else {
        return false;
    };
    let second = rest.strip_prefix(":00");
    let mut offset = second.unwrap_or(rest);
    if let (Some(_), Some(fraction)) = (second, offset.strip_prefix('.')) {
        offset = fraction.trim_start_matches('0');
        if !(1..=9).contains(&(fraction.len() - offset.len())) {
            return false;
        }
    }
    // The text is ASCII up to the offset, so positions are the same in `shape` and in `text`.
    let offset_at = text.len() - offset.len();
    let second_exists = second.is_none() || text.get(17..18).is_some_and(|tens| tens < "6");
    let offset_exists = match offset {
        "Z" | "z" => true,
        "+00:00" | "-00:00" => {
            text.get(offset_at + 1..).is_some_and(|offset| offset < "24" && offset[3..4] < *"6")
        }
        _ => false,
    };
    second_exists && offset_exists
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
        assert_eq!(seconds("1970-01-01T00:01-00:00"), Some(60));
        assert_eq!(seconds("1970-01-01T23:59:59.123456789+23:59"), Some(59));
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
            "2026-11-21T24:00:00Z",
            "2026-11-21T09:60:00Z",
            "2026-11-21T09:30:60Z",
            "2026-11-21T09Z",
            "2026-11-21 09:30:00Z",
            "2026-11-21T09:30:00,5Z",
            "2026-11-21T09:30:00.Z",
            "2026-11-21T09:30:00.1234567890Z",
            "2026-11-21T09:30.5Z",
            "2026-11-21T0930Z",
            "2026-11-21T09:30:00+0000",
            "2026-11-21T09:30:00+00",
            "2026-11-21T09:30:00+24:00",
            "2026-11-21T09:30:00+02:60",
            "2026-11-21T09:30:00+02:00:30",
            "2026-11-21T09:30:00-08:00[America/Los_Angeles]",
            "2026-11-21T09:30:00Z[UTC]",
            "+002026-11-21",
            "-000001-11-21T09:30:00Z",
            "2026-W47-6",
            "2026-11-21T09:30:00\u{2212}08:00",
            "2026-11-21T09:30:00Zé",
            "2026-11-2١",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn blank_for_a_plus_is_named() {
        for time in ["2026-11-21T09:30:00 00:00", "2026-11-21T09:30:00.5 05:30", "2026-11-21T09:30 02:00"] {
            assert!(read(time).is_err_and(|why| why.contains("write + as %2B")), "{time}");
        }
        for other in [
            "2026-11-21 09:30:00",
            "x y",
            "2026-11-21T09:30:00",
            " ",
            "2026-11-21 00:00",
            "2026-11-21T09:30 0200",
        ] {
            assert_eq!(read(other), Err(EXPECTED.to_owned()), "{other}");
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
