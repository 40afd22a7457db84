//! Several operators: one writes, another takes over.

use std::time::{Duration, Instant};

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Operator, Release, object, tenant_yaml};
use docket_tests::server::signal;

/// A replica that leads, and another that waits.
async fn two_replicas(release: &mut Release) -> [Operator; 2] {
    release.with_postgres().await;
    let first = release.start().await;
    first.leads().await;
    let mut second = release.spawn("second");
    second.ready().await;
    [first, second]
}

#[tokio::test]
async fn one_of_two_writes_and_the_other_takes_over_at_once_when_it_stops() {
    let mut release = Release::new("two");
    release.lease_seconds = 60;
    let [first, second] = two_replicas(&mut release).await;
    release.apply(&tenant_yaml("shared-one"));
    release.wait("tenant", "shared-one", "Ready", "True").await;
    assert_eq!(second.metric("docket_operator_leader").await, 0.0);
    assert_eq!(second.metric("docket_operator_reconcile_total{kind=\"Tenant\",result=\"ok\"}").await, 0.0);

    let mark = cluster().mark();
    assert!(first.terminate().await.success());
    let begun = Instant::now();
    second.leads().await;
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it need not wait for the lease's end: {:?}",
        begun.elapsed()
    );
    release.apply(&tenant_yaml("shared-two"));
    release.wait("tenant", "shared-two", "Ready", "True").await;
    let again: Vec<_> =
        release.writes(mark).into_iter().filter(|write| write.contains("shared-one")).collect();
    assert_eq!(again, Vec::<String>::new(), "nothing to do about what was done");
}

#[tokio::test]
async fn one_that_waits_leaves_the_lease_with_its_holder_when_it_stops() {
    let mut release = Release::new("waiting");
    release.lease_seconds = 60;
    let [first, second] = two_replicas(&mut release).await;
    let holder = || {
        let lease = object(cluster(), &release.namespace, "lease", "docket-operator");
        lease["spec"]["holderIdentity"].as_str().expect("a text").to_owned()
    };
    let before = holder();
    assert!(!before.is_empty());
    assert!(second.terminate().await.success());
    assert_eq!(holder(), before);
    assert_eq!(first.metric("docket_operator_leader").await, 1.0);
}

#[tokio::test]
async fn one_that_was_frozen_does_not_write_when_it_wakes_up() {
    let mut release = Release::new("frozen");
    let [first, second] = two_replicas(&mut release).await;
    signal(first.id(), "STOP");
    release.apply(&tenant_yaml("thawed"));
    second.leads().await;
    release.wait("tenant", "thawed", "Ready", "True").await;
    let before = release.runtime("thawed");
    let mark = cluster().mark();
    signal(first.id(), "CONT");
    docket_tests::server::eventually("it sees that it lost the lease", Duration::from_secs(30), async || {
        first.metric("docket_operator_leader").await == 0.0
    })
    .await;
    assert_eq!(release.writes(mark), Vec::<String>::new());
    assert_eq!(release.runtime("thawed"), before);
}
