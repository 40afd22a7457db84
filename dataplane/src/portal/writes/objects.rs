//! Webhook objects of a cluster, which the portal creates, changes and removes as a service account of its own.
//!
//! This process has its own account, and may act as the portal's (RBAC's verb `impersonate`). Roles name verbs and not fields,
//! so a ValidatingAdmissionPolicy says what that account may write: objects with the portal's label, without references to
//! Secrets, in the namespace of their Tenant. The portal writes nothing until the API server has refused an object that only
//! this policy forbids.

mod failed;
mod keeper;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use docket_crds::{API_VERSION, GROUP, VERSION};
use docket_listener::fair_share::FairShare;
use docket_program::apiserver::ApiServerError;
use docket_program::clock::Clock;
use docket_program::random;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::{Declared, DeclaredBy, KIND, MANAGED_BY, NotWritten, StoredWebhook, WebhookEdit};
use failed::Failed;
use keeper::{keeper, tool};

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of calls at the same time. The webhooks of one namespace get at most half.
const AT_ONCE: u32 = 16;
/// How often the policy is tried: while it holds, and while it does not.
const TRIED_EVERY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(5));
/// How often a write is repeated if only the object's status changed meanwhile.
const TRIES: usize = 3;
/// The annotation in which `kubectl apply` keeps the object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What the policy, `portal-policy.yaml`, says of an object without the label.
const REFUSAL: &str =
    "the portal writes only Webhooks with its label app.kubernetes.io/managed-by=docket-portal";

/// The API server, as the portal's service account.
pub struct WebhookObjects {
    client: Client,
    clock: Clock,
    /// The namespace in which the policy is tried.
    namespace: String,
    is_held: AtomicBool,
    /// Calls of each namespace.
    turns: FairShare<String>,
}

impl std::fmt::Debug for WebhookObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookObjects").field("is_held", &self.is_held).finish_non_exhaustive()
    }
}

impl WebhookObjects {
    /// Connects by the file that KUBECONFIG names, else by `~/.kube/config`, else as a pod of the cluster, to act as the service
    /// account of this name (`system:serviceaccount:…`). Sends no request yet. The policy is tried in `namespace`.
    ///
    /// # Errors
    ///
    /// There is none of these, or it can't be used.
    pub async fn new(account: String, namespace: String, clock: Clock) -> Result<Self> {
        let mut config = Config::infer().await.context(
            "no configuration of the Kubernetes API; set KUBECONFIG to a kubeconfig file, or run as a pod",
        )?;
        config.connect_timeout = Some(TIMEOUT);
        config.read_timeout = Some(TIMEOUT);
        config.auth_info.impersonate = Some(account);
        let client = Client::try_from(config).context("the Kubernetes API can't be used")?;
        let (is_held, turns) = (AtomicBool::new(false), FairShare::new(AT_ONCE, 1));
        Ok(Self { client, clock, namespace, is_held, turns })
    }

    /// Whether the policy held when it was tried last.
    pub(super) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// Tries the policy again and again, until the future is dropped.
    pub(super) async fn keep_trying(&self) {
        let mut last = None;
        loop {
            let problem = self.try_policy().await.err();
            self.is_held.store(problem.is_none(), Ordering::Relaxed);
            if last.as_ref() != Some(&problem) {
                match &problem {
                    None => tracing::info!(
                        "the portal declares webhooks: the API server lets it change its own objects only"
                    ),
                    Some(problem) => tracing::error!(
                        problem,
                        "the API server does not enforce the portal's policy; the portal declares no webhooks until it does"
                    ),
                }
            }
            self.clock.sleep(if problem.is_none() { TRIED_EVERY.0 } else { TRIED_EVERY.1 }).await;
            last = Some(problem);
        }
    }

    /// Creates, as a dry run, an object that only the policy forbids.
    async fn try_policy(&self) -> Result<(), String> {
        let spec = json!({
            "tenantRef": {"name": "none"},
            "customerCode": "none",
            "targetURL": "https://portal.invalid/",
            "events": ["order.created"],
            "generateSecret": {}
        });
        let name = format!("portal-try-{}", hex::encode(random::bytes::<5>()));
        let declared = Declared::of_spec(&self.namespace, &name, &spec, None)
            .ok_or("the object is none of the portal's")?;
        let mut object = object_of(&declared);
        object.metadata.labels = None;
        let parameters = PostParams { dry_run: true, ..parameters() };
        match in_time(self.webhooks(&self.namespace).create(&parameters, &object)).await {
            Ok(_) => {
                Err("it accepted a Webhook without the portal's label: the policy is not in force".to_owned())
            }
            Err(Failed::Error(error)) if error.to_string().contains(REFUSAL) => Ok(()),
            Err(failed) => Err(failed.to_string()),
        }
    }

