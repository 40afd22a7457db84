//! Finds the pages that answer a query, by BM25: a rare word counts more than a usual one, a second occurrence less than the
//! first, a long text less than a short one; and a word of a title more than one of the text.

mod synonyms;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::excerpt::{Piece, excerpt, marked};
use crate::markdown::PageSection;
use crate::words::{is_near, parts, telling, term, terms, words};

use synonyms::Synonyms;

/// The largest number of results of a search.
pub const MOST: usize = 20;
/// The number of words of a query that count.
pub const MAX_WORDS: usize = 12;
/// The length of a word, in bytes, from which a word that no page has is taken for a near one.
const LONG_WORD: usize = 5;

/// How much an occurrence of a word counts, by where it is: in the title of the page, in its path, in its first section, in
/// its headings, in its text.
const TITLE: f64 = 4.0;
const PATH: f64 = 1.0;
const LEAD: f64 = 1.0;
const HEADINGS: f64 = 1.0;
const TEXT: f64 = 2.0;
/// How fast more occurrences in a text count less: this many count half as much as any number.
const SATURATION: f64 = 1.5;
/// How much less a long text counts: 0 is no less, 1 is less in proportion to its length.
const LENGTH_OF_PAGE: f64 = 0.6;
const LENGTH_OF_SECTION: f64 = 0.7;
/// How much the best section of a page counts beside the page.
const SECTION: f64 = 0.5;
/// How much a page counts more if one of its headings is the query.
const EXACT: f64 = 1.5;
/// How much a word counts that stands for a word of the query: a synonym, the parts of the word, a word that is near.
const SYNONYM: f64 = 0.6;
const PARTS: f64 = 0.6;
const NEAR: f64 = 0.7;
/// Pages that come after others, by the beginning of their paths: these lead to other pages, or are for people who change Docket.
const LATER: [(&str, f64); 8] = [
    ("index.html", 0.7),
    ("troubleshoot/index.html", 0.7),
    ("architecture.html", 0.6),
    ("changelog.html", 0.6),
    ("changes-", 0.6),
    ("contributing.html", 0.6),
    ("project/decisions.html", 0.6),
    ("tests/bench/readme.html", 0.6),
];

/// A page that was found, with its best section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchHit<'a> {
    pub(crate) section: &'a PageSection,
    /// The title of the page.
    pub(crate) title: Vec<Piece>,
    /// The heading of the section.
    pub(crate) heading: Vec<Piece>,
    /// The part of the section's text that has most of the words.
    pub(crate) excerpt: Vec<Piece>,
}

/// The index: the sections in the order of their pages, and where each term is used.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    pub(crate) sections: Vec<PageSection>,
    facts: Vec<SectionFacts>,
    pages: Vec<PageFacts>,
    uses: HashMap<String, TermUses>,
    synonyms: Synonyms,
}

/// What the index knows of a section.
#[derive(Debug)]
struct SectionFacts {
    /// The words of the heading without what is between them, in lower case.
    heading: String,
    /// How much less the occurrences in this section count because of the section's length.
    length: f64,
}

/// What the index knows of a page.
#[derive(Debug)]
struct PageFacts {
    sections: Range<usize>,
    /// How much less the occurrences on this page count because of the page's length.
    length: f64,
    weight: f64,
}

/// Where a term is used: pages and sections, by their place.
#[derive(Debug, Default)]
struct TermUses {
    pages: Vec<(usize, PageUse)>,
    sections: Vec<(usize, SectionUse)>,
}

/// Where on a page a term is used, and how often.
#[derive(Debug, Default)]
struct PageUse {
    in_title: bool,
    in_path: bool,
    in_lead: bool,
    headings: f64,
    text: f64,
}

/// Where in a section a term is used, and how often.
#[derive(Debug, Default)]
struct SectionUse {
    in_heading: bool,
    text: f64,
}

/// Terms that stand for a word of a query, and how much they count.
#[derive(Debug)]
struct Alternative {
    weight: f64,
    terms: Vec<String>,
}

/// The points of all pages and of all sections.
struct Points {
    pages: Vec<f64>,
    sections: Vec<f64>,
}

