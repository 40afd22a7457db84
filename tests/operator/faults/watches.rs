//! Watches that end in the middle, that do not begin, and lists from the past. Watches that fall silent are in `silent.rs`.

use docket_tests::apiserver::{Watches, cluster};
use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;

use super::settled::{Seen, on_server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_while_watches_are_broken_is_found() {
    const CHANGE: &str = r#"{"spec":{"displayName":"Changed"}}"#;
    const FAILED: &str = "docket_operator_watch_errors_total";
    let mut release = Release::new("missed");
    release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    operator.leads().await;
    // After a refused watch, the next watch begins with the earlier version. After an expired watch, the operator has only new
    // lists.
    for (round, broken) in [Watches::Refused, Watches::Expired].into_iter().enumerate() {
        let [kept, gone, new] = ["kept", "gone", "new"].map(|what| format!("missed{what}{round}"));
        let hook = format!("{kept}-hook");
        release.apply(&(tenant_yaml(&kept) + &tenant_yaml(&gone)));
        release.apply(&webhook_yaml(&hook, &kept, "  generateSecret: {}\n"));
        release.wait("webhook", &hook, "Ready", "True").await;
        release.wait("tenant", &gone, "Ready", "True").await;

        let failures = operator.metric(FAILED).await;
        gate.set_watches(broken);
        release.kubectl(&["delete", "tenant", &gone]);
        release.kubectl(&["delete", "webhook", &hook]);
        release.kubectl(&["patch", "tenant", &kept, "--type=merge", "-p", CHANGE]);
        release.apply(&tenant_yaml(&new));
        // Five watches of the namespace, and one of the runtime Secrets.
        eventually("each has failed", SOON, async || operator.metric(FAILED).await >= failures + 6.0).await;
        if broken == Watches::Refused {
            gate.set_watches(Watches::Open);
        }
        for (name, what) in [(&gone, "it is gone"), (&kept, "it is changed"), (&new, "it is made")] {
            let is_so = || {
                let seen = Seen::of(&release, name);
                seen.is_removed() || !seen.tenant.is_null() && seen.is_settled()
            };
            eventually(&format!("{what}, with watches {broken:?}"), SOON, async || is_so()).await;
        }
        assert!(Seen::of(&release, &gone).is_removed());
        let served = Seen::of(&release, &kept).runtime["config"].clone();
        assert_eq!(served["displayName"], "Changed");
        assert_eq!(served["webhooks"].as_array().map(Vec::len), Some(0));
        gate.set_watches(Watches::Open);
    }
}

/// An operator may start on an API server that is behind the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_from_the_past_undo_nothing() {
    const DROPPED: &str = "pastdropped";
    const KEPT: &str = "pastkept";
    const SUSPEND: &str = r#"{"spec":{"suspend":true}}"#;
    let mut release = Release::new("past");
    let admin = release.with_postgres().await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let operator = release.start().await;
    let delete = format!("{{name: tenant_{DROPPED}, deletionPolicy: Delete}}");
    release.apply(&tenant_yaml(DROPPED).replace(&format!("{{name: tenant_{DROPPED}}}"), &delete));
    release.apply(&tenant_yaml(KEPT));
    for tenant in [DROPPED, KEPT] {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    assert!(operator.terminate().await.success());

    gate.record_lists();
    let operator = release.start().await;
    operator.leads().await;
    gate.pass_lists();
    let second = "[{name: primary, generate: {}}, {name: second, generate: {}}]";
    release.apply(&tenant_yaml(KEPT).replace("[{name: primary, generate: {}}]", second));
    eventually("it has a second key", SOON, async || {
        let seen = Seen::of(&release, KEPT);
        seen.runtime["generation"] == 2 && seen.is_settled()
    })
    .await;
    release.kubectl(&["delete", "tenant", DROPPED, "--timeout=60s"]);
    assert!(operator.terminate().await.success());
    let before = Seen::of(&release, KEPT);
    let state = before.state(&admin).await;

    gate.replay_lists();
    gate.set_watches(Watches::Refused);
    let mark = cluster().mark();
    let operator = release.start().await;
    operator.leads().await;
    for tenant in [DROPPED, KEPT] {
        let said = format!("{}/{tenant}", release.tenants);
        let is_noticed = || {
            let log = operator.text();
            log.lines().any(|line| line.contains("is behind the API server") && line.contains(&said))
        };
        eventually("the old list is noticed", SOON, async || is_noticed()).await;
    }
    assert_eq!(release.writes(mark), Vec::<String>::new());
    gate.pass_lists();
    gate.set_watches(Watches::Open);

    release.kubectl(&["patch", "tenant", KEPT, "--type=merge", "-p", SUSPEND]);
    release.wait("tenant", KEPT, "Ready", "False Suspended").await;
    let after = Seen::of(&release, KEPT);
    after.keeps_values_of(&before, "after a list from the past");
    assert_ne!(after.state(&admin).await, state, "it is suspended");
    assert_eq!(on_server(&admin, DROPPED).await, Vec::<String>::new());
    let made: Vec<_> =
        release.writes(mark).into_iter().filter(|write| write.starts_with("create secrets/")).collect();
    assert_eq!(made, Vec::<String>::new());
}
