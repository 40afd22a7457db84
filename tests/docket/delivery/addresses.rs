//! Forbidden addresses, end to end: no connection is opened to what the platform has not allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_tests::receiver::Receiver;
use docket_tests::server::{Options, Server, api_key, eventually};
use tokio::net::TcpListener;

use crate::delivery::stage::{
    ONCE, SOON, USER, Webhook, attempts_of, delivery_to, home, remains, save, stage, together,
};

/// Counts connections to loopback, whether or not they speak TLS.
async fn listen(address: &str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((address, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((_stream, _)) = listener.accept().await {
            counting.fetch_add(1, Ordering::Relaxed);
        }
    });
    (port, count)
}

fn strict() -> String {
    ONCE.replace("--allow-egress 127.0.0.1/32", "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_addresses_are_blocked_before_any_connection() {
    let _turn = together().await;
    let (port, connections) = listen("127.0.0.1").await;
    let hosts = [
        ("loopback", format!("127.0.0.1:{port}")),
        ("localhost", format!("localhost:{port}")),
        ("below-localhost", format!("receiver.localhost:{port}")),
        ("hexadecimal", format!("0x7f.1:{port}")),
        ("decimal", format!("2130706433:{port}")),
        ("octal", format!("0177.0.0.1:{port}")),
        ("mapped", format!("[::ffff:127.0.0.1]:{port}")),
        ("unspecified", format!("0.0.0.0:{port}")),
        ("loopback6", format!("[::1]:{port}")),
        ("metadata", "169.254.169.254".to_owned()),
        ("private", "10.0.0.1".to_owned()),
        ("unique-local", "[fd00:ec2::254]".to_owned()),
        ("nat64", "[64:ff9b::a9fe:a9fe]".to_owned()),
        ("nat64-private", "[64:ff9b::a00:1]".to_owned()),
        ("nat64-local", "[64:ff9b:1::c0a8:101]".to_owned()),
        ("six-to-four", "[2002:a00:1::1]".to_owned()),
    ];
    let webhooks: Vec<_> = hosts
        .iter()
        .map(|(name, host)| Webhook::new(&format!("w-{name}"), format!("https://{host}/")))
        .collect();
    let (home, server, client) = stage(&webhooks, &strict()).await;
    save(&client).await;
    let blocked = "docket_delivery_attempts_total{class=\"BlockedAddress\"}";
    eventually("all were tried", SOON, async || server.metric(blocked).await == hosts.len() as f64).await;
    for (name, _) in &hosts {
        let webhook = format!("w-{name}");
        eventually("its end is stored", SOON, async || delivery_to(&home, &webhook).class.is_some()).await;
        let row = delivery_to(&home, &webhook);
        assert_eq!((row.status.as_str(), row.class()), ("Failed", "BlockedAddress"), "{name}");
        let attempts = attempts_of(&home, &row.id);
        assert_eq!((attempts.len(), attempts[0].answer.as_deref()), (1, None), "{name}");
    }
    remains("no connection", Duration::from_millis(300), async || connections.load(Ordering::Relaxed) == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_public_network_is_blocked_before_any_connection() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhooks =
        [Webhook::new("cluster", "https://198.20.0.1/".to_owned()), Webhook::new("allowed", hook.url("/"))];
    let flags = format!("{ONCE} --deny-egress 198.20.0.0/16,127.0.0.0/8");
    let (home, _server, client) = stage(&webhooks, &flags).await;
    save(&client).await;
    eventually("both were tried", SOON, async || {
        webhooks.iter().all(|webhook| delivery_to(&home, &webhook.name).attempts == 1)
            && delivery_to(&home, "cluster").class.is_some()
            && hook.answered() == 1
    })
    .await;
    assert_eq!(delivery_to(&home, "cluster").class(), "BlockedAddress");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_network_is_reached_and_no_other() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let (port, connections) = listen("127.0.0.2").await;
    let webhooks = [
        Webhook::new("allowed", hook.url("/")),
        Webhook::new("by-name", hook.url("/").replace("127.0.0.1", "localhost")),
        Webhook::new("neighbour", format!("https://127.0.0.2:{port}/")),
    ];
    let (home, _server, client) = stage(&webhooks, ONCE).await;
    save(&client).await;
    eventually("all were tried", SOON, async || {
        webhooks.iter().all(|webhook| delivery_to(&home, &webhook.name).attempts == 1)
            && delivery_to(&home, "neighbour").class.is_some()
            && hook.answered() == 2
    })
    .await;
    assert_eq!(delivery_to(&home, "neighbour").class(), "BlockedAddress");
    assert_eq!(connections.load(Ordering::Relaxed), 0);
    assert_eq!(hook.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_to_a_forbidden_address_is_not_followed() {
    let _turn = together().await;
    let (port, connections) = listen("127.0.0.2").await;
    let location = format!("Location: https://127.0.0.2:{port}/\r\n");
    let hook =
        Receiver::scripted(move |_| docket_tests::receiver::Response::whole(307, &location, b"")).await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], ONCE).await;
    save(&client).await;
    eventually("it was tried", SOON, async || delivery_to(&home, "orders").class.is_some()).await;
    assert_eq!(delivery_to(&home, "orders").class(), "Redirect");
    assert_eq!((connections.load(Ordering::Relaxed), hook.connections()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_receiver_is_reached_without_a_flag_and_nothing_beside_it() {
    let _turn = together().await;
    let (receiver, (port, connections)) = (free_port(), listen("127.0.0.1").await);
    let built_in = |name: &str, host: &str| Webhook {
        trusting: false,
        ..Webhook::new(name, format!("https://{host}:{receiver}/acme"))
    };
    let webhooks = [
        built_in("built-in", "127.0.0.1"),
        built_in("by-name", "localhost"),
        Webhook::new("beside", format!("https://127.0.0.1:{port}/")),
    ];
    let home = home(&webhooks);
    let options = Options { receiver: Some(receiver), ..Options::flags(&strict()) };
    let server = Server::start(&home, options).await;
    save(&server.sign_in(&api_key('a'), USER).await).await;
    eventually("all were tried", SOON, async || {
        webhooks.iter().all(|webhook| {
            let row = delivery_to(&home, &webhook.name);
            row.attempts == 1 && !row.leased
        })
    })
    .await;
    assert_eq!(delivery_to(&home, "built-in").status, "Succeeded");
    assert_eq!(delivery_to(&home, "by-name").status, "Succeeded");
    assert_eq!(delivery_to(&home, "beside").class(), "BlockedAddress");
    assert_eq!(connections.load(Ordering::Relaxed), 0);
    let out = std::fs::read_to_string(home.log("out")).expect("its output");
    assert_eq!(out.matches("signature verified").count(), 2, "{out}");
}
