//! Bearer tokens: which are accepted and which are not.

use std::time::Duration;

use docket_domain::token::{self, TokenKey, TokenSubject, UserFingerprint};
use docket_tests::people::ADA;
use docket_tests::server::{Client, api_key, eventually};
use jiff::Timestamp;
use serde_json::json;

use super::rig::{Rig, SigningKey, bearer, get, refused};

const REFUSAL: &str =
    "The Bearer token is missing, has expired or belongs to another tenant; get one from POST /Auth/Token";

/// A tenant's uid, the id of its signing key, and the key.
struct Signing {
    uid: String,
    kid: String,
    secret: Vec<u8>,
    owner: UserFingerprint,
}

fn signing(rig: &Rig, client_code: &str) -> Signing {
    let SigningKey { uid, kid, secret } = rig.signing_key(client_code);
    Signing { uid, kid, secret, owner: ada(rig, client_code) }
}

/// Ada as she is in the database of a tenant.
fn ada(rig: &Rig, client_code: &str) -> UserFingerprint {
    let sql = "SELECT customer_code, password_hash, sign_outs FROM contact WHERE code = '11'";
    let row = rig.database(client_code).rows(sql, &[]).remove(0);
    let (customer, hash): (String, Option<String>) = (row.get(0), row.get(1));
    UserFingerprint::new(Some(&customer), hash.as_deref(), row.get(2))
}

fn ada_subject() -> TokenSubject {
    TokenSubject::Contact { contact_code: "11".into(), customer_code: "C-1".into() }
}

#[expect(clippy::disallowed_methods, reason = "the server reads the same clock")]
fn now() -> i64 {
    Timestamp::now().as_second()
}

/// A token that the tenant's key signs, issued this many seconds from now.
fn issued(signing: &Signing, seconds: i64, minutes: u32) -> String {
    let at = Timestamp::from_second(now() + seconds).expect("in range");
    let key = TokenKey { kid: &signing.kid, secret: &signing.secret };
    token::issue(key, &signing.uid, (ada_subject(), &signing.owner), at, minutes)
}

/// Base64 for URLs, without padding.
fn base64url(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let digits = (0..=chunk.len()).map(|n| DIGITS[(bits >> (18 - 6 * n) & 63) as usize] as char);
        out.extend(digits);
    }
    out
}

async fn search(rig: &Rig, headers: &[(&str, &str)]) -> docket_tests::server::Reply {
    let key = api_key('a');
    get(rig.server.api, "/Orders/Search", &[&[("x-api-key", key.as_str())], headers].concat()).await
}

#[tokio::test]
async fn a_token_is_needed_once_and_whole() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let (good, token) = (bearer(&ada), ada.token.as_str());
    let doubled = format!("{good}, {good}");
    let cut = good[..good.len() - 1].to_owned();
    let longer = format!("{good}A");
    let with_blank = format!("Bearer {} {}", &token[..20], &token[20..]);
    // Only a token that was sent is called wrong.
    let (none, wrong) = ("Bearer", "Bearer error=\"invalid_token\"");
    for (challenge, headers) in [
        (none, vec![]),
        (none, vec![("authorization", "")]),
        (none, vec![("authorization", "Bearer")]),
        (none, vec![("authorization", "Bearer ")]),
        (none, vec![("authorization", token)]),
        (none, vec![("authorization", "Basic YWRhOmFkYQ==")]),
        (wrong, vec![("authorization", doubled.as_str())]),
        (wrong, vec![("authorization", cut.as_str())]),
        (wrong, vec![("authorization", longer.as_str())]),
        (wrong, vec![("authorization", with_blank.as_str())]),
        (wrong, vec![("authorization", good.as_str()), ("authorization", good.as_str())]),
        (none, vec![("x-authorization", good.as_str())]),
        (none, vec![("cookie", good.as_str())]),
    ] {
        let reply = search(&rig, &headers).await;
        assert_eq!(reply.status, 401, "{headers:?}");
        refused(&reply, 401, REFUSAL);
        assert_eq!(reply.headers["www-authenticate"], challenge, "{headers:?}");
    }
    let path = format!("/Orders/Search?access_token={token}&token={token}");
    let key = api_key('a');
    refused(&get(rig.server.api, &path, &[("x-api-key", &key)]).await, 401, REFUSAL);
}

#[tokio::test]
async fn the_scheme_is_known_in_any_case() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let value = format!("{scheme} {}", ada.token);
        assert_eq!(search(&rig, &[("authorization", &value)]).await.status, 200, "{scheme}");
    }
}

