//! The commands that a page of the documentation shows, and what it says that they print.
//!
//! A fenced block whose info string is `sh test` or `sh cluster` is run; one with plain `sh` is only shown. A block `text output`
//! directly after it has lines that it must print, in this order; `…` within a line stands for any text:
//!
//! ````text
//! ```sh test
//! docket --version
//! ```
//! ```text output
//! docket …
//! ```
//! ````
//!
//! Ids, times, durations and the width of gaps are not compared. A block `json output` instead has an example of the JSON that is
//! printed, of which only the form is compared: the names of its members, and the types of their values.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Begins the output of each block, before its line.
const MARK: char = '\u{1e}';

/// A block that is to be run.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the page that it begins at.
    pub line: usize,
    /// The commands.
    pub text: String,
    /// The lines that they print.
    pub output: Vec<String>,
    /// An example of the JSON that they print.
    pub json: Option<Value>,
}

/// The fenced blocks of a page: the line of each, its info string and its text.
fn fences(page: &str) -> Vec<(usize, &str, String)> {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    let mut open: Option<&str> = None;
    for (at, line) in page.lines().enumerate() {
        let trimmed = line.trim_start();
        let fence = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
        match open {
            None if fence.len() >= 3 => {
                found.push((at + 1, trimmed[fence.len()..].trim(), String::new()));
                open = Some(fence);
            }
            None => {}
            Some(opened) if fence.len() >= opened.len() && trimmed.trim_end() == fence => open = None,
            Some(_) => {
                let (_, _, text) = found.last_mut().expect("it is open");
                writeln!(text, "{line}").expect("a String takes all");
            }
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// The blocks `sh <kind>` of a page.
///
/// # Panics
///
/// A fence is not closed, an output follows no block that is run, or a `json output` is not JSON.
pub fn blocks(page: &str, kind: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut before = "";
    for (line, info, text) in fences(page) {
        if info.strip_prefix("sh ") == Some(kind) {
            blocks.push(Block { line, text, output: Vec::new(), json: None });
        } else if let "text output" | "json output" = info {
            assert!(before.starts_with("sh "), "line {line}: no block that is run stands before this output");
            if before.strip_prefix("sh ") == Some(kind) {
                let block = blocks.last_mut().expect("the block before");
                match info {
                    "text output" => block.output = text.lines().map(str::to_owned).collect(),
                    _ => {
                        let json = serde_json::from_str(&text);
                        block.json = Some(json.unwrap_or_else(|error| panic!("line {line}: {error}")));
                    }
                }
            }
        }
        before = info;
    }
    blocks
}

/// The lines of the blocks `text printed`: what a program that runs beside the commands prints, in any order.
///
/// # Panics
///
/// A fence is not closed.
pub fn printed(page: &str) -> Vec<String> {
    let blocks = fences(page).into_iter().filter(|(_, info, _)| *info == "text printed");
    blocks.flat_map(|(_, _, text)| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A script of all blocks, which says where it failed.
pub fn script(blocks: &[Block]) -> String {
    let mut script =
        "set -Eeuo pipefail\nexec 2>&1\ntrap 'echo \"failed in the block at line $BLOCK\"' ERR\n".to_owned();
    for Block { line, text, .. } in blocks {
        write!(script, "BLOCK={line}\nprintf '{MARK}%s\\n' {line}\n{text}").expect("a String takes all");
    }
    script
}

/// The lines that a page says that its blocks print, and that are missing in the output of their script.
pub fn differences(blocks: &[Block], output: &str) -> Vec<String> {
    let of_blocks = output.split(MARK).filter_map(|part| {
        let (line, text) = part.split_once('\n')?;
        Some((line.parse::<usize>().ok()?, text))
    });
    let of_blocks: Vec<(usize, &str)> = of_blocks.collect();
    let mut all = Vec::new();
    for block in blocks {
        let text = of_blocks.iter().find(|(line, _)| *line == block.line).map_or("", |(_, text)| *text);
        if let Some(line) = first_missing(&block.output, text) {
            all.push(format!("the block at line {} does not print {line:?} but:\n{text}", block.line));
        }
        let other = block.json.as_ref().map(|example| other_forms(example, text)).unwrap_or_default();
        if !other.is_empty() {
            let other = other.join("\n");
            all.push(format!(
                "the block at line {} does not print its example:\n{other}\nbut:\n{text}",
                block.line
            ));
        }
    }
    all
}

/// Where a text has another form than the example.
fn other_forms(example: &Value, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    match serde_json::from_str(text) {
        Ok(printed) => compare(example, &printed, "", &mut found),
        Err(error) => found.push(format!("no JSON: {error}")),
    }
    found
}

/// Compares the form of two values. A list may be longer than that of the example; the further items have the form of its last.
fn compare(example: &Value, printed: &Value, at: &str, found: &mut Vec<String>) {
    match (example, printed) {
        (Value::Object(example), Value::Object(printed)) => {
            let names: BTreeSet<&String> = example.keys().chain(printed.keys()).collect();
            for name in names {
                let at = format!("{at}/{name}");
                match (example.get(name), printed.get(name)) {
                    (Some(example), Some(printed)) => compare(example, printed, &at, found),
                    (Some(_), None) => found.push(format!("{at} is only in the example")),
                    (None, _) => found.push(format!("{at} is not in the example")),
                }
            }
        }
        (Value::Array(example), Value::Array(printed)) => {
            if printed.len() < example.len() || (example.is_empty() && !printed.is_empty()) {
                found.push(format!(
                    "{at} has {} items in the example, and not {}",
                    example.len(),
                    printed.len()
                ));
            }
            for (index, printed) in printed.iter().enumerate() {
                if let Some(example) = example.get(index).or(example.last()) {
                    compare(example, printed, &format!("{at}/{index}"), found);
                }
            }
        }
        (Value::Null, Value::Null)
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_)) => {}
        _ => found.push(format!("{at} is {example} in the example, and not {printed}")),
    }
}

/// The first of `lines` that does not follow the lines before it in the text.
pub fn first_missing<'a>(lines: &'a [String], text: &str) -> Option<&'a str> {
    let mut rest = text.lines().map(comparable);
    lines.iter().map(String::as_str).find(|wanted| {
        let wanted = comparable(wanted);
        !rest.any(|line| matches(&wanted, &line))
    })
}

/// A line without what differs from run to run.
fn comparable(line: &str) -> String {
    static DIFFERS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
        [
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?",
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            r"\b\d\d:\d\d:\d\d(\.\d+)?Z?\b",
            r"[0-9a-f]{8,}",
            r"\b(\d+(\.\d+)? ?(ms|s|m|h|d)\b|(\d+[dhms]){2,}\b)",
        ]
        .map(|expression| Regex::new(expression).expect("an expression"))
    });
    let line = DIFFERS.iter().fold(line.to_owned(), |line, regex| regex.replace_all(&line, "#").into_owned());
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is this one, in which each `…` stands for any text.
fn matches(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split('…').collect();
    let Some((last, first)) = parts.split_last() else { return false };
    if first.is_empty() {
        return line == *last;
    }
    let Some(mut rest) = line.strip_prefix(first[0]) else { return false };
    for part in &first[1..] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_their_info_string_with_their_output() {
        let page = "# T\n```sh\nno\n```\n```sh test\na=1\n```\n\n````text\n```sh test\nshown only\n```\n````\n\n  \
                    ```sh test\n  echo $a\n  ```\n```text output\n1\n```\n```text printed\nready\n```\n";
        let block = |line, text: &str, output: &[&str]| Block {
            line,
            text: text.into(),
            output: output.iter().map(|line| (*line).into()).collect(),
            json: None,
        };
        assert_eq!(blocks(page, "test"), [block(5, "a=1\n", &[]), block(15, "  echo $a\n", &["1"])]);
        assert_eq!((blocks(page, "cluster"), printed(page)), (vec![], vec!["ready".to_owned()]));
        assert!(script(&blocks(page, "test")).contains("BLOCK=15\nprintf '\u{1e}%s\\n' 15\n  echo $a\n"));
    }

    #[test]
    fn output_is_compared_without_what_differs_from_run_to_run() {
        let blocks = [Block {
            line: 3,
            text: String::new(),
            output: vec!["a …  12 ms".into(), "{\"id\":\"…\"}".into()],
            json: None,
        }];
        let printed =
            |text: &str| differences(&blocks, &format!("\u{1e}3\n{text}\n\u{1e}9\nother")).is_empty();
        assert!(printed("first\na 2026-11-23T10:00:00Z 7.5 s\nbetween\n{\"id\":\"evt_0123456789ab\"}"));
        assert!(!printed("{\"id\":\"x\"}\na b 1 s"), "in another order");
        assert!(!printed("a b 1 s\n{\"id\":\"x\"} and more") && !printed("a b 1 s"));
        assert!(!printed("b\u{1e}9\na b 1 s\n{\"id\":\"x\"}"), "of another block");
    }

    #[test]
    fn json_is_compared_by_its_names_and_types() {
        let page = "```sh test\ncurl\n```\n```json output\n{\"id\": \"a\", \"items\": [{\"n\": 1, \"at\": null}]}\n```\n";
        let blocks = blocks(page, "test");
        let wrong = |text: &str| differences(&blocks, &format!("\u{1e}1\n{text}\n"));
        assert!(wrong("{\"items\":[{\"n\":2.5,\"at\":null},{\"at\":null,\"n\":3}],\"id\":\"b\"}").is_empty());
        for (text, expected) in [
            ("{\"id\":1,\"items\":[{\"n\":1,\"at\":null}]}", "/id is \"a\" in the example, and not 1"),
            ("{\"items\":[{\"n\":1,\"at\":null}]}", "/id is only in the example"),
            ("{\"id\":\"a\",\"x\":1,\"items\":[{\"n\":1,\"at\":null}]}", "/x is not in the example"),
            ("{\"id\":\"a\",\"items\":[]}", "/items has 1 items in the example, and not 0"),
            (
                "{\"id\":\"a\",\"items\":[{\"n\":1,\"at\":null},{\"n\":1}]}",
                "/items/1/at is only in the example",
            ),
            (
                "{\"id\":\"a\",\"items\":[{\"n\":1,\"at\":\"now\"}]}",
                "/items/0/at is null in the example, and not \"now\"",
            ),
            ("<html>", "no JSON"),
        ] {
            let wrong = wrong(text);
            assert!(wrong.len() == 1 && wrong[0].contains(expected), "{text}: {wrong:#?}");
        }
    }
}
