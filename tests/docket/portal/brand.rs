//! The tenant's own colour and logo on its pages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use docket_tests::people::ALEX;
use docket_tests::server::{Reply, eventually, tenant_yaml};

use super::rig::{Browser, LOGO, POLICY, with_look};
use crate::api::rig::Rig;
use crate::delivery::stage::SOON;

/// The address of the asset that a page names.
fn address(page: &Reply, path: &str) -> String {
    let (_, after) = page.text().split_once(&format!("\"{path}?v=")).unwrap_or_else(|| panic!("{page:?}"));
    format!("{path}?v={}", after.split('"').next().expect("it ends"))
}

#[track_caller]
fn is_asset(reply: &Reply, kind: &str, cache: &str) {
    assert_eq!(reply.status, 200, "{reply:?}");
    for (name, value) in [
        ("content-type", kind),
        ("cache-control", cache),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", POLICY),
    ] {
        assert_eq!(reply.headers.get(name).map(String::as_str), Some(value), "{name}: {reply:?}");
    }
}

#[tokio::test]
async fn pages_have_the_color_and_the_logo_of_their_own_tenant() {
    const FOREVER: &str = "public, max-age=31536000, immutable";
    let rig = Rig::of(&[("acme", 'a'), ("bolt", 'b')]).await;
    rig.home.write("acme.yaml", &with_look(&tenant_yaml("acme", 'a'), "#FFD24A"));
    let browser = Browser::new(&rig.server, "acme");
    let sign_in = async || browser.get("/portal/sign-in").await;
    eventually("the look is served", SOON, async || sign_in().await.text().contains("/portal/logo?v=")).await;
    let page = sign_in().await;
    let (color, logo) = (address(&page, "/portal/brand.css"), address(&page, "/portal/logo"));
    assert!(page.text().contains(&format!("<img class=\"logo\" src=\"{logo}\" alt=\"\"")), "{page:?}");

    let styles = browser.get(&color).await;
    is_asset(&styles, "text/css; charset=utf-8", FOREVER);
    assert_eq!(styles.text(), ":root { --brand: #ffd24a; --on-brand: #000; }\n");
    let image = browser.get(&logo).await;
    is_asset(&image, "image/png", FOREVER);
    assert_eq!(image.body[..], STANDARD.decode(LOGO).expect("base64")[..]);
    // The address of another version returns what is served now, and no browser keeps that.
    is_asset(&browser.get("/portal/logo?v=0000000000000000").await, "image/png", "no-cache");
    is_asset(&browser.get("/portal/brand.css").await, "text/css; charset=utf-8", "no-cache");

    let signed_in = Browser::signed_in(&rig.server, "acme", ALEX).await;
    let overview = signed_in.get("/portal").await;
    for asset in [&color, &logo] {
        assert!(overview.text().contains(asset.as_str()), "{asset}: {overview:?}");
    }
    let others = Browser::new(&rig.server, "bolt");
    let page = others.get("/portal/sign-in").await;
    assert!(!page.text().contains("brand.css") && !page.text().contains("/portal/logo"), "{page:?}");
    for asset in [&color, &logo] {
        assert_eq!(others.get(asset).await.status, 404, "{asset}");
    }

    // Another colour has another address.
    rig.home.write("acme.yaml", &with_look(&tenant_yaml("acme", 'a'), "#0b6e4f"));
    eventually("it is served", SOON, async || address(&sign_in().await, "/portal/brand.css") != color).await;
    assert_eq!(address(&sign_in().await, "/portal/logo"), logo);
    let color = address(&sign_in().await, "/portal/brand.css");
    assert_eq!(browser.get(&color).await.text(), ":root { --brand: #0b6e4f; --on-brand: #fff; }\n");

    // A mistake is named, and changes nothing.
    let svg = STANDARD.encode("<svg onload='alert(1)'/>");
    let wrong = with_look(&tenant_yaml("acme", 'a'), "red").replace(LOGO, &svg);
    rig.home.write("acme.yaml", &wrong);
    let named = ["spec.portal.color: must be", "spec.portal.logo: must be a PNG, JPEG or WebP image"];
    eventually("it is named", SOON, async || named.iter().all(|part| rig.log.text().contains(part))).await;
    assert_eq!(address(&sign_in().await, "/portal/brand.css"), color);
    assert!(!rig.log.text().contains(&svg), "{}", rig.log.text());
}
