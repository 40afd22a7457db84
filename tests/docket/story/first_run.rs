//! The new user's story: start it, paste what it prints, see the deliveries; stop it, start it again.

use std::process::Command;
use std::time::Duration;

use docket_tests::server::eventually;
use serde_json::Value;

use super::example::{self, Running, printed};

/// Runs what was printed, as printed, in one bash; returns what each command wrote.
fn paste(commands: &[&str]) -> Vec<String> {
    const BETWEEN: &str = "--- next ---";
    let script: String =
        commands.iter().map(|command| format!("{command}\necho; echo '{BETWEEN}'\n")).collect();
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output().expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{commands:#?}\n{text}\n{errors}");
    text.split(BETWEEN).map(|part| part.trim().to_owned()).collect()
}

/// The printed commands are the indented lines after "Try it".
fn commands(banner: &str) -> Vec<&str> {
    let after = banner.split_once("Try it").expect("the banner says what to try").1;
    after.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn what_it_prints_works_as_pasted() {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let commands = commands(&running.banner);
    let [token, draft, export, list] = commands[..] else { panic!("four commands: {commands:#?}") };

    let answers = paste(&[token, "echo \"$TOKEN\"", draft, export]);
    assert_eq!(answers[1].split('.').count(), 3, "a JWT: {}", answers[1]);
    let (draft, exported) = (json(&answers[2]), json(&answers[3]));
    assert_eq!((&draft["created"], &draft["status"]), (&true.into(), &"Draft".into()), "{draft}");
    assert_eq!((&exported["created"], &exported["status"]), (&true.into(), &"Exported".into()), "{exported}");
    assert!(exported["workOrderId"].is_string(), "{exported}");

    // One delivery for the draft, two for the order that was exported at once, live on standard output.
    let verified = |code: &str| {
        printed(&home)
            .lines()
            .filter(|line| {
                line.contains(code) && line.contains("→ 200") && line.contains("signature verified")
            })
            .count()
    };
    eventually("deliveries are shown", Duration::from_secs(10), async || {
        verified("order.created") == 2 && verified("order.exported") == 1
    })
    .await;
    eventually("deliveries are listed", Duration::from_secs(5), async || {
        let table = paste(&[list]).swap_remove(0);
        let rows = |words: [&str; 3]| {
            table.lines().filter(|row| words.iter().all(|word| row.contains(word))).count()
        };
        rows(["order.created", "Succeeded", "1/5"]) == 2 && rows(["order.exported", "Succeeded", "1/5"]) == 1
    })
    .await;
}

#[tokio::test]
async fn a_restart_keeps_keys_and_orders() {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let keys = ["ACME", "GLOBEX"].map(|code| running.key(code));
    assert_ne!(keys[0], keys[1]);
    let client = running.sign_in().await;
    let saved = client.post("/Orders/Save", &serde_json::json!({"orderType": "Court"})).await.json();
    assert!(running.server.terminate().await.success());
    assert!(printed(&home).contains("Stopping"));

    let running = Running::start(&home, receiver, "").await;
    assert_eq!(["ACME", "GLOBEX"].map(|code| running.key(code)), keys);
    // The earlier token is valid, too: the key that signs tokens is kept.
    let client = docket_tests::server::Client { api: running.server.api, ..client };
    let found = client.get("/Orders/Search?status=Draft").await.json();
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found["items"][0]["webOrderId"], saved["webOrderId"]);
    assert_eq!(running.sign_in().await.get("/Orders/Search").await.status, 200);
}

#[tokio::test]
async fn a_second_one_on_the_same_folder_says_what_is_wrong() {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let (done, text) = home.command(&["dev", "--no-receiver", "--listen", "127.0.0.1:0"], "");
    assert!(!done, "{text}");
    assert!(text.contains(home.data().to_str().expect("a plain path")), "{text}");
    drop(running);
}
