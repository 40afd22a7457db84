//! What every SQL text in the sources of the store has to keep to.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// A comment or a character (which may hold a quote), a string, or a call of `slots`.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?s)//[^\n]*|'(?:[^'\\]|\\[^u]|\\u\{\w+\})'|"(?<text>(?:[^"\\]|\\.)*)"|\bslots\((?<first>\d+)\)"#,
    )
    .expect("a pattern")
});
static PARAMETER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$(\d+|\{\w*\})").expect("a pattern"));

/// SQLite numbers `$n` by its first appearance in a statement, PostgreSQL by its name: they agree only if the
/// parameters appear as `$1`, `$2`, ….
#[test]
fn statements_number_their_parameters_in_order() {
    let mut checked = 0;
    for path in sources() {
        let source = std::fs::read_to_string(&path).expect("a source");
        checked += check(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    assert!(checked >= 30, "only {checked} statements were found: does this test still read the sources?");
}

fn sources() -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the store") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    assert!(
        paths.iter().all(|path| path.extension().is_some_and(|extension| extension == "rs")),
        "{paths:?}"
    );
    paths.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/src/lib.rs"));
    paths
}

/// How many statements with parameters `source` has.
fn check(source: &str) -> Result<usize, String> {
    // What `slots(n)` has to say for the last string, if that has a place for it.
    let mut expected: Option<usize> = None;
    let mut checked = 0;
    for token in TOKEN.captures_iter(source) {
        if let Some(text) = token.name("text") {
            if let Some(first) = expected {
                return Err(format!("no `slots({first})` before {:?}", text.as_str()));
            }
            let highest = highest_parameter(text.as_str(), &source[text.end() + 1..])?;
            checked += usize::from(highest > 0 || text.as_str().contains("IN ({})"));
            expected = text.as_str().contains("IN ({})").then_some(highest + 1);
        } else if let Some(first) = token.name("first") {
            let expected = expected.take().ok_or("`slots` belongs to no string")?;
            if first.as_str() != expected.to_string() {
                return Err(format!("`slots({})` has to be `slots({expected})`", first.as_str()));
            }
        }
    }
    Ok(checked)
}

/// The highest `$n` of one string; `rest` is the source after it.
fn highest_parameter(text: &str, rest: &str) -> Result<usize, String> {
    let slots_at = text.find("IN ({})").unwrap_or(text.len());
    let mut highest = 0;
    for parameter in PARAMETER.captures_iter(text) {
        let whole = parameter.get(0).expect("the whole match");
        match &parameter[1] {
            // Numbered by the length of the list that it is pushed to.
            "{}" if rest.trim_start().starts_with(", self.params.len()") => {}
            "{number}" if text == "${number}" => {}
            number => match number.parse::<usize>() {
                Ok(_) if whole.start() > slots_at => {
                    return Err(format!("{number} follows the slots of {text:?}"));
                }
                Ok(number) if number <= highest => {}
                Ok(number) if number == highest + 1 => highest = number,
                _ => return Err(format!("${number} is out of order in {text:?}")),
            },
        }
    }
    Ok(highest)
}

#[test]
fn the_check_finds_what_it_is_for() {
    for (source, statements) in [
        (r#"let sql = "SELECT a FROM b WHERE c = $1 AND d = $2 OR e = $1";"#, Ok(1)),
        (r#"// "$2" 'c' '"' "#, Ok(0)),
        (r#"('"', "WHERE c = $2")"#, Err(())),
        ("\"INSERT INTO a \\\n  VALUES ($1, $3, $2)\"", Err(())),
        (r#"format!("SET a = $1 WHERE id IN ({})", slots(2))"#, Ok(1)),
        (r#"format!("SET a = $1 WHERE id IN ({})", super::slots(1))"#, Err(())),
        (r#"format!("WHERE id IN ({}) AND a = $26", slots(1))"#, Err(())),
        (r#"format!("WHERE id IN ({})", ids); "other""#, Err(())),
        (r#"format!(" LIMIT ${}", self.params.len())"#, Ok(0)),
        (r#"format!(" LIMIT ${}", 7)"#, Err(())),
        (r#"format!("LIMIT ${limit}")"#, Err(())),
    ] {
        assert_eq!(check(source).map_err(drop), statements, "{source}");
    }
}
