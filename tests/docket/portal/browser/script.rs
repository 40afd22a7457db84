//! What the script says and does beside a page that works without it.

use docket_tests::browser::{Browser, PATIENCE};
use docket_tests::people::ALEX;
use docket_tests::server::eventually;
use serde_json::json;

use super::hands::{Hands, User};
use crate::delivery::stage::{ONCE, SOON, Webhook, deliveries, save, stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_updates_pause_while_details_are_open_and_stop_with_the_server() {
    let nowhere = Webhook { trusting: false, ..Webhook::new("orders", "https://127.0.0.1:9/") };
    let (home, server, client) = stage(&[nowhere], ONCE).await;
    save(&client).await;
    eventually("it failed once", SOON, async || deliveries(&home).iter().any(|one| one.status == "Failed"))
        .await;
    let portal = format!("http://acme.localhost:{}/portal", server.api.port());
    let browser = Browser::open().await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    browser.go(&portal).await;
    user.sign_in(ALEX).await;
    browser.go(&format!("{portal}/logs/{}", deliveries(&home)[0].id)).await;
    let is_on = async || browser.look("document.getElementById('live').checked").await;
    let details = "css:[data-live] summary";
    user.press(details).await;
    user.sees("Paused while you read details.").await;
    assert_eq!(is_on().await, Some(json!(true)));

    server.kill();
    user.press(details).await;
    browser.look("document.activeElement.blur()").await;
    user.sees("Stopped: the server could not be reached. Reload the page.").await;
    assert_eq!(is_on().await, Some(json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn button_of_a_form_that_is_sent_is_off_until_the_page_is_back() {
    let (_home, server, _) = stage(&[], ONCE).await;
    let browser = Browser::open().await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    browser.go(&format!("http://acme.localhost:{}/portal", server.api.port())).await;
    user.sign_in(ALEX).await;
    user.sees("No webhook is set up yet").await;
    let is_off = async |expected: bool| {
        let script = "document.querySelector('form.me > button').disabled";
        eventually(&format!("the button is off: {expected}"), PATIENCE, async || {
            browser.look(script).await == Some(json!(expected))
        })
        .await;
    };
    is_off(false).await;
    browser.look("addEventListener('submit', (event) => event.preventDefault())").await;
    user.press("Sign out").await;
    is_off(true).await;
    browser.look("dispatchEvent(new Event('pageshow'))").await;
    is_off(false).await;
}
