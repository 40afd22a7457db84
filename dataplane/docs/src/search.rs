//! Finds the sections that have all words of a query.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::markdown::PageSection;

/// The largest number of results of a search.
pub const MOST: usize = 30;
/// The number of words of a query that count.
pub const MAX_WORDS: usize = 8;
/// The length of an excerpt, in characters.
const EXCERPT: usize = 200;

/// A section that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchHit<'a> {
    pub(crate) section: &'a PageSection,
    /// The text around the first of the words.
    pub(crate) excerpt: String,
}

/// The index: the sections, and where each word is. A search scans the words, each of which is in the index once,
/// instead of the texts.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    pub(crate) sections: Vec<PageSection>,
    /// In lower case, each with the sections that have it, by their place.
    words: BTreeMap<String, Vec<(usize, Has)>>,
}

/// Which parts of a section have a word.
#[derive(Debug, Clone, Copy, Default)]
struct Has {
    page: bool,
    heading: bool,
    /// Where the word first is in the text.
    text: Option<usize>,
}

impl Has {
    fn or(self, other: Self) -> Self {
        Self {
            page: self.page || other.page,
            heading: self.heading || other.heading,
            text: self.text.into_iter().chain(other.text).min(),
        }
    }

    fn is_somewhere(self) -> bool {
        self.page || self.is_here()
    }

    /// Whether the word is in the section itself, and not only in the title of the page.
    fn is_here(self) -> bool {
        self.heading || self.text.is_some()
    }
}

impl SearchIndex {
    pub(crate) fn new(sections: Vec<PageSection>) -> Self {
        let mut words = BTreeMap::<String, Vec<(usize, Has)>>::new();
        for (at, section) in sections.iter().enumerate() {
            let mut add = |(word, has): (&str, Has)| {
                let of = words.entry(word.to_lowercase()).or_default();
                match of.last_mut() {
                    Some((last, all)) if *last == at => *all = all.or(has),
                    _ => of.push((at, has)),
                }
            };
            let page = Has { page: true, ..Has::default() };
            let heading = Has { heading: true, ..Has::default() };
            section.page.split_whitespace().for_each(|word| add((word, page)));
            section.heading.split_whitespace().for_each(|word| add((word, heading)));
            places(&section.text)
                .for_each(|(at, word)| add((word, Has { text: Some(at), ..Has::default() })));
        }
        Self { sections, words }
    }

    /// The sections that have all of the words, those first that have them in their heading.
    pub(crate) fn find(&self, query: &str) -> Vec<SearchHit<'_>> {
        let query = query.to_lowercase();
        let words: Vec<Vec<Has>> =
            query.split_whitespace().take(MAX_WORDS).map(|word| self.having(word)).collect();
        let of_section = |at: usize| words.iter().filter_map(move |word| word.get(at)).copied();
        let found = self.sections.iter().enumerate().filter_map(|(at, section)| {
            let is_found = of_section(at).any(Has::is_here) && of_section(at).all(Has::is_somewhere);
            let first = of_section(at).find_map(|has| has.text).unwrap_or_default();
            is_found.then(|| (of_section(at).filter(|has| has.heading).count(), section, first))
        });
        let mut found: Vec<(usize, &PageSection, usize)> = found.collect();
        found.sort_by_key(|(in_heading, ..)| Reverse(*in_heading));
        found
            .into_iter()
            .take(MOST)
            .map(|(_, section, first)| SearchHit { section, excerpt: excerpt(&section.text, first) })
            .collect()
    }

    /// Which parts of each section have a word that contains `part`.
    fn having(&self, part: &str) -> Vec<Has> {
        let mut all = vec![Has::default(); self.sections.len()];
        for (at, has) in self.words.iter().filter(|(word, _)| word.contains(part)).flat_map(|(_, of)| of) {
            all[*at] = all[*at].or(*has);
        }
        all
    }
}

/// The words of a text, each with its position.
fn places(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    text.split_inclusive(char::is_whitespace).filter_map(move |piece| {
        let at = end;
        end += piece.len();
        Some((at, piece.trim_end())).filter(|(_, word)| !word.is_empty())
    })
}

/// The text from a little before this position.
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

    fn section(heading: &str, text: &str) -> PageSection {
        PageSection {
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
        let index = SearchIndex::new(vec![
            section("Other", "how to rotate a secret"),
            section("Rotate a secret", "text"),
            section("Third", "a secret"),
        ]);
        let headings = |query: &str| -> Vec<String> {
            index.find(query).into_iter().map(|found| found.section.heading.clone()).collect()
        };
        assert_eq!(headings("secret ROTATE"), ["Rotate a secret", "Other"]);
        assert_eq!(headings("page third"), ["Third"], "the page's title counts for its sections");
        assert!(
            headings("page").is_empty() && headings("rotate nothing").is_empty() && headings(" ").is_empty()
        );
        assert_eq!(headings("tat ecre"), ["Rotate a secret", "Other"], "parts of words count");
    }

    #[test]
    fn each_word_is_looked_at_once_however_often_the_sections_have_it() {
        let texts = (0..100).map(|_| section("Same", &"the same words again ".repeat(100)));
        let index = SearchIndex::new(texts.collect());
        assert_eq!(index.words.len(), 5, "{:?}", index.words.keys());
        let found = index.find("words");
        assert!(found.len() == MOST && found.iter().all(|found| found.excerpt.starts_with("the same words")));
    }

    #[test]
    fn an_excerpt_is_around_the_first_of_the_words() {
        let text = format!("{}\n\nNeedle here {}", "\u{e4} ".repeat(300), "needle ".repeat(90));
        let index = SearchIndex::new(vec![section("A", &text)]);
        let found = index.find("needle");
        assert!(found[0].excerpt.contains("Needle here"), "{found:?}");
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
