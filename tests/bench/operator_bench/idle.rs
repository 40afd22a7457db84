//! When the operator's queues are idle, by its metrics.

use std::time::{Duration, Instant};

use docket_tests::operator::Operator;

/// Objects that were taken and the seconds that they waited, of both kinds, then passes in progress.
const QUEUES: [&str; 6] = [
    "docket_operator_queue_wait_seconds_count{kind=\"Tenant\"}",
    "docket_operator_queue_wait_seconds_count{kind=\"Webhook\"}",
    "docket_operator_queue_wait_seconds_sum{kind=\"Tenant\"}",
    "docket_operator_queue_wait_seconds_sum{kind=\"Webhook\"}",
    "docket_operator_reconcile_inflight{kind=\"Tenant\"}",
    "docket_operator_reconcile_inflight{kind=\"Webhook\"}",
];
/// The time between two reads of the metrics. With many Tenants a read takes long, and then the time is ten times as long as a read,
/// up to [`QUIET`].
const BETWEEN: Duration = Duration::from_millis(200);
/// How long the queues must be idle.
const QUIET: Duration = Duration::from_secs(3);
/// The mean wait below which a queue counts as idle. At rest, an object is taken as soon as it is due.
const NO_WAIT: f64 = 0.1;
/// The time limit.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Waits until the operator has taken each of its Tenants once, and no object waits for its pass. Returns since when;
/// `None`: the queues were not idle within half an hour.
pub(crate) async fn idle(operator: &Operator, tenants: usize) -> Option<Instant> {
    let begun = Instant::now();
    let (mut before, mut since) = (operator.metrics(QUEUES).await, None);
    while begun.elapsed() < LONGEST {
        let asked = Instant::now();
        let now = operator.metrics(QUEUES).await;
        if now[0] >= tenants as f64 && is_idle(before, now) {
            let since: Instant = *since.get_or_insert(asked);
            if since.elapsed() >= QUIET {
                return Some(since);
            }
        } else {
            since = None;
        }
        before = now;
        tokio::time::sleep((asked.elapsed() * 10).clamp(BETWEEN, QUIET)).await;
    }
    None
}

/// Whether no object waited between two reads.
fn is_idle(before: [f64; 6], now: [f64; 6]) -> bool {
    // The difference is made for each series, because a difference of sums would have their rounding error.
    let since = |series: usize| now[series] - before[series];
    let (taken, waited) = (since(0) + since(1), since(2) + since(3));
    let in_progress = now[4] + now[5];
    waited <= NO_WAIT * taken && (taken > 0.0 || in_progress == 0.0)
}
