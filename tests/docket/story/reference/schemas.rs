//! The fields of the OpenAPI documents as tables: type, range and default of each, from its schema.

use std::collections::BTreeSet;

use docket_docs::slug;
use serde_json::Value;

use super::cell;

/// The component of an order in a response; its fields are the fields of the requests.
const STORED_ORDER: &str = "StoredOrder";
/// The section about the fields of orders.
pub(super) const ORDERS: &str = "Fields of an order";
/// The longest pattern that is shown. What a longer one accepts is in the description of its field.
const LONGEST_PATTERN: usize = 40;

/// Whether fields belong to a request or to a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    ToDocket,
    ByDocket,
}

/// The schemas of a document.
pub(super) struct Schemas<'a> {
    document: &'a Value,
    /// The components that have a section of their own.
    sections: BTreeSet<&'a str>,
}

impl<'a> Schemas<'a> {
    /// The schemas of a document. Each object that the component `root` consists of has a section.
    pub(super) fn new(document: &'a Value, root: Option<&'a str>) -> Self {
        let mut all = Self { document, sections: BTreeSet::new() };
        if let Some(root) = root {
            let mut seen = BTreeSet::new();
            all.reach(&document["components"]["schemas"][root], &mut seen);
            all.sections =
                seen.into_iter().filter(|name| all.component(name)["properties"].is_object()).collect();
        }
        all
    }

