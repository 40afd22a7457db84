//! A tenant that owns its database may turn its tables into anything. It harms its own requests only.

use std::time::{Duration, Instant};

use docket_rig::postgres;
use docket_rig::proxy::Manner;
use docket_tests::server::{JSON, PASSWORD, Server, api_key, eventually};
use serde_json::json;
use tokio_postgres::Client as Database;

use crate::serve::stage::{SOON, Stage, USER, external, save, sign_in, wired};

/// What a process may grow by while it serves a hostile tenant, in KiB: what it reads of one query, some times over.
const GROWTH: u64 = 96 * 1024;
/// A healthy tenant's save takes no longer than this.
const UNHURT: Duration = Duration::from_secs(2);

/// The columns of `contact` with a name that a view makes of anything.
fn contact(name: &str, from: &str) -> String {
    format!(
        "CREATE VIEW contact AS SELECT 'C1001'::text AS code, 'C-1'::text AS customer_code, {name} AS name, \
         NULL::text AS password_hash, true AS active, 0::bigint AS sign_outs, false AS manages_webhooks, \
         '{USER}'::text AS email_key {from}"
    )
}

/// Memory in KiB: the most that a process ever had, or the memory it has now.
fn memory(process: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// A stage with a second tenant, whose database is returned.
async fn with_other() -> (Stage, Database) {
    let url = postgres::database().await;
    (with_other_at(&url).await, postgres::client(&url).await)
}

async fn with_other_at(url: &str) -> Stage {
    let stage = Stage::new().await;
    let yaml =
        external("other", 'b', url) + &stage.receiver.webhook_yaml("other", "others", "C-1", "/others");
    stage.home.write("other.yaml", &yaml);
    let customer = ["customer", "add", "--code", "C-1", "--name", "One", "--tenant", "OTHER", "--postgresql"];
    assert!(stage.home.command(&customer, "").0);
    stage
}

async fn guess(api: &Server, user: &str) -> (u16, Duration) {
    let body = json!({"userId": user, "password": PASSWORD}).to_string();
    let begun = Instant::now();
    let key = api_key('b');
    let reply = api.send("POST", "/Auth/Token", &[("x-api-key", key.as_str()), JSON], &body).await;
    (reply.status, begun.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tables_cost_their_tenant_a_503_and_the_process_no_memory() {
    let (stage, database) = with_other().await;
    let api = stage.serve("api").await;
    let healthy = sign_in(&api).await;
    assert_eq!(guess(&api, "absent@quillfeather.example").await.0, 404, "its database is used before");
    let nested = "DO $$ BEGIN CREATE TYPE nested_0 AS (a int); FOR i IN 1..1500 LOOP \
                  EXECUTE format('CREATE TYPE nested_%s AS (a nested_%s)', i, i - 1); END LOOP; END $$";
    database.batch_execute(nested).await.expect("types");
    let functions = "
        CREATE FUNCTION shout() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION '%', repeat('x', 100000000) USING ERRCODE = '42P01'; END $$;
        CREATE FUNCTION mumble() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
            LOOP RAISE WARNING '%', repeat('x', 1000); END LOOP; END $$;
        CREATE FUNCTION murmur() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION E'hunter2\\n%', repeat('x', 60000) USING ERRCODE = '53000'; END $$;
        ALTER TABLE contact RENAME TO contact_before";
    database.batch_execute(functions).await.expect("functions");
    let idle = memory(&api, "VmHWM");
    for (what, view, status) in [
        ("a cell of 150 MiB", contact("repeat('x', 157286400)", ""), 503),
        ("endless rows", contact("'x'::text", "FROM generate_series(1, 100000000)"), 503),
        ("wide rows", contact("repeat('x', 1000000)", "FROM generate_series(1, 1000)"), 503),
        ("an error of 100 MB", contact("shout()", ""), 503),
        ("endless notices", contact("mumble()", ""), 503),
        ("a long error", contact("murmur()", ""), 503),
        ("a type of a type of a type", contact("NULL::nested_1500", ""), 503),
        ("another type", contact("7", ""), 500),
    ] {
        // New connections have prepared nothing.
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let view = format!("DROP VIEW IF EXISTS contact; {view}; {ended}");
        database.batch_execute(&view).await.expect(what);
        let guesses = async {
            for _ in 0..3 {
                let (answer, took) = guess(&api, USER).await;
                assert!(answer == 503 || answer == status, "{what}: {answer} after {took:?}");
            }
        };
        let saves = async {
            for _ in 0..5 {
                let took = save(&healthy).await;
                assert!(took < UNHURT, "{what}: {took:?}");
            }
        };
        tokio::join!(guesses, saves);
    }
    let grown = memory(&api, "VmHWM") - idle;
    assert!(grown < GROWTH, "grew by {grown} KiB");
    let log = stage.log();
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 2_000, "a line has {longest} bytes");
    assert!(log.contains("the database sent a message of 157286"), "{log}");
    assert!(!log.contains("hunter2\n"), "control characters are escaped");
    database
        .batch_execute("DROP VIEW contact; ALTER TABLE contact_before RENAME TO contact")
        .await
        .expect("a table");
    eventually("the tenant is back", SOON, async || guess(&api, USER).await.0 == 404).await;
}

/// A back office may write notes of any length. Each control character has six bytes as JSON.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_control_characters_cost_the_process_no_memory() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    let ada = sign_in(&api).await;
    let rows = "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms)
            VALUES ('P1', 'Process', 'C-1', 0);
        INSERT INTO note (work_order, line_item, report, created_at_ms)
            VALUES ('P1', 1, repeat(E'\\x01', 1900000), 0), ('P1', 2, 'short', 1)";
    postgres::client(&stage.database).await.batch_execute(rows).await.expect("rows");
    let idle = memory(&api, "VmHWM");
    for reply in futures_util::future::join_all((0..16).map(|_| ada.get("/Notes/Search"))).await {
        assert_eq!(reply.status, 400);
        assert!(reply.detail().contains("longer than 2 MiB"), "{}", reply.detail());
    }
    let grown = memory(&api, "VmHWM") - idle;
    assert!(grown < GROWTH, "grew by {grown} KiB");
    assert_eq!(ada.get("/Notes/Search?pageSize=1").await.json()["items"][0]["report"], "short");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_server_costs_its_tenant_a_5xx_and_no_process_its_memory() {
    let (proxy, url) = wired(&postgres::database().await);
    let stage = with_other_at(&url).await;
    let (api, worker, detector) =
        tokio::join!(stage.serve("api"), stage.serve("worker"), stage.serve("detector"));
    let healthy = sign_in(&api).await;
    assert_eq!(guess(&api, USER).await.0, 404, "its database is used before");
    let idle = [&api, &worker, &detector].map(|process| memory(process, "VmHWM"));
    for (manner, guesses) in [(Manner::Drip, 2), (Manner::Shout, 8)] {
        proxy.turn_hostile(Some(manner));
        let guesses = async {
            for _ in 0..guesses {
                let (answer, took) = guess(&api, USER).await;
                assert!(answer == 503 || answer == 500, "{manner:?}: {answer} after {took:?}");
            }
        };
        let saves = async {
            for _ in 0..20 {
                let took = save(&healthy).await;
                assert!(took < UNHURT, "{manner:?}: {took:?}");
            }
        };
        tokio::join!(guesses, saves);
    }
    stage.received(40).await;
    for (process, idle) in [&api, &worker, &detector].into_iter().zip(idle) {
        let grown = memory(process, "VmHWM") - idle;
        assert!(grown < GROWTH, "grew by {grown} KiB");
    }
    let longest = stage.log().lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 2_000, "a line has {longest} bytes");
    proxy.turn_hostile(None);
    eventually("the tenant is back", SOON, async || guess(&api, USER).await.0 == 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tables_cost_detector_and_worker_no_memory_and_others_no_delivery() {
    let (stage, database) = with_other().await;
    let api = stage.serve("api").await;
    // Only the first failure of a tenant's sweeps is a warning.
    let worker = stage.spawn("worker", "--log info,docket=debug").ready(&stage.home);
    let (detector, worker) = tokio::join!(stage.serve("detector"), worker);
    let healthy = sign_in(&api).await;
    save(&healthy).await;
    stage.received(1).await;
    let idle = [&detector, &worker].map(|process| memory(process, "VmHWM"));
    let views = "
        ALTER TABLE court_invoice RENAME TO court_invoice_before;
        CREATE VIEW court_invoice AS SELECT repeat('x', 157286400) AS invoice_number, NULL::bigint AS detected_at_ms,
            number AS work_order FROM (VALUES ('w')) w (number);
        ALTER TABLE work_order RENAME TO work_order_before;
        CREATE VIEW work_order AS SELECT 'w'::text AS number;
        ALTER TABLE delivery_queue RENAME TO delivery_queue_before;
        CREATE VIEW delivery_queue AS SELECT repeat('x', 157286400) AS id, 'w'::text AS webhook, 0::bigint AS due_at_ms
            FROM generate_series(1, 10)";
    database.batch_execute(views).await.expect("views");
    stage.logs("the database sent a message of 157286").await;
    for count in 2..8 {
        save(&healthy).await;
        stage.received(count).await;
    }
    let sweeps = || stage.log().matches("sweeping the tenant failed").count();
    let scans = async || detector.metric("docket_invoice_scan_failures_total").await;
    let (swept, scanned) = (sweeps(), scans().await);
    // PostgreSQL needs seconds for each of the two reads.
    eventually("both have read the tables again", 4 * SOON, async || {
        sweeps() >= swept + 2 && scans().await >= scanned + 2.0
    })
    .await;
    for (process, idle) in [&detector, &worker].into_iter().zip(idle) {
        let grown = memory(process, "VmHWM") - idle;
        assert!(grown < GROWTH, "grew by {grown} KiB");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_with_an_id_that_no_header_can_carry_is_not_sent_and_no_task_panics() {
    let stage = Stage::new().await;
    let api = stage.serve("api").await;
    let ada = sign_in(&api).await;
    save(&ada).await;
    let rename = "ALTER TABLE delivery_queue DROP CONSTRAINT delivery_queue_event_id_fkey; \
                  UPDATE event SET id = 'evt_x' || chr(10) || 'INJECTED'; \
                  UPDATE delivery_queue SET event_id = 'evt_x' || chr(10) || 'INJECTED'";
    postgres::client(&stage.database).await.batch_execute(rename).await.expect("its owner may do anything");
    let _worker = stage.serve("worker").await;
    stage.logs("EventIdInvalid").await;
    save(&ada).await;
    stage.received(1).await;
    let log = stage.log();
    assert!(
        !log.contains("panicked") && !log.contains("internal error") && !log.contains("INJECTED"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_urls_of_external_databases_lead_nowhere() {
    let (stage, _) = with_other().await;
    let api = stage.spawn("api", "--allow-external-database 127.0.0.1/32").ready(&stage.home).await;
    let healthy = sign_in(&api).await;
    let idle = memory(&api, "VmHWM");
    let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("an address of this machine");
    listener.set_nonblocking(true).expect("a socket");
    let elsewhere = listener.local_addr().expect("it is bound");
    for (place, query, expected) in [
        (stage.database.clone(), "?sslmode=verify-full&sslrootcert=/dev/zero", "sslrootcert must be"),
        (stage.database.clone(), "?options=-csearch_path%3Devil", "the parameter \"options\" is not allowed"),
        (stage.database.clone(), "?hostaddr=127.0.0.2", "the parameter \"hostaddr\" is not allowed"),
        (format!("postgres://docket@{elsewhere}/docket"), "", "is not allowed for external databases"),
    ] {
        stage.home.write("other.yaml", &external("other", 'b', &format!("{place}{query}")));
        eventually(expected, SOON, async || {
            guess(&api, USER).await;
            stage.log().contains(expected)
        })
        .await;
        let took = save(&healthy).await;
        assert!(took < UNHURT, "{query}: {took:?}");
    }
    assert!(listener.accept().is_err(), "no process connected");
    let grown = memory(&api, "VmHWM") - idle;
    assert!(grown < GROWTH, "grew by {grown} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_of_foreign_webhooks_in_a_database_is_not_reported() {
    let (stage, database) = with_other().await;
    let (api, _worker) = tokio::join!(stage.serve("api"), stage.serve("worker"));
    save(&sign_in(&api).await).await;
    stage.received(1).await;
    let reported = || stage.redis.cli(&["HGETALL", "{docket}:webhooks-health"]);
    let own: String = postgres::client(&stage.database)
        .await
        .query_one("SELECT webhook FROM delivery", &[])
        .await
        .expect("a delivery")
        .get(0);
    // The webhook is reported by the uid of its document, which is its name.
    let (name, _customer) = own.rsplit_once('/').expect("a key");
    eventually("the own webhook is reported", SOON, async || reported().contains(&format!("file:{name}")))
        .await;
    let foreign = format!(
        "INSERT INTO event (id, code, customer_code, web_order_id, body, occurred_at_ms)
             SELECT id, 'order.created', 'C-1', 'x', '', 0 FROM (VALUES ('e1')) e (id);
         INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms,
                                       finished_at_ms)
             SELECT 'd' || n || webhook, 'e1', webhook, 'x', 'DeadLetter', 5, 0, 0, 4102444800000
             FROM generate_series(1, 777) n, (VALUES ('{own}'), ('made-up')) w (webhook)"
    );
    database.batch_execute(&foreign).await.expect("it is the tenant's own database");
    // Each sweep reports the health of all tenants. A report that counts the last dead letter of the tenant's own webhook
    // was read after the foreign ones were there.
    for count in 1..=4 {
        let dead = format!(
            "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms,
                                           created_at_ms, finished_at_ms)
                 VALUES ('own{count}', 'e1', 'default/others/C-1', 'x', 'DeadLetter', 5, 0, 0, 4102444800000)"
        );
        database.batch_execute(&dead).await.expect("it is the tenant's own database");
        let health = || stage.redis.cli(&["HGET", "{docket}:webhooks-health", "file:default/others"]);
        let begins = format!("0 {count} ");
        eventually("a sweep reports it", SOON, async || health().starts_with(&begins)).await;
    }
    let found = reported();
    assert!(!found.contains("made-up") && !found.contains(" 777 "), "{found}");
}

/// The worker waits to read the health of the hostile tenant. Meanwhile it must read the health of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_database_delays_no_report_of_the_health_of_others() {
    let database = postgres::database().await;
    let (proxy, url) = wired(&database);
    let stage = with_other_at(&url).await;
    let contact = ["contact", "add", "--customer", "C-1", "--email", USER, "--name", "Ada"];
    let of_other = ["--tenant", "OTHER", "--postgresql"];
    let (done, text) = stage.home.command(&[&contact[..], &of_other].concat(), &format!("{PASSWORD}\n"));
    assert!(done, "{text}");
    // No sweep reports, too.
    let (api, worker) = (stage.spawn("api", ""), stage.spawn("worker", "--sweep-interval 1h"));
    let (api, _worker) = (api.ready(&stage.home).await, worker.ready(&stage.home).await);
    let (healthy, other) = (sign_in(&api).await, api.sign_in(&api_key('b'), USER).await);
    let reported = || stage.redis.cli(&["HGETALL", "{docket}:webhooks-health"]);
    let client = postgres::client(&database).await;
    save(&other).await;
    let ended = "SELECT count(*) FROM delivery WHERE status = 'Succeeded'";
    eventually("its delivery has ended, and its health is due", SOON, async || {
        client.query_one(ended, &[]).await.expect("a statement").get::<_, i64>(0) == 1
    })
    .await;
    proxy.turn_hostile(Some(Manner::Drip));
    for round in 1..=3 {
        let before = reported();
        save(&healthy).await;
        // One each five seconds.
        eventually(&format!("report {round}"), Duration::from_secs(8), async || reported() != before).await;
    }
}
