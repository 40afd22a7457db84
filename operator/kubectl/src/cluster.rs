//! The calls to the API server, with the rights of the user. Its errors quote nothing of an object.

use std::fmt;
use std::time::Duration;

use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use docket_program::apiserver::ApiServerError;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::ClusterArguments;

/// The two kinds, as their definitions are called.
pub(crate) const DEFINITIONS: [&str; 2] = ["tenants.docket.dev", "webhooks.docket.dev"];
/// Who changes an object, for its `managedFields`.
const MANAGER: &str = "kubectl-docket";
/// Objects in one answer of the API server.
const PAGE: u32 = 500;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two parts of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a command ends with an exit code other than 0.
#[derive(Debug)]
pub(crate) enum Problem {
    /// There is a problem, which the text says.
    Found(String),
    /// The API server can't be reached, or the user may not do this.
    NoAccess(String),
}

impl Problem {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Found(_) => 1,
            Self::NoAccess(_) => 3,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(text) => f.write_str(text),
            Self::NoAccess(text) => {
                write!(f, "no access: {text}; docs/kubectl.md lists the rights of each command")
            }
        }
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        let text = ApiServerError::of(&error).to_string();
        match &error {
            kube::Error::Api(status) if !matches!(status.code, 401 | 403) => Self::Found(text),
            _ => Self::NoAccess(text),
        }
    }
}

/// What `check` looks at.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) release_namespace: String,
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) tenants: Vec<TenantObject>,
    pub(crate) webhooks: Vec<WebhookObject>,
}

/// What `check --pre` looks at.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Of the API server, such as `1.34`.
    pub(crate) version: (u32, u32),
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    /// Each right that an installation needs, and whether the user has it.
    pub(crate) rights: Vec<(String, bool)>,
}

/// The cluster, and where in it the user looks.
pub(crate) struct Cluster {
    client: Client,
    /// `None`: all namespaces.
    namespace: Option<String>,
    own_namespace: String,
}

impl Cluster {
    /// As kubectl chooses it.
    pub(crate) async fn connect(settings: &ClusterArguments) -> Result<Self, Problem> {
        let options = KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
        let unusable =
            |error: &dyn fmt::Display| Problem::NoAccess(format!("the kubeconfig can't be used: {error}"));
        let mut config = match &settings.kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
                Config::from_custom_kubeconfig(read, &options).await.map_err(|error| unusable(&error))?
            }
            None => Config::from_kubeconfig(&options).await.map_err(|error| unusable(&error))?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let own_namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let namespace = (!settings.all_namespaces).then(|| own_namespace.clone());
        Ok(Self { client: Client::try_from(config)?, namespace, own_namespace })
    }

    pub(crate) async fn tenants(&self) -> Result<Vec<TenantObject>, Problem> {
        all(&self.api()).await
    }

    pub(crate) async fn webhooks(&self) -> Result<Vec<WebhookObject>, Problem> {
        all(&self.api()).await
    }

    pub(crate) async fn found(&self, release_namespace: &str) -> Result<Found, Problem> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), release_namespace);
        let definitions = self.definitions().await?;
        let there = definitions.len() == DEFINITIONS.len();
        Ok(Found {
            release_namespace: release_namespace.to_owned(),
            deployments: all(&deployments).await?,
            tenants: if there { self.tenants().await? } else { vec![] },
            webhooks: if there { self.webhooks().await? } else { vec![] },
            definitions,
        })
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

    /// An object of the user's namespace.
    pub(crate) async fn get<K>(&self, name: &str) -> Result<K, Problem>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.own_namespace);
        let missing = || {
            let kind = K::kind(&());
            Problem::Found(format!(
                "there is no {kind} {name} in namespace {}; -n names another one",
                self.own_namespace
            ))
        };
        api.get_opt(name).await?.ok_or_else(missing)
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: &Patch<Value>) -> Result<K, Problem>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.own_namespace);
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        Ok(api.patch(name, &parameters, patch).await?)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

/// All objects, a page at a time.
async fn all<K: Clone + DeserializeOwned + fmt::Debug>(api: &Api<K>) -> Result<Vec<K>, Problem> {
    let mut found = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.continue_token = next;
        let page = api.list(&parameters).await?;
        found.extend(page.items);
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(found);
        }
    }
}
