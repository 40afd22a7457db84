//! Generated pages are up to date with this program.

mod commands;
mod http;
mod kinds;
mod limits;
mod metrics;
mod names;
mod problems;
mod schemas;
mod tables;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use clap::CommandFactory;
use docket::api::openapi;
use docket::http::problem_type::ProblemType;
use docket::telemetry::Task;
use docket_crds::{Tenant, Webhook};
use docket_docs::{ROOT, Site};
use docket_domain::delivery::{BACKOFF_BASE, DeliveryId, FailureClass, Next, Outcome, Report, after_attempt};
use docket_domain::failure::{Cause, Failure};
use docket_domain::status;
use docket_operator::metrics::{Failing, Store};
use docket_operator::state::migrations::MigrationCounts;
use docket_operator::state::name::Name;
use docket_schedule::Overdue;
use docket_schema::MIGRATIONS;
use docket_store::postgres::{Budget, ConnectionLimits, UsedConnections};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

/// What every generated page begins with.
fn head(title: &str, about: &str) -> String {
    format!(
        "# {title}\n\n<!-- This page is generated: UPDATE_DOCS=1 cargo test -p docket-tests --test docket story::reference -->\n\n{about}\n"
    )
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    // Every second part is code.
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

fn metrics_page() -> String {
    let docket = docket::telemetry::Metrics::default();
    docket.serves(["/Orders/Save"]);
    docket.configured(0, 0);
    docket.delivery.due(Some(&Overdue::default()));
    for task in Task::ALL {
        docket.upkeep.runs(task);
        if task.has_rounds() {
            docket.upkeep.round(task, 0, Duration::ZERO);
        }
    }
    let budget = Budget::new(ConnectionLimits { total: 1, per_tenant: 1 });
    let server = budget.counts().add_server("postgresql.example:5432".into(), false);
    server.responded(true);
    server.uses(Some(UsedConnections::default()));
    docket.stores.postgres(budget);
    docket.stores.redis(|| Some(true), || false);
    let operator = docket_operator::metrics::Metrics::default();
    operator.leads(true);
    operator.store(Store::Redis, true);
    operator.store(Store::Postgres("main"), true);
    operator.dead_letters(Some(0));
    operator.failing(Some(Failing::default()));
    operator.migrations(MigrationCounts::default(), true, 0);
    let condition = json!({"type": "Ready", "status": "False", "reason": "Pending", "message": "", "lastTransitionTime": "2026-11-21T05:06:07Z"});
    let condition: Condition = serde_json::from_value(condition).expect("a condition");
    let name = Name { namespace: "tenants".into(), name: "acme".into() };
    operator.conditions::<Tenant>(&name, std::slice::from_ref(&condition));
    operator.conditions::<Webhook>(&name, &[condition]);
    let about = "Prometheus reads these metrics at `/metrics` of the management port, 9090. Only `docket_tenant_condition` has the names of\n\
                 Tenants in its labels. [Alerts](../troubleshoot/alerts.md) describes the alerts of the chart.";
    format!(
        "{}\n## docket\n{}\n## docket-operator\n{}",
        head("Metrics", about),
        metrics::sections(&docket.text()),
        metrics::sections(&operator.text()),
    )
}

/// The beginning of the page about the HTTP API.
const HTTP_API: &str = r#"Each section is about one route: what it does, its parameters and fields with type, range and default, its errors, and an
example. Every running Docket serves the same description: at `/swagger/`, where you can try the requests, and at `/openapi.json` for
programs. The response to a failed request has an [`application/problem+json`](problems.md) body, and every response the header
`X-Request-Id`. Times of responses are in UTC. [Events](events.md) describes what receivers get.

## Run the examples

The examples call the tenant ACME of `docket dev`, in the order of this page. Your ids, times and tokens differ.

- Run `docket dev` in the repository, as in [Get started](../start/embedded.md). <!-- sample -->
- Sign in as a contact, and as an administrator:

```sh test
TOKEN=$(curl -s http://acme.localhost:8080/Auth/Token -H 'Content-Type: application/json' \
  -d '{"userId":"ada@quillfeather.example","password":"docket-sample-1"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
ADMIN=$(curl -s http://acme.localhost:8080/Employee/SignIn -H 'Content-Type: application/json' \
  -d '{"userId":"admin","password":"docket-sample-1"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
```"#;

fn pages() -> Vec<(&'static str, String)> {
    let [tenant, webhook] =
        docket_crds::crd::definitions().map(|it| serde_json::to_value(it).expect("plain data"));
    let [api, events] = [openapi::document(), openapi::events::document()]
        .map(|document| serde_json::to_value(document).expect("string keys only"));
    let version = MIGRATIONS.last().map_or(0, |last| last.version);
    vec![
        (
            "problems.md",
            head(
                "Problems",
                "Every response of the API that reports a failure is a problem of RFC 9457, `application/problem+json`. Its `type` leads to a\n\
                 heading of this page. Write programs that decide by `type` and `status`: `detail` is for people, and its text may change.\n\
                 `requestId` is also in the header `X-Request-Id`; the people who run Docket find the request in the log by it. Each section says\n\
                 what is wrong and what to do, and shows the body of a response. [Read an error](../api/errors.md) is the page to begin with.",
            ) + &problems::sections(),
        ),
        (
            "docket.md",
            commands::page(
                "docket",
                "`docket` is the program of the API, the workers, the detector and the portal, with its tools. Without a command, it runs\n\
                 `docket dev`. An argument on the command line takes precedence over its environment variable.",
                docket::args::Arguments::command(),
            ),
        ),
        (
            "docket-operator.md",
            commands::page(
                "docket-operator",
                "`docket-operator` is the operator of Docket. The chart sets its arguments. To change them, set\n\
                 [the values](../../charts/docket/README.md) of the chart.",
                docket_operator::args::Arguments::command(),
            ),
        ),
        (
            "tenant.md",
            kinds::page(
                "Tenant",
                "A Tenant declares one customer database with its API keys, its subdomains and its limits.",
                &tenant,
            ),
        ),
        (
            "webhook.md",
            kinds::page(
                "Webhook",
                "A Webhook declares one URL that gets the events of one customer of a Tenant.",
                &webhook,
            ),
        ),
        ("http-api.md", head("HTTP API", HTTP_API) + &http::operations(&api)),
        (
            "events.md",
            format!(
                "{}\n## Headers\n\n{}{}",
                head(
                    "Events",
                    "A receiver gets one POST for each attempt of a delivery; its body is the payload. The OpenAPI document `/openapi/events.json` describes it for programs.\n\
                     To read that document at `/swagger/`, choose *Events* in the top bar. [Verify a delivery](../webhooks/verify.md) has code\n\
                     that checks the signatures.",
                ),
                http::headers(),
                http::events(&events),
            ),
        ),
        ("metrics.md", metrics_page()),
        (
            "kubernetes-events.md",
            format!(
                "{}\n## Conditions\n\n{}{}",
                head(
                    "Kubernetes Events",
                    "The operator publishes an Event about a Tenant or a Webhook when the status or the reason of a condition changes, and when\n\
                     something else happens to the object. The steps of every change, `Pending` and `Provisioning`, have no Event.\n\
                     `kubectl describe` shows the Events. [Conditions](conditions.md) says how to fix each reason.",
                ),
                names::conditions(),
                names::events(),
            ),
        ),
        (
            "labels.md",
            format!(
                "{}\n{}",
                head("Labels and annotations", "You or Docket set these on objects in Kubernetes."),
                names::labels()
            ),
        ),
        (
            "tables.md",
            head(
                "Tables",
                &format!(
                    "These are the tables of a tenant's database in schema version {version}. They are the same on PostgreSQL and SQLite. The\n\
                     [back office](../back-office/work-orders.md) writes some of them. Every other table belongs to Docket, and may change with\n\
                     each version. A column whose name ends in `_ms` is a time in milliseconds since 1970 in UTC. A column whose name ends in\n\
                     `_cents` is an amount of money in cents."
                ),
            ) + &tables::sections(),
        ),
        (
            "limits.md",
            format!(
                "{}\n## Of one tenant\n\nSet these limits in [`spec.limits`](tenant.md#spec) of a Tenant. The platform can set other defaults, and maxima. The metric\n\
                 `docket_tenant_limited_total` counts the requests and deliveries above a limit.\n\
                 [docket serve](../run/serve.md#bounds-of-a-process) has the bounds of a process.\n\n{}{}",
                head("Limits", "This page lists every bound that a user of Docket can reach."),
                limits::of_tenants(&tenant),
                limits::of_all(),
            ),
        ),
    ]
}

#[test]
fn generated_pages_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    for (name, text) in pages() {
        let path = docs.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).expect("writable");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{name} is of another version; make it again with UPDATE_DOCS=1");
    }
}

