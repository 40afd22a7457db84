//! Reads of payloads that have an entry already. A page that shows a delivery reads it again every few seconds.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// A read has one entry in this time, in milliseconds.
const WINDOW_MS: i64 = 5 * 60 * 1000;
/// The most reads that are remembered. Beyond that a window ends early, so no read is left out without an entry before it.
const MAX_READS: usize = 10_000;

/// Who read what, from where.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Read {
    pub(super) tenant_uid: Arc<str>,
    pub(super) actor: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) address: Option<IpAddr>,
}

#[derive(Debug, Default)]
pub(super) struct Reads {
    began_ms: i64,
    seen: HashSet<Read>,
}

impl Reads {
    /// Whether this read is the first of its window, which has to be recorded.
    pub(super) fn is_first(&mut self, read: Read, now_ms: i64) -> bool {
        if self.seen.len() >= MAX_READS || now_ms.abs_diff(self.began_ms) >= WINDOW_MS.unsigned_abs() {
            *self = Self { began_ms: now_ms, seen: HashSet::new() };
        }
        self.seen.insert(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(number: usize) -> Read {
        let (tenant_uid, actor) = ("t".into(), Some("employee 1".to_owned()));
        Read { tenant_uid, actor, subject: Some(number.to_string()), address: None }
    }

    #[test]
    fn read_has_one_entry_in_a_window() {
        let mut reads = Reads::default();
        assert!(reads.is_first(read(1), WINDOW_MS));
        assert!(!reads.is_first(read(1), 2 * WINDOW_MS - 1));
        assert!(reads.is_first(read(1), 2 * WINDOW_MS));
    }

    #[test]
    fn another_delivery_user_or_address_is_another_read() {
        let mut reads = Reads::default();
        let others = [
            read(1),
            read(2),
            Read { actor: None, ..read(1) },
            Read { tenant_uid: "u".into(), ..read(1) },
            Read { address: Some([192, 0, 2, 1].into()), ..read(1) },
        ];
        for other in others {
            assert!(reads.is_first(other, WINDOW_MS));
        }
    }

    #[test]
    fn flood_of_reads_leaves_none_out_and_takes_a_bounded_place() {
        let mut reads = Reads::default();
        for number in 0..3 * MAX_READS {
            assert!(reads.is_first(read(number), WINDOW_MS));
            assert!(reads.seen.len() <= MAX_READS);
        }
    }
}
