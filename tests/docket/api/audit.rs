//! The audit of `docket dev`.

use docket_tests::people::ADA;
use docket_tests::server::eventually;
use serde_json::{Value, json};

use super::rig::{Rig, home};

/// The lines of JSON on standard output, beside what is for people.
fn lines(rig: &Rig) -> Vec<Value> {
    let text = std::fs::read_to_string(rig.home.log("out")).expect("its output");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn sign_in_is_on_standard_output_at_once_and_soon_a_row() {
    let rig = Rig::with("", "--audit-log -").await;
    rig.ada().await;
    let wrong = json!({"userId": ADA, "password": "not-the-password"});
    assert_eq!(rig.sign_in("/Auth/Token", &wrong).await.status, 404);
    let soon = std::time::Duration::from_secs(10);
    eventually("its line", soon, async || !lines(&rig).is_empty()).await;
    let line = lines(&rig).remove(0);
    let brief = ["event", "tenant", "actor", "address"].map(|field| line[field].clone());
    assert_eq!(brief, ["SignedIn", "ACME", "contact 11", "127.0.0.1"]);
    eventually("its row", soon, async || rig.count("SELECT count(*) FROM audit") == 1).await;
    let Rig { server, home, log } = rig;
    server.terminate().await;
    let database = home.open("ACME");
    let refused =
        "SELECT count FROM audit WHERE event = 'SignInRefused' AND actor IS NULL AND subject LIKE 'name %'";
    assert_eq!(database.get::<i64>(refused), 1, "it is stored at the end, before its minute ends");
    let id = line["id"].as_str().expect("an id");
    assert_eq!(database.rows("SELECT id FROM audit WHERE id = ?1", &[id]).len(), 1);
    drop(log);
}

#[tokio::test]
async fn stream_that_cannot_be_opened_is_an_error_at_start() {
    let home = home(&[("acme", 'a')], "");
    let (config, data) = (home.config().display().to_string(), home.data().display().to_string());
    let folders = ["--config-dir", &config, "--data-dir", &data];
    let ports = ["--listen", "127.0.0.1:0", "--management", "127.0.0.1:0", "--no-receiver"];
    let flags = ["dev", "--audit-log", "/nowhere/audit.log"];
    let (done, text) = home.command_alone(&[&flags[..], &folders, &ports].concat());
    assert!(!done && text.contains("error: --audit-log /nowhere/audit.log can't be written"), "{text}");
}
