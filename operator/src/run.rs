//! The command `docket-operator run`: starts settings, client, watches, Lease and work, and stops them in reverse order.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use docket_crds::PlatformLimits;
use docket_program::clock::Clock;
use docket_program::random;
use docket_program::signals::Signals;
use docket_schema::postgres::ExternalDatabases;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Config};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Pulse};
use crate::args::RunArguments;
use crate::context::{Context, Settings};
use crate::database::Servers;
use crate::kube::client::{KubeApi, MANAGER};
use crate::kube::lease::{self, Leadership, LeaseSettings};
use crate::kube::watch::{self, Sink};
use crate::metrics::Metrics;
use crate::observe::{self, DataPlaneRedis};
use crate::state::State;
use crate::state::migrations::MigrationRules;
use crate::state::sight::PATIENCE;
use crate::work::{self, Work};

/// How long passes in progress may take after a signal to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// How long giving up the Lease may take.
const RELEASE: Duration = Duration::from_secs(5);
/// The file with the pod's own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs until SIGTERM or Ctrl-C.
pub async fn run(arguments: RunArguments) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let lease = lease_settings(&arguments)?;
    let databases = Servers::read(&arguments.database_servers)?;
    let redis = DataPlaneRedis::read(&arguments)?;
    let limits = arguments.tenant_limits.as_deref().map_or(Ok(PlatformLimits::default()), tenant_limits)?;
    let (watching, writing) = clients().await?;

    let (state, changes) = State::new();
    let (state, metrics, leadership) =
        (Arc::new(state), Arc::<Metrics>::default(), Arc::<Leadership>::default());
    let kube = kube_api(&writing, &lease, &leadership, &state, &metrics);
    let settings = settings(&arguments, limits);
    let pulse = Pulse::default();
    let listening = admin::serve(arguments.listen, state.clone(), metrics.clone(), pulse.clone())?;
    tokio::spawn(pulse.beat());
    tracing::info!(
        management = %listening,
        release.namespace = lease.namespace,
        identity = lease.identity,
        watch.namespaces = settings.namespaces.join(","),
        database.servers = databases.names().join(","),
        "started"
    );

    let watches = watches(
        state.clone(),
        metrics.clone(),
        lease.namespace.clone(),
        watching,
        settings.namespaces.clone(),
    );
    let context = Context {
        kube,
        databases,
        metrics: metrics.clone(),
        migration_places: Semaphore::new(usize::from(arguments.migrations_at_once)),
        clock: Clock::System,
        random: random::fill,
        settings,
    };
    let work = Arc::new(Work::new(context, state.clone(), metrics.clone(), leadership.clone()));
    tokio::spawn(work.clone().enqueue(changes));
    let stop = CancellationToken::new();
    let parts = tokio::spawn({
        let (lease, leadership, writing) = (lease.clone(), leadership.clone(), writing.clone());
        let seen = state.clone();
        let work = reconcile(work, state, metrics.clone(), redis, stop.clone());
        async move {
            tokio::select! {
                () = watches => {}
                () = lease::keep(writing, &lease, &leadership, &seen.sight, &Clock::System) => {}
                () = work => {}
            }
        }
    });
    signals.next().await;
    tracing::info!("stopping: passes under way are finished, then the lease is given up");
    stop.cancel();
    drain(parts).await;
    release(writing, &lease, &leadership).await;
    Ok(())
}

/// Returns what the work calls the API server with. Only the replica that leads writes.
fn kube_api(
    client: &Client,
    lease: &LeaseSettings,
    leadership: &Arc<Leadership>,
    state: &Arc<State>,
    metrics: &Arc<Metrics>,
) -> KubeApi {
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(lease.identity.clone()) };
    KubeApi::new(
        client.clone(),
        leadership.clone(),
        Recorder::new(client.clone(), reporter),
        lease.namespace.clone(),
        state.clone(),
        metrics.clone(),
    )
}

/// Waits until the passes under way are finished, for a limited time.
async fn drain(parts: JoinHandle<()>) {
    if tokio::time::timeout(DRAIN, parts).await.is_err() {
        tracing::warn!(
            "passes under way are cut off after {} s; the next leader repeats them",
            DRAIN.as_secs()
        );
    }
}

/// Gives up the Lease, so that the next leader need not wait until the Lease expires.
async fn release(client: Client, lease: &LeaseSettings, leadership: &Leadership) {
    let released = tokio::time::timeout(RELEASE, lease::release(client, lease, leadership)).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!("giving up the lease failed; the lease expires by itself");
    }
}

async fn watches(
    state: Arc<State>,
    metrics: Arc<Metrics>,
    release_namespace: String,
    client: Client,
    namespaces: Vec<String>,
) {
    let sink = Sink { state, metrics, release_namespace };
    watch::wait_for_kinds(&client, &namespaces).await;
    watch::watch_all(sink, client, &namespaces).await;
}

