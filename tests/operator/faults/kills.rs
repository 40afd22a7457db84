//! The operator killed just after each of its writes: what it leaves behind is finished by the next one, and nothing is made twice.
//!
//! Writes to the API server count here. Statements to PostgreSQL count in `database/crash.rs`.

use std::time::{Duration, Instant};

use docket_tests::apiserver::{Gate, cluster};
use docket_tests::operator::{Operator, Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;

use super::settled::{Seen, normalised};

/// An operator behind a gate, and its successors.
struct Stage {
    release: Release,
    admin: String,
    gate: Gate,
    operator: Option<Operator>,
}

/// One kind of change.
struct Change<'a> {
    /// The beginning of the names of its Tenants.
    name: &'a str,
    /// What a Tenant of this name has before; empty: nothing.
    before: &'a dyn Fn(&str) -> String,
    /// The change.
    change: &'a dyn Fn(&Release, &str),
    /// The number of writes may differ from run to run: the operator may see the middle of the change, or Kubernetes may change the same
    /// objects.
    varies: bool,
}

impl<'a> Change<'a> {
    fn new(name: &'a str, before: &'a dyn Fn(&str) -> String, change: &'a dyn Fn(&Release, &str)) -> Self {
        Self { name, before, change, varies: false }
    }
}

impl Stage {
    async fn new(purpose: &str) -> Self {
        let mut release = Release::new(purpose);
        let admin = release.with_postgres().await;
        let gate = release.with_gate().await;
        gate.allow_all();
        let operator = release.start().await;
        // The watcher of their server is made with the first Tenant.
        let first = format!("{purpose}first");
        release.apply(&tenant_yaml(&first));
        release.wait("tenant", &first, "Ready", "True").await;
        Self { release, admin, gate, operator: Some(operator) }
    }

    /// Makes the change without a kill, and then once for each of its writes, with a kill after this write.
    async fn survives(&mut self, change: &Change<'_>) {
        let (what, name) = (change.name, format!("{}00", change.name));
        self.prepare(change, &name).await;
        let mark = cluster().mark();
        self.gate.allow(usize::MAX);
        (change.change)(&self.release, &name);
        eventually(what, SOON, async || Seen::of(&self.release, &name).is_settled()).await;
        let expected = Seen::of(&self.release, &name).state(&self.admin).await;
        let writes = self.writes(mark, &name);
        assert!(!writes.is_empty(), "{what}: nothing was written");

        let mut kills = 0;
        loop {
            let name = format!("{what}{:02}", kills + 1);
            if !self.is_killed_after(kills + 1, change, &name, &expected, &writes).await {
                break;
            }
            kills += 1;
        }
        println!("{what}: {} writes without Events", writes.len());
        // The long form of a fault test adds these up.
        println!("counted: {kills} kills");
        // After its last write it has no other to be killed before.
        // Each of the others met a state that was not the final one.
        assert!(change.varies || kills + 1 >= writes.len(), "{what}: {kills} kills for {writes:?}");
    }

    async fn prepare(&self, change: &Change<'_>, name: &str) {
        let before = (change.before)(name);
        if !before.is_empty() {
            self.release.apply(&before);
            let is_there = || {
                let seen = Seen::of(&self.release, name);
                !seen.tenant.is_null() && seen.is_settled()
            };
            eventually("it settles before the change", SOON, async || is_there()).await;
        }
    }

