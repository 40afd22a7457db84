//! `sslmode` against a server with a certificate of a throw-away authority.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_operator::database::{DatabaseError, Servers, WantedExternalDatabase, migrate_external};
use docket_rig::scratch::Folder;
use docket_schema::postgres::ExternalDatabases;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_postgres::Client;

use super::{OWNER, Rig, now};

pub(super) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("ring makes keys"))
        .expect("a certificate")
}

/// Writes a file into the folder of the server's data; the server's own account owns it.
pub(super) async fn write_file(root: &Client, file: &str, content: &str) {
    let octal: String = content.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    let program = format!("umask 077; cat >/dev/null; printf \"{octal}\" >{file}");
    root.batch_execute(&format!("COPY (SELECT) TO PROGRAM '{program}'")).await.expect("a superuser may");
}

/// Gives the server a certificate for `localhost`.
pub(super) async fn encrypt(root: &Client, authority: &CertifiedIssuer<'_, KeyPair>) {
    let key = KeyPair::generate().expect("ring makes keys");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    write_file(root, "server.key", &key.serialize_pem()).await;
    write_file(root, "server.crt", &certificate.pem()).await;
    root.batch_execute("ALTER SYSTEM SET ssl = on").await.expect("a superuser may");
    root.batch_execute("SELECT pg_reload_conf()").await.expect("a superuser may");
    while root.query_one("SHOW ssl", &[]).await.expect("it answers").get::<_, String>(0) != "on" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_says_what_is_encrypted_and_checked() {
    let rig = Rig::new().await;
    let (ours, theirs) = (authority(), authority());
    encrypt(&rig.root().await, &ours).await;
    let folder = Folder::new("authorities");
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("the folder is new");
        path.display().to_string()
    };
    let (ours, theirs) = (file("ours", ours.pem()), file("theirs", theirs.pem()));
    let local = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
    let allowed = Arc::new(ExternalDatabases::new(local.to_vec(), Some(folder.path().to_owned())));
    for (host, query, expected) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), Ok(false)),
        ("127.0.0.1", "sslmode=prefer".to_owned(), Ok(true)),
        ("127.0.0.1", "sslmode=require".to_owned(), Ok(true)),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={theirs}"), Err(())),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ours}"), Ok(true)),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={theirs}"), Err(())),
        ("127.0.0.1", "sslmode=verify-ca".to_owned(), Err(())),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ours}"), Err(())),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ours}"), Ok(true)),
        ("localhost", format!("sslmode=verify-full&sslrootcert={theirs}"), Err(())),
        ("localhost", "sslmode=verify-full&sslrootcert=system".to_owned(), Err(())),
    ] {
        let mut url = rig.root.clone();
        url.set_host(Some(host)).expect("a name");
        url.set_query(Some(&query));
        assert_eq!(encrypted(url.as_str()).await, expected, "{host} {query}");
        let url = DatabaseUrl::parse(url.as_str()).expect("a URL");
        let migrated = migrate_external(&WantedExternalDatabase {
            url,
            allowed: &allowed,
            owner_uid: OWNER,
            migration: now(),
            adopt: false,
        })
        .await;
        assert_eq!(migrated.is_ok(), expected.is_ok(), "{host} {query}: {migrated:?}");
        if let Err(error) = migrated {
            assert!(matches!(&error, DatabaseError::Unreachable { .. }), "{error}");
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    }

    let mut url = rig.root.clone();
    url.set_host(Some("localhost")).expect("a name");
    url.set_query(Some(&format!("sslmode=verify-full&sslrootcert={ours}&application_name=admin")));
    let flag = file("admin", url.to_string());
    let servers = Servers::read(&[format!("main={flag}")]).expect("a good flag");
    let made = servers.ensure(&rig.wanted()).await.expect("a tenant goes the admin's way");
    assert!(made.url.expose().ends_with(&format!("/{}?sslmode=verify-full&sslrootcert={ours}", rig.name)));
    servers.drop_database(None, &rig.name, OWNER).await.expect("the same way");
}

/// Whether a connection is encrypted; an error: there is none.
async fn encrypted(url: &str) -> Result<bool, ()> {
    let target = docket_schema::postgres::DatabaseTarget::parse(url).expect("a good URL");
    let connected = target.connect().await.map_err(|_| ())?;
    let (client, _) = (connected.client, tokio::spawn(connected.connection));
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    Ok(client.query_one(sql, &[]).await.expect("it answers").get(0))
}
