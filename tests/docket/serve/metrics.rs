//! The metrics of a process, of its stores, and of the tasks that visit all tenants.

use docket_rig::postgres;
use docket_tests::receiver::Response;
use docket_tests::server::{Server, eventually, request};

use crate::serve::stage::{SOON, Stage, save, sign_in, wired};

const REDIS_IS_UP: &str = "docket_store_up{store=\"redis\",server=\"\"}";

/// The number behind a series; `None`: there is no such series.
async fn value(server: &Server, series: &str) -> Option<f64> {
    let reply = request(server.management, "GET", "/metrics", &[], "").await.expect("metrics");
    let text = reply.text();
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

async fn becomes(server: &Server, series: &str, expected: f64) {
    let what = format!("{series} {expected}");
    eventually(&what, SOON, async || value(server, series).await == Some(expected)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_does_not_respond_is_down_until_it_responds() {
    let mut stage = Stage::new().await;
    let (api, worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    for process in [&api, &worker] {
        becomes(process, REDIS_IS_UP, 1.0).await;
    }
    let oldest_due = "docket_oldest_due_seconds{}";
    becomes(&worker, oldest_due, 0.0).await;
    stage.redis.freeze();
    for process in [&api, &worker] {
        becomes(process, REDIS_IS_UP, 0.0).await;
    }
    eventually("nothing is said of what is due", SOON, async || value(&worker, oldest_due).await.is_none())
        .await;
    stage.redis.thaw();
    for process in [&api, &worker] {
        becomes(process, REDIS_IS_UP, 1.0).await;
    }
    becomes(&worker, oldest_due, 0.0).await;
    stage.redis.kill();
    becomes(&worker, REDIS_IS_UP, 0.0).await;
    stage.redis.restart();
    becomes(&worker, REDIS_IS_UP, 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_cut_off_is_down_until_it_is_back() {
    let (proxy, url) = wired(&postgres::database().await);
    let stage = Stage::on(url, |_| Response::Status(200)).await;
    let process = stage.serve("api,worker").await;
    let server_is_up = format!("docket_store_up{{store=\"postgresql\",server=\"{}\"}}", proxy.address);
    save(&sign_in(&process).await).await;
    becomes(&process, &server_is_up, 1.0).await;
    assert!(value(&process, "docket_database_connections{state=\"open\"}").await >= Some(1.0));
    assert!(value(&process, "docket_database_connection_wait_seconds_count").await >= Some(1.0));
    proxy.cut();
    becomes(&process, &server_is_up, 0.0).await;
    assert_eq!(value(&process, REDIS_IS_UP).await, Some(1.0));
    proxy.restore();
    becomes(&process, &server_is_up, 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_task_says_when_it_last_visited_all_tenants() {
    let stage = Stage::new().await;
    let (api, worker) = tokio::join!(stage.serve("api"), stage.serve("worker,detector"));
    for task in ["sweep", "detector"] {
        let series = format!("docket_upkeep_last_round_timestamp_seconds{{task=\"{task}\"}}");
        eventually(&series, SOON, async || value(&worker, &series).await > Some(1.7e9)).await;
        let visits =
            |result: &str| format!("docket_upkeep_tenants_total{{task=\"{task}\",result=\"{result}\"}}");
        assert!(value(&worker, &visits("ok")).await >= Some(1.0), "{task}");
        assert!(value(&worker, &visits("failed")).await.is_some(), "{task}");
        assert_eq!(value(&api, &visits("ok")).await, None, "{task}: the API does not run it");
    }
    // The first round of retention is after a minute.
    let retention = "docket_upkeep_tenants_total{task=\"retention\",result=\"ok\"}";
    assert!(value(&worker, retention).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_says_what_it_is_and_what_it_uses() {
    let stage = Stage::new().await;
    let process = stage.serve("api").await;
    save(&sign_in(&process).await).await;
    let build = format!("docket_build_info{{program=\"docket\",version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&process, &build).await, Some(1.0));
    for (series, least) in [
        ("process_cpu_seconds_total", 0.0),
        ("process_open_fds", 5.0),
        ("process_max_fds", 5.0),
        ("process_resident_memory_bytes", 1e6),
        ("process_virtual_memory_bytes", 1e6),
        ("process_threads", 2.0),
        ("process_start_time_seconds", 1.7e9),
        ("docket_http_request_seconds_count{route=\"/Orders/Save\"}", 1.0),
    ] {
        let found = value(&process, series).await;
        assert!(found >= Some(least), "{series}: {found:?}");
    }
}
