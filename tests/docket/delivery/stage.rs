//! The rig of most cases: a tenant with a customer and a contact, a running `docket dev`, and the rows of its database.

use std::time::{Duration, Instant};

use docket_tests::server::{Client, Home, Options, Server, api_key, eventually, tenant_yaml, webhook_yaml};
use docket_tests::stores::{self, Row};
use docket_tests::{people, receiver};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Flags for scaled time: delays of 100, 200, 400 and 800 ms.
pub(crate) const FAST: &str =
    "--backoff-base 50ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";
/// Flags with which the first retry is far away.
pub(crate) const ONCE: &str =
    "--backoff-base 10m --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32";
/// The time in which everything that should happen soon happens, also on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// The one contact of [`stage`].
pub(crate) const USER: &str = people::ADA;

static TURNS: RwLock<()> = RwLock::const_new(());

/// Waits until no other case of this suite runs, and keeps them from running. A case that measures times holds this. Cases start in
/// the order of their names, so cases of other suites run before or after.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().await
}

/// Waits until no case runs [`alone`]. Every other case of this suite holds this.
pub(crate) async fn together() -> RwLockReadGuard<'static, ()> {
    TURNS.read().await
}

/// A Webhook as YAML.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    pub(crate) tenant: &'static str,
    pub(crate) name: String,
    pub(crate) customer: &'static str,
    pub(crate) url: String,
    /// The name of a Secret.
    pub(crate) secret: Option<&'static str>,
    pub(crate) events: &'static str,
    pub(crate) active: bool,
    /// Whether the webhook trusts the authority of the test receivers.
    pub(crate) trusting: bool,
}

impl Webhook {
    /// Creates a webhook of customer C-1 of the tenant `acme`, for all order events, signed.
    pub(crate) fn new(name: &str, url: impl Into<String>) -> Self {
        Self {
            tenant: "acme",
            name: name.to_owned(),
            customer: "C-1",
            url: url.into(),
            secret: Some("acme-signing"),
            events: "order.created, order.updated, order.exported",
            active: true,
            trusting: true,
        }
    }

    pub(crate) fn yaml(&self) -> String {
        let Self { tenant, name, customer, url, secret, events, active, trusting } = self;
        let mut yaml = format!(
            "---\napiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {{name: {name}}}\nspec:\n  \
             tenantRef: {{name: {tenant}}}\n  customerCode: {customer}\n  targetURL: \"{url}\"\n  \
             events: [{events}]\n  active: {active}\n"
        );
        if let Some(secret) = secret {
            yaml.push_str(&format!("  secretRef: {{name: {secret}}}\n"));
        }
        if *trusting {
            yaml.push_str("  caBundleRef: {kind: ConfigMap, name: receiver-ca}\n");
        }
        yaml
    }

    /// Writes the webhook into a file of its own.
    pub(crate) fn write(&self, home: &Home) {
        home.write(&format!("webhook-{}.yaml", self.name), &self.yaml());
    }
}

/// Makes files with the tenant `acme`, these webhooks, and the contact.
pub(crate) fn home(webhooks: &[Webhook]) -> Home {
    let home = Home::with(&(tenant_yaml("acme", 'a') + &receiver::ca_yaml()));
    for webhook in webhooks {
        webhook.write(&home);
    }
    people::add_people(&home, "ACME");
    home
}

/// Starts a `docket dev` on [`home`], and signs its contact in.
pub(crate) async fn stage(webhooks: &[Webhook], flags: &str) -> (Home, Server, Client) {
    let home = home(webhooks);
    let server = Server::start(&home, Options::flags(flags)).await;
    let client = server.sign_in(&api_key('a'), USER).await;
    (home, server, client)
}

/// A complete order, which can be exported.
pub(crate) fn whole_order() -> Value {
    let address = |street: &str| json!({"address": {"street1": street, "city": "Los Angeles", "state": "CA", "postalCode": "90012"}});
    json!({"orderType": "Delivery", "itemDescription": "2 exhibit binders",
        "legs": [{"pickup": address("100 Example Plaza"), "delivery": address("20 Mockingbird Square")}]})
}

/// Saves a draft; returns its id.
pub(crate) async fn save(client: &Client) -> String {
    let reply = client.post("/Orders/Save", &json!({"orderType": "Court"})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["webOrderId"].as_str().expect("an id").to_owned()
}

/// Changes the folder, and waits until the change is served. The witness is a webhook of no tenant, declared after the change: the log
/// names it once that is served.
pub(crate) async fn reload(home: &Home, change: impl FnOnce()) {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let witness = format!("witness-{}", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    change();
    home.write("witness.yaml", &webhook_yaml("no-tenant", &witness, "C-1", "https://h.example/"));
    let named = format!("(Webhook default/{witness})");
    let is_named = || std::fs::read_to_string(home.log("err")).unwrap_or_default().contains(&named);
    eventually("the change is served", SOON, async || is_named()).await;
}

/// Fails the test unless something stays true for this time.
pub(crate) async fn remains(what: &str, time: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert!(condition().await, "not any more after {:?}: {what}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A row of the view `delivery`, with the answer to its last attempt.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) event: String,
    /// The webhook's name without its namespace.
    pub(crate) webhook: String,
    pub(crate) status: String,
    pub(crate) attempts: i64,
    pub(crate) due_at_ms: i64,
    pub(crate) class: Option<String>,
    pub(crate) http_status: Option<i64>,
    pub(crate) answer: Option<String>,
    pub(crate) resend_of: Option<String>,
    pub(crate) leased: bool,
}

impl Delivery {
    pub(crate) fn is_final(&self) -> bool {
        self.status == "Succeeded" || self.status == "DeadLetter"
    }

    pub(crate) fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("")
    }
}

/// A row of the view `attempt`.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) delivery: String,
    pub(crate) number: i64,
    pub(crate) started_at_ms: i64,
    pub(crate) finished_at_ms: Option<i64>,
    pub(crate) class: Option<String>,
    pub(crate) http_status: Option<i64>,
    pub(crate) answer: Option<String>,
}

impl Attempt {
    pub(crate) fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("")
    }
}

