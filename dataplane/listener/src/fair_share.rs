//! A limited resource, such as memory for password checks. No guest can take so much of it that a new guest gets nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a guest waits for its share.
const WAIT: Duration = Duration::from_secs(2);

/// Whether a guest that has `own` may have `wanted` more if `free` is free. A guest without a share may have all that
/// is free. Another guest may have at most half of what is free and its own together. So the first guest takes at
/// most a half, the second a quarter, and so on.
pub fn may_have(own: u32, wanted: u32, free: u32) -> bool {
    let (own, wanted, free) = (u64::from(own), u64::from(wanted), u64::from(free));
    wanted <= free && (own == 0 || own + wanted <= (own + free) / 2)
}

/// An amount that guests share by the rule of [`may_have`]. A part that becomes free goes to the waiting guest that
/// has least; among equal guests, to the guest that has waited longest since its last share. So a guest with many
/// requests does not delay other guests.
#[derive(Debug)]
pub struct FairShare<G> {
    shares: Arc<Mutex<FreeShares>>,
    hasher: RandomState,
    guests: PhantomData<fn(G)>,
}

#[derive(Debug)]
struct FreeShares {
    free: u32,
    largest: u32,
    /// The guests that have a share or wait for one, each by a keyed hash.
    guests: HashMap<u64, Guest>,
    /// The number of shares that were given or asked for. It numbers both, in order.
    events: u64,
}

#[derive(Debug, Default)]
struct Guest {
    has: u32,
    /// The number of the event at which it got its last share; 0: never.
    served: u64,
    /// The requests that wait, in the order in which they came.
    waiting: VecDeque<ShareRequest>,
    /// How much of `has` each member has, if any.
    members: HashMap<u64, u32>,
}

impl Guest {
    /// Whether a member may have `wanted` more, if the guest may have `room` in all. A member may have one share, and
    /// otherwise at most half of `room`.
    fn lets(&self, member: u64, wanted: u32, room: u32) -> bool {
        let own = self.members.get(&member).copied().unwrap_or_default();
        own == 0 || own + wanted <= room / 2
    }
}

#[derive(Debug)]
struct ShareRequest {
    since: u64,
    amount: u32,
    granted: oneshot::Sender<Share>,
}

/// A share of the amount, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Mutex<FreeShares>>,
    guest: u64,
    member: Option<u64>,
    amount: u32,
}

impl Share {
    /// Gives back `amount` of the share.
    #[must_use]
    pub fn without(mut self, amount: u32) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        give_back(&self.shares, (self.guest, self.member), amount);
        self
    }

    /// Gives the share back after `time`.
    pub fn keep_for(self, time: Duration) {
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            drop(self);
        });
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        give_back(&self.shares, (self.guest, self.member), self.amount);
    }
}

/// The guest got no share in time, or may have none now. The caller may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many at once")]
pub struct Busy;

impl<G: Hash> FairShare<G> {
    /// Shares of `amount` in all, but of `largest` at least. No share is larger than `largest`.
    pub fn new(amount: u32, largest: u32) -> Self {
        let free = amount.max(largest);
        let shares = FreeShares { free, largest, guests: HashMap::new(), events: 0 };
        Self { shares: Arc::new(Mutex::new(shares)), hasher: RandomState::new(), guests: PhantomData }
    }

    /// Waits for a share of `amount`, or of `largest` if that is less.
    ///
    /// # Errors
    ///
    /// The guest got no share within two seconds.
    pub async fn take(&self, guest: G, amount: u32) -> Result<Share, Busy> {
        let _leaves = Leaves(&self.shares);
        let (granted, share) = oneshot::channel();
        {
            let mut shares = self.shares.lock();
            let (since, amount) = (shares.event(), amount.min(shares.largest));
            let guest = shares.guests.entry(self.hasher.hash_one(guest)).or_default();
            guest.waiting.push_back(ShareRequest { since, amount, granted });
        }
        settle(&self.shares);
        timeout(WAIT, share).await.map_err(|_| Busy)?.map_err(|_| Busy)
    }

