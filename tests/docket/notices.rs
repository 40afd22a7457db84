//! E-mail to people who subscribed to changes of webhooks, over a real SMTP server.

use std::time::Duration;

use docket::actions::subscriptions::{NewSubscription, subscribe};
use docket::tenancy::{HeldWebhooks, Webhooks};
use docket_domain::notice::WebhookState;
use docket_domain::token::TokenSubject;
use docket_program::clock::Clock;
use docket_store::Database;
use docket_store::sqlite::Sqlite;
use docket_tests::mail::{Mail, MailServer};
use docket_tests::people::ADA;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Home, Options, Reply, Server, api_key, eventually, request};
use docket_tests::stores;

use crate::delivery::stage::{SOON, USER, Webhook, home, reload, remains, save};

/// With these flags, attempts begin at once, and after 0.6, 1.8, 4.2 and 9 s.
const SLOW: &str =
    "--backoff-base 300ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";

/// Subscribes as the portal does, from another process.
async fn subscribe_to_all(home: &Home, subject: TokenSubject, email: Option<&str>) {
    let database = Database::Sqlite(Sqlite::new(home.database("ACME")));
    let mut transaction = database.begin(&Clock::System).await.expect("a transaction");
    let (active_events, held) = (Default::default(), HeldWebhooks::These([].into()));
    let webhooks = Webhooks::new(&[], &active_events, &held);
    let states = WebhookState::ALL.to_vec();
    let new = NewSubscription { webhook: None, states, email: email.map(str::to_owned) };
    let now = transaction.now();
    assert!(subscribe(&mut transaction, webhooks, &subject, new, now).await.is_ok());
    transaction.commit().await.expect("committed");
}

fn administrator() -> TokenSubject {
    TokenSubject::Employee { employee_code: "52".into(), administrator: true }
}

fn contact() -> TokenSubject {
    TokenSubject::Contact { contact_code: "11".into(), customer_code: "C-1".into() }
}

async fn start(home: &Home, mail: &MailServer, flags: &str) -> Server {
    Server::start(home, Options::flags(&format!("{flags} {}", mail.flags(home)))).await
}

/// Waits for this number of messages, and returns the last one.
pub(crate) async fn arrived(mail: &MailServer, count: usize) -> Mail {
    eventually(&format!("{count} messages arrive"), SOON, async || mail.messages().len() >= count).await;
    let messages = mail.messages();
    assert_eq!(messages.len(), count, "{messages:?}");
    messages.into_iter().next_back().expect("one")
}

/// Lets the next message go now. A subscription has one in five minutes.
fn hurry(home: &Home) {
    home.open("ACME").change("UPDATE subscription SET due_at_ms = 1");
}

