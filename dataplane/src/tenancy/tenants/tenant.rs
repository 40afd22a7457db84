//! A tenant that is served: its configuration, its database, and what its webhooks trust.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use docket_crds::{EventCode, TenantConfig, WebhookConfig, webhook_key};
use docket_egress::{Trust, literal_addresses};
use docket_schedule::Hint;
use docket_store::deliveries::Due;
use docket_store::health::WebhookHealth;
use docket_store::stores::Store;
use jiff::Timestamp;
use parking_lot::Mutex;

/// A tenant that is served.
pub struct ServedTenant {
    /// The uid of its configuration.
    pub uid: Arc<str>,
    /// Its configuration.
    pub config: Arc<TenantConfig>,
    /// Its database.
    pub store: Arc<Store>,
    held: HeldWebhooks,
    faults: BTreeMap<String, Vec<String>>,
    warnings: BTreeMap<String, Vec<String>>,
    /// Customers of webhooks that the tenant lacked when its database was last asked.
    unknown_customers: Mutex<BTreeSet<String>>,
    trusts: HashMap<String, Trust>,
    public: Trust,
}

impl ServedTenant {
    /// Creates a tenant with the certificates that its webhooks trust: their own CA bundle, else `local` for a webhook that sends to that
    /// receiver, else `public`.
    pub fn new(
        config: impl Into<Arc<TenantConfig>>,
        store: Arc<Store>,
        held: HeldWebhooks,
        public: &Trust,
        local: Option<&LocalReceiver>,
    ) -> Self {
        let config = config.into();
        let mut trusts = HashMap::new();
        for webhook in &config.webhooks {
            let trust = match &webhook.ca_bundle {
                // Falling back to the public CAs would let each of them vouch for a private receiver.
                Some(pem) => Some(Trust::with_bundle(pem).unwrap_or_else(|_| Trust::none())),
                None => local.filter(|local| local.is_target_of(webhook)).map(|local| local.trust.clone()),
            };
            trusts.extend(trust.map(|trust| (webhook.uid.clone(), trust)));
        }
        let uid = Arc::clone(&config.uid);
        let (faults, warnings, unknown_customers) = (BTreeMap::new(), BTreeMap::new(), Mutex::default());
        let public = public.clone();
        Self { uid, config, store, held, faults, warnings, unknown_customers, trusts, public }
    }

    /// Sets what is wrong with its webhooks, and what looks like a mistake, by uid.
    #[must_use]
    pub fn with_faults(
        self,
        faults: BTreeMap<String, Vec<String>>,
        warnings: BTreeMap<String, Vec<String>>,
    ) -> Self {
        Self { faults, warnings, ..self }
    }

    /// Returns what is wrong with the declaration of the webhook with this uid, served or on hold: `field: what is wrong`.
    pub fn faults(&self, webhook_uid: &str) -> &[String] {
        self.faults.get(webhook_uid).map_or(&[], Vec::as_slice)
    }

    /// Returns what is wrong with the declarations of webhooks, by uid.
    pub const fn all_faults(&self) -> &BTreeMap<String, Vec<String>> {
        &self.faults
    }

    /// Returns what looks like a mistake in the secrets and authorities of the served webhook with this uid, and may be meant.
    pub fn warnings(&self, webhook_uid: &str) -> &[String] {
        self.warnings.get(webhook_uid).map_or(&[], Vec::as_slice)
    }

    /// Records which customers of its webhooks the tenant lacks. Returns the customers that the tenant lacked at the previous
    /// call.
    pub fn note_unknown_customers(&self, unknown: BTreeSet<String>) -> BTreeSet<String> {
        std::mem::replace(&mut *self.unknown_customers.lock(), unknown)
    }

    /// Returns hints for the schedule about these deliveries of the tenant; `now` is the database's time.
    pub fn hints(&self, dues: impl IntoIterator<Item = Due>, now: Timestamp) -> Vec<Hint> {
        docket_schedule::hints(&self.uid, dues, now)
    }

    /// Returns the same tenant without webhooks.
    pub fn without_webhooks(&self) -> Self {
        let config = TenantConfig { webhooks: Vec::new(), ..(*self.config).clone() }.into();
        let (store, held, public) = (Arc::clone(&self.store), self.held.clone(), self.public.clone());
        let (uid, faults, trusts) = (Arc::clone(&self.uid), self.faults.clone(), HashMap::new());
        let (warnings, unknown_customers) = (BTreeMap::new(), Mutex::default());
        Self { uid, config, store, held, faults, warnings, unknown_customers, trusts, public }
    }

