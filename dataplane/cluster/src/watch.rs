//! Follows the runtime Secrets of a namespace.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use docket_crds::runtime::{LABEL, LABEL_VALUE};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config};
use tokio::time::Instant;

use crate::secrets::{Loaded, Secrets};

/// How long a change may wait for others that come with it.
const SETTLE: Duration = Duration::from_millis(100);
/// After a failure, the next attempt follows after the first of these, and the one after that later, up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// A connection to the API server stands within this.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one watch lasts, in seconds. A server that says nothing for longer is not there any more.
const WATCH: u32 = 60;
const SILENT: Duration = Duration::from_secs(75);
/// How long a command waits for the list.
const LIST: Duration = Duration::from_secs(15);

/// The API server, and the namespace to look into.
#[derive(Clone)]
pub struct Cluster {
    secrets: Api<Secret>,
    namespace: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Cluster {
    /// By the file that KUBECONFIG names, else `~/.kube/config`, else as a pod of the cluster. Nothing is asked yet.
    ///
    /// Errors: there is none of these, or it can't be used.
    pub async fn new(namespace: String) -> Result<Self> {
        let mut config = Config::infer().await.context(
            "there is no way to the Kubernetes API: set KUBECONFIG to a kubeconfig file, or run as a pod",
        )?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENT);
        let client = Client::try_from(config).context("the Kubernetes API can't be used")?;
        Ok(Self { secrets: Api::namespaced(client, &namespace), namespace })
    }

    /// What the Secrets say now.
    ///
    /// Errors: the API server is away or refuses.
    pub async fn load(&self) -> Result<Loaded> {
        let parameters = kube::api::ListParams::default().labels(&label());
        let what = format!("the runtime Secrets of namespace {} can't be listed", self.namespace);
        let listed = tokio::time::timeout(LIST, self.secrets.list(&parameters)).await;
        let listed = listed.with_context(|| format!("{what} within {} s", LIST.as_secs()))?;
        let listed = listed.map_err(|error| anyhow!("{what}: {}", told_cause(&error)))?;
        let mut secrets = Secrets::default();
        secrets.begin_list();
        listed.items.iter().for_each(|secret| secrets.listed(secret));
        secrets.end_list();
        Ok(secrets.loaded())
    }

    /// Tells what the Secrets say, from the first complete list on and after each change, for ever. While the API server
    /// is away nothing changes; that is logged, tried again, and told to `away` at each failure.
    pub async fn follow(self, mut changed: impl FnMut(Loaded), away: impl Fn()) {
        let config = watcher::Config { timeout: Some(WATCH), ..watcher::Config::default().labels(&label()) };
        let mut events = pin!(watcher::watcher(self.secrets.clone(), config));
        let mut secrets = Secrets::default();
        // Before the first list is complete, nothing is known.
        let mut is_listed = false;
        let mut tell_at = None;
        let mut pause = PAUSES.0;
        let mut is_away = false;
        loop {
            let due = async {
                match tell_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                () = due => {
                    tell_at = None;
                    changed(secrets.loaded());
                    continue;
                }
                event = events.next().fuse() => event,
            };
            match event {
                Some(Ok(event)) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!(namespace = self.namespace, "the Kubernetes API answers again");
                    }
                    pause = PAUSES.0;
                    is_listed |= matches!(event, Event::InitDone);
                    if took(&mut secrets, event) && is_listed {
                        tell_at.get_or_insert_with(|| Instant::now() + SETTLE);
                    }
                }
                Some(Err(error)) => {
                    is_away = true;
                    away();
                    let then = match is_listed {
                        true => "what was served before goes on",
                        false => "nothing is served before the runtime Secrets are listed",
                    };
                    tracing::warn!(
                        namespace = self.namespace,
                        error = %told(&error),
                        "the Kubernetes API can't be followed; {then}"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                // A watcher never ends by itself.
                None => return,
            }
        }
    }
}

fn label() -> String {
    format!("{LABEL}={LABEL_VALUE}")
}

/// Takes an event; answers whether it may have changed what is served.
fn took(secrets: &mut Secrets, event: Event<Secret>) -> bool {
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

fn told(error: &watcher::Error) -> String {
    use watcher::Error as Watch;
    let (Watch::InitialListFailed(cause) | Watch::WatchStartFailed(cause) | Watch::WatchFailed(cause)) =
        error
    else {
        return error.to_string();
    };
    told_cause(cause)
}

/// With its causes. One that quotes an answer, which may be a Secret, says only that it can't be read.
fn told_cause(cause: &kube::Error) -> String {
    match cause {
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "an answer can't be read".to_owned(),
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => chain(other),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_not_quoted() {
        let quotes = serde_json::from_str::<u8>("\"hunter2\"").expect_err("a text is no number");
        assert!(quotes.to_string().contains("hunter2"));
        assert_eq!(told_cause(&kube::Error::SerdeError(quotes)), "an answer can't be read");
    }
}
