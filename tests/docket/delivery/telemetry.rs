//! Metrics and logs about deliveries: what they contain, and what they never contain.

use docket_rig::ports::free_port;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{SECRET, api_key, eventually};
use serde_json::{Value, json};

use crate::delivery::stage::{
    FAST, ONCE, SOON, Webhook, all_end, deliveries, save, stage, together, whole_order,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_are_counted_by_class_and_deliveries_by_their_end() {
    let _turn = together().await;
    let mut count = 0;
    let hook = Receiver::scripted(move |post| match post.path.as_str() {
        "/twice" => {
            count += 1;
            Response::Status(if count <= 2 { 503 } else { 200 })
        }
        status => Response::Status(status[1..].parse().expect("a status")),
    })
    .await;
    let webhooks = [
        Webhook::new("w200", hook.url("/200")),
        Webhook::new("twice", hook.url("/twice")),
        Webhook::new("w404", hook.url("/404")),
        Webhook::new("refused", format!("https://127.0.0.1:{}/", free_port())),
    ];
    let (home, server, client) = stage(&webhooks, FAST).await;
    save(&client).await;
    all_end(&home, 4).await;
    let classes =
        [("Succeeded", 2), ("ServerError", 2), ("ClientError", 5), ("Refused", 5), ("WorkerLost", 0)];
    for (class, expected) in classes {
        let series = format!("docket_delivery_attempts_total{{class=\"{class}\"}}");
        eventually(&series, SOON, async || server.metric(&series).await == f64::from(expected)).await;
    }
    for (status, expected) in [("Succeeded", 2), ("DeadLetter", 2), ("Failed", 0), ("Pending", 0)] {
        let series = format!("docket_deliveries_total{{status=\"{status}\"}}");
        assert_eq!(server.metric(&series).await, f64::from(expected), "{series}");
    }
    assert_eq!(server.metric("docket_delivery_attempt_seconds_count").await, 14.0);
    assert_eq!(server.metric("docket_delivery_stale_finishes_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_each_attempt_and_holds_nothing_that_is_secret() {
    let _turn = together().await;
    let hook = Receiver::scripted(|post| match post.path.as_str() {
        "/echo?signature=in-the-url" => Response::whole(500, "", &post.body),
        _ => Response::whole(200, "", b"an-answer-of-the-receiver"),
    })
    .await;
    let webhooks = [
        Webhook::new("echo", hook.url("/echo?signature=in-the-url")),
        Webhook::new("fine", hook.url("/fine")),
    ];
    // Everything that can be logged is logged.
    let flags = format!("{ONCE} --log trace --log-format json");
    let (home, _server, client) = stage(&webhooks, &flags).await;
    let mut order = whole_order();
    order["itemDescription"] = json!("an-exhibit-under-seal");
    order["export"] = json!(true);
    assert_eq!(client.post("/Orders/Save", &order).await.status, 200);
    eventually("each was tried", SOON, async || {
        let rows = deliveries(&home);
        rows.len() == 4 && rows.iter().all(|row| row.attempts == 1 && !row.leased)
    })
    .await;
    let mut log = String::new();
    eventually("each attempt is in the log", SOON, async || {
        log = std::fs::read_to_string(home.log("err")).expect("its log");
        log.truncate(log.rfind('\n').map_or(0, |end| end + 1)); // the last line may be half written
        log.matches(r#""message":"attempt""#).count() >= 4
    })
    .await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for row in deliveries(&home) {
        let logged: Vec<_> = lines
            .iter()
            .filter(|line| line["message"] == "attempt" && line["delivery.id"] == row.id.as_str())
            .collect();
        assert_eq!(logged.len(), 1, "{}", row.id);
        assert_eq!(logged[0]["tenant.code"], "ACME");
        assert_eq!(logged[0]["webhook.name"], row.webhook.as_str());
        assert_eq!(logged[0]["attempt"], 1);
        assert_eq!(logged[0]["delivery.status"], row.status.as_str());
        assert_eq!(logged[0]["http.status"], row.http_status.expect("answered"));
        let outcome = if row.webhook == "echo" { "ServerError" } else { "Succeeded" };
        assert_eq!(logged[0]["outcome"], outcome);
    }
    let out = std::fs::read_to_string(home.log("out")).expect("its output");
    let post = &hook.posts()[0];
    let signature = post.header("x-service-signature").expect("signed");
    let key = api_key('a');
    for (what, text) in [
        ("the secret", SECRET),
        ("the token", client.token.as_str()),
        ("the API key", key.as_str()),
        ("a signature", signature),
        ("an order's content", "an-exhibit-under-seal"),
        ("a payload", "webOrderId"),
        ("an answer", "an-answer-of-the-receiver"),
        ("a target's query", "in-the-url"),
        ("a password", docket_tests::server::PASSWORD),
        ("an e-mail address", crate::delivery::stage::USER),
    ] {
        for (name, log) in [("the log", &log), ("the output", &out)] {
            let line = log.lines().find(|line| line.contains(text));
            assert!(line.is_none(), "{what} is in {name}: {line:?}");
        }
    }
}
