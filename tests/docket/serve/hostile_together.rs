//! Hostile clients, hostile tenants with their databases and Secrets, and a hostile receiver, all at once, against the
//! operator and the data plane with the memory that the chart gives them. A healthy tenant notices nothing.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use docket_rig::memory_group::MemoryGroup;
use docket_rig::postgres;
use docket_rig::proxy::{Manner, Proxy};
use docket_tests::apiserver::cluster;
use docket_tests::operator::{Operator, Release};
use docket_tests::receiver::{Post, Receiver, Response, ca_yaml};
use docket_tests::server::{Home, JSON, PASSWORD, Server, api_key, eventually, request, tenant_yaml};
use serde_json::json;

use super::hostile_clients::{
    Party, Siege, attack, connect, drip, healthy, large_bodies, search, send, turn,
};
use super::stage::{SOON, USER, external, save, wired};

/// `resources.limits.memory` of the chart: of API, worker and operator, and of the detector.
const MEMORY: u64 = 256 << 20;
const OF_THE_DETECTOR: u64 = 192 << 20;
const ATTACK: Duration = Duration::from_secs(12);

const FAST: &str = "--backoff-base 50ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32 \
                    --sweep-interval 1s --invoice-scan-interval 1s --shutdown-delay 0s";

/// What the owner of a database puts in place of its tables: cells of 100 MB, or rows without end.
const HUGE_CELLS: (&str, &str) = ("repeat('x', 100000000)", "generate_series(1, 10)");
/// PostgreSQL streams the rows of a function in a list of columns. It would write a table of them to its disk first.
const ENDLESS_ROWS: (&str, &str) = ("'x'::text", "(SELECT generate_series(1, 100000000)) AS many");

fn views((cell, rows): (&str, &str)) -> [(&'static str, String); 3] {
    let contact = format!(
        "SELECT 'C1001'::text AS code, 'C-1'::text AS customer_code, {cell} AS name, NULL::text AS password_hash, \
         true AS active, 0::bigint AS sign_outs, false AS manages_webhooks, '{USER}'::text AS email_key FROM {rows}"
    );
    let queue = format!("SELECT {cell} AS id, 'w'::text AS webhook, 0::bigint AS due_at_ms FROM {rows}");
    let invoice = format!(
        "SELECT {cell} AS invoice_number, NULL::bigint AS detected_at_ms, 'w'::text AS work_order FROM {rows}"
    );
    [("contact", contact), ("delivery_queue", queue), ("court_invoice", invoice)]
}

/// Puts the views in place of the tables.
async fn spoil(url: &str, kind: (&str, &str)) {
    let owner = postgres::client(url).await;
    for (table, view) in views(kind) {
        let spoil = format!("ALTER TABLE {table} RENAME TO {table}_before; CREATE VIEW {table} AS {view}");
        owner.batch_execute(&spoil).await.expect("it is its owner's");
    }
    // Connections with prepared statements would continue to use the tables.
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    owner.batch_execute(others).await.expect("it is its owner's");
}

/// The databases of hostile tenants. Each field has the name of its tenant.
struct HostileDatabases {
    evil: String,
    endless: String,
    drip: (Proxy, String),
    shout: (Proxy, String),
}

impl HostileDatabases {
    async fn new() -> Self {
        let wired = async || wired(&postgres::database().await);
        let (evil, endless) = (postgres::database().await, postgres::database().await);
        Self { evil, endless, drip: wired().await, shout: wired().await }
    }

    /// Name, digit of the API key, and URL of each.
    fn tenants(&self) -> [(&'static str, char, &str); 4] {
        let Self { evil, endless, drip, shout } = self;
        [("evil", 'c', evil), ("endless", 'd', endless), ("drip", 'e', &drip.1), ("shout", 'f', &shout.1)]
    }

    /// Turns the databases hostile once some orders of the healthy tenant have reached its receiver.
    async fn turn_hostile(&self, healthy: &Receiver, mut party: Party<'_>) {
        eventually("the parties are under way", 10 * ATTACK, async || {
            healthy.posts_to("/healthy").len() >= 10
        })
        .await;
        spoil(&self.evil, HUGE_CELLS).await;
        spoil(&self.endless, ENDLESS_ROWS).await;
        self.drip.0.turn_hostile(Some(Manner::Drip));
        self.shout.0.turn_hostile(Some(Manner::Shout));
        party.did_one();
        party.end();
    }
}

/// Writes Secrets of the hostile tenant that lead nowhere or are as large as a Secret can be.
async fn change_secrets(release: &Release, url: &str, mut party: Party<'_>) {
    let large = "x".repeat(900_000);
    let values = [
        format!("{url}?sslmode=verify-full&sslrootcert=/dev/zero"),
        large.clone(),
        format!("{url}?application_name={large}"),
        "postgres://169.254.169.254/evil".to_owned(),
        url.to_owned(),
    ];
    let mut turns = 0;
    while party.continues() {
        for (name, key, value) in [
            ("evil-database", "url", &values[turns % values.len()]),
            ("evil-signing", "secret", &values[(turns + 1) % values.len()]),
        ] {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"docket.dev/watch": "true"}},
                "stringData": {key: value},
            });
            let apply =
                ["--namespace", &release.tenants, "apply", "--server-side", "--force-conflicts", "-f", "-"];
            cluster().kubectl(&apply, &secret.to_string()).expect("the API server takes it");
        }
        turns += 1;
        party.did_one();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    party.end();
}

