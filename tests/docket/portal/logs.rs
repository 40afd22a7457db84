//! Webhook Logs: the list, a delivery and its resend, as HTML.

use docket_domain::signature;
use docket_tests::people::ALEX;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Home, SECRET, eventually};
use docket_tests::stores;

use super::rig::{Browser, hidden, is_protected};
use crate::api::rig::{Rig, captioned, save};
use crate::api::webhook_logs::{all_dead, dying, event_renamed, invalid_ids};
use crate::delivery::stage::{FAST, SOON, Webhook, stage};

/// What a receiver may answer, and a user may write.
const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"alert(3)";

fn count(home: &Home, sql: &str) -> i64 {
    home.open("ACME").get(sql)
}

/// The ids of the deliveries that a page links to, in order.
fn linked(page: &str) -> Vec<String> {
    let parts = page.split("href=\"/portal/logs/").skip(1);
    parts.map(|part| part.split('"').next().expect("a link").to_owned()).collect()
}

#[tokio::test]
async fn delivery_that_its_database_has_spoiled_has_a_page_that_says_so() {
    let rig = dying().await;
    save(&rig.ada().await, &captioned("x")).await;
    all_dead(&rig, 1).await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let [id] = &linked(browser.get("/portal/logs").await.text())[..] else { panic!("not one") };
    rig.change(&format!("UPDATE event SET body = {}", stores::bytes(b"{\xff")));
    let page = browser.get(&format!("/portal/logs/{id}")).await;
    assert!(page.status == 200 && page.text().contains("<pre id=\"raw\">{\u{fffd}</pre>"), "{page:?}");
    for event in invalid_ids() {
        event_renamed(&event).iter().for_each(|sql| rig.change(sql));
        assert_eq!(browser.get("/portal/logs").await.status, 200);
        let page = browser.get(&format!("/portal/logs/{id}")).await;
        is_protected(&page);
        let text = page.text();
        assert!(
            page.status == 200 && text.contains("<dt>Event id</dt><dd>invalid</dd>"),
            "{event:?}: {page:?}"
        );
        assert!(text.contains("Nothing is sent: ") && !text.contains("eventId="), "{event:?}: {text}");
        let form = [("csrf", &*hidden(&page, "csrf")), ("deliveryId", id)];
        let reply = browser.post("/portal/logs/resend", &form).await;
        assert!(reply.status == 409 && reply.text().contains("event is invalid"), "{event:?}: {reply:?}");
    }
}

