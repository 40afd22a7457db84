//! What the programs may do in a cluster, and what people may.

use serde_json::{Value, json};

use super::helm::{Objects, file, render, render_with, text, texts};

/// (group, resource, verb) of each rule, with `resource?` where it names objects.
fn rights(role: &Value) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for rule in role["rules"].as_array().expect("a list") {
        let only = if rule.get("resourceNames").is_some() { "?" } else { "" };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    assert!(![group, resource, verb].contains(&"*"), "{rule}");
                    all.push((group.to_owned(), format!("{resource}{only}"), verb.to_owned()));
                }
            }
        }
    }
    all
}

fn verbs(role: &Value, resource: &str) -> Vec<String> {
    rights(role).into_iter().filter(|(_, of, _)| of == resource).map(|(_, _, verb)| verb).collect()
}

fn operator(objects: &Objects) -> &Value {
    objects.one("ClusterRole", "docket-system-docket-operator")
}

#[test]
fn without_a_watch_list_the_operator_has_one_cluster_role() {
    let objects = render_with("");
    let role = operator(&objects);
    assert_eq!(verbs(role, "tenants"), ["get", "list", "watch", "patch"]);
    assert_eq!(verbs(role, "webhooks/status"), ["patch"]);
    assert_eq!(verbs(role, "secrets"), ["get", "list", "watch", "create", "update", "patch", "delete"]);
    assert_eq!(verbs(role, "namespaces"), ["get", "list", "watch"]);
    assert_eq!(objects.names("Role"), ["docket-dataplane", "docket-operator"]);
    assert_eq!(verbs(objects.one("Role", "docket-operator"), "leases"), ["get", "create", "update"]);
}

#[test]
fn with_a_watch_list_no_cluster_role_has_a_secret_verb() {
    let objects = render_with("watch: {namespaces: [a, b]}");
    for role in objects.all("ClusterRole") {
        assert!(verbs(role, "secrets").is_empty(), "{role}");
    }
    assert_eq!(rights(operator(&objects)), [(String::new(), "namespaces?".into(), "get".into())]);
    assert_eq!(operator(&objects)["rules"][0]["resourceNames"], json!(["a", "b"]));
    for namespace in ["a", "b"] {
        let find = |kind| {
            let mut all = objects.all(kind).into_iter();
            all.find(|role| role["metadata"]["namespace"] == namespace).expect("there is one")
        };
        assert_eq!(
            verbs(find("Role"), "secrets"),
            ["get", "list", "watch", "create", "update", "patch", "delete"]
        );
        assert_eq!(find("RoleBinding")["roleRef"]["name"], find("Role")["metadata"]["name"]);
        assert_eq!(
            find("RoleBinding")["subjects"],
            json!([{"kind": "ServiceAccount", "name": "docket-operator", "namespace": "docket-system"}])
        );
    }
}

#[test]
fn the_data_plane_reads_secrets_of_its_namespace_and_no_more() {
    let objects = render(&file("ci/full-values.yaml"));
    let role = objects.one("Role", "docket-dataplane");
    assert_eq!(role["metadata"]["namespace"], "docket-system");
    let secrets = |verb: &str| (String::new(), "secrets".to_owned(), verb.to_owned());
    assert_eq!(rights(role), ["get", "list", "watch"].map(secrets));
    let subjects = objects.one("RoleBinding", "docket-dataplane")["subjects"].as_array().expect("a list");
    let names: Vec<&str> = subjects.iter().map(|subject| text(&subject["name"])).collect();
    assert_eq!(names, ["docket-api", "docket-worker", "shared"]);
    for binding in objects.all("ClusterRoleBinding") {
        assert_eq!(binding["subjects"][0]["name"], "docket-operator");
    }
    // One account for all three is bound once.
    let one = "serviceAccount: {create: false, name: shared}";
    let objects = render_with(&format!("api: {{{one}}}\nworker: {{{one}}}\ndetector: {{{one}}}"));
    assert_eq!(objects.one("RoleBinding", "docket-dataplane")["subjects"].as_array().map(Vec::len), Some(1));
    assert_eq!(objects.pod("docket-worker")["serviceAccountName"], "shared");
    assert_eq!(objects.names("ServiceAccount"), ["docket-operator"]);
}

#[test]
fn people_may_by_their_role_in_a_namespace_and_nobody_writes_status() {
    let objects = render_with("");
    for (name, resources, writes) in [("view", 2, false), ("edit", 1, true), ("admin", 2, true)] {
        let role = objects.one("ClusterRole", &format!("docket-system-docket-{name}"));
        assert_eq!(
            role["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{name}")],
            "true"
        );
        let rights = rights(role);
        assert!(rights.iter().all(|(group, resource, _)| group == "docket.dev" && !resource.contains('/')));
        assert_eq!(rights.iter().any(|(_, _, verb)| verb == "create"), writes, "{name}");
        let mut named: Vec<&String> = rights.iter().map(|(_, resource, _)| resource).collect();
        named.dedup();
        assert_eq!(named.len(), resources, "{name}");
    }
    let objects = render_with("rbac: {aggregateClusterRoles: false}");
    assert_eq!(objects.names("ClusterRole"), ["docket-system-docket-operator"]);
}

#[test]
fn without_rbac_create_there_are_no_roles_of_programs() {
    let objects = render_with("rbac: {create: false, aggregateClusterRoles: false}");
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        assert!(objects.all(kind).is_empty(), "{kind}");
    }
}
