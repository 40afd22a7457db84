//! The audit of a process: each entry is a line of the stream at once, and soon after a row of the tenant's database.
//!
//! No request waits for its entries or fails because of them. Resends and commands are the exception: their entries are stored in
//! the transaction of the request. An entry that can't be stored is counted, and is in the stream alone.

mod reads;
mod refusals;
mod sign_ins;
mod stream;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::audit::{AuditEvent, AuditRecord, Origin, name_digest};
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::people::user_key;
use docket_store::{StoreError, audit};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::telemetry::{Jobs, Lost, Metrics};
use crate::tenancy::groups::{self, Groups, Turn, Work};
use crate::tenancy::{ServedTenant, Tenants};
use reads::{AuditedRead, Reads};
use refusals::{RefusedSignIn, RefusedSignIns};
use sign_ins::SignIns;
pub use stream::{AuditLine, Stream};

/// The time within which a tenant's entries are gathered, to be stored in one transaction.
const GATHER: Duration = Duration::from_secs(1);
/// How long storing may take.
const STORE_TIME: Duration = Duration::from_secs(5);
/// The most tenants whose entries are stored at the same time, so that requests keep most connections.
const WRITERS: usize = 4;
/// The longest pause before a tenant's next entries are stored, after storing failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time in which sign-ins of one user and network are counted before they become one entry, and refused sign-ins likewise.
const WINDOW: Duration = Duration::from_secs(60);
/// The most entries that wait to be stored: for one event of a tenant, and in all. An entry takes some 300 bytes.
const MAX_WAITING: (usize, usize) = (250, 20_000);
/// The most entries that one transaction stores.
const MAX_STORED: usize = 1_000;

/// The audit of this process.
pub struct Audit {
    clock: Clock,
    metrics: Arc<Metrics>,
    stream: Option<Stream>,
    groups: Arc<Groups<AuditRow>>,
    waiting: Arc<Mutex<WaitingEntries>>,
    writers: Arc<Semaphore>,
    /// Refused sign-ins by the tenant's uid; `None` counts sign-ins at tenants that do not exist.
    refused: Mutex<HashMap<Option<Arc<str>>, RefusedSignIns>>,
    /// Sign-ins by the tenant's uid.
    signed_in: Mutex<HashMap<Arc<str>, SignIns>>,
    /// Finds the tenant when a window ends. Meanwhile, nothing keeps the database of a tenant that is gone open.
    tenants: Arc<Tenants>,
    reads: Mutex<Reads>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct AuditRow {
    record: AuditRecord,
    _permit: QueuePermit,
}

/// How many entries wait to be stored.
#[derive(Default)]
struct WaitingEntries {
    all: usize,
    of: HashMap<(Arc<str>, AuditEvent), usize>,
}

/// The permit of a waiting entry. Dropping it frees its place.
struct QueuePermit {
    waiting: Arc<Mutex<WaitingEntries>>,
    tenant_uid: Arc<str>,
    event: AuditEvent,
}

impl QueuePermit {
    /// Takes a permit; `None` if too many entries wait.
    fn take(waiting: &Arc<Mutex<WaitingEntries>>, tenant_uid: &Arc<str>, event: AuditEvent) -> Option<Self> {
        waiting.lock().add(tenant_uid, event).then(|| {
            let (waiting, tenant_uid) = (Arc::clone(waiting), Arc::clone(tenant_uid));
            Self { waiting, tenant_uid, event }
        })
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.tenant_uid, self.event);
    }
}

impl WaitingEntries {
    /// Counts a waiting entry, unless too many wait. Each event has places of its own, so an event that a user repeats takes none
    /// from the others.
    fn add(&mut self, tenant_uid: &Arc<str>, event: AuditEvent) -> bool {
        let ((of_event, of_all), key) = (MAX_WAITING, (Arc::clone(tenant_uid), event));
        if self.all >= of_all || self.of.get(&key).is_some_and(|count| *count >= of_event) {
            return false;
        }
        self.all += 1;
        *self.of.entry(key).or_default() += 1;
        true
    }

