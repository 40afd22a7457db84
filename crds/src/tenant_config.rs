//! What the data plane needs to know of a tenant. The operator writes it as JSON into the tenant's runtime Secret.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::{
    ClientCode, CustomerCode, DatabaseUrl, EventCode, Limits, SecretBytes, TargetUrl, client_code,
    webhook_key,
};

/// A tenant as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantConfig {
    /// The uid of the Tenant object. Another uid is another tenant, even with the same name.
    pub uid: Arc<str>,
    /// The Tenant's namespace.
    pub namespace: String,
    /// The Tenant's name.
    pub name: String,
    /// A name for people.
    pub display_name: Option<String>,
    /// The code that clients may send as `clientCode`.
    pub client_code: ClientCode,
    /// Host names below the base domain that select this tenant.
    pub subdomains: Vec<String>,
    /// Whether the tenant is suspended: requests with its keys get 401, and no new deliveries are created.
    pub suspended: bool,
    /// The API keys that could be resolved, including inactive ones.
    pub api_keys: Vec<ApiKey>,
    /// How session tokens are signed.
    pub tokens: Tokens,
    /// The database's URL; `None`: a file, in the embedded mode.
    pub database: Option<DatabaseUrl>,
    /// Whether the tenant's owner writes this URL (`database.external`), and not the platform.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub database_is_external: bool,
    /// The URL of the watcher of the database's server: a role that may log in there and has no right. The data plane learns
    /// from it which databases changed. `None`: it reads this one to find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watcher: Option<DatabaseUrl>,
    /// The events that neither the platform nor the tenant disables.
    #[serde(deserialize_with = "known_events")]
    pub active_events: BTreeSet<EventCode>,
    /// What the tenant may use.
    #[serde(default)]
    pub limits: Limits,
    /// How the tenant's portal looks. Absent in what an older operator wrote.
    #[serde(default, skip_serializing_if = "PortalLook::is_plain")]
    pub portal: PortalLook,
    /// The webhooks that could be resolved, including inactive ones.
    pub webhooks: Vec<WebhookConfig>,
}

/// How a tenant's portal looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PortalLook {
    /// The tenant's colour, a [`Color`](crate::look::Color).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The tenant's logo in base64, a [`Logo`](crate::look::Logo).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

impl PortalLook {
    /// Whether the tenant has neither a colour nor a logo.
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads event codes and leaves out those that only a newer version knows. A newer operator writes them, and a process publishes no event
/// that it does not know.
fn known_events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<EventCode>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    Ok(words.iter().filter_map(|word| word.parse().ok()).collect())
}

impl WebhookConfig {
    /// Whether the webhook receives this event: it subscribes to it, and the event is active in the catalog (Webhook endpoint
    /// configuration).
    pub fn takes(&self, code: EventCode, active_events: &BTreeSet<EventCode>) -> bool {
        active_events.contains(&code) && self.events.contains(&code)
    }

    /// The key by which deliveries name this webhook; see [`webhook_key`].
    pub fn key(&self) -> String {
        webhook_key::of(&self.full_name(), self.customer_code.as_str())
    }

    /// Whether `webhook`, the key in a delivery, names this webhook. Rows of versions before keys contain its uid.
    pub fn is(&self, webhook: &str) -> bool {
        let rest = webhook.strip_prefix(self.namespace.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let rest = rest.and_then(|rest| rest.strip_prefix(self.name.as_str()));
        let customer_code = rest.and_then(|rest| rest.strip_prefix('/'));
        customer_code == Some(self.customer_code.as_str()) || webhook == self.uid
    }

    /// `namespace/name`, for logs and people.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The secrets that sign deliveries, the current one first. Without secrets, deliveries are unsigned.
    pub fn secrets(&self) -> Vec<&[u8]> {
        self.secret.iter().chain(&self.next_secret).map(SecretBytes::expose).collect()
    }
}

impl TenantConfig {
    /// The webhooks that get an event of `customer` with this code: active webhooks of the customer that subscribe to
    /// the code, if the event is active in the catalog. Empty while the tenant is suspended.
    pub fn matching_webhooks<'a>(
        &'a self,
        customer: &'a str,
        code: EventCode,
    ) -> impl Iterator<Item = &'a WebhookConfig> {
        self.webhooks.iter().filter(move |webhook| {
            !self.suspended
                && webhook.active
                && webhook.customer_code.as_str() == customer
                && webhook.takes(code, &self.active_events)
        })
    }
}

/// An API key. Only its digest is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// The key's name in the Tenant.
    pub name: String,
    /// The digest that a sent key is compared with.
    pub digest: ApiKeyDigest,
    /// Whether the key works; requests with an inactive key get 401.
    pub active: bool,
    /// Only [`KeyVersion::V2`] works on the v2 API.
    pub version: KeyVersion,
}

