//! The folder of YAML is followed while the program runs; a mistake affects no other tenant.

use std::time::Duration;

use docket_tests::people::{ADA, add_tenant};
use docket_tests::server::{JSON, api_key, eventually, tenant_yaml};

use super::rig::{Rig, captioned, credentials, home, save};
use crate::delivery::stage::reload;

/// The time until an edit is served: the folder is read every 0.4 s, and must be the same twice.
const FOLLOWED: Duration = Duration::from_secs(3);

/// What a sign-in with this tenant's key answers.
async fn status(rig: &Rig, digit: char) -> u16 {
    let key = api_key(digit);
    rig.server
        .send("POST", "/Auth/Token", &[("x-api-key", &key), JSON], &credentials(ADA).to_string())
        .await
        .status
}

async fn becomes(rig: &Rig, digit: char, expected: u16) {
    eventually("the edit is followed", FOLLOWED, async || status(rig, digit).await == expected).await;
}

#[tokio::test]
async fn a_new_tenant_is_served_and_a_removed_one_is_not() {
    let rig = Rig::start().await;
    assert_eq!(status(&rig, 'b').await, 401);
    add_tenant(&rig.home, "blue", 'b');
    becomes(&rig, 'b', 200).await;
    std::fs::remove_file(rig.home.config().join("blue.yaml")).expect("removable");
    becomes(&rig, 'b', 401).await;
    assert_eq!(status(&rig, 'a').await, 200);
    rig.home.write("blue.yaml", &tenant_yaml("blue", 'b'));
    becomes(&rig, 'b', 200).await;
}

#[tokio::test]
async fn a_deactivated_key_is_refused_and_a_token_without_it_is_not_enough() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let off = tenant_yaml("acme", 'a').replace("- name: primary\n", "- name: primary\n    active: false\n");
    rig.home.write("acme.yaml", &off);
    becomes(&rig, 'a', 401).await;
    assert_eq!(ada.get("/Orders/Search").await.status, 401);
    rig.home.write("acme.yaml", &tenant_yaml("acme", 'a'));
    becomes(&rig, 'a', 200).await;
    assert_eq!(ada.get("/Orders/Search").await.status, 200, "the token is still good");
}

#[tokio::test]
async fn keys_rotate_by_overlap() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    let new_key =
        tenant_yaml("acme", 'd').replace("acme-key", "new-key").replace("name: primary", "name: second");
    let (both, secrets) = new_key.split_once("---").expect("more documents");
    let both = both.replace(
        "  - name: second",
        "  - name: primary\n    secretKeyRef: {name: acme-key, key: key}\n  - name: second",
    );
    let old_secret = tenant_yaml("acme", 'a').split_once("---").expect("more documents").1.to_owned();
    let old_secret = old_secret.split_once("---").expect("two secrets").0.to_owned();
    rig.home.write("acme.yaml", &format!("{both}---{secrets}---{old_secret}"));
    becomes(&rig, 'd', 200).await;
    assert_eq!(status(&rig, 'a').await, 200, "both are good");
    rig.home.write("acme.yaml", &new_key);
    becomes(&rig, 'a', 401).await;
    let ada = docket_tests::server::Client { key: api_key('d'), ..ada };
    assert_eq!(ada.get("/Orders/Search").await.status, 200, "tokens do not depend on the key");
}

#[tokio::test]
async fn suspending_a_tenant_refuses_its_keys_until_it_is_resumed() {
    let rig = Rig::start().await;
    rig.home.write("acme.yaml", &tenant_yaml("acme", 'a').replace("spec:\n", "spec:\n  suspend: true\n"));
    becomes(&rig, 'a', 401).await;
    rig.home.write("acme.yaml", &tenant_yaml("acme", 'a'));
    becomes(&rig, 'a', 200).await;
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_version_and_is_logged_with_its_place() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let broken = tenant_yaml("acme", 'a').replace("subdomains: [acme]", "subdomains: [acme, \"no host\"]");
    reload(&rig.home, || rig.home.write("acme.yaml", &broken)).await;
    assert_eq!((status(&rig, 'a').await, status(&rig, 'b').await), (200, 200));
    let log = rig.log();
    let of_file = |line: &&str| line.contains("acme.yaml, document 1");
    let line = log.lines().find(of_file).unwrap_or_else(|| panic!("no warning: {log}"));
    for part in ["WARN", "Tenant default/acme", "spec.subdomains[1]"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let body = credentials(ADA).to_string();
    let reply = rig.server.send("POST", "/Auth/Token", &[("host", "acme.localhost"), JSON], &body).await;
    assert_eq!(reply.status, 200, "its subdomain too");
}

#[tokio::test]
async fn a_syntax_error_affects_no_other_tenant_and_not_even_its_own() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    for text in ["spec: [\n", "a: b: c", "\u{0}", "- - - :\n  }{"] {
        reload(&rig.home, || rig.home.write("acme.yaml", text)).await;
        assert_eq!((status(&rig, 'a').await, status(&rig, 'b').await), (200, 200), "{text:?}");
    }
    assert!(rig.log().contains("acme.yaml"), "{}", rig.log());
    // Changes of the others continue being followed.
    std::fs::remove_file(rig.home.config().join("blue.yaml")).expect("removable");
    becomes(&rig, 'b', 401).await;
}

