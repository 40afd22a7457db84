//! /openapi.json and /openapi/events.json: sound as documents, and true of what is served and sent. What the first says of routes and
//! credentials is in [`documented`](crate::api::documented); that every answer fits it is tests/schemathesis's.

use std::collections::BTreeSet;

use docket::http::problem_type::ProblemType;
use docket_tests::openapi::{self, API, EVENTS, operations, words};
use docket_tests::server::{Home, JSON, Server};
use serde_json::{Map, Value, json};

use super::example::{self, CONTACT, PASSWORD, Running};

/// Every object of the document, with where it is.
fn objects<'a>(value: &'a Value, at: &str, found: &mut Vec<(String, &'a Map<String, Value>)>) {
    match value {
        Value::Object(object) => {
            found.push((at.to_owned(), object));
            for (name, value) in object {
                // An example is no part of the document's structure.
                if !matches!(name.as_str(), "example" | "examples" | "default" | "enum" | "value") {
                    objects(value, &format!("{at}/{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn all_objects(document: &Value) -> Vec<(String, &Map<String, Value>)> {
    let mut found = Vec::new();
    objects(document, "#", &mut found);
    found
}

/// The value that a reference leads to, or the value itself.
fn referred<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let target =
                document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} does not resolve"));
            referred(document, target)
        }
        None => value,
    }
}

/// Each response with its operation and its status.
fn responses(document: &Value) -> Vec<(String, String, &Value)> {
    let mut found = Vec::new();
    for (method, path, operation) in operations(document) {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            found.push((format!("{method} {path} {status}"), status.clone(), referred(document, response)));
        }
    }
    found
}

fn only(object: &Map<String, Value>, allowed: &[&str], at: &str) {
    for name in object.keys() {
        assert!(allowed.contains(&name.as_str()) || name.starts_with("x-"), "{at} has {name}");
    }
}

async fn served() -> (Running, Value, Home) {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let document = openapi::document(&running.server, API).await;
    (running, document, home)
}

async fn both() -> [Value; 2] {
    let (running, api, _home) = served().await;
    [api, openapi::document(&running.server, EVENTS).await]
}

#[tokio::test]
async fn each_document_is_sound() {
    for document in both().await {
        is_sound(&document);
    }
}

fn is_sound(document: &Value) {
    assert!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")),
        "{}",
        document["openapi"]
    );
    let top = [
        "openapi",
        "info",
        "servers",
        "paths",
        "components",
        "security",
        "tags",
        "externalDocs",
        "jsonSchemaDialect",
        "webhooks",
    ];
    only(document.as_object().expect("an object"), &top, "#");
    for needed in ["title", "version", "description"] {
        assert!(document["info"][needed].as_str().is_some_and(|text| !text.is_empty()), "info.{needed}");
    }
    let servers = document["servers"].as_array().expect("servers");
    assert!(servers.iter().all(|server| server["url"].is_string()) && !servers.is_empty(), "{servers:?}");
    assert!(document["info"]["contact"]["name"].is_string());
    let mut ids = BTreeSet::new();
    let mut tags = BTreeSet::new();
    for (method, path, operation) in operations(document) {
        let at = format!("{method} {path}");
        let allowed = [
            "tags",
            "summary",
            "description",
            "externalDocs",
            "operationId",
            "parameters",
            "requestBody",
            "responses",
            "callbacks",
            "deprecated",
            "security",
            "servers",
        ];
        only(operation, &allowed, &at);
        assert!(
            ids.insert(operation["operationId"].as_str().expect("an operationId")),
            "{at}: operationId twice"
        );
        assert_eq!(words(&operation["tags"]).len(), 1, "{at}: generators put it into a module for each tag");
        tags.extend(words(&operation["tags"]));
        for text in ["summary", "description"] {
            let text_of = operation.get(text).and_then(Value::as_str);
            assert!(text_of.is_some_and(|text| !text.is_empty()), "{at}: no {text}");
        }
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let parameter = parameter.as_object().expect("an object");
            let allowed = [
                "name",
                "in",
                "description",
                "required",
                "deprecated",
                "allowEmptyValue",
                "style",
                "explode",
                "allowReserved",
                "schema",
                "example",
                "examples",
                "content",
            ];
            only(parameter, &allowed, &at);
            assert!(matches!(parameter["in"].as_str(), Some("query" | "header")), "{at}: {parameter:?}");
            assert!(
                parameter["schema"].is_object() && parameter["description"].is_string(),
                "{at}: {parameter:?}"
            );
        }
        for response in operation["responses"].as_object().expect("responses").values() {
            let response = referred(document, response);
            only(
                response.as_object().expect("an object"),
                &["description", "headers", "content", "links"],
                &at,
            );
            assert!(response["description"].is_string(), "{at}");
            for link in response.get("links").and_then(Value::as_object).into_iter().flat_map(Map::values) {
                let target = link["operationId"].as_str().expect("a link names an operation");
                assert!(
                    operations(document).iter().any(|(_, _, to)| to["operationId"] == target),
                    "{at}: {target}"
                );
                assert!(link.get("requestBody").is_none(), "{at}: an expression in a body is no expression");
            }
        }
    }
    let declared = document["tags"].as_array().expect("tags").iter();
    assert_eq!(declared.filter_map(|tag| tag["name"].as_str()).collect::<BTreeSet<_>>(), tags);
}

