//! What the other suites rely on: the log of writes, limited users, and controllers that clean up.

use docket_tests::apiserver::cluster;

#[test]
fn writes_are_logged_with_their_user() {
    let cluster = cluster();
    let namespace = cluster.namespace("rig");
    let limited = cluster.service_account(&namespace, "limited");
    let role =
        ["--namespace", &namespace, "create", "role", "maker", "--verb=create", "--resource=configmaps"];
    cluster.kubectl(&role, "").expect("the administrator makes roles");
    let account = format!("--serviceaccount={namespace}:limited");
    let grant = ["--namespace", &namespace, "create", "rolebinding", "limited", "--role=maker", &account];
    cluster.kubectl(&grant, "").expect("the administrator grants roles");

    let mark = cluster.mark();
    let create = ["create", "configmap", "noted", "--from-literal=a=b"];
    cluster.kubectl_as(&limited, &create, "").expect("the role says so");
    cluster.kubectl_as(&limited, &["create", "configmap", "not", "--dry-run=server"], "").expect("as above");
    let refused = cluster.kubectl_as(&limited, &["create", "namespace", "another"], "");
    assert!(!refused.ok && refused.err.contains("forbidden"), "{}", refused.err);

    let user = format!("system:serviceaccount:{namespace}:limited");
    let writes = cluster.writes(mark);
    let seen: Vec<_> = writes
        .iter()
        .filter(|write| write.user == user)
        .map(|write| (write.verb.as_str(), write.resource.as_str(), write.name.as_str(), write.code))
        .collect();
    assert_eq!(seen, [("create", "configmaps", "noted", 201), ("create", "namespaces", "", 403)]);
    assert!(writes.iter().any(|write| write.agent.starts_with("kubectl/") && write.namespace == namespace));
}

#[test]
fn with_controllers_a_namespace_ends() {
    let cluster = cluster();
    cluster.start_controllers();
    let namespace = cluster.namespace("ending");
    let delete = ["delete", "namespace", &namespace, "--timeout=90s"];
    cluster.kubectl(&delete, "").expect("the namespace is emptied and goes");
}