/// The API version that a key is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum KeyVersion {
    /// The older API.
    V1,
    /// The API served here.
    #[default]
    V2,
}

/// SHA-256 of an API key's lower-case hexadecimal text; hexadecimal in JSON.
///
/// A key has at least 128 random bits, so its digest can't be reversed and needs neither salt nor stretching.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKeyDigest([u8; 32]);

/// The text is not an API key; the message does not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an API key must be at least 32 hexadecimal digits and nothing else")]
pub struct NotAnApiKey;

impl ApiKeyDigest {
    /// The digest of a key, in either case of its digits.
    pub fn of(key: &str) -> Result<Self, NotAnApiKey> {
        if !client_code::looks_like_api_key(key) {
            return Err(NotAnApiKey);
        }
        // The key is hashed in blocks: each request computes a digest, so this allocates nothing, however long the key is.
        let mut hasher = Sha256::new();
        for chunk in key.as_bytes().chunks(64) {
            let mut block = [0; 64];
            let block = &mut block[..chunk.len()];
            block.copy_from_slice(chunk);
            block.make_ascii_lowercase();
            hasher.update(block);
        }
        Ok(Self(hasher.finalize().into()))
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `sha256:` and 12 hexadecimal digits, to tell keys apart in a status or a log.
    pub fn fingerprint(&self) -> String {
        format!("sha256:{}", hex::encode(&self.0[..6]))
    }
}

impl fmt::Debug for ApiKeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeyDigest({})", self.fingerprint())
    }
}

impl Serialize for ApiKeyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for ApiKeyDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes)
            .map_err(|_| de::Error::custom("a digest must be 64 hexadecimal digits"))?;
        Ok(Self(bytes))
    }
}

/// How session tokens are signed and verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// How long a token is valid, in minutes.
    pub lifetime_minutes: u32,
    /// The first key signs, all verify. Never empty in the result of the compile step.
    pub signing_keys: Vec<SigningKey>,
}

/// A key that signs session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// The key's id in a token's header.
    pub kid: String,
    /// The key.
    pub secret: SecretBytes,
}

