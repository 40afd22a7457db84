//! The command line, beside a `docket dev` that runs on the same files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_tests::people::ADA;
use docket_tests::receiver::{Receiver, Response, ca_yaml};
use docket_tests::server::{
    Home, Options, PASSWORD, Server, api_key, binary, eventually, tenant_yaml, webhook_yaml,
};
use serde_json::{Value, json};

use super::rig::{Rig, captioned, home, save};
use crate::delivery::stage::{self, FAST, SOON, Webhook};

/// The arguments of `docket contacts add` for ACME's customer C-1.
fn contact<'a>(email: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let arguments =
        ["contact", "add", "--tenant", "ACME", "--customer", "C-1", "--email", email, "--name", "Cy Three"];
    [&arguments[..], more].concat()
}

#[track_caller]
fn fails(home: &Home, arguments: &[&str], input: &str, message: &str) {
    let (done, text) = home.command(arguments, input);
    assert!(!done && text.contains(message), "{arguments:?}: {text}");
}

#[tokio::test]
async fn people_added_while_it_runs_can_sign_in() {
    let rig = Rig::start().await;
    rig.home.add_contact("ACME", "C-9", "cy@three.example");
    rig.home.add_employee("acme", "di.four", true);
    let cy = rig.server.sign_in(&api_key('a'), "cy@three.example").await;
    save(&cy, &captioned("by cy")).await;
    let di = rig.server.sign_in_employee(&api_key('a'), "di.four").await;
    let got = di.get("/Orders/Get?webOrderId=W00000001").await.json();
    assert_eq!(got["customerCode"], "C-9");
}

#[tokio::test]
async fn another_password_ends_the_tokens_and_the_old_password() {
    let rig = Rig::start().await;
    let (ada, alex) = (rig.ada().await, rig.alex().await);
    let set = ["contact", "set-password", "--tenant", "ACME", "--email", "ADA@one.example"];
    let done = "Contact 11 of tenant ACME has another password: its tokens end within 5 s.\n";
    assert_eq!(rig.home.command(&set, "another-password\n"), (true, done.to_owned()));
    eventually("its token ends", Duration::from_secs(10), async || {
        ada.get("/Orders/Search").await.status == 401
    })
    .await;
    for (password, status) in [(PASSWORD, 404), ("another-password", 200)] {
        let body = json!({"userId": ADA, "password": password});
        assert_eq!(rig.sign_in("/Auth/Token", &body).await.status, status, "{password}");
    }
    assert_eq!(alex.get("/Orders/Search").await.status, 200);
    fails(&rig.home, &set, "short", "the password must have 8 to 256 characters");
    let stranger = ["employee", "set-password", "--tenant", "ACME", "--user", ADA];
    fails(&rig.home, &stranger, "", "the tenant has no employee that signs in as ada@one.example");
    let body = json!({"userId": ADA, "password": "another-password"});
    assert_eq!(rig.sign_in("/Auth/Token", &body).await.status, 200, "what was refused changed nothing");
}

#[tokio::test]
async fn who_is_not_there_is_not_signed_out() {
    let home = home(&[("acme", 'a')], "");
    let contact = ["contact", "sign-out", "--tenant", "ACME", "--email", "no@one.example"];
    fails(&home, &contact, "", "the tenant has no contact that signs in as no@one.example");
    let employee = ["employee", "sign-out", "--tenant", "ACME", "--user", ADA];
    fails(&home, &employee, "", "the tenant has no employee that signs in as ada@one.example");
    let done = "Employee 51 of tenant ACME is signed out: its tokens end within 5 s.\n";
    let mo = ["employee", "sign-out", "--tenant", "ACME", "--user", "MO.ITO"];
    assert_eq!(home.command(&mo, ""), (true, done.to_owned()));
}

#[test]
fn command_takes_the_webhooks_that_the_platforms_limits_leave() {
    let webhook = |name| webhook_yaml("acme", name, "C-1", "https://receiver.example/");
    let home = home(&[("acme", 'a')], &(webhook("one") + &webhook("two")));
    let limits = home.log("limits.yaml");
    std::fs::write(&limits, "maxima: {webhooks: 1}").expect("writable");
    let limits = limits.display().to_string();
    let taken = |flags: &[&str]| {
        let names = ["default/one", "default/two"].into_iter();
        let resend = ["deliveries", "resend", "--tenant", "ACME", "--webhook"];
        names.filter(|name| home.command(&[&resend, &[*name][..], flags].concat(), "").0).count()
    };
    assert_eq!(taken(&[]), 2);
    assert_eq!(taken(&["--tenant-limits", &limits]), 1);
}

