//! How a field is read, checked and described, and the macro that defines a part from one list of its fields. The
//! list is the only place that names a field: struct, reader, writer, export check and schema are generated from it
//! and cannot disagree.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::schema::{Object, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::json::{Fields, Json};
use crate::problem::{Path, Problems};

/// The named schemas that are collected while a schema is built.
pub type Components = BTreeMap<String, RefOr<Schema>>;

/// A kind of value.
pub trait Field: Sized {
    /// Reads one value (never `null`, which a part reads as absent). Adds all problems of the value to `problems`.
    fn read(json: &Json, at: &mut Path, problems: &mut Problems) -> Option<Self>;

    /// Adds contradictions inside the value to `problems`.
    fn contradictions(&self, _at: &mut Path, _problems: &mut Problems) {}

    /// Adds to `problems` everything that an export requires and the value lacks.
    fn missing(&self, _at: &mut Path, _problems: &mut Problems) {}

    /// The schema of the JSON that [`Field::read`] accepts, as exactly as JSON Schema can express it.
    fn schema(components: &mut Components) -> RefOr<Schema>;
}

/// An object with a fixed list of fields.
pub trait Part: Field {
    /// The JSON names of its fields, in the order of the documentation.
    const NAMES: &'static [&'static str];

    /// Reads an object. Ignores the names in `also`, which another reader handles.
    fn read_object(object: &Fields<'_>, also: &[&str], at: &mut Path, problems: &mut Problems) -> Self;

    /// The schema of each field.
    fn properties(components: &mut Components) -> Vec<(&'static str, RefOr<Schema>)>;

    /// The description of the object.
    fn about() -> &'static str;
}

/// Rules that a list of fields cannot express. `part!` implements this trait without rules, unless the part is `ruled`.
pub trait Rules {
    /// Fields that the system sets. A client that sends one gets an error that says so.
    const GIVEN: &'static [&'static str] = &[];

    /// Adds values that reading must refuse because of another field, even in a draft. `object` is the JSON that the
    /// client sent: a field with a wrong value is in `object`, but absent in `self`.
    fn dependent(&self, _object: &Fields<'_>, _at: &mut Path, _problems: &mut Problems) {}

    /// Adds fields of this part that contradict each other.
    fn contradictory(&self, _at: &mut Path, _problems: &mut Problems) {}

    /// Adds missing fields of this part that are required under a condition (`R*` in the documentation).
    fn conditional(&self, _at: &mut Path, _problems: &mut Problems) {}
}

/// The message for a missing required field.
pub const REQUIRED: &str = "required at export";

/// Reads the field `name`. `null` means absent.
pub(crate) fn read_field<T: Field>(
    object: &Fields<'_>,
    name: &str,
    at: &mut Path,
    problems: &mut Problems,
) -> Option<T> {
    match object.get(name) {
        None | Some(Json::Null) => None,
        Some(json) => at.key(name, |at| T::read(json, at, problems)),
    }
}

/// Reports every field that is in neither `names` nor `also`, so that nothing that a client sends is dropped silently.
pub(crate) fn refuse_unknown(
    object: &Fields<'_>,
    names: &[&str],
    also: &[&str],
    given: &[&str],
    at: &mut Path,
    problems: &mut Problems,
) {
    for name in object.keys().map(|name| &**name) {
        if names.contains(&name) || also.contains(&name) {
            continue;
        }
        at.key(name, |at| {
            if given.contains(&name) {
                return problems.push(at, "set by the system; omit it");
            }
            let takes: Vec<&str> = also.iter().chain(names).copied().collect();
            problems.push(at, unknown("field", "object", name, &takes));
        });
    }
}

/// The message for an unknown name of a `field` of an `owner`: it suggests the name that is written almost the same,
/// then lists all names. Names are case-sensitive, and clients of other APIs write them in another case or with
/// hyphens.
pub fn unknown(field: &str, owner: &str, name: &str, takes: &[&str]) -> String {
    let meant = takes.iter().find(|one| is_almost(one, name));
    match (meant, takes) {
        (Some(meant), _) => {
            format!("unknown {field}; did you mean {meant}? This {owner} takes: {}", takes.join(", "))
        }
        (None, []) => format!("unknown {field}; this {owner} takes none"),
        (None, _) => format!("unknown {field}; this {owner} takes: {}", takes.join(", ")),
    }
}

/// Whether two names differ only in case, `_` and `-`.
pub fn is_almost(name: &str, other: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).map(|byte| byte.to_ascii_lowercase())
    }
    letters(name).eq(letters(other))
}

