//! Tables and JSON. JSON moves no cursor of a terminal. The cells of a table come from [`clean`](docket_program::screen::clean).

use docket_program::screen::{clean_lines, is_unseen};
use serde_json::Value;

use crate::arguments::Output;

/// Prints one object on standard output.
pub fn json(value: &Value) {
    println!("{}", json_text(value));
}

/// Prints a result on standard output: the object for programs, the text for people.
pub fn result(output: Output, object: &Value, text: &str) {
    match output {
        Output::Json => json(object),
        Output::Table | Output::Wide => println!("{}", clean_lines(text)),
    }
}

/// JSON with complete texts, a field on a line: characters that move the cursor or change the direction are escaped.
pub fn json_text(value: &Value) -> String {
    escaped(&format!("{value:#}"))
}

/// Like [`json_text`], on one line with its end.
pub fn json_line(value: &Value) -> String {
    escaped(&format!("{value}\n"))
}

fn escaped(json: &str) -> String {
    let mut text = String::new();
    for c in json.chars() {
        match c {
            // This is a line break between fields. Inside a text it is escaped already.
            '\n' => text.push(c),
            c if is_unseen(c) => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text
}

/// A table. Each column is as wide as its widest cell, columns are separated by two blanks, and each line begins with `indent`.
pub fn table(indent: &str, rows: &[Vec<String>]) -> String {
    Table::default().lines(indent, rows)
}

/// A table whose rows come one after the other.
#[derive(Debug, Default)]
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// The next lines. A column becomes wider with its widest cell so far.
    pub fn lines(&mut self, indent: &str, rows: &[Vec<String>]) -> String {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = shown_width(cell).max(*width);
            }
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.widths);
            let cells = cells.map(|(cell, width)| cell.clone() + &" ".repeat(width - shown_width(cell)));
            format!("{indent}{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        };
        rows.iter().map(line).collect()
    }
}

/// The characters of a cell that a terminal shows, without the codes of its colour.
fn shown_width(cell: &str) -> usize {
    let mut parts = cell.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    let coloured = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.chars().count()));
    first + coloured.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "B"], ["é long", ""], ["x", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table("  ", &rows), "  A       B\n  é long\n  x       y\n");
    }

    #[test]
    fn colours_have_no_width_and_columns_grow() {
        let row = |first: &str| vec![first.to_owned(), "x".to_owned()];
        let mut table = Table::default();
        assert_eq!(table.lines("", &[row("\u{1b}[31mab\u{1b}[0m")]), "\u{1b}[31mab\u{1b}[0m  x\n");
        assert_eq!(table.lines("", &[row("abcd")]), "abcd  x\n");
        assert_eq!(table.lines("", &[row("a")]), "a     x\n");
    }

    #[test]
    fn json_is_complete_and_moves_no_cursor() {
        let hostile = json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{202e}é\n"});
        let text = json_text(&hostile);
        assert_eq!(text, "{\n  \"a\\u009b\": \"\\u001b[2J\\u007f\\u202eé\\n\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), hostile);
        assert_eq!(json_line(&hostile), "{\"a\\u009b\":\"\\u001b[2J\\u007f\\u202eé\\n\"}\n");
    }
}
