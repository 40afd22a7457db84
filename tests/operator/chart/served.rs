//! The chart at a real API server: it takes every object as it is, and Helm installs, upgrades and removes the release.
//! There is no node, so no pod runs here.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use docket_tests::apiserver::Cluster;
use serde_json::{Value, json};

use super::helm::{MINIMAL, blocks_of, chart, file, helm};

/// An API server of this suite's own, since Helm installs our kinds here. It also knows the kinds of other projects that the
/// chart can make.
fn server() -> &'static Cluster {
    static SERVER: LazyLock<Cluster> = LazyLock::new(|| {
        let cluster = Cluster::start();
        let cache = std::env::var_os("DOCKET_TEST_CACHE").map_or_else(
            || std::env::home_dir().expect("there is a home folder").join(".cache/docket-tests"),
            PathBuf::from,
        );
        let folder = cache.join("foreign-crds");
        assert!(folder.is_dir(), "tests/cluster/foreign-crds fetches {}", folder.display());
        let folder = folder.to_str().expect("a plain path");
        let apply = ["apply", "--server-side", "--force-conflicts", "--filename", folder];
        cluster.kubectl(&apply, "").expect("the API server accepts the definitions");
        let all = ["wait", "--for=condition=Established", "--timeout=60s", "--all", "crd"];
        cluster.kubectl(&all, "").expect("the definitions are established");
        // The namespaces that a set of values watches.
        for namespace in ["tenants", "tenants-a", "tenants-b"] {
            let _ = cluster.kubectl(&["create", "namespace", namespace], "");
        }
        cluster
    });
    &SERVER
}

/// A namespace for a release, which takes and warns of nothing but restricted pods.
fn namespace(cluster: &Cluster) -> String {
    let name = cluster.namespace("chart");
    let levels =
        ["pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted"];
    cluster.kubectl(&["label", "namespace", &name, levels[0], levels[1]], "").expect("labelled");
    // What kube-controller-manager does.
    let _ = cluster.kubectl(&["--namespace", &name, "create", "serviceaccount", "default"], "");
    name
}

/// These values with a namespace of their own for runtime Secrets, and its name.
fn with_runtime_namespace(cluster: &Cluster, values: &str) -> (String, String) {
    let runtime = cluster.namespace("runtime");
    (values.replace("docket-runtime", &runtime), runtime)
}

/// Helm on that API server.
fn release(cluster: &Cluster, arguments: &[&str], values: &str) -> Result<String, String> {
    let admin = cluster.admin().to_str().expect("a plain path");
    helm(&[arguments, &["--kubeconfig", admin]].concat(), values)
}

fn object(cluster: &Cluster, arguments: &[&str]) -> Value {
    let text = cluster.kubectl(&[arguments, &["--output=json"]].concat(), "").expect("it is there");
    serde_json::from_str(&text).expect("JSON")
}

/// Whether a user may do that in a namespace, or in all (`""`); the kind need not be installed to ask.
fn may(cluster: &Cluster, user: &str, verb: &str, what: &str, namespace: &str) -> bool {
    let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (resource, group) = what.split_once('.').unwrap_or((what, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace,
        }},
    });
    let said =
        cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).expect("it answers");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    said["status"]["allowed"] == true
}

#[test]
fn the_api_server_takes_every_object_strictly_and_without_a_warning() {
    let cluster = server();
    let mut sets: Vec<String> = std::fs::read_dir(chart().join("ci"))
        .expect("ci/ is there")
        .map(|entry| format!("ci/{}", entry.expect("readable").file_name().to_string_lossy()))
        .collect();
    sets.extend(["quickstart.yaml".into(), "values-production.yaml".into()]);
    for set in sets {
        let namespace = namespace(cluster);
        let template = ["template", "docket", "charts/docket", "--namespace", &namespace, "--values", "-"];
        let values = match set.as_str() {
            // The quickstart creates the runtime namespace, in which a dry run can't put anything.
            "quickstart.yaml" => file(&set) + "runtimeNamespace: docket-runtime\n",
            _ => file(&set),
        };
        let (values, _) = with_runtime_namespace(cluster, &values);
        let rendered =
            helm(&[&template[..], &["--kube-version", "1.34.0"]].concat(), &values).expect("rendered");
        let apply = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server"];
        let said = cluster.kubectl(&[&apply[..], &["--filename", "-"]].concat(), &rendered);
        assert!(said.ok && said.err.is_empty(), "{set}: {}", said.err);
        let objects = rendered.matches("\nkind: ").count();
        assert_eq!(said.out.lines().count(), objects, "{set}: {}", said.out);
    }
}

