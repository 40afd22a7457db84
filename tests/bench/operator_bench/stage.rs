//! The stage of a run: an API server, PostgreSQL, Redis, the release of the operator, and the pods of the data plane.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_rig::redis::RedisServer;
use docket_tests::apiserver::{Client, Cluster, Objects};
use docket_tests::operator::{Operator, Release};
use docket_tests::server::{Home, Server, eventually, request};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::sync::watch;

use crate::databases::Databases;
use crate::declared;

/// The number of requests of the client at a time, for bare writes as for declared objects.
pub(crate) const AT_A_TIME: usize = 16;
/// How often a long wait says how far it is.
const REPORT: Duration = Duration::from_secs(30);
/// The time limit of a phase.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// The chart's `--lease-duration`.
const LEASE_SECONDS: u32 = 15;

/// Everything but the operator itself. Dropping it ends the servers and removes the files.
pub(crate) struct Stage {
    pub(crate) cluster: &'static Cluster,
    pub(crate) client: Client,
    pub(crate) databases: Databases,
    pub(crate) redis: RedisServer,
    pub(crate) release: Release,
    pub(crate) tenants: watch::Receiver<Objects>,
    pub(crate) webhooks: watch::Receiver<Objects>,
    /// The processes of the data plane, by role.
    pub(crate) pods: Vec<(&'static str, Server)>,
    _home: Home,
}

impl Stage {
    /// Starts everything. The operator follows.
    pub(crate) async fn new() -> Self {
        // The release needs the cluster until the process ends, which then ends the cluster's programs.
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start()));
        let client = Client::new(cluster.admin());
        let databases = Databases::start().await;
        let mut release = Release::on(cluster, "bench");
        release.lease_seconds = LEASE_SECONDS;
        release.log = "info";
        let server = release.file("main.url", &databases.admin_url());
        release.flags.push(format!("--database-server=main={}", server.display()));
        let redis = release.with_redis();
        let url = release.file("pods.redis.url", &redis.url()).display().to_string();
        let watch = |kind| Objects::watch(&client, &declared::path(&release.tenants, kind));
        let (tenants, webhooks) = (watch("tenants"), watch("webhooks"));
        let home = Home::new();
        let mut pods = Vec::new();
        for role in ["api", "worker", "detector"] {
            pods.push((role, pod(role, cluster, &release.namespace, &url, &home).await));
        }
        Self { cluster, client, databases, redis, release, tenants, webhooks, pods, _home: home }
    }

    /// The path of a kind in the namespace of tenants.
    pub(crate) fn path(&self, kind: &str) -> String {
        declared::path(&self.release.tenants, kind)
    }

    /// Creates objects, each at a path.
    pub(crate) async fn create(&self, objects: impl IntoIterator<Item = (String, Value)>) {
        let client = &self.client;
        let create = |(path, object): (String, Value)| async move {
            client.create(&path, &object).await;
        };
        futures_util::stream::iter(objects).for_each_concurrent(AT_A_TIME, create).await;
    }

    /// Writes this many ConfigMaps as large as Webhooks, into a namespace that the operator does not watch; returns how
    /// many it wrote per second.
    pub(crate) async fn bare_writes(&self, count: usize) -> f64 {
        let path = declared::path(&self.cluster.namespace("bare"), "configmaps");
        let begun = Instant::now();
        self.create((0..count).map(|number| (path.clone(), declared::config_map(number)))).await;
        count as f64 / begun.elapsed().as_secs_f64()
    }

    /// Waits until this many Tenants and this many Webhooks have been Ready.
    pub(crate) async fn ready(&self, tenants: usize, webhooks: usize) {
        let begun = Instant::now();
        for (kind, objects, count) in
            [("Tenants", &self.tenants, tenants), ("Webhooks", &self.webhooks, webhooks)]
        {
            let mut objects = objects.clone();
            loop {
                let ready = objects.wait_for(|objects| objects.ready() >= count);
                match tokio::time::timeout(REPORT, ready).await {
                    Ok(ready) => {
                        drop(ready.expect("the watch continues"));
                        break;
                    }
                    Err(_) => assert!(begun.elapsed() < PATIENCE, "not Ready: {}", self.release.logs()),
                }
                let ready = objects.borrow().ready();
                eprintln!("        {ready} of {count} {kind} have been Ready after {:.0?}", begun.elapsed());
            }
        }
    }

    /// Starts an operator, and waits until it serves its metrics.
    pub(crate) async fn operator(&self, name: &str) -> Operator {
        let operator = self.release.spawn(name);
        answers(&operator, "/metrics", Duration::from_secs(60)).await;
        operator
    }
}

/// Waits until an operator responds with 200 to a path.
pub(crate) async fn answers(operator: &Operator, path: &str, limit: Duration) {
    let address = SocketAddr::from(([127, 0, 0, 1], operator.management));
    let is_ok = async || request(address, "GET", path, &[], "").await.is_ok_and(|reply| reply.status == 200);
    eventually(path, limit, is_ok).await;
}

async fn pod(role: &str, cluster: &Cluster, namespace: &str, redis_url_file: &str, home: &Home) -> Server {
    let arguments = [
        "serve",
        "--roles",
        role,
        "--config-namespace",
        namespace,
        "--redis-url-file",
        redis_url_file,
        // Scans of external databases for invoices are not of the operator: each is a login.
        "--invoice-scan-interval=24h",
        "--log=warn",
    ];
    let kubeconfig = cluster.admin().display().to_string();
    let environment = [("KUBECONFIG", kubeconfig.as_str()), ("POD_NAME", role)];
    let pod = Server::spawn_server(
        home,
        &arguments.map(str::to_owned),
        &environment.map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    pod.ready(home).await
}
