//! Numbers that must not stand in free text: a full social security number in any text of an order, and a card number
//! in a note, which leaves the system with `note.created`. Both checks read a plain form of the text. So the script,
//! the dashes and the blanks of a number do not matter. Both would rather refuse a similar number than accept a real
//! one.

use std::borrow::Cow;

use docket_domain::fold::{DASHES, WAVE_OF_WINDOWS, digit_of};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::blank::is_blank;

/// Whether a text contains a social security number. It is one of these: nine digits in groups of three, two and
/// four, unless the text calls them a parcel's number; nine digits in a row soon after "SSN" or "social security"; or
/// nine digits in other groups directly after such a name.
pub fn holds_full_ssn(text: &str) -> bool {
    let Some(text) = plain(text, 9) else { return false };
    let groups = groups(&text, "-./_\\·•‧:");
    (0..groups.len()).any(|first| {
        let Some(form) = form(&groups[first..]) else { return false };
        let before = &text[..groups[first].start];
        match form {
            DigitGrouping::Separated => {
                let before = Before::new(before, LIST_REACH);
                before.ssn_name().is_some() || !before.names_parcel()
            }
            // Reference numbers look the same.
            DigitGrouping::Row => Before::new(before, 2 * REACH).ssn_name().is_some(),
            DigitGrouping::Other => {
                !groups[first].joined && Before::new(before, 2 * REACH).ends_with_ssn_name()
            }
        }
    })
}

/// Whether a text contains a payment card number: 13 to 19 digits, in one run, or in groups of at least four with a
/// blank, dash or dot between them. The first digit is 2 to 6, as on cards, and the check digit is valid (Luhn).
pub fn holds_card_number(text: &str) -> bool {
    /// No card number has more groups than this.
    const MOST_GROUPS: usize = 5;
    let Some(text) = plain(text, 13) else { return false };
    let groups = groups(&text, "-.");
    (0..groups.len()).any(|first| {
        let more = groups[first + 1..].iter().take(MOST_GROUPS - 1).take_while(|group| group.joined);
        (1..=more.count() + 1).any(|count| is_card(&groups[first..first + count]))
    })
}

/// The text as a keyboard in the United States would write it, in lower case: ASCII digits, `-` for every dash, a
/// plain blank for every blank, and no invisible characters. Returns `None` if the text has fewer than `digits`
/// digits.
fn plain(text: &str, digits: usize) -> Option<String> {
    // Most texts have no digits at all. More can't be said here, because a character may stand for several digits.
    if !text.chars().any(char::is_numeric) {
        return None;
    }
    let ascii = |c: char| match c {
        '\n' => Some(c),
        _ if c.is_whitespace() => Some(' '),
        _ if is_blank(c) || is_combining_mark(c) => None,
        _ if is_dash(c) => Some('-'),
        _ => Some(digit_of(c).and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c)),
    };
    let text = text.chars().map(|c| if c == WAVE_OF_WINDOWS { '-' } else { c });
    let text: String = text.nfkd().filter_map(ascii).flat_map(char::to_lowercase).collect();
    (text.bytes().filter(u8::is_ascii_digit).count() >= digits).then_some(text)
}

/// Whether a character is a dash of any script, or the mark that lengthens a Japanese vowel, which people also type
/// as a dash. In a name this mark is a letter, so searches do not fold it.
fn is_dash(c: char) -> bool {
    matches!(c, '-' | 'ー') || DASHES.contains(c)
}

/// A run of digits.
struct Group<'a> {
    /// The position of the first digit in the text.
    start: usize,
    digits: &'a str,
    /// Whether nothing but a separator is between this group and the group before.
    joined: bool,
}

/// The groups of digits of a plain text. A separator of two groups is up to three blanks, or a mark, once or twice,
/// with up to four blanks around it.
fn groups<'a>(text: &'a str, marks: &str) -> Vec<Group<'a>> {
    let is_separator = |between: &str| {
        let mark = between.trim_matches(' ');
        let mut every = mark.chars();
        let first = every.next();
        match first {
            None => (1..=3).contains(&between.len()),
            Some(first) => {
                between.len() <= mark.len() + 4
                    && mark.chars().count() <= 2
                    && marks.contains(first)
                    && every.all(|c| c == first)
            }
        }
    };
    let (mut groups, mut end) = (Vec::new(), 0);
    while let Some(at) = text[end..].find(|c: char| c.is_ascii_digit()) {
        let start = end + at;
        let rest = &text[start..];
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        groups.push(Group { start, digits, joined: is_separator(&text[end..start]) });
        end = start + digits.len();
    }
    groups
}

