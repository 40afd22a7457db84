//! The PostgreSQL of a run: bare databases, the operator's managed ones, and one database that all other tenants share.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use docket_rig::postgres::{self, PostgresServer};
use futures_util::future::join_all;
use tokio_postgres::Client;

/// A committed transaction is on the disk, as in the other benchmarks. The log has each login.
const SETTINGS: &str = "fsync = on\nfull_page_writes = on\nsynchronous_commit = on\nshared_buffers = 512MB\n\
                        max_connections = 400\nlog_connections = on\n";
/// The number of bare databases that are created at a time: as many as the operator has passes at a time.
const AT_A_TIME: usize = 8;
/// The number of roles that are created in one transaction.
const CHUNK: usize = 500;
const SHARED: &str = "shared";
const PASSWORD: &str = "secret-of-all-tenants";

/// The server and a connection of its administrator.
pub(crate) struct Databases {
    server: PostgresServer,
    admin: Client,
}

impl Databases {
    /// Starts the server.
    pub(crate) async fn start() -> Self {
        let server = PostgresServer::start_with(SETTINGS).await;
        let admin = postgres::client(&server.url("postgres")).await;
        Self { server, admin }
    }

    /// The URL of the administrator.
    pub(crate) fn admin_url(&self) -> String {
        self.server.url("postgres")
    }

    /// Creates this many databases, each with its role, and drops them; returns how many it created per second.
    pub(crate) async fn bare(&self, count: usize) -> f64 {
        let url = self.admin_url();
        let clients = join_all((0..AT_A_TIME).map(|_| postgres::client(&url))).await;
        let next = &AtomicUsize::new(0);
        let begun = Instant::now();
        let create = clients.iter().map(|client| async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                run(client, &format!("CREATE ROLE bare_{number} LOGIN")).await;
                let database = format!("CREATE DATABASE bare_{number} OWNER bare_{number}");
                run(client, &format!("{database} TEMPLATE template0 ENCODING 'UTF8'")).await;
            }
        });
        join_all(create).await;
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        for number in 0..count {
            run(&self.admin, &format!("DROP DATABASE bare_{number}")).await;
            run(&self.admin, &format!("DROP ROLE bare_{number}")).await;
        }
        rate
    }

    /// Creates and migrates the shared database, with a role for each tenant. A role has a schema of its own name, which
    /// PostgreSQL searches first: the table that names the database's tenant is there. All other tables are common.
    pub(crate) async fn share(&self, roles: &[String]) {
        run(&self.admin, &format!("CREATE DATABASE {SHARED} TEMPLATE template0 ENCODING 'UTF8'")).await;
        let mut client = postgres::client(&self.server.url(SHARED)).await;
        docket_schema::postgres::migrate(&mut client).await.expect("an empty database takes the schema");
        let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO PUBLIC; \
                     GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO PUBLIC";
        run(&client, grant).await;
        // The server derives the verifier of a password slowly, and all roles have the same password.
        run(&client, &format!("CREATE ROLE verified PASSWORD '{PASSWORD}'")).await;
        let verifier = "SELECT rolpassword FROM pg_authid WHERE rolname = 'verified'";
        let verifier: String = client.query_one(verifier, &[]).await.expect("a role").get(0);
        for roles in roles.chunks(CHUNK) {
            let mut sql = String::new();
            for role in roles {
                let _ = write!(
                    sql,
                    "CREATE ROLE {role} LOGIN PASSWORD '{verifier}'; CREATE SCHEMA {role} AUTHORIZATION {role};"
                );
            }
            run(&client, &sql).await;
        }
    }

    /// The URL of the shared database for a tenant's role.
    pub(crate) fn shared_url(&self, role: &str) -> String {
        let url = self.server.url(SHARED);
        let (_, place) = url.rsplit_once('@').expect("the rig's URL has a password");
        format!("postgres://{role}:{PASSWORD}@{place}")
    }

    /// Where the server's log ends now.
    pub(crate) fn mark(&self) -> usize {
        read(&self.server.log()).len()
    }

    /// The number of logins of the operator since `mark`, without logins as the role `other`.
    pub(crate) fn logins(&self, mark: usize, other: &str) -> usize {
        let log = read(&self.server.log());
        let log = String::from_utf8_lossy(&log[mark..]);
        log.lines().filter(|line| is_login(line) && !line.contains(&format!("user={other} "))).count()
    }
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.expect(sql);
}

fn read(log: &Path) -> Vec<u8> {
    std::fs::read(log).expect("the server has a log")
}

fn is_login(line: &str) -> bool {
    line.contains("connection authorized:") && line.contains("application_name=docket-operator")
}
