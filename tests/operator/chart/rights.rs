//! What the programs may do in a cluster, and what people may.

use serde_json::{Value, json};

use super::helm::{Objects, documents, file, render, render_with, repository, text, texts};

/// Group, resource, verb.
type Right = (String, String, String);

/// What a role allows; none has a wildcard.
fn rights(role: &Value) -> Vec<Right> {
    let mut all = Vec::new();
    for rule in role["rules"].as_array().expect("a list") {
        assert!(rule.get("resourceNames").is_none(), "{rule}");
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    assert!(![group, resource, verb].contains(&"*"), "{rule}");
                    all.push((group.to_owned(), resource.to_owned(), verb.to_owned()));
                }
            }
        }
    }
    all
}

fn sorted(mut rights: Vec<Right>) -> Vec<Right> {
    rights.sort();
    rights
}

/// A group of rules in operator/rbac.yaml: which the operator's own suite grants it.
fn tested(groups: &[&str]) -> Vec<Right> {
    let text = std::fs::read_to_string(repository().join("operator/rbac.yaml")).expect("it is there");
    let all = documents(&text).remove(0);
    let rules = |group: &&str| rights(&json!({"rules": all[group]}));
    sorted(groups.iter().flat_map(rules).collect())
}

#[test]
fn without_a_watch_list_the_operator_has_one_cluster_role_of_what_it_is_tested_with() {
    let objects = render_with("");
    let role = objects.one("ClusterRole", "docket-system-docket-operator");
    assert_eq!(sorted(rights(role)), tested(&["kinds", "tenants", "namespaces"]));
    assert_eq!(objects.names("Role"), ["docket-dataplane", "docket-operator"]);
    assert_eq!(sorted(rights(objects.one("Role", "docket-operator"))), tested(&["release"]));
    let binding = objects.one("ClusterRoleBinding", "docket-system-docket-operator");
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "docket-system-docket-operator"})
    );
}

#[test]
fn with_a_watch_list_the_operator_has_rights_to_our_kinds_alone_in_the_whole_cluster() {
    let objects = render_with("watch: {namespaces: [a, b]}\nrbac: {aggregateClusterRoles: false}");
    assert_eq!(objects.names("ClusterRole"), ["docket-system-docket-operator"]);
    assert_eq!(
        sorted(rights(objects.one("ClusterRole", "docket-system-docket-operator"))),
        tested(&["kinds"])
    );
    for namespace in ["a", "b"] {
        let find = |kind| {
            let mut all = objects.all(kind).into_iter();
            all.find(|role| role["metadata"]["namespace"] == namespace).expect("there is one")
        };
        assert_eq!(sorted(rights(find("Role"))), tested(&["tenants"]));
        assert_eq!(find("RoleBinding")["roleRef"]["name"], find("Role")["metadata"]["name"]);
        assert_eq!(
            find("RoleBinding")["subjects"],
            json!([{"kind": "ServiceAccount", "name": "docket-operator", "namespace": "docket-system"}])
        );
    }
    assert_eq!(sorted(rights(objects.one("Role", "docket-operator"))), tested(&["release"]));
}

#[test]
fn the_operator_writes_secrets_under_the_policy_that_it_is_tested_with() {
    let objects = render_with("operator: {serviceAccount: {name: other}}");
    let name = "docket-system-docket-operator-secrets";
    let text =
        std::fs::read_to_string(repository().join("operator/secrets-policy.yaml")).expect("it is there");
    let text = text.replace("$OPERATOR", "system:serviceaccount:docket-system:other");
    let expected = documents(&text.replace("$RUNTIME", "docket-runtime")).remove(0);
    assert_eq!(objects.one("ValidatingAdmissionPolicy", name)["spec"], expected);
    assert_eq!(
        objects.one("ValidatingAdmissionPolicyBinding", name)["spec"],
        json!({"policyName": name, "validationActions": ["Deny"]})
    );
    assert!(render_with("rbac: {create: false}").all("ValidatingAdmissionPolicy").is_empty());
}

