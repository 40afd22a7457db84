//! What /openapi.json says of routes and credentials, held against what is served.

use std::collections::BTreeSet;

use docket_tests::openapi::{API, document, operations, words};
use docket_tests::server::{Client, JSON, Server};
use serde_json::json;

use super::rig::Rig;

#[tokio::test]
async fn both_credentials_are_required_by_document_and_server() {
    let rig = Rig::start().await;
    let document = document(&rig.server, API).await;
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!((&schemes["ApiKey"]["type"], &schemes["ApiKey"]["in"]), (&"apiKey".into(), &"header".into()));
    assert_eq!(schemes["ApiKey"]["name"], "X-Api-Key");
    assert_eq!(
        (&schemes["Bearer"]["type"], &schemes["Bearer"]["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    assert_eq!(schemes["Bearer"]["bearerFormat"], "JWT");

    // A caller that may call every route.
    let client = rig.alex().await;
    for (method, path, operation) in operations(&document) {
        let signs_in = words(&operation["tags"]).iter().any(|tag| matches!(*tag, "Auth" | "Legacy host"));
        // One requirement with two schemes means both; two requirements would mean either.
        let expected = if signs_in { json!([{"ApiKey": []}]) } else { json!([{"ApiKey": [], "Bearer": []}]) };
        assert_eq!(operation["security"], expected, "{method} {path}");
        let statuses = each_way(&rig.server, &client, &method, &path).await;
        let [none, only_key, only_token, wrong_key, wrong_token, both] = statuses;
        assert_eq!([none, only_token, wrong_key], [401; 3], "{method} {path}");
        if signs_in {
            assert_eq!([only_key, wrong_token, both], [400; 3], "{method} {path} takes no token");
        } else {
            assert_eq!([only_key, wrong_token], [401; 2], "{method} {path}");
            assert!(matches!(both, 200 | 400), "{method} {path}: {both}");
        }
    }
}

/// The statuses of an empty request with no credential, the key, the token, a wrong key and the token, the key and a
/// wrong token, both.
async fn each_way(server: &Server, client: &Client, method: &str, path: &str) -> [u16; 6] {
    let bearer = format!("Bearer {}", client.token);
    let wrong = format!("Bearer {}", client.token.replacen('.', "x.", 1));
    let (key, token) = (("x-api-key", client.key.as_str()), ("authorization", bearer.as_str()));
    let wrong_key = "0".repeat(64);
    let mut statuses = [0; 6];
    let headers: [&[(&str, &str)]; 6] = [
        &[],
        &[key],
        &[token],
        &[("x-api-key", &wrong_key), token],
        &[key, ("authorization", &wrong)],
        &[key, token],
    ];
    for (status, headers) in statuses.iter_mut().zip(headers) {
        let headers = [headers, &[JSON]].concat();
        *status = server.send(method, path, &headers, "{}").await.status;
    }
    statuses
}

#[tokio::test]
async fn on_a_tenants_subdomain_the_token_alone_is_enough() {
    let rig = Rig::start().await;
    let client = rig.ada().await;
    let bearer = format!("Bearer {}", client.token);
    let headers = [("host", "acme.localhost"), ("authorization", bearer.as_str())];
    assert_eq!(rig.server.send("GET", "/Orders/Search", &headers, "").await.status, 200);
    assert_eq!(rig.server.send("GET", "/Orders/Search", &headers[..1], "").await.status, 401);
}

#[tokio::test]
async fn every_route_is_documented_and_none_manages_webhooks() {
    let rig = Rig::start().await;
    let document = document(&rig.server, API).await;
    let documented: BTreeSet<String> = operations(&document).into_iter().map(|(_, path, _)| path).collect();
    let parts = |path: &String| {
        let (resource, action) = path[1..].split_once('/').expect("a resource and an action");
        (resource.to_owned(), action.to_owned())
    };
    let (mut resources, mut actions): (BTreeSet<_>, BTreeSet<_>) = documented.iter().map(parts).unzip();
    assert!(!resources.iter().any(|name| name.to_lowercase().contains("webhook") && name != "WebhookLogs"));
    resources.extend(["Webhooks", "Webhook", "WebhookEndpoints", "Tenants", "Customers"].map(str::to_owned));
    actions.extend(["Create", "Update", "Delete", "Remove", "List"].map(str::to_owned));
    for path in resources
        .iter()
        .flat_map(|resource| actions.iter().map(move |action| format!("/{resource}/{action}")))
    {
        // No operation accepts PUT. So a route responds 405, and a path without a route 404.
        let expected = if documented.contains(&path) { 405 } else { 404 };
        let reply = rig.server.send("PUT", &path, &[], "").await;
        assert_eq!(reply.status, expected, "{path}");
    }
    for path in ["/Webhooks", "/webhooks", "/Webhooks/1", "/api/webhooks", "/WebhookLogs"] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(rig.server.send(method, path, &[], "").await.status, 404, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_operations_that_the_contract_names_have_its_ids_and_statuses() {
    let rig = Rig::start().await;
    let document = document(&rig.server, API).await;
    assert_eq!(document["paths"]["/Auth/Token"]["post"]["operationId"], "Auth.CreateToken");
    assert_eq!(document["paths"]["/Employee/SignIn"]["post"]["operationId"], "Employee.SignIn");
    // All other statuses of this operation are its default.
    let statuses = document["paths"]["/Auth/Token"]["post"]["responses"].as_object().expect("responses");
    assert_eq!(statuses.keys().collect::<Vec<_>>(), ["200", "404", "default"]);
}
