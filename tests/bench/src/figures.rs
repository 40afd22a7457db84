//! Figures, what they must reach, and how they are shown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::stage::Shape;

/// What a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
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
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: Option<Goal>,
}

impl Figure {
    /// A figure for which nothing is demanded.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, goal: None }
    }

    pub(crate) fn at_least(mut self, goal: f64) -> Self {
        self.goal = Some(Goal::AtLeast(goal));
        self
    }

    pub(crate) fn at_most(mut self, goal: f64) -> Self {
        self.goal = Some(Goal::AtMost(goal));
        self
    }
}

/// The median of each figure over rounds, which have the same figures.
pub(crate) fn medians(rounds: Vec<Vec<Figure>>) -> Vec<Figure> {
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

/// What a scenario has measured in one shape.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: String,
    pub(crate) shape: Option<Shape>,
    pub(crate) figures: Vec<Figure>,
}

/// All figures as JSON.
pub(crate) fn json(measured: &[Measured]) -> Value {
    let of = |measured: &Measured| {
        let figure = |figure: &Figure| {
            json!({
                "scenario": measured.scenario, "shape": measured.shape.map(Shape::name),
                "figure": figure.name, "unit": figure.unit,
                // JSON has no word for what is not a number.
                "value": figure.value.is_finite().then_some(figure.value),
                "goal": figure.goal.map(Goal::text), "met": figure.goal.map(|goal| goal.is_met(figure.value)),
            })
        };
        measured.figures.iter().map(figure).collect::<Vec<_>>()
    };
    measured.iter().flat_map(of).collect()
}

/// A scenario's figures as lines of a table.
pub(crate) fn table(measured: &Measured) -> String {
    let shape = measured.shape.map(|shape| format!(" ({})", shape.name())).unwrap_or_default();
    let mut text = format!("{}{shape}\n", measured.scenario);
    for figure in &measured.figures {
        let value = format!("{} {}", number(figure.value), figure.unit);
        let (goal, mark) = figure.goal.map_or((String::new(), ""), |goal| {
            (goal.text(), if goal.is_met(figure.value) { "met" } else { "NOT MET" })
        });
        let line = format!("  {:<58} {:>18}  {:>10}  {mark}", figure.name, value.trim_end(), goal);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Three digits that count, and all digits before the point.
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
    fn a_figure_that_is_not_a_number_meets_no_goal() {
        assert!(!Goal::AtMost(1.0).is_met(f64::NAN));
        assert!(!Goal::AtLeast(1.0).is_met(f64::NAN));
    }

    #[test]
    fn rounds_have_a_median() {
        let round = |value| vec![Figure::new("rate", value, "/s")];
        assert_eq!(medians(vec![round(3.0), round(1.0), round(2.0)]), round(2.0));
    }
}