#[test]
fn the_data_plane_reads_secrets_of_its_namespace_and_no_more() {
    let objects = render(&file("ci/full-values.yaml"));
    let role = objects.one("Role", "docket-dataplane");
    assert_eq!(role["metadata"]["namespace"], "docket-runtime");
    let secrets = |verb: &str| (String::new(), "secrets".to_owned(), verb.to_owned());
    assert_eq!(rights(role), ["get", "list", "watch"].map(secrets));
    let subjects = objects.one("RoleBinding", "docket-dataplane")["subjects"].as_array().expect("a list");
    let names: Vec<&str> = subjects.iter().map(|subject| text(&subject["name"])).collect();
    assert_eq!(names, ["docket-api", "docket-worker", "shared"]);
    for binding in objects.all("ClusterRoleBinding") {
        assert_eq!(binding["subjects"][0]["name"], "docket-operator");
    }
    let accounts = [
        ("api", "docket-api"),
        ("worker", "docket-worker"),
        ("detector", "shared"),
        ("operator", "docket-operator"),
    ];
    for (component, account) in accounts {
        let pod = objects.pod(&format!("docket-{component}"));
        assert_eq!(pod["serviceAccountName"], account, "{component}");
    }
    // One account for all three is bound once.
    let one = "serviceAccount: {create: false, name: shared}";
    let objects = render_with(&format!("api: {{{one}}}\nworker: {{{one}}}\ndetector: {{{one}}}"));
    assert_eq!(objects.one("RoleBinding", "docket-dataplane")["subjects"].as_array().map(Vec::len), Some(1));
    assert_eq!(objects.pod("docket-worker")["serviceAccountName"], "shared");
    assert_eq!(objects.names("ServiceAccount"), ["docket-operator"]);
}

#[test]
fn only_the_apis_pods_may_ask_for_reviews_and_only_if_the_platform_is_enabled() {
    let objects = render_with("platform: {enabled: true}");
    let name = "docket-system-docket-reviews";
    let create = |group: &str, resource: &str| (group.to_owned(), resource.to_owned(), "create".to_owned());
    assert_eq!(
        rights(objects.one("ClusterRole", name)),
        [
            create("authentication.k8s.io", "tokenreviews"),
            create("authorization.k8s.io", "subjectaccessreviews")
        ]
    );
    let binding = objects.one("ClusterRoleBinding", name);
    assert_eq!(
        (&binding["roleRef"]["name"], binding["subjects"].as_array().map(Vec::len)),
        (&json!(name), Some(1))
    );
    assert_eq!(binding["subjects"][0]["name"], "docket-api");
    let has_flag = |objects: &Objects, component: &str| objects.arguments(component).contains(&"--platform");
    assert!(has_flag(&objects, "docket-api"));
    assert!(!has_flag(&objects, "docket-worker") && !has_flag(&objects, "docket-detector"));
    let objects = render_with("");
    assert!(!has_flag(&objects, "docket-api"));
    assert!(!objects.names("ClusterRole").iter().any(|role| role.ends_with("-reviews")));
}

