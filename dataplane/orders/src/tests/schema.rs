//! The schemas describe what the reader accepts. `accepts` is a small JSON Schema validator without formats and
//! patterns; a test in text.rs covers the patterns.

use std::collections::BTreeMap;

use super::read::pointers;
use super::*;
use crate::{SaveRequest, schemas};

type Schemas = BTreeMap<String, Value>;

fn all() -> Schemas {
    schemas().into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap())).collect()
}

fn accepts(schemas: &Schemas, schema: &Value, value: &Value) -> bool {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return accepts(schemas, &schemas[reference.rsplit('/').next().unwrap()], value);
    }
    if let Some(either) = schema.get("oneOf").and_then(Value::as_array) {
        return either.iter().filter(|schema| accepts(schemas, schema, value)).count() == 1;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        other => panic!("a schema without type: {other}"),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) if types.contains(&"integer") => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&kind) {
        return false;
    }
    let one_of = schema.get("enum").and_then(Value::as_array).is_none_or(|all| all.contains(value));
    let most =
        |name: &str, size: f64| schema.get(name).and_then(Value::as_f64).is_none_or(|most| size <= most);
    let fits = match value {
        Value::String(text) => most("maxLength", text.chars().count() as f64),
        Value::Number(n) => most("maximum", n.as_f64().unwrap()),
        Value::Array(items) => {
            most("maxItems", items.len() as f64)
                && items.iter().all(|item| accepts(schemas, &schema["items"], item))
        }
        Value::Object(object) => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            schema["additionalProperties"] == json!(false)
                && required.filter_map(Value::as_str).all(|name| object.contains_key(name))
                && object.iter().all(|(name, value)| {
                    schema["properties"].get(name).is_some_and(|schema| accepts(schemas, schema, value))
                })
        }
        _ => true,
    };
    one_of && fits
}

#[test]
fn examples_fit_the_schemas() {
    let schemas = all();
    for (kind, _) in examples() {
        assert!(accepts(&schemas, &schemas["SaveOrderRequest"], &example(kind)), "{kind}");
        let stored: Value = serde_json::from_str(&order(kind, &[]).to_stored()).unwrap();
        assert!(accepts(&schemas, &schemas["StoredOrder"], &stored), "{kind}");
    }
}

#[test]
fn schema_and_reader_agree_on_every_changed_field() {
    let schemas = all();
    let values = [
        json!(null),
        json!("x"),
        json!(""),
        json!(1),
        json!(-1),
        json!(true),
        json!([]),
        json!({}),
        json!({"x": 1}),
        json!([null]),
    ];
    for (kind, _) in examples() {
        for pointer in pointers(&example(kind), "") {
            for value in &values {
                let body = with(kind, &[(&pointer, value.clone())]);
                let (fits, taken) =
                    (accepts(&schemas, &schemas["SaveOrderRequest"], &body), read(&body).is_ok());
                // This validator ignores patterns, formats and lower bounds, so it may accept a text or -1 that the
                // reader refuses.
                assert!(fits || !taken, "{kind} {pointer} {value}: taken, but does not fit");
                assert!(
                    taken || !fits || value.is_string() || *value == json!(-1),
                    "{kind} {pointer} {value}: fits"
                );
            }
        }
    }
}

#[test]
fn reader_accepts_exactly_the_properties_of_the_schema() {
    let schemas = all();
    for kind in OrderType::ALL {
        let schema = &schemas[&format!("{kind}Order")];
        assert_eq!(schema["required"], json!(["orderType"]));
        assert_eq!(schema["properties"]["orderType"]["enum"], json!([kind.as_str()]));
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        for name in &names {
            let value = if *name == "orderType" { json!(kind.as_str()) } else { Value::Null };
            assert!(read(&json!({"orderType": kind.as_str(), *name: value})).is_ok(), "{kind} {name}");
        }
        let message = read(&json!({"orderType": kind.as_str(), "nothing": 1})).unwrap_err().to_string();
        let taken = message.split("takes: ").nth(1).unwrap();
        let mut taken: Vec<&str> = taken.split(", ").collect();
        let mut names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        taken.sort_unstable();
        names.sort_unstable();
        assert_eq!(taken, names, "{kind}");
    }
}

