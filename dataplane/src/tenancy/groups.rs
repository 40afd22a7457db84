//! Groups jobs that one transaction or query can do together: the jobs of a tenant that wait while earlier groups are done, or while
//! a turn waits for its connection. No timer is involved, so a job that comes alone is done at once. [`drive`] does the groups of a turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use docket_store::{AtConnectionLimit, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::telemetry::{Jobs, Metrics};
use crate::tenancy::{ServedTenant, Tenants};

/// A group is gathered when the other tasks have run this number of times without adding a job. Several threads run the tasks, so once is
/// too few.
const QUIET: u32 = 4;

/// Jobs of one kind that wait, by tenant. A tenant without jobs costs nothing.
pub struct Groups<J> {
    /// What the metrics call the jobs.
    kind: Jobs,
    /// The most jobs in a group.
    most: usize,
    /// The most groups of a tenant that are done at the same time.
    turns: usize,
    tenants: Arc<Tenants>,
    metrics: Arc<Metrics>,
    /// The tenants that have a [`Turn`].
    waiting: Mutex<HashMap<Arc<str>, TenantJobs<J>>>,
}

struct TenantJobs<J> {
    jobs: VecDeque<J>,
    turns: usize,
    /// The number of turns that are about to take jobs: they also get the jobs that come until then.
    choosing: usize,
}

/// The work on jobs of one kind. [`drive`] calls the methods in the order in which they are written here.
pub trait Work<J: Send>: Send + Sync {
    /// What a group needs: a reader or a writer of its tenant's database.
    type Connection: Send;
    /// Whether the jobs of a group that failed are done one by one, since one of them may be the cause.
    const ONE_BY_ONE: bool = true;

    /// Connects to the database of `turn.tenant`.
    fn connect(&self, turn: &Turn<J>) -> impl Future<Output = Result<Self::Connection, StoreError>> + Send;

    /// Takes the jobs of a group.
    fn take(&self, turn: &mut Turn<J>, _connection: &mut Self::Connection) -> Vec<J> {
        turn.take_jobs()
    }

    /// Does the jobs of `turn.group`, and takes them out of the turn. After an error, the jobs are still in the turn. Every error but
    /// [`StoreError::Unavailable`] means that the database stored nothing of these jobs.
    fn perform(
        &self,
        turn: &mut Turn<J>,
        connection: Self::Connection,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Ends the jobs of `turn.group`, which were not done, or [puts them back](Turn::put_back).
    fn refuse(&self, turn: &mut Turn<J>, error: StoreError) -> impl Future<Output = ()> + Send;
}

/// Does the jobs of a turn, a group at a time, until no job waits.
///
/// The turn takes jobs only when it has a connection to the database that the tenant has then, so that the jobs that come until then join
/// the group. If it gets no connection, all jobs that wait are refused. A group that fails is refused, or done again one by one.
pub async fn drive<J: Send, W: Work<J>>(mut turn: Turn<J>, work: W) {
    while turn.look() {
        let mut connected = work.connect(&turn).await;
        let is_connected = connected.is_ok();
        if is_connected {
            turn.gather().await;
        }
        // The connection is to the database that the tenant had before.
        if turn.look_at_tenant() {
            continue;
        }
        turn.group = match &mut connected {
            Ok(connection) => work.take(&mut turn, connection),
            // The jobs that wait would get a connection no sooner.
            Err(_) => turn.take_all(),
        };
        if turn.group.is_empty() {
            continue;
        }
        let done = match connected {
            Ok(connection) => {
                turn.groups.metrics.delivery.grouped(turn.groups.kind, turn.group.len());
                work.perform(&mut turn, connection).await
            }
            Err(error) => Err(error),
        };
        let may_be_of_one = W::ONE_BY_ONE && is_connected && turn.group.len() > 1;
        match done {
            Ok(()) => turn.failures = 0,
            Err(error) if !may_be_of_one || matches!(error, StoreError::Unavailable(_)) => {
                work.refuse(&mut turn, error).await;
                turn.failures += 1;
            }
            // One job may be the cause: the jobs are done one by one.
            Err(_) => turn.apart.extend(turn.group.drain(..)),
        }
    }
}

/// Answers requests with this error. Of several requests, all but the first get it as [`StoreError::Unavailable`]: a group is refused as a
/// whole only if its database is not available.
pub fn refuse_all<T>(
    requests: impl IntoIterator<Item = oneshot::Sender<Result<T, StoreError>>>,
    mut error: StoreError,
) {
    let is_at_limit = error.is_at_connection_limit();
    let text = match &error {
        StoreError::Unavailable(source) => source.to_string(),
        other => other.to_string(),
    };
    for request in requests {
        let again = if is_at_limit { AtConnectionLimit.into() } else { text.clone().into() };
        // A client may have gone.
        let _ = request.send(Err(std::mem::replace(&mut error, StoreError::Unavailable(again))));
    }
}

impl<J> Groups<J> {
    /// Creates groups of at most `most` jobs. At most `turns` groups of a tenant are done at the same time.
    pub fn new(
        kind: Jobs,
        most: usize,
        turns: usize,
        tenants: &Arc<Tenants>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        let (tenants, metrics) = (Arc::clone(tenants), Arc::clone(metrics));
        Arc::new(Self { kind, most, turns, tenants, metrics, waiting: Mutex::default() })
    }

