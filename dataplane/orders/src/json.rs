//! A JSON tree that refuses two things that `serde_json::Value` accepts: duplicate keys, where the last one would
//! silently win, and deep nesting. Its errors name places and never quote the input.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::problem::{Path, Problem};

/// The deepest nesting of objects and lists; orders need 6.
pub const MAX_DEPTH: usize = 32;

/// The largest number of values in one text; the largest order has some 15,000.
pub const MAX_VALUES: usize = 20_000;
/// The largest number of objects and lists in one text; the largest order has some 2,500. An object with one key
/// takes 632 bytes.
pub const MAX_CONTAINERS: usize = 5_000;

/// A parsed JSON value. It borrows texts without escapes from the input. `Debug` prints only its kind.
#[derive(Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number that fits `u64`, `i64` or `f64`.
    Number(Number<'a>),
    /// A string.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Json<'a>>),
    /// An object; the order of its keys is not kept.
    Object(Fields<'a>),
}

/// A number with its digits: a double can't represent every amount of money.
#[derive(Clone, PartialEq)]
pub struct Number<'a> {
    value: serde_json::Number,
    /// The text of the number, if `value` may not be exact.
    written: Option<&'a str>,
}

impl<'a> Number<'a> {
    /// The nearest double.
    pub fn as_f64(&self) -> Option<f64> {
        self.value.as_f64()
    }

    /// The number as an integer; `None` if it has a fraction or an exponent, or does not fit.
    pub fn as_i64(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The text of the number, with every digit.
    pub fn digits(&self) -> Cow<'a, str> {
        self.written.map_or_else(|| self.value.to_string().into(), Cow::from)
    }
}

/// The fields of an object.
pub type Fields<'a> = BTreeMap<Cow<'a, str>, Json<'a>>;

impl<'a> Json<'a> {
    /// Parses one JSON value that fills `bytes`. A byte order mark before it is skipped (RFC 8259, section 8.1). A
    /// problem's field is `body`, or the path of a duplicate key.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Problem> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| whole("must be UTF-8"))?;
        let state = ParserState {
            text,
            scanned: Cell::default(),
            numbers: Cell::default(),
            values: Cell::default(),
            containers: Cell::default(),
            path: Path::root().into(),
            problem: RefCell::default(),
        };
        let mut input = serde_json::Deserializer::from_str(text);
        let parsed = Seed { state: &state, depth: 0 }.deserialize(&mut input);
        let parsed = parsed.and_then(|json| input.end().map(|()| json));
        parsed.map_err(|error| state.problem.take().unwrap_or_else(|| syntax(&error)))
    }

    /// The kind of value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json([redacted], {})", self.kind())
    }
}

impl From<Json<'_>> for serde_json::Value {
    fn from(json: Json<'_>) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::Number(number.value),
            Json::String(value) => Self::String(value.into_owned()),
            Json::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Json::Object(object) => Self::Object(
                object.into_iter().map(|(key, value)| (key.into_owned(), value.into())).collect(),
            ),
        }
    }
}

fn whole(message: impl Into<String>) -> Problem {
    Problem { field: Path::root().to_string(), message: message.into() }
}

/// A problem that names only the place of the error: the message of serde_json may quote the input.
fn syntax(error: &serde_json::Error) -> Problem {
    let what = if error.is_eof() { "ends too early" } else { "is not valid JSON" };
    whole(format!("{what} (line {} column {})", error.line(), error.column()))
}

/// The state that the visitors share: what they have read, their position, and the problem behind an error that they raised.
struct ParserState<'de> {
    text: &'de str,
    /// How far [`ParserState::written`] has come: the place in the text, and the numbers before it.
    scanned: Cell<(usize, usize)>,
    /// The count of numbers that the parser has read.
    numbers: Cell<usize>,
    values: Cell<usize>,
    containers: Cell<usize>,
    path: RefCell<Path>,
    problem: RefCell<Option<Problem>>,
}

impl<'de> ParserState<'de> {
    /// The number that was read last, as it is written. Numbers are read in the order of the text, and outside of strings nothing
    /// but a number has a digit.
    fn written(&self) -> &'de str {
        let bytes = self.text.as_bytes();
        let (mut at, mut before) = self.scanned.get();
        while let Some(byte) = bytes.get(at) {
            let rest = &bytes[at..];
            match byte {
                b'"' => at += string_length(rest),
                b'-' | b'0'..=b'9' => {
                    let is_part = |b: &&u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                    let number = &self.text[at..at + rest.iter().take_while(is_part).count()];
                    at += number.len();
                    before += 1;
                    if before == self.numbers.get() {
                        self.scanned.set((at, before));
                        return number;
                    }
                }
                _ => at += 1,
            }
        }
        ""
    }

    fn number<E>(&self, value: impl Into<serde_json::Number>) -> Result<Json<'de>, E> {
        self.numbers.set(self.numbers.get() + 1);
        Ok(Json::Number(Number { value: value.into(), written: None }))
    }

    fn refuse<E: serde::de::Error>(&self, message: String) -> E {
        let field = self.path.borrow().to_string();
        *self.problem.borrow_mut() = Some(Problem { field, message });
        E::custom("refused")
    }

    fn count<E: serde::de::Error>(&self, counted: &Cell<usize>, most: usize, what: &str) -> Result<(), E> {
        counted.set(counted.get() + 1);
        if counted.get() > most {
            *self.problem.borrow_mut() = Some(whole(format!("has more than {most} {what}")));
            return Err(E::custom("refused"));
        }
        Ok(())
    }
}

/// The length of the string at the start of `bytes`, with its quotation marks.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

