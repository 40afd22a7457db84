//! How often a tenant's clients may call: requests and sign-ins, each process its part of what the tenant may in all.
//!
//! A tenant's allowance is one time: when it will be whole again. One that is whole needs no memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_crds::{Limit, Limits};

/// Allowances that are whole are forgotten when there are twice as many as after the last time, and at least this many.
const MANY: usize = 1_000;

/// Refused for now: the tenant is at this limit, and may try again after this many seconds, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tenant is at its limit {limit}; try again in {seconds} s")]
pub struct OverLimit {
    /// The limit.
    pub limit: Limit,
    /// The value of the `Retry-After` header.
    pub seconds: u64,
}

/// The allowances of all tenants in this process.
#[derive(Debug)]
pub struct Rates {
    allowances: Mutex<Allowances>,
    /// Among how many processes each limit is divided.
    processes: AtomicU32,
}

#[derive(Debug, Default)]
struct Allowances {
    /// When each is whole again.
    whole_at: HashMap<(Arc<str>, Kind), Duration>,
    after_last_sweep: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Requests,
    SignIns,
    /// Of users who did not sign in from the same source lately.
    SignInsOfStrangers,
}

/// So many at once after a quiet time, and then one in each interval.
#[derive(Debug, Clone, Copy)]
struct Pace {
    every: Duration,
    at_once: u32,
}

impl Pace {
    /// The part of one process in `count` per `time`.
    fn new(count: u32, time: Duration, at_once: u32, processes: u32) -> Self {
        Self { every: time * processes / count.max(1), at_once: (at_once / processes).max(1) }
    }

    /// When the allowance is whole again after one more. Errors: how long that one has to wait.
    fn take(self, whole_at: Option<Duration>, now: Duration) -> Result<Duration, Duration> {
        let whole_at = whole_at.unwrap_or_default().max(now) + self.every;
        match (whole_at - now).checked_sub(self.every * self.at_once) {
            None | Some(Duration::ZERO) => Ok(whole_at),
            Some(wait) => Err(wait),
        }
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self { allowances: Mutex::default(), processes: AtomicU32::new(1) }
    }
}

impl Rates {
    /// Divides each limit by this number of live processes from now on.
    pub fn divide_by(&self, processes: u32) {
        self.processes.store(processes.max(1), Ordering::Relaxed);
    }

    /// Counts a request of a tenant, or refuses it. `now` is the time since any moment in the past.
    pub fn request(&self, tenant: &Arc<str>, limits: &Limits, now: Duration) -> Result<(), OverLimit> {
        let Limits { requests_per_second: count, request_burst: at_once, .. } = *limits;
        let pace = Pace::new(count, Duration::from_secs(1), at_once, self.processes());
        self.take(tenant, &[(Kind::Requests, pace)], now).map_err(over(Limit::RequestsPerSecond))
    }

    /// Counts a sign-in, or refuses it. Strangers have half of the tenant's limit, so that they never take the places of users
    /// who are `known` where they sign in.
    pub fn sign_in(
        &self,
        tenant: &Arc<str>,
        limits: &Limits,
        known: bool,
        now: Duration,
    ) -> Result<(), OverLimit> {
        let pace = |count| Pace::new(count, Duration::from_secs(60), count, self.processes());
        let all = (Kind::SignIns, pace(limits.sign_ins_per_minute));
        let strangers = (Kind::SignInsOfStrangers, pace(limits.sign_ins_per_minute / 2));
        let both = [all, strangers];
        let taken = if known { &both[..1] } else { &both };
        self.take(tenant, taken, now).map_err(over(Limit::SignInsPerMinute))
    }

    fn processes(&self) -> u32 {
        self.processes.load(Ordering::Relaxed)
    }

    /// Takes one of each, or none.
    fn take(&self, tenant: &Arc<str>, of: &[(Kind, Pace)], now: Duration) -> Result<(), Duration> {
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::with_capacity(of.len());
        for (kind, pace) in of {
            let key = (Arc::clone(tenant), *kind);
            let known = allowances.whole_at.get_mut(&key);
            let known = known.map(|whole_at| {
                // A limit that was raised counts at once: what the lower one has used up is no more than all of this one.
                *whole_at = (*whole_at).min(now + pace.every * pace.at_once);
                *whole_at
            });
            let whole_at = pace.take(known, now)?;
            taken.push((key, whole_at));
        }
        allowances.whole_at.extend(taken);
        allowances.forget_whole(now);
        Ok(())
    }
}

impl Allowances {
    fn forget_whole(&mut self, now: Duration) {
        if self.whole_at.len() > MANY.max(2 * self.after_last_sweep) {
            self.whole_at.retain(|_, whole_at| *whole_at > now);
            self.after_last_sweep = self.whole_at.len();
        }
    }
}

fn over(limit: Limit) -> impl Fn(Duration) -> OverLimit {
    move |wait| OverLimit { limit, seconds: wait.as_secs() + u64::from(wait.subsec_nanos() > 0) }
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
        assert!((0..10_000).all(|_| rates.request(&tenant, &low, Duration::ZERO).is_ok()));
        let high = limits(1_000, 1_000, 60);
        let refused = rates.request(&tenant, &high, Duration::ZERO).expect_err("all is used up");
        assert_eq!(refused.seconds, 1);
        assert_eq!(taken(&rates, "a", &high, 1), 1_000);
    }

    /// How many requests of a flood are taken at this second.
    fn taken(rates: &Rates, tenant: &str, limits: &Limits, second: u64) -> usize {
        let (tenant, now) = (tenant.into(), Duration::from_secs(second));
        (0..1_000).take_while(|_| rates.request(&tenant, limits, now).is_ok()).count()
    }

    #[test]
    fn flood_gets_its_burst_and_then_its_rate() {
        let (rates, limits) = (Rates::default(), limits(10, 25, 2));
        assert_eq!(taken(&rates, "a", &limits, 1), 25);
        assert_eq!(taken(&rates, "b", &limits, 1), 25, "another tenant has its own");
        assert_eq!(taken(&rates, "a", &limits, 2), 10);
        assert_eq!(taken(&rates, "a", &limits, 60), 25, "no more than the burst after a quiet time");
        let refused = rates.request(&"a".into(), &limits, Duration::from_secs(60));
        assert_eq!(refused, Err(OverLimit { limit: Limit::RequestsPerSecond, seconds: 1 }));
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
        rates.request(&"c".into(), limits, Duration::from_secs(9)).err().map_or(0, |over| over.seconds)
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
    fn allowances_that_are_whole_again_are_forgotten() {
        let (rates, limits) = (Rates::default(), limits(10, 10, 2));
        for tenant in 0..10_000_u64 {
            let now = Duration::from_secs(tenant);
            rates.request(&tenant.to_string().into(), &limits, now).expect("its first");
        }
        let kept = rates.allowances.lock().expect("no panic").whole_at.len();
        assert!(kept <= MANY, "{kept}");
    }
}