/// What a receiver can do to a client: hang, answer without end, in drops, with endless headers, or with nonsense.
fn hostile_receiver() -> impl FnMut(&Post) -> Response + Send + 'static {
    let mut count = 0;
    move |_| {
        count += 1;
        match count % 6 {
            0 => Response::Hang,
            1 => Response::whole(200, "", &vec![b'x'; 20_000_000]),
            2 => Response::Raw([&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 5_000_000]].concat()),
            3 => Response::after(Duration::from_secs(2), Response::Raw(b"HTTP/1.1 500 \r\n".to_vec())),
            4 => Response::Last(vec![0; 1_000_000]),
            _ => Response::whole(302, "Location: http://169.254.169.254/\r\n", b""),
        }
    }
}

/// The status of a sign-in of the one contact; 0 for none.
async fn sign_in_to(address: SocketAddr, digit: char) -> u16 {
    let (key, body) = (api_key(digit), json!({"userId": USER, "password": PASSWORD}).to_string());
    let reply = request(address, "POST", "/Auth/Token", &[("x-api-key", key.as_str()), JSON], &body).await;
    reply.map_or(0, |reply| reply.status)
}

struct Plane {
    api: Server,
    others: [Server; 2],
    operator: Operator,
}

impl Plane {
    async fn is_ready(&self) -> bool {
        let mut ports = vec![self.api.management, ([127, 0, 0, 1], self.operator.management).into()];
        ports.extend(self.others.iter().map(|server| server.management));
        for port in ports {
            if !request(port, "GET", "/healthz", &[], "").await.is_ok_and(|reply| reply.status == 200) {
                return false;
            }
        }
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_parties_together_are_not_noticed_by_a_healthy_tenant() {
    let groups: Option<Vec<_>> =
        [MEMORY, MEMORY, OF_THE_DETECTOR, MEMORY].into_iter().map(MemoryGroup::new).collect();
    let Some(groups) = groups else { return };
    let _turn = turn().await;
    let [api, worker, detector, operator] = <[_; 4]>::try_from(groups).expect("four");
    let (receiver, evil_receiver) =
        (Receiver::verifying(|_| Response::Status(200)).await, Receiver::scripted(hostile_receiver()).await);
    let mut release = Release::new("together");
    release.with_postgres().await;
    let redis = release.with_redis();
    release.group = Some(operator);
    let operator = release.start().await;
    let hostile = HostileDatabases::new().await;
    release.apply(&tenant_yaml("healthy", 'a'));
    release.apply(&tenant_yaml("guest", 'b'));
    for (name, digit, url) in hostile.tenants() {
        release.apply(&external(name, digit, url));
    }
    release.apply(&ca_yaml());
    for (receiver, tenant) in [(&receiver, "healthy"), (&receiver, "guest"), (&evil_receiver, "evil")] {
        release.apply(&receiver.webhook_yaml(tenant, tenant, "C-1", &format!("/{tenant}")));
        release.wait("tenant", tenant, "Accepted", "True").await;
    }
    let names = || ["healthy", "guest"].into_iter().chain(hostile.tenants().map(|(name, ..)| name));
    for tenant in names() {
        eventually("it is compiled", SOON, async || release.runtime(tenant).is_some()).await;
    }

    let home = Home::new();
    let kubeconfig = cluster().admin().display().to_string();
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.clone())];
    std::fs::write(home.log("redis-url"), redis.url()).expect("writable");
    let serve = async |role: &str, group: &MemoryGroup| {
        let mut arguments =
            ["serve", "--roles", role, "--config-namespace", &release.namespace].map(str::to_owned).to_vec();
        arguments.extend(["--redis-url-file".to_owned(), home.log("redis-url").display().to_string()]);
        arguments.extend(FAST.split_whitespace().map(str::to_owned));
        Server::spawn_in(&home, group, &arguments, &environment).ready(&home).await
    };
    let (api, worker, detector) =
        tokio::join!(serve("api", &api), serve("worker", &worker), serve("detector", &detector));
    for tenant in names() {
        let place = ["--tenant", &tenant.to_uppercase(), "--config-namespace", &release.namespace];
        let customer = ["customer", "add", "--code", "C-1", "--name", "A customer"];
        let contact = ["contact", "add", "--customer", "C-1", "--email", USER, "--name", "A contact"];
        for words in [&customer[..], &contact[..]] {
            let more = [("KUBECONFIG", kubeconfig.as_str())];
            let (done, text) = home.command_in(&[words, &place].concat(), &format!("{PASSWORD}\n"), &more);
            assert!(done, "{text}");
        }
    }
    let plane = Plane { api, others: [worker, detector], operator };
    let address = plane.api.api;
    let ada = plane.api.sign_in(&api_key('a'), USER).await;
    let guest = plane.api.sign_in(&api_key('b'), USER).await;
    let evil = plane.api.sign_in(&api_key('c'), USER).await;
    for _ in 0..200 {
        save(&evil).await;
    }

