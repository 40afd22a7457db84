//! `kubectl docket report`: one zip file for support. What may be in it is listed here field by field; all else is left out.

use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;

use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::args::ReportArguments;
use crate::check;
use crate::cluster::{COMPONENT, Cluster, Found};
use crate::dataplane;
use crate::problem::Problem;
use crate::show;
use crate::status;

/// The parts of Docket whose logs are taken, as their containers are called.
const COMPONENTS: [&str; 4] = ["operator", "api", "worker", "detector"];
/// The most pods whose logs are taken.
const MAX_PODS: usize = 20;
/// The kinds whose Events are taken.
const KINDS: [&str; 5] = ["Tenant", "Webhook", "Deployment", "ReplicaSet", "Pod"];

/// The files of a report, and what is missing from it.
#[derive(Default)]
struct Report {
    files: Vec<(String, Vec<u8>)>,
    missing: Vec<(String, Problem)>,
}

impl Report {
    fn json(&mut self, name: &str, value: Result<Value, Problem>) {
        self.add(name, value.map(|value| show::json_text(&value).into_bytes()));
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
    let no_access = report.missing.iter().find(|(_, problem)| matches!(problem, Problem::NoAccess(_)));
    match no_access.or(report.missing.first()) {
        None => Ok(()),
        Some((name, problem)) => Err(problem.retold(lacks(name, rest, problem))),
    }
}

/// A new file, so that none is overwritten.
fn created(path: &Path) -> Result<File, Problem> {
    File::create_new(path)
        .map_err(|error| Problem::Found(format!("{} can't be created: {error}", path.display())))
}

async fn gathered(cluster: &Cluster, asked: &ReportArguments) -> Report {
    let (release, mut report) = (&asked.reach.release_namespace, Report::default());
    let version = cluster
        .version()
        .await
        .map(|kubernetes| json!({"kubectlDocket": env!("CARGO_PKG_VERSION"), "kubernetes": kubernetes}));
    report.json("versions.json", version);
    objects(&mut report, &cluster.found(release).await);
    let events = cluster.events(release).await;
    report.json("events.json", events.map(|all| all.iter().filter_map(event).collect()));
    match cluster.pods(release).await {
        Ok(pods) => logs(cluster, release, &pods, &mut report).await,
        Err(problem) => report.missing.push(("logs".to_owned(), problem)),
    }
    report.add("metrics.txt", dataplane::metrics(cluster, &asked.reach).await);
    report
}

/// What can be read of the objects. If only the Tenants or only the Webhooks can be, the files have these.
fn objects(report: &mut Report, found: &Found) {
    let Found { tenants, webhooks, deployments, .. } = found;
    report.json("check.json", Ok(json!({"checks": check::installed(found)})));
    for (what, problem) in [("Tenants", tenants.as_ref().err()), ("Webhooks", webhooks.as_ref().err())] {
        let missing =
            problem.map(|problem| (format!("status.json and conditions.json: {what}"), problem.clone()));
        report.missing.extend(missing);
    }
    let tenants = tenants.as_deref().unwrap_or_default();
    let webhooks = webhooks.as_deref().unwrap_or_default();
    report.json("status.json", Ok(json!({"tenants": status::views(tenants, webhooks)})));
    let of_tenants = tenants.iter().map(|tenant: &TenantObject| {
        conditions("Tenant", &tenant.metadata, tenant.status.as_ref().map(|status| &status.conditions[..]))
    });
    let of_webhooks = webhooks.iter().map(|webhook: &WebhookObject| {
        conditions("Webhook", &webhook.metadata, webhook.status.as_ref().map(|status| &status.conditions[..]))
    });
    report.json("conditions.json", Ok(of_tenants.chain(of_webhooks).collect()));
    let deployments = deployments.as_ref().map_err(Clone::clone);
    report.json("deployments.json", deployments.map(|all| all.iter().map(deployment).collect()));
}

fn conditions(kind: &str, meta: &ObjectMeta, conditions: Option<&[Condition]>) -> Value {
    let ObjectMeta { namespace, name, uid, generation, .. } = meta;
    json!({"kind": kind, "namespace": namespace, "name": name, "uid": uid, "generation": generation,
        "conditions": conditions.unwrap_or_default()})
}

/// What the values of the chart became, without environment and volumes, whose values may be secrets.
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

/// A flag with its value, if the value is a plain one: no URL with credentials and no free text is.
fn argument_shown(argument: &str) -> String {
    let (flag, value) = argument.split_once('=').unwrap_or((argument, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,*[]=".contains(c);
    let is_flag = flag.starts_with("--") && flag.len() <= 64 || matches!(flag, "serve" | "run");
    match (is_flag && flag.chars().all(is_plain), value) {
        (false, _) => "(left out)".to_owned(),
        (true, "") => flag.to_owned(),
        (true, value) if value.len() <= 128 && value.chars().all(is_plain) => format!("{flag}={value}"),
        (true, _) => format!("{flag}=(left out)"),
    }
}

/// An Event about an object of ours, or about what runs Docket.
fn event(event: &Event) -> Option<Value> {
    let about = event.regarding.as_ref()?;
    let kind = about.kind.as_deref().filter(|kind| KINDS.contains(kind))?;
    let is_object = about.api_version.as_deref() == Some(docket_crds::API_VERSION);
    // The kubelet's notes about a pod may quote its environment.
    let note = event.note.as_deref().filter(|_| is_object);
    Some(json!({
        "time": event.event_time.as_ref().map(|time| time.0.to_string()).or_else(||
            event.deprecated_last_timestamp.as_ref().map(|time| time.0.to_string())),
        "type": event.type_, "reason": event.reason, "kind": kind, "namespace": about.namespace, "name": about.name, "note": note,
        "count": event.series.as_ref().map(|series| series.count).or(event.deprecated_count),
    }))
}

async fn logs(cluster: &Cluster, release: &str, pods: &[Pod], report: &mut Report) {
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
    use super::*;

    #[test]
    fn an_argument_with_more_than_a_plain_value_is_left_out() {
        for plain in
            ["serve", "--platform", "--roles=api,portal", "--listen=[::]:8080", "--trusted-proxy=10.0.0.0/8"]
        {
            assert_eq!(argument_shown(plain), plain);
        }
        for (argument, shown) in [
            ("--redis-url=redis://:hunter2@host", "--redis-url=(left out)"),
            ("--note=hunter2 hunter2", "--note=(left out)"),
            ("hunter2", "(left out)"),
            ("--a b", "(left out)"),
        ] {
            assert_eq!(argument_shown(argument), shown);
        }
    }
}
