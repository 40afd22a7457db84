//! Secrets of other programs in the namespaces that the operator watches cost it no memory.

use std::time::Duration;

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Operator, Release, SOON, tenant_yaml};
use docket_tests::server::eventually;
use serde_json::json;

use crate::writes::passes;

/// The size of the value of each Secret.
const VALUE: usize = 32 * 1024;
/// How many Secrets a call of kubectl creates. More of them wait for its own rate limit.
const AT_ONCE: usize = 250;

/// Resident memory, in bytes.
fn memory(operator: &Operator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// Creates this many Secrets as other programs do: without a label of ours.
fn create(release: &Release, count: usize) {
    let value = "x".repeat(VALUE);
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = first..count.min(first + AT_ONCE);
        let secret = |number| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("foreign-{number}")},
                "stringData": {"value": value}})
        };
        let list =
            json!({"apiVersion": "v1", "kind": "List", "items": numbers.map(secret).collect::<Vec<_>>()});
        let create = ["--namespace", &release.tenants, "create", "-f", "-"];
        cluster().kubectl(&create, &list.to_string()).expect("the administrator creates Secrets");
    }
}

/// Requests a pass that reads everything, and waits for its end.
async fn whole_pass(release: &Release, tenant: &str, number: &str) {
    let request = format!("docket.dev/requestedAt={number}");
    release.kubectl(&["annotate", "--overwrite", "tenant", tenant, &request]);
    let is_handled = async || release.object("tenant", tenant)["status"]["lastHandledReconcileAt"] == number;
    eventually("the pass ends", SOON, is_handled).await;
}

/// The operator's memory with and without them, also after it has listed everything with them there.
async fn foreign_secrets_cost_nothing(purpose: &str, count: usize) {
    let mut release = Release::new(purpose);
    release.with_postgres().await;
    release.flags.push("--resync=1s".into());
    let operator = release.start().await;
    release.apply(&tenant_yaml(purpose));
    release.wait("tenant", purpose, "Ready", "True").await;
    whole_pass(&release, purpose, "1").await;
    passes(&operator, 10.0).await;
    let before = memory(&operator);

    create(&release, count);
    whole_pass(&release, purpose, "2").await;
    passes(&operator, 10.0).await;
    let grown = || memory(&operator).saturating_sub(before);
    eventually("its memory is as before", SOON, async || grown() < 1_000_000).await;

    operator.kill();
    let operator = release.start().await;
    operator.leads().await;
    passes(&operator, 10.0).await;
    let content = (count * VALUE) as u64;
    // Two processes differ by some hundred kilobytes.
    assert!(memory(&operator).saturating_sub(before) < content / 8, "{} bytes", memory(&operator));
    release.kubectl(&["delete", "secrets", "--all", "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_foreign_secrets_cost_no_memory() {
    foreign_secrets_cost_nothing("foreign", 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "stores 320 MB in etcd; docs/project/verify.md has the command"]
async fn ten_thousand_foreign_secrets_cost_no_memory() {
    tokio::time::timeout(Duration::from_secs(900), foreign_secrets_cost_nothing("crowded", 10_000))
        .await
        .expect("it ends within a quarter of an hour");
}
