//! The operator loses the server after each question; the next pass ends as if nothing had been.

use docket_operator::database::{DatabaseError, WantedDatabase};
use docket_rig::postgres;
use docket_rig::proxy::Proxy;
use secrecy::{ExposeSecret, SecretString};

use super::{OTHER, OWNER, Rig, in_database, is_away, refusal, with_user};

/// A rig whose only way to the server is a wire that can be cut.
async fn wired() -> (Rig, Proxy) {
    let rig = Rig::new().await;
    let port = rig.root.port().expect("the rig's server has one");
    let proxy = Proxy::to_postgres(([127, 0, 0, 1], port).into());
    let mut admin = with_user(&rig.root, &rig.admin(), "secret-of-admin");
    admin.set_port(Some(proxy.address.port())).expect("it has a host");
    // Questions in TLS can't be counted.
    admin.set_query(Some("sslmode=disable"));
    (Rig::with_admin(rig.root.clone(), &admin, rig.name.clone()), proxy)
}

/// Cuts at question 1, 2, 3, … until `pass` no longer gets so far; each time the next pass has to repair it. Returns how often.
async fn at_each_question(
    rig: &Rig,
    proxy: &Proxy,
    prepare: impl AsyncFn(),
    pass: impl AsyncFn() -> Result<(), DatabaseError>,
    check: impl AsyncFn(),
) -> i64 {
    for at in 1.. {
        prepare().await;
        proxy.cut_at_question(at);
        let result = pass().await;
        let was_cut = proxy.restore();
        if let Err(error) = &result {
            assert!(is_away(error), "question {at}: {error}");
        }
        pass().await.unwrap_or_else(|error| panic!("after question {at} of {}: {error}", rig.name));
        check().await;
        if !was_cut {
            result.expect("nothing was in its way");
            return at - 1;
        }
    }
    unreachable!("a pass asks no end of questions")
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_while_a_database_is_made_are_repaired() {
    let (rig, proxy) = wired().await;
    let clean = Rig::new().await;
    clean.ensure().await;
    let expected: Vec<String> =
        clean.state().await.iter().map(|line| line.replace(&clean.name, &rig.name)).collect();
    let cuts = at_each_question(
        &rig,
        &proxy,
        async || rig.superusers().drop_database(None, &rig.name, OWNER).await.map(drop).unwrap(),
        async || rig.servers.ensure(&rig.wanted()).await?.schema.map(|_| ()),
        async || {
            assert_eq!(rig.state().await, expected);
            let database = in_database(&rig.root, &rig.name);
            postgres::client(database.as_str()).await.batch_execute("TABLE counter").await.unwrap();
        },
    )
    .await;
    println!("cut {cuts} times");
    assert!(cuts > 30, "a role, a database, a schema: {cuts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_while_a_database_is_taken_over_are_repaired() {
    let (rig, proxy) = wired().await;
    let newer = SecretString::from("a newer secret");
    let wanted = WantedDatabase {
        owner_uid: OTHER,
        adopt: true,
        password: &newer,
        connection_limit: 7,
        ..rig.wanted()
    };
    // From PostgreSQL 16 on, only the role that made another role may change it.
    rig.ensure().await;
    let superusers = rig.superusers();
    let cuts = at_each_question(
        &rig,
        &proxy,
        async || {
            superusers.ensure(&WantedDatabase { adopt: true, ..rig.wanted() }).await.unwrap();
        },
        async || rig.servers.ensure(&wanted).await?.schema.map(|_| ()),
        async || assert!(rig.state().await.iter().all(|line| line.contains(OTHER))),
    )
    .await;
    println!("cut {cuts} times");
    assert!(cuts > 20, "{cuts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_while_a_password_and_a_limit_change_are_repaired() {
    let (rig, proxy) = wired().await;
    let newer = SecretString::from("a newer secret");
    let wanted = WantedDatabase { password: &newer, connection_limit: 7, ..rig.wanted() };
    let role = docket_operator::database::role_of(&rig.name);
    let login = |password: &str| in_database(&with_user(&rig.root, &role, password), &rig.name);
    let cuts = at_each_question(
        &rig,
        &proxy,
        async || {
            rig.ensure().await;
        },
        async || rig.servers.ensure(&wanted).await?.schema.map(|_| ()),
        async || {
            let state = rig.state().await;
            assert!(state.iter().any(|line| line.starts_with("role t|7|")), "{state:?}");
            assert_eq!(refusal(login("a newer secret").as_str()).await, None);
            let former = login(rig.password.expose_secret());
            assert_eq!(refusal(former.as_str()).await.as_deref(), Some("28P01"));
        },
    )
    .await;
    println!("cut {cuts} times");
    assert!(cuts > 5, "{cuts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_while_a_database_is_dropped_are_repaired() {
    let (rig, proxy) = wired().await;
    let cuts = at_each_question(
        &rig,
        &proxy,
        async || {
            rig.ensure().await;
        },
        async || rig.servers.drop_database(None, &rig.name, OWNER).await.map(drop),
        async || assert!(rig.state().await.is_empty()),
    )
    .await;
    println!("cut {cuts} times");
    assert!(cuts > 10, "{cuts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_or_hangs_is_reported_as_unreachable() {
    let (rig, proxy) = wired().await;
    rig.ensure().await;
    let away = is_away;
    proxy.cut();
    assert!(away(&rig.servers.ensure(&rig.wanted()).await.unwrap_err()));
    assert!(away(&rig.servers.drop_database(None, &rig.name, OWNER).await.unwrap_err()));
    proxy.restore();
    rig.ensure().await;
    proxy.cut();
    proxy.restore();
    proxy.fall_silent();
    let error = rig.servers.ensure(&rig.wanted()).await.unwrap_err();
    assert!(away(&error), "{error}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("secret") && !text.contains("postgres:"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_given_up_leaves_nothing_running() {
    let rig = Rig::new().await;
    let made = rig.ensure().await;
    let tenant = postgres::client(made.url.expose()).await;
    tenant.batch_execute("DELETE FROM schema_version").await.unwrap();
    let lock = format!("SELECT pg_advisory_lock({})", docket_schema::ADVISORY_LOCK);
    tenant.batch_execute(&lock).await.unwrap();
    let root = rig.root().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'";
    let count = async || root.query_one(waiting, &[&made.role]).await.unwrap().get::<_, i64>(0);
    let wanted = rig.wanted();
    let pass = rig.servers.ensure(&wanted);
    tokio::select! {
        result = pass => panic!("it can't get past the lock: {result:?}"),
        () = async { while count().await == 0 {} } => {}
    }
    // The server checks every five seconds whether the client is still there.
    let gone = async { while count().await > 0 {} };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.expect("the migration has ended");
}
