//! The command `kubectl docket adopt`: lets Tenants that were created again take over the databases of their predecessors.

use docket_commands::arguments::Output;
use docket_commands::text;
use docket_crds::tenant::TenantObject;
use docket_crds::{ConditionType, ReasonCode};
use docket_program::screen::clean;
use kube::ResourceExt;
use kube::api::Patch;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{AdoptArguments, WhichTenants};
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The annotation that lets a Tenant take over the database of this name.
const ADOPT_DATABASE: &str = "docket.dev/adopt-database";
/// What to do if the API server refuses the annotation.
const REFUSED: &str =
    "its definition or a policy refuses the annotation; correct that and run the command again";

/// A Tenant that has no database yet.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Adoption {
    namespace: String,
    name: String,
    /// `None`: the name is not known.
    database: Option<String>,
    state: AdoptionState,
}

/// Why a Tenant has no database yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum AdoptionState {
    /// The database belongs to another Tenant, and the annotation is missing.
    Waiting,
    /// The operator does not take the database over: the annotation has its name already, or would not help.
    Refused,
    /// The operator has not checked the database.
    Unchecked,
}

/// Annotates the chosen Tenants whose databases wait to be taken over; or, without `--yes`, shows them.
pub(crate) async fn run(cluster: &Cluster, asked: &AdoptArguments) -> Result<(), Problem> {
    let WhichTenants { tenant, all, selector } = &asked.which;
    let tenants = match tenant {
        Some(name) => vec![cluster.tenant(name).await?],
        None if *all => cluster.tenants().await?,
        None => cluster.tenants_with(selector.as_deref()).await?,
    };
    let found: Vec<Adoption> = tenants.iter().filter_map(adoption).collect();
    let waiting = || found.iter().filter(|one| one.state == AdoptionState::Waiting);
    if asked.yes {
        for one in waiting() {
            let patch: Patch<Value> =
                Patch::Merge(json!({"metadata": {"annotations": {ADOPT_DATABASE: one.database}}}));
            cluster.patch_in::<TenantObject>(&one.namespace, &one.name, &patch, REFUSED).await?;
        }
    }
    let annotated = asked.yes.then(|| waiting().count());
    let printed = match asked.printed.output {
        Output::Json => String::new(),
        Output::Table | Output::Wide => shown(&found, annotated),
    };
    text::result(asked.printed.output, &json!({"tenants": found, "annotated": annotated}), &printed);
    match problem(&found) {
        Some(text) => Err(Problem::Found(text)),
        None => Ok(()),
    }
}

/// What a Tenant waits for; `None`: its database is its own, or has another problem.
fn adoption(tenant: &TenantObject) -> Option<Adoption> {
    let status = tenant.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|one| one.type_ == ConditionType::DatabaseReady.as_str());
    let (state, database) = match found {
        Some(found) if found.reason == ReasonCode::NotOwned.as_str() => {
            let managed = tenant.spec.database.managed.as_ref().map(|managed| managed.name.clone());
            let database = managed.or_else(|| named_in(&found.message));
            let annotation = tenant.annotations().get(ADOPT_DATABASE);
            let is_known = database.is_some() && annotation != database.as_ref();
            (if is_known { AdoptionState::Waiting } else { AdoptionState::Refused }, database)
        }
        Some(found) if found.status != "Unknown" && found.reason != ReasonCode::Provisioning.as_str() => {
            return None;
        }
        _ => (AdoptionState::Unchecked, None),
    };
    Some(Adoption {
        namespace: tenant.namespace().unwrap_or_default(),
        name: tenant.name_any(),
        database,
        state,
    })
}

