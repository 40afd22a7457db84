//! The OpenAPI document of the events: the request that a receiver gets for each. It is a separate document, because generators of
//! clients do not expect requests that clients do not send.

use docket_crds::EventCode;
use docket_domain::event::{
    EventId, InvoiceCreated, NoteCreated, OrderExported, OrderSaved, OrderStatusChanged, envelope,
};
use docket_domain::sample;
use docket_domain::signature::{
    DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, WEBHOOK_ID_HEADER, WEBHOOK_SIGNATURE_HEADER,
    WEBHOOK_TIMESTAMP_HEADER,
};
use jiff::Timestamp;
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::server::ServerBuilder;
use utoipa::openapi::{
    ContentBuilder, PathItem, Paths, PathsBuilder, Ref, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{OpenApi, PartialSchema, ToSchema};

/// The customer code in the examples.
const CUSTOMER: &str = "C-1001";
/// The time of the events in the examples: 2026-11-21T05:06:07.123Z.
const PUBLISHED: Timestamp = Timestamp::constant(1_795_237_567, 123_000_000);

/// The headers of a delivery: name, whether it is always sent, and meaning.
pub const HEADERS: [(&str, bool, &str); 7] = [
    (EVENT_HEADER, true, "The event code."),
    (
        DELIVERY_ID_HEADER,
        true,
        "The id of the delivery, that is, of one event to one webhook. It is the same on every attempt. A resend has another id.",
    ),
    (
        SIGNATURE_HEADER,
        false,
        "HMAC-SHA256 of the raw body with the webhook's secret, as 64 lowercase hexadecimal digits. Left out if the webhook has no secret.",
    ),
    (
        sample::TEST_HEADER,
        false,
        "`true` on a test event, whose data is a sample. Other deliveries do not have this header.",
    ),
    (WEBHOOK_ID_HEADER, true, "The event's id, as Standard Webhooks names it."),
    (
        WEBHOOK_TIMESTAMP_HEADER,
        true,
        "The time of the attempt in whole seconds since 1970, as Standard Webhooks names it.",
    ),
    (
        WEBHOOK_SIGNATURE_HEADER,
        false,
        "One or more signatures by Standard Webhooks, separated by spaces. Left out if the webhook has no secret.",
    ),
];

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Docket: events",
        description = "The events that Docket sends to the receivers of webhooks.\n\n/openapi.json describes the API, which clients call."
    ),
    tags((name = "Events", description = "What a webhook's receiver gets: one POST for each attempt of a delivery."))
)]
struct EventsDocument;

/// The document of the events: what receivers get.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = EventsDocument::openapi();
    // Linters want a server, though OpenAPI has none for webhooks.
    let receiver = ServerBuilder::new().url("https://hooks.acme.example/orders");
    document.servers = Some(vec![receiver.description(Some("The URL of a webhook")).build()]);
    document.info.contact = Some(super::contact());
    document.components.get_or_insert_default().schemas.extend(schemas());
    document.webhooks = Some(paths());
    document
}

/// One request for each event code.
fn paths() -> Paths {
    let all = EventCode::ALL.into_iter();
    all.fold(PathsBuilder::new(), |paths, code| paths.path(code.as_str(), item(code))).build()
}

/// The name of the component with the schema of the event's `data`.
fn component(code: EventCode) -> String {
    match code {
        EventCode::OrderCreated | EventCode::OrderUpdated => OrderSaved::name(),
        EventCode::OrderExported => OrderExported::name(),
        EventCode::OrderStatusChanged => OrderStatusChanged::name(),
        EventCode::NoteCreated => NoteCreated::name(),
        EventCode::InvoiceCreated => InvoiceCreated::name(),
    }
    .into_owned()
}

/// The name of the component with the schema of the event's body: `OrderCreatedEvent`.
fn envelope_component(code: EventCode) -> String {
    let words = code.as_str().split(['.', '_']);
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).collect::<String>() + "Event"
}

/// The schemas of the events' bodies, and of their `data`.
fn schemas() -> impl Iterator<Item = (String, RefOr<Schema>)> {
    let envelopes =
        EventCode::ALL.into_iter().map(|code| (envelope_component(code), envelope_schema(code).into()));
    let data = [
        (component(EventCode::OrderCreated), OrderSaved::schema()),
        (component(EventCode::OrderExported), OrderExported::schema()),
        (component(EventCode::OrderStatusChanged), OrderStatusChanged::schema()),
        (component(EventCode::NoteCreated), NoteCreated::schema()),
        (component(EventCode::InvoiceCreated), InvoiceCreated::schema()),
    ];
    envelopes.chain(data)
}

/// The body of a delivery of the event, with sample data and a time that is always the same.
pub fn example(code: EventCode) -> Vec<u8> {
    envelope(&EventId::new(PUBLISHED, [0; 10]), PUBLISHED, CUSTOMER, &sample::payload(code))
}

fn item(code: EventCode) -> PathItem {
    let example: Value = serde_json::from_slice(&example(code)).expect("an envelope is JSON");
    let body = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(envelope_component(code))))
        .example(Some(example))
        .build();
    let response = |description: &str| ResponseBuilder::new().description(description).build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("Events.{code}")))
        .tag("Events")
        // A delivery is authenticated by the signature in its headers.
        .securities(Some([]))
        .summary(Some(code.about()))
        .description(Some("Verify the signature before you use the body, and answer within 30 seconds."))
        .parameters(Some(HEADERS.map(header)))
        .request_body(Some(
            RequestBodyBuilder::new()
                .content("application/json; charset=utf-8", body)
                .required(Some(Required::True))
                .build(),
        ))
        .response("2XX", response("The receiver has the event. Docket reads no more of the response."))
        .response("default", response("A failed attempt. Docket tries again, five attempts in all."));
    PathItem::new(HttpMethod::Post, operation)
}

fn header((name, required, about): (&str, bool, &str)) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(if required { Required::True } else { Required::False })
        .description(Some(about))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn envelope_schema(code: EventCode) -> Schema {
    let text = |about: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(about));
    let members = ["id", "event", "occurredAt", "customerCode", "data"];
    let envelope = ObjectBuilder::new()
        .property(
            "id",
            text("The event, the same on every attempt and resend. A receiver ignores one that it has seen."),
        )
        .property("event", text("The event code.").enum_values(Some([code.as_str()])))
        .property(
            "occurredAt",
            text("When the event was published, in UTC.")
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))),
        )
        .property("customerCode", text("The customer whose order it is."))
        .property("data", Ref::from_schema_name(component(code)));
    let envelope = envelope.description(Some(format!("The body of a delivery of {code}.")));
    members.into_iter().fold(envelope, ObjectBuilder::required).build().into()
}
