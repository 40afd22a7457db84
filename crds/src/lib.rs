//! The vocabulary of Docket: what a platform team declares, and what the data plane serves.
//!
//! - [`tenant`], [`webhook`]: the two kinds, read from YAML or from the cluster, with the rules of their CRDs.
//! - [`event_code`], [`client_code`], [`customer_code`], [`target_url`]: words that cannot hold an invalid value.
//! - [`compile`](mod@compile): Tenant + Webhooks + the values they refer to become a [`TenantConfig`], or [`Reason`]s.
//! - [`tenant_config`], [`secret`]: what the data plane needs of a tenant, and nothing else; secrets do not print.
//! - [`runtime`]: a tenant's configuration on its way from the operator to the data plane.
//! - `crd`, `status`, with the feature `kube`: both kinds as custom resources.
//! - [`conditions`]: condition types, reason codes and Event reasons, by the names users see.
//!
//! No I/O, no clock, no async: whoever fetches and writes is a caller of this crate.

pub mod client_code;
pub mod compile;
pub mod conditions;
#[cfg(feature = "kube")]
pub mod crd;
pub mod customer_code;
pub mod event_code;
pub mod label_selector;
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

pub use client_code::{ClientCode, InvalidClientCode};
pub use compile::{
    Compiled, Generated, GeneratedDatabase, Inputs, Missing, Reason, Values, compile, duplicates,
};
pub use conditions::{ConditionType, EventReason, Occurrence, ReasonCode, Remedy};
pub use customer_code::{CustomerCode, InvalidCustomerCode};
pub use event_code::{EventCategory, EventCode, UnknownEventCode};
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
    ApiKey, ApiKeyDigest, KeyVersion, NotAnApiKey, SigningKey, TenantConfig, Tokens, WebhookConfig,
};
pub use violation::Violation;
#[cfg(feature = "kube")]
pub use webhook::WebhookObject;
pub use webhook::{ValueKind, Webhook, WebhookSpec};

/// The API group of both kinds.
pub const GROUP: &str = "docket.dev";
/// The served and stored version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version as a document's `apiVersion` has them.
pub const API_VERSION: &str = "docket.dev/v1alpha1";
