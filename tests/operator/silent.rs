//! Watches on which nothing comes any more, over a way to the API server that works for everything else.

use std::time::Duration;

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, object, tenant_yaml};
use docket_tests::server::eventually;

const LEADER: &str = "docket_operator_leader";
const SILENT: &str = "docket_operator_silent_watches_total";

/// The operator notices a silent watch after 65 s, and opens it again.
const NOTICED: Duration = Duration::from_secs(120);
/// A watch that does not open fails after 75 s, and is tried again after 30 s at most. The leader gives up after 150 s.
const GIVEN_UP: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_watches_are_opened_again_and_counted() {
    let mut release = Release::new("silent");
    release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    operator.leads().await;
    release.apply(&tenant_yaml("unheard"));
    release.wait("tenant", "unheard", "Ready", "True").await;
    assert_eq!(operator.metric(SILENT).await, 0.0);

    gate.silence_open_watches();
    release.kubectl(&["patch", "tenant", "unheard", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]);
    let is_handled = async || release.condition("tenant", "unheard", "Ready").starts_with("False Suspended");
    eventually("the change is seen", NOTICED, is_handled).await;
    eventually("the silence is counted", NOTICED, async || operator.metric(SILENT).await >= 1.0).await;
    assert_eq!(operator.metric(LEADER).await, 1.0, "it saw again in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes five minutes; docs/project/verify.md has the command"]
async fn blind_leader_gives_up_the_lease_until_it_sees_again() {
    let mut release = Release::new("blind");
    release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    operator.leads().await;

    gate.silence_watches(true);
    let holder = || {
        let lease = object(cluster(), &release.namespace, "lease", "docket-operator");
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    };
    eventually("it gives the lease up", GIVEN_UP, async || holder().as_deref() == Some("")).await;
    assert_eq!(operator.metric(LEADER).await, 0.0);
    let age = operator.metric("docket_operator_watch_age_seconds{kind=\"Tenant\"}").await;
    assert!(age >= 150.0, "{age}");

    gate.silence_watches(false);
    eventually("it sees again and leads", GIVEN_UP, async || operator.metric(LEADER).await == 1.0).await;
    release.apply(&tenant_yaml("seen"));
    release.wait("tenant", "seen", "Ready", "True").await;
}
