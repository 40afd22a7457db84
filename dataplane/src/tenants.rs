//! The tenants being served: found by API key, by subdomain, by client code or by uid.
//!
//! Sources of configuration (a folder, or the cluster's runtime Secrets) replace the whole list at once; a request keeps the tenant
//! it began with. Databases outlive a change of configuration: they are kept by uid.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use docket_crds::{ApiKeyDigest, EventCode, KeyVersion, TenantConfig, WebhookConfig};
use docket_egress::Trust;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use docket_store::stores::Store;

use docket_program::clock::duration;
use docket_schedule::{Entry, Hint};
use docket_store::deliveries::Due;

/// A tenant as it is served.
#[expect(missing_debug_implementations, reason = "holds keys")]
pub struct Tenant {
    /// What was declared.
    pub config: TenantConfig,
    /// Its database.
    pub store: Arc<Store>,
    held: Held,
    trusts: HashMap<String, Trust>,
    public: Trust,
}

impl Tenant {
    /// A tenant with the certificates that its webhooks trust. `own_receiver` is the embedded mode's receiver and its
    /// CA, which is trusted for that address alone.
    pub fn new(
        config: TenantConfig,
        store: Arc<Store>,
        held: Held,
        public: &Trust,
        own_receiver: Option<&OwnReceiver>,
    ) -> Self {
        let mut trusts = HashMap::new();
        for webhook in &config.webhooks {
            let own = own_receiver.filter(|own| own.is_target_of(webhook));
            let trust = match (&webhook.ca_bundle, own) {
                (Some(pem), _) => Some(bundle(webhook, pem)),
                (None, Some(own)) => Some(own.trust.clone()),
                (None, None) => None,
            };
            trusts.extend(trust.map(|trust| (webhook.uid.clone(), trust)));
        }
        Self { config, store, held, trusts, public: public.clone() }
    }

    /// What to tell the schedule of these deliveries; `now` is the database's.
    pub fn hints(&self, dues: impl IntoIterator<Item = Due>, now: Timestamp) -> Vec<Hint> {
        hints(&self.config.uid, dues, now)
    }

    /// The same tenant with nobody to tell.
    pub fn without_webhooks(&self) -> Self {
        let config = TenantConfig { webhooks: Vec::new(), ..self.config.clone() };
        let (store, held, public) = (Arc::clone(&self.store), self.held.clone(), self.public.clone());
        Self { config, store, held, trusts: HashMap::new(), public }
    }

    /// The webhook with this uid, if it is served.
    pub fn webhook(&self, uid: &str) -> Option<&WebhookConfig> {
        self.webhooks().get(uid)
    }

    /// Whether the deliveries of a webhook that is not served wait for it, since it may come back.
    pub fn holds(&self, uid: &str) -> bool {
        self.webhooks().holds(uid)
    }

    /// All that is known of its webhooks.
    pub fn webhooks(&self) -> Webhooks<'_> {
        let TenantConfig { webhooks, active_events, .. } = &self.config;
        Webhooks { served: webhooks, active_events, held: &self.held }
    }

    /// Which certificates are believed for this webhook.
    pub fn trust(&self, webhook: &WebhookConfig) -> &Trust {
        self.trusts.get(&webhook.uid).unwrap_or(&self.public)
    }
}

/// What to tell the schedule of these deliveries of the tenant with this uid, `now` being the database's time.
pub fn hints(uid: &str, dues: impl IntoIterator<Item = Due>, now: Timestamp) -> Vec<Hint> {
    let uid: Arc<str> = uid.into();
    let hint = |due: Due| {
        let entry = Entry { tenant: Arc::clone(&uid), webhook: due.webhook.as_str().into(), id: due.id };
        Hint { entry, wait: duration(due.at_ms - now.as_millisecond()) }
    };
    dues.into_iter().map(hint).collect()
}

