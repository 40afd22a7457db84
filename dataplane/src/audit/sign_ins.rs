//! Sign-ins of one tenant. The sign-ins of one user and network within a minute are one entry, so a user that signs in again and
//! again makes few entries, whatever the number of addresses.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use docket_domain::audit::AuditRecord;
use docket_listener::source::network;

/// The most users and networks whose sign-ins are counted in one window. Beyond that, each sign-in is an entry of its own.
const MAX_LINES: usize = 1_000;

/// The most networks of one user that are counted separately. Sign-ins from further networks are one entry, without an address.
const MAX_NETWORKS: usize = 8;

/// The user and the network of a sign-in. The network is `None` if it is not known, or one of too many.
type SignInKey = (Option<String>, Option<IpAddr>);

#[derive(Debug, Default)]
pub(super) struct SignIns {
    /// The entry of the sign-ins after the first, by user and network; `None` if there were none.
    lines: HashMap<SignInKey, Option<AuditRecord>>,
}

impl SignIns {
    /// Counts a sign-in. Returns it if it is the first, which must be recorded at once.
    pub(super) fn add(&mut self, record: AuditRecord) -> Option<AuditRecord> {
        let is_full = self.lines.len() >= MAX_LINES;
        let mut record = record;
        let mut line = (record.actor.clone(), record.origin.address.map(network));
        let of_user = || self.lines.keys().filter(|(actor, _)| *actor == record.actor).count();
        if line.1.is_some() && !self.lines.contains_key(&line) && of_user() >= MAX_NETWORKS {
            (line.1, record.origin.address) = (None, None);
        }
        match self.lines.entry(line) {
            Entry::Vacant(_) if is_full => Some(record),
            Entry::Vacant(line) => {
                line.insert(None);
                Some(record)
            }
            Entry::Occupied(mut line) => {
                line.get_mut().get_or_insert(AuditRecord { count: 0, ..record }).count += 1;
                None
            }
        }
    }

    /// Ends a window. Returns the entries of the counted sign-ins, in the order of their first sign-ins. The next sign-in of one of
    /// these users and networks is counted in the next window, without an entry at once.
    pub(super) fn end(&mut self) -> Vec<AuditRecord> {
        self.lines.retain(|_, more| more.is_some());
        let mut records: Vec<AuditRecord> = self.lines.values_mut().filter_map(Option::take).collect();
        records.sort_by_key(|record| record.at_ms);
        records
    }
}

#[cfg(test)]
mod tests {
    use docket_domain::audit::{Actor, AuditEvent, Origin};

    use super::*;

    fn sign_in(at_ms: i64, user: usize, source: u8) -> AuditRecord {
        let origin =
            Origin { address: Some([192, 0, 2, source].into()), request_id: Some(at_ms.to_string()) };
        AuditRecord::new(AuditEvent::SignedIn, at_ms, at_ms.to_be_bytes())
            .by(&Actor::Contact(user.to_string()))
            .at(origin)
    }

    #[test]
    fn first_sign_in_is_recorded_at_once_and_the_next_ones_together() {
        let mut sign_ins = SignIns::default();
        assert_eq!(sign_ins.add(sign_in(1, 1, 1)), Some(sign_in(1, 1, 1)));
        assert_eq!(sign_ins.add(sign_in(2, 2, 1)), Some(sign_in(2, 2, 1)), "another user");
        assert_eq!(sign_ins.add(sign_in(3, 1, 2)), Some(sign_in(3, 1, 2)), "another address");
        for at_ms in 4..9 {
            assert_eq!(sign_ins.add(sign_in(at_ms, 1, 1)), None);
        }
        assert_eq!(sign_ins.end(), [sign_in(4, 1, 1).times(5)]);
    }

    #[test]
    fn user_who_never_stops_makes_one_entry_of_each_window() {
        let mut sign_ins = SignIns::default();
        assert!(sign_ins.add(sign_in(0, 1, 1)).is_some());
        for window in 1..5 {
            for _ in 0..100 {
                assert_eq!(sign_ins.add(sign_in(window, 1, 1)), None);
            }
            assert_eq!(sign_ins.end(), [sign_in(window, 1, 1).times(100)]);
        }
        assert!(sign_ins.end().is_empty(), "nothing came");
        assert!(sign_ins.add(sign_in(6, 1, 1)).is_some(), "after a window without one");
    }

    #[test]
    fn user_with_many_addresses_makes_few_entries() {
        let mut sign_ins = SignIns::default();
        let from = |at_ms, address: [u16; 8]| {
            let mut record = sign_in(at_ms, 1, 0);
            record.origin.address = Some(address.into());
            record
        };
        assert!(sign_ins.add(from(1, [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])).is_some());
        for host in 2..100 {
            assert_eq!(sign_ins.add(from(2, [0x2001, 0xdb8, 0, 0, host, 0, 0, 1])), None, "of one network");
        }
        let at_once = (1..100).filter_map(|net| sign_ins.add(from(3, [0x2001, 0xdb8, 0, net, 0, 0, 0, 1])));
        let addresses: Vec<_> = at_once.map(|record| record.origin.address.is_some()).collect();
        assert_eq!(addresses, [[true; MAX_NETWORKS - 1].as_slice(), &[false]].concat());
        let counted: Vec<_> = sign_ins
            .end()
            .into_iter()
            .map(|record| (record.origin.address.is_some(), record.count))
            .collect();
        assert_eq!(counted, [(true, 98), (false, 99 - MAX_NETWORKS as i64)]);
    }

    #[test]
    fn flood_of_users_is_recorded_in_bounded_memory() {
        let mut sign_ins = SignIns::default();
        for user in 0..3 * MAX_LINES {
            assert!(sign_ins.add(sign_in(1, user, 1)).is_some());
        }
        assert_eq!(sign_ins.lines.len(), MAX_LINES);
    }
}
