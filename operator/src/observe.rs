//! Reads the data plane's reports in Redis: which pods live, what each serves, and the health of deliveries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use docket_board::{Board, POD_COUNTS, PodServed, ReportedHealth};
use docket_program::clock::Clock;
use docket_redis::follow::follow;
use docket_redis::{Keys, RedisConnection, RedisFiles};
use tokio::time::Instant;

use crate::args::RunArguments;
use crate::metrics::{Failing, Metrics, Store};
use crate::state::health::Health;
use crate::state::pods::Pods;
use crate::state::{AtLimit, State};

/// How often the live pods are read.
const PODS_EVERY: Duration = Duration::from_secs(1);
/// How often they are read while something was handed over in the last seconds: this many reads. A user waits for the result.
const PODS_SOON: Duration = Duration::from_millis(250);
const READS_SOON: u32 = 12;
/// While reads are frequent, the pause between two reads is this many times the duration of a read, within `PODS_SOON` and
/// `PODS_EVERY`.
const SHARE: u32 = 10;
/// How often the health of deliveries and the tenants at their limits are read.
const HEALTH_EVERY: Duration = Duration::from_secs(15);
/// How long a failed attempt counts as a sign that its receiver fails now: an hour, as in the alert DocketDeadLetters.
const FAILS_MS: i64 = 3_600_000;

/// The data plane's Redis.
#[derive(Debug)]
pub struct DataPlaneRedis {
    connection: RedisConnection,
    files: RedisFiles,
    board: Board,
}

impl DataPlaneRedis {
    /// The Redis for these arguments, which is connected at its first use; `None`: nothing is observed.
    ///
    /// Errors: a file can't be read, or its content is not valid. The message names the flag and never the URL.
    pub fn read(arguments: &RunArguments) -> anyhow::Result<Option<Self>> {
        let Some(file) = &arguments.redis_url_file else {
            return Ok(None);
        };
        let files = RedisFiles::new(file, arguments.redis_ca_file.as_deref());
        let connection = files.connection()?;
        let keys = Keys::new(arguments.redis_release.as_deref()).context("--redis-release")?;
        let board = Board::new(connection.clone(), keys);
        Ok(Some(Self { connection, files, board }))
    }
}

/// Reads the board again and again, without end, from the Redis that the files name. While Redis does not respond, the last
/// values stay; a metric reports this.
pub async fn observe(state: Arc<State>, metrics: Arc<Metrics>, redis: DataPlaneRedis, clock: Clock) {
    let DataPlaneRedis { connection, files, board } = redis;
    tokio::select! {
        () = follow(connection.clone(), files) => {}
        () = read_all(state, metrics, connection, board, clock) => {}
    }
}

async fn read_all(
    state: Arc<State>,
    metrics: Arc<Metrics>,
    connection: RedisConnection,
    board: Board,
    clock: Clock,
) {
    let mut health_at: Option<Instant> = None;
    let mut empty_since: Option<Instant> = None;
    let mut is_up = true;
    let mut soon: u32 = 0;
    loop {
        let begun = Instant::now();
        match board.pods().await {
            Ok(pods) => {
                if !std::mem::replace(&mut is_up, true) {
                    tracing::info!("reading from Redis what the data plane serves works again");
                }
                metrics.store(Store::Redis, true);
                if let Some(pods) = trusted(pods, &mut empty_since, Instant::now()) {
                    state.set_pods(pods);
                }
            }
            Err(error) => {
                if std::mem::replace(&mut is_up, false) {
                    tracing::warn!(%error, "reading from Redis what the data plane serves failed; conditions stay as they are");
                }
                metrics.store(Store::Redis, false);
                state.lose_pods();
            }
        }
        if health_at.is_none_or(|at| at.elapsed() >= HEALTH_EVERY) {
            health_at = Some(Instant::now());
            poll_health(&state, &metrics, &board, &clock).await;
            poll_at_limit(&state, &board).await;
        }
        metrics.redis_url_stale(connection.is_stale());
        let quick = (begun.elapsed() * SHARE).clamp(PODS_SOON, PODS_EVERY);
        let pause = if soon > 0 { quick } else { PODS_EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause) => soon = soon.saturating_sub(1),
            () = state.awaits_pods() => {
                soon = READS_SOON;
                tokio::time::sleep(quick).await;
            }
        }
    }
}

/// Reads the health of deliveries. If this fails, the last values stay; the read of the pods logs that Redis does not respond.
async fn poll_health(state: &State, metrics: &Metrics, board: &Board, clock: &Clock) {
    let uids = state.cluster().webhook_uids();
    if let Ok(health) = board.webhooks(&uids).await {
        let (mut reported, mut failing) = (HashMap::new(), Vec::new());
        let now_ms = clock.now_ms();
        for (uid, health) in uids.into_iter().zip(health) {
            let Some(health) = health else { continue };
            if fails(&health, now_ms) {
                failing.push(uid.clone());
            }
            reported.insert(uid, of(health));
        }
        if state.progress.is_complete() && !reported.is_empty() {
            metrics.dead_letters(Some(reported.values().map(|health: &Health| health.dead_letter).sum()));
            let tenants = state.cluster().tenants_of_webhooks(&failing);
            metrics.failing(Some(Failing { webhooks: failing.len(), tenants }));
        } else {
            metrics.dead_letters(None);
            metrics.failing(None);
        }
        state.set_health(reported, Instant::now());
    }
}

