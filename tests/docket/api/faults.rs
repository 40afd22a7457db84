//! A tenant's database is locked, full or broken: 503 for that tenant for as long as it lasts, and nothing else.

use std::time::{Duration, Instant};

use docket_rig::small_disk::SmallDisk;
use docket_tests::people::ADA;
use docket_tests::server::{Client, Reply, api_key, eventually};
use serde_json::json;

use super::rig::{Rig, captioned, home, refused, save};

const AWAY: &str = "The service is not available for this tenant right now; try again";

#[track_caller]
fn away(reply: &Reply) {
    refused(reply, 503, AWAY);
    assert_eq!(reply.headers["retry-after"], "2");
}

#[tokio::test]
async fn a_locked_database_refuses_writes_for_as_long_and_still_reads() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (ada, blue) = (rig.ada().await, rig.server.sign_in(&api_key('b'), ADA).await);
    let id = save(&ada, &captioned("before")).await;
    let other = rig.database("ACME");
    other.change("BEGIN EXCLUSIVE");
    let begun = Instant::now();
    let (first, second) = (captioned("during"), captioned("during too"));
    let reads = async {
        assert_eq!(ada.get(&format!("/Orders/Get?webOrderId={id}")).await.status, 200);
        assert_eq!(ada.get("/Orders/Search").await.status, 200);
        rig.ada().await;
        save(&blue, &captioned("elsewhere")).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "no other waits: {:?}", begun.elapsed());
    };
    let (first, second, ()) =
        tokio::join!(ada.post("/Orders/Save", &first), ada.post("/Orders/Save", &second), reads);
    away(&first);
    away(&second);
    // An entry of the audit may be stored before the orders, and waits for the lock as long as they do.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    other.change("ROLLBACK");
    assert_eq!(save(&ada, &captioned("after")).await, "W00000002", "nothing of the refused ones is left");
}

/// A draft of some 8 KB.
fn large(n: usize) -> serde_json::Value {
    json!({"orderType": "Court", "case": {"caption": format!("order {n}")}, "request": "x".repeat(2000),
           "instructions": "y".repeat(2000), "documents": vec![json!({"title": "t".repeat(200)}); 20]})
}

async fn fill(ada: &Client) -> (Vec<String>, Reply) {
    let mut saved = Vec::new();
    for n in 0..2_000 {
        let reply = ada.post("/Orders/Save", &large(n)).await;
        match reply.status {
            200 => saved.push(reply.json()["webOrderId"].as_str().expect("an id").to_owned()),
            _ => return (saved, reply),
        }
    }
    panic!("2 MB hold 2,000 orders of 8 KB");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    let home = home(&[("acme", 'a'), ("blue", 'b')], "");
    let folder = home.database("ACME").parent().expect("a folder").to_owned();
    let people = std::fs::read(home.database("ACME")).expect("readable");
    let Some(disk) = SmallDisk::mount(&folder, 2) else { return };
    std::fs::write(home.database("ACME"), people).expect("room");
    std::fs::write(folder.join("ballast"), vec![0; 512 * 1024]).expect("room");
    let rig = Rig::on(home, "").await;
    let ada = rig.ada().await;
    let (saved, refusal) = fill(&ada).await;
    assert!(saved.len() > 10, "{saved:?}");
    away(&refusal);
    for id in &saved {
        assert_eq!(ada.get(&format!("/Orders/Get?webOrderId={id}")).await.status, 200, "{id}");
    }
    let blue = rig.server.sign_in(&api_key('b'), ADA).await;
    save(&blue, &captioned("another tenant has room")).await;
    std::fs::remove_file(folder.join("ballast")).expect("removable");
    eventually("there is room again", Duration::from_secs(5), async || {
        ada.post("/Orders/Save", &captioned("after")).await.status == 200
    })
    .await;
    assert_eq!(rig.orders() as usize, saved.len() + 1);
    drop(rig);
    drop(disk);
}

