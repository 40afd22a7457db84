//! The box that says why something did not arrive.

use docket_tests::people::{ADA, ALEX, BEA, add_people};
use docket_tests::receiver::{Receiver, Response, ca_yaml};
use docket_tests::server::{Home, Options, Server, api_key, eventually, tenant_yaml};
use url::form_urlencoded::byte_serialize;

use super::rig::{Browser, is_protected, send};
use crate::delivery::stage::{FAST, SOON, Webhook, all_end, deliveries, reload, save, stage};

/// The page about a text.
async fn asked(browser: &Browser<'_>, text: &str) -> String {
    let q: String = byte_serialize(text.as_bytes()).collect();
    let page = browser.get(&format!("/portal/trace?q={q}")).await;
    assert_eq!(page.status, 200, "{text}: {page:?}");
    is_protected(&page);
    page.text().to_owned()
}

#[track_caller]
fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[tokio::test]
async fn order_shows_who_got_it_and_why_others_did_not() {
    let receiver = Receiver::verifying(|_| Response::Status(200)).await;
    let to = |path: &str| receiver.url(path);
    let webhooks = [
        Webhook::new("took", to("/took")),
        Webhook { active: false, ..Webhook::new("idle", to("/idle")) },
        Webhook { events: "note.created", ..Webhook::new("notes", to("/notes")) },
        Webhook { secret: Some("no-such-secret"), ..Webhook::new("held", to("/held")) },
        Webhook { customer: "C-2", ..Webhook::new("theirs", to("/theirs")) },
    ];
    let (home, server, client) = stage(&webhooks, FAST).await;
    let order = save(&client).await;
    let delivery = all_end(&home, 1).await.remove(0);
    let browser = Browser::signed_in(&server, "acme", ALEX).await;

    let text = asked(&browser, &format!(" {} ", order.to_lowercase())).await;
    has_all(
        &text,
        &[
            &format!("Web order {order} reached 1 of 4 webhooks"),
            "<strong>Saved</strong>",
            "<strong>order.created</strong>",
            &format!("href=\"/portal/logs/{}\"", delivery.id),
            ">Delivered<",
            "default/idle</a></strong><span class=\"quiet\"> did not get it: it is inactive now.",
            "did not get it: it does not subscribe to order.created now.",
            "default/held</strong><span class=\"quiet\"> did not get it: its settings have a mistake, so it is not served now.",
            "spec.secretRef",
            "1 webhook of other customers does not get it.",
            "Webhooks of the customer now",
        ],
    );
    assert!(!text.contains("default/theirs"), "{text}");
    let event: String = home.open("ACME").get("SELECT id FROM event");
    for id in [event.to_uppercase(), delivery.id.to_uppercase()] {
        let text = asked(&browser, &id).await;
        has_all(&text, &["The event reached 1 of 4 webhooks", &event, &order]);
    }

    let text = asked(&browser, "two").await;
    has_all(&text, &["Two has 1 active webhook", "default/theirs", "No order yet", "customerCode=C-2"]);
    let text = asked(&browser, "c-1").await;
    has_all(
        &text,
        &[
            "One has 2 active webhooks and 1 inactive webhook and 1 unserved webhook",
            &format!(">{order}</a>"),
        ],
    );
}

