//! tests/contract.md and the tests in step: each row names tests, and each of them is there. That all of them
//! ran and passed is the step "contract table" of tests/run. Whether a test fits its sentence is for people to judge, but
//! a sentence about a field of a resource (`TokenResponse.token: …`) needs a test that mentions the field.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::example::repository;

/// The rows of the table: none is lost by accident.
const ROWS: usize = 183;

#[test]
fn the_contract_table_and_the_tests_are_in_step() {
    let root = repository();
    let mut tests = Tests::new();
    for (target, file) in targets(&root) {
        collect(&file, true, &target, &mut tests);
    }
    let (rows, offenders) = check(&read(&root.join("tests/contract.md")), &tests);
    assert!(offenders.is_empty(), "tests/contract.md:\n{}", offenders.join("\n"));
    assert_eq!(rows, ROWS, "rows of tests/contract.md; if that is meant, change ROWS");
}

/// The threat model has rows of the same form.
#[test]
fn the_tests_of_the_threat_model_are_there() {
    let root = repository();
    let mut tests = Tests::new();
    for (target, file) in targets(&root) {
        collect(&file, true, &target, &mut tests);
    }
    let (rows, offenders) = check(&read(&root.join("docs/project/threat-model.md")), &tests);
    assert!(offenders.is_empty(), "docs/project/threat-model.md:\n{}", offenders.join("\n"));
    assert!(rows >= 25, "{rows} rows");
}

/// The bodies of the tests of each name: the unit tests of the library `docket` and the suite `docket` share a target's
/// name.
type Tests = BTreeMap<String, Vec<String>>;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The number of rows of the table, and what is wrong with them.
fn check(table: &str, tests: &Tests) -> (usize, Vec<String>) {
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
        let mut bodies = Vec::new();
        for name in names.split(',').map(str::trim) {
            let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            match quoted {
                None => offenders.push(format!("line {number}: no name of a test: {name:?} for: {sentence}")),
                Some(name) => match tests.get(name).map(Vec::as_slice) {
                    Some([body]) => bodies.push(body),
                    Some(_) => offenders.push(format!("line {number}: two tests have this name: {name}")),
                    None => offenders
                        .push(format!("line {number}: there is no such test, or it is ignored: {name}")),
                },
            }
        }
        if let Some(field) = field(sentence)
            && !bodies.is_empty()
            && !bodies.iter().any(|body| mentions(body, field))
        {
            offenders.push(format!("line {number}: none of its tests mentions the field {field}"));
        }
    }
    (rows, offenders)
}

/// The field that a sentence is about: `token` of `TokenResponse.token: string, required.`
fn field(sentence: &str) -> Option<&str> {
    let (resource, rest) = sentence.split_once('.')?;
    let (field, _) = rest.split_once([':', ','])?;
    let is_name = |text: &str| !text.is_empty() && text.chars().all(char::is_alphanumeric);
    (is_name(resource) && is_name(field)).then_some(field)
}

/// Whether the field's name is a word of a test's body, not only a part of one.
fn mentions(body: &str, field: &str) -> bool {
    body.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == field)
}

/// Each test target of the workspace and the file it begins with, named as cargo names its program.
fn targets(root: &Path) -> Vec<(String, PathBuf)> {
    let manifest = read(&root.join("Cargo.toml"));
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next());
    let mut targets = Vec::new();
    for member in members.expect("members").split('"').skip(1).step_by(2) {
        let folder = root.join(member);
        let (mut section, mut name) = (String::new(), String::new());
        for line in read(&folder.join("Cargo.toml")).lines() {
            match line.split_once(" = ") {
                None if line.starts_with('[') => section = line.to_owned(),
                None => {}
                Some(("name", value)) => name = value.trim_matches('"').replace('-', "_"),
                Some(("path", value)) if section == "[[test]]" => {
                    targets.push((name.clone(), folder.join(value.trim_matches('"'))));
                }
                Some(_) => {}
            }
            if section == "[package]" && line.starts_with("name") {
                let units = ["src/lib.rs", "src/main.rs"].map(|file| (name.clone(), folder.join(file)));
                targets.extend(units.into_iter().filter(|(_, file)| file.exists()));
            }
        }
        // The targets that cargo finds by itself.
        for entry in std::fs::read_dir(folder.join("tests")).into_iter().flatten() {
            let path = entry.expect("readable").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a plain name").to_owned();
            if path.extension().is_some_and(|extension| extension == "rs") {
                targets.push((name, path));
            } else if path.join("main.rs").exists() {
                targets.push((name, path.join("main.rs")));
            }
        }
    }
    targets
}

/// The tests of a file and of its modules, each with its target in front.
fn collect(file: &Path, is_root: bool, path: &str, tests: &mut Tests) {
    let found = scan(&read(file));
    for (test, body) in found.tests {
        tests.entry(format!("{path}::{test}")).or_default().push(body);
    }
    let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
    for module in &found.modules {
        let file = folder.join(module.replace("::", "/")).with_extension("rs");
        // A module that is elsewhere (`#[path]`) is not followed.
        if file.exists() {
            collect(&file, false, &format!("{path}::{module}"), tests);
        }
    }
}

