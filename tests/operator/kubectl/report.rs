//! `kubectl docket report`: what is in the file, and what never is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use docket_tests::apiserver::cluster;
use docket_tests::operator::{tenant_yaml, webhook_yaml};
use docket_tests::server::{PASSWORD, api_key};
use serde_json::{Value, json};
use zip::ZipArchive;

use super::dataplane::{ANSWER, CAPTION, Stage, USER, bind, can};
use super::{docket, documented, parsed, rules};

fn apply(namespace: &str, text: &str) {
    let apply = ["--namespace", namespace, "apply", "-f", "-"];
    cluster().kubectl(&apply, text).expect("the administrator writes everything");
}

/// The files of a zip, each as text.
fn unzipped(file: File) -> BTreeMap<String, String> {
    let mut zip = ZipArchive::new(file).expect("a zip file");
    let count = zip.len();
    let one = |at| {
        let (mut file, mut text) = (zip.by_index(at).expect("a file"), String::new());
        file.read_to_string(&mut text).expect("text");
        (file.name().expect("UTF-8").into_owned(), text)
    };
    (0..count).map(one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_says_what_is_wrong_and_no_secret_payload_or_answer() {
    let stage = Stage::new("--platform").await;
    stage.save().await;
    stage.dead(1).await;
    let (release, tenants) = (&stage.namespace, cluster().namespace("reported"));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signing"},
        "stringData": {"secret": "zq-signing-secret"}});
    let hook = webhook_yaml("reported-orders", "reported", "  secretRef: {name: signing}\n")
        .replace("hooks.example/", "hooks.example/zq-path-token?key=zq-query-secret&to=");
    apply(&tenants, &format!("{}{hook}{secret}", tenant_yaml("reported")));
    let labels = json!({"app.kubernetes.io/component": "api", "app.kubernetes.io/part-of": "docket"});
    let container = json!({"name": "api", "image": "localhost/docket:1",
        "args": ["serve", "--roles=api", "--watcher=postgres://w:zq-url-password@db/x", "zq-free-text"],
        "env": [{"name": "KEY", "value": "zq-env-secret"}]});
    let sidecar = json!({"name": "side", "image": "side", "args": ["--key=zq-sidecar-secret"]});
    let pod = json!({"containers": [container, sidecar]});
    let _ = cluster().kubectl(&["--namespace", release, "create", "serviceaccount", "default"], "");
    for object in [
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "docket-api", "labels": labels, "annotations": {"note": "zq-annotation"}},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api-0", "labels": labels},
            "spec": {"nodeName": "nowhere", "containers": pod["containers"]}}),
    ] {
        apply(release, &object.to_string());
    }
    let event = |namespace: &str, about: &str, version: &str, kind: &str, reason: &str, note: &str| {
        let name = reason.to_lowercase();
        let object = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
            "eventTime": "2026-11-21T00:00:00.000000Z", "reportingController": "docket.dev/operator", "reportingInstance": "o",
            "action": "Look", "type": "Warning", "reason": reason, "note": note,
            "regarding": {"apiVersion": version, "kind": kind, "namespace": namespace, "name": about}});
        apply(namespace, &object.to_string());
    };
    event(&tenants, "reported", "docket.dev/v1alpha1", "Tenant", "SecretNotFound", "the Secret is missing");
    event(release, "api-0", "v1", "Pod", "BackOff", "zq-kubelet-note");
    event(release, "zq-other-0", "v1", "Pod", "Unhealthy", "zq-other-note");
    event(release, "docket-api", "v1", "Secret", "Other", "zq-other-note");

    let path = stage.home.log("out.zip");
    let port = stage.server.management.port().to_string();
    let name = path.display().to_string();
    let arguments = [
        "report",
        "-f",
        &name,
        "--namespace",
        &tenants,
        "--release-namespace",
        release,
        "--local-port",
        &port,
    ];
    let (code, out, err) = docket(cluster().admin(), &arguments);
    // No node has the pod, so its log can't be had.
    assert_eq!((code, err.contains("the report lacks logs/api-0.log")), (1, true), "{out}{err}");
    assert!(out.contains("has 8 files. Read them before you send them."), "{out}");
    let mode = std::fs::metadata(&path).expect("it is written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner reads it");
    let files = unzipped(File::open(&path).expect("it is written"));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "check.json",
            "conditions.json",
            "deployments.json",
            "events.json",
            "metrics.txt",
            "missing.txt",
            "status.json",
            "versions.json"
        ]
    );

    let read = |name: &str| parsed(&files[name]);
    assert!(read("check.json")["checks"].as_array().is_some_and(|lines| lines.len() > 4));
    assert_eq!(read("status.json")["tenants"][0]["webhooks"][0]["name"], "reported-orders");
    assert_eq!(read("conditions.json")[1]["kind"], "Webhook");
    let deployment = read("deployments.json")[0].clone();
    assert_eq!(
        deployment["containers"],
        json!([{"name": "api", "image": "localhost/docket:1", "resources": {},
            "args": ["serve", "--roles=api", "--watcher=postgres://db", "(left out)"]}])
    );
    let events = read("events.json");
    let reasons: Vec<(&Value, &Value)> =
        events.as_array().expect("a list").iter().map(|one| (&one["reason"], &one["note"])).collect();
    assert!(reasons.contains(&(&json!("SecretNotFound"), &json!("the Secret is missing"))), "{events}");
    assert!(reasons.contains(&(&json!("BackOff"), &Value::Null)), "{events}");
    assert!(files["metrics.txt"].contains("docket_delivery_attempts_total"), "{}", files["metrics.txt"]);
    assert!(files["missing.txt"].starts_with("logs/api-0.log: "), "{}", files["missing.txt"]);

    let kubeconfig = parsed(&std::fs::read_to_string(cluster().admin()).expect("readable"));
    let token = kubeconfig["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
    let database = url::Url::parse(&stage.database).expect("a URL");
    let key = api_key('a');
    let mut secrets = vec!["zq-", "Zqname", CAPTION, ANSWER, USER, PASSWORD, &key, &token];
    secrets.extend(database.password());
    for (name, text) in &files {
        for secret in &secrets {
            assert!(!text.contains(secret), "{name} has {secret}: {text}");
        }
    }

    let (code, _, err) = docket(cluster().admin(), &arguments);
    assert_eq!((code, err.contains("can't be created")), (1, true), "it overwrites nothing: {err}");

    // The report is made with the rights of the document, and without them.
    let reporter = cluster().service_account(release, "reporter");
    let again = stage.home.log("again.zip").display().to_string();
    let arguments = [&["report", "-f", &again], &arguments[3..]].concat();
    let (code, _, err) = docket(&reporter, &arguments);
    assert_eq!((code, err.contains("no access: the report lacks")), (3, true), "{err}");
    std::fs::remove_file(&again).expect("it has metrics");
    let (_, rights) = documented().into_iter().find(|(command, _)| command == "report").expect("a row");
    for (rights, namespace) in rights.iter().zip([None, Some(release.as_str()), Some(&tenants)]) {
        bind(release, "reporter", namespace, &rules(rights));
        for (verb, resource) in rights {
            assert!(can(&reporter, verb, resource, namespace.unwrap_or("default")), "{verb} {resource}");
        }
    }
    let (code, out, err) = docket(&reporter, &arguments);
    assert_eq!((code, err.contains("the report lacks logs/api-0.log (see")), (1, true), "{out}{err}");
}
