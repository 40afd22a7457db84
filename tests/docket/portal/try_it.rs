//! What an administrator tries a webhook with: a test event, the event catalogue, the check of a signature, and the API keys.

use docket_domain::signature;
use docket_tests::people::{ADA, ALEX, BEA};
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Options, Reply, SECRET, Server, api_key, eventually};
use serde_json::{Value, json};

use super::rig::{Browser, hidden, is_protected};
use crate::delivery::stage::{FAST, SOON, Webhook, stage};

const WEBHOOK: &str = "/portal/webhooks/default/orders";

async fn send_test(browser: &Browser<'_>, event: &str) -> Reply {
    let csrf = hidden(&browser.get(WEBHOOK).await, "csrf");
    browser.post(&format!("{WEBHOOK}/test"), &[("csrf", &csrf), ("event", event)]).await
}

/// The delivery of the last test, to which the webhook's page leads.
async fn last_test(browser: &Browser<'_>) -> String {
    let page = browser.get(WEBHOOK).await;
    let (before, _) = page.text().split_once("\">What was sent and received").expect("a test");
    before.rsplit("href=\"").next().expect("a link").to_owned()
}

#[tokio::test]
async fn test_event_arrives_signed_and_marked_and_its_page_shows_how_it_went() {
    let receiver = Receiver::verifying(|_| Response::Status(204)).await;
    let (_home, server, _) = stage(&[Webhook::new("orders", receiver.url("/orders"))], FAST).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let sent = send_test(&browser, "order.created").await;
    assert_eq!(sent.status, 303, "{sent:?}");
    assert_eq!(sent.headers["location"], format!("{WEBHOOK}?done=test-sent#test"));
    let just_sent = browser.get(&format!("{WEBHOOK}?done=test-sent")).await;
    for part in ["The test event ", " by <span title=\"employee 52\">Alex Admin</span>"] {
        assert!(just_sent.text().contains(part), "{part}: {just_sent:?}");
    }
    eventually("the webhook's page says how it went", SOON, async || {
        browser.get(WEBHOOK).await.text().contains("The receiver took it at attempt 1.")
    })
    .await;
    let page = last_test(&browser).await;
    let shown = browser.get(&page).await;
    is_protected(&shown);
    for part in [
        "Made to try the webhook, by <span title=\"employee 52\">Alex Admin</span>",
        "x-service-test: true",
        "TEST-W00000001",
    ] {
        assert!(shown.text().contains(part), "{part}: {shown:?}");
    }
    let posts = receiver.posts();
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].header("x-service-test"), Some("true"));
    assert_eq!(posts[0].header("x-service-event"), Some("order.created"));
    let body: Value = serde_json::from_slice(&posts[0].body).expect("JSON");
    assert_eq!(
        (&body["customerCode"], &body["data"]["webOrderId"]),
        (&json!("C-1"), &json!("TEST-W00000001"))
    );
    let activity = async || browser.get("/portal/activity?event=TestSent").await;
    let id = page.strip_prefix("/portal/logs/").expect("a delivery").to_owned();
    eventually("it is recorded", SOON, async || {
        activity().await.text().contains(&format!("<a href=\"{page}\" title=\"{id}\">Delivery …"))
    })
    .await;

    // A resend of a test is a test as well; a delivery of an order is not.
    let client = server.sign_in(&api_key('a'), ADA).await;
    let csrf = hidden(&shown, "csrf");
    let resent = browser.post("/portal/logs/resend", &[("csrf", &csrf), ("deliveryId", &id)]).await;
    assert_eq!(resent.status, 303, "{resent:?}");
    assert_eq!(client.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    eventually("all arrived", SOON, async || receiver.posts().len() == 3).await;
    let mut marked: Vec<bool> =
        receiver.posts().iter().map(|post| post.header("x-service-test").is_some()).collect();
    marked.sort_unstable();
    assert_eq!(marked, [false, true, true]);
}

#[tokio::test]
async fn failed_test_is_in_the_log_and_in_no_health_and_no_metric() {
    let nowhere =
        Webhook { trusting: false, events: "note.created", ..Webhook::new("orders", "https://127.0.0.1:9/") };
    let (_home, server, _) = stage(&[nowhere], "--backoff-base 1ms --poll-interval 100ms").await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let sent = send_test(&browser, "note.created").await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let log = "/portal/logs?status=DeadLetter";
    eventually("it is a dead letter", SOON, async || {
        browser.get(log).await.text().contains(">a test</span>")
    })
    .await;
    assert!(browser.get(WEBHOOK).await.text().contains("More about BlockedAddress"));
    let overview = browser.get("/portal").await;
    assert!(overview.text().contains("Settings have a problem"), "{overview:?}");
    let preview = browser.get("/portal/resends?webhook=default%2Forders").await;
    assert!(preview.text().contains("Nothing to send again"), "{preview:?}");
    for series in [
        "docket_deliveries_total{status=\"DeadLetter\"}",
        "docket_delivery_attempts_total{class=\"BlockedAddress\"}",
    ] {
        assert!(server.metric(series).await.abs() < f64::EPSILON, "{series}");
    }
}

