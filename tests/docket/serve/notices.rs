//! Messages to subscribers with several workers on PostgreSQL.

use std::time::Duration;

use docket::actions::subscriptions::{NewSubscription, subscribe};
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_domain::notice::WebhookState;
use docket_domain::token::TokenSubject;
use docket_program::clock::Clock;
use docket_rig::postgres;
use docket_store::Database;
use docket_store::postgres::Postgres;
use docket_tests::mail::MailServer;
use docket_tests::receiver::Response;
use docket_tests::server::{Server, eventually};
use docket_tests::stores::write_secret;

use crate::serve::stage::{SOON, Stage, save, sign_in};

/// Subscribes the stage's contact to losses, with its own address.
async fn subscribe_to_losses(stage: &Stage) {
    let client = postgres::client(&stage.database).await;
    let change = "UPDATE contact SET manages_webhooks = TRUE";
    client.batch_execute(change).await.expect("a statement");
    let row = client.query_one("SELECT code FROM contact", &[]).await.expect("the contact");
    let subject = TokenSubject::Contact { contact_code: row.get(0), customer_code: "C-1".into() };
    let database = Database::Postgres(Postgres::new(&stage.database, 2).expect("a URL"));
    let mut transaction = database.begin(&Clock::System).await.expect("a transaction");
    let (active_events, held) = (Default::default(), HeldWebhooks::These([].into()));
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let new = NewSubscription { states: vec![WebhookState::Lost], ..NewSubscription::default() };
    let now = transaction.now();
    assert!(subscribe(&mut transaction, webhooks, &subject, new, now).await.is_ok());
    transaction.commit().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_workers_one_sends_a_message_whatever_the_number_of_lost_deliveries() {
    let stage = Stage::with(|_| Response::Status(503)).await;
    let mail = MailServer::start();
    let flags = mail.flags(&stage.home);
    let client = postgres::client(&stage.database).await;
    subscribe_to_losses(&stage).await;

    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(stage.spawn("worker", &flags).ready(&stage.home).await);
    }
    let api = stage.serve("api").await;
    let user = sign_in(&api).await;
    for _ in 0..5 {
        save(&user).await;
    }
    let number = async |sql: &str| -> i64 { client.query_one(sql, &[]).await.expect("a statement").get(0) };
    let lost = "SELECT count(*) FROM delivery_history WHERE status = 'DeadLetter'";
    eventually("all are lost", SOON, async || number(lost).await == 5).await;
    let settled = "SELECT count(*) FROM subscription WHERE sent_number > 0 AND failures = 0";
    eventually("the message is sent", SOON, async || number(settled).await == 1).await;
    let known = "SELECT count(*) FROM webhook_notice WHERE lost_until_ms = \
                 (SELECT max(finished_at_ms) FROM delivery_history)";
    eventually("each loss is known", SOON, async || number(known).await == 1).await;
    let messages = mail.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].header("Subject").contains("lost"), "{messages:?}");
    let mut sent = 0.0;
    for worker in &workers {
        sent += worker.metric("docket_mails_total{result=\"sent\"}").await;
    }
    assert_eq!(sent, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_without_an_smtp_server_leaves_the_turn_to_one_that_has_it_and_counts_no_message() {
    let stage = Stage::with(|_| Response::Status(503)).await;
    let mail = MailServer::start();
    let client = postgres::client(&stage.database).await;
    subscribe_to_losses(&stage).await;
    // Turns are long, so that two workers hardly get them by chance.
    let flags = format!("{} --mail-interval 1s", mail.flags(&stage.home));
    let nowhere = stage.home.log("nowhere");
    write_secret(&nowhere, "smtp://127.0.0.1:9\n");
    let away = format!("{flags} --smtp-url-file {}", nowhere.display());
    let away = stage.spawn("worker", &away).ready(&stage.home).await;
    let api = stage.serve("api").await;
    save(&sign_in(&api).await).await;
    let waiting = async |worker: &Server| worker.metric("docket_mails_waiting").await;
    eventually("the message waits", SOON, async || waiting(&away).await == 1.0).await;
    eventually("it was tried", SOON, async || {
        away.metric("docket_mails_total{result=\"failed\"}").await >= 1.0
    })
    .await;

    let sends = stage.spawn("worker", &flags).ready(&stage.home).await;
    client.batch_execute("UPDATE subscription SET due_at_ms = 1").await.expect("a statement");
    eventually("the other worker sends it", SOON, async || mail.messages().len() == 1).await;
    eventually("no worker counts it", SOON, async || {
        waiting(&away).await == 0.0 && waiting(&sends).await == 0.0
    })
    .await;
    let sent = async || sends.metric("docket_mails_total{result=\"sent\"}").await == 1.0;
    eventually("it is settled", SOON, sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_visits_each_tenant_in_an_interval() {
    let stage = Stage::new().await;
    stage.add_blue().await;
    let mail = MailServer::start();
    let flags = format!("{} --mail-interval 60s", mail.flags(&stage.home));
    let worker = stage.spawn("worker", &flags).ready(&stage.home).await;
    let visits = "docket_upkeep_tenants_total{task=\"notices\",result=\"ok\"}";
    // A visit that fails is repeated after the interval.
    let patient = Duration::from_secs(90);
    eventually("both were visited", patient, async || worker.metric(visits).await >= 2.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn third_link_of_a_source_is_refused_while_two_are_read() {
    let stage = Stage::new().await;
    let portal = stage.serve("portal").await;
    let client = postgres::client(&stage.database).await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'mail_link'::regclass AND NOT granted";
    let waiting = async || client.query_one(waiting, &[]).await.expect("a statement").get::<_, i64>(0);
    let (host, path) =
        (format!("acme.localhost:{}", portal.api.port()), format!("/portal/mail/{}", "0f".repeat(32)));
    let headers = [("host", host.as_str())];
    let link = async || portal.send("GET", &path, &headers, "").await.status;
    assert_eq!(link().await, 200);
    client.batch_execute("BEGIN; LOCK TABLE mail_link IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let third = async {
        eventually("two are read", SOON, async || waiting().await == 2).await;
        let status = link().await;
        client.batch_execute("ROLLBACK").await.expect("a statement");
        status
    };
    let (one, two, third) = tokio::join!(link(), link(), third);
    assert_eq!([one, two, third], [200, 200, 503]);
}
