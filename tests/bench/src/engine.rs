//! What the processes under test say of their engine, beside the figures of a scenario.

use crate::figures::Figure;
use crate::home::Fleet;

/// How the series of all processes become one figure.
#[derive(Clone, Copy)]
enum Shown {
    /// The sum of counters.
    Count,
    /// The mean of histograms, times this.
    Mean(f64, &'static str),
}

use Shown::{Count, Mean};

const MS: Shown = Mean(1_000.0, "ms");
const JOBS: Shown = Mean(1.0, "");

/// The name of a figure, its series (docs/reference/metrics.md), and the label that these must have.
const FIGURES: [(&str, &str, &str, Shown); 18] = [
    ("deliveries handed over at the save", "docket_deliveries_claimed_total", "way=\"hand_off\"", Count),
    ("deliveries claimed from the schedule", "docket_deliveries_claimed_total", "way=\"queue\"", Count),
    ("deliveries per claim", "docket_claim_size", "", JOBS),
    ("claim after the due time", "docket_claim_lag_seconds", "", MS),
    ("saves per group", "docket_group_size", "kind=\"save\"", JOBS),
    ("begins per group", "docket_group_size", "kind=\"begin\"", JOBS),
    ("ends per group", "docket_group_size", "kind=\"finish\"", JOBS),
    ("wait of a group of saves for places", "docket_save_wait_seconds", "", MS),
    ("groups of saves that found too few places", "docket_save_waits_given_up_total", "", Count),
    ("shares grown", "docket_webhook_share_changes_total", "change=\"grown\"", Count),
    ("shares shrunk", "docket_webhook_share_changes_total", "change=\"shrunk\"", Count),
    ("calls of the schedule that failed", "docket_schedule_failures_total", "", Count),
    ("deliveries that sweeps gave to the schedule", "docket_deliveries_swept_total", "", Count),
    ("connections to receivers opened", "docket_receiver_connections_opened_total", "", Count),
    ("connections to receivers reused", "docket_receiver_connections_reused_total", "", Count),
    ("wait for a connection to PostgreSQL", "docket_database_connection_wait_seconds", "", MS),
    ("waits by a rule for a connection to PostgreSQL", "docket_database_connection_waits_total", "", Count),
    (
        "connections to PostgreSQL taken from other tenants",
        "docket_database_connections_taken_total",
        "",
        Count,
    ),
];

/// Since the processes started, with their warm-up. A mean of nothing is 0.
pub(crate) async fn figures(fleet: &Fleet) -> Vec<Figure> {
    let mut texts = Vec::new();
    for process in &fleet.processes {
        texts.push(process.metrics().await);
    }
    let figure = |(name, series, label, shown): (&str, &str, &str, Shown)| {
        let sum = |series: &str| texts.iter().map(|text| sum(text, series, label)).sum::<f64>();
        let (value, unit) = match shown {
            Count => (sum(series), ""),
            Mean(times, unit) => {
                let count = sum(&format!("{series}_count"));
                (times * sum(&format!("{series}_sum")) / count.max(1.0), unit)
            }
        };
        Figure::new(format!("engine: {name}"), value, unit)
    };
    FIGURES.into_iter().map(figure).collect()
}

/// The sum of all series of this name that have this label.
fn sum(text: &str, name: &str, label: &str) -> f64 {
    let values = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(name)?;
        let is_meant = labels.is_empty() || labels.starts_with('{');
        (is_meant && labels.contains(label)).then(|| value.parse().unwrap_or(0.0))
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_and_label_are_added() {
        let text =
            "# TYPE a counter\na{of=\"x\",way=\"b\"} 1\na{way=\"b\"} 2\na{way=\"c\"} 4\na_sum 8\na 16\n";
        assert_eq!(sum(text, "a", "way=\"b\"").to_bits(), 3.0_f64.to_bits());
        assert_eq!(sum(text, "a", "").to_bits(), 23.0_f64.to_bits());
        assert_eq!(sum(text, "a_sum", "").to_bits(), 8.0_f64.to_bits());
    }

    #[test]
    fn each_series_is_documented() {
        let page = include_str!("../../../docs/reference/metrics.md");
        for (_, series, _, _) in FIGURES {
            assert!(page.contains(&format!("### {series}\n")), "{series}");
        }
    }
}
