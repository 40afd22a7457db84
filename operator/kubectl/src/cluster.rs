//! The calls to the API server, with the user's rights. Errors quote nothing of an object.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use docket_crds::AUDIENCE;
use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{DuplexStream, copy_bidirectional};
use tokio::net::TcpListener;
use tower::retry::RetryLayer;
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::args::{Account, ClusterArguments};
use crate::kubeconfig;
use crate::problem::Problem;
use crate::proxy;

/// The label with the component that a Deployment or a pod runs.
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";
/// How many lines are read from the end of a log.
const LOG_LINES: i64 = 1_000;
/// How many bytes are read from the end of a log.
const LOG_BYTES: i64 = 1024 * 1024;
/// The names of the definitions of the two kinds.
pub(crate) const DEFINITIONS: [&str; 2] = ["tenants.docket.dev", "webhooks.docket.dev"];
/// The field manager of changes.
const MANAGER: &str = "kubectl-docket";
/// The number of objects in one response of the API server.
const PAGE: u32 = 500;
/// The labels of a release's Deployments and pods, and of the API's pods.
const OF_DOCKET: &str = "app.kubernetes.io/part-of=docket";
const API_PODS: &str = "app.kubernetes.io/component=api,app.kubernetes.io/part-of=docket";
/// How long a token of a ServiceAccount is valid, in seconds: the shortest time that the API server allows.
const TOKEN_SECONDS: i64 = 600;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit between two parts of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A kind of objects that have a namespace.
pub(crate) trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug
{
}

/// What `check` has read: each part, or why it can't be read.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) release_namespace: String,
    /// The namespace of the Tenants and Webhooks; `None`: all.
    pub(crate) namespace: Option<String>,
    pub(crate) definitions: Result<Vec<CustomResourceDefinition>, Problem>,
    /// The Deployments of Docket in the release namespace.
    pub(crate) deployments: Result<Vec<Deployment>, Problem>,
    pub(crate) tenants: Result<Vec<TenantObject>, Problem>,
    pub(crate) webhooks: Result<Vec<WebhookObject>, Problem>,
}

/// What `check --pre` has read.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// The version of the API server, such as `1.34`.
    pub(crate) version: (u32, u32),
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    /// Each right that an installation needs, and whether the user has it.
    pub(crate) rights: Vec<(String, bool)>,
}

/// A connection to the API server, and the namespace that the user chose.
pub(crate) struct Cluster {
    client: Client,
    config: Config,
    /// The namespace of the command; `None`: all namespaces.
    namespace: Option<String>,
    own_namespace: String,
}

impl Cluster {
    /// Connects to the cluster that kubectl would choose with these settings.
    pub(crate) async fn connect(settings: &ClusterArguments, everywhere: bool) -> Result<Self, Problem> {
        let options = KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
        let unread = |error: KubeconfigError| kubeconfig::problem(&error);
        let read = settings.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let read = read.map_err(unread)?;
        let declared = proxy::declared(&read, settings.context.as_deref());
        let mut config = Config::from_custom_kubeconfig(read, &options).await.map_err(unread)?;
        config.proxy_url =
            proxy::chosen(declared.as_deref(), &config.cluster_url, &proxy::Environment::read())
                .map_err(|error| Problem::NoLogin(error.to_owned()))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let own_namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let namespace = (!everywhere).then(|| own_namespace.clone());
        config.default_retry = false;
        let client = patient(Client::try_from(config.clone())?, &config.default_namespace);
        Ok(Self { client, config, namespace, own_namespace })
    }

    /// The namespace for objects that a command names.
    pub(crate) fn own_namespace(&self) -> &str {
        &self.own_namespace
    }

    /// The header that authenticates the user at the data plane: the login's own token, or a new token of an account.
    pub(crate) async fn bearer(&self, account: Option<&Account>) -> Result<HeaderValue, Problem> {
        let header = match account {
            Some(account) => Some(self.account_token(account).await?),
            None => self.own_token().await?,
        };
        let missing = || {
            let text = "this login has no token of its own, which the data plane needs: name a ServiceAccount with --account NAMESPACE/NAME";
            Problem::NoAccess(text.to_owned())
        };
        let mut header = header.ok_or_else(missing)?;
        header.set_sensitive(true);
        Ok(header)
    }

