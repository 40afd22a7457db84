//! Every value is described where it is set, listed in README.md, and known to the schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::helm::{MINIMAL, documents, file, render, repository, text};

/// A described value: its comment.
type Described = BTreeMap<String, String>;

/// Comments of values.yaml by the path of the key below them, in the order of the file beside.
fn described() -> (Described, Vec<String>) {
    let mut comments = Described::new();
    let mut order = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in file("values.yaml").lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(text) = trimmed.strip_prefix('#') {
            comment.push(text.strip_prefix(' ').unwrap_or(text).trim_end());
            continue;
        }
        let key = trimmed.split_once(':').map(|(key, _)| key).filter(|key| !key.starts_with('-'));
        if let Some(key) = key
            .filter(|key| key.chars().all(|letter| letter.is_ascii_alphanumeric() || "./".contains(letter)))
        {
            path.retain(|(outer, _)| *outer < indent);
            path.push((indent, key.to_owned()));
            if !comment.is_empty() {
                let at = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
                assert!(comments.insert(at.clone(), comment.join("\n")).is_none(), "{at} is there twice");
                order.push(at);
            }
        }
        comment.clear();
    }
    (comments, order)
}

fn values() -> Value {
    documents(&file("values.yaml")).remove(0)
}

fn at<'a>(values: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(values, |value, key| &value[key])
}

/// Paths that are not only the heading of others.
fn rows() -> Vec<String> {
    let (_, order) = described();
    let heading = |path: &str| order.iter().any(|other| other.starts_with(&format!("{path}.")));
    order.iter().filter(|path| !heading(path)).cloned().collect()
}

fn undescribed(value: &Value, path: &str, rows: &[String], found: &mut Vec<String>) {
    if rows.iter().any(|row| row == path) {
        return;
    }
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => {
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                undescribed(value, &path, rows, found);
            }
        }
        None => found.push(path.to_owned()),
    }
}

#[test]
fn each_value_has_a_comment() {
    let mut found = Vec::new();
    undescribed(&values(), "", &rows(), &mut found);
    assert!(found.is_empty(), "without a comment in values.yaml: {found:?}");
}

/// Sorts the keys of a value. Whether serde_json keeps their order depends on the other crates of the build.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let entries: BTreeMap<&String, Value> =
                object.iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// The table of README.md, from values.yaml.
fn table() -> String {
    let (comments, _) = described();
    let values = values();
    let mut table = "| Value | Default | |\n|---|---|---|\n".to_owned();
    for path in rows() {
        let comment = comments[&path].replace('\n', " ").replace('|', "\\|");
        let default = sorted(at(&values, &path)).to_string();
        table += &format!("| `{path}` | `{default}` | {comment} |\n");
    }
    table
}

#[test]
fn the_readme_lists_every_value() {
    let readme = file("README.md");
    let (_, rest) = readme.split_once("<!-- values -->\n").expect("README.md has the mark <!-- values -->");
    let (written, _) =
        rest.split_once("<!-- end of values -->").expect("README.md has the mark <!-- end of values -->");
    let right = table();
    // The whole of it, so that it can be put there.
    assert!(
        written == right,
        "between the marks of charts/docket/README.md must be what values.yaml says:\n{right}"
    );
}

/// Each object of the schema that lists its properties takes no others.
fn closed(schema: &Value, path: &str, open: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        if schema["additionalProperties"] != false {
            open.push(path.to_owned());
        }
        for (key, schema) in properties {
            closed(schema, &format!("{path}.{key}"), open);
        }
    }
}

#[test]
fn the_schema_knows_the_values_of_the_file_and_no_others() {
    let schema: Value = serde_json::from_str(&file("values.schema.json")).expect("JSON");
    let mut open = Vec::new();
    closed(&schema, "", &mut open);
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        closed(definition, name, &mut open);
    }
    assert!(open.is_empty(), "these take any key: {open:?}");
    let values = values();
    // Only a parent chart sets `enabled`.
    let mut missing = Vec::new();
    compare(&schema, &schema, &values, "", &mut missing);
    missing.retain(|path| path != ".enabled");
    assert!(missing.is_empty(), "in one of values.yaml and values.schema.json only: {missing:?}");
}