    /// Adds a job. The caller that gets a turn of the tenant [drives](drive) it. There is no new turn while another turn is about to
    /// take jobs.
    #[must_use]
    pub fn add(self: &Arc<Self>, tenant: &Arc<ServedTenant>, job: J) -> Option<Turn<J>> {
        self.add_all(tenant, [job])
    }

    /// Adds several jobs, like [`add`](Self::add).
    #[must_use]
    pub fn add_all(
        self: &Arc<Self>,
        tenant: &Arc<ServedTenant>,
        jobs: impl IntoIterator<Item = J>,
    ) -> Option<Turn<J>> {
        let mut waiting = self.waiting.lock();
        let empty = || TenantJobs { jobs: VecDeque::new(), turns: 0, choosing: 0 };
        let of_tenant = waiting.entry(Arc::clone(&tenant.uid)).or_insert_with(empty);
        of_tenant.jobs.extend(jobs);
        if of_tenant.turns == self.turns || of_tenant.choosing > 0 {
            return None;
        }
        of_tenant.turns += 1;
        of_tenant.choosing += 1;
        Some(Turn {
            groups: Arc::clone(self),
            tenant: Arc::clone(tenant),
            group: Vec::new(),
            apart: VecDeque::new(),
            failures: 0,
            is_choosing: true,
            ended: false,
        })
    }
}

/// The right to do jobs of a tenant. Dropped before its end, as by a panic, it drops the jobs that wait, unless the tenant has
/// another turn.
pub struct Turn<J> {
    groups: Arc<Groups<J>>,
    /// The tenant as it was served when the turn looked last, at the latest just before it took jobs.
    pub tenant: Arc<ServedTenant>,
    /// The jobs that are being done.
    pub group: Vec<J>,
    /// Jobs to do one by one, before the jobs that wait.
    apart: VecDeque<J>,
    /// The number of groups in a row that were refused.
    failures: u32,
    /// Whether the turn is about to take jobs.
    is_choosing: bool,
    ended: bool,
}

impl<J> Turn<J> {
    /// Looks at the tenant as it is served now, and whether jobs wait. Until the turn takes them, it also gets the jobs that come.
    /// `false`: no jobs wait, and the turn has ended.
    fn look(&mut self) -> bool {
        self.look_at_tenant();
        if !self.apart.is_empty() {
            return true;
        }
        let mut waiting = self.groups.waiting.lock();
        let Some(of_tenant) = waiting.get_mut(&self.tenant.uid) else { return false };
        if of_tenant.jobs.is_empty() {
            self.ended = true;
            end(&mut waiting, &self.tenant.uid, self.is_choosing);
            return false;
        }
        of_tenant.choosing += usize::from(!self.is_choosing);
        self.is_choosing = true;
        true
    }

    /// Reads the tenant as it is served now. Returns whether the tenant has another database than before, or another password to
    /// the database.
    fn look_at_tenant(&mut self) -> bool {
        let Some(served) = self.groups.tenants.by_uid(&self.tenant.uid) else { return false };
        let before = std::mem::replace(&mut self.tenant, served);
        !Arc::ptr_eq(&before.store, &self.tenant.store)
    }