/// How nine digits are grouped.
enum DigitGrouping {
    /// Groups of three, two and four digits.
    Separated,
    /// All nine in a row.
    Row,
    /// Other groups.
    Other,
}

/// The form of the number at the start of `groups`, if the number may be a social security number.
fn form(groups: &[Group<'_>]) -> Option<DigitGrouping> {
    let (mut digits, mut lengths) = (String::new(), Vec::new());
    for (place, Group { digits: group, joined, .. }) in groups.iter().enumerate() {
        if (place > 0 && !joined) || digits.len() + group.len() > 9 {
            return None;
        }
        digits.push_str(group);
        lengths.push(group.len());
        if digits.len() == 9 {
            let form = match &*lengths {
                [3, 2, 4] => DigitGrouping::Separated,
                [9] => DigitGrouping::Row,
                _ => DigitGrouping::Other,
            };
            return may_be_ssn(&digits).then_some(form);
        }
    }
    None
}

/// Whether nine digits may be a social security number: they do not begin with 000, 666 or 9, and no part has only zeros.
fn may_be_ssn(digits: &str) -> bool {
    let (area, group, serial) = (&digits[..3], &digits[3..5], &digits[5..]);
    !matches!(area, "000" | "666") && !area.starts_with('9') && group != "00" && serial != "0000"
}

/// How far before a number its name may begin, in characters: a little more than "Social Security Identification
/// Number of" has.
const REACH: usize = 48;
/// How far before a number the word for a parcel may be, in characters: room for a list of some 20 parcels.
const LIST_REACH: usize = 300;

/// The words before a number; the dots of abbreviations are removed.
struct Before<'a> {
    words: Vec<Cow<'a, str>>,
    /// The number of words that are further from the number than [`REACH`].
    far: usize,
}

impl<'a> Before<'a> {
    /// The words in the last `reach` characters of `text`.
    fn new(text: &'a str, reach: usize) -> Self {
        let words = last_words(text, reach);
        let far = words.len() - last_words(text, REACH).len();
        Self { words, far }
    }

    /// The index of the last word that calls the number a social security number: `SSN`, `SS#`, `SS No.`, `Soc.
    /// Sec.`, `social security`, `social`. Another word after `social`, as in `Social Services`, gives it another
    /// meaning. So do words that make `Social Security` the agency: courts number the agency's cases.
    fn ssn_name(&self) -> Option<usize> {
        (self.far..self.words.len()).rev().find(|place| {
            let next = self.words.get(place + 1).map(Cow::as_ref);
            match &*self.words[*place] {
                "ssn" | "ssns" | "ssan" => true,
                "social" | "soc" if next.is_some_and(|next| next.starts_with("sec")) => {
                    !self.is_agency(*place)
                }
                "ss" | "social" => next.is_none_or(|next| MORE.contains(&next) || is_number(next)),
                word => word.starts_with("socsec") || word.starts_with("socialsec"),
            }
        })
    }

    /// Whether the name of a social security number, with words that belong to the name, is directly before the number.
    fn ends_with_ssn_name(&self) -> bool {
        let belongs = |word: &str| {
            MORE.contains(&word) || matches!(word, "account" | "acct" | "card" | "identification")
        };
        self.ssn_name().is_some_and(|place| self.words[place + 1..].iter().all(|word| belongs(word)))
    }

    /// Whether the `social security` at this index is the agency: `Commissioner of Social Security`, `Soc. Sec. Admin.`
    fn is_agency(&self, place: usize) -> bool {
        let is_head = |word: &str| matches!(word, "commissioner" | "commr" | "comr" | "comm" | "secretary");
        let is_rest = |word: &str| word.starts_with("admin") || matches!(word, "agency" | "office" | "act");
        self.words[place.saturating_sub(3)..place].iter().any(|word| is_head(word))
            || self.words.get(place + 2).is_some_and(|word| is_rest(word) || is_head(word))
    }

    /// Whether the words call the number an assessor's parcel number, or one of several. A tax id does not count: it
    /// may be a person's.
    fn names_parcel(&self) -> bool {
        const MORE: [&str; 26] = [
            "number",
            "numbers",
            "no",
            "nos",
            "num",
            "nr",
            "id",
            "ids",
            "identification",
            "identifier",
            "index",
            "control",
            "account",
            "roll",
            "key",
            "is",
            "are",
            "and",
            "or",
            "through",
            "thru",
            "to",
            "all",
            "the",
            "being",
            "also",
        ];
        const PARTS: [&str; 5] = ["part", "parts", "portion", "portions", "por"];
        const NAMES: [&str; 8] = ["apn", "ain", "parcel", "pin", "pid", "tmk", "folio", "map"];
        let mut words = self.words.iter().rev().map(Cow::as_ref).peekable();
        while let Some(word) = words.next() {
            // `of` is skipped only after a part: the 2 in "APN 1 of 2" is not a parcel number, the 2 in "APN part of 2" is.
            let is_part = PARTS.contains(&word)
                || (word == "of" && words.peek().is_some_and(|before| PARTS.contains(before)));
            // A single letter is skipped too, because a number may have a letter, as in "No. 7A and B".
            if !is_part && !MORE.contains(&word) && !is_number(word) && word.chars().count() > 1 {
                return NAMES.contains(&word.strip_suffix('s').unwrap_or(word));
            }
        }
        false
    }
}

