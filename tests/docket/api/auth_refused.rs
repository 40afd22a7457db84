//! Sign-ins that are refused: no tenant, no such user, a body that is too long.

use docket_tests::people::{ADA, BEA, MO};
use docket_tests::server::{JSON, PASSWORD, Reply, api_key, tenant_yaml};
use serde_json::{Value, json};

use super::rig::{Rig, credentials, exchange, home, problem, refused, with, wrong_fields};

const SIGN_INS: [&str; 3] = ["/Auth/Token", "/Session/Create", "/Employee/SignIn"];

fn secret_yaml(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{key: \"{value}\"}}\n"
    )
}

/// ACME with more keys: `1…` is of the older API, `2…` is inactive; BLUE; and CORAL, which is suspended.
async fn rig_with_dead_keys() -> Rig {
    let home = home(&[("acme", 'a'), ("blue", 'b'), ("coral", 'c')], "");
    let keys = "  - {name: old, version: v1, secretKeyRef: {name: old-key, key: key}}\n  \
                - {name: retired, active: false, secretKeyRef: {name: retired-key, key: key}}\n  database:";
    let acme = tenant_yaml("acme", 'a').replace("  database:", keys)
        + &secret_yaml("old-key", &api_key('1'))
        + &secret_yaml("retired-key", &api_key('2'));
    home.write("acme.yaml", &acme);
    home.write("coral.yaml", &tenant_yaml("coral", 'c').replace("spec:\n", "spec:\n  suspend: true\n"));
    let rig = Rig::on(home, "").await;
    assert!(!rig.log().contains("WARN"), "the configuration is sound: {}", rig.log());
    rig
}

#[tokio::test]
async fn without_a_good_key_there_is_no_tenant() {
    let rig = rig_with_dead_keys().await;
    let key = api_key;
    let (a, b) = (key('a'), key('b'));
    let cases: Vec<(&str, Vec<(&str, String)>)> = vec![
        ("missing", vec![]),
        ("unknown", vec![("x-api-key", key('9'))]),
        ("inactive", vec![("x-api-key", key('2'))]),
        ("of the older API", vec![("x-api-key", key('1'))]),
        ("of a suspended tenant", vec![("x-api-key", key('c'))]),
        ("empty", vec![("x-api-key", String::new())]),
        ("not hexadecimal", vec![("x-api-key", "no-key".into())]),
        ("too long", vec![("x-api-key", a.clone() + "a")]),
        ("cut", vec![("x-api-key", a[..63].into())]),
        ("not ASCII", vec![("x-api-key", "\u{e9}".into())]),
        ("a client code", vec![("x-api-key", "ACME".into())]),
        ("two in one", vec![("x-api-key", format!("{a}, {a}"))]),
        ("repeated", vec![("x-api-key", a.clone()), ("x-api-key", a.clone())]),
        ("repeated and different", vec![("x-api-key", a.clone()), ("x-api-key", b.clone())]),
        ("under both names and different", vec![("x-api-key", a.clone()), ("apikey", b.clone())]),
        ("good under one name, bad under the other", vec![("x-api-key", a.clone()), ("apikey", key('9'))]),
        (
            "of another tenant than the host",
            vec![("x-api-key", a.clone()), ("host", "blue.localhost".into())],
        ),
        ("unknown on a good host", vec![("x-api-key", key('9')), ("host", "acme.localhost".into())]),
        ("missing on the base host", vec![("host", "localhost".into())]),
        ("missing on an IP address", vec![("host", "127.0.0.1".into())]),
        ("missing on a foreign host", vec![("host", "acme.example.com".into())]),
        ("missing on a name that only ends alike", vec![("host", "evillocalhost".into())]),
    ];
    for path in SIGN_INS {
        for (what, headers) in &cases {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let headers = [&headers[..], &[JSON]].concat();
            let reply = rig.server.send("POST", path, &headers, &credentials(ADA).to_string()).await;
            assert_eq!(reply.status, 401, "{path}: a key that is {what}: {reply:?}");
            let is_repeated =
                headers.iter().filter(|(name, _)| name.ends_with("key")).count() > 1 || *what == "two in one";
            let more =
                ["", ": it was sent twice; send it once, in the header X-Api-Key"][usize::from(is_repeated)];
            refused(&reply, 401, &format!("Invalid API key{more}"));
            assert_eq!(reply.headers["www-authenticate"], "ApiKey header=\"X-Api-Key\"");
        }
    }
}

