//! Which sections have all words of a query.

use crate::markdown::Section;

/// The most results.
pub(crate) const MOST: usize = 30;
/// The words of a query that count.
const MAX_WORDS: usize = 8;
/// The length of an excerpt, in characters.
const EXCERPT: usize = 200;

/// A section that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) section: &'a Section,
    /// The text around the first of the words.
    pub(crate) excerpt: String,
}

/// The sections that have all of the words, those first that have them in their heading.
pub(crate) fn find<'a>(sections: &'a [Section], query: &str) -> Vec<Found<'a>> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().take(MAX_WORDS).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(usize, Found<'a>)> = sections
        .iter()
        .filter_map(|section| {
            let (heading, text) = (section.heading.to_lowercase(), section.text.to_lowercase());
            let page = section.page.to_lowercase();
            let has = |word: &&str| heading.contains(*word) || text.contains(*word) || page.contains(*word);
            let in_heading = words.iter().filter(|word| heading.contains(**word)).count();
            let is_here = words.iter().any(|word| heading.contains(*word) || text.contains(*word));
            let excerpt = excerpt(&section.text, words.iter().find_map(|word| text.find(*word)).unwrap_or(0));
            (is_here && words.iter().all(has)).then_some((in_heading, Found { section, excerpt }))
        })
        .collect();
    found.sort_by_key(|(in_heading, _)| std::cmp::Reverse(*in_heading));
    found.into_iter().take(MOST).map(|(_, found)| found).collect()
}

/// The text from a little before this place.
fn excerpt(text: &str, at: usize) -> String {
    let from = text.floor_char_boundary(at.min(text.len()).saturating_sub(EXCERPT / 4));
    let from = text[from..].find(' ').map_or(from, |space| if from == 0 { 0 } else { from + space + 1 });
    let mut excerpt: String = text[from..].split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = excerpt.char_indices().nth(EXCERPT) {
        excerpt.truncate(end);
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(heading: &str, text: &str) -> Section {
        Section {
            page: "Page".into(),
            name: "page.html".into(),
            heading: heading.into(),
            level: 2,
            anchor: "a".into(),
            text: text.into(),
        }
    }

    #[test]
    fn all_words_must_be_there_and_headings_come_first() {
        let sections = [
            section("Other", "how to rotate a secret"),
            section("Rotate a secret", "text"),
            section("Third", "a secret"),
        ];
        let headings = |query: &str| -> Vec<String> {
            find(&sections, query).into_iter().map(|found| found.section.heading.clone()).collect()
        };
        assert_eq!(headings("secret ROTATE"), ["Rotate a secret", "Other"]);
        assert_eq!(headings("page third"), ["Third"], "the page's title counts for its sections");
        assert!(
            headings("page").is_empty() && headings("rotate nothing").is_empty() && headings(" ").is_empty()
        );
    }

    #[test]
    fn an_excerpt_begins_with_a_word_and_is_bounded() {
        let text = format!("{} needle {}", "ä ".repeat(200), "ö ".repeat(200));
        let at = text.find("needle").expect("there");
        let found = excerpt(&text, at);
        assert!(found.contains("needle") && found.chars().count() == EXCERPT + 1, "{found}");
        assert_eq!(excerpt("short", 0), "short");
        assert_eq!(excerpt("", 9), "");
    }
}
