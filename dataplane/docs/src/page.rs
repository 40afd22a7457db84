//! The parts that all pages have: the head, the search, the navigation, and one main part.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::markdown::Rendered;
use crate::search::{MOST, SearchHit};
use crate::sources::{Chapter, name, to_root};

/// The smallest number of headings for which a page has a list of headings.
const LISTED_HEADINGS: usize = 3;

/// The parts that all pages of a site share.
#[derive(Debug)]
pub(crate) struct SiteFrame {
    pub(crate) parts: Vec<Chapter>,
    pub(crate) with_search: bool,
}

/// The page of a file of the repository.
pub(crate) fn article(frame: &SiteFrame, path: &str, rendered: &Rendered) -> String {
    let root = to_root(path);
    let headings: Vec<_> = rendered.sections.iter().filter(|section| section.level == 2).collect();
    let all: Vec<&(String, String)> = frame.parts.iter().flat_map(|part| &part.pages).collect();
    let at = all.iter().position(|(_, other)| other == path);
    let before = at.and_then(|at| at.checked_sub(1)).and_then(|at| all.get(at));
    let after = at.and_then(|at| all.get(at + 1));
    let main = html! {
        @if headings.len() >= LISTED_HEADINGS {
            details.contents {
                summary { "On this page" }
                ul { @for section in headings { li { a href={ "#" (section.anchor) } { (section.heading) } } } }
            }
        }
        article { (PreEscaped(&rendered.html)) }
        nav.around aria-label="Before and after" {
            @if let Some((title, path)) = before { a rel="prev" href={ (root) (name(path)) } { "← " (title) } }
            @if let Some((title, path)) = after { a rel="next" href={ (root) (name(path)) } { (title) " →" } }
        }
    };
    document(frame, Some(path), &rendered.title, "", &main)
}

/// The page of what a search has found.
pub(crate) fn results(frame: &SiteFrame, query: &str, found: &[SearchHit<'_>]) -> String {
    let main = html! {
        h1 { "Search" }
        @if query.trim().is_empty() {
            p { "Give one or more words." }
        } @else if found.is_empty() {
            p { "Nothing has all of these words: " (query) }
        } @else {
            p { @if found.len() == MOST { "The first " } (found.len()) @if found.len() == 1 { " section has" } @else { " sections have" } " all of the words." }
            ol.found {
                @for SearchHit { section, excerpt } in found {
                    li {
                        a href=(section.href()) {
                            (section.page)
                            @if section.level > 1 { " › " (section.heading) }
                        }
                        p { (excerpt) }
                    }
                }
            }
        }
    };
    document(frame, None, "Search", query, &main)
}

fn document(frame: &SiteFrame, path: Option<&str>, title: &str, query: &str, main: &Markup) -> String {
    let root = path.map(to_root).unwrap_or_default();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Docket " (env!("CARGO_PKG_VERSION")) }
                link rel="stylesheet" href={ (root) "docs.css" };
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.brand href={ (root) "index.html" } { "Docket " (env!("CARGO_PKG_VERSION")) }
                    @if frame.with_search {
                        form role="search" action={ (root) "search" } {
                            label { "Search " input type="search" name="q" value=(query) maxlength="200" required; }
                            button type="submit" { "Find" }
                        }
                    }
                }
                div.columns {
                    (navigation(frame, path, &root))
                    main #main tabindex="-1" { (main) }
                }
            }
        }
    };
    page.into_string()
}

fn navigation(frame: &SiteFrame, path: Option<&str>, root: &str) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @for part in &frame.parts {
                @if !part.title.is_empty() { p { (part.title) } }
                ul {
                    @for (title, other) in &part.pages {
                        li { a href={ (root) (name(other)) } aria-current=[(path == Some(other)).then_some("page")] { (title) } }
                    }
                }
            }
        }
    }
}
