//! What a search compares: a text without what people do not type.

use unicode_normalization::UnicodeNormalization;

/// The folded text: lower case, without accents and other marks, in one of the ways in which Unicode writes it. Ligatures and stroked
/// letters become plain ones, typographic quotation marks and dashes those of the keyboard. What can't be seen is left out.
///
/// A folded text is its own: what was folded before stays as it is.
pub fn folded(text: &str) -> String {
    if text.is_ascii() && !text.contains('`') {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    // Unicode takes an accent that stands alone apart into a blank and a mark.
    let text = text.chars().map(|c| if c == '´' { '\'' } else { c });
    // Twice: lower case can have marks of its own, and a mark can be within what a letter stands for.
    let lower = text.nfkd().filter(|c| !is_dropped(*c)).flat_map(char::to_lowercase).collect::<String>();
    for c in lower.nfkd().filter(|c| !is_dropped(*c)) {
        match plain(c) {
            Some(plain) => folded.push_str(plain),
            None => folded.push(c),
        }
    }
    // Back to one character for a syllable, as in Korean.
    folded.nfkc().collect()
}

/// Marks of scripts that are written without them as well, and characters that can't be seen.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
        // Points of Hebrew and Arabic, and the Arabic letter that only lengthens.
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}'
        // Soft hyphen, joiners, directions, variation selectors, byte order mark.
        | '\u{ad}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// What people type for a character that Unicode does not take apart.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' | 'ɖ' => "d",
        'ł' | 'ƚ' => "l",
        'ħ' => "h",
        'ŧ' => "t",
        'ƀ' => "b",
        'ɨ' | 'ı' => "i",
        'ɉ' | 'ȷ' => "j",
        'ɍ' => "r",
        'ɏ' => "y",
        'ƶ' => "z",
        'ǥ' => "g",
        'þ' => "th",
        'ŋ' => "n",
        'ĸ' => "k",
        'ƒ' => "f",
        'ȼ' => "c",
        'ɇ' => "e",
        'ʉ' => "u",
        'ς' => "σ",
        // Ё, Й and Ї lose their marks above.
        'ґ' => "г",
        '‘' | '’' | '‚' | '‛' | '′' | 'ʼ' | 'ʻ' | 'ʹ' | 'ʾ' | 'ʿ' | '`' | 'ꞌ' | '＇' | '׳' => {
            "'"
        }
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' | '״' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '־' => "-",
        '⁄' | '∕' => "/",
        _ if c.is_whitespace() => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_people_type_them() {
        for (written, typed) in [
            ("O’Brien", "o'brien"),
            ("O`Brien O´Brien OʼBrien", "o'brien o'brien o'brien"),
            ("Núñez", "nunez"),
            ("Nu\u{301}n\u{303}ez", "NUNEZ"),
            ("Müller-Lüdenscheidt", "muller-ludenscheidt"),
            ("Straße STRASSE ẞ", "strasse strasse ss"),
            ("İstanbul Iğdır", "istanbul igdir"),
            ("Łódź", "lodz"),
            ("Ærøskøbing", "aeroskobing"),
            ("Œuvre", "oeuvre"),
            ("Đorđević", "dordevic"),
            ("Þórður Guðmundsson", "thordur gudmundsson"),
            ("ﬁnance", "finance"),
            ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
            ("Nguyễn Văn Ánh", "nguyen van anh"),
            ("ΟΔΥΣΣΕΎΣ", "οδυσσευς"),
            ("Фёдор Чайковский", "федор чаиковскии"),
            ("שָׁלוֹם", "שלום"),
            ("مُحَمَّد", "محمد"),
            ("in re “Doe” – No. 5", "in re \"doe\" - no. 5"),
            ("a\u{a0}b\u{ad}c\u{200b}d", "a bcd"),
            ("①②③ Ⅳ", "123 iv"),
        ] {
            assert_eq!(folded(written), folded(typed), "{written} and {typed}");
        }
    }

    #[test]
    fn other_names_stay_apart_and_a_folded_text_is_its_own() {
        for (one, other) in [("한국", "한글"), ("東京", "京都"), ("Smith", "Smyth"), ("หนึ่ง", "สอง")]
        {
            assert_ne!(folded(one), folded(other));
        }
        for text in ["O’Brien", "Straße", "İstanbul", "한국어", "が", "ΟΔΥΣΣΕΎΣ", "ǅungla", "ŉ", "ﷺ", "½ ㎏"]
        {
            let once = folded(text);
            assert_eq!(folded(&once), once, "{text}");
        }
    }
}
