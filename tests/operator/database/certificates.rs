//! Logins with a client's certificate, against a server that asks for one.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_crds::database_secret::{self, Beside};
use docket_operator::database::{DatabaseError, Servers, WantedExternalDatabase, migrate_external};
use docket_rig::postgres::{self, PostgresServer};
use docket_rig::scratch::Folder;
use docket_schema::postgres::ExternalDatabases;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use secrecy::SecretString;
use url::Url;

use super::now;
use super::tls::{authority, encrypt, write_file};
use super::{NEWEST, OWNER, Rig};

/// A certificate for the role `name`, and its private key.
fn certificate(name: &str, authority: &CertifiedIssuer<'_, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().expect("ring makes keys");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.signed_by(&key, authority).expect("a certificate").pem(), key.serialize_pem())
}

/// A server with TLS. The role `certified` logs in with a certificate and without a password, the role `both` with both.
async fn server(authority: &CertifiedIssuer<'_, KeyPair>) -> (PostgresServer, Url) {
    let server = PostgresServer::start().await;
    let root = Url::parse(&server.database().await).expect("a URL");
    let client = postgres::client(root.as_str()).await;
    for sql in [
        "CREATE ROLE certified LOGIN CREATEDB CREATEROLE",
        "CREATE ROLE \"both\" LOGIN PASSWORD 'p@/#'",
        "CREATE DATABASE \"both\" OWNER \"both\"",
        "ALTER SYSTEM SET ssl_ca_file = 'root.crt'",
    ] {
        client.batch_execute(sql).await.expect("a superuser may");
    }
    write_file(&client, "root.crt", &authority.pem()).await;
    let rules: String =
        client.query_one("SELECT pg_read_file('pg_hba.conf')", &[]).await.expect("a superuser may").get(0);
    let ours = "hostssl all certified 127.0.0.1/32 cert\n\
                hostssl all both 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n\
                host all certified,both all reject\n";
    write_file(&client, "pg_hba.conf", &format!("{ours}{rules}")).await;
    encrypt(&client, authority).await;
    (server, root)
}

/// The keys of a Secret, as files of a folder.
fn folder(root: &Url, entries: &[(&str, &str)]) -> Folder {
    let folder = Folder::new("secret");
    let port = root.port().expect("a port").to_string();
    let dbname = root.path().trim_start_matches('/');
    let common = [("host", "localhost"), ("port", port.as_str()), ("dbname", dbname)];
    for (key, value) in common.iter().chain(entries) {
        std::fs::write(folder.path().join(key), value).expect("the folder is new");
    }
    folder
}

fn rig(root: &Url, entries: &[(&str, &str)]) -> Rig {
    let folder = folder(root, entries);
    let servers = Servers::read(&[format!("main={}", folder.path().display())]).expect("a good flag");
    let password = SecretString::from("secret of the tenant");
    Rig { root: root.clone(), folder, servers, name: "tenant_certified".to_owned(), password }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_logs_in_with_its_certificate_and_tenants_with_their_passwords() {
    let authority = authority();
    let (_server, root) = server(&authority).await;
    let ca = authority.pem();
    let (own, key) = certificate("certified", &authority);
    let entries = [
        ("username", "certified"),
        ("tls.crt", own.as_str()),
        ("tls.key", key.as_str()),
        ("ca.crt", ca.as_str()),
    ];
    let made = rig(&root, &entries).ensure().await;
    let url = made.url.expose();
    assert!(
        url.contains("@localhost:") && url.contains("sslmode=verify-full&sslrootcert=-----BEGIN"),
        "{url}"
    );
    assert!(!url.contains("sslcert") && !url.contains("sslkey"), "the operator's key stays with it");

    let (others, key) = certificate("other", &authority);
    let entries = [
        ("username", "certified"),
        ("tls.crt", others.as_str()),
        ("tls.key", key.as_str()),
        ("ca.crt", ca.as_str()),
    ];
    let refused = rig(&root, &entries);
    let error = refused.servers.ensure(&refused.wanted()).await.unwrap_err();
    assert!(matches!(&error, DatabaseError::ServerAway { reason } if reason.contains("28000")), "{error}");
    for (entries, expected) in [
        (vec![("username", "certified")], "the Secret with the keys in this folder: has no key \"password\""),
        (vec![("password", "hunter2")], "has no key \"user\" or \"username\""),
        (vec![("user", "u"), ("tls.crt", own.as_str())], "must have both tls.crt and tls.key, or neither"),
        (
            vec![("user", "u"), ("tls.crt", own.as_str()), ("tls.key", key.as_str())],
            "sslkey must be the private key of sslcert",
        ),
    ] {
        let folder = folder(&root, &entries);
        let error = Servers::read(&[format!("main={}", folder.path().display())]).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn external_database_may_ask_for_a_certificate_beside_the_password() {
    let authority = authority();
    let (_server, root) = server(&authority).await;
    let ca = authority.pem();
    let port = root.port().expect("a port").to_string();
    let migrated = async |name: &str| {
        let (certificate, key) = certificate(name, &authority);
        let value = |wanted: &'static str| {
            let value = match wanted {
                "host" => "localhost",
                "port" => port.as_str(),
                "user" | "dbname" => "both",
                "password" => "p@/#",
                "tls.crt" => certificate.as_str(),
                "tls.key" => key.as_str(),
                "ca.crt" => ca.as_str(),
                _ => return None,
            };
            Some(value.as_bytes().to_vec())
        };
        let url: DatabaseUrl = database_secret::url(&value, &Beside::default()).expect("a whole Secret");
        let local = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
        let allowed = Arc::new(ExternalDatabases::new(local.to_vec(), None));
        migrate_external(&WantedExternalDatabase {
            url,
            allowed: &allowed,
            owner_uid: OWNER,
            adopt: false,
            migration: now(),
        })
        .await
    };
    assert_eq!(migrated("both").await, Ok(NEWEST));
    let error = migrated("other").await.unwrap_err();
    assert!(matches!(&error, DatabaseError::Unreachable { reason } if reason.contains("login")), "{error}");
}