/// Reports `name` when a condition requires it and it is absent.
pub(crate) fn require<T>(
    value: &Option<T>,
    name: &str,
    condition: &str,
    at: &mut Path,
    problems: &mut Problems,
) {
    if value.is_none() {
        at.key(name, |at| problems.push(at, format!("{REQUIRED} {condition}")));
    }
}

/// The schema of an enumeration, as a component of its own. So client generators make one type of it, however many
/// fields have it.
pub(crate) fn named_words(
    name: &str,
    about: &str,
    words: impl Iterator<Item = &'static str>,
    components: &mut Components,
) -> RefOr<Schema> {
    if !components.contains_key(name) {
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
        components.insert(name.to_owned(), schema.description(Some(about.trim())).into());
    }
    Ref::from_schema_name(name).into()
}

/// The schema of a field of a part: with a description, and with `null` allowed, which means that the field is absent.
pub(crate) fn property(
    schema: RefOr<Schema>,
    about: &str,
    required: bool,
    default: Option<Value>,
) -> RefOr<Schema> {
    let mut about = about.trim().to_owned();
    if let RefOr::T(Schema::Object(Object { description: Some(kind), .. })) = &schema {
        about = format!("{about} {kind}");
    }
    if required {
        about.push_str(" Required at export.");
    }
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            object.schema_type = or_null(object.schema_type);
            object.description = Some(about);
            object.default = default;
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.schema_type = or_null(array.schema_type);
            array.description = Some(about);
            RefOr::T(Schema::Array(array))
        }
        named => {
            // Client generators ignore a default beside a reference, or generate code that does not compile.
            if let Some(Value::String(default)) = default {
                about = format!("{about} Absent means {default}.");
            }
            let either = OneOfBuilder::new().item(named).item(Object::with_type(Type::Null));
            RefOr::T(Schema::OneOf(either.description(Some(about)).build()))
        }
    }
}

fn or_null(kind: SchemaType) -> SchemaType {
    match kind {
        SchemaType::Type(kind) => SchemaType::Array(vec![kind, Type::Null]),
        other => other,
    }
}

/// The schema of an object that takes exactly `properties`.
pub(crate) fn object_schema(
    about: &str,
    properties: impl IntoIterator<Item = (&'static str, RefOr<Schema>)>,
) -> ObjectBuilder {
    let mut builder = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about.trim()))
        .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::FreeForm(false)));
    for (name, schema) in properties {
        builder = builder.property(name, schema);
    }
    builder
}

/// The length of a `snake_case` name in camelCase.
pub const fn camel_len(name: &str) -> usize {
    let bytes = name.as_bytes();
    let (mut length, mut i) = (0, 0);
    while i < bytes.len() {
        if bytes[i] != b'_' {
            length += 1;
        }
        i += 1;
    }
    length
}

/// A `snake_case` name in camelCase; `N` is its [`camel_len`].
pub const fn camel_bytes<const N: usize>(name: &str) -> [u8; N] {
    let bytes = name.as_bytes();
    let mut out = [0; N];
    let (mut i, mut o, mut upper) = (0, 0, false);
    while i < bytes.len() {
        if bytes[i] == b'_' {
            upper = true;
        } else {
            out[o] = if upper { bytes[i].to_ascii_uppercase() } else { bytes[i] };
            upper = false;
            o += 1;
        }
        i += 1;
    }
    out
}

/// Keeps the values of these types out of logs.
macro_rules! redacted {
    ($($name:ident),*) => { $(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("[redacted]")
            }
        }
    )* };
}

/// The JSON name of a field, computed at compile time.
#[macro_export]
macro_rules! camel {
    ($field:ident) => {{
        const SNAKE: &str = stringify!($field);
        const BYTES: [u8; $crate::field::camel_len(SNAKE)] = $crate::field::camel_bytes(SNAKE);
        const CAMEL: &str = match core::str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => panic!("field names are ASCII"),
        };
        CAMEL
    }};
}

