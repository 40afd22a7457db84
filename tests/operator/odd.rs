//! Cases that change a whole cluster, so they have their own: definitions that were looser once, an operator that watches
//! every namespace, an API server that does not respond. One after the other.

use std::sync::LazyLock;
use std::time::Duration;

use docket_rig::redis::RedisServer;
use docket_tests::apiserver::Cluster;
use docket_tests::operator::{Release, SOON, object, tenant_yaml, webhook_yaml};
use docket_tests::server::{Home, JSON, Server, eventually, request};
use serde_json::{Value, json};

fn cluster() -> &'static Cluster {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);
    &CLUSTER
}

#[tokio::test]
async fn cases_that_change_a_whole_cluster() {
    objects_that_cannot_be_read_stop_nothing_and_unserve_nothing().await;
    namespaces_are_watched_where_all_of_them_are().await;
    // Longer than a call may take (15 s) and than the Lease is good for (5 s), and long enough for the longest pauses between two tries.
    an_api_server_that_is_away_costs_nothing_but_time(20).await;
}

/// The clock of an operator can't be moved from outside. So this takes as long as it says, and runs on request.
#[tokio::test]
#[ignore = "takes ten minutes; docs/project/verify.md has the command"]
async fn api_server_that_is_away_for_ten_minutes_costs_nothing_but_time() {
    an_api_server_that_is_away_costs_nothing_but_time(300).await;
}

