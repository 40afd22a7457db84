//! The HTTP API and the events, from their OpenAPI documents.

use std::collections::BTreeMap;
use std::fmt::Write;

use docket::api::openapi;
use docket::api::openapi::events::{HEADERS, example};
use docket::http::problem_type::ProblemType;
use docket_crds::EventCode;
use docket_docs::slug;
use docket_domain::signature::{sign, standard_webhooks};
use docket_orders::openapi::SAVE_ORDER_REQUEST;
use jiff::Timestamp;
use serde_json::Value;

use super::cell;
use super::schemas::{ORDERS, Schemas, Sent, default, words};

/// The secret of the signed examples.
const SECRET: &str = "correct-horse-battery-staple-2026";

/// The example of each operation, below its title.
fn examples() -> BTreeMap<&'static str, &'static str> {
    let sections = include_str!("examples.md").split("\n## ").skip(1);
    sections.map(|section| section.split_once('\n').expect("a title")).collect()
}

/// A section for each operation, and the fields of orders.
pub(super) fn operations(document: &Value) -> String {
    let (schemas, problems, mut examples) =
        (Schemas::new(document, Some(SAVE_ORDER_REQUEST)), openapi::problems(), examples());
    let mut page = String::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in
            ["get", "post"].into_iter().filter_map(|method| Some((method, item.get(method)?)))
        {
            let title = format!("{} {path}", method.to_uppercase());
            let example = examples.remove(title.as_str()).unwrap_or_else(|| panic!("no example of {title}"));
            for part in ["```sh test\n", "```json output\n"] {
                assert!(example.contains(part), "the example of {title} has no block {part}");
            }
            page += &format!("\n## {title}\n");
            page += &[
                purpose(operation),
                parameters(&schemas, operation),
                body(&schemas, operation),
                response(&schemas, &operation["responses"]["200"]),
                errors(operation, &problems[path]),
                format!("\n**Example:**\n\n{}\n", example.trim()),
            ]
            .concat();
        }
    }
    assert!(examples.is_empty(), "examples of no operation: {examples:?}");
    page + &orders(&schemas)
}

/// What an operation does, and the credentials that it needs.
fn purpose(operation: &Value) -> String {
    let [summary, more] =
        ["summary", "description"].map(|name| sentence(operation[name].as_str().expect("a text")));
    let tenant = "the tenant's own host or its API key";
    let credentials = match operation["security"][0].get("Bearer") {
        None => tenant.to_owned(),
        Some(_) if words(&operation["tags"]).contains(&"WebhookLogs") => {
            format!("{tenant}, and the Bearer token of an employee who is an administrator")
        }
        Some(_) => format!("{tenant}, and the Bearer token of a contact or an employee"),
    };
    format!("\n{summary} {more}\n\n**Credentials:** {credentials}.\n")
}

fn parameters(schemas: &Schemas<'_>, operation: &Value) -> String {
    let rows: String =
        operation["parameters"].as_array().into_iter().flatten().map(|one| parameter(schemas, one)).collect();
    if rows.is_empty() {
        return rows;
    }
    format!("\n**Parameters:**\n\n| Parameter | In | Value | Default | |\n|---|---|---|---|---|\n{rows}")
}

fn parameter<'a>(schemas: &Schemas<'a>, parameter: &'a Value) -> String {
    let schema = &parameter["schema"];
    format!(
        "| `{}` | {} | {} | {} | {}{} |\n",
        parameter["name"].as_str().expect("a name"),
        parameter["in"].as_str().expect("a place"),
        cell(&schemas.value(schema)),
        default(schema),
        if parameter["required"] == true { "**Required.** " } else { "" },
        cell(parameter["description"].as_str().unwrap_or_default()),
    )
}

