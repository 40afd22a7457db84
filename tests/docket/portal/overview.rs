//! The overview: what is lost comes before what is tried again, and nothing is left out without a word.

use docket_domain::delivery::Status;
use docket_rig::tenant_database::ended_sql;
use docket_tests::people::ALEX;
use docket_tests::server::eventually;
use docket_tests::stores;

use super::rig::Browser;
use crate::delivery::stage::{ONCE, SOON, Webhook, stage};
use crate::notices::lose;

const WEBHOOKS: usize = 13;

#[tokio::test]
async fn dead_letter_is_explained_before_retries_however_many_webhooks_fail() {
    let nowhere = |number: usize| {
        let name = if number == 0 { "zulu".to_owned() } else { format!("hook-{number}") };
        Webhook { trusting: false, ..Webhook::new(&name, "https://127.0.0.2:9/") }
    };
    let webhooks: Vec<Webhook> = (0..WEBHOOKS).map(nowhere).collect();
    let (home, server, client) = stage(&webhooks, ONCE).await;
    for _ in 0..2 {
        let order = serde_json::json!({"orderType": "Court"});
        assert_eq!(client.post("/Orders/Save", &order).await.status, 200);
    }
    let database = home.open("ACME");
    let failed = "SELECT count(*) FROM delivery WHERE status = 'Failed'";
    eventually("all have failed", SOON, async || database.get::<i64>(failed) == 2 * WEBHOOKS as i64).await;
    let one = "id = (SELECT min(id) FROM delivery_queue WHERE webhook_name = 'default/zulu')";
    database.change(&ended_sql(Status::DeadLetter, "1800000000000", one));

    let overview = Browser::signed_in(&server, "acme", ALEX).await.get("/portal").await;
    let text = overview.text();
    let lines: Vec<&str> = text.split("<article class=\"problem\">").skip(1).collect();
    assert_eq!(lines.len(), 10, "{text}");
    assert!(lines[0].contains(">default/zulu</a>") && lines[0].contains(">1 delivery is lost</a>"), "{text}");
    assert!(lines[0].contains("1 delivery is tried again"), "a webhook has one line: {text}");
    for line in &lines[1..] {
        assert!(line.contains("2 deliveries are tried again"), "{text}");
    }
    assert!(text.contains("The settings of 13 webhooks have a problem."), "{text}");
    assert!(text.contains("spec.targetURL: 127.0.0.2:9 is not an allowed address"), "{text}");
    assert!(
        text.contains("<a href=\"#webhooks\">And 3 more</a>") && text.contains("id=\"webhooks\""),
        "{text}"
    );
    let (_, table) = text.split_once("id=\"webhooks\"").expect("checked above");
    assert_eq!(table.matches("<th scope=\"row\">").count(), WEBHOOKS, "{text}");
    assert!(
        table.split("<th scope=\"row\">").nth(1).is_some_and(|row| row.contains("default/zulu")),
        "{text}"
    );
}

#[tokio::test]
async fn lost_deliveries_are_counted_in_the_chosen_period_alone() {
    let (home, server, _) = stage(&[Webhook::new("one", "https://127.0.0.1:9/")], ONCE).await;
    let database = home.open("ACME");
    for (number, minutes_ago) in [(1, 30), (2, 90), (3, 2 * 24 * 60), (4, 10 * 24 * 60)] {
        lose(&home, number);
        let ago_ms = minutes_ago * 60_000;
        database.change(&format!(
            "UPDATE delivery_history SET finished_at_ms = finished_at_ms - {ago_ms} WHERE id LIKE '%{number:012x}'"
        ));
    }
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    for (range, lost) in [("hour", 1), ("day", 2), ("week", 3), ("month", 4)] {
        let page = browser.get(&format!("/portal?range={range}")).await;
        assert!(
            page.text().contains(&format!("<h2>Lost</h2><b class=\"bad\">{lost}</b>")),
            "{range}: {page:?}"
        );
    }
}

#[tokio::test]
async fn settings_have_changed_only_if_that_was_after_the_last_failure_of_the_same_webhook() {
    let nowhere = |name: &str| Webhook::new(name, "https://127.0.0.1:9/");
    let (home, server, _) = stage(&[nowhere("one"), nowhere("two")], ONCE).await;
    let database = home.open("ACME");
    for (number, seconds_ago) in [(1, 600), (2, 20)] {
        lose(&home, number);
        database.change(&format!(
            "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, failure_class)
               SELECT id, 5, finished_at_ms - {seconds_ago}000, failure_class FROM delivery_history WHERE id LIKE '%{number:012x}'"
        ));
    }
    database.change(
        "UPDATE delivery_history SET webhook = 'default/two/C-1', webhook_name = 'default/two' WHERE id LIKE '%000000000002'",
    );
    // Both were changed between the two failures.
    for name in ["one", "two"] {
        database.change(&format!(
            "INSERT INTO audit (at_ms, id, event, subject, count)
               VALUES ({} - 300000, 'of-{name}', 'WebhookChanged', 'webhook default/{name}', 1)",
            stores::now_ms()
        ));
    }
    let overview = Browser::signed_in(&server, "acme", ALEX).await.get("/portal").await;
    let lines = overview.text().split("<article class=\"problem\">").skip(1);
    let lines: Vec<&str> = lines.filter_map(|line| line.split("</article>").next()).collect();
    assert_eq!(lines.len(), 2, "{overview:?}");
    for line in lines {
        let is_one = line.contains(">default/one</a>");
        assert_eq!(line.contains("Its settings have changed since"), is_one, "{line}");
    }
}
