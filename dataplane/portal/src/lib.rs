//! The pages of the administration portal: functions from plain values to HTML.
//!
//! No text is trusted: every text from receivers, users and orders is escaped. There is no inline script or style,
//! and everything works with links and forms alone. The script only adds copying, the reader's time zone,
//! relative times and live updates.

pub mod activity;
pub mod actors;
pub mod brand;
pub mod declared;
pub mod delivery;
pub mod events;
mod field;
mod filters;
mod happened;
pub mod keys;
pub mod logs;
pub mod mail_link;
pub mod message;
pub mod names;
pub mod notifications;
pub mod overview;
pub mod page;
mod parts;
pub mod people;
pub mod period;
pub mod resends;
pub mod sign_in;
mod state;
mod time;
pub mod trace;
pub mod verify;
pub mod webhooks;

/// The beginning of the path of every page.
pub const ROOT: &str = "/portal";
/// The styles, at `/portal/portal.css`.
pub const STYLES: &str = concat!(include_str!("palette.css"), include_str!("portal.css"));
/// The script, at `/portal/portal.js`.
pub const SCRIPT: &str = include_str!("portal.js");
/// The icon of all pages, as SVG.
pub const ICON: &str = include_str!("icon.svg");

/// The parameter with what the user has just done, on the page to which a form leads.
pub const DONE: &str = "done";

/// The highest count that is exact.
pub const MAX_COUNT: i64 = 10_000;

/// A count as text: exact up to [`MAX_COUNT`].
fn count(number: i64) -> String {
    if number > MAX_COUNT { "more than 10,000".to_owned() } else { number.to_string() }
}

/// A count with the name of the thing, whose plural ends in `s`.
fn counted(number: i64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A link to `path` with the parameters that have a value.
pub fn href<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let set = parameters.into_iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(set).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The elements that have classes.
    const TAGS: [&str; 47] = [
        "a", "article", "b", "body", "button", "code", "dd", "details", "div", "dl", "dt", "em", "fieldset",
        "form", "h1", "h2", "h3", "header", "i", "img", "input", "label", "legend", "li", "main", "nav",
        "ol", "p", "pre", "section", "select", "small", "span", "strong", "summary", "svg", "table", "tbody",
        "td", "textarea", "th", "thead", "time", "tr", "ul", "progress", "rect",
    ];

    /// The sources of this crate without their tests.
    fn sources() -> Vec<String> {
        fn read(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    read(&path, found);
                } else if path.extension().is_some_and(|kind| kind == "rs") {
                    let text = fs::read_to_string(&path).expect("a source");
                    found.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
                }
            }
        }
        let mut found = Vec::new();
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        found
    }

    /// The name with which a text begins.
    fn name_of(text: &str) -> &str {
        let is_of_name = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
        &text[..text.find(|one: char| !is_of_name(one)).unwrap_or(text.len())]
    }

    /// The classes that the styles have rules for.
    fn styled() -> BTreeSet<&'static str> {
        let rules = STYLES.split("/*").filter_map(|part| part.rsplit("*/").next());
        let names = rules.flat_map(|rules| rules.split('.').skip(1)).map(name_of);
        names.filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic())).collect()
    }

    /// Returns the text after the bracket that closes its first bracket.
    fn after_brackets(text: &str) -> &str {
        let mut depth = 0;
        for (at, one) in text.char_indices() {
            match one {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return &text[at + 1..];
            }
        }
        ""
    }

    /// The classes of the elements in the templates of a source, such as `done` of `div.done role="status"`.
    fn of_elements(source: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for (at, _) in source.match_indices('.') {
            let outside = source[..at].trim_end_matches(|one: char| one.is_ascii_alphanumeric());
            if outside.ends_with(['.', '_', '-', '"']) || !TAGS.contains(&&source[outside.len()..at]) {
                continue;
            }
            let (mut rest, mut names) = (&source[at..], Vec::new());
            while let Some(after) = rest.strip_prefix('.') {
                let name = name_of(after);
                names.push(name);
                rest = &after[name.len()..];
                // A class that is computed, or one with a condition.
                if rest.starts_with('[') || name.is_empty() && rest.starts_with('(') {
                    rest = after_brackets(rest);
                }
            }
            let next = rest.trim_start();
            let has_attribute =
                rest.starts_with(' ') && next.starts_with(|one: char| one.is_ascii_lowercase());
            if has_attribute || next.starts_with(['{', '#', ';']) {
                found.extend(names.into_iter().filter(|name| !name.is_empty() && !name.contains('_')));
            }
        }
        found
    }

    /// The classes in the literals of a source that have nothing but classes, such as `"num wider"`.
    fn of_literals<'a>(source: &'a str, styled: &BTreeSet<&str>) -> Vec<&'a str> {
        let literals = source.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
        let of_classes =
            literals.filter(|literal| literal.split_whitespace().all(|word| styled.contains(word)));
        of_classes.flat_map(str::split_whitespace).collect()
    }

    #[test]
    fn styles_have_rules_for_the_classes_of_the_pages_and_for_no_others() {
        let (styled, sources) = (styled(), sources());
        assert!(styled.contains("primary") && !styled.contains("css"), "{styled:?}");
        let elements: BTreeSet<&str> = sources.iter().flat_map(|source| of_elements(source)).collect();
        let unstyled: Vec<&&str> = elements.difference(&styled).collect();
        assert!(unstyled.is_empty(), "no style: {unstyled:?}");
        let literals = sources.iter().flat_map(|source| of_literals(source, &styled));
        let used: BTreeSet<&str> = elements.iter().copied().chain(literals).collect();
        let unused: Vec<&&str> = styled.difference(&used).collect();
        assert!(unused.is_empty(), "no page: {unused:?}");
        let found = of_elements(
            "p.hint #a { } li.good[is(x)].wait { } b.(tone()).look role { } a.path(x) { } span.is_x { }",
        );
        assert_eq!(found, ["hint", "good", "wait", "look"]);
    }

    #[test]
    fn count_is_exact_up_to_its_bound() {
        assert_eq!([0, 10_000].map(count), ["0", "10000"]);
        assert_eq!([10_001, 1_000_000].map(count), ["more than 10,000"; 2]);
        let dead = [0, 1, 2, 10_001].map(|number| counted(number, "dead letter"));
        assert_eq!(
            dead,
            ["0 dead letters", "1 dead letter", "2 dead letters", "more than 10,000 dead letters"]
        );
    }
}
