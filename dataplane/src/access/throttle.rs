//! Slows down the guessing of passwords: per user and source, per user, and per tenant and source. Unknown users are treated like
//! known ones. Tenants share one count only: the client codes that a source names on the legacy host.
//!
//! A guess is counted when its check begins, so that parallel guesses gain nothing, and the count is taken back if the guess was
//! right. A user who has signed in from a source is not delayed there by guesses from elsewhere, nor by guesses at other users;
//! every other user waits for at most a minute. Only a source that guesses at one user waits for up to five minutes, and with it
//! this user at this source.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use docket_listener::source::{RequestSource, network};
use docket_program::clock::{millis, whole_seconds};
use docket_program::leaky_bucket::LeakyBucket;
use parking_lot::Mutex;

/// How many wrong guesses are free. Each further guess doubles the wait, up to the longest. One guess is forgotten per longest
/// wait, which is also the pace of a patient guesser.
#[derive(Debug, Clone, Copy)]
struct GuessLimit {
    free: u32,
    longest: Duration,
}

/// The limits for one user from one source.
const PER_USER_AND_SOURCE: GuessLimit = GuessLimit { free: 5, longest: Duration::from_secs(5 * 60) };
/// The limits for one user from all sources.
const PER_USER: GuessLimit = GuessLimit { free: 20, longest: Duration::from_secs(30) };
/// The limits for all users of a tenant from one source, such as an office behind one address.
const PER_SOURCE: GuessLimit = GuessLimit { free: 50, longest: Duration::from_secs(60) };
/// The limits for one source over all client codes that it names, real or invented. To the other limits each code is a tenant of
/// its own.
const PER_SOURCE_OF_CODES: GuessLimit = GuessLimit { free: 200, longest: Duration::from_secs(60) };
/// A count without a guess for this long is forgotten.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// For how long a user is known at a source after a sign-in.
pub const KNOWN_MS: i64 = 7 * 24 * 3600 * 1000;
/// The highest number of counts in memory, and of known users. An entry takes some 60 bytes. At this number the older half is
/// forgotten.
const MAX_ENTRIES: usize = 100_000;
/// The shortest time between two reads of a tenant's audit for who signed in lately.
const LEARN_MS: i64 = 60 * 1000;
/// The pause after the audit could not be read.
const LEARN_AGAIN_MS: i64 = 5 * 1000;

/// One guess: which user, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guess {
    /// The tenant's uid: the same userId in another tenant is another user.
    pub tenant: String,
    /// The userId in the form in which it is compared.
    pub user: String,
    /// Where the request came from.
    pub source: RequestSource,
    /// Whether the request names its tenant by a client code, which anyone can invent (legacy host).
    pub by_code: bool,
}

/// Refuses a guess for now: the user may try again after some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many failed sign-ins; try again in {seconds} s")]
pub struct TryLater {
    /// The value of the `Retry-After` header, 1 to 300.
    pub seconds: u64,
}

/// Counts wrong guesses. The counts are in memory only: a restart gives a guesser five more tries. Their times come from a
/// monotonic clock ([`Clock::elapsed`](docket_program::clock::Clock::elapsed)), so that no user waits longer when the machine's
/// clock is set back.
#[derive(Debug, Default)]
pub struct Throttle {
    entries: Mutex<GuessEntries>,
    hasher: RandomState,
}

/// The counts and users, by a keyed hash: long userIds take no space, and no client can choose two that collide.
#[derive(Debug, Default)]
struct GuessEntries {
    counts: HashMap<u64, GuessCount>,
    /// When a user last signed in from a source.
    known: HashMap<u64, i64>,
    /// When a tenant's audit was read last.
    learned: HashMap<u64, i64>,
}

/// Counts wrong guesses. The bucket loses one guess per longest wait.
#[derive(Debug, Clone, Copy, Default)]
struct GuessCount {
    wrong: LeakyBucket,
    /// The time of the latest counted guess.
    last: Duration,
}