impl SearchIndex {
    /// Indexes the sections. The sections of a page follow each other; the first one is the page's title.
    pub(crate) fn new(sections: Vec<PageSection>) -> Self {
        let mut index = Self {
            facts: Vec::with_capacity(sections.len()),
            pages: Vec::new(),
            uses: HashMap::new(),
            synonyms: Synonyms::new(),
            sections: Vec::new(),
        };
        for of_page in sections.chunk_by(|one, other| one.name == other.name) {
            index.add(of_page);
        }
        relative(index.facts.iter_mut().map(|section| &mut section.length), LENGTH_OF_SECTION);
        relative(index.pages.iter_mut().map(|page| &mut page.length), LENGTH_OF_PAGE);
        index.sections = sections;
        index
    }

    /// Adds the sections of a page. Its lengths are the numbers of its words until all pages are known.
    fn add(&mut self, sections: &[PageSection]) {
        let (page, first, mut length) = (self.pages.len(), self.facts.len(), 0.0);
        let (title, name) =
            sections.first().map_or(("", ""), |first| (first.page.as_str(), first.name.as_str()));
        for term in terms_of(title) {
            self.on_page(term, page).in_title = true;
        }
        for term in terms_of(name.strip_suffix(".html").unwrap_or(name)) {
            self.on_page(term, page).in_path = true;
        }
        for (at, section) in (first..).zip(sections) {
            for term in terms_of(&section.heading) {
                last(&mut self.uses.entry(term.clone()).or_default().sections, at).in_heading = true;
                if at > first {
                    self.on_page(term, page).headings += 1.0;
                }
            }
            let mut count = 0.0;
            for term in terms_of(&section.text) {
                count += 1.0;
                last(&mut self.uses.entry(term.clone()).or_default().sections, at).text += 1.0;
                let on_page = self.on_page(term, page);
                on_page.text += 1.0;
                on_page.in_lead |= at == first;
            }
            length += count;
            self.facts.push(SectionFacts { heading: joined(&section.heading), length: count });
        }
        let weight =
            LATER.iter().find(|(later, _)| name.starts_with(later)).map_or(1.0, |(_, weight)| *weight);
        self.pages.push(PageFacts { sections: first..self.facts.len(), length, weight });
    }

    /// The use of a term on the page that is added.
    fn on_page(&mut self, term: String, page: usize) -> &mut PageUse {
        last(&mut self.uses.entry(term).or_default().pages, page)
    }

