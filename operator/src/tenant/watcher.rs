//! I/O: the watcher of the server with a tenant's managed database.

use std::collections::BTreeMap;

use docket_crds::DatabaseUrl;
use docket_program::apiserver::ApiServerError;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use secrecy::SecretString;

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::labels;
use crate::state::name::Name;
use crate::tenant::generated::{PASSWORD, make, value_at};

/// The URL, for the data plane, of the watcher of this server; without a name, of the first server. `None`: there is
/// no watcher; this is logged, and the tenant is served all the same.
pub async fn watcher(context: &Context, server: Option<&str>) -> Option<DatabaseUrl> {
    let installation = context.kube.installation();
    context.databases.watcher(server, &installation, async |server| password(context, server).await).await
}

/// The password of a server's watcher, from its Secret in the release namespace, which is created if needed. The data
/// plane may read that namespace's Secrets, and gets the password anyway in each tenant's runtime Secret.
async fn password(context: &Context, server: &str) -> Result<SecretString, CallError> {
    let name = Name::new(context.kube.release_namespace(), format!("docket-watcher-{server}"));
    let found = context.kube.secret(&name).await?;
    if let Some(password) = found.as_ref().and_then(value) {
        return Ok(password);
    }
    let made = secret(&name, make(&mut { context.random }).expose().to_vec());
    if found.is_some() {
        context.kube.apply_secret(&made).await?;
    } else {
        match context.kube.create_secret(&made).await {
            // Another pass or another replica has created it first.
            Err(CallError::Api(ApiServerError::Conflict)) => {}
            result => result?,
        }
    }
    let stored = context.kube.secret(&name).await?;
    stored.as_ref().and_then(value).ok_or(CallError::Api(ApiServerError::Conflict))
}

fn value(secret: &Secret) -> Option<SecretString> {
    value_at(secret, PASSWORD).map(SecretString::from)
}

fn secret(name: &Name, password: Vec<u8>) -> Secret {
    let managed_by = (labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            namespace: Some(name.namespace.clone()),
            labels: Some(BTreeMap::from([managed_by])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(PASSWORD.to_owned(), ByteString(password))])),
        ..Secret::default()
    }
}