impl GuessCount {
    /// Counts a guess.
    fn add(&mut self, patience: GuessLimit, now: Duration) {
        self.wrong.add(patience.longest, now);
        self.last = self.last.max(now);
    }

    /// Takes back a guess, which was right.
    fn remove(&mut self, patience: GuessLimit) {
        self.wrong.remove(patience.longest);
    }

    /// When the next guess may begin; `None`: at once, which holds also for a guess that read the clock before the last one was
    /// counted. The wait begins at the last guess, so it depends on how many guesses the bucket held then.
    fn open_at(self, patience: GuessLimit) -> Option<Duration> {
        let over = self.wrong.count(patience.longest, self.last).checked_sub(patience.free)?;
        Some(self.last + Duration::from_secs(1 << over.min(16)).min(patience.longest))
    }

    /// Whether the last guess was so long ago that the count no longer matters.
    fn is_forgotten(self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FORGET
    }
}

/// The entries that belong to a guess.
struct GuessKeys {
    user: u64,
    /// The entries at the source; `None` for a proxy, which has no counts and where no user is known.
    at_source: Option<AtSource>,
}

struct AtSource {
    user: u64,
    all: u64,
    /// The count of client codes; `None` if the request does not name its tenant by a code.
    codes: Option<u64>,
}

impl GuessKeys {
    /// The counts that a guess raises.
    fn counts(&self) -> impl Iterator<Item = (u64, GuessLimit)> {
        let at_source = self.at_source.iter();
        let at_source = at_source.flat_map(|at| {
            let codes = at.codes.map(|codes| (codes, PER_SOURCE_OF_CODES));
            [(at.user, PER_USER_AND_SOURCE), (at.all, PER_SOURCE)].into_iter().chain(codes)
        });
        [(self.user, PER_USER)].into_iter().chain(at_source)
    }
}

impl Throttle {
    /// Refuses a guess that has to wait, and counts nothing.
    pub fn check(&self, guess: &Guess, now: Duration) -> Result<(), TryLater> {
        self.entries.lock().wait(&self.keys(guess), now)
    }

    /// Counts a guess, or refuses it if it has to wait. A refused guess is not counted.
    pub fn begin(&self, guess: &Guess, now: Duration) -> Result<(), TryLater> {
        let (keys, mut entries) = (self.keys(guess), self.entries.lock());
        entries.wait(&keys, now)?;
        if entries.counts.len() + keys.counts().count() > MAX_ENTRIES {
            forget_older_half(&mut entries.counts, |count| millis(count.last));
        }
        for (key, patience) in keys.counts() {
            let count = entries.counts.entry(key).or_default();
            if count.is_forgotten(now) {
                *count = GuessCount::default();
            }
            count.add(patience, now);
        }
        Ok(())
    }

    /// Records that a guess was right: resets the user's count at the source, takes the guess back from the other counts, and makes
    /// the user known at the source.
    pub fn right(&self, guess: &Guess, now: Duration) {
        let (keys, now_ms) = (self.keys(guess), millis(now));
        let mut entries = self.entries.lock();
        for (key, patience) in keys.counts() {
            if let Some(count) = entries.counts.get_mut(&key) {
                count.remove(patience);
            }
        }
        let Some(at) = keys.at_source else { return };
        entries.counts.remove(&at.user);
        if entries.known.len() >= MAX_ENTRIES {
            forget_older_half(&mut entries.known, |last_ms| *last_ms);
        }
        entries.known.insert(at.user, now_ms);
    }

    /// Returns, once a minute, whether the caller may read in a tenant's audit who signed in lately, at this and other processes.
    pub fn may_learn(&self, tenant: &str, now: Duration) -> bool {
        let (tenant, now_ms) = (self.hasher.hash_one(tenant), millis(now));
        let mut entries = self.entries.lock();
        if entries.learned.get(&tenant).is_some_and(|last_ms| now_ms - last_ms < LEARN_MS) {
            return false;
        }
        entries.learned.retain(|_, last_ms| now_ms - *last_ms < LEARN_MS);
        entries.learned.insert(tenant, now_ms);
        true
    }

