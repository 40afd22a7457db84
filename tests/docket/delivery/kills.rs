//! SIGKILL: acknowledged orders are delivered, counted attempts are not repeated, and other workers take over within
//! seconds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use docket_tests::receiver::{Post, Receiver, Response};
use docket_tests::server::{Client, Options, Server, api_key, eventually};
use serde_json::json;

use crate::delivery::stage::{
    FAST, SOON, USER, Webhook, all_end, all_end_within, alone, attempts, attempts_of, delivery_to, home,
    open, remains, save, stage, together, whole_order,
};

const KILLS: u64 = 60;

/// Random numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    /// Uses the seed DOCKET_SEED of compile time, or a new seed, which is printed.
    fn new() -> Self {
        let given = option_env!("DOCKET_SEED").map(|seed| seed.parse().expect("a number"));
        let seed = given.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish()) | 1;
        println!(
            "the seed is {seed}; for the same moments again: touch this file and set DOCKET_SEED={seed}"
        );
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}

/// Saves orders until it is stopped. Returns the acknowledged orders, and whether each was exported.
async fn save_orders(
    mut client: Client,
    api: Arc<Mutex<SocketAddr>>,
    stop: Arc<AtomicBool>,
    mut random: Random,
) -> Vec<(String, bool)> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        client.api = *api.lock().unwrap_or_else(PoisonError::into_inner);
        let export = random.below(3) == 0;
        let mut order = whole_order();
        order["export"] = json!(export);
        match client.try_post("/Orders/Save", &order.to_string(), &[]).await {
            Ok(reply) if reply.status == 200 => {
                acknowledged.push((reply.json()["webOrderId"].as_str().expect("an id").to_owned(), export));
            }
            Ok(reply) if reply.headers.contains_key("x-request-id") => {
                assert_eq!(reply.status, 503, "{reply:?}")
            }
            // Another process has the port of the killed process.
            Ok(_) => {}
            // The process was killed meanwhile, or does not listen yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        tokio::time::sleep(Duration::from_millis(random.below(40))).await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_kills_lose_nothing_repeat_nothing_and_leave_no_orphans() {
    let _turn = alone().await;
    let begun = Instant::now();
    let mut random = Random::new();
    let mut luck = Random(random.below(u64::MAX) | 1);
    let hook = Receiver::scripted(move |_| {
        let answer = Response::Status(if luck.below(5) == 0 { 500 } else { 200 });
        // Some are slow enough to be cut off.
        if luck.below(4) == 0 {
            Response::after(Duration::from_millis(luck.below(300)), answer)
        } else {
            answer
        }
    })
    .await;
    let webhooks = [Webhook::new("one", hook.url("/one")), Webhook::new("two", hook.url("/two"))];
    let (home, server, client) = stage(&webhooks, FAST).await;

    let (api, stop) = (Arc::new(Mutex::new(server.api)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let luck = Random(random.below(u64::MAX) | 1);
            tokio::spawn(save_orders(client.clone(), Arc::clone(&api), Arc::clone(&stop), luck))
        })
        .collect();
    let mut server = Some(server);
    for kill in 0..KILLS {
        // The moment is what is random here; now and then it comes before the program is ready.
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        server.take().expect("running").kill();
        let options = Options::flags(FAST);
        let next =
            if kill % 6 == 5 { Server::spawn(&home, &options) } else { Server::start(&home, options).await };
        *api.lock().unwrap_or_else(PoisonError::into_inner) = next.api;
        server = Some(next);
    }
    server.take().expect("running").kill();
    let _server = Server::start(&home, Options::flags(FAST)).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for client in clients {
        acknowledged.extend(client.await.expect("a client"));
    }
    println!("{} orders acknowledged over {KILLS} kills in {:?}", acknowledged.len(), begun.elapsed());
    assert!(acknowledged.len() > 200, "only {}", acknowledged.len());

    let database = open(&home, "ACME");
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
    let queued = usize::try_from(count("SELECT count(*) FROM delivery")).expect("a size");
    let rows = all_end_within(&home, queued, Duration::from_secs(60)).await;

    // Every saved order, acknowledged or not, has exactly its events, and each event a delivery to both webhooks.
    let mut statement = database.prepare("SELECT id, status FROM web_order").expect("a statement");
    let orders: HashMap<String, String> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    let mut statement = database.prepare("SELECT id, web_order_id, code FROM event").expect("a statement");
    let events: Vec<(String, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    let mut codes: HashMap<&str, Vec<&str>> = HashMap::new();
    for (_, order, code) in &events {
        assert!(orders.contains_key(order), "an event of no order: {order}");
        codes.entry(order).or_default().push(code);
    }
    for (order, export) in &acknowledged {
        let status = orders.get(order).unwrap_or_else(|| panic!("the acknowledged order {order} is lost"));
        assert_eq!(status, if *export { "Exported" } else { "Draft" }, "{order}");
    }
    for (order, status) in &orders {
        let mut found = codes.get(order.as_str()).cloned().unwrap_or_default();
        found.sort_unstable();
        let expected: &[_] =
            if status == "Exported" { &["order.created", "order.exported"] } else { &["order.created"] };
        assert_eq!(found, expected, "{order}");
    }
    let mut webhooks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        webhooks.entry(&row.event).or_default().push(&row.webhook);
    }
    assert_eq!(webhooks.len(), events.len());
    for (event, _, _) in &events {
        let found: BTreeSet<_> = webhooks[event.as_str()].iter().copied().collect();
        assert_eq!((found, webhooks[event.as_str()].len()), (["one", "two"].into(), 2), "{event}");
    }
    assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    assert_eq!(count("SELECT count(*) FROM attempt WHERE finished_at_ms IS NULL"), 0);
    assert_eq!(count("SELECT count(*) FROM delivery WHERE lease_token IS NOT NULL"), 0);

    // The receivers got no more attempts than were counted, and at most five.
    let mut posts: HashMap<String, Vec<Post>> = HashMap::new();
    for post in hook.posts() {
        posts.entry(post.delivery()).or_default().push(post);
    }
    let mut made: HashMap<String, i64> = HashMap::new();
    let (mut lost, mut dead) = (0, 0);
    for attempt in attempts(&home) {
        *made.entry(attempt.delivery.clone()).or_default() += 1;
        lost += usize::from(attempt.class() == "WorkerLost");
    }
    for row in &rows {
        let sent = posts.remove(&row.id).unwrap_or_default();
        assert_eq!(made.get(&row.id).copied().unwrap_or(0), row.attempts, "rows of attempts of {}", row.id);
        assert!(i64::try_from(sent.len()).expect("few") <= row.attempts && row.attempts <= 5, "{}", row.id);
        assert!(sent.iter().all(|post| post.body == sent[0].body && post.event() == row.event), "{}", row.id);
        dead += usize::from(row.status == "DeadLetter");
        assert!(row.status == "DeadLetter" || !sent.is_empty(), "{} succeeded without a POST", row.id);
    }
    assert!(posts.is_empty(), "POSTs of deliveries that are not there: {:?}", posts.keys());
    println!("{} deliveries, {} attempts cut off, {dead} dead letters", rows.len(), lost);
    assert!(lost > 0, "no kill met an attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_cut_off_by_a_kill_are_noted_and_taken_over_within_seconds() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Hang).await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    // A new webhook may have eight attempts at once.
    for _ in 0..8 {
        save(&client).await;
    }
    eventually("all are under way", SOON, async || hook.count() == 8).await;
    server.kill();
    hook.script(|_| Response::Status(200));
    let _server = Server::start(&home, Options::flags(FAST)).await;
    let ready = Instant::now();
    let rows = all_end(&home, 8).await;
    assert!(ready.elapsed() < Duration::from_secs(3), "only after {:?}", ready.elapsed());
    for row in rows {
        assert_eq!((row.status.as_str(), row.attempts, row.class.as_deref()), ("Succeeded", 2, None));
        let attempts = attempts_of(&home, &row.id);
        let classes: Vec<_> = attempts.iter().map(|attempt| attempt.class()).collect();
        assert_eq!(classes, ["WorkerLost", ""]);
        assert!(attempts[0].finished_at_ms.is_some());
    }
    assert_eq!(hook.count(), 16);
}

/// A crash loop, which cuts off every attempt that it meets, uses no attempts up: from the second loss on each waits for the
/// backoff.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_in_a_row_make_no_dead_letter() {
    // The fifth attempt begins 8 + 16 + 32 s after the second one is lost.
    const SLOWLY: &str =
        "--backoff-base 2s --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Hang).await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], SLOWLY).await;
    for _ in 0..4 {
        save(&client).await;
    }
    eventually("all are under way", SOON, async || hook.count() == 4).await;
    let begun = Instant::now();
    let mut server = Some(server);
    for _ in 0..20 {
        server.take().expect("running").kill();
        server = Some(Server::start(&home, Options::flags(SLOWLY)).await);
        // Time for what is due to begin.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    println!("20 kills took {:?} and cut off {} POSTs", begun.elapsed(), hook.count());
    server.take().expect("running").kill();
    hook.script(|_| Response::Status(200));
    let _server = Server::start(&home, Options::flags(SLOWLY)).await;
    let rows = all_end_within(&home, 4, Duration::from_secs(60)).await;
    for row in rows {
        assert_eq!(row.status, "Succeeded", "{row:?}");
        let sent = hook.posts().iter().filter(|post| post.delivery() == row.id).count();
        assert!(i64::try_from(sent).expect("few") <= row.attempts && row.attempts <= 5, "{row:?}");
        assert!(row.attempts > 2, "nothing was cut off twice: {row:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifth_attempt_that_is_cut_off_is_the_last_one() {
    let _turn = together().await;
    let mut count = 0;
    let hook = Receiver::scripted(move |_| {
        count += 1;
        if count < 5 { Response::Status(500) } else { Response::Hang }
    })
    .await;
    let (home, server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    save(&client).await;
    eventually("the fifth is under way", SOON, async || hook.count() == 5).await;
    server.kill();
    let server = Server::start(&home, Options::flags(FAST)).await;
    all_end(&home, 1).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, row.class()), ("DeadLetter", 5, "WorkerLost"));
    let classes: Vec<_> = attempts_of(&home, &row.id).iter().map(|a| a.class().to_owned()).collect();
    assert_eq!(classes, ["ServerError", "ServerError", "ServerError", "ServerError", "WorkerLost"]);
    remains("no sixth POST", Duration::from_secs(1), async || hook.count() == 5).await;
    assert_eq!(server.metric("docket_deliveries_total{status=\"DeadLetter\"}").await, 1.0);
}

/// A client that got no response for its order asks again under the same key: there is one order, at every moment of the kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_repeated_after_a_kill_is_done_once() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[Webhook::new("orders", hook.url("/"))]);
    let server = Server::start(&home, Options::flags(FAST)).await;
    let mut client = server.sign_in(&api_key('a'), USER).await;
    let body = json!({"orderType": "Court"}).to_string();
    let key = [("idempotency-key", "one-order")];
    let first = client.try_post("/Orders/Save", &body, &key).await.expect("an answer");
    server.kill();
    let server = Server::start(&home, Options::flags(FAST)).await;
    client.api = server.api;
    let again = client.try_post("/Orders/Save", &body, &key).await.expect("an answer");
    assert_eq!((again.status, again.json()), (200, first.json()));
    all_end(&home, 1).await;
}