    /// Returns whether there was a write after this one; then the operator was killed before it.
    async fn is_killed_after(
        &mut self,
        write: usize,
        change: &Change<'_>,
        name: &str,
        expected: &str,
        writes: &[String],
    ) -> bool {
        let what = format!("{}, write {write}", change.name);
        self.prepare(change, name).await;
        let mark = cluster().mark();
        self.gate.allow(write);
        (change.change)(&self.release, name);
        let is_held = || self.gate.waiting() > 0 && self.gate.ended() == write;
        eventually(&what, SOON, async || is_held() || Seen::of(&self.release, name).is_settled()).await;
        let (was_held, held) = (is_held(), self.gate.pending_writes());
        let unfinished = Seen::of(&self.release, name);
        // A pass that has an old copy of the Tenant may repeat the last write: then nothing is left for it.
        let is_last = held.iter().any(|held| !held.contains("/events"))
            && unfinished.state(&self.admin).await == expected;

        self.operator.take().expect("one runs").kill();
        self.gate.allow_all();
        self.release.end_lease();
        self.operator = Some(self.release.start().await);
        let begun = Instant::now();
        let ended = loop {
            let seen = Seen::of(&self.release, name);
            let state = seen.state(&self.admin).await;
            if seen.is_settled() && state == expected {
                break seen;
            }
            let logs = || self.release.logs();
            assert!(begun.elapsed() < SOON, "{what}: it ends as {state}, not as {expected}; {}", logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        ended.keeps_values_of(&unfinished, &what);
        ended.can_log_in().await;
        if !change.varies && !is_last {
            // Both operators together wrote each object once.
            assert_eq!(self.writes(mark, name), writes, "{what}");
        }
        was_held && !is_last
    }

    /// The writes about a Tenant since `mark`, without Events and statuses: a status may be reported again.
    fn writes(&self, mark: u64, name: &str) -> Vec<String> {
        let all = self.release.writes(mark).into_iter();
        let all = all.filter(|write| !write.contains(" events/") && !write.contains("/status/"));
        let mut all: Vec<String> = all.map(|write| normalised(&write, name)).collect();
        all.sort();
        all
    }
}

/// Two generated values, and the numbers of their rotations.
fn tenant(name: &str, rotation: u8, more: &str) -> String {
    let database = format!("{{name: tenant_{name}}}");
    tenant_yaml(name)
        .replace("generate: {}", &format!("generate: {{rotationGeneration: {rotation}}}"))
        .replace(&database, &format!("{{name: tenant_{name}, passwordRotationGeneration: {rotation}{more}}}"))
}

fn nothing(_: &str) -> String {
    String::new()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_about_a_tenant_it_ends_in_the_same_state() {
    const DELETE: &str = ", deletionPolicy: Delete";
    let mut stage = Stage::new("killed").await;
    let plain = |name: &str| tenant(name, 0, "");
    stage
        .survives(&Change::new("making", &nothing, &|release, name| release.apply(&tenant(name, 0, DELETE))))
        .await;
    stage
        .survives(&Change::new("changing", &plain, &|release, name| {
            let changed = tenant(name, 0, ", connectionLimit: 7");
            let more = "  displayName: Changed\n  limits: {webhooks: 7}\n  clientCode:";
            release.apply(&changed.replace("  clientCode:", more));
        }))
        .await;
    stage
        .survives(&Change::new("rotating", &plain, &|release, name| release.apply(&tenant(name, 1, ""))))
        .await;
    stage
        .survives(&Change::new("suspending", &plain, &|release, name| {
            let suspend = r#"{"spec":{"suspend":true}}"#;
            release.kubectl(&["patch", "tenant", name, "--type=merge", "-p", suspend]);
        }))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_about_a_removed_tenant_it_leaves_what_its_policy_says() {
    let mut stage = Stage::new("killedlast").await;
    // The controllers delete objects whose owners are gone.
    cluster().start_controllers();
    let remove = |release: &Release, name: &str| {
        release.kubectl(&["delete", "tenant", name, "--wait=false"]);
    };
    for (name, more) in [("retaining", ""), ("dropping", ", deletionPolicy: Delete")] {
        let before = |tenants: &str| tenant(tenants, 0, more);
        // A pass that has an old copy of a removed Tenant repeats a deletion, which then finds nothing.
        stage.survives(&Change { name, before: &before, change: &remove, varies: true }).await;
        let left = super::settled::on_server(&stage.admin, &format!("{name}00")).await;
        assert_eq!(left.len(), if more.is_empty() { 2 } else { 0 }, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_each_write_about_a_webhook_it_ends_in_the_same_state() {
    let mut stage = Stage::new("killedhook").await;
    let plain = |name: &str| tenant(name, 0, "");
    let webhook = |name: &str, more: &str| webhook_yaml(&format!("{name}-hook"), name, more);
    let generated = |name: &str| webhook(name, "  generateSecret: {}\n");
    let with_webhook = |name: &str| plain(name) + &generated(name);
    let secret = |name: &str, value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}-sign, labels: {{docket.dev/watch: 'true'}}}}\n\
             stringData: {{secret: {value}}}\n---\n"
        )
    };
    let with_watched_secret = |name: &str| {
        let webhook = webhook(name, &format!("  secretRef: {{name: {name}-sign}}\n"));
        secret(name, "one") + &plain(name) + &webhook
    };
    stage
        .survives(&Change::new("hookmaking", &plain, &|release, name| release.apply(&generated(name))))
        .await;
    stage
        .survives(&Change::new("hookchanging", &with_webhook, &|release, name| {
            let rotated = webhook(name, "  generateSecret: {rotationGeneration: 1}\n  active: false\n");
            release.apply(&rotated);
        }))
        .await;
    stage
        .survives(&Change::new("hookwatching", &with_watched_secret, &|release, name| {
            release.apply(&secret(name, "two"));
        }))
        .await;
    let replace = |release: &Release, name: &str| {
        let arguments = ["--namespace", &release.tenants, "replace", "--force", "-f", "-"];
        cluster().kubectl(&arguments, &generated(name)).expect("it is replaced");
    };
    let remove = |release: &Release, name: &str| {
        release.kubectl(&["delete", "webhook", &format!("{name}-hook")]);
    };
    let recreating = Change::new("hookrecreating", &with_webhook, &replace);
    stage.survives(&Change { varies: true, ..recreating }).await;
    // Where Kubernetes deletes what has no owner, it also removes the owner that is gone from the signing secret.
    let removing = Change::new("hookremoving", &with_webhook, &remove);
    stage.survives(&Change { varies: true, ..removing }).await;
}
