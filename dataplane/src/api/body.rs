//! Reads request bodies within their limits, and small objects out of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use docket_domain::moment;
use docket_orders::field::Field;
use docket_orders::problem::Path;
use docket_orders::{Json, Problem, Problems};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;

use super::error::ApiError;

/// Sign-in bodies: an e-mail address, a password and a short code.
pub const SIGN_IN_LIMIT: usize = 4 * 1024;
/// Other bodies: an order with hundreds of documents and parties is far below.
pub const LIMIT: usize = 1024 * 1024;
/// A body that takes longer is given up.
const TIME: Duration = Duration::from_secs(20);

/// The bytes of a JSON body of at most `limit` bytes.
pub async fn json_bytes(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    check_content_type(&parts.headers)?;
    let announced =
        parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(ApiError::TooLarge(limit));
    }
    bytes(body, limit).await
}

async fn bytes(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match tokio::time::timeout(TIME, Limited::new(body, limit).collect()).await {
        Err(_) => Err(ApiError::RequestTimeout),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge(limit)),
        Ok(Err(_)) => Err(ApiError::BadRequest("The body did not arrive whole")),
    }
}

fn check_content_type(headers: &http::HeaderMap) -> Result<(), ApiError> {
    // Nothing is decompressed here: a bomb would have to be defused first.
    if headers.get_all(CONTENT_ENCODING).iter().any(|coding| coding.as_bytes() != b"identity") {
        return Err(ApiError::UnsupportedMediaType);
    }
    let mut sent = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return Err(ApiError::UnsupportedMediaType) };
    let text = value.to_str().map_err(|_| ApiError::UnsupportedMediaType)?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next() == Some("application/json");
    let is_utf8 =
        parts.filter_map(|part| part.strip_prefix("charset=")).all(|set| set.trim_matches('"') == "utf-8");
    if is_json && is_utf8 { Ok(()) } else { Err(ApiError::UnsupportedMediaType) }
}

/// An object whose fields are taken out one by one; what is left over is refused.
#[expect(missing_debug_implementations, reason = "may hold a password")]
pub struct Fields {
    object: BTreeMap<String, Json>,
    taken: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl Fields {
    /// Parses a body that must be an object.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match Json::parse(body) {
            Ok(Json::Object(object)) => Ok(Self { object, taken: Vec::new(), problems: Vec::new() }),
            Ok(_) => Err(problem("body", "must be an object")),
            Err(problem) => Err(ApiError::Invalid(problem.into())),
        }
    }

    /// A text of at most `max` characters, without NUL and other control characters. Absent and `null` are `None`.
    pub fn text(&mut self, name: &'static str, max: usize) -> Option<String> {
        self.taken.push(name);
        let message = match self.object.remove(name) {
            None | Some(Json::Null) => return None,
            Some(Json::String(text)) if text.is_empty() => "must not be empty".to_owned(),
            Some(Json::String(text)) if text.chars().count() > max => {
                format!("must have at most {max} characters")
            }
            Some(Json::String(text)) if text.chars().any(char::is_control) => {
                "must not hold control characters".to_owned()
            }
            Some(Json::String(text)) => return Some(text),
            Some(_) => "must be a string".to_owned(),
        };
        self.problem(name, message);
        None
    }

    /// Like [`text`](Self::text), and must be there.
    pub fn required_text(&mut self, name: &'static str, max: usize) -> String {
        let before = self.problems.len();
        let value = self.text(name, max);
        if value.is_none() && self.problems.len() == before {
            self.problem(name, "required".to_owned());
        }
        value.unwrap_or_default()
    }

    /// A field read by the rules of an order's fields, which must be there.
    pub fn required_field<T: Field>(&mut self, name: &'static str) -> Option<T> {
        let Some(json) = self.take(name) else {
            self.problem(name, "required".to_owned());
            return None;
        };
        let mut problems = Problems::default();
        let value = Path::root().key(name, |at| T::read(&json, at, &mut problems));
        self.problems.extend(problems);
        value
    }

    /// One of a few words, which must be there.
    pub fn required_word<T: FromStr, const N: usize>(
        &mut self,
        name: &'static str,
        words: [&'static str; N],
    ) -> Option<T> {
        let before = self.problems.len();
        let word = self.required_text(name, 64).parse().ok();
        if word.is_none() && self.problems.len() == before {
            self.problem(name, format!("must be one of {}", words.join(", ")));
        }
        word
    }

    /// Whether there is a field of this name, whatever it holds.
    pub fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// A whole number in this range. Absent and `null` are `None`.
    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let value = self.take(name)?;
        let number = match &value {
            // 10.0 is as whole as 10 (JSON Schema).
            Json::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.problem(name, format!("must be a whole number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// `true` or `false`. Absent and `null` are `None`.
    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        match self.take(name)? {
            Json::Bool(value) => return Some(value),
            _ => self.problem(name, "must be true or false".to_owned()),
        }
        None
    }

    /// A point in time, as [`moment::parse`] reads it, in milliseconds. Absent and `null` are `None`.
    pub fn time_ms(&mut self, name: &'static str) -> Option<i64> {
        let text = self.text(name, moment::MAX_CHARS)?;
        let time = moment::parse(&text);
        if time.is_none() {
            self.problem(name, moment::EXPECTED.to_owned());
        }
        time.map(Timestamp::as_millisecond)
    }

    fn take(&mut self, name: &'static str) -> Option<Json> {
        self.taken.push(name);
        self.object.remove(name).filter(|value| *value != Json::Null)
    }

    /// Notes one more thing that is wrong with a field.
    pub fn problem(&mut self, name: &str, message: String) {
        self.problems.push(Problem { field: name.to_owned(), message });
    }

    /// Refuses what was not taken, and all that was wrong.
    pub fn finish(mut self) -> Result<(), ApiError> {
        for name in self.object.keys() {
            let message = format!("unknown field; this object takes: {}", self.taken.join(", "));
            // A misplaced value can end up as a key; the path shows only what looks like a field's name.
            let field = Path::root().key(name, |at| at.to_string());
            self.problems.push(Problem { field, message });
        }
        to_result(self.problems)
    }
}

fn whole(number: f64) -> Option<i64> {
    // Beyond 2^53 not every number is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// `Ok` if nothing is wrong.
pub fn to_result(problems: Vec<Problem>) -> Result<(), ApiError> {
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems.into_iter().collect())) }
}

/// One field that is wrong.
pub fn problem(field: &str, message: &str) -> ApiError {
    let problem = Problem { field: field.to_owned(), message: message.to_owned() };
    ApiError::Invalid(Problems::from(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_field_is_read_or_named() {
        let body =
            br#"{"a": 10.0, "b": 11, "c": true, "d": "true", "e": "2026-11-21", "f": "soon", "g": null}"#;
        let mut fields = Fields::parse(body).expect("an object");
        assert_eq!((fields.integer("a", 1..=10), fields.integer("b", 1..=10)), (Some(10), None));
        assert_eq!((fields.boolean("c"), fields.boolean("d")), (Some(true), None));
        assert_eq!((fields.time_ms("e"), fields.time_ms("f")), (Some(1_795_219_200_000), None));
        assert_eq!((fields.has("g"), fields.integer("g", 1..=10), fields.boolean("h")), (true, None, None));
        let Err(ApiError::Invalid(problems)) = fields.finish() else { panic!("refused") };
        assert_eq!(
            problems.iter().map(|problem| problem.field.as_str()).collect::<Vec<_>>(),
            ["b", "d", "f"]
        );
    }
}
