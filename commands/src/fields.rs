//! The fields of an answer, as texts.

use docket_program::screen::clean;
use serde_json::{Value, json};

/// The text of a field for a cell.
pub fn cell(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => "–".to_owned(),
        Value::String(text) => clean(text),
        other => other.to_string(),
    }
}

/// The first of these fields that has a value.
pub fn first(value: &Value, names: &[&str]) -> String {
    let given = names.iter().find(|name| !value[**name].is_null());
    given.map_or_else(|| "–".to_owned(), |name| cell(value, name))
}

/// A whole number; 0 without one.
pub fn number(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or(0)
}

/// The last failure class, cause and HTTP status.
pub fn last(value: &Value) -> String {
    let given = ["failureClass", "failureCause", "httpStatus"].iter().filter(|name| !value[**name].is_null());
    given.map(|name| cell(value, name)).collect::<Vec<_>>().join(" ")
}

/// The status; of a dead letter that does not count, also why.
pub fn status(value: &Value) -> String {
    cell(value, "status") + settled(value)
}

/// Why a dead letter does not count.
pub(crate) fn settled(value: &Value) -> &'static str {
    match (value["setAsideBy"].is_null(), value["resent"] == json!(true)) {
        (false, _) => " (set aside)",
        (true, true) => " (resent)",
        (true, false) => "",
    }
}

/// Says on standard error that an answer leaves out some of a list.
pub(crate) fn say_more(answer: &Value) {
    if answer["more"] == true {
        eprintln!("There are more; --limit shows up to 1000.");
    }
}

/// `1 dead letter`, `2 dead letters`.
pub fn dead_letters(count: i64) -> String {
    format!("{count} dead letter{}", if count == 1 { "" } else { "s" })
}