    /// Records that the tenant's audit could not be read. It may be read again in five seconds.
    pub fn learn_later(&self, tenant: &str, now: Duration) {
        let at_ms = millis(now) - LEARN_MS + LEARN_AGAIN_MS;
        self.entries.lock().learned.insert(self.hasher.hash_one(tenant), at_ms);
    }

    /// Records that the user of this guess signed in from its source, this long ago. Forgets no other user for that, and leaves
    /// half of the room to users who sign in here: the owner of a database may write its audit.
    pub fn learn(&self, guess: &Guess, ago: Duration, now: Duration) {
        let (keys, at_ms) = (self.keys(guess), millis(now) - millis(ago));
        let (Some(at), mut entries) = (keys.at_source, self.entries.lock()) else { return };
        if entries.known.len() < MAX_ENTRIES / 2 {
            let last_ms = entries.known.entry(at.user).or_insert(at_ms);
            *last_ms = at_ms.max(*last_ms);
        }
    }

    /// Whether the user has signed in from this source in the last seven days.
    pub fn is_known(&self, guess: &Guess, now: Duration) -> bool {
        self.entries.lock().is_known(&self.keys(guess), millis(now))
    }

    fn keys(&self, guess: &Guess) -> GuessKeys {
        let Guess { tenant, user, source, by_code } = guess;
        let source = match source {
            RequestSource::Client(address) => Some(network(*address)),
            RequestSource::Proxy => None,
        };
        let at_source = source.map(|source| AtSource {
            user: self.hasher.hash_one((0u8, tenant, user, source)),
            all: self.hasher.hash_one((2u8, tenant, source)),
            codes: by_code.then(|| self.hasher.hash_one((3u8, source))),
        });
        GuessKeys { user: self.hasher.hash_one((1u8, tenant, user)), at_source }
    }
}

impl GuessEntries {
    fn is_known(&self, keys: &GuessKeys, now_ms: i64) -> bool {
        let known = keys.at_source.as_ref().and_then(|at| self.known.get(&at.user));
        known.is_some_and(|last_ms| now_ms - last_ms < KNOWN_MS)
    }

    fn wait(&self, keys: &GuessKeys, now: Duration) -> Result<(), TryLater> {
        let is_known = self.is_known(keys, millis(now));
        let own = keys.at_source.as_ref().map(|at| at.user);
        let counts = keys.counts().filter(|(key, _)| !is_known || Some(*key) == own);
        let waits = counts.filter_map(|(key, patience)| {
            let count = self.counts.get(&key).filter(|count| !count.is_forgotten(now))?;
            Some(count.open_at(patience)?.saturating_sub(now))
        });
        match waits.max() {
            None | Some(Duration::ZERO) => Ok(()),
            Some(wait) => Err(TryLater { seconds: whole_seconds(wait) }),
        }
    }
}

