//! The connection itself: servers that are refused at the start, and a Redis that hangs.

use std::time::{Duration, Instant};

use docket_redis::{Error, cmd};
use docket_rig::redis::{RedisCluster, RedisServer, wait_for};
use docket_schedule::{Owner, SHARES, Schedule};
use tokio::sync::watch;

use crate::rig::{Rig, connection, hint, patiently, put, room, schedule, soon};

#[tokio::test]
async fn a_good_server_passes_the_check() {
    let server = RedisServer::start_with_password("p@:/?#%", &[]);
    let connection = connection(&format!("redis://:p%40%3A%2F%3F%23%25@localhost:{}/3", server.port));
    let checked = connection.check().await.expect("a good server");
    assert!(checked.version.starts_with(|c: char| c.is_ascii_digit()), "{checked:?}");
    assert!(checked.warnings.is_empty(), "{checked:?}");
    let refused = connection.query::<()>(&cmd("NOSUCHCOMMAND")).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(connection.is_up(), Some(true), "it responds, whatever it says");
    connection.query::<()>(cmd("SET").arg("of-this-database").arg("")).await.expect("it is writable");
    let key = server.cli(&["-n", "3", "EXISTS", "of-this-database"]);
    assert_eq!((key.as_str(), server.cli(&["EXISTS", "of-this-database"]).as_str()), ("1", "0"));
}

#[tokio::test]
async fn one_that_evicts_is_refused() {
    let server = RedisServer::start(&["maxmemory-policy allkeys-lru"]);
    let error = connection(&server.url()).check().await.expect_err("it evicts").to_string();
    assert!(error.contains("maxmemory-policy is allkeys-lru; it must be noeviction"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_primary_of_a_cluster_is_looked_at() {
    let rig = RedisCluster::start();
    connection(&rig.url()).check().await.expect("good");
    rig.nodes[2].cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let error = connection(&rig.url()).check().await.expect_err("one evicts").to_string();
    assert!(error.contains(&format!(":{} is volatile-ttl", rig.nodes[2].port)), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_look_at_the_settings_is_a_warning() {
    let server = RedisServer::start(&["user docket on >secret ~* &* +@all -info"]);
    let url = format!("redis://docket:secret@127.0.0.1:{}", server.port);
    let checked = connection(&url).check().await.expect("it can be used");
    assert_eq!(checked.warnings.len(), 2, "{checked:?}");
    let schedule = schedule(&url, SHARES);
    soon("an empty Redis to be lost", schedule.lost()).await;
    schedule.rebuilt().await.expect("tells");
    assert_eq!(server.cli(&["HGET", "{docket}:3:state", "built"]), "unknown");
}

#[tokio::test]
async fn a_connection_that_fails_is_reported_without_the_password() {
    let server = RedisServer::start_with_password("right", &[]);
    // For each URL: whether a process that starts waits for Redis, or ends because someone has to change a setting.
    for (url, may_come) in [
        (format!("redis://:hunter2@127.0.0.1:{}", server.port), Some(false)),
        (format!("redis://127.0.0.1:{}", server.port), Some(false)),
        ("redis://:hunter2@127.0.0.1:1".to_owned(), Some(true)),
        ("redis://:hunter2@no.such.host.invalid".to_owned(), Some(true)),
        ("redis+sentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/main".to_owned(), Some(true)),
        ("redis+cluster://:hunter2@127.0.0.1:1".to_owned(), Some(true)),
        (format!("rediss://:hunter2@127.0.0.1:{}", server.port), None),
    ] {
        let begun = Instant::now();
        let connection = connection(&url);
        let error = connection.check().await.expect_err("it can't be had");
        let texts = format!("{error} {error:?} {connection:?}");
        assert!(!texts.contains("hunter2"), "{texts}");
        if let Some(may_come) = may_come {
            let is_as_expected =
                if may_come { matches!(error, Error::Away(_)) } else { matches!(error, Error::Unfit(_)) };
            assert!(is_as_expected, "{url}: {texts}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{texts}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_does_not_hear_itself() {
    let server = RedisServer::start(&[]);
    let listens = || server.cli(&["PUBSUB", "NUMSUB", "channel"]).ends_with('1');
    let (heard, mut count) = watch::channel(0);
    let listening = connection(&server.url())
        .listen("channel".to_owned(), "me".to_owned(), move || heard.send_modify(|count| *count += 1));
    let listening = tokio::spawn(listening);
    wait_for("the subscription", listens);
    for message in ["me", "me", "another"] {
        server.cli(&["PUBLISH", "channel", message]);
    }
    // Once the client listens again, it has read all earlier messages.
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    wait_for("another subscription", listens);
    let all = soon("both subscriptions and the message", count.wait_for(|count| *count >= 3)).await;
    assert_eq!(*all.expect("it listens"), 3);
    listening.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_redis_that_hangs_end_and_it_is_found_again() {
    let rig = Rig::with(SHARES);
    put(&rig.schedule, (0..100).map(|n| hint("a", "w", n))).await;
    rig.server.freeze();
    for _ in 0..3 {
        // Twenty claims run at once: if one of them waited for another, that would show.
        let begun = Instant::now();
        let claims = (0..20).map(|_| rig.schedule.claim(room(1), Duration::from_secs(60)));
        let (first, rest) = futures(claims).await;
        assert!(first && rest);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    rig.server.thaw();
    patiently("Redis again", || rig.schedule.claim(room(1), Duration::from_secs(60))).await;
    put(&rig.schedule, [hint("b", "w", 1_000)]).await;
}

/// Whether the first, and all the others, ended in an error.
async fn futures<T, E>(calls: impl Iterator<Item = impl Future<Output = Result<T, E>>>) -> (bool, bool) {
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    let mut results: Vec<Option<bool>> = calls.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (call, result) in calls.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(ended) = call.as_mut().poll(context)
            {
                *result = Some(ended.is_err());
            }
        }
        match results.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    (results[0] == Some(true), results.iter().all(|result| *result == Some(true)))
}

#[tokio::test]
async fn two_releases_share_a_redis() {
    let server = RedisServer::start(&[]);
    let keys = docket_redis::Keys::new(Some("blue")).expect("a release");
    let blue = Schedule::on_redis(connection(&server.url()), &keys, Owner::new("blue"), SHARES);
    let other = schedule(&server.url(), SHARES);
    put(&blue, [hint("a", "w", 1)]).await;
    assert_eq!(other.next_due().await.expect("answers"), None);
    assert_eq!(blue.next_due().await.expect("answers"), Some(Duration::ZERO));
}
