//! A database is made as declared, and repaired.

use std::sync::{Arc, LazyLock};

use docket_crds::DatabaseUrl;
use docket_operator::database::{
    DatabaseError, MigrationTurn, WantedDatabase, WantedExternalDatabase, database_of, migrate_external,
};
use docket_rig::postgres;
use docket_schema::postgres::{CA_FOLDER, ExternalDatabases};
use docket_schema::{ADVISORY_LOCK, CREATE_VERSION_TABLE, MIGRATIONS, OLDEST};
use docket_tests::operator::SOON;
use docket_tests::server::eventually;
use secrecy::SecretString;
use tokio::sync::Semaphore;

use super::log::Log;
use super::{NEWEST, OTHER, OWNER, Rig, in_database, migrated_twice, now, quoted, refusal, with_user};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_made_with_all_that_belongs_to_it() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    assert_eq!((made.server.as_str(), made.role.clone()), ("main", format!("{}_app", rig.name)));
    let role = &made.role;
    assert_eq!(
        rig.state().await,
        [
            format!(
                "database {role}|t|-1|UTF8|{{{role}=CTc/{role}}}|docket.dev/tenant-uid={OWNER} tenant=tenants/acme installation=here"
            ),
            format!("role t|20|f|f|f|f|docket.dev/tenant-uid={OWNER} tenant=tenants/acme installation=here"),
        ]
    );
    let tenant = postgres::client(made.url.expose()).await;
    let strangers = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                     WHERE nspname = 'public' AND pg_get_userbyid(relowner) <> $1";
    assert_eq!(tenant.query_one(strangers, &[role]).await.unwrap().get::<_, i64>(0), 0, "all is the role's");
    tenant.batch_execute("CREATE TABLE own (); INSERT INTO counter VALUES ('x', 1)").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_at_rest_writes_nothing() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let before = rig.state().await;
    let log = Log::begin(&rig).await;
    assert_eq!(rig.ensure().await, made);
    let statements = log.statements();
    assert_eq!(statements.len(), 3, "one look, and two for the schema: {statements:#?}");
    assert!(statements.iter().all(|statement| statement.starts_with("SELECT")), "{statements:#?}");
    assert_eq!(rig.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_changed_by_hand_are_repaired() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let wanted = rig.state().await;
    for drift in [
        "GRANT CONNECT ON DATABASE {db} TO PUBLIC",
        "REVOKE ALL ON DATABASE {db} FROM {role}",
        "ALTER ROLE {role} CONNECTION LIMIT 1",
        "ALTER ROLE {role} NOLOGIN",
        "ALTER DATABASE {db} ALLOW_CONNECTIONS false",
        "COMMENT ON DATABASE {db} IS NULL",
        "COMMENT ON ROLE {role} IS NULL",
        "ALTER ROLE {role} PASSWORD 'another'",
    ] {
        rig.by_hand(drift).await;
        assert_eq!(rig.servers.ensure(&rig.wanted()).await.as_ref(), Ok(&made), "{drift}");
        assert_eq!(rig.state().await, wanted, "{drift}");
        assert_eq!(refusal(made.url.expose()).await, None, "{drift}");
    }
    rig.by_hand("ALTER ROLE {role} VALID UNTIL '2000-01-01'").await;
    rig.ensure().await;
    assert_eq!(refusal(made.url.expose()).await, None);
    rig.by_hand("ALTER DATABASE {db} OWNER TO postgres").await;
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
    assert!(matches!(&error, DatabaseError::Refused { reason } if reason.contains("owner")), "{error}");
    assert_eq!(rig.superusers().ensure(&rig.wanted()).await, Ok(made), "it may");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_limit_is_set() {
    let rig = Rig::new().await;
    rig.ensure().await;
    rig.servers.ensure(&WantedDatabase { connection_limit: 3, ..rig.wanted() }).await.unwrap();
    assert!(rig.state().await[1].starts_with("role t|3|"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_database_is_left_alone() {
    let rig = Rig::new().await;
    for foreign in [
        "CREATE DATABASE {db}",
        "COMMENT ON DATABASE {db} IS 'our ERP'",
        "DROP DATABASE {db}; CREATE ROLE {role}; CREATE DATABASE {db} OWNER {role}",
        "DROP DATABASE {db}",
    ] {
        rig.by_hand(foreign).await;
        let before = rig.state().await;
        for adopt in [false, true] {
            let error = rig.servers.ensure(&WantedDatabase { adopt, ..rig.wanted() }).await.unwrap_err();
            assert!(matches!(error, DatabaseError::NotOwned { .. }), "{foreign}: {error}");
        }
        let dropped = rig.servers.drop_database(None, &rig.name, OWNER).await;
        assert_eq!(
            dropped.is_ok(),
            foreign == "DROP DATABASE {db}",
            "a foreign role is none of our business"
        );
        assert_eq!(rig.state().await, before, "{foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_takes_over_where_it_is_said() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    postgres::client(made.url.expose()).await.batch_execute("CREATE TABLE kept ()").await.unwrap();
    let before = rig.state().await;
    let newer = WantedDatabase { owner_uid: OTHER, ..rig.wanted() };
    let error = rig.servers.ensure(&newer).await.unwrap_err();
    assert!(matches!(&error, DatabaseError::NotOwned { whose, .. } if whose.contains(OWNER)), "{error}");
    assert_eq!(rig.state().await, before);
    for (tenant, installation) in [("others/acme", "here"), ("tenants/acme", "there")] {
        let stranger = WantedDatabase { adopt: true, tenant, installation, ..newer };
        let error = rig.servers.ensure(&stranger).await.unwrap_err();
        assert!(error.to_string().contains("COMMENT ON DATABASE"), "{error}");
        assert_eq!(rig.state().await, before);
    }
    let adopted = rig.servers.ensure(&WantedDatabase { adopt: true, ..newer }).await.unwrap();
    assert_eq!(adopted, made);
    postgres::client(made.url.expose()).await.batch_execute("TABLE kept").await.unwrap();
    rig.servers.ensure(&newer).await.expect("the annotation is needed once");
    rig.servers.ensure(&rig.wanted()).await.expect_err("the older Tenant has lost it");
    rig.servers.drop_database(None, &rig.name, OWNER).await.expect_err("also for dropping");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_keep_out_of_each_others_databases() {
    let (one, two) = (Rig::new().await, Rig::new().await);
    let (made, theirs) = (one.ensure().await, two.ensure().await);
    let url = url::Url::parse(made.url.expose()).unwrap();
    assert_eq!(refusal(in_database(&url, &two.name).as_str()).await.as_deref(), Some("42501"));
    one.by_hand("CREATE ROLE stranger LOGIN PASSWORD 'x'").await;
    let stranger = with_user(&in_database(&one.root, &one.name), "stranger", "x");
    assert_eq!(refusal(stranger.as_str()).await.as_deref(), Some("42501"));
    let client = postgres::client(made.url.expose()).await;
    let set = client.batch_execute(&format!("SET ROLE {}", quoted(&theirs.role))).await;
    assert!(set.is_err(), "a tenant's role is no member of another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_leaves_open_connections_alone() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let open = postgres::client(made.url.expose()).await;
    let password = SecretString::from("a newer secret");
    let rotated = rig.servers.ensure(&WantedDatabase { password: &password, ..rig.wanted() }).await.unwrap();
    assert_ne!(rotated.url, made.url);
    open.batch_execute("TABLE counter").await.expect("it is still there");
    assert_eq!(refusal(made.url.expose()).await.as_deref(), Some("28P01"), "the old one is refused");
    assert_eq!(refusal(rotated.url.expose()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_counts_whatever_becomes_of_the_schema() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    postgres::client(made.url.expose()).await.batch_execute("DELETE FROM schema_version").await.unwrap();
    let password = SecretString::from("a newer secret");
    let served = WantedDatabase { password: &password, known: Some((&made.url, NEWEST)), ..rig.wanted() };
    let rotated = rig.servers.ensure(&served).await.unwrap();
    let error = rotated.schema.unwrap_err();
    assert!(error.to_string().contains("handed over before the schema is migrated"), "{error}");
    let again = rig.servers.ensure(&served).await.unwrap();
    assert!(matches!(again.schema, Err(DatabaseError::MigrationFailed { .. })), "{:?}", again.schema);
    assert_eq!(again.url, rotated.url);
    assert_eq!(refusal(made.url.expose()).await.as_deref(), Some("28P01"), "the old one is refused");
    assert_eq!(refusal(rotated.url.expose()).await, None);
}

/// The owner of a database decides what runs there, so the admin never connects: not even when the owner takes all
/// connections of its role.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_a_connection_left_is_reported_and_the_admin_does_not_connect() {
    let rig = Rig::new().await;
    let limit = |connection_limit| WantedDatabase { connection_limit, ..rig.wanted() };
    let made = rig.servers.ensure(&limit(5)).await.unwrap();
    let owner = postgres::client(made.url.expose()).await;
    let trap = "CREATE TABLE caught (who TEXT); \
                CREATE FUNCTION trap() RETURNS BIGINT LANGUAGE plpgsql AS \
                    $$ BEGIN INSERT INTO caught VALUES (session_user); RETURN 2; END $$; \
                ALTER TABLE schema_version RENAME TO hidden; \
                CREATE VIEW schema_version AS SELECT trap() AS version";
    owner.batch_execute(trap).await.unwrap();

    let known = WantedDatabase { known: Some((&made.url, NEWEST)), ..limit(1) };
    assert_eq!(rig.servers.ensure(&known).await, Ok(made.clone()), "it was migrated before");
    assert_eq!(refusal(made.url.expose()).await.as_deref(), Some("53300"));
    let older = WantedDatabase { known: Some((&made.url, NEWEST - 1)), ..limit(1) };
    let busy = rig.servers.ensure(&older).await.unwrap();
    assert_eq!(
        (busy.url, busy.schema),
        (made.url.clone(), Ok(NEWEST - 1)),
        "its migration waits for a connection"
    );
    let full = rig.servers.ensure(&limit(1)).await.unwrap();
    assert_eq!(full.url, made.url);
    let message = full.schema.unwrap_err();
    assert!(matches!(message, DatabaseError::Unreachable { .. }), "{message:?}");
    let message = message.to_string();
    assert!(
        message.contains("no connection left for the role") && message.contains("connectionLimit"),
        "{message}"
    );
    let caught = "SELECT count(*) FROM caught";
    assert_eq!(owner.query_one(caught, &[]).await.unwrap().get::<_, i64>(0), 0, "no session of the admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_do_not_interleave() {
    let rig = Rig::new().await;
    let others: Vec<Rig> = (0..3)
        .map(|_| {
            let admin = with_user(&rig.root, &rig.admin(), "secret-of-admin");
            Rig::with_admin(rig.root.clone(), &admin, rig.name.clone())
        })
        .collect();
    let passes = others.iter().flat_map(|other| [other, other]).map(|other| {
        let (servers, wanted) = (&other.servers, other.wanted());
        async move { servers.ensure(&wanted).await }
    });
    let mut passes: Vec<_> = passes.map(Box::pin).collect();
    let mut made = Vec::new();
    // All passes run at once, in one task: they wait for the server, not for each other's processor.
    std::future::poll_fn(|context| {
        passes.retain_mut(|pass| match pass.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                made.push(result);
                false
            }
            std::task::Poll::Pending => true,
        });
        if passes.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert_eq!(made.len(), 6);
    for result in &made {
        assert_eq!(result.as_ref().unwrap(), made[0].as_ref().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_may_be_long_reserved_or_odd() {
    let rig = Rig::new().await;
    let long = |end: &str| format!("{}{end}", "l".repeat(62));
    let names = ["select".to_owned(), "pg".to_owned(), "a b\"c'd%/é\\".to_owned(), long("x"), long("y")];
    for name in &names {
        let made = rig.servers.ensure(&WantedDatabase { name, ..rig.wanted() }).await.unwrap();
        let sql = "SELECT current_database()::text, current_user::text";
        let row = postgres::client(made.url.expose()).await.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, String>(0), row.get::<_, String>(1)), (name.clone(), made.role));
    }
    for name in &names {
        rig.servers.drop_database(None, name, OWNER).await.unwrap();
    }
    let name = "z".repeat(64);
    let error = rig.servers.ensure(&WantedDatabase { name: &name, ..rig.wanted() }).await.unwrap_err();
    assert!(error.to_string().contains("1 to 63 bytes"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_log_has_no_password() {
    let rig = Rig::new().await;
    let log = Log::begin(&rig).await;
    rig.ensure().await;
    let password = SecretString::from("rotated-hunter2");
    rig.servers.ensure(&WantedDatabase { password: &password, ..rig.wanted() }).await.unwrap();
    let text = log.statements().join("\n");
    assert!(text.contains(&format!("CREATE ROLE \"{}_app\"", rig.name)), "it is the right log: {text}");
    assert_eq!(text.matches("PASSWORD E'SCRAM-SHA-256$").count(), 2, "{text}");
    assert!(!text.contains("hunter2") && !text.contains("secret of"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_reported() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let ahead = "INSERT INTO schema_version VALUES (99, 'from the future', 0)";
    postgres::client(made.url.expose()).await.batch_execute(ahead).await.unwrap();
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap().schema.unwrap_err();
    assert!(matches!(&error, DatabaseError::SchemaNewer(newer) if newer.found == 99), "{error}");
    let own = DatabaseUrl::parse(&postgres::database().await).unwrap();
    migrate_external(&external(&own)).await.expect("no tenant has it");
    postgres::client(own.expose()).await.batch_execute(ahead).await.unwrap();
    assert_eq!(migrate_external(&external(&own)).await, Err(error));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_database_waits_for_its_turn_and_for_a_place_and_a_new_one_does_not() {
    let url = DatabaseUrl::parse(&postgres::database().await).unwrap();
    let client = postgres::client(url.expose()).await;
    client.batch_execute(CREATE_VERSION_TABLE).await.unwrap();
    for step in MIGRATIONS.iter().filter(|step| step.version <= OLDEST) {
        client.batch_execute(step.sql.postgres()).await.unwrap();
        let record = format!("INSERT INTO schema_version VALUES ({}, '{}', 0)", step.version, step.name);
        client.batch_execute(&record).await.unwrap();
    }
    let full = Semaphore::new(0);
    let later = MigrationTurn { is_now: false, ..now() };
    for migration in [later, MigrationTurn { is_now: true, places: &full }] {
        let wanted = WantedExternalDatabase { migration, ..external(&url) };
        assert_eq!(migrate_external(&wanted).await, Ok(OLDEST));
    }
    assert_eq!(migrate_external(&external(&url)).await, Ok(NEWEST));
    let new = DatabaseUrl::parse(&postgres::database().await).unwrap();
    let wanted = WantedExternalDatabase { migration: later, ..external(&new) };
    assert_eq!(migrate_external(&wanted).await, Ok(NEWEST));
    let rig = Rig::new().await;
    let made = rig.servers.ensure(&WantedDatabase { migration: later, ..rig.wanted() }).await.unwrap();
    assert_eq!(made.schema, Ok(NEWEST));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_database_is_migrated() {
    let root = postgres::database().await;
    let url = DatabaseUrl::parse(&root).unwrap();
    let declared = external(&url);
    assert_eq!(migrated_twice(&root, &declared).await, [Ok(NEWEST), Ok(NEWEST)]);
    let client = postgres::client(&root).await;
    client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
    client.batch_execute("CREATE TABLE counter (unlike BIGINT)").await.unwrap();
    let error = migrate_external(&external(&url)).await.unwrap_err();
    assert!(matches!(error, DatabaseError::MigrationFailed { .. }), "{error}");
    let left = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 1, "nothing of it has happened");
    let absent = in_database(&url::Url::parse(&root).unwrap(), "absent");
    let error = migrate_external(&external(&DatabaseUrl::parse(absent.as_str()).unwrap())).await.unwrap_err();
    assert!(
        matches!(&error, DatabaseError::Unreachable { reason } if reason == "the server has no such database (SQLSTATE 3D000)"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_installation_gets_them_as_documented() {
    let rig = Rig::new().await;
    // Installations of this test alone: the statement is about all databases of the server.
    let first = WantedDatabase { installation: "before-the-move", ..rig.wanted() };
    let made = rig.servers.ensure(&first).await.expect("the server is there");
    let moved =
        WantedDatabase { owner_uid: OTHER, installation: "after-the-move", adopt: true, ..rig.wanted() };
    rig.servers.ensure(&moved).await.expect_err("it is the other's");
    let page = include_str!("../../../docs/kubernetes/recovery.md");
    let sql =
        page.split("<<'END'\n").nth(1).and_then(|rest| rest.split(" \\gexec").next()).expect("a statement");
    let sql = sql.replace(":'old'", "'before-the-move'").replace(":'new'", "'after-the-move'");
    let client = rig.root().await;
    for row in client.query(&sql, &[]).await.expect("it is good SQL") {
        client.batch_execute(row.get(0)).await.expect("as is what it makes");
    }
    assert_eq!(rig.servers.ensure(&moved).await, Ok(made));
}

/// The tests' own server.
static ALLOWED: LazyLock<Arc<ExternalDatabases>> = LazyLock::new(|| {
    let local = "127.0.0.0/8".parse().expect("a network");
    Arc::new(ExternalDatabases::new(vec![local], Some(CA_FOLDER.into())))
});

fn external(url: &DatabaseUrl) -> WantedExternalDatabase<'static> {
    WantedExternalDatabase {
        url: url.clone(),
        allowed: &ALLOWED,
        owner_uid: OWNER,
        migration: now(),
        adopt: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_database_is_refused_as_an_external_one() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let before = rig.state().await;
    for adopt in [false, true] {
        let other = WantedExternalDatabase { owner_uid: OTHER, adopt, ..external(&made.url) };
        let error = migrate_external(&other).await.unwrap_err();
        assert!(matches!(&error, DatabaseError::NotOwned { whose, .. } if whose.contains(OWNER)), "{error}");
    }
    assert_eq!(rig.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_database_has_one_tenant() {
    let url = DatabaseUrl::parse(&postgres::database().await).unwrap();
    migrate_external(&external(&url)).await.unwrap();
    migrate_external(&external(&url)).await.expect("it is its own");
    let other = WantedExternalDatabase { owner_uid: OTHER, ..external(&url) };
    let error = migrate_external(&other).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NotOwned { .. }), "{error}");
    let (message, name) = (error.to_string(), database_of(&url));
    assert!(
        message.contains(OWNER) && message.contains(&format!("docket.dev/adopt-database={name}")),
        "{message}"
    );
    migrate_external(&WantedExternalDatabase { adopt: true, ..other.clone() }).await.expect("it is said");
    migrate_external(&other).await.expect("the annotation is needed once");
    migrate_external(&external(&url)).await.expect_err("the first one has lost it");
    let client = postgres::client(url.expose()).await;
    let rows: Vec<String> = client
        .query("SELECT uid FROM tenant_owner", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(rows, [OTHER]);
}

/// Both Tenants find the database without an owner, and wait to become its owner.
#[tokio::test(flavor = "multi_thread")]
async fn an_external_database_that_two_tenants_claim_at_once_has_one() {
    let url = DatabaseUrl::parse(&postgres::database().await).unwrap();
    migrate_external(&external(&url)).await.unwrap();
    let client = postgres::client(url.expose()).await;
    client.batch_execute("DELETE FROM tenant_owner").await.unwrap();
    let [lock, unlock] =
        ["pg_advisory_lock", "pg_advisory_unlock"].map(|call| format!("SELECT {call}({ADVISORY_LOCK})"));
    client.batch_execute(&lock).await.unwrap();
    let (one, two) = (external(&url), WantedExternalDatabase { owner_uid: OTHER, ..external(&url) });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let (first, second, ()) = tokio::join!(migrate_external(&one), migrate_external(&two), async {
        let both_wait = async || client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 2;
        eventually("both wait", SOON, both_wait).await;
        client.batch_execute(&unlock).await.unwrap();
    });
    let refused = |result: &Result<i64, DatabaseError>| matches!(result, Err(DatabaseError::NotOwned { .. }));
    let one_has_it = (first.is_ok() && refused(&second)) || (refused(&first) && second.is_ok());
    assert!(one_has_it, "{first:?} {second:?}");
}

/// The owner of a database decides what the operator reads there.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_tables_of_an_external_database_are_an_error_of_that_database() {
    let url = DatabaseUrl::parse(&postgres::database().await).unwrap();
    migrate_external(&external(&url)).await.unwrap();
    let client = postgres::client(url.expose()).await;
    client.batch_execute("ALTER TABLE tenant_owner RENAME TO tenant_owner_before").await.unwrap();
    for (cell, expected) in [
        ("repeat('x', 157286400)", "sent a message of 157286"),
        ("repeat(E'x\\n', 100000)", "is used by the Tenant with UID x\\nx"),
        ("7", ""),
    ] {
        let view =
            format!("DROP VIEW IF EXISTS tenant_owner; CREATE VIEW tenant_owner AS SELECT {cell} AS uid");
        client.batch_execute(&view).await.unwrap();
        let error = migrate_external(&external(&url)).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.len() < 1_000, "{cell}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_comment_on_a_managed_database_is_read_in_part() {
    let rig = Rig::new().await;
    rig.ensure().await;
    let long = "x".repeat(10 << 20);
    rig.by_hand(&format!("COMMENT ON DATABASE {{db}} IS 'docket.dev/tenant-uid={long}'")).await;
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err().to_string();
    assert!(error.contains("xxx") && error.len() < 3_000, "{} bytes", error.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn external_database_is_where_the_platform_allows_it() {
    let url = postgres::database().await;
    let migrated = async |query: &str, allow: &[&str]| {
        let allow = allow.iter().map(|allowed| allowed.parse().expect(allowed)).collect();
        let allowed = Arc::new(ExternalDatabases::new(allow, Some(CA_FOLDER.into())));
        let url = DatabaseUrl::parse(&format!("{url}{query}")).unwrap();
        let wanted = WantedExternalDatabase {
            url: url.clone(),
            allowed: &allowed,
            owner_uid: OWNER,
            migration: now(),
            adopt: false,
        };
        migrate_external(&wanted).await.map_err(|error| error.to_string())
    };
    for here in [&[][..], &["127.0.0.1/32", "db.example.com"]] {
        assert_eq!(migrated("", here).await, Ok(NEWEST));
    }
    for elsewhere in [&["db.example.com"], &["10.0.0.0/8"]] {
        let error = migrated("", elsewhere).await.unwrap_err();
        assert!(error.contains("is not allowed for external databases"), "{error}");
    }
    for (query, expected) in [
        ("?options=-csearch_path%3Devil", "the parameter \"options\" is not allowed"),
        ("?hostaddr=127.0.0.1", "the parameter \"hostaddr\" is not allowed"),
        ("?sslmode=verify-full&sslrootcert=/dev/zero", "below the folder of --ca-folder"),
    ] {
        let error = migrated(query, &["127.0.0.1/32"]).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
