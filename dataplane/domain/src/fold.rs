//! The form of texts that searches compare, without differences that people do not type.

use unicode_normalization::UnicodeNormalization;

/// Folds a text: lower case, without accents and other marks, in one of Unicode's normalization forms. Ligatures and
/// stroked letters become plain letters. Digits, quotation marks and dashes become characters of the keyboard, and
/// blanks in a row one blank. Invisible characters are removed.
///
/// Folding a folded text does not change it.
pub fn folded(text: &str) -> String {
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'`') && !text.contains("  ") {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    let plain = |c| match c {
        // Unicode decomposes an accent that stands alone into a blank and a mark.
        '´' => '\'',
        WAVE_OF_WINDOWS => '-',
        _ => c,
    };
    let text = text.chars().map(plain);
    // Marks are removed twice: a lower-case letter can have marks of its own, and the replacement of a letter can contain one.
    let lower = text.nfkd().filter(|c| !is_dropped(*c)).flat_map(char::to_lowercase).collect::<String>();
    for c in lower.nfkd().filter(|c| !is_dropped(*c)) {
        if c.is_whitespace() {
            folded.push_str(if folded.ends_with(' ') { "" } else { " " });
        } else if c.is_ascii_alphanumeric() {
            folded.push(c);
        } else if let Some((plain, _)) = PLAIN.iter().find(|(_, all)| all.contains(c)) {
            folded.push_str(plain);
        } else {
            folded.push(digit_of(c).and_then(|value| char::from_digit(value, 10)).unwrap_or(c));
        }
    }
    // Composes again, so that for example a Korean syllable is one character.
    folded.nfkc().collect()
}

/// The text in Unicode's normalization form C: each accented letter is one character, where Unicode has one.
/// Keyboards write some of these letters as a letter and a mark.
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// The text in Unicode's normalization form D: each accented letter is a letter and its marks.
pub fn decomposed(text: &str) -> String {
    text.nfd().collect()
}

/// Whether folding leaves nothing of the text to compare: it has only blanks, marks and invisible characters. A
/// search for it finds nothing.
pub fn is_unseen(text: &str) -> bool {
    folded(text).trim().is_empty()
}

/// Whether folding removes the character: marks that their script also omits, and invisible characters.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
        // Points of Hebrew and Arabic, and the Arabic letter whose only purpose is to lengthen a word.
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}'
        // Soft hyphen, joiners, directions, variation selectors, byte order mark.
        | '\u{ad}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The dashes of all scripts (Unicode's category Pd) except the keyboard's, and signs that people write as dashes:
/// the minus signs and the hyphen bullet.
pub const DASHES: &str = concat!(
    "\u{58a}\u{5be}\u{1400}\u{1806}\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2e17}\u{2e1a}\u{2e3a}\u{2e3b}\u{2e40}",
    "\u{2e5d}\u{301c}\u{3030}\u{30a0}\u{10ead}\u{2d7}\u{2043}\u{2212}",
);

/// The fullwidth tilde, which Windows types for the Japanese wave dash. It is not in [`DASHES`], because Unicode
/// normalizes it to the keyboard's tilde. So callers replace it before they normalize a text.
pub const WAVE_OF_WINDOWS: char = '\u{ff5e}';

