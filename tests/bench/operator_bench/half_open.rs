//! A watch over a connection that is half open: nothing comes any more, while all other requests work.

use std::time::{Duration, Instant};

use docket_tests::apiserver::{Client, Cluster, Gate, Objects};
use docket_tests::operator::{Operator, Release};
use serde_json::json;
use tokio::sync::watch;

use crate::databases::Databases;
use crate::declared;

/// The name of its Tenant, and of the Tenant's role.
pub(crate) const SILENT: &str = "silent";
const PATIENCE: Duration = Duration::from_secs(400);

/// An operator behind a gate, in a release of its own, with one Tenant.
pub(crate) struct HalfOpen {
    gate: Gate,
    tenants: watch::Receiver<Objects>,
    path: String,
    client: Client,
    /// The operator is dropped before its release, because it writes to the release's folder.
    _operator: Operator,
    _release: Release,
}

impl HalfOpen {
    /// Starts the operator, and waits until the Tenant is Ready.
    pub(crate) async fn start(cluster: &'static Cluster, client: Client, databases: &Databases) -> Self {
        let mut release = Release::on(cluster, SILENT);
        let gate = release.with_gate().await;
        gate.allow_all();
        let operator = release.start().await;
        operator.leads().await;
        let path = declared::path(&release.tenants, "tenants");
        let mut tenants = Objects::watch(&client, &path);
        let secret = declared::secret(SILENT, &databases.shared_url(SILENT));
        client.create(&declared::path(&release.tenants, "secrets"), &secret).await;
        client.create(&path, &declared::external(SILENT)).await;
        let ready = tokio::time::timeout(PATIENCE, tenants.wait_for(|tenants| tenants.ready() == 1)).await;
        drop(ready.expect("the Tenant is Ready in time").expect("the watch continues"));
        Self { gate, tenants, path, client, _operator: operator, _release: release }
    }

    /// Silences the open watches and changes the Tenant; returns how long the change is not seen. `None`: too long.
    pub(crate) async fn noticed(&mut self) -> Option<Duration> {
        self.gate.silence_open_watches();
        let begun = Instant::now();
        let path = format!("{}/{SILENT}", self.path);
        self.client.patch(&path, &json!({"spec": {"suspend": true}})).await;
        let is_seen = |tenants: &Objects| tenants.object(SILENT).is_some_and(|tenant| tenant.observed >= 2);
        let seen = tokio::time::timeout(PATIENCE, self.tenants.wait_for(is_seen)).await.is_ok();
        seen.then(|| begun.elapsed())
    }
}
