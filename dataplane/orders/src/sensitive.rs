//! Numbers that must not stand in free text: a full social security number in any text of an order, and a card number
//! in a note, which leaves the system with `note.created`. Both checks would rather refuse a look-alike than let a
//! number through.

/// Holds a social security number: `123-45-6789` with hyphens, blanks, dots or dashes, unless the text calls it a parcel's, or
/// nine digits in a row soon after "SSN" or "social security".
pub fn holds_full_ssn(text: &str) -> bool {
    if text.bytes().filter(u8::is_ascii_digit).count() < 9 {
        return false;
    }
    let chars: Vec<char> = text.chars().collect();
    (0..chars.len()).any(|start| {
        let at_edge = start == 0 || !chars[start - 1].is_ascii_digit();
        at_edge
            && match shape(&chars[start..]) {
                Some(Shape::Separated) => {
                    let before = |reach| Before::new(&chars[..start], reach);
                    before(REACH).names_ssn() || !before(LIST_REACH).names_parcel()
                }
                // Reference numbers look the same.
                Some(Shape::Bare) => Before::new(&chars[..start], REACH).names_ssn(),
                None => false,
            }
    })
}

/// How many characters before the digits a word counts.
const REACH: usize = 30;
/// The same for the word before a list of numbers: some 20 parcels.
const LIST_REACH: usize = 300;

enum Shape {
    /// `ddd?dd?dddd` with a separator at each `?`.
    Separated,
    /// Nine digits.
    Bare,
}

/// The form of the number at the start of `chars`, if it is one that may be a social security number.
fn shape(chars: &[char]) -> Option<Shape> {
    const FORMS: [(Shape, &[u8]); 2] = [(Shape::Separated, b"ddd?dd?dddd"), (Shape::Bare, b"ddddddddd")];
    FORMS.into_iter().find_map(|(shape, form)| {
        let fits = chars.len() >= form.len()
            && form.iter().zip(chars).all(|(form, c)| match form {
                b'd' => c.is_ascii_digit(),
                _ => matches!(c, '-' | ' ' | '.' | '\u{a0}' | '\u{2010}'..='\u{2015}' | '\u{2212}'),
            })
            && chars.get(form.len()).is_none_or(|c| !c.is_ascii_digit());
        let digits = || chars[..form.len()].iter().filter(|c| c.is_ascii_digit()).collect::<String>();
        (fits && may_be_ssn(&digits())).then_some(shape)
    })
}

/// Whether nine digits may be a social security number: none begins with 000, 666 or 9, and no part of one is only zeros.
fn may_be_ssn(digits: &str) -> bool {
    let (area, group, serial) = (&digits[..3], &digits[3..5], &digits[5..]);
    !matches!(area, "000" | "666") && !area.starts_with('9') && group != "00" && serial != "0000"
}

/// The words before a number, in lower case, without the dots of abbreviations.
struct Before(Vec<String>);

impl Before {
    fn new(chars: &[char], reach: usize) -> Self {
        let cut = chars.len().saturating_sub(reach);
        // A word that is cut in two is no word.
        let is_inside = |c: &char| c.is_alphanumeric();
        let cut = match cut > 0 && is_inside(&chars[cut - 1]) {
            true => cut + chars[cut..].iter().take_while(|c| is_inside(c)).count(),
            false => cut,
        };
        let text: String = chars[cut..].iter().collect();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
        let words = words.map(|word| word.replace('.', "").to_lowercase());
        Self(words.filter(|word| !word.is_empty()).collect())
    }

    /// Whether they call the number a social security number: `SSN`, `SS#`, `SS No.`, `Soc. Sec.`, `social security`, `social`. Other
    /// words after `social`, as in `Social Services`, make it another thing.
    fn names_ssn(&self) -> bool {
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
        self.0.iter().enumerate().any(|(place, word)| {
            let next = self.0.get(place + 1).map(String::as_str);
            match &**word {
                "ssn" | "ssns" | "socialsecurity" => true,
                "ss" | "social" => next.is_none_or(|next| MORE.contains(&next) || is_number(next)),
                "soc" => next.is_some_and(|next| next.starts_with("sec")),
                word => word.starts_with("socsec"),
            }
        })
    }

    /// Whether they call the number an assessor's parcel number, or one of several.
    fn names_parcel(&self) -> bool {
        const MORE: [&str; 10] = ["number", "numbers", "no", "nos", "num", "nr", "is", "are", "and", "id"];
        let last = self.0.iter().rev().find(|word| !MORE.contains(&word.as_str()) && !is_number(word));
        last.is_some_and(|word| matches!(&**word, "apn" | "apns" | "ain" | "parcel" | "parcels"))
    }
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// Holds a payment card number: 13 to 19 digits, in one run or in groups of four and more with single blanks
/// or hyphens, starting with 2 to 6 as cards do, with a valid check digit (Luhn).
pub fn holds_card_number(text: &str) -> bool {
    let mut groups: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        // Only a single blank or hyphen keeps two groups together.
        if !matches!(&rest[..start], " " | "-") {
            groups.clear();
        }
        let digits = &rest[start..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        groups.push(&digits[..end]);
        if (0..groups.len()).any(|first| is_card(&groups[first..])) {
            return true;
        }
        if groups.len() == 5 {
            groups.remove(0); // no card has more than five groups
        }
        rest = &digits[end..];
    }
    false
}

fn is_card(groups: &[&str]) -> bool {
    let length: usize = groups.iter().map(|group| group.len()).sum();
    let (_, before_last) = groups.split_last().unwrap_or((&"", &[]));
    (13..=19).contains(&length)
        && before_last.iter().all(|group| group.len() >= 4)
        && groups[0].starts_with(|c| ('2'..='6').contains(&c))
        && luhn(&groups.concat())
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
            "4111  1111 1111 1111",
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
    }
}
