//! Webhooks and tenants that change while deliveries are queued: nothing goes to the wrong place, and nothing is lost.

use std::time::Duration;

use docket_tests::receiver::{Post, Receiver, Response, ca_yaml};
use docket_tests::server::{Client, Home, Options, SECRET, Server, api_key, eventually, tenant_yaml};
use serde_json::{Value, json};

use crate::delivery::contract::assert_signed_with;
use crate::delivery::stage::{
    SOON, USER, Webhook, all_end, attempts, deliveries, delivery_to, home, reload, remains, save, stage,
    together,
};

/// The deliveries of a webhook that is not there wait for a second.
const SHORT_GRACE: &str = "--backoff-base 1500ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32 \
                           --webhook-grace 1s";
/// The first retry comes after 3 s: long enough to change something meanwhile.
const RETRY_SOON: &str =
    "--backoff-base 1500ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";

/// One order, whose first attempt has failed and whose retry is to come.
async fn failed_once(webhook: &Webhook, hook: &Receiver) -> (Home, Server, Client) {
    failed_once_with(webhook, hook, RETRY_SOON).await
}

async fn failed_once_with(webhook: &Webhook, hook: &Receiver, flags: &str) -> (Home, Server, Client) {
    hook.script(|_| Response::Status(500));
    let (home, server, client) = stage(std::slice::from_ref(webhook), flags).await;
    save(&client).await;
    eventually("it failed once", SOON, async || deliveries(&home).iter().any(|row| row.status == "Failed"))
        .await;
    hook.script(|_| Response::Status(200));
    (home, server, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inactive_webhook_gets_nothing_new_and_its_queued_deliveries_are_sent() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, client) = failed_once(&webhook, &hook).await;
    reload(&home, || Webhook { active: false, ..webhook.clone() }.write(&home)).await;
    save(&client).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Succeeded", 2, 2));
    reload(&home, || webhook.write(&home)).await;
    save(&client).await;
    all_end(&home, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_the_same_name_for_another_customer_gets_nothing_of_the_first_ones() {
    let _turn = together().await;
    let (hook, other) = (Receiver::start().await, Receiver::start().await);
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, server, _client) = failed_once(&webhook, &hook).await;
    server.terminate().await;
    Webhook { customer: "C-2", url: other.url("/"), ..webhook }.write(&home);
    let _server = Server::start(&home, Options::flags(SHORT_GRACE)).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.class()), ("DeadLetter", "WebhookGone"));
    assert_eq!((hook.count(), other.count()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_webhooks_deliveries_end_after_the_grace_without_a_post() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, server, client) = failed_once_with(&webhook, &hook, SHORT_GRACE).await;
    hook.script(|_| Response::Status(500));
    save(&client).await;
    let failed = || deliveries(&home).iter().filter(|row| row.status == "Failed").count();
    eventually("two failed", SOON, async || failed() == 2).await;
    hook.script(|_| Response::Status(200));
    let posts = hook.count();
    reload(&home, || std::fs::remove_file(home.config().join("webhook-orders.yaml")).expect("removable"))
        .await;
    for row in all_end(&home, 2).await {
        assert_eq!((row.status.as_str(), row.class()), ("DeadLetter", "WebhookGone"));
    }
    assert_eq!((hook.count(), attempts(&home).len()), (posts, posts));
    assert_eq!(server.metric("docket_deliveries_total{status=\"WebhookGone\"}").await, 2.0);
    assert_eq!(
        server.metric("docket_deliveries_total{status=\"DeadLetter\"}").await,
        0.0,
        "no receiver failed"
    );
    let log = std::fs::read_to_string(home.log("err")).expect("a log");
    assert_eq!(log.matches("end as WebhookGone").count(), 1, "one line for the webhook: {log}");
    // A webhook that is declared again gets resends; ended deliveries stay as they are.
    reload(&home, || webhook.write(&home)).await;
    remains("no POST", Duration::from_secs(1), async || hook.count() == posts).await;
    let resend = ["deliveries", "resend", "--tenant", "ACME", "--webhook", "default/orders", "--yes"];
    let (done, text) = home.command(&resend, "");
    assert!(done, "{text}");
    eventually("both are resent", SOON, async || hook.count() == posts + 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_put_back_in_time_gets_what_was_queued() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, _client) = failed_once(&webhook, &hook).await;
    // The delivery's age does not end it.
    home.open("ACME").change("UPDATE delivery_queue SET created_at_ms = created_at_ms - 10800000");
    reload(&home, || std::fs::remove_file(home.config().join("webhook-orders.yaml")).expect("removable"))
        .await;
    let missing = || home.open("ACME").rows("SELECT webhook FROM missing_webhook", &[]).len();
    eventually("it is missed", SOON, async || missing() == 1).await;
    let due = delivery_to(&home, "orders").due_at_ms;
    eventually("its time has passed", SOON, async || jiff_now() > due + 500).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Failed", 1, 1));
    reload(&home, || webhook.write(&home)).await;
    assert_eq!(all_end(&home, 1).await[0].status, "Succeeded");
    assert_eq!(hook.count(), 2);
    eventually("it is missed no more", SOON, async || missing() == 0).await;
}

