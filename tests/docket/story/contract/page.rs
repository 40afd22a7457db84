//! Reads tests/contract.md: the lines of the specification and of the promises, each with its id, how it is read and its proofs.

use sha2::{Digest, Sha256};

/// A line of the specification, or a promise.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// The line of the entry in the page, from 1.
    pub(super) at: usize,
    pub(super) id: &'a str,
    /// The text of the specification. If the entry has none, the heading above it.
    pub(super) text: &'a str,
    /// The first and the last heading above the entry, without marks.
    pub(super) chapter: &'a str,
    pub(super) section: &'a str,
    /// The head of the table whose row this is, or nothing.
    pub(super) columns: &'a str,
    /// What is said about the line, in the order of the page.
    pub(super) notes: Vec<Note<'a>>,
}

/// A statement about a line.
#[derive(Debug, PartialEq)]
pub(super) struct Note<'a> {
    pub(super) at: usize,
    pub(super) kind: Kind<'a>,
    /// The words of the line that the statement is about, if it is not about the whole line.
    pub(super) part: Option<&'a str>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// How the line is read.
    Read(&'a str),
    /// The places where the line's tests run, as the page says it, and the tests, the decisive one first.
    Proof { places: &'a str, tests: Vec<&'a str> },
    /// The reason why no test proves the line.
    NotTested(&'a str),
}

/// A part of the page.
#[derive(Debug, Default)]
pub(super) struct Page<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    /// The quoted lines in their order, with headings, and with the rules below the heads of tables.
    pub(super) quoted: Vec<String>,
    /// What can't be read, with its place.
    pub(super) errors: Vec<String>,
}