#[tokio::test]
async fn contact_learns_nothing_of_other_customers() {
    let receiver = Receiver::verifying(|_| Response::Status(200)).await;
    let webhooks = [
        Webhook { secret: Some("no-such-secret"), ..Webhook::new("held", receiver.url("/held")) },
        Webhook { customer: "C-2", ..Webhook::new("theirs", receiver.url("/theirs")) },
    ];
    let (home, server, ada) = stage(&webhooks, FAST).await;
    let bea = server.sign_in(&api_key('a'), BEA).await;
    let (own, foreign) = (save(&ada).await, save(&bea).await);
    let delivery = all_end(&home, 1).await.remove(0);
    let database = home.open("ACME");
    database.change("UPDATE contact SET manages_webhooks = TRUE WHERE customer_code = 'C-1'");
    let browser = Browser::signed_in(&server, "acme", ADA).await;

    let text = asked(&browser, &own).await;
    has_all(
        &text,
        &[
            "its customer's webhook has settings with a mistake and is not served",
            "A webhook</strong>",
            "Ask the administrators of ",
        ],
    );
    for hidden in ["spec.", "default/held", "theirs", "C-2", "other customers"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    let event: String = database.get("SELECT id FROM event");
    for other in [foreign.as_str(), event.as_str(), delivery.id.as_str(), "C-2", "Two"] {
        let text = asked(&browser, other).await;
        has_all(&text, &["Nothing was found for", "Your firm has no web order"]);
        assert!(!text.contains("Did you mean"), "{other}: {text}");
    }
    has_all(&asked(&browser, "one").await, &["One has 1 unserved webhook, so nothing is sent", &own]);
    assert!(!asked(&browser, &own[1..]).await.contains(&foreign));
}

#[tokio::test]
async fn order_that_no_webhook_got_says_why() {
    let (home, server, client) = stage(&[], FAST).await;
    let order = save(&client).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let sentence = format!("Nothing was sent for web order {order}: ");
    let text = asked(&browser, &order).await;
    has_all(&text, &[&format!("{sentence}its customer has no webhook now")]);
    has_all(
        &text,
        &[
            "No <strong>order.created</strong> is recorded",
            "an event that is not recorded cannot be sent later",
            "No webhook exists for this customer",
            "href=\"/portal/webhooks/new?customerCode=C-1\">Add a webhook for C-1</a>",
        ],
    );

    let form = browser.get("/portal/webhooks/new?customerCode=C-1").await;
    has_all(form.text(), &["<option value=\"C-1\" selected>"]);

    let late = Webhook { trusting: false, ..Webhook::new("late", "https://127.0.0.1:9/") };
    reload(&home, || late.write(&home)).await;
    let text = asked(&browser, &order).await;
    has_all(&text, &[&format!("{sentence}no webhook got it at that time"), "it would get the event now"]);

    reload(&home, || Webhook { active: false, ..late.clone() }.write(&home)).await;
    let text = asked(&browser, &order).await;
    assert!(text.contains("webhook is inactive now</h1>"), "{text}");

    reload(&home, || Webhook { active: false, events: "note.created", ..late.clone() }.write(&home)).await;
    let text = asked(&browser, &order).await;
    has_all(
        &text,
        &[
            "webhook is inactive now and does not subscribe to order.created now</h1>",
            " did not get it: it is inactive now, and it does not subscribe to order.created now.",
        ],
    );
    assert!(deliveries(&home).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_that_was_added_after_the_order_is_said_to_be_later() {
    let (home, server, client) = stage(&[], FAST).await;
    let order = save(&client).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let fields = [
        ("displayName", "Late"),
        ("customerCode", "C-1"),
        ("targetUrl", "https://127.0.0.1:9/"),
        ("order.created", "yes"),
        ("active", "yes"),
    ];
    let made = send(&browser, "/portal/webhooks/new", "/portal/webhooks/new", &fields).await;
    assert_eq!(made.status, 200, "{made:?}");
    let database = home.open("ACME");
    let recorded = "SELECT count(*) FROM audit WHERE event = 'WebhookAdded'";
    eventually("it is recorded", SOON, async || database.get::<i64>(recorded) == 1).await;
    let text = asked(&browser, &order).await;
    has_all(
        &text,
        &[
            &format!("Nothing was sent for web order {order}: its customer had no webhook yet"),
            ">Late</a></strong><span class=\"quiet\"> did not get it: it was added <time ",
            "</time>, after the event.</span>",
        ],
    );
}

#[tokio::test]
async fn event_that_is_switched_off_is_named() {
    let tenant = tenant_yaml("acme", 'a').replacen(
        "  database: {managed: {name: tenant_acme}}\n",
        "  database: {managed: {name: tenant_acme}}\n  webhooks: {disabledEvents: [order.created]}\n",
        1,
    );
    assert!(tenant.contains("disabledEvents"));
    let home = Home::with(&(tenant + &ca_yaml()));
    Webhook::new("orders", "https://127.0.0.1:9/").write(&home);
    add_people(&home, "ACME");
    let server = Server::start(&home, Options::flags(FAST)).await;
    let order = save(&server.sign_in(&api_key('a'), ADA).await).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let text = asked(&browser, &order).await;
    has_all(
        &text,
        &[
            &format!(
                "Nothing was sent for web order {order}: order.created is switched off for the tenant now"
            ),
            "did not get it: order.created is switched off for the tenant now.",
        ],
    );
}

#[tokio::test]
async fn text_that_names_several_things_leads_to_each() {
    let (home, server, _) = stage(&[], FAST).await;
    home.open("ACME").change(
        "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES ('X7', 'Court', 'C-1', 1);
         INSERT INTO court_invoice (invoice_number, work_order, created_at_ms, detected_at_ms) VALUES ('X7', 'X7', 1, 2);",
    );
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    let text = asked(&browser, "x7").await;
    has_all(
        &text,
        &[
            "“x7” may be several things",
            "href=\"/portal/trace?q=X7&amp;kind=work-order\">work order X7</a>",
            "href=\"/portal/trace?q=X7&amp;kind=invoice\">invoice X7</a>",
        ],
    );
    let invoice = browser.get("/portal/trace?q=X7&kind=invoice").await;
    has_all(
        invoice.text(),
        &["No delivery is recorded for invoice X7: its customer has no webhook now", "Invoice seen"],
    );
    let work_order = browser.get("/portal/trace?q=X7&kind=work-order").await;
    has_all(
        work_order.text(),
        &["Nothing was sent for work order X7: nothing has happened that is an event", "by the back office"],
    );
}

#[tokio::test]
async fn any_text_gets_a_page_and_stays_text() {
    let (_home, server, client) = stage(&[], FAST).await;
    let order = save(&client).await;
    let browser = Browser::signed_in(&server, "acme", ALEX).await;
    has_all(&asked(&browser, " ").await, &["What the box takes"]);
    let near = asked(&browser, "1").await;
    has_all(&near, &["Nothing was found for “1”", "Did you mean", &format!("web order {order}</a>")]);
    let later = asked(&browser, "W00000009").await;
    has_all(&later, &["The newest web order is <a ", &format!(">{order}</a>.</p>")]);
    for text in [
        "<script>alert(1)</script>",
        "\"><img src=x>",
        "' OR 1=1 --",
        "%",
        "_",
        "\\",
        "\u{0}",
        "a\nb",
        "漢字",
    ] {
        let page = asked(&browser, text).await;
        has_all(&page, &["Nothing was found for"]);
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    }
    let long = browser.get(&format!("/portal/trace?q={}", "W".repeat(101))).await;
    assert_eq!(long.status, 400, "{long:?}");
    has_all(long.text(), &["<title>Error: enter at most 100 characters", "role=\"alert\""]);
    let wrong = browser.get("/portal/trace?q=1&kind=Broken").await;
    assert!(wrong.status == 400 && wrong.text().contains("must be one of web-order, "), "{wrong:?}");
}
