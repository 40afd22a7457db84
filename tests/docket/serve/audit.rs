//! The audit of processes on PostgreSQL: the rows of the tenant's database, the stream, and `docket audit list`.

use std::collections::BTreeMap;

use docket_domain::delivery::Status;
use docket_rig::postgres;
use docket_rig::tenant_database::ended_sql;
use docket_tests::server::{JSON, PASSWORD, Server, api_key};
use serde_json::{Value, json};

use crate::serve::stage::{Stage, USER, save, sign_in};

/// Texts that no entry may contain: names, passwords, texts of orders.
const NAME: &str = "zq-stranger@canary.example";
const WRONG: &str = "zq-wrong-password";
const CAPTION: &str = "Zqcaption v. Zqother";

/// The stream's lines so far.
fn lines(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.home.log("audit.log")).expect("a stream");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A process with the role api and a stream.
async fn audited(stage: &Stage, more: &str) -> Server {
    let flags = format!("--audit-log {} {more}", stage.home.log("audit.log").display());
    stage.spawn("api", &flags).ready(&stage.home).await
}

/// Reads the rows, each as the line that the stream would show, by id.
async fn rows(stage: &Stage) -> BTreeMap<String, Value> {
    let sql = "SELECT id, at_ms, event, actor, subject, address, request_id, count, detail FROM audit";
    let rows = postgres::client(&stage.database).await.query(sql, &[]).await.expect("a statement");
    let text = |row: &tokio_postgres::Row, at| row.get::<_, Option<String>>(at);
    let shown = |row: &tokio_postgres::Row| {
        let time = format!("{:.3}", jiff::Timestamp::from_millisecond(row.get(1)).expect("a time"));
        let value = json!({"time": time, "id": text(row, 0), "event": text(row, 2), "tenant": "ACME", "actor": text(row, 3),
            "subject": text(row, 4), "address": text(row, 5), "requestId": text(row, 6), "count": row.get::<_, i64>(7),
            "detail": text(row, 8)});
        (row.get(0), value)
    };
    rows.iter().map(shown).collect()
}

async fn guess(api: &Server, user: &str) -> u16 {
    let body = json!({"userId": user, "password": WRONG}).to_string();
    let key = api_key('a');
    let headers = [("x-api-key", key.as_str()), JSON, ("x-forwarded-for", "198.51.100.7")];
    api.send("POST", "/Auth/Token", &headers, &body).await.status
}

