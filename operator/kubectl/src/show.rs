//! Tables and JSON. What comes from the cluster stays on its line and moves no cursor.

use serde_json::Value;

/// One object on standard output.
pub(crate) fn json(value: &Value) {
    println!("{value:#}");
}

/// Replaces control characters.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same of a text that may have several lines.
pub(crate) fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Columns as wide as their widest cell, two blanks between them, each line after `indent`.
pub(crate) fn table(indent: &str, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{indent}{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "B"], ["é long", ""], ["x", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table("  ", &rows), "  A       B\n  é long\n  x       y\n");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(clean("a\u{1b}[2J\nb"), "a [2J b");
    }
}
