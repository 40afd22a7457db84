//! Bodies that are wrong in every way: always a 4xx that says where, never a 5xx, and nothing is saved.

use docket_orders::OrderType;
use docket_tests::people::ADA;
use docket_tests::server::{Client, Reply, api_key};
use serde_json::{Value, json};

use super::rig::{
    Rig, bearer, captioned, credentials, example, post_bytes, problem, refused, save, with, wrong_fields,
};

const POSTS: [&str; 5] =
    ["/Auth/Token", "/Session/Create", "/Employee/SignIn", "/Orders/Save", "/Orders/Export"];
const JSON: &str = "application/json";

/// POSTs bytes with both credentials.
async fn post(client: &Client, path: &str, content_type: &[&str], body: &[u8]) -> Reply {
    let token = bearer(client);
    let mut headers = vec![("X-Api-Key", client.key.as_str()), ("Authorization", token.as_str())];
    headers.extend(content_type.iter().map(|value| ("Content-Type", *value)));
    post_bytes(client.api, path, &headers, body).await
}

/// A valid body of this route.
fn good(path: &str) -> Value {
    match path {
        "/Orders/Save" => captioned("x"),
        "/Orders/Export" => json!({"webOrderId": "W00000001"}),
        _ => credentials(ADA),
    }
}

fn nested(levels: usize, open: &str, close: &str) -> Vec<u8> {
    format!("{{\"x\":{}{}}}", open.repeat(levels), close.repeat(levels)).into_bytes()
}