/// The name of an external database. Only the operator, which reads its URL, knows the name, and ends its message with
/// the annotation.
fn named_in(message: &str) -> Option<String> {
    let (_, name) = message.rsplit_once(&format!("{ADOPT_DATABASE}="))?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

fn shown(found: &[Adoption], annotated: Option<usize>) -> String {
    let head = ["TENANT", "DATABASE", "STATE"].map(str::to_owned).to_vec();
    let row = |one: &Adoption| {
        let state = match one.state {
            AdoptionState::Waiting if annotated.is_some() => "annotated",
            AdoptionState::Waiting => "waiting",
            AdoptionState::Refused => "refused",
            AdoptionState::Unchecked => "unchecked",
        };
        let database = one.database.as_deref().map_or_else(|| "–".to_owned(), clean);
        vec![format!("{}/{}", one.namespace, one.name), database, state.to_owned()]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(found.iter().map(row)).collect();
    let mut shown = if found.is_empty() { String::new() } else { text::table("", &rows) };
    let waiting = found.iter().filter(|one| one.state == AdoptionState::Waiting).count();
    shown += &match annotated {
        _ if waiting == 0 => "No database waits to be taken over.".to_owned(),
        None => format!("{waiting} to take over, with all data; --yes does it."),
        Some(annotated) => format!("{annotated} annotated; the operator takes the databases over."),
    };
    shown
}

/// What keeps Tenants from their databases, apart from the annotation.
fn problem(found: &[Adoption]) -> Option<String> {
    let count = |state| found.iter().filter(|one| one.state == state).count();
    match (count(AdoptionState::Refused), count(AdoptionState::Unchecked)) {
        (0, 0) => None,
        (0, unchecked) => Some(format!(
            "Tenants that the operator has not checked yet: {unchecked}; run the command again, and `kubectl docket \
             check` if this stays"
        )),
        (refused, _) => Some(format!(
            "databases that the operator does not take over: {refused}; `kubectl describe tenant` shows why, and the \
             statement by which the server's administrator hands a database over"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn tenant(
        database: Value,
        annotation: Option<&str>,
        condition: Option<(&str, &str, &str)>,
    ) -> TenantObject {
        let conditions: Vec<Value> = condition
            .iter()
            .map(|(status, reason, message)| {
                json!({"type": "DatabaseReady", "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": "2026-11-21T00:00:00Z"})
            })
            .collect();
        let annotations: serde_json::Map<String, Value> =
            annotation.iter().map(|name| (ADOPT_DATABASE.to_owned(), json!(name))).collect();
        from_value(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "tenants", "annotations": annotations},
            "spec": {"clientCode": "ACME", "database": database, "apiKeys": []},
            "status": {"conditions": conditions}
        }))
        .expect("a Tenant")
    }

    fn managed() -> Value {
        json!({"managed": {"name": "tenant_acme"}})
    }

    const NOT_OWNED: Option<(&str, &str, &str)> =
        Some(("False", "NotOwned", "belongs to the Tenant with UID u"));

    fn found(tenant: &TenantObject) -> Option<(AdoptionState, Option<String>)> {
        adoption(tenant).map(|one| (one.state, one.database))
    }

    #[test]
    fn only_a_database_of_another_tenant_waits_to_be_taken_over() {
        let name = Some("tenant_acme".to_owned());
        let waiting = Some((AdoptionState::Waiting, name.clone()));
        assert_eq!(found(&tenant(managed(), None, NOT_OWNED)), waiting);
        assert_eq!(found(&tenant(managed(), Some("another"), NOT_OWNED)), waiting);
        let refused = found(&tenant(managed(), Some("tenant_acme"), NOT_OWNED));
        assert_eq!(refused, Some((AdoptionState::Refused, name)));
        assert_eq!(found(&tenant(managed(), None, Some(("True", "Ready", "")))), None);
        assert_eq!(found(&tenant(managed(), None, Some(("False", "Unreachable", "away")))), None);
        let unchecked = Some((AdoptionState::Unchecked, None));
        assert_eq!(found(&tenant(managed(), None, None)), unchecked);
        assert_eq!(found(&tenant(managed(), None, Some(("Unknown", "Paused", "")))), unchecked);
        assert_eq!(found(&tenant(managed(), None, Some(("False", "Provisioning", "")))), unchecked);
    }

    #[test]
    fn external_database_has_the_name_that_the_operator_says() {
        let external = || json!({"external": {"secretKeyRef": {"name": "db", "key": "url"}}});
        let used = "is used by another Tenant; annotate this one with docket.dev/adopt-database=their db";
        let known = found(&tenant(external(), None, Some(("False", "NotOwned", used))));
        assert_eq!(known, Some((AdoptionState::Waiting, Some("their db".to_owned()))));
        let other = Some(("False", "NotOwned", "was created for the Tenant with UID u; choose another one"));
        assert_eq!(found(&tenant(external(), None, other)), Some((AdoptionState::Refused, None)));
    }

    #[test]
    fn text_says_what_is_done_and_what_remains() {
        let waiting = adoption(&tenant(managed(), None, NOT_OWNED)).expect("it waits");
        let all = [waiting];
        assert_eq!(
            shown(&all, None),
            "TENANT        DATABASE     STATE\ntenants/acme  tenant_acme  waiting\n1 to take over, with all data; --yes does it."
        );
        let done = shown(&all, Some(1));
        assert!(done.ends_with("annotated\n1 annotated; the operator takes the databases over."), "{done}");
        assert_eq!(shown(&[], None), "No database waits to be taken over.");
        assert_eq!(problem(&all), None);
        let refused = adoption(&tenant(managed(), Some("tenant_acme"), NOT_OWNED)).expect("it is refused");
        let unchecked = adoption(&tenant(managed(), None, None)).expect("it is not checked");
        assert!(problem(&[unchecked]).is_some_and(|text| text.contains("not checked yet: 1;")));
        assert!(problem(&[refused]).is_some_and(|text| text.contains("does not take over: 1;")));
    }
}
