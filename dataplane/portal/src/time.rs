//! Points in time and durations, for people.

use jiff::Timestamp;
use maud::{Markup, html};

/// A time in UTC. The script shows it in the reader's zone, with this text as its title.
pub(crate) fn at(at: Timestamp) -> Markup {
    html! { time datetime=(at.to_string()) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// A time as [`at`] shows it, and beside it how far it is in the past or future.
pub(crate) fn time(then: Timestamp, now: Timestamp) -> Markup {
    html! {
        (at(then))
        " "
        span.beside data-relative=(then.as_millisecond()) { (relative(then, now)) }
    }
}

/// How far a time is in the past or future. The script's `relative` has the same form.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second() - now.as_second();
    match seconds.abs() {
        ..2 => "now".to_owned(),
        size if seconds < 0 => format!("{} ago", length(size)),
        size => format!("in {}", length(size)),
    }
}

/// A length of time in seconds, in minutes, in hours and minutes, or in days.
pub(crate) fn length(seconds: i64) -> String {
    let minutes = seconds / 60;
    match (minutes, minutes % 60) {
        (..2, _) => format!("{seconds} s"),
        (..60, _) => format!("{minutes} min"),
        (..1_440, 0) => format!("{} h", minutes / 60),
        (..1_440, rest) => format!("{} h {rest} min", minutes / 60),
        (..2_880, _) => "1 day".to_owned(),
        _ => format!("{} days", minutes / 1_440),
    }
}

/// A duration of `micros` microseconds; a dash for `None`.
pub(crate) fn duration(micros: Option<i64>) -> String {
    match micros {
        None => "–".to_owned(),
        Some(micros) if micros < 1_000 => format!("{micros} µs"),
        Some(micros) if micros < 1_000_000 => format!("{} ms", micros / 1_000),
        Some(micros) => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_time_has_hours_with_minutes_and_else_one_unit() {
        let now = Timestamp::from_second(1_000_000).expect("in range");
        for (seconds, text) in [
            (0, "now"),
            (-1, "now"),
            (-30, "30 s ago"),
            (30, "in 30 s"),
            (-119, "119 s ago"),
            (-125, "2 min ago"),
            (3_599, "in 59 min"),
            (-6_600, "1 h 50 min ago"),
            (7_200, "in 2 h"),
            (-169_200, "1 day ago"),
            (-200_000, "2 days ago"),
        ] {
            let at = Timestamp::from_second(1_000_000 + seconds).expect("in range");
            assert_eq!(relative(at, now), text);
        }
    }

    #[test]
    fn duration_has_a_unit_that_fits() {
        let texts = [None, Some(999), Some(2_500), Some(30_040_000)].map(duration);
        assert_eq!(texts, ["–", "999 µs", "2 ms", "30.0 s"]);
    }

    #[test]
    fn units_change_where_the_next_one_begins() {
        for (seconds, text) in [
            (119, "119 s"),
            (120, "2 min"),
            (3_600, "1 h"),
            (86_399, "23 h 59 min"),
            (86_400, "1 day"),
            (172_799, "1 day"),
            (172_800, "2 days"),
        ] {
            assert_eq!(length(seconds), text);
        }
        let texts = [1_000, 999_999, 1_000_000].map(|micros| duration(Some(micros)));
        assert_eq!(texts, ["1 ms", "999 ms", "1.0 s"]);
        let now = Timestamp::from_second(1_000_000).expect("in range");
        let two = Timestamp::from_second(1_000_002).expect("in range");
        assert_eq!((relative(two, now), relative(now, two)), ("in 2 s".to_owned(), "2 s ago".to_owned()));
    }
}
