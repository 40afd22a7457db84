//! The figures of a period on the overview and on the page of a webhook: numbers, and charts of samples. A table has the data of the charts.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::count;
use crate::parts;
use crate::time::duration;

docket_crds::words! {
    /// A period that ends now.
    #[derive(Default)]
    pub enum Range {
        /// The last hour.
        Hour = "hour",
        /// The last 24 hours.
        #[default]
        Day = "day",
        /// The last seven days.
        Week = "week",
        /// The last 30 days.
        Month = "month",
    }
}

impl Range {
    /// The number of spans of the charts, and the length of a span in minutes.
    pub const fn spans(self) -> (i64, i64) {
        match self {
            Self::Hour => (12, 5),
            Self::Day => (24, 60),
            Self::Week => (28, 360),
            Self::Month => (30, 1_440),
        }
    }

    const fn link(self) -> &'static str {
        match self {
            Self::Hour => "Hour",
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
        }
    }

    /// The period as a choice among others.
    pub(crate) const fn choice(self) -> &'static str {
        match self {
            Self::Hour => "Last hour",
            Self::Day => "Last 24 hours",
            Self::Week => "Last 7 days",
            Self::Month => "Last 30 days",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Hour => "in the last hour",
            Self::Day => "in the last 24 hours",
            Self::Week => "in the last 7 days",
            Self::Month => "in the last 30 days",
        }
    }

    const fn span_words(self) -> &'static str {
        match self {
            Self::Hour => "5 minutes",
            Self::Day => "hour",
            Self::Week => "6 hours",
            Self::Month => "day",
        }
    }

    /// The form of a time below the charts.
    const fn form(self) -> &'static str {
        match self {
            Self::Hour | Self::Day => "%H:%M",
            Self::Week | Self::Month => "%-d %b",
        }
    }
}

/// A sample of the deliveries that ended in a span of the period, and their attempts.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// When the span begins.
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

impl Span {
    const fn total(&self) -> usize {
        self.succeeded + self.repeated + self.dead
    }
}

/// The figures of a period.
#[derive(Debug, Clone, Default)]
pub struct Period {
    /// Which period.
    pub range: Range,
    /// The number of deliveries that succeeded.
    pub delivered: i64,
    /// The number of deliveries that became dead letters.
    pub dead: i64,
    /// The number of deliveries that are being retried now.
    pub retrying: i64,
    /// The number of deliveries that wait for their first attempt now.
    pub waiting: i64,
    /// The spans, oldest first.
    pub spans: Vec<Span>,
}

/// The area of a chart in its own units: bars are in it, the numbers of the axes are around it.
const LEFT: usize = 64;
const WIDTH: usize = 720;
const TOP: usize = 10;
const HEIGHT: usize = 100;

/// The percentile of `times`: the smallest of them that at least `percent` % of them do not exceed.
fn percentile(times: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied()
}

/// The share of the period's deliveries that arrived.
pub(crate) fn summary(period: &Period) -> String {
    let Period { range, delivered, dead, .. } = period;
    let ended = delivered + dead;
    match ended {
        0 => format!("No delivery has ended {}.", range.words()),
        // Rounded down, so that 100 % means all.
        ended => {
            let tenths = delivered * 1_000 / ended;
            let (whole, tenth) = (tenths / 10, tenths % 10);
            let share = if tenth == 0 { whole.to_string() } else { format!("{whole}.{tenth}") };
            format!("{share} % of {} arrived {}.", count(ended), range.words())
        }
    }
}

/// The choice of the period; `link`: the page with the figures of a period.
pub(crate) fn ranges(chosen: Range, link: impl Fn(Range) -> String) -> Markup {
    html! {
        nav.range aria-label="Period" {
            @for range in Range::ALL {
                a href=(link(range)) aria-current=[(range == chosen).then_some("true")] { (range.link()) }
            }
        }
    }
}

/// The numbers and the charts.
pub(crate) fn section(period: &Period) -> Markup {
    html! { (tiles(period)) (charts(period)) }
}

/// The numbers.
pub(crate) fn tiles(period: &Period) -> Markup {
    let Period { range, delivered, dead, retrying, waiting, spans } = period;
    let times: Vec<i64> = spans.iter().flat_map(|span| span.times_us.iter().copied()).collect();
    let tile = |title: &str, class: Option<&str>, number: i64, below: Markup| {
        html! { div.card.tile { h2 { (title) } b class=[class] { (count(number)) } span.quiet.small { (below) } } }
    };
    let half = duration(percentile(&times, 50));
    let speed = html! { @if times.is_empty() { (range.words()) } @else { "half within " (half) ", 99 % within " (duration(percentile(&times, 99))) } };
    html! {
        section.tiles aria-label="Figures" {
            (tile("Delivered", None, *delivered, speed))
            (tile("Tried again now", None, *retrying, html! { "after a failed attempt" }))
            (tile("Lost", (*dead > 0).then_some("bad"), *dead, html! { (range.words()) ", neither resent nor set aside" }))
            (tile("Waiting now", None, *waiting, html! { "for the first attempt" }))
        }
    }
}