    /// Returns the pages that have one of the words or a word that stands for it, the best first.
    pub(crate) fn find(&self, query: &str) -> Vec<SearchHit<'_>> {
        let words: Vec<Vec<Alternative>> =
            telling(query).into_iter().take(MAX_WORDS).map(|word| self.alternatives(word)).collect();
        let mut total = self.no_points();
        let mut matched: Vec<f64> = vec![0.0; self.pages.len()];
        for alternatives in &words {
            let best = self.best(alternatives);
            for (page, points) in best.pages.iter().enumerate() {
                total.pages[page] += points;
                matched[page] += f64::from(u8::from(*points > 0.0));
            }
            for (section, points) in best.sections.iter().enumerate() {
                total.sections[section] += points;
            }
        }
        let (query, count) = (joined(query), words.len() as f64);
        let wanted: HashSet<String> = words.into_iter().flatten().flat_map(|one| one.terms).collect();
        let found = self.pages.iter().enumerate().filter(|(at, _)| matched[*at] > 0.0).map(|(at, page)| {
            let exact = page.sections.clone().find(|section| self.facts[*section].heading == query);
            let best = page.sections.clone().map(|section| total.sections[section]).fold(0.0, f64::max);
            let of_page = (total.pages[at] + SECTION * best) * (matched[at] / count).sqrt() * page.weight;
            let points = if exact.is_some() { EXACT * of_page } else { of_page };
            (points, exact.unwrap_or_else(|| self.shown(page, &total.sections, &wanted)))
        });
        let mut found: Vec<(f64, usize)> = found.collect();
        found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let best = found.into_iter().take(MOST).map(|(_, at)| &self.sections[at]);
        let hits = best.map(|section| SearchHit {
            section,
            title: marked(&section.page, &wanted),
            heading: marked(&section.heading, &wanted),
            excerpt: excerpt(&section.text, &wanted),
        });
        hits.collect()
    }

    /// The section of a page that is shown: the one with most points of those whose text has one of the terms, or of all.
    fn shown(&self, page: &PageFacts, points: &[f64], wanted: &HashSet<String>) -> usize {
        let has = |uses: &TermUses, at: usize| {
            let place = uses.sections.binary_search_by_key(&at, |(section, _)| *section);
            place.is_ok_and(|place| uses.sections[place].1.text > 0.0)
        };
        let in_text =
            |at: usize| wanted.iter().filter_map(|term| self.uses.get(term)).any(|uses| has(uses, at));
        // `max_by_key` returns the last of equal items, so `rev` makes it the first.
        let sections = page.sections.clone().rev().map(|at| (in_text(at), points[at], at));
        let best = sections.max_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        best.map_or(page.sections.start, |(.., at)| at)
    }

    /// What stands for a word of a query: itself, its synonyms and its parts; if no page has these, words that are near.
    fn alternatives(&self, word: &str) -> Vec<Alternative> {
        let own = term(word);
        let mut all = Vec::new();
        let mut add = |weight: f64, terms: Vec<String>| {
            let terms: Vec<String> = terms.into_iter().filter(|term| self.uses.contains_key(term)).collect();
            if !terms.is_empty() {
                all.push(Alternative { weight, terms });
            }
        };
        add(1.0, vec![own.clone()]);
        for terms in self.synonyms.of(&own) {
            add(SYNONYM, terms.clone());
        }
        add(PARTS, parts(word).into_iter().map(term).collect());
        if all.is_empty() && word.len() >= LONG_WORD {
            let near = self.uses.keys().filter(|other| is_near(&own, other));
            all.extend(near.map(|near| Alternative { weight: NEAR, terms: vec![near.clone()] }));
        }
        all
    }

    /// The points of a word: the points of its best alternative.
    fn best(&self, alternatives: &[Alternative]) -> Points {
        let mut best = self.no_points();
        for Alternative { weight, terms } in alternatives {
            let mut points = self.no_points();
            // A second word of a synonym counts less than the first.
            let weight = weight / (terms.len() as f64).sqrt();
            for uses in terms.iter().filter_map(|term| self.uses.get(term)) {
                let weight = weight * self.rarity(uses);
                for (at, used) in &uses.pages {
                    points.pages[*at] += weight * used.points(self.pages[*at].length);
                }
                for (at, used) in &uses.sections {
                    points.sections[*at] += weight * used.points(self.facts[*at].length);
                }
            }
            raise(&mut best.pages, &points.pages);
            raise(&mut best.sections, &points.sections);
        }
        best
    }

    /// How much a term counts, by the number of pages that have it.
    fn rarity(&self, uses: &TermUses) -> f64 {
        let (pages, having) = (self.pages.len() as f64, uses.pages.len() as f64);
        (1.0 + (pages - having + 0.5) / (having + 0.5)).ln()
    }

    fn no_points(&self) -> Points {
        Points { pages: vec![0.0; self.pages.len()], sections: vec![0.0; self.sections.len()] }
    }
}

impl PageUse {
    fn points(&self, length: f64) -> f64 {
        let of = |is_there: bool, points: f64| if is_there { points } else { 0.0 };
        of(self.in_title, TITLE)
            + of(self.in_path, PATH)
            + of(self.in_lead, LEAD)
            + HEADINGS * self.headings / (self.headings + 1.0)
            + in_text(self.text, length)
    }
}

impl SectionUse {
    fn points(&self, length: f64) -> f64 {
        let heading = if self.in_heading { HEADINGS } else { 0.0 };
        heading + in_text(self.text, length)
    }
}

/// The points of `count` occurrences in a text of this length.
fn in_text(count: f64, length: f64) -> f64 {
    let count = count / length;
    TEXT * count / (count + SATURATION)
}

/// Replaces numbers of words by how much less their occurrences count: 1 for a text of the usual length.
fn relative<'a>(lengths: impl Iterator<Item = &'a mut f64>, part: f64) {
    let lengths: Vec<&mut f64> = lengths.collect();
    let usual = lengths.iter().map(|length| **length).sum::<f64>() / lengths.len().max(1) as f64;
    for length in lengths {
        // Texts without a word have no occurrences.
        *length = 1.0 - part + part * *length / usual.max(1.0);
    }
}

