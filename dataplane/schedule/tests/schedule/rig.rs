//! A schedule on a dedicated Redis. The clock is Redis' own, so the suite moves the stored times, not the clock.

use std::time::Duration;

use docket_redis::script::Script;
use docket_redis::{Keys, RedisConnection, RedisUrl};
use docket_rig::redis::RedisServer;
use docket_schedule::{Claim, Ended, Entry, Hint, Owner, Room, Schedule, Shares};

use crate::contract::{self, id};

/// Sets all times in the keys back.
const ADVANCE: &str = include_str!("advance.lua");

/// A server, and a schedule on it.
pub(crate) struct Rig {
    pub(crate) server: RedisServer,
    pub(crate) schedule: Schedule,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(contract::SHARES)
    }

    pub(crate) fn with(shares: Shares) -> Self {
        let server = RedisServer::start(&[]);
        let schedule = schedule(&server.url(), shares);
        Self { server, schedule }
    }
}

impl contract::Rig for Rig {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    async fn advance(&self, time: Duration) {
        advance(&self.server.url(), time).await;
    }
}

pub(crate) fn keys() -> Keys {
    Keys::new(None).expect("the only one")
}

pub(crate) fn connection(url: &str) -> RedisConnection {
    RedisConnection::new(RedisUrl::parse(url).expect("a URL"), None).expect("no certificates to be read")
}

/// Another process' schedule.
pub(crate) fn schedule(url: &str, shares: Shares) -> Schedule {
    restarted(url, "process", shares)
}

/// A new incarnation of a process.
pub(crate) fn restarted(url: &str, process: &str, shares: Shares) -> Schedule {
    Schedule::on_redis(connection(url), &keys(), Owner::new(process), shares)
}

pub(crate) async fn advance(url: &str, time: Duration) {
    let script = Script::new(&[ADVANCE]);
    let by = time.as_millis().to_string();
    let () = script.run(&connection(url), &keys().schedule(), &[by]).await.expect("moves the times");
}

pub(crate) fn hint(tenant: &str, webhook: &str, number: u32) -> Hint {
    let entry = Entry { tenant: tenant.into(), webhook: webhook.into(), id: id(number) };
    Hint { entry, wait: Duration::ZERO }
}

pub(crate) async fn claimed(schedule: &Schedule, limit: usize) -> Vec<Claim> {
    schedule.claim(room(limit), Duration::from_secs(60)).await.expect("claims")
}

/// Room for `slots` entries, of any webhooks.
pub(crate) fn room(slots: usize) -> Room {
    Room { slots, slow: slots, without_claim: 0 }
}

pub(crate) async fn put(schedule: &Schedule, hints: impl IntoIterator<Item = Hint>) {
    schedule.put(hints.into_iter().collect()).await.expect("puts");
}

/// Ends claims without an attempt.
pub(crate) async fn end(schedule: &Schedule, claims: Vec<Claim>) {
    settle(schedule, claims, None, None).await;
}

/// Ends claims after attempts of this length.
pub(crate) async fn end_after(schedule: &Schedule, claims: Vec<Claim>, held: Duration) {
    settle(schedule, claims, None, Some(held)).await;
}

/// Ends claims after attempts that failed at once.
pub(crate) async fn end_again(schedule: &Schedule, claims: Vec<Claim>) {
    settle(schedule, claims, Some(Duration::from_secs(60)), Some(Duration::ZERO)).await;
}

async fn settle(schedule: &Schedule, claims: Vec<Claim>, again: Option<Duration>, held: Option<Duration>) {
    let ended = claims.into_iter().map(|claim| Ended { claim, again, held }).collect();
    schedule.settle(ended).await.expect("settles");
}

/// Repeats until it returns `Ok`; panics after a while.
pub(crate) async fn patiently<T, E: std::fmt::Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let begun = std::time::Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if begun.elapsed() > Duration::from_secs(30) => panic!("{what}: {error:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Panics if it takes more than a while.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .unwrap_or_else(|_| panic!("waited for {what}"))
}
