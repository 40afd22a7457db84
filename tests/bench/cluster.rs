//! `tests/bench/cluster`: the memory and the writes of the operator and the data plane at rest, on a real API server,
//! PostgreSQL and Redis.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use docket_rig::redis;
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Release, tenant_yaml, webhook_yaml};
use docket_tests::server::{Home, Server};
use serde_json::Value;

/// The time after everything is Ready until the measurement begins, and the length of the measurement.
const REST: Duration = Duration::from_secs(90);

fn resident(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says");
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib / 1024.0
}

/// The number of objects of this kind whose condition Ready is True.
fn ready(release: &Release, kind: &str) -> usize {
    let list: Value = serde_json::from_str(&release.kubectl(&["get", kind, "--output=json"])).expect("JSON");
    let is_ready = |object: &&Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    list["items"].as_array().expect("a list").iter().filter(is_ready).count()
}

#[tokio::main]
async fn main() {
    let tenants: usize = std::env::args().nth(1).map_or(1_000, |text| text.parse().expect("a number"));
    let mut release = Release::new("bench");
    release.lease_seconds = 15;
    release.with_postgres().await;
    let redis = redis::RedisServer::start(&[]);
    let url = release.file("redis.url", &redis.url()).display().to_string();
    release.flags.push(format!("--redis-url-file={url}"));
    let operator = release.start().await;

    let home = Home::new();
    let kubeconfig = cluster().admin().display().to_string();
    let mut pods = Vec::new();
    for role in ["api", "worker", "detector"] {
        let arguments = [
            "serve",
            "--roles",
            role,
            "--config-namespace",
            &release.namespace,
            "--redis-url-file",
            &url,
            "--log=warn",
        ];
        let environment = [("KUBECONFIG", kubeconfig.as_str()), ("POD_NAME", role)];
        let pod = Server::spawn_server(
            &home,
            &arguments.map(str::to_owned),
            &environment.map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        pods.push((role, pod.ready(&home).await));
    }
    println!("with no tenant: operator {:.1} MB", resident(operator.id()));

    let begun = Instant::now();
    for first in (0..tenants).step_by(100) {
        let mut documents = String::new();
        for number in first..tenants.min(first + 100) {
            let name = format!("t{number}");
            documents += &tenant_yaml(&name);
            let _ = write!(documents, "{}", webhook_yaml(&name, &name, ""));
        }
        release.apply(&documents);
    }
    println!("{tenants} Tenants and as many Webhooks applied after {:.0?}", begun.elapsed());
    while ready(&release, "tenants") < tenants || ready(&release, "webhooks") < tenants {
        assert!(begun.elapsed() < Duration::from_secs(3_600), "not Ready: {}", release.logs());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("all Ready after {:.0?}", begun.elapsed());

    tokio::time::sleep(REST).await;
    let mark = cluster().mark();
    tokio::time::sleep(REST).await;
    let mut writes = BTreeMap::<String, usize>::new();
    for write in cluster().writes(mark) {
        *writes.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
    }
    let leases = writes.remove("update leases").unwrap_or_default();
    println!("writes to the API server in {REST:?} of rest: {}", writes.values().sum::<usize>());
    println!("  beside {leases} renewals of the Lease (every second here, every 5 s by default): {writes:?}");
    println!("resident: operator {:.1} MB", resident(operator.id()));
    for (role, pod) in &pods {
        println!("resident: docket serve --roles {role} {:.1} MB", resident(pod.id()));
    }
    println!("Redis: {}", redis.cli(&["INFO", "memory"]).lines().nth(2).unwrap_or_default());
}
