//! Two leaders: one that is frozen in the middle of its writes, and the next one. The writes of the first arrive when the second has
//! finished.

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Operator, Release, SOON, tenant_yaml};
use docket_tests::server::{eventually, signal};

use super::settled::{Objects, Seen};

const TENANTS: usize = 6;

fn name(number: usize) -> String {
    format!("late{number}")
}

/// All of them, with this rotation of their keys and passwords.
fn yaml(rotation: u8, suspend: bool) -> String {
    let one = |number| {
        let name = name(number);
        let code = format!("  suspend: {suspend}\n  clientCode:");
        let database = format!("{{name: tenant_{name}, passwordRotationGeneration: {rotation}}}");
        tenant_yaml(&name)
            .replace("  clientCode:", &code)
            .replace("generate: {}", &format!("generate: {{rotationGeneration: {rotation}}}"))
            .replace(&format!("{{name: tenant_{name}}}"), &database)
    };
    (0..TENANTS).map(one).collect()
}

fn seen(release: &Release) -> Vec<Seen> {
    let objects = Objects::of(release);
    (0..TENANTS).map(|number| objects.about(&name(number))).collect()
}

/// Waits until all are served as of this generation.
async fn settle(release: &Release, generation: usize) -> Vec<Seen> {
    let is_so = |one: &Seen| one.runtime["generation"] == generation && one.is_settled();
    eventually("all are served as declared", SOON, async || seen(release).iter().all(is_so)).await;
    seen(release)
}

async fn wakes_up(operator: &Operator) {
    signal(operator.id(), "CONT");
    let leads = async || operator.metric("docket_operator_leader").await == 1.0;
    eventually("it sees that it lost the lease", SOON, async || !leads().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_a_frozen_leader_that_arrive_late_change_nothing() {
    let mut release = Release::new("late");
    let admin = release.with_postgres().await;
    // One has its own way to the API server, and makes the watcher of the database server.
    let mut direct = release.spawn("direct");
    direct.ready().await;
    release.apply(&tenant_yaml("latefirst"));
    release.wait("tenant", "latefirst", "Ready", "True").await;
    let gate = release.with_gate().await;
    gate.allow_all();
    let mut gated = release.spawn("gated");
    gated.ready().await;

    // The number of writes after which the first leader is in the middle of each Tenant: with all Secrets and Events of new ones, so that
    // each lacks its runtime Secret; with half of the keys rotated; before any write.
    let rounds = [(4 * TENANTS, yaml(0, false)), (TENANTS / 2, yaml(1, false)), (0, yaml(1, true))];
    for (round, (writes, yaml)) in rounds.iter().enumerate() {
        signal(direct.id(), "STOP");
        gated.leads().await;
        wakes_up(&direct).await;

        let mark = cluster().mark();
        gate.hold_writes_after(Some(*writes));
        release.apply(yaml);
        let is_done = |one: &&Seen| one.runtime["generation"] == round + 1 && one.is_settled();
        let done = || seen(&release).iter().filter(is_done).count();
        let is_held = async || {
            let held = gate.pending_writes().len();
            held > 0 && held + done() >= TENANTS
        };
        eventually("it is in the middle of each", SOON, is_held).await;
        signal(gated.id(), "STOP");
        direct.leads().await;
        let before = settle(&release, round + 1).await;
        println!("round {round}: late are {:?}", gate.pending_writes());
        gate.hold_writes_after(None);
        let is_through = async || gate.pending_writes().is_empty();
        eventually("the late writes arrive", SOON, is_through).await;
        wakes_up(&gated).await;

        let after = settle(&release, round + 1).await;
        for (after, before) in after.iter().zip(&before) {
            after.keeps_values_of(before, &format!("round {round}"));
            assert_eq!(after.state(&admin).await, before.state(&admin).await, "round {round}");
            after.can_log_in().await;
        }
        let mut made: Vec<String> = cluster()
            .writes(mark)
            .into_iter()
            .filter(|write| write.user == release.user() && write.resource == "secrets")
            .filter(|write| write.verb == "create" && write.code == 201)
            .map(|write| write.name)
            .collect();
        let count = made.len();
        made.sort();
        made.dedup();
        assert_eq!(made.len(), count, "round {round}: made twice, among {made:?}");
        assert_eq!(count, if round == 0 { 3 * TENANTS } else { 0 }, "round {round}: {made:?}");
    }
}
