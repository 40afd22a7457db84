//! `kubectl docket upgrade`: how far the migrations of the tenants' databases are, and which this version would bring. Pure,
//! except for reading and printing.

use docket_commands::arguments::Output;
use docket_commands::text::{json, table};
use docket_crds::tenant::TenantObject;
use docket_crds::{ConditionType, ReasonCode};
use docket_program::screen::{clean, clean_lines};
use docket_schema::{MIGRATIONS, Migration, NEWEST, OLDEST};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json as object};

use crate::args::UpgradeView;
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The label of Tenants that are migrated before all others.
const FIRST: &str = "docket.dev/migrate-first";

/// Prints how far the migrations are, or which would be pending with this version.
pub(crate) async fn print(cluster: &Cluster, view: UpgradeView, output: Output) -> Result<(), Problem> {
    let databases = databases(&cluster.tenants().await?);
    match view {
        UpgradeView::Status => print_status(&status(databases), output),
        UpgradeView::Plan => print_plan(&plan(databases), output),
    }
}

/// A tenant's database, as the status of its Tenant reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct TenantDatabase {
    namespace: String,
    name: String,
    schema_version: i64,
    /// Whether the database is migrated before all others.
    first: bool,
    reason: Option<String>,
    message: Option<String>,
}

impl TenantDatabase {
    fn has(&self, reason: ReasonCode) -> bool {
        self.reason.as_deref() == Some(reason.as_str())
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The databases of the Tenants that have one.
fn databases(tenants: &[TenantObject]) -> Vec<TenantDatabase> {
    let database = |tenant: &TenantObject| {
        let status = tenant.status.clone().unwrap_or_default();
        let version = status.database.and_then(|database| database.schema_version)?;
        let is_database = |condition: &&Condition| condition.type_ == ConditionType::DatabaseReady.as_str();
        let reported = status.conditions.iter().find(is_database);
        Some(TenantDatabase {
            namespace: tenant.namespace().unwrap_or_default(),
            name: tenant.name_any(),
            schema_version: version.parse().ok()?,
            first: tenant.labels().get(FIRST).is_some_and(|value| value == "true"),
            reason: reported.map(|reported| reported.reason.clone()),
            message: reported.map(|reported| reported.message.clone()),
        })
    };
    tenants.iter().filter_map(database).collect()
}

/// How far the migrations are.
#[derive(Debug, PartialEq, Eq)]
struct UpgradeStatus {
    /// The newest version that a database has.
    newest: Option<i64>,
    done: usize,
    pending: Vec<TenantDatabase>,
    failed: Vec<TenantDatabase>,
}

/// A database is pending if its condition says so, or if another database has a newer schema and the operator has not
/// looked at this database yet.
fn status(mut databases: Vec<TenantDatabase>) -> UpgradeStatus {
    databases.sort_by_key(|one| (!one.first, one.full_name()));
    let newest = databases.iter().map(|one| one.schema_version).max();
    let count = databases.len();
    let (failed, others): (Vec<_>, Vec<_>) =
        databases.into_iter().partition(|one| one.has(ReasonCode::MigrationFailed));
    let is_pending =
        |one: &TenantDatabase| one.has(ReasonCode::MigrationPending) || Some(one.schema_version) < newest;
    let pending: Vec<_> = others.into_iter().filter(is_pending).collect();
    UpgradeStatus { newest, done: count - failed.len() - pending.len(), pending, failed }
}

/// What a database waits for, from its condition.
fn waits_for(database: &TenantDatabase) -> String {
    let message = database.message.as_deref().unwrap_or_default();
    match message.split_once(" waits for ") {
        Some((_, what)) if database.has(ReasonCode::MigrationPending) => what.to_owned(),
        _ if database.reason.as_deref() == Some(ReasonCode::Migrated.as_str()) => {
            "the operator, which has not checked it yet".to_owned()
        }
        _ => message.to_owned(),
    }
}

fn print_status(status: &UpgradeStatus, output: Output) -> Result<(), Problem> {
    match output {
        Output::Json => json(&status_object(status)),
        Output::Table | Output::Wide => print!("{}", status_text(status)),
    }
    match status.failed.len() {
        0 => Ok(()),
        count => Err(Problem::Found(format!("{count} migrations failed; the operator tries again"))),
    }
}

fn status_object(status: &UpgradeStatus) -> Value {
    let UpgradeStatus { newest, done, pending, failed } = status;
    let listed = |state: &str, one: &TenantDatabase| {
        let mut listed = object!(one);
        listed["state"] = state.into();
        listed
    };
    let tenants = failed.iter().map(|one| listed("failed", one));
    let tenants = tenants.chain(pending.iter().map(|one| listed("pending", one)));
    object!({
        "newest": newest, "done": done, "pending": pending.len(), "failed": failed.len(),
        "tenants": tenants.collect::<Vec<_>>(),
    })
}

fn status_text(status: &UpgradeStatus) -> String {
    let UpgradeStatus { done, pending, failed, .. } = status;
    let mut text = format!("{done} done, {} pending, {} failed\n", pending.len(), failed.len());
    if !pending.is_empty() || !failed.is_empty() {
        let row = |state: &str, one: &TenantDatabase, why: String| {
            let first = if one.first { "yes" } else { "no" };
            let version = one.schema_version.to_string();
            vec![one.full_name(), state.to_owned(), version, first.to_owned(), clean(&why)]
        };
        let failed = failed.iter().map(|one| row("failed", one, one.message.clone().unwrap_or_default()));
        let pending = pending.iter().map(|one| row("pending", one, waits_for(one)));
        let head = ["TENANT", "STATE", "SCHEMA", "FIRST", "WAITS FOR"].map(str::to_owned).to_vec();
        text += &table("", &std::iter::once(head).chain(failed).chain(pending).collect::<Vec<_>>());
    }
    text
}

/// Which migrations are pending where when this version is installed.
#[derive(Debug, PartialEq, Eq)]
struct UpgradePlan {
    /// The databases that lack steps, in the order of their migrations.
    behind: Vec<TenantDatabase>,
    /// The number of databases that lack none.
    current: usize,
}

fn plan(mut databases: Vec<TenantDatabase>) -> UpgradePlan {
    databases.sort_by_key(|one| (!one.first, one.full_name()));
    let (behind, current): (Vec<_>, Vec<_>) =
        databases.into_iter().partition(|one| one.schema_version < NEWEST);
    UpgradePlan { behind, current: current.len() }
}

impl UpgradePlan {
    /// The steps that a database lacks, each with the number of databases that lack it.
    fn steps(&self) -> Vec<(&'static Migration, usize)> {
        let lack =
            |step: &Migration| self.behind.iter().filter(|one| one.schema_version < step.version).count();
        let steps = MIGRATIONS.iter().map(|step| (step, lack(step)));
        steps.filter(|(_, count)| *count > 0).collect()
    }

    /// The databases that this version does not work with before their migration.
    fn not_served(&self) -> Vec<&TenantDatabase> {
        self.behind.iter().filter(|one| one.schema_version < OLDEST).collect()
    }
}

fn print_plan(plan: &UpgradePlan, output: Output) -> Result<(), Problem> {
    match output {
        Output::Json => json(&plan_object(plan)),
        Output::Table | Output::Wide => print!("{}", clean_lines(&plan_text(plan))),
    }
    match plan.not_served().len() {
        0 => Ok(()),
        count => Err(Problem::Found(format!(
            "{count} databases have a schema before version {OLDEST}, with which this version does not work until they are \
             migrated; install the release before this one first"
        ))),
    }
}

fn plan_object(plan: &UpgradePlan) -> Value {
    let step = |(step, count): (&Migration, usize)| {
        object!({
            "version": step.version,
            "name": step.title(),
            "additive": step.is_additive(),
            "cost": step.cost,
            "indexes": step.indexes.iter().map(|index| index.name).collect::<Vec<_>>(),
            "tenants": count,
        })
    };
    let tenant = |one: &TenantDatabase| {
        object!({
            "namespace": one.namespace, "name": one.name, "schemaVersion": one.schema_version, "first": one.first,
            "served": one.schema_version >= OLDEST,
        })
    };
    object!({
        "newest": NEWEST, "oldest": OLDEST, "current": plan.current,
        "steps": plan.steps().into_iter().map(step).collect::<Vec<_>>(),
        "tenants": plan.behind.iter().map(tenant).collect::<Vec<_>>(),
    })
}

fn plan_text(plan: &UpgradePlan) -> String {
    let mut text = format!(
        "This version has schema {NEWEST}, and works with {OLDEST} and later ones.\n{} databases have it, {} would be migrated.\n",
        plan.current,
        plan.behind.len()
    );
    for (step, count) in plan.steps() {
        text += &format!("  {} ({count} databases)\n", step.described());
    }
    if !plan.behind.is_empty() {
        let row = |one: &TenantDatabase| {
            let first = if one.first { "yes" } else { "no" };
            let served = if one.schema_version < OLDEST { "only after its migration" } else { "yes" };
            vec![one.full_name(), one.schema_version.to_string(), first.to_owned(), served.to_owned()]
        };
        let head = ["TENANT", "SCHEMA", "FIRST", "SERVED"].map(str::to_owned).to_vec();
        let rows = std::iter::once(head).chain(plan.behind.iter().map(row));
        text += &table("", &rows.collect::<Vec<_>>());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn tenant(name: &str, version: i64, reason: &str, message: &str, first: bool) -> TenantObject {
        from_value(object!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": name, "namespace": "tenants", "labels": {FIRST: first.to_string()}},
            "spec": {"clientCode": "ACME", "database": {"managed": {"name": "d"}}, "apiKeys": []},
            "status": {"database": {"schemaVersion": version.to_string()}, "conditions": [
                {"type": "DatabaseReady", "status": "True", "reason": reason, "message": message,
                    "lastTransitionTime": "2026-11-21T00:00:00Z"}]}
        }))
        .expect("a Tenant")
    }

    fn tenants() -> Vec<TenantDatabase> {
        let waits = "the database has schema version 20, which works; the migration to 23 waits for the window 22:00-04:00 UTC";
        databases(&[
            tenant("a", NEWEST, "Migrated", "the database has the schema of this version", false),
            tenant("b", OLDEST, "MigrationPending", waits, false),
            tenant("c", OLDEST, "MigrationFailed", "schema migration failed: disk full", true),
            tenant("d", NEWEST - 1, "Migrated", "the database has the schema of this version", false),
        ])
    }

    #[test]
    fn status_counts_states_and_says_what_each_waits_for() {
        let status = status(tenants());
        assert_eq!(
            (status.newest, status.done, status.pending.len(), status.failed.len()),
            (Some(NEWEST), 1, 2, 1)
        );
        let text = status_text(&status);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("1 done, 2 pending, 1 failed"));
        for part in [
            format!("tenants/c  failed   {OLDEST}      yes    schema migration failed: disk full"),
            format!("tenants/b  pending  {OLDEST}      no     the window 22:00-04:00 UTC"),
            format!(
                "tenants/d  pending  {}      no     the operator, which has not checked it yet",
                NEWEST - 1
            ),
        ] {
            assert!(text.contains(&part), "{part} in:\n{text}");
        }
        let json = status_object(&status);
        assert_eq!(
            (&json["failed"], &json["tenants"][0]["state"]),
            (&object!(1), &object!("failed")),
            "{json}"
        );
        assert_eq!(super::status(Vec::new()).done, 0);
    }

