//! Reads the named fields of a JSON object or a query string, and collects everything wrong with them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use docket_domain::moment;
use docket_orders::field::{is_almost, unknown};
use docket_orders::problem::Path;
use docket_orders::{Json, Problems};
use utoipa::openapi::{RefOr, Schema};

use super::error::ApiError;

/// A kind of value: how it is read and described.
pub trait Kind {
    /// The Rust type that a value of this kind is read into.
    type Value;

    /// Reads a value that is not `null`, or returns what it must be.
    fn read(sent: SentValue) -> Result<Self::Value, String>;

    /// What [`read`](Self::read) accepts, as far as JSON Schema can say it.
    fn schema(part: RequestPart) -> RefOr<Schema>;
}

/// Where the fields of a request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPart {
    /// The fields of the JSON object in the body.
    Body,
    /// The parameters of the query string.
    Query,
}

/// One value as the client sent it.
pub enum SentValue<'a> {
    /// A field of a body.
    Json(Json<'a>),
    /// A parameter of a query string: text without control characters.
    Parameter(String),
}

impl SentValue<'_> {
    /// A text of 1 to `max` characters without control characters.
    pub fn text(self, max: usize) -> Result<String, String> {
        match self {
            Self::Parameter(text) if (1..=max).contains(&text.chars().count()) => Ok(text),
            Self::Parameter(_) => Err(format!("must have 1 to {max} characters")),
            Self::Json(Json::String(text)) if text.is_empty() => Err("must not be empty".to_owned()),
            Self::Json(Json::String(text)) if text.chars().count() > max => {
                Err(format!("must have at most {max} characters"))
            }
            Self::Json(Json::String(text)) if text.chars().any(char::is_control) => {
                Err("must not contain control characters".to_owned())
            }
            Self::Json(Json::String(text)) => Ok(text.into_owned()),
            Self::Json(_) => Err("must be a string".to_owned()),
        }
    }
}

/// The fields of a request, which the reader takes one by one. [`finish`](Self::finish) refuses the fields that are left.
pub struct RequestFields<'a> {
    values: BTreeMap<Cow<'a, str>, SentValue<'a>>,
    part: RequestPart,
    taken: Vec<&'static str>,
    problems: Problems,
}

impl<'a> RequestFields<'a> {
    fn new(part: RequestPart) -> Self {
        Self { values: BTreeMap::new(), part, taken: Vec::new(), problems: Problems::default() }
    }

    /// The fields of a body, which must be a JSON object.
    pub fn of_body(body: &'a [u8]) -> Result<Self, ApiError> {
        match Json::parse(body) {
            Ok(Json::Object(object)) => {
                let values = object.into_iter().map(|(name, json)| (name, SentValue::Json(json))).collect();
                Ok(Self { values, ..Self::new(RequestPart::Body) })
            }
            Ok(_) => Err(ApiError::field("body", "must be an object")),
            Err(problem) => Err(ApiError::Invalid(problem.into())),
        }
    }

    /// Reads the parameters of a query string, each given at most once.
    pub fn of_query(query: Option<&str>) -> Self {
        Self::of_pairs(url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned())
    }