#[test]
fn each_type_of_problem_leads_to_a_heading() {
    let site = Site::new(true);
    for kind in ProblemType::ALL {
        let reference = kind.reference();
        let (path, anchor) = reference.split_once('#').expect("an anchor");
        let page = site.get(path.strip_prefix(ROOT).expect("below the root")).expect("a page");
        let page = std::str::from_utf8(page.bytes).expect("UTF-8");
        assert!(page.contains(&format!("<h2 id=\"{anchor}\">")), "{reference}");
    }
}

#[test]
fn each_error_status_of_a_route_has_types_of_problems() {
    let (document, problems) = (openapi::document(), openapi::problems());
    let document = serde_json::to_value(document).expect("string keys only");
    for (path, item) in document["paths"].as_object().expect("paths") {
        let operation = item.get("get").or(item.get("post")).expect("an operation");
        let responses = operation["responses"].as_object().expect("responses");
        let typed: BTreeSet<String> =
            problems[path].iter().map(|kind| kind.status().as_u16().to_string()).collect();
        let mut documented: BTreeSet<String> =
            responses.keys().filter(|status| *status != "200").cloned().collect();
        // `default` stands for every status that is not documented by itself.
        match documented.remove("default") {
            true => assert!(documented.is_subset(&typed), "{path}"),
            false => assert_eq!(documented, typed, "{path}"),
        }
    }
}

