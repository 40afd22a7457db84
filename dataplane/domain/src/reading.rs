//! What a number or an id from a person may be, in upper or lower case.

use crate::delivery::DeliveryId;

/// Something that a text may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The id of a delivery.
    Delivery(DeliveryId),
    /// The id of an event.
    Event(String),
    /// The number of a web order, a work order or an invoice, or a customer's code.
    Number(String),
    /// The number of a work order, with which the text begins as a facilityKey.
    WorkOrder(String),
}

/// Returns what a text may be, in the order in which to look for it. Docket's own numbers and ids have one spelling. An invoice's
/// number comes from another program, so the text as it was written is a number, too.
pub fn readings(text: &str) -> Vec<Reading> {
    let text = text.trim();
    let (lower, upper) = (text.to_lowercase(), text.to_uppercase());
    let delivery = lower.parse::<DeliveryId>().ok().filter(|id| id.to_string() == lower);
    let ids = [delivery.map(Reading::Delivery), event_id(text).map(Reading::Event)];
    let work_order = upper.split(['-', ':']).next().filter(|first| is_number(first) && *first != upper);
    let work_order = work_order.map(str::to_owned).map(Reading::WorkOrder);
    let mut numbers = vec![text.to_owned()];
    for other in [upper, lower] {
        if !numbers.contains(&other) {
            numbers.push(other);
        }
    }
    let numbers = numbers.into_iter().map(Reading::Number);
    ids.into_iter().flatten().chain(numbers).chain(work_order).collect()
}

/// Returns the id of an event in the spelling of Docket: `evt_` and 32 hexadecimal digits. The text may be in any case, and without
/// the beginning.
pub fn event_id(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let digits = text.strip_prefix("evt_").unwrap_or(&text);
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| format!("evt_{digits}"))
}

/// Whether a text is letters and then digits, as a number that Docket gives.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(|first: char| first.is_ascii_uppercase());
    digits.len() < text.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(all: &[&str]) -> Vec<Reading> {
        all.iter().map(|number| Reading::Number((*number).to_owned())).collect()
    }

    #[test]
    fn numbers_are_read_in_any_case() {
        assert_eq!(readings(" w00000026 "), numbers(&["w00000026", "W00000026"]));
        assert_eq!(readings("W00000026"), numbers(&["W00000026", "w00000026"]));
        assert_eq!(readings("Inv-2a"), numbers(&["Inv-2a", "INV-2A", "inv-2a"]));
        assert_eq!(readings("4711"), numbers(&["4711"]));
        assert_eq!(readings("evt_0"), numbers(&["evt_0", "EVT_0"]));
    }

    #[test]
    fn facility_key_begins_with_the_number_of_its_work_order() {
        for (text, spellings) in [("CT7-F00213", ["CT7-F00213", "ct7-f00213"]), ("ct7:1", ["ct7:1", "CT7:1"])]
        {
            let mut expected = numbers(&spellings);
            expected.push(Reading::WorkOrder("CT7".to_owned()));
            assert_eq!(readings(text), expected);
        }
    }

    #[test]
    fn id_comes_before_numbers_of_the_same_text() {
        let id = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
        let delivery = Reading::Delivery(id.parse().expect("an id"));
        assert_eq!(readings(&id.to_uppercase())[0], delivery);
        let event = "evt_0193f0c2a1b07c3e9d6f5a4b3c2d1e0f";
        for text in [event, &event.to_uppercase(), &event[4..]] {
            let all = readings(text);
            assert_eq!(all[..2], [Reading::Event(event.to_owned()), Reading::Number(text.to_owned())]);
        }
    }

    #[test]
    fn id_of_an_event_has_32_hexadecimal_digits() {
        assert_eq!(
            event_id(" EVT_01A21B15E12C4444AA5CB7C4DE205D11 ").as_deref(),
            Some("evt_01a21b15e12c4444aa5cb7c4de205d11")
        );
        for other in ["evt_", "evt_01a2", "W00000027", "evt_01a21b15e12c4444aa5cb7c4de205d1g"] {
            assert_eq!(event_id(other), None, "{other}");
        }
    }
}