#[tokio::test]
async fn users_are_listed_and_their_rights_change_at_once() {
    let rig = Rig::start().await;
    let done = |arguments: &[&str]| {
        let (done, text) = rig.home.command(&[arguments, &["--tenant", "ACME"]].concat(), "");
        assert!(done, "{arguments:?}: {text}");
        text
    };
    let ada = rig.ada().await;
    assert_eq!(
        done(&["contacts", "grant", "--email", ADA]),
        "Contact 11 of tenant ACME manages the webhooks of its customer.\n"
    );
    let listed = json_of(&rig.home, &["contacts", "list", "--customer", "C-1", "--limit", "1"]);
    assert_eq!(
        (&listed["contacts"][0]["email"], &listed["contacts"][0]["managesWebhooks"]),
        (&json!(ADA), &json!(true))
    );
    assert!(done(&["contacts", "list"]).contains("E-MAIL"));
    for people in ["contacts", "employees"] {
        let more = |limit| json_of(&rig.home, &[people, "list", "--limit", limit])["more"].clone();
        assert_eq!(["1", "1000"].map(more), [json!(true), json!(false)], "{people}");
    }
    done(&["contacts", "revoke", "--email", ADA]);
    let ended = done(&["contacts", "deactivate", "--email", ADA]);
    assert_eq!(ended, "Contact 11 of tenant ACME is deactivated: its tokens end within 5 s.\n");
    eventually("its token ends", Duration::from_secs(10), async || {
        ada.get("/Orders/Search").await.status == 401
    })
    .await;
    let body = json!({"userId": ADA, "password": PASSWORD});
    assert_eq!(rig.sign_in("/Auth/Token", &body).await.status, 404);
    done(&["contacts", "activate", "--email", ADA]);
    assert_eq!(rig.sign_in("/Auth/Token", &body).await.status, 200);
    assert_eq!(ada.get("/Orders/Search").await.status, 401, "the token of before stays ended");

    let alex = rig.alex().await;
    assert_eq!(alex.get("/WebhookLogs/Search").await.status, 200);
    done(&["employees", "revoke", "--user", docket_tests::people::ALEX]);
    assert_eq!(alex.get("/WebhookLogs/Search").await.status, 403);
    let listed = json_of(&rig.home, &["employees", "list"]);
    let all = listed["employees"].as_array().expect("a list");
    let one = all.iter().find(|one| one["user"] == docket_tests::people::ALEX).expect("it is listed");
    assert_eq!((&one["administrator"], &one["active"]), (&json!(false), &json!(true)), "{listed}");

    let entries = json_of(&rig.home, &["audit", "list"]);
    let events: Vec<&str> = entries["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["event"].as_str())
        .collect();
    for event in ["RightGranted", "RightRevoked", "UserDeactivated", "UserActivated"] {
        assert!(events.contains(&event), "{event}: {events:?}");
    }
}

#[test]
fn what_is_declared_is_listed_without_secrets() {
    let home = home(&[("acme", 'a')], &webhook_yaml("acme", "orders", "C-1", "https://receiver.example/"));
    let (done, text) = home.command(&["tenants", "list", "-o", "json"], "");
    assert!(done, "{text}");
    let tenants: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&tenants["tenants"][0]["clientCode"], &tenants["tenants"][0]["webhooks"]),
        (&json!("ACME"), &json!(1))
    );
    let webhooks = json_of(&home, &["webhooks", "list"]);
    let one = &webhooks["webhooks"][0];
    assert_eq!(
        [&one["webhook"], &one["customerCode"], &one["state"], &one["targetUrl"]],
        [&json!("default/orders"), &json!("C-1"), &json!("active"), &json!("https://receiver.example/")]
    );
    let (_, text) = home.command(&["webhooks", "list", "--tenant", "ACME"], "");
    assert!(text.contains("default/orders") && text.contains("active"), "{text}");
}

