//! Publishes the health of webhooks for the operator: for tenants with attempts within seconds, for all others at each
//! sweep.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docket_board::{Board, ReportedHealth};
use docket_crds::WebhookConfig;
use docket_program::clock::Clock;
use docket_store::health::{self, WebhookHealth};
use docket_store::{Connection, StoreError, contacts};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{Metrics, Task};
use crate::tenancy::rounds::{Lane, Rounds};
use crate::tenancy::{ServedTenant, Tenants, UNKNOWN_CUSTOMER};

/// How often the health of tenants with attempts is published.
const EVERY: Duration = Duration::from_secs(5);
/// Time limit for reading one tenant's health.
const READ: Duration = Duration::from_secs(30);
/// The tenants whose health is read at once: a slow database does not delay the others.
const AT_ONCE: usize = 4;
/// A report that takes longer leaves its place to the next tenant: however many databases hang, the others are read.
const SLOW: Duration = Duration::from_secs(2);
/// One worker of all reads a tenant's health in this time. It is shorter than [`EVERY`], so that the turn has expired
/// when the same worker comes again.
const TURN: Duration = Duration::from_millis(4_500);
const _: () = assert!(TURN.as_millis() < EVERY.as_millis());

/// The tenants with attempts since the last report.
#[derive(Debug, Default)]
pub struct Active(Mutex<BTreeSet<Arc<str>>>);

impl Active {
    /// Records that an attempt of this tenant has ended.
    pub fn note(&self, tenant_uid: &Arc<str>) {
        self.0.lock().insert(Arc::clone(tenant_uid));
    }

    /// Returns the tenants, and forgets them.
    fn take(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The reports of the tenants with attempts.
pub struct Reports {
    /// The tenants to report.
    pub active: Arc<Active>,
    /// All tenants that are served.
    pub tenants: Arc<Tenants>,
    /// Where the health is published.
    pub board: Arc<Board>,
    /// Counts the reports.
    pub metrics: Arc<Metrics>,
    /// Says when to report.
    pub clock: Clock,
}

impl Reports {
    /// Publishes until shutdown is requested.
    pub async fn run(self, shutdown: CancellationToken) {
        let reports = Arc::new(self);
        let Self { active, tenants, metrics, clock, .. } = &*reports;
        let mut rounds = Rounds::new(Task::Report, clock.clone(), Arc::clone(metrics), AT_ONCE);
        rounds.timetable.slow = Some(SLOW);
        let mut next = Box::pin(clock.sleep(EVERY));
        loop {
            let visit = |_, tenant| Arc::clone(&reports).report(tenant);
            tokio::select! {
                Some(_) = rounds.next(visit) => continue,
                () = &mut next => next.set(clock.sleep(EVERY)),
                () = shutdown.cancelled() => return,
            }
            for tenant in active.take().iter().filter_map(|uid| tenants.by_uid(uid)) {
                let uid = Arc::clone(&tenant.uid);
                // A tenant whose report is not ready waits for the next round.
                if !rounds.timetable.plan(&uid, Lane::Main, clock.elapsed(), tenant) {
                    active.note(&uid);
                }
            }
        }
    }

    /// Publishes the health of a tenant's webhooks, unless another worker has just done so.
    async fn report(self: Arc<Self>, tenant: Arc<ServedTenant>) {
        match self.board.turn(&format!("health:{}", tenant.uid), TURN).await {
            Ok(true) => self.metrics.upkeep.visited(Task::Report, publish(&tenant, &self.board).await),
            // The other worker may have reported before our attempts ended, or Redis is unavailable: retry later.
            Ok(false) | Err(_) => self.active.note(&tenant.uid),
        }
    }
}

/// The codes of customers that webhooks of a tenant name and the tenant does not have.
pub(super) struct UnknownCustomers(BTreeSet<String>);

impl UnknownCustomers {
    fn lacks(&self, webhook: &WebhookConfig) -> bool {
        webhook.active && self.0.contains(webhook.customer_code.as_str())
    }
}

/// Reads which customers of the tenant's webhooks the tenant does not have. Logs what this process has not logged for this configuration.
pub(super) async fn unknown_customers(
    tenant: &ServedTenant,
    reader: &mut Connection,
) -> Result<UnknownCustomers, StoreError> {
    let webhooks = &tenant.config.webhooks;
    let codes: Vec<&str> = webhooks.iter().map(|webhook| webhook.customer_code.as_str()).collect();
    let unknown = contacts::unknown_customers(reader, &codes).await?;
    let before = tenant.note_unknown_customers(unknown.clone());
    let customers = UnknownCustomers(unknown);
    for webhook in webhooks.iter().filter(|webhook| customers.lacks(webhook)) {
        if !before.contains(webhook.customer_code.as_str()) {
            tracing::warn!("Webhook {}: {UNKNOWN_CUSTOMER}", webhook.full_name());
        }
    }
    Ok(customers)
}

/// Logs the unknown customers as [`publish`] does, for a process without a board. The database was just read, so a failure is no news.
pub(super) async fn warn(tenant: &ServedTenant) {
    let read = async {
        let mut reader = tenant.store.database().patient_reader().await?;
        unknown_customers(tenant, &mut reader).await
    };
    if !matches!(tokio::time::timeout(READ, read).await, Ok(Ok(_))) {
        let code = tenant.config.client_code.as_str();
        tracing::debug!(tenant.code = code, "the customers of webhooks could not be read");
    }
}

/// Publishes the health of the tenant's webhooks for the operator's status. Returns whether it is published now; a failure
/// is only logged.
pub(super) async fn publish(tenant: &ServedTenant, board: &Board) -> bool {
    let code = tenant.config.client_code.as_str();
    let (healths, customers) = match tokio::time::timeout(READ, read(tenant)).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => {
            tracing::warn!(tenant.code = code, error = %error, "reading the health of webhooks failed");
            return false;
        }
        Err(_) => {
            tracing::warn!(tenant.code = code, "reading the health of webhooks timed out");
            return false;
        }
    };
    // The owner of the database may write the keys of others' webhooks there.
    let mut healths = tenant.webhooks().health(healths);
    let idle = tenant.config.webhooks.iter().filter(|webhook| !healths.contains_key(&webhook.uid));
    for uid in idle_to_report(idle.collect(), &customers, board).await {
        healths.entry(uid).or_default();
    }
    let webhooks = tenant.config.webhooks.iter();
    let lacking: HashSet<&str> =
        webhooks.filter(|webhook| customers.lacks(webhook)).map(|webhook| webhook.uid.as_str()).collect();
    let reported = healths.into_iter().map(|(uid, health)| {
        let lacks_customer = lacking.contains(uid.as_str());
        (uid, reported_health(&health, lacks_customer))
    });
    let put = board.put_health(&reported.collect::<Vec<_>>()).await;
    if let Err(error) = &put {
        tracing::debug!(tenant.code = code, error = %error, "publishing the health of webhooks failed");
    }
    put.is_ok()
}

/// Reads the health of the tenant's webhooks, and which of their customers the tenant does not have.
async fn read(tenant: &ServedTenant) -> Result<(Vec<WebhookHealth>, UnknownCustomers), StoreError> {
    let mut reader = tenant.store.database().patient_reader().await?;
    Ok((health::by_webhook(&mut reader).await?, unknown_customers(tenant, &mut reader).await?))
}

/// Returns the uids of the webhooks to report among webhooks without deliveries: webhooks that lack their customer, and webhooks whose last
/// report says so.
async fn idle_to_report(
    idle: Vec<&WebhookConfig>,
    customers: &UnknownCustomers,
    board: &Board,
) -> Vec<String> {
    let (lacking, others): (Vec<_>, Vec<_>) = idle.into_iter().partition(|webhook| customers.lacks(webhook));
    let others: Vec<String> = others.into_iter().map(|webhook| webhook.uid.clone()).collect();
    let last = board.webhooks(&others).await.unwrap_or_default();
    let lacked =
        others.into_iter().zip(last).filter(|(_, last)| last.is_some_and(|last| last.lacks_customer));
    lacking.into_iter().map(|webhook| webhook.uid.clone()).chain(lacked.map(|(uid, _)| uid)).collect()
}

fn reported_health(health: &WebhookHealth, lacks_customer: bool) -> ReportedHealth {
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    ReportedHealth {
        pending: count(health.pending - health.retrying),
        dead_letter: count(health.dead_letter),
        retrying: count(health.retrying),
        last_success_at_ms: health.last_success_at_ms,
        last_failure_at_ms: health.last_dead_letter_at_ms,
        lacks_customer,
    }
}

#[cfg(test)]
mod tests {
    use docket_redis::{Keys, RedisConnection, RedisUrl};
    use docket_rig::redis::RedisServer;
    use docket_store::sqlite::Sqlite;
    use serde_json::json;

