//! The requests that a receiver gets: headers, envelope, signatures; and which webhooks get nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use docket_tests::receiver::{Post, Receiver, Response, ca_yaml};
use docket_tests::server::{Home, Options, SECRET, Server, api_key, eventually, tenant_yaml};
use regex::Regex;
use serde_json::json;

use crate::delivery::stage::{
    FAST, ONCE, SOON, USER, Webhook, all_end, deliveries, deliveries_of, remains, save, stage, together,
    whole_order,
};

/// Both signatures of a body, made by another language's libraries.
fn signatures(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> (String, String) {
    const PROGRAM: &str = "import sys,hmac,hashlib,base64\n\
        secret,id,timestamp=(a.encode() for a in sys.argv[1:4]); body=sys.stdin.buffer.read()\n\
        print(hmac.new(secret,body,hashlib.sha256).hexdigest())\n\
        signed=id+b'.'+timestamp+b'.'+body\n\
        print('v1,'+base64.b64encode(hmac.new(secret,signed,hashlib.sha256).digest()).decode())";
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM, secret, id, timestamp])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    child.stdin.take().expect("piped").write_all(body).expect("written");
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8(output.stdout).expect("ASCII");
    let (ours, standard) = text.trim().split_once('\n').expect("two lines");
    (ours.to_owned(), standard.to_owned())
}

pub(crate) fn assert_signed_with(secret: &str, post: &Post) {
    let id = post.header("webhook-id").expect("an id");
    let timestamp = post.header("webhook-timestamp").expect("a timestamp");
    let (ours, standard) = signatures(secret, id, timestamp, &post.body);
    assert_eq!(post.header("x-service-signature"), Some(ours.as_str()));
    assert_eq!(post.header("webhook-signature"), Some(standard.as_str()));
}

#[test]
fn the_second_opinion_on_signatures_is_right_itself() {
    // The well-known example of HMAC-SHA256.
    let (ours, _) = signatures("key", "", "", b"The quick brown fox jumps over the lazy dog");
    assert_eq!(ours, "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_exactly_what_the_contract_says() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/hook?tenant=a"))], ONCE).await;
    let mut order = whole_order();
    order["export"] = json!(true);
    order["itemDescription"] = json!("Žofie’s 契約 📦\u{202e}");
    let saved = client.post("/Orders/Save", &order).await.json();
    let rows = all_end(&home, 2).await;

    let pattern = |text| Regex::new(text).expect("a pattern");
    let signature = pattern("^[0-9a-f]{64}$");
    let id = pattern("^evt_[0-9a-f]{32}$");
    let utc = pattern(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$");
    let posts = hook.posts_to("/hook?tenant=a");
    assert_eq!((posts.len(), hook.count()), (2, 2), "one POST per delivery");
    for post in &posts {
        let envelope = post.envelope();
        let row = rows.iter().find(|row| row.id == post.delivery()).expect("the id of its row");
        assert_eq!((row.status.as_str(), row.attempts), ("Succeeded", 1));
        assert_eq!(row.answer.as_deref(), Some("answered 200"));

        let names: BTreeSet<&str> = post.headers.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "accept",
            "accept-encoding",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
            "x-service-delivery-id",
            "x-service-event",
            "x-service-signature",
        ];
        assert_eq!((names, post.headers.len()), (expected.into(), expected.len()));
        assert_eq!(post.header("content-type"), Some("application/json; charset=utf-8"));
        assert_eq!(post.header("host"), Some(format!("127.0.0.1:{}", hook.port()).as_str()));
        assert_eq!(post.header("x-service-event"), envelope["event"].as_str());
        assert_eq!(post.header("webhook-id"), envelope["id"].as_str());
        assert!(signature.is_match(post.header("x-service-signature").expect("signed")));
        assert_signed_with(SECRET, post);

        assert!(id.is_match(&post.event()), "{}", post.event());
        assert_eq!(post.event(), row.event);
        let occurred = envelope["occurredAt"].as_str().expect("a text");
        assert!(utc.is_match(occurred), "{occurred}");
        let occurred: jiff::Timestamp = occurred.parse().expect("a time");
        let sent: i64 = post.header("webhook-timestamp").and_then(|text| text.parse().ok()).expect("seconds");
        assert!((0..60).contains(&(sent - occurred.as_second())), "{occurred} {sent}");

        let order = &saved["webOrderId"];
        let data = match envelope["event"].as_str() {
            Some("order.created") => json!({"orderType": "Delivery", "webOrderId": order}),
            _ => json!({"orderType": "Delivery", "webOrderId": order, "workOrderId": saved["workOrderId"],
                "courtWorkOrder": null, "processWorkOrders": null}),
        };
        let whole = json!({"id": post.event(), "event": envelope["event"], "occurredAt": envelope["occurredAt"],
            "customerCode": "C-1", "data": data});
        assert_eq!(envelope, whole);
        let text = std::str::from_utf8(&post.body).expect("UTF-8");
        assert!(text.starts_with(&format!("{{\"id\":\"{}\",\"event\":", post.event())), "{text}");
        assert!(text.is_ascii(), "nothing of the order's content: {text}");
    }
    let codes: BTreeSet<_> = posts.iter().filter_map(|post| post.header("x-service-event")).collect();
    assert_eq!(codes, ["order.created", "order.exported"].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_photocopy_order_says_whether_it_is_finalized_and_an_update_is_an_event_of_its_own() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], ONCE).await;
    let created = client.post("/Orders/Save", &json!({"orderType": "PhotoCopy"})).await.json();
    let id = &created["webOrderId"];
    let update = json!({"orderType": "PhotoCopy", "webOrderId": id, "clientMatterNumber": "4410"});
    assert_eq!(client.post("/Orders/Save", &update).await.json()["changed"], true);
    // A save of the same order changes nothing, and publishes no event.
    assert_eq!(client.post("/Orders/Save", &update).await.json()["changed"], false);
    all_end(&home, 2).await;
    let mut got: Vec<_> =
        hook.posts().iter().map(Post::envelope).map(|e| (e["event"].clone(), e["data"].clone())).collect();
    got.sort_by_key(|(code, _)| code.to_string());
    let data = json!({"orderType": "PhotoCopy", "webOrderId": id, "finalize": false});
    assert_eq!(got, [(json!("order.created"), data.clone()), (json!("order.updated"), data)]);
}