/// What is known of a tenant's webhooks.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "holds secrets")]
pub struct Webhooks<'a> {
    /// Those that are served.
    pub served: &'a [WebhookConfig],
    /// The events that are not switched off for the tenant.
    pub active_events: &'a BTreeSet<EventCode>,
    /// Those that are not, and yet not deleted.
    pub held: &'a Held,
}

impl<'a> Webhooks<'a> {
    /// The webhook with this uid, if it is served.
    pub fn get(&self, uid: &str) -> Option<&'a WebhookConfig> {
        self.served.iter().find(|webhook| webhook.uid == uid)
    }

    /// Whether a webhook receives this event: subscribed, and active in the catalog.
    pub fn takes(&self, webhook: &WebhookConfig, code: EventCode) -> bool {
        webhook.takes(code, self.active_events)
    }

    /// Whether a webhook that is not served may come back.
    pub fn holds(&self, uid: &str) -> bool {
        match self.held {
            Held::These(uids) => uids.contains(uid),
            Held::AllUnknown => self.get(uid).is_none(),
        }
    }
}

/// What a webhook with a CA bundle trusts. A bundle that can't be used trusts nobody: falling back to the public CAs
/// would let each of them vouch for a private receiver.
fn bundle(webhook: &WebhookConfig, pem: &str) -> Trust {
    Trust::with_bundle(pem).unwrap_or_else(|error| {
        let (namespace, name) = (&webhook.namespace, &webhook.name);
        tracing::error!(
            "Webhook {namespace}/{name}: spec.caBundleRef: {error}; its deliveries fail as TlsUntrusted"
        );
        Trust::nobody()
    })
}

/// Webhooks that are not served and yet not deleted: their queued deliveries wait.
#[derive(Debug, Clone)]
pub enum Held {
    /// Those that are declared but broken right now.
    These(BTreeSet<String>),
    /// All: some of what is declared could not be read, so nothing counts as deleted.
    AllUnknown,
}

/// The embedded mode's own receiver.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct OwnReceiver {
    /// Where it listens.
    pub address: SocketAddr,
    /// Trusts its throw-away CA.
    pub trust: Trust,
}

impl OwnReceiver {
    /// The sockets it is reached at: its own, or the loopback ones if it listens on all.
    pub fn sockets(&self) -> Vec<SocketAddr> {
        match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => vec![(Ipv4Addr::LOCALHOST, self.address.port()).into()],
            IpAddr::V6(ip) if ip.is_unspecified() => vec![
                (Ipv4Addr::LOCALHOST, self.address.port()).into(),
                (Ipv6Addr::LOCALHOST, self.address.port()).into(),
            ],
            _ => vec![self.address],
        }
    }

    fn is_target_of(&self, webhook: &WebhookConfig) -> bool {
        literal_target(webhook).is_some_and(|target| self.sockets().contains(&target))
    }
}

/// Where a webhook sends to, if its target says so by itself: an address, or `localhost`, which egress takes for
/// 127.0.0.1. Other names are looked up at each attempt.
pub fn literal_target(webhook: &WebhookConfig) -> Option<SocketAddr> {
    let host = webhook.target_url.host().trim_matches(['[', ']']);
    let address = if host == "localhost" { Ipv4Addr::LOCALHOST.into() } else { host.parse().ok()? };
    Some(SocketAddr::new(address, webhook.target_url.port()))
}

/// How far one process may be behind another with what is declared, without a failure that it knows of: a watch that hears
/// nothing is given up after 75 s.
pub const SOURCE_LAG: Duration = Duration::from_secs(120);

/// The tenants being served.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "holds keys")]
pub struct Tenants {
    current: RwLock<Arc<Index>>,
    /// Those that are new or were declared anew, by uid, until somebody asks.
    changed: Mutex<BTreeSet<String>>,
    has_changed: Notify,
    /// When the source of what is declared could not be followed last.
    doubted: Mutex<Option<Instant>>,
}

