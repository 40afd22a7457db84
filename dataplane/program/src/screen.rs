//! What a terminal gets of a text that a receiver, a client, a user or an object of a cluster chose.

/// Whether a terminal acts on the character instead of showing it: control characters, separators of lines, and marks
/// that change the direction of the text behind them. All of them are in the basic plane, so JSON has one escape for
/// each.
pub fn is_unseen(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Replaces each character on which a terminal acts by a blank, so that the text stays on its line and moves no cursor.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Like [`clean`], for a text that may have several lines.
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(clean("a\u{1b}[2J\nb"), "a [2J b");
        assert_eq!(clean("\u{9b}a\u{202e}b\u{2028}\u{2066}\u{7f}"), " a b   ");
        assert_eq!(clean("é\u{e000}漢"), "é\u{e000}漢", "what is shown stays");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(clean_lines("a\r\n\u{1b}]0;x\u{7}b\n"), "a \n ]0;x b\n");
    }

    #[test]
    fn all_marks_of_direction_and_no_letters_are_unseen() {
        let unseen: Vec<u32> = ('\u{a0}'..=char::MAX).filter(|c| is_unseen(*c)).map(u32::from).collect();
        let marks = [0x61c, 0x200e, 0x200f].into_iter().chain(0x2028..=0x202e).chain(0x2066..=0x2069);
        assert_eq!(unseen, Vec::from_iter(marks));
        let control = ('\0'..'\u{a0}').filter(|c| is_unseen(*c)).count();
        assert_eq!(control, 32 + 1 + 32, "C0, delete and C1");
    }
}
