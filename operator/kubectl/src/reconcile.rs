//! The command `kubectl docket reconcile`.

use std::time::Duration;

use docket_commands::arguments::Output;
use docket_commands::text;
use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use kube::api::Patch;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::args::{Kind, Object};
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The annotation that requests a reconciliation of an object.
const REQUESTED_AT: &str = "docket.dev/requestedAt";
/// The pause before an object is read again.
const PAUSE: Duration = Duration::from_millis(250);

/// Requests a reconciliation of an object, and waits for it for at most `wait`.
#[expect(clippy::disallowed_methods, reason = "the value only has to be new; no rule reads it")]
pub(crate) async fn run(
    cluster: &Cluster,
    object: &Object,
    wait: Option<Duration>,
    output: Output,
) -> Result<(), Problem> {
    let requested = jiff::Timestamp::now().to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {REQUESTED_AT: requested}}}));
    let Object { kind, name } = object;
    let refused = refused(cluster.own_namespace(), object);
    match kind {
        Kind::Tenant => drop(cluster.patch::<TenantObject>(name, &patch, &refused).await?),
        Kind::Webhook => drop(cluster.patch::<WebhookObject>(name, &patch, &refused).await?),
    }
    let done = |handled: bool| {
        let namespace = cluster.own_namespace();
        json!({"kind": kind.name(), "namespace": namespace, "name": name, "requestedAt": requested, "handled": handled})
    };
    let Some(limit) = wait else {
        text::result(output, &done(false), &format!("The operator looks at {name}."));
        return Ok(());
    };
    let started = Instant::now();
    while !seen(cluster, object).await?.is_handled(&requested) {
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
    text::result(output, &done(true), &format!("The operator has checked {name}."));
    Ok(())
}

/// What to do if the API server refuses the annotation: the definition or a policy is stricter than when the object
/// was written.
fn refused(namespace: &str, Object { kind, name }: &Object) -> String {
    format!(
        "`kubectl --namespace {namespace} get {}.docket.dev {name} -o yaml | kubectl replace --dry-run=server -f -` names the \
         field to correct",
        kind.resource()
    )
}

/// The requests for reconciliation that an object shows.
#[derive(Debug, Default)]
struct Requests {
    /// The last request, which may be another user's.
    asked: Option<String>,
    /// The last request that the operator acted on.
    handled: Option<String>,
}

impl Requests {
    /// Whether the operator acted on this user's request, or on a later request that replaced it. The operator never sees
    /// a replaced request.
    fn is_handled(&self, requested: &str) -> bool {
        self.handled == self.asked || self.handled.as_deref() == Some(requested)
    }
}

async fn seen(cluster: &Cluster, Object { kind, name }: &Object) -> Result<Requests, Problem> {
    let (mut meta, handled) = match kind {
        Kind::Tenant => {
            let TenantObject { metadata, status, .. } = cluster.get(name).await?;
            (metadata, status.and_then(|status| status.last_handled_reconcile_at))
        }
        Kind::Webhook => {
            let WebhookObject { metadata, status, .. } = cluster.get(name).await?;
            (metadata, status.and_then(|status| status.last_handled_reconcile_at))
        }
    };
    Ok(Requests { asked: meta.annotations.take().and_then(|mut all| all.remove(REQUESTED_AT)), handled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_the_command_that_shows_the_field() {
        let object = Object { kind: Kind::Webhook, name: "orders".to_owned() };
        let command = "`kubectl --namespace a get webhooks.docket.dev orders -o yaml | kubectl replace ";
        assert!(refused("a", &object).starts_with(command));
    }

    #[test]
    fn request_that_another_has_replaced_is_handled_with_that_one() {
        let is_handled = |asked: Option<&str>, handled: Option<&str>| {
            let [asked, handled] = [asked, handled].map(|one| one.map(str::to_owned));
            Requests { asked, handled }.is_handled("ours")
        };
        assert!(is_handled(Some("ours"), Some("ours")) && is_handled(Some("later"), Some("later")));
        assert!(is_handled(Some("later"), Some("ours")), "the later one is on its way");
        assert!(is_handled(None, None), "it was removed");
        for before in [None, Some("earlier")] {
            assert!(!is_handled(Some("ours"), before) && !is_handled(Some("later"), before));
        }
    }
}