#[tokio::test]
async fn test_needs_an_active_webhook_that_takes_the_event_and_no_other_test_under_way() {
    let receiver = Receiver::verifying(|_| Response::Status(503)).await;
    let webhooks = [
        Webhook { events: "order.created", ..Webhook::new("orders", receiver.url("/orders")) },
        Webhook { active: false, ..Webhook::new("resting", receiver.url("/resting")) },
    ];
    let (_home, server, _) = stage(&webhooks, "--backoff-base 1h").await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let refused = send_test(&browser, "note.created").await;
    assert!(refused.status == 409 && refused.text().contains("not subscribed to this event"), "{refused:?}");
    let broken = send_test(&browser, "order.nothing").await;
    assert!(broken.status == 400 && broken.text().contains("event"), "{broken:?}");
    let resting = browser.get("/portal/webhooks/default/resting").await;
    assert!(resting.text().contains("Please set active of default/resting to true."), "{resting:?}");
    let csrf = hidden(&resting, "csrf");
    let fields = [("csrf", csrf.as_str()), ("event", "order.created")];
    let refused = browser.post("/portal/webhooks/default/resting/test", &fields).await;
    assert!(refused.status == 409 && refused.text().contains("inactive"), "{refused:?}");
    assert_eq!(browser.post("/portal/webhooks/default/none/test", &fields).await.status, 404);

    assert_eq!(send_test(&browser, "order.created").await.status, 303);
    let again = send_test(&browser, "order.created").await;
    assert!(
        again.status == 409 && again.text().contains("is being sent to this webhook already"),
        "{again:?}"
    );
}

#[tokio::test]
async fn last_use_of_an_api_key_is_shown_and_survives_a_restart() {
    let (home, server, _) = stage(&[], FAST).await;
    let shown = async |server: &Server| {
        let page = Browser::signed_in(server, "acme", ALEX).await.get("/portal/keys").await;
        page.text().split("<th scope=\"row\">primary</th>").nth(1).expect("a row").contains("<time ")
    };
    server.sign_in(&api_key('a'), ADA).await;
    assert!(shown(&server).await);
    server.terminate().await;
    let server = Server::start(&home, Options::default()).await;
    assert!(shown(&server).await);
}

#[tokio::test]
async fn a_check_of_signatures_is_bounded() {
    let receiver = Receiver::verifying(|_| Response::Status(204)).await;
    let (_home, server, _) = stage(&[Webhook::new("orders", receiver.url("/orders"))], FAST).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let csrf = hidden(&browser.get("/portal/verify").await, "csrf");
    let signature = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ".repeat(9);
    let fields = [
        ("csrf", csrf.as_str()),
        ("webhook", "default/orders"),
        ("body", "{}"),
        ("webhookId", "msg_1"),
        ("webhookTimestamp", "1"),
        ("webhookSignature", &signature),
    ];
    let reply = browser.post("/portal/verify", &fields).await;
    assert!(reply.text().contains("more than 8 signatures"), "{reply:?}");
    // One check runs at a time. The others wait, and get a 503 if that takes long.
    let body = "x".repeat(60_000);
    let fields =
        [("csrf", csrf.as_str()), ("webhook", "default/orders"), ("body", &body), ("signature", "00")];
    let all = futures_util::future::join_all((0..10).map(|_| browser.post("/portal/verify", &fields)));
    let replies = server.meeting(10, all).await;
    assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 503)), "{replies:?}");
    assert!(replies.iter().any(|reply| reply.status == 200));
}

