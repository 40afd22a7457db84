//! The tests of the repository by their names, and where each one runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::read;

/// A test that is not ignored.
#[derive(Debug)]
pub(super) struct Test {
    /// The path from the root of the repository.
    pub(super) file: String,
    /// Empty for a case of both databases, and for a step on a cluster.
    pub(super) body: String,
}

/// The tests of each name: the unit tests of the library `docket` and the suite `docket` share a target's name.
pub(super) type Tests = BTreeMap<String, Vec<Test>>;

/// Every test of the repository.
pub(super) fn all(root: &Path) -> Tests {
    let mut tests = Tests::new();
    for (target, file) in targets(root) {
        collect(root, &file, true, &target, &mut tests);
    }
    let [e2e, story, node] = ["tests/cluster/e2e", "tests/cluster/story.bash", "release/node.bash"]
        .map(|file| read(&root.join(file)));
    for step in steps(&e2e, &(story + &node)) {
        let test = Test { file: "tests/cluster/e2e".to_owned(), body: String::new() };
        tests.entry(format!("cluster::{step}")).or_default().push(test);
    }
    tests
}

/// What a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A function or a part of a crate.
    Unit,
    /// SQLite, and a schedule in memory.
    Embedded,
    /// PostgreSQL, and where a schedule is needed, Redis.
    Servers,
    /// A Kubernetes API server, or a whole node.
    Cluster,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unit => "unit",
            Self::Embedded => "embedded",
            Self::Servers => "servers",
            Self::Cluster => "cluster",
        })
    }
}

/// Where a test runs. The suite `docket` runs again on servers, except tests whose names contain a text of `left_out`.
pub(super) fn places(name: &str, file: &str, left_out: &BTreeSet<String>) -> BTreeSet<Place> {
    let below = |folder: &str| file.starts_with(folder);
    let again = ["api::", "delivery::", "portal::"].iter().any(|part| name.contains(part))
        && !left_out.iter().any(|part| name.contains(part.as_str()));
    let is_case = |database: &str| name.contains(&format!("::{database}::"));
    let of_the_operator = below("tests/operator/") && !below("tests/operator/database");
    if file.contains("/src/") || below("dataplane/domain/") {
        [Place::Unit].into()
    } else if below("tests/cluster/") || of_the_operator || file == "tests/docket/portal/cluster.rs" {
        [Place::Cluster].into()
    } else if is_case("on_postgresql") || below("tests/operator/database") || below("tests/docket/serve/") {
        [Place::Servers].into()
    } else if is_case("on_sqlite") || !again {
        [Place::Embedded].into()
    } else {
        [Place::Embedded, Place::Servers].into()
    }
}

/// The texts in the names of tests that tests/run does not run again on servers.
pub(super) fn left_out(run: &str) -> BTreeSet<String> {
    let list = run.split_once("left_out=(").and_then(|(_, rest)| rest.split_once(")\n"));
    let (list, _) = list.expect("tests/run lists the tests that run once");
    let lines = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The functions of the story that are steps of e2e.
fn steps<'a>(e2e: &'a str, story: &str) -> BTreeSet<&'a str> {
    let commands =
        e2e.lines().filter_map(|line| line.trim_start().strip_prefix("step \"")?.split_once("\" "));
    let names = commands.filter_map(|(_, command)| command.split(' ').next());
    names.filter(|name| story.contains(&format!("\n{name}() {{"))).collect()
}

/// The names of the tests that `name` stands for: `on_both` is a case on SQLite and on PostgreSQL.
pub(super) fn named(name: &str) -> Vec<String> {
    match name.split_once("::on_both::") {
        Some((before, case)) => {
            ["on_sqlite", "on_postgresql"].map(|database| format!("{before}::{database}::{case}")).into()
        }
        None => vec![name.to_owned()],
    }
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
fn collect(root: &Path, file: &Path, is_root: bool, path: &str, tests: &mut Tests) {
    let found = scan(&read(file));
    let place = file.strip_prefix(root).expect("in the repository").display().to_string();
    for (test, body) in found.tests {
        tests.entry(format!("{path}::{test}")).or_default().push(Test { file: place.clone(), body });
    }
    let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
    for module in &found.modules {
        let file = folder.join(module.replace("::", "/")).with_extension("rs");
        // A module that is elsewhere (`#[path]`) is not followed.
        if file.exists() {
            collect(root, &file, false, &format!("{path}::{module}"), tests);
        }
    }
}

#[derive(Default)]
struct Found {
    /// The tests with their bodies. A case for both databases is called from another file, and has no body here.
    tests: Vec<(String, String)>,
    /// The modules in their own files.
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

/// The path of an item in these modules.
fn within(around: &[(usize, &str)], name: &str) -> String {
    let names = around.iter().map(|(_, module)| *module).chain([name]);
    names.collect::<Vec<_>>().join("::")
}

#[test]
fn tests_are_found_by_their_path_unless_they_are_ignored() {
    // A line that began like this would be taken for an attribute of this file.
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
fn a_test_runs_where_its_file_and_its_name_say() {
    use Place::{Cluster, Embedded, Servers, Unit};
    let run = "x\n    local left_out=(story:: api::cli\n        # A word (or two).\n        portal::yaml)\n";
    let left_out = left_out(run);
    assert_eq!(left_out, ["api::cli", "portal::yaml", "story::"].map(str::to_owned).into());
    let cases: [(&str, &str, &[Place]); 14] = [
        ("docket::api::auth::tests::a", "dataplane/src/api/auth.rs", &[Unit]),
        ("vectors::a", "dataplane/domain/tests/vectors.rs", &[Unit]),
        ("docket::api::auth::a", "tests/docket/api/auth.rs", &[Embedded, Servers]),
        ("docket::api::cli::a", "tests/docket/api/cli.rs", &[Embedded]),
        ("docket::story::openapi::a", "tests/docket/story/openapi.rs", &[Embedded]),
        ("docket::portal::logs::a", "tests/docket/portal/logs.rs", &[Embedded, Servers]),
        ("docket::portal::yaml::a", "tests/docket/portal/yaml.rs", &[Embedded]),
        ("docket::portal::cluster::a", "tests/docket/portal/cluster.rs", &[Cluster]),
        ("docket::serve::faults::a", "tests/docket/serve/faults.rs", &[Servers]),
        ("store::deliveries::on_sqlite::a", "dataplane/store/tests/store/deliveries.rs", &[Embedded]),
        ("store::deliveries::on_postgresql::a", "dataplane/store/tests/store/deliveries.rs", &[Servers]),
        ("operator::database::tls::a", "tests/operator/database/tls.rs", &[Servers]),
        ("operator::webhooks::a", "tests/operator/webhooks.rs", &[Cluster]),
        ("cluster::a", "tests/cluster/e2e", &[Cluster]),
    ];
    for (name, file, expected) in cases {
        assert_eq!(places(name, file, &left_out), expected.iter().copied().collect(), "{name}");
    }
}

#[test]
fn steps_of_a_cluster_are_functions_of_its_story() {
    let e2e = "step \"a node\" \"$here/node\" up\nstep \"helm test\" helm test x\nstep \"an order\" order\n    step \"b\" inner\n\
               echo step \"c\" other";
    let story = "x\norder() {\n}\ninner() {\n}\nother() {\n}\n";
    assert_eq!(steps(e2e, story), BTreeSet::from(["inner", "order"]));
    assert_eq!(named("store::a::on_both::b"), ["store::a::on_sqlite::b", "store::a::on_postgresql::b"]);
    assert_eq!(named("api::b"), ["api::b"]);
}
