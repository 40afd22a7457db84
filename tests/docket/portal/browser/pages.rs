//! Every page against the accessibility contract, and its pictures for the documents.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use docket_tests::browser::Browser;
use docket_tests::people::ALEX;
use docket_tests::server::PASSWORD;
use serde_json::json;

use super::hands::{Hands, User};
use super::inspect::{complaints, resize, wrong};
use super::world::{OWN, World};

/// The pages that the documents have pictures of.
const PICTURES: [&str; 4] = ["overview", "webhooks", "logs-filtered", "a-dead-letter"];
/// The most bytes of a picture.
const MOST_BYTES: usize = 150 * 1024;

/// Opens each page as its user, one after the other.
pub(super) async fn each(world: &World, browser: &Browser, mut look: impl AsyncFnMut(&str)) {
    let mut signed_in = None;
    for page in world.pages() {
        let visitor = page.user.map(|user| (page.tenant, user));
        if visitor != signed_in {
            browser.devtools("Network.clearBrowserCookies", json!({})).await.expect("no cookies");
            signed_in = visitor;
            if let Some((tenant, user)) = visitor {
                browser.go(&world.url_of(tenant, "/portal/sign-in")).await;
                User { browser, hands: Hands::Mouse }.sign_in(user).await;
            }
        }
        browser.go(&world.url_of(page.tenant, &page.path)).await;
        look(&page.name).await;
    }
}

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/images/{name}.webp"))
}

/// Takes a picture of what the browser shows. Fonts and times differ from machine to machine: with UPDATE_IMAGES it
/// becomes the document's, without it the document's only has to be there.
async fn photograph(browser: &Browser, name: &str) {
    resize(browser, 1280).await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({"hidden": true})).await.expect("a switch");
    let parameters = json!({"format": "webp", "quality": 80});
    let answer = browser.devtools("Page.captureScreenshot", parameters).await.expect("a picture");
    browser.devtools("Emulation.setScrollbarsHidden", json!({"hidden": false})).await.expect("a switch");
    let bytes = STANDARD.decode(answer["data"].as_str().expect("Base64")).expect("Base64");
    assert!(bytes.len() > 4096, "{name}: the picture is empty");
    let path = picture(name);
    if std::env::var_os("UPDATE_IMAGES").is_some() {
        std::fs::write(&path, bytes).expect("writable");
    }
    let kept = std::fs::metadata(&path).map_or(0, |file| file.len());
    assert!(
        (4096..MOST_BYTES as u64).contains(&kept),
        "{}: {kept} bytes; make it with UPDATE_IMAGES=1",
        path.display()
    );
}

/// Sends the form of the first webhook of the tenant `bolt` again, which shows no secret.
async fn add_again(world: &World, user: &User<'_>) {
    user.browser.go(&world.url_of("bolt", "/portal/webhooks/new")).await;
    let fields = [&OWN[..], &[("form", &*world.own.form)]].concat();
    let script = "(fields) => { for (const [name, value] of fields) { const one = document.querySelector(`main [name='${name}']`); \
                  if (one.type === 'checkbox') one.checked = true; else one.value = value; } \
                  document.querySelector('main form[method=post]').submit(); }";
    user.browser.look(&format!("({script})({})", json!(fields))).await;
    user.sees("was shown before").await;
}

/// The controls that are seen and that nothing but the script works.
const NEEDS_SCRIPT: &str = r#"
[...document.querySelectorAll("[data-copy], #live")].filter((one) => one.checkVisibility()).map((one) => one.outerHTML)"#;

/// What paper has although a narrow window leaves it out or a page folds it: a page, and a selector of these elements.
const PRINTED: [(&str, &str); 2] = [
    ("overview", "[aria-label^='Webhooks, those that need attention first'] th.wider"),
    ("a-dead-letter", ".chain details pre"),
];

/// Whether narrow paper has all elements of a page that a selector finds, and it finds some.
async fn is_printed(browser: &Browser, selector: &str) -> bool {
    let medium = async |name: &str| {
        browser.devtools("Emulation.setEmulatedMedia", json!({"media": name})).await.expect("a medium");
    };
    medium("print").await;
    resize(browser, 700).await;
    let script = "((all) => all.length > 0 && all.every((one) => one.checkVisibility()))";
    let shown = browser.look(&format!("{script}([...document.querySelectorAll({})])", json!(selector))).await;
    medium("").await;
    resize(browser, 1280).await;
    shown == Some(json!(true))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_whole_on_paper_and_without_javascript() {
    let names = ["Case management", "Accounting", "Records desk"];
    let world = World::of("Marlowe & Finch LLP", &names, &["INV-20931", "INV-20944"]).await;
    let browser = Browser::open().await;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await.expect("a switch");
    each(&world, &browser, async |name| {
        for (_, selector) in PRINTED.iter().filter(|(page, _)| *page == name) {
            assert!(is_printed(&browser, selector).await, "{name}: {selector}");
        }
        browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })").await;
        let heading = browser.look("document.querySelectorAll('main h1').length").await;
        assert_eq!(heading, Some(json!(1)), "{name}");
        assert_eq!(browser.look(NEEDS_SCRIPT).await, Some(json!([])), "{name}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_used_by_everyone_in_either_theme_at_any_width_and_with_longer_texts() {
    let names = ["Case management", "Accounting", "Records desk"];
    let world = World::of("Marlowe & Finch LLP", &names, &["INV-20931", "INV-20944"]).await;
    let browser = Browser::open().await;
    let user = User { browser: &browser, hands: Hands::Mouse };
    let mut all = Vec::new();
    browser.go(&world.url_of("bolt", "/portal/sign-in")).await;
    user.sign_in(ALEX).await;
    add_again(&world, &user).await;
    all.extend(wrong(&browser).await.into_iter().map(|line| format!("a secret that was shown: {line}")));
    browser.go(&world.url_of("bolt", "/portal/notifications")).await;
    user.fill("E-mail address", "alex@acme.example").await;
    for state in ["attempts fail", "deliveries are lost", "it works again"] {
        user.tick(state).await;
    }
    user.press("Add the notification").await;
    user.sees("Nothing was saved").await;
    all.extend(wrong(&browser).await.into_iter().map(|line| format!("a refused notification: {line}")));
    each(&world, &browser, async |name| {
        if PICTURES.contains(&name) {
            photograph(&browser, name).await;
        }
        // What is folded belongs to the page.
        browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })").await;
        all.extend(wrong(&browser).await.into_iter().map(|line| format!("{name}: {line}")));
    })
    .await;
    browser.go(&world.url_of("cove", "/portal/sign-in")).await;
    user.fill("User id", ALEX).await;
    user.fill("Password", PASSWORD).await;
    user.press("Sign in").await;
    user.sees("Not available right now").await;
    all.extend(wrong(&browser).await.into_iter().map(|line| format!("away: {line}")));
    assert!(all.is_empty(), "{} findings:\n{}", all.len(), all.join("\n"));
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
}