#[tokio::test]
async fn administrator_finds_out_why_a_delivery_failed_and_resends_it() {
    let receiver = Receiver::verifying({
        let mut posts = 0;
        move |_| {
            posts += 1;
            match posts {
                1..=5 => Response::whole(503, "Content-Type: text/html\r\n", HOSTILE.as_bytes()),
                _ => Response::Status(200),
            }
        }
    })
    .await;
    let (home, server, client) = stage(&[Webhook::new("orders", receiver.url("/orders"))], FAST).await;
    let order = serde_json::json!({"orderType": "Court", "case": {"caption": HOSTILE}});
    assert_eq!(client.post("/Orders/Save", &order).await.status, 200);
    let dead = "SELECT count(*) FROM delivery WHERE status = 'DeadLetter'";
    eventually("it is a dead letter", SOON, async || count(&home, dead) == 1).await;

    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let overview = browser.get("/portal").await;
    is_protected(&overview);
    assert!(
        overview.text().contains("1 webhook needs attention")
            && overview.text().contains("Deliveries are lost")
    );
    let list = browser.get("/portal/logs?webhook=default%2Forders&status=DeadLetter").await;
    is_protected(&list);
    for part in [">Lost<", ">503<", ">5 of 5<", "<option value=\"default/orders\" selected>"] {
        assert!(list.text().contains(part), "{part}: {list:?}");
    }
    let [id] = &linked(list.text())[..] else { panic!("not one: {list:?}") };
    let page = browser.get(&format!("/portal/logs/{id}")).await;
    is_protected(&page);
    let text = page.text();
    for part in [
        "<h2 id=\"happened\">Your server answered 503 five times</h2>",
        "order.created to default/orders <span class=\"badge bad\">",
        "check when it is back.",
        "Then resend it, or set it aside.",
        "&lt;/pre&gt;&lt;script&gt;alert(1)",
        "<p class=\"said\">&lt;/pre&gt;",
        "<strong>Attempts 2 to 5</strong>",
        ">All deliveries about web order W00000001<",
        "Check the signature",
    ] {
        let part = part.replace("&#39;", "'");
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains("<script>") && !text.contains("<img") && !text.contains("\" onclick="));
    assert!(!text.contains(SECRET), "the secret is on the page");
    // Help, and more about the class.
    let documents: Vec<&str> =
        text.split("href=\"/docs/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(documents.len() >= 2, "{text}");
    for document in documents {
        let (path, anchor) = document.split_once('#').unwrap_or((document, ""));
        let found = browser.get(&format!("/docs/{path}")).await;
        assert_eq!(found.status, 200, "{document}");
        assert!(anchor.is_empty() || found.text().contains(&format!("id=\"{anchor}\"")), "{document}");
    }
    let post = &receiver.posts()[0];
    let body = std::str::from_utf8(&post.body).expect("JSON");
    assert!(text.contains(&signature::sign(SECRET.as_bytes(), body.as_bytes())), "{text}");
    assert!(text.contains(
        &body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    ));
    let reads = "SELECT count(*) FROM audit WHERE event = 'PayloadRead' AND actor = 'employee 52'";
    eventually("the reading is recorded", SOON, async || count(&home, reads) == 1).await;
    // The page reloads itself like this.
    assert_eq!(browser.get(&format!("/portal/logs/{id}")).await.status, 200);

    let form = [("csrf", &*hidden(&page, "csrf")), ("deliveryId", id)];
    let reply = browser.post("/portal/logs/resend", &form).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let resent = reply.headers["location"].clone();
    let (new, done) = resent.split_once('?').expect("a parameter");
    assert_ne!(new, format!("/portal/logs/{id}"));
    assert_eq!(done, "done=resent");
    eventually("it arrives", SOON, async || receiver.count() == 6).await;
    eventually("the resend succeeds", SOON, async || {
        browser.get(&resent).await.text().contains(">Delivered<")
    })
    .await;
    let page = browser.get(&resent).await;
    assert!(page.text().contains(&format!("<a href=\"/portal/logs/{id}\">")), "{page:?}");
    assert!(page.text().contains(", by <span title=\"employee 52\">Alex Admin</span>"), "{page:?}");
    assert!(
        page.text().contains("Resent. This is the new delivery") && page.text().contains(">a resend</span>"),
        "{page:?}"
    );
    // The page of the original delivery shows what became of it, and offers no action.
    let original = browser.get(&format!("/portal/logs/{id}")).await;
    let text = original.text();
    assert!(text.contains(&format!("<a href=\"{new}\">")) && text.contains("✓"), "{text}");
    assert!(text.contains("Lost, then resent"), "{text}");
    assert!(text.contains("A resend delivered the event; nothing needs to be done."), "{text}");
    assert!(!text.contains("Then resend") && !text.contains("/portal/logs/set-aside"), "{text}");
    let overview = browser.get("/portal").await;
    assert!(overview.text().contains("Everything arrives"), "{overview:?}");
    let webhooks = browser.get("/portal/webhooks").await;
    assert!(
        webhooks.text().contains("class=\"badge good\"") && !webhooks.text().contains("dead letter"),
        "{webhooks:?}"
    );
    assert_eq!(receiver.posts()[5].body, receiver.posts()[0].body);
    let activity = browser.get("/portal/activity?event=DeliveryResent&from=").await;
    is_protected(&activity);
    assert!(activity.text().contains(&format!("title=\"{id}\">Delivery …")), "{activity:?}");
    assert!(
        activity.text().contains(">Alex Admin</span>") && !activity.text().contains("title=\"SignedIn\"")
    );
    let wrong = browser.get("/portal/activity?event=Broken&from=2026-11-01").await;
    assert!(wrong.status == 400 && wrong.text().contains("href=\"#field-event\">What: "), "{wrong:?}");
    assert!(wrong.text().contains("value=\"2026-11-01\"") && !wrong.text().contains("No entry"), "{wrong:?}");
    eventually("two deliveries were read", SOON, async || count(&home, reads) == 2).await;
}

#[tokio::test]
async fn log_takes_every_filter_of_the_api_and_continues_at_a_cursor() {
    let nowhere = Webhook { trusting: false, ..Webhook::new("orders", "https://127.0.0.1:9/") };
    let flags = "--backoff-base 1ms --poll-interval 100ms";
    let (home, server, client) = stage(&[nowhere], flags).await;
    for _ in 0..3 {
        let order = serde_json::json!({"orderType": "Court"});
        assert_eq!(client.post("/Orders/Save", &order).await.status, 200);
    }
    let dead = "SELECT count(*) FROM delivery WHERE status = 'DeadLetter'";
    eventually("all are dead letters", SOON, async || count(&home, dead) == 3).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let one = |what: &str| home.open("ACME").get::<String>(&format!("SELECT {what} FROM delivery LIMIT 1"));
    let (event, delivery) = (one("event_id"), one("id"));
    let found = async |query: &str| {
        let reply = browser.get(&format!("/portal/logs?{query}")).await;
        assert_eq!(reply.status, 200, "{query}: {reply:?}");
        linked(reply.text()).len()
    };
    // A form sends its empty fields as well.
    let all = "find=&webhook=&customerCode=&result=&last=&httpStatus=&event=&kind=&failureClass=&from=&to=";
    assert_eq!(found(all).await, 3);
    for (query, expected) in [
        ("status=DeadLetter", 3),
        ("status=Succeeded", 0),
        ("event=order.created", 3),
        ("event=order.exported", 0),
        ("failureClass=BlockedAddress", 3),
        ("failureClass=ServerError", 0),
        ("webhook=default%2Forders", 3),
        ("webhook=ORDERS", 3),
        ("customerCode=C-1", 3),
        ("customerCode=C-2", 0),
        ("result=Lost", 3),
        ("result=Delivered", 0),
        ("result=Failed+%28all%29", 3),
        ("httpStatus=5xx", 0),
        ("deadLetter=resent", 0),
        ("last=hour", 3),
        ("kind=first", 3),
        ("kind=resend", 0),
        ("find=w00000002", 1),
        ("find=W00000009", 0),
        (&*format!("find={}", delivery.to_uppercase()), 1),
        ("from=2020-01-01", 3),
        ("to=2020-01-01", 0),
        ("webOrderId=W00000002", 1),
        ("workOrder=PR1", 0),
        ("invoiceNumber=I1", 0),
        (&format!("eventId={event}"), 1),
        ("eventId=evt_0", 0),
        (&format!("deliveryId={delivery}"), 1),
        ("httpStatus=503", 0),
    ] {
        assert_eq!(found(query).await, expected, "{query}");
    }
    let rows = home.open("ACME").rows("SELECT id FROM delivery_history ORDER BY finished_at_ms, id", &[]);
    let ended: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let middle = browser.get(&format!("/portal/logs/{}", ended[1])).await;
    for (id, rel) in [(&ended[0], "prev"), (&ended[2], "next")] {
        let link = format!("href=\"/portal/logs/{id}\" rel=\"{rel}\"");
        assert!(middle.text().contains(&link), "{rel}: {middle:?}");
    }
    let lost = browser.get("/portal/logs?webhook=default%2Forders&result=Lost&pageSize=2").await;
    for part in [
        ">3 deliveries are lost</h2>",
        "href=\"/portal/resends?webhook=default%2Forders\">Resend these 3…</a>",
    ] {
        assert!(lost.text().contains(part), "{part}: {lost:?}");
    }
    let first = browser.get("/portal/logs?pageSize=2&status=DeadLetter").await;
    let ids = linked(first.text());
    let (_, after) = first.text().split_once("rel=\"next\"").map_or(("", ""), |parts| parts);
    assert!(ids.len() == 2 && after.contains("Older"), "{first:?}");
    let older = first.text().split("href=\"").find(|part| part.contains("rel=\"next\"")).expect("a link");
    let older = older.split('"').next().expect("a link").replace("&amp;", "&");
    assert!(older.contains("status=DeadLetter") && older.contains("pageSize=2"), "{older}");
    let second = browser.get(&older).await;
    let rest = linked(second.text());
    assert!(rest.len() == 1 && !ids.contains(&rest[0]), "{second:?}");

    for (query, said) in [
        (
            "webhook=default%2Fordres",
            "Webhook: There is no webhook “default/ordres”; did you mean “default/orders”?",
        ),
        ("result=Broken", "Result: choose a result of the list"),
        ("last=day&from=2026-11-01", "When: choose either this or dates"),
        ("httpStatus=6xx", "HTTP status: enter a status from 100 to 999, or 4xx or 5xx"),
        ("httpStatus=5xx&failureClass=Dns", "HTTP status: choose either this or a failure"),
    ] {
        let wrong = browser.get(&format!("/portal/logs?{query}")).await;
        assert!(wrong.status == 400 && wrong.text().contains(said), "{said}: {wrong:?}");
        assert!(linked(wrong.text()).is_empty() && wrong.text().contains("aria-invalid"), "{query}");
    }
    let wrong = browser.get("/portal/logs?status=Broken&from=soon&x=1").await;
    assert_eq!(wrong.status, 400);
    is_protected(&wrong);
    for said in ["<title>Error: ", "#field-result\">Result: ", "#field-from\">From: ", "<li>x: "] {
        assert!(wrong.text().contains(said), "{said}: {wrong:?}");
    }
    // The form still has the text that the user typed, and nothing claims that there was no match.
    assert!(
        wrong.text().contains("value=\"soon\"") && wrong.text().contains("Webhook Logs</h1>"),
        "{wrong:?}"
    );
    assert!(!wrong.text().contains("No delivery") && linked(wrong.text()).is_empty(), "{wrong:?}");
}

#[tokio::test]
async fn database_that_is_away_gets_a_page_that_says_so() {
    let rig = Rig::start().await;
    let browser = Browser::signed_in(&rig.server, "acme", ALEX).await;
    assert!(browser.get("/portal/logs").await.text().contains("No delivery yet"));
    let cookie = browser.cookie.clone();
    let Rig { server, home, .. } = rig;
    server.kill();
    let file = home.database("ACME");
    std::fs::write(&file, b"this is no database ".repeat(1000)).expect("writable");
    for name in ["tenant.db-wal", "tenant.db-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(name));
    }
    let rig = Rig::on(home, "").await;
    let mut browser = Browser::new(&rig.server, "acme");
    browser.cookie = cookie;
    let reply = browser.get("/portal/logs").await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.text().contains("Not available right now") && reply.headers.contains_key("retry-after"));
    is_protected(&reply);
}