#[test]
fn autoscaler_that_the_page_scale_shows_is_accepted_strictly() {
    let cluster = server();
    let namespace = namespace(cluster);
    let mut blocks = blocks_of("docs/kubernetes/scale.md");
    blocks.retain(|block| block["kind"] == "ScaledObject");
    assert_eq!(blocks.len(), 1);
    blocks[0]["metadata"]["namespace"] = json!(namespace);
    let apply = ["apply", "--server-side", "--validate=strict", "--dry-run=server", "--filename", "-"];
    let said = cluster.kubectl(&apply, &blocks[0].to_string());
    assert!(said.ok && said.err.is_empty(), "{}", said.err);
    // A field that KEDA does not know is refused, so the definition is in force.
    blocks[0]["spec"]["scaleTarget"] = json!({});
    assert!(!cluster.kubectl(&apply, &blocks[0].to_string()).ok);
}

/// The one test that installs the kinds by Helm: a kind belongs to one release.
#[test]
fn helm_installs_upgrades_and_removes_and_keeps_passwords_and_kinds() {
    let cluster = server();
    let namespace = namespace(cluster);
    let install = ["install", "docket", "charts/docket", "--namespace", &namespace, "--values", "-"];
    let upgrade = ["upgrade", "docket", "charts/docket", "--namespace", &namespace, "--values", "-"];
    let uninstall = ["uninstall", "docket", "--namespace", &namespace];
    let quickstart = file("quickstart.yaml");
    release(cluster, &install, &quickstart).expect("installed");
    let secret =
        |name: &str| object(cluster, &["--namespace", &namespace, "get", "secret", name])["data"].clone();
    let passwords = || ["docket-quickstart-postgresql", "docket-quickstart-redis"].map(secret);
    let before = passwords();
    release(cluster, &upgrade, &(quickstart.clone() + "\nlog: {level: debug}")).expect("upgraded");
    assert_eq!(passwords(), before);
    let worker = object(cluster, &["--namespace", &namespace, "get", "deployment", "docket-worker"]);
    assert!(worker["spec"]["template"]["spec"]["containers"][0]["args"].to_string().contains("--log=debug"));

    let tenant = json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant",
        "metadata": {"name": "kept", "namespace": namespace},
        "spec": {"clientCode": "KEPT", "database": {"managed": {"name": "kept"}}},
    });
    cluster.kubectl(&["apply", "--filename", "-"], &tenant.to_string()).expect("applied");
    let docket = cluster.kubectl(&["--namespace", &namespace, "get", "docket"], "").expect("listed");
    assert!(docket.contains("KEPT"), "{docket}");
    release(cluster, &uninstall, "").expect("uninstalled");
    object(cluster, &["--namespace", &namespace, "get", "tenant", "kept"]);
    let left = object(cluster, &["--namespace", &namespace, "get", "deployment,service,secret,role"]);
    let helms = |item: &&Value| item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "docket";
    let left: Vec<&Value> = left["items"].as_array().expect("a list").iter().filter(helms).collect();
    assert!(left.is_empty(), "{left:?}");
    // The runtime namespace stays after an uninstallation, so that a user who pins its name does not lose the keys in it.
    let runtime = object(cluster, &["get", "namespace", &format!("{namespace}-runtime")]);
    assert!(runtime["metadata"]["deletionTimestamp"].is_null(), "{runtime}");
    // The kept kinds are taken over by the next installation of that name.
    release(cluster, &install, &quickstart).expect("installed again");
    release(cluster, &uninstall, "").expect("uninstalled");
}

