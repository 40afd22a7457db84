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
    let length_ms = minutes * MINUTE_MS;
    let from_ms = now_ms - count * length_ms;
    let delivered = recent::count(reader, keys, Status::Succeeded, from_ms).await?;
    let dead = recent::count(reader, keys, Status::DeadLetter, from_ms).await?;
    // Whole spans. The last one has just begun.
    let last = now_ms - now_ms.rem_euclid(length_ms);
    let times = (0..count).rev().map(|back| (last - back * length_ms, last - (back - 1) * length_ms));
    let times: Vec<(i64, i64)> = times.collect();
    let mut spans: Vec<Span> =
        times.iter().map(|(from, _)| Span { from: timestamp(*from), ..Span::default() }).collect();
    for ended in recent::sample(reader, only, &times).await? {
        if let Some(span) = spans.get_mut(ended.span) {
            add(span, ended);
        }
    }
    Ok(Period { range, delivered, dead, spans, ..Period::default() })
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