    let mut stalled = Vec::new();
    for _ in 0..300 {
        let Ok(stream) = connect(3, address).await else { break };
        stalled.push(stream);
    }
    let (bodies, token) = (Arc::new(large_bodies()), guest.token.clone());
    let large = |n: usize| {
        let (bodies, bearer) = (Arc::clone(&bodies), format!("Authorization: Bearer {token}\r\n"));
        async move { send(2, address, "/Orders/Save", &bearer, &bodies[n % bodies.len()]).await }
    };
    let guess = |n: usize| {
        let body = json!({"userId": format!("u{n}"), "password": "wrong"}).to_string();
        async move { send(4, address, "/Auth/Token", "", body.as_bytes()).await }
    };
    let siege = Siege::begin(ATTACK);
    let (saves, ..) = tokio::join!(
        healthy(&plane.api, &ada, siege.party("saves", 10)),
        attack(siege.party("guesses", 20), 30, guess),
        attack(siege.party("sign-ins to hostile tenants", 0), 12, |n| sign_in_to(
            address,
            ['c', 'd', 'e', 'f'][n % 4]
        )),
        attack(siege.party("large bodies", 10), 20, large),
        attack(siege.party("bodies in drops", 4), 10, |_| drip(5, address, 4_000)),
        attack(siege.party("searches of the documentation", 10), 16, |n| search(6, address, n)),
        hostile.turn_hostile(&receiver, siege.party("databases that turn hostile", 1)),
        change_secrets(&release, &hostile.evil, siege.party("changes of Secrets", 4)),
    );
    println!("in {:?}: {} POSTs to the hostile receiver", siege.lasted(), evil_receiver.count());
    assert!(evil_receiver.count() >= 10);
    let median = saves[saves.len() / 2];
    assert!(median < Duration::from_secs(5), "{saves:?}");
    eventually("all that was saved is delivered", SOON, async || {
        let posts = receiver.posts_to("/healthy");
        posts.iter().map(Post::event).collect::<HashSet<_>>().len() == saves.len()
    })
    .await;
    assert!(plane.is_ready().await, "no process ended");
    // The last good configuration of the healthy tenant is still served, and a change of it takes effect.
    release.kubectl(&[
        "patch",
        "tenant",
        "healthy",
        "--type=merge",
        "--patch",
        r#"{"spec": {"displayName": "Unhurt"}}"#,
    ]);
    eventually("a change of the healthy tenant is served", SOON, async || {
        release.runtime("healthy").is_some_and(|runtime| runtime["config"]["displayName"] == "Unhurt")
    })
    .await;
}