/// Reads the tenants at their limits. A limit that this version does not know is left out.
async fn poll_at_limit(state: &State, board: &Board) {
    let Ok(read) = board.at_limit().await else { return };
    let mut at_limit = AtLimit::new();
    for (uid, limit) in read {
        if let Ok(limit) = limit.parse() {
            at_limit.entry(uid).or_default().insert(limit);
        }
    }
    state.set_at_limit(at_limit);
}

/// The live pods from a read of the board; `None`: the result can't be trusted. A board without pods may mean that
/// Redis has lost its data. Then the pods come back within a heartbeat or two, and until then the pods that were last
/// read count.
fn trusted(pods: Vec<PodServed>, empty_since: &mut Option<Instant>, now: Instant) -> Option<Pods> {
    if pods.is_empty() {
        let since = *empty_since.get_or_insert(now);
        return (now.duration_since(since) >= POD_COUNTS).then(|| Pods::Seen(Default::default()));
    }
    *empty_since = None;
    // Pods that serve nothing count too: they announce themselves once they know which tenants there are.
    Some(Pods::Seen(pods.into_iter().map(|pod| (pod.pod, pod.served)).collect()))
}

/// Whether the receiver of a Webhook fails now: there are dead letters to deal with, and its last attempt failed not long ago.
fn fails(health: &ReportedHealth, now_ms: i64) -> bool {
    let is_new = health.last_failure_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < FAILS_MS);
    is_new && health.dead_letter > 0 && health.last_failure_at_ms > health.last_success_at_ms
}

fn of(health: ReportedHealth) -> Health {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Health {
        pending: count(health.pending.saturating_add(health.retrying)),
        retrying: count(health.retrying),
        dead_letter: count(health.dead_letter),
        failing: health.dead_letter > 0 && health.last_failure_at_ms > health.last_success_at_ms,
        last_success_at_ms: health.last_success_at_ms,
        lacks_customer: health.lacks_customer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_board_is_trusted_after_ten_seconds() {
        let pod = |served: &[(&str, &str)]| PodServed {
            pod: "p".into(),
            roles: Vec::new(),
            served: Arc::new(
                served.iter().map(|(uid, revision)| ((*uid).into(), (*revision).into())).collect(),
            ),
        };
        let seen = |served: &[(&str, &str)]| Some(Pods::Seen([("p".into(), pod(served).served)].into()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut empty = None;
        assert_eq!(trusted(Vec::new(), &mut empty, at(0)), None, "as after a start");
        assert_eq!(trusted(vec![pod(&[])], &mut empty, at(1)), seen(&[]), "one that serves nothing counts");
        assert_eq!(trusted(vec![pod(&[("u", "r")])], &mut empty, at(2)), seen(&[("u", "r")]));
        assert_eq!(trusted(Vec::new(), &mut empty, at(3)), None);
        assert_eq!(trusted(Vec::new(), &mut empty, at(12)), None);
        assert_eq!(trusted(Vec::new(), &mut empty, at(13)), Some(Pods::Seen(Default::default())));
    }

    #[test]
    fn receiver_fails_for_an_hour_after_its_last_failure_while_dead_letters_are_open() {
        let reported = |dead_letter, success, failure| ReportedHealth {
            pending: 0,
            retrying: 0,
            dead_letter,
            last_success_at_ms: success,
            last_failure_at_ms: failure,
            lacks_customer: false,
        };
        let now_ms = 10 * FAILS_MS;
        let (new, old) = (Some(now_ms - 3_599_999), Some(now_ms - 3_600_000));
        assert!(fails(&reported(1, old, new), now_ms) && fails(&reported(1, None, new), now_ms));
        for (health, why) in [
            (reported(0, None, new), "all were resent or set aside"),
            (reported(1, Some(now_ms), new), "it has succeeded since"),
            (reported(1, None, old), "nothing was sent for an hour"),
            (reported(1, None, None), "nothing failed"),
        ] {
            assert!(!fails(&health, now_ms), "{why}");
        }
    }

    #[test]
    fn webhook_fails_while_its_last_failure_is_later_than_its_last_success() {
        let health = |success: Option<i64>, failure: Option<i64>, dead_letter| {
            let health = ReportedHealth {
                pending: 1,
                retrying: 1,
                dead_letter,
                last_success_at_ms: success,
                last_failure_at_ms: failure,
                lacks_customer: false,
            };
            of(health)
        };
        assert!(health(Some(1), Some(2), 1).failing && health(None, Some(2), 1).failing);
        assert!(!health(Some(3), Some(2), 1).failing && !health(None, Some(2), 0).failing);
        assert_eq!(health(None, None, 0).pending, 2);
    }
}
