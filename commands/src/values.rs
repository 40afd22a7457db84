//! Parsers of single values. An error says what is accepted.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use docket_crds::{EventCode, UnknownWord};
use docket_domain::audit::AuditEvent;
use docket_domain::delivery::{DeadLetter, DeliveryId, DeliveryKind, FailureClass, Status};
use docket_program::arguments;

/// One of the four statuses.
pub(crate) fn status() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::WORDS).map(|word| word.parse::<Status>().expect("one of the words"))
}

/// A failure class.
pub(crate) fn failure_class() -> impl TypedValueParser<Value = FailureClass> {
    PossibleValuesParser::new(FailureClass::WORDS)
        .map(|word| word.parse::<FailureClass>().expect("one of the words"))
}

/// The code of an event.
pub(crate) fn event_code() -> impl TypedValueParser<Value = EventCode> {
    PossibleValuesParser::new(EventCode::WORDS)
        .map(|word| word.parse::<EventCode>().expect("one of the words"))
}

/// What became of a dead letter. The command line writes `set-aside` for `setAside`.
pub(crate) fn dead_letter() -> impl TypedValueParser<Value = DeadLetter> {
    PossibleValuesParser::new(["open", "resent", "set-aside"]).map(|word| match word.as_str() {
        "resent" => DeadLetter::Resent,
        "set-aside" => DeadLetter::SetAside,
        _ => DeadLetter::Open,
    })
}

/// Why there is a delivery.
pub(crate) fn kind() -> impl TypedValueParser<Value = DeliveryKind> {
    PossibleValuesParser::new(DeliveryKind::WORDS)
        .map(|word| word.parse::<DeliveryKind>().expect("one of the words"))
}

/// A customer's code.
pub(crate) fn code(text: &str) -> Result<String, String> {
    line(text, 64)
}

/// A number or an id of something that deliveries are about.
pub(crate) fn find(text: &str) -> Result<String, String> {
    line(text, 80)
}

/// A text of 1 to `max` characters without control characters.
fn line(text: &str, max: usize) -> Result<String, String> {
    let is_line = (1..=max).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    let wrong = || format!("must have 1 to {max} characters and no control characters");
    is_line.then(|| text.to_owned()).ok_or_else(wrong)
}

/// The id of a delivery, in upper or lower case.
pub fn delivery_id(text: &str) -> Result<DeliveryId, String> {
    text.parse().map_err(|_| "must be the id of a delivery, as `deliveries list` shows it".into())
}

/// The id of a bulk resend.
pub(crate) fn resend_id(text: &str) -> Result<String, String> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id
        .then(|| text.to_lowercase())
        .ok_or_else(|| "must be the id of a bulk resend: 32 hexadecimal digits".into())
}

/// An event of the audit.
pub(crate) fn audit_event(text: &str) -> Result<AuditEvent, String> {
    text.parse().map_err(|unknown: UnknownWord| unknown.to_string())
}

/// A duration from a second to a year.
pub(crate) fn since(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
    let duration = arguments::duration(text).filter(|duration| limits.contains(duration));
    duration.ok_or_else(|| "must be a number and a unit, such as 30m or 24h, from 1s to a year".into())
}

/// The largest number of rows.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1_000).contains(count));
    count.ok_or_else(|| "must be a whole number from 1 to 1000".into())
}

/// Deliveries per second, with or without `/s`.
pub(crate) fn per_second(text: &str) -> Result<i64, String> {
    let count =
        text.strip_suffix("/s").unwrap_or(text).parse().ok().filter(|count| (1..=100).contains(count));
    count.ok_or_else(|| "must be a whole number from 1 to 100, such as 10".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_limits_and_ages_have_bounds() {
        assert_eq!((per_second("10/s"), per_second("100")), (Ok(10), Ok(100)));
        assert!(["0/s", "101/s", "10/m", ""].into_iter().all(|wrong| per_second(wrong).is_err()));
        assert_eq!(limit("1000"), Ok(1000));
        assert!(limit("0").is_err() && limit("1001").is_err());
        assert_eq!(since("24h"), Ok(Duration::from_secs(24 * 3600)));
        assert!(since("0s").is_err() && since("2").is_err());
    }

    #[test]
    fn texts_and_ages_are_bounded_and_ids_are_in_lower_case() {
        let is_bounded = |read: fn(&str) -> Result<String, String>, most: usize| {
            assert!(read(&"é".repeat(most)).is_ok() && read(&"é".repeat(most + 1)).is_err(), "{most}");
            assert!(read("").is_err() && read("a\tb").is_err());
        };
        is_bounded(code, 64);
        is_bounded(find, 80);
        let id = "0F9D2C5B7A3E4D6C8B1A0F9E8D7C6B5A";
        assert_eq!(resend_id(id), Ok(id.to_lowercase()));
        assert!(resend_id(&id[1..]).is_err() && resend_id(&id.replace('F', "G")).is_err());
        assert_eq!((since("1s"), since("366d").is_ok()), (Ok(Duration::from_secs(1)), true));
        assert!(since("999ms").is_err() && since("367d").is_err());
        assert_eq!((per_second("1"), limit("1")), (Ok(1), Ok(1)));
    }
}
