//! Creates web orders: the orders of a tenant that wait at the same time share one transaction. Their deliveries are handed off to the
//! worker of this process where it has room, and the schedule gets the others.

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
use super::attempt::{HandedOff, Worker};
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
    /// The orders that wait, bounded by the clients: each waits for one order.
    groups: Arc<Groups<SaveJob>>,
    outbox: Arc<Outbox>,
    /// The worker of this process; not set: it has none.
    worker: Arc<OnceLock<Arc<Worker>>>,
}

/// Makes the answer to keep under a request's Idempotency-Key.
pub type MakeToKeep = Box<dyn Fn(&Saved) -> ToKeep + Send + Sync>;

struct SaveJob {
    tenant: Arc<ServedTenant>,
    new: NewOrder,
    to_keep: Option<MakeToKeep>,
    deliveries: usize,
    /// When the order came, by [`Clock::elapsed`].
    since: Duration,
    result: oneshot::Sender<Result<Saved, StoreError>>,
}

/// Returns the number of deliveries that the next group makes.
fn deliveries(turn: &Turn<SaveJob>) -> usize {
    turn.look_at_group(|jobs| jobs.map(|job| job.deliveries).sum())
}

/// The announced deliveries of a group, and its hand-offs; `None`: the process has no worker.
type Announced = (Ticket, Option<HandedOff>);

impl CreateOrders {
    /// Hands deliveries off to `worker` once it is set.
    pub fn new(
        clock: Clock,
        tenants: &Arc<Tenants>,
        outbox: Arc<Outbox>,
        worker: Arc<OnceLock<Arc<Worker>>>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        let groups = Groups::new(Jobs::Save, GROUP, TURNS, tenants, metrics);
        Arc::new(Self { clock, groups, outbox, worker })
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
        let worker = self.worker.get()?;
        turn.gather().await;
        let since = turn.look_at_group(|jobs| jobs.next().map(|job| job.since))?;
        worker.permits(&turn.tenant, since, deliveries(turn)).await
    }

    /// Announces the deliveries of a group. Claims the deliveries that this process may POST at once.
    async fn announce(&self, group: &[SaveJob], permits: Option<SavePermits>) -> Announced {
        let hint = |job: &SaveJob, (id, webhook): (DeliveryId, &str)| {
            let entry = Entry { tenant: Arc::clone(&job.tenant.uid), webhook: webhook.into(), id };
            Hint { entry, wait: Duration::ZERO }
        };
        let hints: Vec<Hint> = group
            .iter()
            .flat_map(|job| job.new.deliveries().map(move |delivery| hint(job, delivery)))
            .collect();
        match self.worker.get() {
            Some(worker) if !hints.is_empty() => {
                let (ticket, handed) = worker.hand_off(hints, permits).await;
                (ticket, Some(handed))
            }
            _ => (self.outbox.before(hints).await, None),
        }
    }
}

impl Work<SaveJob> for Arc<CreateOrders> {
    /// The permits are for the deliveries of the group.
    type Connection = (Writer, Option<SavePermits>);

    async fn connect(&self, turn: &Turn<SaveJob>) -> Result<(Writer, Option<SavePermits>), StoreError> {
        // Before the writer: permits are free again when outcomes of attempts are stored, which needs writers.
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
            // The transaction may be committed: the rows decide when the claims expire.
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

/// Begins the POSTs of a committed group, returns the orders to their clients, and notifies the schedule of the other deliveries.
fn finish(group: Vec<SaveJob>, created: Created, (ticket, handed): Announced) {
    let Created { at_ms, saved, saves } = created;
    if let Some(handed) = handed {
        handed.start(group.iter().map(|job| &job.tenant).zip(&saves), at_ms);
    }
    for (job, saved) in group.into_iter().zip(saved) {
        // A client may have gone.
        let _ = job.result.send(Ok(saved));
    }
    if !ticket.is_empty() {
        tokio::spawn(ticket.committed());
    }
}

/// Stores a group of orders. The deliveries that `handed` has claimed are stored with their first attempt leased, the others are queued.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md names the first one.
    #[test]
    fn transaction_has_at_most_64_orders_and_a_tenant_two_at_a_time() {
        assert_eq!((GROUP, TURNS), (64, 2));
    }
}
