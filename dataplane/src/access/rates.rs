//! How often a tenant's clients may send requests and sign in, and a customer's contacts add webhooks. Each process grants its part of
//! the tenant's limits.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use docket_crds::{Limit, Limits};
use docket_program::clock::whole_seconds;
use docket_program::leaky_bucket::{LeakyBucket, Rate};
use parking_lot::Mutex;

/// The least number of buckets before empty ones are forgotten, which happens whenever their number has doubled.
const MANY: usize = 1_000;

/// A caller whose last request is not older than this counts as one of the tenant's present callers.
const LATELY: Duration = Duration::from_secs(10);

/// The number of webhooks that the contacts of a customer may add at once in a process: as many as they may have. A webhook that is removed
/// leaves a key of its deliveries, entries of the audit and, for a time, a signing secret. The customers of a tenant share the bounds of
/// these.
pub const ADDITIONS: u32 = 20;
/// How often the contacts of a customer may add a webhook after that, in all processes.
pub const ADDITION_EVERY: Duration = Duration::from_secs(10 * 60);

/// Refuses a call for now: the tenant is at a limit, and may try again after some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tenant is at its limit {limit}; try again in {seconds} s")]
pub struct OverLimit {
    /// The limit.
    pub limit: Limit,
    /// The value of the `Retry-After` header, at least 1.
    pub seconds: u64,
}

/// The buckets of all tenants in this process.
#[derive(Debug)]
pub struct Rates {
    buckets: Mutex<Buckets>,
    /// The number of processes that share each limit.
    processes: AtomicU32,
    /// Hashes callers with a random key, so that no client can choose two callers that collide.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Buckets {
    /// The buckets that may not be empty.
    filled: HashMap<(Arc<str>, RateKind), LeakyBucket>,
    /// The last two callers of each tenant.
    asked: HashMap<Arc<str>, Asked>,
    after_last_sweep: usize,
}

