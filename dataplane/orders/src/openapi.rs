//! The schemas of the seven order types, generated from the lists that also read them, and an example of each.

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
use crate::save::Version;
use crate::text::{Text, WebOrderId};

/// The component that is the union of the seven, the body of Orders/Save.
pub const SAVE_ORDER_REQUEST: &str = "SaveOrderRequest";

/// The component that is the union of the seven, as Orders/Get returns them.
pub const STORED_ORDER: &str = "StoredOrder";

/// Every component: the two unions, the seven order types and their parts, sorted by name.
pub fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let mut components = Components::new();
    for kind in OrderType::ALL {
        let schema = order_schema(*kind, &mut components);
        components.insert(component(*kind), schema);
    }
    components.insert(SAVE_ORDER_REQUEST.to_owned(), union());
    components.insert(STORED_ORDER.to_owned(), union());
    components.into_iter().collect()
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

/// One of the seven, distinguished by `orderType`.
pub(crate) fn union() -> RefOr<Schema> {
    let mapping = OrderType::ALL
        .iter()
        .map(|kind| (kind.as_str().to_owned(), format!("#/components/schemas/{}", component(*kind))));
    let discriminator = Discriminator::with_mapping("orderType", mapping);
    let mut union = OneOfBuilder::new().discriminator(Some(discriminator));
    for kind in OrderType::ALL {
        union = union.item(Ref::from_schema_name(component(*kind)));
    }
    union.description(Some("An order of one of the seven types.")).into()
}

fn component(kind: OrderType) -> String {
    format!("{kind}Order")
}

fn order_schema(kind: OrderType, components: &mut Components) -> RefOr<Schema> {
    let (about, properties) = match kind {
        OrderType::Court => described::<CourtOrder>(components),
        OrderType::Process => described::<ProcessOrder>(components),
        OrderType::Delivery => described::<DeliveryOrder>(components),
        OrderType::Investigation => described::<InvestigationOrder>(components),
        OrderType::FileAndServe => described::<FileAndServeOrder>(components),
        OrderType::CountyRecording => described::<CountyRecordingOrder>(components),
        OrderType::PhotoCopy => described::<PhotoCopyOrder>(components),
    };
    let mut all = around(kind, components);
    all.extend(properties);
    object_schema(about, all).required("orderType").into()
}

type Properties = Vec<(&'static str, RefOr<Schema>)>;

fn described<T: Part>(components: &mut Components) -> (&'static str, Properties) {
    (T::about(), T::properties(components))
}

/// The fields around the order in the request.
fn around(kind: OrderType, components: &mut Components) -> Properties {
    let tag = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind.as_str()]));
    let tag = tag.description(Some("The type of the order."));
    let id =
        property(WebOrderId::schema(components), "The draft to change; absent creates one.", false, None);
    let about = "The version that the change was made from, only beside webOrderId. If the order has another one meanwhile, \
                 the response is 409. Absent, the save replaces whatever is stored.";
    let version = property(Version::schema(components), about, false, None);
    let customer = Text::<64>::schema(components);
    let customer = property(customer, "The customer of the order; only employees may set it.", false, None);
    let flag = |about, components: &mut Components| property(bool::schema(components), about, false, None);
    let mut around = vec![
        ("orderType", tag.into()),
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
