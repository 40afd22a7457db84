//! The rules of the CRDs as a table, and the function that checks a document against it.
//!
//! The table works on JSON, so that wrong types, unknown fields and broken rules are reported together, each with its
//! path. `validate` of a typed object uses the same table.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Violation;

/// A rule in code: what must hold, and the message if it does not.
pub(crate) struct Check<T: ?Sized + 'static> {
    pub(crate) holds: fn(&T) -> bool,
    /// The same condition for the API server, in CEL; `self` is the value.
    #[cfg_attr(not(feature = "kube"), expect(dead_code, reason = "only the CRD uses it"))]
    pub(crate) cel: &'static str,
    pub(crate) message: &'static str,
}

/// What a value must be.
pub(crate) enum Rule {
    /// A string of this many characters (as in OpenAPI, not bytes), for which all checks hold.
    Text { length: RangeInclusive<usize>, checks: &'static [Check<str>] },
    /// One of these strings; `noun` names it in the message.
    Choice { noun: &'static str, values: &'static [&'static str] },
    /// A boolean.
    Flag,
    /// A whole number.
    Whole(RangeInclusive<i64>),
    /// A list of this many entries.
    List { entries: RangeInclusive<usize>, each: &'static Rule, distinct: Distinct },
    /// An object with these fields and no others.
    Record { fields: &'static [Field], checks: &'static [Check<Map<String, Value>>] },
    /// An object with further fields, which are not checked.
    OpenRecord { fields: &'static [Field] },
    /// An object of at most this many strings.
    TextMap { entries: usize, each: &'static Rule },
}

/// A field of an object.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) rule: &'static Rule,
}

/// What must not be repeated in a list.
pub(crate) enum Distinct {
    /// Nothing is compared.
    Nothing,
    /// The entries themselves (`x-kubernetes-list-type: set`).
    Entries,
    /// This field of the entries (`x-kubernetes-list-type: map`).
    By(&'static str),
}

/// A field that is required.
pub(crate) const fn required(name: &'static str, rule: &'static Rule) -> Field {
    Field { name, required: true, rule }
}

/// A field that is optional.
pub(crate) const fn optional(name: &'static str, rule: &'static Rule) -> Field {
    Field { name, required: false, rule }
}

/// Adds all violations in `value`, which is at `path`, to `found`.
pub(crate) fn check(rule: &Rule, value: &Value, path: &str, found: &mut Vec<Violation>) {
    match (rule, value) {
        (Rule::Text { length, checks }, Value::String(text)) => check_text(length, checks, text, path, found),
        (Rule::Choice { noun, values }, Value::String(text)) => {
            if !values.contains(&text.as_str()) {
                let message = format!("unknown {noun} {text:?}; one of: {}", values.join(", "));
                found.push(Violation::new(path, message));
            }
        }
        (Rule::Flag, Value::Bool(_)) => {}
        (Rule::Whole(range), Value::Number(number)) => {
            if !number.as_i64().is_some_and(|n| range.contains(&n)) {
                found.push(Violation::new(path, format!("{}, not {number}", whole_numbers(range))));
            }
        }
        (Rule::List { entries, each, distinct }, Value::Array(list)) => {
            check_list(entries, each, distinct, list, path, found);
        }
        (Rule::Record { fields, checks }, Value::Object(map)) => {
            check_fields(fields, map, path, found);
            check_unknown(fields, map, path, found);
            let broken = checks.iter().filter(|check| !(check.holds)(map));
            found.extend(broken.map(|check| Violation::new(path, check.message)));
        }
        (Rule::OpenRecord { fields }, Value::Object(map)) => check_fields(fields, map, path, found),
        (Rule::TextMap { entries, each }, Value::Object(map)) => {
            if map.len() > *entries {
                let message = format!("must have 0 to {entries} entries, not {}", map.len());
                found.push(Violation::new(path, message));
            }
            map.iter().for_each(|(name, value)| check(each, value, &join(path, name), found));
        }
        (rule, value) => found.push(Violation::new(path, wrong_type(rule, value))),
    }
}

fn check_text(
    length: &RangeInclusive<usize>,
    checks: &[Check<str>],
    text: &str,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let count = text.chars().count();
    if !length.contains(&count) {
        let message = format!("must have {} to {} characters, not {count}", length.start(), length.end());
        return found.push(Violation::new(path, message));
    }
    let broken = checks.iter().filter(|check| !(check.holds)(text));
    found.extend(broken.map(|check| Violation::new(path, check.message)));
}

fn check_list(
    entries: &RangeInclusive<usize>,
    each: &Rule,
    distinct: &Distinct,
    list: &[Value],
    path: &str,
    found: &mut Vec<Violation>,
) {
    if !entries.contains(&list.len()) {
        let message =
            format!("must have {} to {} entries, not {}", entries.start(), entries.end(), list.len());
        found.push(Violation::new(path, message));
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        check(each, entry, &path, found);
        let key = match distinct {
            Distinct::Nothing => None,
            Distinct::Entries => entry.as_str(),
            Distinct::By(field) => entry.get(field).and_then(Value::as_str),
        };
        if let Some(key) = key
            && !seen.insert(key)
        {
            found.push(Violation::new(path, format!("{key:?} is listed twice; list it once")));
        }
    }
}

fn check_fields(fields: &[Field], map: &Map<String, Value>, path: &str, found: &mut Vec<Violation>) {
    for field in fields {
        match map.get(field.name) {
            Some(value) => check(field.rule, value, &join(path, field.name), found),
            None if field.required => found.push(Violation::new(join(path, field.name), "is required")),
            None => {}
        }
    }
}

fn check_unknown(fields: &[Field], map: &Map<String, Value>, path: &str, found: &mut Vec<Violation>) {
    for name in map.keys().filter(|name| fields.iter().all(|field| field.name != *name)) {
        let known: Vec<_> = fields.iter().map(|field| field.name).collect();
        let message = format!("unknown field; one of: {}", known.join(", "));
        found.push(Violation::new(join(path, name), message));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn whole_numbers(range: &RangeInclusive<i64>) -> String {
    match (range.start(), range.end()) {
        (low, &i64::MAX) => format!("must be a whole number of at least {low}"),
        (low, high) => format!("must be a whole number from {low} to {high}"),
    }
}

fn wrong_type(rule: &Rule, value: &Value) -> String {
    let wanted = match rule {
        Rule::Text { .. } | Rule::Choice { .. } => "a string",
        Rule::Flag => "true or false",
        Rule::Whole(_) => "a whole number",
        Rule::List { .. } => "a list",
        Rule::Record { .. } | Rule::OpenRecord { .. } | Rule::TextMap { .. } => "an object",
    };
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    // YAML reads unquoted 1001, yes and 1e5 as numbers and booleans, although the user meant a text.
    let hint = match (wanted, value) {
        ("a string", Value::Bool(_) | Value::Number(_)) => "; put it in quotes",
        _ => "",
    };
    format!("must be {wanted}, not {given}{hint}")
}

/// Removes members that are null, as the API server does before it validates: an empty `external:` counts as absent.
pub(crate) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(strip_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Reads a document. Errors: all its violations.
pub(crate) fn read<T: DeserializeOwned>(rule: &Rule, mut document: Value) -> Result<T, Vec<Violation>> {
    strip_nulls(&mut document);
    let mut found = Vec::new();
    check(rule, &document, "", &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    // The table covers every field, so this fails only if table and type disagree.
    serde_json::from_value(document).map_err(|error| vec![Violation::new("", error.to_string())])
}

/// Checks a typed object.
pub(crate) fn check_object(
    (metadata_rule, metadata): (&Rule, &impl Serialize),
    (spec_rule, spec): (&Rule, &impl Serialize),
) -> Vec<Violation> {
    let json = |part: serde_json::Result<Value>| part.expect("plain structs with text keys serialise");
    let mut found = Vec::new();
    check(metadata_rule, &json(serde_json::to_value(metadata)), "metadata", &mut found);
    check(spec_rule, &json(serde_json::to_value(spec)), "spec", &mut found);
    found
}

/// The `apiVersion` of both kinds.
pub(crate) const API_VERSION: Rule = Rule::Choice { noun: "apiVersion", values: &[crate::API_VERSION] };

const LABEL_CEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
const LABEL_MESSAGE: &str =
    "must be lower-case letters, digits and \"-\", beginning and ending with a letter or digit";

/// A DNS label, for names of keys, subdomains and namespaces.
pub(crate) const LABEL: Rule = Rule::Text {
    length: 1..=63,
    checks: &[Check { holds: is_label, cel: LABEL_CEL, message: LABEL_MESSAGE }],
};

/// The name of another object. It becomes a part of a request's path to the API server.
pub(crate) const OBJECT_NAME: Rule = Rule::Text {
    length: 1..=253,
    checks: &[Check {
        holds: is_dns_name,
        cel: "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        message: DNS_NAME.message,
    }],
};

/// A key of a Secret or ConfigMap.
pub(crate) const DATA_KEY: Rule = Rule::Text {
    length: 1..=253,
    checks: &[Check {
        holds: |key| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
        cel: "self.matches('^[-._a-zA-Z0-9]*$')",
        message: "must be letters, digits, \"-\", \"_\" and \".\"",
    }],
};

/// Free text for people.
pub(crate) const DISPLAY_NAME: Rule = Rule::Text { length: 0..=128, checks: &[] };

/// A reference to one key of a Secret.
pub(crate) const SECRET_KEY_REF: Rule =
    Rule::Record { fields: &[required("name", &OBJECT_NAME), required("key", &DATA_KEY)], checks: &[] };

/// A reference to a Secret.
pub(crate) const NAMED_SECRET: Rule = Rule::Record { fields: &[required("name", &OBJECT_NAME)], checks: &[] };

const DNS_NAME: Check<str> = Check {
    holds: is_dns_name,
    cel: "true", // the API server checks names itself
    message: "must be lower-case letters, digits, \"-\" and \".\", beginning and ending with a letter or digit",
};

/// `metadata` of an object with no further limit on its name.
pub(crate) const METADATA: Rule = Rule::OpenRecord {
    fields: &[
        required("name", &Rule::Text { length: 1..=253, checks: &[DNS_NAME] }),
        optional("namespace", &LABEL),
        optional("generation", &Rule::Whole(0..=i64::MAX)),
    ],
};

/// `metadata` of a Tenant.
pub(crate) const TENANT_METADATA: Rule = Rule::OpenRecord {
    fields: &[
        required("name", &Rule::Text { length: 1..=253, checks: &[DNS_NAME, SHORT_NAME] }),
        optional("namespace", &LABEL),
        optional("generation", &Rule::Whole(0..=i64::MAX)),
    ],
};

/// A rule of the whole object, because the API server shows `metadata.name` only to such rules.
pub(crate) const TENANT_NAME: (&str, &str) = (
    "self.metadata.name.size() <= 50",
    "metadata.name must be at most 50 characters: generated Secrets append a suffix",
);

const SHORT_NAME: Check<str> = Check {
    holds: |name| name.chars().count() <= 50,
    cel: "true", // a rule of the whole object, see TENANT_NAME
    message: TENANT_NAME.1,
};

/// Whether `text` matches `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`.
fn is_label(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a Kubernetes object can have this name: 1 to 253 characters, DNS labels separated by dots. Check it before the
/// name becomes a part of a request to the API server.
pub fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && is_dns_name(text)
}

fn is_dns_name(text: &str) -> bool {
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn messages(rule: &Rule, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(rule, value, "spec.x", &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn wrong_type_names_the_right_one() {
        assert_eq!(
            messages(&LABEL, &json!(12)),
            ["spec.x: must be a string, not a number; put it in quotes"]
        );
        assert_eq!(messages(&Rule::Flag, &json!("yes")), ["spec.x: must be true or false, not a string"]);
        assert_eq!(messages(&SECRET_KEY_REF, &json!([])), ["spec.x: must be an object, not a list"]);
        assert_eq!(
            messages(&Rule::TextMap { entries: 1, each: &DISPLAY_NAME }, &json!({"a": 1})),
            ["spec.x.a: must be a string, not a number; put it in quotes"]
        );
        assert_eq!(
            messages(&Rule::TextMap { entries: 1, each: &DISPLAY_NAME }, &json!({"a": "", "b": ""})),
            ["spec.x: must have 0 to 1 entries, not 2"]
        );
    }

    #[test]
    fn number_out_of_range_is_refused() {
        let rule = Rule::Whole(1..=1440);
        assert!(messages(&rule, &json!(1440)).is_empty());
        for wrong in [json!(0), json!(1441), json!(1.5), json!(u64::MAX)] {
            assert_eq!(
                messages(&rule, &wrong),
                [format!("spec.x: must be a whole number from 1 to 1440, not {wrong}")]
            );
        }
        assert_eq!(
            messages(&Rule::Whole(0..=i64::MAX), &json!(-1)),
            ["spec.x: must be a whole number of at least 0, not -1"]
        );
    }

    #[test]
    fn length_counts_characters_not_bytes() {
        assert!(messages(&DISPLAY_NAME, &json!("ü".repeat(128))).is_empty());
        assert_eq!(
            messages(&DISPLAY_NAME, &json!("ü".repeat(129))),
            ["spec.x: must have 0 to 128 characters, not 129"]
        );
    }

    #[test]
    fn label_and_dns_name_follow_the_patterns() {
        for good in ["a", "a-1", "0"] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "ä"] {
            assert!(!is_label(bad), "{bad}");
        }
        assert!(is_dns_name("a.b-c"));
        assert!(!is_dns_name("a..b"));
    }

    #[test]
    fn null_members_are_removed_except_in_lists() {
        let mut value = json!({"a": null, "b": {"c": null, "d": 1}, "e": [null]});
        strip_nulls(&mut value);
        assert_eq!(value, json!({"b": {"d": 1}, "e": [null]}));
    }
}