    /// Returns the webhook with this key or uid, if it is served.
    pub fn webhook(&self, key_or_uid: &str) -> Option<&WebhookConfig> {
        self.webhooks().get(key_or_uid)
    }

    /// Whether a webhook, by key or uid, is on hold: it is declared and not served, so its deliveries wait until it is served.
    pub fn holds(&self, key_or_uid: &str) -> bool {
        self.webhooks().holds(key_or_uid)
    }

    /// Returns its webhooks, served and on hold.
    pub fn webhooks(&self) -> Webhooks<'_> {
        let TenantConfig { webhooks, active_events, .. } = &*self.config;
        Webhooks::new(webhooks, active_events, &self.held)
    }

    /// Returns the certificates that this webhook trusts.
    pub fn trust(&self, webhook: &WebhookConfig) -> &Trust {
        self.trusts.get(&webhook.uid).unwrap_or(&self.public)
    }
}

/// A tenant's webhooks, or the webhooks of one customer.
#[derive(Clone, Copy)]
pub struct Webhooks<'a> {
    served: &'a [WebhookConfig],
    active_events: &'a BTreeSet<EventCode>,
    held: &'a HeldWebhooks,
    /// The customer whose webhooks these are; `None`: all webhooks of the tenant.
    customer: Option<&'a str>,
}

impl<'a> Webhooks<'a> {
    /// All webhooks of a tenant: served, with the events that are active for the tenant, and on hold.
    pub const fn new(
        served: &'a [WebhookConfig],
        active_events: &'a BTreeSet<EventCode>,
        held: &'a HeldWebhooks,
    ) -> Self {
        Self { served, active_events, held, customer: None }
    }

    /// Returns only the webhooks of this customer. A webhook on hold is among them if it is known to be this customer's.
    #[must_use]
    pub const fn of(self, customer: &'a str) -> Self {
        Self { customer: Some(customer), ..self }
    }

    /// Whether these are the webhooks of one customer, who learns nothing of another customer's.
    pub const fn are_of_one_customer(&self) -> bool {
        self.customer.is_some()
    }

    /// Returns the webhooks that are served.
    pub fn served(&self) -> impl Iterator<Item = &'a WebhookConfig> + use<'a> {
        let (served, customer) = (self.served, self.customer);
        served
            .iter()
            .filter(move |webhook| customer.is_none_or(|customer| webhook.customer_code.as_str() == customer))
    }

    /// Returns the webhook with this key or uid, if it is served.
    pub fn get(&self, key_or_uid: &str) -> Option<&'a WebhookConfig> {
        self.served().find(|webhook| webhook.is(key_or_uid))
    }

    /// Returns the webhook with this `namespace/name`, key or uid, if it is served.
    pub fn named(&self, name: &str) -> Option<&'a WebhookConfig> {
        self.served().find(|webhook| webhook.is(name) || webhook.full_name() == name)
    }

    /// Returns the health of the tenant's declared webhooks, served or on hold, by uid. The tenant's database may name webhooks of others;
    /// they are left out.
    pub fn health(&self, read: Vec<WebhookHealth>) -> HashMap<String, WebhookHealth> {
        let mut by_uid: HashMap<String, WebhookHealth> = HashMap::new();
        for health in read {
            let served = self.get(&health.webhook);
            let held = || self.held().find(|(uid, held)| is_of(&health.webhook, uid, held));
            let uid = match served {
                Some(webhook) => Some(webhook.uid.clone()),
                None => held().map(|(uid, _)| uid.to_owned()),
            };
            // Rows of versions before keys have the uid, so one webhook may have two rows.
            if let Some(uid) = uid {
                let sum = by_uid.entry(uid).or_default();
                sum.add(&health);
                sum.webhook = served.map_or(health.webhook, WebhookConfig::key);
            }
        }
        by_uid
    }

    /// Whether further webhooks may be declared and not served. A customer learns nothing of another customer's.
    pub const fn are_incomplete(&self) -> bool {
        matches!(self.held, HeldWebhooks::AllUnknown) && self.customer.is_none()
    }

    /// Returns the webhooks that are known to be declared and not served: uid and key. If the customer can't be read, `namespace/name` is in
    /// place of the key; if an older operator did not write the key, it is empty.
    pub fn held(self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let held = match self.held {
            HeldWebhooks::These(held) => Some(held),
            HeldWebhooks::AllUnknown => None,
        };
        held.into_iter().flatten().map(|(uid, key)| (uid.as_str(), key.as_str())).filter(move |(uid, key)| {
            let is_served = self.served.iter().any(|webhook| webhook.uid == *uid);
            !is_served
                && self.customer.is_none_or(|customer| webhook_key::customer_code(key) == Some(customer))
        })
    }

    /// Whether a webhook receives this event: subscribed, and active in the catalog.
    pub fn takes(&self, webhook: &WebhookConfig, code: EventCode) -> bool {
        webhook.takes(code, self.active_events)
    }

    /// Whether any webhook can get this event: it is active in the catalog.
    pub fn can_get(&self, code: EventCode) -> bool {
        self.active_events.contains(&code)
    }

    /// Whether a webhook, by key or uid, is on hold: it is declared and not served, so it may come back.
    pub fn holds(&self, key_or_uid: &str) -> bool {
        self.get(key_or_uid).is_none()
            && (self.are_incomplete() || self.held().any(|(uid, held)| is_of(key_or_uid, uid, held)))
    }
}

