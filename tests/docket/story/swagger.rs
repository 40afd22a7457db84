//! /swagger/ in a real browser.

use docket_tests::browser::{Browser, PATIENCE};
use docket_tests::openapi::{self, API, EVENTS};
use docket_tests::server::eventually;
use serde_json::{Map, Value};

use super::example::{self, CONTACT, Running};

/// The Authorize dialog, from open to closed, with one value entered.
async fn authorize(browser: &Browser, input: &str, value: &str) {
    browser.click(".scheme-container .authorize").await;
    let schemes = browser
        .run("return [...document.querySelectorAll('.modal-ux .auth-container h4')].map(e => e.innerText)")
        .await
        .to_string();
    assert!(schemes.contains("ApiKey") && schemes.contains("Bearer"), "{schemes}");
    browser.enter(input, value).await;
    let container = format!(".modal-ux .auth-container:has({input})");
    browser.click(&format!("{container} .auth-btn-wrapper .authorize")).await;
    eventually("it is authorized", PATIENCE, async || {
        browser
            .run("return document.querySelector('.modal-ux').innerText")
            .await
            .to_string()
            .contains("Authorized")
    })
    .await;
    browser.click(".modal-ux .btn-done").await;
}

/// The block of an operation.
fn of(path: &str) -> String {
    format!(".opblock:has([data-path='{path}'])")
}

/// How many operations a document describes.
async fn described(running: &Running, path: &str) -> usize {
    let document = openapi::document(&running.server, path).await;
    let sections = ["paths", "webhooks"].into_iter().filter_map(|section| document[section].as_object());
    sections.flat_map(Map::values).filter_map(Value::as_object).map(Map::len).sum()
}

/// Opens an operation, executes it as it stands; returns the status and the body of the live answer.
async fn execute(browser: &Browser, path: &str) -> (String, String) {
    let block = of(path);
    browser.click(&format!("{block} .opblock-summary-control")).await;
    browser.click(&format!("{block} .execute")).await;
    let live = format!("{block} .live-responses-table .response");
    let status = browser.text(&format!("{live} .response-col_status")).await;
    let body = browser.text(&format!("{live} .response-col_description .highlight-code pre")).await;
    (status.lines().next().unwrap_or_default().to_owned(), body)
}

#[tokio::test]
async fn the_documentation_works_in_a_browser() {
    let (home, receiver) = example::home();
    let running = Running::start(&home, receiver, "").await;
    let own = format!("http://{}/", running.server.api);
    let browser = Browser::open().await;
    browser.go(&format!("{own}swagger/")).await;

    let operations = "return document.querySelectorAll('.opblock').length";
    let shown = described(&running, API).await;
    assert!(shown > 7, "{shown}");
    eventually("all operations", PATIENCE, async || browser.run(operations).await == shown).await;
    assert!(browser.text(".info .title").await.starts_with("Docket"));

    authorize(&browser, "#api_key_value", &running.key("ACME")).await;
    let (status, body) = execute(&browser, "/Auth/Token").await;
    assert_eq!(status, "200", "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let token = answer["token"].as_str().expect("a token");
    let sent = browser.text(&format!("{} .curl", of("/Auth/Token"))).await;
    assert!(sent.contains(CONTACT), "the sample user is filled in: {sent}");

    authorize(&browser, "#auth-bearer-value", token).await;
    let (status, body) = execute(&browser, "/Orders/Save").await;
    assert_eq!(status, "200", "{body}");
    assert!(body.contains("\"webOrderId\"") && body.contains("\"Draft\""), "{body}");
    // Each of the seven examples can be chosen.
    let choices = format!("{} .opblock-section-request-body .examples-select option", of("/Orders/Save"));
    let choices = format!("return document.querySelectorAll(\"{choices}\").length");
    assert_eq!(browser.run(&choices).await, 7);

    // The top bar has the document of the events, too.
    browser.click(&format!(".topbar select option[value='{EVENTS}']")).await;
    let shown = described(&running, EVENTS).await;
    assert_eq!(shown, 6);
    let webhooks = "return document.querySelectorAll('.webhooks .opblock').length";
    eventually("all events", PATIENCE, async || browser.run(webhooks).await == shown).await;
    assert_eq!(browser.run(operations).await, shown, "only the events");
    assert!(browser.text(".info .title").await.starts_with("Docket: events"));

    let said: Vec<Value> = browser.log("browser").await;
    assert!(said.iter().all(|entry| entry["level"] != "SEVERE" && entry["level"] != "WARNING"), "{said:#?}");
    let requests = browser.requests().await;
    // The browser's own first page is among them.
    let elsewhere =
        |url: &&String| (url.starts_with("http") || url.starts_with("ws")) && !url.starts_with(&own);
    assert_eq!(requests.iter().find(elsewhere), None);
    let requests = requests.iter().filter(|url| url.starts_with(&own)).count();
    assert!(requests >= 5, "the log of requests is there: {requests}");
}
