//! A lock for each key.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A lock for each key. Only keys whose lock is held or waited for take memory.
#[derive(Debug, Default)]
pub(super) struct KeyedLock {
    locks: Mutex<HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>>,
}

impl KeyedLock {
    /// Waits for the lock of a key. The tasks that wait get it in the order in which they came, each until it drops the guard.
    pub(super) async fn lock(&self, key: &Arc<str>) -> OwnedMutexGuard<()> {
        self.lock_of(key).lock_owned().await
    }

    fn lock_of(&self, key: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock();
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = locks.get(key).and_then(Weak::upgrade).unwrap_or_default();
        locks.insert(Arc::clone(key), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn lock_is_passed_on_in_order_and_other_keys_have_their_own() {
        let (locks, [one, other]) = (KeyedLock::default(), ["one", "other"].map(Arc::<str>::from));
        let held = locks.lock(&one).await;
        assert!(locks.lock(&other).now_or_never().is_some());
        let (mut second, mut third) = (Box::pin(locks.lock(&one)), Box::pin(locks.lock(&one)));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(held);
        assert!(third.as_mut().now_or_never().is_none(), "the second came before it");
        drop(second.now_or_never().expect("it is passed on"));
        drop(third.now_or_never().expect("it is passed on"));
        drop(locks.lock(&other).await);
        assert_eq!(locks.locks.lock().len(), 1, "the first key is forgotten");
    }
}
