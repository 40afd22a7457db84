//! One dead endpoint and one flooding tenant delay no other.

use std::time::{Duration, Instant};

use docket_schedule::SHARES;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Client, Home, Options, Server, api_key, eventually, tenant_yaml};

use crate::delivery::stage::{
    SOON, USER, Webhook, all_end_within, alone, deliveries, deliveries_of, home, queue, save,
};

const FLAGS: &str =
    "--backoff-base 30s --poll-interval 200ms --attempt-timeout 5s --allow-egress 127.0.0.1/32";

/// The attempts that a new webhook may have at once.
const START: usize = SHARES.per_webhook.start;

/// The tenants `acme` and `globex`; `acme` has these webhooks, `globex` one at `calm`.
async fn two_tenants(webhooks: &[Webhook], calm: &Receiver) -> (Home, Server, Client, Client) {
    let home = home(webhooks);
    home.write("globex.yaml", &tenant_yaml("globex", 'b'));
    Webhook { tenant: "globex", secret: Some("globex-signing"), ..Webhook::new("calm", calm.url("/calm")) }
        .write(&home);
    home.add_contact("GLOBEX", "C-1", USER);
    let server = Server::start(&home, Options::flags(FLAGS)).await;
    let acme = server.sign_in(&api_key('a'), USER).await;
    let globex = server.sign_in(&api_key('b'), USER).await;
    (home, server, acme, globex)
}

/// How long an order saved now takes until it arrives.
async fn latency(client: &Client, hook: &Receiver) -> Duration {
    let begun = Instant::now();
    let order = save(client).await;
    eventually("it arrives", SOON, async || hook.posts().iter().any(|post| post.order() == order)).await;
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_endpoint_with_a_thousand_deliveries_delays_no_other() {
    let _turn = alone().await;
    let dead = Receiver::scripted(|_| Response::Hang).await;
    let (fine, calm) = (Receiver::start().await, Receiver::start().await);
    let webhooks = [
        Webhook { events: "order.exported", ..Webhook::new("dead", dead.url("/")) },
        Webhook { events: "order.created", ..Webhook::new("fine", fine.url("/")) },
    ];
    let (home, _server, acme, globex) = two_tenants(&webhooks, &calm).await;
    queue(&home, "ACME", "dead", 1_000);
    eventually("its share is under way", SOON, async || dead.count() >= START).await;
    for round in 0..12 {
        let (other_webhook, other_tenant) = (latency(&acme, &fine).await, latency(&globex, &calm).await);
        let slowest = other_webhook.max(other_tenant);
        assert!(slowest < Duration::from_secs(1), "round {round}: {other_webhook:?} {other_tenant:?}");
    }
    // A dead endpoint holds its share and no more, for a timeout each.
    let rows = deliveries(&home);
    let under_way = rows.iter().filter(|row| row.webhook == "dead" && row.leased).count();
    assert!((1..=START).contains(&under_way), "{under_way}");
    eventually("the next ones get their turn", SOON, async || dead.count() > START).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_two_thousand_orders_does_not_delay_another_tenant() {
    let _turn = alone().await;
    let (flooded, calm) = (Receiver::start().await, Receiver::start().await);
    let (home, _server, acme, globex) =
        two_tenants(&[Webhook::new("flooded", flooded.url("/"))], &calm).await;
    let begun = Instant::now();
    let flood: Vec<_> = (0..8)
        .map(|_| {
            let client = acme.clone();
            tokio::spawn(async move {
                for _ in 0..250 {
                    save(&client).await;
                }
            })
        })
        .collect();
    let mut latencies = Vec::new();
    while flooded.count() < 2_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "only {} after a minute", flooded.count());
        latencies.push(latency(&globex, &calm).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for client in flood {
        client.await.expect("all saved");
    }
    let longest = latencies.iter().max().expect("some");
    println!(
        "the flood took {:?}; the longest of {} latencies: {longest:?}",
        begun.elapsed(),
        latencies.len()
    );
    assert!(latencies.len() >= 10, "{latencies:?}");
    assert!(*longest < Duration::from_millis(1_500), "{latencies:?}");
    let rows = all_end_within(&home, 2_000, SOON).await;
    assert!(rows.iter().all(|row| (row.status.as_str(), row.attempts) == ("Succeeded", 1)));
    assert_eq!(deliveries_of(&home, "GLOBEX").len(), latencies.len());
}
