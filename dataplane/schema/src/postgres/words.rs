//! Texts from a server's errors, in a form that logs and statuses may show. The owner of a database decides these texts.

use std::error::Error;

use tokio_postgres::error::SqlState;

/// The longest text of a server, in characters.
const MOST_CHARACTERS: usize = 300;

/// A server's text with its control characters escaped, cut after 300 characters.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (place, character) in text.chars().enumerate() {
        match character {
            _ if place == MOST_CHARACTERS => {
                shown.push('…');
                break;
            }
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

/// The text of an error with its causes, which the library leaves out, cut like a server's text.
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    shown(&words)
}

/// The class of an error: the first two of the five characters of its code. Empty for a code of another form.
pub fn class_of(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_its_control_characters_are_escaped() {
        assert_eq!(shown("relation \"x\" does not exist"), "relation \"x\" does not exist");
        assert_eq!(shown("a\nb\u{1b}[31m\u{85}ü"), "a\\nb\\u{1b}[31m\\u{85}ü");
        let long = shown(&"ü".repeat(1_000_000));
        assert_eq!((long.chars().count(), long.ends_with("ü…")), (301, true));
        assert_eq!(shown(&"x".repeat(300)), "x".repeat(300));
    }

    #[test]
    fn class_of_a_code_of_any_form_is_found_without_a_panic() {
        for (code, class) in [("42P01", "42"), ("08006", "08"), ("4", ""), ("", ""), ("äö", "ä"), ("aä", "")]
        {
            assert_eq!(class_of(&SqlState::from_code(code)), class, "{code:?}");
        }
    }
}