#[derive(Clone, Copy)]
struct Seed<'a, 'de> {
    state: &'a ParserState<'de>,
    depth: usize,
}

impl Seed<'_, '_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.state.refuse(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.state.count(&self.state.containers, MAX_CONTAINERS, "objects and lists")?;
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de> {
    type Value = Json<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, input: D) -> Result<Json<'de>, D::Error> {
        self.state.count(&self.state.values, MAX_VALUES, "values")?;
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        self.state.number(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        self.state.number(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json<'de>, E> {
        let value = serde_json::Number::from_f64(value).ok_or_else(|| E::custom("not finite"))?;
        self.state.numbers.set(self.state.numbers.get() + 1);
        Ok(Json::Number(Number { value, written: Some(self.state.written()) }))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(value.to_owned().into()))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        loop {
            // After an error the path is not moved back: the problem is recorded and reading has ended.
            let before = self.state.path.borrow_mut().enter_index(list.len());
            let next = items.next_element_seed(inner)?;
            self.state.path.borrow_mut().leave(before);
            match next {
                Some(item) => list.push(item),
                None => return Ok(Json::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut object = BTreeMap::new();
        while let Some(JsonKey(key)) = entries.next_key()? {
            let before = self.state.path.borrow_mut().enter_key(&key);
            if object.contains_key(&key) {
                return Err(self.state.refuse("given twice in one object".to_owned()));
            }
            let value = entries.next_value_seed(inner)?;
            self.state.path.borrow_mut().leave(before);
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}

/// A key, which is borrowed unless it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct JsonKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Json::parse(text.as_bytes()).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_value_of_each_kind_is_read() {
        let json = Json::parse(br#" {"a":[null,true,-1,2.5,"x\u00e9"]} "#).unwrap();
        let value: serde_json::Value = json.into();
        assert_eq!(value, serde_json::json!({"a": [null, true, -1, 2.5, "x\u{e9}"]}));
    }

    #[test]
    fn a_number_keeps_its_digits() {
        let text = r#"{"1.5":[1,"2.5\\",-3],"\"4.5":9999999999999999.99,"b":[true,false,null,-0,1.50E+2],"c":"\u0031.0","d":0.1}"#;
        let Ok(Json::Object(object)) = Json::parse(text.as_bytes()) else { panic!("an object") };
        let digits = |json: &Json| match json {
            Json::Number(number) => number.digits().into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(digits(&object["\"4.5"]), "9999999999999999.99");
        assert_eq!(digits(&object["d"]), "0.1");
        let Json::Array(b) = &object["b"] else { panic!("a list") };
        assert_eq!((digits(&b[3]), digits(&b[4])), ("-0".to_owned(), "1.50E+2".to_owned()));
        let Json::Array(a) = &object["1.5"] else { panic!("a list") };
        assert_eq!((digits(&a[0]), digits(&a[2])), ("1".to_owned(), "-3".to_owned()));
    }

    #[test]
    fn a_duplicate_key_is_refused_by_its_path() {
        assert_eq!(problem(r#"{"a":1,"a":1}"#), "a: given twice in one object");
        assert_eq!(
            problem(r#"{"l":[{},{"x":{"b":1,"c":2,"b":null}}]}"#),
            "l[1].x.b: given twice in one object"
        );
    }

    #[test]
    fn an_escaped_duplicate_is_a_duplicate() {
        assert_eq!(problem(r#"{"a":1,"\u0061":1}"#), "a: given twice in one object");
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(problem(&nested(MAX_DEPTH + 1)).ends_with("nested deeper than 32 levels"));
        assert!(problem(&"[".repeat(200_000)).ends_with("nested deeper than 32 levels"));
    }

    #[test]
    fn number_of_values_is_bounded() {
        let list = |length: usize, item: &str| format!("[{}]", vec![item; length].join(","));
        assert!(Json::parse(list(MAX_VALUES - 1, "0").as_bytes()).is_ok());
        assert_eq!(problem(&list(MAX_VALUES, "0")), "body: has more than 20000 values");
        for item in ["{}", "[]", "{\"\":0}"] {
            assert!(Json::parse(list(MAX_CONTAINERS - 1, item).as_bytes()).is_ok(), "{item}");
            assert_eq!(problem(&list(MAX_CONTAINERS, item)), "body: has more than 5000 objects and lists");
        }
    }

    #[test]
    fn a_syntax_error_names_the_place_and_quotes_nothing() {
        assert_eq!(problem("{\"ssn\":\n 078-05}"), "body: is not valid JSON (line 2 column 3)");
        assert_eq!(problem("{\"dob\":\"1974"), "body: ends too early (line 1 column 12)");
        assert!(Json::parse("\u{feff}{}".as_bytes()).is_ok());
        assert!(problem("\u{feff}\u{feff}{}").contains("is not valid JSON"));
        assert_eq!(problem("{} secret"), "body: is not valid JSON (line 1 column 4)");
        assert_eq!(problem(""), "body: ends too early (line 1 column 0)");
        assert_eq!(problem("1e400"), "body: is not valid JSON (line 1 column 5)");
        assert_eq!(problem(r#"{"a":NaN}"#), "body: is not valid JSON (line 1 column 6)");
    }

    #[test]
    fn bad_utf8_and_lone_surrogates_are_refused() {
        let problem = Json::parse(b"{\"a\":\"\xff\"}").expect_err("must be refused");
        assert_eq!(problem.to_string(), "body: must be UTF-8");
        assert!(Json::parse(br#""\ud800""#).is_err());
    }

    #[test]
    fn debug_shows_only_the_kind() {
        assert_eq!(format!("{:?}", Json::parse(b"\"secret\"").unwrap()), "Json([redacted], a string)");
    }
}