fn word(text: &str, at: usize) -> String {
    text.split_whitespace().nth(at).expect("a word").trim_end_matches(':').to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_thing_done_is_one_entry_with_who_did_it_and_from_where() {
    let stage = Stage::new().await;
    let code = |output: Result<String, String>| word(&output.expect("done"), 1);
    let employee = ["employee", "add", "--user", "alex", "--name", "Zqalex", "--administrator"];
    let alex_code = code(stage.command(&employee, PASSWORD));
    let api = audited(&stage, "").await;

    let ada = sign_in(&api).await;
    let order = ada.post("/Orders/Save", &json!({"orderType": "Court", "case": {"caption": CAPTION}})).await;
    assert_eq!(order.status, 200, "{order:?}");
    save(&ada).await;
    for _ in 0..3 {
        assert_eq!(guess(&api, NAME).await, 404);
    }
    let alex = api.sign_in_employee(&api_key('a'), "alex").await;
    let database = postgres::client(&stage.database).await;
    let dead = ended_sql(Status::DeadLetter, "1", "TRUE");
    database.batch_execute(&dead).await.expect("a statement");
    let sql = "SELECT id FROM delivery ORDER BY created_at_ms, id";
    let ids: Vec<String> =
        database.query(sql, &[]).await.expect("a statement").iter().map(|row| row.get(0)).collect();
    let read = alex.get(&format!("/WebhookLogs/Get?deliveryId={}", ids[0])).await;
    assert_eq!(read.status, 200, "{read:?}");
    // Two requests under one key are one entry.
    let body = json!({"deliveryId": ids[0]}).to_string();
    for _ in 0..2 {
        let resent = alex.try_post("/WebhookLogs/Resend", &body, &[("idempotency-key", "k1")]).await;
        assert_eq!(resent.expect("an answer").status, 200);
    }
    database.batch_execute(&dead).await.expect("a statement");
    let many = alex.post("/WebhookLogs/Resend", &json!({"webhook": "default/orders"})).await.json();
    let stop = alex.post("/WebhookLogs/StopResend", &json!({"resendId": many["resendId"]})).await;
    assert_eq!(stop.status, 200, "{stop:?}");
    for path in ["SetAside", "UndoSetAside"] {
        let body = json!({"webhook": "default/orders"});
        for _ in 0..2 {
            assert_eq!(alex.post(&format!("/WebhookLogs/{path}"), &body).await.status, 200, "{path}");
        }
    }
    // A request that was refused, only read or changed nothing has no entry.
    assert_eq!(alex.post("/WebhookLogs/Resend", &json!({"webhook": "default/none"})).await.status, 409);
    let preview = json!({"webhook": "default/orders", "preview": true});
    assert_eq!(alex.post("/WebhookLogs/Resend", &preview).await.status, 200);
    assert_eq!(alex.get("/WebhookLogs/Search").await.status, 200);

    let resent = stage.command(&["deliveries", "resend", &ids[1]], "");
    resent.expect("a resend");
    database.batch_execute(&dead).await.expect("a statement");
    let started = stage.command(&["deliveries", "resend", "--webhook", "default/orders", "--yes"], "");
    let by_command = code(started);
    stage.command(&["deliveries", "stop", &by_command], "").expect("stopped");
    stage.command(&["deliveries", "show", &ids[0]], "").expect("it shows no payload");
    stage.command(&["contact", "set-password", "--email", USER], WRONG).expect("another password");
    stage.command(&["employee", "set-password", "--user", "ALEX"], WRONG).expect("another password");
    let ada_code = code(stage.command(&["contact", "sign-out", "--email", USER], ""));
    stage.command(&["employee", "sign-out", "--user", "alex"], "").expect("signed out");
    api.terminate().await;

    let (rows, lines) = (rows(&stage).await, lines(&stage));
    let added = rows.values().find(|row| row["event"] == "ContactAdded").expect("an entry");
    let command = added["actor"].as_str().expect("an actor").to_owned();
    assert!(command.starts_with("command line (uid "), "{command}");
    let many = many["resendId"].as_str().expect("an id");
    let (contact, alex) = (format!("contact {ada_code}"), format!("employee {alex_code}"));
    let [first, second] = [0, 1].map(|at| format!("delivery {}", ids[at]));
    let count = |id: &str| {
        rows.values().find(|row| row["subject"] == format!("resend {id}")).expect(id)["count"].clone()
    };
    let (many_count, command_count) = (count(many), count(&by_command));
    let (many, by_command) = (format!("resend {many}"), format!("resend {by_command}"));
    let local = json!("127.0.0.1");
    let name =
        rows.values().find(|row| row["event"] == "SignInRefused").expect("an entry")["subject"].clone();
    assert!(name.as_str().is_some_and(|name| name.len() == "name ".len() + 16), "{name}");
    let mut expected = vec![
        json!(["CustomerAdded", command, "customer C-1", null, 1]),
        json!(["ContactAdded", command, contact, null, 1]),
        json!(["EmployeeAdded", command, alex, null, 1]),
        json!(["SignedIn", contact, null, local, 1]),
        json!(["SignInRefused", null, name, local, 3]),
        json!(["SignedIn", alex, null, local, 1]),
        json!(["PayloadRead", alex, first, local, 1]),
        json!(["DeliveryResent", alex, first, local, 1]),
        json!(["ResendStarted", alex, many, local, many_count]),
        json!(["ResendStopped", alex, many, local, many_count]),
        json!(["DeadLettersSetAside", alex, "webhook default/orders", local, 2]),
        json!(["SetAsideUndone", alex, "webhook default/orders", local, 2]),
        json!(["DeliveryResent", command, second, null, 1]),
        json!(["ResendStarted", command, by_command, null, command_count]),
        json!(["ResendStopped", command, by_command, null, command_count]),
        json!(["PasswordChanged", command, contact, null, 1]),
        json!(["PasswordChanged", command, alex, null, 1]),
        json!(["SignedOut", command, contact, null, 1]),
        json!(["SignedOut", command, alex, null, 1]),
    ];
    assert!(many_count.as_i64() >= Some(1) && command_count.as_i64() >= Some(1));
    let brief = |entry: &Value| {
        json!([entry["event"], entry["actor"], entry["subject"], entry["address"], entry["count"]])
    };
    let mut found: Vec<Value> = rows.values().map(brief).collect();
    for list in [&mut expected, &mut found] {
        list.sort_by_key(Value::to_string);
    }
    assert_eq!(found, expected);

    // The stream has the same entries of this process as the rows.
    let of_process: Vec<&Value> =
        rows.values().filter(|row| row["actor"].as_str() != Some(&command)).collect();
    assert_eq!(lines.len(), of_process.len(), "{lines:#?}");
    for row in of_process {
        assert!(lines.contains(row), "{row} is not in {lines:#?}");
        let has_id = row["requestId"].as_str().is_some_and(|id| id.len() == 20);
        assert!(has_id || row["event"] == "SignInRefused", "{row}");
    }
    let read_id = read.headers["x-request-id"].clone();
    assert!(lines.iter().any(|line| line["event"] == "PayloadRead" && line["requestId"] == read_id.as_str()));

    let listed = stage.command(&["audit", "list", "--limit", "1000"], "").expect("a list");
    assert_eq!(listed.lines().count(), 1 + rows.len(), "{listed}");
    let reads = stage.command(&["audit", "list", "--event", "PayloadRead"], "").expect("a list");
    assert!(reads.lines().count() == 2 && reads.contains(&first) && reads.contains(&read_id), "{reads}");
    for (actor, found) in [(&*alex, 10), ("employee none", 0)] {
        let entries = stage.command(&["audit", "list", "--person", actor, "-o", "json"], "").expect("a list");
        let entries: Value = serde_json::from_str(&entries).expect("JSON");
        assert_eq!(entries["entries"].as_array().map(Vec::len), Some(found), "{entries}");
    }
    let of_webhook = stage.command(&["audit", "list", "--webhook", "default/orders"], "").expect("a list");
    assert!(of_webhook.lines().count() == 3 && of_webhook.contains("SetAsideUndone"), "{of_webhook}");
    for none in [["--from", "2999-01-01"], ["--to", "2020-01-01"]] {
        let listed = stage.command(&[&["audit", "list"][..], &none].concat(), "").expect("a list");
        assert_eq!(listed, "No entries.\n", "{none:?}");
    }
    let wrong = stage.command(&["audit", "list", "--event", "Read"], "").expect_err("no such event");
    assert!(wrong.contains("must be one of SignedIn, SignInRefused"), "{wrong}");

    let stream = std::fs::read_to_string(stage.home.log("audit.log")).expect("a stream");
    let all = format!("{stream}{listed}{}", Value::from_iter(rows.clone()));
    for secret in [NAME, "canary", WRONG, PASSWORD, CAPTION, "Zqalex", USER, &ada.token, &api_key('a')] {
        assert!(!all.to_lowercase().contains(&secret.to_lowercase()), "{secret} is in {all}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_refused_sign_ins_makes_few_entries() {
    let stage = Stage::new().await;
    let api = audited(&stage, "--trusted-proxy 127.0.0.0/8").await;
    const GUESSES: i64 = 2_000;
    for number in 0..GUESSES {
        let status = guess(&api, &format!("{number}-{NAME}")).await;
        assert!([404, 429].contains(&status), "{status}");
    }
    api.terminate().await;
    let (rows, lines) = (rows(&stage).await, lines(&stage));
    let refused: Vec<&Value> = rows.values().filter(|row| row["event"] == "SignInRefused").collect();
    // The sign-ins are in one window, or in two on a slow machine.
    assert!((21..=63).contains(&refused.len()), "{} entries", refused.len());
    assert_eq!(refused.iter().filter_map(|row| row["count"].as_i64()).sum::<i64>(), GUESSES);
    assert_eq!(lines.len(), refused.len());
    // Each entry has the address that the proxy names; the names beyond the bound are one entry.
    assert!(refused.iter().all(|row| row["address"] == "198.51.100.7"));
    let nameless = refused.iter().filter(|row| row["subject"].is_null()).count();
    assert!((1..=3).contains(&nameless), "{nameless}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_without_its_table_fails_no_sign_in_and_the_stream_has_the_entry() {
    let stage = Stage::new().await;
    let api = audited(&stage, "").await;
    let database = postgres::client(&stage.database).await;
    database.batch_execute("DROP TABLE audit").await.expect("a statement");
    let ada = sign_in(&api).await;
    assert_eq!(ada.get("/Orders/Search").await.status, 200);
    stage.logs("audit entries were not stored").await;
    assert_eq!(api.metric("docket_audit_lost_total{what=\"row\"}").await, 1.0);
    api.terminate().await;
    let events: Vec<Value> = lines(&stage).iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events, ["SignedIn"]);
}
