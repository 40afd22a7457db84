//! Figures that come from saves and arrivals together.

use std::collections::HashMap;
use std::time::{Duration, Instant};

pub(crate) use docket_rig::figures::percentile;

use crate::load::Saved;
use crate::receiver::Arrival;

/// The deliveries of acknowledged saves.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// The number of deliveries of acknowledged saves that never came.
    pub(crate) lost: usize,
    /// The number of POSTs of a delivery after its first POST.
    pub(crate) duplicates: usize,
    /// The number of deliveries of saves that were not acknowledged, because the response broke off.
    pub(crate) unacknowledged: usize,
    /// The times from the beginning of a save to the first POST of its delivery, in ascending order.
    pub(crate) end_to_end: Vec<Duration>,
    /// The time from the beginning of the first save to the first POST of the last delivery.
    pub(crate) whole: Duration,
}

impl Delivered {
    /// Matches arrivals to saves. Each of the tenant's `webhooks` webhooks must get each save.
    pub(crate) fn of(saves: &[Saved], arrivals: &[Arrival], webhooks: u32) -> Self {
        let mut first: HashMap<(u32, u64, u32), Instant> = HashMap::with_capacity(arrivals.len());
        for arrival in arrivals {
            let at = first.entry((arrival.tenant, arrival.order, arrival.webhook)).or_insert(arrival.at);
            *at = arrival.at.min(*at);
        }
        let duplicates = arrivals.len() - first.len();
        let (mut lost, mut end_to_end, mut last) = (0, Vec::with_capacity(first.len()), None);
        for save in saves {
            for webhook in 0..webhooks {
                let Some(at) = first.remove(&(save.tenant, save.order, webhook)) else {
                    lost += 1;
                    continue;
                };
                end_to_end.push(at - save.begun);
                last = last.max(Some(at));
            }
        }
        end_to_end.sort_unstable();
        let begun = saves.iter().map(|save| save.begun).min();
        let whole = last.zip(begun).map_or(Duration::ZERO, |(last, begun)| last - begun);
        Self { lost, duplicates, unacknowledged: first.len(), end_to_end, whole }
    }

    /// The number of deliveries per second.
    pub(crate) fn rate(&self) -> f64 {
        self.end_to_end.len() as f64 / self.whole.as_secs_f64()
    }
}

/// The times that saves took, in ascending order.
pub(crate) fn save_times(saves: &[Saved]) -> Vec<Duration> {
    let mut times: Vec<_> = saves.iter().map(|save| save.took).collect();
    times.sort_unstable();
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_duplicates_and_times_are_exact() {
        let begun = Instant::now();
        let ms = Duration::from_millis;
        let saved = |order| Saved { tenant: 0, order, begun: begun + ms(order), took: ms(5) };
        let came = |order, webhook, after| Arrival { tenant: 0, webhook, order, at: begun + ms(after) };
        let arrivals = [came(1, 0, 11), came(1, 1, 21), came(1, 1, 31), came(2, 0, 12), came(9, 0, 40)];
        let delivered = Delivered::of(&[saved(1), saved(2)], &arrivals, 2);
        assert_eq!((delivered.lost, delivered.duplicates, delivered.unacknowledged), (1, 1, 1));
        assert_eq!(delivered.end_to_end, [ms(10), ms(10), ms(20)]);
        assert_eq!(delivered.whole, ms(20));
    }
}