    async fn account_token(&self, Account { namespace, name }: &Account) -> Result<HeaderValue, Problem> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        // The token is for the data plane only: the API server does not accept a token with this audience.
        let spec = TokenRequestSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let made = api.create_token_request(name, &PostParams::default(), &request).await?;
        let token = made.status.and_then(|status| status.token).unwrap_or_default();
        let unusable = |_| Problem::Found("the API server's token can't be sent".to_owned());
        HeaderValue::try_from(format!("Bearer {token}")).map_err(unusable)
    }

    /// The header that the client sends to the API server; `None`: the login uses a certificate or impersonates. It
    /// is taken from kube's layer that adds the header, because only that layer knows logins by other programs.
    async fn own_token(&self) -> Result<Option<HeaderValue>, Problem> {
        // The token belongs to the real user, not to the impersonated one.
        if self.config.auth_info.impersonate.is_some() {
            return Ok(None);
        }
        let Some(layer) = self.config.auth_layer()? else { return Ok(None) };
        let echo = service_fn(async |request: Request<Body>| {
            let mut response = Response::new(Body::empty());
            *response.headers_mut() = request.headers().clone();
            Ok::<_, BoxError>(response)
        });
        let response = layer.layer(echo).oneshot(Request::new(Body::empty())).await;
        // The error may quote what a login program printed.
        let failed =
            |_| Problem::NoAccess("the login's token can't be had; try `kubectl auth whoami`".to_owned());
        let header = response.map_err(failed)?.headers().get(AUTHORIZATION).cloned();
        Ok(header.filter(|header| header.as_bytes().starts_with(b"Bearer ")))
    }

    /// The version of the API server, such as `v1.34.4`.
    pub(crate) async fn version(&self) -> Result<String, Problem> {
        Ok(self.client.apiserver_version().await?.git_version)
    }

    /// The namespace of the Tenants and Webhooks; `None`: all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The Events of a namespace; `None`: of all namespaces.
    pub(crate) async fn events(&self, namespace: Option<&str>) -> Result<Vec<Event>, Problem> {
        let client = self.client.clone();
        all(&namespace.map_or_else(|| Api::all(client.clone()), |one| Api::namespaced(client.clone(), one)))
            .await
    }

    /// The pods of Docket in the release namespace.
    pub(crate) async fn pods(&self, release_namespace: &str) -> Result<Vec<Pod>, Problem> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), release_namespace);
        Ok(pods.list(&ListParams::default().labels(OF_DOCKET).limit(PAGE)).await?.items)
    }

    /// Reads the end of a container's log.
    pub(crate) async fn log(&self, namespace: &str, pod: &str, container: &str) -> Result<String, Problem> {
        let parameters = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            timestamps: true,
            ..LogParams::default()
        };
        Ok(Api::<Pod>::namespaced(self.client.clone(), namespace).logs(pod, &parameters).await?)
    }

    /// Forwards a port: returns a port of 127.0.0.1 that leads to `port` of a ready pod of the API, until the program ends.
    pub(crate) async fn forwarded(&self, namespace: &str, port: u16) -> Result<u16, Problem> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let all = pods.list(&ListParams::default().labels(API_PODS)).await?;
        let pod = all.items.into_iter().find(is_ready).and_then(|pod| pod.metadata.name);
        let none = || {
            let text = format!(
                "no pod of the API is ready in namespace {namespace}; --release-namespace names another one"
            );
            Problem::Found(text)
        };
        let pod = pod.ok_or_else(none)?;
        let mut opened = Some(stream(&pods, &pod, port).await?);
        let unbound = |error| Problem::Found(format!("no port of 127.0.0.1 can be opened: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
        let local = listener.local_addr().map_err(unbound)?.port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let next = match opened.take() {
                    Some(stream) => Ok(stream),
                    None => stream(&pods, &pod, port).await,
                };
                // Without a stream, the connection ends. The request on it then fails with an error.
                if let Ok(mut stream) = next {
                    tokio::spawn(async move { copy_bidirectional(&mut connection, &mut stream).await });
                }
            }
        });
        Ok(local)
    }

    pub(crate) async fn tenants(&self) -> Result<Vec<TenantObject>, Problem> {
        all(&self.api()).await
    }

    /// The Tenants with these labels; `None`: all.
    pub(crate) async fn tenants_with(&self, labels: Option<&str>) -> Result<Vec<TenantObject>, Problem> {
        labelled(&self.api(), labels).await
    }

    pub(crate) async fn webhooks(&self) -> Result<Vec<WebhookObject>, Problem> {
        all(&self.api()).await
    }

    /// The names of all namespaces.
    pub(crate) async fn namespaces(&self) -> Result<Vec<String>, Problem> {
        let found: Vec<Namespace> = all(&Api::all(self.client.clone())).await?;
        Ok(found.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    }

    pub(crate) async fn found(&self, release_namespace: &str) -> Installation {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), release_namespace);
        let (definitions, deployments, tenants, webhooks) = tokio::join!(
            self.definitions(),
            labelled(&deployments, Some(OF_DOCKET)),
            self.tenants(),
            self.webhooks()
        );
        Installation {
            release_namespace: release_namespace.to_owned(),
            namespace: self.namespace.clone(),
            definitions,
            deployments,
            tenants,
            webhooks,
        }
    }

    pub(crate) async fn before(&self, release_namespace: &str) -> Result<Before, Problem> {
        let info = self.client.apiserver_version().await?;
        let number = |text: &str| text.trim_end_matches('+').parse().unwrap_or(0);
        let mut rights = Vec::new();
        for (group, resource, namespaced) in [
            ("apiextensions.k8s.io", "customresourcedefinitions", false),
            ("rbac.authorization.k8s.io", "clusterroles", false),
            ("rbac.authorization.k8s.io", "clusterrolebindings", false),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", false),
            ("apps", "deployments", true),
            ("", "secrets", true),
        ] {
            let namespace = namespaced.then_some(release_namespace);
            let place = namespace.map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
            rights.push((
                format!("create {resource}{place}"),
                self.may_create(group, resource, namespace).await?,
            ));
        }
        Ok(Before {
            version: (number(&info.major), number(&info.minor)),
            definitions: self.definitions().await?,
            rights,
        })
    }

    async fn definitions(&self) -> Result<Vec<CustomResourceDefinition>, Problem> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut found = Vec::new();
        for name in DEFINITIONS {
            found.extend(api.get_opt(name).await?);
        }
        Ok(found)
    }

    async fn may_create(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<bool, Problem> {
        let attributes = ResourceAttributes {
            verb: Some("create".to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    pub(crate) async fn tenant(&self, name: &str) -> Result<TenantObject, Problem> {
        self.get(name).await
    }

    /// Reads an object in the user's namespace.
    pub(crate) async fn get<K: Namespaced>(&self, name: &str) -> Result<K, Problem> {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.own_namespace);
        let missing = || Problem::missing(&K::kind(&()), name, &self.own_namespace);
        api.get_opt(name).await?.ok_or_else(missing)
    }

    /// Patches an object in the user's namespace. `refused`: what to do if the API server refuses the change.
    pub(crate) async fn patch<K: Namespaced>(
        &self,
        name: &str,
        patch: &Patch<Value>,
        refused: &str,
    ) -> Result<K, Problem> {
        self.patch_in(&self.own_namespace, name, patch, refused).await
    }

    /// Patches an object in a namespace. `refused`: what to do if the API server refuses the change.
    pub(crate) async fn patch_in<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch<Value>,
        refused: &str,
    ) -> Result<K, Problem> {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let failed = |error| Problem::of_patch(error, &K::kind(&()), name, namespace, refused);
        api.patch(name, &parameters, patch).await.map_err(failed)
    }

    fn api<K: Namespaced>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

/// A client that repeats a call for some seconds if the API server is busy. kube's default repeats it for minutes,
/// while the user waits.
fn patient(client: Client, namespace: &str) -> Client {
    let send = service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    Client::new(RetryLayer::new(RetryPolicy::default()).layer(send), namespace)
}

/// Reads all objects, a page at a time.
async fn all<K>(api: &Api<K>) -> Result<Vec<K>, Problem>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    labelled(api, None).await
}

/// Reads all objects with these labels, a page at a time.
async fn labelled<K>(api: &Api<K>, labels: Option<&str>) -> Result<Vec<K>, Problem>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    let failed = |error| match &error {
        kube::Error::Api(status) if status.code == 404 => Problem::unserved(&K::plural(&()), &K::group(&())),
        _ => Problem::from(error),
    };
    let mut found = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.label_selector = labels.map(str::to_owned);
        parameters.continue_token = next;
        let page = api.list(&parameters).await.map_err(failed)?;
        found.extend(page.items);
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(found);
        }
    }
}

