//! The fields of a kind, from its definition.

use std::fmt::Write;

use serde_json::Value;

/// The page of a kind.
pub(super) fn page(kind: &str, about: &str, definition: &Value) -> String {
    let version = &definition["spec"]["versions"][0];
    let mut page = super::head(kind, about);
    let names = &definition["spec"]["names"];
    writeln!(
        page,
        "\n`apiVersion: {}/{}`, `kind: {kind}`, namespaced; for kubectl `{}`{}.",
        definition["spec"]["group"].as_str().expect("a group"),
        version["name"].as_str().expect("a version"),
        names["plural"].as_str().expect("a plural"),
        names["shortNames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|name| format!(", `{name}`"))
            .collect::<String>(),
    )
    .expect("a String takes all");
    for part in ["spec", "status"] {
        let schema = &version["schema"]["openAPIV3Schema"]["properties"][part];
        write!(page, "\n## {part}\n\n| Field | Type | |\n|---|---|---|\n").expect("a String takes all");
        let mut rules = Vec::new();
        rows(&mut page, part, schema, &mut rules);
        if !rules.is_empty() {
            page += "\nRules:\n\n";
            for (path, rule) in rules {
                writeln!(page, "- `{path}`: {rule}").expect("a String takes all");
            }
        }
    }
    page += "\n## Columns of kubectl get\n\n| Column | Shows |\n|---|---|\n";
    for column in version["additionalPrinterColumns"].as_array().expect("columns") {
        let is_wide = column["priority"].as_i64().is_some_and(|priority| priority > 0);
        writeln!(
            page,
            "| {}{} | {} |",
            column["name"].as_str().expect("a name"),
            if is_wide { " (with `--output wide`)" } else { "" },
            column["description"].as_str().map_or_else(
                || format!("`{}`", column["jsonPath"].as_str().expect("a path").replace('|', "\\|")),
                super::cell
            ),
        )
        .expect("a String takes all");
    }
    page
}

/// A row for each field below `schema`.
fn rows(page: &mut String, path: &str, schema: &Value, rules: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        rules
            .push((path.to_owned(), super::cell(rule["message"].as_str().expect("each rule has a message"))));
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let about = field["description"].as_str().map(super::cell).unwrap_or_default();
        let needed = if required.contains(&name.as_str()) { "**Required.** " } else { "" };
        writeln!(page, "| `{path}` | {} | {needed}{about}{} |", kind_of(field), bounds(field))
            .expect("a String takes all");
        rows(page, &path, field, rules);
    }
    let items = &schema["items"];
    if items.is_object() {
        rows(page, &format!("{path}[]"), items, rules);
    }
}

fn kind_of(field: &Value) -> String {
    match field["type"].as_str() {
        Some("array") => format!("list of {}", kind_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", kind_of(&field["additionalProperties"]))
        }
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

/// What a field may be, and what it is if it is not set.
fn bounds(field: &Value) -> String {
    let mut all = Vec::new();
    for (key, words) in [
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("minItems", "at least {} entries"),
        ("maxItems", "at most {} entries"),
        ("maxProperties", "at most {} entries"),
        ("pattern", "matches `{}`"),
    ] {
        if let Some(value) = field.get(key) {
            let value = value.as_str().map_or_else(|| value.to_string(), |text| text.replace('|', "\\|"));
            all.push(words.replace("{}", value.trim_end_matches(".0")));
        }
    }
    let choices = field["enum"].as_array().or(field["items"]["enum"].as_array());
    if let Some(choices) = choices {
        let choices: Vec<String> =
            choices.iter().filter_map(Value::as_str).map(|choice| format!("`{choice}`")).collect();
        all.push(format!("one of {}", choices.join(", ")));
    }
    if let Some(default) = field.get("default") {
        all.push(format!("default `{default}`"));
    }
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}
