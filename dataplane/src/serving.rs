//! From what is declared to what is served, again after each change.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_cluster as cluster;
use docket_crds::{Runtime, TenantConfig, WebhookConfig};
use docket_egress::{EgressPolicy, Trust};
use docket_folder as folder;
use tokio::sync::watch;

use crate::telemetry::Metrics;
use crate::tenants::{Held, OwnReceiver, Tenant, Tenants, literal_target};
use docket_store::stores::Stores;

/// What a source declares.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Declared {
    tenants: Vec<DeclaredTenant>,
    problems: Vec<String>,
    /// Nothing that is missing may be taken for removed.
    incomplete: bool,
}

struct DeclaredTenant {
    config: TenantConfig,
    held: BTreeSet<String>,
    revision: String,
}

impl From<&folder::Loaded> for Declared {
    fn from(loaded: &folder::Loaded) -> Self {
        let tenant = |served: &folder::ServedTenant| {
            let (config, held) = (served.config.clone(), served.held_webhooks.clone());
            let Runtime { revision, config, held_webhooks, .. } = Runtime::new(0, config, held);
            DeclaredTenant { config, held: held_webhooks, revision }
        };
        Self {
            tenants: loaded.tenants.iter().map(tenant).collect(),
            problems: loaded.problems.iter().map(ToString::to_string).collect(),
            incomplete: loaded.incomplete,
        }
    }
}

impl From<cluster::Loaded> for Declared {
    fn from(loaded: cluster::Loaded) -> Self {
        let tenant = |served: cluster::Served| {
            let Runtime { config, held_webhooks, revision, .. } = Arc::unwrap_or_clone(served.runtime);
            DeclaredTenant { config, held: held_webhooks, revision }
        };
        // A Secret says by itself which webhooks wait.
        Self {
            tenants: loaded.tenants.into_iter().map(tenant).collect(),
            problems: loaded.problems,
            incomplete: false,
        }
    }
}

/// The revision that is served of each tenant, by uid.
pub type Served = HashMap<String, String>;

/// From what is declared to what is served.
#[expect(missing_debug_implementations, reason = "holds the tenants' keys")]
pub struct Serving {
    stores: Arc<Stores>,
    tenants: Arc<Tenants>,
    metrics: Arc<Metrics>,
    public: Trust,
    own_receiver: Option<OwnReceiver>,
    policy: EgressPolicy,
    served: watch::Sender<Served>,
    problems: Vec<String>,
    incomplete: bool,
}

impl Serving {
    /// Whom it serves.
    pub fn tenants(&self) -> Arc<Tenants> {
        Arc::clone(&self.tenants)
    }

    /// Serves nobody yet. `own_receiver`: the embedded mode's.
    pub fn new(
        stores: Arc<Stores>,
        tenants: Arc<Tenants>,
        metrics: Arc<Metrics>,
        policy: EgressPolicy,
        own_receiver: Option<OwnReceiver>,
    ) -> Self {
        Self {
            stores,
            tenants,
            metrics,
            public: Trust::public(),
            own_receiver,
            policy,
            served: watch::Sender::default(),
            problems: Vec::new(),
            incomplete: false,
        }
    }

    /// Which revisions are served, and that this has changed.
    pub fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// Serves what is declared and nothing else. What has not changed is not made anew.
    pub fn replace(&mut self, declared: Declared) {
        let Declared { tenants, mut problems, incomplete } = declared;
        let as_before = self.incomplete == incomplete;
        self.incomplete = incomplete;
        let (mut serving, mut served) = (Vec::with_capacity(tenants.len()), Served::new());
        for declared in tenants {
            let DeclaredTenant { config, held, revision } = declared;
            let (uid, code) = (config.uid.clone(), config.client_code.clone());
            let unchanged = as_before && self.served.borrow().get(&uid) == Some(&revision);
            let tenant = match self.tenants.by_uid(&uid).filter(|_| unchanged) {
                Some(tenant) => Ok(tenant),
                None => self.tenant(config, held).map(Arc::new),
            };
            match tenant {
                Ok(tenant) => {
                    serving.push(tenant);
                    served.insert(uid, revision);
                }
                Err(error) => {
                    let before = self.tenants.by_uid(&uid);
                    let then = if before.is_some() { "goes on as before" } else { "is not served" };
                    problems.push(format!("Tenant {code} {then}: {error:#}"));
                    serving.extend(before);
                    served.extend(self.served.borrow().get(&uid).map(|revision| (uid, revision.clone())));
                }
            }
        }
        self.metrics.configured(serving.len(), problems.len());
        self.stores.retain(&serving.iter().map(|tenant| tenant.config.uid.as_str()).collect::<HashSet<_>>());
        self.tenants.replace(serving);
        // What was told before is not told again at each change of somebody else's.
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tracing::warn!("{problem}");
        }
        self.problems = problems;
        self.served.send_if_modified(|before| {
            let changed = *before != served;
            *before = served;
            changed
        });
    }

    fn tenant(&self, config: TenantConfig, held: BTreeSet<String>) -> anyhow::Result<Tenant> {
        for webhook in &config.webhooks {
            self.warn_if_out_of_reach(webhook);
        }
        let store = self.stores.of(&config)?;
        let held = if self.incomplete { Held::AllUnknown } else { Held::These(held) };
        Ok(Tenant::new(config, store, held, &self.public, self.own_receiver.as_ref()))
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
}
