//! The OpenAPI document of the API: generated from the handlers and their types, and completed with what all operations share.
//! [`events`] has the document of the events.

pub mod events;
mod responses;
mod samples;

use std::collections::BTreeMap;

use docket_orders::openapi::SAVE_ORDER_REQUEST;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ArrayItems, SchemaType, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::server::ServerBuilder;
use utoipa::openapi::{Contact, ContactBuilder, Ref, RefOr, Schema};

use self::responses::{
    ALLOW, API_ACCESS_OFF, AT_LIMIT, BAD_REQUEST, BODY_TOO_LONG, BODY_TOO_SLOW, CONFLICT, ErrorResponse,
    INTERNAL_ERROR, METHOD_NOT_ALLOWED, NOT_ADMINISTRATOR, REQUEST_ID, RETRY_AFTER, TENANT_NOT_FOUND,
    TOO_MANY_SIGN_INS, UNAUTHORIZED, UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE, WWW_AUTHENTICATE, add_headers,
    not_found,
};
use self::samples::Samples;
use super::idempotency;
use crate::http::error::ProblemBody;
use crate::http::problem_examples::example;
use crate::http::problem_type::ProblemType;

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
        description = "Legal-support orders: court, process, delivery, investigation, file and serve, county recording and photocopy.\n\nEvery authorized call carries two credentials: the API key (X-Api-Key) identifies the tenant, the Bearer token identifies the contact or employee. Get the token from POST /Auth/Token.\n\n/openapi/events.json describes the events that the receivers of webhooks get."
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
        (name = "Legacy host", description = LEGACY_HOST),
    ),
    components(schemas(
        ProblemBody,
        docket_orders::Problem,
        crate::http::paging::Cursor,
        super::webhook_logs::answers::DeadLetterState,
        super::webhook_logs::answers::DeliveryKindWord
    ))
)]
struct ApiDocument;

/// The document of the API: what clients call.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = ApiDocument::openapi();
    // The host that served the document: the tenant's or the base host.
    document.servers = Some(vec![ServerBuilder::new().url("/").description(Some("This Docket")).build()]);
    document.info.contact = Some(contact());
    let components = document.components.get_or_insert_default();
    components.schemas.extend(docket_orders::schemas());
    components.schemas.values_mut().for_each(without_siblings);
    components.responses.extend(responses::ALL.map(|one| (one.name.to_owned(), one.response().into())));
    components.headers.extend(responses::headers());
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
    let samples = Samples::new(&components.schemas);
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            complete(operation, &samples);
        }
    }
    link(&mut document);
    document
}

/// The contact that both documents name.
fn contact() -> Contact {
    ContactBuilder::new().name(Some("The people who run this Docket")).build()
}

/// The path of each operation, and whether the legacy host serves it too.
pub fn paths() -> Vec<(String, bool)> {
    let of_v2 = |operation: &Operation| ["Auth", "WebhookLogs"].iter().any(|tag| is_tagged(operation, tag));
    let paths = ApiDocument::openapi().paths.paths.into_iter();
    paths.map(|(path, item)| (path, ![&item.get, &item.post].into_iter().flatten().any(of_v2))).collect()
}

/// The types of problems that the responses of each path can have, in the order of their statuses.
pub fn problems() -> BTreeMap<String, Vec<ProblemType>> {
    let paths = ApiDocument::openapi().paths.paths.into_iter();
    paths.map(|(path, item)| (path, kinds_of(item))).collect()
}

fn kinds_of(item: PathItem) -> Vec<ProblemType> {
    [item.get, item.post].into_iter().flatten().flat_map(|operation| kinds(&operation)).collect()
}

/// The types of problems of an operation, as its handler declares its responses.
fn kinds(operation: &Operation) -> Vec<ProblemType> {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let has = |status: &str| operation.responses.responses.contains_key(status);
    let mut kinds: Vec<ProblemType> = refused(operation).iter().flat_map(|one| one.kinds).copied().collect();
    if signs_in(operation) {
        kinds.retain(|kind| *kind != ProblemType::InvalidToken);
        kinds.push(ProblemType::UnknownUser);
    } else if has("404") {
        kinds.push(ProblemType::NotFound);
    }
    kinds.extend(has("412").then_some(ProblemType::PreconditionFailed));
    kinds.extend(matches!(id, "Orders.Save" | "Orders.Export").then_some(ProblemType::OrderChanged));
    ProblemType::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect()
}