#[test]
fn only_the_portals_account_writes_webhooks_under_the_policy_that_it_is_tested_with() {
    let objects = render_with("portal: {enabled: true, declareWebhooks: true}");
    let name = "docket-system-docket-portal";
    let of = |verb: &str| ("docket.dev".to_owned(), "webhooks".to_owned(), verb.to_owned());
    assert_eq!(rights(objects.one("ClusterRole", name)), ["get", "create", "update", "delete"].map(of));
    let account = json!([{"kind": "ServiceAccount", "name": "docket-portal", "namespace": "docket-system"}]);
    assert_eq!(objects.one("ClusterRoleBinding", name)["subjects"], account);
    let impersonate = json!([
        {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["docket-portal"], "verbs": ["impersonate"]}
    ]);
    assert_eq!(objects.one("Role", "docket-portal")["rules"], impersonate);
    let of_api = json!([{"kind": "ServiceAccount", "name": "docket-api", "namespace": "docket-system"}]);
    assert_eq!(objects.one("RoleBinding", "docket-portal")["subjects"], of_api);
    for deployment in objects.all("Deployment") {
        assert_ne!(
            deployment["spec"]["template"]["spec"]["serviceAccountName"], "docket-portal",
            "no pod runs as it"
        );
    }
    let policy =
        std::fs::read_to_string(repository().join("dataplane/portal-policy.yaml")).expect("it is there");
    let policy = policy.replace("$PORTAL", "system:serviceaccount:docket-system:docket-portal");
    assert_eq!(objects.one("ValidatingAdmissionPolicy", name)["spec"], documents(&policy).remove(0));
    assert_eq!(
        objects.one("ValidatingAdmissionPolicyBinding", name)["spec"],
        json!({"policyName": name, "validationActions": ["Deny"]})
    );
    let flag = "--portal-account=docket-system/docket-portal";
    assert!(objects.arguments("docket-api").contains(&flag));
    assert!(!objects.arguments("docket-worker").contains(&flag));

    // The portal has rights in watched namespaces, and in the namespace where it tries the policy.
    let watched = "portal: {enabled: true, declareWebhooks: true}\nwatch: {namespaces: [a, b]}";
    let objects = render_with(watched);
    assert!(!objects.names("ClusterRoleBinding").contains(&name));
    let bindings =
        objects.all("RoleBinding").into_iter().filter(|binding| binding["roleRef"]["name"] == name);
    let namespaces: Vec<&str> = bindings.map(|binding| text(&binding["metadata"]["namespace"])).collect();
    assert_eq!(namespaces, ["a", "b", "docket-runtime"]);

    let objects = render_with("portal: {enabled: true}");
    assert!(!objects.names("ServiceAccount").contains(&"docket-portal"));
    assert!(!objects.arguments("docket-api").contains(&flag));
}

#[test]
fn the_data_plane_cannot_read_the_secrets_of_the_release() {
    let objects = render_with("");
    for (kind, name) in [
        ("Role", "docket-dataplane"),
        ("RoleBinding", "docket-dataplane"),
        ("Role", "docket-operator"),
        ("RoleBinding", "docket-operator"),
    ] {
        assert_eq!(objects.one(kind, name)["metadata"]["namespace"], "docket-runtime", "{kind} {name}");
    }
    assert_eq!(objects.names("Role").len(), 2);
    let container = |component: &str| objects.pod(component)["containers"][0].to_string();
    assert!(container("docket-operator").contains("--release-namespace=docket-runtime"));
    for component in ["docket-api", "docket-worker", "docket-detector"] {
        assert!(
            container(component).contains(r#""DOCKET_CONFIG_NAMESPACE","value":"docket-runtime""#),
            "{component}"
        );
    }
}

#[test]
fn people_may_by_their_role_in_a_namespace_and_none_writes_status() {
    let objects = render_with("");
    let aggregated = |objects: &Objects, name: &str| -> Vec<String> {
        let role = objects.one("ClusterRole", &format!("docket-system-docket-{name}"));
        let labels = role["metadata"]["labels"].as_object().expect("labels").keys();
        labels
            .filter_map(|label| label.strip_prefix("rbac.authorization.k8s.io/aggregate-to-"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        (aggregated(&objects, "view"), aggregated(&objects, "edit")),
        (vec!["view".into()], vec!["edit".into()])
    );
    assert!(aggregated(&objects, "tenants").is_empty(), "an admin of a namespace makes no Tenants");
    assert_eq!(aggregated(&render_with("rbac: {aggregateTenants: true}"), "tenants"), ["admin"]);
    for (name, resources, writes) in [("view", 2, false), ("edit", 1, true), ("tenants", 2, true)] {
        let role = objects.one("ClusterRole", &format!("docket-system-docket-{name}"));
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