    /// Finds what declares a webhook.
    pub(super) async fn find(&self, namespace: &str, name: &str) -> Result<DeclaredBy, NotWritten> {
        let object = self.get(namespace, name).await?;
        if let Some(declared) = own(&object, namespace, name) {
            let version = version(&object.metadata);
            return Ok(DeclaredBy::Portal(Box::new(StoredWebhook {
                declared,
                version,
                object: Some(object),
            })));
        }
        let place = match keeper(&object.metadata) {
            Some(keeper) => {
                format!("the Webhook object {name} in namespace {namespace}, which {keeper} keeps")
            }
            None => format!("the Webhook object {name} in namespace {namespace}"),
        };
        Ok(DeclaredBy::Other { place, object: Some(applicable(&object, namespace, name)) })
    }

    pub(super) async fn create(&self, webhook: &Declared) -> Result<(), NotWritten> {
        let object = object_of(webhook);
        let webhooks = self.webhooks(&webhook.namespace);
        let created = self.call(&webhook.namespace, webhooks.create(&parameters(), &object)).await;
        created.map(drop).map_err(Failed::of_write)
    }

    /// Changes an object of the portal that is in the expected version. The write carries the resource version of the object as it was
    /// read, so the API server refuses it after any change. The operator's changes of the status count as such: then this reads the
    /// object again, and repeats the write.
    pub(super) async fn write(
        &self,
        before: &StoredWebhook,
        change: WebhookEdit<'_>,
        expected: &str,
    ) -> Result<(), NotWritten> {
        let Declared { namespace, name, .. } = &before.declared;
        let webhooks = self.webhooks(namespace);
        let mut read = before.object.clone();
        for _ in 0..TRIES {
            let mut object = match read.take() {
                Some(object) => object,
                None => self.get(namespace, name).await?,
            };
            if own(&object, namespace, name).is_none() || version(&object.metadata) != expected {
                return Err(NotWritten::Changed);
            }
            let written = match change {
                WebhookEdit::Replace(after) => {
                    object.data["spec"] = json!(after.spec);
                    self.call(namespace, webhooks.replace(name, &parameters(), &object)).await.map(drop)
                }
                WebhookEdit::Remove => {
                    let ObjectMeta { uid, resource_version, .. } = object.metadata;
                    let preconditions = Some(Preconditions { uid, resource_version });
                    let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
                    self.call(namespace, webhooks.delete(name, &parameters)).await.map(drop)
                }
            };
            match written {
                Err(Failed::Error(ApiServerError::Conflict)) => {}
                written => return written.map_err(Failed::of_write),
            }
        }
        Err(NotWritten::Changed)
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<DynamicObject, NotWritten> {
        Ok(self.call(namespace, self.webhooks(namespace).get(name)).await?)
    }

    fn webhooks(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    /// Calls the API server when it is the turn of this namespace.
    async fn call<T>(
        &self,
        namespace: &str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failed> {
        let _turn = self.turns.take(namespace.to_owned(), 1).await?;
        in_time(call).await
    }
}

async fn in_time<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
    let answered = tokio::time::timeout(TIMEOUT, call);
    Ok(answered.await.map_err(|_| Failed::TooSlow)??)
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(MANAGED_BY.1.to_owned()), ..PostParams::default() }
}

fn object_of(webhook: &Declared) -> DynamicObject {
    let (label, value) = MANAGED_BY;
    let metadata = ObjectMeta {
        name: Some(webhook.name.clone()),
        namespace: Some(webhook.namespace.clone()),
        labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
        ..ObjectMeta::default()
    };
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
    let object = DynamicObject::new(&webhook.name, &kind).data(json!({"spec": webhook.spec}));
    DynamicObject { metadata, ..object }
}

/// The webhook, if the portal declares it, and no tool that would undo the change.
fn own(object: &DynamicObject, namespace: &str, name: &str) -> Option<Declared> {
    let (label, value) = MANAGED_BY;
    let metadata = &object.metadata;
    let is_ours = metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|is| is == value)
        && tool(metadata).is_none();
    is_ours.then(|| Declared::of_spec(namespace, name, &object.data["spec"], None)).flatten()
}