/// The error responses of an operation beyond the responses that its handler declares.
fn refused(operation: &Operation) -> Vec<ErrorResponse> {
    let mut refused = vec![BAD_REQUEST, UNAUTHORIZED, TENANT_NOT_FOUND, METHOD_NOT_ALLOWED];
    refused.extend([INTERNAL_ERROR, UNAVAILABLE]);
    let has_body = operation.request_body.is_some();
    if has_body {
        refused.extend([BODY_TOO_SLOW, BODY_TOO_LONG, UNSUPPORTED_MEDIA_TYPE]);
    }
    match signs_in(operation) {
        true => {
            refused.push(TOO_MANY_SIGN_INS);
            refused.extend(is_tagged(operation, "Legacy host").then_some(API_ACCESS_OFF));
        }
        false => {
            refused.push(AT_LIMIT);
            refused.extend(has_body.then_some(CONFLICT));
        }
    }
    refused.extend(is_tagged(operation, "WebhookLogs").then_some(NOT_ADMINISTRATOR));
    refused
}

fn signs_in(operation: &Operation) -> bool {
    ["Auth", "Legacy host"].iter().any(|tag| is_tagged(operation, tag))
}

fn is_tagged(operation: &Operation, tag: &str) -> bool {
    operation.tags.iter().flatten().any(|one| one == tag)
}

/// Removes everything beside a reference: some generators ignore it, and others make broken code of it. The description of a
/// "reference or null" moves to the choice between the two.
fn without_siblings(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::Ref(named) => *named = Ref::new(std::mem::take(&mut named.ref_location)),
        RefOr::T(Schema::Object(object)) => object.properties.values_mut().for_each(without_siblings),
        RefOr::T(Schema::Array(array)) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                without_siblings(items);
            }
        }
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(without_siblings),
        RefOr::T(Schema::OneOf(one)) => {
            let of_null = |item: &RefOr<Schema>| matches!(item, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::new(Type::Null));
            if one.description.is_none() && one.items.iter().any(of_null) {
                let described = one.items.iter().find_map(|item| match item {
                    RefOr::Ref(named) if !named.description.is_empty() => Some(named.description.clone()),
                    _ => None,
                });
                one.description = described;
            }
            one.items.iter_mut().for_each(without_siblings);
        }
        RefOr::T(_) => {}
    }
}

/// Adds the link from the web order id of a response to the operation that takes the id. A link can set a parameter only: in a
/// body, an expression is plain text.
fn link(document: &mut utoipa::openapi::OpenApi) {
    const ID: &str = "$response.body#/webOrderId";
    let get = LinkBuilder::new().operation_id("Orders.Get").parameter("webOrderId", ID).build();
    for path in ["/Orders/Save", "/Orders/Export"] {
        let item = document.paths.paths.get_mut(path).expect("a path of this document");
        let operation = item.post.as_mut().expect("a POST");
        if let Some(RefOr::T(response)) = operation.responses.responses.get_mut("200") {
            response.links.insert("Get".to_owned(), get.clone().into());
        }
    }
}

fn complete(operation: &mut Operation, samples: &Samples) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let refused = refused(operation);
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content {
                match samples.named(content) {
                    Some(SAVE_ORDER_REQUEST) => content.examples = order_examples(),
                    _ if content.example.is_none() => content.example = samples.of(content),
                    _ => {}
                }
            }
        }
    }
    let mut parameters = operation.parameters.iter().flatten();
    let repeatable = parameters.any(|one| matches!(one, RefOr::T(one) if one.name == idempotency::HEADER));
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let replayed = (repeatable && status == "200").then_some(idempotency::REPLAYED);
        add_headers(response, [Some(REQUEST_ID), replayed].into_iter().flatten());
        for content in response.content.values_mut() {
            let RefOr::T(content) = content else { continue };
            content.example = match status.as_str() {
                "200" => samples.of(content),
                "404" => Some(not_found(&id)),
                "409" => Some(CONFLICT.example()),
                "412" => Some(example(ProblemType::PreconditionFailed)),
                _ => None,
            };
        }
    }
    // The contract names the statuses of this operation; its `default` stands for all others.
    if id == "Auth.CreateToken" {
        let others = refused.iter().map(|one| format!("{}: {}", one.status(), one.about));
        let about = others.collect::<Vec<_>>().join(". ");
        let mut response = BAD_REQUEST.response();
        response.description = about;
        add_headers(&mut response, [RETRY_AFTER, WWW_AUTHENTICATE, ALLOW].into_iter());
        operation.responses.responses.insert("default".to_owned(), response.into());
        return;
    }
    for one in refused {
        let response = Ref::from_response_name(one.name);
        operation.responses.responses.entry(one.status().to_string()).or_insert(RefOr::Ref(response));
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
