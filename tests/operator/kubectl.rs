//! `kubectl docket` against a real API server, and the rights that docs/reference/kubectl-docket.md says it needs.

mod dataplane;
mod report;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, SOON, tenant_yaml, webhook_yaml};
use docket_tests::server::eventually;
use serde_json::{Value, json};

/// The plugin with this kubeconfig; its exit code, and what it prints.
fn docket(kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    let own = std::env::current_exe().expect("a test has a path");
    let binary: PathBuf = own.parent().and_then(Path::parent).expect("below target").join("kubectl-docket");
    assert!(binary.exists(), "{} is missing; `cargo build -p docket-kubectl` builds it", binary.display());
    let mut command = Command::new(binary);
    // The requests to the data plane have the user's token, and must go to no proxy.
    for (name, value) in [
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("http_proxy", "http://127.0.0.1:9"),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ] {
        command.env(name, value);
    }
    let output = command.env("KUBECONFIG", kubeconfig).args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

fn as_admin(arguments: &[&str]) -> (i32, String, String) {
    docket(cluster().admin(), arguments)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_tenant_is_shown_looked_at_and_gets_another_key() {
    let mut release = Release::new("plugin");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("plugged"));
    release.wait("tenant", "plugged", "Ready", "True Ready").await;
    let namespace = release.tenants.clone();
    let at = |arguments: &[&str]| as_admin(&[&["--namespace", &namespace], arguments].concat());

    let (code, out, err) = at(&["status", "plugged", "--output", "json"]);
    assert_eq!(code, 0, "{out}{err}");
    let shown = &parsed(&out)["tenants"][0];
    assert_eq!((&shown["name"], &shown["ready"]["status"]), (&json!("plugged"), &json!("True")), "{shown}");
    assert_eq!(
        (&shown["database"], &shown["apiKeys"][0]["active"]),
        (&json!("tenant_plugged"), &json!(true))
    );
    let key = release.secret("plugged-apikey-primary", "api-key").expect("the key is made");
    assert!(!out.contains(&key), "a secret is shown");

    let (code, out, err) = at(&["reconcile", "tenant/plugged", "--wait"]);
    assert_eq!((code, out.as_str()), (0, "The operator has checked plugged.\n"), "{err}");
    let (code, out, err) = at(&["reconcile", "tenant/plugged", "--wait", "-o", "json"]);
    assert_eq!((code, &parsed(&out)["handled"]), (0, &json!(true)), "{out}{err}");

    let (code, _, err) = at(&["rotate-key", "plugged/primary", "--finish"]);
    assert_eq!((code, err.contains("is the only active one")), (1, true), "{err}");
    let (code, out, err) = at(&["rotate-key", "plugged/primary"]);
    assert_eq!((code, out.contains("API key primary-2 is added")), (0, true), "{out}{err}");
    eventually("the second key", SOON, async || {
        let keys = release.object("tenant", "plugged")["status"]["apiKeys"].clone();
        keys.as_array().is_some_and(|keys| {
            keys.iter().any(|key| key["name"] == "primary-2" && key["fingerprint"].is_string())
        })
    })
    .await;
    let (code, out, err) = at(&["rotate-key", "plugged/primary", "--finish", "-o", "json"]);
    let done = json!({"namespace": namespace, "tenant": "plugged", "added": null, "deactivated": {"name": "primary"}});
    assert_eq!((code, parsed(&out)), (0, done), "{out}{err}");
    let keys = release.object("tenant", "plugged")["spec"]["apiKeys"].clone();
    assert_eq!((&keys[0]["active"], &keys[1]["name"]), (&json!(false), &json!("primary-2")), "{keys}");

    release.kubectl(&[
        "label",
        "tenant",
        "plugged",
        "kustomize.toolkit.fluxcd.io/name=apps",
        "kustomize.toolkit.fluxcd.io/namespace=flux",
    ]);
    let (code, _, err) = at(&["rotate-key", "plugged/primary-2"]);
    assert_eq!((code, err.contains("is managed by the Flux Kustomization flux/apps")), (1, true), "{err}");
}

#[tokio::test]
async fn databases_of_earlier_tenants_are_listed_and_taken_over() {
    let mut release = Release::new("adopting");
    release.with_postgres().await;
    let _operator = release.start().await;
    release.apply(&tenant_yaml("retaken"));
    release.wait("tenant", "retaken", "Ready", "True Ready").await;
    release.kubectl(&["delete", "tenant", "retaken"]);
    release.kubectl(&[
        "delete",
        "secret",
        "--ignore-not-found",
        "retaken-apikey-primary",
        "retaken-database",
    ]);
    release.apply(&tenant_yaml("retaken"));
    release.wait("tenant", "retaken", "Ready", "False NotOwned").await;
    let namespace = release.tenants.clone();
    let adopt = |arguments: &[&str]| as_admin(&[&["--namespace", &namespace, "adopt"], arguments].concat());

    let waiting =
        json!({"namespace": namespace, "name": "retaken", "database": "tenant_retaken", "state": "waiting"});
    let (code, out, err) = adopt(&["--all", "-o", "json"]);
    assert_eq!((code, parsed(&out)), (0, json!({"tenants": [waiting], "annotated": null})), "{err}");
    let annotations = release.object("tenant", "retaken")["metadata"]["annotations"].clone();
    assert_eq!(annotations["docket.dev/adopt-database"], Value::Null, "it is only listed");
    let (code, out, err) = adopt(&["--selector", "tier=gold", "--yes"]);
    assert_eq!((code, out.as_str()), (0, "No database waits to be taken over.\n"), "{err}");
    release.kubectl(&["label", "tenant", "retaken", "tier=gold"]);
    let (code, out, err) = adopt(&["--selector", "tier=gold", "--yes"]);
    assert_eq!((code, out.contains("1 annotated; ")), (0, true), "{out}{err}");
    release.wait("tenant", "retaken", "Ready", "True Ready").await;
    assert_eq!(adopt(&["retaken"]).0, 0);
}

#[test]
fn kubectl_completes_commands_flags_and_names() {
    let release = Release::new("completed");
    release.apply(&tenant_yaml("offered"));
    release.apply(&webhook_yaml("offered-orders", "offered", ""));
    let (code, script, err) = as_admin(&["completion"]);
    assert_eq!(code, 0, "{err}");
    let program = release.file("kubectl_complete-docket", &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let own = std::env::current_exe().expect("a test has a path");
    let plugin = own.parent().and_then(Path::parent).expect("below target");
    let path = [program.parent().expect("a folder"), plugin, Path::new("/usr/bin"), Path::new("/bin")];
    let path = std::env::join_paths(path).expect("no colons");
    // kubectl itself asks, as its completion does in each shell. What it offers for the last word, without the help.
    let offered = |words: &[&str]| {
        let mut command = cluster().program();
        command
            .env("PATH", &path)
            .env("KUBECONFIG", cluster().admin())
            .args(["__complete", "docket"])
            .args(words);
        let output = command.output().expect("kubectl starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines = text.lines().filter(|line| !line.starts_with(':'));
        lines.map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let namespace = release.tenants.as_str();
    assert_eq!(offered(&["sta"]), ["status"]);
    assert_eq!(offered(&["resend", "--pro"]), ["--probe"]);
    assert_eq!(offered(&["-n", namespace, "status", ""]), ["offered"]);
    assert_eq!(offered(&["deliveries", "-n", namespace, "off"]), ["offered-orders"]);
    assert_eq!(offered(&["trace", "order", "1", "-n", namespace, "--tenant", "o"]), ["offered"]);
    assert_eq!(offered(&["reconcile", "-n", namespace, ""]), ["tenant/offered", "webhook/offered-orders"]);
    assert_eq!(offered(&["rotate-key", "-n", namespace, "offered/"]), ["offered/primary"]);
    assert!(offered(&["status", "-n", &namespace[..namespace.len() - 1]]).iter().any(|one| one == namespace));
    assert_eq!(offered(&["status", "-n", "no-such-namespace", ""]), <[&str; 0]>::default());
}

#[tokio::test]
async fn a_check_names_what_is_wrong_and_how_to_correct_it() {
    let release = Release::new("checked");
    release.apply(&tenant_yaml("unseen"));
    release.apply(&webhook_yaml("unseen-orders", "unseen", ""));
    let (code, out, err) = as_admin(&[
        "check",
        "--namespace",
        &release.tenants,
        "--release-namespace",
        &release.namespace,
        "-o",
        "json",
    ]);
    assert_eq!((code, err.as_str()), (1, "error: 4 checks failed\n"), "{out}");
    let all = parsed(&out)["checks"].as_array().expect("a list").clone();
    let of = |result: &str| all.iter().filter(|line| line["result"] == result).collect::<Vec<_>>();
    assert_eq!((of("ok").len(), of("failed").len(), of("warning").len()), (2, 4, 2), "{out}");
    assert!(of("ok").iter().all(|line| line["section"] == "docket-crds"));
    for line in of("failed").into_iter().chain(of("warning")) {
        assert!(line["fix"].is_string() && line["page"].is_string(), "{line}");
    }
    let nowhere = release.file("nowhere.kubeconfig", "apiVersion: v1\nkind: Config\n");
    let (code, _, err) = docket(&nowhere, &["check"]);
    assert_eq!(
        (code, err.contains("no access: the kubeconfig has no current context; ")),
        (3, true),
        "{err}"
    );
    let missing = release.file("missing.kubeconfig", "").with_extension("gone");
    let (code, _, err) = docket(&missing, &["status"]);
    let text = format!("error: no access: the kubeconfig {} does not exist; ", missing.display());
    assert_eq!((code, err.starts_with(&text)), (3, true), "{err}");
    assert_eq!(as_admin(&["status", "--output", "yaml"]).0, 2);
    let (code, out, _) = as_admin(&["check", "--pre", "--release-namespace", &release.namespace]);
    assert!(
        code == 0 && out.contains("✓ the API server has version") && out.contains("✓ you may create secrets"),
        "{out}"
    );
}

/// A verb and a resource.
type Right = (String, String);

/// The rows of the document: a command with its rights in the cluster, in the release's namespace, in the Tenants'.
fn documented() -> Vec<(String, [Vec<Right>; 3])> {
    let document = include_str!("../../docs/reference/kubectl-docket.md");
    let (_, table) = document.split_once("## Rights").expect("its section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(command, cells)| {
        let mut cells = cells.split('|').map(|cell| {
            let rights = cell.split(',').filter_map(|right| right.trim().split_once(' '));
            rights.map(|(verb, resource)| (verb.to_owned(), resource.to_owned())).collect::<Vec<_>>()
        });
        (command.to_owned(), std::array::from_fn(|_| cells.next().expect("three cells")))
    })
    .collect()
}

fn rules(rights: &[Right]) -> Value {
    let group = |resource: &str| match resource {
        "customresourcedefinitions" => "apiextensions.k8s.io",
        "selfsubjectaccessreviews" => "authorization.k8s.io",
        "deployments" => "apps",
        "tenants"
        | "webhooks"
        | "tenants/deliveries"
        | "webhooks/deliveries"
        | "tenants/audit"
        | "tenants/people" => "docket.dev",
        "pods" | "pods/portforward" | "pods/log" => "",
        "events" => "events.k8s.io",
        other => panic!("{other} has no group here"),
    };
    let rule = |(verb, resource): &Right| json!({"apiGroups": [group(resource)], "resources": [resource], "verbs": [verb]});
    rights.iter().map(rule).collect()
}

#[test]
fn each_command_needs_the_rights_that_the_document_lists_and_no_others() {
    let release = Release::new("rights");
    release.apply(&tenant_yaml("allowed"));
    let names = [None, Some(release.namespace.as_str()), Some(release.tenants.as_str())];
    for (at, (command, rights)) in documented().into_iter().enumerate() {
        // `completion` needs no right. The other commands of this list ask a data plane: see `dataplane`.
        if ["completion", "deliveries", "trace", "resend", "set-aside", "test", "audit", "people", "report"]
            .contains(&command.as_str())
        {
            continue;
        }
        let account = format!("plugin-{at}");
        let kubeconfig = cluster().service_account(&release.namespace, &account);
        let mut arguments = vec!["--namespace", &release.tenants];
        arguments.extend(command.split(' '));
        arguments.extend(match command.as_str() {
            "reconcile" => vec!["tenant/allowed"],
            "rotate-key" => vec!["allowed/primary"],
            "status" => vec![],
            "upgrade" => vec!["status"],
            "adopt" => vec!["--all"],
            _ => vec!["--release-namespace", &release.namespace],
        });
        let can = |verb: &str, resource: &str, namespace: Option<&str>| {
            let place = namespace.map_or(vec![], |namespace| vec!["--namespace", namespace]);
            let ask = [&["auth", "can-i", verb, resource][..], &place].concat();
            cluster().kubectl_as(&kubeconfig, &ask, "").out.trim() == "yes"
        };
        let (code, _, err) = docket(&kubeconfig, &arguments);
        assert_eq!(
            (code, err.contains("/docs/reference/kubectl-docket.html#rights")),
            (3, true),
            "{command} without rights: {err}"
        );

        for (rights, namespace) in rights.iter().zip(names) {
            // What every user may is not given here.
            let missing = |(verb, resource): &&Right| {
                resource != "selfsubjectaccessreviews" && !can(verb, resource, namespace)
            };
            assert_eq!(
                rights.iter().filter(missing).count(),
                rights.iter().filter(|(_, one)| one != "selfsubjectaccessreviews").count()
            );
            let name = format!("{account}-{}", release.namespace);
            let (role, binding) = if namespace.is_some() {
                ("Role", "RoleBinding")
            } else {
                ("ClusterRole", "ClusterRoleBinding")
            };
            let meta = json!({"name": name, "namespace": namespace});
            let api = "rbac.authorization.k8s.io/v1";
            for object in [
                json!({"apiVersion": api, "kind": role, "metadata": meta, "rules": rules(rights)}),
                json!({"apiVersion": api, "kind": binding, "metadata": meta,
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": release.namespace}]}),
            ] {
                cluster()
                    .kubectl(&["apply", "-f", "-"], &object.to_string())
                    .expect("the administrator binds roles");
            }
            for (verb, resource) in rights {
                assert!(can(verb, resource, namespace), "{command}: {verb} {resource}");
            }
        }
        let (code, out, err) = docket(&kubeconfig, &arguments);
        assert!(code == 0 || code == 1 && !err.contains("no access"), "{command}: {code} {out}{err}");
        assert!(
            !can("get", "secrets", Some(&release.tenants))
                && !can("create", "pods/exec", Some(&release.tenants))
        );
    }
}