#[tokio::test]
async fn every_reference_resolves_and_every_component_is_used() {
    for document in both().await {
        resolves_and_is_used(&document);
    }
}

fn resolves_and_is_used(document: &Value) {
    let mut used = BTreeSet::new();
    for (at, object) in all_objects(document) {
        let references = object.get("$ref").into_iter();
        let mapped = object.get("mapping").and_then(Value::as_object).into_iter().flat_map(Map::values);
        for target in references.chain(mapped).filter_map(Value::as_str) {
            let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{at}: {target} is elsewhere"));
            assert!(document.pointer(pointer).is_some(), "{at}: {target} does not resolve");
            used.insert(target.to_owned());
        }
    }
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(used.contains(&format!("#/components/schemas/{name}")), "{name} is used nowhere");
    }
}

#[tokio::test]
async fn every_schema_is_sound() {
    for document in both().await {
        has_sound_schemas(&document);
    }
}

fn has_sound_schemas(document: &Value) {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    for (at, object) in all_objects(document) {
        let is_schema = at.starts_with("#/components/schemas/") || at.ends_with("/schema");
        if !is_schema
            || at.ends_with("/properties")
            || at.ends_with("/mapping")
            || at.ends_with("/discriminator")
        {
            continue;
        }
        assert!(!object.contains_key("nullable"), "{at}: `nullable` is of OpenAPI 3.0");
        let types: Vec<&str> = match object.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(some @ Value::Array(_)) => words(some),
            _ => Vec::new(),
        };
        let says_something =
            ["$ref", "oneOf", "anyOf", "allOf"].iter().any(|name| object.contains_key(*name));
        assert!(!types.is_empty() || says_something, "{at}: takes anything");
        assert!(types.iter().all(|name| TYPES.contains(name)), "{at}: {types:?}");
        if let Some(pattern) = object.get("pattern") {
            regex::Regex::new(pattern.as_str().expect("text"))
                .unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        for name in words(object.get("required").unwrap_or(&Value::Null)) {
            assert!(object["properties"].get(name).is_some(), "{at}: {name} is required and unknown");
        }
        if types.contains(&"array") {
            assert!(object.get("items").is_some_and(Value::is_object), "{at}: a list of anything");
        }
    }
}

#[tokio::test]
async fn generators_can_take_every_schema() {
    for document in both().await {
        suits_generators(&document);
    }
}

