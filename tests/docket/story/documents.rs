//! Every command shown in the repository's *.md and docs/*.md works.
//!
//! A fenced block whose info string is `sh test` is run; one with plain `sh` is only shown:
//!
//! ````text
//! ```sh test
//! docket deliveries list --tenant ACME
//! ```
//! ````
//!
//! The blocks of one document run in order in one `bash -euo pipefail`, so that a variable of one block is there in the
//! next, and a command that fails, also one within a pipe, fails the test. They run in a copy of the repository, with
//! the binary on the PATH as `docket`, beside a `docket dev` that was started there without any flag. The default ports
//! (8080, 9090, 8443, and 9443 of `docket listen`) stand for free ones, here and in the copied examples/. A document
//! without such a block is left alone.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_rig::scratch::Folder;
use docket_tests::server::{binary, eventually, request};

use super::example::repository;

/// A block that is to be run, with the line it begins at.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    // The fence we are in, and whether its block is to be run.
    let mut open: Option<(&str, Option<Block>)> = None;
    for (at, line) in document.lines().enumerate() {
        let trimmed = line.trim_start();
        let fence = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
        match &mut open {
            None if fence.len() >= 3 => {
                let info = trimmed[fence.len()..].trim();
                let block = (info == "sh test").then(|| Block { line: at + 1, text: String::new() });
                open = Some((fence, block));
            }
            None => {}
            Some((opened, block)) if fence.len() >= opened.len() && trimmed.trim_end() == fence => {
                blocks.extend(block.take());
                open = None;
            }
            Some((_, Some(block))) => writeln!(block.text, "{line}").expect("a String takes all"),
            Some((_, None)) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// One script of them all, which says where it failed.
fn script(blocks: &[Block]) -> String {
    let mut script =
        "set -Eeuo pipefail\ntrap 'echo \"failed in the block at line $BLOCK\" >&2' ERR\n".to_owned();
    for Block { line, text } in blocks {
        write!(script, "BLOCK={line}\n{text}").expect("a String takes all");
    }
    script
}

fn documents() -> Vec<PathBuf> {
    let folders = [repository(), repository().join("docs")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("readable"));
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "md") && path.exists());
    all.sort();
    all
}

/// All but hidden files and what is built.
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
    /// Each default port with the free one that stands for it.
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
        std::fs::read_to_string(self.scratch.path().join("out")).expect("readable")
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
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
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

#[tokio::test]
async fn every_command_shown_works() {
    let mut failed = String::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("readable");
        let blocks = blocks(&text);
        if blocks.is_empty() {
            continue;
        }
        let place = Place::new().await;
        let (done, output) = place.run(&script(&blocks));
        if !done {
            let log = std::fs::read_to_string(place.scratch.path().join("log")).expect("a log");
            writeln!(failed, "{}: {output}\n{log}", document.display()).expect("a String takes all");
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[tokio::test]
async fn what_the_readme_tells_to_paste_shows_the_events_it_names() {
    let place = Place::new().await;
    let text = std::fs::read_to_string(repository().join("README.md")).expect("readable");
    let (done, output) = place.run(&script(&blocks(&text)));
    assert!(done, "{output}");
    for said in
        ["\"lineItem\":", "\"servee\":\"Orrin Brindle\"", "\"failureClass\":\"ServerError\"", "\"resendOf\":"]
    {
        assert!(output.contains(said), "{said}: {output}");
    }
    for event in ["note.created", "order.status_changed", "invoice.created", "order.exported"] {
        eventually(event, Duration::from_secs(15), async || {
            let printed = place.printed();
            printed.lines().any(|line| line.contains(event) && line.contains("signature verified"))
        })
        .await;
    }
}

#[tokio::test]
async fn a_command_that_fails_is_reported_with_its_block() {
    let place = Place::new().await;
    let block = |line, text: &str| Block { line, text: text.to_owned() };
    let (done, output) = place.run(&script(&[
        block(3, "A=1\n"),
        block(7, "echo $A; false | cat\n"),
        block(9, "echo never\n"),
    ]));
    assert!(!done && output.contains("1\n") && !output.contains("never"), "{output}");
    assert!(output.contains("failed in the block at line 7"), "{output}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("readable");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let local = !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:");
            let to = document.parent().expect("a folder").join(link);
            assert!(!local || to.exists(), "{} links to {link}, which is not there", document.display());
        }
    }
}

#[test]
fn blocks_are_found_by_their_info_string() {
    let document = "# T\n```sh\nno\n```\n```sh test\na=1\n```\n\n````text\n```sh test\nshown only\n```\n````\n\n  \
                    ```sh test\n  echo $a\n  ```\n";
    let found = blocks(document);
    let texts: Vec<(usize, &str)> = found.iter().map(|block| (block.line, block.text.as_str())).collect();
    assert_eq!(texts, [(5, "a=1\n"), (15, "  echo $a\n")]);
    assert_eq!(blocks("nothing\n"), []);
    assert!(script(&found).contains("BLOCK=15\n  echo $a\n"));
}
