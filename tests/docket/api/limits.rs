//! What a tenant may use, where one process decides.

use docket_tests::server::Home;

use super::rig::{Rig, captioned, home, refused};

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
}
