//! Dead letters sent again by one command: previewed, paced, stopped. And retention.

use std::time::{Duration, Instant};

use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Client, Home, Server, api_key, eventually};
use serde_json::json;

use crate::delivery::stage::{
    ONCE, SOON, Webhook, all_end, attempts, deliveries, remains, save, stage, together,
};

/// A failed delivery is a dead letter after some 30 ms.
const DYING: &str =
    "--backoff-base 1ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";

/// Makes a webhook `orders` with `count` dead letters, whose receiver responds 200 from now on.
async fn dead(count: usize) -> (Home, Server, Client, Receiver) {
    let hook = Receiver::scripted(|_| Response::Status(410)).await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], DYING).await;
    for _ in 0..count {
        save(&client).await;
    }
    let rows = all_end(&home, count).await;
    assert!(rows.iter().all(|row| row.status == "DeadLetter"), "{rows:?}");
    hook.script(|_| Response::Status(200));
    (home, server, client, hook)
}

fn command(home: &Home, arguments: &str) -> String {
    let (done, text) = home.command(&arguments.split(' ').collect::<Vec<_>>(), "");
    assert!(done, "{arguments}: {text}");
    text
}

const RESEND: &str = "deliveries resend --tenant ACME --webhook default/orders";

/// The id in `Resend <id>: …`.
fn id(text: &str) -> String {
    text.split([' ', ':']).nth(1).expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_previewed_and_then_sent_at_their_pace() {
    let _turn = together().await;
    let (home, _server, _client, hook) = dead(6).await;
    let before = hook.count();
    let preview = command(&home, &format!("{RESEND} --per-second 5"));
    assert!(preview.starts_with("6 dead letters of default/orders, created from 20"), "{preview}");
    assert!(
        preview.ends_with("5 per second take 1 s.\nNothing was resent; add --yes to resend them.\n"),
        "{preview}"
    );
    assert_eq!((deliveries(&home).len(), hook.count()), (6, before));

    let begun = Instant::now();
    let started = command(&home, &format!("{RESEND} --per-second 5 --yes"));
    assert!(started.contains(": 6 dead letters of default/orders"), "{started}");
    let rows = all_end(&home, 12).await;
    let posts = hook.posts().split_off(before);
    assert_eq!(posts.len(), 6);
    for (number, post) in (0..).zip(&posts) {
        let came = post.at.duration_since(begun);
        assert!(came >= Duration::from_millis(200) * number, "{number}: after {came:?}");
        let row = rows.iter().find(|row| row.id == post.delivery()).expect("its row");
        let original =
            rows.iter().find(|other| Some(&other.id) == row.resend_of.as_ref()).expect("its original");
        assert_eq!((row.status.as_str(), original.status.as_str()), ("Succeeded", "DeadLetter"));
        assert_eq!((post.event(), &row.event), (original.event.clone(), &original.event));
    }
    let shown = command(&home, "deliveries resends --tenant ACME");
    let row: Vec<&str> = shown.lines().nth(1).expect("a row").split_whitespace().collect();
    // RESEND CREATED(2) BY("command line (uid 0)") WEBHOOK COUNT PENDING FAILED SUCCEEDED DEADLETTER WITHDRAWN STOPPED
    assert_eq!(
        (row[0], &row[7..]),
        (id(&started).as_str(), &["default/orders", "6", "0", "0", "6", "0", "0", "–"][..])
    );
    let nothing = command(&home, RESEND);
    assert_eq!(nothing, "No dead letters of default/orders to resend.\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_resends_goes_out_without_waiting_for_a_poll() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(410)).await;
    let flags = DYING.replace("200ms", "1h");
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    let alex = server.sign_in_employee(&api_key('a'), "alex.admin").await;
    for _ in 0..3 {
        save(&client).await;
    }
    let first = all_end(&home, 3).await.remove(0);
    hook.script(|_| Response::Status(200));
    let before = hook.count();
    let reply = alex.post("/WebhookLogs/Resend", &json!({"deliveryId": first.id})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    eventually("one is there", SOON, async || hook.count() == before + 1).await;
    let reply = alex.post("/WebhookLogs/Resend", &json!({"webhook": "default/orders", "perSecond": 2})).await;
    assert_eq!(
        (reply.status, &reply.json()["count"]),
        (200, &json!(2)),
        "what was sent again is not sent a third time"
    );
    eventually("the others are there", SOON, async || hook.count() == before + 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_resend_sends_no_more_and_can_be_made_again() {
    let _turn = together().await;
    let (home, _server, _client, hook) = dead(5).await;
    let before = hook.count();
    let started = id(&command(&home, &format!("{RESEND} --per-second 1 --yes")));
    eventually("the first is there", SOON, async || hook.count() > before).await;
    let stopped = command(&home, &format!("deliveries stop --tenant ACME {started}"));
    let gone = hook.count() - before;
    assert!(gone < 5, "the stop came too late to show anything");
    assert_eq!(
        stopped,
        format!("Resend {started} stopped; withdrawn: {}, attempted before: {gone}.\n", 5 - gone)
    );
    remains("no further POST", Duration::from_millis(1500), async || hook.count() == before + gone).await;
    assert_eq!(all_end(&home, 5 + gone).await.len(), 5 + gone);
    let again = command(&home, &format!("deliveries stop --tenant ACME {started}"));
    assert!(again.contains("; withdrawn: 0,"), "{again}");
    command(&home, &format!("{RESEND} --per-second 100 --yes"));
    eventually("each event is there once", SOON, async || hook.count() == before + 5).await;
    let mut events: Vec<String> = hook.posts().split_off(before).iter().map(|post| post.event()).collect();
    events.sort();
    events.dedup();
    assert_eq!(events.len(), 5);
    let (done, text) = home.command(&["deliveries", "stop", "--tenant", "ACME", "nothing"], "");
    assert!(!done && text.contains("the tenant has no resend nothing"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_dies_again_is_sent_again_once_per_event() {
    let _turn = together().await;
    let (home, _server, _client, hook) = dead(2).await;
    hook.script(|_| Response::Status(503));
    command(&home, &format!("{RESEND} --per-second 100 --yes"));
    all_end(&home, 4).await;
    hook.script(|_| Response::Status(200));
    let before = hook.count();
    let started = command(&home, &format!("{RESEND} --per-second 100 --yes"));
    assert!(started.contains(": 2 dead letters"), "{started}");
    let rows = all_end(&home, 6).await;
    assert_eq!(hook.count(), before + 2);
    assert_eq!(rows.iter().filter(|row| row.status == "Succeeded").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_sets_aside_and_shows_what_became_of_a_dead_letter() {
    let _turn = together().await;
    let (home, _server, _client, hook) = dead(3).await;
    let ids: Vec<String> = deliveries(&home).into_iter().map(|row| row.id).collect();
    let [first, second] = [&ids[0], &ids[1]];
    let one = command(&home, &format!("deliveries set-aside --tenant ACME {first}"));
    assert_eq!(one, format!("Delivery {first} set aside: it counts no longer.\n"));
    let again = command(&home, &format!("deliveries set-aside --tenant ACME {first}"));
    assert_eq!(again, format!("Delivery {first} was set aside before.\n"));
    let shown = command(&home, &format!("deliveries show --tenant ACME {first}"));
    assert!(shown.contains("    set aside 20") && shown.contains(" by command line (uid "), "{shown}");
    assert!(shown.contains("what to do: It was set aside"), "{shown}");
    let all = "deliveries set-aside --tenant ACME --webhook default/orders --event order.created";
    let preview = command(&home, all);
    assert!(preview.starts_with("2 dead letters of default/orders, created from 20"), "{preview}");
    assert!(preview.ends_with("Nothing was set aside; add --yes to set them aside.\n"), "{preview}");
    let some = command(&home, &format!("{all} --limit 1 --yes"));
    assert_eq!(some, "1 dead letter of default/orders set aside: it counts no longer.\n");
    assert!(command(&home, RESEND).starts_with("1 dead letter of"), "a resend leaves them out");
    let undo = "deliveries undo-set-aside --tenant ACME";
    let back = command(&home, &format!("{undo} {first}"));
    assert_eq!(back, format!("Delivery {first} counts again.\n"));
    assert!(
        command(&home, &format!("{undo} --webhook default/orders"))
            .starts_with("1 dead letter of default/orders, set aside before, created from 20")
    );
    let back = command(&home, &format!("{undo} --webhook default/orders --yes"));
    assert_eq!(back, "1 dead letter of default/orders counts again.\n");

    let before = hook.count();
    command(&home, &format!("deliveries resend --tenant ACME {second}"));
    eventually("it is there", SOON, async || hook.count() == before + 1).await;
    all_end(&home, 4).await;
    let shown = command(&home, &format!("deliveries show --tenant ACME {second}"));
    assert!(shown.contains("    resent 20") && shown.contains(": Succeeded ("), "{shown}");
    assert!(shown.contains("what to do: A resend delivered the event"), "{shown}");
    let listed = command(&home, "deliveries list --tenant ACME --status DeadLetter");
    assert_eq!(listed.matches("DeadLetter (resent)").count(), 1, "{listed}");
    let refused = format!("deliveries set-aside --tenant ACME {second}");
    let (done, text) = home.command(&refused.split(' ').collect::<Vec<_>>(), "");
    assert!(!done && text.contains("was resent"), "{text}");
    let (done, text) = home.command(&["deliveries", "set-aside", "--tenant", "ACME"], "");
    assert!(!done && text.contains("name a webhook, or a delivery with --delivery"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_filters_and_refuses_what_contradicts() {
    let _turn = together().await;
    let (home, _server, _client, _hook) = dead(1).await;
    let list = |more: &str| command(&home, &format!("deliveries list --tenant ACME {more}"));
    for more in [
        "--webhook default/orders",
        "--event order.created",
        "--from 2026-01-01 --to 9999-12-31",
        "--http-status 410",
        &format!("--event-id {}", deliveries(&home).remove(0).event),
    ] {
        assert_eq!(list(more).lines().count(), 2, "{more}");
    }
    for more in [
        "--event note.created",
        "--to 2020-01-01",
        "--from 2999-01-01",
        "--http-status 503",
        "--event-id evt_0",
    ] {
        assert_eq!(list(more), "No delivery matches.\n", "{more}");
    }
    // What changes deliveries takes the same choice.
    for more in ["--event note.created", "--to 2020-01-01", "--from 2999-01-01"] {
        let said = command(&home, &format!("resend default/orders --tenant ACME {more}"));
        assert_eq!(said, "No dead letters of default/orders to resend.\n", "{more}");
        let said = command(&home, &format!("set-aside default/orders --tenant ACME {more}"));
        assert_eq!(said, "No dead letter of default/orders to set aside.\n", "{more}");
    }
    let id = deliveries(&home).remove(0).id;
    for (arguments, word) in [
        ("deliveries resend --tenant ACME".to_owned(), "name a webhook, or a delivery with --delivery"),
        (format!("deliveries resend --tenant ACME {id} --webhook default/orders"), "cannot be used with"),
        (format!("deliveries resend --tenant ACME {id} --yes"), "cannot be used with"),
        (format!("{RESEND} --limit 10001"), "--limit"),
        (format!("{RESEND} --per-second 0"), "--per-second"),
        (format!("{RESEND} --from yesterday"), "must be a date"),
        (
            "resend default/none --tenant ACME".to_owned(),
            "the tenant has no webhook \"default/none\"; did you mean default/orders?",
        ),
        ("deliveries list --tenant ACME --webhook order".to_owned(), "did you mean default/orders?"),
        ("trace order none --tenant ACME".to_owned(), "no web order, work order or invoice none"),
        ("trace delivery none --tenant ACME".to_owned(), "must be the id of a delivery"),
        ("deliveries list --tenant ACME --event order".to_owned(), "order.created"),
        ("deliveries list --tenant ACME --http-status 99".to_owned(), "100..=999"),
    ] {
        let (done, text) = home.command(&arguments.split(' ').collect::<Vec<_>>(), "");
        assert!(!done && text.contains(word), "{arguments}: {text}");
    }
    assert_eq!(deliveries(&home).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_goes_after_the_retention_and_what_has_not_stays() {
    let _turn = together().await;
    let hook =
        Receiver::scripted(|post| Response::Status(if post.path == "/fails" { 500 } else { 200 })).await;
    let webhooks = [Webhook::new("works", hook.url("/works")), Webhook::new("fails", hook.url("/fails"))];
    let (home, _server, client) = stage(&webhooks, &format!("{ONCE} --delivery-retention 2s")).await;
    save(&client).await;
    eventually("one has ended", SOON, async || deliveries(&home).iter().any(|row| row.is_final())).await;
    let begun = Instant::now();
    eventually("it is gone", SOON, async || deliveries(&home).len() == 1).await;
    assert!(begun.elapsed() > Duration::from_secs(1), "after {:?}", begun.elapsed());
    let left = deliveries(&home).remove(0);
    assert_eq!((left.webhook.as_str(), left.status.as_str()), ("fails", "Failed"));
    assert!(attempts(&home).iter().all(|attempt| attempt.delivery == left.id));
    assert_eq!(home.open("ACME").get::<i64>("SELECT count(*) FROM event"), 1, "a delivery needs it");
}
