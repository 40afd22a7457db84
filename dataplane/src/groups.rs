//! Groups jobs that one transaction can do together: those of a tenant that wait while the groups before are being done. No
//! timer is involved, so a job that comes alone is done at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// Jobs that wait, by tenant. A tenant without jobs costs nothing.
pub struct Groups<J> {
    /// The most jobs in a group.
    most: usize,
    /// The most groups of a tenant that are done at the same time.
    turns: usize,
    /// A tenant is here as long as it has a [`Turn`].
    waiting: Mutex<HashMap<Arc<str>, Waiting<J>>>,
}

/// The jobs of a tenant.
struct Waiting<J> {
    jobs: VecDeque<J>,
    /// How many turns the tenant has.
    turns: usize,
}

impl<J> Groups<J> {
    /// Of at most `most` jobs, of which a tenant has at most `turns` done at the same time.
    pub fn new(most: usize, turns: usize) -> Arc<Self> {
        Arc::new(Self { most, turns, waiting: Mutex::default() })
    }

    /// Adds a job. The caller that gets a turn of the tenant does the jobs that wait, until none is left.
    #[must_use]
    pub fn add(self: &Arc<Self>, tenant_uid: &Arc<str>, job: J) -> Option<Turn<J>> {
        let mut waiting = self.waiting.lock();
        let empty = || Waiting { jobs: VecDeque::new(), turns: 0 };
        let of_tenant = waiting.entry(Arc::clone(tenant_uid)).or_insert_with(empty);
        of_tenant.jobs.push_back(job);
        if of_tenant.turns == self.turns {
            return None;
        }
        of_tenant.turns += 1;
        Some(Turn { groups: Arc::clone(self), tenant_uid: Arc::clone(tenant_uid), ended: false })
    }
}

/// The right to do jobs of a tenant. Dropped before its end, as by a panic, it drops the jobs that wait, unless the tenant has
/// another turn.
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
        let jobs = &mut waiting.get_mut(&self.tenant_uid)?.jobs;
        if jobs.is_empty() {
            self.ended = true;
            end(&mut waiting, &self.tenant_uid);
            return None;
        }
        let count = jobs.len().min(self.groups.most);
        Some(jobs.drain(..count).collect())
    }
}

impl<J> Drop for Turn<J> {
    fn drop(&mut self) {
        if !self.ended {
            let left = end(&mut self.groups.waiting.lock(), &self.tenant_uid);
            drop(left); // not under the lock
        }
    }
}

/// Ends a turn. With the last one of the tenant, returns the jobs that wait.
fn end<J>(waiting: &mut HashMap<Arc<str>, Waiting<J>>, tenant_uid: &Arc<str>) -> Option<Waiting<J>> {
    let of_tenant = waiting.get_mut(tenant_uid)?;
    of_tenant.turns -= 1;
    if of_tenant.turns == 0 { waiting.remove(tenant_uid) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_come_during_a_turn_form_the_next_group() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 1), "a".into());
        let mut turn = groups.add(&a, 0).expect("the first has the turn");
        assert_eq!(turn.next(), Some(vec![0]));
        assert!((1..=4).all(|job| groups.add(&a, job).is_none()));
        assert!(groups.add(&"b".into(), 9).is_some(), "each tenant has its own turn");
        assert_eq!((turn.next(), turn.next(), turn.next()), (Some(vec![1, 2, 3]), Some(vec![4]), None));
        assert!(groups.add(&a, 5).is_some(), "the turn has ended");
    }

    #[test]
    fn jobs_wait_when_all_turns_of_their_tenant_are_taken() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let mut first = groups.add(&a, 1).expect("a turn");
        let mut second = groups.add(&a, 2).expect("another turn");
        assert!(groups.add(&a, 3).is_none());
        assert_eq!(
            (first.next(), second.next()),
            (Some(vec![1, 2, 3]), None),
            "what waits goes to the first to ask"
        );
        assert!(groups.add(&a, 4).is_some_and(|mut turn| turn.next() == Some(vec![4])));
        drop(second);
        assert!(groups.add(&a, 5).is_some());
    }

    #[test]
    fn jobs_outlast_a_dropped_turn_if_their_tenant_has_another() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let (mut first, second) = (groups.add(&a, 1).expect("a turn"), groups.add(&a, 2));
        drop(second);
        assert_eq!((first.next(), first.next()), (Some(vec![1, 2]), None));
    }

    #[test]
    fn turn_that_is_dropped_takes_its_jobs_along() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 1), "a".into());
        let turn = groups.add(&a, 0);
        assert!(groups.add(&a, 1).is_none());
        drop(turn);
        let mut turn = groups.add(&a, 2).expect("a new turn");
        assert_eq!(turn.next(), Some(vec![2]));
    }
}