    /// Takes a share of `amount`, or of `largest` if that is less, for a member of the guest. Does not wait.
    ///
    /// # Errors
    ///
    /// The guest may not have it now, or the member would have more than half of the guest's part.
    pub fn try_take(&self, guest: G, member: impl Hash, amount: u32) -> Result<Share, Busy> {
        let (guest, member) = (self.hasher.hash_one(guest), self.hasher.hash_one(member));
        let mut shares = self.shares.lock();
        let (amount, free) = (amount.min(shares.largest), shares.free);
        let its = shares.guests.entry(guest).or_default();
        if !may_have(its.has, amount, free) || !its.lets(member, amount, (its.has + free) / 2) {
            return Err(Busy);
        }
        *its.members.entry(member).or_default() += amount;
        shares.grant(guest, amount);
        Ok(Share { shares: Arc::clone(&self.shares), guest, member: Some(member), amount })
    }

    /// Whether no guest has a share or waits for one.
    pub fn is_unused(&self) -> bool {
        self.shares.lock().guests.is_empty()
    }

    /// The amount that is free.
    pub fn left(&self) -> u32 {
        self.shares.lock().free
    }
}

/// A guest that waits. When it gives up, those behind it may have their shares.
struct Leaves<'a>(&'a Arc<Mutex<FreeShares>>);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        settle(self.0);
    }
}

impl FreeShares {
    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Removes requests that gave up, and guests that neither have a share nor wait.
    fn tidy(&mut self) {
        self.guests.retain(|_, guest| {
            guest.waiting.retain(|waiting| !waiting.granted.is_closed());
            guest.has > 0 || !guest.waiting.is_empty()
        });
    }

    /// The guest whose first request gets its share now. If the first in order has no share at all, no other guest
    /// overtakes it.
    fn next(&self) -> Option<u64> {
        let first = |(id, guest): (&u64, &Guest)| {
            let ShareRequest { since, amount, .. } = guest.waiting.front()?;
            let may = may_have(guest.has, *amount, self.free);
            (may || guest.has == 0).then_some(((guest.has, guest.served, *since), *id, may))
        };
        let (_, id, may) = self.guests.iter().filter_map(first).min()?;
        may.then_some(id)
    }

    fn grant(&mut self, guest: u64, amount: u32) {
        self.free -= amount;
        let served = self.event();
        let guest = self.guests.entry(guest).or_default();
        (guest.has, guest.served) = (guest.has + amount, served);
    }
}

fn give_back(shares: &Arc<Mutex<FreeShares>>, (guest, member): (u64, Option<u64>), amount: u32) {
    {
        let mut shares = shares.lock();
        shares.free += amount;
        if let Some(guest) = shares.guests.get_mut(&guest) {
            guest.has -= amount;
            if let Some(has) = member.and_then(|member| guest.members.get_mut(&member)) {
                *has -= amount;
                guest.members.retain(|_, has| *has > 0);
            }
        }
    }
    settle(shares);
}