fn compare(root: &Value, schema: &Value, value: &Value, path: &str, missing: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => &root["$defs"][name.rsplit('/').next().expect("a name")],
        None => schema,
    };
    let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) else {
        return;
    };
    // An object whose keys are all optional to Kubernetes, such as a probe, need not show each.
    let free = ["Probe", "resources", "extraEgress"].iter().any(|ending| path.ends_with(ending));
    for (key, schema) in properties {
        match object.get(key) {
            Some(value) => compare(root, schema, value, &format!("{path}.{key}"), missing),
            None if free => {}
            None => missing.push(format!("{path}.{key}")),
        }
    }
    for key in object.keys().filter(|key| !properties.contains_key(*key)) {
        missing.push(format!("{path}.{key}"));
    }
}

/// NOTES.txt, which only an installation shows, as an object.
fn notes(values: &str) -> String {
    let object = r#"
extraObjects:
  - |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: notes}
    data:
      notes: |
        {{- include "docket/templates/NOTES.txt" . | nindent 8 }}
"#;
    let objects = render(&(values.to_owned() + object));
    text(&objects.one("ConfigMap", "notes")["data"]["notes"]).to_owned()
}

#[test]
fn notes_show_the_next_commands_and_what_is_open() {
    let quickstart = notes(&file("quickstart.yaml"));
    for expected in [
        "kubectl --namespace docket-system rollout status deployment",
        "kubectl apply --filename -",
        "kubectl wait tenant/acme --for condition=Ready",
        "acme.localhost",
        "port-forward service/docket-api 8080:http",
        "WARNING: quickstart.enabled is for trying out.",
        "docket employees add --tenant ACME",
        "http://acme.localhost:8080/portal",
        "whole cluster and in all private networks: networkPolicy.apiServer.to.",
        "set max_connections of each server without a pooler to at least 152,",
        "api 2 times 30, worker 2 times 31, detector 2 times 11, operator 8.",
    ] {
        assert!(quickstart.contains(expected), "{expected} is not in {quickstart}");
    }
    let scoped = notes(&format!(
        "{MINIMAL}\nwatch: {{namespaces: [tenants]}}\ningress: {{enabled: true}}\napi: {{trustNoProxies: true}}"
    ));
    for expected in [
        "in tenants: the operator watches no other namespace",
        "kubectl apply --namespace tenants",
        "networkPolicy.postgresql.to, networkPolicy.redis.to, networkPolicy.apiServer.to.",
    ] {
        assert!(scoped.contains(expected), "{expected} is not in {scoped}");
    }
    for left_out in ["port-forward", "WARNING", "portal"] {
        assert!(!scoped.contains(left_out), "{left_out} is in {scoped}");
    }
    let mails = notes(&format!(
        "{MINIMAL}\nportal: {{enabled: true}}\nmail: {{from: a@b.example, secretRef: {{name: docket-smtp}}}}"
    ));
    assert!(mails.contains("networkPolicy.apiServer.to, networkPolicy.smtp.to."), "{mails}");
}

/// The example in the notes is a valid Tenant.
#[test]
fn the_tenant_of_the_notes_can_be_applied() {
    let notes = notes(MINIMAL);
    let (_, rest) = notes.split_once("<<'YAML'\n").expect("it is there");
    let (tenant, _) = rest.split_once("   YAML").expect("it ends");
    let tenant = documents(tenant).remove(0);
    let tenant: docket_crds::Tenant = serde_json::from_value(tenant).expect("a Tenant");
    assert_eq!(tenant.spec.client_code, "ACME");
}

#[test]
fn every_document_that_is_named_is_there() {
    for of in ["README.md", "values.yaml", "alerts.yaml"] {
        for word in file(of).split(|letter: char| letter.is_whitespace() || "()`,;'\"".contains(letter)) {
            let path =
                word.trim_start_matches("../").split('#').next().expect("a part").trim_end_matches('.');
            if path.starts_with("docs/") && path.ends_with(".md") {
                assert!(repository().join(path).exists(), "{of}: {path}");
            }
        }
    }
}