    /// Lets other tasks run that are ready, as long as they add jobs and the group is not full: a group costs little more than a job
    /// alone. If no task adds a job, the wait costs a few microseconds.
    pub async fn gather(&self) {
        let (mut before, mut quiet) = (0, 0);
        while quiet < QUIET {
            let count = self.groups.waiting.lock().get(&self.tenant.uid).map_or(0, |of| of.jobs.len());
            if count >= self.groups.most {
                return;
            }
            quiet = if count > before { 0 } else { quiet + 1 };
            before = count;
            tokio::task::yield_now().await;
        }
    }

    /// Looks at the jobs that [`Self::take_jobs`] would take, unless the turn does jobs one by one.
    pub fn look_at_group<T>(&self, at: impl FnOnce(&mut dyn Iterator<Item = &J>) -> T) -> T {
        let waiting = self.groups.waiting.lock();
        let of_tenant = waiting.get(&self.tenant.uid).filter(|_| self.is_choosing);
        let jobs = of_tenant.into_iter().flat_map(|of_tenant| &of_tenant.jobs);
        at(&mut jobs.take(self.groups.most))
    }

    /// Takes the jobs that wait, in the order in which they came, at most a group. Returns no job if another turn was faster.
    pub fn take_jobs(&mut self) -> Vec<J> {
        let most = self.groups.most;
        self.take(|_| most)
    }

    /// Takes jobs like [`Self::take_jobs`], but only the first jobs whose sizes together are at most `room`; one job in any case. `of` is the
    /// size of a job.
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

    /// Takes all jobs, to refuse them.
    pub fn take_all(&mut self) -> Vec<J> {
        let mut all: Vec<J> = self.apart.drain(..).collect();
        all.extend(self.take(|_| usize::MAX));
        all
    }

    /// Takes a job that is done alone, or else the first of the jobs that wait: `most` says how many.
    fn take(&mut self, most: impl FnOnce(&VecDeque<J>) -> usize) -> Vec<J> {
        if let Some(job) = self.apart.pop_front() {
            return vec![job];
        }
        let mut waiting = self.groups.waiting.lock();
        let Some(of_tenant) = waiting.get_mut(&self.tenant.uid) else { return Vec::new() };
        of_tenant.choosing -= usize::from(self.is_choosing);
        self.is_choosing = false;
        let count = most(&of_tenant.jobs).min(of_tenant.jobs.len());
        of_tenant.jobs.drain(..count).collect()
    }

    /// Puts jobs back, before the jobs that wait: the turn tries them again.
    pub fn put_back(&mut self, jobs: Vec<J>) {
        if let Some(of_tenant) = self.groups.waiting.lock().get_mut(&self.tenant.uid) {
            jobs.into_iter().rev().for_each(|job| of_tenant.jobs.push_front(job));
        }
    }

    /// How long to wait after jobs were refused: `first`, then twice as long after each further failure in a row, at most `longest`.
    pub fn pause(&self, first: Duration, longest: Duration) -> Duration {
        first.saturating_mul(2_u32.saturating_pow(self.failures)).min(longest)
    }
}

impl<J> Drop for Turn<J> {
    fn drop(&mut self) {
        if !self.ended {
            let left = end(&mut self.groups.waiting.lock(), &self.tenant.uid, self.is_choosing);
            drop(left); // not under the lock
        }
    }
}

/// Ends a turn. With the last one of the tenant, returns the jobs that wait.
fn end<J>(
    waiting: &mut HashMap<Arc<str>, TenantJobs<J>>,
    tenant_uid: &Arc<str>,
    is_choosing: bool,
) -> Option<TenantJobs<J>> {
    let of_tenant = waiting.get_mut(tenant_uid)?;
    of_tenant.choosing -= usize::from(is_choosing);
    of_tenant.turns -= 1;
    if of_tenant.turns == 0 { waiting.remove(tenant_uid) } else { None }
}

#[cfg(test)]
mod tests {
    use docket_store::sqlite::Sqlite;
    use docket_store::stores::Store;

    use super::*;
    use crate::tenancy::testing;

    /// A tenant with a database of its own, which is never opened.
    fn tenant(uid: &str) -> Arc<ServedTenant> {
        testing::tenant(uid, Sqlite::new("/never/opened".into()))
    }

    fn groups<J>(most: usize, turns: usize) -> Arc<Groups<J>> {
        Groups::new(Jobs::Save, most, turns, &Arc::default(), &Arc::default())
    }

