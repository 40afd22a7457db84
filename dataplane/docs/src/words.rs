//! The words of texts and of queries, and the terms that the index has for them: in lower case, without endings.

/// Words that say nothing about the subject of a page.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "do", "does", "for", "from", "get",
    "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "not", "of", "on", "one",
    "or", "our", "s", "should", "so", "t", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "to", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whose",
    "why", "will", "with", "would", "you", "your",
];
/// Endings that are cut off if at least two syllables stay.
const SUFFIXES: &[&str] = &["ation", "ion", "ment", "or", "er", "al", "ly"];

/// Returns the words of a text, each with its position: its runs of letters and digits.
pub(crate) fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut all, mut begin) = (Vec::new(), None);
    for (at, c) in text.char_indices() {
        match (begin, c.is_alphanumeric()) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                all.push((from, &text[from..at]));
                begin = None;
            }
            _ => {}
        }
    }
    all.extend(begin.map(|from| (from, &text[from..])));
    all
}

/// Returns the words of a query that say something: without stop words and numbers of
/// one or two digits. If nothing else is there, returns all words.
pub(crate) fn telling(text: &str) -> Vec<&str> {
    let all: Vec<&str> = words(text).into_iter().map(|(_, word)| word).collect();
    let telling: Vec<&str> = all.iter().copied().filter(|word| is_telling(word)).collect();
    if telling.is_empty() { all } else { telling }
}

/// Returns the terms of a word and of its parts. A stop word has none.
pub(crate) fn terms(word: &str) -> Vec<String> {
    let parts = parts(word).into_iter().filter(|part| part.len() > 1);
    Some(word).into_iter().chain(parts).filter(|word| !is_stop_word(word)).map(term).collect()
}

/// Returns the term of one word: in lower case, without the endings of English, so that `Signatures` and `signature` have
/// the same.
pub(crate) fn term(word: &str) -> String {
    let word = word.to_lowercase();
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    let mut stem = singular(&word);
    if let Some(without) = ["ing", "ed"].iter().find_map(|suffix| stem.strip_suffix(*suffix))
        && without.len() > 2
        && without.bytes().any(is_vowel)
    {
        stem = single(without).to_owned();
    }
    let without =
        SUFFIXES.iter().filter_map(|suffix| stem.strip_suffix(*suffix)).find(|rest| syllables(rest) > 1);
    if let Some(without) = without {
        stem = without.to_owned();
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    stem
}

/// Returns the parts of a word that is several: `ca`, `Bundle` and `Ref` of `caBundleRef`. A simple word has none.
pub(crate) fn parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let begins_part = |at: &usize| {
        let (before, here) = (chars[at - 1].1, chars[*at].1);
        let is_before_lower = chars.get(at + 1).is_some_and(|(_, next)| next.is_lowercase());
        let begins_word = here.is_uppercase() && (before.is_lowercase() || is_before_lower);
        begins_word || before.is_numeric() != here.is_numeric()
    };
    let mut cuts: Vec<usize> = (1..chars.len()).filter(begins_part).map(|at| chars[at].0).collect();
    if cuts.is_empty() {
        return Vec::new();
    }
    cuts.insert(0, 0);
    cuts.push(word.len());
    cuts.windows(2).map(|cut| &word[cut[0]..cut[1]]).collect()
}

/// Whether one letter differs between two words that begin with the same letter: it is another letter, is missing, or has
/// changed places with its neighbour.
pub(crate) fn is_near(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let (short, long) = (short.as_bytes(), long.as_bytes());
    if long.len() - short.len() > 1 || short.first() != long.first() {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short_rest, long_rest) = (&short[same..], &long[same..]);
    match (short_rest, long_rest) {
        (_, []) => true,
        (_, [_, rest @ ..]) if short.len() < long.len() => short_rest == rest,
        ([_, rest @ ..], [_, other @ ..]) if rest == other => true,
        ([a, b, rest @ ..], [c, d, other @ ..]) => a == d && b == c && rest == other,
        _ => false,
    }
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word.to_lowercase().as_str())
}

