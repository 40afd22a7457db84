//! The users that tokens belong to, as they are now: a token ends within five seconds after its user is deactivated, deleted,
//! given another password or moved to another customer, also by plain SQL.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::token::{Owner, TokenSubject, Verified};
use docket_program::clock::Clock;
use docket_store::{StoreError, contacts, employees};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::groups::{Groups, Turn};
use crate::tenants::ServedTenant;

/// A copy is used for this long from the beginning of its query, in milliseconds.
const FRESH_MS: i64 = 5_000;
/// How far the clocks of two processes may differ, and the second to which a token's time is cut, in milliseconds.
const SKEW_MS: i64 = 5_000;
/// The most copies, of some 200 bytes each.
const MAX_COPIES: usize = 10_000;
/// The most requests that one read serves.
const GROUP: usize = 1_000;
/// How long a read may take, until the requests that wait for it are refused.
const READ_TIME: Duration = Duration::from_secs(3);

/// Copies of users that have tokens, read when they are needed. Reads of one tenant that wait are made together.
pub struct Owners {
    clock: Clock,
    groups: Arc<Groups<Job>>,
    copies: Mutex<HashMap<(Arc<str>, User), Copied>>,
}

/// A user of a tenant, by code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum User {
    Contact(String),
    Employee(String),
}

#[derive(Debug, Clone)]
struct Copied {
    /// `None`: there is no such active user.
    owner: Option<Owner>,
    at_ms: i64,
}

impl Copied {
    fn is_fresh(&self, now_ms: i64) -> bool {
        // The clock may have been set back.
        (0..FRESH_MS).contains(&(now_ms - self.at_ms))
    }
}

struct Job {
    tenant: Arc<ServedTenant>,
    user: User,
    result: oneshot::Sender<Result<Option<Owner>, StoreError>>,
}

impl Owners {
    /// Without copies.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, groups: Groups::new(GROUP), copies: Mutex::default() })
    }

    /// Whether a token belongs to its subject still, by a copy that is at most five seconds old.
    ///
    /// # Errors
    ///
    /// The database can't be read, and there is no such copy.
    pub async fn is_current(
        self: &Arc<Self>,
        tenant: &Arc<ServedTenant>,
        token: &Verified<'_>,
    ) -> Result<bool, StoreError> {
        let user = match &token.subject {
            TokenSubject::Contact { contact_code, .. } => User::Contact(contact_code.clone()),
            TokenSubject::Employee { employee_code, .. } => User::Employee(employee_code.clone()),
        };
        let key = (Arc::clone(&tenant.uid), user);
        let now_ms = self.clock.now_ms();
        if let Some(copied) = self.copies.lock().get(&key).filter(|copied| copied.is_fresh(now_ms)) {
            let is_current = copied.owner.as_ref().is_some_and(|owner| token.belongs_to(owner));
            // A token that is newer than the copy may belong to a user with a new password.
            if is_current || token.issued_at * 1000 + SKEW_MS < copied.at_ms {
                return Ok(is_current);
            }
        }
        let (result, read) = oneshot::channel();
        let job = Job { tenant: Arc::clone(tenant), user: key.1, result };
        if let Some(turn) = self.groups.add(&tenant.uid, job) {
            tokio::spawn(Arc::clone(self).run(turn));
        }
        let owner = read.await.unwrap_or(Err(StoreError::Unexpected("reading users panicked")))?;
        Ok(owner.is_some_and(|owner| token.belongs_to(&owner)))
    }

    async fn run(self: Arc<Self>, turn: Turn<Job>) {
        let mut away: Option<Arc<StoreError>> = None;
        for mut group in turn {
            // Their clients have gone.
            group.retain(|job| !job.result.is_closed());
            let Some(tenant) = group.first().map(|job| Arc::clone(&job.tenant)) else { continue };
            let at_ms = self.clock.now_ms();
            // What waited for a read that failed waits for no other.
            let read = match &away {
                Some(error) => Err(Arc::clone(error)),
                None => self.read_in_time(&tenant, &group).await.map_err(Arc::new),
            };
            match read {
                Ok(owners) => {
                    self.keep(&tenant.uid, &group, &owners, at_ms);
                    for job in group {
                        // A client that has disconnected waits for nothing.
                        let _ = job.result.send(Ok(owners.get(&job.user).cloned()));
                    }
                }
                Err(error) => {
                    for job in group {
                        let _ = job.result.send(Err(StoreError::Unavailable(Box::new(Arc::clone(&error)))));
                    }
                    away = Some(error);
                }
            }
        }
    }

    async fn read_in_time(
        &self,
        tenant: &ServedTenant,
        group: &[Job],
    ) -> Result<HashMap<User, Owner>, StoreError> {
        let read = tokio::time::timeout(READ_TIME, self.read(tenant, group)).await;
        read.unwrap_or_else(|_| {
            Err(StoreError::Unavailable("reading the users of tokens took too long".into()))
        })
    }

    async fn read(&self, tenant: &ServedTenant, group: &[Job]) -> Result<HashMap<User, Owner>, StoreError> {
        let users: HashSet<&User> = group.iter().map(|job| &job.user).collect();
        let (mut of_contacts, mut of_employees) = (Vec::new(), Vec::new());
        for user in users {
            match user {
                User::Contact(code) => of_contacts.push(code.as_str()),
                User::Employee(code) => of_employees.push(code.as_str()),
            }
        }
        let mut reader = tenant.store.ready(&self.clock).await?.reader().await?;
        let mut owners = HashMap::new();
        if !of_contacts.is_empty() {
            let read = contacts::owners(&mut reader, &of_contacts).await?;
            owners.extend(read.into_iter().map(|(code, owner)| (User::Contact(code), owner)));
        }
        if !of_employees.is_empty() {
            let read = employees::owners(&mut reader, &of_employees).await?;
            owners.extend(read.into_iter().map(|(code, owner)| (User::Employee(code), owner)));
        }
        Ok(owners)
    }

    fn keep(&self, tenant: &Arc<str>, group: &[Job], owners: &HashMap<User, Owner>, at_ms: i64) {
        let mut copies = self.copies.lock();
        if copies.len() + group.len() > MAX_COPIES {
            copies.retain(|_, copied| copied.is_fresh(at_ms));
        }
        if copies.len() + group.len() > MAX_COPIES {
            copies.clear();
        }
        for job in group {
            let copied = Copied { owner: owners.get(&job.user).cloned(), at_ms };
            copies.insert((Arc::clone(tenant), job.user.clone()), copied);
        }
    }
}
