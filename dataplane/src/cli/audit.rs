//! `docket audit`: lists a tenant's audit; and the entries of what commands do.

use anyhow::Result;
use docket_commands::audit::{AuditArguments, print};
use docket_commands::terminal::Style;
use docket_domain::audit::{Actor, AuditEvent, AuditRecord};
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::audit::{self, AuditFilter};
use jiff::Timestamp;
use serde_json::to_value;

use super::tenant::{IfNew, open};
use crate::args::AuditCommand;
use crate::platform::answers::AuditList;

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
    let AuditCommand::List { list: AuditArguments { event, webhook, person, from, to, limit, printed }, at } =
        command;
    let clock = Clock::System;
    let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
    let [from_ms, to_ms] = [from, to].map(|time| time.map(Timestamp::as_millisecond));
    let filter = AuditFilter { event, webhook, person, from_ms, to_ms, after: None };
    let page = audit::search(&mut reader, &filter, limit).await?;
    let answer = to_value(AuditList::new(&at.tenant, &page))?;
    print(&answer, printed.output, Style::of_stdout(clock.now()));
    Ok(())
}
