//! Invisible characters.

use unicode_normalization::char::is_combining_mark;

/// Whether a character is invisible: white space, a character that Unicode calls default ignorable (no width,
/// direction, variation), a mark of annotations or formats, or a sign whose picture is empty.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}'
            | '\u{13430}'..='\u{13442}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a text is invisible: it has only blank characters, and marks without a letter.
pub fn is_unseen(text: &str) -> bool {
    text.chars().all(|c| is_blank(c) || is_combining_mark(c))
}
