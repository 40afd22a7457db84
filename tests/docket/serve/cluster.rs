//! Tenants from runtime Secrets of a real Kubernetes API: added, changed, broken, removed, and served while it is away.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_crds::{Runtime, TenantConfig, runtime};
use docket_rig::postgres;
use docket_rig::proxy::Proxy;
use docket_rig::tenant_database::tenant_config;
use docket_tests::apiserver::{Cluster, cluster};
use docket_tests::server::{Server, api_key, eventually, request};
use serde_json::{Value, json};

use crate::serve::stage::{SOON, Stage};

/// A change is served within this.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The pause between two retries of a watch.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The cluster of a test: a namespace, and a proxy to the API that can be cut.
pub(super) struct Place {
    cluster: &'static Cluster,
    pub(super) namespace: String,
    proxy: Proxy,
    pub(super) kubeconfig: String,
}

impl Place {
    pub(super) async fn new(stage: &Stage) -> Self {
        let cluster = tokio::task::spawn_blocking(cluster).await.expect("the API server starts");
        let namespace = cluster.namespace("serve");
        let view = ["config", "view", "--minify", "--raw", "--flatten", "--output=json"];
        let view = cluster.kubectl(&view, "").expect("a kubeconfig can be shown");
        let mut view: Value = serde_json::from_str(&view).expect("JSON");
        let server = view["clusters"][0]["cluster"]["server"].as_str().expect("a URL").to_owned();
        let address = server.trim_start_matches("https://").parse().expect("an address");
        let proxy = Proxy::to(address);
        view["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", proxy.address));
        let kubeconfig = stage.home.log("kubeconfig");
        std::fs::write(&kubeconfig, view.to_string()).expect("writable");
        Self { cluster, namespace, proxy, kubeconfig: kubeconfig.display().to_string() }
    }

    /// Writes this text as a runtime Secret.
    fn write(&self, name: &str, text: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": runtime::SECRET_TYPE,
            "metadata": {"name": name, "namespace": self.namespace, "labels": {runtime::LABEL: runtime::LABEL_VALUE}},
            "stringData": {runtime::KEY: text},
        });
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.cluster.kubectl(&apply, &secret.to_string()).expect("the API server takes it");
    }

    pub(super) fn serve(&self, config: TenantConfig) {
        let runtime = Runtime::new(1, config.clone(), BTreeMap::new());
        self.write(&runtime::secret_name(&config.uid), &serde_json::to_string(&runtime).expect("JSON"));
    }

    pub(super) fn delete(&self, uid: &str) {
        let name = runtime::secret_name(uid);
        self.cluster
            .kubectl(&["--namespace", &self.namespace, "delete", "secret", &name], "")
            .expect("it was there");
    }
}

pub(super) fn config(uid: &str, code: &str, digit: char, database: &str) -> TenantConfig {
    let mut config = tenant_config(uid, code, "C-1", 0);
    let digest = docket_crds::ApiKeyDigest::of(&api_key(digit)).expect("a key");
    config["apiKeys"] = json!([{"name": "primary", "digest": digest, "active": true, "version": "v2"}]);
    config["tokens"]["signingKeys"] = json!([{"kid": "1", "secret": "00".repeat(32)}]);
    config["database"] = json!(database);
    serde_json::from_value(config).expect("a configuration")
}