/// Defines both kinds as they are; `loose`: without rules for their spec, so that objects are stored as by an old definition.
fn define(loose: bool) {
    let mut text = String::new();
    for definition in docket_crds::crd::definitions() {
        let mut definition = serde_json::to_value(definition).expect("plain data");
        if loose {
            let schema =
                definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").expect("it has a schema");
            schema["properties"]["spec"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            definition["spec"]["versions"][0].as_object_mut().expect("a version").remove("selectableFields");
            schema_rules(&mut definition);
        }
        text += &format!("---\n{definition}\n");
    }
    cluster().kubectl(&["replace", "-f", "-"], &text).expect("the API server accepts the definitions");
}

fn schema_rules(definition: &mut Value) {
    let schema = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").expect("it has a schema");
    schema.as_object_mut().expect("a schema").remove("x-kubernetes-validations");
}

/// Waits until a wrong object is taken, or refused.
async fn defined(release: &Release, loose: bool) {
    define(loose);
    let wrong =
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {name: probe}\nspec: {clientCode: 7}\n";
    let create = [
        "--namespace",
        release.tenants.as_str(),
        "create",
        "--dry-run=server",
        "--validate=false",
        "-f",
        "-",
    ];
    eventually("the definitions count", SOON, async || cluster().kubectl(&create, wrong).ok == loose).await;
}

async fn objects_that_cannot_be_read_stop_nothing_and_unserve_nothing() {
    let mut release = Release::on(cluster(), "odd");
    release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&(tenant_yaml("sound") + &tenant_yaml("spoilt") + &webhook_yaml("spoilt", "sound", "")));
    for tenant in ["sound", "spoilt"] {
        release.wait("tenant", tenant, "Ready", "True").await;
    }
    release.wait("webhook", "spoilt", "Ready", "True").await;
    let served = release.runtime("spoilt").expect("it is served");

    defined(&release, true).await;
    release.kubectl(&["patch", "tenant", "spoilt", "--type=merge", "-p", r#"{"spec":{"apiKeys":"all"}}"#]);
    release.kubectl(&["patch", "webhook", "spoilt", "--type=merge", "-p", r#"{"spec":{"events":"all"}}"#]);
    let strange =
        "apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {name: strange}\nspec: {clientCode: 7}\n";
    release.apply(strange);
    defined(&release, false).await;

    for (kind, name) in [("tenant", "strange"), ("tenant", "spoilt"), ("webhook", "spoilt")] {
        let message = release.wait(kind, name, "Ready", "False InvalidSpec").await;
        assert!(message.contains("spec."), "{message}");
    }
    let restarted = async |operator: docket_tests::operator::Operator| {
        operator.kill();
        release.start().await
    };
    let _operator = restarted(operator).await;
    // Everything has been looked at once this one is ready, which was made last.
    release.apply(&tenant_yaml("after"));
    release.wait("tenant", "after", "Ready", "True").await;
    assert_eq!(release.runtime("spoilt"), Some(served), "it stays as it was");
    release.apply(&tenant_yaml("rival").replace("RIVAL", "spoilt"));
    let message = release.wait("tenant", "rival", "Ready", "False ClientCodeConflict").await;
    assert!(message.contains("/spoilt"), "what can't be read keeps what it has: {message}");
    let webhooks = release.runtime("sound").expect("it is served")["config"]["webhooks"].clone();
    assert_eq!(webhooks[0]["name"], "spoilt");
    for name in ["spoilt", "strange", "rival"] {
        release.kubectl(&["delete", "tenant", name]);
    }
}

/// A data plane that serves the tenants of a release.
struct DataPlane {
    home: Home,
    server: Server,
    _redis: RedisServer,
}

impl DataPlane {
    async fn start(release: &Release) -> Self {
        let (home, redis) = (Home::new(), RedisServer::start(&[]));
        let url = home.log("redis-url");
        std::fs::write(&url, redis.url()).expect("the folder is ours");
        let mut arguments = ["serve", "--roles", "api", "--shutdown-delay", "0s"].map(str::to_owned).to_vec();
        arguments.extend(["--config-namespace".into(), release.namespace.clone()]);
        arguments.extend(["--redis-url-file".into(), url.display().to_string()]);
        let kubeconfig = ("KUBECONFIG".to_owned(), cluster().admin().display().to_string());
        let server = Server::spawn_server(&home, &arguments, &[kubeconfig]).ready(&home).await;
        Self { home, server, _redis: redis }
    }

    /// The status of a sign-in with a tenant's API key and without a user: 400, if the tenant is served.
    async fn sign_in(&self, key: &str) -> u16 {
        let headers = [("x-api-key", key), JSON];
        let reply = request(self.server.api, "POST", "/Auth/Token", &headers, "{}").await;
        reply.map_or_else(|error| panic!("{error}: {:?}", self.home.log("err")), |reply| reply.status)
    }
}

/// `tries`: how often the operator tries to renew its Lease meanwhile. Each takes two seconds: one until the operator gives it up, and one
/// until the next.
async fn an_api_server_that_is_away_costs_nothing_but_time(tries: usize) {
    let mut release = Release::on(cluster(), "frozen");
    release.with_postgres().await;
    let operator = release.start().await;
    release.apply(&(tenant_yaml("before") + &webhook_yaml("before", "before", "")));
    release.wait("webhook", "before", "Ready", "True").await;
    let data_plane = DataPlane::start(&release).await;
    let key = release.secret("before-apikey-primary", "api-key").expect("it has a key");
    eventually("the data plane serves it", SOON, async || data_plane.sign_in(&key).await == 400).await;
    let (served, uid) =
        (release.runtime("before"), release.object("tenant", "before")["metadata"]["uid"].clone());
    let mark = cluster().mark();

    let frozen = cluster().freeze();
    eventually("it no longer writes", SOON, async || operator.metric("docket_operator_leader").await == 0.0)
        .await;
    let failed = || operator.text().matches("reading or renewing the lease failed").count();
    let before = failed();
    let limit = Duration::from_secs(4) * u32::try_from(tries).expect("a small number");
    eventually("so many tries to renew the Lease fail", limit, async || {
        assert_eq!(data_plane.sign_in(&key).await, 400, "it is served all the while");
        failed() >= before + tries
    })
    .await;
    drop(frozen);

    operator.leads().await;
    release.apply(&tenant_yaml("meanwhile"));
    release.wait("tenant", "meanwhile", "Ready", "True").await;
    assert_eq!(
        (release.runtime("before"), &release.object("tenant", "before")["metadata"]["uid"]),
        (served, &uid)
    );
    let about_before: Vec<_> = release
        .writes(mark)
        .into_iter()
        .filter(|write| write.contains("before") || write.contains(uid.as_str().expect("a uid")))
        .collect();
    assert_eq!(about_before, Vec::<String>::new(), "what was well is not written again");
}

async fn namespaces_are_watched_where_all_of_them_are() {
    let mut release = Release::everywhere(cluster(), "everywhere");
    release.with_postgres().await;
    let _operator = release.start().await;
    let other = cluster().namespace("everywhere-other");
    let allowed =
        "  webhooks: {allowedNamespaces: {from: Selector, selector: {matchLabels: {team: acme}}}}\n---\n";
    release.apply(&tenant_yaml("everyone").replace("---\n", allowed));
    release.wait("tenant", "everyone", "Ready", "True").await;
    let named = format!("tenantRef: {{name: everyone, namespace: {}}}", release.tenants);
    release.apply_in(
        &other,
        &webhook_yaml("far", "everyone", "").replace("tenantRef: {name: everyone}", &named),
    );
    let ready = || {
        let conditions = object(cluster(), &other, "webhook", "far")["status"]["conditions"].clone();
        conditions
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
    };
    let label = |label: &str| {
        let arguments = ["label", "--overwrite", "namespace", other.as_str(), label];
        cluster().kubectl(&arguments, "").expect("the administrator labels namespaces");
    };
    label("team=acme");
    eventually("the label lets it in", SOON, async || ready()).await;
    label("team=other");
    eventually("and out", SOON, async || !ready()).await;
    let served = || {
        release.runtime("everyone").expect("it is served")["config"]["webhooks"]
            .as_array()
            .map_or(0, Vec::len)
    };
    eventually("it is no longer served", Duration::from_secs(30), async || served() == 0).await;
}