/// A webhook as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookConfig {
    /// The uid of the Webhook object. Another object of the same name and customer is the same webhook: see [`Self::key`].
    pub uid: String,
    /// The Webhook's namespace.
    pub namespace: String,
    /// The Webhook's name.
    pub name: String,
    /// A name for people.
    pub display_name: Option<String>,
    /// The customer whose events are sent.
    pub customer_code: CustomerCode,
    /// The receiver.
    pub target_url: TargetUrl,
    /// The secret that signs deliveries, exactly as in its Secret and never empty; `None`: deliveries are unsigned.
    pub secret: Option<SecretBytes>,
    /// The secret that the receiver changes over to, which signs beside the one above; `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_secret: Option<SecretBytes>,
    /// Certificates in PEM form to trust for this receiver.
    pub ca_bundle: Option<String>,
    /// The events that the webhook subscribes to.
    #[serde(deserialize_with = "known_events")]
    pub events: BTreeSet<EventCode>,
    /// Whether new events are sent. Queued deliveries continue.
    pub active: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn webhook(uid: &str, customer: &str, events: &[EventCode]) -> WebhookConfig {
        WebhookConfig {
            uid: uid.into(),
            namespace: "default".into(),
            name: uid.into(),
            display_name: None,
            customer_code: customer.parse().unwrap(),
            target_url: "https://hooks.example/".parse().unwrap(),
            secret: Some(b"hunter2".to_vec().into()),
            next_secret: None,
            ca_bundle: None,
            events: events.iter().copied().collect(),
            active: true,
        }
    }

    fn config() -> TenantConfig {
        let both = &[EventCode::OrderCreated, EventCode::NoteCreated][..];
        TenantConfig {
            uid: "u".into(),
            namespace: "default".into(),
            name: "acme".into(),
            display_name: Some("Acme".into()),
            client_code: "ACME".parse().unwrap(),
            subdomains: vec!["acme".into()],
            suspended: false,
            api_keys: vec![ApiKey {
                name: "primary".into(),
                digest: ApiKeyDigest::of(KEY).unwrap(),
                active: true,
                version: KeyVersion::V2,
            }],
            tokens: Tokens {
                lifetime_minutes: 60,
                signing_keys: vec![SigningKey { kid: "1".into(), secret: b"hunter2".to_vec().into() }],
            },
            database: Some(DatabaseUrl::parse("postgres://u:hunter2@db/x").unwrap()),
            database_is_external: false,
            watcher: Some(DatabaseUrl::parse("postgres://w:hunter2@db/postgres").unwrap()),
            active_events: EventCode::ALL.into(),
            limits: Limits { webhooks: 7, ..Limits::default() },
            portal: PortalLook { color: Some("#2f5bd0".into()), logo: None },
            webhooks: vec![
                webhook("w1", "C-1", both),
                webhook("w2", "C-2", both),
                webhook("w3", "C-1", &[EventCode::NoteCreated]),
            ],
        }
    }

    fn matching(config: &TenantConfig, customer: &str, code: EventCode) -> Vec<String> {
        config.matching_webhooks(customer, code).map(|webhook| webhook.uid.clone()).collect()
    }

    #[test]
    fn webhook_matches_subscribed_events_of_its_customer() {
        let config = config();
        assert_eq!(matching(&config, "C-1", EventCode::OrderCreated), ["w1"]);
        assert_eq!(matching(&config, "C-1", EventCode::NoteCreated), ["w1", "w3"]);
        assert_eq!(matching(&config, "C-2", EventCode::OrderCreated), ["w2"]);
        assert!(matching(&config, "C-1", EventCode::OrderUpdated).is_empty());
        assert!(matching(&config, "c-1", EventCode::OrderCreated).is_empty());
    }

    #[test]
    fn inactive_webhook_event_or_tenant_matches_nothing() {
        let mut one = config();
        one.webhooks[0].active = false;
        assert_eq!(matching(&one, "C-1", EventCode::NoteCreated), ["w3"]);
        one.active_events.remove(&EventCode::NoteCreated);
        assert!(matching(&one, "C-1", EventCode::NoteCreated).is_empty());
        let suspended = TenantConfig { suspended: true, ..config() };
        assert!(matching(&suspended, "C-1", EventCode::NoteCreated).is_empty());
    }

    #[test]
    fn config_reads_back_from_json() {
        let config = config();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TenantConfig>(&json).unwrap(), config);
    }

    #[test]
    fn config_of_an_older_operator_has_no_look_and_one_without_a_look_has_no_field_for_it() {
        let plain = TenantConfig { portal: PortalLook::default(), ..config() };
        let mut json = serde_json::to_value(config()).unwrap();
        json["portal"]["ofANewerOperator"] = 1.into();
        assert_eq!(serde_json::from_value::<TenantConfig>(json.clone()).unwrap(), config());
        json.as_object_mut().unwrap().remove("portal");
        assert_eq!(serde_json::to_value(&plain).unwrap(), json);
        assert_eq!(serde_json::from_value::<TenantConfig>(json).unwrap(), plain);
    }

    #[test]
    fn events_of_a_newer_version_are_left_out() {
        let config = config();
        let mut json = serde_json::to_value(&config).unwrap();
        json["activeEvents"].as_array_mut().unwrap().push("order.archived".into());
        json["webhooks"][0]["events"].as_array_mut().unwrap().insert(0, "order.archived".into());
        assert_eq!(serde_json::from_value::<TenantConfig>(json).unwrap(), config);
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", config());
        assert!(!shown.contains("hunter2") && !shown.contains(&hex::encode("hunter2")), "{shown}");
        assert!(!shown.contains(&hex::encode(config().api_keys[0].digest.as_bytes())), "{shown}");
        assert!(shown.contains("[REDACTED]"));
    }

    #[test]
    fn digest_is_sha256_of_the_lower_case_key() {
        let digest = ApiKeyDigest::of(KEY).unwrap();
        assert_eq!(digest.as_bytes()[..], Sha256::digest(KEY)[..]);
        assert_eq!(ApiKeyDigest::of(&KEY.to_uppercase()), Ok(digest));
        assert_eq!(digest.fingerprint(), format!("sha256:{}", &hex::encode(Sha256::digest(KEY))[..12]));
        let long = KEY.repeat(3) + "f";
        assert_eq!(ApiKeyDigest::of(&long).unwrap().as_bytes()[..], Sha256::digest(&long)[..]);
    }

    #[test]
    fn key_needs_at_least_32_hexadecimal_digits() {
        assert!(ApiKeyDigest::of(&KEY[..32]).is_ok());
        for bad in
            ["", &KEY[..31], "g0112233445566778899aabbccddeeff", &format!("{KEY}\n"), &format!(" {KEY}")]
        {
            assert_eq!(ApiKeyDigest::of(bad), Err(NotAnApiKey), "{bad:?}");
        }
    }

    #[test]
    fn webhook_is_its_name_and_customer_and_not_its_object() {
        let hook = WebhookConfig { name: "orders".into(), ..webhook("w1", "C-1", &[]) };
        let recreated = WebhookConfig { uid: "w2".into(), ..hook.clone() };
        assert_eq!((hook.key().as_str(), recreated.key()), ("default/orders/C-1", hook.key()));
        assert!(recreated.is(&hook.key()) && recreated.is("w2") && !recreated.is("w1"));
        for other in [
            "default/orders/C-2",
            "default/orders",
            "default/order/C-1",
            "legal/orders/C-1",
            "default/orders/C-10",
            "",
        ] {
            assert!(!hook.is(other), "{other}");
        }
    }
}