/// The object as users may apply it again without a loss: without its status, and without what the API server and `kubectl apply` write
/// themselves.
fn applicable(object: &DynamicObject, namespace: &str, name: &str) -> Value {
    let ObjectMeta { labels, annotations, finalizers, owner_references, .. } = &object.metadata;
    let annotations: BTreeMap<&String, &String> =
        annotations.iter().flatten().filter(|(key, _)| *key != LAST_APPLIED).collect();
    let mut metadata = json!({"name": name, "namespace": namespace});
    for (field, value) in [
        ("labels", json!(labels)),
        ("annotations", json!(annotations)),
        ("ownerReferences", json!(owner_references)),
        ("finalizers", json!(finalizers)),
    ] {
        let is_empty = match &value {
            Value::Object(all) => all.is_empty(),
            Value::Array(all) => all.is_empty(),
            _ => true,
        };
        if !is_empty {
            metadata[field] = value;
        }
    }
    json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": object.data["spec"]})
}

/// Changes with each change of the spec, and not with the status.
fn version(metadata: &ObjectMeta) -> String {
    format!("{}.{}", metadata.uid.as_deref().unwrap_or_default(), metadata.generation.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn object(metadata: Value) -> DynamicObject {
        let spec = json!({
            "tenantRef": {"name": "acme"}, "customerCode": "C-1", "targetURL": "https://h.example/",
            "events": ["order.created"], "generateSecret": {"rotationGeneration": 2, "next": false}, "active": true
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an object")
    }

    #[test]
    fn own_objects_carry_the_label() {
        let labels = json!({"labels": {"app.kubernetes.io/managed-by": "docket-portal"}});
        let declared = own(&object(labels), "a", "b").expect("the portal's");
        assert_eq!(declared.spec.generate_secret.map(|secret| secret.rotation_generation), Some(2));
        assert_eq!(own(&object(json!({})), "a", "b"), None);
        assert_eq!(own(&object(json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}})), "a", "b"), None);
        // A copy in Git of an object of the portal: Flux would undo each change.
        let copied = json!({"labels":
            {"app.kubernetes.io/managed-by": "docket-portal", "kustomize.toolkit.fluxcd.io/name": "apps"}});
        assert_eq!(own(&object(copied), "a", "b"), None);
    }

    #[test]
    fn applicable_object_has_all_that_an_apply_would_remove() {
        let owner = json!({"apiVersion": "v1", "kind": "Shop", "name": "s", "uid": "u"});
        let kept = json!({
            "name": "b", "namespace": "a", "labels": {"team": "x"}, "annotations": {"note": "y"},
            "ownerReferences": [owner], "finalizers": ["shop.example/orders"]
        });
        let mut metadata = kept.clone();
        metadata["annotations"][LAST_APPLIED] = "{}".into();
        for (field, value) in [("uid", json!("u")), ("resourceVersion", json!("5")), ("generation", json!(2))]
        {
            metadata[field] = value;
        }
        let mut stored = object(metadata);
        stored.data["status"] = json!({"signed": true});
        let shown = applicable(&stored, "a", "b");
        let expected = json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": kept, "spec": stored.data["spec"]
        });
        assert_eq!(shown, expected);
        let plain = applicable(&object(json!({"annotations": {LAST_APPLIED: "{}"}})), "a", "b");
        assert_eq!(plain["metadata"], json!({"name": "b", "namespace": "a"}));
    }

    #[tokio::test]
    async fn change_that_found_no_connection_was_not_made() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let client = Client::try_from(Config::new(server.parse().expect("a URL"))).expect("a client");
        let spec = object(json!({})).data["spec"].clone();
        let webhook = Declared::of_spec("a", "b", &spec, None).expect("the portal's");
        let objects = WebhookObjects {
            client,
            clock: Clock::System,
            namespace: "a".into(),
            is_held: AtomicBool::new(true),
            turns: FairShare::new(AT_ONCE, 1),
        };
        let hang_up = async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_u8().await.expect("a request")
        };
        let (lost, _) = tokio::join!(objects.create(&webhook), hang_up);
        assert!(matches!(lost, Err(NotWritten::Unknown)), "it had a connection: {lost:?}");
        let refused = objects.create(&webhook).await;
        assert!(matches!(refused, Err(NotWritten::Away)), "{refused:?}");
    }

    #[test]
    fn version_is_of_the_object_and_its_spec() {
        let of = |uid: &str, generation: i64, resource: &str| {
            version(
                &object(json!({"uid": uid, "generation": generation, "resourceVersion": resource})).metadata,
            )
        };
        assert_eq!(of("u", 1, "5"), of("u", 1, "6"));
        assert_ne!(of("u", 1, "5"), of("u", 2, "5"));
        assert_ne!(of("u", 1, "5"), of("v", 1, "5"));
    }

    #[test]
    fn policy_refuses_in_these_words() {
        let policy = include_str!("../../../portal-policy.yaml");
        assert!(policy.contains(REFUSAL));
    }
}