/// Whether a pod takes requests.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Opens a stream to a port of a pod.
async fn stream(pods: &Api<Pod>, pod: &str, port: u16) -> Result<DuplexStream, Problem> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    forwarder.take_stream(port).ok_or_else(|| Problem::Found("the port can't be forwarded".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn pod_is_ready_if_its_condition_says_so() {
        let of = |conditions: &Value| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {"conditions": conditions}});
            is_ready(&from_value(pod).expect("a pod"))
        };
        let condition = |of: &str, status: &str| json!({"type": of, "status": status});
        assert!(of(&json!([condition("Initialized", "False"), condition("Ready", "True")])));
        for conditions in
            [json!([]), json!([condition("Ready", "False")]), json!([condition("Initialized", "True")])]
        {
            assert!(!of(&conditions), "{conditions}");
        }
    }

    #[tokio::test]
    async fn list_is_read_to_its_last_page() {
        let server = service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            let (name, next) = if query.contains("continue=second") { ("b", "") } else { ("a", "second") };
            let list = json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"continue": next},
                "items": [{"metadata": {"name": name}}]});
            Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let found: Vec<Namespace> = all(&Api::all(Client::new(server, "default"))).await.expect("a list");
        let names: Vec<_> = found.into_iter().filter_map(|one| one.metadata.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
