//! A contact that manages the webhooks of its customer, and sees no other one's.

use docket_tests::people::{ADA, ALEX, BEA};
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Client, Home, PASSWORD, Reply, Server, api_key, eventually};
use docket_tests::stores::Database;
use serde_json::json;

use super::rig::{Browser, hidden, page_of, send};
use crate::delivery::stage::{FAST, SOON, Webhook, stage};

/// Lets two customers save an order whose delivery is lost, and gives the contacts of the first one the right to manage webhooks. `ada` is one
/// of these.
async fn lose_one_each(home: &Home, server: &Server, ada: &Client) -> Database {
    let bea = server.sign_in(&api_key('a'), BEA).await;
    for client in [ada, &bea] {
        assert_eq!(client.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    }
    let database = home.open("ACME");
    database.change("UPDATE contact SET manages_webhooks = TRUE WHERE customer_code = 'C-1'");
    let dead = "SELECT count(*) FROM delivery_history WHERE status = 'DeadLetter'";
    eventually("both are dead letters", SOON, async || database.get::<i64>(dead) == 2).await;
    database
}

#[tokio::test]
async fn contact_sees_and_resends_what_concerns_its_customer_alone() {
    let receiver = Receiver::verifying(|_| Response::Status(503)).await;
    let webhooks = [
        Webhook::new("one", receiver.url("/one")),
        Webhook { customer: "C-2", ..Webhook::new("two", receiver.url("/two")) },
    ];
    let (home, server, ada) = stage(&webhooks, FAST).await;
    let database = lose_one_each(&home, &server, &ada).await;
    let id_of = |customer: &str| -> String {
        let sql = "SELECT d.id FROM delivery_history d JOIN event e ON e.id = d.event_id WHERE e.customer_code = ?1";
        database.rows(sql, &[customer])[0].get(0)
    };
    let (own, foreign) = (id_of("C-1"), id_of("C-2"));

    let browser = Browser::signed_in(&server, "acme", ADA).await;
    for page in [
        "/portal",
        "/portal/webhooks",
        "/portal/logs",
        "/portal/events",
        "/portal/verify",
        "/portal/resends",
        "/portal/notifications",
        "/portal/trace",
    ] {
        let shown = browser.get(page).await;
        assert_eq!(shown.status, 200, "{page}: {shown:?}");
        let text = shown.text();
        assert!(
            !text.contains("default/two") && !text.contains("C-2") && !text.contains(&foreign),
            "{page}: {text}"
        );
        for of_tenant in ["/portal/keys", "/portal/people", "/portal/activity"] {
            assert!(!text.contains(of_tenant), "{page}: {text}");
        }
    }
    let overview = browser.get("/portal").await;
    assert!(overview.text().contains("1 webhook needs attention"), "{overview:?}");
    assert!(
        overview.text().contains(": 0 succeeded, 4 failed and tried again, 1 lost"),
        "the charts, too: {overview:?}"
    );
    // The messages use the words of the form: no YAML, no object, no setting of the platform.
    let page = browser.get("/portal/webhooks/default/one").await;
    assert!(page.status == 200 && page.text().contains("ask its administrators to change it"), "{page:?}");
    for word in [
        "targetURL",
        "YAML",
        "secretRef",
        "<dt>Declared as</dt>",
        "<dt>Customer</dt>",
        "configuration folder",
    ] {
        assert!(!page.text().contains(word), "{word}: {page:?}");
    }
    assert_eq!(browser.get("/portal/webhooks/default/two").await.status, 404);
    let log = browser.get("/portal/logs?status=DeadLetter").await;
    assert_eq!(log.text().matches("href=\"/portal/logs/0").count(), 1, "{log:?}");
    assert_eq!(
        browser
            .get("/portal/logs?webhook=default%2Ftwo")
            .await
            .text()
            .matches("href=\"/portal/logs/0")
            .count(),
        0
    );
    assert_eq!(browser.get(&format!("/portal/logs/{foreign}")).await.status, 404);
    let detail = browser.get(&format!("/portal/logs/{own}")).await;
    assert!(detail.status == 200 && detail.text().contains("orderType"), "{detail:?}");

    // Neither a link nor a webhook that had the name of its own before leads to another customer's delivery.
    for (probe, is_shown) in [(&own, true), (&foreign, false)] {
        let page = browser.get(&format!("/portal/resends?webhook=default%2Fone&probe={probe}")).await;
        assert_eq!(page.text().contains("Sent first"), is_shown, "{page:?}");
    }
    let renamed = |name: &str| {
        database
            .change(&format!("UPDATE delivery_history SET webhook_name = '{name}' WHERE id = '{foreign}'"));
    };
    renamed("default/one");
    let page = browser.get("/portal/webhooks/default/one").await;
    assert!(page.text().contains(&own) && !page.text().contains(&foreign), "{page:?}");
    renamed("default/two");

    let csrf = hidden(&detail, "csrf");
    let resend = async |id: &str| {
        browser.post("/portal/logs/resend", &[("csrf", &csrf), ("deliveryId", id)]).await.status
    };
    // The answer does not say that another customer has this delivery.
    assert_eq!((resend(&foreign).await, resend(&own).await), (404, 303));
    // A contact does not learn which employee did something.
    let administrator = Browser::signed_in(&server, "acme", ALEX).await;
    let set_aside = |by: &str, at: &str| {
        let set = format!("set_aside_by = {by}, set_aside_at_ms = {at}");
        database.change(&format!("UPDATE delivery_history SET {set} WHERE id = '{own}'"));
    };
    set_aside("'employee 52'", "1");
    let said_by = async |browser: &Browser<'_>| {
        let page = browser.get(&format!("/portal/logs/{own}")).await;
        (page.text().contains("by <span>an employee of "), page.text().contains("employee 52"))
    };
    assert_eq!((said_by(&browser).await, said_by(&administrator).await), ((true, false), (false, true)));
    set_aside("NULL", "NULL");
    // A resend of another customer's webhook is neither begun, nor seen, nor stopped.
    let theirs = hidden(&administrator.get("/portal/webhooks/default/two").await, "csrf");
    let begun = administrator.post("/portal/resends", &[("csrf", &theirs), ("webhook", "default/two")]).await;
    assert_eq!(begun.status, 303, "{begun:?}");
    let id: String = database.get("SELECT id FROM resend");
    let shown = |page: Reply| page.text().matches("default/two").count();
    assert!(shown(administrator.get("/portal/resends").await) >= 2, "in the form and in the list");
    assert_eq!(shown(browser.get("/portal/resends").await), 0);
    let stopped = browser.post("/portal/resends/stop", &[("csrf", &csrf), ("resendId", &id)]).await;
    assert_eq!(stopped.status, 404, "{stopped:?}");
    for name in ["default/two", &id_of_webhook(&database)] {
        let refused = browser.post("/portal/resends", &[("csrf", &csrf), ("webhook", name)]).await;
        assert_eq!(refused.status, 409, "{name}: {refused:?}");
    }

    // A delivery is signed by the webhook of its own customer, not by another webhook that has the name now.
    let signed = |page: Reply| page.text().contains("x-service-signature");
    let opened = async || administrator.get(&format!("/portal/logs/{own}")).await;
    assert!(signed(opened().await));
    database.change("UPDATE event SET customer_code = 'C-2'");
    assert!(!signed(opened().await));
    assert_eq!(browser.get(&format!("/portal/logs/{own}")).await.status, 404);

    // For a delivery of another customer in any state, the response is the same as for a delivery that does not exist.
    const UNKNOWN: &str = "01900000-0000-7000-8000-00000000dead";
    let said = async |route: &str, id: &str| {
        let reply = browser.post(route, &[("csrf", &csrf), ("deliveryId", id)]).await;
        (reply.status, reply.text().replace(&reply.headers["x-request-id"], ""))
    };
    let columns = "id, event_id, webhook, webhook_name, created_at_ms";
    let to_queue = format!(
        "INSERT INTO delivery_queue ({columns}, status, attempt_count, due_at_ms) \
         SELECT {columns}, 'Pending', 0, 9000000000000 FROM delivery_history WHERE id = '{foreign}'; \
         DELETE FROM delivery_history WHERE id = '{foreign}'"
    );
    for (what, change) in [
        ("DeadLetter", String::new()),
        ("Succeeded", format!("UPDATE delivery_history SET status = 'Succeeded' WHERE id = '{foreign}'")),
        ("Pending", to_queue),
        ("Failed", format!("UPDATE delivery_queue SET status = 'Failed' WHERE id = '{foreign}'")),
    ] {
        database.change(&change);
        for route in ["/portal/logs/resend", "/portal/logs/set-aside", "/portal/logs/undo-set-aside"] {
            let (of_another, of_no_one) = (said(route, &foreign).await, said(route, UNKNOWN).await);
            assert_eq!((of_another.0, &of_another), (404, &of_no_one), "{what}: {route}");
        }
    }

    // The API still shows logs to administrators alone.
    assert_eq!(ada.get("/WebhookLogs/Search").await.status, 403);
}

