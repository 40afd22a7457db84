//! Where the portal declares webhooks: Webhook objects are the one truth. In `docket dev` they are documents of a folder of the
//! portal's own, on a cluster objects in the tenant's namespace. Both ask for a generated secret, whose value the portal takes
//! from the configuration that it serves.

mod documents;
mod keyed_lock;
mod objects;

use std::sync::Arc;
use std::time::Duration;

use docket_crds::webhook::{GenerateSecret, SecretRef};
use docket_crds::{API_VERSION, Metadata, SecretBytes, Violation, Webhook, WebhookConfig, WebhookSpec};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

pub use documents::Documents;
use keyed_lock::KeyedLock;
pub use objects::WebhookObjects;

use crate::http::error::ApiError;

/// The beginning of the names of the webhooks that the portal declares.
pub const NAME_PREFIX: &str = "portal-";

/// The label of the portal's objects, and its value.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "docket-portal");

const KIND: &str = "Webhook";
/// How long a request waits while another request adds a webhook to the tenant: longer than a request waits until its webhook is served.
const MAX_WAIT: Duration = Duration::from_secs(25);

/// Where the portal declares webhooks; `None`: it only shows them.
pub type Writes = Option<Arc<WebhookWriter>>;

/// Declares webhooks.
#[derive(Debug)]
pub struct WebhookWriter {
    backend: WriteBackend,
    /// Additions to a tenant, by its uid: one at a time, so that the tenant's limits hold.
    additions: KeyedLock,
}

#[derive(Debug)]
enum WriteBackend {
    /// The folder of `docket dev`.
    Folder(Documents),
    /// The cluster on which the operator runs.
    Cluster(WebhookObjects),
}

/// A webhook as the portal declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The namespace of the webhook and of its tenant.
    pub namespace: String,
    /// The webhook's name.
    pub name: String,
    /// Its spec, which always has `generateSecret`, unless its secret is given.
    pub spec: WebhookSpec,
    /// The secret that its user chose, in `docket dev`.
    pub given: Option<GivenSecret>,
}

/// A signing secret that a user of `docket dev` chose. The portal's file has it, too.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenSecret {
    /// Signs every delivery.
    pub current: SecretBytes,
    /// Signs beside it, until it takes its place; made by the portal.
    pub next: Option<SecretBytes>,
}

/// A webhook that the portal declares, as it was read.
#[derive(Debug)]
pub struct StoredWebhook {
    /// The declaration of the webhook.
    pub declared: Declared,
    /// Its version, which changes with each change of the declaration.
    pub version: String,
    /// The object of the cluster, which a write sends back; `None`: it is a document of a folder.
    object: Option<DynamicObject>,
}

/// What an edit does to a webhook that was read.
#[derive(Debug, Clone, Copy)]
pub enum WebhookEdit<'a> {
    /// The webhook is declared like this from now on.
    Replace(&'a Declared),
    /// The webhook is removed.
    Remove,
}

/// What declares a webhook.
#[derive(Debug)]
pub enum DeclaredBy {
    /// The portal does.
    Portal(Box<StoredWebhook>),
    /// Another owner does.
    Other {
        /// Who and where, as in "a file of the configuration folder".
        place: String,
        /// The object, if it can be read here: in `docket dev` the document as it is, on a cluster as it may be applied again.
        object: Option<Value>,
    },
}