#[derive(Default)]
struct Found {
    /// With their bodies; a case for both databases is called from elsewhere and has none here.
    tests: Vec<(String, String)>,
    /// In their own files.
    modules: Vec<String>,
}

/// Reads a file by its lines, as rustfmt leaves them.
fn scan(text: &str) -> Found {
    let mut found = Found::default();
    // Inline modules around the line, with their indentation.
    let mut around: Vec<(usize, &str)> = Vec::new();
    let (mut is_test, mut is_ignored, mut in_cases) = (false, false, false);
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim_start();
        let indentation = line.len() - words.len();
        if words == "}" && around.last().is_some_and(|(at, _)| *at == indentation) {
            around.pop();
        }
        let cases = words.strip_prefix("on_both_databases!(").or(in_cases.then_some(words));
        if let Some(cases) = cases {
            in_cases = !cases.contains(')');
            for case in
                cases.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|case| !case.is_empty())
            {
                let both = ["on_sqlite", "on_postgresql"];
                let named = |database| within(&around, &format!("{database}::{case}"));
                found.tests.extend(both.map(|database| (named(database), String::new())));
            }
            continue;
        }
        is_test |= words.starts_with("#[test]") || words.starts_with("#[tokio::test");
        is_ignored |=
            words.starts_with("#[ignore") || words.starts_with("#[cfg_attr") && words.contains("ignore");
        let item =
            words.strip_prefix("pub").map_or(words, |rest| rest.split_once(' ').map_or("", |(_, item)| item));
        if let Some(module) = item.strip_prefix("mod ") {
            match (module.strip_suffix(';'), module.strip_suffix(" {")) {
                (Some(name), _) => found.modules.push(within(&around, name)),
                (None, Some(name)) => around.push((indentation, name)),
                (None, None) => {}
            }
        }
        let function = item.strip_prefix("async ").unwrap_or(item).strip_prefix("fn ");
        if let Some(function) = function {
            let name = function.split(['(', '<']).next().expect("there is always a first part");
            if is_test && !is_ignored {
                let end = format!("{}}}", " ".repeat(indentation));
                let body: Vec<&str> = lines[at..].iter().copied().take_while(|line| **line != *end).collect();
                found.tests.push((within(&around, name), body.join("\n")));
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    found
}

/// The path of what stands in these modules.
fn within(around: &[(usize, &str)], name: &str) -> String {
    let names = around.iter().map(|(_, module)| *module).chain([name]);
    names.collect::<Vec<_>>().join("::")
}

#[test]
fn tests_are_found_by_their_path_unless_they_are_ignored() {
    // What begins a line here would be taken for an attribute of this file.
    let text = concat!(
        "mod other;\npub(crate) mod more;\n#[test]\nfn one() {\n}\nfn no_test() {\n}\n#[test]\n",
        "#[ignore = \"slow\"]\nfn two() {\n}\non_both_databases!(\n    three,\n    four,\n);\n",
        "mod tests {\n    mod inner {\n        #[tokio::test(start_paused = true)]\n",
        "        async fn five() {\n        }\n",
        "    }\n    // #[test]\n    fn six() {\n    }\n}\n#[tokio::test]\nasync fn seven() {\n}\n",
    );
    let found = scan(text);
    let databases = ["on_sqlite::three", "on_postgresql::three", "on_sqlite::four", "on_postgresql::four"];
    let expected = [&["one"][..], &databases, &["tests::inner::five", "seven"]].concat();
    let names: Vec<String> = found.tests.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(found.tests[0].1, "fn one() {");
    assert_eq!(
        (names, found.modules),
        (expected.iter().map(ToString::to_string).collect(), vec!["other".into(), "more".into()])
    );
}

#[test]
fn a_row_without_an_existing_test_is_reported() {
    let tests = ["one", "two", "same", "same"].iter().fold(Tests::new(), |mut tests, name| {
        tests
            .entry(format!("api::auth::{name}"))
            .or_default()
            .push(format!("fn {name}() {{ token, key_of }}"));
        tests
    });
    let good = "text\n| Sentence | Test |\n|---|---|\n| a | `api::auth::one` |\n\
                | b | `api::auth::one`, `api::auth::two` |\n| Reply.token: string. | `api::auth::one` |";
    assert_eq!(check(good, &tests), (3, Vec::new()));
    let bad = "| c | |\n| d | MISSING |\n| e | api::auth::one |\n\
               | f | `api::auth::one`, `api::auth::three` |\n| g | h | i |\n| j | `api::auth::same` |\n\
               | Reply.key: string. | `api::auth::one`, `api::auth::two` |";
    let (rows, offenders) = check(bad, &tests);
    assert_eq!(rows, 6);
    let lines: Vec<&str> = offenders.iter().map(|offender| &offender[..6]).collect();
    assert_eq!(
        lines,
        ["line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "line 7"],
        "{offenders:#?}"
    );
    assert!(offenders[3].ends_with("api::auth::three"), "{offenders:#?}");
}