#[tokio::test]
async fn a_broken_file_takes_only_its_own_tenant_away() {
    let home = home(&[("acme", 'a'), ("blue", 'b')], "");
    std::fs::write(home.database("ACME"), b"this is no database ".repeat(1000)).expect("writable");
    let rig = Rig::on(home, "").await;
    let blue = rig.server.sign_in(&api_key('b'), ADA).await;
    save(&blue, &captioned("b")).await;
    away(&rig.sign_in("/Auth/Token", &super::rig::credentials(ADA)).await);
    assert!(!rig.log().contains("panicked"), "{}", rig.log());
}

#[tokio::test]
async fn a_file_that_breaks_while_it_is_used_is_away_and_comes_back_with_a_copy() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (ada, blue) = (rig.ada().await, rig.server.sign_in(&api_key('b'), ADA).await);
    let path = rig.home.database("ACME");
    save(&ada, &captioned("before")).await;
    rig.database("ACME").change("PRAGMA wal_checkpoint(TRUNCATE)");
    let copy = std::fs::read(&path).expect("readable");
    let rig = rig.restarted().await;
    std::fs::write(&path, vec![0xa5; copy.len()]).expect("writable");
    let ada = Client { api: rig.server.api, ..ada };
    let blue = Client { api: rig.server.api, ..blue };
    away(&ada.post("/Orders/Save", &captioned("during")).await);
    away(&ada.get("/Orders/Search").await);
    save(&blue, &captioned("meanwhile")).await;
    let rig = {
        let Rig { server, home, .. } = rig;
        server.kill();
        for name in ["tenant.db-wal", "tenant.db-shm"] {
            let _ = std::fs::remove_file(path.with_file_name(name));
        }
        std::fs::write(&path, copy).expect("writable");
        Rig::on(home, "").await
    };
    let ada = Client { api: rig.server.api, ..ada };
    assert_eq!(ada.get("/Orders/Get?webOrderId=W00000001").await.status, 200);
}

#[tokio::test]
async fn a_folder_that_can_not_be_written_is_away() {
    let home = home(&[("acme", 'a')], "");
    let path = home.database("ACME");
    std::fs::remove_file(&path).expect("removable");
    std::fs::create_dir(&path).expect("a folder where the file should be");
    let rig = Rig::on(home, "").await;
    away(&rig.sign_in("/Auth/Token", &super::rig::credentials(ADA)).await);
    std::fs::remove_dir(&path).expect("removable");
    rig.home.add_contact("ACME", "C-1", ADA);
    rig.ada().await;
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone() {
    let home = home(&[("acme", 'a')], "");
    let database = rusqlite::Connection::open(home.database("ACME")).expect("a file");
    database.execute(docket_schema::RECORD_VERSION, (99, "from the future", 0)).expect("a statement");
    drop(database);
    let rig = Rig::on(home, "").await;
    away(&rig.sign_in("/Auth/Token", &super::rig::credentials(ADA)).await);
    assert!(rig.log().contains("schema version 99"), "{}", rig.log());
}

#[tokio::test]
async fn a_broken_sample_database_does_not_keep_the_others_from_starting() {
    let home = home(&[("blue", 'b')], "");
    let acme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/acme.yaml");
    home.write("acme.yaml", &std::fs::read_to_string(acme).expect("readable"));
    let path = home.database("ACME");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
    std::fs::write(&path, b"this is no database ".repeat(1000)).expect("writable");
    let rig = Rig::on(home, "").await;
    let blue = rig.server.sign_in(&api_key('b'), ADA).await;
    save(&blue, &captioned("b")).await;
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_open_takes_no_more_writes() {
    let rig = Rig::of(&[("acme", 'a'), ("blue", 'b')]).await;
    let (ada, blue) = (rig.ada().await, rig.server.sign_in(&api_key('b'), ADA).await);
    save(&ada, &captioned("before")).await;
    let file = rig.home.database("ACME");
    for name in ["tenant.db", "tenant.db-wal", "tenant.db-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(name));
    }
    away(&ada.post("/Orders/Save", &captioned("into nothing")).await);
    away(&ada.get("/Orders/Search").await);
    assert!(!file.exists(), "an empty one in its place would hide that it is gone");
    save(&blue, &captioned("elsewhere")).await;
}