/// Opens the file of a tenant's database as another program.
pub(crate) fn open(home: &Home, client_code: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(home.database(client_code), flags).expect("a database");
    connection.busy_timeout(Duration::from_secs(10)).expect("settable");
    connection
}

/// All deliveries of the tenant ACME, oldest first.
pub(crate) fn deliveries(home: &Home) -> Vec<Delivery> {
    deliveries_of(home, "ACME")
}

pub(crate) fn deliveries_of(home: &Home, client_code: &str) -> Vec<Delivery> {
    let sql = "SELECT id, event_id, webhook_name, status, attempt_count, due_at_ms, failure_class, http_status, \
               (SELECT response_body FROM attempt WHERE delivery_id = delivery.id AND attempt_no = attempt_count), \
               resend_of, lease_token IS NOT NULL FROM delivery ORDER BY created_at_ms, id";
    let delivery = |row: &Row| Delivery {
        id: row.get(0),
        event: row.get(1),
        webhook: row.get::<String>(2).replace("default/", ""),
        status: row.get(3),
        attempts: row.get(4),
        due_at_ms: row.get(5),
        class: row.get(6),
        http_status: row.get(7),
        answer: row.get(8),
        resend_of: row.get(9),
        leased: row.get(10),
    };
    home.open(client_code).rows(sql, &[]).iter().map(delivery).collect()
}

/// All attempts of the tenant ACME, by delivery and number.
pub(crate) fn attempts(home: &Home) -> Vec<Attempt> {
    let sql = "SELECT delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, http_status, response_body \
               FROM attempt ORDER BY delivery_id, attempt_no";
    let attempt = |row: &Row| Attempt {
        delivery: row.get(0),
        number: row.get(1),
        started_at_ms: row.get(2),
        finished_at_ms: row.get(3),
        class: row.get(4),
        http_status: row.get(5),
        answer: row.get(6),
    };
    home.open("ACME").rows(sql, &[]).iter().map(attempt).collect()
}

/// The attempts of one delivery.
pub(crate) fn attempts_of(home: &Home, delivery: &str) -> Vec<Attempt> {
    attempts(home).into_iter().filter(|attempt| attempt.delivery == delivery).collect()
}

/// The only delivery to this webhook.
pub(crate) fn delivery_to(home: &Home, webhook: &str) -> Delivery {
    let mut all = deliveries(home);
    all.retain(|delivery| delivery.webhook == webhook);
    assert_eq!(all.len(), 1, "{webhook}: {all:?}");
    all.remove(0)
}

/// Waits until there are `count` deliveries and all have ended. Returns them.
pub(crate) async fn all_end(home: &Home, count: usize) -> Vec<Delivery> {
    all_end_within(home, count, SOON).await
}

pub(crate) async fn all_end_within(home: &Home, count: usize, limit: Duration) -> Vec<Delivery> {
    let ended = || {
        let all = deliveries(home);
        assert!(all.len() <= count, "{} deliveries, not {count}", all.len());
        (all.len() == count && all.iter().all(Delivery::is_final)).then_some(all)
    };
    eventually(&format!("{count} deliveries have ended"), limit, async || ended().is_some()).await;
    ended().expect("just seen")
}

/// Queues `count` deliveries, each of its own event, as another program would.
pub(crate) fn queue(home: &Home, client_code: &str, webhook: &str, count: usize) -> Vec<String> {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let (mut ids, mut statements) = (Vec::new(), String::from("BEGIN;"));
    for _ in 0..count {
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (event, id) = (format!("evt_{number:032x}"), format!("01900000-0000-7000-8000-{number:012x}"));
        let body = json!({"id": event, "event": "order.created", "occurredAt": "2026-11-21T00:00:00Z",
            "customerCode": "C-1", "data": {"orderType": "Court", "webOrderId": "W1"}});
        let body = stores::bytes(body.to_string().as_bytes());
        statements += &format!(
            "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms)
               VALUES ('{event}', 'order.created', 'C-1', 'W1', {body}, 0);
             INSERT INTO delivery_queue (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms)
               VALUES ('{id}', '{event}', 'file:default/{webhook}', 'default/{webhook}', 'Pending', 0, 0, 0);"
        );
        ids.push(id);
    }
    home.open(client_code).change(&(statements + "COMMIT"));
    ids
}