    fn next<J>(turn: &mut Turn<J>) -> Option<Vec<J>> {
        turn.look().then(|| turn.take_jobs())
    }

    #[test]
    fn jobs_that_come_during_a_turn_form_the_next_group() {
        let (groups, a) = (groups(3, 1), tenant("a"));
        let mut turn = groups.add(&a, 0).expect("the first has the turn");
        assert_eq!(next(&mut turn), Some(vec![0]));
        assert!((1..=4).all(|job| groups.add(&a, job).is_none()));
        assert!(groups.add(&tenant("b"), 9).is_some(), "each tenant has its own turn");
        let groups_of_turn = [next(&mut turn), next(&mut turn), next(&mut turn)];
        assert_eq!(groups_of_turn, [Some(vec![1, 2, 3]), Some(vec![4]), None]);
        assert!(groups.add(&a, 5).is_some(), "the turn has ended");
    }

    #[test]
    fn jobs_wait_when_all_turns_of_their_tenant_are_taken() {
        let (groups, a) = (groups(3, 2), tenant("a"));
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.take_jobs(), [1]);
        let mut second = groups.add(&a, 2).expect("another turn");
        assert_eq!(second.take_jobs(), [2]);
        assert!(groups.add(&a, 3).is_none());
        assert_eq!(
            (next(&mut first), next(&mut second)),
            (Some(vec![3]), None),
            "what waits goes to the first to ask"
        );
        assert!(groups.add(&a, 4).is_some_and(|mut turn| next(&mut turn) == Some(vec![4])));
        drop(second);
        assert!(groups.add(&a, 5).is_some());
    }

    #[test]
    fn jobs_that_come_while_a_turn_waits_for_what_they_need_are_taken_by_it() {
        let (groups, a) = (groups(3, 2), tenant("a"));
        let mut first = groups.add(&a, 1).expect("a turn");
        assert!(first.look());
        assert!(groups.add(&a, 2).is_none(), "the first turn takes it");
        assert_eq!(first.take_jobs(), [1, 2]);
        assert!(groups.add(&a, 3).is_some(), "the first turn has its jobs");
    }

    #[tokio::test]
    async fn gathered_jobs_are_those_of_the_tasks_that_are_ready() {
        let (groups, a) = (groups(9, 2), tenant("a"));
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
        assert!(turn.look());
        turn.gather().await;
        assert_eq!(turn.take_jobs(), [0, 1, 2, 3, 4, 5]);
        assert!(!turn.look());
    }