/// Whether `key_or_uid` names the webhook on hold with this uid; `held` is the key of that webhook, its `namespace/name`, or empty.
fn is_of(key_or_uid: &str, uid: &str, held: &str) -> bool {
    match webhook_key::full_name(key_or_uid) {
        // A key is no name: a name has one slash.
        Some(full_name) => held.is_empty() || key_or_uid == held || full_name == held,
        None => key_or_uid == uid,
    }
}

/// Webhooks on hold: not served and yet not deleted. Their queued deliveries wait.
#[derive(Debug, Clone)]
pub enum HeldWebhooks {
    /// These webhooks, which are declared but broken now: their keys by uid. If the customer can't be read, `namespace/name` is in place of
    /// the key, and stands for the webhook of any customer. If an older operator did not write the key, it is empty, and stands for any
    /// webhook.
    These(BTreeMap<String, String>),
    /// All webhooks that are not served: a part of the declaration can't be read, so no webhook counts as deleted.
    AllUnknown,
}

/// A receiver in this process, whose certificate no public CA has signed.
#[derive(Clone)]
pub struct LocalReceiver {
    /// The sockets at which it listens.
    pub sockets: Vec<SocketAddr>,
    /// The trust in the receiver's certificate.
    pub trust: Trust,
}

impl LocalReceiver {
    fn is_target_of(&self, webhook: &WebhookConfig) -> bool {
        literal_targets(webhook).iter().any(|target| self.sockets.contains(target))
    }
}

/// Returns the sockets that a webhook sends to if its target is an address or `localhost`. Other names are looked up at each
/// attempt.
pub(super) fn literal_targets(webhook: &WebhookConfig) -> Vec<SocketAddr> {
    let target = &webhook.target_url;
    literal_addresses(target.host()).into_iter().map(|ip| SocketAddr::new(ip, target.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_on_hold_is_that_of_its_customer_if_it_can_be_read() {
        let active_events = BTreeSet::new();
        for (held, holds) in [
            ("a/b/C-2", [false, true, false, true]),
            ("a/b", [true, true, false, true]),
            ("", [true, true, true, true]),
        ] {
            let held = HeldWebhooks::These([("uid".to_owned(), held.to_owned())].into());
            let webhooks = Webhooks::new(&[], &active_events, &held);
            for (webhook, holds) in ["a/b/C-1", "a/b/C-2", "a/c/C-2", "uid"].into_iter().zip(holds) {
                assert_eq!(webhooks.holds(webhook), holds, "{webhook}, {held:?}");
                let read = vec![WebhookHealth {
                    webhook: webhook.into(),
                    dead_letter: 2,
                    ..WebhookHealth::default()
                }];
                let counted = webhooks.health(read).get("uid").map(|health| health.dead_letter);
                assert_eq!(counted, holds.then_some(2), "{webhook}, {held:?}");
                let own = webhooks.of("C-2");
                let is_own = matches!(&held, HeldWebhooks::These(held) if held["uid"] == "a/b/C-2");
                assert_eq!(
                    own.holds(webhook),
                    holds && is_own,
                    "{webhook}, {held:?}: what a contact of C-2 sees"
                );
                assert_eq!(own.held().collect::<Vec<_>>(), is_own.then_some(("uid", "a/b/C-2")).as_slice());
            }
        }
    }
}
