//! Points in time, in requests and in responses.

use docket_domain::moment;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};

use super::fields::{Kind, RequestPart, SentValue};

/// A date, which stands for its first moment in UTC, or a time with an offset.
#[derive(Debug)]
pub struct DateOrTime;

impl Kind for DateOrTime {
    type Value = Timestamp;

    fn read(sent: SentValue) -> Result<Timestamp, String> {
        moment::read(&sent.text(moment::MAX_CHARS)?)
    }

    /// A text with a pattern. Few generators can put a choice between two formats into a query string.
    fn schema(_: RequestPart) -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(moment::MAX_CHARS));
        let text = text.format(Some(SchemaFormat::Custom("date-or-time".to_owned())));
        text.pattern(Some(moment::PATTERN)).examples(["2026-11-01", "2026-11-01T09:30:00-08:00"]).into()
    }
}

/// A time of a response, written by [`moment::written`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&moment::written(self.0))
    }
}

/// Makes the time of a response from a stored time in milliseconds.
pub fn time(ms: i64) -> Time {
    Time(timestamp(ms))
}

/// Makes a timestamp from a stored time in milliseconds.
pub fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_another_program_stored_ends_no_response() {
        assert_eq!(timestamp(1_500).as_millisecond(), 1_500);
        assert_eq!([i64::MIN, i64::MAX].map(timestamp), [Timestamp::UNIX_EPOCH; 2]);
        let written = serde_json::to_value(time(1_500)).expect("a text");
        assert_eq!(written, "1970-01-01T00:00:01.500Z");
    }
}
