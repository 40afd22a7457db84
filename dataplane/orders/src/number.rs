//! Bounded numbers (money, whole numbers, quantities) and booleans.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::field::{Components, Field};
use crate::json::Json;
use crate::problem::{Path, Problems};

/// An amount in USD, exact in cents. In JSON it is a number with two decimals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Money {
    cents: i128,
}

/// The highest amount, in dollars: 18 digits, as the recorders' standard requires (PRIA). A tax on a property can be
/// as high as the property's price, and so can the limit of the fees that include the tax.
const MAX_DOLLARS: i64 = 999_999_999_999_999_999;

/// How far an amount may be from a whole cent, in cents. Up to $10,000,000, floating-point sums (0.1 + 0.2) are off
/// by less than a millionth of a cent. An amount with half a cent (1.005) is far outside.
const CENT_NOISE: f64 = 1e-6;

impl Money {
    /// The amount in cents.
    pub fn cents(self) -> i128 {
        self.cents
    }
}

/// Computes the cents from an amount's digits, since a double holds only 15 to 17 digits. Returns `None` for more
/// than 2 decimals.
fn exact_cents(digits: &str) -> Option<i128> {
    let (amount, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let exponent = i64::from(exponent.parse::<i32>().ok()?) - i64::try_from(fraction.len()).ok()? + 2;
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(whole) => (-1, [whole, fraction].concat()),
        None => (1, [whole, fraction].concat()),
    };
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // A negative power means more than 2 decimals.
    let power = u32::try_from(exponent + zeros).ok()?;
    significant.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(power)?)?.checked_mul(sign)
}

/// Rounds an amount to cents if it is close to whole cents, as a sum of doubles is.
fn rounded_cents(amount: f64) -> Option<i128> {
    /// The limit, in cents. Above it, a double is too coarse to distinguish a rounding error from more than 2 decimals.
    const MOST: f64 = 1e13;
    let cents = amount * 100.0;
    let noise = (4.0 * f64::EPSILON * cents).max(CENT_NOISE);
    ((0.0..MOST).contains(&cents) && (cents - cents.round()).abs() < noise).then(|| cents.round() as i128)
}

redacted!(Money);

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
        let cents = match json {
            Json::Number(number) => {
                exact_cents(&number.digits()).or_else(|| number.as_f64().and_then(rounded_cents))
            }
            _ => None,
        };
        let cents = cents.filter(|cents| (0..=i128::from(MAX_DOLLARS) * 100).contains(cents));
        if cents.is_none() {
            let message =
                format!("must be a number of dollars from 0 to {MAX_DOLLARS} with at most 2 decimals");
            problems.push(at, message);
        }
        cents.map(|cents| Self { cents })
    }

    /// The schema has no `multipleOf`: validators divide in binary, and would refuse 0.07.
    fn schema(_: &mut Components) -> RefOr<Schema> {
        let money = ObjectBuilder::new().schema_type(Type::Number).description(Some("At most 2 decimals."));
        money.minimum(Some(0)).maximum(Some(MAX_DOLLARS as isize)).into()
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
            assert_eq!(read::<Money>(&text).unwrap().cents(), cents);
            assert_eq!(read::<Money>(&format!("{:?}", cents as f64 * 0.01)).unwrap().cents(), cents);
        }
    }

    #[test]
    fn money_has_eighteen_digits_and_is_exact() {
        for (sent, kept) in [
            ("25000000", "25000000.00"),
            ("999999999999999999", "999999999999999999.00"),
            ("9999999999999999.99", "9999999999999999.99"),
            ("999999999999999998.99", "999999999999999998.99"),
            ("90071992547409.93", "90071992547409.93"),
            ("1.5e17", "150000000000000000.00"),
            ("123456789.010", "123456789.01"),
            ("1e-2", "0.01"),
            ("370370367.36000001", "370370367.36"),
        ] {
            let money = read::<Money>(sent).unwrap_or_else(|problem| panic!("{sent}: {problem}"));
            assert_eq!(serde_json::to_string(&money).unwrap(), kept, "{sent}");
            assert!(read::<Money>(kept).unwrap() == money, "{kept}");
        }
        for json in [
            "1000000000000000000",
            "1e18",
            "999999999999999999.01",
            "90071992547409.925",
            "25000000.005",
            "-1",
            "-0.01",
            "1e300",
        ] {
            assert!(read::<Money>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn money_of_the_wrong_size_or_kind_is_refused() {
        for json in ["1.005", "0.001", "-0.01", "-1", "1e18", "1e300", "\"60.00\"", "true", "[]"] {
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
