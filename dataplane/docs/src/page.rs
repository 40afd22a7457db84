//! The parts that all pages have: the head, the search, the navigation, and one main part.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::excerpt::Piece;
use crate::markdown::Rendered;
use crate::releases::CHANGELOG;
use crate::search::SearchHit;
use crate::sources::{Chapter, name, to_root};

/// The smallest number of headings for which a page has a list of headings.
const LISTED_HEADINGS: usize = 3;

/// The parts that all pages of a site share.
#[derive(Debug)]
pub(crate) struct SiteFrame {
    pub(crate) parts: Vec<Chapter>,
    pub(crate) with_search: bool,
}

/// What differs between the frames of two pages.
struct Document<'a> {
    /// The relative path from the page to the root of the site.
    root: &'a str,
    /// The file whose place in the navigation is shown.
    path: Option<&'a str>,
    title: &'a str,
    /// The text in the search field.
    query: &'a str,
    main: Markup,
    /// The content beside the main part in a wide window.
    beside: Markup,
}

/// The page of a file of the repository.
pub(crate) fn article(frame: &SiteFrame, path: &str, rendered: &Rendered) -> String {
    let root = to_root(path);
    let headings: Vec<_> = rendered.sections.iter().filter(|section| section.level == 2).collect();
    let all: Vec<&(String, String)> = frame.parts.iter().flat_map(|part| &part.pages).collect();
    let at = all.iter().position(|(_, other)| other == path);
    let before = at.and_then(|at| at.checked_sub(1)).and_then(|at| all.get(at));
    let after = at.and_then(|at| all.get(at + 1));
    // The navigation has no page of a release, but the changelog, which leads to it.
    let in_navigation = if at.is_some() { path } else { CHANGELOG };
    let is_listed = headings.len() >= LISTED_HEADINGS;
    let list = html! {
        ul { @for section in &headings { li { a href={ "#" (section.anchor) } { (section.heading) } } } }
    };
    let main = html! {
        @if is_listed { details.contents { summary { "On this page" } (list) } }
        article { (PreEscaped(&rendered.html)) }
        nav.around aria-label="Before and after" {
            @if let Some((title, path)) = before { a rel="prev" href={ (root) (name(path)) } { "← " (title) } }
            @if let Some((title, path)) = after { a rel="next" href={ (root) (name(path)) } { (title) " →" } }
        }
    };
    // The list appears twice on a page, and a window shows one of the two.
    let beside = html! {
        @if is_listed { nav.beside aria-label="On this page" { p { "On this page" } (list) } }
    };
    document(
        frame,
        Document { root: &root, path: Some(in_navigation), title: &rendered.title, query: "", main, beside },
    )
}

/// The page of what a search has found.
pub(crate) fn results(frame: &SiteFrame, query: &str, found: &[SearchHit<'_>]) -> String {
    let main = html! {
        h1 { "Search" }
        @if query.trim().is_empty() {
            p { "Give one or more words." }
        } @else if found.is_empty() {
            p { "No page has one of these words: " (query) }
            p { "Try other words, or the beginning of an error message. Or start at one of these pages:" }
            (starts(frame, ""))
        } @else {
            p { (found.len()) @if found.len() == 1 { " page:" } @else { " pages, the best first:" } }
            ol.found {
                @for SearchHit { section, title, heading, excerpt } in found {
                    li {
                        a href=(section.href()) {
                            (pieces(title))
                            @if section.level > 1 { " › " (pieces(heading)) }
                        }
                        @if let Some(part) = part_of(frame, &section.name) { " " span.part { "in " (part) } }
                        p { (pieces(excerpt)) }
                    }
                }
            }
        }
    };
    document(frame, Document { root: "", path: None, title: "Search", query, main, beside: html! {} })
}

/// The page for an address that has none; `root` leads to the site from there. The field of the search has the words of the
/// address.
pub(crate) fn missing(frame: &SiteFrame, root: &str, words: &str) -> String {
    let main = html! {
        h1 { "No such page" }
        p { "The documentation of this version has no page at this address. Search above for the words of the address, or start at one of these pages:" }
        (starts(frame, root))
    };
    document(
        frame,
        Document { root, path: None, title: "No such page", query: words, main, beside: html! {} },
    )
}

fn pieces(pieces: &[Piece]) -> Markup {
    html! {
        @for Piece { text, is_found } in pieces { @if *is_found { mark { (text) } } @else { (text) } }
    }
}

/// The title of the part that a page belongs to.
fn part_of<'a>(frame: &'a SiteFrame, page: &str) -> Option<&'a str> {
    let part = frame.parts.iter().find(|part| part.pages.iter().any(|(_, path)| name(path) == page))?;
    Some(part.title.as_str()).filter(|title| !title.is_empty())
}

/// The first page of each part.
fn starts(frame: &SiteFrame, root: &str) -> Markup {
    html! {
        ul {
            @for part in &frame.parts {
                @if let Some((title, path)) = part.pages.first() {
                    li { @if !part.title.is_empty() { (part.title) ": " } a href={ (root) (name(path)) } { (title) } }
                }
            }
        }
    }
}

fn search(root: &str, query: &str) -> Markup {
    html! {
        form role="search" action={ (root) "search" } {
            label { "Search " input type="search" name="q" value=(query) maxlength="200" required; }
            button type="submit" { "Find" }
        }
    }
}

fn document(frame: &SiteFrame, document: Document<'_>) -> String {
    let Document { root, path, title, query, main, beside } = document;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Docket " (env!("CARGO_PKG_VERSION")) }
                link rel="stylesheet" href={ (root) "docs.css" };
                script src={ (root) "docs.js" } defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.brand href={ (root) "index.html" } { "Docket " (env!("CARGO_PKG_VERSION")) }
                    @if frame.with_search { (search(root, query)) }
                }
                div.columns {
                    (navigation(frame, path, root))
                    main #main tabindex="-1" { (main) }
                    (beside)
                }
            }
        }
    };
    page.into_string()
}

/// The pages by their parts. Only the part of the page that is shown is open.
fn navigation(frame: &SiteFrame, path: Option<&str>, root: &str) -> Markup {
    let links = |part: &Chapter| {
        html! {
            ul {
                @for (title, other) in &part.pages {
                    li { a href={ (root) (name(other)) } aria-current=[(path == Some(other.as_str())).then_some("page")] { (title) } }
                }
            }
        }
    };
    html! {
        nav.pages aria-label="Pages" {
            @for part in &frame.parts {
                @if part.title.is_empty() {
                    (links(part))
                } @else {
                    details open[part.pages.iter().any(|(_, other)| path == Some(other.as_str()))] {
                        summary { (part.title) }
                        (links(part))
                    }
                }
            }
        }
    }
}
