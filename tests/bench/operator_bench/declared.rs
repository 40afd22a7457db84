//! The objects that a run declares.

use serde_json::{Value, json};

/// The path of a kind's objects in a namespace.
pub(crate) fn path(namespace: &str, kind: &str) -> String {
    match kind {
        "tenants" | "webhooks" => format!("/apis/docket.dev/v1alpha1/namespaces/{namespace}/{kind}"),
        _ => format!("/api/v1/namespaces/{namespace}/{kind}"),
    }
}

/// A Tenant with a generated API key and a managed database.
pub(crate) fn managed(name: &str) -> Value {
    tenant(name, &json!({"managed": {"name": docket_tests::operator::database_name(name)}}))
}

/// A Tenant with a generated API key and an external database, whose URL is in a [`secret`].
pub(crate) fn external(name: &str) -> Value {
    tenant(name, &json!({"external": {"secretKeyRef": {"name": secret_name(name), "key": "url"}}}))
}

fn tenant(name: &str, database: &Value) -> Value {
    json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
        "spec": {
            "clientCode": name.to_uppercase(), "apiKeys": [{"name": "primary", "generate": {}}],
            "database": database,
        },
    })
}

/// The Secret with the URL of a Tenant's external database. The operator watches it, as the documentation advises.
pub(crate) fn secret(tenant: &str, url: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": secret_name(tenant), "labels": {"docket.dev/watch": "true"}},
        "stringData": {"url": url},
    })
}

fn secret_name(tenant: &str) -> String {
    format!("{tenant}-url")
}

/// An unsigned Webhook.
pub(crate) fn webhook(name: &str, tenant: &str) -> Value {
    json!({
        "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": name},
        "spec": {
            "tenantRef": {"name": tenant}, "customerCode": "C-1",
            "targetURL": format!("https://hooks.example/{name}"), "events": ["order.created"],
        },
    })
}

/// A ConfigMap as large as a Webhook.
pub(crate) fn config_map(number: usize) -> Value {
    let name = format!("bare-{number}");
    let webhook = webhook(&name, "t0").to_string();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"webhook": webhook}})
}
