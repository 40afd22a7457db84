//! How the documentation describes a text that is one of a few words, which a type of the domain lists.

/// A text that is one of a few words. For documentation.
macro_rules! words {
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
}
pub(super) use words;
