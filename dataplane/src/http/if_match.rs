//! `If-Match` and `ETag`: how HTTP names the version of a web order.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::header::{ETAG, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::refusal::Versions;

/// The most entity tags that are read; further tags match nothing.
const MOST: usize = 16;

/// The header If-Match: the versions that the order may have. Without the header, and with `*`, any version.
#[derive(Debug)]
pub struct IfMatch(pub Versions);

impl IfMatch {
    fn of(headers: &HeaderMap) -> Versions {
        let mut sent = headers.get_all(IF_MATCH).iter().peekable();
        if sent.peek().is_none() {
            return Versions::Any;
        }
        let tags: Vec<&str> = sent
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .take(MOST)
            .collect();
        match tags[..] {
            ["*"] => Versions::Any,
            // Weak tags and foreign tags match nothing (RFC 9110, section 13.1.1).
            _ => Versions::These(tags.into_iter().filter_map(version_of).collect()),
        }
    }
}

fn version_of(tag: &str) -> Option<i64> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    digits.parse().ok().filter(|version: &i64| version.to_string() == digits)
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Self::of(&parts.headers)))
    }
}

impl IntoParams for IfMatch {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let header = ParameterBuilder::new()
            .name("If-Match")
            .parameter_in(ParameterIn::Header)
            .description(Some(
                "The ETag of the order that the change was made from. If the order has another version meanwhile, the response \
                 is 412 and nothing changes. `*` and no header allow any version.",
            ))
            .required(Required::False)
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).examples(["\"3\""])));
        vec![header.build()]
    }
}

/// Adds the ETag of an order at this version to the response.
pub fn tagged(mut response: Response, version: i64) -> Response {
    let tag = HeaderValue::from_str(&format!("\"{version}\"")).expect("digits");
    response.headers_mut().insert(ETAG, tag);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strong_tags_of_docket_match() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IF_MATCH, value.parse().expect("a value"));
            }
            IfMatch::of(&headers)
        };
        assert_eq!(read(&[]), Versions::Any);
        assert_eq!(read(&["*"]), Versions::Any);
        for (values, matches) in [
            (&["\"3\""][..], true),
            (&["\"1\", \"3\""], true),
            (&["\"1\"", " \"3\" "], true),
            (&["W/\"3\""], false),
            (&["3"], false),
            (&["\"03\""], false),
            (&["\"+3\""], false),
            (&["\"nope\""], false),
            (&[""], false),
            (&["*, \"2\""], false),
        ] {
            assert_eq!(read(values).allows(3), matches, "{values:?}");
        }
        let many: Vec<String> = (100..200).map(|version| format!("\"{version}\"")).collect();
        let many = read(&[&many.join(",")]);
        assert_eq!([115, 116, 199].map(|version| many.allows(version)), [true, false, false], "bounded");
    }
}