fn forget_older_half<T>(entries: &mut HashMap<u64, T>, time_of: impl Fn(&T) -> i64) {
    let mut times: Vec<i64> = entries.values().map(&time_of).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    entries.retain(|_, entry| time_of(entry) > median);
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    fn ms(number: i64) -> Duration {
        Duration::from_millis(u64::try_from(number).expect("a time"))
    }

    fn at(tenant: &str, user: &str, source: u8) -> Guess {
        let source = RequestSource::Client(IpAddr::from([192, 0, 2, source]));
        Guess { tenant: tenant.into(), user: user.into(), source, by_code: false }
    }

    fn guess(user: &str, source: u8) -> Guess {
        at("a", user, source)
    }

    #[test]
    fn guesses_at_one_tenant_do_not_hold_up_another_at_the_same_source() {
        let throttle = Throttle::default();
        for n in 0..1000 {
            let _ = throttle.begin(&at("a", &format!("u{n}"), 1), ms(1));
        }
        assert!(throttle.begin(&at("a", "someone", 1), ms(1)).is_err());
        assert_eq!(throttle.begin(&at("b", "someone", 1), ms(1)), Ok(()));
    }

    #[test]
    fn source_may_try_two_hundred_client_codes_and_known_users_sign_in_there_all_the_same() {
        let throttle = Throttle::default();
        let by_code = |tenant: &str, user: &str| Guess { by_code: true, ..at(tenant, user, 1) };
        throttle.begin(&by_code("real", "ada"), ms(0)).expect("the first");
        throttle.right(&by_code("real", "ada"), ms(0));
        let invented = |n: usize| by_code(&format!("code{n}"), &format!("u{n}"));
        let tried = (0..1000).take_while(|n| throttle.begin(&invented(*n), ms(1)).is_ok()).count();
        assert_eq!(tried, 200);
        assert!(throttle.begin(&by_code("real", "new"), ms(1)).is_err());
        assert_eq!(throttle.begin(&by_code("real", "ada"), ms(1)), Ok(()));
        assert_eq!(throttle.begin(&at("real", "new", 1), ms(1)), Ok(()));
        assert_eq!(throttle.begin(&Guess { by_code: true, ..at("real", "new", 2) }, ms(1)), Ok(()));
    }

    #[test]
    fn guesses_at_others_and_from_elsewhere_do_not_delay_a_known_user() {
        let throttle = Throttle::default();
        throttle.begin(&guess("ada", 1), ms(0)).expect("the first");
        throttle.right(&guess("ada", 1), ms(0));
        for n in 0..1000 {
            let _ = throttle.begin(&guess(&format!("u{n}"), 1), ms(1));
            let _ = throttle.begin(&guess("ada", 2 + (n % 9) as u8), ms(1));
        }
        assert!(throttle.check(&guess("new", 1), ms(1)).is_err());
        assert!(throttle.check(&guess("ada", 99), ms(1)).is_err());
        assert_eq!(throttle.begin(&guess("ada", 1), ms(1)), Ok(()));
        assert!(throttle.is_known(&guess("ada", 1), ms(KNOWN_MS - 1)));
        assert!(!throttle.is_known(&guess("ada", 1), ms(KNOWN_MS)));
        assert!(!throttle.is_known(&guess("ada", 2), ms(1)));
        assert!(!throttle.is_known(&at("b", "ada", 1), ms(1)), "another tenant's user of this name");
    }

    #[test]
    fn user_is_known_for_seven_days_after_a_sign_in_that_was_learned() {
        let (throttle, day) = (Throttle::default(), Duration::from_secs(24 * 3600));
        let now = Duration::from_secs(60);
        throttle.learn(&guess("ada", 1), 6 * day, now);
        throttle.learn(&guess("mo", 1), 7 * day, now);
        assert!(throttle.is_known(&guess("ada", 1), now) && !throttle.is_known(&guess("ada", 2), now));
        assert!(!throttle.is_known(&guess("mo", 1), now));
        assert!(!throttle.is_known(&guess("ada", 1), now + day));
        throttle.right(&guess("ada", 1), now);
        throttle.learn(&guess("ada", 1), 6 * day, now);
        assert!(throttle.is_known(&guess("ada", 1), now + 6 * day), "an older one changes nothing");
    }

    #[test]
    fn learned_users_leave_half_of_the_room_to_users_who_sign_in() {
        let throttle = Throttle::default();
        for user in 0..MAX_ENTRIES {
            throttle.learn(&guess(&user.to_string(), 1), Duration::ZERO, ms(0));
        }
        assert_eq!(throttle.entries.lock().known.len(), MAX_ENTRIES / 2);
        throttle.right(&guess("ada", 1), ms(0));
        assert!(throttle.is_known(&guess("ada", 1), ms(0)) && throttle.is_known(&guess("0", 1), ms(0)));
    }

    #[test]
    fn audit_of_a_tenant_is_asked_once_a_minute() {
        let throttle = Throttle::default();
        let asked = [("a", 0), ("a", 59), ("b", 59), ("a", 60), ("a", 61)]
            .map(|(tenant, second)| throttle.may_learn(tenant, Duration::from_secs(second)));
        assert_eq!(asked, [true, false, true, true, false]);
        throttle.learn_later("a", Duration::from_secs(62));
        let again = [66, 67].map(|second| throttle.may_learn("a", Duration::from_secs(second)));
        assert_eq!(again, [false, true], "five seconds after it could not be read");
        for minute in 10..1_000 {
            assert!(throttle.may_learn(&minute.to_string(), Duration::from_secs(60 * minute)));
        }
        assert_eq!(throttle.entries.lock().learned.len(), 1, "the others are forgotten");
    }

    #[test]
    fn known_user_may_not_be_guessed_at_from_its_own_source() {
        let throttle = Throttle::default();
        throttle.right(&guess("ada", 1), ms(0));
        let tried = (0..1000).take_while(|_| throttle.begin(&guess("ada", 1), ms(1)).is_ok()).count();
        assert_eq!(tried, 5);
    }

    #[test]
    fn proxy_that_names_no_client_has_no_count_of_its_own() {
        let throttle = Throttle::default();
        let from_proxy = |n: usize| Guess { source: RequestSource::Proxy, ..guess(&format!("u{n}"), 0) };
        assert!((0..1000).all(|n| throttle.begin(&from_proxy(n), ms(1)).is_ok()));
        let tried = (0..1000).take_while(|_| throttle.begin(&from_proxy(1), ms(2)).is_ok()).count();
        assert_eq!(tried, 19, "of one user");
    }

    #[test]
    fn wrong_guess_is_forgotten_although_others_at_the_source_sign_in() {
        let throttle = Throttle::default();
        let mut now_ms = 0;
        for n in 0..500 {
            now_ms += millis(PER_SOURCE.longest);
            assert_eq!(throttle.begin(&guess(&format!("u{n}"), 1), ms(now_ms)), Ok(()), "{n}");
            let right = guess(&format!("right{n}"), 1);
            assert_eq!(throttle.begin(&right, ms(now_ms)), Ok(()), "{n}");
            throttle.right(&right, ms(now_ms));
        }
    }

    #[test]
    fn sixth_wrong_guess_waits_and_the_wait_doubles() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), ms(1_000_000)), Ok(()));
        }
        assert_eq!(throttle.begin(&guess("u", 1), ms(1_000_000)), Err(TryLater { seconds: 1 }));
        assert_eq!(throttle.begin(&guess("u", 1), ms(1_001_000)), Ok(()));
        assert_eq!(throttle.begin(&guess("u", 1), ms(1_001_000)), Err(TryLater { seconds: 2 }));
        assert_eq!(throttle.begin(&guess("other", 1), ms(1_001_000)), Ok(()));
        assert_eq!(throttle.begin(&guess("u", 2), ms(1_001_000)), Ok(()));
    }

    #[test]
    fn free_guess_does_not_wait_if_an_earlier_guess_read_the_clock_later() {
        let throttle = Throttle::default();
        for now in [1_001, 1_000, 1_002, 999] {
            assert_eq!(throttle.begin(&guess("u", 1), ms(now)), Ok(()), "{now}");
        }
    }

    #[test]
    fn refused_guess_is_not_counted() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), ms(1_000)), Ok(()));
        }
        for _ in 0..1000 {
            assert_eq!(throttle.begin(&guess("u", 1), ms(1_000)), Err(TryLater { seconds: 1 }));
        }
        assert_eq!(throttle.begin(&guess("v", 1), ms(1_000)), Ok(()));
    }

    #[test]
    fn right_guess_resets_the_count_and_a_check_counts_nothing() {
        let throttle = Throttle::default();
        for _ in 0..100 {
            assert_eq!(throttle.check(&guess("u", 1), ms(0)), Ok(()));
            assert_eq!(throttle.begin(&guess("u", 1), ms(0)), Ok(()));
            throttle.right(&guess("u", 1), ms(0));
        }
    }

    #[test]
    fn one_source_may_try_fifty_users() {
        let throttle = Throttle::default();
        let tried =
            (0..1000).take_while(|n| throttle.begin(&guess(&format!("u{n}"), 1), ms(1)).is_ok()).count();
        assert_eq!(tried, 50);
        assert_eq!(throttle.begin(&guess("someone", 2), ms(1)), Ok(()));
    }

    #[test]
    fn many_sources_may_try_one_user_but_not_lock_it_out() {
        let throttle = Throttle::default();
        let tried =
            (0..=255).take_while(|source| throttle.begin(&guess("u", *source), ms(1)).is_ok()).count();
        assert_eq!(tried, 20);
        assert_eq!(throttle.begin(&at("b", "u", 99), ms(1)), Ok(()), "another tenant's user of this name");
        let mut now = 1;
        for source in 0..=255 {
            now += millis(PER_USER.longest);
            assert_eq!(throttle.begin(&guess("u", source), ms(now)), Ok(()));
        }
        assert_eq!(throttle.begin(&guess("u", 7), ms(now)), Err(TryLater { seconds: 1 }));
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let throttle = Throttle::default();
        let from = |host: u16, user: usize| Guess {
            tenant: "a".into(),
            user: user.to_string(),
            source: RequestSource::Client(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host).into()),
            by_code: false,
        };
        let tried = (0..1000).take_while(|n| throttle.begin(&from(*n as u16, *n), ms(1)).is_ok()).count();
        assert_eq!(tried, 50);
    }

    #[test]
    fn wait_is_at_most_five_minutes_and_counts_expire_after_fifteen() {
        let throttle = Throttle::default();
        let mut now = 0;
        for _ in 0..60 {
            if let Err(TryLater { seconds }) = throttle.begin(&guess("u", 1), ms(now)) {
                now += 1000 * i64::try_from(seconds).expect("at most 300");
                assert_eq!(throttle.begin(&guess("u", 1), ms(now)), Ok(()));
            }
        }
        assert_eq!(throttle.begin(&guess("u", 1), ms(now)), Err(TryLater { seconds: 300 }));
        for _ in 0..5 {
            assert_eq!(throttle.begin(&guess("u", 1), ms(now) + FORGET), Ok(()));
        }
    }

    #[test]
    fn users_who_are_not_guessed_at_from_one_source_wait_a_minute_at_most() {
        let longest = |guess: fn(usize) -> Guess| {
            let (throttle, mut now_ms, mut longest) = (Throttle::default(), 0, 0);
            for n in 0..300 {
                if let Err(TryLater { seconds }) = throttle.check(&guess(n), ms(now_ms)) {
                    now_ms += 1000 * i64::try_from(seconds).expect("at most 300");
                    longest = seconds.max(longest);
                }
                assert_eq!(throttle.begin(&guess(n), ms(now_ms)), Ok(()), "{n}");
            }
            longest
        };
        let from_elsewhere = longest(|n| guess("u", n as u8));
        let at_others = longest(|n| guess(&format!("u{n}"), 1));
        let by_codes = longest(|n| Guess { by_code: true, ..at(&format!("code{n}"), "u", 1) });
        assert_eq!((from_elsewhere, at_others, by_codes), (30, 60, 60));
    }

    #[test]
    fn memory_stays_bounded() {
        let throttle = Throttle::default();
        for n in 0..MAX_ENTRIES as u32 {
            let guess = Guess {
                tenant: "a".into(),
                user: n.to_string(),
                source: RequestSource::Client(IpAddr::from((0x0a00_0000 + n).to_be_bytes())),
                by_code: false,
            };
            assert_eq!(throttle.begin(&guess, ms(i64::from(n))), Ok(()));
        }
        assert!(throttle.entries.lock().counts.len() <= MAX_ENTRIES);
        let known = |n: usize| (guess(&n.to_string(), 1), ms(n as i64));
        for n in 0..=MAX_ENTRIES {
            let (guess, now) = known(n);
            throttle.right(&guess, now);
        }
        assert!(throttle.entries.lock().known.len() <= MAX_ENTRIES);
        let is_known = |n| throttle.is_known(&known(n).0, ms(MAX_ENTRIES as i64));
        assert_eq!([0, MAX_ENTRIES - 1, MAX_ENTRIES].map(is_known), [false, true, true], "the latest stay");
    }
}
