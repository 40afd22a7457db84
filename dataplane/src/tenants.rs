//! The tenants being served: found by API key, by subdomain, by client code or by uid.
//!
//! Sources of configuration (a folder, later the cluster) replace the whole list at once; a request keeps the tenant
//! it began with. Databases outlive a change of configuration: they are kept by uid.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use docket_crds::{ApiKeyDigest, KeyVersion, TenantConfig, WebhookConfig};
use docket_egress::Trust;
use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;
use crate::store::{Database, StoreError};

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

    /// The webhook with this uid, if it is served.
    pub fn webhook(&self, uid: &str) -> Option<&WebhookConfig> {
        self.config.webhooks.iter().find(|webhook| webhook.uid == uid)
    }

    /// Whether the deliveries of a webhook that is not served wait for it, since it may come back.
    pub fn holds(&self, uid: &str) -> bool {
        match &self.held {
            Held::These(uids) => uids.contains(uid),
            Held::AllUnknown => self.webhook(uid).is_none(),
        }
    }

    /// Which certificates are believed for this webhook.
    pub fn trust(&self, webhook: &WebhookConfig) -> &Trust {
        self.trusts.get(&webhook.uid).unwrap_or(&self.public)
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
        let host = webhook.target_url.host().trim_matches(['[', ']']);
        let here = |socket: SocketAddr| host == "localhost" || host.parse() == Ok(socket.ip());
        webhook.target_url.port() == self.address.port() && self.sockets().into_iter().any(here)
    }
}

/// One tenant's database, migrated before its first use.
#[expect(missing_debug_implementations, reason = "holds a URL with a password")]
pub struct Store {
    database: Database,
    migrated: OnceCell<()>,
}

impl Store {
    /// Around a database that may not have its schema yet.
    pub fn new(database: Database) -> Self {
        Self { database, migrated: OnceCell::new() }
    }

    /// The database with its schema. An error leaves the migration to the next call.
    pub async fn ready(&self, clock: &Clock) -> Result<&Database, StoreError> {
        self.migrated.get_or_try_init(|| self.database.migrate(clock.now_ms())).await?;
        Ok(&self.database)
    }

    /// The database as it is, for what needs no schema.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Where tenants' databases are.
#[derive(Debug, Clone)]
pub enum StoreSource {
    /// A file per tenant below this folder.
    Files(PathBuf),
    /// The URL in the tenant's configuration, with so many connections at most.
    Postgres {
        /// Connections per tenant.
        connections: usize,
    },
}

/// The databases by tenant uid, kept while the process runs.
#[expect(missing_debug_implementations, reason = "holds URLs with passwords")]
pub struct Stores {
    source: StoreSource,
    by_uid: Mutex<HashMap<String, Arc<Store>>>,
}

impl Stores {
    /// None is opened yet.
    pub fn new(source: StoreSource) -> Self {
        Self { source, by_uid: Mutex::default() }
    }

    /// The database of this tenant.
    pub fn of(&self, config: &TenantConfig) -> Result<Arc<Store>, StoreError> {
        let mut by_uid = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = by_uid.get(&config.uid) {
            return Ok(Arc::clone(store));
        }
        let database = match (&self.source, &config.database) {
            (StoreSource::Files(folder), _) => {
                Database::Sqlite(Sqlite::new(file_of(folder, config.client_code.as_str())))
            }
            (StoreSource::Postgres { connections }, Some(url)) => {
                Database::Postgres(Postgres::new(url.expose(), *connections)?)
            }
            (StoreSource::Postgres { .. }, None) => {
                return Err(StoreError::Unexpected("a tenant without a database URL"));
            }
        };
        let store = Arc::new(Store::new(database));
        by_uid.insert(config.uid.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// The file of a tenant's database below the data folder.
pub fn file_of(data_dir: &std::path::Path, client_code: &str) -> PathBuf {
    data_dir.join("tenants").join(client_code).join("tenant.db")
}

/// The tenants being served.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "holds keys")]
pub struct Tenants {
    current: RwLock<Arc<Index>>,
}

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
                // Nothing checks keys across tenants, so the first one keeps it: a second must not take requests over.
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
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
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
