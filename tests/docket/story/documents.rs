//! Every command shown in the repository's *.md and below docs/ works, and prints what the page says.
//!
//! The blocks `sh test` of one document ([`docket_tests::pages`]) run in order in one `bash -euo pipefail`, so that a variable
//! of one block is there in the next, and a command that fails, also one within a pipe, fails the test. They run in a copy of
//! the repository, with the binary on the PATH as `docket`, beside a `docket dev` that was started there without any flag; a
//! block `text printed` has lines that this `docket dev` prints. The default ports (8080, 9090, 8443, and 9443 of
//! `docket listen`) stand for free ones, here and in the copied examples/. A document without such a block is left alone.

use std::fmt::Write;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use docket_tests::pages::{blocks, differences, first_missing, printed, script};
use docket_tests::server::{binary, eventually, request};
use futures_util::{StreamExt, stream};
use regex::Regex;
use tokio::runtime::Handle;

use super::example::repository;

/// How long `docket dev` may take to print what a page shows.
const PRINTED_WITHIN: Duration = Duration::from_secs(15);

fn documents() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(repository()).expect("readable").map(path_of).collect();
    let mut folders = vec![repository().join("docs")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("readable").map(path_of) {
            if path.is_dir() {
                folders.push(path);
            } else {
                all.push(path);
            }
        }
    }
    all.retain(|path| path.extension().is_some_and(|ending| ending == "md") && path.exists());
    all.sort();
    all
}

fn path_of(entry: std::io::Result<DirEntry>) -> PathBuf {
    entry.expect("readable").path()
}

/// Copies a folder, without hidden files and the results of builds.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let name = entry.file_name();
        let kind = entry.file_type().expect("readable");
        if name.to_string_lossy().starts_with('.') || name == "target" {
            continue;
        }
        if kind.is_dir() {
            copy(&entry.path(), &to.join(name));
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(name)).expect("copied");
        }
    }
}