/// Reads the chapters from the line that is `begin` to the line that is `end`, or to the end of the page.
pub(super) fn read<'a>(text: &'a str, begin: &str, end: Option<&str>) -> Page<'a> {
    let mut page = Page::default();
    let (mut chapter, mut section, mut columns) = ("", "", "");
    // The line of a heading that an entry must follow. A heading of the third level needs no entry, because it says something
    // itself.
    let mut bare: Option<usize> = None;
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| *line != begin);
    for (at, line) in lines.take_while(|(_, line)| Some(*line) != end).filter(|(_, line)| !line.is_empty()) {
        let is_of_heading = line.starts_with("* **") && line.ends_with("**");
        let heading = bare.take();
        if is_of_heading != heading.is_some() {
            let at = heading.unwrap_or(at);
            page.errors.push(format!(
                "line {at}: a heading `###`, and only that, has an entry without text below it"
            ));
        }
        if line.starts_with('#') {
            section = line.trim_start_matches(['#', ' ']);
            if line.starts_with("###") {
                bare = Some(at);
            } else {
                chapter = section;
            }
            columns = "";
            page.quoted.push(line.to_owned());
        } else if let Some(rest) = line.strip_prefix("Columns: ") {
            columns = code(rest).map_or("", |(text, _)| text);
            let rule = "---|".repeat(columns.matches('|').count().saturating_sub(1));
            page.quoted.extend([columns.to_owned(), format!("|{rule}")]);
        } else if let Some(rest) = line.strip_prefix("* **") {
            let Some((id, rest)) = rest.split_once("**") else {
                page.errors
                    .push(format!("line {at}: an entry begins with `* **ID** `, then its text as code"));
                continue;
            };
            let quoted = code(rest.trim_start()).map(|(text, _)| text);
            page.quoted.extend(quoted.map(str::to_owned));
            if quoted.is_some_and(|text| !text.starts_with('|')) {
                columns = "";
            }
            let text = quoted.unwrap_or(section);
            page.entries.push(Entry { at, id, text, chapter, section, columns, notes: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("  * ") {
            match (note(at, rest), page.entries.last_mut()) {
                (Some(note), Some(entry)) => entry.notes.push(note),
                _ => page.errors.push(format!(
                    "line {at}: a statement is `Read: …`, `Proof (…): …` or `Not tested: …`, below an entry: {rest}"
                )),
            }
        } else if line.starts_with(' ') || line.starts_with('*') {
            page.errors.push(format!("line {at}: neither an entry nor a statement about one: {line}"));
        }
    }
    page
}

/// A span of code at the beginning of a text, and the rest.
fn code(text: &str) -> Option<(&str, &str)> {
    let marks = &text[..text.len() - text.trim_start_matches('`').len()];
    let (code, rest) = text[marks.len()..].split_once(marks).filter(|_| !marks.is_empty())?;
    Some((code, rest))
}

/// Reads a statement: a word, perhaps ` of “words of the line”`, perhaps places in brackets, a colon, and what it says.
fn note(at: usize, text: &str) -> Option<Note<'_>> {
    let word = ["Read", "Proof", "Not tested"].into_iter().find(|word| text.starts_with(word))?;
    let rest = &text[word.len()..];
    let (part, rest) = match rest.strip_prefix(" of “") {
        Some(rest) => rest.split_once('”').map(|(part, rest)| (Some(part), rest))?,
        None => (None, rest),
    };
    let kind = if word == "Proof" {
        let (places, rest) = rest.strip_prefix(" (")?.split_once("): ")?;
        let tests = rest.split(", ").map(|name| name.strip_prefix('`')?.strip_suffix('`'));
        Kind::Proof { places, tests: tests.collect::<Option<_>>()? }
    } else {
        let what = rest.strip_prefix(": ").filter(|what| !what.trim().is_empty())?;
        if word == "Read" { Kind::Read(what) } else { Kind::NotTested(what) }
    };
    Some(Note { at, kind, part })
}

/// The id of a line: four letters of its chapter, and four digits of a digest of its section and its text. So a line keeps its id
/// wherever other lines come and go, and another text has another id.
pub(super) fn id(chapter: &str, section: &str, text: &str) -> String {
    let letters = chapter.chars().filter(char::is_ascii_alphabetic).take(4).collect::<String>();
    let digest = digest(&[section, text]);
    format!("{}-{}", letters.to_uppercase(), &digest[..4])
}

/// The SHA-256 of lines, in hexadecimal digits.
pub(super) fn digest<L: AsRef<str>>(lines: &[L]) -> String {
    let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    hex::encode(Sha256::digest(lines.join("\n")))
}

#[test]
fn lines_are_read_with_what_is_said_about_them() {
    let text = concat!(
        "# Page\n\nIntroduction.\n\n# Spec\n\n* **SPEC-1** `A.`\n  * Not tested: advice\n\n## Fields\n\n### Token\n\n* **FIEL-1**\n",
        "  * Not tested: a heading\n\nColumns: `| Field | Type |`\n\n* **FIEL-2** ``| a | `string`. So. |``\n  * Read: as text\n",
        "  * Proof (unit): `x::a`\n  * Proof of “So.” (embedded, servers): `y::b`, `y::c`\n\n* **FIEL-3** `- B`\n\n# Promises\n\n* **X** `z`\n"
    );
    let page = read(text, "# Spec", Some("# Promises"));
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    let quoted = [
        "# Spec",
        "A.",
        "## Fields",
        "### Token",
        "| Field | Type |",
        "|---|---|",
        "| a | `string`. So. |",
        "- B",
    ];
    assert_eq!(page.quoted, quoted);
    let [first, heading, row, last] = &page.entries[..] else { panic!("{:?}", page.entries) };
    assert_eq!((first.at, first.id, first.text, first.chapter), (7, "SPEC-1", "A.", "Spec"));
    assert_eq!((heading.id, heading.text, heading.section), ("FIEL-1", "Token", "Token"));
    assert_eq!((row.chapter, row.section, row.columns), ("Fields", "Token", "| Field | Type |"));
    assert_eq!((last.columns, last.notes.len()), ("", 0));
    let expected = [
        Note { at: 20, kind: Kind::Read("as text"), part: None },
        Note { at: 21, kind: Kind::Proof { places: "unit", tests: vec!["x::a"] }, part: None },
        Note {
            at: 22,
            kind: Kind::Proof { places: "embedded, servers", tests: vec!["y::b", "y::c"] },
            part: Some("So."),
        },
    ];
    assert_eq!(row.notes, expected);
    assert_eq!(read(text, "# Promises", None).entries[0].text, "z");
}

#[test]
fn what_cannot_be_read_is_reported_with_its_line() {
    let text = "# S\n  * Read: x\n* **A `x`\n* **A-1** `x`\n  * Proof: `y`\n  * Proof (unit): y\n  * Read:\n  * Seen: x\n* A-2 x\n\
                ### T\n* **A-3** `x`\n* **A-4**\n";
    let errors = read(text, "# S", None).errors;
    let lines: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
    assert_eq!(lines, [2, 3, 5, 6, 7, 8, 9, 10, 12].map(|line| format!("line {line}")), "{errors:#?}");
}

#[test]
fn an_id_follows_from_section_and_text() {
    let one = id("What the service does", "What the service does", "- A.");
    assert!(one.starts_with("WHAT-") && one.len() == 9, "{one}");
    assert_eq!(one, id("What the service does", "What the service does", "- A."));
    assert_ne!(one, id("What the service does", "What the service does", "- B."));
    assert_ne!(one, id("What the service does", "Another section", "- A."));
    assert_eq!(digest(&["a", "b"]), digest(&["a\nb"]));
}
