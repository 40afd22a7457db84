//! Tables of texts, with times in UTC.

use jiff::Timestamp;

/// Control characters are escaped: the owner of a database writes some of these texts, and a terminal would obey them.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let plain = |cell: String| match cell.contains(char::is_control) {
        true => cell.escape_debug().to_string(),
        false => cell,
    };
    let rows: Vec<[String; N]> =
        std::iter::once(head.map(str::to_owned)).chain(rows.map(|row| row.map(plain))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

pub(super) fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms)
        .map_or("?".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let rows = [["a\u{1b}[2J".to_owned(), "é".to_owned()]].into_iter();
        assert_eq!(table(["ONE", "TWO"], rows), "ONE         TWO\na\\u{1b}[2J  é\n");
    }

    #[test]
    fn time_is_shown_in_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
    }
}
