//! Every page against the accessibility contract, and its pictures for the documents.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use docket_tests::browser::Browser;
use serde_json::json;

use super::hands::{Hands, User};
use super::inspect::{complaints, resize, wrong};
use super::world::World;

/// The pages of which the documents have pictures.
const PICTURES: [&str; 4] = ["overview", "webhooks", "logs-filtered", "a-dead-letter"];
/// The most bytes of a picture.
const MOST_BYTES: usize = 150 * 1024;

/// Opens each page as its user, one after the other.
pub(super) async fn each(world: &World, browser: &Browser, mut look: impl AsyncFnMut(&str)) {
    let mut signed_in = None;
    for page in world.pages() {
        if page.user != signed_in {
            browser.devtools("Network.clearBrowserCookies", json!({})).await.expect("no cookies");
            signed_in = page.user;
            if let Some(user) = signed_in {
                browser.go(&world.url("/portal/sign-in")).await;
                User { browser, hands: Hands::Mouse }.sign_in(user).await;
            }
        }
        browser.go(&world.url(&page.path)).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_used_by_everyone_in_either_theme_at_any_width_and_with_longer_texts() {
    let names = ["Case management", "Accounting", "Records desk"];
    let world = World::of("Marlowe & Finch LLP", &names, &["INV-20931", "INV-20944"]).await;
    let browser = Browser::open().await;
    let mut all = Vec::new();
    each(&world, &browser, async |name| {
        if PICTURES.contains(&name) {
            photograph(&browser, name).await;
        }
        // What is folded belongs to the page.
        browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })").await;
        all.extend(wrong(&browser).await.into_iter().map(|line| format!("{name}: {line}")));
    })
    .await;
    assert!(all.is_empty(), "{} findings:\n{}", all.len(), all.join("\n"));
    let said = complaints(&browser).await;
    assert!(said.is_empty(), "{said:#?}");
}
