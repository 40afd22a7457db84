//! `docket audit`: lists a tenant's audit; and the entries of what commands do.

use anyhow::Result;
use docket_commands::arguments::Output;
use docket_commands::terminal::Style;
use docket_commands::text;
use docket_domain::audit::{Actor, AuditEvent, AuditRecord};
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::audit::{self, AuditFilter};
use docket_store::walk::Page;
use serde_json::{Value, json};

use super::table::{table, time};
use super::tenant::{IfNew, open};
use crate::args::AuditCommand;
use crate::audit::AuditLine;

/// Who runs the command.
pub(super) fn actor() -> Actor {
    Actor::CommandLine(rustix::process::getuid().as_raw())
}

/// An entry about what the command does at this time, in milliseconds since 1970.
pub(super) fn entry(event: AuditEvent, at_ms: i64) -> AuditRecord {
    AuditRecord::new(event, at_ms, random::bytes()).by(&actor())
}

/// `docket audit …`
pub async fn run(command: AuditCommand) -> Result<()> {
    let AuditCommand::List { event, from: from_ms, to: to_ms, limit, printed, at } = command;
    let clock = Clock::System;
    let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
    let filter = AuditFilter { event, from_ms, to_ms, after: None };
    let Page { items, next } = audit::search(&mut reader, &filter, limit).await?;
    match printed.output {
        Output::Json => {
            let entries: Vec<Value> =
                items.iter().map(|entry| json!(AuditLine::new(Some(at.tenant.as_str()), entry))).collect();
            text::json(&json!({ "entries": entries, "more": next.is_some() }));
        }
        Output::Table | Output::Wide => print!("{}", shown(&items, Style::of_stdout(clock.now()))),
    }
    Ok(())
}

fn shown(entries: &[AuditRecord], style: Style) -> String {
    if entries.is_empty() {
        return "No entries.\n".to_owned();
    }
    let absent = || "–".to_owned();
    let rows = entries.iter().map(|entry| {
        [
            time(entry.at_ms, style),
            entry.event.as_str().to_owned(),
            entry.actor.clone().unwrap_or_else(absent),
            entry.subject.clone().unwrap_or_else(absent),
            entry.count.to_string(),
            entry.origin.address.map_or_else(absent, |address| address.to_string()),
            entry.origin.request_id.clone().unwrap_or_else(absent),
        ]
    });
    table(["TIME", "EVENT", "ACTOR", "SUBJECT", "COUNT", "ADDRESS", "REQUEST"], rows)
}
