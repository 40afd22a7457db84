//! The legacy host: `clientCode` resolves the tenant, the session's token is enough, and no key counts.

use docket_tests::people::{ADA, BEA, MO};
use docket_tests::server::{JSON, Reply, api_key, tenant_yaml};
use serde_json::{Value, json};

use super::rig::{Rig, captioned, credentials, home, refused, with, wrong_fields};
use crate::delivery::stage::reload;

const HOST: (&str, &str) = ("host", "old.localhost");

async fn rig() -> Rig {
    Rig::on(home(&[("acme", 'a'), ("blue", 'b')], ""), "--legacy-host old.localhost").await
}

async fn post(rig: &Rig, path: &str, more: &[(&str, &str)], body: &Value) -> Reply {
    rig.server.send("POST", path, &[&[HOST, JSON], more].concat(), &body.to_string()).await
}

fn at(code: &str, user: &str) -> Value {
    with(credentials(user), json!({"clientCode": code}))
}

async fn session(rig: &Rig, code: &str, user: &str) -> String {
    let reply = post(rig, "/Session/Create", &[], &at(code, user)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    format!("Bearer {}", reply.json()["sessionGuid"].as_str().expect("text"))
}

#[tokio::test]
async fn the_client_code_resolves_the_tenant() {
    let rig = rig().await;
    for code in ["ACME", "acme", " Acme\n", "BLUE"] {
        let mut body = post(&rig, "/Session/Create", &[], &at(code, ADA)).await.json();
        assert!(body.as_object_mut().expect("an object").remove("sessionGuid").is_some());
        let expected =
            json!({"expiresInMinutes": 60, "customerCode": "C-1", "contactCode": "11", "contact": "Ada One"});
        assert_eq!(body, expected);
    }
}

#[tokio::test]
async fn the_hexadecimal_key_is_no_client_code() {
    let rig = rig().await;
    for key in [api_key('a'), api_key('9'), "DEADBEEF".repeat(8), "0123456789abcdef".repeat(2)] {
        let reply = post(&rig, "/Session/Create", &[], &at(&key, ADA)).await;
        refused(&reply, 403, &format!("API access is turned off for {key}"));
        let reply = post(&rig, "/Auth/Token", &[], &at(&key, ADA)).await;
        refused(&reply, 403, &format!("API access is turned off for {key}"));
    }
    let key = api_key('a');
    for key in [
        format!(" {key}"),
        format!("{key}\n"),
        format!("{{{key}}}"),
        format!("0x{key}"),
        format!("\"{key}\""),
        format!("\u{feff}{key}"),
        "01234567-89ab-cdef-0123-456789abcdef".to_owned(),
        "{0X01234567-89ab-cdef-0123-456789abcdef}\r\n".to_owned(),
        format!("{}\n{}", &key[..32], &key[32..]),
        format!("x'{key}'"),
        format!("\\x{}", ["8e"; 32].join("\\x")),
        format!("0x{}", ["8e"; 32].join(", 0x")),
        format!("\u{202e}{key}"),
    ] {
        let reply = post(&rig, "/Session/Create", &[], &at(&key, ADA)).await;
        let shown = key.replace(['\r', '\n', '\u{feff}', '\u{202e}'], "");
        refused(&reply, 403, &format!("API access is turned off for {shown}"));
    }
}

#[tokio::test]
async fn a_call_without_token_learns_where_this_host_gives_one() {
    let rig = rig().await;
    let reply = rig.server.send("GET", "/Orders/Search", &[HOST], "").await;
    let refusal = "The Bearer token is missing or has expired; get a sessionGuid from POST /Session/Create";
    refused(&reply, 401, refusal);
    assert_eq!(reply.headers["www-authenticate"], "Bearer");
    let wrong = [HOST, ("authorization", "Bearer a.b.c")];
    let reply = rig.server.send("GET", "/Orders/Search", &wrong, "").await;
    refused(&reply, 401, refusal);
    assert_eq!(reply.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
}

#[tokio::test]
async fn a_client_code_is_needed() {
    let rig = rig().await;
    for more in [&[][..], &[("x-api-key", &*api_key('a'))]] {
        let reply = post(&rig, "/Session/Create", more, &credentials(ADA)).await;
        assert_eq!(wrong_fields(&reply), ["clientCode"]);
    }
}

#[tokio::test]
async fn only_the_older_shape_signs_in() {
    let rig = rig().await;
    for (path, user) in [("/Auth/Token", ADA), ("/Employee/SignIn", MO)] {
        for more in [&[][..], &[("x-api-key", &*api_key('a'))]] {
            let reply = post(&rig, path, more, &at("ACME", user)).await;
            refused(&reply, 404, "There is no such route; see /swagger");
        }
    }
}

#[tokio::test]
async fn a_path_that_is_almost_a_route_gets_the_right_one_only_if_this_host_has_it() {
    let rig = rig().await;
    let reply = post(&rig, "/session/create", &[], &at("ACME", ADA)).await;
    let detail = "There is no such route; did you mean /Session/Create? Paths are case-sensitive.";
    refused(&reply, 404, detail);
    for path in ["/auth/token", "/employee/signin", "/webhooklogs/search"] {
        let reply = post(&rig, path, &[], &at("ACME", ADA)).await;
        refused(&reply, 404, "There is no such route; see /swagger");
    }
}

#[tokio::test]
async fn the_token_alone_opens_the_authorized_routes() {
    let rig = rig().await;
    let token = session(&rig, "ACME", ADA).await;
    let auth = [("authorization", token.as_str())];
    let saved = post(&rig, "/Orders/Save", &auth, &captioned("x")).await;
    assert_eq!((saved.status, &saved.json()["webOrderId"]), (200, &json!("W00000001")));
    for path in ["/Orders/Search?text=x", "/Orders/Get?webOrderId=W00000001"] {
        let reply = rig.server.send("GET", path, &[HOST, auth[0]], "").await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    let export = post(&rig, "/Orders/Export", &auth, &json!({"webOrderId": "W00000001"})).await;
    assert_eq!(export.status, 400, "{export:?}");
}

#[tokio::test]
async fn a_key_neither_helps_nor_harms() {
    let rig = rig().await;
    let token = session(&rig, "ACME", ADA).await;
    for key in [api_key('a'), api_key('b'), api_key('9'), "garbage".to_owned()] {
        let headers = [HOST, ("x-api-key", key.as_str()), ("authorization", token.as_str())];
        assert_eq!(rig.server.send("GET", "/Orders/Search", &headers, "").await.status, 200, "{key}");
        assert_eq!(rig.server.send("GET", "/Orders/Search", &headers[..2], "").await.status, 401, "{key}");
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn a_token_reaches_only_its_own_tenant() {
    let rig = rig().await;
    let (acme, blue) = (session(&rig, "ACME", ADA).await, session(&rig, "BLUE", ADA).await);
    post(&rig, "/Orders/Save", &[("authorization", &acme)], &captioned("of acme")).await;
    let found = rig.server.send("GET", "/Orders/Search", &[HOST, ("authorization", &blue)], "").await;
    assert_eq!(found.json()["items"], json!([]));
    let bad = ["", "Bearer", "Bearer x", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.eyJhdWQiOiJhY21lIn0."];
    for token in bad {
        let reply = rig.server.send("GET", "/Orders/Search", &[HOST, ("authorization", token)], "").await;
        assert_eq!(reply.status, 401, "{token}");
    }
}

#[tokio::test]
async fn unknown_users_and_unknown_client_codes_get_the_same_response() {
    let rig = rig().await;
    let text = |user: &str| format!("No contact or employee {user} with this password");
    refused(&post(&rig, "/Session/Create", &[], &at("UNKNOWN", ADA)).await, 404, &text(ADA));
    let wrong = with(at("ACME", BEA), json!({"password": "not-the-password"}));
    refused(&post(&rig, "/Session/Create", &[], &wrong).await, 404, &text(BEA));
    refused(&post(&rig, "/Session/Create", &[], &at("ACME", MO)).await, 404, &text(MO));
}

#[tokio::test]
async fn guessing_client_codes_is_slowed_down_like_guessing_passwords() {
    let rig = rig().await;
    for code in ["ACME", "UNKNOWN"] {
        let mut statuses = Vec::new();
        for _ in 0..8 {
            let body = with(at(code, "guess@x.example"), json!({"password": "not-the-password"}));
            statuses.push(post(&rig, "/Session/Create", &[], &body).await.status);
        }
        assert_eq!(
            (statuses[..5].to_vec(), statuses.contains(&429)),
            (vec![404; 5], true),
            "{code}: {statuses:?}"
        );
    }
}

#[tokio::test]
async fn a_suspended_tenant_has_no_sessions() {
    let home = home(&[("acme", 'a')], "");
    let yaml = tenant_yaml("acme", 'a');
    home.write("acme.yaml", &yaml.replace("spec:\n", "spec:\n  suspend: true\n"));
    let rig = Rig::on(home, "--legacy-host old.localhost").await;
    let reply = post(&rig, "/Session/Create", &[], &at("ACME", ADA)).await;
    refused(&reply, 404, &format!("No contact or employee {ADA} with this password"));
}

#[tokio::test]
async fn a_session_is_refused_while_its_tenant_is_suspended() {
    let rig = rig().await;
    let tokens = [session(&rig, "ACME", ADA).await, session(&rig, "BLUE", ADA).await];
    let statuses = async || {
        let mut statuses = Vec::new();
        for token in &tokens {
            let headers = [HOST, ("authorization", token.as_str())];
            statuses.push(rig.server.send("GET", "/Orders/Search", &headers, "").await.status);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 200]);
    let yaml = tenant_yaml("acme", 'a');
    for (spec, status) in [("spec:\n  suspend: true\n", 401), ("spec:\n", 200)] {
        reload(&rig.home, || rig.home.write("acme.yaml", &yaml.replace("spec:\n", spec))).await;
        assert_eq!(statuses().await, [status, 200], "{spec}");
    }
}

#[tokio::test]
async fn without_the_flag_the_host_is_like_any_other() {
    let rig = Rig::start().await;
    refused(&post(&rig, "/Session/Create", &[], &at("ACME", ADA)).await, 404, "Tenant not found");
}

#[tokio::test]
async fn the_v2_hosts_are_not_affected() {
    let rig = rig().await;
    let token = session(&rig, "ACME", ADA).await;
    let headers = [("host", "localhost"), ("authorization", token.as_str())];
    refused(&rig.server.send("GET", "/Orders/Search", &headers, "").await, 401, "Invalid API key");
    let headers = [("host", "acme.localhost"), ("authorization", token.as_str())];
    assert_eq!(
        rig.server.send("GET", "/Orders/Search", &headers, "").await.status,
        200,
        "a session is a token"
    );
}

#[tokio::test]
async fn what_is_of_v2_only_is_not_served() {
    let rig = rig().await;
    let token = session(&rig, "ACME", ADA).await;
    for more in [&[][..], &[("authorization", token.as_str())]] {
        for path in [
            "/swagger",
            "/swagger/",
            "/swagger/index.html",
            "/openapi.json",
            "/openapi/events.json",
            "/docs/",
            "/docs/api/orders.html",
        ] {
            let reply = rig.server.send("GET", path, &[&[HOST], more].concat(), "").await;
            refused(&reply, 404, "There is no such route; see /swagger");
            assert!(rig.server.send("GET", path, &[], "").await.status < 400, "{path}");
        }
    }
}

#[tokio::test]
async fn every_authorized_route_takes_the_token_alone() {
    let rig = rig().await;
    let token = session(&rig, "ACME", ADA).await;
    let auth = ("authorization", token.as_str());
    for path in ["/Notes/Search", "/ProcessStatus/Search", "/Invoices/Search", "/Orders/Search"] {
        let reply = rig.server.send("GET", path, &[HOST, auth], "").await;
        assert_eq!((reply.status, reply.json()["items"].clone()), (200, json!([])), "{path}");
        assert_eq!(rig.server.send("GET", path, &[HOST], "").await.status, 401, "{path}");
    }
    let order = with(super::rig::example(docket_orders::OrderType::Court), json!({"export": true}));
    let saved = post(&rig, "/Orders/Save", &[auth], &order).await.json();
    let note = json!({"workOrder": saved["workOrderId"], "workOrderType": "Court", "report": "Filed."});
    assert_eq!(post(&rig, "/Notes/Add", &[], &note).await.status, 401);
    let added = post(&rig, "/Notes/Add", &[auth], &note).await;
    assert_eq!((added.status, added.json()), (200, json!({"lineItem": 1})));
    assert_eq!(
        rig.server.send("GET", "/Notes/Search", &[HOST, auth], "").await.json()["items"][0]["report"],
        "Filed."
    );
}

#[tokio::test]
async fn the_documentation_has_a_section_of_its_own() {
    let rig = rig().await;
    let document = rig.server.send("GET", "/openapi.json", &[], "").await.json();
    let tags = document["tags"].as_array().expect("tags");
    let section = tags.iter().find(|tag| tag["name"] == "Legacy host").expect("a section");
    let text = section["description"].as_str().expect("text");
    for word in ["clientCode", "sessionGuid", "API access is turned off for", "X-Api-Key", "POST /Auth/Token"]
    {
        assert!(text.contains(word), "{word}");
    }
    let tagged = &document["paths"]["/Session/Create"]["post"]["tags"];
    assert!(tagged.as_array().is_some_and(|tags| tags.contains(&json!("Legacy host"))), "{tagged}");
}
