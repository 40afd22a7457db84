//! The command `kubectl docket report`: one zip file for support. This file lists field by field what may be in it;
//! everything else is left out.

mod events;
mod flags;

use std::fs::{File, OpenOptions};
use std::io::{Cursor, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use docket_commands::text::json_text;
use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use self::events::{Workloads, event};
use self::flags::argument_shown;
use crate::args::ReportArguments;
use crate::check;
use crate::cluster::{COMPONENT, Cluster, Installation};
use crate::dataplane;
use crate::problem::Problem;
use crate::status;

/// The containers whose logs are included.
const COMPONENTS: [&str; 4] = ["operator", "api", "worker", "detector"];
/// The largest number of pods whose logs are included.
const MAX_PODS: usize = 20;
/// The files of a report, and a list of the missing parts.
#[derive(Default)]
struct ReportFiles {
    files: Vec<(String, Vec<u8>)>,
    missing: Vec<(String, Problem)>,
}

impl ReportFiles {
    fn json(&mut self, name: &str, value: Result<Value, Problem>) {
        self.add(name, value.map(|value| json_text(&value).into_bytes()));
    }

    fn add(&mut self, name: &str, content: Result<Vec<u8>, Problem>) {
        match content {
            Ok(content) => self.files.push((name.to_owned(), content)),
            Err(problem) => self.missing.push((name.to_owned(), problem)),
        }
    }
}

pub(crate) async fn write(cluster: &Cluster, asked: &ReportArguments) -> Result<(), Problem> {
    let mut file = created(&asked.file)?;
    let mut report = gathered(cluster, asked).await;
    if !report.missing.is_empty() {
        let lines = report.missing.iter().map(|(name, problem)| format!("{name}: {problem}\n"));
        let text: String = lines.collect();
        report.files.push(("missing.txt".to_owned(), text.into_bytes()));
    }
    let unwritable = |error: &dyn std::fmt::Display| {
        Problem::Found(format!("{} can't be written: {error}", asked.file.display()))
    };
    let content = zipped(&report.files).map_err(|error| unwritable(&error))?;
    file.write_all(&content).map_err(|error| unwritable(&error))?;
    println!("{} has {} files. Read them before you send them.", asked.file.display(), report.files.len());
    let lacks = |name: &str, rest: usize, problem: &Problem| {
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("the report lacks {name}{more} (see missing.txt in it): {}", problem.text())
    };
    let rest = report.missing.len().saturating_sub(1);
    let no_access = report
        .missing
        .iter()
        .find(|(_, problem)| matches!(problem, Problem::NoAccess(_) | Problem::NoLogin(_)));
    match no_access.or(report.missing.first()) {
        None => Ok(()),
        Some((name, problem)) => Err(problem.retold(lacks(name, rest, problem))),
    }
}

/// Creates a file that only its owner can read. It never overwrites a file.
fn created(path: &Path) -> Result<File, Problem> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Problem::Found(format!("{} can't be created: {error}", path.display())))
}

async fn gathered(cluster: &Cluster, asked: &ReportArguments) -> ReportFiles {
    let (release, mut report) = (&asked.reach.release_namespace, ReportFiles::default());
    let version = cluster
        .version()
        .await
        .map(|kubernetes| json!({"kubectlDocket": env!("CARGO_PKG_VERSION"), "kubernetes": kubernetes}));
    report.json("versions.json", version);
    let found = cluster.found(release).await;
    objects(&mut report, &found);
    let pods = cluster.pods(release).await;
    let workloads = Workloads {
        namespace: release,
        deployments: found.deployments.iter().flatten().map(ResourceExt::name_any).collect(),
        pods: pods.iter().flatten().map(ResourceExt::name_any).collect(),
    };
    events(cluster, &workloads, &mut report).await;
    match pods {
        Ok(pods) => logs(cluster, release, &pods, &mut report).await,
        Err(problem) => report.missing.push(("logs".to_owned(), problem)),
    }
    report.add("metrics.txt", dataplane::metrics(cluster, &asked.reach).await);
    report
}

/// What can be read of the objects. If only the Tenants or only the Webhooks can be, the files have these.
fn objects(report: &mut ReportFiles, found: &Installation) {
    let Installation { tenants, webhooks, deployments, .. } = found;
    report.json("check.json", Ok(json!({"checks": check::installed(found)})));
    for (what, problem) in [("Tenants", tenants.as_ref().err()), ("Webhooks", webhooks.as_ref().err())] {
        let missing =
            problem.map(|problem| (format!("status.json and conditions.json: {what}"), problem.clone()));
        report.missing.extend(missing);
    }
    let is_read = tenants.is_ok() || webhooks.is_ok();
    let tenants = tenants.as_deref().unwrap_or_default();
    let webhooks = webhooks.as_deref().unwrap_or_default();
    let of_tenants = tenants.iter().map(|tenant: &TenantObject| {
        conditions("Tenant", &tenant.metadata, tenant.status.as_ref().map(|status| &status.conditions[..]))
    });
    let of_webhooks = webhooks.iter().map(|webhook: &WebhookObject| {
        conditions("Webhook", &webhook.metadata, webhook.status.as_ref().map(|status| &status.conditions[..]))
    });
    if is_read {
        report.json("status.json", Ok(json!({"tenants": status::views(tenants, webhooks)})));
        report.json("conditions.json", Ok(of_tenants.chain(of_webhooks).collect()));
    }
    let deployments = deployments.as_ref().map_err(Clone::clone);
    report.json("deployments.json", deployments.map(|all| all.iter().map(deployment).collect()));
}

