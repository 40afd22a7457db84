//! The kinds of values that requests hold: texts, numbers and ids, each with its limits.

use std::str::FromStr;

use docket_crds::UnknownWord;
use docket_domain::delivery::DeliveryId;
use docket_orders::field::Field;
use docket_orders::problem::Path;
use docket_orders::{Json, OrderType, Problems};
use secrecy::SecretString;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{Ref, RefOr, Schema};

use super::fields::{Kind, RequestPart, SentValue};
use crate::access::passwords::MAX_PASSWORD_CHARS;

/// A work order's number.
pub type WorkOrderNumber = LineText<32>;
/// A work order's number, optionally followed by `-` and a facility's code.
pub type WorkOrderKeyText = LineText<80>;
/// An invoice's number.
pub type InvoiceNumber = LineText<64>;
/// A customer's code.
pub type CustomerCodeText = LineText<64>;
/// The number or the id of something that deliveries are about.
pub type FindText = LineText<80>;
/// A webhook's uid, its namespace/name, or its name for people.
pub type WebhookName = LineText<330>;
/// The status of an HTTP response.
pub type HttpStatus = Whole<100, 999>;
/// A photocopy stop's place in its order.
pub type LineItem = Whole<1, 999_999_999>;
/// The code of a milestone.
pub type MilestoneCode = Whole<0, 999_999_999>;

/// A text of 1 to `MAX` characters without control characters.
#[derive(Debug)]
pub struct LineText<const MAX: usize>;

impl<const MAX: usize> LineText<MAX> {
    fn described(part: RequestPart) -> ObjectBuilder {
        // In a query string, U+FFFD stands for bytes that are not UTF-8.
        let pattern = match part {
            RequestPart::Body => r"^[^\x00-\x1f\x7f-\x9f]*$",
            RequestPart::Query => r"^[^\x00-\x1f\x7f-\x9f\ufffd]*$",
        };
        text(1, MAX).pattern(Some(pattern))
    }
}

fn text(min: usize, max: usize) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).min_length(Some(min)).max_length(Some(max))
}

impl<const MAX: usize> Kind for LineText<MAX> {
    type Value = String;

    fn read(sent: SentValue) -> Result<String, String> {
        sent.text(MAX)
    }

    fn schema(part: RequestPart) -> RefOr<Schema> {
        Self::described(part).into()
    }
}

/// A client code, or something that was sent instead by mistake, such as a hexadecimal key with line breaks: at most 256
/// characters. Surrounding blanks do not count, and an empty text counts as no code.
#[derive(Debug)]
pub struct ClientCodeText;

impl Kind for ClientCodeText {
    type Value = String;

    fn read(sent: SentValue) -> Result<String, String> {
        const MAX: usize = 256;
        match sent {
            SentValue::Json(Json::String(text))
                if text.chars().count() <= MAX
                    && !text.chars().any(|c| c.is_control() && !c.is_whitespace()) =>
            {
                Ok(text.into_owned())
            }
            SentValue::Json(_) | SentValue::Parameter(_) => {
                Err(format!("must be text of at most {MAX} characters without control characters"))
            }
        }
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        text(0, 256).pattern(Some(r"^[^\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]*$")).into()
    }
}

/// A password.
#[derive(Debug)]
pub struct Password;

impl Kind for Password {
    type Value = SecretString;

    fn read(sent: SentValue) -> Result<SecretString, String> {
        sent.text(MAX_PASSWORD_CHARS).map(SecretString::from)
    }

    fn schema(part: RequestPart) -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::Password);
        LineText::<MAX_PASSWORD_CHARS>::described(part).format(Some(format)).into()
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug)]
pub struct Whole<const MIN: i64, const MAX: i64>;

impl<const MIN: i64, const MAX: i64> Kind for Whole<MIN, MAX> {
    type Value = i64;

