//! A database that is away or locked: it is reported as unavailable, soon, and used again when it is back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use docket_program::clock::Clock;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_rig::{postgres, scratch};
use docket_schema::postgres::DatabaseTarget;
use docket_store::postgres::Postgres;
use docket_store::sqlite::Sqlite;
use docket_store::{Database, StoreError, contacts};

/// The longest acceptable time: three seconds of waiting and one of work.
const SOON: Duration = Duration::from_secs(4);

fn is_unavailable<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_file_is_unavailable_until_it_is_released() {
    let rig = TenantDatabase::sqlite().await;
    let other = rusqlite::Connection::open(rig.place.file()).expect("the file is there");
    other.execute_batch("BEGIN EXCLUSIVE").expect("no other writes");

    let begun = Instant::now();
    assert!(is_unavailable(rig.database.begin(&Clock::System).await));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(is_unavailable(rig.opened_again().begin(&Clock::System).await), "a new connection waits as well");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());

    other.execute_batch("ROLLBACK").expect("it was locked");
    rig.write(async |t| contacts::insert_customer(t, "NEW", "New", T0).await).await;
    assert_eq!(rig.number("SELECT count(*) FROM customer").await, 2);
}

/// Each request waits for its turn and then for the file, but not longer than the limits of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_of_a_locked_file_all_fail_soon() {
    let rig = TenantDatabase::sqlite().await;
    let other = rusqlite::Connection::open(rig.place.file()).expect("the file is there");
    other.execute_batch("BEGIN EXCLUSIVE").expect("no other writes");
    let writers: Vec<_> = (0..5)
        .map(|_| {
            let database = rig.database.clone();
            tokio::spawn(async move {
                let begun = Instant::now();
                (is_unavailable(database.begin(&Clock::System).await), begun.elapsed())
            })
        })
        .collect();
    for writer in writers {
        let (unavailable, elapsed) = writer.await.expect("no panic");
        assert!(unavailable && elapsed < 2 * SOON, "{unavailable} {elapsed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_locked_file_do_not_wait() {
    let rig = TenantDatabase::sqlite().await;
    let other = rusqlite::Connection::open(rig.place.file()).expect("the file is there");
    other.execute_batch("BEGIN IMMEDIATE").expect("no other writes");
    let begun = Instant::now();
    for database in [&rig.database, &rig.opened_again()] {
        let mut reader = database.reader().await.expect("a connection");
        assert!(
            contacts::customer_exists(&mut reader, docket_rig::tenant_database::CUSTOMER)
                .await
                .expect("a statement")
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_writer_that_keeps_its_turn_makes_others_unavailable() {
    let rig = TenantDatabase::sqlite().await;
    let kept = rig.database.begin(&Clock::System).await.expect("a turn");
    let begun = Instant::now();
    assert!(is_unavailable(rig.database.begin(&Clock::System).await));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(kept);
    rig.database.begin(&Clock::System).await.expect("a turn").rollback().await.expect("a rollback");
}

#[tokio::test]
async fn a_file_that_is_none_is_unavailable() {
    let folder = scratch::Folder::new("store");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "This is not a database. ".repeat(100)).expect("the folder is ours");
    for path in [text, folder.path().to_owned(), folder.path().join("missing/tenant.db")] {
        let database = Database::Sqlite(Sqlite::new(path.clone()));
        assert!(is_unavailable(database.begin(&Clock::System).await), "{}", path.display());
        assert!(is_unavailable(database.migrate(&Clock::System).await), "{}", path.display());
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    // One server refuses connections. The other accepts them and sends nothing.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let refusing = free.local_addr().expect("it is bound").port();
    drop(free);
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let silent_port = silent.local_addr().expect("it is bound").port();
    for port in [refusing, silent_port] {
        let url = format!("postgres://docket@127.0.0.1:{port}/docket");
        let database = Database::Postgres(Postgres::new(&url, 2).expect("a URL"));
        let begun = Instant::now();
        assert!(is_unavailable(database.begin(&Clock::System).await));
        assert!(
            is_unavailable(database.reader().await) && begun.elapsed() < 2 * SOON,
            "{:?}",
            begun.elapsed()
        );
    }
}

/// The program at a URL need not be PostgreSQL, whose error codes have five characters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_code_of_any_form_is_unavailable() {
    for code in ["X", "", "ä", "aä", "53000000000000000000000"] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let fields = format!("SERROR\0VERROR\0C{code}\0Mno\0\0");
        let length = (fields.len() as u32 + 4).to_be_bytes();
        let answer = [b"E", &length[..], fields.as_bytes()].concat();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]).and_then(|_| stream.write_all(&answer));
        });
        let url = format!("postgres://docket:secret@127.0.0.1:{port}/docket?sslmode=disable");
        let database = Database::Postgres(Postgres::new(&url, 2).expect("a URL"));
        assert!(is_unavailable(database.begin(&Clock::System).await), "{code:?}");
    }
}

#[tokio::test]
async fn a_database_or_a_password_that_is_gone_is_unavailable() {
    let url = postgres::database().await;
    let (rest, password) = url.split_once('@').map(|(user, rest)| (rest, user)).expect("a user");
    for url in [format!("{password}@{rest}_gone"), format!("postgres://postgres:wrong@{rest}")] {
        let database = Database::Postgres(Postgres::new(&url, 2).expect("a URL"));
        assert!(is_unavailable(database.begin(&Clock::System).await));
    }
}

async fn connects(url: &str) -> bool {
    DatabaseTarget::parse(url).expect("a good URL").connect().await.is_ok()
}

#[tokio::test]
async fn server_of_another_kind_than_its_url_asks_for_is_refused() {
    let url = postgres::database().await;
    for (kind, is_right) in [("any", true), ("read-write", true), ("read-only", false)] {
        assert_eq!(connects(&format!("{url}?target_session_attrs={kind}")).await, is_right, "{kind}");
    }
}

#[tokio::test]
async fn host_that_has_no_address_leaves_the_next_one() {
    let url = postgres::database().await;
    assert!(connects(&url.replace('@', "@no.such.host.invalid,")).await);
    assert!(!connects(&url.replace("@127.0.0.1", "@no.such.host.invalid")).await);
}

/// After a restart of the server, the pool does not keep giving out dead connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_ended_are_replaced() {
    let rig = TenantDatabase::postgres().await;
    let docket_rig::tenant_database::Place::Url(url) = &rig.place else { panic!("a URL") };
    let open = rig.database.begin(&Clock::System).await.expect("a connection");
    let client = postgres::client(url).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.batch_execute(end).await.expect("the server ends them");
    assert!(is_unavailable(open.commit().await));
    for _ in 0..10 {
        rig.database
            .begin(&Clock::System)
            .await
            .expect("a new connection")
            .rollback()
            .await
            .expect("a rollback");
    }
}

#[test]
fn a_text_that_is_no_url_is_refused_and_not_repeated() {
    let error = Postgres::new("postgres://user:secret@[", 2).err().expect("no URL");
    assert!(!error.to_string().contains("secret"), "{error}");
}
