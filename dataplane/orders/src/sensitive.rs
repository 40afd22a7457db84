//! Numbers that must not stand in free text: a full social security number in any text of an order, and a card number
//! in a note, which leaves the system with `note.created`. Both checks would rather refuse a look-alike than let a
//! number through.

/// Holds a social security number: `123-45-6789` with hyphens, blanks, dots or dashes, or nine digits in a
/// row soon after "SSN" or "social security".
pub fn holds_full_ssn(text: &str) -> bool {
    if text.bytes().filter(u8::is_ascii_digit).count() < 9 {
        return false;
    }
    let chars: Vec<char> = text.chars().collect();
    (0..chars.len()).any(|start| {
        let at_edge = start == 0 || !chars[start - 1].is_ascii_digit();
        at_edge && (separated_ssn(&chars[start..]) || named_ssn(&chars, start))
    })
}

/// `ddd?dd?dddd` with a separator at each `?`, and no digit after.
fn separated_ssn(chars: &[char]) -> bool {
    const FORM: &[u8] = b"ddd?dd?dddd";
    chars.len() >= FORM.len()
        && FORM.iter().zip(chars).all(|(form, c)| match form {
            b'd' => c.is_ascii_digit(),
            _ => matches!(c, '-' | ' ' | '.' | '\u{a0}' | '\u{2010}'..='\u{2015}' | '\u{2212}'),
        })
        && chars.get(FORM.len()).is_none_or(|c| !c.is_ascii_digit())
}

/// Nine bare digits count as an SSN only if the text calls them one: reference numbers look the same.
fn named_ssn(chars: &[char], start: usize) -> bool {
    /// How many characters before the digits the word may stand.
    const REACH: usize = 30;
    if chars[start..].iter().take_while(|c| c.is_ascii_digit()).count() != 9 {
        return false;
    }
    let before: String = chars[start.saturating_sub(REACH)..start].iter().collect();
    let before = before.to_lowercase();
    ["ssn", "ss#", "social"].iter().any(|word| before.contains(word))
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
