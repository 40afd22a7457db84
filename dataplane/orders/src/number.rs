//! Bounded numbers (money, whole numbers, quantities) and booleans.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};

/// An amount in USD, 0 to 10 million, stored in cents. In JSON it is a number with two decimals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Money {
    cents: i64,
}

/// The largest amount, in dollars.
const MAX_DOLLARS: i64 = 10_000_000;

/// How far an amount may be from a whole cent, in cents. Floating-point sums (0.1 + 0.2) are off by less than a
/// millionth of this at any accepted size; half a cent (1.005) is far outside.
const CENT_NOISE: f64 = 1e-6;

impl Money {
    /// The amount in cents.
    pub fn cents(self) -> i64 {
        self.cents
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// For `serde_json` only: writes the digits, so that 704 is `704.00` and no float is involved.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:02}", self.cents / 100, self.cents % 100);
        let number = RawValue::from_string(text).map_err(serde::ser::Error::custom)?;
        number.serialize(serializer)
    }
}

impl Field for Money {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let cents = number(json).filter(|n| (0.0..=MAX_DOLLARS as f64).contains(n)).map(|n| n * 100.0);
        let Some(cents) = cents.filter(|cents| (cents - cents.round()).abs() < CENT_NOISE) else {
            problems.push(at, "must be a number of dollars from 0 to 10000000 with at most 2 decimals");
            return None;
        };
        Some(Self { cents: cents.round() as i64 })
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let money = ObjectBuilder::new().schema_type(Type::Number);
        money.minimum(Some(0)).maximum(Some(MAX_DOLLARS as isize)).multiple_of(Some(0.01)).into()
    }
}

/// A whole number from `MIN` to `MAX`. As in JSON Schema, `2.0` is a whole number.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Int<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Int<MIN, MAX> {
    /// A constant. A value outside the bounds does not compile in a constant expression.
    pub const fn new(value: i64) -> Self {
        assert!(MIN <= value && value <= MAX, "outside the bounds");
        Self(value)
    }

    /// The number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> fmt::Debug for Int<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<const MIN: i64, const MAX: i64> Field for Int<MIN, MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        // The bounds are small, so the conversion through f64 is exact.
        let whole = number(json).filter(|n| n.fract() == 0.0 && (MIN as f64..=MAX as f64).contains(n));
        if whole.is_none() {
            problems.push(at, format!("must be a whole number from {MIN} to {MAX}"));
        }
        whole.map(|n| Self(n as i64))
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let int = ObjectBuilder::new().schema_type(Type::Integer);
        int.minimum(Some(MIN as isize)).maximum(Some(MAX as isize)).into()
    }
}

/// A number from 0 to `MAX` that need not be whole: pounds, hours.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Quantity<const MAX: i64>(f64);

impl<const MAX: i64> Quantity<MAX> {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<const MAX: i64> fmt::Debug for Quantity<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<const MAX: i64> Field for Quantity<MAX> {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        let quantity = number(json).filter(|n| (0.0..=MAX as f64).contains(n));
        if quantity.is_none() {
            problems.push(at, format!("must be a number from 0 to {MAX}"));
        }
        quantity.map(|n| Self(n.abs())) // -0.0 is 0
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Number);
        number.minimum(Some(0)).maximum(Some(MAX as isize)).into()
    }
}

impl Field for bool {
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self> {
        match json {
            Json::Bool(value) => Some(*value),
            _ => {
                problems.push(at, "must be true or false");
                None
            }
        }
    }

    fn schema(_: &mut Components) -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).into()
    }
}

fn number(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Field>(json: &str) -> Result<T, String> {
        let mut problems = Problems::default();
        let json = Json::parse(json.as_bytes()).unwrap();
        let value = T::read(&json, &mut Path::root(), &mut problems);
        value.ok_or_else(|| problems.to_string())
    }

    fn written(json: &str) -> String {
        serde_json::to_string(&read::<Money>(json).unwrap()).unwrap()
    }

    #[test]
    fn money_is_exact_to_the_cent() {
        assert_eq!(written("704.0"), "704.00");
        assert_eq!(written("1e2"), "100.00");
        assert_eq!(written("0.1"), "0.10");
        assert_eq!(written("0.29"), "0.29");
        assert_eq!(written("-0.0"), "0.00");
        assert_eq!(written("10000000"), "10000000.00");
        assert_eq!(written("9999999.99"), "9999999.99");
        assert_eq!(written(&format!("{:?}", 0.1 + 0.2)), "0.30");
        let sum = read::<Money>("0.1").unwrap().cents() + read::<Money>("0.2").unwrap().cents();
        assert_eq!(sum, 30);
    }

    #[test]
    fn every_amount_survives_a_round_trip() {
        for cents in (0..200_000).chain(999_900_000..1_000_000_000) {
            let text = format!("{}.{:02}", cents / 100, cents % 100);
            let json = Json::Number(serde_json::Number::from_f64(text.parse().unwrap()).unwrap());
            let money = Money::read(&json, &mut Path::root(), &mut Problems::default()).unwrap();
            assert_eq!(money.cents(), cents);
            let product = Json::Number(serde_json::Number::from_f64(cents as f64 * 0.01).unwrap());
            assert!(Money::read(&product, &mut Path::root(), &mut Problems::default()).is_some());
        }
    }

    #[test]
    fn money_of_the_wrong_size_or_kind_is_refused() {
        for json in ["1.005", "0.001", "-0.01", "-1", "10000000.01", "1e300", "\"60.00\"", "true", "[]"] {
            let problem = read::<Money>(json).expect_err(json);
            assert!(problem.starts_with("body: must be a number of dollars"), "{problem}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_bounds() {
        assert_eq!(read::<Int<1, 10>>("3").unwrap().get(), 3);
        assert_eq!(read::<Int<1, 10>>("2.0").unwrap().get(), 2);
        for json in ["0", "11", "2.5", "-1", "1e30", "18446744073709551615", "\"3\""] {
            assert_eq!(
                read::<Int<1, 10>>(json).expect_err(json),
                "body: must be a whole number from 1 to 10"
            );
        }
    }

    #[test]
    fn quantities_and_booleans_refuse_other_values() {
        assert_eq!(read::<Quantity<100>>("11.5").unwrap().get(), 11.5);
        assert!(read::<Quantity<100>>("100.1").is_err());
        assert!(read::<Quantity<100>>("-1").is_err());
        assert!(read::<bool>("false").is_ok());
        assert!(read::<bool>("0").is_err());
    }
}