/// Checks the rules of client generators and linters. Each rule comes from a tool that refused the document, or made code of it
/// that did not compile or rejected valid data.
fn suits_generators(document: &Value) {
    for (at, object) in all_objects(document) {
        if object.contains_key("$ref") {
            assert_eq!(object.len(), 1, "{at}: something stands beside a reference");
        }
        if at.ends_with("/properties") || at.ends_with("/mapping") {
            continue;
        }
        if let Some(values) = object.get("enum").and_then(Value::as_array) {
            assert!(!values.contains(&Value::Null), "{at}: an enumeration has null");
            let named = at.strip_prefix("#/components/schemas/").is_some_and(|name| !name.contains('/'));
            assert!(named || values.len() == 1, "{at}: an enumeration without a name");
        }
        assert!(!object.contains_key("multipleOf"), "{at}: validators divide in binary");
        assert!(!object.contains_key("anyOf"), "{at}: anyOf");
    }
    for (at, object) in all_objects(document) {
        let place = object.get("in").and_then(Value::as_str);
        if !matches!(place, Some("query" | "header")) || !object.contains_key("schema") {
            continue;
        }
        let schema = referred(document, &object["schema"]);
        assert!(schema["type"].is_string(), "{at}: a parameter is of one type and never null: {schema}");
        assert!(schema.get("oneOf").is_none(), "{at}: {schema}");
    }
}

/// Generators of clients would make calls of `webhooks`, or fail.
#[tokio::test]
async fn the_events_are_in_a_document_of_their_own_and_need_no_credential() {
    let [api, events] = both().await;
    assert!(api.get("webhooks").is_none() && !api["paths"].as_object().expect("paths").is_empty());
    assert_eq!(events["paths"], json!({}));
    for (document, other) in [(&api, EVENTS), (&events, API)] {
        let about = document["info"]["description"].as_str().expect("a description");
        assert!(about.contains(other), "{about}");
    }
    let webhooks = events["webhooks"].as_object().expect("webhooks");
    assert_eq!(webhooks.len(), 6);
    for (event, item) in webhooks {
        assert_eq!(item["post"]["security"], json!([]), "{event}");
        let content = item["post"]["requestBody"]["content"].as_object().expect("a body");
        for content in content.values() {
            assert!(content["schema"]["$ref"].is_string(), "{event}: its body has no name");
            assert!(content["example"]["data"].is_object(), "{event}: no example");
        }
    }
}

#[tokio::test]
async fn every_response_declares_its_headers() {
    let (_running, document, _home) = served().await;
    for (at, status, response) in responses(&document) {
        let mut needed = vec!["X-Request-Id"];
        match status.as_str() {
            "401" => needed.push("WWW-Authenticate"),
            "405" => needed.push("Allow"),
            "429" | "503" => needed.push("Retry-After"),
            "default" => needed.extend(["Retry-After", "WWW-Authenticate", "Allow"]),
            _ => {}
        }
        for name in needed {
            let header = referred(&document, &response["headers"][name]);
            assert!(header["schema"]["type"].is_string(), "{at}: {name} is not declared");
        }
    }
    for (method, path, operation) in operations(&document) {
        let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let repeatable = parameters.into_iter().any(|one| one["name"] == "Idempotency-Key");
        let replayed = operation["responses"]["200"]["headers"].get("Idempotency-Replayed").is_some();
        assert_eq!(replayed, repeatable, "{method} {path}");
    }
}

/// Compares the declared headers with the headers that are sent.
#[tokio::test]
async fn a_response_has_the_headers_that_are_declared() {
    let (running, _document, _home) = served().await;
    let client = running.sign_in().await;
    let answer = client.get("/Orders/Search").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains_key("x-request-id"));
    let refused = running.server.send("GET", "/Orders/Search", &[], "").await;
    assert_eq!(refused.status, 401);
    assert!(refused.headers.contains_key("www-authenticate") && refused.headers.contains_key("x-request-id"));
    let refused = running.server.send("PUT", "/Orders/Search", &[], "").await;
    assert_eq!(refused.status, 405);
    assert!(refused.headers["allow"].contains("GET"), "{:?}", refused.headers);
}