/// Begins to reconcile once every watch has its first list and the pods are known. Each pass waits for the Lease.
async fn reconcile(
    work: Arc<Work>,
    state: Arc<State>,
    metrics: Arc<Metrics>,
    redis: Option<DataPlaneRedis>,
    stop: CancellationToken,
) {
    if let Some(redis) = redis {
        tokio::spawn(observe::observe(state.clone(), metrics, redis, Clock::System));
        state.pods_known().await;
    }
    state.progress.complete().await;
    let (tenants, webhooks) = state.cluster().counts();
    tracing::info!(tenants, webhooks, "all objects are listed");
    tokio::spawn(work.clone().reconcile_all_when_leading());
    tokio::spawn(work::retry_when_a_server_is_back(work.clone()));
    tokio::spawn(work.clone().offer_migrations());
    work.run(stop).await;
}

fn settings(arguments: &RunArguments, limits: PlatformLimits) -> Settings {
    Settings {
        namespaces: arguments.watch_namespaces.clone(),
        external_databases: Arc::new(ExternalDatabases::new(
            arguments.allow_external_database.clone(),
            Some(arguments.ca_folder.clone()),
        )),
        disabled_events: arguments.disabled_events.iter().copied().collect(),
        limits,
        resync: arguments.resync,
        webhook_grace: arguments.webhook_grace,
        concurrency: usize::from(arguments.concurrency),
        migrations: MigrationRules { paused: arguments.pause_migrations, window: arguments.migration_window },
    }
}

/// Reads the limits of tenants.
///
/// Errors: the file can't be read or is not valid. The message names each field that is not valid.
fn tenant_limits(file: &Path) -> anyhow::Result<PlatformLimits> {
    let what = || format!("--tenant-limits {}", file.display());
    std::fs::read_to_string(file).with_context(what)?.parse().with_context(what)
}

fn lease_settings(arguments: &RunArguments) -> anyhow::Result<LeaseSettings> {
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
    Ok(LeaseSettings { namespace, identity, duration, renew_every })
}

/// Two clients: one for watches, which may be silent for a minute, and one for calls. Neither retries by itself,
/// because the watches and the queue do: more slowly, and visibly.
async fn clients() -> anyhow::Result<(Client, Client)> {
    let mut config = Config::infer().await.context(
        "no configuration of the Kubernetes API; set KUBECONFIG to a kubeconfig file with a current context, or run as a pod",
    )?;
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.write_timeout = Some(Duration::from_secs(15));
    config.read_timeout = Some(PATIENCE);
    let watching = Client::try_from(config.clone())?;
    config.read_timeout = Some(Duration::from_secs(15));
    Ok((watching, Client::try_from(config)?))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, Command};

    fn lease(flags: &[&str]) -> anyhow::Result<LeaseSettings> {
        let all =
            [&["docket-operator", "run", "--release-namespace=docket", "--identity=me"], flags].concat();
        let Command::Run(arguments) = Arguments::parse_from(all).command else { panic!("it is run") };
        lease_settings(&arguments)
    }

    #[test]
    fn lease_is_renewed_more_than_twice_while_it_is_valid() {
        let settings = lease(&["--lease-duration=5s", "--lease-renewal=2s"]).unwrap();
        let seconds = (settings.duration.as_secs(), settings.renew_every.as_secs());
        assert_eq!(
            (settings.namespace.as_str(), settings.identity.as_str(), seconds),
            ("docket", "me", (5, 2))
        );
        for flags in [
            ["--lease-duration=4999ms", "--lease-renewal=1s"],
            ["--lease-duration=6s", "--lease-renewal=3s"],
            ["--lease-duration=6s", "--lease-renewal=6s"],
        ] {
            assert!(lease(&flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn settings_are_those_of_the_flags() {
        let flags = [
            "docket-operator",
            "run",
            "--watch-namespace=a,b",
            "--disabled-event=note.created",
            "--resync=7m",
            "--webhook-grace=2h",
            "--concurrency=3",
            "--pause-migrations",
            "--migration-window=22:00-04:00",
            "--allow-external-database=db.example.com",
            "--ca-folder=/authorities",
        ];
        let Command::Run(arguments) = Arguments::parse_from(flags).command else { panic!("it is run") };
        let settings = settings(&arguments, PlatformLimits::default());
        assert_eq!(settings.namespaces, ["a", "b"]);
        assert_eq!(settings.disabled_events, [docket_crds::EventCode::NoteCreated].into());
        let minutes = (settings.resync.as_secs() / 60, settings.webhook_grace.as_secs() / 60);
        assert_eq!((minutes, settings.concurrency), ((7, 120), 3));
        assert!(settings.migrations.paused && settings.migrations.window.is_some());
        assert!(settings.watches("b") && !settings.watches("c"));
        let allowed = vec!["db.example.com".parse().expect("a host")];
        let external = ExternalDatabases::new(allowed, Some("/authorities".into()));
        assert_eq!(*settings.external_databases, external);
        let Command::Run(plain) = Arguments::parse_from(["docket-operator", "run"]).command else {
            panic!("it is run")
        };
        assert!(super::settings(&plain, PlatformLimits::default()).watches("c"), "all, if none is named");
    }
}
