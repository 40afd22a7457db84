//! From what the folder declares to what is served, again after each edit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use docket_crds::{TenantConfig, WebhookConfig};
use docket_egress::{EgressPolicy, Trust};
use docket_folder::{Folder, Loaded, ServedTenant};
use tokio::sync::Notify;

use super::banner;
use crate::args::DevArguments;
use crate::random;
use crate::shutdown::Shutdown;
use crate::telemetry::Metrics;
use crate::tenants::stores::Stores;
use crate::tenants::{Held, OwnReceiver, Tenant, Tenants, literal_target};

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(400);
/// Databases that nobody uses are closed after this.
const CLOSE_IDLE: Duration = Duration::from_secs(30);

/// From what the folder declares to what is served.
pub(super) struct Serving {
    pub(super) stores: Stores,
    pub(super) tenants: Arc<Tenants>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) public: Trust,
    pub(super) own_receiver: Option<OwnReceiver>,
    pub(super) policy: EgressPolicy,
    /// The generated keys of each tenant, by client code.
    pub(super) keys: BTreeMap<String, Vec<(String, String)>>,
}

impl Serving {
    /// Answers the client codes of the tenants that are new or have other keys than before.
    pub(super) fn replace(&mut self, loaded: &Loaded) -> Vec<String> {
        let tenants: Vec<Arc<Tenant>> = loaded
            .tenants
            .iter()
            .filter_map(|served| self.tenant(served, loaded.incomplete))
            .map(Arc::new)
            .collect();
        self.metrics.configured(tenants.len(), loaded.problems.len());
        for webhook in tenants.iter().flat_map(|tenant| &tenant.config.webhooks) {
            self.warn_if_out_of_reach(webhook);
        }
        self.tenants.replace(tenants);
        for problem in &loaded.problems {
            tracing::warn!("{problem}");
        }
        let keys: BTreeMap<String, Vec<(String, String)>> = loaded
            .tenants
            .iter()
            .map(|served| (served.config.client_code.to_string(), served.api_keys.clone()))
            .collect();
        let before = std::mem::replace(&mut self.keys, keys);
        let changed = self.keys.iter().filter(|(code, keys)| before.get(*code) != Some(keys));
        changed.map(|(code, _)| code.clone()).collect()
    }

    /// A target that is written as an address says by itself that it will be refused; a name is looked up later.
    fn warn_if_out_of_reach(&self, webhook: &WebhookConfig) {
        let Some(socket) = literal_target(webhook) else { return };
        if webhook.active && !self.policy.permits(socket) {
            let (namespace, name) = (&webhook.namespace, &webhook.name);
            let receiver = self.own_receiver.as_ref().map_or_else(
                || "there is no built-in receiver".to_owned(),
                |own| format!("the built-in receiver is at {}", own.address),
            );
            tracing::warn!(
                "Webhook {namespace}/{name}: spec.targetURL: {socket} may not be reached, so its deliveries fail as BlockedAddress; {receiver}; allow others with --allow-egress"
            );
        }
    }

    fn tenant(&self, served: &ServedTenant, incomplete: bool) -> Option<Tenant> {
        let config: TenantConfig = served.config.clone();
        let store = match self.stores.of(&config) {
            Ok(store) => store,
            Err(error) => {
                tracing::error!(tenant.code = config.client_code.as_str(), error = %error, "a tenant can't be served");
                return None;
            }
        };
        let held = if incomplete { Held::AllUnknown } else { Held::These(served.held_webhooks.clone()) };
        Some(Tenant::new(config, store, held, &self.public, self.own_receiver.as_ref()))
    }
}

/// Follows edits of the folder, closes databases that nobody uses, and wakes the sweep when another program asks.
pub(super) async fn follow(
    mut folder: Folder,
    mut serving: Serving,
    wake: Arc<Notify>,
    arguments: DevArguments,
    shutdown: Shutdown,
) {
    let data_dir = &arguments.source.data_dir;
    let mut last_wake = wake_time(data_dir);
    let mut closed = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shutdown.requested() => return,
        }
        if folder.changed() {
            match folder.load(&mut random::fill) {
                Ok(loaded) => {
                    let changed = serving.replace(&loaded);
                    println!("{}", banner::reloaded(&arguments, &loaded, &changed));
                    wake.notify_one();
                }
                Err(error) => tracing::warn!("{error:#}; what was served before goes on"),
            }
        }
        let now = wake_time(data_dir);
        if now != last_wake {
            last_wake = now;
            wake.notify_one();
        }
        if closed.elapsed() > CLOSE_IDLE {
            closed = Instant::now();
            serving.stores.close_idle(CLOSE_IDLE).await;
        }
    }
}

/// The file that other commands touch to have their rows looked at.
const WAKE_FILE: &str = "wake";

fn wake_time(data_dir: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(data_dir.join(WAKE_FILE)).and_then(|metadata| metadata.modified()).ok()
}

/// Tells a `dev` that runs on this data folder, if there is one, that something was queued.
pub fn wake(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(WAKE_FILE);
    std::fs::write(&path, random::bytes::<8>())
        .with_context(|| format!("{} can't be written", path.display()))
}