/// A member that may be null is always sent, so a client need not distinguish absent from null. Two members of a save are sent only
/// with an export, as in the response of Export.
#[tokio::test]
async fn what_is_always_sent_is_required() {
    let (_running, document, _home) = served().await;
    let mut answers = BTreeSet::new();
    for (at, _, response) in responses(&document) {
        for content in response["content"].as_object().into_iter().flat_map(Map::values) {
            reached(&document, &content["schema"], &mut answers, &at);
        }
    }
    // A stored order has the fields of the request, and its parts are components of the request.
    let orders: Vec<&String> = answers.iter().filter(|name| name.starts_with("Stored")).collect();
    assert_eq!(orders.len(), 8, "{orders:?}");
    let mut of_orders = BTreeSet::new();
    reached(&document, &json!({"$ref": "#/components/schemas/StoredOrder"}), &mut of_orders, "");
    let mut seen = 0;
    for name in answers.difference(&of_orders) {
        let schema = &document["components"]["schemas"][name];
        let parts = std::iter::once(schema).chain(schema["allOf"].as_array().into_iter().flatten());
        for part in parts {
            for (member, kind) in part["properties"].as_object().into_iter().flatten() {
                let nullable = words(&kind["type"]).contains(&"null")
                    || kind["oneOf"].as_array().into_iter().flatten().any(|one| one["type"] == "null");
                let required = words(&part["required"]).contains(&member.as_str());
                let with_export =
                    name == "SaveAnswer" && matches!(member.as_str(), "courtWorkOrder" | "processWorkOrders");
                assert!(!nullable || required || with_export, "{name}.{member} may be null and is optional");
                seen += usize::from(nullable);
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// Finds the components that a schema refers to, directly or through others.
fn reached(document: &Value, schema: &Value, found: &mut BTreeSet<String>, at: &str) {
    let mut all = Vec::new();
    objects(schema, at, &mut all);
    for (_, object) in all {
        let Some(reference) = object.get("$ref").and_then(Value::as_str) else { continue };
        let name = reference.rsplit('/').next().expect("a name");
        if found.insert(name.to_owned()) {
            reached(document, &document["components"]["schemas"][name], found, at);
        }
    }
}

#[tokio::test]
async fn a_read_order_has_no_field_of_a_request() {
    let (_running, document, _home) = served().await;
    let schemas = &document["components"]["schemas"];
    for reference in
        schemas["StoredOrder"]["discriminator"]["mapping"].as_object().expect("a mapping").values()
    {
        let order = document.pointer(&reference.as_str().expect("a reference")[1..]).expect("it resolves");
        for name in ["webOrderId", "customerCode", "export", "finalize"] {
            assert!(order["properties"].get(name).is_none(), "{reference} has {name}");
        }
    }
}

#[tokio::test]
async fn dates_and_words_of_a_process_are_declared() {
    let (_running, document, _home) = served().await;
    let item = &document["components"]["schemas"]["ProcessItem"]["properties"];
    for day in ["mailedOn", "deemedServedOn", "proofSignedOn", "proofFiledOn"] {
        assert_eq!(item[day]["format"], "date", "{day}");
    }
    for word in ["serveResult", "notServedReason"] {
        assert!(item[word]["oneOf"].is_array(), "{word}: {}", item[word]);
    }
    let page_size = operations(&document)
        .into_iter()
        .flat_map(|(_, _, operation)| {
            operation.get("parameters").and_then(Value::as_array).into_iter().flatten()
        })
        .filter(|one| one["name"] == "pageSize")
        .collect::<Vec<_>>();
    assert!(
        page_size.len() >= 6 && page_size.iter().all(|one| one["schema"]["default"] == 25),
        "{page_size:?}"
    );
}

#[tokio::test]
async fn every_request_and_response_has_an_example() {
    let [api, events] = both().await;
    let mut bodies = Vec::new();
    for (method, path, operation) in [operations(&api), operations(&events)].concat() {
        if let Some(body) = operation.get("requestBody") {
            bodies.push((format!("{method} {path}"), body));
        }
    }
    // A receiver's response needs no body.
    bodies.extend(responses(&api).into_iter().map(|(at, _, response)| (at, response)));
    for (at, body) in bodies {
        let contents = body["content"].as_object().expect("a body");
        for content in contents.values() {
            let example = content.get("example").or(content.get("examples"));
            let example = example.unwrap_or_else(|| panic!("{at}: no example"));
            assert!(!example.to_string().contains('\u{2026}'), "{at}: a field has no example: {example}");
        }
    }
    let all = responses(&api);
    let problems = all.iter().filter(|(_, status, _)| !status.starts_with('2'));
    for (at, status, response) in problems {
        let example = &response["content"]["application/problem+json"]["example"];
        let kind = ProblemType::ALL.into_iter().find(|kind| example["type"] == kind.reference());
        let kind =
            kind.unwrap_or_else(|| panic!("{at}: docs/reference/problems.md lacks its type: {example}"));
        // `default` stands for every other status, and has the example of a 400.
        let status: u16 = if status == "default" { 400 } else { status.parse().expect("a status") };
        assert_eq!((&example["status"], kind.status().as_u16()), (&status.into(), status), "{at}: {example}");
    }
}

#[tokio::test]
async fn each_document_is_small_cached_and_compressed() {
    let (running, _document, _home) = served().await;
    for path in [API, EVENTS] {
        is_small_cached_and_compressed(&running.server, path).await;
    }
}

async fn is_small_cached_and_compressed(server: &Server, path: &str) {
    let get = async |headers: &[(&str, &str)]| server.send("GET", path, headers, "").await;
    let plain = get(&[]).await;
    assert_eq!((plain.status, plain.headers.get("content-encoding")), (200, None));
    let gzip = get(&[("accept-encoding", "gzip, br")]).await;
    assert_eq!((gzip.status, gzip.headers["content-encoding"].as_str()), (200, "gzip"));
    assert!(gzip.body.len() < 40_000 && gzip.body.len() * 4 < plain.body.len(), "{}", gzip.body.len());
    assert!(gzip.body.starts_with(&[0x1f, 0x8b]));
    assert_eq!(gzip.headers["etag"], plain.headers["etag"]);
    assert_eq!(plain.headers["vary"], "accept-encoding");
    assert!(!plain.headers["cache-control"].contains("no-store"), "{:?}", plain.headers);

    let tag = plain.headers["etag"].as_str();
    for known in [tag, tag.trim_start_matches("W/"), "*", &format!("\"x\", {tag}")] {
        let reply = get(&[("if-none-match", known)]).await;
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{known}");
        assert_eq!(reply.headers["etag"], tag);
    }
    assert_eq!(get(&[("if-none-match", "\"x\"")]).await.status, 200);
    assert_eq!(get(&[("accept-encoding", "gzip;q=0")]).await.headers.get("content-encoding"), None);
}

/// The names under `keyword` of a schema of objects and of the schemas that it joins.
fn names_of<'a>(document: &'a Value, schema: &'a Value, keyword: &str) -> BTreeSet<&'a str> {
    if let Some(reference) = schema["$ref"].as_str() {
        return names_of(document, document.pointer(&reference[1..]).expect("it resolves"), keyword);
    }
    let own = match &schema[keyword] {
        Value::Object(properties) => properties.keys().map(String::as_str).collect(),
        list => words(list),
    };
    let joined = schema["allOf"].as_array().into_iter().flatten();
    own.into_iter().chain(joined.flat_map(|part| names_of(document, part, keyword))).collect()
}

/// `oneOf` means exactly one alternative, so no value may match two.
#[tokio::test]
async fn no_answer_fits_two_alternatives() {
    let (_running, document, _home) = served().await;
    let mut pairs = 0;
    for (at, object) in all_objects(&document) {
        let alternatives = object.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        let objects: Vec<&Value> = alternatives.filter(|one| one.get("$ref").is_some()).collect();
        if object.contains_key("discriminator") {
            continue;
        }
        for one in &objects {
            for other in objects.iter().filter(|other| *other != one) {
                let required = names_of(&document, other, "required");
                let has = names_of(&document, one, "properties");
                assert!(!required.is_subset(&has), "{at}: what {one} describes fits {other} too");
                pairs += 1;
            }
        }
    }
    assert!(pairs >= 12, "{pairs}");
}

#[tokio::test]
async fn every_operation_documents_its_problems() {
    let (_running, document, _home) = served().await;
    for (method, path, operation) in operations(&document) {
        let responses = operation["responses"].as_object().expect("responses");
        let mut needed = vec!["200", "400", "401", "404", "500", "503"];
        if operation.contains_key("requestBody") {
            needed.extend(["408", "413", "415"]);
        }
        needed.extend(["405", "429"]);
        if words(&operation["tags"]).contains(&"WebhookLogs") {
            needed.push("403");
        }
        // The contract names the two statuses that this operation declares beside its default.
        if path == "/Auth/Token" {
            needed = vec!["200", "404", "default"];
        }
        for status in needed {
            assert!(responses.contains_key(status), "{method} {path}: {status} is not documented");
        }
        for (status, response) in responses.iter().filter(|(status, _)| !status.starts_with('2')) {
            let content = referred(&document, response)["content"].as_object().expect("a body");
            assert_eq!(
                content.keys().collect::<Vec<_>>(),
                ["application/problem+json"],
                "{method} {path} {status}"
            );
            let schema = &content["application/problem+json"]["schema"];
            assert_eq!(*schema, json!({"$ref": "#/components/schemas/Problem"}), "{method} {path} {status}");
        }
    }
    let problem = &document["components"]["schemas"]["Problem"];
    let fields: BTreeSet<&str> =
        problem["properties"].as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(fields, ["type", "title", "status", "detail", "errors", "limit", "requestId"].into());
    for needed in ["type", "title", "status", "detail"] {
        assert!(words(&problem["required"]).contains(&needed), "{needed}");
    }
}

#[tokio::test]
async fn a_problem_is_as_documented() {
    let (running, document, _home) = served().await;
    let reply = running.sign_in().await.post("/Orders/Save", &json!({"orderType": "Court", "x": 1})).await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (400, "application/problem+json"));
    let body = reply.json();
    let known = document["components"]["schemas"]["Problem"]["properties"].as_object().expect("fields");
    assert!(body.as_object().expect("an object").keys().all(|name| known.contains_key(name)), "{body}");
    assert_eq!((&body["status"], &body["errors"][0]["field"]), (&400.into(), &"x".into()));
    assert_eq!(body["requestId"].as_str(), reply.headers.get("x-request-id").map(String::as_str));
}

#[tokio::test]
async fn a_token_is_documented_as_the_contract_says() {
    let (running, document, _home) = served().await;
    let schemas = &document["components"]["schemas"];
    let mut required = words(&schemas["TokenResponse"]["required"]);
    required.sort_unstable();
    assert_eq!(required, ["contact", "contactCode", "customerCode", "token", "tokenType"]);
    let properties = schemas["TokenResponse"]["properties"].as_object().expect("fields");
    assert_eq!(properties["expiresInMinutes"]["type"], "integer");
    for text in ["token", "tokenType", "customerCode", "contactCode", "contact"] {
        assert_eq!(properties[text]["type"], "string", "{text}");
    }
    let mut asked = words(&schemas["SessionTokenRequest"]["required"]);
    asked.sort_unstable();
    assert_eq!(asked, ["password", "userId"]);
    assert_eq!(
        words(&schemas["SessionTokenRequest"]["properties"]["clientCode"]["type"]),
        ["string", "null"]
    );

    // The document's examples are a sample user's credentials, so "Try it out" works unchanged.
    let example: Map<String, Value> = schemas["SessionTokenRequest"]["properties"]
        .as_object()
        .expect("fields")
        .iter()
        .map(|(name, field)| (name.clone(), field["example"].clone()))
        .collect();
    assert_eq!((example["userId"].as_str(), example["password"].as_str()), (Some(CONTACT), Some(PASSWORD)));
    let key = running.key("ACME");
    let body = Value::from(example).to_string();
    let reply = running.server.send("POST", "/Auth/Token", &[("x-api-key", &key), JSON], &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = reply.json();
    let names: BTreeSet<&String> = answer.as_object().expect("an object").keys().collect();
    assert_eq!(names, properties.keys().collect(), "{names:?}");
    assert_eq!(answer["tokenType"], "Bearer");
}

#[tokio::test]
async fn an_order_is_one_of_seven_distinguished_by_its_type() {
    let (_running, document, _home) = served().await;
    let types =
        ["Court", "Process", "Delivery", "Investigation", "FileAndServe", "CountyRecording", "PhotoCopy"];
    let schemas = &document["components"]["schemas"];
    let union = &schemas["SaveOrderRequest"];
    assert_eq!(union["discriminator"]["propertyName"], "orderType");
    let mapping = union["discriminator"]["mapping"].as_object().expect("a mapping");
    assert_eq!(mapping.len(), types.len());
    let one_of: Vec<&Value> =
        union["oneOf"].as_array().expect("oneOf").iter().map(|one| &one["$ref"]).collect();
    assert_eq!(one_of.len(), types.len());
    for name in types {
        assert!(one_of.contains(&&mapping[name]), "{name}");
        let order =
            document.pointer(&mapping[name].as_str().expect("a reference")[1..]).expect("it resolves");
        assert_eq!(order["properties"]["orderType"]["enum"], json!([name]));
        assert_eq!(words(&order["required"]), ["orderType"], "a draft may lack anything else");
        assert_eq!(order["additionalProperties"], false, "unknown fields are refused");
        assert_eq!(order["properties"].get("finalize").is_some(), name == "PhotoCopy", "{name}");
    }
}

#[tokio::test]
async fn the_example_of_each_type_is_saved_and_exported() {
    let (running, document, _home) = served().await;
    let client = running.sign_in().await;
    let examples =
        document["paths"]["/Orders/Save"]["post"]["requestBody"]["content"]["application/json"]["examples"]
            .clone();
    let examples = examples.as_object().expect("examples");
    assert_eq!(examples.len(), 7);
    for (name, example) in examples {
        let saved = client.post("/Orders/Save", &example["value"]).await;
        assert_eq!(saved.status, 200, "{name}: {saved:?}");
        let id = saved.json()["webOrderId"].clone();
        let exported = client.post("/Orders/Export", &json!({"webOrderId": id})).await;
        assert_eq!(exported.status, 200, "{name}: {exported:?}");
        assert_eq!(exported.json()["orderType"], name.as_str());

        let mut at_once = example["value"].clone();
        at_once["export"] = true.into();
        let saved = client.post("/Orders/Save", &at_once).await;
        assert_eq!((saved.status, &saved.json()["status"]), (200, &"Exported".into()), "{name}: {saved:?}");
    }
}

#[test]
fn the_page_about_clients_names_the_versions_that_are_tested() {
    let page = include_str!("../../../docs/api/clients.md");
    let pins = [
        ("openapi-generator", include_str!("../../clients/requirements.txt"), "openapi-generator-cli=="),
        ("openapi-python-client", include_str!("../../clients/requirements.txt"), "openapi-python-client=="),
        ("openapi-typescript", include_str!("../../clients/package.json"), "\"openapi-typescript\": \""),
        ("ogen", include_str!("../../clients/ogen/go.mod"), "github.com/ogen-go/ogen v"),
        ("oapi-codegen", include_str!("../../clients/oapi-codegen/go.mod"), "oapi-codegen/oapi-codegen/v2 v"),
    ];
    for (tool, file, before) in pins {
        let rest = file.split_once(before).unwrap_or_else(|| panic!("{tool} is not pinned")).1;
        let version = rest.split(|letter: char| letter != '.' && !letter.is_ascii_digit()).next();
        let rows = page.lines().filter(|line| {
            let cell = line.strip_prefix("| ").and_then(|line| line.split([':', ' ']).next());
            cell == Some(tool)
        });
        let versions: Vec<_> = rows.map(|row| row.split('|').nth(2).map(str::trim)).collect();
        assert!(!versions.is_empty() && versions.iter().all(|one| *one == version), "{tool}: {versions:?}");
    }
}
