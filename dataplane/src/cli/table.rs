//! Tables of texts. Control characters are left out: the owner of a database writes some of these texts, and a terminal would obey
//! them.

use docket_commands::terminal::Style;
use docket_commands::text;
use docket_domain::moment;
use docket_program::screen::clean;

use crate::http::times::timestamp;

/// A table with these words at the head of its columns.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows = rows.map(|row| row.map(|cell| clean(&cell)).to_vec());
    let rows: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
    text::table("", &rows)
}

/// A stored time for a cell.
pub(super) fn time(ms: i64, style: Style) -> String {
    style.time(&moment::written(timestamp(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_left_out() {
        let rows = [["a\u{1b}[2J".to_owned(), "é".to_owned()]].into_iter();
        assert_eq!(table(["ONE", "TWO"], rows), "ONE    TWO\na [2J  é\n");
    }

    #[test]
    fn time_is_shown_in_utc() {
        assert_eq!(time(0, Style::default()), "1970-01-01 00:00:00Z");
    }
}