#[tokio::test]
async fn without_a_key_an_unknown_subdomain_is_no_tenant() {
    let rig = rig_with_dead_keys().await;
    for host in ["unknown.localhost", "x.acme.localhost", "coral.localhost", "acme-.localhost", "*.localhost"]
    {
        for path in SIGN_INS {
            let reply =
                rig.server.send("POST", path, &[("host", host), JSON], &credentials(ADA).to_string()).await;
            assert_eq!(reply.status, 404, "{host}");
            refused(&reply, 404, "Tenant not found");
        }
    }
}

#[tokio::test]
async fn forwarded_headers_choose_no_tenant() {
    let rig = Rig::start().await;
    for header in
        ["x-forwarded-host", "x-host", "x-original-host", "x-http-host-override", "x-forwarded-server"]
    {
        let headers = [("host", "localhost"), (header, "acme.localhost"), JSON];
        let reply = rig.server.send("POST", "/Auth/Token", &headers, &credentials(ADA).to_string()).await;
        refused(&reply, 401, "Invalid API key");
    }
    let headers = [("host", "localhost"), ("forwarded", "host=acme.localhost;proto=https"), JSON];
    let reply = rig.server.send("POST", "/Auth/Token", &headers, &credentials(ADA).to_string()).await;
    refused(&reply, 401, "Invalid API key");
}

#[tokio::test]
async fn a_key_in_the_body_does_not_authenticate() {
    let rig = Rig::start().await;
    for name in ["clientCode", "apiKey", "x-api-key", "X-Api-Key"] {
        let body = with(credentials(ADA), json!({name: api_key('a')}));
        let reply = rig.server.send("POST", "/Auth/Token", &[JSON], &body.to_string()).await;
        refused(&reply, 401, "Invalid API key");
        let reply = rig.sign_in("/Auth/Token", &body).await;
        match name {
            "clientCode" => assert_eq!(reply.status, 404, "{reply:?}"),
            _ => assert_eq!(wrong_fields(&reply), [name]),
        }
    }
}

#[tokio::test]
async fn a_key_in_the_query_does_not_authenticate() {
    let rig = Rig::start().await;
    let path = format!("/Auth/Token?X-Api-Key={0}&apiKey={0}", api_key('a'));
    let reply = rig.server.send("POST", &path, &[JSON], &credentials(ADA).to_string()).await;
    refused(&reply, 401, "Invalid API key");
}

/// Everything in a response that could distinguish two refusals, without the userId.
fn comparable(reply: &Reply, user: &str) -> (Value, Vec<(String, String)>) {
    let body = problem(reply, 404);
    let detail = body["detail"].as_str().expect("text");
    assert!(detail.contains(user), "the message carries the userId: {detail}");
    let body = with(body.clone(), json!({"detail": detail.replace(user, "USER")}));
    let mut headers: Vec<_> = reply.headers.clone().into_iter().collect();
    headers.retain(|(name, _)| !["date", "x-request-id", "content-length"].contains(&name.as_str()));
    headers.sort();
    (body, headers)
}

