//! Redis is away, at start and later: saves go on, and what it was not told is found.

use std::time::Duration;

use docket_tests::docket::{eventually, request};

use crate::stage::{SOON, Stage, save, sign_in};

/// A hint that can't be told costs no more than this.
const UNHURT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_at_start_is_waited_for_and_named() {
    let mut stage = Stage::new().await;
    stage.redis.kill();
    let api = stage.spawn("api,worker", "");
    let management = api.management;
    eventually("only Redis is missing", SOON, async || {
        let reply = request(management, "GET", "/readyz", &[], "").await;
        reply.is_ok_and(|reply| reply.status == 503 && reply.text() == "not ready, waits for: Redis\n")
    })
    .await;
    stage.logs("Redis can't be used yet").await;
    stage.redis.restart();
    let api = api.ready(&stage.home).await;
    save(&sign_in(&api).await).await;
    stage.received(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_go_on_without_redis_and_are_delivered_once_it_is_back() {
    let mut stage = Stage::new().await;
    let (api, _worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(1).await;
    for round in 0..2 {
        if round == 0 {
            stage.redis.kill()
        } else {
            stage.redis.freeze()
        }
        for _ in 0..5 {
            let took = save(&client).await;
            assert!(took < UNHURT, "{took:?}");
        }
        let reply = request(api.management, "GET", "/readyz", &[], "").await.expect("an answer");
        assert_eq!(reply.status, 200, "it serves all the same");
        if round == 0 {
            stage.redis.restart()
        } else {
            stage.redis.thaw()
        }
        stage.received(1 + 5 * (round + 1)).await;
    }
}
