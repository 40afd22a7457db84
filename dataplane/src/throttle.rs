//! Slows guessing of passwords down, for unknown users just the same: per user and source, per source, and per user.
//!
//! A guess is counted when its check begins, so that many at once gain nothing, and taken back when it was right. Nobody
//! is locked out: a stranger's guesses make others wait for half a minute at most, and the five minutes are only for the
//! source that guesses. Behind a reverse proxy all clients are one source.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many wrong guesses cost nothing, and how long the wait gets that doubles with each one after.
#[derive(Debug, Clone, Copy)]
struct Patience {
    free: u32,
    longest_ms: i64,
}

/// One source at one user.
const PER_USER_AND_SOURCE: Patience = Patience { free: 5, longest_ms: 5 * 60 * 1000 };
/// One user, from everywhere: two guesses a minute for all the world together.
const PER_USER: Patience = Patience { free: 20, longest_ms: 30 * 1000 };
/// One source at all users: an office behind one address.
const PER_SOURCE: Patience = Patience { free: 50, longest_ms: 5 * 60 * 1000 };
/// A silence after which all is forgotten.
const FORGET_MS: i64 = 15 * 60 * 1000;
/// Counts kept, of some 40 bytes each; when they are full the older half is forgotten.
const MAX_COUNTS: usize = 100_000;

/// Who is guessing at what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guess {
    /// The tenant's uid; a userId is another one in another tenant.
    pub tenant: String,
    /// The userId in the form it is compared by.
    pub user: String,
    /// Where the request came from.
    pub source: IpAddr,
}

/// Not now: try again after so many seconds (1 to 300).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many wrong guesses; try again in {seconds} s")]
pub struct TryLater {
    /// For `Retry-After`.
    pub seconds: u64,
}

/// The counts. In memory: a restart forgets them, which gives a guesser five tries more.
#[derive(Debug, Default)]
pub struct Throttle {
    /// By a keyed hash, so that long userIds take no room and nobody can choose two that meet.
    counts: Mutex<HashMap<u64, Count>>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    wrong: u32,
    last_ms: i64,
}

impl Count {
    /// When the next guess may begin.
    fn open_at(self, patience: Patience) -> i64 {
        match self.wrong.checked_sub(patience.free) {
            None => self.last_ms,
            Some(over) => self.last_ms + (1000i64 << over.min(16)).min(patience.longest_ms),
        }
    }
}

impl Throttle {
    /// Says how long a guess would have to wait, before anything is done for it.
    pub fn check(&self, guess: &Guess, now_ms: i64) -> Result<(), TryLater> {
        let keys = self.keys(guess);
        wait(&self.lock(), &keys, now_ms)
    }

    /// Counts a guess, or says how long to wait; a guess that has to wait is not counted.
    pub fn begin(&self, guess: &Guess, now_ms: i64) -> Result<(), TryLater> {
        let keys = self.keys(guess);
        let mut counts = self.lock();
        wait(&counts, &keys, now_ms)?;
        if counts.len() + keys.len() > MAX_COUNTS {
            forget_older_half(&mut counts);
        }
        for (key, _) in keys {
            let count = counts.entry(key).or_default();
            let wrong = if now_ms - count.last_ms < FORGET_MS { count.wrong } else { 0 };
            *count = Count { wrong: wrong.saturating_add(1), last_ms: now_ms };
        }
        Ok(())
    }

    /// The guess was right: the user starts afresh, and it does not count against the source.
    pub fn right(&self, guess: &Guess) {
        let [(user_and_source, _), (user, _), (source, _)] = self.keys(guess);
        let mut counts = self.lock();
        counts.remove(&user_and_source);
        counts.remove(&user);
        if let Some(count) = counts.get_mut(&source) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }

    fn keys(&self, guess: &Guess) -> [(u64, Patience); 3] {
        let Guess { tenant, user, source } = guess;
        let source = network(*source);
        [
            (self.hasher.hash_one((0u8, tenant, user, source)), PER_USER_AND_SOURCE),
            (self.hasher.hash_one((1u8, tenant, user)), PER_USER),
            (self.hasher.hash_one((2u8, source)), PER_SOURCE),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(counts: &HashMap<u64, Count>, keys: &[(u64, Patience)], now_ms: i64) -> Result<(), TryLater> {
    let known = |key: &u64| counts.get(key).copied().filter(|count| now_ms - count.last_ms < FORGET_MS);
    let waits = keys.iter().filter_map(|(key, patience)| Some(known(key)?.open_at(*patience) - now_ms));
    match waits.max().and_then(|wait_ms| u64::try_from(wait_ms).ok()) {
        None | Some(0) => Ok(()),
        Some(wait_ms) => Err(TryLater { seconds: wait_ms.div_ceil(1000) }),
    }
}

/// What one subscriber has of addresses: an IPv6 one has at least a /64.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
        v4 => v4,
    }
}

fn forget_older_half(counts: &mut HashMap<u64, Count>) {
    let mut times: Vec<i64> = counts.values().map(|count| count.last_ms).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    counts.retain(|_, count| count.last_ms > median);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(user: &str, source: u8) -> Guess {
        Guess { tenant: "a".into(), user: user.into(), source: IpAddr::from([192, 0, 2, source]) }
    }

    #[test]
    fn the_sixth_wrong_guess_waits_and_the_wait_doubles() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), 1_000_000), Ok(()));
        }
        assert_eq!(throttle.begin(&guess("u", 1), 1_000_000), Err(TryLater { seconds: 1 }));
        assert_eq!(throttle.begin(&guess("u", 1), 1_001_000), Ok(()));
        assert_eq!(throttle.begin(&guess("u", 1), 1_001_000), Err(TryLater { seconds: 2 }));
        assert_eq!(throttle.begin(&guess("other", 1), 1_001_000), Ok(()));
        assert_eq!(throttle.begin(&guess("u", 2), 1_001_000), Ok(()));
    }

    #[test]
    fn a_guess_that_waits_is_not_counted() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), 1_000), Ok(()));
        }
        for _ in 0..1000 {
            assert_eq!(throttle.begin(&guess("u", 1), 1_000), Err(TryLater { seconds: 1 }));
        }
        assert_eq!(throttle.begin(&guess("v", 1), 1_000), Ok(()));
    }

    #[test]
    fn a_right_guess_starts_afresh_and_a_look_counts_nothing() {
        let throttle = Throttle::default();
        for _ in 0..100 {
            assert_eq!(throttle.check(&guess("u", 1), 0), Ok(()));
            assert_eq!(throttle.begin(&guess("u", 1), 0), Ok(()));
            throttle.right(&guess("u", 1));
        }
    }

    #[test]
    fn one_source_cannot_try_many_users() {
        let throttle = Throttle::default();
        let tried = (0..1000).take_while(|n| throttle.begin(&guess(&format!("u{n}"), 1), 1).is_ok()).count();
        assert_eq!(tried, 50);
        assert_eq!(throttle.begin(&guess("someone", 2), 1), Ok(()));
    }

    #[test]
    fn many_sources_cannot_try_one_user_nor_lock_it_out() {
        let throttle = Throttle::default();
        let tried = (0..=255).take_while(|source| throttle.begin(&guess("u", *source), 1).is_ok()).count();
        assert_eq!(tried, 20);
        let mut now = 1;
        for source in 0..=255 {
            now += PER_USER.longest_ms;
            assert_eq!(throttle.begin(&guess("u", source), now), Ok(()));
        }
        assert_eq!(throttle.begin(&guess("u", 7), now), Err(TryLater { seconds: 30 }));
    }

    #[test]
    fn one_ipv6_network_is_one_source() {
        let throttle = Throttle::default();
        let from = |host: u16, user: usize| Guess {
            tenant: "a".into(),
            user: user.to_string(),
            source: Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host).into(),
        };
        let tried = (0..1000).take_while(|n| throttle.begin(&from(*n as u16, *n), 1).is_ok()).count();
        assert_eq!(tried, 50);
    }

    #[test]
    fn the_longest_wait_is_five_minutes_and_all_is_forgotten_after_fifteen() {
        let throttle = Throttle::default();
        let mut now = 0;
        for _ in 0..40 {
            now += PER_USER_AND_SOURCE.longest_ms;
            assert_eq!(throttle.begin(&guess("u", 1), now), Ok(()));
        }
        assert_eq!(throttle.begin(&guess("u", 1), now), Err(TryLater { seconds: 300 }));
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), now + FORGET_MS), Ok(()));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let throttle = Throttle::default();
        for n in 0..MAX_COUNTS as u32 {
            let guess = Guess {
                tenant: "a".into(),
                user: n.to_string(),
                source: IpAddr::from((0x0a00_0000 + n).to_be_bytes()),
            };
            assert_eq!(throttle.begin(&guess, i64::from(n)), Ok(()));
        }
        assert!(throttle.lock().len() <= MAX_COUNTS);
    }
}