/// Why a webhook was not declared, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// The webhook has changed since the form was made.
    #[error("the webhook was changed meanwhile")]
    Changed,
    /// The cluster does not accept the webhook. The text says why, for the user.
    #[error("{0}")]
    Refused(String),
    /// The cluster's API server can't be asked.
    #[error("the API server is not available")]
    Away,
    /// The cluster's API server was asked and gave no answer, so the change may have been made.
    #[error("the API server gave no answer")]
    Unknown,
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl WebhookWriter {
    /// Into a folder.
    pub fn folder(documents: Documents) -> Self {
        Self { backend: WriteBackend::Folder(documents), additions: KeyedLock::default() }
    }

    /// Into a cluster.
    pub fn cluster(objects: WebhookObjects) -> Self {
        Self { backend: WriteBackend::Cluster(objects), additions: KeyedLock::default() }
    }

    /// Whether the portal writes into a folder.
    pub const fn is_folder(&self) -> bool {
        matches!(self.backend, WriteBackend::Folder(_))
    }

    /// Locks additions of webhooks to the tenant with this uid, in this process, until the guard is dropped. A form that is sent twice
    /// waits here for the first.
    ///
    /// # Errors
    ///
    /// Another request is still adding a webhook after 25 seconds.
    pub async fn lock_additions(&self, tenant: &Arc<str>) -> Result<OwnedMutexGuard<()>, NotWritten> {
        let another = "Another webhook is being added to this tenant; add yours in a moment";
        let locked = timeout(MAX_WAIT, self.additions.lock(tenant)).await;
        locked.map_err(|_| NotWritten::Refused(another.to_owned()))
    }

    /// Whether the portal may write now.
    pub fn is_open(&self) -> bool {
        match &self.backend {
            WriteBackend::Folder(_) => true,
            WriteBackend::Cluster(objects) => objects.is_held(),
        }
    }

    /// Looks again and again whether it may be used, until the future is dropped.
    pub async fn keep_trying(&self) {
        match &self.backend {
            WriteBackend::Folder(_) => {}
            WriteBackend::Cluster(objects) => objects.keep_trying().await,
        }
    }

    /// Finds what declares a webhook.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<DeclaredBy, NotWritten> {
        match &self.backend {
            WriteBackend::Folder(documents) => Ok(documents.find(namespace, name)?),
            WriteBackend::Cluster(objects) => objects.find(namespace, name).await,
        }
    }

    /// Declares a new webhook.
    pub async fn create(&self, webhook: &Declared) -> Result<(), NotWritten> {
        match &self.backend {
            WriteBackend::Folder(documents) => documents.write(webhook, None),
            WriteBackend::Cluster(objects) => objects.create(webhook).await,
        }
    }

    /// Changes a webhook that was read, if it still is in this version.
    pub async fn write(
        &self,
        before: &StoredWebhook,
        change: WebhookEdit<'_>,
        version: &str,
    ) -> Result<(), NotWritten> {
        match (&self.backend, change) {
            (WriteBackend::Folder(documents), WebhookEdit::Replace(after)) => {
                documents.write(after, Some(version))
            }
            (WriteBackend::Folder(documents), WebhookEdit::Remove) => {
                documents.remove(&before.declared, version)
            }
            (WriteBackend::Cluster(objects), change) => objects.write(before, change, version).await,
        }
    }
}

impl Declared {
    /// The webhook with this spec, if it has nothing but what the portal declares.
    fn of_spec(namespace: &str, name: &str, spec: &Value, given: Option<GivenSecret>) -> Option<Self> {
        let spec: WebhookSpec = serde_json::from_value(spec.clone()).ok()?;
        let is_plain = spec.generate_secret.is_some() != given.is_some()
            && spec.secret_ref.is_some() == given.is_some()
            && spec.ca_bundle_ref.is_none()
            && spec.tenant_ref.namespace.is_none();
        is_plain.then(|| Self { namespace: namespace.to_owned(), name: name.to_owned(), spec, given })
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The Webhook object.
    pub fn object(&self) -> Value {
        let Self { namespace, name, spec, .. } = self;
        let (label, value) = MANAGED_BY;
        let metadata = json!({"name": name, "namespace": namespace, "labels": {label: value}});
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})
    }

    /// The rules of the kind that the declaration breaks.
    pub fn violations(&self) -> Vec<Violation> {
        let Self { namespace, name, spec, .. } = self.clone();
        Webhook { metadata: Metadata { name, namespace, generation: None }, spec }.validate()
    }

    /// Signs with a secret that its user chose, in place of a generated one.
    pub fn give(&mut self, secret: String) {
        let name = format!("{}-signing", self.name);
        self.spec.generate_secret = None;
        self.spec.secret_ref =
            Some(SecretRef { name, key: "secret".to_owned(), next_key: Some("next".to_owned()) });
        self.given = Some(GivenSecret { current: secret.into_bytes().into(), next: None });
    }

    /// Whether the webhook has a next secret.
    pub fn has_next(&self) -> bool {
        match &self.given {
            Some(given) => given.next.is_some(),
            None => self.spec.generate_secret.as_ref().is_some_and(|secret| secret.next),
        }
    }

    /// Asks for a next secret; one beside a given secret is this one.
    pub fn make_next(&mut self, next: SecretBytes) {
        match &mut self.given {
            Some(given) => given.next = Some(next),
            None => self.spec.generate_secret.get_or_insert_default().next = true,
        }
    }

    /// Makes the next secret the current one.
    pub fn promote_next(&mut self) {
        match &mut self.given {
            Some(given) => given.current = given.next.take().unwrap_or_else(|| given.current.clone()),
            None => {
                let secret = self.spec.generate_secret.get_or_insert_default();
                let rotation_generation = secret.rotation_generation.saturating_add(1);
                *secret = GenerateSecret { rotation_generation, next: false };
            }
        }
    }

    /// Ends the next secret.
    pub fn drop_next(&mut self) {
        match &mut self.given {
            Some(given) => given.next = None,
            None => self.spec.generate_secret.get_or_insert_default().next = false,
        }
    }

    /// Whether a webhook is served as this declaration says.
    pub fn is_served_as(&self, webhook: &WebhookConfig) -> bool {
        let WebhookSpec { display_name, customer_code, target_url, events, active, .. } = &self.spec;
        webhook.display_name == *display_name
            && webhook.customer_code.to_string() == *customer_code
            && webhook.target_url.url().as_str() == target_url
            && webhook.events.len() == events.len()
            && events.iter().all(|code| webhook.events.contains(code))
            && webhook.active == *active
            && webhook.secret.is_some()
            && webhook.next_secret.is_some() == self.has_next()
    }
}

