//! The state table at scaled time: each arrow, each class of failure, and how much of a response is kept.

use std::collections::HashMap;
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::eventually;

use crate::delivery::stage::{
    FAST, ONCE, SOON, Webhook, all_end, alone, attempts_of, deliveries, delivery_to, remains, save, stage,
    together,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_2xx_succeeds_at_once() {
    let _turn = together().await;
    let hook = Receiver::scripted(|post| Response::Status(post.path[1..].parse().expect("a status"))).await;
    let statuses = [200, 201, 202, 204, 206, 299];
    let webhooks =
        statuses.map(|status| Webhook::new(&format!("w{status}"), hook.url(&format!("/{status}"))));
    let (home, _server, client) = stage(&webhooks, FAST).await;
    save(&client).await;
    let rows = all_end(&home, statuses.len()).await;
    assert_eq!(hook.count(), statuses.len());
    for (status, row) in statuses.map(|status| (status, delivery_to(&home, &format!("w{status}")))) {
        assert_eq!((row.status.as_str(), row.attempts, row.http_status), ("Succeeded", 1, Some(status)));
        assert_eq!(row.class, None);
        let attempts = attempts_of(&home, &row.id);
        assert_eq!((attempts.len(), attempts[0].class(), attempts[0].http_status), (1, "", Some(status)));
        assert!(attempts[0].finished_at_ms >= Some(attempts[0].started_at_ms));
    }
    assert!(rows.iter().all(|row| !row.leased));
    // The last end of the hand-offs of a save deletes their rows; of two ends at the same time neither does, and then the sweep does.
    let database = home.open("ACME");
    let hand_offs = "SELECT count(*) FROM hand_off";
    eventually("no hand-off is left", SOON, async || database.get::<i64>(hand_offs) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_pending_until_its_first_attempt_ends() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Hang).await;
    let flags = ONCE.replace("3s", "6s");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    eventually("its first attempt is under way", SOON, async || hook.count() == 1).await;
    let row = delivery_to(&home, "orders");
    assert_eq!((row.status.as_str(), row.attempts, row.class()), ("Pending", 1, ""));
    eventually("it has failed", SOON, async || delivery_to(&home, "orders").status == "Failed").await;
}

/// No flag sets the timeout here. The case idles for half a minute, so cases that measure times need not wait for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_ends_after_30_seconds_and_not_before() {
    let turn = together().await;
    let hook = Receiver::scripted(|post| match post.path.as_str() {
        "/late" => Response::after(Duration::from_secs(27), Response::Status(200)),
        _ => Response::Hang,
    })
    .await;
    let webhooks = ["late", "silent"].map(|name| Webhook::new(name, hook.url(&format!("/{name}"))));
    let flags = ONCE.replace(" --attempt-timeout 3s", "");
    let (home, _server, client) = stage(&webhooks, &flags).await;
    save(&client).await;
    eventually("both are under way", SOON, async || hook.count() == 2).await;
    drop(turn);
    let ended = || deliveries(&home).iter().all(|row| row.status != "Pending");
    eventually("both attempts have ended", Duration::from_secs(60), async || ended()).await;
    let (late, silent) = (delivery_to(&home, "late"), delivery_to(&home, "silent"));
    assert_eq!((late.status.as_str(), late.attempts, late.http_status), ("Succeeded", 1, Some(200)));
    assert_eq!((silent.status.as_str(), silent.attempts, silent.class()), ("Failed", 1, "TimeoutFirstByte"));
    let attempt = attempts_of(&home, &silent.id).remove(0);
    let took_ms = attempt.finished_at_ms.expect("it has ended") - attempt.started_at_ms;
    assert!((29_900..36_000).contains(&took_ms), "{took_ms} ms");
}