#[tokio::test]
async fn pages_tell_events_signatures_and_keys() {
    let receiver = Receiver::verifying(|_| Response::Status(204)).await;
    let webhook = Webhook { events: "order.created", ..Webhook::new("orders", receiver.url("/orders")) };
    let (_home, server, _) = stage(&[webhook], FAST).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let events = browser.get("/portal/events").await;
    is_protected(&events);
    assert_eq!(events.text().matches("<section").count(), 6, "{events:?}");
    assert_eq!(events.text().matches("href=\"/portal/webhooks/default/orders\"").count(), 1);

    let keys = browser.get("/portal/keys").await;
    is_protected(&keys);
    let key = api_key('a');
    assert!(keys.text().contains("<code>sha256:") && !keys.text().contains(&key), "{keys:?}");

    let form = browser.get("/portal/verify").await;
    is_protected(&form);
    let csrf = hidden(&form, "csrf");
    let body = "{\"id\":\"evt_1\"}";
    let signature = signature::sign(SECRET.as_bytes(), body.as_bytes());
    let check = async |body: &str, signature: &str| {
        let fields = [
            ("csrf", csrf.as_str()),
            ("webhook", "default/orders"),
            ("body", body),
            ("signature", signature),
        ];
        let reply = browser.post("/portal/verify", &fields).await;
        is_protected(&reply);
        assert_eq!(reply.status, if signature.is_empty() { 400 } else { 200 }, "{reply:?}");
        let right = signature::sign(SECRET.as_bytes(), body.as_bytes());
        assert!(!reply.text().contains(&right) || signature == right, "a digest: {reply:?}");
        reply.text().to_owned()
    };
    assert!(check(body, &signature).await.contains("X-Service-Signature matches"));
    let newline = check(&format!("{body}\r\n"), &signature).await;
    assert!(
        newline.contains("X-Service-Signature does not match") && newline.contains("newline"),
        "{newline}"
    );
    let empty = check(body, "").await;
    assert!(empty.contains("href=\"#field-signature\">X-Service-Signature: Paste this header"), "{empty}");
    let other = signature::sign(b"another", body.as_bytes());
    let unknown = check(body, &other).await;
    assert!(unknown.contains("does not match") && !unknown.contains(&signature), "{unknown}");
    let fields = [("csrf", csrf.as_str()), ("webhook", "default/none"), ("body", body), ("signature", "00")];
    let unknown = browser.post("/portal/verify", &fields).await;
    assert!(
        unknown.status == 400 && unknown.text().contains("There is no webhook “default/none”"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn body_is_compared_with_the_event_that_the_user_may_see() {
    let receiver = Receiver::verifying(|_| Response::Status(204)).await;
    let webhooks = [
        Webhook { events: "order.created", ..Webhook::new("orders", receiver.url("/orders")) },
        Webhook { customer: "C-2", ..Webhook::new("others", receiver.url("/others")) },
    ];
    let (home, server, ada) = stage(&webhooks, FAST).await;
    assert_eq!(ada.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    eventually("it arrived", SOON, async || receiver.posts().len() == 1).await;
    let post = receiver.posts().remove(0);
    let body = std::str::from_utf8(&post.body).expect("JSON");
    let id = post.header("webhook-id").expect("signed").to_owned();
    let check = async |user: &str, webhook: &str, id: &str, body: &str| {
        let browser = Browser::signed_in(&server, "acme", user).await;
        let csrf = hidden(&browser.get("/portal/verify").await, "csrf");
        let fields = [
            ("csrf", csrf.as_str()),
            ("webhook", webhook),
            ("webhookId", id),
            ("body", body),
            ("signature", "00"),
        ];
        let reply = browser.post("/portal/verify", &fields).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text().to_owned()
    };
    let (sent, spaced) = (body.len(), body.replacen(':', ": ", 1));
    let at = body.find(':').expect("JSON") + 2;
    let orders = "default/orders";
    let same = check(ALEX, orders, &id, body).await;
    assert!(same.contains(&format!("The body is exactly the {sent} bytes that Docket sends")), "{same}");
    let differs = check(ALEX, orders, &id, &spaced).await;
    assert!(differs.contains(&format!("Docket sent {sent} bytes; yours differ at byte {at}")), "{differs}");
    let read = "SELECT count(*) FROM audit WHERE event = 'PayloadRead' AND subject = 'event ' || ?1";
    let database = home.open("ACME");
    let reads = || database.rows(read, &[&id])[0].get::<i64>(0);
    eventually("one read is recorded", SOON, async || reads() == 1).await;

    // For an event of another customer, the response is the same as for an event that does not exist.
    database.change("UPDATE contact SET manages_webhooks = TRUE");
    const NONE: &str = "Docket has no event with this webhook-id";
    for (user, webhook, id) in [
        (BEA, "default/others", &*id),
        (ALEX, orders, "evt_0"),
        (ALEX, orders, "évt"),
        (ADA, orders, &"x".repeat(65)),
    ] {
        let text = check(user, webhook, id, body).await;
        assert!(text.contains(NONE) && !text.contains("bytes that Docket sends"), "{user} {id}: {text}");
    }
    assert!(check(ADA, orders, &id, body).await.contains("The body is exactly the"));
}