    fn component(&self, name: &str) -> &'a Value {
        &self.document["components"]["schemas"][name]
    }

    /// Collects the names of the components that a schema refers to, directly or through others.
    fn reach(&self, schema: &'a Value, seen: &mut BTreeSet<&'a str>) {
        match schema {
            Value::Object(object) => {
                let (name, component) = self.resolved(schema);
                if let Some(name) = name {
                    if seen.insert(name) {
                        self.reach(component, seen);
                    }
                    return;
                }
                object.values().for_each(|value| self.reach(value, seen));
            }
            Value::Array(items) => items.iter().for_each(|value| self.reach(value, seen)),
            _ => {}
        }
    }

    /// The component that a schema refers to, with its name; otherwise the schema itself.
    pub(super) fn resolved(&self, schema: &'a Value) -> (Option<&'a str>, &'a Value) {
        match schema["$ref"].as_str() {
            Some(path) => {
                let target = self.document.pointer(&path[1..]).expect("a component");
                (path.rsplit('/').next(), target)
            }
            None => (None, schema),
        }
    }

    /// The shapes that a body can have: the schema itself, or each alternative of a choice.
    pub(super) fn shapes(&self, schema: &'a Value) -> Vec<&'a Value> {
        let (_, resolved) = self.resolved(schema);
        match resolved["oneOf"].as_array() {
            Some(alternatives) => alternatives.iter().collect(),
            None => vec![schema],
        }
    }

    /// What a schema says about its values.
    pub(super) fn about(&self, schema: &'a Value) -> &'a str {
        self.resolved(schema).1["description"].as_str().unwrap_or_default()
    }

    /// The table of the fields of an object. An object within it that has no section is shown by the paths of its fields.
    pub(super) fn table(&self, schema: &'a Value, sent: Sent) -> String {
        self.table_without(schema, sent, &BTreeSet::new())
    }

    fn table_without(&self, schema: &'a Value, sent: Sent, without: &BTreeSet<&str>) -> String {
        let rows = self.rows(schema, "", sent, without);
        match (rows.is_empty(), sent) {
            (true, _) => String::new(),
            (false, Sent::ToDocket) => format!("\n| Field | Value | Default | |\n|---|---|---|---|\n{rows}"),
            (false, Sent::ByDocket) => format!("\n| Field | Value | |\n|---|---|---|\n{rows}"),
        }
    }

    fn rows(&self, schema: &'a Value, before: &str, sent: Sent, without: &BTreeSet<&str>) -> String {
        let (_, schema) = self.resolved(schema);
        let joined = schema["allOf"].as_array().into_iter().flatten();
        let mut rows: String = joined.map(|part| self.rows(part, before, sent, without)).collect();
        let required = words(&schema["required"]);
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (name, field) in fields.filter(|(name, _)| !without.contains(name.as_str())) {
            let path = format!("{before}{name}");
            rows += &self.row(&path, field, required.contains(&name.as_str()), sent);
            if let Some((list, inner)) = self.nested(field) {
                rows += &self.rows(inner, &format!("{path}{list}."), sent, &BTreeSet::new());
            }
        }
        rows
    }

    fn row(&self, path: &str, field: &'a Value, is_required: bool, sent: Sent) -> String {
        let own = field["description"].as_str();
        let about = cell(own.unwrap_or_else(|| self.about(field)));
        let value = cell(&self.value(field));
        match (sent, is_required) {
            (Sent::ToDocket, true) => {
                format!("| `{path}` | {value} | {} | **Required.** {about} |\n", default(field))
            }
            (Sent::ToDocket, false) => format!("| `{path}` | {value} | {} | {about} |\n", default(field)),
            (Sent::ByDocket, true) => format!("| `{path}` | {value} | {about} |\n"),
            (Sent::ByDocket, false) => format!("| `{path}` | {value} | Not always sent. {about} |\n"),
        }
    }

    /// The object that a field has, may have, or is a list of, if it has no section; and `[]` for a list.
    fn nested(&self, field: &'a Value) -> Option<(&'static str, &'a Value)> {
        let (name, schema) = self.resolved(field);
        if name.is_some_and(|name| name == STORED_ORDER || self.sections.contains(name)) {
            return None;
        }
        if let Some(alternatives) = schema["oneOf"].as_array() {
            return alternatives.iter().find_map(|one| self.nested(one));
        }
        if let Some(items) = schema.get("items") {
            return self.nested(items).map(|(_, inner)| ("[]", inner));
        }
        (schema["properties"].is_object() || schema["allOf"].is_array()).then_some(("", schema))
    }

    /// The type of the values of a schema, and which of them are valid.
    pub(super) fn value(&self, schema: &'a Value) -> String {
        let (name, schema) = self.resolved(schema);
        match name {
            Some("FailureWord" | "CauseWord") => {
                return "string, a heading of [Failure classes](failure-classes.md)".to_owned();
            }
            Some(STORED_ORDER) => return format!("object, the [{ORDERS}](#{})", slug(ORDERS)),
            Some(name) if self.sections.contains(name) => return format!("[{name}](#{})", slug(name)),
            _ => {}
        }
        if let Some(alternatives) = schema["oneOf"].as_array() {
            let mut all: Vec<String> = alternatives.iter().map(|one| self.value(one)).collect();
            all.sort_by_key(|one| one == "null");
            return all.join(" or ");
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<String> =
                words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
            return words.join(", ");
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => vec![kind.as_str().unwrap_or("object")],
        };
        let kind = |kind: &str| match kind {
            "array" => format!("list of {}", self.value(&schema["items"])),
            other => other.to_owned(),
        };
        let kinds: Vec<String> = kinds.into_iter().map(kind).collect();
        std::iter::once(kinds.join(" or ")).chain(ranges(schema)).collect::<Vec<_>>().join(", ")
    }

    /// The fields that all types of orders have, then a section for each type and for each object within one.
    pub(super) fn orders(&self, root: &'a str) -> String {
        let types = self.shapes(self.component(root));
        let objects: Vec<_> = types.iter().map(|one| self.resolved(one)).collect();
        let fields = |object: &'a Value| object["properties"].as_object().into_iter().flatten();
        let common: BTreeSet<&str> = fields(objects[0].1)
            .filter(|(name, field)| {
                objects.iter().all(|(_, other)| other["properties"].get(name) == Some(*field))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        let of_one: BTreeSet<&str> = fields(objects[0].1)
            .map(|(name, _)| name.as_str())
            .filter(|name| !common.contains(name))
            .collect();
        let mut page = self.table_without(types[0], Sent::ToDocket, &of_one);
        let none = BTreeSet::new();
        let names: BTreeSet<&str> = objects.iter().filter_map(|(name, _)| *name).collect();
        let parts = self.sections.iter().copied().filter(|name| !names.contains(name));
        for name in objects.iter().filter_map(|(name, _)| *name).chain(parts) {
            let component = self.component(name);
            let without = if names.contains(name) { &common } else { &none };
            let table = self.table_without(component, Sent::ToDocket, without);
            page += &format!("\n### {name}\n\n{}\n{table}", self.about(component));
        }
        page
    }
}

pub(super) fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The default of a field, as code.
pub(super) fn default(schema: &Value) -> String {
    schema.get("default").map(|value| format!("`{value}`")).unwrap_or_default()
}

/// Which values of a type are valid.
fn ranges(schema: &Value) -> Vec<String> {
    let format = match schema["format"].as_str() {
        Some("date-time") => Some("a time with an offset"),
        Some("date") => Some("a date"),
        Some("date-or-time") => Some("a date, or a time with an offset"),
        Some("uri-reference") => Some("a URI reference"),
        _ => None,
    };
    let between = |least: &str, most: &str, unit: &str| {
        // A list of at least 0 items is any list.
        let least = schema.get(least).filter(|least| **least != 0 || unit.is_empty());
        match (least, schema.get(most)) {
            (Some(least), Some(most)) if least == most => Some(format!("{least}{unit}")),
            (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
            (None, Some(most)) => Some(format!("at most {most}{unit}")),
            (Some(least), None) => Some(format!("at least {least}{unit}")),
            (None, None) => None,
        }
    };
    let pattern = schema["pattern"].as_str().filter(|_| format.is_none()).and_then(|pattern| match pattern {
        control if control.starts_with(r"^[^\x00") => Some("without control characters".to_owned()),
        short if short.len() <= LONGEST_PATTERN => Some(format!("`{short}`")),
        _ => None,
    });
    let lengths = between("minLength", "maxLength", " characters");
    let numbers = between("minimum", "maximum", "");
    let items = between("minItems", "maxItems", " items");
    [format.map(str::to_owned), numbers, lengths, items, pattern].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_names_type_range_and_words() {
        let document = json!({"components": {"schemas": {
            "Word": {"type": "string", "enum": ["A", "B"]},
            "Part": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}},
            "Root": {"type": "object", "properties": {"part": {"$ref": "#/components/schemas/Part"}}},
        }}});
        let cases = [
            (json!({"type": "integer", "minimum": 1, "maximum": 100}), "integer, 1 to 100"),
            (
                json!({"type": ["string", "null"], "minLength": 1, "maxLength": 64}),
                "string or null, 1 to 64 characters",
            ),
            (json!({"type": "string", "minLength": 36, "maxLength": 36}), "string, 36 characters"),
            (
                json!({"type": "array", "maxItems": 5, "items": {"$ref": "#/components/schemas/Part"}}),
                "list of [Part](#part), at most 5 items",
            ),
            (json!({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Word"}]}), "`A`, `B` or null"),
            (json!({"type": "string", "format": "date-time"}), "string, a time with an offset"),
            (json!({"type": "string", "pattern": "^[0-9]$"}), "string, `^[0-9]$`"),
        ];
        let schemas = Schemas::new(&document, Some("Root"));
        assert_eq!(schemas.sections, ["Part"].into());
        for (schema, expected) in &cases {
            assert_eq!(schemas.value(schema), *expected);
        }
    }

    #[test]
    fn table_has_the_fields_of_objects_within_objects() {
        let document = json!({});
        let schema = json!({"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "default": 3, "description": "How many."}}
        }}}});
        let schemas = Schemas::new(&document, None);
        assert_eq!(
            schemas.table(&schema, Sent::ToDocket),
            "\n| Field | Value | Default | |\n|---|---|---|---|\n| `items` | list of object |  | **Required.**  |\n\
             | `items[].n` | integer | `3` | **Required.** How many. |\n"
        );
        assert_eq!(
            schemas.table(&schema["properties"]["items"]["items"], Sent::ByDocket),
            "\n| Field | Value | |\n|---|---|---|\n| `n` | integer | How many. |\n"
        );
    }
}