#[tokio::test]
async fn every_unknown_user_gets_the_same_response() {
    let rig = Rig::start().await;
    rig.change(
        "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT 'i', customer_code, 'i@x.example', 'i@x.example', name, password_hash, FALSE, 0
           FROM contact WHERE code = '11';
         INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT 'n', customer_code, 'n@x.example', 'n@x.example', name, NULL, TRUE, 0
           FROM contact WHERE code = '11';
         INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT 'u', customer_code, 'u@x.example', 'u@x.example', name, '!', TRUE, 0
           FROM contact WHERE code = '11';
         INSERT INTO employee (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms)
               SELECT 'i', 'gone', 'gone', name, password_hash, FALSE, FALSE, 0 FROM employee
         WHERE code = '51';",
    );
    let wrong = |user: &str| json!({"userId": user, "password": "not-the-password"});
    let elsewhere = |user: &str| with(credentials(user), json!({"clientCode": "BLUE"}));
    let cases = [
        ("unknown", "/Auth/Token", "stranger@x.example", credentials("stranger@x.example")),
        ("wrong password", "/Auth/Token", ADA, wrong(ADA)),
        ("inactive", "/Auth/Token", "i@x.example", credentials("i@x.example")),
        ("no password", "/Auth/Token", "n@x.example", credentials("n@x.example")),
        ("unusable hash", "/Auth/Token", "u@x.example", credentials("u@x.example")),
        ("wrong client code", "/Auth/Token", BEA, elsewhere(BEA)),
        ("an employee", "/Auth/Token", MO, credentials(MO)),
        ("an employee", "/Session/Create", MO, credentials(MO)),
        ("wrong password", "/Session/Create", BEA, wrong(BEA)),
        ("wrong client code", "/Session/Create", ADA, elsewhere(ADA)),
        ("a contact", "/Employee/SignIn", ADA, credentials(ADA)),
        ("unknown", "/Employee/SignIn", "stranger", credentials("stranger")),
        ("wrong password", "/Employee/SignIn", MO, wrong(MO)),
        ("wrong client code", "/Employee/SignIn", MO, elsewhere(MO)),
        ("inactive", "/Employee/SignIn", "gone", credentials("gone")),
    ];
    let mut first = None;
    for (what, path, user, body) in cases {
        let got = comparable(&rig.sign_in(path, &body).await, user);
        let first = first.get_or_insert_with(|| got.clone());
        assert_eq!(got, *first, "{path}: {what}");
    }
}

#[tokio::test]
async fn the_refused_user_id_is_repeated_as_it_was_sent() {
    let rig = Rig::start().await;
    let reply = rig.sign_in("/Auth/Token", &credentials("No\"body 😀 <b>")).await;
    refused(&reply, 404, "No contact or employee No\"body 😀 <b> with this password");
}

#[tokio::test]
async fn a_password_is_compared_whole() {
    let rig = Rig::start().await;
    for password in [&PASSWORD[1..], &format!("{PASSWORD} "), &PASSWORD.to_uppercase(), "x"] {
        let reply = rig.sign_in("/Auth/Token", &json!({"userId": ADA, "password": password})).await;
        assert_eq!(reply.status, 404, "{password}");
    }
}

#[tokio::test]
async fn no_refusal_is_quicker_than_that_of_a_wrong_password() {
    let rig = Rig::with("", "--legacy-host old.localhost").await;
    rig.change(
        "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT 'n', customer_code, 'n@x.example', 'n@x.example', name, NULL, TRUE, 0
                  FROM contact WHERE code = '11'; UPDATE contact SET active = FALSE WHERE code = '12'",
    );
    let wrong = |user: &str, code: &str| json!({"userId": user, "password": "not-it", "clientCode": code});
    let cases = [
        ("wrong password", "localhost", wrong(ADA, "ACME")),
        ("unknown", "localhost", wrong("stranger@x.example", "ACME")),
        ("no password", "localhost", wrong("n@x.example", "ACME")),
        ("inactive", "localhost", wrong(BEA, "ACME")),
        ("wrong client code", "localhost", wrong("else@x.example", "BLUE")),
        ("wrong client code on the legacy host", "old.localhost", wrong("other@x.example", "BLUE")),
    ];
    // Five guesses, as many as one user may make. An Argon2id takes tens of milliseconds, all else about one, so half of its work
    // shows.
    let mut work = [0; 6];
    for _ in 0..5 {
        for (work, (what, host, body)) in work.iter_mut().zip(&cases) {
            let key = api_key('a');
            let headers = [("x-api-key", key.as_str()), ("host", host), JSON];
            let before = rig.server.processor_ticks();
            let reply = rig.server.send("POST", "/Session/Create", &headers, &body.to_string()).await;
            assert_eq!(reply.status, 404, "{what}");
            *work += rig.server.processor_ticks() - before;
        }
    }
    for (ticks, (what, ..)) in work.iter().zip(&cases) {
        assert!(ticks * 2 > work[0], "{what}: {ticks} ticks beside {}", work[0]);
    }
}