/// Where documents are tried: a copy of the repository with a running `docket dev`.
struct Place {
    scratch: Folder,
    /// Each default port, and the free port that replaces it.
    ports: [(&'static str, u16); 4],
    server: Child,
}

impl Place {
    async fn new() -> Self {
        let scratch = Folder::new("documents");
        let work = scratch.path().join("work");
        copy(&repository(), &work);
        let bin = scratch.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        std::os::unix::fs::symlink(binary(), bin.join("docket")).expect("linked");
        let ports = ["8080", "9090", "8443", "9443"].map(|port| (port, free_port()));
        for entry in std::fs::read_dir(work.join("examples")).expect("examples/ is there") {
            let path = entry.expect("readable").path();
            let text = std::fs::read_to_string(&path).expect("readable");
            std::fs::write(&path, on(&ports, &text)).expect("writable");
        }
        let local = |at: usize| format!("127.0.0.1:{}", ports[at].1);
        let log = std::fs::File::create(scratch.path().join("log")).expect("writable");
        let out = std::fs::File::create(scratch.path().join("out")).expect("writable");
        let server = Command::new(bin.join("docket"))
            .args(["dev", "--listen", &local(0), "--management", &local(1), "--receiver", &local(2)])
            .current_dir(&work)
            .stdout(Stdio::from(out))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("the binary starts");
        std::fs::write(scratch.path().join(".curlrc"), "show-error\n").expect("writable");
        let place = Self { scratch, ports, server };
        let management = ([127, 0, 0, 1], ports[1].1).into();
        eventually("docket dev is ready", Duration::from_secs(30), async || {
            request(management, "GET", "/readyz", &[], "").await.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        place
    }

    /// What `docket dev` has printed.
    fn printed(&self) -> String {
        off(&self.ports, &std::fs::read_to_string(self.scratch.path().join("out")).expect("readable"))
    }

    /// Runs a script; returns whether it succeeded, and what it wrote.
    fn run(&self, script: &str) -> (bool, String) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = self.scratch.path().join("bin");
        let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
        let output = Command::new("bash")
            .args(["-c", &on(&self.ports, script)])
            .env("PATH", path.expect("no odd names"))
            // `curl -s` says here why it failed.
            .env("CURL_HOME", self.scratch.path())
            .current_dir(self.scratch.path().join("work"))
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        (output.status.success(), off(&self.ports, &String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn on(ports: &[(&str, u16)], text: &str) -> String {
    ports.iter().fold(text.to_owned(), |text, (default, port)| text.replace(default, &port.to_string()))
}

/// The reverse of [`on`].
fn off(ports: &[(&str, u16)], text: &str) -> String {
    ports.iter().fold(text.to_owned(), |text, (default, port)| text.replace(&port.to_string(), default))
}

/// Runs the blocks of a document; returns what is wrong with it.
async fn problems_of(document: &str) -> Vec<String> {
    let (blocks, printed) = (blocks(document, "test"), printed(document));
    if blocks.is_empty() && printed.is_empty() {
        return Vec::new();
    }
    let place = Place::new().await;
    let (done, output) = place.run(&script(&blocks));
    let mut wrong = differences(&blocks, &output);
    if !done {
        let log = std::fs::read_to_string(place.scratch.path().join("log")).expect("a log");
        wrong.push(format!("{output}\n{log}"));
    }
    let until = Instant::now() + PRINTED_WITHIN;
    // The lines may come in any order, as deliveries of the same moment have no order.
    let lacks =
        |text: &str| printed.iter().find(|line| first_missing(std::slice::from_ref(line), text).is_some());
    while let Some(line) = lacks(&place.printed()) {
        if Instant::now() > until {
            wrong.push(format!("`docket dev` does not print {line:?} but:\n{}", place.printed()));
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_command_shown_works_and_prints_what_is_shown() {
    let trials = stream::iter(documents()).map(async |document| {
        let text = std::fs::read_to_string(&document).expect("readable");
        let here = Handle::current();
        let problems =
            tokio::task::spawn_blocking(move || here.block_on(problems_of(&text))).await.expect("it ends");
        problems.into_iter().map(|problem| format!("{}: {problem}", document.display())).collect::<Vec<_>>()
    });
    let problems: Vec<String> = trials.buffer_unordered(4).concat().await;
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The picture of a terminal with these lines. It has no styles, which a page's policy may forbid.
fn picture(lines: &[String]) -> String {
    const LINE: usize = 22;
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut rows = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = escaped(line);
        let line = line.replace("signature verified", "<tspan fill=\"#56d364\">signature verified</tspan>");
        let y = (at + 2) * LINE;
        writeln!(rows, "<text x=\"24\" y=\"{y}\" xml:space=\"preserve\">{line}</text>")
            .expect("a String takes all");
    }
    let (width, height) = (880, (lines.len() + 2) * LINE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#e6edf3\">\n{rows}</g>\n</svg>\n"
    )
}

/// A line of `docket dev` with the same time and the same ids each time.
fn still(line: &str) -> String {
    let changes = [
        (r"after [0-9.]+ s", "after 0.25 s"),
        (r"\b\d\d:\d\d:\d\dZ?\b", "03:25:11Z"),
        (r"evt_[0-9a-f]+", "evt_01a2"),
        (r"…[0-9a-f]{8}", "…4bcdedc0"),
    ];
    changes.iter().fold(line.to_owned(), |line, (expression, with)| {
        Regex::new(expression).expect("an expression").replace_all(&line, *with).into_owned()
    })
}

#[tokio::test]
async fn the_picture_of_the_readme_is_what_docket_dev_prints() {
    let place = Place::new().await;
    let text = std::fs::read_to_string(repository().join("README.md")).expect("readable");
    let (done, output) = place.run(&script(&blocks(&text, "test")));
    assert!(done, "{output}");
    eventually("the delivery", PRINTED_WITHIN, async || place.printed().contains("signature verified")).await;
    let printed = place.printed();
    let mut lines: Vec<String> = std::iter::once("$ cargo run --release".to_owned())
        .chain(printed.lines().take_while(|line| !line.is_empty()).map(still))
        .collect();
    let delivery = printed.lines().find(|line| line.contains("signature verified")).expect("it is there");
    lines.extend([String::new(), still(delivery)]);
    let (picture, path) = (picture(&lines), repository().join("docs/images/docket-dev.svg"));
    if std::env::var_os("UPDATE_IMAGES").is_some() {
        std::fs::write(&path, &picture).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "docket dev prints something else now; make the picture again with UPDATE_IMAGES=1:\n{picture}"
    );
}

#[tokio::test]
async fn a_command_that_fails_and_one_that_prints_something_else_are_reported_with_their_block() {
    let page = "```sh test\nA=1\necho other\n```\n```text output\none\n```\n```sh test\necho $A; false | cat\n```\n\
                ```sh test\necho never\n```\n";
    let wrong = problems_of(page).await;
    let [other, failed] = wrong.as_slice() else { panic!("{wrong:#?}") };
    assert!(other.starts_with("the block at line 1 does not print \"one\" but:\nother"), "{other}");
    assert!(failed.contains("failed in the block at line 8") && !failed.contains("never"), "{failed}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let code = Regex::new("`[^`\n]*`").expect("an expression");
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("readable");
        // Code may look like a link.
        let text = code.replace_all(&text, "");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let local = !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:");
            let to = document.parent().expect("a folder").join(link);
            assert!(!local || to.exists(), "{} links to {link}, which is not there", document.display());
        }
    }
}

/// For a selector, kubectl prints the last ten lines of each pod unless the command says how many.
#[test]
fn commands_that_read_logs_by_a_selector_say_how_many_lines() {
    let command = Regex::new("kubectl [^`\n]*\\blogs [^`\n]*").expect("an expression");
    let mut read = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("readable");
        let commands = command.find_iter(&text).map(|found| found.as_str());
        for one in commands.filter(|one| one.contains(" --selector ") || one.contains(" -l ")) {
            assert!(one.contains(" --tail "), "{}: {one}", document.display());
            read += 1;
        }
    }
    assert!(read > 10, "{read} commands");
}
