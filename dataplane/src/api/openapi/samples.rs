//! Examples of requests and responses.

use std::collections::BTreeMap;

use docket_orders::openapi::STORED_ORDER;
use serde_json::{Value, json};
use utoipa::openapi::{Content, RefOr, Schema};

/// Examples, put together from the examples of fields.
pub(super) struct Samples(Value);

impl Samples {
    /// Creates the examples of these components.
    pub(super) fn new(schemas: &BTreeMap<String, RefOr<Schema>>) -> Self {
        Self(serde_json::to_value(schemas).expect("the schemas have string keys only"))
    }

    /// The name of the content's component, if it has one.
    pub(super) fn named<'a>(&self, content: &'a Content) -> Option<&'a str> {
        match &content.schema {
            Some(RefOr::Ref(named)) => named.ref_location.rsplit('/').next(),
            _ => None,
        }
    }

    /// An example of the content, if it has a component.
    pub(super) fn of(&self, content: &Content) -> Option<Value> {
        self.named(content).map(|name| self.sample(name, &self.0[name]))
    }

    /// A value that the schema accepts: the example of each field that has one, `null` where it is allowed, and otherwise some
    /// value of the field's type.
    fn sample(&self, name: &str, schema: &Value) -> Value {
        if name == STORED_ORDER {
            let [(_, order), ..] = docket_orders::examples();
            return serde_json::from_str(order).expect("the examples are JSON");
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.sample(name, &self.0[name]);
        }
        if let Some(example) = ["example", "default"].into_iter().find_map(|key| schema.get(key)) {
            return example.clone();
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().map(|part| self.sample("", part));
            let fields = parts.filter_map(|part| part.as_object().cloned()).flatten();
            return Value::Object(fields.collect());
        }
        if let Some(alternatives) = schema["oneOf"].as_array() {
            let null = alternatives.iter().find(|one| one["type"] == "null");
            return match null.or(alternatives.first()) {
                Some(one) => self.sample("", one),
                None => Value::Null,
            };
        }
        if let Some(word) = schema["enum"].get(0) {
            return word.clone();
        }
        match (&schema["type"], schema["format"].as_str()) {
            (Value::String(kind), _) if kind == "object" => {
                let required = |name: &String| {
                    schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
                };
                let fields = schema["properties"].as_object().into_iter().flatten();
                let shown = fields.filter(|(name, field)| required(name) || field.get("example").is_some());
                Value::Object(shown.map(|(name, field)| (name.clone(), self.sample("", field))).collect())
            }
            (Value::String(kind), _) if kind == "array" => json!([self.sample("", &schema["items"])]),
            (Value::String(kind), _) if kind == "boolean" => json!(false),
            (Value::String(kind), _) if kind == "integer" || kind == "number" => {
                schema.get("minimum").cloned().unwrap_or(json!(1))
            }
            (Value::String(kind), Some("date-time")) if kind == "string" => json!("2026-11-21T05:06:07.123Z"),
            (Value::String(kind), Some("date")) if kind == "string" => json!("2026-11-21"),
            (Value::String(kind), _) if kind == "string" => json!("…"),
            _ => Value::Null,
        }
    }
}
