//! Excerpts of texts with the words that a search has found.

use std::collections::HashSet;

use crate::words::{terms, words};

/// The length of an excerpt, in characters.
const LENGTH: usize = 240;
/// The part of the excerpt that should have most of the words, in bytes.
const WINDOW: usize = 160;
/// How far before the first word an excerpt may begin, in bytes.
const BEFORE: usize = 60;

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Whether the piece is a word that was looked for.
    pub(crate) is_found: bool,
}

/// Cuts a text into the words that have one of these terms, and what is between them.
pub(crate) fn marked(text: &str, wanted: &HashSet<String>) -> Vec<Piece> {
    let (mut pieces, mut end) = (Vec::new(), 0);
    let mut add = |text: &str, is_found| {
        if !text.is_empty() {
            pieces.push(Piece { text: text.to_owned(), is_found });
        }
    };
    for (at, word, _) in found(text, wanted) {
        add(&text[end..at], false);
        add(word, true);
        end = at + word.len();
    }
    add(&text[end..], false);
    pieces
}

/// The part of a text that has most of these terms, in pieces. A text without any is shown from its beginning.
pub(crate) fn excerpt(text: &str, wanted: &HashSet<String>) -> Vec<Piece> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = found(&text, wanted);
    let different = |first: usize| {
        let end = found[first].0 + WINDOW;
        let within = found[first..].iter().take_while(|(at, ..)| *at < end);
        within.map(|(.., term)| term).collect::<HashSet<_>>().len()
    };
    // `max_by_key` returns the last of equal items, so `rev` makes it the first.
    let best = (0..found.len()).rev().max_by_key(|first| different(*first));
    let from = best.map_or(0, |best| begin(&text, found[best].0));
    let rest = &text[from..];
    let part = cut(rest);
    let before = if from == 0 { "" } else { "… " };
    let after = if part.len() == rest.len() { "" } else { " …" };
    marked(&format!("{before}{part}{after}"), wanted)
}

/// The words of a text that have one of the terms: position, word and term.
fn found<'a>(text: &'a str, wanted: &HashSet<String>) -> Vec<(usize, &'a str, String)> {
    let has = |word| terms(word).into_iter().find(|term| wanted.contains(term));
    words(text).into_iter().filter_map(|(at, word)| Some((at, word, has(word)?))).collect()
}

/// Where an excerpt begins that shows the word at this position: with its sentence if that begins shortly before it, else
/// with a word.
fn begin(text: &str, at: usize) -> usize {
    if at <= BEFORE {
        return 0;
    }
    let earliest = text.floor_char_boundary(at - BEFORE);
    let before = &text[earliest..at];
    let sentence = before.rfind(". ").map(|end| end + 2);
    earliest + sentence.or_else(|| before.find(' ').map(|space| space + 1)).unwrap_or(before.len())
}

/// The beginning of a text, at most as long as an excerpt, up to the end of a word.
fn cut(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(LENGTH) else { return text };
    let cut = &text[..end];
    &cut[..cut.rfind(' ').unwrap_or(end)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::term;

    fn wanted(words: &[&str]) -> HashSet<String> {
        words.iter().map(|word| term(word)).collect()
    }

    fn shown(pieces: &[Piece]) -> String {
        pieces
            .iter()
            .map(|Piece { text, is_found }| if *is_found { format!("[{text}]") } else { text.clone() })
            .collect()
    }

    #[test]
    fn words_with_the_same_term_are_marked() {
        let found = marked("Rotating a caBundleRef: rotate.", &wanted(&["rotate", "bundle"]));
        assert_eq!(shown(&found), "[Rotating] a [caBundleRef]: [rotate].");
        assert_eq!(shown(&marked("none", &wanted(&["other"]))), "none");
        assert!(marked("", &wanted(&["other"])).is_empty());
    }

    #[test]
    fn an_excerpt_is_where_most_of_the_words_are() {
        let text = format!(
            "A needle.\n{} End of it. The needle in the haystack is here. {}",
            "ä ".repeat(300),
            "ö ".repeat(300)
        );
        let found = shown(&excerpt(&text, &wanted(&["needle", "haystack"])));
        assert!(found.starts_with("… The [needle] in the [haystack] is here. ö"), "{found}");
        assert!(found.ends_with("ö …") && found.chars().count() < LENGTH + 12, "{found}");
    }

    #[test]
    fn an_excerpt_of_a_short_text_is_the_text() {
        assert_eq!(shown(&excerpt("short\n  text", &wanted(&["text"]))), "short [text]");
        assert_eq!(shown(&excerpt("short", &wanted(&["other"]))), "short");
        assert!(excerpt("", &wanted(&["other"])).is_empty());
        let long = "x".repeat(400);
        assert!(shown(&excerpt(&long, &wanted(&["y"]))).chars().count() <= LENGTH + 2);
        let late = format!("{long} needle");
        assert_eq!(shown(&excerpt(&late, &wanted(&["needle"]))), "… [needle]");
    }
}
