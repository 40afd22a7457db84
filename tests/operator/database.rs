//! Managed databases on a real PostgreSQL: made, repaired, migrated, dropped; with the wire cut at each question.

mod certificates;
mod crash;
mod drop;
mod ensure;
mod log;
mod pooler;
mod servers;
mod tls;
mod watcher;

use std::sync::atomic::{AtomicU32, Ordering};

use docket_operator::database::{
    DatabaseError, MadeDatabase, MigrationTurn, Servers, WantedDatabase, WantedExternalDatabase,
    migrate_external,
};
use docket_rig::postgres::{self, PostgresServer};
use docket_rig::scratch::Folder;
use secrecy::SecretString;
use tokio::sync::{OnceCell, Semaphore};
use tokio_postgres::Client;
use url::Url;

/// A Tenant's UID.
const OWNER: &str = "0d7c1c0e-0000-4000-8000-000000000001";
const OTHER: &str = "0d7c1c0e-0000-4000-8000-000000000002";

/// The version of the schema.
const NEWEST: i64 = docket_schema::MIGRATIONS.len() as i64;

/// The turn of a database that may be migrated now.
fn now() -> MigrationTurn<'static> {
    static PLACES: Semaphore = Semaphore::const_new(64);
    MigrationTurn { is_now: true, places: &PLACES }
}

/// The server of this suite alone, which changes its settings.
static SERVER: OnceCell<PostgresServer> = OnceCell::const_new();

/// One admin on the suite's server, with its own name for a database.
struct Rig {
    /// The superuser's URL.
    root: Url,
    /// Where the flag's file is.
    folder: Folder,
    servers: Servers,
    name: String,
    password: SecretString,
}

impl Rig {
    /// Creates a rig whose admin has the rights that the documents ask for, and no more.
    async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root =
            Url::parse(&SERVER.get_or_init(PostgresServer::start).await.database().await).expect("a URL");
        let admin = with_user(&root, &format!("admin_{number}"), "secret-of-admin");
        let client = postgres::client(root.as_str()).await;
        let role = format!("CREATE ROLE admin_{number} LOGIN CREATEDB CREATEROLE PASSWORD 'secret-of-admin'");
        client.batch_execute(&role).await.expect("a new role");
        Self::with_admin(root, &admin, format!("tenant_{number}"))
    }

    fn with_admin(root: Url, admin: &Url, name: String) -> Self {
        let folder = Folder::new("database");
        let file = folder.path().join("url");
        std::fs::write(&file, format!("{admin}\n")).expect("the folder is new");
        let servers = Servers::read(&[format!("main={}", file.display())]).expect("a good flag");
        let password = SecretString::from(format!("secret of {name}/ä@:%"));
        Self { root, folder, servers, name, password }
    }

    fn wanted(&self) -> WantedDatabase<'_> {
        WantedDatabase {
            server: None,
            name: &self.name,
            owner_uid: OWNER,
            tenant: "tenants/acme",
            installation: "here",
            adopt: false,
            connection_limit: 20,
            password: &self.password,
            known: None,
            migration: now(),
        }
    }

    fn admin(&self) -> String {
        format!("admin_{}", self.name.trim_start_matches("tenant_"))
    }

    /// The same server by its superuser.
    fn superusers(&self) -> Servers {
        let file = self.folder.path().join("root");
        std::fs::write(&file, self.root.as_str()).expect("the folder is there");
        Servers::read(&[format!("main={}", file.display())]).expect("a good flag")
    }

    async fn ensure(&self) -> MadeDatabase {
        let made = self.servers.ensure(&self.wanted()).await.expect("the server is there");
        assert_eq!(made.schema, Ok(NEWEST));
        made
    }

    /// The superuser, in the database that it came with.
    async fn root(&self) -> Client {
        postgres::client(self.root.as_str()).await
    }

    /// All that the server knows of the database and its role, but the salt of the password.
    async fn state(&self) -> Vec<String> {
        let role = docket_operator::database::role_of(&self.name);
        let sql = "SELECT 'database ' || concat_ws('|', pg_get_userbyid(datdba), datallowconn, datconnlimit, \
                       pg_encoding_to_char(encoding), datacl, shobj_description(oid, 'pg_database')) \
                   FROM pg_database WHERE datname = $1 \
                   UNION ALL SELECT 'role ' || concat_ws('|', rolcanlogin, rolconnlimit, rolsuper, rolcreatedb, \
                       rolcreaterole, rolpassword IS NULL, shobj_description(oid, 'pg_authid')) \
                   FROM pg_authid WHERE rolname = $2 ORDER BY 1";
        let rows = self.root().await.query(sql, &[&self.name, &role]).await.expect("a good query");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Runs SQL as the superuser, with the database and its role as `{db}` and `{role}`.
    async fn by_hand(&self, sql: &str) {
        let role = docket_operator::database::role_of(&self.name);
        let sql = sql.replace("{db}", &quoted(&self.name)).replace("{role}", &quoted(&role));
        for statement in sql.split(';') {
            self.root().await.batch_execute(statement).await.expect("a superuser may");
        }
    }
}

/// Migrates an empty database twice at the same time; `direct` is its URL without a pooler. Both have found it empty before the first of
/// them makes a table: a third session is making one of the same name, and then does not.
async fn migrated_twice(
    direct: &str,
    wanted: &WantedExternalDatabase<'_>,
) -> [Result<i64, DatabaseError>; 2] {
    let (third, watcher) = (postgres::client(direct).await, postgres::client(direct).await);
    let begin = format!("BEGIN; {}", docket_schema::CREATE_VERSION_TABLE);
    third.batch_execute(&begin).await.expect("it is empty");
    let release = async {
        postgres::lock_waits(&watcher, 2).await;
        third.batch_execute("ROLLBACK").await.expect("a rollback");
    };
    let (one, two, ()) = tokio::join!(migrate_external(wanted), migrate_external(wanted), release);
    [one, two]
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The server is away: for all its databases, or for this one.
fn is_away(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::Unreachable { .. } | DatabaseError::ServerAway { .. })
}

fn with_user(url: &Url, user: &str, password: &str) -> Url {
    let mut url = url.clone();
    url.set_username(user).expect("it has a host");
    url.set_password(Some(password)).expect("it has a host");
    url
}

fn in_database(url: &Url, database: &str) -> Url {
    let mut url = url.clone();
    url.path_segments_mut().expect("it has a host").clear().push(database);
    url
}

/// Why a URL can't be connected with; `None`: it can.
async fn refusal(url: &str) -> Option<String> {
    let error = tokio_postgres::connect(url, tokio_postgres::NoTls).await.err()?;
    Some(error.as_db_error().map_or_else(|| error.to_string(), |error| error.code().code().to_owned()))
}
