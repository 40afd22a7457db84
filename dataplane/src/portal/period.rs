//! The figures of a period: counts, and samples for the charts.

use docket_domain::delivery::Status;
use docket_portal::period::{Period, Range, Span};
use docket_store::recent::{self, EndedDelivery, SAMPLE};
use docket_store::{Connection, StoreError};
use jiff::Timestamp;

use crate::http::times::timestamp;

const MINUTE_MS: i64 = 60_000;

/// Reads the figures of the deliveries to these webhooks (keys), without the numbers of now. The charts are made of
/// deliveries to `only` these webhooks, if they are given.
pub(super) async fn figures(
    reader: &mut Connection,
    keys: &[String],
    only: Option<&[String]>,
    range: Range,
    now: Timestamp,
) -> Result<Period, StoreError> {
    let now_ms = now.as_millisecond();
    let (count, minutes) = range.spans();
    let from_ms = now_ms - count * minutes * MINUTE_MS;
    let delivered = recent::count(reader, keys, Status::Succeeded, from_ms).await?;
    let dead = recent::count(reader, keys, Status::DeadLetter, from_ms).await?;
    let times = times(range, now_ms);
    let mut spans: Vec<Span> =
        times.iter().map(|(from, _)| Span { from: timestamp(*from), ..Span::default() }).collect();
    for ended in recent::sample(reader, only, &times).await? {
        if let Some(span) = spans.get_mut(ended.span) {
            add(span, ended);
        }
    }
    Ok(Period { range, delivered, dead, spans, ..Period::default() })
}

/// The begin and end of each span, oldest first. All spans have the same length, and the last one has just begun.
fn times(range: Range, now_ms: i64) -> Vec<(i64, i64)> {
    let (count, minutes) = range.spans();
    let length_ms = minutes * MINUTE_MS;
    let last = now_ms - now_ms.rem_euclid(length_ms);
    (0..count).rev().map(|back| (last - back * length_ms, last - (back - 1) * length_ms)).collect()
}

fn add(span: &mut Span, EndedDelivery { status, attempts, total_us, .. }: EndedDelivery) {
    span.deliveries += 1;
    span.is_more = span.deliveries as i64 == SAMPLE;
    match status {
        Status::Succeeded => span.succeeded += 1,
        _ => span.dead += 1,
    }
    // A delivery whose webhook is gone may end without an attempt.
    span.repeated += usize::try_from(attempts - 1).unwrap_or(0);
    span.times_us.extend(total_us);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_follow_one_another_and_the_last_one_has_just_begun() {
        for now_ms in [1_800_000_000_000, 1_800_000_123_456] {
            for range in Range::ALL {
                let (count, minutes) = range.spans();
                let times = times(range, now_ms);
                assert_eq!(times.len() as i64, count);
                assert!(times.windows(2).all(|pair| pair[0].1 == pair[1].0), "{times:?}");
                let length = minutes * 60_000;
                assert!(
                    times.iter().all(|(from, to)| to - from == length && from % length == 0),
                    "{times:?}"
                );
                assert!(times.last().is_some_and(|(from, to)| (*from..*to).contains(&now_ms)), "{times:?}");
            }
        }
    }

    #[test]
    fn each_delivery_counts_in_its_span_with_the_attempts_before_the_last() {
        let mut span = Span::default();
        let ended = |status, attempts, total_us| EndedDelivery { span: 0, status, attempts, total_us };
        for one in [
            ended(Status::Succeeded, 1, Some(7)),
            ended(Status::Succeeded, 3, Some(9)),
            ended(Status::DeadLetter, 5, None),
            ended(Status::DeadLetter, 0, None),
        ] {
            add(&mut span, one);
        }
        assert_eq!((span.deliveries, span.succeeded, span.repeated, span.dead), (4, 2, 6, 2));
        assert_eq!((span.times_us.as_slice(), span.is_more), (&[7, 9][..], false));
        (0..SAMPLE - 5).for_each(|_| add(&mut span, ended(Status::Succeeded, 1, Some(1))));
        assert!(!span.is_more, "{}", span.deliveries);
        add(&mut span, ended(Status::Succeeded, 1, Some(1)));
        assert!(span.is_more && span.deliveries == 200);
    }
}