/// For so long after a failure of its source, what is served may not be what is declared: longer than two failures in a row
/// are apart (`docket-cluster` hears nothing for 75 s, then waits for 5 s and connects within 5 s).
const DOUBT: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Index {
    by_uid: HashMap<String, Arc<Tenant>>,
    by_key: HashMap<ApiKeyDigest, Arc<Tenant>>,
    by_subdomain: HashMap<String, Arc<Tenant>>,
    by_client_code: HashMap<String, Arc<Tenant>>,
}

impl Tenants {
    /// Serves these and no others from now on.
    pub fn replace(&self, tenants: Vec<Arc<Tenant>>) {
        let mut index = Index::default();
        for tenant in tenants {
            let config = &tenant.config;
            index.by_uid.insert(config.uid.clone(), Arc::clone(&tenant));
            index
                .by_client_code
                .insert(config.client_code.as_str().to_ascii_lowercase(), Arc::clone(&tenant));
            if config.suspended {
                continue;
            }
            for key in config.api_keys.iter().filter(|key| key.active && key.version == KeyVersion::V2) {
                // A folder does not check keys across tenants, so the first one keeps it: a second must not take requests over.
                let holder = index.by_key.entry(key.digest).or_insert_with(|| Arc::clone(&tenant));
                if holder.config.uid != config.uid {
                    let (code, other) = (config.client_code.as_str(), holder.config.client_code.as_str());
                    tracing::warn!(
                        tenant.code = code,
                        "API key {} is {other}'s already; make another",
                        key.name
                    );
                }
            }
            for subdomain in &config.subdomains {
                index.by_subdomain.insert(subdomain.to_ascii_lowercase(), Arc::clone(&tenant));
            }
        }
        let index = Arc::new(index);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::clone(&index));
        drop(current);
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.retain(|uid| index.by_uid.contains_key(uid));
        let anew = index.by_uid.iter().filter(|(uid, tenant)| {
            before.by_uid.get(*uid).is_none_or(|before| !Arc::ptr_eq(before, tenant))
        });
        changed.extend(anew.map(|(uid, _)| uid.clone()));
        self.has_changed.notify_one();
    }

    /// The source of what is declared can't be followed right now.
    pub fn doubt(&self) {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether what is not served here was removed, or is at most [`SOURCE_LAG`] new.
    pub fn is_current(&self) -> bool {
        let doubted = *self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.is_none_or(|doubted| doubted.elapsed() > DOUBT)
    }

    /// Which are new or were declared anew since the last call, by uid; waits until there are some. For one caller.
    pub async fn changed(&self) -> BTreeSet<String> {
        loop {
            let changed = self.take_changed();
            if !changed.is_empty() {
                return changed;
            }
            self.has_changed.notified().await;
        }
    }

    /// The same without waiting.
    pub fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn current(&self) -> Arc<Index> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whose API key this is. Nobody's: unknown, inactive, of the older API, or of a suspended tenant.
    pub fn by_key(&self, key: &str) -> Option<Arc<Tenant>> {
        let digest = ApiKeyDigest::of(key).ok()?;
        self.current().by_key.get(&digest).cloned()
    }

    /// The tenant that this host label maps to; lower case.
    pub fn by_subdomain(&self, label: &str) -> Option<Arc<Tenant>> {
        self.current().by_subdomain.get(label).cloned()
    }

    /// The tenant with this client code, in any case; a suspended one is not served.
    pub fn by_client_code(&self, code: &str) -> Option<Arc<Tenant>> {
        let tenant = self.current().by_client_code.get(&code.to_ascii_lowercase()).cloned();
        tenant.filter(|tenant| !tenant.config.suspended)
    }

    /// The tenant with this uid, suspended or not.
    pub fn by_uid(&self, uid: &str) -> Option<Arc<Tenant>> {
        self.current().by_uid.get(uid).cloned()
    }

    /// All of them, in no particular order.
    pub fn all(&self) -> Vec<Arc<Tenant>> {
        self.current().by_uid.values().cloned().collect()
    }
}
