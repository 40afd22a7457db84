//! Messages to subscribers with several workers on PostgreSQL.

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
use docket_tests::server::eventually;

use crate::serve::stage::{SOON, Stage, save, sign_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_workers_one_sends_a_message_whatever_the_number_of_lost_deliveries() {
    let stage = Stage::with(|_| Response::Status(503)).await;
    let mail = MailServer::start();
    let flags = mail.flags(&stage.home);
    let client = postgres::client(&stage.database).await;
    let change = "UPDATE contact SET manages_webhooks = TRUE";
    client.batch_execute(change).await.expect("a statement");
    let (code, database) = {
        let row = client.query_one("SELECT code FROM contact", &[]).await.expect("the contact");
        (row.get::<_, String>(0), Database::Postgres(Postgres::new(&stage.database, 2).expect("a URL")))
    };
    let mut transaction = database.begin(&Clock::System).await.expect("a transaction");
    let (active_events, held) = (Default::default(), HeldWebhooks::These([].into()));
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let new = NewSubscription { states: vec![WebhookState::Lost], ..NewSubscription::default() };
    let (subject, now) =
        (TokenSubject::Contact { contact_code: code, customer_code: "C-1".into() }, transaction.now());
    assert!(subscribe(&mut transaction, webhooks, &subject, new, now).await.is_ok());
    transaction.commit().await.expect("committed");

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