    fn remove(&mut self, tenant_uid: &Arc<str>, event: AuditEvent) {
        self.all -= 1;
        if let Entry::Occupied(mut of) = self.of.entry((Arc::clone(tenant_uid), event)) {
            *of.get_mut() -= 1;
            if *of.get() == 0 {
                of.remove();
            }
        }
    }
}

impl Audit {
    /// Creates an audit. It writes its entries to `stream` too, if there is one.
    pub fn new(
        clock: Clock,
        metrics: Arc<Metrics>,
        tenants: Arc<Tenants>,
        stream: Option<Stream>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            groups: Groups::new(Jobs::Audit, MAX_STORED, 1, &tenants, &metrics),
            metrics,
            tenants,
            stream,
            waiting: Arc::default(),
            writers: Arc::new(Semaphore::new(WRITERS)),
            refused: Mutex::default(),
            signed_in: Mutex::default(),
            reads: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        })
    }

    /// A new entry of this moment.
    pub fn entry(&self, event: AuditEvent) -> AuditRecord {
        AuditRecord::new(event, self.clock.now_ms(), random::bytes())
    }

    /// Writes an entry to the stream at once, and stores it soon.
    pub fn record(self: &Arc<Self>, tenant: &Arc<ServedTenant>, record: AuditRecord) {
        self.write(Some(tenant), &record);
        let Some(permit) = QueuePermit::take(&self.waiting, &tenant.uid, record.event) else {
            return self.metrics.audit_lost(Lost::Row, 1);
        };
        if let Some(turn) = self.groups.add(tenant, AuditRow { record, _permit: permit }) {
            self.tasks.spawn(groups::drive(turn, Arc::clone(self)));
        }
    }

    /// Like [`record`](Self::record), for a sign-in. If the same user signs in again from the same network within a minute, these
    /// sign-ins become one entry at the end of the minute.
    pub fn record_sign_in(self: &Arc<Self>, tenant: &Arc<ServedTenant>, record: AuditRecord) {
        let mut signed_in = self.signed_in.lock();
        let is_first = !signed_in.contains_key(&tenant.uid);
        let at_once = signed_in.entry(Arc::clone(&tenant.uid)).or_default().add(record);
        drop(signed_in);
        if is_first {
            self.tasks.spawn(Arc::clone(self).end_sign_ins(Arc::clone(&tenant.uid)));
        }
        if let Some(record) = at_once {
            self.record(tenant, record);
        }
    }

    /// Like [`record`](Self::record), but once in five minutes for each user, network and subject.
    pub fn record_read(self: &Arc<Self>, tenant: &Arc<ServedTenant>, mut record: AuditRecord) {
        let read = AuditedRead {
            tenant_uid: Arc::clone(&tenant.uid),
            actor: record.actor.clone(),
            subject: record.subject.clone(),
        };
        let is_first = self.reads.lock().is_first(read, &mut record.origin.address, self.clock.now_ms());
        if is_first {
            self.record(tenant, record);
        }
    }

    /// Writes an entry to the stream. A transaction has stored it.
    pub fn stored(&self, tenant: &Arc<ServedTenant>, record: &AuditRecord) {
        self.write(Some(tenant), record);
    }

    /// Counts a refused sign-in; `kind` distinguishes contacts from employees. At the end of a minute the counts become entries of
    /// the tenant, if it exists.
    pub fn sign_in_refused(
        self: &Arc<Self>,
        tenant: Option<&Arc<ServedTenant>>,
        address: Option<IpAddr>,
        kind: &str,
        user_id: &str,
    ) {
        let key = tenant.and_then(|tenant| tenant.config.tokens.signing_keys.first());
        let name = key.map(|key| name_digest(key.secret.expose(), kind, &user_key(user_id)));
        let uid = tenant.map(|tenant| Arc::clone(&tenant.uid));
        let mut refused = self.refused.lock();
        let is_first = !refused.contains_key(&uid);
        refused.entry(uid).or_default().add(RefusedSignIn { address, name }, self.clock.now_ms());
        drop(refused);
        if is_first {
            self.tasks.spawn(Arc::clone(self).end_window(tenant.map(|tenant| Arc::clone(&tenant.uid))));
        }
    }

    /// Stores the entries that wait, and ends the stream. Later entries are stored at once.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        // If a database does not respond, its entries are lost.
        let _ = tokio::time::timeout(STORE_TIME, self.tasks.wait()).await;
        if let Some(stream) = &self.stream {
            stream.flush().await;
        }
    }

    fn write(&self, tenant: Option<&Arc<ServedTenant>>, record: &AuditRecord) {
        let Some(stream) = &self.stream else { return };
        let code = tenant.map(|tenant| tenant.config.client_code.as_str());
        if !stream.write(code, record) {
            self.metrics.audit_lost(Lost::Line, 1);
        }
    }

    /// Records the refused sign-ins of a window that ends now.
    async fn end_window(self: Arc<Self>, tenant_uid: Option<Arc<str>>) {
        self.closing.run_until_cancelled(self.clock.sleep(WINDOW)).await;
        let refused = self.refused.lock().remove(&tenant_uid).unwrap_or_default();
        let records = refused.lines().into_iter().map(|(RefusedSignIn { address, name }, at_ms, count)| {
            let record = AuditRecord::new(AuditEvent::SignInRefused, at_ms, random::bytes());
            let record = record.at(Origin { address, request_id: None }).times(count);
            match name {
                Some(digest) => record.about("name", &digest),
                None => record,
            }
        });
        let records = records.collect();
        self.record_of(tenant_uid.as_deref().unwrap_or_default(), records);
    }

    /// Records a tenant's sign-ins at the end of each window, until a window has none.
    async fn end_sign_ins(self: Arc<Self>, tenant_uid: Arc<str>) {
        loop {
            self.closing.run_until_cancelled(self.clock.sleep(WINDOW)).await;
            let Some(records) = self.sign_ins_of_window(&tenant_uid) else { return };
            self.record_of(&tenant_uid, records);
        }
    }

    /// The entries of a window that ends now; `None` if there are none, and then there is no next window.
    fn sign_ins_of_window(&self, tenant_uid: &Arc<str>) -> Option<Vec<AuditRecord>> {
        let mut signed_in = self.signed_in.lock();
        let records = signed_in.get_mut(tenant_uid)?.end();
        if records.is_empty() {
            signed_in.remove(tenant_uid);
            return None;
        }
        Some(records)
    }

    /// Records entries of a tenant. If the tenant is gone, only the stream gets them.
    fn record_of(self: &Arc<Self>, tenant_uid: &str, records: Vec<AuditRecord>) {
        let tenant = self.tenants.by_uid(tenant_uid);
        for record in records {
            match &tenant {
                Some(tenant) => self.record(tenant, record),
                None => self.write(None, &record),
            }
        }
    }
}

