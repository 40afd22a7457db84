//! Remembers which reads of payloads and people have an entry already: a page that shows a delivery reads it again every few seconds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use docket_listener::source::network;

/// The time in which a read has one entry, in milliseconds.
const WINDOW_MS: i64 = 5 * 60 * 1000;
/// The most reads that are remembered. At one more, the window ends early, so that each read still has an entry.
const MAX_READS: usize = 10_000;
/// The most networks that are distinguished among a user's reads of one subject. Reads from further networks have one entry,
/// without an address.
const MAX_NETWORKS: usize = 8;

/// Who read what.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AuditedRead {
    pub(super) tenant_uid: Arc<str>,
    pub(super) actor: Option<String>,
    pub(super) subject: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Reads {
    began_ms: i64,
    /// The networks from which each read came.
    seen: HashMap<AuditedRead, Vec<Option<IpAddr>>>,
}

impl Reads {
    /// Returns whether this read is the first of its window and needs an entry. Removes the address if it is from one network too
    /// many.
    pub(super) fn is_first(&mut self, read: AuditedRead, address: &mut Option<IpAddr>, now_ms: i64) -> bool {
        if self.seen.len() >= MAX_READS || now_ms.abs_diff(self.began_ms) >= WINDOW_MS.unsigned_abs() {
            *self = Self { began_ms: now_ms, seen: HashMap::new() };
        }
        let (networks, mut from) = (self.seen.entry(read).or_default(), address.map(network));
        if networks.len() >= MAX_NETWORKS && !networks.contains(&from) {
            (from, *address) = (None, None);
        }
        let is_first = !networks.contains(&from);
        if is_first {
            networks.push(from);
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(number: usize) -> AuditedRead {
        let (tenant_uid, actor) = ("t".into(), Some("employee 1".to_owned()));
        AuditedRead { tenant_uid, actor, subject: Some(number.to_string()) }
    }

    #[test]
    fn read_has_one_entry_in_a_window() {
        let mut reads = Reads::default();
        let minutes = |count: i64| count * 60_000;
        assert!(reads.is_first(read(1), &mut None, minutes(5)));
        assert!(!reads.is_first(read(1), &mut None, minutes(10) - 1));
        assert!(reads.is_first(read(1), &mut None, minutes(10)));
    }

    #[test]
    fn another_delivery_or_user_is_another_read() {
        let mut reads = Reads::default();
        let others = [
            read(1),
            read(2),
            AuditedRead { actor: None, ..read(1) },
            AuditedRead { tenant_uid: "u".into(), ..read(1) },
        ];
        for other in others {
            assert!(reads.is_first(other, &mut None, WINDOW_MS));
        }
    }

    #[test]
    fn user_with_many_addresses_has_few_entries_of_a_read() {
        let mut reads = Reads::default();
        let from = |net, host| Some([0x2001, 0xdb8, 0, net, host, 0, 0, 1].into());
        assert!(reads.is_first(read(1), &mut from(0, 0), WINDOW_MS));
        assert!(!reads.is_first(read(1), &mut from(0, 1), WINDOW_MS), "of one network");
        let count = (0..100).filter(|net| reads.is_first(read(1), &mut from(*net, 0), WINDOW_MS)).count();
        assert_eq!(count, MAX_NETWORKS, "with the one without an address");
        let mut other = from(200, 0);
        assert!(!reads.is_first(read(1), &mut other, WINDOW_MS) && other.is_none());
        assert!(reads.is_first(read(2), &mut from(99, 0), WINDOW_MS), "another delivery");
    }

    #[test]
    fn flood_of_reads_is_recorded_in_bounded_memory() {
        let mut reads = Reads::default();
        for number in 0..3 * MAX_READS {
            assert!(reads.is_first(read(number), &mut None, WINDOW_MS));
            assert!(reads.seen.len() <= MAX_READS);
        }
    }
}
