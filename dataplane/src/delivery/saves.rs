//! Creates web orders: those of a tenant that wait at the same time in one transaction, and POSTs their events from memory
//! where it can.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use docket_domain::delivery::DeliveryId;
use docket_program::clock::Clock;
use docket_schedule::{Entry, Hint};
use docket_store::deliveries::NewHandOff;
use docket_store::idempotency::ToKeep;
use docket_store::saves::{self, Save};
use docket_store::{StoreError, Transaction, Writer};
use tokio::sync::oneshot;

use super::SavePermits;
use super::attempt::{HandOff, HandedOff};
use super::outbox::{Outbox, Ticket};
use crate::actions::save_order::{NewOrder, Saved};
use crate::telemetry::{Jobs, Metrics};
use crate::tenancy::groups::{self, Groups, Turn, Work};
use crate::tenancy::{ServedTenant, Tenants};

/// The most orders in one transaction.
const GROUP: usize = 64;
/// The most transactions of a tenant at the same time: while one waits for the disk, another uses the processor.
const TURNS: usize = 2;

/// Creates web orders.
pub struct CreateOrders {
    clock: Clock,
    /// What waits is bounded by the clients, each of which waits for one order.
    groups: Arc<Groups<SaveJob>>,
    outbox: Arc<Outbox>,
    /// Set where the process has a worker.
    hand_off: Arc<OnceLock<Arc<HandOff>>>,
}

/// Makes the answer to keep under a request's Idempotency-Key.
pub type MakeToKeep = Box<dyn Fn(&Saved) -> ToKeep + Send + Sync>;

struct SaveJob {
    tenant: Arc<ServedTenant>,
    new: NewOrder,
    to_keep: Option<MakeToKeep>,
    /// How many deliveries it makes.
    deliveries: usize,
    /// When it came, by [`Clock::elapsed`].
    since: Duration,
    result: oneshot::Sender<Result<Saved, StoreError>>,
}

/// How many deliveries the next group makes.
fn deliveries(turn: &Turn<SaveJob>) -> usize {
    turn.look_at_group(|jobs| jobs.map(|job| job.deliveries).sum())
}

/// The announced deliveries of a group, and those that are handed off; `None`: the process has no worker.
type Announced = (Ticket, Option<HandedOff>);

impl CreateOrders {
    /// Uses `hand_off` once it is set.
    pub fn new(
        clock: Clock,
        tenants: &Arc<Tenants>,
        outbox: Arc<Outbox>,
        hand_off: Arc<OnceLock<Arc<HandOff>>>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        let groups = Groups::new(Jobs::Save, GROUP, TURNS, tenants, metrics);
        Arc::new(Self { clock, groups, outbox, hand_off })
    }

    /// Creates an order, durably. [`StoreError::Conflict`]: another request has kept an answer under the same key.
    pub async fn create(
        self: &Arc<Self>,
        tenant: &Arc<ServedTenant>,
        new: NewOrder,
        to_keep: Option<MakeToKeep>,
    ) -> Result<Saved, StoreError> {
        let (result, created) = oneshot::channel();
        let (deliveries, since) = (new.deliveries().count(), self.clock.elapsed());
        let job = SaveJob { tenant: Arc::clone(tenant), new, to_keep, deliveries, since, result };
        if let Some(turn) = self.groups.add(tenant, job) {
            tokio::spawn(groups::drive(turn, Arc::clone(self)));
        }
        created.await.unwrap_or(Err(StoreError::Unexpected("creating orders panicked")))
    }

    /// Waits for save permits for the next group. `None`: the process has no worker, the first of the jobs has waited long enough, or the turn
    /// does jobs one by one.
    async fn permits(&self, turn: &Turn<SaveJob>) -> Option<SavePermits> {
        let hand_off = self.hand_off.get()?;
        turn.gather().await;
        let since = turn.look_at_group(|jobs| jobs.next().map(|job| job.since))?;
        hand_off.permits(&turn.tenant, since, deliveries(turn)).await
    }

