//! `audit`: who did what at a tenant.

use clap::Args;
use docket_domain::audit::AuditEvent;
use docket_domain::moment;
use jiff::Timestamp;
use serde_json::Value;

use crate::arguments::{Output, OutputArguments};
use crate::fields::{cell, say_more};
use crate::terminal::Style;
use crate::text::{json, table};
use crate::values::audit_event;

/// Which entries of the audit to list.
#[derive(Debug, Clone, Args)]
pub struct AuditArguments {
    /// Only of this event, such as SignInRefused.
    #[arg(long, value_name = "EVENT", value_parser = audit_event)]
    pub event: Option<AuditEvent>,
    /// Only about this webhook.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub webhook: Option<String>,
    /// Only what this actor did, and what is about it, such as "employee 52".
    #[arg(long, value_name = "ACTOR")]
    pub person: Option<String>,
    /// Only those at or after this time: a date such as 2026-11-21 (its first moment in UTC), or 2026-11-21T09:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment::read)]
    pub from: Option<Timestamp>,
    /// Only those before this time.
    #[arg(long, value_name = "TIME", value_parser = moment::read)]
    pub to: Option<Timestamp>,
    /// Maximum number of rows, 1 to 1000.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
    pub limit: i64,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// Prints the `entries` of an answer, newest first.
pub fn print(answer: &Value, output: Output, style: Style) {
    match output {
        Output::Json => json(answer),
        Output::Table | Output::Wide => {
            print!("{}", shown(answer, style));
            say_more(answer);
        }
    }
}

fn shown(answer: &Value, style: Style) -> String {
    let entries = answer["entries"].as_array().map_or(&[][..], Vec::as_slice);
    if entries.is_empty() {
        return "No entries.\n".to_owned();
    }
    let head = ["TIME", "EVENT", "ACTOR", "SUBJECT", "COUNT", "ADDRESS", "REQUEST", "DETAIL"];
    let row = |entry: &Value| -> Vec<String> {
        let others = ["event", "actor", "subject", "count", "address", "requestId", "detail"];
        let time = style.time(&cell(entry, "time"));
        std::iter::once(time).chain(others.iter().map(|name| cell(entry, name))).collect()
    };
    let rows = std::iter::once(head.map(str::to_owned).to_vec()).chain(entries.iter().map(row));
    table("", &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entry_is_a_row_that_moves_no_cursor() {
        let entry = json!({"time": "t", "event": "SignedIn", "actor": "contact 1\u{1b}[2J", "subject": null, "count": 2,
            "address": "192.0.2.7", "requestId": null, "detail": null});
        assert_eq!(
            shown(&json!({"entries": [entry]}), Style::default()),
            "TIME  EVENT     ACTOR          SUBJECT  COUNT  ADDRESS    REQUEST  DETAIL\n\
             t     SignedIn  contact 1 [2J  –        2      192.0.2.7  –        –\n"
        );
        assert_eq!(shown(&json!({"entries": []}), Style::default()), "No entries.\n");
    }
}
