//! Pages of a search: their size, and the cursor that leads from one to the next.

use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::fields::{Kind, RequestPart, SentValue};
use super::kinds::Whole;

/// `pageSize`.
pub type PageSize = Whole<1, 100>;
/// The `pageSize` of a request without one.
pub const DEFAULT_PAGE_SIZE: i64 = 25;
/// The longest cursor, in characters.
const MAX_CURSOR: usize = 1024;

/// `cursor`: the `nextCursor` of the page before. Its value is the position of that page's last item: a time and an id.
#[derive(Debug)]
pub struct Cursor;

impl Cursor {
    /// Reads a cursor, whose time and id `place_of` turns into the value.
    pub fn read_as<T>(sent: SentValue, place_of: impl FnOnce(i64, String) -> Option<T>) -> Result<T, String> {
        let place = decode(&sent.text(MAX_CURSOR)?).and_then(|(at_ms, id)| place_of(at_ms, id));
        place.ok_or_else(|| "must be the nextCursor of a response".to_owned())
    }
}

impl Kind for Cursor {
    type Value = (i64, String);

    fn read(sent: SentValue) -> Result<(i64, String), String> {
        Self::read_as(sent, |at_ms, id| Some((at_ms, id)))
    }

    fn schema(_: RequestPart) -> RefOr<Schema> {
        Ref::from_schema_name(Self::name()).into()
    }
}

impl PartialSchema for Cursor {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_CURSOR));
        // A custom format, because no pattern describes which cursors Docket has issued.
        let text = text.format(Some(SchemaFormat::Custom("docket-cursor".to_owned())));
        text.description(Some("The nextCursor of a response, unchanged.")).into()
    }
}

impl ToSchema for Cursor {}

/// Splits the result of a search for `page_size + 1` items into one page and the cursor of the next page, if there is one.
/// `place_of` returns an item's position in the order of the search.
pub fn page<T>(
    mut items: Vec<T>,
    page_size: i64,
    place_of: impl FnOnce(&T) -> (i64, String),
) -> (Vec<T>, Option<String>) {
    let size = usize::try_from(page_size).unwrap_or(usize::MAX);
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().filter(|_| more).map(place_of);
    (items, cursor_of(next))
}

/// The cursor of a search that continues at `next`, if there is more.
pub fn cursor_of(next: Option<(i64, String)>) -> Option<String> {
    next.map(|(at_ms, id)| encode(at_ms, &id))
}

/// Encodes a position in a list, opaque to clients.
fn encode(at_ms: i64, id: &str) -> String {
    hex::encode(format!("{at_ms}.{id}"))
}

fn decode(text: &str) -> Option<(i64, String)> {
    let plain = String::from_utf8(hex::decode(text).ok()?).ok()?;
    let (at_ms, id) = plain.split_once('.')?;
    let sound = !id.is_empty() && !id.contains('\0');
    Some((at_ms.parse().ok()?, id.to_owned())).filter(|_| sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_decodes_to_what_was_encoded() {
        assert_eq!(decode(&encode(5, "W1")), Some((5, "W1".into())));
        for noise in ["", "zz", "00", &hex::encode("5"), &hex::encode("x.W1"), &hex::encode("5.W\0")] {
            assert_eq!(decode(noise), None, "{noise}");
        }
    }

    #[test]
    fn page_has_a_next_one_only_if_more_was_found() {
        for (found, shown, has_more) in [(0, 0, false), (2, 2, false), (3, 3, false), (4, 3, true)] {
            let (items, next) = page((0..found).collect(), 3, |last: &i64| (*last, "W1".to_owned()));
            assert_eq!(items.len(), shown, "{found}");
            let next = next.map(|cursor| decode(&cursor).expect("a cursor"));
            assert_eq!(next, has_more.then(|| (2, "W1".to_owned())), "{found}");
        }
    }
}
