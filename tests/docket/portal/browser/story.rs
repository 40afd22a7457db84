//! An administrator who has never seen the YAML sets up a webhook, finds out why deliveries failed, corrects it and resends
//! what was lost.

use docket_rig::ports::free_port;
use docket_tests::browser::{Browser, PATIENCE};
use docket_tests::people::{ADA, ALEX, add_tenant};
use docket_tests::server::{Home, Options, PASSWORD, Server, api_key, eventually};
use serde_json::{Value, json};

use super::hands::{Hands, User};
use super::inspect::{complaints, inspect};
use crate::delivery::stage::{FAST, SOON, deliveries};

/// Whether pages run their script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Runs,
    IsOff,
}

async fn tell(hands: Hands, script: Script) {
    let home = Home::new();
    add_tenant(&home, "acme", 'a');
    let port = free_port();
    let options = Options { receiver: Some(port), ..Options::flags(FAST) };
    let server = Server::start(&home, options).await;
    let (right, wrong) =
        (format!("https://127.0.0.1:{port}/orders"), format!("https://127.0.0.1:{}/orders", free_port()));
    let browser = Browser::open().await;
    let off = json!({"value": script == Script::IsOff});
    browser.devtools("Emulation.setScriptExecutionDisabled", off).await.expect("a switch");
    let user = User { browser: &browser, hands };
    let portal = format!("http://acme.localhost:{}/portal", server.api.port());

    browser.go(&portal).await;
    user.sign_in(ALEX).await;
    user.sees("No webhook is set up yet").await;
    let secret = set_up(&user, script, &wrong).await;
    lose(&home, &server, 3).await;
    ask(&user).await;
    find_out(&user, &secret).await;

    user.press("Webhooks").await;
    user.press("Orders of One").await;
    user.fill("URL", &right).await;
    user.press("Save").await;
    let served =
        format!("document.querySelector('[name=targetUrl]')?.defaultValue === {}", Value::from(right));
    eventually("it is saved", PATIENCE, async || browser.look(&served).await == Some(true.into())).await;
    user.sees("The settings are saved and in effect.").await;
    user.press("Send a test event").await;
    user.is_at("done=test-sent#test").await;
    match script {
        Script::Runs => user.sees("The receiver took it at attempt 1.").await,
        Script::IsOff => reload_until(&user, "The receiver took it at attempt 1.").await,
    }
    user.press("Overview").await;
    user.sees("1 webhook needs attention").await;
    reload_until(&user, "Its settings have changed since").await;
    resend(&user, script).await;

    user.press("Verify a signature").await;
    user.fill("X-Service-Signature", &"0".repeat(64)).await;
    user.fill("Body, exactly as it arrived", "{}").await;
    user.press("Verify").await;
    user.sees("X-Service-Signature does not match").await;
    if script == Script::Runs && hands == Hands::Mouse {
        inspect(&browser, "a signature that does not match").await;
    }
    user.press("Activity").await;
    for what in
        ["Webhook added", "Webhook changed", "Delivery resent", "Lost deliveries resent", "Alex Admin"]
    {
        user.sees(what).await;
    }
    user.press("Sign out").await;
    user.sees("Sign in to ACME").await;
    browser.go(&portal).await;
    user.sees("Sign in to ACME").await;
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
}

/// Adds a webhook with this URL, and sees first what is missing; returns the secret, which is shown once.
async fn set_up(user: &User<'_>, script: Script, url: &str) -> String {
    user.press("Webhooks").await;
    user.press("Add a webhook").await;
    user.fill("Name", "Orders of One").await;
    user.choose_by("Customer", "One", "C-1").await;
    user.fill("URL", url).await;
    user.press("Add the webhook").await;
    user.sees("Nothing was saved").await;
    if script == Script::Runs && user.hands == Hands::Mouse {
        inspect(user.browser, "a form with what is wrong").await;
    }
    user.tick("order.created").await;
    user.press("Add the webhook").await;
    user.sees("It is shown this once.").await;
    if script == Script::Runs && user.hands == Hands::Mouse {
        inspect(user.browser, "a new secret").await;
    }
    let secret = user.browser.look("document.querySelector('dd code').textContent").await;
    let secret = secret.as_ref().and_then(Value::as_str).expect("a secret").to_owned();
    user.press("Go to the webhook").await;
    user.sees("Replace the secret…").await;
    let page = user.browser.look("document.documentElement.outerHTML").await.expect("a page");
    assert!(secret.len() == 64 && !page.as_str().expect("HTML").contains(&secret));
    secret
}