impl Work<AuditRow> for Arc<Audit> {
    /// The permit of a writer.
    type Connection = OwnedSemaphorePermit;
    /// One by one, the entries of a database that refuses all of them would take minutes.
    const ONE_BY_ONE: bool = false;

    async fn connect(&self, _: &Turn<AuditRow>) -> Result<OwnedSemaphorePermit, StoreError> {
        self.closing.run_until_cancelled(self.clock.sleep(GATHER)).await;
        Ok(Arc::clone(&self.writers).acquire_owned().await.expect("it is never closed"))
    }

    async fn perform(
        &self,
        turn: &mut Turn<AuditRow>,
        _writer: OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let records: Vec<AuditRecord> = turn.group.iter().map(|row| row.record.clone()).collect();
        let insert = async {
            let mut transaction = turn.tenant.store.begin(&self.clock).await?;
            audit::insert(&mut transaction, &records).await?;
            transaction.commit().await
        };
        let late = |_| Err(StoreError::Unavailable("it took too long".into()));
        tokio::time::timeout(STORE_TIME, insert).await.unwrap_or_else(late)?;
        turn.group.clear();
        Ok(())
    }

    async fn refuse(&self, turn: &mut Turn<AuditRow>, error: StoreError) {
        let (code, count) = (turn.tenant.config.client_code.as_str(), turn.group.len());
        self.metrics.audit_lost(Lost::Row, count as u64);
        tracing::warn!(tenant.code = code, count, error = %error, "audit entries were not stored");
        turn.group.clear();
        let pause = turn.pause(GATHER, LONGEST_PAUSE);
        self.closing.run_until_cancelled(self.clock.sleep(pause)).await;
    }
}

#[cfg(test)]
mod tests;