#[test]
fn rights_are_what_they_should_be() {
    let cluster = server();
    let namespace = namespace(cluster);
    let (tenants, others) = (cluster.namespace("tenants"), cluster.namespace("others"));
    let install = ["install", "docket", "charts/docket", "--namespace", &namespace, "--values", "-"];
    let values = format!("{MINIMAL}\ncrds: {{enabled: false}}\nwatch: {{namespaces: [{tenants}]}}");
    let (values, runtime) = with_runtime_namespace(cluster, &values);
    release(cluster, &install, &values).expect("installed");
    for (account, verb, what, where_, expected) in [
        ("docket-operator", "list", "secrets", tenants.as_str(), true),
        ("docket-operator", "list", "secrets", others.as_str(), false),
        ("docket-operator", "get", "secrets", "kube-system", false),
        ("docket-operator", "patch", "tenants.docket.dev/status", &tenants, true),
        ("docket-operator", "update", "leases.coordination.k8s.io", &runtime, true),
        ("docket-operator", "create", "pods", &namespace, false),
        ("docket-api", "watch", "secrets", &runtime, true),
        ("docket-api", "create", "secrets", &runtime, false),
        // There the administrators' URLs of PostgreSQL are.
        ("docket-api", "get", "secrets", &namespace, false),
        ("docket-worker", "list", "secrets", &namespace, false),
        ("docket-worker", "get", "secrets", &tenants, false),
        ("docket-detector", "list", "tenants.docket.dev", &tenants, false),
    ] {
        let user = format!("system:serviceaccount:{namespace}:{account}");
        assert_eq!(may(cluster, &user, verb, what, where_), expected, "{account} {verb} {what} in {where_}");
    }
    let account = format!("system:serviceaccount:{namespace}:docket-operator");
    assert!(!may(cluster, &account, "list", "secrets", ""));
    assert!(
        !may(cluster, &account, "list", "namespaces", "")
            && !may(cluster, &account, "list", "configmaps", "")
    );
    // A finalizer can be taken off although the Role of its namespace is gone.
    assert!(may(cluster, &account, "patch", "tenants.docket.dev", &others));
    let read = |name: &str| {
        cluster.kubectl(&["get", "--raw", &format!("/api/v1/namespaces/{name}"), "--as", &account], "").ok
    };
    assert!(read(&tenants));
    release(cluster, &["uninstall", "docket", "--namespace", &namespace], "").expect("uninstalled");
}

#[test]
fn people_get_their_rights_through_kubernetes_own_roles() {
    let cluster = server();
    let namespace = namespace(cluster);
    let (values, _) = with_runtime_namespace(cluster, &format!("{MINIMAL}\ncrds: {{enabled: false}}"));
    let install = ["install", "docket", "charts/docket", "--namespace", &namespace, "--values", "-"];
    release(cluster, &install, &values).expect("installed");
    // Which adds up the roles.
    cluster.start_controllers();
    for (role, view, webhooks, tenants) in
        [("view", true, false, false), ("edit", true, true, false), ("admin", true, true, false)]
    {
        let bind = ["--namespace", &namespace, "create", "rolebinding", role];
        let to = [format!("--clusterrole={role}"), format!("--user=jane-{role}")];
        cluster.kubectl(&[&bind[..], &[&to[0], &to[1]]].concat(), "").expect("bound");
        let user = format!("jane-{role}");
        let may = |verb: &str, what: &str| may(cluster, &user, verb, what, &namespace);
        let begun = Instant::now();
        while may("list", "tenants.docket.dev") != view {
            assert!(begun.elapsed() < Duration::from_secs(60), "{role}");
            std::thread::sleep(Duration::from_millis(200));
        }
        while may("create", "webhooks.docket.dev") != webhooks
            || may("create", "tenants.docket.dev") != tenants
        {
            assert!(begun.elapsed() < Duration::from_secs(60), "{role}");
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(
            !may("patch", "tenants.docket.dev/status") && !may("update", "webhooks.docket.dev/status"),
            "{role}"
        );
    }
    release(cluster, &["uninstall", "docket", "--namespace", &namespace], "").expect("uninstalled");
}
