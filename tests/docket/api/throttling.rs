//! Guessing is slowed down, for users that exist and for others alike.

use std::time::Duration;

use docket_tests::people::{ADA, BEA, MO};
use docket_tests::server::{JSON, PASSWORD, Reply, eventually};
use serde_json::json;

use super::rig::{Rig, credentials, home, problem};

/// Sends all guesses at once, so that no time passes between them. Returns the statuses in ascending order.
async fn guess_at_once(rig: &Rig, path: &str, user: &str, count: usize) -> (Vec<u16>, Vec<Reply>) {
    let body = json!({"userId": user, "password": "not-the-password"});
    let mut replies = Vec::new();
    let guesses = (0..count).map(|_| rig.sign_in(path, &body));
    let mut tasks: Vec<_> = guesses.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| match task.as_mut().poll(context) {
            std::task::Poll::Ready(reply) => {
                replies.push(reply);
                false
            }
            std::task::Poll::Pending => true,
        });
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    (statuses, replies)
}

const FIVE_AND_THEN_NONE: [u16; 8] = [404, 404, 404, 404, 404, 429, 429, 429];

#[tokio::test]
async fn the_sixth_wrong_guess_must_wait() {
    let rig = Rig::start().await;
    let (statuses, replies) = guess_at_once(&rig, "/Auth/Token", ADA, 8).await;
    assert_eq!(statuses, FIVE_AND_THEN_NONE);
    for reply in replies.iter().filter(|reply| reply.status == 429) {
        assert_eq!(reply.headers["retry-after"], "1");
        let detail = problem(reply, 429)["detail"].clone();
        assert_eq!(detail, "Too many failed sign-ins; try again in 1 seconds");
    }
}

#[tokio::test]
async fn unknown_users_are_throttled_just_the_same() {
    let rig = Rig::start().await;
    for (path, user) in
        [("/Auth/Token", "stranger@x.example"), ("/Employee/SignIn", MO), ("/Employee/SignIn", "x")]
    {
        let (statuses, _) = guess_at_once(&rig, path, user, 8).await;
        assert_eq!(statuses, FIVE_AND_THEN_NONE, "{path} {user}");
    }
}

#[tokio::test]
async fn a_user_written_otherwise_is_the_same_user() {
    let rig = Rig::start().await;
    guess_at_once(&rig, "/Auth/Token", ADA, 5).await;
    let body = json!({"userId": " ADA@one.example", "password": "not-the-password"});
    assert_eq!(rig.sign_in("/Session/Create", &body).await.status, 429);
}

#[tokio::test]
async fn the_right_password_waits_too_and_then_works() {
    let rig = Rig::start().await;
    guess_at_once(&rig, "/Auth/Token", ADA, 8).await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 429);
    eventually("the delay ends", Duration::from_secs(5), async || {
        rig.sign_in("/Auth/Token", &credentials(ADA)).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn another_user_is_not_affected() {
    let rig = Rig::start().await;
    guess_at_once(&rig, "/Auth/Token", ADA, 8).await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(BEA)).await.status, 200);
    assert_eq!(rig.sign_in("/Employee/SignIn", &credentials(MO)).await.status, 200);
}

#[tokio::test]
async fn the_same_user_of_another_tenant_is_not_affected() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    guess_at_once(&rig, "/Auth/Token", ADA, 8).await;
    rig.server.sign_in(&docket_tests::server::api_key('b'), ADA).await;
}

#[tokio::test]
async fn right_sign_ins_are_not_counted() {
    let rig = Rig::start().await;
    for _ in 0..12 {
        assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    }
}

#[tokio::test]
async fn who_was_right_in_between_starts_afresh() {
    let rig = Rig::start().await;
    let (before, _) = guess_at_once(&rig, "/Auth/Token", ADA, 4).await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    let (after, _) = guess_at_once(&rig, "/Auth/Token", ADA, 5).await;
    assert_eq!((before, after), (vec![404; 4], vec![404; 5]));
}

#[tokio::test]
async fn one_source_cannot_try_many_users() {
    let rig = Rig::start().await;
    let mut refused = 0;
    for user in 0..60 {
        let body = json!({"userId": format!("user-{user}"), "password": "not-the-password"});
        refused += u32::from(rig.sign_in("/Auth/Token", &body).await.status == 429);
    }
    assert!((1..=10).contains(&refused), "50 are free: {refused} of 60 were refused");
}

#[tokio::test]
async fn one_source_cannot_try_many_client_codes() {
    let rig = Rig::on(home(&[("acme", 'a')], ""), "--legacy-host old.localhost").await;
    let guess = async |code: &str, user: &str, password: &str| {
        let body = json!({"clientCode": code, "userId": user, "password": password}).to_string();
        let headers = [("host", "old.localhost"), JSON];
        rig.server.send("POST", "/Session/Create", &headers, &body).await.status
    };
    assert_eq!(guess("ACME", ADA, PASSWORD).await, 200);
    let mut refused = 0;
    for number in 0..210 {
        let status = guess(&format!("CODE{number}"), &format!("user-{number}"), "not-the-password").await;
        refused += u32::from(status == 429);
    }
    assert!((1..=10).contains(&refused), "200 are free: {refused} of 210 were refused");
    assert_eq!(guess("ACME", BEA, "not-the-password").await, 429, "as if its code were invented");
    assert_eq!(guess("ACME", ADA, PASSWORD).await, 200);
}

#[tokio::test]
async fn guesses_at_one_tenant_close_sign_in_neither_at_another_nor_to_its_known_users() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    for user in 0..60 {
        let body = json!({"userId": format!("user-{user}"), "password": "not-the-password"});
        rig.sign_in("/Auth/Token", &body).await;
    }
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(BEA)).await.status, 429, "never seen at this source");
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    rig.server.sign_in(&docket_tests::server::api_key('b'), BEA).await;
}

#[tokio::test]
async fn users_who_signed_in_before_a_restart_are_known_after_it_while_others_guess() {
    let rig = Rig::start().await;
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    assert_eq!(rig.sign_in("/Employee/SignIn", &credentials(MO)).await.status, 200);
    let stored = async || rig.count("SELECT count(*) FROM audit WHERE event = 'SignedIn'") == 2;
    eventually("the audit has them", Duration::from_secs(5), stored).await;
    let rig = rig.restarted().await;
    for user in 0..60 {
        let body = json!({"userId": format!("user-{user}"), "password": "not-the-password"});
        rig.sign_in("/Auth/Token", &body).await;
    }
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(BEA)).await.status, 429, "never seen at this source");
    assert_eq!(rig.sign_in("/Auth/Token", &credentials(ADA)).await.status, 200);
    assert_eq!(rig.sign_in("/Employee/SignIn", &credentials(MO)).await.status, 200);
}
