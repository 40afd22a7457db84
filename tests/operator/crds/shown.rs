//! What people see of the two kinds with kubectl, and what the operator can keep in their status.

use docket_crds::crd;
use docket_tests::apiserver::cluster;
use serde_json::{Value, json};

fn tenant(name: &str, code: &str) -> Value {
    json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
        "spec": {"clientCode": code, "database": {"managed": {"name": name}}}
    })
}

fn webhook(name: &str, tenant: &str, customer: &str) -> Value {
    json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": name},
        "spec": {"tenantRef": {"name": tenant}, "customerCode": customer, "targetURL": "https://h.example/",
            "events": ["order.created"]}
    })
}

fn conditions(ready: &str, second: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "SecretNotFound", "message": "a message",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!([condition("Ready", ready), condition(second, "Unknown")])
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A namespace with two tenants and two webhooks. The first tenant and the first webhook have a full status.
fn furnished() -> String {
    let cluster = cluster();
    cluster.install_crds();
    let namespace = cluster.namespace("shown");
    let path = format!("/apis/docket.dev/v1alpha1/namespaces/{namespace}");
    for (kind, object) in [
        ("tenants", tenant("acme", "ACME")),
        ("tenants", tenant("beta", "BETA")),
        ("webhooks", webhook("acme-orders", "acme", "C-1")),
        ("webhooks", webhook("beta-orders", "beta", "C-2")),
    ] {
        cluster.post(&format!("{path}/{kind}"), &object).expect("it is valid");
    }
    for (object, status) in [
        (
            "tenants/acme",
            json!({
                "observedGeneration": 1, "lastHandledReconcileAt": "now", "webhooks": 1,
                "database": {"name": "acme", "role": "acme_app", "server": "main", "secretName": "s", "schemaVersion": "0007"},
                "apiKeys": [{"name": "a", "active": true, "fingerprint": "sha256:00", "secretName": "s"}],
                "conditions": conditions("False", "DatabaseReady")
            }),
        ),
        (
            "webhooks/acme-orders",
            json!({
                "observedGeneration": 1, "lastHandledReconcileAt": "now", "signed": true, "secretVersion": "v",
                "deliveries": {"pending": 1, "deadLetter": 2, "lastSuccessAt": "2026-01-01T00:00:00Z"},
                "conditions": conditions("True", "DeliveryHealthy")
            }),
        ),
    ] {
        let stored = cluster.get(&format!("{path}/{object}")).expect("it is stored");
        let mut stored: Value = serde_json::from_str(&stored).expect("JSON");
        stored["status"] = status.clone();
        let strictly = format!("{path}/{object}/status?fieldValidation=Strict");
        let answer = cluster.put(&strictly, &stored).expect("the status is valid");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["status"], status, "every field of the status is kept");
        let ours = match object {
            "tenants/acme" => serde_json::from_value::<docket_crds::TenantObject>(answer)
                .map(|object| (object.declared().is_ok(), serde_json::to_value(object.status))),
            _ => serde_json::from_value::<docket_crds::WebhookObject>(answer)
                .map(|object| (object.declared().is_ok(), serde_json::to_value(object.status))),
        };
        let (declared, read_back) = ours.expect("our types read what is stored");
        assert!(declared);
        assert_eq!(read_back.expect("plain data"), status, "our types know every field of the status");
    }
    namespace
}

#[test]
fn columns_short_names_category_and_selectors() {
    let cluster = cluster();
    let namespace = furnished();
    let get = |arguments: &[&str]| {
        let all = [&["--namespace", &namespace, "get"], arguments].concat();
        cluster.kubectl(&all, "").expect("kubectl shows it")
    };

    let shown = get(&["tnt"]);
    let lines: Vec<_> = shown.lines().map(words).collect();
    assert_eq!(lines[0], ["NAME", "CODE", "READY", "REASON", "SUSPENDED", "WEBHOOKS", "AGE"]);
    assert_eq!(lines[1][..6], ["acme", "ACME", "False", "SecretNotFound", "false", "1"]);
    let shown = get(&["tnt", "--output=wide"]);
    let wide = ["WEBHOOKS", "DATABASE", "SCHEMA", "MESSAGE", "AGE"];
    assert_eq!(words(shown.lines().next().expect("a header"))[5..], wide);
    assert!(shown.contains(" 0007 ") && shown.contains(" a message "), "{shown}");

    let shown = get(&["wh"]);
    let lines: Vec<_> = shown.lines().map(words).collect();
    let header =
        ["NAME", "TENANT", "CUSTOMER", "ACTIVE", "READY", "REASON", "HEALTHY", "PENDING", "DEAD", "AGE"];
    assert_eq!(lines[0], header);
    let row = ["acme-orders", "acme", "C-1", "true", "True", "SecretNotFound", "Unknown", "1", "2"];
    assert_eq!(lines[1][..9], row);
    let shown = get(&["wh", "--output=wide"]);
    assert_eq!(words(shown.lines().next().expect("a header"))[9..], ["SIGNED", "URL", "MESSAGE", "AGE"]);

    let shown = cluster.kubectl(&["get", "docket", "--all-namespaces"], "").expect("the category is known");
    for part in [
        &format!("{namespace} "),
        "tenant.docket.dev/acme",
        "webhook.docket.dev/acme-orders",
        "REASON",
        "HEALTHY",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    for (kind, selector, found) in [
        ("webhooks", "spec.tenantRef.name=beta", "webhook.docket.dev/beta-orders"),
        ("webhooks", "spec.customerCode=C-1", "webhook.docket.dev/acme-orders"),
        ("tenants", "spec.clientCode=BETA", "tenant.docket.dev/beta"),
    ] {
        assert_eq!(get(&[kind, "--output=name", "--field-selector", selector]).trim(), found);
    }
}

#[test]
fn the_definitions_are_established_without_complaint() {
    let cluster = cluster();
    cluster.install_crds();
    for definition in crd::definitions() {
        let name = definition.metadata.name.expect("it has one");
        let shown = cluster.kubectl(&["get", "crd", &name, "--output=json"], "").expect("it is there");
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        for condition in shown["status"]["conditions"].as_array().expect("there are some") {
            let (kind, status) = (condition["type"].as_str(), condition["status"].as_str());
            let well = if kind == Some("NonStructuralSchema") { "False" } else { "True" };
            assert_eq!(status, Some(well), "{condition}");
        }
    }
    // Unknown fields and formats are warnings.
    let apply =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
    let said = cluster.kubectl(&apply, &crd::yaml());
    assert!(said.ok && said.err.is_empty(), "{}", said.err);
}

#[test]
fn the_examples_can_be_applied() {
    let cluster = cluster();
    cluster.install_crds();
    let namespace = cluster.namespace("examples");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let apply =
        ["--namespace", &namespace, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f"];
    let said = cluster.kubectl(&[&apply[..], &[examples]].concat(), "").expect("the examples are valid");
    assert!(
        said.contains("tenant.docket.dev/acme") && said.contains("webhook.docket.dev/globex-orders"),
        "{said}"
    );
}