#[test]
fn stored_order_has_no_field_of_the_request_around_it() {
    let schemas = all();
    for kind in OrderType::ALL {
        let properties = |name: String| schemas[&name]["properties"].as_object().unwrap().clone();
        let (saved, stored) = (properties(format!("{kind}Order")), properties(format!("Stored{kind}Order")));
        let only_saved: Vec<&str> =
            saved.keys().filter(|name| !stored.contains_key(*name)).map(String::as_str).collect();
        let expected: &[&str] = match kind {
            OrderType::PhotoCopy => &["customerCode", "export", "finalize", "version", "webOrderId"],
            _ => &["customerCode", "export", "version", "webOrderId"],
        };
        assert_eq!(
            {
                let mut names = only_saved;
                names.sort_unstable();
                names
            },
            expected,
            "{kind}"
        );
        assert!(stored.keys().all(|name| saved.contains_key(name)), "{kind}");
    }
}

#[test]
fn unions_distinguish_the_seven_types() {
    let schemas = all();
    for (name, photo_copy) in
        [("SaveOrderRequest", "PhotoCopyOrder"), ("StoredOrder", "StoredPhotoCopyOrder")]
    {
        let union = &schemas[name];
        assert_eq!(union["oneOf"].as_array().unwrap().len(), 7);
        assert_eq!(union["discriminator"]["propertyName"], "orderType");
        let mapped = &union["discriminator"]["mapping"]["PhotoCopy"];
        assert_eq!(*mapped, format!("#/components/schemas/{photo_copy}"));
    }
}

#[test]
fn every_reference_resolves_and_every_field_is_described() {
    let schemas = all();
    for (name, schema) in &schemas {
        for reference in schema.to_string().split("#/components/schemas/").skip(1) {
            let target = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(target), "{name} refers to {target}");
        }
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(schema["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}.{field}");
        }
    }
}

#[test]
fn schemas_show_requiredness_and_defaults() {
    let schemas = all();
    let about = |part: &str, field: &str| {
        schemas[part]["properties"][field]["description"].as_str().unwrap().to_owned()
    };
    assert_eq!(about("Address", "city"), "City. Required at export.");
    assert_eq!(about("ProcessOrder", "attorney"), "The attorney the work is for. Required at export.");
    assert_eq!(about("DeliveryOrder", "attorney"), "The attorney the work is for.");
    assert_eq!(schemas["ProcessOrder"]["properties"]["minimumAttempts"]["default"], json!(3));
    assert!(about("CourtOrder", "serviceLevel").ends_with(" Absent means Routine."));
    assert_eq!(
        about("CourtOrder", "feeLimit"),
        "USD; not to be exceeded without asking. At most 2 decimals."
    );
}

/// What a field may have at most: a text its characters, a list its items and what each of them may have.
fn bound(schema: &Value) -> Option<String> {
    let number = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    match (number("maxItems"), number("maxLength"), number("minimum"), number("maximum")) {
        (Some(most), ..) => match bound(&schema["items"]) {
            Some(of_each) => Some(format!("{most} of {of_each}")),
            None => Some(most.to_string()),
        },
        (_, Some(most), ..) => Some(most.to_string()),
        (_, _, Some(least), Some(most)) => Some(format!("{least} to {most}")),
        _ => None,
    }
}

/// bounds.txt has each bound once more: a client that sends what the reader took before relies on it.
#[test]
fn each_field_keeps_its_bound() {
    let schemas = all();
    let mut bounds = Vec::new();
    for (name, schema) in schemas.iter().filter(|(name, _)| !name.starts_with("Stored")) {
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            bounds.extend(bound(schema).map(|bound| format!("{name}.{field} {bound}")));
        }
    }
    bounds.sort_unstable();
    let expected: Vec<&str> = include_str!("bounds.txt").lines().collect();
    for (bound, expected) in bounds.iter().zip(&expected) {
        assert_eq!(bound, expected);
    }
    assert_eq!(bounds.len(), expected.len());
}

#[test]
fn utoipa_finds_the_union_under_its_name() {
    use utoipa::ToSchema;
    assert_eq!(SaveRequest::name(), "SaveOrderRequest");
    let mut found = Vec::new();
    SaveRequest::schemas(&mut found);
    assert!(found.iter().any(|(name, _)| name == "Address"));
}
