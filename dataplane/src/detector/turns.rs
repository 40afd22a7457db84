//! Which tenant's database is scanned next, and how many at once. No I/O, no clock: times are arguments.
//!
//! Every tenant has a due time, and the earliest goes first. A tenant whose turn left work is due again at once, behind
//! all tenants that are due already. Tenants whose last turn failed have their own places: unavailable databases delay
//! no others, and a flood of invoices delays no retry.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Turns at once of tenants whose last turn failed.
pub(super) const RETRIES: usize = 2;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// No work is left.
    Done,
    /// There may be more work.
    More,
    /// The database was unavailable or refused a statement.
    Failed,
    /// The tenant is no longer served.
    Gone,
}

/// A tenant's turn, which occupies a place until [`Turns::end`].
#[derive(Debug)]
pub(super) struct Turn {
    /// The tenant.
    pub(super) uid: Arc<str>,
    /// Whether the previous turn failed.
    pub(super) retry: bool,
    begun_ms: i64,
}

/// Tenants by due time, and in the order of their arrival where the time is the same.
#[derive(Debug, Default)]
struct Queue {
    due: BTreeSet<(i64, u64, Arc<str>)>,
    pushed: u64,
    /// Running turns.
    running: usize,
    places: usize,
}

impl Queue {
    fn push(&mut self, uid: Arc<str>, due_ms: i64) {
        self.pushed += 1;
        self.due.insert((due_ms, self.pushed, uid));
    }

    /// No tenant is due later than an interval from now, unless the clock was set back. Such tenants become due now.
    fn bring_back(&mut self, now_ms: i64, interval_ms: i64) {
        let latest = now_ms.saturating_add(interval_ms);
        if self.due.last().is_some_and(|(due_ms, _, _)| *due_ms > latest) {
            for (_, _, uid) in self.due.split_off(&(latest + 1, 0, "".into())) {
                self.push(uid, now_ms);
            }
        }
    }

    fn begin(&mut self, now_ms: i64) -> Option<Arc<str>> {
        self.next_ms().filter(|due_ms| *due_ms <= now_ms)?;
        self.running += 1;
        self.due.pop_first().map(|(_, _, uid)| uid)
    }

    /// When the next turn can begin; `None`: not before a turn ends.
    fn next_ms(&self) -> Option<i64> {
        self.due.first().filter(|_| self.running < self.places).map(|(due_ms, _, _)| *due_ms)
    }
}

/// Which tenant is due when, and how many places are free.
#[derive(Debug)]
pub(super) struct Turns {
    interval_ms: i64,
    known: HashSet<Arc<str>>,
    sound: Queue,
    failed: Queue,
}

impl Turns {
    /// Without tenants. `places` turns at once, and [`RETRIES`] in addition.
    pub(super) fn new(interval_ms: i64, places: usize) -> Self {
        Self {
            interval_ms,
            known: HashSet::new(),
            sound: Queue { places, ..Queue::default() },
            failed: Queue { places: RETRIES, ..Queue::default() },
        }
    }

