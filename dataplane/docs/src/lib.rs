//! The documentation as web pages: the Markdown of `docs/` and a few pages beside it, as [`Site`] shows them.
//!
//! The pages are part of the binary, so they describe the version that serves them. They need no network and no file, and
//! work without a script. `docs/SUMMARY.md` defines the order of the pages, in the format of mdBook.

mod code;
mod excerpt;
mod markdown;
mod page;
mod releases;
mod samples;
mod search;
mod sources;
mod words;

use std::collections::BTreeMap;

use crate::markdown::render;
use crate::page::SiteFrame;
use crate::releases::CHANGELOG;
use crate::search::SearchIndex;
use crate::sources::{FILES, PAGES, SCRIPT, STYLES, SUMMARY};

pub use markdown::slug;
pub use samples::SiteAddress;
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
        let mut add = |path: &str, text: &str| {
            let rendered = render(path, text);
            pages.insert(sources::name(path), page::article(&frame, path, &rendered));
            sections.extend(rendered.sections);
        };
        for (path, text) in PAGES {
            if *path == CHANGELOG {
                add(path, &releases::index(text));
                releases::pages(text).iter().for_each(|(path, text)| add(path, text));
            } else {
                add(path, text);
            }
        }
        Self { pages, index: SearchIndex::new(sections), frame }
    }

    /// The asset at a path below [`ROOT`]. The empty path is the first page.
    pub fn get(&self, path: &str) -> Option<Asset<'_>> {
        let path = if path.is_empty() { "index.html" } else { path };
        if let Some(page) = self.pages.get(path) {
            return Some(Asset { kind: "text/html; charset=utf-8", bytes: page.as_bytes() });
        }
        match path {
            "docs.css" => return Some(Asset { kind: "text/css; charset=utf-8", bytes: STYLES.as_bytes() }),
            "docs.js" => {
                return Some(Asset { kind: "text/javascript; charset=utf-8", bytes: SCRIPT.as_bytes() });
            }
            _ => {}
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

    /// The page at a path for the readers of an installation: its samples name the address of the installation. `None` if
    /// there is no page, or if it is the same for all.
    pub fn page_at(&self, path: &str, address: &SiteAddress) -> Option<String> {
        samples::page_at(self.pages.get(path)?, address)
    }

    /// The page for a path below [`ROOT`] that has none. Its search has the words of the path.
    pub fn missing(&self, path: &str) -> String {
        let path = &path[..path.floor_char_boundary(MAX_QUERY)];
        let words =
            words::words(path.strip_suffix(".html").unwrap_or(path)).into_iter().map(|(_, word)| word);
        page::missing(&self.frame, ROOT, &words.collect::<Vec<_>>().join(" "))
    }

    /// The page with the results of a search.
    pub fn search(&self, query: &str) -> String {
        let query = &query[..query.floor_char_boundary(MAX_QUERY)];
        page::results(&self.frame, query, &self.index.find(query))
    }

    /// The paths of all assets, below [`ROOT`].
    pub fn paths(&self) -> impl Iterator<Item = String> {
        let files = FILES.iter().map(|(file, _)| sources::place(file).to_owned());
        self.pages.keys().cloned().chain(files).chain(["docs.css", "docs.js"].map(str::to_owned))
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
    fn changelog_leads_to_the_page_of_each_release() {
        let site = Site::new(true);
        let page = |path: &str| String::from_utf8_lossy(site.get(path).expect(path).bytes).into_owned();
        let version = env!("CARGO_PKG_VERSION");
        let (name, changelog) = (format!("changes-{version}.html"), page("changelog.html"));
        assert!(changelog.contains(&format!("<a href=\"{name}\">{version}</a>")), "{changelog}");
        let release = page(&name);
        for part in ["<h1 id=\"changes-in-", "<h2 id=\"added\">", "href=\"api/orders.html#", "<details open>"]
        {
            assert!(release.contains(part), "{part}: {release}");
        }
    }

    #[test]
    fn page_of_a_task_says_what_it_needs_how_to_check_and_what_to_do_if_it_fails() {
        let folders =
            ["start", "api", "webhooks", "administrator", "contact", "back-office", "run", "kubernetes"];
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
    fn title_of_each_page_is_its_name_in_the_navigation() {
        let pages = sources::parts(SUMMARY).into_iter().flat_map(|part| part.pages);
        let mut seen = BTreeSet::new();
        for (label, path) in pages {
            let (_, text) = PAGES.iter().find(|(other, _)| *other == path).expect("it is embedded");
            assert_eq!(render(&path, text).title, label, "{path}");
            assert!(seen.insert(label.clone()), "two pages are called {label}");
        }
    }

    #[test]
    fn pages_have_no_inline_style_or_script_and_nothing_from_elsewhere() {
        let site = Site::new(true);
        for path in site.paths().filter(|path| path.ends_with(".html")) {
            let page = std::str::from_utf8(site.get(&path).expect("a page").bytes).expect("UTF-8");
            for forbidden in [" style=", "src=\"http", "<iframe", " onclick"] {
                assert!(!page.contains(forbidden), "{path}: {forbidden}");
            }
            let script =
                format!("<script src=\"{}docs.js\" defer></script>", "../".repeat(path.matches('/').count()));
            assert!(page.contains(&script) && page.matches("<script").count() == 1, "{path}");
            assert_eq!(page.matches("<h1").count(), 1, "{path}");
        }
    }

    #[test]
    fn navigation_is_open_where_the_page_is() {
        let site = Site::new(true);
        let page = |path: &str| String::from_utf8_lossy(site.get(path).expect("a page").bytes).into_owned();
        let orders = page("api/orders.html");
        let (_, open) = orders.split_once("<details open>").expect("an open part");
        let (open, _) = open.split_once("</details>").expect("its end");
        assert!(open.contains("aria-current=\"page\"") && open.contains("orders.html"), "{open}");
        assert_eq!(orders.matches("<details open>").count(), 1);
        assert_eq!(orders.matches("On this page").count(), 3, "in the text, beside it, and as a label");
        assert_eq!(page("index.html").matches("<details open>").count(), 0);
    }

    #[test]
    fn pages_lead_to_each_other_in_the_order_of_the_navigation() {
        let site = Site::new(true);
        let page = |path: &str| String::from_utf8_lossy(site.get(path).expect("a page").bytes).into_owned();
        // The page of a link, as its path from the root.
        let linked = |text: &str, to: &str| {
            let (_, after) = text.split_once(&format!("rel=\"{to}\" href=\""))?;
            Some(after.split('"').next()?.trim_start_matches("../").to_owned())
        };
        let first = "index.html".to_owned();
        assert_eq!(linked(&page(first.as_str()), "prev"), None);
        let (mut at, mut seen) = (first, 0);
        while let Some(next) = linked(&page(at.as_str()), "next") {
            assert_eq!(linked(&page(next.as_str()), "prev").as_deref(), Some(at.as_str()), "{next}");
            (at, seen) = (next, seen + 1);
            assert!(seen < 1_000, "{at}");
        }
        assert!(seen > 20, "{seen} after the first");
    }

    #[test]
    fn a_search_finds_pages_and_escapes_the_query() {
        let site = Site::new(true);
        let found = site.search("rotate signing SECRET");
        assert!(found.contains("kubernetes/rotate-signing-secret.html#"), "{found}");
        assert!(
            found.contains("<mark>Rotate</mark>") && found.contains("in Run it on Kubernetes"),
            "{found}"
        );
        let found = site.search("<zqxzz>");
        assert!(found.contains("No page has one of these words: &lt;zqxzz&gt;"), "{found}");
        assert!(found.contains("troubleshoot/index.html"), "it suggests where to start: {found}");
        assert!(site.search("").contains("Give one or more words"), "an empty query asks for words");
        assert!(site.search(&"\u{e4}".repeat(MAX_QUERY)).len() < 100_000);
    }

    /// The shares of the questions of a set whose answer is the first page that is found, and among the first three.
    fn answered(index: &SearchIndex, set: &str) -> (f64, f64, Vec<String>) {
        let lines = include_str!("search/questions.tsv").lines().filter(|line| !line.starts_with('#'));
        let (mut first, mut early, mut missed, mut count) = (0.0, 0.0, Vec::new(), 0.0);
        for line in lines {
            let [of, question, pages]: [&str; 3] =
                line.split('\t').collect::<Vec<_>>().try_into().expect("three columns");
            if of != set {
                continue;
            }
            for page in pages.split(' ') {
                assert!(
                    PAGES.iter().any(|(path, _)| sources::name(path) == page),
                    "{question}: no page {page}"
                );
            }
            let found = index.find(question);
            let found: Vec<&str> = found.iter().map(|hit| hit.section.name.as_str()).collect();
            let place = found.iter().position(|found| pages.split(' ').any(|page| page == *found));
            count += 1.0;
            match place {
                Some(0) => first += 1.0,
                _ => missed.push(format!("{question}: {:?}", &found[..found.len().min(3)])),
            }
            if place.is_some_and(|place| place < 3) {
                early += 1.0;
            }
        }
        assert!(count >= 40.0, "{set}: {count}");
        (first / count, early / count, missed)
    }

    #[test]
    fn questions_of_readers_are_answered_by_the_first_pages_found() {
        let index = Site::new(true).index;
        for set in ["tuned", "held"] {
            let (first, early, missed) = answered(&index, set);
            assert!(
                first >= 0.7 && early >= 0.9,
                "{set}: {first} first, {early} in the first three:\n{}",
                missed.join("\n")
            );
        }
    }

    #[test]
    fn results_of_each_question_show_its_words() {
        let index = Site::new(true).index;
        for line in include_str!("search/questions.tsv").lines().filter(|line| !line.starts_with('#')) {
            let question = line.split('\t').nth(1).expect("three columns");
            for hit in index.find(question).into_iter().take(3) {
                let mut pieces = hit.title.iter().chain(&hit.heading).chain(&hit.excerpt);
                assert!(pieces.any(|piece| piece.is_found), "{question}: {}", hit.section.href());
            }
        }
    }

    #[test]
    fn pages_on_the_api_name_the_installation_of_the_reader() {
        let site = Site::new(true);
        let address = SiteAddress::new(true, "acme.api.example.com", None).expect("an address");
        for (path, _) in
            PAGES.iter().filter(|(path, _)| path.starts_with("docs/api/") && !path.contains("legacy"))
        {
            let page = site.page_at(&sources::name(path), &address).expect("it has samples");
            assert!(page.contains("https://acme.api.example.com"), "{path}");
            for local in
                ["http://acme.localhost:8080", "http://127.0.0.1:8080", "docket dev</code> in the repository"]
            {
                assert!(!page.contains(local), "{path}: {local}");
            }
        }
        assert_eq!(site.page_at("start/embedded.html", &address), None, "it is about the reader's machine");
        assert_eq!(site.page_at("nothing.html", &address), None);
    }

    #[test]
    fn page_for_a_path_without_one_offers_its_words_to_the_search() {
        let site = Site::new(true);
        let page = site.missing("webhooks/retry-\"schedule\".html");
        assert!(
            page.contains("value=\"webhooks retry schedule\"") && page.contains("No such page"),
            "{page}"
        );
        assert!(
            page.contains("href=\"/docs/docs.css\"") && page.contains("action=\"/docs/search\""),
            "{page}"
        );
        assert!(site.missing(&"\u{e4}".repeat(10_000)).len() < 100_000);
    }

    #[test]
    fn a_site_of_files_has_no_search() {
        let (served, files) = (Site::new(true), Site::new(false));
        let first = |site: &Site| String::from_utf8_lossy(site.get("").expect("a page").bytes).into_owned();
        assert!(first(&served).contains("action=\"search\"") && !first(&files).contains("action=\"search\""));
        assert!(files.get("../Cargo.toml").is_none() && files.get("nothing.html").is_none());
    }
}
