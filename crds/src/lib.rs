//! The vocabulary of Docket: what users declare, and what the data plane serves.
//!
//! - [`tenant`], [`webhook`]: the two kinds, read from YAML or from a cluster, with the rules of their CRDs.
//! - [`event_code`], [`client_code`], [`customer_code`], [`target_url`]: values that are valid by their type.
//! - [`compile`](mod@compile): a Tenant, its Webhooks and the values they refer to become a [`TenantConfig`] or
//!   [`Reason`]s.
//! - [`limits`]: what one tenant may use.
//! - [`look`]: a tenant's colour and logo.
//! - [`kept`]: how long what belongs to a removed webhook is kept.
//! - [`database_secret`]: a Secret with the parts of a database's URL.
//! - [`tenant_config`], [`secret`]: what the data plane needs to know of a tenant; secrets do not print.
//! - [`runtime`]: a tenant's configuration on its way from the operator to the data plane.
//! - [`format`](mod@format): how programs of different versions read what one of them wrote.
//! - [`conditions`], [`reason`]: condition types, reason codes and Event reasons, by the names that users see.
//! - [`words!`]: enums that are stored, sent and shown as text.
//! - `crd`, `status`, with the feature `kube`: both kinds as custom resources.
//!
//! No I/O, no clock, no async: the callers of this crate read and write.
//!
//! # Example
//!
//! Compile a Tenant and a Webhook. The database is in a file, and no Secret is referred to:
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//!
//! use docket_crds::{
//!     EventCode, Generated, Inputs, Missing, PlatformLimits, SigningKey, Tenant, ValueKind, Values, Webhook, compile,
//! };
//! use serde_json::json;
//!
//! struct NoValues;
//!
//! impl Values for NoValues {
//!     fn get(&self, _: ValueKind, _: &str, _: &str, _: &str) -> Result<Vec<u8>, Missing> {
//!         Err(Missing::NotFound)
//!     }
//! }
//!
//! let tenant = Tenant::from_json(json!({
//!     "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"},
//!     "spec": {"clientCode": "ACME", "database": {"managed": {"name": "acme"}}},
//! })).expect("the Tenant breaks no rule");
//! let webhook = Webhook::from_json(json!({
//!     "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": "orders"},
//!     "spec": {
//!         "tenantRef": {"name": "acme"}, "customerCode": "C-1001",
//!         "targetURL": "https://hooks.acme.example/orders", "events": ["order.created"],
//!     },
//! })).expect("the Webhook breaks no rule");
//!
//! let signing_key = SigningKey { kid: "1".to_owned(), secret: vec![7; 32].into() };
//! let compiled = compile(&Inputs {
//!     tenant: &tenant,
//!     uid: "0d2f",
//!     webhooks: &[("8c1f".to_owned(), webhook)],
//!     unreadable: &[],
//!     values: &NoValues,
//!     generated: &Generated { signing_keys: vec![signing_key], ..Generated::default() },
//!     platform_disabled_events: &BTreeSet::new(),
//!     platform_limits: &PlatformLimits::default(),
//!     created_at: &|_| 0,
//!     namespace_labels: &|_| BTreeMap::new(),
//! });
//!
//! let config = compiled.config.expect("the Tenant can be served");
//! let webhook = config.matching_webhooks("C-1001", EventCode::OrderCreated).next();
//! assert_eq!(webhook.map(|webhook| webhook.target_url.host()), Some("hooks.acme.example"));
//! ```

mod certificate;
pub mod client_code;
pub mod compile;
pub mod conditions;
#[cfg(feature = "kube")]
pub mod crd;
pub mod customer_code;
pub mod database_secret;
pub mod event_code;
pub mod format;
pub mod kept;
pub mod label_selector;
pub mod limits;
pub mod look;
pub mod pem;
pub mod reason;
mod rules;
pub mod runtime;
pub mod secret;
#[cfg(feature = "kube")]
pub mod status;
pub mod target_url;
pub mod tenant;
pub mod tenant_config;
pub mod violation;
pub mod webhook;
pub mod webhook_key;
mod word;

pub use client_code::{ClientCode, InvalidClientCode};
pub use compile::{
    Compilation, Generated, GeneratedDatabase, Inputs, Missing, SigningSecrets, Values, compile, duplicates,
};
pub use conditions::{ConditionType, EventReason, Occurrence, ReasonCode, Remedy};
pub use customer_code::{CustomerCode, InvalidCustomerCode};
pub use event_code::EventCode;
pub use limits::{Limit, Limits, PlatformLimits, TenantLimits};
pub use reason::Reason;
pub use rules::is_object_name;
pub use runtime::Runtime;
pub use secret::{DatabaseUrl, InvalidDatabaseUrl, SecretBytes};
#[cfg(feature = "kube")]
pub use status::{TenantStatus, WebhookStatus};
pub use target_url::{InvalidTargetUrl, TargetUrl};
#[cfg(feature = "kube")]
pub use tenant::TenantObject;
pub use tenant::{Metadata, Tenant, TenantSpec};
pub use tenant_config::{
    ApiKey, ApiKeyDigest, KeyVersion, NotAnApiKey, PortalLook, SigningKey, TenantConfig, Tokens,
    WebhookConfig,
};
pub use violation::Violation;
#[cfg(feature = "kube")]
pub use webhook::WebhookObject;
pub use webhook::{ValueKind, Webhook, WebhookSpec};
pub use word::{UnknownWord, unknown_word};

/// The API group of both kinds.
pub const GROUP: &str = "docket.dev";

/// The audience of tokens for the data plane's routes for the platform.
pub const AUDIENCE: &str = "platform.docket.dev";
/// The served and stored version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in a document's `apiVersion`.
pub const API_VERSION: &str = "docket.dev/v1alpha1";