#[test]
fn webhook_that_is_inactive_or_not_served_is_listed_as_such() {
    let hook = |name: &str| webhook_yaml("acme", name, "C-1", "https://receiver.example/");
    let held = hook("held").replace("acme-signing", "no-such-secret");
    let home = home(&[("acme", 'a')], &(hook("orders") + &hook("idle") + "  active: false\n" + &held));
    let webhooks = json_of(&home, &["webhooks", "list"]);
    let shown = |one: &Value| {
        let text = |name: &str| one[name].as_str().expect("a text").to_owned();
        (text("webhook"), text("state"), one["signed"].as_bool(), one["faults"] == json!([]))
    };
    let mut listed: Vec<_> = webhooks["webhooks"].as_array().expect("a list").iter().map(shown).collect();
    listed.sort();
    let line =
        |name: &str, state: &str, signed, is_well| (name.to_owned(), state.to_owned(), signed, is_well);
    let expected = [
        line("default/held", "not served", None, false),
        line("default/idle", "inactive", Some(true), true),
        line("default/orders", "active", Some(true), true),
    ];
    assert_eq!(listed, expected);
}

/// A command that continues until it is dropped.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn list_that_is_followed_shows_each_change_once() {
    let receiver = Receiver::verifying(|_| Response::Status(200)).await;
    let hook = Webhook::new("orders", receiver.url("/hook"));
    let (home, _server, client) = stage::stage(&[hook], FAST).await;
    let out = home.log("followed");
    let command = Command::new(binary())
        .args(["deliveries", "list", "--tenant", "ACME", "--follow", "-o", "json"])
        .env("DOCKET_CONFIG_DIR", home.config())
        .env("DOCKET_DATA_DIR", home.data())
        .stdout(File::create(&out).expect("writable"))
        .spawn();
    let _following = Following(command.expect("the binary starts"));
    let shown = || {
        let text = std::fs::read_to_string(&out).expect("it is there");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line =
            |line: Value| format!("{} {} {}", line["deliveryId"], line["status"], line["attemptCount"]);
        lines.map(line).collect::<Vec<String>>()
    };
    // Each is shown by another read of the list.
    for count in 1..=3 {
        stage::save(&client).await;
        eventually("the delivery is shown", SOON, async || {
            shown().iter().filter(|line| line.contains("Succeeded")).count() >= count
        })
        .await;
    }
    let all = shown();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
}

#[tokio::test]
async fn what_was_added_is_said() {
    let home = home(&[("acme", 'a')], "");
    let add = ["customer", "add", "--tenant", "ACME", "--code", "C-9", "--name", "Nine"];
    assert_eq!(home.command(&add, ""), (true, "Customer C-9 added to tenant ACME.\n".to_owned()));
    let (done, text) = home.command(&contact("cy@three.example", &[]), &format!("{PASSWORD}\n"));
    let expected = "Contact 1001 added to customer C-1 of tenant ACME; it signs in as cy@three.example.\n";
    assert_eq!((done, text.as_str()), (true, expected));
    let (done, text) = home.command(&contact("dee@three.example", &["--code", "own"]), PASSWORD);
    assert!(done && text.starts_with("Contact own added"), "{text}");
}

