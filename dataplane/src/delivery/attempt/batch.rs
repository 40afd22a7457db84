//! The steps in their order: begins the attempts of a tenant's claims in groups, makes each, and settles all claims. A hand-off comes with
//! its attempts begun.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::{self, CLAIM_LIMIT, DeliveryId};
use docket_store::deliveries::{self, Held};
use docket_store::{StoreError, Writer};

use super::Worker;
use super::begin::{Attempt, Begun};
use super::settle::{Claimed, ToSettle, UNKNOWN_AGAIN};
use crate::tenancy::ServedTenant;
use crate::tenancy::groups::{self, Turn, Work};

/// The wait until deliveries are due again whose database is unavailable.
const DATABASE_AWAY: Duration = Duration::from_secs(2);

/// The most attempts that one transaction begins.
pub(super) const GROUP: usize = CLAIM_LIMIT;
/// The most such transactions of a tenant at the same time.
pub(super) const TURNS: usize = 2;

pub(super) struct ToBegin {
    claimed: Claimed,
    /// When the claim ends, by [`Clock::elapsed`](docket_program::clock::Clock::elapsed), unless its lease is renewed. After that it waits
    /// no longer.
    until: Duration,
}

impl Worker {
    /// Takes one tenant's claims to their settlement. The claims last until `until`, by
    /// [`Clock::elapsed`](docket_program::clock::Clock::elapsed).
    pub(super) async fn run_batch(
        self: Arc<Self>,
        tenant_uid: Arc<str>,
        claimed: Vec<Claimed>,
        until: Duration,
    ) {
        let Some(tenant) = self.served(&tenant_uid) else {
            return self.put_on_hold(claimed).await;
        };
        // The leases of the claims are renewed from here on, because the wait for a database may outlast a lease. The lease of a group
        // replaces them.
        let lease = self.leases.new_lease();
        let keep = |mut claimed: Claimed| {
            claimed.lease = Some(self.leases.keep(&claimed.claim, &lease, &tenant.store, until));
            ToBegin { claimed, until }
        };
        let to_begin: Vec<ToBegin> = claimed.into_iter().map(keep).collect();
        if let Some(turn) = self.to_begin.add_all(&tenant, to_begin) {
            groups::drive(turn, self).await;
        }
    }

    fn served(&self, tenant_uid: &str) -> Option<Arc<ServedTenant>> {
        self.tenants.by_uid(tenant_uid).filter(|tenant| !tenant.config.suspended)
    }

    /// Returns the claims whose attempts may begin. Puts claims on hold whose tenant or webhook is not served, and settles those that
    /// waited for as long as a lease lasts.
    fn that_may_begin(self: &Arc<Self>, tenant: &ServedTenant, group: Vec<ToBegin>) -> Vec<ToBegin> {
        let (now, served) = (self.clock.elapsed(), self.served(&tenant.uid));
        let is_served = |one: &ToBegin| {
            let webhook = &one.claimed.claim.entry.webhook;
            served.as_ref().is_some_and(|tenant| tenant.webhook(webhook).is_some())
        };
        let (group, on_hold): (Vec<_>, Vec<_>) = group.into_iter().partition(is_served);
        let (group, late): (Vec<_>, Vec<_>) = group.into_iter().partition(|one| now < one.until);
        if !on_hold.is_empty() || !late.is_empty() {
            let worker = Arc::clone(self);
            let on_hold: Vec<Claimed> = on_hold.into_iter().map(|one| one.claimed).collect();
            let late = begin_again(tenant, late, &"they waited for as long as a lease lasts");
            self.tasks.spawn(async move {
                worker.settle(late).await;
                worker.put_on_hold(on_hold).await;
            });
        }
        group
    }

    /// Starts a task for each attempt that was begun. Returns the other claims, with the time until they are due again.
    fn start_attempts(self: &Arc<Self>, group: Vec<ToBegin>, begun: Begun) -> Vec<ToSettle> {
        let Begun { mut attempts, due_again } = begun;
        let mut ended = Vec::new();
        for ToBegin { claimed, .. } in group {
            let id = claimed.claim.entry.id;
            match attempts.remove(&id) {
                Some(attempt) => self.make(attempt, claimed),
                None => ended.push((claimed, due_again.get(&id).copied())),
            }
        }
        ended
    }

