//! A visit of one tenant: ends subscriptions without a right, announces, and sends.

use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_domain::audit::{AuditEvent, AuditRecord};
use docket_program::clock::Clock;
use docket_store::subscriptions::{self, Recipient};
use docket_store::{Database, DatabaseState, StoreError, audit, notices};

use super::announce::announce;
use super::send::Mailer;
use crate::actions::subscriptions::is_late;
use crate::audit::Audit;
use crate::telemetry::{Metrics, Reader, Task};
use crate::tenancy::rounds;
use crate::tenancy::seen::Seen;
use crate::tenancy::{ServedTenant, Tenants};

/// The dependencies of a visit.
pub(super) struct Visitor {
    pub(super) clock: Clock,
    pub(super) tenants: Arc<Tenants>,
    pub(super) audit: Arc<Audit>,
    pub(super) metrics: Arc<Metrics>,
    /// Decides whose turn it is among processes that share the databases; `None`: this process is alone.
    pub(super) board: Option<Arc<Board>>,
    pub(super) mailer: Mailer,
    pub(super) interval: Duration,
}

/// What the process remembers of a tenant between visits.
#[derive(Debug, Default)]
pub(super) struct Visited {
    /// What the database looked like when there was nothing to announce or send.
    seen: Seen,
    /// The number of messages that waited at the end of the last visit.
    pub(super) waiting: i64,
    /// Whether the last visit failed.
    pub(super) has_failed: bool,
    /// Whether this process leaves its next turn to another process, because it cannot reach the SMTP server.
    leaves_turn: bool,
}

impl Visited {
    /// Nothing but the number of messages that wait.
    pub(super) fn with(waiting: i64) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// The same without a message of a tenant that this process does not visit: the process whose turn it is counts it.
    fn without_turn(self) -> Self {
        Self { waiting: 0, ..self }
    }
}

/// What a visit leaves.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    /// Messages that wait for a time.
    waiting: i64,
    /// Whether a notice waits for a time.
    is_held: bool,
}

impl Visitor {
    /// Visits a tenant, unless nothing was written since the last visit. The subscribers of a suspended tenant wait.
    pub(super) async fn visit(self: Arc<Self>, uid: Arc<str>, mut memory: Visited) -> Visited {
        let Some(tenant) = self.tenants.by_uid(&uid).filter(|tenant| !tenant.config.suspended) else {
            return memory.without_turn();
        };
        let database = tenant.store.database();
        // Taken before the database is read, so that a write during the visit counts as a change.
        let (state, now) = (database.state(), self.clock.elapsed());
        if memory.seen.is_current(state.as_ref(), now) {
            self.metrics.unchanged(Reader::Notices);
            return memory;
        }
        if std::mem::take(&mut memory.leaves_turn) {
            return memory;
        }
        if state.as_ref().is_some_and(DatabaseState::does_not_exist) || !self.has_turn(&uid).await {
            return memory.without_turn();
        }
        let visit = tenant.store.visit();
        let result = self.work(&tenant).await;
        visit.end().await;
        self.metrics.upkeep.visited(Task::Notices, result.is_ok());
        memory.has_failed = result.is_err();
        match result {
            Ok(Left { waiting, is_held }) => {
                memory.waiting = waiting;
                if waiting == 0 && !is_held {
                    memory.seen.has_read(state, now, &uid);
                } else {
                    memory.seen.forget();
                }
            }
            Err(error) => {
                memory.seen.forget();
                let code = tenant.config.client_code.as_str();
                tracing::warn!(tenant.code = code, error = %error, "announcing changes of webhooks failed; retrying");
            }
        }
        // One turn alone: if no other process takes it, this one tries again.
        memory.leaves_turn = self.board.is_some() && memory.waiting > 0 && self.mailer.is_without_server();
        memory
    }

    /// Whether this process visits the tenant now. If Redis is unavailable, the rows keep two processes from sending the same message.
    async fn has_turn(&self, uid: &str) -> bool {
        let Some(board) = &self.board else { return true };
        board.turn(&format!("notices:{uid}"), rounds::turn(self.interval)).await.unwrap_or(true)
    }

    async fn work(&self, tenant: &Arc<ServedTenant>) -> Result<Left, StoreError> {
        let database = tenant.store.ready(&self.clock).await?;
        let mut reader = database.patient_reader().await?;
        if !subscriptions::are_there(&reader) {
            return Ok(Left::default());
        }
        let all = subscriptions::recipients(&mut reader).await?;
        let now_ms = self.clock.now_ms();
        let may_stay = |one: &Recipient| one.address.is_some() && !is_late(&one.subscription, now_ms);
        let (recipients, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(may_stay);
        let has_old = recipients.is_empty() && !notices::is_empty(&mut reader).await?;
        // Before another connection is asked for: a tenant may have one only.
        drop(reader);
        if has_old {
            let mut transaction = database.begin(&self.clock).await?;
            notices::forget_all(&mut transaction).await?;
            transaction.commit().await?;
        }
        self.end(tenant, database, &ended).await?;
        if recipients.is_empty() {
            return Ok(Left::default());
        }
        let is_held = announce(tenant, database, &self.clock, &recipients).await?;
        let waiting = self.mailer.send(tenant, database, &recipients).await?;
        Ok(Left { waiting, is_held })
    }

    /// Ends subscriptions whose user lost the right to see webhooks, or whose address was not confirmed in time.
    async fn end(
        &self,
        tenant: &Arc<ServedTenant>,
        database: &Database,
        ended: &[Recipient],
    ) -> Result<(), StoreError> {
        if ended.is_empty() {
            return Ok(());
        }
        let mut transaction = database.begin(&self.clock).await?;
        let mut entries: Vec<AuditRecord> = Vec::new();
        for Recipient { subscription, .. } in ended {
            if subscriptions::end(&mut transaction, &subscription.id).await? {
                let entry = self.audit.entry(AuditEvent::SubscriptionEnded);
                entries.push(entry.about("subscription", &subscription.id));
            }
        }
        audit::insert(&mut transaction, &entries).await?;
        transaction.commit().await?;
        entries.iter().for_each(|entry| self.audit.stored(tenant, entry));
        Ok(())
    }
}