    use super::*;
    use crate::tenancy::testing;

    #[test]
    fn health_is_published_every_five_seconds_by_one_worker() {
        assert_eq!([EVERY, READ, SLOW, TURN].map(|time| time.as_millis()), [5_000, 30_000, 2_000, 4_500]);
        assert_eq!(AT_ONCE, 4);
    }

    /// The other worker may have read the health before this worker's attempts ended.
    #[tokio::test]
    async fn tenant_that_another_worker_has_just_reported_is_reported_again() {
        let tenant = testing::tenant("uid-1", Sqlite::new("/never/opened".into()));
        let server = RedisServer::start(&[]);
        let url = RedisUrl::parse(&server.url()).expect("a URL");
        let redis = RedisConnection::new(url, None).expect("without TLS");
        let board = Arc::new(Board::new(redis, Keys::new(None).expect("the only one")));
        assert!(board.turn("health:uid-1", READ).await.expect("it responds"));
        let (active, tenants, metrics) = (Arc::<Active>::default(), Arc::default(), Arc::default());
        let reports = Reports { active: Arc::clone(&active), tenants, board, metrics, clock: Clock::System };
        Arc::new(reports).report(Arc::clone(&tenant)).await;
        assert_eq!(active.take(), BTreeSet::from([Arc::clone(&tenant.uid)]));
    }

    #[test]
    fn only_an_active_webhook_lacks_its_customer() {
        let webhook = |customer: &str, active: bool| -> WebhookConfig {
            let webhook = json!({"uid": "hook", "namespace": "default", "name": "hook", "displayName": null,
                "customerCode": customer, "targetUrl": "https://hooks.example/", "secret": null, "caBundle": null,
                "events": ["order.created"], "active": active});
            serde_json::from_value(webhook).expect("a webhook")
        };
        let unknown = UnknownCustomers(["C-1".to_owned()].into());
        assert!(unknown.lacks(&webhook("C-1", true)));
        assert!(!unknown.lacks(&webhook("C-1", false)), "the operator reports nothing of it");
        assert!(!unknown.lacks(&webhook("C-2", true)));
    }
}
