//! The named points at which a process is killed or stopped. A point is reached by what a proxy saw, by a POST that came, by a line of the
//! log or by a metric.

use std::time::Duration;

use docket_rig::proxy::Way;

use crate::load::Load;
use crate::random::Random;
use crate::world::{World, within};

/// The longest wait for a point. After it the process is killed where it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// The largest number of questions to PostgreSQL before a cut.
const QUESTIONS: u64 = 40;
/// The largest number of bytes of responses of receivers before a cut.
const BYTES: u64 = 400;

/// A point in the life of an order or a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    /// Any moment.
    Moment,
    /// A question to PostgreSQL has its response, which is not forwarded.
    Question,
    /// PostgreSQL has committed, and no process has got the report.
    Committed,
    /// Saves are committed, and Redis gets none of the hints.
    BeforeHint,
    /// A POST has come, and has no response.
    PostReceived,
    /// A POST stalls on its way to the receiver.
    PostStalled,
    /// The receiver has responded.
    Responded,
    /// A part of the response has been forwarded.
    HalfResponse,
    /// The outcome of an attempt is in the log, so it is stored.
    Logged,
    /// The process has counted a claim.
    Claimed,
}

impl Point {
    /// The points of a save.
    pub(crate) const OF_SAVES: [Self; 5] =
        [Self::Moment, Self::Question, Self::Committed, Self::BeforeHint, Self::Claimed];
    /// The points of an attempt.
    pub(crate) const OF_ATTEMPTS: [Self; 9] = [
        Self::Moment,
        Self::Question,
        Self::Committed,
        Self::PostReceived,
        Self::PostStalled,
        Self::Responded,
        Self::HalfResponse,
        Self::Logged,
        Self::Claimed,
    ];

    /// Waits for this point of the process with this number; returns whether it was reached. What a proxy does for it stays until
    /// the proxy is restored.
    pub(crate) async fn reached(
        self,
        world: &World,
        process: usize,
        load: &Load,
        random: &mut Random,
    ) -> bool {
        let hook = &world.hook;
        match self {
            Self::Moment => {
                tokio::time::sleep(Duration::from_millis(random.below(300))).await;
                true
            }
            Self::Question => {
                let (proxy, cuts) = (&world.to_postgres, world.to_postgres.cuts());
                proxy.cut_at_question(1 + random.below(QUESTIONS).cast_signed());
                within(PATIENCE, async || proxy.cuts() > cuts).await
            }
            Self::Committed => {
                let (proxy, cuts) = (&world.to_postgres, world.to_postgres.cuts());
                proxy.cut_at_commit();
                within(PATIENCE, async || proxy.cuts() > cuts).await
            }
            Self::BeforeHint => {
                world.to_redis.cut();
                let saves = load.acknowledged();
                within(PATIENCE, async || load.acknowledged() >= saves + 3).await
            }
            Self::PostReceived => {
                let posts = hook.count();
                within(PATIENCE, async || hook.count() > posts).await
            }
            Self::PostStalled => {
                world.to_receiver.stall(Way::ToServer);
                let saves = load.acknowledged();
                within(PATIENCE, async || load.acknowledged() >= saves + 3).await
            }
            Self::Responded => {
                let responses = hook.receiver.answered();
                within(PATIENCE, async || hook.receiver.answered() > responses).await
            }
            Self::HalfResponse => {
                let (proxy, cuts) = (&world.to_receiver, world.to_receiver.cuts());
                proxy.cut_after(u32::try_from(random.below(BYTES)).unwrap_or(0));
                within(PATIENCE, async || proxy.cuts() > cuts).await
            }
            Self::Logged => {
                let from = world.log_end();
                within(PATIENCE, async || world.is_logged(r#""message":"attempt""#, from)).await
            }
            Self::Claimed => {
                let claims = async || sum(&world.processes[process].metrics().await, CLAIMED);
                let before = claims().await;
                within(PATIENCE, async || claims().await > before).await
            }
        }
    }
}

const CLAIMED: &str = "docket_deliveries_claimed_total";

/// The sum of all series of this name.
pub(crate) fn sum(metrics: &str, name: &str) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(name)?;
        (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<f64>().unwrap_or(0.0))
    });
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_added() {
        let text = "# TYPE a counter\na{way=\"b\"} 1\na{way=\"c\"} 2\na_sum 8\na 16\n";
        assert_eq!(sum(text, "a").to_bits(), 19.0_f64.to_bits());
        assert_eq!(sum("", "a").to_bits(), 0.0_f64.to_bits());
    }
}
