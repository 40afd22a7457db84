//! Announces to the operator, through Redis, which revisions this process serves.

use std::sync::Arc;

use docket_board::{Board, HEARTBEAT};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::rates::Rates;
use crate::args::Role;
use crate::tenancy::{Revisions, Tenants};

/// The roles whose processes share a tenant's limits, because they serve requests of its users.
const CALLED: [&str; 2] = [Role::Api.as_str(), Role::Portal.as_str()];

/// Returns the given name, or a name that no other process has.
pub(super) fn pod_name(given: Option<String>) -> String {
    given.unwrap_or_else(|| {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().replace(char::is_whitespace, "-");
        format!("{host}-{}", std::process::id())
    })
}

/// This process, as the board shows it.
pub(super) struct Presence {
    /// The name of the process.
    pub(super) pod: String,
    /// The roles of the process.
    pub(super) roles: Vec<&'static str>,
    /// The rates, which are divided by the number of processes that serve requests.
    pub(super) rates: Arc<Rates>,
    /// The tenants, which record who was at a limit.
    pub(super) tenants: Arc<Tenants>,
}

/// Announces the revisions after each change and at every heartbeat, reports which tenants were at a limit, and reads how many
/// processes serve requests; while Redis is away, that number stays. At shutdown, removes this process from the board.
pub(super) async fn announce(
    board: Arc<Board>,
    Presence { pod, roles, rates, tenants }: Presence,
    mut revisions: watch::Receiver<Revisions>,
    shutdown: CancellationToken,
) {
    let mut was_announced = true;
    loop {
        let now = revisions.borrow_and_update().clone();
        let result = board.announce(&pod, &roles, &now).await;
        if let Err(error) = &result
            && was_announced
        {
            tracing::warn!(error = %error, "announcing the served revisions failed; retrying");
        }
        was_announced = result.is_ok();
        if was_announced
            && roles.iter().any(|role| CALLED.contains(role))
            && let Ok(processes) = board.processes(&CALLED).await
        {
            rates.divide_by(processes);
        }
        let at_limit = tenants.at_limit.take();
        let at_limit: Vec<_> = at_limit.iter().map(|(uid, limit)| (&**uid, limit.as_str())).collect();
        // If this fails, Redis is away, and the operator gets no other news either.
        let _ = board.put_at_limit(&at_limit).await;
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            Ok(()) = revisions.changed() => {}
            () = shutdown.cancelled() => break,
        }
    }
    // If this fails, the entry expires.
    let _ = board.leave(&pod).await;
}
