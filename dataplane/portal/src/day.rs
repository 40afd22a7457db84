//! The last 24 hours of the overview: numbers, and charts of samples. A table has the data of each chart.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::count;
use crate::time::duration;

/// A sample of the deliveries that ended in an hour, and their attempts.
#[derive(Debug, Clone, Default)]
pub struct Hour {
    /// When the hour begins.
    pub from: Timestamp,
    /// The number of deliveries in the sample.
    pub deliveries: usize,
    /// Whether more deliveries ended than the sample has.
    pub is_more: bool,
    /// The number of attempts that succeeded.
    pub succeeded: usize,
    /// The number of attempts that failed and were followed by another attempt.
    pub repeated: usize,
    /// The number of deliveries that became dead letters.
    pub dead: usize,
    /// How long each attempt that succeeded took, in microseconds.
    pub times_us: Vec<i64>,
}

/// The last 24 hours.
#[derive(Debug, Clone, Default)]
pub struct Day {
    /// The number of deliveries that succeeded.
    pub delivered: i64,
    /// The number of deliveries that became dead letters.
    pub dead: i64,
    /// The number of deliveries that are being retried now.
    pub retrying: i64,
    /// The hours, oldest first.
    pub hours: Vec<Hour>,
}

const WIDTH: usize = 720;
const HEIGHT: usize = 120;

impl Hour {
    const fn total(&self) -> usize {
        self.succeeded + self.repeated + self.dead
    }

    fn name(&self) -> String {
        self.from.strftime("%H:%M").to_string()
    }
}

/// The percentile of `times`: the smallest of them that at least `percent` % of them do not exceed.
fn percentile(times: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied()
}

/// The section of the overview.
pub(crate) fn section(day: &Day) -> Markup {
    let Day { delivered, dead, retrying, hours } = day;
    let is_sampled = hours.iter().any(|hour| hour.is_more);
    let sampled = if is_sampled { "; of an hour with more than 200 deliveries, the last 200" } else { "" };
    let times: Vec<i64> = hours.iter().flat_map(|hour| hour.times_us.iter().copied()).collect();
    html! {
        h2 { "Last 24 hours" }
        dl.numbers {
            dt { "Delivered" } dd { (count(*delivered)) }
            dt { "Tried again now" } dd { (count(*retrying)) }
            dt { "Dead letters" } dd { (count(*dead)) }
            dt { "Time of an attempt, half and 99 %" (sampled) }
            dd { (duration(percentile(&times, 50))) " · " (duration(percentile(&times, 99))) }
        }
        @if hours.iter().all(|hour| hour.deliveries == 0) {
            p.hint { "No delivery has ended in this time." }
        } @else {
            div.charts {
                figure { (outcomes(hours)) figcaption { "Attempts by outcome, in the hour (UTC) in which their delivery ended" (sampled) } }
                figure { (latencies(hours)) figcaption { "Time of the attempts that succeeded, by hour (UTC): half of them, and 99 %, were no slower" (sampled) } }
            }
            (table(hours))
        }
    }
}

/// The position and the width of the bar of hour number `place`.
fn bar(place: usize, hours: usize) -> (usize, usize) {
    let width = WIDTH / hours.max(1);
    (place * width, width.saturating_sub(4).max(1))
}

/// The height of a bar for `part` of `whole`, on a scale of [`HEIGHT`]. A part that is not 0 is always visible.
fn height(part: usize, whole: usize) -> usize {
    match part {
        0 => 0,
        part => (part * HEIGHT / whole.max(1)).max(2),
    }
}

fn outcomes(hours: &[Hour]) -> Markup {
    let most = hours.iter().map(Hour::total).max().unwrap_or(0);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 20) } role="img" aria-label="Attempts by outcome, by hour; the table below has the numbers" {
            @for (place, hour) in hours.iter().enumerate() {
                @let (x, width) = bar(place, hours.len());
                @let parts = [("chart-good", hour.succeeded), ("chart-wait", hour.repeated), ("chart-bad", hour.dead)];
                g {
                    title { (words(hour)) }
                    @for (number, (class, part)) in parts.iter().enumerate() {
                        @let below: usize = parts[..number].iter().map(|(_, part)| height(*part, most)).sum();
                        @let size = height(*part, most);
                        rect class=(class) x=(x) y=((HEIGHT).saturating_sub(below + size)) width=(width) height=(size) {}
                    }
                }
                (mark(place, hour, x))
            }
        }
    }
}

