//! Tells the operator how webhooks are doing: of tenants with attempts within seconds, of all others at each sweep.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_board::{Board, ReportedHealth};
use tokio_util::sync::CancellationToken;

use crate::tenants::{Tenant, Tenants};
use docket_program::clock::Clock;
use docket_store::health;

/// How often those with attempts are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// A server that has not answered by then is not there.
const READ: Duration = Duration::from_secs(30);
/// Of all workers, one reads a tenant's in this time; it is over when the same one comes again.
const TURN: Duration = Duration::from_millis(4_500);

/// The tenants with attempts since the last report.
#[derive(Debug, Default)]
pub struct Active(Mutex<BTreeSet<String>>);

impl Active {
    /// An attempt of this tenant has ended.
    pub fn note(&self, tenant_uid: &str) {
        let mut uids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !uids.contains(tenant_uid) {
            uids.insert(tenant_uid.to_owned());
        }
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reports until shutdown is requested.
pub async fn run(
    active: Arc<Active>,
    tenants: Arc<Tenants>,
    board: Arc<Board>,
    clock: Clock,
    shutdown: CancellationToken,
) {
    loop {
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            () = shutdown.cancelled() => return,
        }
        for tenant in active.take().iter().filter_map(|uid| tenants.by_uid(uid)) {
            let told = async {
                // Somebody else has just told, perhaps before our attempts; or nobody can.
                match board.turn(&format!("health:{}", tenant.config.uid), TURN).await {
                    Ok(true) => tell(&tenant, &board).await,
                    Ok(false) | Err(_) => active.note(&tenant.config.uid),
                }
            };
            tokio::select! {
                () = told => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}

/// How the tenant's webhooks are doing, for the operator's status. Nothing depends on it.
pub(super) async fn tell(tenant: &Tenant, board: &Board) {
    let code = tenant.config.client_code.as_str();
    let read = async { health::by_webhook(&mut tenant.store.database().patient_reader().await?).await };
    let healths = match tokio::time::timeout(READ, read).await {
        Ok(Ok(healths)) => healths,
        Ok(Err(error)) => {
            return tracing::warn!(tenant.code = code, error = %error, "can't see how webhooks are doing");
        }
        Err(_) => return tracing::warn!(tenant.code = code, "can't see how webhooks are doing in time"),
    };
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    let told = healths.into_iter().map(|health| {
        let told = ReportedHealth {
            pending: count(health.pending - health.retrying),
            dead_letter: count(health.dead_letter),
            retrying: count(health.retrying),
            last_success_at_ms: health.last_success_at_ms,
            last_failure_at_ms: health.last_dead_letter_at_ms,
        };
        (health.webhook, told)
    });
    if let Err(error) = board.put_health(&told.collect::<Vec<_>>()).await {
        tracing::debug!(tenant.code = code, error = %error, "can't tell how webhooks are doing");
    }
}