fn is_telling(word: &str) -> bool {
    let is_short_number = word.len() < 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    !is_short_number && !is_stop_word(word)
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// The number of syllables that end in a consonant.
fn syllables(word: &str) -> usize {
    word.as_bytes().windows(2).filter(|pair| is_vowel(pair[0]) && !is_vowel(pair[1])).count()
}

fn singular(word: &str) -> String {
    if let Some(without) = word.strip_suffix("ies") {
        return format!("{without}y");
    }
    let is_singular = ["ss", "us", "is"].iter().any(|ending| word.ends_with(*ending));
    let has_es = ["sses", "xes", "ches", "shes"].iter().any(|ending| word.ends_with(*ending));
    let cut = if has_es { "es" } else { "s" };
    word.strip_suffix(cut).filter(|_| !is_singular).unwrap_or(word).to_owned()
}

/// The word without its last letter if this letter is double: `stop` of `stopp`, but `call` of `call`.
fn single(word: &str) -> &str {
    match word.as_bytes() {
        [_, .., a, b] if word.len() > 3 && a == b && !matches!(b, b'l' | b's' | b'z') => {
            &word[..word.len() - 1]
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_with_their_positions() {
        assert_eq!(words("`--data-dir`: é1"), [(3, "data"), (8, "dir"), (14, "é1")]);
        assert!(words(" -- ").is_empty() && words("").is_empty());
    }

    #[test]
    fn forms_of_a_word_have_the_same_term() {
        for forms in [
            &["signature", "Signatures"][..],
            &["retry", "retries", "retried"],
            &["rotate", "rotating", "rotated", "rotation"],
            &["deliver", "delivers", "delivered", "delivering"],
            &["install", "installing", "installation"],
            &["stop", "stops", "stopped", "stopping"],
            &["process", "processes", "processing"],
            &["status"],
        ] {
            let terms: Vec<String> = forms.iter().map(|form| term(form)).collect();
            assert!(terms.iter().all(|term| *term == terms[0]), "{forms:?}: {terms:?}");
        }
        for (one, other) in [("order", "old"), ("status", "state"), ("dns", "dn"), ("sha256", "sha")] {
            assert_ne!(term(one), term(other), "{one}");
        }
        assert_eq!(term("ÄPFEL"), "äpfel");
    }

    #[test]
    fn a_word_of_several_has_the_terms_of_its_parts() {
        for (word, expected) in [
            ("caBundleRef", &["ca", "Bundle", "Ref"][..]),
            ("TLSUntrusted", &["TLS", "Untrusted"]),
            ("sha256", &["sha", "256"]),
            ("DOCKET", &[]),
            ("Secret", &[]),
            ("", &[]),
        ] {
            assert_eq!(parts(word), expected, "{word}");
        }
        assert_eq!(terms("SelfSigned"), ["selfsign", "self", "sign"]);
        assert!(terms("How").is_empty());
    }

    #[test]
    fn stop_words_and_short_numbers_of_a_query_do_not_count_unless_nothing_else_is_there() {
        assert_eq!(telling("How do I add a Tenant?"), ["add", "Tenant"]);
        assert_eq!(telling("BlockedAddress 10.0.0.5"), ["BlockedAddress"]);
        assert_eq!(telling("HTTP 429"), ["HTTP", "429"]);
        assert_eq!(telling("to be"), ["to", "be"]);
        assert!(telling("?").is_empty());
    }

    #[test]
    fn words_with_one_wrong_letter_are_near() {
        for (one, other) in
            [("webook", "webhook"), ("tenat", "tenant"), ("singature", "signature"), ("redos", "redis")]
        {
            assert!(is_near(one, other) && is_near(other, one), "{one} {other}");
        }
        for (one, other) in [("redis", "rides"), ("enant", "tenant"), ("abcde", "abcdefg"), ("", "a")] {
            assert!(!is_near(one, other), "{one} {other}");
        }
        assert!(is_near("same", "same"));
    }
}
