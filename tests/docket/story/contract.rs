//! tests/contract.md, the specification and the tests in step: each line of the specification is quoted with an id, and each
//! names tests that exist, or says why no test can prove it. ARCHITECTURE.md's invariants and promises of README.md too.
//! That all of the tests ran and passed is the step "contract table" of tests/run. Whether a test fits its line is for people to
//! judge, but the tests of a field must mention the field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use docket_docs::slug;

use super::example::repository;
use page::{Entry, Kind, Note, Page};
use suites::{Place, Tests};

mod page;
mod suites;

const FILE: &str = "tests/contract.md";
/// The heading of the specification, and the one behind its last line in the page.
const SPECIFICATION: &str = "# Service Specification: Tenant Authentication and Outbound Webhooks";
const PROMISES: &str = "# Promises";
/// The SHA-256 of the specification's lines without blank ones.
const DIGEST: &str = "52ba7e518db11517ea5db24b498404b44d64e434830dd0c6cf521c3365a44cd0";
/// Where the specification is, if it is beside the repository.
const ORIGINAL: &str = "../shared/spec/service-specification.md";

#[test]
fn each_line_of_the_specification_has_its_proofs() {
    let root = repository();
    let tests = suites::all(&root);
    let left_out = suites::left_out(&read(&root.join("tests/run")));
    let text = read(&root.join(FILE));
    let (lines, promises) = parts(&text);
    let entries: Vec<&Entry<'_>> = lines.entries.iter().chain(&promises.entries).collect();
    let checked = check(&entries, &tests, &left_out);
    let errors = lines.errors.iter().chain(&promises.errors);
    let offenders: Vec<String> = errors.chain(&checked.offenders).cloned().collect();
    assert!(offenders.is_empty(), "{FILE}:\n{}", offenders.join("\n"));
    if std::env::var_os("UPDATE_CONTRACT").is_some() {
        std::fs::write(root.join(FILE), corrected(&text, &checked.places)).expect("writable");
    } else {
        let wrong =
            checked.places.iter().map(|(at, (said, right))| format!("line {at}: ({said}) is ({right})"));
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{FILE}; correct it with UPDATE_CONTRACT=1:\n{}", wrong.join("\n"));
    }
    println!("{} lines and promises; proved by units or embedded only:", entries.len());
    println!("{}", checked.narrow.join("\n"));
    println!("proved on servers or a cluster too, but not by the decisive test:");
    println!("{}", checked.elsewhere.join("\n"));
}

#[test]
fn the_quoted_lines_are_those_of_the_specification() {
    let root = repository();
    let text = read(&root.join(FILE));
    let (lines, _) = parts(&text);
    if let Ok(original) = std::fs::read_to_string(root.join(ORIGINAL)) {
        let original: Vec<&str> = original.lines().filter(|line| !line.is_empty()).collect();
        for (line, quoted) in original.iter().zip(&lines.quoted) {
            assert_eq!(quoted, line, "{FILE} quotes another line than the specification has here");
        }
        assert_eq!(lines.quoted.len(), original.len(), "lines");
        assert_eq!(page::digest(&original), DIGEST, "the specification has changed; change DIGEST");
    }
    assert_eq!(page::digest(&lines.quoted), DIGEST, "a quoted line of {FILE} was changed, added or removed");
}

/// Each document links to the chapter that quotes its promises.
#[test]
fn the_quoted_promises_are_those_of_the_documents() {
    let root = repository();
    let text = read(&root.join(FILE));
    let (_, promises) = parts(&text);
    let quoted = |chapter: &str| -> Vec<&str> {
        let of_chapter = promises.entries.iter().filter(|entry| entry.chapter == chapter);
        of_chapter.map(|entry| entry.text).collect()
    };
    let link = |chapter: &str| format!("({FILE}#{})", slug(chapter));
    let (of_architecture, of_readme) = ("Invariants of ARCHITECTURE.md", "README.md");
    let architecture = read(&root.join("ARCHITECTURE.md"));
    let heading = format!("## Invariants that [tests prove]{}", link(of_architecture));
    let (_, invariants) = architecture.split_once(&heading).unwrap_or_else(|| panic!("no heading {heading}"));
    let invariants: Vec<&str> = invariants.lines().filter_map(|line| line.strip_prefix("* ")).collect();
    assert_eq!(quoted(of_architecture), invariants);

    let readme = squeezed(&read(&root.join("README.md")));
    let promised = quoted(of_readme);
    assert!(promised.len() >= 10, "{promised:?}");
    for promise in &promised {
        assert!(readme.contains(promise), "README.md does not say: {promise}");
    }
    // The list at the beginning of the page has only promises, and a definition for one promise.
    let (list, _) = readme.split_once(&format!("[Tests prove]{}", link(of_readme))).expect("a link below it");
    let (_, list) = list.split_once("* **").expect("a list");
    let rest = promised.iter().fold(list.to_owned(), |list, promise| list.replace(promise, ""));
    let rest = rest.split(['*', '.']).map(str::trim).filter(|rest| !rest.is_empty());
    let unproved = ["A tenant is a firm that your platform serves"];
    let names = ["No lost event", "Tenants stay apart", "The same everywhere"];
    let others: Vec<&str> = rest.filter(|rest| !names.contains(rest)).collect();
    assert_eq!(others, unproved, "README.md promises more than {FILE} quotes");
}