    #[test]
    fn plan_has_the_steps_that_are_lacking_and_what_they_cost() {
        let plan = plan(tenants());
        assert_eq!((plan.current, plan.behind.len()), (1, 3));
        assert_eq!(plan.behind[0].name, "c", "it is migrated first");
        let counts: Vec<_> = plan.steps().iter().map(|(step, count)| (step.version, *count)).collect();
        assert_eq!(counts.first(), Some(&(OLDEST + 1, 2)));
        assert_eq!(counts.last(), Some(&(NEWEST, 3)));
        let text = plan_text(&plan);
        assert!(
            text.contains(&format!("  {} (3 databases)\n", MIGRATIONS[MIGRATIONS.len() - 1].described())),
            "{text}"
        );
        assert!(plan.not_served().is_empty());
        let older = super::plan(databases(&[tenant("e", OLDEST - 1, "Migrated", "", false)]));
        assert_eq!(older.not_served().len(), 1);
        assert!(plan_text(&older).contains("only after its migration"));
        assert_eq!(plan_object(&older)["tenants"][0]["served"], object!(false));
    }

    #[test]
    fn failed_migration_and_a_database_that_is_too_old_are_problems() {
        let code = |result: Result<(), Problem>| result.err().map(|problem| problem.exit_code());
        assert_eq!(code(print_status(&status(tenants()), Output::Json)), Some(1));
        let well = databases(&[tenant("a", NEWEST, "Migrated", "", false)]);
        assert_eq!(code(print_status(&status(well.clone()), Output::Table)), None);
        assert_eq!(code(print_plan(&plan(tenants()), Output::Table)), None, "each of them is served");
        let older = databases(&[tenant("e", OLDEST - 1, "Migrated", "", false)]);
        assert_eq!(code(print_plan(&plan(older), Output::Json)), Some(1));
        assert_eq!(code(print_plan(&plan(well), Output::Table)), None);
    }
}