#[tokio::test]
async fn one_broken_document_at_the_start_leaves_the_others_served() {
    let home = home(&[("acme", 'a'), ("blue", 'b'), ("coral", 'c')], "");
    home.write("blue.yaml", "kind: [");
    home.write(
        "coral.yaml",
        &tenant_yaml("coral", 'c').replace("clientCode: CORAL", "clientCode: \"not ok\""),
    );
    let rig = Rig::on(home, "").await;
    assert_eq!((status(&rig, 'a').await, status(&rig, 'b').await, status(&rig, 'c').await), (200, 401, 401));
    for part in ["blue.yaml", "coral.yaml, document 1 (Tenant default/coral): spec.clientCode"] {
        rig.logged(part).await;
    }
    for (name, digit) in [("blue", 'b'), ("coral", 'c')] {
        rig.home.write(&format!("{name}.yaml"), &tenant_yaml(name, digit));
    }
    becomes(&rig, 'b', 200).await;
    becomes(&rig, 'c', 200).await;
}

#[tokio::test]
async fn two_tenants_with_the_same_key_or_host_do_not_share_it() {
    let rig = Rig::start().await;
    reload(&rig.home, || add_tenant(&rig.home, "blue", 'a')).await;
    let reply = rig.sign_in("/Auth/Token", &credentials(ADA)).await;
    assert_eq!(reply.status, 200, "the first one keeps it: {reply:?}");
    let token = reply.json()["token"].as_str().expect("text").to_owned();
    let headers = [("host", "acme.localhost"), ("authorization", &*format!("Bearer {token}"))];
    assert_eq!(rig.server.send("GET", "/Orders/Search", &headers, "").await.status, 200);
    assert!(rig.log().contains("WARN"), "{}", rig.log());
}

#[tokio::test]
async fn a_newcomer_whose_file_comes_first_takes_no_key_over() {
    let rig = Rig::start().await;
    let ada = rig.ada().await;
    reload(&rig.home, || add_tenant(&rig.home, "aaa", 'a')).await;
    assert_eq!(ada.get("/Orders/Search").await.status, 200, "the key is still the tenant's of the token");
    let id = save(&rig.ada().await, &captioned("x")).await;
    assert_eq!((id.as_str(), rig.orders()), ("W00000001", 1), "in ACME's database");
    assert!(rig.log().contains("belongs to tenant ACME already"), "{}", rig.log());

    // A suspended tenant keeps its key: its clients must not reach another tenant.
    let acme = tenant_yaml("acme", 'a');
    rig.home.write("acme.yaml", &acme.replace("spec:\n", "spec:\n  suspend: true\n"));
    becomes(&rig, 'a', 401).await;
    rig.home.write("acme.yaml", &acme);
    becomes(&rig, 'a', 200).await;
    assert_eq!(ada.get("/Orders/Search").await.status, 200);

    // Once `acme` has given up the key, the other tenant has it.
    std::fs::remove_file(rig.home.config().join("acme.yaml")).expect("removable");
    eventually("the other one has it", FOLLOWED, async || ada.get("/Orders/Search").await.status == 401)
        .await;
    becomes(&rig, 'a', 200).await;
}

#[tokio::test]
async fn a_key_of_two_tenants_is_that_of_the_first_file_after_a_restart() {
    let home = home(&[("acme", 'a')], "");
    add_tenant(&home, "aaa", 'a');
    let rig = Rig::on(home, "").await;
    save(&rig.ada().await, &captioned("x")).await;
    assert_eq!(rig.orders(), 0, "not in ACME's database");
    assert!(
        rig.log().contains("tenant.code=\"ACME\"") && rig.log().contains("belongs to tenant AAA already")
    );
}

#[tokio::test]
async fn no_secret_is_ever_logged_or_printed_for_a_mistake() {
    let rig = Rig::start().await;
    let canary = "canary-of-a-secret";
    let mistaken = tenant_yaml("acme", 'a').replace(&api_key('a'), canary);
    reload(&rig.home, || rig.home.write("acme.yaml", &mistaken)).await;
    let said = std::fs::read_to_string(rig.home.log("out")).expect("readable");
    assert!(!rig.log().contains(canary) && !said.contains(canary));
    assert!(rig.log().contains("acme.yaml"), "{}", rig.log());
}