fn conditions(kind: &str, meta: &ObjectMeta, conditions: Option<&[Condition]>) -> Value {
    let ObjectMeta { namespace, name, uid, generation, .. } = meta;
    json!({"kind": kind, "namespace": namespace, "name": name, "uid": uid, "generation": generation,
        "conditions": conditions.unwrap_or_default()})
}

/// The fields of a Deployment that show the chart's values, without environment and volumes, whose values may be secrets.
fn deployment(deployment: &Deployment) -> Value {
    let spec = &deployment.spec;
    let pod = spec.template.spec.as_ref();
    let ours = pod.map_or(&[][..], |pod| &pod.containers[..]).iter();
    let ours = ours.filter(|container| COMPONENTS.contains(&container.name.as_str()));
    let container = |container: &Container| {
        let args = container.args.iter().flatten().map(|argument| argument_shown(argument));
        json!({"name": container.name, "image": container.image, "args": args.collect::<Vec<_>>(), "resources": container.resources})
    };
    json!({
        "name": deployment.name_any(),
        "chart": deployment.labels().get("helm.sh/chart"),
        "replicas": spec.replicas,
        "available": deployment.status.as_ref().and_then(|status| status.available_replicas),
        "containers": ours.map(container).collect::<Vec<_>>(),
    })
}

/// The Events of the namespaces that can be read: both, or one.
async fn events(cluster: &Cluster, workloads: &Workloads<'_>, report: &mut ReportFiles) {
    let (own, release) = (cluster.namespace(), workloads.namespace);
    let mut found = vec![(own, cluster.events(own).await)];
    let has_release = own.map_or(found[0].1.is_ok(), |own| own == release);
    if !has_release {
        found.push((Some(release), cluster.events(Some(release)).await));
    }
    let (mut shown, mut is_read) = (Vec::new(), false);
    for (namespace, result) in found {
        match result {
            Ok(all) => {
                is_read = true;
                shown.extend(all.iter().filter_map(|one| event(one, workloads)));
            }
            Err(problem) => {
                let place = namespace.map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
                report.missing.push((format!("events.json: {place}"), problem));
            }
        }
    }
    if is_read {
        report.json("events.json", Ok(Value::Array(shown)));
    }
}

async fn logs(cluster: &Cluster, release: &str, pods: &[Pod], report: &mut ReportFiles) {
    let component = |pod: &Pod| pod.labels().get(COMPONENT).cloned();
    let of_docket = pods.iter().filter_map(|pod| Some((pod.name_any(), component(pod)?)));
    for (pod, component) in of_docket.filter(|(_, one)| COMPONENTS.contains(&one.as_str())).take(MAX_PODS) {
        let text = cluster.log(release, &pod, &component).await;
        report.add(&format!("logs/{pod}.log"), text.map(String::into_bytes));
    }
}

fn zipped(files: &[(String, Vec<u8>)]) -> zip::result::ZipResult<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default())?;
        zip.write_all(content)?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_kept() {
        let forbidden = || Problem::NoAccess("forbidden: list".to_owned());
        let names = |found: &Installation| {
            let mut report = ReportFiles::default();
            objects(&mut report, found);
            let files = report.files.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
            let missing = report.missing.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            (files, missing)
        };
        let mut found = Installation {
            release_namespace: "docket".to_owned(),
            namespace: None,
            definitions: Err(forbidden()),
            deployments: Ok(vec![]),
            tenants: Ok(vec![]),
            webhooks: Err(forbidden()),
        };
        let (files, missing) = names(&found);
        assert_eq!(files, "check.json status.json conditions.json deployments.json");
        assert_eq!(missing, "status.json and conditions.json: Webhooks");
        (found.tenants, found.deployments) = (Err(forbidden()), Err(forbidden()));
        let (files, missing) = names(&found);
        let objects = ["Tenants", "Webhooks"].map(|what| format!("status.json and conditions.json: {what}"));
        assert_eq!(
            (files.as_str(), missing),
            ("check.json", format!("{}, deployments.json", objects.join(", ")))
        );
    }

    #[test]
    fn only_the_owner_reads_a_report_and_none_is_overwritten() {
        let path = std::env::temp_dir().join(format!("docket-report-{}.zip", std::process::id()));
        let mode = created(&path).expect("it is new").metadata().expect("it is open").permissions().mode();
        let again = created(&path);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(mode & 0o777, 0o600);
        assert!(again.is_err_and(|problem| problem.text().contains("can't be created")));
    }
}