/// The receiver knows only the secret that Docket generated first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_secret_signs_again_when_its_webhook_is_put_back() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(500)).await;
    let webhook = Webhook { secret: None, ..Webhook::new("orders", hook.url("/")) };
    let declare = |home: &Home, customer: &str| {
        let yaml = webhook.yaml().replace("customerCode: C-1", &format!("customerCode: {customer}"));
        home.write("webhook-orders.yaml", &(yaml + "  generateSecret: {}\n"));
    };
    let remove = |home: &Home| {
        std::fs::remove_file(home.config().join("webhook-orders.yaml")).expect("removable");
    };
    let home = home(&[]);
    declare(&home, "C-1");
    let server = Server::start(&home, Options::flags(RETRY_SOON)).await;
    let client = server.sign_in(&api_key('a'), USER).await;
    let secret = || {
        let keys = std::fs::read(home.data().join("tenants/ACME/keys.json")).expect("the keys");
        let keys: Value = serde_json::from_slice(&keys).expect("JSON");
        keys["webhookSecrets"]["file:default/orders"]["value"].as_str().map(str::to_owned)
    };
    let first = secret().expect("it is generated");
    save(&client).await;
    eventually("it failed once", SOON, async || deliveries(&home).iter().any(|row| row.status == "Failed"))
        .await;
    hook.script({
        let first = first.clone();
        move |post: &Post| Response::Status(if post.is_signed_with(&first) { 200 } else { 401 })
    });
    // Another customer's webhook takes the name for a while, over a restart, and has another secret.
    reload(&home, || remove(&home)).await;
    assert_eq!(secret(), None);
    server.terminate().await;
    declare(&home, "C-2");
    let _server = Server::start(&home, Options::flags(RETRY_SOON)).await;
    assert!(secret().is_some_and(|other| other != first));
    reload(&home, || remove(&home)).await;
    reload(&home, || declare(&home, "C-1")).await;
    assert_eq!(secret().as_ref(), Some(&first));
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts), ("Succeeded", 2));
    hook.posts().iter().for_each(|post| assert_signed_with(&first, post));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_broken_by_an_edit_stays_as_it_was() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, client) = failed_once(&webhook, &hook).await;
    // The Secret of the webhook is gone.
    let without =
        tenant_yaml("acme", 'a').replace("metadata: {name: acme-signing}", "metadata: {name: other}");
    reload(&home, || home.write("all.yaml", &(without + &ca_yaml()))).await;
    save(&client).await;
    let rows = all_end(&home, 2).await;
    assert!(rows.iter().all(|row| row.status == "Succeeded"), "{rows:?}");
    hook.posts().iter().for_each(|post| assert_signed_with(SECRET, post));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_broken_at_the_start_keeps_its_deliveries_until_it_is_fixed() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, server, _client) = failed_once(&webhook, &hook).await;
    server.kill();
    Webhook { secret: Some("gone"), ..webhook.clone() }.write(&home);
    let _server = Server::start(&home, Options::flags(RETRY_SOON)).await;
    let due = delivery_to(&home, "orders").due_at_ms;
    let is_due = || jiff_now() > due + 500;
    eventually("its time has passed", SOON, async || is_due()).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Failed", 1, 1));
    reload(&home, || webhook.write(&home)).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Succeeded", 2, 2));
    assert_signed_with(SECRET, &hook.posts()[1]);
}

