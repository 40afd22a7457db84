//! The room of notices: e-mail to people who subscribed to changes of webhooks.
//!
//! [`Notifier`] visits the tenants in rounds. A visit decides what is to be announced (`announce`), and sends it (`send`). Both read
//! and write the tenant's own rows: a crash loses nothing, and repeats a message only if it comes between the reply of the SMTP server
//! and the commit after it.
//!
//! It uses the served tenants, the audit and telemetry. Only the modes use it.

mod announce;
mod send;
mod visit;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_board::Board;
use docket_mail::Smtp;
use docket_program::clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::telemetry::{Metrics, Task};
use crate::tenancy::rounds::{EndedVisit, Lane, Rounds};
use crate::tenancy::{ServedTenant, Tenants};
use send::Mailer;
pub use send::{APART, MOST_CONFIRMATIONS, MOST_CONFIRMATIONS_OF_USER, MOST_NOTICES, MOST_NOTICES_OF_USER};
use visit::{Visited, Visitor};

/// Databases visited at once.
const AT_ONCE: usize = 4;
/// What the URL of the portal has in place of a tenant's subdomain.
pub const SUBDOMAIN: &str = "{subdomain}";

/// Where the portal of each tenant is: a URL without a path, with [`SUBDOMAIN`] in it.
#[derive(Debug, Clone)]
pub struct PortalUrl(pub String);

impl PortalUrl {
    /// The URL of the tenant's portal without a path; `None`: the tenant has no subdomain, so no portal.
    pub fn of(&self, tenant: &ServedTenant) -> Option<String> {
        let subdomain = tenant.config.subdomains.first()?;
        Some(self.0.replace(SUBDOMAIN, subdomain))
    }
}

/// How messages are sent.
pub struct NoticeSettings {
    /// The way to the SMTP server.
    pub smtp: Smtp,
    /// Where the links of messages lead.
    pub portal: PortalUrl,
    /// How often to look for changes.
    pub interval: Duration,
}

/// Announces changes of webhooks. Several processes may each run a notifier on the same databases.
pub struct Notifier {
    visitor: Arc<Visitor>,
    rounds: Rounds<Visited, Visited>,
    /// The number of messages that wait, as the metrics have it, of each tenant with any.
    waiting: HashMap<Arc<str>, i64>,
    interval: Duration,
}

impl Notifier {
    /// Creates a notifier that does nothing until [`run`](Self::run).
    pub fn new(
        clock: Clock,
        tenants: Arc<Tenants>,
        audit: Arc<Audit>,
        metrics: Arc<Metrics>,
        settings: NoticeSettings,
    ) -> Self {
        let NoticeSettings { smtp, portal, interval } = settings;
        let rounds = Rounds::new(Task::Notices, clock.clone(), Arc::clone(&metrics), AT_ONCE);
        let mailer = Mailer::new(clock.clone(), smtp, portal, Arc::clone(&metrics));
        let visitor = Visitor { clock, tenants, audit, metrics, board: None, mailer, interval };
        Self { visitor: Arc::new(visitor), rounds, waiting: HashMap::new(), interval }
    }

    /// For one of several processes, which take turns.
    #[must_use]
    pub fn shared(mut self, board: Option<Arc<Board>>) -> Self {
        if let Some(visitor) = Arc::get_mut(&mut self.visitor) {
            visitor.board = board;
        }
        self
    }

    /// Announces until shutdown is requested. A message that is being sent then is sent again by the next process, unless the SMTP
    /// server has it and the row says so.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let visitor = Arc::clone(&self.visitor);
        let visit = |uid, memory| Arc::clone(&visitor).visit(uid, memory);
        while let Some(ended) =
            shutdown.run_until_cancelled(self.rounds.next_of_all(&visitor.tenants, visit)).await
        {
            self.end(ended);
        }
        // At most the time of a message for each visit: the rest of a visit is left to the next process.
        visitor.mailer.close();
        while let Some(ended) = self.rounds.join().await {
            self.end(ended);
        }
    }

    /// Counts the messages that wait, and plans the tenant's next visit.
    fn end(&mut self, (visit, result): EndedVisit<Visited>) {
        let Visitor { tenants, metrics, .. } = &*self.visitor;
        let before = self.waiting.remove(&visit.uid).unwrap_or_default();
        if tenants.by_uid(&visit.uid).is_none() {
            metrics.mails_waiting(-before);
            return;
        }
        // A visit that panicked has sent nothing, as far as the process knows.
        let visited = result.unwrap_or_else(|_| Visited::with(before));
        metrics.mails_waiting(visited.waiting - before);
        if visited.waiting > 0 {
            self.waiting.insert(Arc::clone(&visit.uid), visited.waiting);
        }
        let lane = if visited.has_failed { Lane::Aside } else { Lane::Main };
        self.rounds.timetable.plan(&visit.uid, lane, visit.begun + self.interval, visited);
    }
}

#[cfg(test)]
mod tests {
    use docket_mail::SmtpUrl;
    use docket_rig::scratch::Folder;
    use docket_store::sqlite::Sqlite;
    use tokio::task::JoinError;

    use super::*;
    use crate::tenancy::rounds::Visit;
    use crate::tenancy::testing;

    async fn panics() -> Visited {
        panic!("a bug of a visit")
    }

    #[tokio::test]
    async fn messages_are_counted_once_also_if_a_visit_panics_or_the_tenant_is_gone() {
        let folder = Folder::new("mails-waiting");
        let (clock, tenants, metrics) = (Clock::System, Arc::<Tenants>::default(), Arc::<Metrics>::default());
        tenants.replace(vec![testing::tenant("uid-a", Sqlite::new(folder.path().join("tenant.db")))]);
        let audit = Audit::new(clock.clone(), Arc::clone(&metrics), Arc::clone(&tenants), None);
        let url = SmtpUrl::parse("smtp://127.0.0.1:25").expect("a URL");
        let smtp = Smtp::new(&url, None, "docket@acme.example").expect("a sender");
        let (portal, interval) = (PortalUrl("https://docket.example".into()), Duration::from_secs(60));
        let settings = NoticeSettings { smtp, portal, interval };
        let mut notifier = Notifier::new(clock, Arc::clone(&tenants), audit, Arc::clone(&metrics), settings);
        let mut after = |result: Result<Visited, JoinError>| -> Option<i64> {
            let visit = Visit { uid: "uid-a".into(), lane: Lane::Main, begun: Duration::ZERO, again: false };
            notifier.end((visit, result));
            let text = metrics.text();
            text.lines().find_map(|line| line.strip_prefix("docket_mails_waiting ")?.parse().ok())
        };
        assert_eq!(after(Ok(Visited::with(3))), Some(3));
        assert_eq!(after(tokio::spawn(panics()).await), Some(3), "they wait for the next visit");
        assert_eq!(after(Ok(Visited::with(1))), Some(1));
        tenants.replace(Vec::new());
        assert_eq!(after(Ok(Visited::with(1))), Some(0));
    }
}