#[tokio::test]
async fn a_token_made_with_the_tenants_key_is_good_for_its_time_only() {
    let rig = Rig::start().await;
    let signing = signing(&rig, "ACME");
    // Seconds from now at which it was issued, lifetime in minutes, whether it is good.
    for (seconds, minutes, status) in
        [(0, 60, 200), (-3590, 60, 200), (-3600, 60, 401), (-120, 1, 401), (-86_400, 60, 401), (600, 60, 401)]
    {
        let value = format!("Bearer {}", issued(&signing, seconds, minutes));
        let reply = search(&rig, &[("authorization", &value)]).await;
        assert_eq!(reply.status, status, "issued at {seconds} s for {minutes} min");
    }
}

/// The digits of Base64 for URLs, by value.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// All characters that differ from `was` in one bit of their value. A point has no value; a digit replaces it.
fn changed(was: u8) -> Vec<char> {
    match DIGITS.iter().position(|digit| *digit == was) {
        Some(value) => (0..6).map(|bit| DIGITS[value ^ (1 << bit)] as char).collect(),
        None => vec!['A'],
    }
}

#[tokio::test]
async fn every_changed_bit_is_noticed() {
    let rig = Rig::start().await;
    let token = rig.ada().await.token;
    let mut tried = 0;
    for (place, was) in token.bytes().enumerate() {
        for other in changed(was) {
            let value = format!("Bearer {}{other}{}", &token[..place], &token[place + 1..]);
            let status = search(&rig, &[("authorization", &value)]).await.status;
            assert_eq!(status, 401, "character {place}: {:?} for {:?}", other, was as char);
            tried += 1;
        }
    }
    assert_eq!(tried, 6 * (token.len() - 2) + 2, "six bits of each digit, and two points");
}

#[tokio::test]
async fn a_token_without_signature_is_refused() {
    let rig = Rig::start().await;
    let signing = signing(&rig, "ACME");
    let good = issued(&signing, 0, 60);
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    for algorithm in ["none", "None", "NONE", "RS256", "HS512", "ES256", ""] {
        let header = json!({"alg": algorithm, "typ": "at+jwt", "kid": signing.kid}).to_string();
        let header = base64url(header.as_bytes());
        for token in [format!("{header}.{claims}."), format!("{header}.{claims}.{signature}")] {
            let reply = search(&rig, &[("authorization", &format!("Bearer {token}"))]).await;
            assert_eq!(reply.status, 401, "{algorithm}");
        }
    }
    for token in [format!("{header}.{claims}."), format!("{header}.{claims}")] {
        let reply = search(&rig, &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(reply.status, 401);
    }
}

#[tokio::test]
async fn a_token_of_another_tenant_is_refused_however_it_is_labelled() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (acme, blue) = (signing(&rig, "ACME"), signing(&rig, "BLUE"));
    let at = Timestamp::from_second(now()).expect("in range");
    let issue = |kid: &str, secret: &[u8], uid: &str| {
        token::issue(TokenKey { kid, secret }, uid, (ada_subject(), &acme.owner), at, 60)
    };
    for (what, token) in [
        ("as it is", rig.server.sign_in(&api_key('b'), ADA).await.token),
        ("its key, our key's name, our audience", issue(&acme.kid, &blue.secret, &acme.uid)),
        ("its key and name, our audience", issue(&blue.kid, &blue.secret, &acme.uid)),
        ("our key, its audience", issue(&acme.kid, &acme.secret, &blue.uid)),
        ("our key, client code as audience", issue(&acme.kid, &acme.secret, "ACME")),
    ] {
        let reply = search(&rig, &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(reply.status, 401, "{what}");
    }
}

#[tokio::test]
async fn a_huge_token_is_refused() {
    let rig = Rig::start().await;
    let value = format!("Bearer {}", "a.".repeat(10_000));
    refused(&search(&rig, &[("authorization", &value)]).await, 401, REFUSAL);
}

#[tokio::test]
async fn a_token_works_after_a_restart() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let rig = rig.restarted().await;
    let ada = Client { api: rig.server.api, ..ada };
    assert_eq!(ada.get("/Orders/Search").await.status, 200);
}

