//! Cursors of pages.

use docket::http::fields::{Kind, SentValue};
use docket::http::paging::{Cursor, cursor_of};

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input)
        && let Ok(place) = read(text)
    {
        // A client may write a place in another way than `cursor_of`, whose cursor must lead to the same place.
        assert_eq!(read(&cursor_of(Some(place.clone())).expect("a cursor")), Ok(place));
    }
    let Some((at_ms, id)) = input.split_first_chunk::<8>() else { return };
    if let Ok(id) = str::from_utf8(id)
        && (1..=400).contains(&id.len())
        && !id.contains('\0')
    {
        let place = (i64::from_le_bytes(*at_ms), id.to_owned());
        assert_eq!(read(&cursor_of(Some(place.clone())).expect("a cursor")), Ok(place));
    }
}

fn read(text: &str) -> Result<(i64, String), String> {
    Cursor::read(SentValue::Parameter(text.to_owned()))
}