/// Saves orders whose deliveries never arrive.
async fn lose(home: &Home, server: &Server, count: usize) {
    let ada = server.sign_in(&api_key('a'), ADA).await;
    for _ in 0..count {
        assert_eq!(ada.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    }
    eventually("all are dead letters", SOON, async || {
        let all = deliveries(home);
        all.len() == count && all.iter().all(|delivery| delivery.status == "DeadLetter")
    })
    .await;
}

/// Asks the box of each page why an order did not arrive.
async fn ask(user: &User<'_>) {
    user.fill("css:.ask input", "w00000001").await;
    user.press("Find").await;
    user.is_at("/portal/trace?q=w00000001").await;
    user.sees("did not reach its webhook: 1 delivery is lost").await;
    user.press("css:.chain a[href^='/portal/logs/']").await;
    user.is_at("/portal/logs/").await;
}

/// The user goes from the overview to the reason why a delivery failed.
async fn find_out(user: &User<'_>, secret: &str) {
    user.press("Overview").await;
    user.sees("1 webhook needs attention").await;
    user.sees("Change the URL").await;
    user.press("css:td a[href*='deadLetter=open']").await;
    user.is_at("/portal/logs?webhook=").await;
    user.press("css:[data-live] td a").await;
    user.sees("five times").await;
    user.sees("Then resend it, or set it aside.").await;
    user.sees("Change the URL").await;
    user.press("Headers").await;
    user.sees("webhook-signature: ").await;
    let page = user.browser.look("document.documentElement.outerHTML").await.expect("a page");
    assert!(!page.as_str().expect("HTML").contains(secret));
}

/// Resends one delivery, then the others.
async fn resend(user: &User<'_>, script: Script) {
    user.press("Webhook Logs").await;
    user.is_at("/portal/logs").await;
    user.choose("Result", "Lost").await;
    user.press("Search").await;
    user.is_at("result=Lost").await;
    user.press("css:[data-live] td a").await;
    user.sees("five times").await;
    user.press("Resend").await;
    user.sees("Resend of").await;
    ends(user, script).await;

    user.press("Resends").await;
    user.fill("Per second", "100").await;
    user.press("Preview").await;
    user.press("Send one first").await;
    user.is_at("probe=").await;
    if script == Script::Runs {
        user.sees("Resend the others.").await;
    } else {
        reload_until(user, "Resend the others.").await;
    }
    user.press("css:main form[method=post] button").await;
    user.sees("queued to be sent again.").await;
    reload_until(user, "All arrived").await;
}

/// The delivery succeeds; a script shows it without a reload.
async fn ends(user: &User<'_>, script: Script) {
    match script {
        Script::Runs => user.sees("Delivered").await,
        Script::IsOff => reload_until(user, "Delivered").await,
    }
}

async fn reload_until(user: &User<'_>, text: &str) {
    let shows = format!("document.body.innerText.includes({})", Value::from(text));
    // A browser that goes to another part of the same page does not load the page again.
    let here = user.browser.look("location.href.split('#')[0]").await.expect("a page");
    eventually(&format!("{text:?} is seen"), SOON, async || {
        user.browser.go(here.as_str().expect("a URL")).await;
        user.browser.look(&shows).await == Some(true.into())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_lets_a_contact_in_although_the_session_ends_before_the_form_is_sent() {
    let home = Home::new();
    add_tenant(&home, "acme", 'a');
    let server = Server::start(&home, Options::flags(FAST)).await;
    let browser = Browser::open().await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    let portal = format!("http://acme.localhost:{}/portal", server.api.port());

    browser.go(&portal).await;
    user.tick("a customer's contact").await;
    user.sign_in(ADA).await;
    user.sees("What you can do:").await;
    user.press("Sign out").await;
    user.sees("Sign in to ACME").await;
    user.sign_in(ALEX).await;
    user.press("People").await;
    user.sees("ada@one.example").await;
    browser.devtools("Network.clearBrowserCookies", json!({})).await.expect("no cookies");
    user.press("Allow to manage webhooks").await;
    user.sees("the form was not sent").await;
    inspect(&browser, "a sign-in page with a form").await;
    user.fill("User id", ALEX).await;
    user.fill("Password", PASSWORD).await;
    user.press("Sign in").await;
    user.sees("Send the form again").await;
    inspect(&browser, "a form to send again").await;
    user.press("Send the form").await;
    user.sees("Ada One may manage the webhooks of One now.").await;
    user.press("Sign out").await;
    user.sees("Sign in to ACME").await;
    user.tick("a customer's contact").await;
    user.sign_in(ADA).await;
    user.sees("Contact of One").await;
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_finds_corrects_and_resends_what_was_lost_with_a_mouse() {
    tell(Hands::Mouse, Script::Runs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_does_so_by_keyboard_alone() {
    tell(Hands::Keyboard, Script::Runs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_does_so_without_javascript() {
    tell(Hands::Mouse, Script::IsOff).await;
}
