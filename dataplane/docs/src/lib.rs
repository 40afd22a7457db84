//! The documentation as web pages: the Markdown of `docs/` and a few pages beside it, as [`Site`] shows them.
//!
//! The pages are part of the binary, so they describe the version that serves them. They need no script, no network
//! and no file. `docs/SUMMARY.md` defines the order of the pages, in the format of mdBook.

mod markdown;
mod page;
mod search;
mod sources;

use std::collections::BTreeMap;

use crate::markdown::render;
use crate::page::SiteFrame;
use crate::search::SearchIndex;
use crate::sources::{FILES, PAGES, STYLES, SUMMARY};

pub use search::{MAX_WORDS, MOST as MOST_FOUND};

/// The beginning of the path of every page.
pub const ROOT: &str = "/docs/";
/// The longest query of a search, in bytes; the rest of a longer query is ignored.
pub const MAX_QUERY: usize = 200;

/// What a path serves: a page, a picture or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset<'a> {
    /// The `Content-Type`.
    pub kind: &'static str,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Every page, rendered.
#[derive(Debug)]
pub struct Site {
    /// The pages by path below [`ROOT`].
    pages: BTreeMap<String, String>,
    index: SearchIndex,
    frame: SiteFrame,
}

impl Site {
    /// The site with a search, as the program serves it; or without one, as files.
    pub fn new(with_search: bool) -> Self {
        let frame = SiteFrame { parts: sources::parts(SUMMARY), with_search };
        let (mut pages, mut sections) = (BTreeMap::new(), Vec::new());
        for (path, text) in PAGES {
            let rendered = render(path, text);
            pages.insert(sources::name(path), page::article(&frame, path, &rendered));
            sections.extend(rendered.sections);
        }
        Self { pages, index: SearchIndex::new(sections), frame }
    }

    /// The asset at a path below [`ROOT`]. The empty path is the first page.
    pub fn get(&self, path: &str) -> Option<Asset<'_>> {
        let path = if path.is_empty() { "index.html" } else { path };
        if let Some(page) = self.pages.get(path) {
            return Some(Asset { kind: "text/html; charset=utf-8", bytes: page.as_bytes() });
        }
        if path == "docs.css" {
            return Some(Asset { kind: "text/css; charset=utf-8", bytes: STYLES.as_bytes() });
        }
        let (_, bytes) = FILES.iter().find(|(file, _)| sources::place(file) == path)?;
        let kind = match path.rsplit_once('.') {
            Some((_, "svg")) => "image/svg+xml",
            Some((_, "webp")) => "image/webp",
            Some((_, "json")) => "application/json",
            _ => "text/plain; charset=utf-8",
        };
        Some(Asset { kind, bytes })
    }

    /// The page with the results of a search.
    pub fn search(&self, query: &str) -> String {
        let query = &query[..query.floor_char_boundary(MAX_QUERY)];
        page::results(&self.frame, query, &self.index.find(query))
    }

    /// The paths of all assets, below [`ROOT`].
    pub fn paths(&self) -> impl Iterator<Item = String> {
        let files = FILES.iter().map(|(file, _)| sources::place(file).to_owned());
        self.pages.keys().cloned().chain(files).chain(["docs.css".to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::markdown::PageSection;

    #[test]
    fn every_page_of_the_folder_is_in_the_summary_and_on_the_site() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut of_folder = BTreeSet::new();
        let mut folders = vec!["docs".to_owned()];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(root.join(&folder)).expect("a folder") {
                let file = file.expect("a file");
                let path = format!("{folder}/{}", file.file_name().display());
                if file.file_type().expect("a type").is_dir() {
                    folders.push(path);
                } else if path.ends_with(".md") && path != "docs/SUMMARY.md" {
                    of_folder.insert(path);
                }
            }
        }
        let listed: BTreeSet<String> =
            sources::parts(SUMMARY).into_iter().flat_map(|part| part.pages).map(|(_, path)| path).collect();
        let embedded: BTreeSet<String> = PAGES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert!(of_folder.is_subset(&listed), "{:?}", of_folder.difference(&listed));
        assert_eq!(listed, embedded);
    }

    #[test]
    fn every_link_leads_to_a_page_and_a_heading_of_it_or_into_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let site = Site::new(true);
        let anchors: BTreeSet<String> = site.index.sections.iter().map(PageSection::href).collect();
        for (path, text) in PAGES {
            for link in render(path, text).links {
                let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
                assert!(root.join(target).exists(), "{path}: {link}");
                let is_page = PAGES.iter().any(|(other, _)| *other == target);
                if is_page && !anchor.is_empty() {
                    let href = format!("{}#{anchor}", sources::name(target));
                    assert!(anchors.contains(&href), "{path}: {link}");
                }
            }
        }
    }

    #[test]
    fn page_of_a_task_says_what_it_needs_how_to_check_and_what_to_do_if_it_fails() {
        let folders = ["start", "api", "webhooks", "back-office", "run", "kubernetes"];
        let tasks = PAGES
            .iter()
            .filter(|(path, _)| folders.iter().any(|of| path.starts_with(&format!("docs/{of}/"))));
        let mut count = 0;
        for (path, text) in tasks {
            let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            let has = |name: &str| {
                headings.iter().any(|heading| {
                    heading.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ') == name
                })
            };
            for name in ["Before you begin", "Check", "If it fails"] {
                assert!(has(name), "{path}: no heading {name}");
            }
            assert!(
                text.lines().rev().take(3).any(|line| line.starts_with("Next: ")),
                "{path}: no line Next"
            );
            count += 1;
        }
        assert!(count > 40, "{count}");
    }

    #[test]
    fn pages_have_no_inline_style_no_script_and_nothing_from_elsewhere() {
        let site = Site::new(true);
        for path in site.paths().filter(|path| path.ends_with(".html")) {
            let page = std::str::from_utf8(site.get(&path).expect("a page").bytes).expect("UTF-8");
            for forbidden in ["<script", " style=", "src=\"http", "<iframe", " onclick"] {
                assert!(!page.contains(forbidden), "{path}: {forbidden}");
            }
            assert_eq!(page.matches("<h1").count(), 1, "{path}");
        }
    }

    #[test]
    fn a_search_finds_sections_with_all_words_and_escapes_the_query() {
        let site = Site::new(true);
        let found = site.search("rotate signing SECRET");
        assert!(found.contains("kubernetes/rotate-signing-secret.html#"), "{found}");
        let found = site.search("<b>zzz</b>");
        assert!(found.contains("Nothing has all of these words") && !found.contains("<b>zzz"), "{found}");
        assert!(site.search("").contains("Search"), "an empty query asks for words");
        assert!(site.search(&"\u{e4}".repeat(MAX_QUERY)).len() < 100_000);
    }

    #[test]
    fn a_site_of_files_has_no_search() {
        let (served, files) = (Site::new(true), Site::new(false));
        let first = |site: &Site| String::from_utf8_lossy(site.get("").expect("a page").bytes).into_owned();
        assert!(first(&served).contains("action=\"search\"") && !first(&files).contains("action=\"search\""));
        assert!(files.get("../Cargo.toml").is_none() && files.get("nothing.html").is_none());
    }
}
