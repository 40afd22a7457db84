//! The OpenAPI schema of the order type. The type itself is in the domain, which does not know OpenAPI.

use std::borrow::Cow;

use docket_domain::order_type::OrderType;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The component `OrderType`: one of the words of [`OrderType`].
#[derive(Debug)]
pub struct OrderTypeComponent;

impl PartialSchema for OrderTypeComponent {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(OrderType::WORDS)).into()
    }
}

impl ToSchema for OrderTypeComponent {
    fn name() -> Cow<'static, str> {
        "OrderType".into()
    }
}