/// The characters that people type for characters that Unicode does not decompose: letters with a stroke, a hook or a
/// tail, ligatures, letters that share a key on different keyboards, quotation marks and dashes.
#[rustfmt::skip]
const PLAIN: [(&str, &str); 67] = [
    ("\"", "“”„‟″«»״「」『』❝❞"),
    ("'", "‘’‚‛′ʼʽʻʹʾʿ`ꞌ＇׳‹›՚❛❜"),
    ("-", DASHES),
    ("/", "⁄∕"),
    ("a", "ᶏⱥɑ"),
    ("b", "ƀƃɓᵬᶀꞗ"),
    ("c", "ƈȼɕꞓꞔ"),
    ("d", "đƌȡɖɗᵭᶁᶑꟈð"),
    ("e", "ɇᶒⱸꬴəɛǝ"),
    ("f", "ƒᵮᶂꞙ"),
    ("g", "ǥɠᶃꞡɡ"),
    ("h", "ħɦⱨꞕ"),
    ("i", "ɨᶖıɩ"),
    ("j", "ɉʝȷ"),
    ("k", "ƙᶄⱪꝁꝃꝅꞣĸ"),
    ("l", "łƚȴɫɬɭᶅⱡꝉꞎꬷꬸꬹ"),
    ("m", "ɱᵯᶆꬺ"),
    ("n", "ƞȵɲɳᵰᶇꞑꞥꬻŋ"),
    ("o", "øⱺꝋꝍɔɵ"),
    ("p", "ƥᵱᵽᶈꝑꝓꝕ"),
    ("q", "ɋʠꝗꝙ"),
    ("r", "ɍɼɽɾᵲᵳᶉꞧꭉ"),
    ("s", "ȿʂᵴᶊꞩꟊ"),
    ("t", "ŧƫƭȶʈᵵⱦ"),
    ("u", "ᶙꞹꭎꭒʉʊ"),
    ("v", "ʋᶌⱱⱴꝟ"),
    ("w", "ⱳ"),
    ("x", "ᶍꭖꭗꭘꭙ"),
    ("y", "ƴɏỿꭚ"),
    ("z", "ƶȥɀʐʑᵶᶎⱬʒ"),
    ("σ", "ς"),
    ("а", "ә"),
    ("г", "ґғҕӷӻ"),
    ("ж", "җ"),
    ("з", "ҙ"),
    ("к", "қҝҟӄ"),
    ("л", "ӆԓԡԯ"),
    ("м", "ӎ"),
    ("н", "ңӈӊԣԩ"),
    ("о", "ө"),
    ("п", "ҧԥ"),
    ("р", "ҏ"),
    ("с", "ҫ"),
    ("т", "ҭꚋ"),
    ("у", "үұ"),
    ("х", "ҳӽӿһ"),
    ("ч", "ҷҹ"),
    ("ا", "ٱ"),
    ("ك", "ک"),
    ("ه", "ةہھەۃ"),
    ("ي", "یىے"),
    ("aa", "ꜳ"),
    ("ae", "æ"),
    ("ае", "ӕ"),
    ("ao", "ꜵ"),
    ("au", "ꜷ"),
    ("av", "ꜹꜻ"),
    ("ay", "ꜽ"),
    ("ll", "ỻ"),
    ("oe", "œ"),
    ("oo", "ꝏ"),
    ("ss", "ß"),
    ("th", "þꝥꝧ"),
    ("vy", "ꝡ"),
    ("וו", "װ"),
    ("וי", "ױ"),
    ("יי", "ײ"),
];

/// The digit zero of every script with decimal digits, in order. The script's other digits follow its zero.
const ZEROS: [u32; 76] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50,
    0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
    0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40,
    0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da,
    0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0,
    0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0,
    0x1e5f1, 0x1e950, 0x1fbf0,
];

/// The value of a decimal digit of any script.
pub fn digit_of(c: char) -> Option<u32> {
    let c = u32::from(c);
    let zero = ZEROS[..ZEROS.partition_point(|zero| *zero <= c)].last()?;
    Some(c - zero).filter(|value| *value < 10)
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
            ("Smith \t\u{3000}\n Double", "smith double"),
            ("١٢٣ ۴۵ १२३ １２ 𝟘", "123 45 123 12 0"),
            ("ȺȾɆ Ƙola Ɗanladi Ƴar Ⱡ Ⱬ ȥ Ꜳ Ꝏ Ỻ", "ate kola danladi yar l z z aa oo ll"),
            ("Əliyev Ɛ Ɔ", "eliyev e o"),
            ("Қазақ Ғ Җ Өмір", "казак г ж омір"),
            ("علی کریم موسى فاطمة ٱلله شہزاد", "علي كريم موسي فاطمه الله شهزاد"),
            ("װײס", "ווייס"),
            ("‹a› 「b」 ՚c⸺d", "'a' \"b\" 'c-d"),
            ("ジャン゠ピエール １〜２", "ジャン-ピエール 1-2"),
            ("１～２ 〜～", "1-2 --"),
        ] {
            assert_eq!(folded(written), folded(typed), "{written} and {typed}");
        }
    }

    #[test]
    fn text_of_which_nothing_is_compared_is_known() {
        for text in ["", " ", "\t\u{3000}", "\u{200b}", "\u{ad}\u{feff}", "\u{301}", "\u{640}", "´\u{301}"] {
            assert_eq!(is_unseen(text), text != "´\u{301}", "{text:?}");
        }
    }

    #[test]
    fn digits_of_every_script_have_their_values() {
        let digits = |text: &str| text.chars().map(digit_of).collect::<Vec<_>>();
        for text in ["059", "٠٥٩", "۰۵۹", "०५९", "๐๕๙", "０５９", "𝟎𝟓𝟗"] {
            assert_eq!(digits(text), [Some(0), Some(5), Some(9)], "{text}");
        }
        assert_eq!(digits("/:a²½Ⅳ五\u{1d800}"), [None; 8]);
        assert!(ZEROS.is_sorted() && PLAIN.iter().all(|(_, all)| !all.is_empty()));
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