/// The fields of the body of a request.
fn body<'a>(schemas: &Schemas<'a>, operation: &'a Value) -> String {
    let Some(content) = operation["requestBody"]["content"].as_object() else { return String::new() };
    let (kind, content) = content.iter().next().expect("a kind of body");
    let schema = &content["schema"];
    if schemas.resolved(schema).0 == Some(SAVE_ORDER_REQUEST) {
        return format!(
            "\n**Body:** `{kind}`, an order with the fields of its type: see [{ORDERS}](#{}).\n",
            slug(ORDERS)
        );
    }
    format!("\n**Body:** `{kind}`\n{}", tables(schemas, schema, Sent::ToDocket))
}

/// The table of each shape that a body can have.
fn tables<'a>(schemas: &Schemas<'a>, schema: &'a Value, sent: Sent) -> String {
    let shapes = schemas.shapes(schema);
    let choice = shapes.len() > 1;
    let table = |shape: &'a Value| match choice {
        true => format!("\n{}\n{}", sentence(schemas.about(shape)), schemas.table(shape, sent)),
        false => schemas.table(shape, sent),
    };
    shapes.into_iter().map(table).collect()
}

/// The response of a success: its headers and its fields.
fn response<'a>(schemas: &Schemas<'a>, response: &'a Value) -> String {
    let names = response["headers"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let headers: Vec<String> =
        names.filter(|name| *name != "X-Request-Id").map(|name| format!("`{name}`")).collect();
    let headers = match &headers[..] {
        [] => String::new(),
        [one] => format!(" It can have the header {one}."),
        some => format!(" It can have the headers {}.", some.join(" and ")),
    };
    let about = sentence(response["description"].as_str().unwrap_or_default());
    let schema = &response["content"]["application/json"]["schema"];
    format!("\n**Response:** 200. {about}{headers}\n{}", tables(schemas, schema, Sent::ByDocket))
}

/// The types of problems by status, and what a status means for this operation in particular.
fn errors(operation: &Value, problems: &[ProblemType]) -> String {
    let by_status = problems.chunk_by(|one, next| one.status() == next.status()).map(|kinds| {
        let links: Vec<String> = kinds.iter().map(|kind| format!("[`{kind}`](problems.md#{kind})")).collect();
        format!("{} {}", kinds[0].status().as_u16(), links.join(", "))
    });
    let mut page = format!("\n**Errors:** {}.\n", by_status.collect::<Vec<_>>().join("; "));
    let own = operation["responses"].as_object().expect("responses").iter();
    let own: Vec<String> = own
        .filter(|(status, response)| {
            *status != "200" && *status != "default" && response.get("$ref").is_none()
        })
        .map(|(status, response)| {
            format!("- {status}: {}\n", sentence(response["description"].as_str().unwrap_or_default()))
        })
        .collect();
    if !own.is_empty() {
        page += &format!("\n{}", own.concat());
    }
    page
}

fn orders(schemas: &Schemas<'_>) -> String {
    format!(
        "\n## {ORDERS}\n\nThe body of [POST /Orders/Save](#post-orderssave) has these fields, and the fields of the section of its `orderType`.\n\
         A draft needs only `orderType`. *Required at export* means that an export fails without the field. `null` counts as absent.\n\
         Each object within an order has a section too. A field that is not listed is refused.\n{}",
        schemas.orders(SAVE_ORDER_REQUEST)
    )
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
    let (mut page, schemas) = (String::new(), Schemas::new(document, None));
    let id = |body: &[u8]| {
        serde_json::from_slice::<Value>(body).expect("an envelope")["id"].as_str().expect("an id").to_owned()
    };
    let at: Timestamp = "2026-11-21T05:06:07Z".parse().expect("a time");
    for code in EventCode::ALL {
        let body = example(code);
        write!(page, "\n## {code}\n\n{}\n", code.about()).expect("a String takes all");
        let schema = &document["webhooks"][code.as_str()]["post"]["requestBody"]["content"]["application/json; charset=utf-8"]
            ["schema"];
        page += &schemas.table(&schemas.resolved(schema).1["properties"]["data"], Sent::ByDocket);
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