/// The numbers that a word of a cell stands for: one number, or a range such as `100 to 199`.
fn numbers(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once(" to ").unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// The parts of a section of failure-classes.md: the label and the text of each.
fn labelled(section: &str) -> Vec<(&str, &str)> {
    section.split("\n\n**").skip(1).filter_map(|part| part.split_once(":**")).collect()
}

/// Checks that a section has these parts, says more than the remedy, and names a command that tests the failure from outside.
fn helps(title: &str, section: &str, labels: &[&str], failure: Failure<'_>) {
    const TOOLS: [&str; 8] = ["curl ", "openssl ", "dig ", "docket ", "nc ", "ss -", "ab -", "kubectl "];
    let parts = labelled(section);
    assert_eq!(parts.iter().map(|(label, _)| *label).collect::<Vec<_>>(), labels, "{title}");
    assert!(section.len() > 100 && !section.contains(&failure.remedy()), "{title}: {section}");
    for (label, text) in parts {
        match label {
            "Test" => assert!(TOOLS.iter().any(|tool| text.contains(tool)), "{title}: no command in {text}"),
            "Usual causes" => assert!(text.contains("\n3. "), "{title}: fewer than three causes: {text}"),
            _ => assert!(text.len() > 4, "{title}: {label} is empty"),
        }
    }
}

/// Whether Docket tries a delivery again whose first attempt failed in this way.
fn is_tried_again(class: FailureClass) -> bool {
    let (id, failed) =
        (DeliveryId::new(Timestamp::UNIX_EPOCH, [7; 10]), Outcome::Failed(class, Report::default()));
    matches!(after_attempt(id, &failed, 1, Timestamp::UNIX_EPOCH, BACKOFF_BASE), Next::RetryAt(_))
}

#[test]
fn each_failure_class_cause_and_status_has_a_section_that_helps() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/failure-classes.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let titles: Vec<&str> = sections.iter().filter_map(|text| text.lines().next()).collect();
    assert_eq!(titles, FailureClass::WORDS);
    for (class, text) in FailureClass::ALL.into_iter().zip(sections) {
        let mut parts = text.split("\n### ");
        let own = parts.next().unwrap_or_default();
        helps(class.as_str(), own, &["Seen", "Usual causes", "Test", "Change", "Tried again"], class.into());
        let again = labelled(own).last().is_some_and(|(_, text)| text.starts_with(" Yes"));
        assert_eq!(again, is_tried_again(class), "{class}: whether it is tried again");
        let causes: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| cause.class() == class).collect();
        let parts: Vec<&str> = parts.collect();
        let titles: Vec<&str> = parts.iter().filter_map(|text| text.lines().next()).collect();
        assert_eq!(titles, causes.iter().map(|cause| cause.as_str()).collect::<Vec<_>>(), "{class}");
        for (cause, part) in causes.iter().zip(parts) {
            let failure = Failure { cause: Some(*cause), ..class.into() };
            helps(cause.as_str(), part, &["Seen", "Test", "Change"], failure);
        }
    }
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let given: BTreeSet<u16> =
        cells.flat_map(|cell| cell.split(", ")).filter_map(numbers).flatten().collect();
    for status in status::REMEDIES.iter().flat_map(|(first, last, _)| *first..=*last) {
        assert!(given.contains(&status), "{status}");
    }
}
