//! Colours and relative times, on a terminal only.

use std::io::{self, IsTerminal};

use docket_program::screen::clean;
use jiff::Timestamp;

/// How texts look. The default is plain: without colours, and with times in UTC.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    colours: bool,
    now: Option<Timestamp>,
}

impl Style {
    /// The style of a terminal or of a file. `without_colours`: the user asks for none.
    pub fn new(is_terminal: bool, without_colours: bool, now: Timestamp) -> Self {
        Self { colours: is_terminal && !without_colours, now: is_terminal.then_some(now) }
    }

    /// The style of standard output. `NO_COLOR` with any text turns colours off.
    pub fn of_stdout(now: Timestamp) -> Self {
        let without_colours = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(io::stdout().is_terminal(), without_colours, now)
    }

    /// A time of an answer for a cell: how far it is away on a terminal, and in UTC elsewhere.
    pub fn time(self, written: &str) -> String {
        match (written.parse::<Timestamp>(), self.now) {
            (Ok(at), Some(now)) => relative(at, now),
            (Ok(at), None) => utc(at),
            (Err(_), _) => clean(written),
        }
    }

    /// A time of an answer in a line: in UTC, and on a terminal also how far it is away.
    pub fn moment(self, written: &str) -> String {
        match (written.parse::<Timestamp>(), self.now) {
            (Ok(at), Some(now)) => format!("{} ({})", utc(at), relative(at, now)),
            (Ok(at), None) => utc(at),
            (Err(_), _) => clean(written),
        }
    }

    /// A text that begins with a delivery's status, in the status' colour.
    pub fn status(self, text: &str) -> String {
        let colour = match text.split(' ').next() {
            Some("Succeeded") => 32,
            Some("Failed") => 33,
            Some("DeadLetter") => 31,
            _ => return text.to_owned(),
        };
        if self.colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// How far a time is in the past or future, in its largest unit, as the portal shows it.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second() - now.as_second();
    let (count, unit) = match seconds.abs() {
        0..2 => return "now".to_owned(),
        size @ 0..120 => (size, "s"),
        size @ 0..7_200 => (size / 60, "min"),
        size @ 0..172_800 => (size / 3_600, "h"),
        size => (size / 86_400, "days"),
    };
    if seconds < 0 { format!("{count} {unit} ago") } else { format!("in {count} {unit}") }
}

/// A duration of `micros` microseconds, as the portal shows it.
pub fn duration(micros: i64) -> String {
    match micros {
        ..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "2026-11-21T09:30:00.123Z";

    fn now() -> Timestamp {
        "2026-11-21T09:33:00Z".parse().expect("a time")
    }

    #[test]
    fn only_a_terminal_gets_colours_and_relative_times() {
        let terminal = Style::new(true, false, now());
        assert_eq!(terminal.time(WRITTEN), "3 min ago");
        assert_eq!(terminal.moment(WRITTEN), "2026-11-21 09:30:00Z (3 min ago)");
        assert_eq!(terminal.status("Failed (x)"), "\u{1b}[33mFailed (x)\u{1b}[0m");
        assert_eq!(terminal.status("Pending"), "Pending");
        assert_eq!(Style::new(true, true, now()).status("Failed"), "Failed");
        for plain in [Style::new(false, false, now()), Style::default()] {
            assert_eq!(
                (plain.time(WRITTEN), plain.status("Failed")),
                ("2026-11-21 09:30:00Z".into(), "Failed".into())
            );
        }
        assert_eq!(terminal.time("a\u{1b}b"), "a b");
    }

    #[test]
    fn duration_has_a_unit_that_fits() {
        assert_eq!([999, 2_500, 30_001_000].map(duration), ["999 µs", "2 ms", "30.0 s"]);
    }

    #[test]
    fn relative_time_has_its_largest_unit_and_its_direction() {
        for (seconds, shown) in [
            (1, "now"),
            (-1, "now"),
            (2, "in 2 s"),
            (-119, "119 s ago"),
            (120, "in 2 min"),
            (-7_199, "119 min ago"),
            (7_200, "in 2 h"),
            (-172_799, "47 h ago"),
            (172_800, "in 2 days"),
        ] {
            let at = Timestamp::from_second(now().as_second() + seconds).expect("in range");
            assert_eq!(relative(at, now()), shown);
        }
        assert_eq!([1_000, 999_999, 1_000_000].map(duration), ["1 ms", "999 ms", "1.0 s"]);
    }

    #[test]
    fn each_outcome_has_its_own_colour() {
        let terminal = Style::new(true, false, now());
        for (status, colour) in [("Succeeded", 32), ("Failed", 33), ("DeadLetter (resent)", 31)] {
            assert_eq!(terminal.status(status), format!("\u{1b}[{colour}m{status}\u{1b}[0m"));
        }
    }
}
