//! Figures of a benchmark, their goals, and how a table or JSON shows them.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// The bound that a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The figure is this number or more.
    AtLeast(f64),
    /// The figure is this number or less.
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(goal) => value >= goal,
            Self::AtMost(goal) => value <= goal,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!(">= {}", number(goal)),
            Self::AtMost(goal) => format!("<= {}", number(goal)),
        }
    }
}

/// One measured number.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The number; NaN: it could not be measured, and reaches no goal.
    pub value: f64,
    /// The unit of the number; empty for a ratio or a count.
    pub unit: &'static str,
    /// The bound; `None`: the figure has no goal.
    pub goal: Option<Goal>,
}

impl Figure {
    /// A figure without a goal.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, goal: None }
    }

    /// The figure with a goal that it must reach from above.
    pub fn at_least(mut self, goal: f64) -> Self {
        self.goal = Some(Goal::AtLeast(goal));
        self
    }

    /// The figure with a goal that it must not exceed.
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal = Some(Goal::AtMost(goal));
        self
    }
}

/// The median of each figure over all rounds. Every round has the same figures in the same order.
pub fn medians(rounds: Vec<Vec<Figure>>) -> Vec<Figure> {
    let mut rounds = rounds.into_iter();
    let mut figures = rounds.next().unwrap_or_default();
    let others: Vec<_> = rounds.collect();
    for (at, figure) in figures.iter_mut().enumerate() {
        let others = others.iter().filter_map(|round| round.get(at)).map(|other| other.value);
        let mut values: Vec<f64> = std::iter::once(figure.value).chain(others).collect();
        values.sort_by(f64::total_cmp);
        figure.value = values[values.len() / 2];
    }
    figures
}

/// The smallest time that `percent` percent of the sorted times do not exceed, in ms; NaN without times.
pub fn percentile(sorted: &[Duration], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
}

/// The figures of a scenario in one shape.
#[derive(Debug)]
pub struct Measured {
    /// The name of the scenario.
    pub scenario: String,
    /// The name of the shape.
    pub shape: &'static str,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// All figures as JSON.
fn json(measured: &[Measured]) -> Value {
    let of = |measured: &Measured| {
        let figure = |figure: &Figure| {
            json!({
                "scenario": measured.scenario, "shape": measured.shape,
                "figure": figure.name, "unit": figure.unit,
                // JSON has no NaN and no infinity; such a value becomes null.
                "value": figure.value.is_finite().then_some(figure.value),
                "goal": figure.goal.map(Goal::text), "met": figure.goal.map(|goal| goal.is_met(figure.value)),
            })
        };
        measured.figures.iter().map(figure).collect::<Vec<_>>()
    };
    measured.iter().flat_map(of).collect()
}

/// The content of a file of figures: the machine, the revision of the measured programs, and all figures.
pub fn document(revision: Option<&str>, measured: &[Measured]) -> String {
    let document = json!({"machine": machine(revision), "figures": json(measured)});
    serde_json::to_string_pretty(&document).expect("it is JSON") + "\n"
}

/// The machine that the figures were measured on, and the revision of the programs.
fn machine(revision: Option<&str>) -> Value {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let memory = read("/proc/meminfo").lines().next().map(str::to_owned);
    json!({
        "revision": revision, "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": memory, "kernel": read("/proc/version").trim(), "load": load_average(),
    })
}

/// The average number of processes that wanted a core in the last minute. Other programs' share of the CPU is missing
/// in the figures.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// The figures of one scenario as a table, with a column for each measured shape.
pub fn table(shapes: &[Measured]) -> String {
    let Some(first) = shapes.first() else { return String::new() };
    let mut text = format!("{:<72}", first.scenario);
    for measured in shapes {
        let _ = write!(text, "{:>24}", measured.shape);
    }
    text += "    must reach\n";
    for (at, figure) in first.figures.iter().enumerate() {
        let _ = write!(text, "  {:<70}", figure.name);
        for measured in shapes {
            let _ = write!(text, "{:>24}", measured.figures.get(at).map(cell).unwrap_or_default());
        }
        let goal = figure.goal.map(Goal::text).unwrap_or_default();
        text = format!("{text}    {goal}").trim_end().to_owned() + "\n";
    }
    text
}

/// A value with its unit, and a mark that says whether the value reaches its goal.
fn cell(figure: &Figure) -> String {
    let mark = match figure.goal.map(|goal| goal.is_met(figure.value)) {
        None => ' ',
        Some(true) => '✓',
        Some(false) => '✗',
    };
    format!("{} {:<2} {mark}", number(figure.value), figure.unit)
}

/// A number with three significant digits, and all digits before the point.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let places = match value.abs() {
        value if value >= 100.0 || value == value.trunc() => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    let whole = text.split('.').next().unwrap_or_default().trim_start_matches('-').len();
    let (head, tail) = text.split_at(text.len() - text.split('.').nth(1).map_or(0, |part| part.len() + 1));
    let mut grouped = String::new();
    for (at, digit) in head.chars().enumerate() {
        let left = head.len() - at;
        if digit != '-' && left % 3 == 0 && left < whole {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (12_345.6, "12,346"),
            (999.9, "1,000"),
            (31.44, "31.4"),
            (2.0, "2"),
            (0.0123, "0.012"),
            (-1_234.5, "-1,234"),
            (f64::NAN, "none"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_table_has_a_column_for_each_shape() {
        let of = |shape, value| Measured {
            scenario: "burst".to_owned(),
            shape,
            figures: vec![Figure::new("rate", value, "/s").at_least(10.0)],
        };
        let text = table(&[of("one process", 12.0), of("as the chart has them", 8.0)]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["rate", "12", "/s", "✓", "8", "/s", "✗", ">=", "10"]);
    }

    #[test]
    fn a_figure_that_is_not_a_number_meets_no_goal() {
        assert!(!Goal::AtMost(1.0).is_met(f64::NAN));
        assert!(!Goal::AtLeast(1.0).is_met(f64::NAN));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50.0).round(), 100.0);
        assert_eq!(percentile(&times, 99.0).round(), 198.0);
        assert!(percentile(&[], 99.0).is_nan());
    }

    #[test]
    fn rounds_have_a_median() {
        let round = |value| vec![Figure::new("rate", value, "/s")];
        assert_eq!(medians(vec![round(3.0), round(1.0), round(2.0)]), round(2.0));
    }
}
