//! `docket-operator run`: settings, client, watches, lease, work; and back in the other order.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use docket_program::signals::Signals;
use kube::{
    Client, Config,
    runtime::events::{Recorder, Reporter},
};
use tokio::sync::watch as channel;

use crate::{
    admin::{self, Pulse},
    args::RunArguments,
    database::Servers,
    kube::{
        client::{KubeApi, MANAGER},
        lease::{self, Held},
        watch,
    },
    metrics::Metrics,
    observe,
    work::{Operator, Settings},
};

/// How long passes that were begun may take after a signal to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// Where a pod's own namespace is written.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs until SIGTERM or Ctrl-C.
pub async fn run(arguments: RunArguments) -> anyhow::Result<()> {
    let lease = lease_settings(&arguments)?;
    let databases = Servers::read(&arguments.database_servers)?;
    let board = observe::board(&arguments)?;
    let (watching, writing) = clients().await?;
    let held = Arc::new(Held::default());
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(lease.identity.clone()) };
    let recorder = Recorder::new(writing.clone(), reporter);
    let kube = KubeApi::new(writing.clone(), held.clone(), recorder, lease.namespace.clone());
    let settings = Settings {
        namespaces: arguments.watch_namespaces.clone(),
        disabled_events: arguments.disabled_events.iter().copied().collect(),
        resync: arguments.resync,
        concurrency: usize::from(arguments.concurrency),
    };
    let operator = Arc::new(Operator::new(kube, databases, settings, Metrics::default(), held.clone()));
    let pulse = Pulse::default();
    let listening = admin::serve(arguments.listen, operator.clone(), pulse.clone())?;
    tokio::spawn(pulse.beat());
    tracing::info!(
        management = %listening,
        release.namespace = lease.namespace,
        identity = lease.identity,
        watch.namespaces = arguments.watch_namespaces.join(","),
        database.servers = operator.databases.names().join(","),
        "started"
    );

    let (stop, stopped) = channel::channel(false);
    let observed = board.is_some();
    if let Some(board) = board {
        tokio::spawn(observe::observe(operator.clone(), board));
    }
    let work = tokio::spawn(all(
        operator.clone(),
        watching,
        writing.clone(),
        lease.clone(),
        held.clone(),
        stopped,
        observed,
    ));
    Signals::new()?.next().await;
    tracing::info!("stopping: what was begun is finished, then the lease is given up");
    stop.send_replace(true);
    if tokio::time::timeout(DRAIN, work).await.is_err() {
        tracing::warn!("passes that take too long are cut off; the next process goes on with them");
    }
    let released = tokio::time::timeout(Duration::from_secs(5), lease::release(writing, &lease, &held)).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!("the lease could not be given up; it runs out by itself");
    }
    Ok(())
}

/// Watches at once; works once everything has been listed and the lease is held.
async fn all(
    operator: Arc<Operator>,
    watching: Client,
    writing: Client,
    lease: lease::Settings,
    held: Arc<Held>,
    stopped: channel::Receiver<bool>,
    observed: bool,
) {
    let namespaces = operator.settings.namespaces.clone();
    let watched = {
        let operator = operator.clone();
        async move {
            watch::wait_for_kinds(&watching, &namespaces).await;
            watch::watch_all(operator, watching, &namespaces).await;
        }
    };
    let now = clock();
    let kept = async { lease::keep(writing, &lease, &held, now).await };
    let worked = {
        let operator = operator.clone();
        async move {
            while !operator.progress.is_complete() || observed && !operator.observes() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let (tenants, webhooks) = operator.cluster().counts();
            tracing::info!(tenants, webhooks, "all is listed");
            tokio::spawn(operator.clone().look_at_everything_when_held());
            operator.work(stopped.clone()).await;
        }
    };
    tokio::select! {
        () = watched => {}
        () = kept => {}
        () = worked => {}
    }
}

fn clock() -> fn() -> jiff::Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the time of a renewal, which nobody compares")]
    || jiff::Timestamp::now()
}

fn lease_settings(arguments: &RunArguments) -> anyhow::Result<lease::Settings> {
    let (duration, renew_every) = (arguments.lease_duration, arguments.lease_renewal);
    ensure!(duration >= Duration::from_secs(5), "--lease-duration: must be at least 5s");
    ensure!(renew_every * 2 < duration, "--lease-renewal: must be less than half of --lease-duration");
    let namespace = match &arguments.release_namespace {
        Some(namespace) => namespace.clone(),
        None => match std::fs::read_to_string(POD_NAMESPACE) {
            Ok(namespace) => namespace.trim().to_owned(),
            Err(_) => bail!("--release-namespace: must be set outside of a pod (DOCKET_RELEASE_NAMESPACE)"),
        },
    };
    let identity = arguments.identity.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}-{}", host.trim(), std::process::id())
    });
    Ok(lease::Settings { namespace, identity, duration, renew_every })
}

/// One client for watches, which may stay silent for minutes, and one for calls. Neither retries by itself: the
/// watches and the queue do, more slowly and in view.
async fn clients() -> anyhow::Result<(Client, Client)> {
    let mut config = Config::infer().await.context(
        "no way to the API server: outside of a pod, KUBECONFIG has to name a file with a current context",
    )?;
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.write_timeout = Some(Duration::from_secs(15));
    let watching = Client::try_from(config.clone())?;
    config.read_timeout = Some(Duration::from_secs(15));
    Ok((watching, Client::try_from(config)?))
}
