//! The flag `--database-server`, and the rights of the admin that it names.

use std::time::Duration;

use docket_operator::database::{DatabaseError, Servers, WantedDatabase};
use docket_rig::scratch::Folder;

use super::{OWNER, Rig, with_user};

#[test]
fn a_wrong_flag_names_itself_and_the_file_but_never_the_content() {
    let folder = Folder::new("database");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let written = |name: &str, content: &str| {
        std::fs::write(path(name), content).unwrap();
        format!("main={}", path(name))
    };
    let missing = format!("main={}", path("missing"));
    let good = written("good", "postgres://u:hunter2@h/postgres");
    for (flags, expected) in [
        (vec![missing], "read the file: No such file or directory"),
        (vec![written("empty", " \n")], "the file is empty"),
        (vec![written("words", "hunter2")], "the file's content must be a URL like postgresql://"),
        (
            vec![written("other", "mysql://u:hunter2@h/x")],
            "the file's content must be a URL like postgresql://",
        ),
        (
            vec![written("odd", "postgres://u:hunter2@h/x?sslmode=on")],
            "sslmode must be one of disable, prefer",
        ),
        (vec![good.clone(), good.clone()], "another server has the name \"main\""),
    ] {
        let error = Servers::read(&flags).unwrap_err().to_string();
        let flag = flags.last().unwrap();
        assert!(error.starts_with(&format!("--database-server {flag}: ")), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let servers = Servers::read(&[good]).unwrap();
    assert_eq!(servers.names(), ["main"]);
    assert!(!format!("{servers:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_names_no_server_means_the_first() {
    let rig = Rig::new().await;
    let file = rig.folder.path().join("url");
    let servers = |names: &[&str]| {
        let flags: Vec<String> = names.iter().map(|name| format!("{name}={}", file.display())).collect();
        Servers::read(&flags).unwrap()
    };
    let used = async |names: &[&str], server: Option<&str>| {
        servers(names).ensure(&WantedDatabase { server, ..rig.wanted() }).await.map(|made| made.server)
    };
    assert_eq!(used(&["eu"], None).await.unwrap(), "eu");
    assert_eq!(used(&["eu", "us"], None).await.unwrap(), "eu");
    assert_eq!(used(&["eu", "us"], Some("us")).await.unwrap(), "us");
    for (names, server) in [(&["eu", "us"][..], Some("asia")), (&[][..], None)] {
        let known = names.iter().map(ToString::to_string).collect();
        let wanted = server.map(str::to_owned);
        assert_eq!(used(names, server).await, Err(DatabaseError::ServerUnknown { wanted, known }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_admin_password_is_taken_up_from_the_file() {
    let rig = Rig::new().await;
    rig.ensure().await;
    let admin = rig.admin();
    rig.by_hand(&format!("ALTER ROLE {admin} PASSWORD 'rotated'")).await;
    let file = rig.folder.path().join("url");
    std::fs::write(&file, with_user(&rig.root, &admin, "wrong").as_str()).unwrap();
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
    assert!(matches!(&error, DatabaseError::ServerAway { reason } if reason.contains("28P01")), "{error}");
    std::fs::write(&file, with_user(&rig.root, &admin, "rotated").as_str()).unwrap();
    rig.ensure().await;
    std::fs::remove_file(&file).unwrap();
    rig.ensure().await;
}

/// Tenants wait up to five minutes for their next turn. The file is read for this too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_back_is_noticed_without_a_pass() {
    let rig = Rig::new().await;
    rig.ensure().await;
    let file = rig.folder.path().join("url");
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, with_user(&rig.root, &rig.admin(), "wrong").as_str()).unwrap();
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
    assert!(matches!(&error, DatabaseError::ServerAway { .. }), "{error}");
    std::fs::write(&file, right).unwrap();
    tokio::time::timeout(Duration::from_secs(30), rig.servers.recovered()).await.expect("it is noticed");
    rig.ensure().await;
}

/// The pass may also be the deletion of a Tenant.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_finds_the_server_back_is_news_for_the_others() {
    let rig = Rig::new().await;
    rig.ensure().await;
    let file = rig.folder.path().join("url");
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, with_user(&rig.root, &rig.admin(), "wrong").as_str()).unwrap();
    rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap_err();
    std::fs::write(&file, right).unwrap();
    rig.ensure().await;
    // The server is known again without a login: the next login would be after five seconds.
    tokio::time::timeout(Duration::from_secs(4), rig.servers.recovered()).await.expect("it is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_the_admin_lacks_is_named() {
    let rig = Rig::new().await;
    let admin = rig.admin();
    for (right, sql) in [("CREATEROLE", "NOCREATEROLE"), ("CREATEDB", "CREATEROLE NOCREATEDB")] {
        rig.by_hand(&format!("ALTER ROLE {admin} {sql}")).await;
        let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the database server refused: the admin role lacks {right}: ALTER ROLE \"{admin}\" {right}"
            )
        );
    }
    rig.by_hand(&format!("ALTER ROLE {admin} CREATEDB")).await;
    let made = rig.ensure().await;
    rig.by_hand(&format!("ALTER ROLE {admin} NOCREATEDB NOCREATEROLE")).await;
    assert_eq!(rig.ensure().await, made, "at rest it takes no right");
}
