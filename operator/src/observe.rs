//! What the data plane reports through Redis: which pods live, what each serves, and how deliveries go.

use std::{collections::HashMap, sync::Arc, time::Duration};

use docket_board::{Board, POD_COUNTS, PodServed, ReportedHealth};
use tokio::time::Instant;

use crate::{args::RunArguments, state::pods::Pods, webhook::status::Health, work::Operator};

/// How often pods are looked at.
const PODS_EVERY: Duration = Duration::from_secs(1);
/// How often deliveries are looked at.
const HEALTH_EVERY: Duration = Duration::from_secs(15);
/// How long what was read last counts while Redis does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The board that the arguments describe; `None`: nothing is observed.
///
/// Errors: a file can't be read, or what it holds is not right; the message names the flag and never the URL.
pub fn board(arguments: &RunArguments) -> anyhow::Result<Option<Board>> {
    let Some(file) = &arguments.redis_url_file else {
        return Ok(None);
    };
    let (ca_file, release) = (arguments.redis_ca_file.as_deref(), arguments.redis_release.as_deref());
    let (connection, keys) = docket_redis::files::connection(file, ca_file, release)?;
    Ok(Some(Board::new(connection, keys)))
}

/// Looks once, so that the first passes know what there is to know; then for ever.
pub async fn observe(operator: Arc<Operator>, board: Board) {
    let mut answered = Instant::now();
    let mut health_at: Option<Instant> = None;
    let mut empty_since: Option<Instant> = None;
    loop {
        match board.pods().await {
            Ok(pods) => {
                answered = Instant::now();
                if let Some(pods) = believed(pods, &mut empty_since, answered) {
                    operator.set_pods(pods);
                }
            }
            Err(error) => {
                if answered.elapsed() >= PATIENCE || !operator.observes() {
                    tracing::warn!(%error, "what the data plane serves can't be read");
                    operator.set_pods(Pods::Unavailable);
                }
            }
        }
        if health_at.is_none_or(|at| at.elapsed() >= HEALTH_EVERY) {
            health_at = Some(Instant::now());
            let uids = operator.cluster().webhook_uids();
            // What can't be read stays as it was told; that Redis is away is told above.
            if let Ok(health) = board.webhooks(&uids).await {
                let told = uids.into_iter().zip(health).filter_map(|(uid, health)| Some((uid, of(health?))));
                operator.set_health(told.collect());
            }
        }
        tokio::time::sleep(PODS_EVERY).await;
    }
}

/// What a look shows; `None`: nothing that counts. A board without a pod may be one that Redis has lost, and then it has the
/// pods back within a heartbeat or two: what was seen last counts for as long as a pod does.
fn believed(pods: Vec<PodServed>, empty_since: &mut Option<Instant>, now: Instant) -> Option<Pods> {
    if pods.is_empty() {
        let since = *empty_since.get_or_insert(now);
        return (now.duration_since(since) >= POD_COUNTS).then(|| Pods::Seen(Default::default()));
    }
    *empty_since = None;
    // Also those that serve nothing: they announce themselves once they know what there is to serve.
    Some(Pods::Seen(pods.into_iter().map(|pod| (pod.pod, pod.served)).collect()))
}

fn of(health: ReportedHealth) -> Health {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Health {
        pending: count(health.pending.saturating_add(health.retrying)),
        retrying: count(health.retrying),
        dead_letter: count(health.dead_letter),
        failing: health.dead_letter > 0 && health.last_failure_at_ms > health.last_success_at_ms,
        last_success_at_ms: health.last_success_at_ms,
        counts_are_due: false,
    }
}

