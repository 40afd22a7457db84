//! Slows guessing of passwords down, per tenant and userId and per source, for unknown users just the same.
//!
//! A guess is counted when it begins, so that many at once gain nothing, and taken back when it was right. There is no
//! lock-out: the delay ends by itself, since a hard lock would let anybody lock a customer out.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Wrong guesses that cost nothing, per tenant and userId.
const FREE_PER_USER: u32 = 5;
/// Wrong guesses that cost nothing, per source: an office behind one address.
const FREE_PER_SOURCE: u32 = 50;
/// The longest delay, and how long a silence it takes until all is forgotten.
const LONGEST_MS: i64 = 5 * 60 * 1000;
const FORGET_MS: i64 = 15 * 60 * 1000;
/// Entries kept of each kind; an attacker who fills this pays for it with as many requests.
const MAX_ENTRIES: usize = 50_000;

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
    users: Mutex<HashMap<(String, String), Count>>,
    sources: Mutex<HashMap<IpAddr, Count>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    wrong: u32,
    last_ms: i64,
}

impl Throttle {
    /// Counts a guess, or says how long to wait.
    pub fn begin(&self, guess: &Guess, now_ms: i64) -> Result<(), TryLater> {
        let user = (guess.tenant.clone(), guess.user.clone());
        begin(&self.users, user, FREE_PER_USER, now_ms)?;
        begin(&self.sources, guess.source, FREE_PER_SOURCE, now_ms)
    }

    /// The guess was right: the user starts afresh, and it does not count against the source.
    pub fn right(&self, guess: &Guess) {
        let user = (guess.tenant.clone(), guess.user.clone());
        self.users.lock().unwrap_or_else(PoisonError::into_inner).remove(&user);
        if let Some(count) =
            self.sources.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&guess.source)
        {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }
}

fn begin<K: Eq + Hash>(
    counts: &Mutex<HashMap<K, Count>>,
    key: K,
    free: u32,
    now_ms: i64,
) -> Result<(), TryLater> {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if counts.len() >= MAX_ENTRIES {
        counts.retain(|_, count| now_ms - count.last_ms < FORGET_MS);
        if counts.len() >= MAX_ENTRIES {
            counts.clear();
        }
    }
    let count = counts.entry(key).or_default();
    if now_ms - count.last_ms >= FORGET_MS {
        *count = Count::default();
    }
    let open_at = count.last_ms + delay_ms(count.wrong, free);
    if now_ms < open_at {
        let seconds = u64::try_from(open_at - now_ms).unwrap_or(0).div_ceil(1000).max(1);
        return Err(TryLater { seconds });
    }
    *count = Count { wrong: count.wrong.saturating_add(1), last_ms: now_ms };
    Ok(())
}

/// After the free ones 1, 2, 4, … seconds.
fn delay_ms(wrong: u32, free: u32) -> i64 {
    match wrong.checked_sub(free) {
        None => 0,
        Some(over) => (1000i64 << over.min(16)).min(LONGEST_MS),
    }
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
        assert_eq!(throttle.begin(&guess("u", 2), 1_000_500), Err(TryLater { seconds: 1 }));
        assert_eq!(throttle.begin(&guess("u", 1), 1_001_000), Ok(()));
        assert_eq!(throttle.begin(&guess("u", 1), 1_001_000), Err(TryLater { seconds: 2 }));
        assert_eq!(throttle.begin(&guess("other", 1), 1_001_000), Ok(()));
    }

    #[test]
    fn a_right_guess_starts_afresh() {
        let throttle = Throttle::default();
        for _ in 0..50 {
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
    fn the_longest_wait_is_five_minutes_and_all_is_forgotten_after_fifteen() {
        assert_eq!(delay_ms(40, FREE_PER_USER), LONGEST_MS);
        let throttle = Throttle::default();
        let mut now = 0;
        for _ in 0..40 {
            now += LONGEST_MS;
            assert_eq!(throttle.begin(&guess("u", 1), now), Ok(()));
        }
        assert!(throttle.begin(&guess("u", 1), now).is_err());
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), now + FORGET_MS), Ok(()));
        }
    }
}