/// Defines a part from the list of its fields. A field is `req` (required at export), `opt` (optional), `def` (has a
/// default, so it never counts as missing) or `own` (the part's [`Rules`] say what of it is missing). With `ruled` in
/// front, the part implements [`Rules`] itself.
macro_rules! part {
    (ruled $($rest:tt)*) => { part! { @define $($rest)* } };
    (@missing req $value:expr, $name:expr, $at:ident, $problems:ident) => {
        $at.key($name, |at| match &$value {
            Some(value) => $crate::field::Field::missing(value, at, $problems),
            None => $problems.push(at, $crate::field::REQUIRED),
        });
    };
    (@missing own $value:expr, $name:expr, $at:ident, $problems:ident) => {};
    (@missing $need:ident $value:expr, $name:expr, $at:ident, $problems:ident) => {
        if let Some(value) = &$value {
            $at.key($name, |at| $crate::field::Field::missing(value, at, $problems));
        }
    };
    (@required req) => { true };
    (@required opt) => { false };
    (@required own) => { false };
    (@required def) => { false };
    (@default) => { None };
    (@default $default:expr) => { Some(serde_json::json!($default)) };
    (@define $(#[doc = $about:literal])* pub struct $name:ident {
        $( $(#[doc = $doc:literal])* $need:ident $field:ident : $kind:ty $(= $default:expr)? ),* $(,)?
    }) => {
        $(#[doc = $about])*
        ///
        /// `Debug` shows no value.
        #[derive(Clone, Default, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: Option<$kind>, )*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "([redacted])"))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $( if let Some(value) = &self.$field { map.serialize_entry(camel!($field), value)?; } )*
                map.end()
            }
        }

        impl $crate::field::Field for $name {
            fn read(
                json: &$crate::json::Json,
                at: &mut $crate::problem::Path,
                problems: &mut $crate::problem::Problems,
            ) -> Option<Self> {
                match json {
                    $crate::json::Json::Object(object) => {
                        Some(<Self as $crate::field::Part>::read_object(object, &[], at, problems))
                    }
                    _ => {
                        problems.push(at, "must be an object");
                        None
                    }
                }
            }

            fn contradictions(
                &self,
                at: &mut $crate::problem::Path,
                problems: &mut $crate::problem::Problems,
            ) {
                $( if let Some(value) = &self.$field {
                    at.key(camel!($field), |at| $crate::field::Field::contradictions(value, at, problems));
                } )*
                $crate::field::Rules::contradictory(self, at, problems);
            }

            fn missing(&self, at: &mut $crate::problem::Path, problems: &mut $crate::problem::Problems) {
                $( part!(@missing $need self.$field, camel!($field), at, problems); )*
                $crate::field::Rules::conditional(self, at, problems);
            }

            fn schema(
                components: &mut $crate::field::Components,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                const NAME: &str = stringify!($name);
                if !components.contains_key(NAME) {
                    let properties = <Self as $crate::field::Part>::properties(components);
                    let about = <Self as $crate::field::Part>::about();
                    let object = $crate::field::object_schema(about, properties).build();
                    components.insert(NAME.to_owned(), utoipa::openapi::Schema::Object(object).into());
                }
                utoipa::openapi::Ref::from_schema_name(NAME).into()
            }
        }

        impl $crate::field::Part for $name {
            const NAMES: &'static [&'static str] = &[ $( camel!($field) ),* ];

            fn read_object(
                object: &$crate::json::Fields<'_>,
                also: &[&str],
                at: &mut $crate::problem::Path,
                problems: &mut $crate::problem::Problems,
            ) -> Self {
                let given = <Self as $crate::field::Rules>::GIVEN;
                $crate::field::refuse_unknown(object, Self::NAMES, also, given, at, problems);
                let part = Self { $( $field: $crate::field::read_field(object, camel!($field), at, problems), )* };
                $crate::field::Rules::dependent(&part, object, at, problems);
                part
            }

            fn properties(
                components: &mut $crate::field::Components,
            ) -> Vec<(&'static str, utoipa::openapi::RefOr<utoipa::openapi::Schema>)> {
                vec![ $( (
                    camel!($field),
                    $crate::field::property(
                        <$kind as $crate::field::Field>::schema(components),
                        concat!($($doc),*),
                        part!(@required $need),
                        part!(@default $($default)?),
                    ),
                ) ),* ]
            }

            fn about() -> &'static str {
                concat!($($about),*)
            }
        }
    };
    ($(#[doc = $about:literal])* pub struct $name:ident { $($fields:tt)* }) => {
        part! { @define $(#[doc = $about])* pub struct $name { $($fields)* } }
        impl $crate::field::Rules for $name {}
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn snake_case_names_become_camel_case() {
        assert_eq!(camel!(case), "case");
        assert_eq!(camel!(ssn_last4), "ssnLast4");
        assert_eq!(camel!(relief_from_stay_by), "reliefFromStayBy");
        assert_eq!(camel!(e_service_contacts), "eServiceContacts");
    }
}
