//! Limits of a tenant that one process decides alone.

use docket_tests::people::{ADA, BEA, MO};
use docket_tests::server::Home;

use super::rig::{Rig, captioned, credentials, home, refused};

/// Writes the platform's limits; returns the flag that names them.
fn platform(home: &Home, limits: &str) -> String {
    let file = home.log("limits.yaml");
    std::fs::write(&file, limits).expect("writable");
    format!("--tenant-limits {}", file.display())
}

#[tokio::test]
async fn an_order_is_no_longer_than_the_platform_gives_its_tenant() {
    let home = home(&[("acme", 'a')], "");
    let flag = platform(&home, "maxima: {bodyBytes: 70000}");
    let rig = Rig::on(home, &flag).await;
    let ada = rig.ada().await;
    let order = captioned("x").to_string();
    let padded = |length: usize| order.clone() + &" ".repeat(length - order.len());
    let post = async |length| ada.try_post("/Orders/Save", &padded(length), &[]).await.expect("an answer");
    assert_eq!(post(70_000).await.status, 200);
    refused(&post(70_001).await, 413, "The body is longer than 70000 bytes");
    assert_eq!(rig.orders(), 1);
    assert_eq!(rig.server.metric("docket_tenant_limited_total{limit=\"bodyBytes\"}").await, 1.0);
}

#[tokio::test]
async fn strangers_do_not_take_the_sign_ins_of_users_who_are_known() {
    let home = home(&[("acme", 'a')], "");
    let flag = platform(&home, "defaults: {signInsPerMinute: 4}");
    let rig = Rig::on(home, &flag).await;
    let sign_in = async |path: &str, user: &str| rig.sign_in(path, &credentials(user)).await;
    assert_eq!(sign_in("/Auth/Token", ADA).await.status, 200);
    assert_eq!(sign_in("/Auth/Token", BEA).await.status, 200);
    let refused = sign_in("/Employee/SignIn", MO).await;
    assert_eq!(refused.status, 429, "the half of strangers is used up: {refused:?}");
    assert_eq!(refused.json()["limit"], "signInsPerMinute");
    let seconds: u64 = refused.headers["retry-after"].parse().expect("seconds");
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(sign_in("/Auth/Token", ADA).await.status, 200, "she is known here");
    assert_eq!(sign_in("/Session/Create", ADA).await.status, 200);
    assert_eq!(sign_in("/Auth/Token", ADA).await.status, 429, "the limit of the tenant");
    assert_eq!(rig.server.metric("docket_tenant_limited_total{limit=\"signInsPerMinute\"}").await, 2.0);
}