/// The uid of the webhook of customer C-2.
fn id_of_webhook(database: &Database) -> String {
    database.get("SELECT webhook FROM delivery_history WHERE webhook_name = 'default/two' LIMIT 1")
}

#[tokio::test]
async fn contact_adds_a_webhook_for_its_own_customer_whatever_the_form_says() {
    const ZOE: &str = "zoe@one.example";
    const YAN: &str = "yan@two.example";
    let (home, server, ada) = stage(&[], FAST).await;
    for (customer, email) in [("C-1", ZOE), ("C-2", YAN)] {
        let contact = ["contact", "add", "--tenant", "ACME", "--customer", customer, "--email", email];
        let (done, text) =
            home.command(&[&contact[..], &["--name", "Of the desk", "--webhooks"]].concat(), PASSWORD);
        assert!(done, "{text}");
    }
    let browser = Browser::signed_in(&server, "acme", ZOE).await;
    let form = browser.get("/portal/webhooks/new").await;
    assert!(form.status == 200 && !form.text().contains("name=\"customerCode\""), "{form:?}");
    let csrf = hidden(&form, "csrf");
    let fields = [
        ("csrf", csrf.as_str()),
        ("displayName", "Ours"),
        ("customerCode", "C-2"),
        ("targetUrl", "https://127.0.0.1:9/"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let made = browser.post("/portal/webhooks/new", &fields).await;
    assert_eq!(made.status, 200, "{made:?}");
    let folder = std::fs::read_dir(home.config().join("portal")).expect("a folder");
    let texts: Vec<String> = folder
        .filter_map(|file| {
            Some(file.ok()?.path()).filter(|path| path.extension().is_some_and(|kind| kind == "yaml"))
        })
        .map(|path| std::fs::read_to_string(path).expect("a file"))
        .collect();
    let [text] = &texts[..] else { panic!("{texts:?}") };
    assert!(text.contains("C-1") && !text.contains("C-2"), "{text}");
    let other = Browser::signed_in(&server, "acme", YAN).await;
    let list = other.get("/portal/webhooks").await;
    assert!(list.status == 200 && !list.text().contains("127.0.0.1:9"), "{list:?}");
    // A contact of another customer does not open it, and changes nothing of it.
    let page = page_of(&made);
    assert_eq!(other.get(&page).await.status, 404);
    let (csrf, version) = (hidden(&list, "csrf"), hidden(&browser.get(&page).await, "version"));
    let button = [("csrf", csrf.as_str()), ("version", version.as_str())];
    let settings =
        [("displayName", "Theirs"), ("targetUrl", "https://127.0.0.1:9/theirs"), ("order.created", "yes")];
    for (action, more) in [("", &settings[..]), ("/deactivate", &[]), ("/rotate", &[]), ("/remove", &[])] {
        let refused = other.post(&format!("{page}{action}"), &[&button[..], more].concat()).await;
        assert_eq!(refused.status, 404, "{action}: {refused:?}");
    }
    // Contacts of its customer alone learn its last name.
    assert_eq!(ada.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    let removed = send(&browser, &page, &format!("{page}/remove"), &[]).await;
    assert_eq!(removed.status, 303, "{removed:?}");
    let logs = page.replace("/portal/webhooks/", "/portal/logs?webhook=");
    let last_name = async |browser: &Browser<'_>| browser.get(&logs).await.text().contains("Ours (removed)");
    eventually("its removal is recorded", SOON, async || last_name(&browser).await).await;
    assert!(!last_name(&other).await);
    // Without the mark no contact enters.
    let unmarked = Browser::signed_in(&server, "acme", BEA).await;
    assert_eq!(unmarked.get("/portal/webhooks").await.status, 403);
}

#[tokio::test]
async fn contact_adds_and_removes_a_webhook_whose_name_no_customer_with_a_similar_code_learns() {
    const PAT: &str = "pat@smith.example";
    let (home, server, _) = stage(&[], FAST).await;
    let database = home.open("ACME");
    database.change("UPDATE contact SET manages_webhooks = TRUE WHERE customer_code = 'C-1'");
    database.change(
        "INSERT INTO customer (code, name, created_at_ms) VALUES ('Smith (customer C-1', 'Smith', 0)",
    );
    let customer = ["contact", "add", "--tenant", "ACME", "--customer", "Smith (customer C-1"];
    let contact = ["--email", PAT, "--name", "Pat", "--webhooks"];
    let (done, text) = home.command(&[&customer[..], &contact].concat(), PASSWORD);
    assert!(done, "{text}");
    let browser = Browser::signed_in(&server, "acme", PAT).await;
    let new = "/portal/webhooks/new";
    let fields = [
        ("displayName", "Plans"),
        ("targetUrl", "https://127.0.0.1:9/"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let made = send(&browser, new, new, &fields).await;
    assert_eq!(made.status, 200, "{made:?}");
    let page = page_of(&made);
    assert_eq!(send(&browser, &page, &format!("{page}/remove"), &[]).await.status, 303);
    let logs = page.replace("/portal/webhooks/", "/portal/logs?webhook=");
    let last_name = async |browser: &Browser<'_>| browser.get(&logs).await.text().contains("Plans");
    eventually("its removal is recorded", SOON, async || last_name(&browser).await).await;
    let other = Browser::signed_in(&server, "acme", ADA).await;
    assert!(!last_name(&other).await);
}

#[tokio::test]
async fn contact_adds_webhooks_only_so_often() {
    let (home, server, _) = stage(&[], FAST).await;
    home.open("ACME").change("UPDATE contact SET manages_webhooks = TRUE");
    let new = "/portal/webhooks/new";
    let fields = [
        ("displayName", "Again"),
        ("customerCode", "C-1"),
        ("targetUrl", "https://127.0.0.1:9/"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let browser = Browser::signed_in(&server, "acme", ADA).await;
    let mut page = String::new();
    for number in 0..20 {
        let made = send(&browser, new, new, &fields).await;
        assert_eq!(made.status, 200, "{number}: {made:?}");
        page = page_of(&made);
    }
    let full = send(&browser, new, new, &fields).await;
    assert!(full.status == 400 && full.text().contains("you have 20 webhooks"), "{full:?}");
    assert_eq!(send(&browser, &page, &format!("{page}/remove"), &[]).await.status, 303);
    let refused = send(&browser, new, new, &fields).await;
    assert!(refused.status == 400 && refused.text().contains("added many webhooks lately"), "{refused:?}");
    // Neither another customer nor an administrator has to wait.
    for user in [BEA, ALEX] {
        let made = send(&Browser::signed_in(&server, "acme", user).await, new, new, &fields).await;
        assert_eq!(made.status, 200, "{user}: {made:?}");
    }
}

#[tokio::test]
async fn contact_resends_to_its_webhook_on_hold_though_another_customers_lost_more_under_the_name() {
    let receiver = Receiver::verifying(|_| Response::Status(503)).await;
    let webhooks = [
        Webhook::new("one", receiver.url("/one")),
        Webhook { customer: "C-2", ..Webhook::new("two", receiver.url("/two")) },
        Webhook { secret: Some("no-such-secret"), ..Webhook::new("held", receiver.url("/held")) },
    ];
    let (home, server, ada) = stage(&webhooks, FAST).await;
    let database = lose_one_each(&home, &server, &ada).await;
    // Both customers have had a webhook of this name, first C-1 and then C-2. Now it is C-1's again.
    database.change(
        "UPDATE delivery_history SET webhook_name = 'default/held', webhook = 'default/held/' || \
         (SELECT e.customer_code FROM event e WHERE e.id = delivery_history.event_id); \
         UPDATE delivery_history SET created_at_ms = created_at_ms + 60000 WHERE webhook = 'default/held/C-2'",
    );
    let browser = Browser::signed_in(&server, "acme", ADA).await;
    let resends = "/portal/resends";
    let begun = send(&browser, resends, resends, &[("webhook", "default/held")]).await;
    assert_eq!((begun.status, &*begun.headers["location"]), (303, "/portal/resends?done=started&count=1"));
    let of_resends: String = database.get("SELECT webhook FROM delivery WHERE resend_of IS NOT NULL");
    assert_eq!(of_resends, "default/held/C-1");
}
