//! The rig of the cases: a tenant on PostgreSQL, a Redis, and processes on both.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use docket_rig::postgres;
use docket_rig::proxy::Proxy;
use docket_rig::redis::RedisServer;
use docket_tests::receiver::{Post, Receiver, Response, ca_yaml};
pub(crate) use docket_tests::server::external_tenant_yaml as external;
use docket_tests::server::{Client, Home, Server, api_key};
use docket_tests::stores::write_secret;
use serde_json::json;

/// Flags for scaled time.
const FAST: &str = "--backoff-base 50ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32 \
                    --sweep-interval 1s --invoice-scan-interval 1s --shutdown-delay 0s";
/// The time in which everything that should happen soon happens, also on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// The only contact.
pub(crate) const USER: &str = "ada@quillfeather.example";

/// A tenant `acme` with a database, a webhook to a receiver and a contact; and a Redis.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) redis: RedisServer,
    pub(crate) receiver: Receiver,
    pub(crate) database: String,
}

/// A proxy in front of the server of a database, and the database's URL through it.
pub(crate) fn wired(url: &str) -> (Proxy, String) {
    over(url, Proxy::to)
}

/// Like [`wired`], with a proxy that can cut the connection at a question. It works without TLS, in which questions can't be
/// counted.
pub(crate) fn wired_to_postgres(url: &str) -> (Proxy, String) {
    let (proxy, url) = over(url, Proxy::to_postgres);
    assert!(!url.contains('?'), "{url}");
    (proxy, url + "?sslmode=disable")
}

fn over(url: &str, wire: fn(SocketAddr) -> Proxy) -> (Proxy, String) {
    let mut url = url::Url::parse(url).expect("a URL");
    let proxy = wire(([127, 0, 0, 1], url.port().expect("it has one")).into());
    url.set_port(Some(proxy.address.port())).expect("it has a host");
    (proxy, url.into())
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|_| Response::Status(200)).await
    }

    /// Creates the stage with a receiver that responds by this script.
    pub(crate) async fn with(script: impl FnMut(&Post) -> Response + Send + 'static) -> Self {
        Self::on(postgres::database().await, script).await
    }

    /// Creates the stage with its database at this URL.
    pub(crate) async fn on(database: String, script: impl FnMut(&Post) -> Response + Send + 'static) -> Self {
        let receiver = Receiver::verifying(script).await;
        let redis = tokio::task::spawn_blocking(|| RedisServer::start(&[])).await.expect("Redis starts");
        let tenant = external("acme", 'a', &database);
        let webhook = receiver.webhook_yaml("acme", "orders", "C-1", "/orders");
        let home = Home::with(&format!("{tenant}{}{webhook}", ca_yaml()));
        write_secret(&home.log("redis-url"), &redis.url());
        let stage = Self { home, redis, receiver, database };
        let customer = ["customer", "add", "--code", "C-1", "--name", "A customer"];
        stage.command(&customer, "").expect("a customer");
        let contact = ["contact", "add", "--customer", "C-1", "--email", USER, "--name", "A contact"];
        stage.command(&contact, "a-password-for-tests\n").expect("a contact");
        stage
    }

    fn redis_flags(&self) -> Vec<String> {
        vec!["--redis-url-file".to_owned(), self.home.log("redis-url").display().to_string()]
    }

    /// The arguments of a process with these roles on the stage's folder, with more flags.
    pub(crate) fn arguments(&self, roles: &str, more: &str) -> Vec<String> {
        let mut arguments = vec!["serve".to_owned(), "--roles".to_owned(), roles.to_owned()];
        for (flag, folder) in [("--config-dir", self.home.config()), ("--data-dir", self.home.data())] {
            arguments.extend([flag.to_owned(), folder.display().to_string()]);
        }
        arguments.extend(self.redis_flags());
        arguments.extend(FAST.split_whitespace().chain(more.split_whitespace()).map(str::to_owned));
        arguments
    }

    /// Starts a process with these roles, and waits until it is ready.
    pub(crate) async fn serve(&self, roles: &str) -> Server {
        self.spawn(roles, "").ready(&self.home).await
    }

    pub(crate) fn spawn(&self, roles: &str, more: &str) -> Server {
        let mut arguments = self.arguments(roles, "");
        // A flag in `more` replaces the scaled flag of the same name.
        let more: Vec<&str> = more.split_whitespace().collect();
        for pair in more.chunks(2) {
            if let Some(at) = arguments.iter().position(|argument| argument == pair[0]) {
                arguments.drain(at..at + 2);
            }
            arguments.extend(pair.iter().map(|word| (*word).to_owned()));
        }
        Server::spawn_server(&self.home, &arguments, &[])
    }

    /// Starts a process with these roles, whose tenants are the runtime Secrets of a namespace.
    pub(crate) fn spawn_in_cluster(&self, roles: &str, namespace: &str, kubeconfig: &str) -> Server {
        let mut arguments = vec!["serve".to_owned(), "--roles".to_owned(), roles.to_owned()];
        arguments.extend(["--config-namespace".to_owned(), namespace.to_owned()]);
        arguments.extend(self.redis_flags());
        arguments.extend(FAST.split_whitespace().map(str::to_owned));
        Server::spawn_server(&self.home, &arguments, &[("KUBECONFIG".to_owned(), kubeconfig.to_owned())])
    }

    /// Runs a command on the tenant, as a user of `docket serve` does.
    pub(crate) fn command(&self, words: &[&str], input: &str) -> Result<String, String> {
        self.command_with(words, &["--postgresql"], input)
    }

    pub(crate) fn command_with(&self, words: &[&str], flags: &[&str], input: &str) -> Result<String, String> {
        let words = [words, &["--tenant", "ACME"], flags].concat();
        match self.home.command(&words, input) {
            (true, text) => Ok(text),
            (false, text) => Err(text),
        }
    }

    /// Adds a second tenant, `blue`, with a separate database and the same contact.
    pub(crate) async fn add_blue(&self) {
        let database = postgres::database().await;
        self.home.write("blue.yaml", &external("blue", 'b', &database));
        let customer =
            ["customer", "add", "--tenant", "BLUE", "--postgresql", "--code", "C-1", "--name", "A customer"];
        let contact =
            ["contact", "add", "--tenant", "BLUE", "--postgresql", "--customer", "C-1", "--email", USER];
        for (words, input) in [
            (&customer[..], ""),
            (&[&contact[..], &["--name", "A contact"]].concat(), "a-password-for-tests\n"),
        ] {
            let (done, text) = self.home.command(words, input);
            assert!(done, "{text}");
        }
    }

    /// Waits until the receiver has got `count` deliveries.
    pub(crate) async fn received(&self, count: usize) {
        let begun = Instant::now();
        while self.receiver.count() < count {
            let received = self.receiver.count();
            assert!(begun.elapsed() < SOON, "{received} of {count} deliveries came: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The log of all processes.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.log("err")).unwrap_or_default()
    }

    pub(crate) async fn logs(&self, what: &str) {
        let begun = Instant::now();
        while !self.log().contains(what) {
            assert!(begun.elapsed() < SOON, "no {what:?} in {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn sign_in(api: &Server) -> Client {
    api.sign_in(&api_key('a'), USER).await
}

/// Saves a new order; returns how long that took.
pub(crate) async fn save(client: &Client) -> Duration {
    let begun = Instant::now();
    let reply = client.post("/Orders/Save", &json!({"orderType": "Court"})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    begun.elapsed()
}