    /// Reads the names and values of a query string or of a form, each name given at most once.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut fields = Self::new(RequestPart::Query);
        for (name, value) in pairs {
            // The parser replaces bytes that are not UTF-8 by U+FFFD.
            if value.contains('\u{fffd}') || value.chars().any(char::is_control) {
                fields.problem(&name, "must be UTF-8 text without control characters");
                continue;
            }
            if fields.has(&name) {
                fields.problem(&name, "must be given once");
            }
            fields.values.insert(name.into(), SentValue::Parameter(value));
        }
        fields
    }

    /// Whether the request has a field of this name, `null` included.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Takes an optional field; `None` if it is absent or `null`.
    pub fn opt<K: Kind>(&mut self, name: &'static str) -> Option<K::Value> {
        let sent = self.take(name)?;
        self.read::<K>(name, sent)
    }

    /// Takes an optional field that has a default, which the caller fills in.
    pub fn def<K: Kind>(&mut self, name: &'static str) -> Option<K::Value> {
        self.opt::<K>(name)
    }

    /// Takes a required field.
    pub fn req<K: Kind>(&mut self, name: &'static str) -> Option<K::Value> {
        let Some(sent) = self.take(name) else {
            // POST /Session/Create ignores the misspelled field, so the error of the missing one must say it.
            let is_misspelled = self.values.keys().any(|sent| is_almost(name, sent));
            self.problem(
                name,
                ["required", "required; names are case-sensitive"][usize::from(is_misspelled)],
            );
            return None;
        };
        self.read::<K>(name, sent)
    }

    fn take(&mut self, name: &'static str) -> Option<SentValue<'a>> {
        self.taken.push(name);
        if name == "from" {
            self.check_span();
        }
        self.values.remove(name).filter(|sent| !matches!(sent, SentValue::Json(Json::Null)))
    }

    /// Reports a `from` that is after `to`: a search would find nothing and not say why.
    fn check_span(&mut self) {
        let at = |name| match self.values.get(name) {
            Some(SentValue::Json(Json::String(text))) => moment::parse(text),
            Some(SentValue::Parameter(text)) => moment::parse(text),
            Some(SentValue::Json(_)) | None => None,
        };
        if let (Some(from), Some(to)) = (at("from"), at("to"))
            && from > to
        {
            self.problem("from", "must not be after to");
        }
    }

    fn read<K: Kind>(&mut self, name: &str, sent: SentValue) -> Option<K::Value> {
        K::read(sent).map_err(|message| self.problem(name, message)).ok()
    }

    fn problem(&mut self, name: &str, message: impl Into<String>) {
        // A secret can end up as a name by mistake, so the path shows only what looks like a field's name.
        Path::root().key(name, |at| self.problems.push(at, message));
    }

    /// Drops every field that was not taken.
    pub fn ignore_rest(&mut self) {
        self.values.clear();
    }

    /// Refuses every field that was not taken, together with everything else wrong.
    pub fn finish(mut self) -> Result<(), ApiError> {
        let (field, owner) = match self.part {
            RequestPart::Body => ("field", "object"),
            RequestPart::Query => ("parameter", "route"),
        };
        for name in std::mem::take(&mut self.values).into_keys() {
            self.problem(&name, unknown(field, owner, &name, &self.taken));
        }
        self.problems.into_result().map_err(ApiError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::kinds::{LineText, Whole};
    use crate::http::paging::{Cursor, PageSize};
    use crate::http::times::DateOrTime;

    fn refused(fields: RequestFields) -> Vec<String> {
        let Err(ApiError::Invalid(problems)) = fields.finish() else { panic!("not refused") };
        problems.into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn body_fields_of_each_kind_are_read_or_named() {
        let body =
            br#"{"a": 10.0, "b": 11, "c": true, "d": "true", "e": "2026-11-21", "f": "soon", "g": null}"#;
        let mut fields = RequestFields::of_body(body).expect("an object");
        let milliseconds = |time: jiff::Timestamp| time.as_millisecond();
        assert_eq!((fields.opt::<Whole<1, 10>>("a"), fields.opt::<Whole<1, 10>>("b")), (Some(10), None));
        assert_eq!((fields.opt::<bool>("c"), fields.opt::<bool>("d")), (Some(true), None));
        assert_eq!(fields.opt::<DateOrTime>("e").map(milliseconds), Some(1_795_219_200_000));
        assert_eq!(fields.opt::<DateOrTime>("f"), None);
        assert_eq!(
            (fields.has("g"), fields.opt::<Whole<1, 10>>("g"), fields.opt::<bool>("h")),
            (true, None, None)
        );
        assert_eq!(refused(fields), ["b", "d", "f"]);
    }

    #[test]
    fn query_names_every_wrong_parameter() {
        let mut fields =
            RequestFields::of_query(Some("a=1&a=2&b=%ff&pageSize=0&cursor=x&from=yesterday&other=%00"));
        let _ = (
            fields.opt::<LineText<9>>("a"),
            fields.opt::<LineText<9>>("b"),
            fields.opt::<PageSize>("pageSize"),
            fields.opt::<Cursor>("cursor"),
            fields.opt::<DateOrTime>("from"),
        );
        assert_eq!(refused(fields), ["a", "b", "other", "pageSize", "cursor", "from"]);
    }

    #[test]
    fn from_after_to_is_refused_and_equal_times_are_not() {
        for (query, wrong) in [
            ("from=2026-11-22&to=2026-11-21", &["from"][..]),
            ("to=2026-11-21&from=2026-11-21T00:00:00.001Z", &["from"]),
            ("from=2026-11-21T01:00:00%2B02:00&to=2026-11-20T22:00:00Z", &["from"]),
            ("from=2026-11-21&to=2026-11-21T01:00:00%2B01:00", &[]),
            ("from=2026-11-22&to=soon", &["to"]),
            ("from=2026-11-22", &[]),
        ] {
            let mut fields = RequestFields::of_query(Some(query));
            let _ = (fields.opt::<DateOrTime>("from"), fields.opt::<DateOrTime>("to"));
            match wrong {
                [] => assert!(fields.finish().is_ok(), "{query}"),
                _ => assert_eq!(refused(fields), wrong, "{query}"),
            }
        }
        let mut fields =
            RequestFields::of_body(br#"{"from": "2026-11-22", "to": "2026-11-21"}"#).expect("an object");
        let _ = (fields.opt::<DateOrTime>("from"), fields.opt::<DateOrTime>("to"));
        assert_eq!(refused(fields), ["from"]);
    }

    #[test]
    fn unknown_name_that_differs_in_case_only_gets_the_right_one() {
        let mut fields = RequestFields::of_query(Some("PageSize=5&page_size=5&size=5"));
        let _ = fields.def::<PageSize>("pageSize");
        let Err(ApiError::Invalid(problems)) = fields.finish() else { panic!("not refused") };
        let messages: Vec<String> = problems.into_iter().map(|problem| problem.to_string()).collect();
        assert_eq!(
            messages,
            [
                "PageSize: unknown parameter; did you mean pageSize? This route takes: pageSize",
                "page_size: unknown parameter; did you mean pageSize? This route takes: pageSize",
                "size: unknown parameter; this route takes: pageSize",
            ]
        );
    }

    #[test]
    fn query_times_are_dates_or_times_with_an_offset() {
        let mut fields = RequestFields::of_query(Some(
            "a=1970-01-02&b=1970-01-01T01:00:00%2B01:00&c=1970-01-01t00:00:01z",
        ));
        let mut read = |name| fields.opt::<DateOrTime>(name).map(jiff::Timestamp::as_millisecond);
        assert_eq!([read("a"), read("b"), read("c")], [Some(86_400_000), Some(0), Some(1_000)]);
        assert!(fields.finish().is_ok());
    }
}