/// What is told of webhooks from now on, and which of them have news: another state, or counts that moved while the last
/// ones are old enough.
pub fn merged(
    before: &HashMap<String, (Health, Instant)>,
    told: HashMap<String, Health>,
    now: Instant,
    counts_every: Duration,
) -> (HashMap<String, (Health, Instant)>, Vec<String>) {
    let mut after = HashMap::with_capacity(told.len());
    let mut news = Vec::new();
    for (uid, health) in told {
        let (health, since) = match before.get(&uid) {
            None => {
                news.push(uid.clone());
                (Health { counts_are_due: true, ..health }, now)
            }
            Some((last, since)) => {
                let counts =
                    |health: &Health| (health.pending, health.dead_letter, health.last_success_at_ms);
                let state = |health: &Health| {
                    (health.retrying > 0, health.failing, health.last_success_at_ms.is_some())
                };
                let old = now.duration_since(*since) >= counts_every;
                let due = old && (counts(last) != counts(&health) || !last.counts_are_due);
                let moved = counts(last) != counts(&health);
                if state(last) != state(&health) || due {
                    news.push(uid.clone());
                }
                // What moved and was not told yet stays due for the next time.
                let counts_are_due = due || (!moved && last.counts_are_due);
                (Health { counts_are_due, ..health }, if due { now } else { *since })
            }
        };
        after.insert(uid, (health, since));
    }
    (after, news)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn one(pending: i64, retrying: i64) -> HashMap<String, Health> {
        HashMap::from([("w".to_owned(), Health { pending, retrying, ..Health::default() })])
    }

    #[test]
    fn an_empty_board_is_not_believed_at_once() {
        let pod = |served: &[(&str, &str)]| PodServed {
            pod: "p".into(),
            roles: Vec::new(),
            served: served.iter().map(|(uid, revision)| ((*uid).into(), (*revision).into())).collect(),
        };
        let seen = |served: &[(&str, &str)]| Some(Pods::Seen([("p".into(), pod(served).served)].into()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut empty = None;
        assert_eq!(believed(Vec::new(), &mut empty, at(0)), None, "as after a start");
        assert_eq!(believed(vec![pod(&[])], &mut empty, at(1)), seen(&[]), "one that serves nothing counts");
        assert_eq!(believed(vec![pod(&[("u", "r")])], &mut empty, at(2)), seen(&[("u", "r")]));
        assert_eq!(believed(Vec::new(), &mut empty, at(3)), None);
        assert_eq!(believed(Vec::new(), &mut empty, at(12)), None);
        assert_eq!(believed(Vec::new(), &mut empty, at(13)), Some(Pods::Seen(Default::default())));
    }

    #[test]
    fn counts_are_told_once_a_minute_and_states_at_once() {
        let step = |before: &HashMap<_, _>, told, at| {
            let (after, news) = merged(before, told, at, MINUTE);
            let due = after["w"].0.counts_are_due;
            (after, (!news.is_empty(), due))
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (after, told) = step(&HashMap::new(), one(1, 0), at(0));
        assert_eq!(told, (true, true));
        let (after, told) = step(&after, one(1, 0), at(15));
        assert_eq!(told, (false, true), "nothing moved");
        let (after, told) = step(&after, one(2, 0), at(30));
        assert_eq!(told, (false, false), "too soon");
        let (after, told) = step(&after, one(3, 3), at(45));
        assert_eq!(told, (true, false), "a transition, with the old counts");
        let (after, told) = step(&after, one(3, 3), at(60));
        assert_eq!(told, (true, true), "the counts catch up");
        let (_, told) = step(&after, one(3, 3), at(200));
        assert_eq!(told, (false, true), "and rest");
    }

    #[test]
    fn a_webhook_fails_while_the_last_failure_is_later_than_the_last_success() {
        let health = |success: Option<i64>, failure: Option<i64>, dead_letter| {
            let health = ReportedHealth {
                pending: 1,
                retrying: 1,
                dead_letter,
                last_success_at_ms: success,
                last_failure_at_ms: failure,
            };
            of(health)
        };
        assert!(health(Some(1), Some(2), 1).failing && health(None, Some(2), 1).failing);
        assert!(!health(Some(3), Some(2), 1).failing && !health(None, Some(2), 0).failing);
        assert_eq!(health(None, None, 0).pending, 2);
    }
}