#[tokio::test]
async fn what_was_added_or_changed_is_printed_as_json() {
    let home = home(&[("acme", 'a')], "");
    let printed = |words: &[&str]| -> Value {
        let words = [words, &["--tenant", "ACME", "-o", "json"]].concat();
        let (done, text) = home.command(&words, PASSWORD);
        assert!(done, "{words:?}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let customer = printed(&["customers", "add", "--code", "C-9", "--name", "Nine"]);
    assert_eq!(customer, json!({"customerCode": "C-9", "name": "Nine"}));
    let cy = "cy@three.example";
    let add = [
        "contacts",
        "add",
        "--customer",
        "C-9",
        "--email",
        cy,
        "--name",
        "Cy",
        "--code",
        "own",
        "--webhooks",
    ];
    let added = printed(&add);
    let contact = json!({"contactCode": "own", "customerCode": "C-9", "email": cy, "name": "Cy", "managesWebhooks": true, "active": true});
    assert_eq!(added, contact);
    assert_eq!(printed(&["contacts", "list", "--customer", "C-9"])["contacts"], json!([contact]));
    let added = printed(&["employees", "add", "--user", "di.four", "--name", "Di"]);
    let code = added["employeeCode"].clone();
    let employee = json!({"employeeCode": code, "user": "di.four", "name": "Di", "administrator": false, "active": true});
    assert!(code.is_string() && added == employee, "{added}");
    let listed = printed(&["employees", "list"]);
    assert!(listed["employees"].as_array().expect("a list").contains(&employee), "{listed}");
    for (command, event) in [
        ("set-password", "PasswordChanged"),
        ("sign-out", "SignedOut"),
        ("grant", "RightGranted"),
        ("revoke", "RightRevoked"),
        ("deactivate", "UserDeactivated"),
        ("activate", "UserActivated"),
    ] {
        let changed = printed(&["contacts", command, "--email", cy]);
        assert_eq!(changed, json!({"contactCode": "own", "event": event}), "{command}");
        let changed = printed(&["employees", command, "--user", "di.four"]);
        assert_eq!(changed, json!({"employeeCode": code, "event": event}), "{command}");
    }
}

#[tokio::test]
async fn duplicates_are_refused_with_what_to_change() {
    let home = home(&[("acme", 'a')], "");
    let add = ["customer", "add", "--tenant", "ACME", "--code", "C-1", "--name", "One"];
    fails(&home, &add, "", "has a customer C-1 already; choose another --code");
    fails(&home, &contact(ADA, &[]), PASSWORD, "already; choose another --email or --code");
    fails(&home, &contact(&ADA.to_uppercase(), &[]), PASSWORD, "already; choose another --email or --code");
    fails(
        &home,
        &contact("new@x.example", &["--code", "11"]),
        PASSWORD,
        "already; choose another --email or --code",
    );
    let add = ["employee", "add", "--tenant", "ACME", "--user", "Mo.Ito", "--name", "Mo"];
    fails(&home, &add, PASSWORD, "has an employee with this check-in name already; choose another --user");
}

#[tokio::test]
async fn a_contact_needs_a_customer_and_a_password() {
    let home = home(&[("acme", 'a')], "");
    let elsewhere =
        ["contact", "add", "--tenant", "ACME", "--customer", "C-7", "--email", "x@y.example", "--name", "X"];
    fails(&home, &elsewhere, PASSWORD, "has no customer C-7; add it first with `docket customers add`");
    let long = "x".repeat(257);
    for password in ["", "\n", "short", "1234567\n", "tab\tin-it-here", &long] {
        fails(&home, &contact("x@y.example", &[]), password, "the password must have 8 to 256 characters");
    }
    for email in ["x", "x@y", "@y.example", "x y@z.example", ""] {
        fails(&home, &contact(email, &[]), PASSWORD, "--email");
    }
}

#[tokio::test]
async fn a_password_is_never_an_argument() {
    let home = home(&[("acme", 'a')], "");
    fails(&home, &contact("x@y.example", &["--password", PASSWORD]), "", "unexpected argument '--password'");
    let (done, text) = home.command(&contact("x@y.example", &[]), &format!("{PASSWORD}\r\nanother line\n"));
    assert!(done && !text.contains(PASSWORD), "{text}");
    let rig = Rig::on(home, "").await;
    rig.server.sign_in(&api_key('a'), "x@y.example").await;
}

#[tokio::test]
async fn an_unknown_tenant_is_refused_and_the_known_ones_are_named() {
    let home = home(&[("acme", 'a'), ("blue", 'b')], "");
    let add = ["customer", "add", "--tenant", "NOPE", "--code", "C-1", "--name", "One"];
    fails(&home, &add, "", "no tenant with clientCode NOPE");
    fails(&home, &add, "", "there are: ACME, BLUE");
    fails(&home, &["deliveries", "list", "--tenant", "NOPE"], "", "no tenant with clientCode NOPE in ");
}

/// The fields of the last delivery in a table.
fn last_row(text: &str) -> Vec<String> {
    let row = text.lines().rfind(|line| line.contains("order.")).unwrap_or_default();
    row.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_dead_delivery_is_listed_shown_and_sent_again() {
    let port = free_port();
    let home = home(&[("acme", 'a')], "");
    let receiver = Receiver::verifying(|_| Response::Status(200)).await;
    let at = format!("https://127.0.0.1:{port}/");
    let rig = Rig::on(home, "--allow-egress 127.0.0.1/32 --backoff-base 1ms --poll-interval 100ms").await;
    let command = |arguments: &[&str]| rig.home.command(arguments, "");
    let (_, none) = command(&["deliveries", "list", "--tenant", "ACME"]);
    assert_eq!(none, "No delivery matches.\n");

    rig.home.write("more.yaml", &webhook_yaml("acme", "orders", "C-1", &at));
    eventually("the webhook is served", Duration::from_secs(5), async || {
        save(&rig.ada().await, &captioned("x")).await;
        !rig.events().is_empty()
    })
    .await;
    let mut row = Vec::new();
    eventually("a dead letter", Duration::from_secs(10), async || {
        let (done, text) = command(&["deliveries", "list", "--tenant", "acme", "--status", "DeadLetter"]);
        assert!(done, "{text}");
        row = last_row(&text);
        text.contains("DeadLetter")
    })
    .await;
    // CREATED(2) EVENT ABOUT WEBHOOK STATUS ATTEMPTS LAST DELIVERY
    assert_eq!(
        (row[2].as_str(), row[4].as_str(), row[6].as_str()),
        ("order.created", "default/orders", "5/5")
    );
    assert_eq!(row[7], "Refused");
    let (id, about) = (row[8].clone(), row[3].clone());
    let (_, shown) = command(&["deliveries", "show", "--tenant", "ACME", &id]);
    assert_eq!(shown.matches("\n    attempt ").count(), 5, "{shown}");
    for part in
        [&format!("delivery {id}"), "DeadLetter after 5 of 5 attempts", "what to do: ", "customer C-1"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (_, by_order) =
        command(&["deliveries", "list", "--tenant", "ACME", "--about", &about, "--limit", "1"]);
    assert_eq!(last_row(&by_order), row);

    let webhook = receiver.webhook_yaml("acme", "orders", "C-1", "/again");
    rig.home.write("more.yaml", &(ca_yaml() + &webhook));
    // A resend to the old address may be dead before the new one is served.
    let mut new = String::new();
    eventually("the event arrives", Duration::from_secs(10), async || {
        let (done, text) = command(&["deliveries", "resend", "--tenant", "ACME", &id]);
        if text.contains("is being sent to this webhook already") {
            return receiver.count() > 0;
        }
        assert!(done && text.ends_with("queued; a running `docket dev` sends it now.\n"), "{text}");
        new = text.split_whitespace().nth(1).expect("an id").to_owned();
        tokio::time::sleep(Duration::from_millis(300)).await;
        receiver.count() > 0
    })
    .await;
    eventually("it is recorded", Duration::from_secs(5), async || {
        let (_, shown) = command(&["deliveries", "show", "--tenant", "ACME", &new]);
        // The first attempts of the delivery may have gone to the old address.
        shown.contains(&format!("resend of {id}")) && shown.contains("Succeeded after")
    })
    .await;
}

/// What a command prints, as JSON.
#[track_caller]
fn json_of(home: &Home, arguments: &[&str]) -> Value {
    let (done, text) = home.command(&[arguments, &["--tenant", "ACME", "-o", "json"]].concat(), "");
    assert!(done, "{arguments:?}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_printed_as_json_with_the_fields_of_the_api() {
    let receiver = Receiver::verifying(|_| Response::Status(200)).await;
    let home = home(&[("acme", 'a')], &(ca_yaml() + &receiver.webhook_yaml("acme", "orders", "C-1", "/")));
    let rig = Rig::on(home, "--allow-egress 127.0.0.1/32 --poll-interval 100ms").await;
    save(&rig.ada().await, &captioned("x")).await;
    let mut listed = json!(null);
    eventually("it is delivered", Duration::from_secs(10), async || {
        listed = json_of(&rig.home, &["deliveries", "list", "orders"]);
        listed["deliveries"][0]["status"] == "Succeeded"
    })
    .await;
    assert_eq!((&listed["more"], listed["deliveries"].as_array().map(Vec::len)), (&json!(false), Some(1)));
    let found = rig.alex().await.get("/WebhookLogs/Search").await.json();
    assert_eq!(listed["deliveries"], found["items"]);
    let id = found["items"][0]["deliveryId"].as_str().expect("an id");
    let order = found["items"][0]["webOrderId"].as_str().expect("an order");
    let event = found["items"][0]["eventId"].as_str().expect("an event");
    let (lower, upper, other) = (order.to_lowercase(), event.to_uppercase(), "0".repeat(32));
    for (filter, count) in [
        (["--find", lower.as_str()], 1),
        (["--find", upper.as_str()], 1),
        (["--about", order], 1),
        (["--find", "W9"], 0),
        (["--delivery-id", id], 1),
        (["--customer", "C-1"], 1),
        (["--customer", "C-2"], 0),
        (["--kind", "first"], 1),
        (["--kind", "resend"], 0),
        (["--resend-id", other.as_str()], 0),
        (["--class", "ServerError"], 0),
        (["--order", order], 1),
        (["--order", "W9"], 0),
        (["--work-order", "WO-9"], 0),
        (["--invoice", "INV-9"], 0),
    ] {
        let listed = json_of(&rig.home, &[&["deliveries", "list"][..], &filter[..]].concat());
        assert_eq!(listed["deliveries"].as_array().map(Vec::len), Some(count), "{filter:?}: {listed}");
    }
    for traced in [["trace", "delivery", id], ["trace", "order", order], ["trace", "event", upper.as_str()]] {
        let trace = json_of(&rig.home, &traced);
        assert_eq!(trace["order"]["webOrderId"], order, "{trace}");
        assert_eq!(trace["deliveries"][0]["deliveryId"], id, "{trace}");
        let event = &trace["events"][0];
        assert_eq!(event["eventId"], trace["deliveries"][0]["eventId"], "{trace}");
        assert_eq!((&event["webhooks"], &event["otherCustomers"]), (&json!([]), &json!(0)), "{trace}");
        let attempt = &trace["deliveries"][0]["attempts"][0];
        assert!(attempt["outcome"] == "Succeeded" && attempt.get("responseBody").is_none(), "{trace}");
        assert!(trace["deliveries"][0].get("payload").is_none(), "{trace}");
    }
    let tested = json_of(&rig.home, &["test", "orders"]);
    assert_eq!(
        (&tested["delivery"]["isTest"], &tested["delivery"]["status"]),
        (&json!(true), &json!("Succeeded"))
    );
    let none = json!({"webhook": "default/orders", "probe": null, "resend": null, "stopped": null,
        "preview": {"count": 0, "total": 0, "oldest": null, "newest": null, "seconds": 0}});
    assert_eq!(json_of(&rig.home, &["resend", "orders"]), none);
    let aside = json_of(&rig.home, &["set-aside", "orders"]);
    assert_eq!((&aside["preview"]["count"], &aside["changed"]), (&json!(0), &json!(null)));
    assert_eq!(json_of(&rig.home, &["deliveries", "resends"]), json!({"resends": []}));
    let entries = json_of(&rig.home, &["audit", "list", "--event", "TestSent"]);
    let entry = &entries["entries"][0];
    assert_eq!((&entry["event"], &entry["tenant"]), (&json!("TestSent"), &json!("ACME")), "{entries}");
}

#[test]
fn completion_is_printed_for_a_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let (done, text) = Home::new().command(&["completion", shell], "");
        assert!(done && text.contains("set-aside"), "{shell}: {text}");
    }
    fails(&Home::new(), &["completion", "cmd"], "", "[possible values: bash");
}

#[tokio::test]
async fn only_an_ended_delivery_is_sent_again() {
    let home = home(&[("acme", 'a')], &webhook_yaml("acme", "orders", "C-1", "https://127.0.0.1:9/"));
    let rig = Rig::on(home, "").await;
    save(&rig.ada().await, &captioned("x")).await;
    let id: String = rig.database("ACME").get("SELECT id FROM delivery");
    fails(&rig.home, &["deliveries", "resend", "--tenant", "ACME", &id], "", "it is still being tried");
    let other = format!("{}0", &id[..id.len() - 1]);
    let other = if other == id { format!("{}1", &id[..id.len() - 1]) } else { other };
    for what in ["show", "resend"] {
        fails(&rig.home, &["deliveries", what, "--tenant", "ACME", &other], "", "the tenant has no delivery");
        fails(
            &rig.home,
            &["deliveries", what, "--tenant", "ACME", "nonsense"],
            "",
            "must be the id of a delivery",
        );
    }
    fails(
        &rig.home,
        &["deliveries", "list", "--tenant", "ACME", "--status", "Lost"],
        "",
        "[possible values: Pending, ",
    );
    fails(&rig.home, &["deliveries", "list", "--tenant", "ACME", "--limit", "0"], "", "--limit");
}

/// Returns what `docket dev` prints at these addresses, where it must fail.
fn ends(home: &Home, api: &str, management: &str) -> String {
    let arguments = ["dev", "--no-receiver", "--listen", api, "--management", management];
    let (done, text) = home.command(&arguments, "");
    assert!(!done, "{text}");
    text
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[tokio::test]
async fn a_data_folder_belongs_to_one_process() {
    let rig = Rig::start().await;
    let text = ends(&rig.home, &free_address(), &free_address());
    assert!(text.contains(&format!("another docket dev (process {})", rig.server.id())), "{text}");
    assert!(text.contains(&rig.home.data().display().to_string()) && text.contains("--data-dir"), "{text}");
    assert_eq!(rig.ada().await.get("/Orders/Search").await.status, 200, "the first one continues");
}

#[tokio::test]
async fn a_taken_port_is_said_with_its_flag() {
    let rig = Rig::start().await;
    let other = home(&[("acme", 'a')], "");
    let (api, management) = (rig.server.api.to_string(), rig.server.management.to_string());
    let text = ends(&other, &api, &free_address());
    assert!(text.contains(&api) && text.contains("--listen"), "{text}");
    let text = ends(&other, &free_address(), &management);
    assert!(text.contains(&management) && text.contains("--management"), "{text}");
}

#[test]
fn bad_flag_values_are_named() {
    let home = Home::new();
    for (flag, value) in [
        ("--listen", "8080"),
        ("--listen", "localhost"),
        ("--management", "127.0.0.1:99999"),
        ("--receiver", ""),
        ("--base-domain", "http://x"),
        ("--legacy-host", "a_b"),
        ("--allow-egress", "10.0.0.0/33"),
        ("--allow-egress", "everything"),
        ("--nat64-prefix", "10.0.0.0/8"),
        ("--nat64-prefix", "2001:db8:64::/95"),
        ("--nat64-prefix", "2001:db8:64::1/96"),
        ("--backoff-base", "30"),
        ("--backoff-base", "0s"),
        ("--poll-interval", "1d"),
        ("--attempt-timeout", "25h"),
        ("--delivery-retention", "999ms"),
        ("--delivery-retention", "30"),
        ("--log-format", "xml"),
    ] {
        fails(&home, &["dev", flag, value], "", flag);
    }
    fails(&home, &["dev", "--no-such-flag"], "", "--no-such-flag");
    fails(&home, &["nonsense"], "", "nonsense");
}

#[test]
fn help_shows_every_flag_with_its_variable_and_default() {
    let (done, help) = Home::new().command(&["dev", "--help"], "");
    assert!(done);
    // Each flag with its whole description.
    let flags: Vec<&str> =
        help.split("\n      --").skip(1).map(|flag| flag.split("\n  -h").next().expect("one")).collect();
    assert!(flags.len() >= 15, "{help}");
    for flag in flags {
        let name = flag
            .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-')
            .next()
            .expect("a name");
        let variable = format!("[env: DOCKET_{}=", name.to_uppercase().replace('-', "_"));
        assert!(flag.contains(&variable), "--{flag}");
        let is_switch = !flag.lines().next().expect("a line").contains('<');
        assert!(is_switch || flag.contains("[default: "), "--{flag}");
    }
}

#[test]
fn every_command_has_help() {
    let home = Home::new();
    for command in [
        "dev",
        "tenants list",
        "webhooks list",
        "customers",
        "customers add",
        "contacts add",
        "contacts list",
        "contacts grant",
        "employees add",
        "employees deactivate",
        "deliveries list",
        "deliveries resends",
        "trace",
        "resend",
        "set-aside",
        "test",
        "audit list",
        "completion",
        "listen",
        "trigger",
        "verify",
        "healthcheck",
        "licenses",
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let (done, text) = home.command(&arguments, "");
        assert!(done && text.contains(&format!("Usage: docket {command}")), "{command}: {text}");
    }
    let (done, text) = home.command(&["--version"], "");
    assert!(done && text.starts_with("docket "), "{text}");
}

#[tokio::test]
async fn a_health_check_says_what_each_answered() {
    let rig = Rig::start().await;
    let well = format!("http://{}/readyz", rig.server.management);
    let (done, text) = rig.home.command(&["healthcheck", "--url", &well], "");
    assert!(done && text == format!("{well}: 200\n"), "{text}");
    // A pod has the proxy of its cluster in its environment.
    let proxy = ["HTTP_PROXY", "http_proxy"].map(|name| (name, "http://127.0.0.1:9"));
    let more = [&proxy[..], &[("NO_PROXY", ""), ("no_proxy", "")]].concat();
    let (done, text) = rig.home.command_in(&["healthcheck", "--url", &well], "", &more);
    assert!(done, "the check goes to no proxy: {text}");
    let unreachable = format!("http://127.0.0.1:{}/readyz", free_port());
    let missing = format!("http://{}/nothing", rig.server.management);
    let (done, text) =
        rig.home.command(&["healthcheck", "--url", &unreachable, "--url", &well, "--url", &missing], "");
    assert!(!done && text.contains(&format!("{well}: 200")) && text.contains("404"), "{text}");
    assert!(text.contains("2 of 3 did not respond 200"), "{text}");
    let (done, text) = rig.home.command(&["healthcheck", "--url", &well, "-o", "json"], "");
    let checks: Value = serde_json::from_str(&text).expect("JSON");
    let expected = json!({"checks": [{"url": well, "healthy": true, "problem": null}]});
    assert_eq!((done, &checks), (true, &expected));
    let with_password = well.replace("http://", "http://ann:hunter2@");
    let (done, text) = rig.home.command(&["healthcheck", "--url", &with_password], "");
    assert!(done && text == format!("{well}: 200\n"), "{text}");
    let (done, text) = rig.home.command(&["healthcheck", "--url", &with_password, "-o", "json"], "");
    assert_eq!((done, serde_json::from_str::<Value>(&text).expect("JSON")), (true, expected));
    fails(&rig.home, &["healthcheck", "--url", "https://127.0.0.1/"], "", "must be an http:// URL");
    fails(&rig.home, &["healthcheck"], "", "--url");
}

#[test]
fn health_check_waits_for_a_server_that_is_not_ready_yet_only_if_asked_to() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/readyz", server.local_addr().expect("bound"));
    let answers = std::thread::spawn(move || {
        for status in ["503 Service Unavailable", "503 Service Unavailable", "200 OK"] {
            let (mut client, _) = server.accept().expect("a client");
            let mut request = [0; 1024];
            assert!(client.read(&mut request).expect("a request") > 0);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            client.write_all(answer.as_bytes()).expect("it reads");
        }
    });
    let home = Home::new();
    fails(&home, &["healthcheck", "--url", &url], "", "503");
    let (done, text) = home.command(&["healthcheck", "--url", &url, "--wait", "30s"], "");
    assert!(done && text == format!("{url}: 200\n"), "{text}");
    answers.join().expect("all were asked for");
}

#[test]
fn licenses_prints_the_text_of_each_license() {
    let (done, text) = Home::new().command(&["licenses"], "");
    assert!(done && text.contains("Apache License"), "{text}");
    for of in ["SQLite (", "Swagger UI (", "webpki-roots ", "GNU LESSER GENERAL PUBLIC LICENSE"] {
        assert!(text.contains(of), "{of}");
    }
}

#[tokio::test]
async fn settings_may_come_from_the_environment() {
    let options = Options {
        environment: vec![
            ("DOCKET_LEGACY_HOST".into(), "old.localhost".into()),
            ("DOCKET_BASE_DOMAIN".into(), "api.example".into()),
        ],
        ..Options::default()
    };
    let home = home(&[("acme", 'a')], "");
    let server = Server::start(&home, options).await;
    let body = super::rig::credentials(ADA).to_string();
    for (host, path, status) in [
        ("acme.api.example", "/Auth/Token", 200),
        ("acme.localhost", "/Auth/Token", 401),
        ("old.localhost", "/Session/Create", 400),
    ] {
        let reply = server.send("POST", path, &[("host", host), docket_tests::server::JSON], &body).await;
        assert_eq!(reply.status, status, "{host}: {reply:?}");
    }
}

#[tokio::test]
async fn sigterm_ends_it_in_order() {
    let rig = Rig::start().await;
    let Rig { server, home, .. } = rig;
    assert!(server.terminate().await.success());
    let said = std::fs::read_to_string(home.log("out")).expect("readable");
    assert!(said.contains("Stopping: "), "{said}");
}

#[tokio::test]
async fn generated_key_is_printed_when_it_is_new_and_not_with_each_edit() {
    let rig = Rig::start().await;
    let printed = |text: &str| {
        let out = std::fs::read_to_string(rig.home.log("out")).expect("it is there");
        out.matches(text).count()
    };
    let generated =
        tenant_yaml("acme", 'a').replace("  database:", "  - {name: web, generate: {}}\n  database:");
    rig.home.write("acme.yaml", &generated);
    eventually("the key is printed", SOON, async || printed("API key web: ") == 1).await;
    assert_eq!(
        (printed("1 tenant, no problems."), printed("API key primary")),
        (1, 0),
        "that one is declared"
    );
    rig.home.write("acme.yaml", &generated.replace("[acme]", "[acme, other]"));
    eventually("the next edit is followed", SOON, async || printed("was read again") == 2).await;
    assert_eq!(printed("API key web: "), 1);
}
