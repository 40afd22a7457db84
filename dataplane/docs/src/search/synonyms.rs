//! Words that readers use for the words of the pages.

use std::collections::HashMap;

use crate::words::{term, words};

/// The list: in each line, words and what stands for them.
const LIST: &str = include_str!("synonyms.txt");

/// The terms that stand for a term.
#[derive(Debug)]
pub(super) struct Synonyms(HashMap<String, Vec<Vec<String>>>);

impl Synonyms {
    /// Reads the list.
    pub(super) fn new() -> Self {
        let mut all = HashMap::<String, Vec<Vec<String>>>::new();
        for (keys, alternatives) in lines() {
            for key in terms(keys) {
                all.entry(key).or_default().extend(alternatives.split(',').map(terms));
            }
        }
        Self(all)
    }

    /// Returns the alternatives of a term; each is one or more terms.
    pub(super) fn of(&self, term: &str) -> &[Vec<String>] {
        self.0.get(term).map_or(&[], Vec::as_slice)
    }
}

/// The lines of the list: words, and their alternatives with commas between them.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'))
}

fn terms(text: &str) -> Vec<String> {
    words(text).into_iter().map(|(_, word)| term(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_has_the_alternatives_of_all_its_lines() {
        let synonyms = Synonyms::new();
        assert_eq!(synonyms.of(&term("GDPR")), [terms("personal data")]);
        assert_eq!(synonyms.of(&term("firewalls")), [terms("network policy")]);
        assert!(synonyms.of("absent").is_empty());
    }

    #[test]
    fn each_line_of_the_short_list_has_words_and_alternatives() {
        let all = LIST.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all.clone().count(), lines().count(), "a line without a colon");
        assert!(lines().count() <= 60, "{}", lines().count());
        for (keys, alternatives) in lines() {
            let is_empty = terms(keys).is_empty() || alternatives.split(',').any(|one| terms(one).is_empty());
            assert!(!is_empty, "{keys}: {alternatives}");
        }
    }
}