    /// Announces the deliveries of a group. Claims those that this process may POST at once.
    async fn announce(&self, group: &[SaveJob], permits: Option<SavePermits>) -> Announced {
        let hint = |job: &SaveJob, (id, webhook): (DeliveryId, &str)| {
            let entry = Entry { tenant: Arc::clone(&job.tenant.uid), webhook: webhook.into(), id };
            Hint { entry, wait: Duration::ZERO }
        };
        let hints: Vec<Hint> = group
            .iter()
            .flat_map(|job| job.new.deliveries().map(move |delivery| hint(job, delivery)))
            .collect();
        match self.hand_off.get() {
            Some(hand_off) if !hints.is_empty() => {
                let (ticket, handed) = hand_off.claim(hints, permits).await;
                (ticket, Some(handed))
            }
            _ => (self.outbox.before(hints).await, None),
        }
    }
}

impl Work<SaveJob> for Arc<CreateOrders> {
    /// With save permits for the deliveries of the group.
    type Connection = (Writer, Option<SavePermits>);

    async fn connect(&self, turn: &Turn<SaveJob>) -> Result<(Writer, Option<SavePermits>), StoreError> {
        // Before the writer, which the outcomes of attempts need to free permits.
        let permits = self.permits(turn).await;
        Ok((turn.tenant.store.writer(&self.clock).await?, permits))
    }

    fn take(
        &self,
        turn: &mut Turn<SaveJob>,
        (_, permits): &mut (Writer, Option<SavePermits>),
    ) -> Vec<SaveJob> {
        let Some(permits) = permits else { return turn.take_jobs() };
        permits.grow(deliveries(turn));
        turn.take_jobs_within(permits.count(), |job| job.deliveries)
    }

    async fn perform(
        &self,
        Turn { group, .. }: &mut Turn<SaveJob>,
        (writer, permits): (Writer, Option<SavePermits>),
    ) -> Result<(), StoreError> {
        let begin = saves::begin(writer, &self.clock, group.len());
        let ((ticket, handed), begun) = tokio::join!(self.announce(group, permits), begin);
        let is_begun = begun.is_ok();
        let created = match begun {
            Ok((transaction, first)) => commit(transaction, first, group, handed.as_ref()).await,
            Err(error) => Err(error),
        };
        match created {
            Ok(created) => finish(std::mem::take(group), created, (ticket, handed)),
            // Committed or not: the rows decide when the claims expire.
            Err(error @ StoreError::Unavailable(_)) if is_begun => return Err(error),
            Err(error) => {
                if let Some(handed) = handed {
                    handed.rolled_back().await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn refuse(&self, turn: &mut Turn<SaveJob>, error: StoreError) {
        groups::refuse_all(turn.group.drain(..).map(|job| job.result), error);
    }
}

/// What a committed group has stored.
struct Created {
    /// The time of the transaction, in milliseconds since 1970.
    at_ms: i64,
    saved: Vec<Saved>,
    saves: Vec<Save>,
}

/// Begins the POSTs of a committed group, answers, and notifies the schedule of the other deliveries.
fn finish(group: Vec<SaveJob>, created: Created, (ticket, handed): Announced) {
    let Created { at_ms, saved, saves } = created;
    if let Some(handed) = handed {
        handed.start(group.iter().map(|job| &job.tenant).zip(&saves), at_ms);
    }
    for (job, saved) in group.into_iter().zip(saved) {
        // A client that has gone does not mind.
        let _ = job.result.send(Ok(saved));
    }
    if !ticket.is_empty() {
        tokio::spawn(ticket.committed());
    }
}

async fn commit(
    transaction: Transaction,
    first: i64,
    group: &[SaveJob],
    handed: Option<&HandedOff>,
) -> Result<Created, StoreError> {
    let now = transaction.now();
    let (mut saved, mut saves) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    for (number, job) in (first..).zip(group) {
        let (order, published) = job.new.rows(number, now);
        let (event, deliveries) = published.map_or((None, Vec::new()), |(event, new)| (Some(event), new));
        let (mut queued, mut hand_offs) = (Vec::new(), Vec::new());
        for new in deliveries {
            match handed.and_then(|handed| handed.lease_of(new.id)) {
                Some(lease) => hand_offs.push(NewHandOff {
                    id: new.id,
                    webhook: new.webhook,
                    webhook_name: new.webhook_name,
                    lease: lease.clone(),
                }),
                None => queued.push(new),
            }
        }
        let result = Saved::of(&order, true, true);
        let to_keep = job.to_keep.as_ref().map(|make| make(&result));
        saved.push(result);
        saves.push(Save { order, event, deliveries: queued, hand_offs, to_keep });
    }
    saves::commit(transaction, &saves).await?;
    Ok(Created { at_ms: now.as_millisecond(), saved, saves })
}
