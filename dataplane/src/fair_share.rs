//! A limited resource, such as memory for password checks, of which each guest may have half.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a guest waits for its share.
const WAIT: Duration = Duration::from_secs(2);
/// Guests that have nothing and wait for nothing are forgotten when there are this many.
const MANY_GUESTS: usize = 1000;

/// An amount that guests share. A guest that wants more than its half waits without blocking the others.
#[derive(Debug)]
pub struct FairShare<G> {
    all: Arc<Semaphore>,
    per_guest: u32,
    guests: Mutex<HashMap<G, Arc<Semaphore>>>,
}

/// A share, until it is dropped.
#[derive(Debug)]
pub struct Share {
    of_guest: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Share {
    /// Gives back so much of it.
    #[must_use]
    pub fn without(mut self, amount: u32) -> Self {
        let amount = amount as usize;
        drop((self.of_guest.split(amount), self.of_all.split(amount)));
        self
    }
}

/// No share became free within two seconds; the caller may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many at once")]
pub struct Busy;

impl From<AcquireError> for Busy {
    fn from(_: AcquireError) -> Self {
        Self
    }
}

impl<G: Hash + Eq> FairShare<G> {
    /// Of this amount; no share is larger than `largest`, which each guest may have at least.
    pub fn new(amount: u32, largest: u32) -> Self {
        let amount = amount.max(largest);
        Self {
            all: Arc::new(Semaphore::new(amount as usize)),
            per_guest: (amount / 2).max(largest),
            guests: Mutex::default(),
        }
    }

    /// Waits for a share.
    pub async fn take(&self, guest: G, amount: u32) -> Result<Share, Busy> {
        let guest = self.guest(guest);
        let share = async {
            let of_guest = guest.acquire_many_owned(amount).await?;
            let of_all = Arc::clone(&self.all).acquire_many_owned(amount).await?;
            Ok(Share { of_guest, of_all })
        };
        timeout(WAIT, share).await.map_err(|_| Busy)?
    }

    /// What is free.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.all.available_permits()
    }

    fn guest(&self, guest: G) -> Arc<Semaphore> {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if guests.len() >= MANY_GUESTS {
            guests.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.per_guest as usize));
        Arc::clone(guests.entry(guest).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_guest_leaves_half_to_the_others() {
        let shares = FairShare::new(8, 2);
        let kept = [shares.take("a", 2).await.expect("free"), shares.take("a", 2).await.expect("free")];
        assert_eq!(shares.take("a", 1).await.err(), Some(Busy));
        let _other = shares.take("b", 4).await.expect("another guest");
        assert_eq!(shares.left(), 0);
        let [one, _other_of_a] = kept;
        let less = one.without(1);
        assert_eq!(shares.left(), 1);
        assert!(shares.take("a", 1).await.is_ok());
        drop(less);
        assert_eq!(shares.left(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn guest_that_waits_for_its_own_share_does_not_stand_in_front_of_others() {
        let shares = Arc::new(FairShare::new(4, 1));
        let _kept = shares.take("a", 2).await.expect("free");
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let shares = Arc::clone(&shares);
                tokio::spawn(async move { shares.take("a", 1).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        assert!(shares.take("b", 1).await.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for waiting in waiting {
            assert_eq!(waiting.await.expect("no panic").err(), Some(Busy));
        }
    }

    #[tokio::test]
    async fn largest_share_can_always_be_had() {
        let shares = FairShare::new(1, 5);
        assert!(shares.take("a", 5).await.is_ok());
    }

    #[tokio::test]
    async fn guests_that_have_nothing_are_forgotten() {
        let shares = FairShare::new(8, 1);
        let _kept = shares.take(usize::MAX, 1).await.expect("free");
        for guest in 0..3 * MANY_GUESTS {
            drop(shares.take(guest, 1).await.expect("free"));
        }
        let guests = shares.guests.lock().expect("not poisoned");
        assert!(guests.len() <= MANY_GUESTS && guests.contains_key(&usize::MAX));
    }
}
