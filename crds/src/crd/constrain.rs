//! Writes the limits of the table of rules into the schema that is derived from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use crate::rules::{Check, Distinct, Field, Rule};

/// Completes the schema of an object; `spec` is the rule of its spec.
///
/// Panics if type and table have different fields, which every test of the definitions notices.
pub(super) fn root(schema: &mut JSONSchemaProps, spec: &Rule) {
    tidy(schema);
    constrain(spec, property(schema, "spec", "the object"), "spec");
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str, path: &str) -> &'a mut JSONSchemaProps {
    let found = schema.properties.as_mut().and_then(|properties| properties.get_mut(name));
    found.unwrap_or_else(|| panic!("the type of {path} has no field {name:?}, which its rule names"))
}

/// Removes parts that the derive adds and Kubernetes does not use.
fn tidy(schema: &mut JSONSchemaProps) {
    // With `nullable`, the API server would keep members that are null. Without it, it drops them, as the reader of files does.
    schema.nullable = None;
    schema.title = None;
    if matches!(schema.format.as_deref(), Some("uint16" | "uint32")) {
        schema.format = Some("int32".to_owned());
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(tidy);
    if let Some(items) = items(schema) {
        tidy(items);
    }
    if let Some(values) = map_values(schema) {
        tidy(values);
    }
}

fn items(schema: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items),
        _ => None,
    }
}

fn map_values(schema: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match &mut schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values),
        _ => None,
    }
}

fn constrain(rule: &Rule, schema: &mut JSONSchemaProps, path: &str) {
    match rule {
        Rule::Text { length, checks } => {
            schema.min_length = minimum(*length.start());
            schema.max_length = Some(count(*length.end()));
            add(schema, checks);
        }
        Rule::Choice { values, .. } => {
            schema.enum_ = Some(values.iter().map(|value| JSON((*value).into())).collect());
        }
        Rule::Flag => {}
        Rule::Whole(range) => {
            schema.minimum = Some(number(*range.start()));
            schema.maximum = (*range.end() != i64::MAX).then(|| number(*range.end()));
        }
        Rule::List { entries, each, distinct } => {
            schema.min_items = minimum(*entries.start());
            schema.max_items = Some(count(*entries.end()));
            let kind = match distinct {
                Distinct::Nothing => "atomic",
                Distinct::Entries => "set",
                Distinct::By(_) => "map",
            };
            schema.x_kubernetes_list_type = Some(kind.to_owned());
            if let Distinct::By(key) = distinct {
                schema.x_kubernetes_list_map_keys = Some(vec![(*key).to_owned()]);
            }
            constrain(each, items(schema).unwrap_or_else(|| panic!("{path} is no list")), path);
        }
        Rule::Record { fields, checks } => {
            constrain_fields(fields, schema, path);
            add(schema, checks);
        }
        Rule::TextMap { entries, each } => {
            schema.max_properties = Some(count(*entries));
            constrain(each, map_values(schema).unwrap_or_else(|| panic!("{path} is no map")), path);
        }
        Rule::OpenRecord { .. } => {
            unreachable!("only metadata and status are open, and they are no part of a spec")
        }
    }
}

fn constrain_fields(fields: &[Field], schema: &mut JSONSchemaProps, path: &str) {
    let known = schema.properties.iter().flat_map(|properties| properties.keys());
    for name in known {
        assert!(fields.iter().any(|field| field.name == name), "the rule of {path} does not name {name:?}");
    }
    for field in fields {
        let required = schema.required.iter().flatten().any(|name| name == field.name);
        assert_eq!(
            required, field.required,
            "type and rule of {path} disagree whether {} is required",
            field.name
        );
        constrain(field.rule, property(schema, field.name, path), &format!("{path}.{}", field.name));
    }
}

/// Adds the checks after the rules from the derive.
fn add<T: ?Sized>(schema: &mut JSONSchemaProps, checks: &[Check<T>]) {
    let rules = checks.iter().map(|check| ValidationRule {
        rule: check.cel.to_owned(),
        message: Some(check.message.to_owned()),
        ..ValidationRule::default()
    });
    schema.x_kubernetes_validations.get_or_insert_default().extend(rules);
    if schema.x_kubernetes_validations.as_ref().is_some_and(Vec::is_empty) {
        schema.x_kubernetes_validations = None;
    }
}

fn minimum(count_: usize) -> Option<i64> {
    (count_ > 0).then(|| count(count_))
}

fn count(count: usize) -> i64 {
    count.try_into().expect("limits are small")
}

#[expect(clippy::cast_precision_loss, reason = "limits are small")]
fn number(limit: i64) -> f64 {
    limit as f64
}