    #[test]
    fn turn_that_has_what_the_jobs_need_takes_them_before_one_that_waits_for_it() {
        let (groups, a) = (groups(3, 2), tenant("a"));
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.take_jobs(), [1]);
        let mut second = groups.add(&a, 2).expect("another turn");
        assert!(second.look());
        assert_eq!(next(&mut first), Some(vec![2]));
        assert!(groups.add(&a, 3).is_none(), "the second turn takes it");
        assert_eq!((second.take_jobs(), second.look()), (vec![3], false));
    }

    #[test]
    fn jobs_within_a_room_are_the_first_ones_that_fit() {
        let (groups, a) = (groups(3, 1), tenant("a"));
        let mut turn = groups.add_all(&a, [4, 2, 3, 9, 1, 1]).expect("a turn");
        assert_eq!(turn.look_at_group(|jobs| jobs.sum::<usize>()), 9);
        assert_eq!(turn.take_jobs_within(8, |job| *job), [4, 2]);
        assert_eq!(turn.take_jobs_within(99, |job| *job), [3, 9, 1]);
        assert_eq!(turn.take_jobs_within(0, |job| *job), [1], "one in any case");
    }

    #[test]
    fn jobs_that_are_refused_are_all_that_wait() {
        let (groups, a) = (groups(3, 2), tenant("a"));
        let mut turn = groups.add(&a, 0).expect("a turn");
        assert!((1..=9).all(|job| groups.add(&a, job).is_none()));
        assert_eq!((turn.look(), turn.take_all().len(), next(&mut turn)), (true, 10, None));
    }

    #[test]
    fn jobs_outlast_a_dropped_turn_if_their_tenant_has_another() {
        let (groups, a) = (groups(3, 2), tenant("a"));
        let mut first = groups.add(&a, 1).expect("a turn");
        assert_eq!(first.take_jobs(), [1]);
        drop(groups.add(&a, 2));
        assert_eq!((next(&mut first), next(&mut first)), (Some(vec![2]), None));
    }

    #[test]
    fn turn_that_is_dropped_takes_its_jobs_along() {
        let (groups, a) = (groups(3, 1), tenant("a"));
        let turn = groups.add(&a, 0);
        assert!(groups.add(&a, 1).is_none());
        drop(turn);
        let mut turn = groups.add(&a, 2).expect("a new turn");
        assert_eq!(next(&mut turn), Some(vec![2]));
    }

    #[test]
    fn jobs_that_are_put_back_come_before_those_that_wait() {
        let (groups, a) = (groups(3, 1), tenant("a"));
        let mut turn = groups.add_all(&a, [1, 2, 3, 4]).expect("a turn");
        let taken = turn.take_jobs();
        turn.put_back(taken);
        let groups_of_turn = [next(&mut turn), next(&mut turn), next(&mut turn)];
        assert_eq!(groups_of_turn, [Some(vec![1, 2, 3]), Some(vec![4]), None]);
    }

    #[test]
    fn pause_doubles_with_each_failure_in_a_row() {
        let mut turn = groups(1, 1).add(&tenant("a"), 1).expect("a turn");
        let pauses = [0, 1, 4, 5, 99].map(|failures| {
            turn.failures = failures;
            turn.pause(Duration::from_millis(100), Duration::from_secs(3)).as_millis()
        });
        assert_eq!(pauses, [100, 200, 1_600, 3_000, 3_000]);
    }

    /// A number, and what gets it back.
    type Asked = (u32, oneshot::Sender<Result<u32, StoreError>>);
    type Answer = oneshot::Receiver<Result<u32, StoreError>>;

    /// Answers numbers. A group with 13 fails, and one with 99 finds the database away.
    #[derive(Default)]
    struct Echo {
        tenants: Arc<Tenants>,
        /// Served from the first connection on.
        next: Mutex<Option<Arc<ServedTenant>>>,
        /// How many connections there are.
        most: Option<usize>,
        hangs: bool,
        /// The databases that it connected to.
        connected: Mutex<Vec<Arc<Store>>>,
        /// The groups that it got.
        groups: Mutex<Vec<Vec<u32>>>,
    }

    impl Work<Asked> for Arc<Echo> {
        type Connection = Arc<Store>;

        async fn connect(&self, turn: &Turn<Asked>) -> Result<Arc<Store>, StoreError> {
            let store = Arc::clone(&turn.tenant.store);
            let mut connected = self.connected.lock();
            if self.most == Some(connected.len()) {
                return Err(StoreError::Unavailable(AtConnectionLimit.into()));
            }
            connected.push(Arc::clone(&store));
            self.tenants.replace(self.next.lock().take().into_iter().collect());
            Ok(store)
        }

        async fn perform(&self, turn: &mut Turn<Asked>, store: Arc<Store>) -> Result<(), StoreError> {
            assert!(Arc::ptr_eq(&store, &turn.tenant.store));
            let numbers: Vec<u32> = turn.group.iter().map(|(number, _)| *number).collect();
            self.groups.lock().push(numbers.clone());
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if numbers.contains(&99) {
                return Err(StoreError::Unavailable("it is away".into()));
            }
            if numbers.contains(&13) {
                return Err(StoreError::Unexpected("an unlucky number"));
            }
            for (number, result) in turn.group.drain(..) {
                result.send(Ok(number)).expect("it is asked for");
            }
            Ok(())
        }

        async fn refuse(&self, turn: &mut Turn<Asked>, error: StoreError) {
            refuse_all(turn.group.drain(..).map(|(_, result)| result), error);
        }
    }

    /// Adds numbers. The first one gets a turn.
    fn ask<const N: usize>(
        groups: &Arc<Groups<Asked>>,
        tenant: &Arc<ServedTenant>,
        numbers: [u32; N],
    ) -> (Turn<Asked>, Vec<Answer>) {
        let mut answers = Vec::new();
        let jobs = numbers.map(|number| {
            let (result, answer) = oneshot::channel();
            answers.push(answer);
            (number, result)
        });
        (groups.add_all(tenant, jobs).expect("a turn"), answers)
    }

    /// What becomes of numbers in groups of at most four.
    async fn echoed<const N: usize>(echo: &Arc<Echo>, numbers: [u32; N]) -> Vec<Result<u32, StoreError>> {
        let (turn, answers) = ask(&groups(4, 1), &tenant("a"), numbers);
        drive(turn, Arc::clone(echo)).await;
        let mut results = Vec::new();
        for answer in answers {
            results.push(answer.await.expect("each gets one"));
        }
        results
    }

    fn is_at_limit(result: &Result<u32, StoreError>) -> bool {
        result.as_ref().is_err_and(StoreError::is_at_connection_limit)
    }

    #[tokio::test]
    async fn job_that_fails_its_group_fails_alone() {
        let echo = Arc::<Echo>::default();
        let results = echoed(&echo, [1, 13, 2, 3, 4]).await;
        assert!(matches!(results[..], [Ok(1), Err(StoreError::Unexpected(_)), Ok(2), Ok(3), Ok(4)]));
        let groups = [vec![1, 13, 2, 3], vec![1], vec![13], vec![2], vec![3], vec![4]];
        assert_eq!(*echo.groups.lock(), groups);
    }

    #[tokio::test]
    async fn group_whose_database_is_away_fails_as_a_whole() {
        let echo = Arc::<Echo>::default();
        let results = echoed(&echo, [1, 99, 2, 3, 4]).await;
        let is_away = |result: &Result<u32, StoreError>| matches!(result, Err(StoreError::Unavailable(_)));
        assert!(results[..4].iter().all(is_away) && matches!(results[4], Ok(4)));
        assert_eq!(*echo.groups.lock(), [vec![1, 99, 2, 3], vec![4]]);
    }

    #[tokio::test]
    async fn all_that_wait_are_refused_if_there_is_no_connection() {
        let echo = Arc::new(Echo { most: Some(0), ..Echo::default() });
        assert!(echoed(&echo, [1, 2, 3, 4, 5, 6]).await.iter().all(is_at_limit));
        assert!(echo.groups.lock().is_empty());
    }

    #[tokio::test]
    async fn jobs_that_are_done_one_by_one_are_refused_with_those_that_wait() {
        let echo = Arc::new(Echo { most: Some(2), ..Echo::default() });
        let results = echoed(&echo, [1, 13, 2, 3, 4, 5]).await;
        assert!(matches!(results[0], Ok(1)) && results[1..].iter().all(is_at_limit));
        assert_eq!(*echo.groups.lock(), [vec![1, 13, 2, 3], vec![1]]);
    }

    #[tokio::test]
    async fn turn_connects_again_if_its_tenant_got_another_database_meanwhile() {
        let (before, after) = (tenant("a"), tenant("a"));
        let echo = Arc::new(Echo { next: Mutex::new(Some(Arc::clone(&after))), ..Echo::default() });
        let groups = Groups::new(Jobs::Save, 4, 1, &echo.tenants, &Arc::default());
        let (turn, answers) = ask(&groups, &before, [1, 2]);
        drive(turn, Arc::clone(&echo)).await;
        let connected = echo.connected.lock();
        let expected = [&before.store, &after.store];
        assert_eq!(connected.len(), 2);
        assert!(connected.iter().zip(expected).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert_eq!(*echo.groups.lock(), [vec![1, 2]], "once, and there");
        for mut answer in answers {
            assert!(matches!(answer.try_recv(), Ok(Ok(_))));
        }
    }

    #[tokio::test]
    async fn turn_that_is_cancelled_drops_its_jobs_and_leaves_the_tenant_to_the_next() {
        let echo = Arc::new(Echo { hangs: true, ..Echo::default() });
        let (groups, a) = (groups(2, 1), tenant("a"));
        let (turn, answers) = ask(&groups, &a, [1, 2, 3]);
        let driving = tokio::spawn(drive(turn, Arc::clone(&echo)));
        while echo.groups.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        driving.abort();
        for answer in answers {
            assert!(answer.await.is_err(), "no one answers");
        }
        assert_eq!(*echo.groups.lock(), [vec![1, 2]]);
        let (turn, mut answers) = ask(&groups, &a, [4]);
        drive(turn, Arc::<Echo>::default()).await;
        assert!(matches!(answers.remove(0).await, Ok(Ok(4))));
    }
}