/// Words that may stand between the name of a social security number and the number.
const MORE: [&str; 14] = [
    "security",
    "sec",
    "insurance",
    "number",
    "numbers",
    "no",
    "nos",
    "num",
    "nr",
    "is",
    "was",
    "of",
    "for",
    "id",
];

/// The words among the last `reach` characters.
fn last_words(text: &str, reach: usize) -> Vec<Cow<'_, str>> {
    let cut = text.char_indices().rev().nth(reach - 1).map_or(0, |(at, _)| at);
    // A word that the limit cuts in two does not count.
    let near = match text[..cut].ends_with(char::is_alphanumeric) {
        true => text[cut..].trim_start_matches(char::is_alphanumeric),
        false => &text[cut..],
    };
    let words = near.split(|c: char| !c.is_alphanumeric() && c != '.');
    words.map(without_dots).filter(|word| !word.is_empty()).collect()
}

fn without_dots(word: &str) -> Cow<'_, str> {
    match word.contains('.') {
        true => Cow::Owned(word.replace('.', "")),
        false => Cow::Borrowed(word),
    }
}

/// Whether a word is a number, perhaps with letters behind it.
fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn is_card(groups: &[Group<'_>]) -> bool {
    let length: usize = groups.iter().map(|group| group.digits.len()).sum();
    let (_, before_last) = groups.split_last().expect("at least one group");
    (13..=19).contains(&length)
        && before_last.iter().all(|group| group.digits.len() >= 4)
        && groups[0].digits.starts_with(|c| ('2'..='6').contains(&c))
        && luhn(&groups.iter().map(|group| group.digits).collect::<String>())
}

fn luhn(digits: &str) -> bool {
    let doubled = |d: u32| if d > 4 { d * 2 - 9 } else { d * 2 };
    let digits = digits.chars().rev().filter_map(|c| c.to_digit(10)).enumerate();
    digits.map(|(i, d)| if i % 2 == 1 { doubled(d) } else { d }).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn social_security_number_is_found() {
        for text in [
            "078-05-1120",
            "SSN 078 05 1120.",
            "is 078.05.1120",
            "078–05–1120",
            "ssn:078051120",
            "Social Security number 078051120",
            "SS# 078051120",
            "SS No. 078051120",
            "Soc. Sec. No. 078051120",
            "S.S.N. 078051120",
            "his social is 078051120",
            "SSN of parcel 078-05-1120",
            "SSNs: 078051120, 219099998",
            "APN 116-05-0790 of 078-05-1120",
            "０７８-０５-１１２０",
            "٠٧٨-٠٥-١١٢٠",
            "०७८-०५-११२०",
            "𝟎𝟕𝟖-𝟎𝟓-𝟏𝟏𝟐𝟎",
            "0̶7̶8̶-0̶5̶-1̶1̶2̶0̶",
            "078－05－1120",
            "123～45～6789",
            "078〜05〜1120",
            "078﹣05﹣1120",
            "078﹘05⸺1120",
            "078−05‑1120",
            "078\u{202f}05\u{2009}1120",
            "0\u{200b}78-05\u{2060}-11\u{ad}20",
            "078\t05\t1120",
            "078/05/1120",
            "078_05_1120",
            "078·05·1120",
            "078 - 05 - 1120",
            "scan_078_05_1120.pdf",
            "078  05  1120",
            "078 -- 05 -- 1120",
            "078‧05‧1120",
            "078:05:1120",
            "078-05-⑪⑳",
            "ＳＳＮ 078051120",
            "SSN: 07805-1120",
            "SSN 078-051120",
            "SSN is 0 7 8 0 5 1 1 2 0",
            "SSAN 078051120",
            "Social Security Account Number 078051120",
            "Social Security Account Number 07805 1120",
            "SocialSecurityNumber=078051120",
            "Doe v. Commissioner of Social Security, SSN 202412345",
            "Commissioner of Social Security v. one with the social security number 078051120",
            "Tax ID 078-05-1120",
            "the pin of John Doe, 078-05-1120",
            "parcel post to Doe, 078-05-1120",
        ] {
            assert!(holds_full_ssn(text), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_not_social_security_numbers() {
        for text in [
            "213-555-0142",
            "078051120",
            "1078-05-1120",
            "078-05-11201",
            "case 26STCV99901",
            "ends in 1120",
            "Dept. of Social Services v. Doe, No. 202412345",
            "Social Work Club 202412345",
            "Class# 123456789",
            "Compass# 123456789",
            "USS 123456789",
            "a word that is cut, mission 123456789",
            "000-12-3456",
            "666-12-3456",
            "900-12-3456",
            "999-88-7777",
            "123-00-4567",
            "123-45-0000",
            "SSN 987654321",
            "APN: 116-05-0790",
            "Assessor's Parcel Nos. 116-05-0790, 116-05-0791 and 116-05-0792",
            "Parcel Identification Number 116-05-0790",
            "APN(s): 116-05-0790",
            "PIN 116-05-0790",
            "TMK: 116-05-0790",
            "Tax Map Key 116-05-0790",
            "Tax Map Nos. 116-05-0790",
            "Folio 116-05-0790",
            "Parcel Control Number: 116-05-0790",
            "Parcel № 116-05-0790",
            "A.P.N. 116-05-0790",
            "APN 116-05-0790, 116-05-0791 or 116-05-0792",
            "APNs 116-05-0790 through 116-05-0799",
            "APNs 116-05-0790A & 116-05-0791-B, 116-05-0792",
            "APN (part of) 116-05-0790",
            "APN 116-05-0790 and a portion of 116-05-0791",
            "Doe v. Commissioner of Social Security, No. 202412345",
            "Doe v. Comm'r of Soc. Sec., No. 202412345",
            "Doe v. Comm’r, Soc. Sec. Admin., 202412345",
            "Doe v. Acting Commissioner, Social Security Administration, No. 202412345",
            "Social Security Administration, Baltimore, MD 21235-6401",
            "his social security hearing, 12/05/2026 9 a.m.",
            "SSN card to Reno, NV 89501-1234",
            "(213) 555-0142",
            "213 555 0142",
            "+1-213-555-0142",
            "2026-12-05 and 12/05/2026",
            "26STCV99901, 2:24-cv-12345-ABC",
            "Los Angeles, CA 90012-1234",
            "12-3456789",
            "Exhibits 101, 12, 2024",
            "fees 435 + 60 + 1200",
            "101\n12\n2024",
            "",
        ] {
            assert!(!holds_full_ssn(text), "{text}");
        }
    }

    #[test]
    fn card_number_is_found() {
        for text in [
            "4111111111111111",
            "card 4111 1111 1111 1111 exp 12/27",
            "4111-1111-1111-1111",
            "3782 822463 10005",
            "ref 1234 4111 1111 1111 1111 12",
            "４１１１ １１１１ １１１１ １１１１",
            "4111－1111－1111－1111",
            "4111\u{202f}1111\t1111\u{a0}1111",
            "4111 - 1111 - 1111 - 1111",
            "4111.1111.1111.1111",
            "4\u{200b}111111111111111",
            "4111  1111 1111 1111",
            "٤١١١١١١١١١١١١١١١",
            "4222222222222",
            "4222222222222222224",
            "4222 2222 2222 2222 224",
            "2222222222222224",
            "6222222222222225",
        ] {
            assert!(holds_card_number(text), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_not_cards() {
        for text in [
            "4111111111111112",
            "213-555-0142 213-555-0143",
            "1234567890123",
            "4111\n1111\n1111\n1111",
            "4111/1111/1111/1111",
            "411 1111111111111",
            "422222222222 of 2026",
            "62222222222222222223",
            "1222222222222226",
            "7222222222222223",
            "",
            "90012-1234",
        ] {
            assert!(!holds_card_number(text), "{text}");
        }
    }

    #[test]
    fn long_text_is_checked_in_linear_time() {
        let digits = "4".repeat(1_000_000);
        assert!(!holds_full_ssn(&digits));
        assert!(!holds_card_number(&digits));
        assert!(!holds_card_number(&"4444 ".repeat(200_000)) || luhn("4444444444444444"));
        assert!(!holds_full_ssn(&"1 ".repeat(500_000)));
        assert!(!holds_full_ssn(&"1 1 1 1 1 1 1 1 1, ".repeat(50_000)));
        assert!(!holds_full_ssn(&"APN 116-05-0790, ".repeat(10_000)));
    }
}