#[tokio::test]
async fn refusal_takes_the_time_of_the_tenants_dearest_hash_and_an_unusable_hash_is_logged_once() {
    let rig = Rig::start().await;
    for (user, hash) in [
        ("cheap", "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAA"),
        ("dear", "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAA"),
        ("unusable", "$2b$12$c2FsdHNhbHRzYWx0c2Fsd.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ("unusable-too", "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAA"),
    ] {
        rig.change(&format!(
            "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT '{user}', customer_code, '{user}', '{user}', name, '{hash}', TRUE, 0 FROM contact WHERE code = '11'"
        ));
    }
    let users = ["dear", "cheap", ADA, "stranger@x.example", "unusable", "unusable-too"];
    // No more guesses than one user may make. The hash of `dear` takes five times as long as the default.
    let mut work = [0; 6];
    for _ in 0..4 {
        for (work, user) in work.iter_mut().zip(users) {
            let body = json!({"userId": user, "password": "not-it"});
            let before = rig.server.processor_ticks();
            assert_eq!(rig.sign_in("/Auth/Token", &body).await.status, 404, "{user}");
            *work += rig.server.processor_ticks() - before;
        }
    }
    let most = work.iter().max().expect("six");
    for (ticks, user) in work.iter().zip(users) {
        assert!(ticks * 2 > *most, "{user}: {ticks} ticks beside {most}");
    }
    let log = rig.log();
    assert_eq!(log.matches("the stored hash of a user's password can't be used").count(), 1, "{log}");
    assert!(
        log.contains("at most 65536 KiB, 8 passes and 4 lanes") && !log.contains("unusable-too"),
        "{log}"
    );
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(BEA)).await.status, 200);
}

/// A sign-in padded with blanks to this length.
fn padded(length: usize) -> String {
    let body = credentials(ADA).to_string();
    format!("{body}{}", " ".repeat(length - body.len()))
}

#[tokio::test]
async fn a_sign_in_body_may_have_four_kilobytes() {
    let rig = Rig::start().await;
    let key = api_key('a');
    let headers = [("x-api-key", key.as_str()), JSON];
    assert_eq!(rig.server.send("POST", "/Auth/Token", &headers, &padded(4096)).await.status, 200);
    for path in SIGN_INS {
        let reply = rig.server.send("POST", path, &headers, &padded(4097)).await;
        refused(&reply, 413, "The body is longer than 4096 bytes");
    }
}

#[tokio::test]
async fn a_chunked_sign_in_body_has_the_same_limit() {
    let rig = Rig::start().await;
    for (length, status) in [(4096, 200), (4097, 413), (100_000, 413)] {
        let chunks: String = padded(length)
            .as_bytes()
            .chunks(1000)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
            .collect();
        let message = format!(
            "POST /Auth/Token HTTP/1.1\r\nHost: x\r\nX-Api-Key: {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n",
            api_key('a')
        );
        let replies = exchange(rig.server.api, message.as_bytes()).await;
        assert_eq!(replies.iter().map(|reply| reply.status).collect::<Vec<_>>(), [status], "{length}");
    }
}