/// `w1` fails once and then succeeds, …, `w4` four times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_fails_k_times_then_succeeds_goes_through_failed_to_succeeded() {
    let _turn = together().await;
    let mut seen: HashMap<String, u32> = HashMap::new();
    let hook = Receiver::scripted(move |post| {
        let count = seen.entry(post.path.clone()).or_default();
        *count += 1;
        let failures: u32 = post.path[1..].parse().expect("a number");
        Response::Status(if *count <= failures { 503 } else { 200 })
    })
    .await;
    let webhooks = [1, 2, 3, 4].map(|k| Webhook::new(&format!("w{k}"), hook.url(&format!("/{k}"))));
    let flags = FAST.replace("50ms", "150ms");
    let (home, _server, client) = stage(&webhooks, &flags).await;
    save(&client).await;
    // The states that each delivery is seen in: (status, attempts), without repetitions.
    let mut seen: HashMap<String, Vec<(String, i64)>> = HashMap::new();
    eventually("all have ended", SOON, async || {
        let rows = deliveries(&home);
        for row in &rows {
            // While an attempt runs the count is ahead of the status.
            let states = seen.entry(row.webhook.clone()).or_default();
            let state = (row.status.clone(), row.attempts);
            if !row.leased && states.last() != Some(&state) {
                states.push(state);
            }
        }
        rows.iter().all(|row| row.is_final())
    })
    .await;
    for k in 1..=4_i64 {
        let row = delivery_to(&home, &format!("w{k}"));
        let states: Vec<_> =
            seen[&row.webhook].iter().filter(|(status, _)| status != "Pending").cloned().collect();
        let mut expected: Vec<_> = (1..=k).map(|n| ("Failed".to_owned(), n)).collect();
        expected.push(("Succeeded".to_owned(), k + 1));
        assert_eq!(states, expected);
        assert_eq!((row.attempts, row.class.as_deref(), row.http_status), (k + 1, None, Some(200)));
        let attempts = attempts_of(&home, &row.id);
        assert_eq!(attempts.iter().map(|a| a.number).collect::<Vec<_>>(), (1..=k + 1).collect::<Vec<_>>());
        for attempt in &attempts {
            let expected = if attempt.number <= k { ("ServerError", Some(503)) } else { ("", Some(200)) };
            assert_eq!((attempt.class(), attempt.http_status), expected);
            assert_eq!(attempt.answer, attempt.http_status.map(|status| format!("answered {status}")));
        }
        assert_eq!(i64::try_from(hook.posts_to(&format!("/{k}")).len()), Ok(k + 1));
    }
    // No retry uses a connection that another attempt has used.
    assert!(hook.connections() >= 2 + 3 + 4 + 5, "{} connections", hook.connections());
}

/// The delays are the program's own. The test, as another program, then makes each retry due at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_retry_is_due_60_120_240_and_480_seconds_after_the_attempt_before() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(500)).await;
    let flags = FAST.replace("--backoff-base 50ms ", "");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    let database = home.open("ACME");
    for (n, delay_ms) in (1..).zip([60_000, 120_000, 240_000, 480_000]) {
        let hasten = format!(
            "UPDATE delivery_queue SET due_at_ms = 0 WHERE attempt_count = {} AND lease_token IS NULL",
            n - 1
        );
        eventually("it has failed once more", SOON, async || {
            database.change(&hasten);
            let row = delivery_to(&home, "orders");
            (row.status.as_str(), row.attempts, row.leased) == ("Failed", n, false)
        })
        .await;
        let row = delivery_to(&home, "orders");
        let attempt = attempts_of(&home, &row.id).pop().expect("it has begun");
        let finished_at_ms = attempt.finished_at_ms.expect("it has ended");
        // Retries are spread over two seconds.
        let expected = attempt.started_at_ms + delay_ms..=finished_at_ms + delay_ms + 2_000;
        assert!(expected.contains(&row.due_at_ms), "attempt {n}: {} is not in {expected:?}", row.due_at_ms);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_fifth_failure_it_is_a_dead_letter_and_no_retry_is_early() {
    let _turn = alone().await;
    let hook = Receiver::scripted(|_| Response::Status(500)).await;
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], FAST).await;
    save(&client).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, row.class()), ("DeadLetter", 5, "ServerError"));
    assert_eq!(attempts_of(&home, &row.id).len(), 5);
    let posts = hook.posts();
    assert_eq!(posts.len(), 5);
    for (n, pair) in (1..).zip(posts.windows(2)) {
        let (gap, delay) = (pair[1].at - pair[0].at, Duration::from_millis(50 * 2_u64.pow(n)));
        assert!(gap >= delay, "retry {n} came after {gap:?}, which is before {delay:?}");
        assert!(gap < delay + Duration::from_millis(700), "retry {n} came only after {gap:?}");
    }
    // This is twice the longest delay.
    remains("no sixth POST", Duration::from_millis(1_600), async || hook.count() == 5).await;
    assert_eq!(delivery_to(&home, "orders").status, "DeadLetter");
}