/// The threat model has rows with the same names.
#[test]
fn the_tests_of_the_threat_model_are_there() {
    let root = repository();
    let (rows, offenders) =
        check_rows(&read(&root.join("docs/project/threat-model.md")), &suites::all(&root));
    assert!(offenders.is_empty(), "docs/project/threat-model.md:\n{}", offenders.join("\n"));
    assert!(rows >= 25, "{rows} rows");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of the specification, and the promises.
fn parts(text: &str) -> (Page<'_>, Page<'_>) {
    (page::read(text, SPECIFICATION, Some(PROMISES)), page::read(text, PROMISES, None))
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the check of entries found.
#[derive(Debug, Default)]
struct Checked {
    offenders: Vec<String>,
    /// For each line, the places on the page and the right ones, if they differ.
    places: BTreeMap<usize, (String, String)>,
    /// What no test on servers or on a cluster proves.
    narrow: Vec<String>,
    /// What tests on servers or on a cluster prove, but not the decisive one.
    elsewhere: Vec<String>,
}

fn check(entries: &[&Entry<'_>], tests: &Tests, left_out: &BTreeSet<String>) -> Checked {
    let mut checked = Checked::default();
    let mut ids = BTreeSet::new();
    for entry in entries {
        let Entry { at, id, text, chapter, section, .. } = *entry;
        let right = page::id(chapter, section, text);
        if *id != right {
            checked
                .offenders
                .push(format!("line {at}: {id} is not the id of this text, which is {right}: {text}"));
        }
        if !ids.insert(*id) {
            checked.offenders.push(format!("line {at}: another line has the id {id}"));
        }
        let is_judged = |note: &Note<'_>| !matches!(note.kind, Kind::Read(_));
        if !entry.notes.iter().any(is_judged) {
            checked.offenders.push(format!("line {at}: neither proved nor listed as not tested: {text}"));
        }
        let mut bodies = Vec::new();
        for note in &entry.notes {
            if let Some(part) = note.part.filter(|part| !text.contains(part)) {
                checked.offenders.push(format!("line {}: the line does not say “{part}”", note.at));
            }
            if let Kind::Proof { places, tests: names } = &note.kind {
                let found = proof(note.at, names, tests, left_out, &mut checked.offenders);
                bodies.extend(found.bodies);
                let right = found.places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
                if *places != right {
                    checked.places.insert(note.at, ((*places).to_owned(), right.clone()));
                }
                let is_narrow = |places: &BTreeSet<Place>| places.iter().all(|place| *place < Place::Servers);
                let about = format!("{id} ({right}): {}", note.part.unwrap_or(text));
                if is_narrow(&found.places) {
                    checked.narrow.push(about);
                } else if is_narrow(&found.decisive) {
                    checked.elsewhere.push(about);
                }
            }
        }
        if let Some(field) = field(entry)
            && !bodies.is_empty()
            && !bodies.iter().any(|body| mentions(body, field))
        {
            checked.offenders.push(format!("line {at}: none of its tests mentions the field {field}"));
        }
    }
    checked
}

/// The tests of a proof.
#[derive(Default)]
struct Found<'a> {
    bodies: Vec<&'a str>,
    places: BTreeSet<Place>,
    /// Where the first of them runs.
    decisive: BTreeSet<Place>,
}

fn proof<'a>(
    at: usize,
    names: &[&str],
    tests: &'a Tests,
    left_out: &BTreeSet<String>,
    offenders: &mut Vec<String>,
) -> Found<'a> {
    let mut found = Found::default();
    let named = names
        .iter()
        .enumerate()
        .flat_map(|(number, name)| suites::named(name).into_iter().map(move |name| (number, name)));
    for (number, name) in named {
        match tests.get(&name).map(Vec::as_slice) {
            Some([test]) => {
                let places = suites::places(&name, &test.file, left_out);
                if number == 0 {
                    found.decisive.extend(&places);
                }
                found.places.extend(places);
                found.bodies.extend(Some(test.body.as_str()).filter(|body| !body.is_empty()));
            }
            Some(_) => offenders.push(format!("line {at}: two tests have this name: {name}")),
            None => offenders.push(format!("line {at}: there is no such test, or it is ignored: {name}")),
        }
    }
    found
}