/// Gives those who wait what they may have now.
fn settle(shared: &Arc<Mutex<FreeShares>>) {
    let mut granted = Vec::new();
    {
        let mut shares = shared.lock();
        shares.tidy();
        while let Some(guest) = shares.next() {
            let first = shares.guests.get_mut(&guest).and_then(|guest| guest.waiting.pop_front());
            let Some(ShareRequest { amount, granted: to, .. }) = first else { break };
            shares.grant(guest, amount);
            granted.push((to, Share { shares: Arc::clone(shared), guest, member: None, amount }));
        }
    }
    // The lock is not held: a share whose receiver gave up is dropped, and dropping it takes the lock.
    for (to, share) in granted {
        let _ = to.send(share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_that_take_all_they_may_leave_something_for_ten_more() {
        let (mut free, mut held) = (1024, Vec::new());
        for _ in 0..10 {
            let mut own = 0;
            while may_have(own, 1, free) {
                (own, free) = (own + 1, free - 1);
            }
            held.push(own);
        }
        assert_eq!(held, [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]);
        assert!(may_have(0, 1, free), "{free}");
        assert!(!may_have(0, 1, 0) && !may_have(1, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn one_guest_leaves_half_to_the_others() {
        let shares = FairShare::new(8, 2);
        let kept = [shares.take("a", 2).await.expect("free"), shares.take("a", 2).await.expect("free")];
        assert_eq!(shares.take("a", 1).await.err(), Some(Busy));
        let _other = shares.take("b", 2).await.expect("another guest");
        assert_eq!(shares.left(), 2);
        let [one, _other_of_a] = kept;
        let less = one.without(1);
        assert_eq!(shares.left(), 3);
        drop(less);
        assert_eq!(shares.left(), 4);
        assert!(shares.take("a", 1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn two_guests_leave_something_to_a_third() {
        let shares = FairShare::new(32, 14);
        let mut kept = Vec::new();
        for guest in ["a", "b"] {
            while let Ok(share) = shares.take(guest, 1).await {
                kept.push(share);
            }
        }
        assert_eq!(shares.left(), 8);
        assert!(shares.take("c", 6).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn guest_that_waits_for_its_own_share_does_not_stand_in_front_of_others() {
        let shares = Arc::new(FairShare::new(4, 1));
        let _kept = [shares.take("a", 1).await.expect("free"), shares.take("a", 1).await.expect("free")];
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let shares = Arc::clone(&shares);
                tokio::spawn(async move { shares.take("a", 1).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        let try_take = |guest| shares.try_take(guest, (), 1);
        assert!(try_take("a").is_err() && try_take("b").is_ok());
        assert!(shares.take("b", 1).await.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for waiting in waiting {
            assert_eq!(waiting.await.expect("no panic").err(), Some(Busy));
        }
        drop(shares.take("b", 1).await.expect("free"));
        assert!(shares.shares.lock().guests.values().all(|guest| guest.waiting.is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn new_guest_that_waits_for_what_is_free_next_is_not_overtaken() {
        let shares = FairShare::new(8, 8);
        let kept = shares.take("a", 4).await.expect("free");
        let (large, small) = tokio::join!(
            async { (shares.take("b", 8).await.map(drop), tokio::time::Instant::now()) },
            async {
                tokio::task::yield_now().await;
                let small = shares.take("c", 1);
                tokio::pin!(small);
                assert!(timeout(Duration::from_secs(1), &mut small).await.is_err(), "it stands behind");
                drop(kept);
                (small.await.map(drop), tokio::time::Instant::now())
            }
        );
        assert_eq!((large.0, small.0), (Ok(()), Ok(())));
        assert_eq!(shares.left(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn guest_that_gives_up_makes_way_for_those_behind_it() {
        let shares = FairShare::new(8, 8);
        let _kept = shares.take("a", 4).await.expect("free");
        let begun = tokio::time::Instant::now();
        let (large, small) = tokio::join!(shares.take("b", 8), async {
            tokio::time::sleep(WAIT / 2).await;
            shares.take("c", 1).await
        });
        assert!(large.is_err() && small.is_ok());
        assert_eq!(begun.elapsed(), Duration::from_secs(2), "c waits no longer than b");
    }

    #[tokio::test(start_paused = true)]
    async fn share_whose_guest_has_left_goes_back() {
        let shares = FairShare::new(2, 2);
        let kept = shares.take("a", 2).await.expect("free");
        {
            let mut leaving = std::pin::pin!(shares.take("b", 2));
            assert!(timeout(Duration::from_secs(1), &mut leaving).await.is_err());
            drop(kept);
        }
        assert_eq!(shares.left(), 2);
        assert!(shares.is_unused());
    }

    #[tokio::test]
    async fn largest_share_can_always_be_had() {
        let shares = FairShare::new(1, 5);
        assert!(shares.take("a", 5).await.is_ok());
        assert!(shares.take("a", 6).await.is_ok(), "none is larger");
        assert!(shares.try_take("a", (), 6).is_ok(), "none is larger");
    }

    #[tokio::test(start_paused = true)]
    async fn guests_that_wait_a_thousand_times_are_served_in_turn() {
        let shares = Arc::new(FairShare::new(3, 1));
        let (granted, mut served) = tokio::sync::mpsc::unbounded_channel();
        for guest in ["a", "b", "c", "d"] {
            for _ in 0..1_000 {
                let (shares, granted) = (Arc::clone(&shares), granted.clone());
                tokio::spawn(async move {
                    if let Ok(share) = shares.take(guest, 1).await {
                        let _ = granted.send((guest, share));
                    }
                });
            }
        }
        let waiting = || shares.shares.lock().guests.values().map(|guest| guest.waiting.len()).sum::<usize>();
        while waiting() < 3_997 {
            tokio::task::yield_now().await;
        }
        let (mut kept, mut order) = (VecDeque::new(), String::new());
        for _ in 0..12 {
            let (guest, share) = served.recv().await.expect("some wait");
            order += guest;
            kept.push_back(share);
            if kept.len() == 3 {
                kept.pop_front();
            }
        }
        assert_eq!(order, "abcdabcdabcd");
    }
}
