//! Groups jobs that one transaction can do together: those of a tenant that wait while the groups before are being done, or while
//! a turn waits for its connection. No timer is involved, so a job that comes alone is done at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// A group is gathered when the other tasks have run so often without adding a job. Threads run them, so once is too few.
const QUIET: u32 = 4;

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
    /// How many of them are about to take jobs: all that come until then.
    choosing: usize,
}

impl<J> Groups<J> {
    /// Of at most `most` jobs, of which a tenant has at most `turns` done at the same time.
    pub fn new(most: usize, turns: usize) -> Arc<Self> {
        Arc::new(Self { most, turns, waiting: Mutex::default() })
    }

    /// Adds a job. The caller that gets a turn of the tenant does the jobs that wait, until none is left. There is no new turn
    /// while another one is about to take jobs.
    #[must_use]
    pub fn add(self: &Arc<Self>, tenant_uid: &Arc<str>, job: J) -> Option<Turn<J>> {
        self.add_all(tenant_uid, [job])
    }

    /// The same for several jobs.
    #[must_use]
    pub fn add_all(
        self: &Arc<Self>,
        tenant_uid: &Arc<str>,
        jobs: impl IntoIterator<Item = J>,
    ) -> Option<Turn<J>> {
        let mut waiting = self.waiting.lock();
        let empty = || Waiting { jobs: VecDeque::new(), turns: 0, choosing: 0 };
        let of_tenant = waiting.entry(Arc::clone(tenant_uid)).or_insert_with(empty);
        of_tenant.jobs.extend(jobs);
        if of_tenant.turns == self.turns || of_tenant.choosing > 0 {
            return None;
        }
        of_tenant.turns += 1;
        of_tenant.choosing += 1;
        Some(Turn {
            groups: Arc::clone(self),
            tenant_uid: Arc::clone(tenant_uid),
            is_choosing: true,
            ended: false,
        })
    }
}

/// The right to do jobs of a tenant. Dropped before its end, as by a panic, it drops the jobs that wait, unless the tenant has
/// another turn.
pub struct Turn<J> {
    groups: Arc<Groups<J>>,
    tenant_uid: Arc<str>,
    /// Whether it is about to take jobs.
    is_choosing: bool,
    ended: bool,
}

impl<J> Turn<J> {
    /// Looks at the last of the jobs that wait, before the turn [takes](Self::take_jobs) them. The caller may wait in between for
    /// what the jobs need: the turn takes also what comes meanwhile. `None`: no jobs wait, and the turn has ended.
    pub fn look<T>(&mut self, at: impl FnOnce(&J) -> T) -> Option<T> {
        let mut waiting = self.groups.waiting.lock();
        let of_tenant = waiting.get_mut(&self.tenant_uid)?;
        if let Some(last) = of_tenant.jobs.back() {
            let seen = at(last);
            of_tenant.choosing += usize::from(!self.is_choosing);
            self.is_choosing = true;
            return Some(seen);
        }
        self.ended = true;
        end(&mut waiting, &self.tenant_uid, self.is_choosing);
        None
    }

    /// Lets other tasks run that are ready, as long as they add jobs and the group is not full: a group costs little more than a job
    /// alone. Alone, a job loses a few microseconds by it.
    pub async fn gather(&self) {
        let (mut before, mut quiet) = (0, 0);
        while quiet < QUIET {
            let count = self.groups.waiting.lock().get(&self.tenant_uid).map_or(0, |of| of.jobs.len());
            if count >= self.groups.most {
                return;
            }
            quiet = if count > before { 0 } else { quiet + 1 };
            before = count;
            tokio::task::yield_now().await;
        }
    }

    /// Looks at the jobs that [`Self::take_jobs`] would take.
    pub fn look_at_group<T>(&self, at: impl FnOnce(&mut dyn Iterator<Item = &J>) -> T) -> T {
        let waiting = self.groups.waiting.lock();
        let jobs = waiting.get(&self.tenant_uid).into_iter().flat_map(|of_tenant| &of_tenant.jobs);
        at(&mut jobs.take(self.groups.most))
    }

    /// Takes the jobs that wait, in the order in which they came, at most a group. None, if another turn was faster.
    pub fn take_jobs(&mut self) -> Vec<J> {
        let most = self.groups.most;
        self.take(|_| most)
    }

    /// The same, but after the first one only jobs whose sizes make at most `room` together with it.
    pub fn take_jobs_within(&mut self, room: usize, of: impl Fn(&J) -> usize) -> Vec<J> {
        let mut left = room;
        let mut fits = |job: &J| {
            let rest = left.checked_sub(of(job));
            left = rest.unwrap_or_default();
            rest.is_some()
        };
        let most = self.groups.most;
        self.take(|jobs| jobs.iter().take_while(|job| fits(job)).count().clamp(1, most))
    }

    /// Takes all jobs that wait, to refuse them.
    pub fn take_all(&mut self) -> Vec<J> {
        self.take(|_| usize::MAX)
    }

