//! The schemas of the seven order types, generated from the same lists of fields as their readers, and an example of each.

use std::borrow::Cow;

use docket_domain::order_type::OrderType;
use utoipa::openapi::schema::{Discriminator, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::county_recording::CountyRecordingOrder;
use crate::court::CourtOrder;
use crate::delivery::DeliveryOrder;
use crate::field::{Components, Field, Part, object_schema, property};
use crate::file_and_serve::FileAndServeOrder;
use crate::investigation::InvestigationOrder;
use crate::photo_copy::PhotoCopyOrder;
use crate::process::ProcessOrder;
use crate::save::{SaveRequest, Version};
use crate::text::{Text, WebOrderId};

/// The component of the body of Orders/Save: the union of the seven order types.
pub const SAVE_ORDER_REQUEST: &str = "SaveOrderRequest";

/// The component of an order in a response of Orders/Get: the union of the seven order types.
pub const STORED_ORDER: &str = "StoredOrder";

/// Every component: the two unions, the seven order types as they are saved and as they are stored, and their parts, sorted
/// by name.
pub fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let mut components = Components::new();
    for kind in OrderType::ALL {
        for form in [Form::Saved, Form::Stored] {
            let schema = order_schema(kind, form, &mut components);
            components.insert(component(kind, form), schema);
        }
    }
    components.insert(SAVE_ORDER_REQUEST.to_owned(), union(Form::Saved));
    components.insert(STORED_ORDER.to_owned(), union(Form::Stored));
    components.into_iter().collect()
}

// The traits are not imported: if they were, `bool::schema` below would be ambiguous.
impl utoipa::PartialSchema for SaveRequest {
    fn schema() -> RefOr<Schema> {
        union(Form::Saved)
    }
}

impl utoipa::ToSchema for SaveRequest {
    fn name() -> Cow<'static, str> {
        SAVE_ORDER_REQUEST.into()
    }

    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.extend(schemas());
    }
}

/// An order of each type that can be exported as it is; invented data, pretty-printed JSON.
pub fn examples() -> [(OrderType, &'static str); 7] {
    [
        (OrderType::Court, include_str!("../examples/court.json")),
        (OrderType::Process, include_str!("../examples/process.json")),
        (OrderType::Delivery, include_str!("../examples/delivery.json")),
        (OrderType::Investigation, include_str!("../examples/investigation.json")),
        (OrderType::FileAndServe, include_str!("../examples/file_and_serve.json")),
        (OrderType::CountyRecording, include_str!("../examples/county_recording.json")),
        (OrderType::PhotoCopy, include_str!("../examples/photo_copy.json")),
    ]
}

/// Where a schema of an order is used: in a request to save the order, with the fields around it, or in a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Saved,
    Stored,
}

/// The union of the seven order types, distinguished by `orderType`.
fn union(form: Form) -> RefOr<Schema> {
    let mapping = OrderType::ALL
        .map(|kind| (kind.to_string(), format!("#/components/schemas/{}", component(kind, form))));
    let discriminator = Discriminator::with_mapping("orderType", mapping);
    let mut union = OneOfBuilder::new().discriminator(Some(discriminator));
    for kind in OrderType::ALL {
        union = union.item(Ref::from_schema_name(component(kind, form)));
    }
    let about = match form {
        Form::Saved => "An order of one of the seven types.",
        Form::Stored => "An order of one of the seven types, as it was saved.",
    };
    union.description(Some(about)).into()
}

fn component(kind: OrderType, form: Form) -> String {
    match form {
        Form::Saved => format!("{kind}Order"),
        Form::Stored => format!("Stored{kind}Order"),
    }
}

fn order_schema(kind: OrderType, form: Form, components: &mut Components) -> RefOr<Schema> {
    let (about, properties) = match kind {
        OrderType::Court => described::<CourtOrder>(components),
        OrderType::Process => described::<ProcessOrder>(components),
        OrderType::Delivery => described::<DeliveryOrder>(components),
        OrderType::Investigation => described::<InvestigationOrder>(components),
        OrderType::FileAndServe => described::<FileAndServeOrder>(components),
        OrderType::CountyRecording => described::<CountyRecordingOrder>(components),
        OrderType::PhotoCopy => described::<PhotoCopyOrder>(components),
    };
    let mut all = vec![("orderType", tag(kind))];
    if form == Form::Saved {
        all.extend(around(kind, components));
    }
    all.extend(properties);
    object_schema(about, all).required("orderType").into()
}

type Properties = Vec<(&'static str, RefOr<Schema>)>;

fn described<T: Part>(components: &mut Components) -> (&'static str, Properties) {
    (T::about(), T::properties(components))
}

fn tag(kind: OrderType) -> RefOr<Schema> {
    let tag = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind.as_str()]));
    tag.description(Some("The type of the order.")).into()
}

/// The fields around the order in the request.
fn around(kind: OrderType, components: &mut Components) -> Properties {
    let id =
        property(WebOrderId::schema(components), "The draft to change; absent creates one.", false, None);
    let about = "The version that the change was made from, only beside webOrderId. If the order has another one meanwhile, \
                 the response is 409. Absent, the save replaces whatever is stored.";
    let version = property(Version::schema(components), about, false, None);
    let customer = Text::<64>::schema(components);
    let customer = property(customer, "The customer of the order; only employees may set it.", false, None);
    let flag = |about, components: &mut Components| property(bool::schema(components), about, false, None);
    let mut around = vec![
        ("webOrderId", id),
        ("version", version),
        ("customerCode", customer),
        ("export", flag("Export at once.", components)),
    ];
    if kind == OrderType::PhotoCopy {
        around.push(("finalize", flag("The order is ready for review.", components)));
    }
    around
}
