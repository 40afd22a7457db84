//! Groups jobs that one transaction can do together: those of a tenant that wait while the group before is being done. No
//! timer is involved, so a job that comes alone is done at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// Jobs that wait, by tenant. A tenant without jobs costs nothing.
pub struct Groups<J> {
    /// The most jobs in a group.
    most: usize,
    /// A tenant is here as long as it has a [`Turn`].
    waiting: Mutex<HashMap<Arc<str>, VecDeque<J>>>,
}

impl<J> Groups<J> {
    /// Of at most `most` jobs.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, waiting: Mutex::default() })
    }

    /// Adds a job. Who gets the turn of the tenant does this job, and all that come until the turn ends.
    #[must_use]
    pub fn add(self: &Arc<Self>, tenant_uid: &Arc<str>, job: J) -> Option<Turn<J>> {
        let mut waiting = self.waiting.lock();
        if let Some(jobs) = waiting.get_mut(tenant_uid) {
            jobs.push_back(job);
            return None;
        }
        waiting.insert(Arc::clone(tenant_uid), VecDeque::from([job]));
        Some(Turn { groups: Arc::clone(self), tenant_uid: Arc::clone(tenant_uid), ended: false })
    }
}

/// The right to do the jobs of a tenant. Dropped before its end, as by a panic, it drops the jobs that wait.
pub struct Turn<J> {
    groups: Arc<Groups<J>>,
    tenant_uid: Arc<str>,
    ended: bool,
}

/// The groups: each time the jobs that wait then, in the order in which they came. Without jobs the turn ends.
impl<J> Iterator for Turn<J> {
    type Item = Vec<J>;

    fn next(&mut self) -> Option<Vec<J>> {
        let mut waiting = self.groups.waiting.lock();
        let jobs = waiting.get_mut(&self.tenant_uid)?;
        if jobs.is_empty() {
            waiting.remove(&self.tenant_uid);
            self.ended = true;
            return None;
        }
        let count = jobs.len().min(self.groups.most);
        Some(jobs.drain(..count).collect())
    }
}

impl<J> Drop for Turn<J> {
    fn drop(&mut self) {
        if !self.ended {
            let left = self.groups.waiting.lock().remove(&self.tenant_uid);
            drop(left); // not under the lock
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_come_during_a_turn_form_the_next_group() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3), "a".into());
        let mut turn = groups.add(&a, 0).expect("the first has the turn");
        assert_eq!(turn.next(), Some(vec![0]));
        assert!((1..=4).all(|job| groups.add(&a, job).is_none()));
        assert!(groups.add(&"b".into(), 9).is_some(), "each tenant has its own turn");
        assert_eq!((turn.next(), turn.next(), turn.next()), (Some(vec![1, 2, 3]), Some(vec![4]), None));
        assert!(groups.add(&a, 5).is_some(), "the turn has ended");
    }

    #[test]
    fn turn_that_is_dropped_takes_its_jobs_along() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3), "a".into());
        let turn = groups.add(&a, 0);
        assert!(groups.add(&a, 1).is_none());
        drop(turn);
        let mut turn = groups.add(&a, 2).expect("a new turn");
        assert_eq!(turn.next(), Some(vec![2]));
    }
}