/// A Secret with this content, and a Webhook that takes its secrets from there.
pub(super) fn rotating(hook: &Receiver, secrets: &str) -> String {
    let webhook = Webhook { secret: None, ..Webhook::new("rotating", hook.url("/")) }.yaml();
    format!(
        "{webhook}  secretRef: {{name: rotating, nextKey: next}}\n---\napiVersion: v1\nkind: Secret\n\
         metadata: {{name: rotating}}\nstringData: {{{secrets}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_secret_signs_beside_the_current_one_until_it_takes_its_place() {
    const NEXT: &str = "the-secret-that-takes-its-place";
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[], ONCE).await;
    // Changes the secrets, and waits until a delivery has this number of signatures, one of them by `signed_by`. Returns its POST.
    let sent = async |secrets: &str, signed_by: &str, count: usize| -> Post {
        home.write("webhook-rotating.yaml", &rotating(&hook, secrets));
        let last = std::cell::RefCell::new(None);
        eventually("deliveries are signed so", SOON, async || {
            let before = hook.count();
            save(&client).await;
            eventually("it is delivered", SOON, async || hook.count() > before).await;
            let post = hook.posts().pop().expect("it came");
            let signatures = post.header("webhook-signature").map_or(0, |all| all.split(' ').count());
            let is_so = post.is_signed_with(signed_by) && signatures == count;
            *last.borrow_mut() = Some(post);
            is_so
        })
        .await;
        last.into_inner().expect("it was seen")
    };
    let home_first = format!("secret: {SECRET}");
    home.write("webhook-rotating.yaml", &rotating(&hook, &home_first));
    eventually("it is served", SOON, async || {
        save(&client).await;
        hook.count() > 0
    })
    .await;
    assert_signed_with(SECRET, &sent(&home_first, SECRET, 1).await);
    let both = sent(&format!("secret: {SECRET}, next: {NEXT}"), SECRET, 2).await;
    let (id, timestamp) = (both.event(), both.header("webhook-timestamp").expect("a timestamp").to_owned());
    let (_, old) = signatures(SECRET, &id, &timestamp, &both.body);
    let (_, new) = signatures(NEXT, &id, &timestamp, &both.body);
    assert_eq!(both.header("webhook-signature"), Some(format!("{old} {new}").as_str()));
    assert_signed_with(NEXT, &sent(&format!("secret: {NEXT}"), NEXT, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_secret_nothing_is_signed() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let open = Webhook { secret: None, ..Webhook::new("open", hook.url("/")) };
    let (home, _server, client) = stage(&[open], ONCE).await;
    save(&client).await;
    all_end(&home, 1).await;
    let post = &hook.posts()[0];
    assert_eq!(post.header("x-service-signature"), None);
    assert_eq!(post.header("webhook-signature"), None);
    assert_eq!(post.header("webhook-id"), Some(post.event().as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_carries_the_same_bytes_and_ids() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let mut left = 3;
    hook.script(move |_| {
        left -= 1;
        Response::Status(if left >= 0 { 500 } else { 200 })
    });
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    save(&client).await;
    let rows = all_end(&home, 1).await;
    let posts = hook.posts();
    assert_eq!((posts.len(), rows[0].attempts), (4, 4));
    for post in &posts {
        assert_eq!(post.body, posts[0].body);
        for name in ["x-service-delivery-id", "x-service-signature", "x-service-event", "webhook-id"] {
            assert_eq!(post.header(name), posts[0].header(name), "{name}");
        }
        assert_signed_with(SECRET, post);
    }
}

#[expect(clippy::disallowed_methods, reason = "the server reads the same clock")]
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_occurs_when_its_order_is_saved() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], ONCE).await;
    let before = now_ms();
    save(&client).await;
    let after = now_ms();
    all_end(&home, 1).await;
    let envelope = hook.posts()[0].envelope();
    let occurred: jiff::Timestamp = envelope["occurredAt"].as_str().expect("a text").parse().expect("a time");
    assert!((before..=after).contains(&occurred.as_millisecond()), "{before} {occurred} {after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_webhooks_get_one_event_under_two_delivery_ids() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhooks = [Webhook::new("one", hook.url("/one")), Webhook::new("two", hook.url("/two"))];
    let (home, _server, client) = stage(&webhooks, ONCE).await;
    save(&client).await;
    all_end(&home, 2).await;
    let (one, two) = (&hook.posts_to("/one")[0], &hook.posts_to("/two")[0]);
    assert_eq!((one.event(), &one.body), (two.event(), &two.body));
    assert_ne!(one.delivery(), two.delivery());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_queued_for_webhooks_that_do_not_match() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let tenant = tenant_yaml("acme", 'a').replace(
        "  database: {managed: {name: tenant_acme}}\n",
        "  database: {managed: {name: tenant_acme}}\n  webhooks: {disabledEvents: [order.updated]}\n",
    );
    assert!(tenant.contains("disabledEvents"));
    let home = Home::with(&(tenant + "---\n" + &tenant_yaml("globex", 'b') + &ca_yaml()));
    let webhook = |name: &str| Webhook::new(name, hook.url(&format!("/{name}")));
    for webhook in [
        webhook("meant"),
        Webhook { customer: "C-2", ..webhook("another-customer") },
        Webhook { active: false, ..webhook("inactive") },
        Webhook { events: "order.exported, note.created", ..webhook("unsubscribed") },
        Webhook { tenant: "globex", secret: Some("globex-signing"), ..webhook("another-tenant") },
    ] {
        webhook.write(&home);
    }
    home.add_contact("ACME", "C-1", USER);
    home.add_contact("ACME", "C-2", "rhea@ferncliff.example");
    home.add_contact("GLOBEX", "C-1", USER);
    let server = Server::start(&home, Options::flags(ONCE)).await;
    let client = server.sign_in(&api_key('a'), USER).await;
    let id = save(&client).await;
    // The order is changed, but order.updated is off.
    let update = json!({"orderType": "Court", "webOrderId": id, "clientMatterNumber": "4410"});
    assert_eq!(client.post("/Orders/Save", &update).await.json()["changed"], true);
    all_end(&home, 1).await;
    remains("one POST", Duration::from_millis(500), async || hook.count() <= 1).await;
    assert_eq!(hook.posts_to("/meant").len(), 1);
    assert_eq!(deliveries(&home).len(), 1);
    assert!(deliveries_of(&home, "GLOBEX").is_empty());
    assert_eq!(
        home.open("ACME").get::<i64>("SELECT count(*) FROM event"),
        1,
        "an event without a receiver is not stored"
    );
    eventually("the metric agrees", SOON, async || {
        server.metric("docket_deliveries_total{status=\"Succeeded\"}").await == 1.0
    })
    .await;
}