    /// Makes one attempt in a task of its own, from the POST to its settled claim.
    pub(super) fn make(self: &Arc<Self>, attempt: Attempt, claimed: Claimed) {
        self.tasks.spawn(Arc::clone(self).attempt(attempt, claimed));
    }

    /// Gives an attempt back, in a task of its own, whose lease may have ended before its POST has begun.
    pub(super) fn decline(self: &Arc<Self>, attempt: Attempt, claimed: Claimed) {
        let worker = Arc::clone(self);
        self.tasks.spawn(async move { worker.give_back(&attempt, claimed, Some(Duration::ZERO)).await });
    }

    async fn attempt(self: Arc<Self>, attempt: Attempt, mut claimed: Claimed) {
        if self.stopping.is_cancelled() {
            // Boxed, as it is rare and larger than all else that an attempt needs.
            return Box::pin(self.give_back(&attempt, claimed, Some(Duration::ZERO))).await;
        }
        let begun = self.clock.elapsed();
        let Some(outcome) = self.send(&attempt).await else {
            // A sweep schedules it when the webhook is back.
            let again = (!self.tenants.is_current()).then_some(UNKNOWN_AGAIN);
            return Box::pin(self.give_back(&attempt, claimed, again)).await;
        };
        claimed.held = Some(self.clock.elapsed().saturating_sub(begun));
        // An unavailable database must not keep other tenants from their attempts. The share of this tenant stays used
        // until its claim is settled.
        claimed.slot = None;
        self.finish(attempt, outcome, claimed);
    }

    /// Gives an attempt back whose POST has not begun: it does not count, and its delivery is due after `again`. If that fails, the attempt
    /// counts as `WorkerLost`.
    async fn give_back(&self, attempt: &Attempt, claimed: Claimed, again: Option<Duration>) {
        let Attempt { tenant, started, lease, .. } = attempt;
        let given_back = async {
            let mut transaction = tenant.store.begin(&self.clock).await?;
            let held = Held { id: started.id, webhook: &started.webhook, lease };
            deliveries::give_back(&mut transaction, &held).await?;
            transaction.commit().await
        };
        let again = match given_back.await {
            Ok(()) => again,
            Err(error) => {
                tracing::warn!(delivery.id = %started.id, error = %error, "giving an attempt back failed; it counts as WorkerLost");
                Some(delivery::LEASE)
            }
        };
        self.settle(vec![(claimed, again)]).await;
    }
}

impl Work<ToBegin> for Arc<Worker> {
    type Connection = Writer;
    /// After a failure, the deliveries of a group are due again soon. The next groups may be other ones.
    const ONE_BY_ONE: bool = false;

    async fn connect(&self, turn: &Turn<ToBegin>) -> Result<Writer, StoreError> {
        turn.tenant.store.writer(&self.clock).await
    }

    fn take(&self, turn: &mut Turn<ToBegin>, _: &mut Writer) -> Vec<ToBegin> {
        let group = turn.take_jobs();
        self.that_may_begin(&turn.tenant, group)
    }

    async fn perform(&self, turn: &mut Turn<ToBegin>, writer: Writer) -> Result<(), StoreError> {
        let lease = self.leases.new_lease();
        for ToBegin { claimed: Claimed { claim, lease: kept, .. }, until } in &mut turn.group {
            *kept = Some(self.leases.keep(claim, &lease, &turn.tenant.store, *until));
        }
        let ids: Vec<DeliveryId> = turn.group.iter().map(|one| one.claimed.claim.entry.id).collect();
        let begun = self.begin(&turn.tenant, writer, &ids, &lease).await?;
        let ended = self.start_attempts(std::mem::take(&mut turn.group), begun);
        self.settle(ended).await;
        Ok(())
    }

    async fn refuse(&self, turn: &mut Turn<ToBegin>, error: StoreError) {
        let group = self.that_may_begin(&turn.tenant, std::mem::take(&mut turn.group));
        self.settle(begin_again(&turn.tenant, group, &error)).await;
    }
}

/// Returns the claims of a group whose attempts could not be begun, with the time until they are due again. Logs why.
fn begin_again(tenant: &ServedTenant, group: Vec<ToBegin>, why: &dyn Display) -> Vec<ToSettle> {
    if !group.is_empty() {
        let code = tenant.config.client_code.as_str();
        tracing::warn!(tenant.code = code, count = group.len(), error = %why, "beginning attempts failed; retrying");
    }
    group.into_iter().map(|one| (one.claimed, Some(DATABASE_AWAY))).collect()
}
