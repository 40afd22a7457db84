//! Requests. Each is generated from one list of its fields: the struct, the code that reads it, and its description in the OpenAPI
//! document. So these can't disagree.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Required, Schema};

use super::body::LIMIT;
use super::error::ApiError;
use super::fields::{RequestFields, RequestPart};

/// A request with a list of fields. `request!` implements it.
pub trait FromFields: Sized {
    /// The descriptions of the fields, in the order of the list.
    fn list() -> Vec<DescribedField>;

    /// Takes the fields. Returns `None` if a required one is absent or wrong.
    fn take(fields: &mut RequestFields) -> Option<Self>;

    /// Reads all of `fields`, or refuses them with everything wrong.
    fn read(mut fields: RequestFields) -> Result<Self, ApiError> {
        let request = Self::take(&mut fields);
        fields.finish()?;
        // `finish` has refused a required field that is absent or wrong.
        request.ok_or(ApiError::Internal)
    }

    /// Like [`read`](Self::read), but ignores fields that are not in the list.
    fn read_known(mut fields: RequestFields) -> Result<Self, ApiError> {
        let request = Self::take(&mut fields);
        fields.ignore_rest();
        fields.finish()?;
        request.ok_or(ApiError::Internal)
    }
}

/// A request that is read from a body.
pub trait FromBody: Sized {
    /// The most bytes that a body may have.
    const LIMIT: usize = LIMIT;

    /// Reads the bytes of a body.
    fn from_body(body: &[u8]) -> Result<Self, ApiError>;
}

/// An extractor of a request that is read from the query string.
pub struct Query<Q>(pub Q);

impl<Q: FromFields, S: Sync> FromRequestParts<S> for Query<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Q::read(RequestFields::of_query(parts.uri.query())).map(Self)
    }
}

/// One field of a request, for the OpenAPI document.
pub struct DescribedField {
    /// The name in JSON and in query strings.
    pub name: &'static str,
    /// The description.
    pub about: &'static str,
    /// Whether the request must have the field.
    pub required: bool,
    /// The schema of its kind.
    pub schema: fn(RequestPart) -> RefOr<Schema>,
    /// The value if the field is absent.
    pub default: Option<Value>,
    /// An example.
    pub example: Option<Value>,
}

impl DescribedField {
    /// The schema of the field's values, with the default.
    fn schema(&self, part: RequestPart) -> RefOr<Schema> {
        match (self.schema)(part) {
            RefOr::T(Schema::Object(mut object)) => {
                object.default = self.default.clone();
                object.into()
            }
            other => other,
        }
    }

    fn property(self) -> RefOr<Schema> {
        match self.schema(RequestPart::Body) {
            RefOr::T(Schema::Object(mut object)) => {
                if let (false, SchemaType::Type(kind)) = (self.required, &object.schema_type) {
                    object.schema_type = SchemaType::Array(vec![kind.clone(), Type::Null]);
                }
                object.description = Some(self.about.trim().to_owned());
                object.example = self.example.or(object.example);
                RefOr::T(Schema::Object(object))
            }
            // Generators ignore a description beside a reference; the component has its own.
            RefOr::Ref(named) if self.required => RefOr::Ref(named),
            RefOr::Ref(named) => {
                let either = OneOfBuilder::new().item(named).item(Object::with_type(Type::Null));
                either.description(Some(self.about.trim())).into()
            }
            other => other,
        }
    }

    fn parameter(self) -> Parameter {
        ParameterBuilder::new()
            .name(self.name)
            .parameter_in(ParameterIn::Query)
            .description(Some(self.about.trim()))
            .required(if self.required { Required::True } else { Required::False })
            .schema(Some(self.schema(RequestPart::Query)))
            .example(self.example)
            .build()
    }
}

/// The schema of a body that takes exactly these fields.
pub fn object<R: FromFields>(about: &str) -> RefOr<Schema> {
    let mut object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about.trim()))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for field in R::list() {
        if field.required {
            object = object.required(field.name);
        }
        object = object.property(field.name, field.property());
    }
    object.into()
}

/// The parameters of a query that takes exactly these fields.
pub fn parameters<R: FromFields>() -> Vec<Parameter> {
    R::list().into_iter().map(DescribedField::parameter).collect()
}

/// Generates a request from the list of its fields: a `body`, or the `query` of a route. Each field is `req` (required), `opt`, or
/// `def` (optional with a default), and has a [`Kind`](super::fields::Kind).
macro_rules! request {
    (@type opt $kind:ty) => { Option<<$kind as $crate::http::fields::Kind>::Value> };
    (@type $need:ident $kind:ty) => { <$kind as $crate::http::fields::Kind>::Value };
    (@value req $field:ident) => { $field? };
    (@value opt $field:ident) => { $field };
    (@value def $field:ident $default:expr) => { $field.unwrap_or($default) };
    (@required req) => { true };
    (@required $need:ident) => { false };
    (@example) => { None };
    (@example $example:expr) => { Some(serde_json::json!($example)) };
    ($(#[doc = $about:literal])* body $name:ident { $($fields:tt)* }) => {
        request! { @define $(#[doc = $about])* $name { $($fields)* } }

        impl $crate::http::request::FromBody for $name {
            fn from_body(body: &[u8]) -> Result<Self, $crate::http::error::ApiError> {
                <Self as $crate::http::request::FromFields>::read($crate::http::fields::RequestFields::of_body(body)?)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::http::request::object::<Self>(concat!($($about),*))
            }
        }

        impl utoipa::ToSchema for $name {}
    };
    ($(#[doc = $about:literal])* query $name:ident { $($fields:tt)* }) => {
        request! { @define $(#[doc = $about])* $name { $($fields)* } }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::http::request::parameters::<Self>()
            }
        }
    };
    (@define $(#[doc = $about:literal])* $name:ident {
        $( $(#[doc = $doc:literal])* $need:ident $field:ident : $kind:ty $(= $default:expr)? $(, example $example:expr)? ; )*
    }) => {
        $(#[doc = $about])*
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: request!(@type $need $kind), )*
        }

        impl $crate::http::request::FromFields for $name {
            fn list() -> Vec<$crate::http::request::DescribedField> {
                vec![ $( $crate::http::request::DescribedField {
                    name: docket_orders::camel!($field),
                    about: concat!($($doc),*),
                    required: request!(@required $need),
                    schema: <$kind as $crate::http::fields::Kind>::schema,
                    default: request!(@example $($default)?),
                    example: request!(@example $($example)?),
                } ),* ]
            }

            fn take(fields: &mut $crate::http::fields::RequestFields) -> Option<Self> {
                $( let $field = fields.$need::<$kind>(docket_orders::camel!($field)); )*
                Some(Self { $( $field: request!(@value $need $field $($default)?) ),* })
            }
        }
    };
}
pub(crate) use request;