/// A process knows the retries that it has scheduled itself; the poll and its sweep are only the fallback.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_and_retries_do_not_wait_for_the_poll() {
    let _turn = together().await;
    let hook = Receiver::scripted(|_| Response::Status(500)).await;
    let flags = FAST.replace("200ms", "1h");
    let (home, _server, client) = stage(&[Webhook::new("orders", hook.url("/"))], &flags).await;
    save(&client).await;
    let row = all_end(&home, 1).await.remove(0);
    assert_eq!((row.status.as_str(), row.attempts, hook.count()), ("DeadLetter", 5, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_fail_has_its_class() {
    let _turn = together().await;
    let hook = Receiver::scripted(|post| match &post.path[1..] {
        "hang" => Response::Hang,
        "close" => Response::Last(Vec::new()),
        "cut" => Response::Last(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec()),
        "garbage" => Response::Last(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
        "error-drip" => Response::Raw(b"HTTP/1.1 500 X\r\nContent-Length: 10\r\n\r\nslow".to_vec()),
        "ok-drip" => Response::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nslow".to_vec()),
        "ok-cut" => Response::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()),
        "interim" => Response::Raw(b"HTTP/1.1 199 Wait\r\n\r\n".to_vec()),
        "interim-ok" => Response::Raw(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 199 Wait\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        "429" => Response::whole(429, "Retry-After: 1\r\n", b"later"),
        "status-600" => Response::Status(600),
        redirect if redirect.starts_with("30") => {
            let status = redirect.parse().expect("a status");
            Response::whole(status, "Location: /moved\r\n", b"elsewhere")
        }
        status => Response::Status(status.parse().expect("a status")),
    })
    .await;
    let paths = [
        ("301", "Redirect"),
        ("302", "Redirect"),
        ("303", "Redirect"),
        ("304", "ClientError"),
        ("307", "Redirect"),
        ("308", "Redirect"),
        ("400", "ClientError"),
        ("401", "ClientError"),
        ("404", "ClientError"),
        ("410", "ClientError"),
        ("429", "ClientError"),
        ("499", "ClientError"),
        ("500", "ServerError"),
        ("501", "ServerError"),
        ("503", "ServerError"),
        ("599", "ServerError"),
        ("status-600", "ServerError"),
        ("101", "ClientError"),
        ("hang", "TimeoutFirstByte"),
        ("interim", "TimeoutFirstByte"),
        ("close", "Transport"),
        ("cut", "Transport"),
        ("garbage", "NotHttp"),
        ("error-drip", "BodyTimeout"),
        ("ok-drip", ""),
        ("ok-cut", ""),
        ("interim-ok", ""),
    ];
    let mut webhooks: Vec<_> = paths
        .iter()
        .map(|(path, _)| Webhook::new(&format!("w-{path}"), hook.url(&format!("/{path}"))))
        .collect();
    webhooks.push(Webhook::new("w-refused", format!("https://127.0.0.1:{}/", free_port())));
    webhooks.push(Webhook { trusting: false, ..Webhook::new("w-untrusted", hook.url("/untrusted")) });
    webhooks.push(Webhook::new("w-plain-http", format!("https://127.0.0.1:{}/", hook.plain)));
    webhooks.push(Webhook::new("w-no-name", "https://receiver.invalid/"));
    let (home, _server, client) = stage(&webhooks, ONCE).await;
    save(&client).await;
    let ended = || deliveries(&home).iter().filter(|row| row.attempts == 1 && !row.leased).count();
    eventually("each was tried once", SOON, async || ended() == webhooks.len()).await;

    let more = [("refused", "Refused"), ("untrusted", "TlsUntrusted"), ("plain-http", "TlsOther")];
    let found: Vec<_> = paths
        .iter()
        .chain(&more)
        .map(|(name, _)| (*name, delivery_to(&home, &format!("w-{name}"))))
        .collect();
    let classes: Vec<_> = found.iter().map(|(name, row)| (*name, row.class())).collect();
    assert_eq!(classes, paths.iter().chain(&more).copied().collect::<Vec<_>>());
    for (name, row) in &found {
        let status = if row.class.is_some() { "Failed" } else { "Succeeded" };
        assert_eq!(row.status, status, "{name}");
        let attempts = attempts_of(&home, &row.id);
        assert_eq!((attempts.len(), &attempts[0].class), (1, &row.class), "{name}");
        assert_eq!((&attempts[0].answer, attempts[0].http_status), (&row.answer, row.http_status), "{name}");
        if let Ok(status) = name.parse::<i64>() {
            assert_eq!(row.http_status, Some(status));
        }
    }
    // Without a name server, the look-up runs out of time.
    assert!(["Dns", "TimeoutDns"].contains(&delivery_to(&home, "w-no-name").class()));
    assert!(hook.posts_to("/moved").is_empty(), "redirects are not followed");
    assert_eq!(hook.count(), paths.len(), "one POST for each of them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transport_error_is_retried_like_any_failure() {
    let _turn = together().await;
    let hook = Receiver::start().await;
    let webhooks = [
        Webhook::new("closed", format!("https://127.0.0.1:{}/", free_port())),
        Webhook::new("hang", hook.url("/")),
    ];
    hook.script(|_| Response::Hang);
    let (home, _server, client) = stage(&webhooks, &FAST.replace("3s", "900ms")).await;
    save(&client).await;
    all_end(&home, 2).await;
    for (name, class) in [("closed", "Refused"), ("hang", "TimeoutFirstByte")] {
        let row = delivery_to(&home, name);
        assert_eq!((row.status.as_str(), row.attempts, row.class()), ("DeadLetter", 5, class));
        assert!(attempts_of(&home, &row.id).iter().all(|attempt| attempt.class() == class));
    }
    assert_eq!(hook.count(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_characters_of_an_answer_are_kept() {
    let _turn = together().await;
    let hook = Receiver::scripted(|post| {
        let body = match post.path.as_str() {
            "/exact" => "x".repeat(2_000),
            "/long" => "é".repeat(5_000),
            // A character has four bytes, so 2,000 characters are the 8 KiB that are read.
            "/wide" => "📦".repeat(100_000),
            "/nul" => "a\0b".repeat(10),
            _ => String::new(),
        };
        Response::whole(if post.path == "/long" { 500 } else { 200 }, "", body.as_bytes())
    })
    .await;
    let names = ["exact", "long", "wide", "nul", "empty"];
    let webhooks = names.map(|name| Webhook::new(name, hook.url(&format!("/{name}"))));
    let (home, _server, client) = stage(&webhooks, ONCE).await;
    save(&client).await;
    eventually("each was tried", SOON, async || {
        deliveries(&home).iter().all(|row| row.attempts == 1 && !row.leased)
    })
    .await;
    let expected = ["x".repeat(2_000), "é".repeat(2_000), "📦".repeat(2_000), "ab".repeat(10), String::new()];
    for (name, expected) in names.iter().zip(expected) {
        let row = delivery_to(&home, name);
        assert!(row.answer.as_deref() == Some(&expected), "{name}: {:?}", row.answer);
        assert_eq!(attempts_of(&home, &row.id)[0].answer, row.answer, "{name}");
    }
    assert_eq!(delivery_to(&home, "long").status, "Failed");
    assert_eq!(delivery_to(&home, "wide").status, "Succeeded");
}
