//! The limits of a tenant hold for all processes together.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use docket_rig::postgres;
use docket_tests::receiver::Response;
use docket_tests::server::{Client, Reply, Server, eventually};
use serde_json::json;

use crate::serve::stage::{SOON, Stage, save, sign_in};

/// Requests that a tenant may make per second, and at once.
const RATE: f64 = 20.0;

/// Sends requests as fast as it can for this time. Returns how many were accepted, and the last refusal.
async fn flood(client: &Client, time: Duration) -> (usize, Option<Reply>) {
    let (begun, mut taken, mut refused) = (Instant::now(), 0, None);
    while begun.elapsed() < time {
        let reply = client.get("/Orders/Search").await;
        match reply.status {
            200 => taken += 1,
            429 => refused = Some(reply),
            _ => panic!("{reply:?}"),
        }
    }
    (taken, refused)
}

/// Whether both clients together get as many requests accepted in two seconds as one limit allows, and each gets some.
async fn share_a_limit(one: &Client, other: &Client) -> bool {
    let time = Duration::from_secs(2);
    let ((first, _), (second, _)) = tokio::join!(flood(one, time), flood(other, time));
    let taken = (first + second) as f64;
    // The limit allows two seconds of requests, and the burst that may have been left.
    let (least, most) = (RATE * 2.0 * 0.4, RATE * 3.0 + 4.0);
    println!("{first} and {second} of {least} to {most}");
    (least..=most).contains(&taken) && first.min(second) > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_the_requests_of_a_tenant_also_without_redis() {
    let mut stage = Stage::new().await;
    let file = stage.home.log("limits.yaml");
    std::fs::write(&file, "defaults: {requestsPerSecond: 20, requestBurst: 20}").expect("writable");
    let flags = format!("--tenant-limits {}", file.display());
    let start = async || -> Server { stage.spawn("api", &flags).ready(&stage.home).await };
    let first = start().await;
    let one = sign_in(&first).await;
    let (taken, refused) = flood(&one, Duration::from_secs(2)).await;
    assert!((16..=64).contains(&taken), "{taken} alone in two seconds");
    let refused = refused.expect("a flood is refused");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["limit"], "requestsPerSecond");
    assert_eq!(refused.detail(), "The tenant is at its limit requestsPerSecond; try again in 1 seconds");
    assert!(first.metric("docket_tenant_limited_total{limit=\"requestsPerSecond\"}").await > 0.0);

    let second = start().await;
    let other = sign_in(&second).await;
    eventually("each has heard of the other", SOON, async || share_a_limit(&one, &other).await).await;
    stage.redis.kill();
    assert!(share_a_limit(&one, &other).await && share_a_limit(&one, &other).await, "the last number holds");
    assert_eq!(first.send("GET", "/openapi.json", &[], "").await.status, 200, "no tenant, no limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_of_the_portal_has_its_part_of_the_requests() {
    let stage = Stage::new().await;
    let file = stage.home.log("limits.yaml");
    std::fs::write(&file, "defaults: {requestsPerSecond: 20, requestBurst: 20}").expect("writable");
    let flags = format!("--tenant-limits {}", file.display());
    let api = stage.spawn("api", &flags).ready(&stage.home).await;
    let client = sign_in(&api).await;
    let taken = async || flood(&client, Duration::from_secs(2)).await.0;
    assert!(taken().await > 34, "two seconds of all");
    let _portal = stage.spawn("portal", &flags).ready(&stage.home).await;
    eventually("half of it is the portal's", SOON, async || taken().await < 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_above_the_connections_of_a_tenant_are_refused_and_counted() {
    let stage = Stage::new().await;
    let file = stage.home.log("limits.yaml");
    std::fs::write(&file, "maxima: {databaseConnections: 1}").expect("writable");
    let api = stage.spawn("api", &format!("--tenant-limits {}", file.display())).ready(&stage.home).await;
    let client = sign_in(&api).await;
    save(&client).await;
    // The writes take longer than three seconds together, and each takes too short a time for a database that counts as away.
    let slow = "INSERT INTO work_order (number, customer_code, work_order_type, created_at_ms) \
                VALUES ('CT1', 'C-1', 'Court', 1); \
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.6); RETURN NEW; END'; \
                CREATE TRIGGER slow BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION slow()";
    postgres::client(&stage.database).await.batch_execute(slow).await.expect("a trigger");
    let note = json!({"workOrder": "CT1", "workOrderType": "Court", "report": "served"});
    let add = async || client.post("/Notes/Add", &note).await;
    let all = async { tokio::join!(add(), add(), add(), add(), add(), add()) };
    let replies = <[Reply; 6]>::from(api.meeting(6, all).await);
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.status != 200).collect();
    assert!((3..=5).contains(&refused.len()), "{replies:?}");
    for reply in &refused {
        assert_eq!((reply.status, &reply.headers["retry-after"][..]), (429, "1"), "{reply:?}");
        assert_eq!(reply.json()["limit"], "databaseConnections");
    }
    let limited = api.metric("docket_tenant_limited_total{limit=\"databaseConnections\"}").await;
    assert_eq!(limited, refused.len() as f64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_above_the_attempts_in_flight_of_a_tenant_wait() {
    wait_and_are_counted(&["api,worker"]).await;
}

/// A process that saves and delivers nothing counts, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_other_processes_above_the_attempts_in_flight_wait() {
    wait_and_are_counted(&["api", "worker"]).await;
}

/// Runs one process for each of these roles; the first saves the orders.
async fn wait_and_are_counted(roles: &[&str]) {
    const HELD: Duration = Duration::from_millis(400);
    let arrivals = Arc::<Mutex<Vec<Instant>>>::default();
    let seen = Arc::clone(&arrivals);
    let stage = Stage::with(move |_| {
        seen.lock().expect("no thread panics with it").push(Instant::now());
        Response::after(HELD, Response::Status(200))
    })
    .await;
    let limits = stage.home.log("limits.yaml");
    std::fs::write(&limits, "maxima: {attemptsInFlight: 2}").expect("writable");
    let flags = format!("--tenant-limits {}", limits.display());
    let mut servers = Vec::new();
    for role in roles {
        servers.push(stage.spawn(role, &flags).ready(&stage.home).await);
    }
    let server = &servers[0];
    let limited = "docket_tenant_limited_total{limit=\"attemptsInFlight\"}";
    assert_eq!(server.metric(limited).await, 0.0);
    let client = sign_in(server).await;
    for order in 0..8 {
        if order == 2 {
            // Both attempts are under way.
            stage.received(2).await;
        }
        save(&client).await;
    }
    stage.received(8).await;
    let arrivals = arrivals.lock().expect("no thread panics with it").clone();
    for three in arrivals.windows(3) {
        let between = three[2] - three[0];
        assert!(between >= HELD * 9 / 10, "a third attempt {between:?} after the first of two");
    }
    assert!(server.metric(limited).await > 0.0, "it is counted");
}