/// The two callers of a tenant that asked last, each with the time.
#[derive(Debug, Clone, Copy)]
struct Asked {
    last: (u64, Duration),
    before: Option<(u64, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RateKind {
    Requests,
    /// Requests of one caller, by its hash.
    RequestsOf(u64),
    SignIns,
    /// Sign-ins of users who did not sign in from the same source lately.
    SignInsOfStrangers,
    /// Webhooks that contacts of one customer add, by the customer's hash.
    AdditionsOf(u64),
}

impl Default for Rates {
    fn default() -> Self {
        Self { buckets: Mutex::default(), processes: AtomicU32::new(1), hasher: RandomState::new() }
    }
}

impl Rates {
    /// Divides each limit by this number of live processes from now on.
    pub fn divide_by(&self, processes: u32) {
        self.processes.store(processes.max(1), Ordering::Relaxed);
    }

    /// Counts a request of a tenant's user, or refuses it. Once more than half of the tenant's burst is used up, and while other
    /// users ask, one user gets at most half of the tenant's limit: one program with one token does not shut the others out. `now`
    /// is the time since any moment in the past.
    pub fn request(
        &self,
        tenant: &Arc<str>,
        caller: impl Hash,
        limits: &Limits,
        now: Duration,
    ) -> Result<(), OverLimit> {
        let Limits { requests_per_second: count, request_burst: burst, .. } = *limits;
        let all = self.rate(count, Duration::from_secs(1), burst);
        let half = self.rate(count, Duration::from_secs(2), burst / 2);
        let caller = self.hasher.hash_one(caller);
        self.buckets.lock().request(tenant, (caller, half), all, now).map_err(over(Limit::RequestsPerSecond))
    }

    /// Counts a sign-in, or refuses it. Strangers get at most half of the tenant's limit, so the other half is left to users who
    /// are `known` where they sign in.
    pub fn sign_in(
        &self,
        tenant: &Arc<str>,
        limits: &Limits,
        known: bool,
        now: Duration,
    ) -> Result<(), OverLimit> {
        let rate = |count| self.rate(count, Duration::from_secs(60), count);
        let all = rate(limits.sign_ins_per_minute);
        let strangers = (!known).then(|| rate(limits.sign_ins_per_minute / 2));
        self.buckets.lock().sign_in(tenant, all, strangers, now).map_err(over(Limit::SignInsPerMinute))
    }

    /// Counts a webhook that a contact of this customer adds, or refuses it. The error is how long the contact has to wait.
    pub fn addition(&self, tenant: &Arc<str>, customer: &str, now: Duration) -> Result<(), Duration> {
        let processes = self.processes.load(Ordering::Relaxed);
        // The number at once is not divided: one process may get all forms.
        let rate = Rate { every: ADDITION_EVERY * processes, burst: ADDITIONS };
        let customer = self.hasher.hash_one(customer);
        let mut buckets = self.buckets.lock();
        buckets.bucket(tenant, RateKind::AdditionsOf(customer)).try_add(rate, now)?;
        buckets.forget_empty(now);
        Ok(())
    }

    /// This process's part of a limit of `count` per `time`, with bursts of up to `burst`.
    fn rate(&self, count: u32, time: Duration, burst: u32) -> Rate {
        let processes = self.processes.load(Ordering::Relaxed);
        Rate { every: time * processes / count.max(1), burst: (burst / processes).max(1) }
    }
}

impl Buckets {
    /// Adds a request to the buckets of the tenant and of the caller, or to neither. The error is how long the request has to wait.
    fn request(
        &mut self,
        tenant: &Arc<str>,
        (caller, half): (u64, Rate),
        all: Rate,
        now: Duration,
    ) -> Result<(), Duration> {
        let others_ask = self.ask(tenant, caller, now);
        let bucket = self.bucket(tenant, RateKind::Requests);
        bucket.try_add(all, now)?;
        let is_scarce = bucket.level(now) > all.full() / 2;
        let own = self.bucket(tenant, RateKind::RequestsOf(caller));
        if !others_ask || !is_scarce {
            // The caller's bucket may be full when others ask later.
            own.add_up_to(half, now);
        } else if let Err(wait) = own.try_add(half, now) {
            self.bucket(tenant, RateKind::Requests).remove(all.every);
            return Err(wait);
        }
        self.forget_empty(now);
        Ok(())
    }

    /// Adds a sign-in to the tenant's bucket and, with a rate of strangers, to the strangers' bucket, or to neither. The error is
    /// how long the sign-in has to wait.
    fn sign_in(
        &mut self,
        tenant: &Arc<str>,
        all: Rate,
        strangers: Option<Rate>,
        now: Duration,
    ) -> Result<(), Duration> {
        self.bucket(tenant, RateKind::SignIns).try_add(all, now)?;
        if let Some(rate) = strangers
            && let Err(wait) = self.bucket(tenant, RateKind::SignInsOfStrangers).try_add(rate, now)
        {
            self.bucket(tenant, RateKind::SignIns).remove(all.every);
            return Err(wait);
        }
        self.forget_empty(now);
        Ok(())
    }

    fn bucket(&mut self, tenant: &Arc<str>, kind: RateKind) -> &mut LeakyBucket {
        self.filled.entry((Arc::clone(tenant), kind)).or_default()
    }

    /// Records that this caller asks. Returns whether other callers of the tenant ask, too.
    fn ask(&mut self, tenant: &Arc<str>, caller: u64, now: Duration) -> bool {
        let new = Asked { last: (caller, now), before: None };
        let asked = self.asked.entry(Arc::clone(tenant)).or_insert(new);
        if asked.last.0 != caller {
            asked.before = Some(asked.last);
        }
        asked.last = (caller, now);
        asked.before.is_some_and(|(_, at)| now < at + LATELY)
    }

    fn forget_empty(&mut self, now: Duration) {
        if self.filled.len() > MANY.max(2 * self.after_last_sweep) {
            self.filled.retain(|_, bucket| !bucket.level(now).is_zero());
            self.asked.retain(|_, asked| now < asked.last.1 + LATELY);
            self.after_last_sweep = self.filled.len();
        }
    }
}

fn over(limit: Limit) -> impl Fn(Duration) -> OverLimit {
    move |wait| OverLimit { limit, seconds: whole_seconds(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests_per_second: u32, request_burst: u32, sign_ins_per_minute: u32) -> Limits {
        Limits { requests_per_second, request_burst, sign_ins_per_minute, ..Limits::default() }
    }

    #[test]
    fn raised_limit_counts_at_once() {
        let (rates, tenant) = (Rates::default(), Arc::from("a"));
        let low = limits(1, 10_000, 60);
        assert!((0..10_000).all(|_| rates.request(&tenant, "ada", &low, Duration::ZERO).is_ok()));
        let high = limits(1_000, 1_000, 60);
        let refused = rates.request(&tenant, "ada", &high, Duration::ZERO).expect_err("all is used up");
        assert_eq!(refused.seconds, 1);
        assert_eq!(taken(&rates, "a", &high, 1), 1_000);
    }

    /// The number of requests of a flood that are accepted in this second.
    fn taken(rates: &Rates, tenant: &str, limits: &Limits, second: u64) -> usize {
        let (tenant, now) = (tenant.into(), Duration::from_secs(second));
        (0..1_000).take_while(|_| rates.request(&tenant, "ada", limits, now).is_ok()).count()
    }

    #[test]
    fn flood_gets_its_burst_and_then_its_rate() {
        let (rates, limits) = (Rates::default(), limits(10, 25, 2));
        assert_eq!(taken(&rates, "a", &limits, 1), 25);
        assert_eq!(taken(&rates, "b", &limits, 1), 25, "another tenant has its own");
        assert_eq!(taken(&rates, "a", &limits, 2), 10);
        assert_eq!(taken(&rates, "a", &limits, 60), 25, "no more than the burst after a quiet time");
        let refused = rates.request(&"a".into(), "ada", &limits, Duration::from_secs(60));
        assert_eq!(refused, Err(OverLimit { limit: Limit::RequestsPerSecond, seconds: 1 }));
    }

    #[test]
    fn one_caller_has_at_most_half_while_others_ask_and_all_while_it_is_alone() {
        let (rates, limits, tenant) = (Rates::default(), limits(10, 20, 2), Arc::from("a"));
        let taken = |caller: &str, second| {
            let now = Duration::from_secs(second);
            (0..100).filter(|_| rates.request(&tenant, caller, &limits, now).is_ok()).count()
        };
        assert_eq!((taken("greedy", 1), taken("greedy", 2)), (20, 10), "alone");
        // Each second the greedy caller comes first.
        let both: Vec<_> = (3..23).map(|second| (taken("greedy", second), taken("quiet", second))).collect();
        let sum = |which: fn(&(usize, usize)) -> usize| both.iter().map(which).sum::<usize>();
        let (greedy, quiet) = (sum(|(greedy, _)| *greedy), sum(|(_, quiet)| *quiet));
        assert!(greedy <= 100 + 10 && quiet >= 90, "{greedy} and {quiet} of 200");
        assert!(greedy + quiet >= 200, "none is wasted");
        assert_eq!((taken("greedy", 40), taken("greedy", 41)), (20, 10), "alone again");
        for second in 60..80 {
            let now = Duration::from_secs(second);
            let may = |caller: &str| rates.request(&tenant, caller, &limits, now).is_ok();
            assert!((0..8).all(|_| may("greedy")) && may("quiet"), "there is enough for both");
        }
        let third = rates.request(&Arc::from("b"), "greedy", &limits, Duration::from_secs(3));
        assert_eq!(third, Ok(()), "another tenant's user of this name is another one");
    }

    #[test]
    fn limit_is_divided_by_the_live_processes() {
        let limits = limits(10, 40, 2);
        let all: Vec<Rates> = (0..4).map(|_| Rates::default()).collect();
        all.iter().for_each(|rates| rates.divide_by(4));
        let sum = |second| all.iter().map(|rates| taken(rates, "a", &limits, second)).sum::<usize>();
        assert_eq!(sum(100), 40);
        assert_eq!(sum(102), 20, "two seconds' worth");
        let few = Limits { requests_per_second: 1, ..limits };
        all[0].divide_by(0);
        assert_eq!(taken(&all[0], "b", &few, 1), 40, "no number is no division");
        assert!((0..10).all(|_| rates_wait(&all[1], &few) <= 4), "a part of a request per second");
    }

    fn rates_wait(rates: &Rates, limits: &Limits) -> u64 {
        rates.request(&"c".into(), "ada", limits, Duration::from_secs(9)).err().map_or(0, |over| over.seconds)
    }

    #[test]
    fn strangers_leave_half_of_the_sign_ins_to_known_users() {
        let (rates, limits, now) = (Rates::default(), limits(1, 1, 10), Duration::from_secs(1));
        let count = |known, now| {
            (0..100).take_while(|_| rates.sign_in(&"a".into(), &limits, known, now).is_ok()).count()
        };
        assert_eq!((count(false, now), count(true, now)), (5, 5));
        let later = Duration::from_secs(13);
        assert_eq!(
            (count(false, later), count(true, later)),
            (1, 1),
            "twelve seconds are two of ten, one for strangers"
        );
    }

    #[test]
    fn contacts_of_each_customer_add_twenty_webhooks_and_then_one_in_ten_minutes() {
        let (rates, tenant) = (Rates::default(), Arc::from("a"));
        let added = |customer: &str, minutes: u64| {
            let now = Duration::from_secs(60 * minutes);
            (0..100).take_while(|_| rates.addition(&tenant, customer, now).is_ok()).count()
        };
        assert_eq!([added("C-1", 1), added("C-1", 10), added("C-1", 11), added("C-1", 41)], [20, 0, 1, 3]);
        assert_eq!(added("C-2", 41), 20, "another customer has its own");
        assert_eq!(
            rates.addition(&tenant, "C-1", Duration::from_secs(60 * 42)),
            Err(9 * Duration::from_secs(60))
        );
        rates.divide_by(3);
        assert_eq!([added("C-3", 50), added("C-3", 79), added("C-3", 80)], [20, 0, 1]);
    }

    #[test]
    fn buckets_that_are_empty_again_are_forgotten() {
        let (rates, limits) = (Rates::default(), limits(10, 10, 2));
        for tenant in 0..10_000_u64 {
            let now = Duration::from_secs(tenant);
            rates.request(&tenant.to_string().into(), "ada", &limits, now).expect("its first");
        }
        let kept = rates.buckets.lock();
        let kept = (kept.filled.len(), kept.asked.len());
        assert!(kept.0 <= MANY && kept.1 <= MANY, "{kept:?}");
    }
}