/// The charts, with their data as a table; nothing if no delivery ended in the period.
pub(crate) fn charts(Period { range, spans, .. }: &Period) -> Markup {
    html! {
        @if spans.iter().any(|span| span.deliveries > 0) {
            (parts::card("attempts", &format!("Attempts by {}", range.span_words()), &html! { span.quiet.small { (sampled(spans)) } }, &parts::inside(&html! {
                (outcomes(*range, spans))
                div.legend {
                    span { i.good {} "Succeeded" } span { i.wait {} "Failed and tried again" } span { i.bad {} "Lost" }
                }
                @if spans.iter().any(|span| !span.times_us.is_empty()) {
                    (latencies(*range, spans))
                    div.legend { span { i.half {} "Half of the successful attempts took no longer" } span { i.most {} "99 % of them" } }
                }
                (table(*range, spans))
            })))
        }
    }
}

/// Which deliveries the charts are made of.
fn sampled(spans: &[Span]) -> &'static str {
    match spans.iter().any(|span| span.is_more) {
        true => "When their delivery ended; of a span with more than 200 deliveries, the last 200",
        false => "When their delivery ended",
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50 and so on that is at least `most`.
fn ceiling(most: usize) -> usize {
    let mut power = 1;
    loop {
        for factor in [1, 2, 5] {
            if factor * power >= most {
                return factor * power;
            }
        }
        power *= 10;
    }
}

/// The height of a bar for `part` of `whole`, on a scale of [`HEIGHT`]. A part that is not 0 is always visible.
fn height(part: usize, whole: usize) -> usize {
    match part {
        0 => 0,
        part => (part * HEIGHT / whole.max(1)).max(2),
    }
}

/// A chart with its axes. `bars`: for each span its text, and its parts with class, value and whether the part stands upon
/// the one before.
fn chart(
    label: &str,
    range: Range,
    spans: &[Span],
    top: usize,
    axis: impl Fn(usize) -> String,
    bars: impl Fn(&Span) -> (String, Vec<(&'static str, usize)>),
) -> Markup {
    let step = WIDTH / spans.len().max(1);
    let every = spans.len().div_ceil(5).max(1);
    html! {
        div.wide role="region" aria-label=(label) tabindex="0" {
            svg.chart viewBox={ "0 0 " (LEFT + WIDTH + 8) " " (TOP + HEIGHT + 22) } role="img" aria-label={ (label) "; the table below has the numbers" } {
                @for (y, value) in [(TOP + HEIGHT, 0), (TOP + HEIGHT / 2, top / 2), (TOP, top)] {
                    @if value > 0 || y == TOP + HEIGHT {
                        line x1=(LEFT) x2=(LEFT + WIDTH) y1=(y) y2=(y) {}
                        text x=(LEFT - 6) y=(y + 4) text-anchor="end" { (axis(value)) }
                    }
                }
                @for (place, span) in spans.iter().enumerate() {
                    @let x = LEFT + place * step + 2;
                    @let (words, parts) = bars(span);
                    g {
                        title { (words) }
                        @for (number, (class, size)) in parts.iter().enumerate() {
                            @let below: usize = parts[..number].iter().map(|(_, size)| size).sum();
                            rect class=(class) x=(x) y=((TOP + HEIGHT).saturating_sub(below + size)) width=(step.saturating_sub(4).max(1)) height=(size) rx="1" {}
                        }
                    }
                    @if place.is_multiple_of(every) {
                        text x=(x) y=(TOP + HEIGHT + 17) data-at=(span.from.as_millisecond()) data-form=(range.as_str()) { (span.from.strftime(range.form())) }
                    }
                }
            }
        }
    }
}

fn outcomes(range: Range, spans: &[Span]) -> Markup {
    let top = ceiling(spans.iter().map(Span::total).max().unwrap_or(0));
    let bars = |span: &Span| {
        let parts = [("good", span.succeeded), ("wait", span.repeated), ("bad", span.dead)];
        (words(range, span), parts.map(|(class, part)| (class, height(part, top))).to_vec())
    };
    chart("Attempts by outcome", range, spans, top, |value| value.to_string(), bars)
}

fn latencies(range: Range, spans: &[Span]) -> Markup {
    let of = |time: Option<i64>| time.map_or(0, |time| usize::try_from(time).unwrap_or(0));
    let top = ceiling(spans.iter().map(|span| of(percentile(&span.times_us, 99))).max().unwrap_or(0));
    let bars = |span: &Span| {
        let (half, most) = (percentile(&span.times_us, 50), percentile(&span.times_us, 99));
        let below = height(of(half), top);
        let words = format!("{}: {}, {}", name(range, span), duration(half), duration(most));
        (words, vec![("half", below), ("most", height(of(most), top).saturating_sub(below))])
    };
    let axis = |value: usize| if value == 0 { "0".to_owned() } else { duration(i64::try_from(value).ok()) };
    chart("Time of the attempts that succeeded", range, spans, top, axis, bars)
}

fn name(range: Range, span: &Span) -> String {
    format!(
        "{} UTC",
        span.from.strftime(if matches!(range, Range::Month) { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M" })
    )
}

fn words(range: Range, span: &Span) -> String {
    let Span { deliveries, is_more, succeeded, repeated, dead, .. } = span;
    let of_last = if *is_more { format!(", of the last {deliveries} deliveries") } else { String::new() };
    format!(
        "{}: {succeeded} succeeded, {repeated} failed and tried again, {dead} lost{of_last}",
        name(range, span)
    )
}

fn table(range: Range, spans: &[Span]) -> Markup {
    let heads = [
        ("From", ""),
        ("Succeeded", "num"),
        ("Failed, tried again", "num"),
        ("Lost", "num"),
        ("Half within", "num"),
        ("99 % within", "num"),
    ];
    let rows = html! {
        @for span in spans.iter().filter(|span| span.deliveries > 0) {
            tr {
                th scope="row" { (name(range, span)) @if span.is_more { ", the last " (span.deliveries) } }
                td.num { (span.succeeded) }
                td.num { (span.repeated) }
                td.num { (span.dead) }
                td.num { (duration(percentile(&span.times_us, 50))) }
                td.num { (duration(percentile(&span.times_us, 99))) }
            }
        }
    };
    html! { details { summary { "Show as a table" } (parts::table("Attempts", &heads, &rows)) } }
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
    fn axis_ends_at_a_round_number() {
        assert_eq!([0, 1, 3, 5, 6, 11, 201, 999].map(ceiling), [1, 1, 5, 5, 10, 20, 500, 1_000]);
    }

    #[test]
    fn only_a_period_without_a_loss_says_100_percent() {
        let said = |delivered, dead| summary(&Period { delivered, dead, ..Period::default() });
        assert_eq!(said(9_999, 1), "99.9 % of 10000 arrived in the last 24 hours.");
        assert_eq!(said(5, 0), "100 % of 5 arrived in the last 24 hours.");
        assert_eq!(said(0, 0), "No delivery has ended in the last 24 hours.");
    }

    #[test]
    fn charts_have_their_data_as_a_table() {
        let from = Timestamp::from_second(1_800_000_000).expect("in range");
        let busy = Span {
            from,
            deliveries: 200,
            is_more: true,
            succeeded: 190,
            repeated: 120,
            dead: 10,
            times_us: vec![2_000, 9_000],
        };
        let spans = vec![Span::default(), busy];
        let period = Period { delivered: 10_001, dead: 10, retrying: 4, spans, ..Period::default() };
        let text = section(&period).into_string();
        for part in [
            ">more than 10,000</b>",
            "<b>4</b>",
            "<b class=\"bad\">10</b>",
            "half within 2 ms, 99 % within 9 ms",
            ", the last 200</th><td class=\"num\">190</td><td class=\"num\">120</td><td class=\"num\">10</td>",
            "190 succeeded, 120 failed and tried again, 10 lost, of the last 200 deliveries",
            "text-anchor=\"end\">500</text>",
            "text-anchor=\"end\">10 ms</text>",
            "of a span with more than 200 deliveries, the last 200",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let rows = text.matches("<tr><th scope=\"row\">").count();
        assert_eq!(rows, 1, "spans without a delivery are left out");
        assert!(!text.contains("style="), "the policy allows none");
        let failed = Span { deliveries: 1, dead: 1, ..Span::default() };
        let failed = section(&Period { spans: vec![failed], ..Period::default() }).into_string();
        assert_eq!(failed.matches("<svg").count(), 1, "no attempt succeeded, so none has a time: {failed}");
        let calm = section(&Period { spans: vec![Span::default()], ..Period::default() }).into_string();
        assert!(!calm.contains("<svg"), "{calm}");
    }

    #[test]
    fn spans_of_a_period_are_as_long_as_it_is() {
        let minutes = Range::ALL.map(|range| range.spans().0 * range.spans().1);
        assert_eq!(minutes, [60, 24 * 60, 7 * 24 * 60, 30 * 24 * 60]);
        assert_eq!(Range::default(), Range::Day);
    }

    #[test]
    fn least_part_is_seen_and_the_whole_fills_the_chart() {
        assert_eq!([0, 1, 500, 1_000].map(|part| height(part, 1_000)), [0, 2, 50, 100]);
        assert_eq!(height(0, 0), 0);
    }
}
