//! Refused sign-ins of one tenant within one window, counted by source and name. However many there are, they become few entries.

use std::collections::HashMap;
use std::net::IpAddr;

/// The most lines of a window with address and name, and the most lines with an address alone. One further line counts all other
/// refusals.
pub(super) const MAX_LINES: usize = 20;

/// A sign-in that was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RefusedSignIn {
    /// The client's address, if it is known.
    pub(super) address: Option<IpAddr>,
    /// The digest of the name that the client sent; `None` if the tenant has no key.
    pub(super) name: Option<String>,
}

/// The time of the first refusal, and the number of all.
#[derive(Debug, Clone, Copy)]
struct RefusalCount {
    first_ms: i64,
    count: i64,
}

#[derive(Debug, Default)]
pub(super) struct RefusedSignIns {
    lines: HashMap<RefusedSignIn, RefusalCount>,
    addresses: HashMap<RefusedSignIn, RefusalCount>,
    others: Option<RefusalCount>,
}

impl RefusedSignIns {
    /// Counts a refusal.
    pub(super) fn add(&mut self, refusal: RefusedSignIn, now_ms: i64) {
        let new = RefusalCount { first_ms: now_ms, count: 0 };
        let address = RefusedSignIn { address: refusal.address, name: None };
        let line = match line(&mut self.lines, refusal, new) {
            Some(line) => line,
            None => line(&mut self.addresses, address, new).unwrap_or_else(|| self.others.get_or_insert(new)),
        };
        line.count += 1;
    }

    /// The lines in the order of their first refusals, each with the time of the first and the count. Refusals beyond the first
    /// bound are in lines without a name, and beyond the second bound in the line without an address.
    pub(super) fn lines(self) -> Vec<(RefusedSignIn, i64, i64)> {
        let others = self.others.map(|count| (RefusedSignIn::default(), count));
        let lines = self.lines.into_iter().chain(self.addresses).chain(others);
        let mut lines: Vec<_> =
            lines.map(|(refusal, RefusalCount { first_ms, count })| (refusal, first_ms, count)).collect();
        lines.sort_by_key(|(_, first_ms, _)| *first_ms);
        lines
    }
}

/// The line of a refusal; `None` if it would be one line too many.
fn line(
    lines: &mut HashMap<RefusedSignIn, RefusalCount>,
    refusal: RefusedSignIn,
    new: RefusalCount,
) -> Option<&mut RefusalCount> {
    if lines.len() >= MAX_LINES && !lines.contains_key(&refusal) {
        return None;
    }
    Some(lines.entry(refusal).or_insert(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: u8, name: usize) -> RefusedSignIn {
        RefusedSignIn { address: Some(IpAddr::from([192, 0, 2, source])), name: Some(name.to_string()) }
    }

    #[test]
    fn refusals_are_counted_by_source_and_name() {
        let mut refusals = RefusedSignIns::default();
        for (now_ms, source, name) in [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 2, 1), (5, 1, 1)] {
            refusals.add(refusal(source, name), now_ms);
        }
        let lines = [(refusal(1, 1), 1, 3), (refusal(1, 2), 3, 1), (refusal(2, 1), 4, 1)];
        assert_eq!(refusals.lines(), lines);
    }

    #[test]
    fn flood_of_names_is_few_lines_and_no_refusal_is_lost() {
        let mut refusals = RefusedSignIns::default();
        for name in 0..10_000 {
            refusals.add(refusal(1, name), 7);
            refusals.add(refusal(1, 3), 7);
        }
        let lines = refusals.lines();
        assert_eq!(lines.len(), MAX_LINES + 1, "one is of the address alone");
        assert_eq!(lines.iter().map(|(_, _, count)| count).sum::<i64>(), 20_000);
        assert!(lines.contains(&(refusal(1, 3), 7, 10_001)));
        let address = RefusedSignIn { name: None, ..refusal(1, 0) };
        assert!(lines.contains(&(address, 7, 10_000 - MAX_LINES as i64)));
    }

    #[test]
    fn flood_of_names_hides_no_address_until_there_are_too_many_addresses() {
        let mut refusals = RefusedSignIns::default();
        for name in 0..1_000 {
            refusals.add(refusal(1, name), 7);
        }
        for source in 2..100 {
            refusals.add(refusal(source, 3), 8);
        }
        let lines = refusals.lines();
        assert_eq!(lines.len(), 2 * MAX_LINES + 1);
        assert!(lines.contains(&(RefusedSignIn { name: None, ..refusal(2, 0) }, 8, 1)));
        assert!(lines.contains(&(RefusedSignIn::default(), 8, 98 - (MAX_LINES as i64 - 1))));
    }

    #[test]
    fn without_a_refusal_there_is_no_line() {
        assert_eq!(RefusedSignIns::default().lines(), []);
    }
}
