//! A tenant whose database is behind a PgBouncer in transaction mode with fewer sessions than the processes have
//! connections.

use docket_orders::OrderType;
use docket_rig::pgbouncer::PgBouncer;
use docket_rig::postgres;
use docket_tests::receiver::{Post, Response};
use docket_tests::server::{PASSWORD, Server, eventually, request};
use futures_util::future::join_all;
use serde_json::json;

use crate::api::rig::{example, with};
use crate::serve::stage::{SOON, Stage, USER, save, sign_in};

/// How many sessions of the server all connections share.
const SESSIONS: u32 = 3;

/// A stage behind a pooler. `direct` is the URL of its database without the pooler.
struct Pooled {
    stage: Stage,
    direct: String,
    pooler: PgBouncer,
}

impl Pooled {
    async fn with(script: impl FnMut(&Post) -> Response + Send + 'static) -> Self {
        let direct = postgres::database().await;
        let url = direct.clone();
        let start = move || PgBouncer::start(&url, SESSIONS);
        let pooler = tokio::task::spawn_blocking(start).await.expect("PgBouncer starts, see above");
        let stage = Stage::on(pooler.url(&direct), script).await;
        Self { stage, direct, pooler }
    }

    async fn number(&self, sql: &str) -> i64 {
        let client = postgres::client(&self.direct).await;
        client.query_one(sql, &[]).await.expect("a statement").get(0)
    }
}

/// The first page of the portal, for the contact.
async fn portal(server: &Server) -> String {
    let host = format!("acme.localhost:{}", server.api.port());
    let origin = format!("http://{host}");
    let fields = [("kind", "contact"), ("userId", USER), ("password", PASSWORD), ("to", "")];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let form = [
        ("host", host.as_str()),
        ("origin", origin.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let reply = request(server.api, "POST", "/portal/sign-in", &form, &body).await.expect("an answer");
    assert_eq!(reply.status, 303, "{reply:?}");
    let cookie = reply.headers["set-cookie"].split(';').next().expect("a pair").to_owned();
    let mut path = reply.headers["location"].clone();
    loop {
        let headers = [("host", host.as_str()), ("cookie", cookie.as_str())];
        let reply = request(server.api, "GET", &path, &headers, "").await.expect("an answer");
        match reply.status {
            303 => path = reply.headers["location"].clone(),
            200 => return reply.text().to_owned(),
            _ => panic!("{reply:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_saved_exported_delivered_retried_and_resent_behind_a_pooler() {
    let mut refused = false;
    let pooled = Pooled::with(move |_| {
        let status = if std::mem::replace(&mut refused, true) { 200 } else { 500 };
        Response::Status(status)
    })
    .await;
    let stage = &pooled.stage;
    // Two processes have statements of the same names.
    let (api, _worker) = tokio::join!(stage.serve("api,portal"), stage.serve("worker,detector"));
    let client = sign_in(&api).await;
    save(&client).await;
    stage.received(2).await;
    assert_eq!(pooled.number("SELECT max(attempt_count)::bigint FROM delivery").await, 2, "it was retried");

    join_all((0..20).map(|_| save(&client))).await;
    stage.received(22).await;
    let order = with(example(OrderType::Court), json!({"export": true}));
    let reply = client.post("/Orders/Save", &order).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(pooled.number("SELECT count(*) FROM work_order").await > 0);
    eventually("everything is delivered", SOON, async || {
        pooled.number("SELECT count(*) FROM delivery WHERE status <> 'Succeeded'").await == 0
    })
    .await;

    let received = stage.receiver.count();
    let client = postgres::client(&pooled.direct).await;
    let row = client.query_one("SELECT id FROM delivery_history LIMIT 1", &[]).await.expect("a row");
    stage.command(&["deliveries", "resend", row.get(0)], "").expect("a resend");
    stage.received(received + 1).await;

    let right = "UPDATE contact SET manages_webhooks = true";
    client.batch_execute(right).await.expect("a statement");
    assert!(portal(&api).await.contains("Sign out"));
    let sessions = "SELECT count(*) FROM pg_stat_activity \
                    WHERE datname = current_database() AND application_name = 'docket'";
    assert!(pooled.number(sessions).await <= i64::from(SESSIONS), "the pooler shares its sessions");
    let (log, of_pooler) = (stage.log(), pooled.pooler.log());
    assert!(!log.contains("prepared statement") && !log.contains("08P01"), "{log}");
    assert!(!of_pooler.contains("unsupported startup parameter"), "{of_pooler}");
}