    fn read(sent: SentValue) -> Result<i64, String> {
        let number = match sent {
            // 10.0 is as whole as 10 (JSON Schema).
            SentValue::Json(Json::Number(number)) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            SentValue::Json(_) => None,
            parameter @ SentValue::Parameter(_) => parameter.text(20)?.parse().ok(),
        };
        let number = number.filter(|number| (MIN..=MAX).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {MIN} to {MAX}"))
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        let number = number.format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
        number.minimum(Some(MIN as isize)).maximum(Some(MAX as isize)).into()
    }
}

fn whole(number: f64) -> Option<i64> {
    // Beyond 2^53 not every number is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

impl Kind for bool {
    type Value = Self;

    fn read(sent: SentValue) -> Result<Self, String> {
        match sent {
            SentValue::Json(Json::Bool(value)) => Ok(value),
            _ => Err("must be true or false".to_owned()),
        }
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

/// Reads a word of an enum.
pub fn word<T: FromStr<Err = UnknownWord>>(sent: SentValue) -> Result<T, String> {
    sent.text(64)?.parse::<T>().map_err(|unknown| unknown.to_string())
}

impl Kind for OrderType {
    type Value = Self;

    fn read(sent: SentValue) -> Result<Self, String> {
        word(sent)
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        Ref::from_schema_name("OrderType").into()
    }
}

/// Reads a value by the rules of an order's field.
pub fn of_order<T: Field>(sent: SentValue) -> Result<T, String> {
    let json = match sent {
        SentValue::Json(json) => json,
        SentValue::Parameter(text) => Json::String(text.into()),
    };
    let mut problems = Problems::default();
    let value = T::read(&json, &mut Path::root(), &mut problems);
    value.ok_or_else(|| problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; "))
}

/// The id of a web order. A text that does not match the pattern is read, but is the id of no web order.
#[derive(Debug)]
pub struct WebOrderIdText;

impl Kind for WebOrderIdText {
    type Value = String;

    fn read(sent: SentValue) -> Result<String, String> {
        sent.text(32)
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        text(1, 32).pattern(Some("^[A-Za-z0-9]+$")).into()
    }
}

/// The id of a delivery, in the spelling of responses.
#[derive(Debug)]
pub struct DeliveryIdText;

impl Kind for DeliveryIdText {
    type Value = DeliveryId;

    fn read(sent: SentValue) -> Result<DeliveryId, String> {
        let text = sent.text(36)?;
        let id = text.parse::<DeliveryId>().ok().filter(|id| id.to_string() == text);
        id.ok_or_else(|| "must be the deliveryId of a response".to_owned())
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        text(36, 36).pattern(Some("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")).into()
    }
}

/// The id of a bulk resend.
#[derive(Debug)]
pub struct ResendIdText;

impl Kind for ResendIdText {
    type Value = String;

    fn read(sent: SentValue) -> Result<String, String> {
        let text = sent.text(32)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == 32 && text.bytes().all(is_hex) {
            true => Ok(text),
            false => Err("must be the resendId of a response".to_owned()),
        }
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        text(32, 32).pattern(Some("^[0-9a-f]{32}$")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in a body, and in a query string.
    fn sent(text: &str) -> [SentValue<'_>; 2] {
        [SentValue::Json(Json::String(text.into())), SentValue::Parameter(text.to_owned())]
    }

    #[test]
    fn characters_of_a_text_are_counted_in_a_body_and_in_a_query() {
        for (text, is_right) in [("", false), ("a", true), ("äöü", true), ("äöüx", false)] {
            for sent in sent(text) {
                assert_eq!(LineText::<3>::read(sent).is_ok(), is_right, "{text}");
            }
        }
    }

    #[test]
    fn id_has_the_spelling_of_responses() {
        let (delivery, resend) = ("0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f", "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a");
        for (text, is_delivery, is_resend) in [
            (delivery, true, false),
            (resend, false, true),
            (&delivery.to_uppercase(), false, false),
            (&resend.to_uppercase(), false, false),
            (&delivery.replace('-', ""), false, true),
            (&resend[1..], false, false),
        ] {
            for sent in sent(text) {
                assert_eq!(DeliveryIdText::read(sent).is_ok(), is_delivery, "{text}");
            }
            for sent in sent(text) {
                assert_eq!(ResendIdText::read(sent).is_ok(), is_resend, "{text}");
            }
        }
    }

    #[test]
    fn whole_number_is_within_its_bounds_and_no_text_in_a_body() {
        let in_body = |text: &str| {
            Whole::<1, 10>::read(SentValue::Json(Json::parse(text.as_bytes()).expect("JSON"))).ok()
        };
        let in_query = |text: &str| Whole::<1, 10>::read(SentValue::Parameter(text.to_owned())).ok();
        for (text, body, query) in [
            ("0", None, None),
            ("1", Some(1), Some(1)),
            ("10", Some(10), Some(10)),
            ("11", None, None),
            ("10.0", Some(10), None),
            ("1.5", None, None),
            ("-1", None, None),
            ("\"5\"", None, None),
            ("1e300", None, None),
        ] {
            assert_eq!((in_body(text), in_query(text)), (body, query), "{text}");
        }
    }
}
