//! The OpenAPI document: generated from the handlers and their types, and completed with what all operations share.

pub mod webhooks;

use std::collections::BTreeMap;

use docket_orders::openapi::SAVE_ORDER_REQUEST;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use super::error::ProblemBody;

/// The section about the legacy host.
const LEGACY_HOST: &str = "The older API has its own host, which the platform operator may enable. It ignores X-Api-Key. POST /Session/Create requires `clientCode`, which \
identifies the tenant, and returns a `sessionGuid`. Every other route needs only that, as `Authorization: Bearer`: /Orders/Save, \
/Orders/Export, /Orders/Get, /Orders/Search, /Notes/Add, /Notes/Search, /ProcessStatus/Search and /Invoices/Search. If the \
hexadecimal key is sent as clientCode, the response is 403 `API access is turned off for <value>`. The legacy host does not serve POST /Auth/Token, \
POST /Employee/SignIn, the webhook logs, and this documentation.";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Docket",
        description = "Legal-support orders: court, process, delivery, investigation, file and serve, county recording and photocopy.\n\nEvery authorized call carries two credentials: the API key (X-Api-Key) identifies the tenant, the Bearer token identifies the contact or employee. Get the token from POST /Auth/Token."
    ),
    paths(
        super::auth::create_token,
        super::auth::create_session,
        super::auth::employee_sign_in,
        super::orders::save,
        super::orders::export,
        super::orders::get,
        super::orders::search,
        super::notes::add,
        super::notes::search,
        super::processes::search,
        super::invoices::search,
        super::webhook_logs::search,
        super::webhook_logs::get,
        super::webhook_logs::resends::resend,
        super::webhook_logs::resends::stop,
        super::webhook_logs::resends::list,
        super::webhook_logs::set_aside::set,
        super::webhook_logs::set_aside::undo,
    ),
    tags(
        (name = "Auth", description = "Sign in and get a token."),
        (name = "Orders", description = "Web orders. Save them as drafts and export them to the back office as work orders."),
        (name = "Notes", description = "Notes and milestones of work orders."),
        (name = "Process status", description = "The status of each service of process, with every attempt."),
        (name = "Invoices", description = "Invoices of the back office."),
        (name = "WebhookLogs", description = "Webhook deliveries and their attempts, and resends. For administrators of the tenant."),
        (name = "Events", description = "What a webhook's receiver gets: one POST for each attempt of a delivery."),
        (name = "Legacy host", description = LEGACY_HOST),
    ),
    components(schemas(
        ProblemBody,
        docket_orders::Problem,
        super::paging::Cursor,
        super::times::DateOrTime,
        super::webhook_logs::answers::DeadLetterState
    ))
)]
struct Document;

/// Error responses of every operation, beside those that it describes itself.
const SHARED: &[(u16, &str)] = &[
    (400, "The request is not valid; `errors` lists each field"),
    (401, "Invalid API key, or no valid Bearer token"),
    (404, "Tenant not found"),
    (500, "Internal error"),
    (503, "The tenant's database is unavailable; see Retry-After"),
];

/// Error responses of operations with a body.
const OF_BODIES: &[(u16, &str)] = &[
    (408, "Timeout while reading the body"),
    (413, "The body is too long"),
    (415, "The body is not application/json"),
];

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    let components = document.components.get_or_insert_default();
    components.schemas.extend(docket_orders::schemas());
    components.schemas.extend(webhooks::schemas());
    let key = ApiKeyValue::with_description(
        "X-Api-Key",
        "The tenant's API key, a long hexadecimal string. Not needed on the tenant's subdomain.",
    );
    components.add_security_scheme("ApiKey", SecurityScheme::ApiKey(ApiKey::Header(key)));
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some("The token from POST /Auth/Token or POST /Employee/SignIn."));
    components.add_security_scheme("Bearer", SecurityScheme::Http(bearer.build()));
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            complete(operation);
        }
    }
    link(&mut document);
    document.webhooks = Some(webhooks::paths());
    document
}

/// Adds the links from a response's web order id to the operations that take it.
fn link(document: &mut utoipa::openapi::OpenApi) {
    const ID: &str = "$response.body#/webOrderId";
    let get = LinkBuilder::new().operation_id("Orders.Get").parameter("webOrderId", ID).build();
    let export = LinkBuilder::new()
        .operation_id("Orders.Export")
        .request_body(Some(serde_json::json!({ "webOrderId": ID })))
        .build();
    let mut add = |path: &str, name: &str, link: &Link| {
        let item = document.paths.paths.get_mut(path).expect("a path of this document");
        let operations = [&mut item.get, &mut item.post].into_iter().flatten();
        for response in operations.filter_map(|operation| operation.responses.responses.get_mut("200")) {
            if let RefOr::T(response) = response {
                response.links.insert(name.to_owned(), link.clone().into());
            }
        }
    };
    add("/Orders/Save", "Get", &get);
    add("/Orders/Save", "Export", &export);
    add("/Orders/Export", "Get", &get);
}

fn complete(operation: &mut Operation) {
    let tagged = |name: &str| operation.tags.as_ref().is_some_and(|tags| tags.iter().any(|tag| tag == name));
    let (signs_in, for_administrators) = (tagged("Auth"), tagged("WebhookLogs"));
    let mut statuses = SHARED.to_vec();
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        statuses.extend(OF_BODIES);
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content
                && serde_json::to_string(&content.schema).is_ok_and(|text| text.contains(SAVE_ORDER_REQUEST))
            {
                content.examples = order_examples();
            }
        }
    }
    match signs_in {
        true => {
            statuses.push((429, "Too many failed sign-ins; see Retry-After"));
            if tagged("Legacy host") {
                statuses.push((403, "Legacy host only: the client sent the hexadecimal key as clientCode"));
            }
        }
        false if operation.request_body.is_some() => {
            statuses.push((
                409,
                "The request does not fit what is stored, or the Idempotency-Key was used for another request",
            ));
        }
        false => {}
    }
    if for_administrators {
        statuses.push((403, "Not an administrator of the tenant"));
    }
    // The contract names the statuses of this operation; the others are its default.
    if operation.operation_id.as_deref() == Some("Auth.CreateToken") {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let others = statuses.iter().map(|(status, what)| format!("{status}: {what}"));
        let response = ResponseBuilder::new()
            .description(others.collect::<Vec<_>>().join(". "))
            .content("application/problem+json", problem);
        operation.responses.responses.insert("default".to_owned(), response.build().into());
        return;
    }
    for (status, description) in statuses {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response =
            ResponseBuilder::new().description(description).content("application/problem+json", problem);
        operation.responses.responses.entry(status.to_string()).or_insert_with(|| response.build().into());
    }
}

/// A complete order of each type.
fn order_examples() -> BTreeMap<String, RefOr<Example>> {
    docket_orders::examples()
        .into_iter()
        .map(|(order_type, text)| {
            let value: Value = serde_json::from_str(text).expect("the examples are JSON");
            let example = ExampleBuilder::new().summary(order_type.as_str()).value(Some(value)).build();
            (order_type.to_string(), example.into())
        })
        .collect()
}
