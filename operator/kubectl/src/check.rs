//! Finds the problems of an installation: pure functions over objects that were read.

use docket_commands::arguments::Output;
use docket_commands::text::json;
use docket_crds::tenant::TenantObject;
use docket_crds::webhook::WebhookObject;
use docket_crds::{ConditionType, ReasonCode, Remedy};
use docket_program::screen::clean;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;

use crate::cluster::{Before, COMPONENT, DEFINITIONS, Installation};
use crate::conditions;
use crate::problem::Problem;

/// The parts that every installation has.
const COMPONENTS: [&str; 4] = ["operator", "api", "worker", "detector"];
/// The oldest API server that the chart installs on.
const OLDEST: (u32, u32) = (1, 32);
/// Paths of pages, as a running Docket serves them.
const INSTALLATION: &str = "/docs/kubernetes/install.html";
const A_TENANT: &str = "/docs/kubernetes/tenant.html";
const RESEND: &str = "/docs/webhooks/resend.html";
const RIGHTS: &str = "/docs/reference/kubectl-docket.html#rights";

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Result {
    /// All is as it should be.
    Ok,
    /// Worth a look; Docket works on.
    Warning,
    /// The problem stays until someone changes something.
    Failed,
    /// What the line is about can't be read.
    Unknown,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CheckLine {
    section: &'static str,
    result: Result,
    message: String,
    /// What to do; `None` if all is well.
    fix: Option<String>,
    /// The page that says more.
    page: Option<String>,
    /// Why it can't be read, if the result is unknown.
    #[serde(skip)]
    unread: Option<Problem>,
}

impl CheckLine {
    fn ok(section: &'static str, message: impl Into<String>) -> Self {
        Self { section, result: Result::Ok, message: message.into(), fix: None, page: None, unread: None }
    }

    fn wrong(section: &'static str, result: Result, message: String, fix: String, page: String) -> Self {
        Self { section, result, message, fix: Some(fix), page: Some(page), unread: None }
    }

    /// A line about something that can't be read: the user lacks a right, the server does not respond, or the kind
    /// does not exist.
    fn unread(section: &'static str, what: &str, problem: &Problem) -> Self {
        let (result, fix) = match problem {
            Problem::Found(_) => (Result::Failed, "install the chart"),
            Problem::NoLogin(_) => (Result::Unknown, "see whether `kubectl auth whoami` knows you"),
            Problem::NoAccess(_) => {
                (Result::Unknown, "have this right granted, or have an administrator run the command")
            }
            Problem::Unavailable(_) => (Result::Unknown, "see whether `kubectl version` gets an answer"),
        };
        let message = format!("{what} can't be read: {}", problem.text());
        let unread = (result == Result::Unknown).then(|| problem.clone());
        Self { unread, ..Self::wrong(section, result, message, fix.to_owned(), RIGHTS.to_owned()) }
    }
}

/// Checks an installation and prints the lines, unless the API server answers nothing.
pub(crate) fn print_installed(found: &Installation, output: Output) -> std::result::Result<(), Problem> {
    match (&found.definitions, &found.deployments, &found.tenants, &found.webhooks) {
        (
            Err(problem @ Problem::Unavailable(_)),
            Err(Problem::Unavailable(_)),
            Err(Problem::Unavailable(_)),
            Err(Problem::Unavailable(_)),
        ) => Err(problem.clone()),
        _ => print(&installed(found), output),
    }
}

/// Checks an installation.
pub(crate) fn installed(found: &Installation) -> Vec<CheckLine> {
    let mut lines = match &found.definitions {
        Ok(all) => definitions(all),
        // Reading definitions needs a right in the whole cluster, which few users have. The Tenants and Webhooks show
        // whether their kinds exist.
        Err(problem @ Problem::NoAccess(_)) => {
            let line = CheckLine::unread("docket-crds", "the definitions of Docket", problem);
            vec![CheckLine { result: Result::Warning, unread: None, ..line }]
        }
        Err(problem) => vec![CheckLine::unread("docket-crds", "the definitions of Docket", problem)],
    };
    lines.extend(match &found.deployments {
        Ok(all) => deployments(&found.release_namespace, all),
        Err(problem) => {
            let what = format!("the Deployments in namespace {}", found.release_namespace);
            vec![CheckLine::unread("docket-pods", &what, problem)]
        }
    });
    let is_there = |name: &str| {
        found.definitions.as_ref().map_or(true, |all| all.iter().any(|one| one.name_any() == name))
    };
    let [tenants_kind, webhooks_kind] = DEFINITIONS;
    // If the definition is missing, another line says so.
    if is_there(tenants_kind) {
        lines.extend(match &found.tenants {
            Ok(all) => tenants(found.namespace.as_deref(), all),
            Err(problem) => vec![CheckLine::unread("docket-tenants", "the Tenants", problem)],
        });
    }
    if is_there(webhooks_kind) {
        lines.extend(match &found.webhooks {
            Ok(all) => webhooks(found.namespace.as_deref(), all),
            Err(problem) => vec![CheckLine::unread("docket-webhooks", "the Webhooks", problem)],
        });
    }
    lines
}

/// Checks a cluster before an installation.
pub(crate) fn before(found: &Before) -> Vec<CheckLine> {
    const SECTION: &str = "kubernetes";
    let (major, minor) = found.version;
    let page = || INSTALLATION.to_owned();
    let version = if found.version >= OLDEST {
        CheckLine::ok(SECTION, format!("the API server has version {major}.{minor}"))
    } else {
        let message = format!("the API server has version {major}.{minor}");
        let fix = format!("update Kubernetes to {}.{} or newer", OLDEST.0, OLDEST.1);
        CheckLine::wrong(SECTION, Result::Failed, message, fix, page())
    };
    let rights = found.rights.iter().map(|(right, has)| match has {
        true => CheckLine::ok("rights", format!("you may {right}")),
        false => CheckLine::wrong(
            "rights",
            Result::Failed,
            format!("you may not {right}"),
            "have an administrator of the cluster install the chart".to_owned(),
            page(),
        ),
    });
    let definitions = match found.definitions.len() {
        0 => CheckLine::ok("docket-crds", "no definition of Docket is installed"),
        _ => CheckLine::wrong(
            "docket-crds",
            Result::Warning,
            "definitions of Docket are installed already".to_owned(),
            "update that release instead, or set crds.enabled=false in the second one".to_owned(),
            page(),
        ),
    };
    [version].into_iter().chain(rights).chain([definitions]).collect()
}

fn definitions(found: &[CustomResourceDefinition]) -> Vec<CheckLine> {
    const SECTION: &str = "docket-crds";
    let wrong = |message: String, fix: &str| {
        CheckLine::wrong(SECTION, Result::Failed, message, fix.to_owned(), INSTALLATION.to_owned())
    };
    let line = |name: &str| {
        let Some(definition) = found.iter().find(|definition| definition.name_any() == name) else {
            let fix = "install the chart, or run `docket-operator crds | kubectl apply --server-side -f -`";
            return wrong(format!("{name} is not installed"), fix);
        };
        let served = definition
            .spec
            .versions
            .iter()
            .any(|version| version.name == docket_crds::VERSION && version.served);
        let status = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        let established = status.is_some_and(|conditions| {
            conditions.iter().any(|one| one.type_ == "Established" && one.status == "True")
        });
        if served && established {
            CheckLine::ok(SECTION, format!("{name} is installed and served ({})", docket_crds::VERSION))
        } else {
            let fix = format!("`kubectl describe crd {name}` says what the API server has against it");
            wrong(format!("{name} does not serve {}", docket_crds::VERSION), &fix)
        }
    };
    DEFINITIONS.map(line).into()
}

fn deployments(namespace: &str, all: &[Deployment]) -> Vec<CheckLine> {
    const SECTION: &str = "docket-pods";
    let of = |component: &str| -> Vec<&Deployment> {
        let has = |deployment: &&Deployment| {
            deployment.labels().get(COMPONENT).is_some_and(|label| label == component)
        };
        all.iter().filter(has).collect()
    };
    let line = |component: &str| match of(component)[..] {
        [] => CheckLine::wrong(
            SECTION,
            Result::Failed,
            format!("no Deployment of the {component} is in namespace {namespace}"),
            "--release-namespace names the namespace of the release; install the chart if there is none"
                .to_owned(),
            INSTALLATION.to_owned(),
        ),
        ref all => {
            let wanted: i32 = all.iter().filter_map(|one| one.spec.replicas).sum();
            let available: i32 = all.iter().filter_map(|one| one.status.as_ref()?.available_replicas).sum();
            let message = format!("{component}: {available} of {wanted} pods are available");
            if available >= wanted && wanted > 0 {
                return CheckLine::ok(SECTION, message);
            }
            let result = if available > 0 { Result::Warning } else { Result::Failed };
            let fix = format!(
                "`kubectl --namespace {namespace} get pods --selector {COMPONENT}={component}` shows them, and `kubectl describe` why one is not ready"
            );
            CheckLine::wrong(SECTION, result, message, fix, INSTALLATION.to_owned())
        }
    };
    COMPONENTS.map(line).into()
}

fn tenants(namespace: Option<&str>, all: &[TenantObject]) -> Vec<CheckLine> {
    const SECTION: &str = "docket-tenants";
    let wrong = |tenant: &TenantObject| {
        let conditions = tenant.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let name = format!("Tenant {}/{}", tenant.namespace().unwrap_or_default(), tenant.name_any());
        [ConditionType::Ready, ConditionType::WithinLimits]
            .map(|of| condition(SECTION, &name, conditions, of))
    };
    let wrong: Vec<CheckLine> = all.iter().flat_map(wrong).flatten().collect();
    match all.len() {
        0 => vec![CheckLine::wrong(
            SECTION,
            Result::Warning,
            none("Tenant", namespace),
            "declare one in a namespace that the operator watches".to_owned(),
            A_TENANT.to_owned(),
        )],
        count if wrong.is_empty() => vec![CheckLine::ok(SECTION, format!("all {count} Tenants are ready"))],
        _ => wrong,
    }
}

fn webhooks(namespace: Option<&str>, all: &[WebhookObject]) -> Vec<CheckLine> {
    const SECTION: &str = "docket-webhooks";
    let wrong = |webhook: &WebhookObject| {
        let conditions = webhook.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let name = format!("Webhook {}/{}", webhook.namespace().unwrap_or_default(), webhook.name_any());
        [
            condition(SECTION, &name, conditions, ConditionType::Ready),
            condition(SECTION, &name, conditions, ConditionType::DeliveryHealthy),
            dead_letters(SECTION, &name, webhook),
        ]
    };
    let wrong: Vec<CheckLine> = all.iter().flat_map(wrong).flatten().collect();
    match all.len() {
        // A Tenant needs none.
        0 => vec![CheckLine::ok(SECTION, none("Webhook", namespace))],
        count if wrong.is_empty() => vec![CheckLine::ok(SECTION, format!("all {count} Webhooks deliver"))],
        _ => wrong,
    }
}

fn none(kind: &str, namespace: Option<&str>) -> String {
    match namespace {
        None => format!("there is no {kind}"),
        Some(namespace) => format!("there is no {kind} in namespace {namespace}; -A looks in all"),
    }
}

fn dead_letters(section: &'static str, name: &str, webhook: &WebhookObject) -> Option<CheckLine> {
    let deliveries = webhook.status.as_ref().and_then(|status| status.deliveries.as_ref());
    let dead = deliveries.map(|one| one.dead_letter).filter(|dead| *dead > 0)?;
    let fix = format!(
        "when its receiver is back, `kubectl docket resend {} --namespace {}` shows what it would resend",
        webhook.name_any(),
        webhook.namespace().unwrap_or_default()
    );
    let letters = if dead == 1 { "dead letter" } else { "dead letters" };
    let message = format!("{name} has {dead} {letters}");
    Some(CheckLine::wrong(section, Result::Warning, message, fix, RESEND.to_owned()))
}

/// What is wrong by this condition. Only `Ready` must be there: the others come later, or not at all.
fn condition(section: &'static str, name: &str, all: &[Condition], of: ConditionType) -> Option<CheckLine> {
    let Some(condition) = all.iter().find(|condition| condition.type_ == of.as_str()) else {
        let fix = "wait a moment; if it stays so, look at the line of the operator above".to_owned();
        let message = format!("{name} was not seen by the operator");
        let line = CheckLine::wrong(section, Result::Warning, message, fix, conditions::PAGE.to_owned());
        return (of == ConditionType::Ready).then_some(line);
    };
    let remedy = condition.reason.parse::<ReasonCode>().map(ReasonCode::remedy);
    let result = match (condition.status.as_str(), remedy) {
        ("True", _) | (_, Ok(Remedy::Nothing | Remedy::Chosen)) => return None,
        (_, Ok(Remedy::Retry)) => Result::Warning,
        (_, Ok(Remedy::Arrival | Remedy::Change) | Err(_)) => Result::Failed,
    };
    let message = format!("{name}: {of} {} ({}): {}", condition.status, condition.reason, condition.message);
    let fix = conditions::about(&condition.reason)
        .unwrap_or_else(|| "this version does not know the reason".to_owned());
    Some(CheckLine::wrong(section, result, message, fix, conditions::page(&condition.reason)))
}

/// Prints the lines.
pub(crate) fn print(lines: &[CheckLine], output: Output) -> std::result::Result<(), Problem> {
    match output {
        Output::Json => json(&serde_json::json!({ "checks": lines })),
        Output::Table | Output::Wide => print!("{}", text(lines)),
    }
    let unread = lines.iter().find_map(|line| line.unread.as_ref());
    match lines.iter().filter(|line| line.result == Result::Failed).count() {
        0 => unread.map_or(Ok(()), |problem| Err(problem.about("not everything was checked"))),
        1 => Err(Problem::Found("1 check failed".to_owned())),
        failed => Err(Problem::Found(format!("{failed} checks failed"))),
    }
}

fn text(lines: &[CheckLine]) -> String {
    let mut text = String::new();
    let mut section = "";
    for line in lines {
        if line.section != section {
            section = line.section;
            text += &format!("{section}\n");
        }
        let mark = match line.result {
            Result::Ok => "✓",
            Result::Warning => "‼",
            Result::Failed => "×",
            Result::Unknown => "?",
        };
        text += &format!("  {mark} {}\n", clean(&line.message));
        if let Some(fix) = &line.fix {
            text += &format!("    fix: {fix}\n");
        }
        if let Some(page) = &line.page {
            text += &format!("    see {}\n", clean(page));
        }
    }
    if lines.iter().any(|line| line.page.is_some()) {
        text += "The API's hosts serve these pages; `docket docs --out <folder>` writes them as files.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn definition(name: &str, established: &str) -> CustomResourceDefinition {
        object(json!({
            "metadata": {"name": name},
            "spec": {"group": "docket.dev", "scope": "Namespaced", "names": {"kind": "X", "plural": "x"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true}]},
            "status": {"conditions": [{"type": "Established", "status": established}]}
        }))
    }

    fn deployment(component: &str, available: i32) -> Deployment {
        object(json!({
            "metadata": {"name": component, "labels": {"app.kubernetes.io/component": component}},
            "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"availableReplicas": available}
        }))
    }

    fn conditions(all: &[(&str, &str, &str)]) -> serde_json::Value {
        let one = |(kind, status, reason): &(&str, &str, &str)| {
            json!({"type": kind, "status": status, "reason": reason, "message": "because\nof it",
                "lastTransitionTime": "2026-11-21T00:00:00Z"})
        };
        json!(all.iter().map(one).collect::<Vec<_>>())
    }

    fn well() -> Installation {
        Installation {
            release_namespace: "docket".to_owned(),
            namespace: None,
            definitions: Ok(DEFINITIONS.map(|name| definition(name, "True")).into()),
            deployments: Ok(COMPONENTS.map(|component| deployment(component, 2)).into()),
            tenants: Ok(vec![tenant(&[("Ready", "True", "Ready")])]),
            webhooks: Ok(vec![webhook(
                &[("Ready", "True", "Ready"), ("DeliveryHealthy", "True", "Delivering")],
                0,
            )]),
        }
    }

    fn tenant(all: &[(&str, &str, &str)]) -> TenantObject {
        object(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "acme", "namespace": "tenants"},
            "spec": {"clientCode": "ACME", "apiKeys": [], "database": {"managed": {"name": "tenant_acme"}}},
            "status": {"conditions": conditions(all)}
        }))
    }

    fn webhook(all: &[(&str, &str, &str)], dead: i64) -> WebhookObject {
        object(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "orders", "namespace": "tenants"},
            "spec": {"tenantRef": {"name": "acme"}, "customerCode": "C-1", "targetURL": "https://a.example",
                "events": ["order.created"]},
            "status": {"conditions": conditions(all), "deliveries": {"pending": 0, "deadLetter": dead}}
        }))
    }

    /// The lines that are not well.
    fn wrong(found: &Installation) -> Vec<(Result, String)> {
        let lines = installed(found).into_iter().filter(|line| line.result != Result::Ok);
        lines
            .map(|line| {
                assert!(line.fix.is_some() && line.page.is_some(), "{line:?}");
                (line.result, line.message)
            })
            .collect()
    }

    #[test]
    fn an_installation_that_is_well_has_nothing_to_fix() {
        assert_eq!(wrong(&well()), []);
        assert_eq!(print(&installed(&well()), Output::Json).map_err(|problem| problem.to_string()), Ok(()));
        assert!(text(&installed(&well())).contains("docket-tenants\n  ✓ all 1 Tenants are ready\n"));
    }

    #[test]
    fn each_thing_that_is_wrong_has_a_line_with_its_fix_and_page() {
        let change = |change: &dyn Fn(&mut Installation)| {
            let mut found = well();
            change(&mut found);
            wrong(&found)
        };
        let deployed = |at: usize, one: Deployment| {
            change(&|found| found.deployments.as_mut().expect("read")[at] = one.clone())
        };
        let of_tenant = |all: &[(&str, &str, &str)]| change(&|found| found.tenants = Ok(vec![tenant(all)]));
        let failed = |text: &str| vec![(Result::Failed, text.to_owned())];
        let warning = |text: &str| vec![(Result::Warning, text.to_owned())];
        assert_eq!(
            change(&|found| drop(found.definitions.as_mut().expect("read").pop())),
            failed("webhooks.docket.dev is not installed")
        );
        assert_eq!(
            change(&|found| found.definitions.as_mut().expect("read")[0] =
                definition("tenants.docket.dev", "False")),
            failed("tenants.docket.dev does not serve v1alpha1")
        );
        assert_eq!(
            change(&|found| drop(found.deployments.as_mut().expect("read").remove(0))),
            failed("no Deployment of the operator is in namespace docket")
        );
        assert_eq!(deployed(2, deployment("worker", 1)), warning("worker: 1 of 2 pods are available"));
        assert_eq!(deployed(1, deployment("api", 0)), failed("api: 0 of 2 pods are available"));
        assert_eq!(
            of_tenant(&[("Ready", "False", "SecretNotFound")]),
            failed("Tenant tenants/acme: Ready False (SecretNotFound): because\nof it")
        );
        assert_eq!(
            of_tenant(&[("Ready", "False", "Provisioning")]),
            warning("Tenant tenants/acme: Ready False (Provisioning): because\nof it")
        );
        assert_eq!(of_tenant(&[("Ready", "False", "Suspended")]), []);
        assert_eq!(of_tenant(&[]), warning("Tenant tenants/acme was not seen by the operator"));
        let dead = change(&|found| found.webhooks = Ok(vec![webhook(&[("Ready", "True", "Ready")], 3)]));
        assert_eq!(dead, warning("Webhook tenants/orders has 3 dead letters"));
        let one = change(&|found| found.webhooks = Ok(vec![webhook(&[("Ready", "True", "Ready")], 1)]));
        assert_eq!(one, warning("Webhook tenants/orders has 1 dead letter"));
        let unserved = change(&|found| {
            found.definitions.as_mut().expect("read")[0].spec.versions[0].served = false;
        });
        assert_eq!(unserved, failed("tenants.docket.dev does not serve v1alpha1"));
        let mut scaled_down = deployment("worker", 0);
        scaled_down.spec.replicas = Some(0);
        assert_eq!(deployed(2, scaled_down), failed("worker: 0 of 0 pods are available"));
        assert_eq!(
            of_tenant(&[("Ready", "True", "Ready"), ("WithinLimits", "False", "LimitReached")]),
            failed("Tenant tenants/acme: WithinLimits False (LimitReached): because\nof it")
        );
        let health = [("Ready", "True", "Ready"), ("DeliveryHealthy", "False", "Retrying")];
        assert_eq!(
            change(&|found| found.webhooks = Ok(vec![webhook(&health, 0)])),
            warning("Webhook tenants/orders: DeliveryHealthy False (Retrying): because\nof it")
        );
    }

    #[test]
    fn a_failed_check_is_a_problem_and_a_warning_is_none() {
        let mut found = well();
        found.deployments.as_mut().expect("read")[2] = deployment("worker", 1);
        assert!(print(&installed(&found), Output::Table).is_ok());
        found.definitions = Ok(vec![]);
        let problem = print(&installed(&found), Output::Table).expect_err("two definitions are missing");
        assert_eq!((problem.exit_code(), problem.to_string()), (1, "2 checks failed".to_owned()));
        let lines = text(&installed(&found));
        assert!(
            lines.contains("  × tenants.docket.dev is not installed\n    fix: install the chart"),
            "{lines}"
        );
    }

    #[test]
    fn namespace_without_a_tenant_is_a_warning_that_says_how_to_declare_one() {
        let mut found = well();
        (found.namespace, found.tenants, found.webhooks) = (Some("a".to_owned()), Ok(vec![]), Ok(vec![]));
        let lines = installed(&found);
        assert_eq!(
            wrong(&found),
            [(Result::Warning, "there is no Tenant in namespace a; -A looks in all".to_owned())]
        );
        assert!(text(&lines).contains("    fix: declare one "), "{lines:?}");
        assert!(print(&lines, Output::Table).is_ok());
    }

    #[test]
    fn missing_right_leaves_the_other_lines_and_only_that_to_definitions_is_no_error() {
        let forbidden = || Problem::NoAccess("forbidden: get".to_owned());
        let mut found = well();
        found.definitions = Err(forbidden());
        let definitions = "the definitions of Docket can't be read: forbidden: get".to_owned();
        assert_eq!(wrong(&found), [(Result::Warning, definitions.clone())]);
        assert!(print(&installed(&found), Output::Table).is_ok());
        found.tenants = Err(forbidden());
        let tenants = (Result::Unknown, "the Tenants can't be read: forbidden: get".to_owned());
        assert_eq!(wrong(&found), [(Result::Warning, definitions.clone()), tenants.clone()]);
        let lines = installed(&found);
        let problem = print(&lines, Output::Json).expect_err("the Tenants were not checked");
        assert_eq!((problem.exit_code(), problem.text()), (3, "not everything was checked: forbidden: get"));
        assert!(text(&lines).contains("  ? the Tenants can't be read"), "{lines:?}");
        found.webhooks = Err(Problem::unserved("webhooks", "docket.dev"));
        assert_eq!(wrong(&found).last().map(|(result, _)| *result), Some(Result::Failed));
        let problem = print(&installed(&found), Output::Table).expect_err("there is no such kind");
        assert_eq!(problem.exit_code(), 1);
    }

    #[test]
    fn api_server_that_answers_nothing_is_one_error() {
        let away = || Problem::Unavailable("the API server is not available: connection refused".to_owned());
        let mut found = well();
        found.definitions = Err(away());
        let problem = print_installed(&found, Output::Json).expect_err("one part is unknown");
        assert!(problem.exit_code() == 3 && problem.text().starts_with("not everything was checked: "));
        (found.deployments, found.tenants, found.webhooks) = (Err(away()), Err(away()), Err(away()));
        assert_eq!(print_installed(&found, Output::Json), Err(away()));
    }

    #[test]
    fn pages_exist() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for page in [INSTALLATION, A_TENANT, RESEND, RIGHTS, conditions::PAGE] {
            let (path, _) = page.split_once(".html").expect("a page");
            assert!(std::path::Path::new(&format!("{folder}{path}.md")).exists(), "{page}");
        }
    }

    #[test]
    fn what_an_installation_needs_is_checked_before() {
        let ready =
            Before { version: (1, 34), definitions: vec![], rights: vec![("create secrets".into(), true)] };
        assert!(before(&ready).iter().all(|line| line.result == Result::Ok));
        let not = Before {
            version: (1, 31),
            definitions: vec![definition("tenants.docket.dev", "True")],
            rights: vec![("create secrets".into(), false)],
        };
        let results: Vec<Result> = before(&not).iter().map(|line| line.result).collect();
        assert_eq!(results, [Result::Failed, Result::Failed, Result::Warning]);
    }
}
