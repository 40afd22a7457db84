//! The HTTP API and the events, from their OpenAPI documents.

use std::fmt::Write;

use docket::api::openapi::events::{HEADERS, example};
use docket_crds::EventCode;
use docket_domain::signature::{sign, standard_webhooks};
use jiff::Timestamp;
use serde_json::Value;

/// The secret of the signed examples.
const SECRET: &str = "correct-horse-battery-staple-2026";

/// A section for each operation.
pub(super) fn operations(document: &Value) -> String {
    let mut page = String::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in ["get", "post"] {
            let operation = &item[method];
            if !operation.is_object() {
                continue;
            }
            let summary =
                operation["summary"].as_str().or(operation["description"].as_str()).expect("a summary");
            write!(page, "\n## {} {path}\n\n{}\n", method.to_uppercase(), sentence(summary))
                .expect("a String takes all");
            let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
            if !parameters.is_empty() {
                page += "\n| Parameter | In | |\n|---|---|---|\n";
                for parameter in parameters {
                    writeln!(
                        page,
                        "| `{}` | {} | {}{} |",
                        parameter["name"].as_str().expect("a name"),
                        parameter["in"].as_str().expect("a place"),
                        if parameter["required"] == true { "**Required.** " } else { "" },
                        super::cell(parameter["description"].as_str().unwrap_or_default()),
                    )
                    .expect("a String takes all");
                }
            }
            let content = operation["requestBody"]["content"].as_object();
            if let Some(kinds) =
                content.map(|content| content.keys().map(|kind| format!("`{kind}`")).collect::<Vec<_>>())
            {
                write!(page, "\nThe body is {}.\n", kinds.join(" or ")).expect("a String takes all");
                let schema =
                    content.and_then(|content| content.values().next()).map(|content| &content["schema"]);
                fields(&mut page, document, schema.expect("a schema"));
            }
            page += "\n| Response | |\n|---|---|\n";
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let response = referred(document, response);
                let about = super::cell(response["description"].as_str().unwrap_or_default());
                writeln!(page, "| {status} | {about} |").expect("a String takes all");
            }
        }
    }
    page
}

/// The table of a schema's fields; none for a union.
fn fields(page: &mut String, document: &Value, schema: &Value) {
    let schema = referred(document, schema);
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    *page += "\n| Field | Type | |\n|---|---|---|\n";
    for (name, field) in properties {
        let field = referred(document, field);
        let about = super::cell(field["description"].as_str().unwrap_or_default());
        let needed = if required.contains(&name.as_str()) { "" } else { "Optional. " };
        writeln!(page, "| `{name}` | {} | {needed}{about} |", kind_of(document, field))
            .expect("a String takes all");
    }
}

fn referred<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => document.pointer(path).expect("a component"),
        None => schema,
    }
}

fn kind_of(document: &Value, schema: &Value) -> String {
    let schema = referred(document, schema);
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", kind_of(document, &schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ").replace("array", "list")
        }
        _ => "object".to_owned(),
    }
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// The headers of a delivery.
pub(super) fn headers() -> String {
    let rows = HEADERS.map(|(name, _, about)| format!("| `{name}` | {about} |\n"));
    format!(
        "| Header | |\n|---|---|\n| `content-type` | `application/json; charset=utf-8` |\n{}",
        rows.concat()
    )
}

/// A section for each event, with a signed example.
pub(super) fn events(document: &Value) -> String {
    let mut page = String::new();
    let id = |body: &[u8]| {
        serde_json::from_slice::<Value>(body).expect("an envelope")["id"].as_str().expect("an id").to_owned()
    };
    let at: Timestamp = "2026-11-21T05:06:07Z".parse().expect("a time");
    for code in EventCode::ALL {
        let body = example(code);
        write!(page, "\n## {code}\n\n{}\n", code.about()).expect("a String takes all");
        let schema = &document["webhooks"][code.as_str()]["post"]["requestBody"]["content"]["application/json; charset=utf-8"]
            ["schema"];
        fields(&mut page, document, &referred(document, schema)["properties"]["data"]);
        write!(
            page,
            "\nAn example, signed with the secret `{SECRET}`. Its body is one line, without a line break at its end:\n\n```http\n\
             X-Service-Event: {code}\nX-Service-Signature: {}\nwebhook-id: {}\nwebhook-timestamp: {}\nwebhook-signature: {}\n\n{}\n```\n",
            sign(SECRET.as_bytes(), &body),
            id(&body),
            at.as_second(),
            standard_webhooks(SECRET.as_bytes(), &id(&body), at, &body),
            String::from_utf8_lossy(&body),
        )
        .expect("a String takes all");
    }
    page
}