/// The page with the right places.
fn corrected(text: &str, places: &BTreeMap<usize, (String, String)>) -> String {
    let lines = (1..).zip(text.lines()).map(|(at, line)| match places.get(&at) {
        Some((said, right)) => line.replacen(&format!("({said}): `"), &format!("({right}): `"), 1) + "\n",
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// The field that a row of a table of fields is about.
fn field<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    let row = entry.text.strip_prefix("| ").filter(|_| entry.columns.starts_with("| Field |"))?;
    row.split_once(" |").map(|(field, _)| field)
}

/// Whether the field's name is a word of a test's body, not only a part of one.
fn mentions(body: &str, field: &str) -> bool {
    body.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == field)
}

/// The number of rows of a table of two columns, and what is wrong with the tests in the second one.
fn check_rows(table: &str, tests: &Tests) -> (usize, Vec<String>) {
    let (mut rows, mut offenders) = (0, Vec::new());
    for (number, line) in (1..).zip(table.lines()).filter(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", sentence, names, ""] = cells[..] else {
            offenders.push(format!("line {number}: not two columns: {line}"));
            continue;
        };
        if names == "Test" || names.chars().all(|c| c == '-') && sentence.starts_with('-') {
            continue;
        }
        rows += 1;
        for name in names.split(',').map(str::trim) {
            match name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
                None => offenders.push(format!("line {number}: no name of a test: {name:?} for: {sentence}")),
                Some(name) => {
                    proof(number, &[name], tests, &BTreeSet::new(), &mut offenders);
                }
            }
        }
    }
    (rows, offenders)
}

/// Tests of these names, each in a file with this path.
fn tests_named(names: &[(&str, &str)]) -> Tests {
    let mut tests = Tests::new();
    for (name, file) in names {
        let body = format!("fn {name}() {{ token }}");
        tests.entry((*name).to_owned()).or_default().push(suites::Test { file: (*file).to_owned(), body });
    }
    tests
}

#[test]
fn a_line_is_reported_unless_its_id_its_proofs_and_its_places_are_right() {
    let tests = tests_named(&[
        ("x::one", "dataplane/src/x.rs"),
        ("docket::api::two", "tests/docket/api.rs"),
        ("same", "a/src/b.rs"),
        ("same", "a/src/b.rs"),
    ]);
    let id = |text: &str| page::id("Chapter", "Chapter", text);
    let (a, b, c, d, e, row) = (id("A."), id("B, c."), id("C."), id("D."), id("E."), id("| key | string |"));
    let text = format!(
        "## Chapter\n* **{a}** `A.`\n  * Proof (unit): `x::one`\n* **{b}** `B, c.`\n  * Proof of “c.” (unit): `docket::api::two`, `x::one`\n\
         * **CHAP-0** `C.`\n  * Not tested: advice\n* **{d}** `D.`\n  * Read: so\n* **{d}** `D.`\n  * Not tested of “E”: x\n\
         * **{e}** `E.`\n  * Proof (unit): `x::none`, `same`\nColumns: `| Field | Type |`\n* **{row}** `| key | string |`\n\
         \x20 * Proof (unit): `x::one`\n"
    );
    let page = page::read(&text, "## Chapter", None);
    assert_eq!(page.errors, [] as [&str; 0]);
    let checked = check(&page.entries.iter().collect::<Vec<_>>(), &tests, &BTreeSet::new());
    let expected = [
        format!("line 6: CHAP-0 is not the id of this text, which is {c}: C."),
        "line 8: neither proved nor listed as not tested: D.".to_owned(),
        format!("line 10: another line has the id {d}"),
        "line 11: the line does not say “E”".to_owned(),
        "line 13: there is no such test, or it is ignored: x::none".to_owned(),
        "line 13: two tests have this name: same".to_owned(),
        "line 15: none of its tests mentions the field key".to_owned(),
    ];
    assert_eq!(checked.offenders, expected);
    let corrected = corrected(&text, &checked.places);
    assert!(corrected.contains("“c.” (unit, embedded, servers): `docket::api::two`"), "{corrected}");
    assert!(corrected.contains("  * Proof (unit): `x::one`\n"), "{corrected}");
    assert_eq!(checked.elsewhere, [] as [&str; 0]);
    let narrow: Vec<&str> = checked.narrow.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(narrow, [a.as_str(), e.as_str(), row.as_str()]);
}

#[test]
fn a_row_without_an_existing_test_is_reported() {
    let tests = tests_named(&[
        ("api::auth::one", "x"),
        ("api::auth::two", "x"),
        ("api::auth::same", "x"),
        ("api::auth::same", "x"),
    ]);
    let good = "text\n| Sentence | Test |\n|---|---|\n| a | `api::auth::one` |\n\
                | b | `api::auth::one`, `api::auth::two` |";
    assert_eq!(check_rows(good, &tests), (2, Vec::new()));
    let bad = "| c | |\n| d | MISSING |\n| e | api::auth::one |\n\
               | f | `api::auth::one`, `api::auth::three` |\n| g | h | i |\n| j | `api::auth::same` |";
    let (rows, offenders) = check_rows(bad, &tests);
    assert_eq!(rows, 5);
    let lines: Vec<&str> = offenders.iter().map(|offender| &offender[..6]).collect();
    assert_eq!(lines, ["line 1", "line 2", "line 3", "line 4", "line 5", "line 6"], "{offenders:#?}");
    assert!(offenders[3].ends_with("api::auth::three"), "{offenders:#?}");
}