    fn take(&mut self, most: impl FnOnce(&VecDeque<J>) -> usize) -> Vec<J> {
        let mut waiting = self.groups.waiting.lock();
        let Some(of_tenant) = waiting.get_mut(&self.tenant_uid) else { return Vec::new() };
        of_tenant.choosing -= usize::from(self.is_choosing);
        self.is_choosing = false;
        let count = most(&of_tenant.jobs).min(of_tenant.jobs.len());
        of_tenant.jobs.drain(..count).collect()
    }
}

/// The groups: each time the jobs that wait then. Without jobs the turn ends.
impl<J> Iterator for Turn<J> {
    type Item = Vec<J>;

    fn next(&mut self) -> Option<Vec<J>> {
        self.look(|_| ())?;
        Some(self.take_jobs())
    }
}

impl<J> Drop for Turn<J> {
    fn drop(&mut self) {
        if !self.ended {
            let left = end(&mut self.groups.waiting.lock(), &self.tenant_uid, self.is_choosing);
            drop(left); // not under the lock
        }
    }
}

/// Ends a turn. With the last one of the tenant, returns the jobs that wait.
fn end<J>(
    waiting: &mut HashMap<Arc<str>, Waiting<J>>,
    tenant_uid: &Arc<str>,
    is_choosing: bool,
) -> Option<Waiting<J>> {
    let of_tenant = waiting.get_mut(tenant_uid)?;
    of_tenant.choosing -= usize::from(is_choosing);
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
        assert_eq!(first.take_jobs(), [1]);
        let mut second = groups.add(&a, 2).expect("another turn");
        assert_eq!(second.take_jobs(), [2]);
        assert!(groups.add(&a, 3).is_none());
        assert_eq!(
            (first.next(), second.next()),
            (Some(vec![3]), None),
            "what waits goes to the first to ask"
        );
        assert!(groups.add(&a, 4).is_some_and(|mut turn| turn.next() == Some(vec![4])));
        drop(second);
        assert!(groups.add(&a, 5).is_some());
    }

    #[test]
    fn jobs_that_come_while_a_turn_waits_for_what_they_need_are_taken_by_it() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.look(|job| *job), Some(1));
        assert!(groups.add(&a, 2).is_none(), "the first turn takes it");
        assert_eq!(first.take_jobs(), [1, 2]);
        assert!(groups.add(&a, 3).is_some(), "the first turn has its jobs");
    }

    #[tokio::test]
    async fn gathered_jobs_are_those_of_the_tasks_that_are_ready() {
        let (groups, a): (_, Arc<str>) = (Groups::new(9, 2), "a".into());
        let mut turn = groups.add(&a, 0).expect("a turn");
        for job in 1..=5 {
            let (groups, a) = (Arc::clone(&groups), Arc::clone(&a));
            tokio::spawn(async move {
                for _ in 0..job {
                    tokio::task::yield_now().await;
                }
                assert!(groups.add(&a, job).is_none());
            });
        }
        assert!(turn.look(|_| ()).is_some());
        turn.gather().await;
        assert_eq!(turn.take_jobs(), [0, 1, 2, 3, 4, 5]);
        assert!(turn.look(|_| ()).is_none());
    }

    #[test]
    fn turn_that_has_what_the_jobs_need_takes_them_before_one_that_waits_for_it() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.take_jobs(), [1]);
        let mut second = groups.add(&a, 2).expect("another turn");
        assert_eq!(second.look(|job| *job), Some(2));
        assert_eq!(first.next(), Some(vec![2]));
        assert!(groups.add(&a, 3).is_none(), "the second turn takes it");
        assert_eq!((second.take_jobs(), second.look(|job| *job)), (vec![3], None));
    }

    #[test]
    fn jobs_within_a_room_are_the_first_ones_that_fit() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 1), "a".into());
        let mut turn = groups.add_all(&a, [4, 2, 3, 9, 1, 1]).expect("a turn");
        assert_eq!(turn.look_at_group(|jobs| jobs.sum::<usize>()), 9);
        assert_eq!(turn.take_jobs_within(8, |job| *job), [4, 2]);
        assert_eq!(turn.take_jobs_within(99, |job| *job), [3, 9, 1]);
        assert_eq!(turn.take_jobs_within(0, |job| *job), [1], "one in any case");
    }

    #[test]
    fn jobs_that_are_refused_are_all_that_wait() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let mut turn = groups.add(&a, 0).expect("a turn");
        assert!((1..=9).all(|job| groups.add(&a, job).is_none()));
        assert_eq!((turn.look(|job| *job), turn.take_all().len(), turn.next()), (Some(9), 10, None));
    }

    #[test]
    fn jobs_outlast_a_dropped_turn_if_their_tenant_has_another() {
        let (groups, a): (_, Arc<str>) = (Groups::new(3, 2), "a".into());
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.take_jobs(), [1]);
        drop(groups.add(&a, 2));
        assert_eq!((first.next(), first.next()), (Some(vec![2]), None));
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