/// Follows a link of a message.
async fn follow(server: &Server, link: &str, method: &str, form: &str) -> Reply {
    let (origin, path) = link.split_at(link.find("/portal/").expect("a path"));
    let host = origin.strip_prefix("http://").expect("docket dev has no TLS");
    assert_eq!(host, format!("acme.localhost:{}", server.api.port()));
    let headers = [("host", host), ("content-type", "application/x-www-form-urlencoded")];
    request(server.api, method, path, &headers, form).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriber_confirms_gets_one_message_for_each_state_and_ends_it_by_one_click() {
    let receiver = Receiver::verifying(|_| Response::Status(503)).await;
    let home = home(&[Webhook::new("one", receiver.url("/one"))]);
    let mail = MailServer::start();
    let server = start(&home, &mail, SLOW).await;
    let client = server.sign_in(&api_key('a'), USER).await;
    subscribe_to_all(&home, administrator(), Some("alex@acme.example")).await;

    // The typed address gets the link that confirms it, and nothing else before.
    let asked = arrived(&mail, 1).await;
    assert_eq!(asked.to(), "alex@acme.example");
    assert!(asked.header("Subject").ends_with("Confirm your e-mail address"), "{asked:?}");
    assert!(asked.headers.iter().all(|(name, _)| name != "List-Unsubscribe"), "{asked:?}");
    let link = asked.line("http://acme.localhost").to_owned();
    let page = follow(&server, &link, "GET", "").await;
    assert!(page.status == 200 && page.text().contains("value=\"confirm\""), "{page:?}");
    let is_confirmed = || -> i64 {
        home.open("ACME").get("SELECT count(*) FROM subscription WHERE confirmed_at_ms IS NOT NULL")
    };
    assert_eq!(is_confirmed(), 0, "a program that checks mail opens links");
    assert_eq!(follow(&server, &link, "POST", "action=confirm").await.status, 200);
    assert_eq!(is_confirmed(), 1);

    // Three orders fail three times each: one message.
    let mut orders = Vec::new();
    for _ in 0..3 {
        orders.push(save(&client).await);
    }
    let failing = arrived(&mail, 2).await;
    assert_eq!(failing.header("Subject"), "[ACME] Webhook \"default/one\": attempts fail");
    assert_eq!(failing.line("Cause: "), "Cause: ServerError (HTTP 503)");
    assert!(failing.line("What to do: ").len() > 20, "{failing:?}");
    let of_webhook = format!("http://acme.localhost:{}/portal/webhooks/default/one", server.api.port());
    assert_eq!(failing.line("http://acme.localhost"), of_webhook);
    for order in &orders {
        assert!(!failing.body.contains(order.as_str()), "{failing:?}");
    }
    // The next message is sent five minutes later.
    let apart = format!(
        "SELECT count(*) FROM subscription WHERE failures = 0 AND due_at_ms > {} + 240000",
        stores::now_ms()
    );
    let is_apart = || home.open("ACME").get::<i64>(&apart) == 1;
    eventually("the next message waits", SOON, async || is_apart()).await;

    // The webhook works again, so one more message comes.
    receiver.script(|_| Response::Status(200));
    let delivered = "SELECT count(*) FROM delivery_history WHERE status = 'Succeeded'";
    eventually("all arrive", SOON, async || home.open("ACME").get::<i64>(delivered) == 3).await;
    hurry(&home);
    let works = arrived(&mail, 3).await;
    assert_eq!(works.header("Subject"), "[ACME] Webhook \"default/one\": works again");

    // A mail program unsubscribes by one click, with a form of its own kind.
    assert_eq!(works.header("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    let link = works.header("List-Unsubscribe").trim_matches(['<', '>']).to_owned();
    let page = follow(&server, &link, "GET", "").await;
    assert!(page.status == 200 && page.text().contains("value=\"unsubscribe\""), "{page:?}");
    for _ in 0..2 {
        assert_eq!(follow(&server, &link, "POST", "List-Unsubscribe=One-Click").await.status, 200);
    }
    let database = home.open("ACME");
    assert_eq!(database.get::<i64>("SELECT count(*) FROM subscription"), 0);
    let events: Vec<String> = ["SubscriptionConfirmed", "SubscriptionEnded"]
        .map(|event| format!("SELECT count(*) FROM audit WHERE event = '{event}' AND actor IS NULL"))
        .into();
    for sql in &events {
        assert_eq!(database.get::<i64>(sql), 1, "{sql}");
    }
    // Without a subscriber nothing is announced.
    let known = "SELECT count(*) FROM webhook_notice";
    eventually("what was announced is forgotten", SOON, async || database.get::<i64>(known) == 0).await;
    assert_eq!(mail.messages().len(), 3);
    assert_eq!(server.metric("docket_mails_total{result=\"sent\"}").await, 3.0);
    let log = std::fs::read_to_string(home.log("err")).unwrap_or_default();
    let token = link.rsplit('/').next().expect("a token");
    assert!(!log.contains("alex@acme.example") && !log.contains(token), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stranger_who_refuses_the_first_message_gets_no_other() {
    let home = home(&[Webhook::new("one", "https://127.0.0.1:9/")]);
    let mail = MailServer::start();
    let server = start(&home, &mail, "").await;
    for user in ["52", "53"] {
        let employee = TokenSubject::Employee { employee_code: user.into(), administrator: true };
        home.open("ACME").change(&format!(
            "INSERT OR IGNORE INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms)
               VALUES ('{user}', 'u{user}', 'u{user}', 'A user', TRUE, TRUE, 0)"
        ));
        subscribe_to_all(&home, employee, Some("eve@other.example")).await;
    }
    let asked = arrived(&mail, 1).await;
    let held = "SELECT count(*) FROM subscription WHERE failures = 0 AND due_at_ms > created_at_ms + 60000";
    let count = |sql: &str| home.open("ACME").get::<i64>(sql);
    eventually("one asks and the other waits", SOON, async || count(held) == 2).await;
    let link = asked.line("http://acme.localhost").to_owned();
    let page = follow(&server, &link, "GET", "").await;
    assert!(page.text().contains("Never write to this address</button>"), "{page:?}");
    let refused = follow(&server, &link, "POST", "action=refuse").await;
    assert!(refused.status == 200 && refused.text().contains("No more messages"), "{refused:?}");
    assert_eq!(count("SELECT count(*) FROM subscription"), 0);
    assert_eq!(count("SELECT count(*) FROM audit WHERE event = 'SubscriptionEnded' AND actor IS NULL"), 2);
    assert_eq!(mail.messages().len(), 1);
}

/// A delivery of webhook `one` that was lost just now.
pub(crate) fn lose(home: &Home, number: u32) {
    end(home, number, "'DeadLetter', 5, 'ServerError', 500");
}

/// A delivery of webhook `one` that has just arrived.
fn arrive(home: &Home, number: u32) {
    end(home, number, "'Succeeded', 1, NULL, 200");
}

/// A delivery of webhook `one` that has just ended. `outcome`: status, number of attempts, failure class and HTTP status.
fn end(home: &Home, number: u32, outcome: &str) {
    let (now_ms, body) = (stores::now_ms(), stores::bytes(b"{}"));
    home.open("ACME").change(&format!(
        "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms)
           VALUES ('evt_{number:032x}', 'order.created', 'C-1', 'W1', {body}, 0);
         INSERT INTO delivery_history (id, event_id, webhook, webhook_name, due_at_ms, status, attempt_count, failure_class,
                                       http_status, created_at_ms, finished_at_ms)
           VALUES ('01900000-0000-7000-8000-{number:012x}', 'evt_{number:032x}', 'default/one/C-1', 'default/one', 0,
                   {outcome}, {now_ms}, {now_ms});"
    ));
}

/// A home with a webhook and a contact that may see it and subscribes with its own address.
async fn subscribed() -> Home {
    let home = home(&[Webhook::new("one", "https://127.0.0.1:9/")]);
    home.open("ACME").change("UPDATE contact SET manages_webhooks = TRUE WHERE code = '11'");
    subscribe_to_all(&home, contact(), None).await;
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_sent_although_the_webhook_works_again_before_its_message_could_go() {
    let home = subscribed().await;
    let far = "UPDATE subscription SET due_at_ms = 99999999999999, on_failing = FALSE, on_works = FALSE";
    home.open("ACME").change(far);
    let mail = MailServer::start();
    let _server = start(&home, &mail, "").await;
    let state = async |state: &str| {
        let sql = format!("SELECT count(*) FROM webhook_notice WHERE state = '{state}' AND number > 0");
        eventually(state, SOON, async || home.open("ACME").get::<i64>(&sql) == 1).await;
    };
    lose(&home, 1);
    state("Lost").await;
    arrive(&home, 2);
    state("Works").await;
    hurry(&home);
    let lost = arrived(&mail, 1).await;
    assert_eq!(lost.header("Subject"), "[ACME] Webhook \"default/one\": 1 delivery is lost");
    assert_eq!(lost.line("Since then: "), "Since then: the webhook works again.");
    // The message was the last one: the number of its notice is stored.
    let sent = "SELECT count(*) FROM subscription s JOIN replaced_notice r ON r.number = s.sent_number WHERE r.state = 'Lost'";
    eventually("it is settled", SOON, async || home.open("ACME").get::<i64>(sent) == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_killed_while_it_sends_loses_and_doubles_no_message() {
    let home = subscribed().await;
    let mut mail = MailServer::start();
    mail.reply("silence");
    let server = start(&home, &mail, "").await;
    lose(&home, 1);
    let claimed = "SELECT count(*) FROM mail_link";
    let count = || home.open("ACME").get::<i64>(claimed);
    eventually("a message is being sent", SOON, async || count() == 1).await;
    server.kill();
    mail.reply("250 OK");
    let _server = start(&home, &mail, "").await;
    // Another process would send the message when the claim expires.
    hurry(&home);
    let lost = arrived(&mail, 1).await;
    assert_eq!(
        (lost.to(), lost.header("Subject")),
        (ADA, "[ACME] Webhook \"default/one\": 1 delivery is lost")
    );
    hurry(&home);
    lose(&home, 2);
    let known = "SELECT count(*) FROM webhook_notice WHERE lost_until_ms > lost_at_ms";
    let open = || home.open("ACME").get::<i64>(known) == 1;
    eventually("the next loss is known", SOON, async || open()).await;
    assert_eq!(mail.messages().len(), 1, "one message for each state, not for each delivery");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_whose_reply_was_lost_is_repeated_under_the_same_id() {
    let home = subscribed().await;
    let mut mail = MailServer::start();
    mail.reply("lost");
    let server = start(&home, &mail, "").await;
    lose(&home, 1);
    arrived(&mail, 1).await;
    let failures = || home.open("ACME").get::<i64>("SELECT failures FROM subscription");
    eventually("the failure is stored", SOON, async || failures() == 1).await;
    mail.reply("250 OK");
    // This process pauses after a failure of the server; the next one does not.
    server.kill();
    let server = start(&home, &mail, "").await;
    hurry(&home);
    arrived(&mail, 2).await;
    let ids: Vec<String> =
        mail.messages().iter().map(|message| message.header("Message-ID").to_owned()).collect();
    assert_eq!(ids[0], ids[1]);
    eventually("the message is settled", SOON, async || failures() == 0).await;
    let waiting = async || server.metric("docket_mails_waiting").await;
    eventually("nothing waits", SOON, async || waiting().await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_without_a_reply_keeps_no_other_message_waiting() {
    let home = home(&[Webhook::new("one", "https://127.0.0.1:9/")]);
    for address in ["eve@other.example", "alex@acme.example"] {
        subscribe_to_all(&home, administrator(), Some(address)).await;
    }
    // The first in the order of a visit.
    home.open("ACME").change("UPDATE subscription SET id = '0' WHERE email = 'eve@other.example'");
    let mut mail = MailServer::start();
    mail.reply("lost only eve@other.example");
    let server = start(&home, &mail, "").await;
    let sent = async || server.metric("docket_mails_total{result=\"sent\"}").await == 1.0;
    eventually("the other message is sent", SOON, sent).await;
    let to: Vec<String> = mail.messages().iter().map(|message| message.to().to_owned()).collect();
    assert_eq!(to, ["eve@other.example", "alex@acme.example"]);
    assert_eq!(home.open("ACME").get::<i64>("SELECT failures FROM subscription WHERE id = '0'"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_that_is_refused_waits_in_its_row_and_is_sent_later() {
    let home = subscribed().await;
    let mut mail = MailServer::start();
    mail.reply("451 later");
    let server = start(&home, &mail, "").await;
    lose(&home, 1);
    let failed = async || server.metric("docket_mails_total{result=\"failed\"}").await;
    eventually("it is refused", SOON, async || failed().await == 1.0).await;
    let due = "SELECT count(*) FROM subscription WHERE failures = 1 AND due_at_ms > 1";
    eventually("it is put off", SOON, async || home.open("ACME").get::<i64>(due) == 1).await;
    mail.reply("250 OK");
    hurry(&home);
    arrived(&mail, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_tls_and_a_password_gets_messages_only_if_its_certificate_is_trusted() {
    let mail = MailServer::with_tls();
    let home = subscribed().await;
    let flags = mail.flags(&home);
    let (without_authorities, _) = flags.split_once(" --smtp-ca-file").expect("the last flag");
    let server = Server::start(&home, Options::flags(without_authorities)).await;
    lose(&home, 1);
    let failed = async || server.metric("docket_mails_total{result=\"failed\"}").await;
    eventually("it is not trusted", SOON, async || failed().await == 1.0).await;
    assert!(mail.messages().is_empty());
    server.kill();
    let _server = Server::start(&home, Options::flags(&flags)).await;
    hurry(&home);
    assert_eq!(arrived(&mail, 1).await.to(), ADA);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_of_a_suspended_tenant_wait_until_it_is_resumed() {
    let home = subscribed().await;
    let mail = MailServer::start();
    let _server = start(&home, &mail, "").await;
    let known = "SELECT count(*) FROM webhook_notice";
    eventually("the webhook is known", SOON, async || home.open("ACME").get::<i64>(known) == 1).await;
    let yaml = std::fs::read_to_string(home.config().join("all.yaml")).expect("the tenant");
    let suspended = yaml.replace("  clientCode: ACME\n", "  clientCode: ACME\n  suspend: true\n");
    assert_ne!(suspended, yaml);
    reload(&home, || home.write("all.yaml", &suspended)).await;
    lose(&home, 1);
    // The mailer looks ten times a second.
    remains("the message waits", Duration::from_millis(500), async || mail.messages().is_empty()).await;
    reload(&home, || home.write("all.yaml", &yaml)).await;
    arrived(&mail, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contact_that_loses_the_right_gets_nothing_any_more() {
    let home = subscribed().await;
    home.open("ACME").change("UPDATE contact SET manages_webhooks = FALSE");
    let mail = MailServer::start();
    let _server = start(&home, &mail, "").await;
    lose(&home, 1);
    let count = || home.open("ACME").get::<i64>("SELECT count(*) FROM subscription");
    eventually("the subscription ends", SOON, async || count() == 0).await;
    assert!(mail.messages().is_empty());
    let ended = "SELECT count(*) FROM audit WHERE event = 'SubscriptionEnded'";
    assert_eq!(home.open("ACME").get::<i64>(ended), 1);
}

#[tokio::test]
async fn wrong_setting_of_e_mail_is_named_and_the_url_is_not_shown() {
    let home = home(&[]);
    let file = home.log("smtp-url");
    stores::write_secret(&file, "smtp://user:hunter2@mail.example/path");
    let file = file.display().to_string();
    let dev = ["dev", "--listen", "127.0.0.1:0", "--management", "127.0.0.1:0", "--no-receiver"];
    let start = |more: &[&str]| home.command(&[&dev[..], more].concat(), "");
    let (done, text) = start(&["--smtp-url-file", &file]);
    assert!(!done && text.contains("--mail-from <ADDRESS>"), "{text}");
    let (done, text) = start(&["--smtp-url-file", &file, "--mail-from", "docket@docket.example"]);
    assert!(!done && text.contains("--smtp-url-file") && text.contains("must end after the host"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    stores::write_secret(std::path::Path::new(&file), "smtps://mail.example");
    let (done, text) = start(&["--smtp-url-file", &file, "--mail-from", "no address"]);
    assert!(!done && text.contains("--mail-from") && text.contains("must be an e-mail address"), "{text}");
}