impl From<NotWritten> for ApiError {
    fn from(error: NotWritten) -> Self {
        match error {
            NotWritten::Changed => Self::Conflict(
                "The webhook was changed meanwhile; look at its page again, and repeat your change",
            ),
            NotWritten::Refused(text) => Self::Refused(text),
            NotWritten::Away => Self::ClusterAway,
            NotWritten::Unknown => Self::ClusterSilent,
            NotWritten::Io(error) => {
                tracing::error!(%error, "writing the portal's folder beside --config-dir failed");
                Self::Internal
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_crds::EventCode;

    use super::*;

    #[test]
    fn change_is_served_only_if_each_setting_is() {
        let spec = json!({
            "tenantRef": {"name": "acme"}, "displayName": "Orders", "customerCode": "C-1", "targetURL": "https://h.example/",
            "events": ["order.created", "note.created"], "generateSecret": {}
        });
        let declared = Declared::of_spec("a", "b", &spec, None).expect("the portal's");
        let secret = || Some(SecretBytes::from(b"made by Docket".to_vec()));
        let served = || WebhookConfig {
            uid: "u".to_owned(),
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            display_name: Some("Orders".to_owned()),
            customer_code: "C-1".parse().expect("a code"),
            target_url: "https://h.example/".parse().expect("a URL"),
            secret: secret(),
            next_secret: None,
            ca_bundle: None,
            events: [EventCode::OrderCreated, EventCode::NoteCreated].into(),
            active: true,
        };
        let rotating = || WebhookConfig { next_secret: secret(), ..served() };
        assert!(declared.is_served_as(&served()));
        let (one, other) = ([EventCode::OrderCreated], [EventCode::OrderCreated, EventCode::OrderUpdated]);
        for different in [
            WebhookConfig { display_name: None, ..served() },
            WebhookConfig { customer_code: "C-2".parse().expect("a code"), ..served() },
            WebhookConfig { target_url: "https://h.example/x".parse().expect("a URL"), ..served() },
            WebhookConfig { events: one.into(), ..served() },
            WebhookConfig { events: other.into(), ..served() },
            WebhookConfig { active: false, ..served() },
            WebhookConfig { secret: None, ..served() },
            rotating(),
        ] {
            assert!(!declared.is_served_as(&different), "{different:?}");
        }
        let mut next = declared;
        next.make_next(Vec::new().into());
        assert!(next.is_served_as(&rotating()) && !next.is_served_as(&served()));
        next.promote_next();
        let generation = next.spec.generate_secret.as_ref().map(|secret| secret.rotation_generation);
        assert!(next.is_served_as(&served()) && generation == Some(1));
    }
}