#[expect(clippy::disallowed_methods, reason = "compared with what another process has stored")]
fn jiff_now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_read_ends_no_delivery() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, server, _client) = failed_once(&webhook, &hook).await;
    server.kill();
    // Docket does not know which webhooks the file declares, and for which tenant.
    home.write("webhook-orders.yaml", "kind: [");
    let _server = Server::start(&home, Options::flags(RETRY_SOON)).await;
    let due = delivery_to(&home, "orders").due_at_ms;
    eventually("its time has passed", SOON, async || jiff_now() > due + 500).await;
    assert_eq!(delivery_to(&home, "orders").status, "Failed");
    reload(&home, || webhook.write(&home)).await;
    assert_eq!(all_end(&home, 1).await[0].status, "Succeeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_signed_with_the_secret_of_the_day_over_the_same_bytes() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, _client) = failed_once(&webhook, &hook).await;
    let rotated = tenant_yaml("acme", 'a').replace(SECRET, "another-secret-from-today-on");
    reload(&home, || home.write("all.yaml", &(rotated + &ca_yaml()))).await;
    all_end(&home, 1).await;
    let posts = hook.posts();
    assert_signed_with(SECRET, &posts[0]);
    assert_signed_with("another-secret-from-today-on", &posts[1]);
    assert_eq!((&posts[0].body, posts[0].delivery()), (&posts[1].body, posts[1].delivery()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_goes_to_the_new_url() {
    let _turn = together().await;
    let (before, after) = (Receiver::start().await, Receiver::start().await);
    let webhook = Webhook::new("orders", before.url("/before"));
    let (home, _server, _client) = failed_once(&webhook, &before).await;
    reload(&home, || Webhook { url: after.url("/after"), ..webhook.clone() }.write(&home)).await;
    all_end(&home, 1).await;
    assert_eq!((before.count(), after.posts_to("/after").len()), (1, 1));
    assert_eq!(before.posts()[0].body, after.posts()[0].body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_tenants_deliveries_wait_until_it_is_resumed() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, client) = failed_once(&webhook, &hook).await;
    let tenant = tenant_yaml("acme", 'a');
    let suspended = tenant.replace("  clientCode: ACME\n", "  clientCode: ACME\n  suspend: true\n");
    assert_ne!(tenant, suspended);
    reload(&home, || home.write("all.yaml", &(suspended + &ca_yaml()))).await;
    assert_eq!(client.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 401);
    let due = delivery_to(&home, "orders").due_at_ms;
    eventually("its time has passed", SOON, async || jiff_now() > due + 500).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Failed", 1, 1));
    reload(&home, || home.write("all.yaml", &(tenant + &ca_yaml()))).await;
    assert_eq!(all_end(&home, 1).await[0].status, "Succeeded");
    assert_eq!(hook.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_removed_and_added_again_keeps_its_deliveries() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhook = Webhook::new("orders", hook.url("/"));
    let (home, _server, client) = failed_once(&webhook, &hook).await;
    let tenant = tenant_yaml("acme", 'a');
    reload(&home, || home.write("all.yaml", &ca_yaml())).await;
    let due = delivery_to(&home, "orders").due_at_ms;
    eventually("its time has passed", SOON, async || jiff_now() > due + 1_000).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("Failed", 1, 1));
    reload(&home, || home.write("all.yaml", &(tenant + &ca_yaml()))).await;
    assert_eq!(all_end(&home, 1).await[0].status, "Succeeded");
    save(&client).await;
    all_end(&home, 2).await;
}

/// A tenant of the same name in another place: the rows of one are never sent for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_webhooks_of_the_same_customer_code_do_not_meet() {
    let _turn = together().await;
    let (ours, theirs) = (Receiver::start().await, Receiver::start().await);
    let home = home(&[Webhook::new("orders", ours.url("/"))]);
    home.write("globex.yaml", &tenant_yaml("globex", 'b'));
    Webhook {
        tenant: "globex",
        secret: Some("globex-signing"),
        ..Webhook::new("globex-orders", theirs.url("/"))
    }
    .write(&home);
    home.add_contact("GLOBEX", "C-1", USER);
    let server = Server::start(&home, Options::flags(RETRY_SOON)).await;
    let (acme, globex) =
        (server.sign_in(&api_key('a'), USER).await, server.sign_in(&api_key('b'), USER).await);
    for _ in 0..5 {
        save(&acme).await;
        save(&globex).await;
    }
    all_end(&home, 5).await;
    eventually("theirs too", SOON, async || theirs.count() == 5).await;
    assert_eq!((ours.count(), theirs.count()), (5, 5));
    let ids: Vec<String> = deliveries(&home).into_iter().map(|row| row.id).collect();
    assert!(ours.posts().iter().all(|post| ids.contains(&post.delivery())));
    assert!(theirs.posts().iter().all(|post| !ids.contains(&post.delivery())));
}