fn raise(best: &mut [f64], points: &[f64]) {
    for (best, points) in best.iter_mut().zip(points) {
        *best = best.max(*points);
    }
}

/// The use at this place, which is the last one or a new one.
fn last<U: Default>(uses: &mut Vec<(usize, U)>, at: usize) -> &mut U {
    if uses.last().is_none_or(|(last, _)| *last != at) {
        uses.push((at, U::default()));
    }
    &mut uses.last_mut().expect("one was added").1
}

/// The terms of a text, in its order.
fn terms_of(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().flat_map(|(_, word)| terms(word))
}

/// The words of a heading or a query that say something, in lower case and without what is between them.
fn joined(text: &str) -> String {
    telling(text).concat().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, title: &str, sections: &[(&str, &str)]) -> Vec<PageSection> {
        let headings = [(title, "")].into_iter().chain(sections.iter().copied());
        let section = |(heading, text): (&str, &str)| PageSection {
            page: title.into(),
            name: name.into(),
            heading: heading.into(),
            level: if heading == title { 1 } else { 2 },
            anchor: heading.to_lowercase(),
            text: text.into(),
        };
        headings.map(section).collect()
    }

    /// The names of the pages that are found, and their sections.
    fn found(index: &SearchIndex, query: &str) -> Vec<(String, String)> {
        let hits = index.find(query).into_iter();
        hits.map(|hit| (hit.section.name.clone(), hit.section.heading.clone())).collect()
    }

    fn small() -> SearchIndex {
        SearchIndex::new(
            [
                page("a.html", "Other", &[("First", "how to rotate a secret"), ("Second", "nothing")]),
                page("b.html", "Rotate a secret", &[("Steps", "text of a page")]),
                page("c.html", "Kinds", &[("TlsUntrusted", "text"), ("Dns", "a secret is not rotated here")]),
            ]
            .concat(),
        )
    }

    #[test]
    fn a_page_is_found_once_with_its_best_section_and_titles_come_first() {
        let index = small();
        let all = found(&index, "rotating SECRETS");
        let all: Vec<(&str, &str)> = all.iter().map(|(name, heading)| (&**name, &**heading)).collect();
        assert_eq!(all, [("b.html", "Rotate a secret"), ("a.html", "First"), ("c.html", "Dns")]);
        for query in ["", "?", "absent", "how to"] {
            assert!(index.find(query).is_empty(), "{query}");
        }
    }

    #[test]
    fn a_word_that_no_page_has_is_taken_for_a_near_one() {
        let index = small();
        assert_eq!(found(&index, "untrsted")[0].1, "TlsUntrusted");
        assert_eq!(found(&index, "sceret")[0].0, "b.html");
        assert!(found(&index, "dnx").is_empty(), "a short word is not");
    }

    #[test]
    fn heading_that_is_the_query_is_the_section() {
        let index = small();
        for query in ["TlsUntrusted", "tls-untrusted", "tlsuntrusted"] {
            assert_eq!(found(&index, query)[0], ("c.html".to_owned(), "TlsUntrusted".to_owned()), "{query}");
        }
    }

    #[test]
    fn words_are_marked_in_title_heading_and_excerpt() {
        let index = small();
        let hits = index.find("rotate first");
        let hit = hits.iter().find(|hit| hit.section.name == "a.html").expect("it is found");
        let marks = |pieces: &[Piece]| -> Vec<String> {
            pieces.iter().filter(|piece| piece.is_found).map(|piece| piece.text.clone()).collect()
        };
        assert_eq!(marks(&hit.heading), ["First"]);
        assert_eq!(marks(&hit.excerpt), ["rotate"]);
        assert!(marks(&hit.title).is_empty());
    }

    #[test]
    fn results_and_words_of_a_query_are_bounded() {
        let pages =
            (0..100).flat_map(|at| page(&format!("{at:03}.html"), "Same", &[("Text", "the same words")]));
        let index = SearchIndex::new(pages.collect());
        assert_eq!(index.find("words").len(), MOST);
        let query = format!("{} words", "absent ".repeat(MAX_WORDS));
        assert!(index.find(&query).is_empty(), "a further word does not count");
    }
}
