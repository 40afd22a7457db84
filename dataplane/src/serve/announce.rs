//! Tells the operator, over Redis, what this process serves.

use std::sync::Arc;

use docket_board::Board;
use docket_board::HEARTBEAT;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::serving::Served;

/// The name that was given, or one that no other process has.
pub(super) fn pod_name(given: Option<String>) -> String {
    given.unwrap_or_else(|| {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy().replace(char::is_whitespace, "-");
        format!("{host}-{}", std::process::id())
    })
}

/// At once after each change and at every heartbeat, until shutdown is requested; then takes itself off.
pub(super) async fn announce(
    board: Arc<Board>,
    pod: String,
    roles: Vec<&'static str>,
    mut served: watch::Receiver<Served>,
    shutdown: CancellationToken,
) {
    let mut is_told = true;
    loop {
        let now = served.borrow_and_update().clone();
        let result = board.announce(&pod, &roles, &now).await;
        if let Err(error) = &result
            && is_told
        {
            tracing::warn!(error = %error, "can't tell the operator what is served; this is tried again");
        }
        is_told = result.is_ok();
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            Ok(()) = served.changed() => {}
            () = shutdown.cancelled() => break,
        }
    }
    // One that can't be told is forgotten by itself.
    let _ = board.leave(&pod).await;
}
