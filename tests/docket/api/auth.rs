//! POST /Auth/Token, /Session/Create, /Employee/SignIn: what they answer to the right credentials.

use docket_tests::people::{ADA, MO};
use docket_tests::server::{JSON, Reply, api_key};
use serde_json::{Value, json};

use super::rig::{Rig, credentials, with};

/// The body without its token, which must look like a JWT.
fn without_token(reply: &Reply, name: &str) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut body = reply.json();
    let token = body.as_object_mut().expect("an object").remove(name).expect("a token");
    assert_eq!(token.as_str().expect("text").split('.').count(), 3);
    body
}

#[tokio::test]
async fn a_token_is_answered_with_whom_it_is_for() {
    let rig = Rig::start().await;
    let reply = rig.sign_in("/Auth/Token", &credentials(ADA)).await;
    let expected = json!({"tokenType": "Bearer", "expiresInMinutes": 60, "customerCode": "C-1",
        "contactCode": "11", "contact": "Ada One"});
    assert_eq!(without_token(&reply, "token"), expected);
    assert_eq!(reply.headers["content-type"], "application/json");
    assert_eq!(reply.headers["cache-control"], "no-store");
    assert!(!reply.headers["x-request-id"].is_empty());
}

#[tokio::test]
async fn a_session_has_the_token_as_session_guid() {
    let rig = Rig::start().await;
    // Clients of the older shape may send more.
    let body = with(credentials(ADA), json!({"applicationName": "older", "version": 3}));
    let reply = rig.sign_in("/Session/Create", &body).await;
    let expected =
        json!({"expiresInMinutes": 60, "customerCode": "C-1", "contactCode": "11", "contact": "Ada One"});
    assert_eq!(without_token(&reply, "sessionGuid"), expected);
}

#[tokio::test]
async fn an_employee_gets_a_token_with_its_own_names() {
    let rig = Rig::start().await;
    let reply = rig.sign_in("/Employee/SignIn", &credentials(MO)).await;
    let expected = json!({"tokenType": "Bearer", "expiresInMinutes": 60, "employeeCode": "51",
        "employee": "Mo Ito"});
    assert_eq!(without_token(&reply, "token"), expected);
}

#[tokio::test]
async fn the_key_is_taken_under_both_names_in_any_case_and_twice_if_equal() {
    let rig = Rig::start().await;
    let (key, body) = (api_key('a'), credentials(ADA).to_string());
    let upper = key.to_uppercase();
    for headers in [
        vec![("X-Api-Key", key.as_str())],
        vec![("ApiKey", key.as_str())],
        vec![("APIKEY", key.as_str())],
        vec![("x-api-key", upper.as_str())],
        vec![("X-Api-Key", key.as_str()), ("ApiKey", key.as_str())],
    ] {
        let reply = rig.server.send("POST", "/Auth/Token", &[&headers[..], &[JSON]].concat(), &body).await;
        assert_eq!(reply.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn a_subdomain_needs_no_key() {
    let rig = Rig::start().await;
    let body = credentials(ADA).to_string();
    for host in ["acme.localhost", "ACME.LocalHost:8080", "acme.localhost."] {
        let reply = rig.server.send("POST", "/Auth/Token", &[("host", host), JSON], &body).await;
        assert_eq!(reply.status, 200, "{host}: {reply:?}");
    }
}

#[tokio::test]
async fn a_key_and_its_own_subdomain_go_together() {
    let rig = Rig::start().await;
    let key = api_key('a');
    let headers = [("host", "acme.localhost"), ("x-api-key", key.as_str()), JSON];
    let reply = rig.server.send("POST", "/Auth/Token", &headers, &credentials(ADA).to_string()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn the_client_code_may_be_sent_in_any_case_or_as_null() {
    let rig = Rig::start().await;
    for code in [json!("ACME"), json!("acme"), json!("AcMe"), json!(" ACME "), json!(""), Value::Null] {
        for (path, user) in [("/Auth/Token", ADA), ("/Session/Create", ADA), ("/Employee/SignIn", MO)] {
            let reply = rig.sign_in(path, &with(credentials(user), json!({"clientCode": code}))).await;
            assert_eq!(reply.status, 200, "{path} {code}");
        }
    }
}

#[tokio::test]
async fn a_user_id_is_known_in_any_case() {
    let rig = Rig::start().await;
    let reply = rig.sign_in("/Auth/Token", &credentials("Ada@One.Example")).await;
    assert_eq!(reply.json()["contactCode"], "11");
}

#[tokio::test]
async fn the_lifetime_is_the_tenants() {
    let home = super::rig::home(&[("acme", 'a')], "");
    let yaml = docket_tests::server::tenant_yaml("acme", 'a');
    home.write("acme.yaml", &yaml.replace("  database:", "  tokens: {lifetimeMinutes: 7}\n  database:"));
    let rig = Rig::on(home, "").await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.json()["expiresInMinutes"], 7);
}
