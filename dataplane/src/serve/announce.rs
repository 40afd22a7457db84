//! Announces to the operator, through Redis, which revisions this process serves.

use std::sync::Arc;

use docket_board::{Board, HEARTBEAT};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tenants::Revisions;

/// Returns the given name, or a name that no other process has.
pub(super) fn pod_name(given: Option<String>) -> String {
    given.unwrap_or_else(|| {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().replace(char::is_whitespace, "-");
        format!("{host}-{}", std::process::id())
    })
}

/// Announces the revisions after each change and at every heartbeat. At shutdown, removes this process from the board.
pub(super) async fn announce(
    board: Arc<Board>,
    pod: String,
    roles: Vec<&'static str>,
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
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            Ok(()) = revisions.changed() => {}
            () = shutdown.cancelled() => break,
        }
    }
    // If this fails, the entry expires.
    let _ = board.leave(&pod).await;
}
