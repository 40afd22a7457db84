//! Reads tenants from the operator's runtime Secrets in one namespace, by watch.
//!
//! [`secrets`] keeps the known Secrets and derives the tenants from them, without I/O.
//!
//! Good versions stay: if a Secret can't be read, its tenant's last good version is served. If the API server does
//! not respond, fails to list or suddenly lists nothing, no tenant ends. Only a deleted Secret ends its tenant.

mod secrets;

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use docket_crds::runtime::{LABEL, LABEL_VALUE};
use docket_program::apiserver::{ApiServerError, watch_error};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config};
use tokio::time::Instant;

use self::secrets::Secrets;
use crate::declaration::Declaration;

/// How long a change waits for other changes.
const SETTLE: Duration = Duration::from_millis(100);
/// The pause before a retry: the first one, and the longest. It doubles with each failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// The time limit of a connection to the API server.
const CONNECT: Duration = Duration::from_secs(5);
/// The duration of one watch, in seconds.
const WATCH: u32 = 60;
/// After this time without data, the API server counts as lost: it should have ended the watch before.
const SILENT: Duration = Duration::from_secs(75);
/// The time limit of a list for a command.
const LIST: Duration = Duration::from_secs(15);

/// The API server, and the namespace of the Secrets.
#[derive(Clone)]
pub struct ClusterSource {
    secrets: Api<Secret>,
    namespace: String,
}

impl std::fmt::Debug for ClusterSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSource").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl ClusterSource {
    /// Connects by the file that KUBECONFIG names, else by `~/.kube/config`, else as a pod of the cluster. Sends no request
    /// yet.
    ///
    /// # Errors
    ///
    /// None of these exists, or it can't be used.
    pub async fn new(namespace: String) -> Result<Self> {
        let mut config = Config::infer().await.context(
            "no configuration of the Kubernetes API; set KUBECONFIG to a kubeconfig file, or run as a pod",
        )?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENT);
        let client = Client::try_from(config).context("the Kubernetes API can't be used")?;
        Ok(Self { secrets: Api::namespaced(client, &namespace), namespace })
    }

    /// Lists the Secrets once.
    ///
    /// # Errors
    ///
    /// The API server does not respond, or refuses the list.
    pub async fn load(&self) -> Result<Declaration> {
        let parameters = kube::api::ListParams::default().labels(&label());
        let what = format!("the runtime Secrets of namespace {} can't be listed", self.namespace);
        let listed = tokio::time::timeout(LIST, self.secrets.list(&parameters)).await;
        let listed = listed.with_context(|| format!("{what} within {} s", LIST.as_secs()))?;
        let listed = listed.map_err(|error| anyhow!("{what}: {}", ApiServerError::from(error)))?;
        let mut secrets = Secrets::default();
        secrets.begin_list();
        listed.items.iter().for_each(|secret| secrets.listed(secret));
        secrets.end_list();
        Ok(secrets.declaration())
    }

    /// Calls `changed` after the first complete list and after each change, until the future is dropped. While the
    /// API server does not respond, it logs this, retries, and calls `failed` at each failure.
    pub async fn follow(self, mut changed: impl FnMut(Declaration), failed: impl Fn()) {
        let config = watcher::Config { timeout: Some(WATCH), ..watcher::Config::default().labels(&label()) };
        let mut events = pin!(watcher::watcher(self.secrets.clone(), config));
        let mut secrets = Secrets::default();
        // Before the first list is complete, some tenants are unknown.
        let mut is_listed = false;
        let mut report_at = None;
        let mut pause = PAUSES.0;
        let mut is_away = false;
        loop {
            let due = async {
                match report_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                () = due => {
                    report_at = None;
                    changed(secrets.declaration());
                    continue;
                }
                event = events.next().fuse() => event,
            };
            match event {
                Some(Ok(event)) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!(namespace = self.namespace, "the Kubernetes API is back");
                    }
                    pause = PAUSES.0;
                    is_listed |= matches!(event, Event::InitDone);
                    if apply(&mut secrets, event) && is_listed {
                        report_at.get_or_insert_with(|| Instant::now() + SETTLE);
                    }
                }
                Some(Err(error)) => {
                    is_away = true;
                    failed();
                    let then = match is_listed {
                        true => "the last good configuration stays active",
                        false => "nothing is served before the runtime Secrets are listed",
                    };
                    tracing::warn!(
                        namespace = self.namespace,
                        error = %watch_error(&error),
                        "watch of the Kubernetes API failed; retrying; {then}"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                // A watcher never ends.
                None => return,
            }
        }
    }
}

fn label() -> String {
    format!("{LABEL}={LABEL_VALUE}")
}

/// Applies an event. Returns whether it may have changed the tenants.
fn apply(secrets: &mut Secrets, event: Event<Secret>) -> bool {
    match event {
        Event::Apply(secret) => secrets.apply(&secret),
        Event::Delete(secret) => secrets.delete(&secret),
        Event::Init => {
            secrets.begin_list();
            return false;
        }
        Event::InitApply(secret) => {
            secrets.listed(&secret);
            return false;
        }
        Event::InitDone => secrets.end_list(),
    }
    true
}