fn latencies(hours: &[Hour]) -> Markup {
    let slowest = hours.iter().filter_map(|hour| percentile(&hour.times_us, 99)).max().unwrap_or(0);
    let size = |time: Option<i64>| {
        let of = |time: i64| usize::try_from(time).unwrap_or(0);
        time.map_or(0, |time| height(of(time), of(slowest)))
    };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 20) } role="img" aria-label="Time of the attempts that succeeded, by hour; the table below has the numbers" {
            @for (place, hour) in hours.iter().enumerate() {
                @let (x, width) = bar(place, hours.len());
                @let (half, most) = (percentile(&hour.times_us, 50), percentile(&hour.times_us, 99));
                g {
                    title { (hour.name()) ": " (duration(half)) ", " (duration(most)) }
                    rect class="chart-most" x=(x) y=(HEIGHT - size(most)) width=(width) height=(size(most)) {}
                    rect class="chart-half" x=(x) y=(HEIGHT - size(half)) width=(width) height=(size(half)) {}
                }
                (mark(place, hour, x))
            }
        }
    }
}

/// The time under every sixth bar.
fn mark(place: usize, hour: &Hour, x: usize) -> Markup {
    html! { @if place.is_multiple_of(6) { text x=(x) y=(HEIGHT + 16) { (hour.name()) } } }
}

fn words(hour: &Hour) -> String {
    let Hour { deliveries, is_more, succeeded, repeated, dead, .. } = hour;
    let of_last = if *is_more { format!(", of the last {deliveries} deliveries") } else { String::new() };
    format!(
        "{}: {succeeded} succeeded, {repeated} failed and tried again, {dead} failed for good{of_last}",
        hour.name()
    )
}

fn table(hours: &[Hour]) -> Markup {
    let some = hours.iter().filter(|hour| hour.deliveries > 0);
    html! {
        details {
            summary { "The charts as a table" }
            div.wide role="region" aria-label="The last 24 hours" tabindex="0" {
                table {
                    caption { "Attempts, by the hour in which their delivery ended; of a busy hour those of the last deliveries" }
                    thead { tr {
                        @for head in ["Hour (UTC)", "Succeeded", "Failed, tried again", "Failed for good", "Half within", "99 % within"] {
                            th scope="col" { (head) }
                        }
                    } }
                    tbody {
                        @for hour in some {
                            tr {
                                th scope="row" { (hour.from.strftime("%Y-%m-%d %H:%M")) @if hour.is_more { ", the last " (hour.deliveries) } }
                                td { (hour.succeeded) }
                                td { (hour.repeated) }
                                td { (hour.dead) }
                                td { (duration(percentile(&hour.times_us, 50))) }
                                td { (duration(percentile(&hour.times_us, 99))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_time_that_occurred() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7], 99), Some(7));
        let hundred: Vec<i64> = (1..=100).rev().collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (Some(50), Some(99)));
        assert_eq!(percentile(&[1, 2, 3], 50), Some(2));
    }

    #[test]
    fn charts_have_their_data_as_a_table() {
        let from = Timestamp::from_second(1_800_000_000).expect("in range");
        let busy = Hour {
            from,
            deliveries: 200,
            is_more: true,
            succeeded: 190,
            repeated: 120,
            dead: 10,
            times_us: vec![2_000, 9_000],
        };
        let day = Day { delivered: 10_001, dead: 10, retrying: 4, hours: vec![Hour::default(), busy] };
        let text = section(&day).into_string();
        for part in [
            "<dd>more than 10,000</dd>",
            "<dd>4</dd>",
            "<dd>10</dd>",
            "2 ms · 9 ms",
            ", the last 200</th><td>190</td><td>120</td><td>10</td><td>2 ms</td><td>9 ms</td>",
            "190 succeeded, 120 failed and tried again, 10 failed for good, of the last 200 deliveries",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let sampled = "; of an hour with more than 200 deliveries, the last 200</";
        assert_eq!(text.matches(sampled).count(), 3, "{text}");
        assert_eq!(
            text.matches("<tr><th scope=\"row\">").count(),
            1,
            "hours without a delivery are left out"
        );
        assert!(!text.contains("style="), "the policy allows none");
        let calm = section(&Day { hours: vec![Hour::default()], ..Day::default() }).into_string();
        assert!(calm.contains("No delivery has ended") && !calm.contains("<svg"), "{calm}");
    }
}