#[tokio::test]
async fn what_is_no_json_object_is_refused_by_every_route() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("empty", b"".to_vec()),
        ("blank", b"  \r\n ".to_vec()),
        ("null", b"null".to_vec()),
        ("a list", b"[]".to_vec()),
        ("an object in a list", b"[{}]".to_vec()),
        ("a text", b"\"x\"".to_vec()),
        ("a number", b"1".to_vec()),
        ("not JSON", b"orderType=Court".to_vec()),
        ("cut", b"{\"a\":".to_vec()),
        ("cut in a string", b"{\"a\":\"".to_vec()),
        ("single quotes", b"{'a':1}".to_vec()),
        ("a comma too many", b"{\"a\":1,}".to_vec()),
        ("a comment", b"{/**/}".to_vec()),
        ("NaN", b"{\"a\":NaN}".to_vec()),
        ("two objects", b"{}{}".to_vec()),
        ("something after it", b"{} x".to_vec()),
        ("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbf{}".to_vec()),
        ("UTF-16", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("not UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()),
        ("not UTF-8, overlong", b"{\"a\":\"\xc0\x80\"}".to_vec()),
        ("not UTF-8, a surrogate", b"{\"a\":\"\xed\xa0\x80\"}".to_vec()),
        ("NUL", b"{\"a\":\"\0\"}".to_vec()),
        ("a lone high surrogate", br#"{"a":"\ud83d"}"#.to_vec()),
        ("a lone low surrogate", br#"{"a":"\ude00"}"#.to_vec()),
        ("surrogates the wrong way round", br#"{"a":"\ude00\ud83d"}"#.to_vec()),
        ("an unknown escape", br#"{"a":"\x41"}"#.to_vec()),
        ("a number too large", b"{\"a\":1e999}".to_vec()),
        ("lists in lists", nested(1_000, "[", "]")),
        ("objects in objects", nested(500, "{\"x\":", "1}").into_iter().filter(|b| *b != b'1').collect()),
    ];
    for path in POSTS {
        for (what, body) in &bodies {
            let reply = post(&ada, path, &[JSON], body).await;
            assert_eq!(reply.status, 400, "{path}: {what}: {reply:?}");
            assert_eq!(wrong_fields(&reply).len(), 1, "{path}: {what}");
        }
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn ten_thousand_levels_are_refused_and_cost_nothing() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (open, close) in [("[", "]"), ("[", ""), ("{\"x\":", ""), ("[{\"x\":", "")] {
        let body = nested(10_000, open, close);
        for path in ["/Orders/Save", "/Orders/Export"] {
            let reply = post(&ada, path, &[JSON], &body).await;
            let field = wrong_fields(&reply).remove(0);
            assert!(field.len() < 300, "{field}");
        }
        let reply = post(&ada, "/Auth/Token", &[JSON], &body).await;
        refused(&reply, 413, "The body is longer than 4096 bytes");
    }
    save(&ada, &captioned("still here")).await;
}

#[tokio::test]
async fn a_duplicate_key_is_refused_wherever_it_stands() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (path, body, field) in [
        ("/Orders/Save", r#"{"orderType":"Court","orderType":"Court"}"#, "orderType"),
        ("/Orders/Save", r#"{"orderType":"Court","case":{"caption":"a","caption":"b"}}"#, "case.caption"),
        ("/Orders/Save", r#"{"orderType":"Court","orderT\u0079pe":"Process"}"#, "orderType"),
        (
            "/Orders/Save",
            r#"{"orderType":"Process","servees":[{},{"party":null,"party":{}}]}"#,
            "servees[1].party",
        ),
        ("/Orders/Export", r#"{"webOrderId":"W1","webOrderId":"W2"}"#, "webOrderId"),
        ("/Auth/Token", r#"{"userId":"a","userId":"b","password":"c"}"#, "userId"),
        ("/Auth/Token", r#"{"userId":"a","password":"c","password":"c"}"#, "password"),
    ] {
        let reply = post(&ada, path, &[JSON], body.as_bytes()).await;
        assert_eq!(wrong_fields(&reply), [field], "{body}");
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_name() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    // `Session/Create` has the older shape, and ignores unknown fields.
    for path in POSTS.into_iter().filter(|path| *path != "/Session/Create") {
        for name in ["extra", "UserId", "WebOrderId", "tenant"] {
            let reply = ada.post(path, &with(good(path), json!({name: 1}))).await;
            assert_eq!(wrong_fields(&reply), [name], "{path}");
        }
    }
    let body =
        json!({"orderType": "Process", "servees": [{"party": {"age": 1}, "x": 2}], "case": {"y": null}});
    let fields = wrong_fields(&ada.post("/Orders/Save", &body).await);
    assert_eq!(fields, ["case.y", "servees[0].x", "servees[0].party.age"]);
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn a_name_that_differs_in_case_only_gets_the_right_one() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (path, name, right) in [
        ("/Auth/Token", "UserId", "userId"),
        ("/Employee/SignIn", "user_id", "userId"),
        ("/Orders/Export", "webOrderID", "webOrderId"),
        ("/Orders/Save", "CourtTask", "courtTask"),
        ("/Orders/Save", "weborderid", "webOrderId"),
    ] {
        let reply = ada.post(path, &with(good(path), json!({name: 1}))).await;
        let message = problem(&reply, 400)["errors"][0]["message"].clone();
        let expected = format!("unknown field; did you mean {right}? This object takes: ");
        assert!(message.as_str().expect("text").starts_with(&expected), "{path} {name}: {message}");
    }
    // `Session/Create` ignores unknown fields, and says why there is no userId.
    let body = json!({"UserId": ADA, "password": "x"});
    let errors = problem(&ada.post("/Session/Create", &body).await, 400)["errors"].clone();
    assert_eq!(errors, json!([{"field": "userId", "message": "required; names are case-sensitive"}]));
}

#[tokio::test]
async fn a_user_id_is_shown_without_invisible_characters() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (sent, shown) in
        [("x\u{202e}y", "xy"), ("\u{200b}x y\u{2028}", "x y"), ("é@x.example", "é@x.example")]
    {
        let reply = ada.post("/Auth/Token", &json!({"userId": sent, "password": "not-the-password"})).await;
        refused(&reply, 404, &format!("No contact or employee {shown} with this password"));
    }
}

#[tokio::test]
async fn a_missing_field_is_named() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for path in ["/Auth/Token", "/Session/Create", "/Employee/SignIn"] {
        assert_eq!(wrong_fields(&ada.post(path, &json!({})).await), ["userId", "password"], "{path}");
        assert_eq!(wrong_fields(&ada.post(path, &json!({"userId": "x"})).await), ["password"]);
        let nulls = json!({"userId": null, "password": null, "clientCode": null});
        assert_eq!(wrong_fields(&ada.post(path, &nulls).await), ["userId", "password"]);
    }
    assert_eq!(wrong_fields(&ada.post("/Orders/Export", &json!({})).await), ["webOrderId"]);
    for body in [
        json!({}),
        json!({"orderType": null}),
        json!({"orderType": "court"}),
        json!({"orderType": ["Court"]}),
    ] {
        assert_eq!(wrong_fields(&ada.post("/Orders/Save", &body).await), ["orderType"], "{body}");
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn small_bodies_are_held_to_their_types_and_lengths() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let long = |count: usize| json!("x".repeat(count));
    let wrong = [
        json!(1),
        json!(true),
        json!([]),
        json!({}),
        json!(""),
        json!("a\u{0}b"),
        json!("a\nb"),
        json!("\u{7f}"),
    ];
    for value in &wrong {
        for path in ["/Auth/Token", "/Session/Create", "/Employee/SignIn"] {
            // Forms send an empty client code for none, and a key may be pasted with line breaks.
            let names = ["clientCode", "userId", "password"].into_iter();
            let taken = |value: &Value| [json!(""), json!("a\nb")].contains(value);
            for name in names.filter(|name| *name != "clientCode" || !taken(value)) {
                let reply = ada.post(path, &with(good(path), json!({name: value}))).await;
                assert_eq!(wrong_fields(&reply), [name], "{path} {name} {value}");
            }
        }
        let reply = ada.post("/Orders/Export", &json!({"webOrderId": value})).await;
        assert_eq!(wrong_fields(&reply), ["webOrderId"], "{value}");
    }
    for (path, name, count) in [
        ("/Auth/Token", "clientCode", 257),
        ("/Auth/Token", "userId", 321),
        ("/Auth/Token", "password", 257),
        ("/Orders/Export", "webOrderId", 33),
        ("/Orders/Export", "webOrderId", 60_000),
    ] {
        let reply = ada.post(path, &with(good(path), json!({name: long(count)}))).await;
        assert_eq!(wrong_fields(&reply), [name], "{path}");
    }
    let most =
        json!({"userId": "😀".repeat(320), "password": "😀".repeat(256), "clientCode": "😀".repeat(256)});
    assert_eq!(ada.post("/Auth/Token", &most).await.status, 404, "characters are counted, not bytes");
}

/// The place of every value below `value`, as JSON pointers; containers too.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let steps: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (step, value) in steps {
        let at = format!("{at}/{step}");
        places(value, &at, out);
        out.push(at);
    }
}

/// `/servees/0/party` as an answer names it: `servees[0].party`.
fn named(pointer: &str) -> String {
    pointer[1..].split('/').fold(String::new(), |path, step| match step.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) if path.is_empty() => step.to_owned(),
        Err(_) => format!("{path}.{step}"),
    })
}

#[tokio::test]
async fn a_wrong_type_is_refused_at_every_place_of_every_order_and_not_repeated() {
    const VALUE: &str = "Zq 123-45-6789";
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in OrderType::ALL {
        let mut all = Vec::new();
        places(&example(kind), "", &mut all);
        assert!(all.len() > 25, "{kind}");
        for at in all.iter().filter(|at| *at != "/orderType") {
            let was = example(kind).pointer(at).expect("there").clone();
            let wrong =
                if was.is_object() || was.is_array() { json!(VALUE) } else { json!([{VALUE: VALUE}]) };
            let mut body = example(kind);
            *body.pointer_mut(at).expect("there") = wrong;
            let reply = ada.post("/Orders/Save", &body).await;
            assert!(
                wrong_fields(&reply).iter().all(|field| field.starts_with(&named(at))),
                "{at}: {reply:?}"
            );
            assert!(
                !reply.text().contains("Zq") && !reply.text().contains("45-6789"),
                "{kind} {at}: {reply:?}"
            );
        }
    }
    assert_eq!(rig.orders(), 0);
    assert!(!rig.log().contains("45-6789"));
}

#[tokio::test]
async fn a_full_social_security_number_is_refused_and_not_repeated() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for kind in [OrderType::PhotoCopy, OrderType::Investigation] {
        for number in ["123-45-6789", "123456789", "6789x", "67890"] {
            let mut order = example(kind);
            order["subject"]["ssnLast4"] = json!(number);
            let reply = ada.post("/Orders/Save", &order).await;
            assert_eq!(wrong_fields(&reply), ["subject.ssnLast4"], "{number}");
            // The requestId is left out, because its digits are random.
            assert!(!problem(&reply, 400).to_string().contains(number), "{reply:?}");
            assert!(
                !rig.log().contains(&format!("{number}\"")) && !rig.log().contains("123-45"),
                "{}",
                rig.log()
            );
        }
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn a_value_that_became_a_key_is_not_repeated() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for path in POSTS.into_iter().filter(|path| *path != "/Session/Create") {
        let reply = ada.post(path, &with(good(path), json!({"123-45-6789": 1}))).await;
        assert_eq!(wrong_fields(&reply).len(), 1, "{path}");
        assert!(!reply.text().contains("123-45-6789"), "{path}: {reply:?}");
    }
}

#[tokio::test]
async fn values_beyond_their_bounds_are_refused() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for (kind, at, value) in [
        (OrderType::Process, "/minimumAttempts", json!(11)),
        (OrderType::Process, "/minimumAttempts", json!(-1)),
        (OrderType::Process, "/minimumAttempts", json!(1.5)),
        (OrderType::Process, "/minimumAttempts", json!(1e300)),
        (OrderType::Process, "/dueBy", json!("2026-02-30T00:00:00Z")),
        (OrderType::Process, "/lastDayToServe", json!("0000-00-00")),
        (OrderType::Process, "/lastDayToServe", json!("99999-01-01")),
        (OrderType::Process, "/servees/0/addresses/0/state", json!("ZZ")),
        (OrderType::Process, "/servees/0/addresses/0/postalCode", json!("9001")),
        (OrderType::Process, "/servees/0/party/firstName", json!("x".repeat(101))),
        (OrderType::Process, "/servees/0/party/firstName", json!("x".repeat(1_000_000))),
        (OrderType::Process, "/servees/0/party/firstName", json!("a\u{0}b")),
        (OrderType::Process, "/servees/0/party/firstName", json!("\u{1b}[31m")),
        (OrderType::Process, "/servees/0/party/firstName", json!("")),
        (OrderType::Process, "/attorney/email", json!("no@where")),
        (OrderType::Process, "/attorney/phone", json!("555-0142")),
        (OrderType::Process, "/servees", json!(vec![json!({}); 51])),
        (OrderType::Court, "/feeLimit", json!(-1)),
        (OrderType::Court, "/feeLimit", json!(1.001)),
        (OrderType::Court, "/feeLimit", json!(1e18)),
        (OrderType::Court, "/filingMethod", json!("efile")),
        (OrderType::Court, "/case/hearingTime", json!("25:00")),
    ] {
        let mut order = example(kind);
        *order.pointer_mut(at).expect("there") = value.clone();
        let reply = ada.post("/Orders/Save", &order).await;
        assert_eq!(wrong_fields(&reply), [named(at)], "{value:.60}");
    }
    for id in ["W-1", "W 1", "", &"W".repeat(33), "😀"] {
        let reply = ada.post("/Orders/Save", &with(captioned("x"), json!({"webOrderId": id}))).await;
        assert_eq!(wrong_fields(&reply), ["webOrderId"], "{id}");
    }
    assert_eq!(rig.orders(), 0);
}

#[tokio::test]
async fn a_body_full_of_mistakes_is_answered_with_a_bounded_list() {
    let rig = Rig::start().await;
    let names: Value =
        (0..19_000).map(|n| (format!("name{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let ada = rig.ada().await;
    for path in ["/Orders/Save", "/Orders/Export"] {
        let names: Value = match path {
            "/Orders/Save" => names.clone(),
            _ => names
                .as_object()
                .expect("one")
                .iter()
                .take(4_000)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        };
        let reply = ada.post(path, &with(good(path), names)).await;
        assert!(wrong_fields(&reply).len() <= 100, "{path}: {}", wrong_fields(&reply).len());
        assert!(reply.body.len() < 64 * 1024, "{path}: {} bytes", reply.body.len());
    }
}

#[tokio::test]
async fn an_order_may_have_a_megabyte_and_no_more() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let body = captioned("x").to_string().into_bytes();
    let padded = |length: usize| [&body[..], &vec![b' '; length - body.len()]].concat();
    assert_eq!(post(&ada, "/Orders/Save", &[JSON], &padded(1024 * 1024)).await.status, 200);
    let reply = post(&ada, "/Orders/Save", &[JSON], &padded(1024 * 1024 + 1)).await;
    refused(&reply, 413, "The body is longer than 1048576 bytes");
    let reply = post(&ada, "/Orders/Export", &[JSON], &padded(64 * 1024 + 1)).await;
    refused(&reply, 413, "The body is longer than 65536 bytes");
    assert_eq!(rig.orders(), 1);
}

#[tokio::test]
async fn the_body_must_be_json_in_utf8_and_say_so_once() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    for path in POSTS {
        let body = good(path).to_string();
        for wrong in [
            &[][..],
            &[""],
            &["text/plain"],
            &["application/x-www-form-urlencoded"],
            &["multipart/form-data; boundary=x"],
            &["application/jsonx"],
            &["application/problem+json"],
            &["application/json; charset=latin1"],
            &["application/json; charset=utf-16"],
            &["application/json; profile=\"a\"; charset=latin1"],
            &["text/json"],
            &["application/json, application/json"],
            &[JSON, JSON],
            &["text/plain", JSON],
        ] {
            let reply = post(&ada, path, wrong, body.as_bytes()).await;
            assert_eq!(reply.status, 415, "{path} {wrong:?}");
            refused(&reply, 415, "Send Content-Type: application/json, uncompressed");
        }
    }
    assert_eq!(rig.orders(), 0);
    for right in [
        "application/json",
        "Application/JSON",
        "application/json;charset=UTF-8",
        "application/json; charset=\"utf-8\"",
        "application/json; charset=utf8",
        "application/json; charset=\"UTF8\"",
        "application/json; charset='utf-8'",
        "application/json; profile=\"a;charset=latin1\"",
    ] {
        assert_eq!(
            post(&ada, "/Orders/Save", &[right], captioned("x").to_string().as_bytes()).await.status,
            200
        );
    }
}

#[tokio::test]
async fn credentials_are_checked_before_the_body_is_looked_at() {
    let rig = Rig::start().await;
    let key = api_key('a');
    for path in ["/Orders/Save", "/Orders/Export"] {
        let headers = [("X-Api-Key", key.as_str()), ("Content-Type", "text/plain")];
        assert_eq!(post_bytes(rig.server.api, path, &headers, b"\xff").await.status, 401);
        assert_eq!(post_bytes(rig.server.api, path, &[], b"\xff").await.status, 401);
    }
}

#[tokio::test]
async fn a_refused_update_leaves_the_order_as_it_was() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let id = save(&ada, &captioned("before")).await;
    let before = ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json();
    for more in [
        json!({"case": {"caption": 1}}),
        json!({"courtTask": "Fly"}),
        json!({"export": true}),
        json!({"x": 1}),
    ] {
        let reply =
            ada.post("/Orders/Save", &with(with(captioned("after"), json!({"webOrderId": id})), more)).await;
        problem(&reply, 400);
    }
    assert_eq!(ada.get(&format!("/Orders/Get?webOrderId={id}")).await.json(), before);
}
