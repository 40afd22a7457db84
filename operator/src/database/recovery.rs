//! Notices that a server which was away responds again, so that Tenants do not wait for the end of their backoff.

use std::time::Duration;

use super::servers::{Server, Servers};

/// How often a server that is away is tried. A server that responds is not tried.
const TRY_EVERY: Duration = Duration::from_secs(5);

impl Servers {
    /// Returns when a server responds again that did not respond in a pass over a Tenant. Each server that is away gets one
    /// login every five seconds, with the URL that its file contains then.
    pub async fn recovered(&self) {
        loop {
            tokio::select! {
                () = self.is_back() => return,
                () = tokio::time::sleep(TRY_EVERY) => {}
            }
            for server in self.away() {
                if responds(server).await {
                    tracing::info!(server = server.name(), "the PostgreSQL server responds again");
                    self.responded(server, true);
                }
            }
        }
    }
}

async fn responds(server: &Server) -> bool {
    let Ok(admin) = server.admin().await else { return false };
    match admin.connection().await {
        Ok(connection) => {
            connection.give_back();
            true
        }
        Err(_) => false,
    }
}
