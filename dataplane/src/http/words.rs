//! Texts that are one of the words of an enum: their schemas, and how they are read.

/// Generates the schema of a text that is one of `$words`. With `=> $value`, the words come from this enum, and the schema is also
/// a [`Kind`](super::fields::Kind) that reads them.
macro_rules! word_schema {
    ($(#[$doc:meta])* $name:ident, $words:expr, $description:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let schema = utoipa::openapi::schema::ObjectBuilder::new();
                let schema = schema.schema_type(utoipa::openapi::schema::Type::String);
                let schema = schema.enum_values(Some($words));
                schema.description(Some($description)).into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
    ($(#[$doc:meta])* $name:ident => $value:ty, $description:expr) => {
        word_schema!($(#[$doc])* $name, <$value>::WORDS, $description);

        impl $crate::http::fields::Kind for $name {
            type Value = $value;

            fn read(sent: $crate::http::fields::SentValue) -> Result<$value, String> {
                $crate::http::kinds::word(sent)
            }

            fn schema(_: $crate::http::fields::RequestPart) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::Ref::from_schema_name(stringify!($name)).into()
            }
        }
    };
}
pub(crate) use word_schema;