#[tokio::test]
async fn a_session_guid_is_a_token() {
    let rig = Rig::start().await;
    let session = rig.sign_in("/Session/Create", &super::rig::credentials(ADA)).await.json();
    let value = format!("Bearer {}", session["sessionGuid"].as_str().expect("text"));
    assert_eq!(search(&rig, &[("authorization", &value)]).await.status, 200);
}

#[tokio::test]
async fn a_token_lives_as_long_as_its_answer_says() {
    let home = super::rig::home(&[("acme", 'a')], "");
    let yaml = docket_tests::server::tenant_yaml("acme", 'a');
    home.write("acme.yaml", &yaml.replace("  database:", "  tokens: {lifetimeMinutes: 7}\n  database:"));
    let rig = Rig::on(home, "").await;
    let before = now();
    let answer = rig.sign_in("/Auth/Token", &super::rig::credentials(ADA)).await.json();
    let after = now();
    let lifetime = 60 * answer["expiresInMinutes"].as_i64().expect("a number");
    let token = answer["token"].as_str().expect("text");
    let signing = signing(&rig, "ACME");
    let keys = [TokenKey { kid: &signing.kid, secret: &signing.secret }];
    let is_good = |second| {
        let at = Timestamp::from_second(second).expect("in range");
        token::verify(token, &keys, &signing.uid, at).is_ok()
    };
    assert_eq!((lifetime, is_good(before + lifetime - 1), is_good(after + lifetime)), (420, true, false));
}

#[tokio::test]
async fn the_key_is_taken_under_both_names_beside_a_token() {
    let rig = Rig::start().await;
    let (key, token) = (api_key('a'), bearer(&rig.ada().await));
    for name in ["X-Api-Key", "ApiKey"] {
        let headers = [(name, key.as_str()), ("authorization", token.as_str())];
        assert_eq!(get(rig.server.api, "/Orders/Search", &headers).await.status, 200, "{name}");
    }
}

/// A token is looked at again every five seconds; the rest is for a busy machine.
const ENDS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn token_ends_when_its_user_is_dismissed_deleted_or_changed() {
    let changes = [
        "UPDATE contact SET active = FALSE WHERE code = 'u0'",
        "UPDATE contact SET password_hash = '!' WHERE code = 'u1'",
        "UPDATE contact SET customer_code = 'C-2' WHERE code = 'u2'",
        "DELETE FROM contact WHERE code = 'u3'",
        "UPDATE employee SET active = FALSE WHERE code = 'u4'",
        "UPDATE employee SET password_hash = NULL WHERE code = 'u5'",
    ];
    let rig = Rig::start().await;
    for n in 0..4 {
        rig.change(&format!(
            "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms)
               SELECT 'u{n}', customer_code, 'u{n}@x.example', 'u{n}@x.example', name, password_hash, TRUE, 0
               FROM contact WHERE code = '11'"
        ));
    }
    for n in 4..6 {
        rig.change(&format!(
            "INSERT INTO employee (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms)
               SELECT 'u{n}', 'u{n}', 'u{n}', name, password_hash, FALSE, TRUE, 0
               FROM employee WHERE code = '51'"
        ));
    }
    let mut clients = Vec::new();
    for n in 0..6 {
        let client = match n {
            0..4 => rig.server.sign_in(&api_key('a'), &format!("u{n}@x.example")).await,
            _ => rig.server.sign_in_employee(&api_key('a'), &format!("u{n}")).await,
        };
        assert_eq!(client.get("/Orders/Search").await.status, 200);
        clients.push(client);
    }
    let ada = rig.ada().await;
    rig.change(&changes.join(";"));
    for (client, change) in clients.iter().zip(changes) {
        eventually(change, ENDS, async || client.get("/Orders/Search").await.status == 401).await;
        refused(&client.get("/Orders/Search").await, 401, REFUSAL);
    }
    assert_eq!(ada.get("/Orders/Search").await.status, 200);
}

#[tokio::test]
async fn new_password_gives_a_valid_token_at_once() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    assert_eq!(ada.get("/Orders/Search").await.status, 200);
    // This is another hash of the same password.
    rig.home.add_contact("ACME", "C-9", "new@x.example");
    rig.change(&format!(
        "UPDATE contact SET password_hash = (SELECT password_hash FROM contact WHERE email_key = 'new@x.example')
         WHERE email_key = '{ADA}'"
    ));
    let again = rig.ada().await;
    assert_eq!(again.get("/Orders/Search").await.status, 200);
    assert_eq!(ada.get("/Orders/Search").await.status, 401, "the copy is the new one");
}
