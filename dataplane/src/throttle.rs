//! Slows down guessing of passwords: per user and source, per source, and per user. Unknown users are treated alike.
//!
//! A guess is counted when its check begins, so that parallel guesses gain nothing, and uncounted when it was right. No
//! user is locked out: a stranger's guesses make a user wait for at most 30 s; only the source that guesses waits for up
//! to five minutes. Behind a reverse proxy all clients are one source.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many wrong guesses are free. Each further one doubles the wait, up to the longest.
#[derive(Debug, Clone, Copy)]
struct Patience {
    free: u32,
    longest_ms: i64,
}

/// The limits for one user from one source.
const PER_USER_AND_SOURCE: Patience = Patience { free: 5, longest_ms: 5 * 60 * 1000 };
/// The limits for one user from all sources: two guesses a minute in total.
const PER_USER: Patience = Patience { free: 20, longest_ms: 30 * 1000 };
/// The limits for all users from one source, such as an office behind one address.
const PER_SOURCE: Patience = Patience { free: 50, longest_ms: 5 * 60 * 1000 };
/// A count without a guess for this long is forgotten.
const FORGET_MS: i64 = 15 * 60 * 1000;
/// The most counts in memory, of some 40 bytes each. When this many are kept, the older half is forgotten.
const MAX_COUNTS: usize = 100_000;

/// One guess: which user, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guess {
    /// The tenant's uid: the same userId in another tenant is another user.
    pub tenant: String,
    /// The userId in the form in which it is compared.
    pub user: String,
    /// The address that the request came from.
    pub source: IpAddr,
}

/// Refused for now: try again after this many seconds (1 to 300).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many failed sign-ins; try again in {seconds} s")]
pub struct TryLater {
    /// The value of the `Retry-After` header.
    pub seconds: u64,
}

/// The counts. They are in memory only: a restart gives a guesser five more tries.
#[derive(Debug, Default)]
pub struct Throttle {
    /// By a keyed hash: long userIds take no space, and no client can choose two that collide.
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
    /// Refuses a guess that has to wait. Counts nothing.
    pub fn check(&self, guess: &Guess, now_ms: i64) -> Result<(), TryLater> {
        let keys = self.keys(guess);
        wait(&self.lock(), &keys, now_ms)
    }

    /// Counts a guess, or refuses one that has to wait. A refused guess is not counted.
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

    /// Records that a guess was right: the user's counts are reset, and the source's is taken back.
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

/// The addresses of one subscriber: at least a /64 in IPv6.
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
    fn sixth_wrong_guess_waits_and_the_wait_doubles() {
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
    fn refused_guess_is_not_counted() {
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
    fn right_guess_resets_the_count_and_a_check_counts_nothing() {
        let throttle = Throttle::default();
        for _ in 0..100 {
            assert_eq!(throttle.check(&guess("u", 1), 0), Ok(()));
            assert_eq!(throttle.begin(&guess("u", 1), 0), Ok(()));
            throttle.right(&guess("u", 1));
        }
    }

    #[test]
    fn one_source_may_try_fifty_users() {
        let throttle = Throttle::default();
        let tried = (0..1000).take_while(|n| throttle.begin(&guess(&format!("u{n}"), 1), 1).is_ok()).count();
        assert_eq!(tried, 50);
        assert_eq!(throttle.begin(&guess("someone", 2), 1), Ok(()));
    }

    #[test]
    fn many_sources_may_try_one_user_but_not_lock_it_out() {
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
    fn ipv6_network_is_one_source() {
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
    fn wait_is_at_most_five_minutes_and_counts_expire_after_fifteen() {
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
    fn memory_stays_bounded() {
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