    /// Takes the list of served tenants. A new one is due now.
    pub(super) fn follow<'a>(&mut self, uids: impl Iterator<Item = &'a str>, now_ms: i64) {
        for uid in uids {
            if !self.known.contains(uid) {
                let uid: Arc<str> = uid.into();
                self.known.insert(Arc::clone(&uid));
                self.sound.push(uid, now_ms);
            }
        }
    }

    /// The next turn, if a tenant is due and a place is free.
    pub(super) fn begin(&mut self, now_ms: i64) -> Option<Turn> {
        let turn = |retry| move |uid| Turn { uid, retry, begun_ms: now_ms };
        for queue in [&mut self.sound, &mut self.failed] {
            queue.bring_back(now_ms, self.interval_ms);
        }
        let sound = self.sound.begin(now_ms).map(turn(false));
        sound.or_else(|| self.failed.begin(now_ms).map(turn(true)))
    }

    /// Ends a turn: frees its place and makes the tenant due an interval after the turn began, or now if there is more.
    pub(super) fn end(&mut self, turn: Turn, end: End, now_ms: i64) {
        let Turn { uid, retry, begun_ms } = turn;
        if retry { &mut self.failed } else { &mut self.sound }.running -= 1;
        let next_ms = begun_ms + self.interval_ms;
        match end {
            End::Done => self.sound.push(uid, next_ms),
            End::More => self.sound.push(uid, now_ms),
            End::Failed => self.failed.push(uid, next_ms),
            End::Gone => {
                self.known.remove(&uid);
            }
        }
    }

    /// When the next turn can begin; `None`: not before a turn ends.
    pub(super) fn next_ms(&self) -> Option<i64> {
        [self.sound.next_ms(), self.failed.next_ms()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: i64 = 1_000;
    const PLACES: usize = 8;

    fn name(number: usize) -> String {
        format!("{number:04}")
    }

    fn turns(tenants: usize) -> Turns {
        let mut turns = Turns::new(INTERVAL, PLACES);
        let names: Vec<String> = (0..tenants).map(name).collect();
        turns.follow(names.iter().map(String::as_str), 0);
        turns
    }

    fn begun(turns: &mut Turns, now_ms: i64) -> Vec<Turn> {
        std::iter::from_fn(|| turns.begin(now_ms)).collect()
    }

    /// Gives a turn to every tenant that is due, and returns their order.
    fn round(turns: &mut Turns, now_ms: i64, end: impl Fn(&str) -> End) -> Vec<String> {
        let mut order = Vec::new();
        loop {
            let some = begun(turns, now_ms);
            if some.is_empty() {
                return order;
            }
            assert!(some.len() <= PLACES + RETRIES);
            for turn in some {
                order.push(turn.uid.to_string());
                let end = end(&turn.uid);
                turns.end(turn, end, now_ms);
            }
        }
    }

    #[test]
    fn thousand_tenants_have_one_turn_each_per_interval() {
        let mut turns = turns(1_000);
        let all: Vec<String> = (0..1_000).map(name).collect();
        let first = begun(&mut turns, 0);
        assert_eq!((first.len(), turns.next_ms()), (PLACES, None));
        for turn in first {
            turns.end(turn, End::Done, 0);
        }
        assert_eq!(round(&mut turns, 0, |_| End::Done), all[PLACES..]);
        assert_eq!(turns.next_ms(), Some(INTERVAL));
        assert!(round(&mut turns, INTERVAL - 1, |_| End::Done).is_empty());
        for at in 1..=3 {
            assert_eq!(round(&mut turns, at * INTERVAL, |_| End::Done), all);
        }
    }

    #[test]
    fn tenant_with_more_work_comes_back_behind_those_that_are_due() {
        let mut turns = turns(1_000);
        let left = std::cell::Cell::new(50);
        let order = round(&mut turns, 0, |uid| {
            if uid != "0000" || left.get() == 0 {
                return End::Done;
            }
            left.set(left.get() - 1);
            End::More
        });
        assert_eq!(order[..1_000], (0..1_000).map(name).collect::<Vec<_>>());
        assert_eq!(order[1_000..], vec![name(0); 50]);
    }

    #[test]
    fn tenant_that_falls_due_during_a_flood_has_the_next_turn() {
        let mut turns = turns(2);
        round(&mut turns, 0, |_| End::Done);
        let mut flood = turns.begin(INTERVAL).expect("due");
        for at in INTERVAL..2 * INTERVAL {
            turns.end(flood, End::More, at);
            let next = turns.begin(at).expect("due");
            flood = match &*next.uid {
                "0001" => {
                    assert_eq!(at, INTERVAL);
                    turns.end(next, End::Done, at);
                    turns.begin(at).expect("the flood continues")
                }
                _ => next,
            };
        }
    }

    #[test]
    fn failed_tenants_use_two_places_and_delay_no_others() {
        let mut turns = turns(1_000);
        let dead = |uid: &str| uid < "0900";
        let end = |uid: &str| if dead(uid) { End::Failed } else { End::Done };
        round(&mut turns, 0, end);
        let some = begun(&mut turns, INTERVAL);
        let (retries, sound): (Vec<_>, Vec<_>) = some.into_iter().partition(|turn| turn.retry);
        assert_eq!((retries.len(), sound.len()), (RETRIES, PLACES));
        assert!(retries.iter().all(|turn| dead(&turn.uid)) && sound.iter().all(|turn| !dead(&turn.uid)));
        for turn in sound {
            turns.end(turn, End::Done, INTERVAL);
        }
        // While the two retries run, all others have a turn.
        assert_eq!(round(&mut turns, INTERVAL, |_| End::Done).len(), 100 - PLACES);
        for turn in retries {
            turns.end(turn, End::Done, INTERVAL);
        }
        assert_eq!(round(&mut turns, INTERVAL, |_| End::Done).len(), 900 - RETRIES);
        assert_eq!(begun(&mut turns, 2 * INTERVAL).into_iter().filter(|turn| turn.retry).count(), 0);
    }

    #[test]
    fn endless_flood_does_not_delay_retries() {
        let mut turns = turns(PLACES + 1);
        round(&mut turns, 0, |uid| if uid == "0000" { End::Failed } else { End::Done });
        let flood = begun(&mut turns, INTERVAL);
        assert_eq!(flood.iter().filter(|turn| turn.retry).count(), 1);
    }

    #[test]
    fn new_tenants_are_due_at_once_and_gone_ones_are_forgotten() {
        let mut turns = turns(1);
        let turn = turns.begin(0).expect("due");
        turns.follow(["0000", "new"].into_iter(), 5);
        assert_eq!(turns.begin(4).map(|turn| turn.uid), None);
        let new = turns.begin(5).expect("due");
        assert_eq!(&*new.uid, "new");
        turns.end(new, End::Gone, 5);
        turns.end(turn, End::Done, 5);
        assert_eq!(round(&mut turns, INTERVAL, |_| End::Done), ["0000"]);
        turns.follow(["new"].into_iter(), INTERVAL);
        assert_eq!(round(&mut turns, INTERVAL, |_| End::Done), ["new"]);
    }

    #[test]
    fn clock_that_is_set_back_delays_no_tenant() {
        let mut turns = turns(20);
        let end = |uid: &str| if uid < "0005" { End::Failed } else { End::Done };
        assert_eq!(round(&mut turns, 1_000_000, end).len(), 20);
        assert!(begun(&mut turns, 1_000_500).is_empty(), "not due yet");
        let mut seen = round(&mut turns, 1_000, end);
        seen.sort_unstable();
        assert_eq!(seen, (0..20).map(name).collect::<Vec<_>>());
    }
}
