//! What the data plane needs of a tenant, and nothing else. The operator writes it as JSON into one Secret per tenant.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::{ClientCode, CustomerCode, DatabaseUrl, EventCode, SecretBytes, TargetUrl, client_code};

/// A tenant as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantConfig {
    /// Of the Tenant object; another one means another tenant, even of the same name.
    pub uid: String,
    /// The Tenant's namespace.
    pub namespace: String,
    /// The Tenant's name.
    pub name: String,
    /// Shown to people.
    pub display_name: Option<String>,
    /// What clients may send as `clientCode`.
    pub client_code: ClientCode,
    /// Hosts below the base domain that map to this tenant.
    pub subdomains: Vec<String>,
    /// Keys answer 401, and no new deliveries are made.
    pub suspended: bool,
    /// The keys that could be resolved, inactive ones too.
    pub api_keys: Vec<ApiKey>,
    /// How session tokens are made.
    pub tokens: Tokens,
    /// `None`: a file of the embedded mode.
    pub database: Option<DatabaseUrl>,
    /// The event catalog: what the platform and the tenant have not disabled.
    pub active_events: BTreeSet<EventCode>,
    /// The webhooks that could be resolved, inactive ones too.
    pub webhooks: Vec<WebhookConfig>,
}

impl WebhookConfig {
    /// Whether it receives this event: subscribed, and active in the catalog (Webhook endpoint configuration).
    pub fn takes(&self, code: EventCode, active_events: &BTreeSet<EventCode>) -> bool {
        active_events.contains(&code) && self.events.contains(&code)
    }

    /// `namespace/name`, as people know it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl TenantConfig {
    /// The webhooks that get an event of `customer` with this code: active, of that customer, subscribed to it, and the
    /// event active in the catalog. None while the tenant is suspended.
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

/// An API key, known by its digest only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its name in the Tenant.
    pub name: String,
    /// What a key that was sent is compared with.
    pub digest: ApiKeyDigest,
    /// An inactive key answers 401.
    pub active: bool,
    /// Only [`KeyVersion::V2`] works on the v2 API.
    pub version: KeyVersion,
}

/// The API a key was made for.
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
/// A key has at least 128 random bits, so its digest cannot be turned back and needs neither salt nor stretching.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKeyDigest([u8; 32]);

/// A text that is no API key; it does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an API key must be at least 32 hexadecimal digits and nothing else")]
pub struct NotAnApiKey;

impl ApiKeyDigest {
    /// The digest of a key, whatever the case of its digits.
    pub fn of(key: &str) -> Result<Self, NotAnApiKey> {
        if !client_code::looks_like_api_key(key) {
            return Err(NotAnApiKey);
        }
        // In blocks, since each request comes through here: nothing is allocated, however long the key is.
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

    /// `sha256:` and 12 hexadecimal digits: tells keys apart in a status or a log.
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

/// How session tokens are made and checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// How long a token is good for.
    pub lifetime_minutes: u32,
    /// The first one signs, all verify; never empty when it comes from the compile step.
    pub signing_keys: Vec<SigningKey>,
}

/// A key that signs session tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// Names the key in a token's header.
    pub kid: String,
    /// The key.
    pub secret: SecretBytes,
}

/// A webhook as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookConfig {
    /// Of the Webhook object; deliveries refer to it.
    pub uid: String,
    /// The Webhook's namespace.
    pub namespace: String,
    /// The Webhook's name.
    pub name: String,
    /// Shown to people.
    pub display_name: Option<String>,
    /// The customer whose events are sent.
    pub customer_code: CustomerCode,
    /// Where they are sent.
    pub target_url: TargetUrl,
    /// Signs deliveries, exactly as in the Secret and never empty; `None` means unsigned, as declared.
    pub secret: Option<SecretBytes>,
    /// Certificates in PEM form to trust for this receiver.
    pub ca_bundle: Option<String>,
    /// The events subscribed to.
    pub events: BTreeSet<EventCode>,
    /// An inactive webhook gets no new deliveries; queued ones go on.
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
            active_events: EventCode::ALL.into(),
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
    fn a_webhook_gets_the_events_of_its_customer_that_it_subscribed_to() {
        let config = config();
        assert_eq!(matching(&config, "C-1", EventCode::OrderCreated), ["w1"]);
        assert_eq!(matching(&config, "C-1", EventCode::NoteCreated), ["w1", "w3"]);
        assert_eq!(matching(&config, "C-2", EventCode::OrderCreated), ["w2"]);
        assert!(matching(&config, "C-1", EventCode::OrderUpdated).is_empty());
        assert!(matching(&config, "c-1", EventCode::OrderCreated).is_empty());
    }

    #[test]
    fn nothing_goes_to_an_inactive_webhook_for_an_inactive_event_or_a_suspended_tenant() {
        let mut one = config();
        one.webhooks[0].active = false;
        assert_eq!(matching(&one, "C-1", EventCode::NoteCreated), ["w3"]);
        one.active_events.remove(&EventCode::NoteCreated);
        assert!(matching(&one, "C-1", EventCode::NoteCreated).is_empty());
        let suspended = TenantConfig { suspended: true, ..config() };
        assert!(matching(&suspended, "C-1", EventCode::NoteCreated).is_empty());
    }

    #[test]
    fn a_config_reads_back_from_json() {
        let config = config();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TenantConfig>(&json).unwrap(), config);
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", config());
        assert!(!shown.contains("hunter2") && !shown.contains(&hex::encode("hunter2")), "{shown}");
        assert!(!shown.contains(&hex::encode(config().api_keys[0].digest.as_bytes())), "{shown}");
        assert!(shown.contains("[REDACTED]"));
    }

    #[test]
    fn a_digest_is_sha256_of_the_lower_case_key() {
        let digest = ApiKeyDigest::of(KEY).unwrap();
        assert_eq!(digest.as_bytes()[..], Sha256::digest(KEY)[..]);
        assert_eq!(ApiKeyDigest::of(&KEY.to_uppercase()), Ok(digest));
        assert_eq!(digest.fingerprint(), format!("sha256:{}", &hex::encode(Sha256::digest(KEY))[..12]));
        let long = KEY.repeat(3) + "f";
        assert_eq!(ApiKeyDigest::of(&long).unwrap().as_bytes()[..], Sha256::digest(&long)[..]);
    }

    #[test]
    fn a_key_is_at_least_32_hexadecimal_digits() {
        assert!(ApiKeyDigest::of(&KEY[..32]).is_ok());
        for bad in
            ["", &KEY[..31], "g0112233445566778899aabbccddeeff", &format!("{KEY}\n"), &format!(" {KEY}")]
        {
            assert_eq!(ApiKeyDigest::of(bad), Err(NotAnApiKey), "{bad:?}");
        }
    }
}