/// Whether a tenant here has the key.
async fn knows(api: &Server, digit: char) -> bool {
    let key = api_key(digit);
    let headers = [("x-api-key", key.as_str()), ("content-type", "application/json")];
    request(api.api, "POST", "/Auth/Token", &headers, "{}").await.expect("an answer").status != 401
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_followed_and_an_api_server_that_is_away_changes_nothing() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    let other = postgres::database().await;
    place.serve(config("uid-a", "ACME", 'a', &stage.database));
    let api = stage.spawn_in_cluster("api,worker,detector", &place.namespace, &place.kubeconfig);
    let api = api.ready(&stage.home).await;
    assert!(knows(&api, 'a').await && !knows(&api, 'b').await);

    // The tenant is added and changed, as its key shows. kubectl's own time is not counted.
    place.serve(config("uid-b", "BLAISE", 'b', &other));
    let begun = Instant::now();
    eventually("it is added", SOON, async || knows(&api, 'b').await).await;
    println!("added after {:?}", begun.elapsed());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    place.serve(config("uid-b", "BLAISE", 'c', &other));
    let begun = Instant::now();
    eventually("it is changed", SOON, async || knows(&api, 'c').await && !knows(&api, 'b').await).await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());

    // The Secret is broken: the last good version stays active.
    place.write(&runtime::secret_name("uid-b"), "{\"config\": \"hunter2\"}");
    stage.logs("runtime.json is not what this version's operator writes").await;
    assert!(knows(&api, 'c').await);
    assert!(!stage.log().contains("hunter2"));

    // A key that a tenant has already stays with that tenant.
    place.serve(config("uid-d", "CORWIN", 'a', &other));
    stage.logs("API key primary is already used by Secret docket-tenant-uid-a").await;

    // The API server is away, until the pause between two retries has been the longest one, and again before all has
    // settled: the tenants are served, and a change meanwhile is found later.
    for (digit, retries) in [('e', 7), ('f', 3)] {
        let failures = || stage.log().matches("the last good configuration stays active").count();
        let before = failures();
        place.proxy.cut();
        eventually("it is noticed", SOON, async || failures() > before).await;
        place.serve(config("uid-e", "EVE", digit, &other));
        let begun = Instant::now();
        while failures() < before + retries {
            assert!(begun.elapsed() < 2 * SOON, "only {} retries", failures() - before);
            assert!(knows(&api, 'a').await && knows(&api, 'c').await && !knows(&api, digit).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        place.proxy.restore();
        let begun = Instant::now();
        eventually("what was missed is caught up with", SOON, async || knows(&api, digit).await).await;
        assert!(begun.elapsed() < LONGEST_PAUSE + 2 * AT_ONCE, "{:?}", begun.elapsed());
        assert!(knows(&api, 'a').await && knows(&api, 'c').await);
    }
    assert!(!knows(&api, 'e').await, "the older key of two is gone");

    // The tenant is removed.
    place.delete("uid-b");
    let begun = Instant::now();
    eventually("it is gone", SOON, async || !knows(&api, 'c').await).await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert!(knows(&api, 'a').await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_away_at_start_is_waited_for_and_named() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    place.serve(config("uid-a", "ACME", 'a', &stage.database));
    place.proxy.cut();
    let api = stage.spawn_in_cluster("api", &place.namespace, &place.kubeconfig);
    stage.logs("nothing is served before the runtime Secrets are listed").await;
    let management = api.management;
    eventually("only the configuration is missing", SOON, async || {
        let reply = request(management, "GET", "/readyz", &[], "").await;
        reply.is_ok_and(|reply| reply.text() == "not ready: the configuration\n")
    })
    .await;
    place.proxy.restore();
    let api = api.ready(&stage.home).await;
    assert!(knows(&api, 'a').await);
}

/// What a newer operator writes for readers from this format on: with an event and a restriction that this version does not know.
fn of_a_newer_operator(config: TenantConfig, min_reader: u32) -> String {
    let runtime = Runtime::new(2, config, BTreeMap::new());
    let mut json = serde_json::to_value(&runtime).expect("JSON");
    json["format"] = json!(runtime::FORMAT + 1);
    json["minReader"] = json!(min_reader);
    json["config"]["activeEvents"] = json!(["invoice.created", "order.archived"]);
    json["config"]["allowedNetworks"] = json!(["203.0.113.0/24"]);
    json.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_a_newer_operator_are_served_or_refused_and_a_process_that_can_read_none_is_not_ready() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    let name = runtime::secret_name("uid-a");
    let acme = |digit: char| config("uid-a", "ACME", digit, &stage.database);
    place.serve(acme('a'));
    let before = stage.spawn_in_cluster("api", &place.namespace, &place.kubeconfig);
    let before = before.ready(&stage.home).await;

    place.write(&name, &of_a_newer_operator(acme('b'), runtime::FORMAT));
    eventually("it is served", SOON, async || knows(&before, 'b').await).await;
    stage.logs("ignores events that it does not know: order.archived").await;

    let newer = runtime::FORMAT + 1;
    place.write(&name, &of_a_newer_operator(acme('c'), newer));
    stage
        .logs(&format!("written by a newer operator for readers of format {newer}; this program reads up to"))
        .await;
    stage.logs("upgrade the data plane; the last good version stays active").await;
    assert!(knows(&before, 'b').await && !knows(&before, 'c').await);

    // A new process has no last good version.
    let after = stage.spawn_in_cluster("api", &place.namespace, &place.kubeconfig);
    stage.logs("upgrade the data plane; its tenant is not served").await;
    let management = after.management;
    let get = async |from: SocketAddr, path: &'static str| {
        request(from, "GET", path, &[], "").await.expect("an answer")
    };
    eventually("it says what is missing", SOON, async || {
        let missing = "a runtime Secret that this version can read (the log says why it can't)";
        get(management, "/readyz").await.text() == format!("not ready: {missing}\n")
    })
    .await;
    assert!(get(management, "/metrics").await.text().contains("\ndocket_config_problems 1\n"));
    assert_eq!(get(before.management, "/readyz").await.status, 200, "it serves the last good version");
    assert!(knows(&before, 'b').await);

    place.serve(acme('d'));
    let after = after.ready(&stage.home).await;
    assert!(knows(&after, 'd').await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_find_a_tenant_by_its_runtime_secret() {
    let stage = Stage::new().await;
    let place = Place::new(&stage).await;
    place.serve(config("uid-a", "ACME", 'a', &stage.database));
    let environment = [("KUBECONFIG", place.kubeconfig.as_str())];
    let words = ["customer", "add", "--tenant", "acme", "--code", "C-2", "--name", "Two"];
    let namespace = ["--config-namespace", place.namespace.as_str()];
    let (done, text) = stage.home.command_in(&[&words[..], &namespace].concat(), "", &environment);
    assert!(done, "{text}");
    let client = postgres::client(&stage.database).await;
    let count: i64 = client
        .query_one("SELECT count(*) FROM customer WHERE code = 'C-2'", &[])
        .await
        .expect("a statement")
        .get(0);
    assert_eq!(count, 1);
    let unknown = ["deliveries", "list", "--tenant", "UNKNOWN"];
    let (done, text) = stage.home.command_in(&[&unknown[..], &namespace].concat(), "", &environment);
    assert!(!done && text.contains("ACME"), "{text}");
}
