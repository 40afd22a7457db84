//! The true delays: the program as it is shipped, with its own defaults, under a wall clock that only the test moves.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use docket_rig::scratch::Folder;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{Client, Home, Options, Server, api_key, eventually};
use serde_json::json;

use crate::delivery::stage::{
    SOON, USER, Webhook, attempts_of, deliveries, delivery_to, home, queue, remains, save, together,
    whole_order,
};

/// A wall clock for a `docket dev`; it stands still.
struct StillClock {
    folder: Folder,
    file: File,
    now_ms: i64,
}

impl StillClock {
    #[expect(clippy::disallowed_methods, reason = "certificates are valid around the real time")]
    fn new() -> Self {
        let folder = Folder::new("still-clock");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("docket/delivery/still_clock.c");
        let done = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.path().join("still_clock.so"))
            .arg(source)
            .arg("-ldl")
            .status();
        assert!(done.expect("cc runs").success());
        let options = File::options().create(true).write(true).truncate(true).open(folder.path().join("now"));
        let mut clock = Self { file: options.expect("writable"), folder, now_ms: 0 };
        clock.set(jiff::Timestamp::now().as_millisecond());
        clock
    }

    fn set(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.file.write_all_at(&now_ms.to_ne_bytes(), 0).expect("writable");
    }

    fn options(&self, flags: &str) -> Options {
        let path = |name| self.folder.path().join(name).display().to_string();
        let environment = [("LD_PRELOAD", path("still_clock.so")), ("STILL_CLOCK", path("now"))];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Options { environment, ..Options::flags(flags) }
    }
}

/// Makes the sweep run again, and so the worker: it sleeps by monotonic time, which the test does not move.
fn wake(home: &Home) {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = home.data().join("wake");
    std::fs::write(&file, number.to_string()).expect("writable");
}

/// Once an order that was saved just now has reached its receiver, the worker has looked at all that is due.
async fn has_looked(home: &Home, client: &Client, witness: &Receiver) {
    wake(home);
    let id = save(client).await;
    eventually("the witness got it", SOON, async || witness.posts().iter().any(|post| post.order() == id))
        .await;
}

/// A webhook that fails on exports, and one for the orders that show that the worker is awake.
async fn failing_and_witness() -> (Receiver, Receiver, Home) {
    let failing = Receiver::scripted(|_| Response::Status(500)).await;
    let witness = Receiver::start().await;
    let home = home(&[
        Webhook { events: "order.exported", ..Webhook::new("failing", failing.url("/")) },
        Webhook { events: "order.created", ..Webhook::new("witness", witness.url("/")) },
    ]);
    (failing, witness, home)
}

async fn export(client: &Client) {
    let mut order = whole_order();
    order["export"] = json!(true);
    let reply = client.post("/Orders/Save", &order).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// Attempt `n` has failed, and its end is stored.
async fn has_failed(home: &Home, n: i64) -> i64 {
    let row = || deliveries(home).into_iter().find(|row| row.webhook == "failing");
    let failed = || row().filter(|row| row.attempts == n && !row.leased);
    eventually(&format!("attempt {n} has failed"), SOON, async || failed().is_some()).await;
    failed().expect("just seen").due_at_ms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_come_after_60_120_240_and_480_seconds_and_not_a_moment_earlier() {
    let _turn = together().await;
    let (failing, witness, home) = failing_and_witness().await;
    let mut clock = StillClock::new();
    // The delays of the contract are not changed here.
    let server = Server::start(&home, clock.options("--allow-egress 127.0.0.1/32")).await;
    let client = server.sign_in(&api_key('a'), USER).await;
    export(&client).await;
    for (n, seconds) in [(1, 60), (2, 120), (3, 240), (4, 480)] {
        let due_ms = has_failed(&home, n).await;
        // Each retry gets a random time within two seconds, so that a burst does not come back together.
        let earliest = clock.now_ms + seconds * 1_000;
        assert!((earliest..=earliest + 2_000).contains(&due_ms), "after attempt {n}");
        assert_eq!(delivery_to(&home, "failing").status, "Failed");
        clock.set(due_ms - 100);
        has_looked(&home, &client, &witness).await;
        has_looked(&home, &client, &witness).await;
        assert_eq!(i64::try_from(failing.count()), Ok(n), "0.1 s before it is due");
        clock.set(due_ms);
        wake(&home);
        eventually(&format!("attempt {} is made", n + 1), SOON, async || failing.count() > n as usize).await;
    }
    has_failed(&home, 5).await;
    let row = delivery_to(&home, "failing");
    assert_eq!((row.status.as_str(), row.class()), ("DeadLetter", "ServerError"));
    let started: Vec<i64> = attempts_of(&home, &row.id).iter().map(|attempt| attempt.started_at_ms).collect();
    let gaps: Vec<i64> = started.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, delay) in gaps.into_iter().zip([60_000, 120_000, 240_000, 480_000]) {
        assert!((delay..=delay + 2_000).contains(&gap), "{gap} after {delay}");
    }
    clock.set(clock.now_ms + 1_800_000);
    has_looked(&home, &client, &witness).await;
    assert_eq!(failing.count(), 5, "a dead letter stays one");
}

/// Later than the sweep looks ahead: a longer base makes such retries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_is_due_long_after_a_restart_is_not_forgotten() {
    let _turn = together().await;
    let (failing, _witness, home) = failing_and_witness().await;
    let mut clock = StillClock::new();
    let flags = "--allow-egress 127.0.0.1/32 --backoff-base 10m --poll-interval 200ms";
    let server = Server::start(&home, clock.options(flags)).await;
    export(&server.sign_in(&api_key('a'), USER).await).await;
    let due_ms = has_failed(&home, 1).await;
    assert!((20 * 60_000..=20 * 60_000 + 2_000).contains(&(due_ms - clock.now_ms)));
    all_end_but(&home, 1).await;
    server.kill();

    let _server = Server::start(&home, clock.options(flags)).await;
    // Meanwhile some sweeps see that the database has not changed.
    remains("it is not due", Duration::from_secs(1), async || failing.count() == 1).await;
    clock.set(due_ms);
    eventually("the retry is made", SOON, async || failing.count() == 2).await;
}

/// The sweep of the database finds the row. The case idles meanwhile, so cases that measure times need not wait for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_program_writes_is_sent_within_15_seconds() {
    let turn = together().await;
    let hook = Receiver::start().await;
    let home = home(&[Webhook::new("orders", hook.url("/"))]);
    let server = Server::start(&home, Options::flags("--allow-egress 127.0.0.1/32")).await;
    save(&server.sign_in(&api_key('a'), USER).await).await;
    eventually("the order is delivered", SOON, async || hook.count() == 1).await;
    drop(turn);
    let id = queue(&home, "ACME", "orders", 1).remove(0);
    let written = Instant::now();
    eventually("the row is sent", 2 * SOON, async || hook.posts().iter().any(|post| post.delivery() == id))
        .await;
    assert!(written.elapsed() < Duration::from_secs(17), "only after {:?}", written.elapsed());
}

async fn all_end_but(home: &Home, count: usize) {
    let open = || deliveries(home).iter().filter(|row| !row.is_final()).count();
    eventually("the others have ended", SOON, async || open() == count).await;
}
