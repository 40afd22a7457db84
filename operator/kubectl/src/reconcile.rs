//! `kubectl docket reconcile`.

use std::time::Duration;

use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use kube::api::Patch;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::args::{Kind, Object};
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The annotation that has the operator look at an object.
const REQUESTED_AT: &str = "docket.dev/requestedAt";
/// What to do if the API server refuses the annotation: the definition or a policy has become stricter than the object.
const REFUSED: &str =
    "`kubectl get <object> -o yaml | kubectl replace --dry-run=server -f -` names the field to correct";
/// The pause between two looks at an object.
const PAUSE: Duration = Duration::from_millis(250);

/// Asks the operator to look at an object, and waits for it as long as `wait` says.
#[expect(clippy::disallowed_methods, reason = "the value only has to be new; no rule reads it")]
pub(crate) async fn run(cluster: &Cluster, object: &Object, wait: Option<Duration>) -> Result<(), Problem> {
    let requested = jiff::Timestamp::now().to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {REQUESTED_AT: requested}}}));
    let Object { kind, name } = object;
    match kind {
        Kind::Tenant => drop(cluster.patch::<TenantObject>(name, &patch, REFUSED).await?),
        Kind::Webhook => drop(cluster.patch::<WebhookObject>(name, &patch, REFUSED).await?),
    }
    let Some(limit) = wait else {
        println!("The operator looks at {name}.");
        return Ok(());
    };
    let started = Instant::now();
    while handled(cluster, object).await?.as_ref() != Some(&requested) {
        if started.elapsed() >= limit {
            let problem = format!(
                "the operator has not looked at {name} within {} s; `kubectl docket check` says whether it runs, and the \
                 annotation docket.dev/reconcile=disabled keeps it from an object",
                limit.as_secs()
            );
            return Err(Problem::Found(problem));
        }
        sleep(PAUSE).await;
    }
    println!("The operator has looked at {name}.");
    Ok(())
}

/// The last request that the operator acted on.
async fn handled(cluster: &Cluster, Object { kind, name }: &Object) -> Result<Option<String>, Problem> {
    Ok(match kind {
        Kind::Tenant => {
            cluster.get::<TenantObject>(name).await?.status.and_then(|one| one.last_handled_reconcile_at)
        }
        Kind::Webhook => {
            cluster.get::<WebhookObject>(name).await?.status.and_then(|one| one.last_handled_reconcile_at)
        }
    })
}
