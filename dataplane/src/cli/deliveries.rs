//! The commands that `kubectl docket` has too: `docket deliveries`, `trace`, `resend`, `set-aside` and `test`. The tenant's database
//! answers them.

mod local;
mod webhook_name;

use anyhow::Result;
use docket_commands::arguments::{Output, ResendArguments, SetAsideArguments, TraceArguments, Traced};
use docket_commands::terminal::Style;
use docket_commands::{list, resend, set_aside, test_event, text, trace};
use docket_domain::resend::Aside;
use docket_program::clock::Clock;
use serde_json::json;

use self::local::Local;
use super::table::{table, time};
use super::tenant::{IfNew, open};
use crate::actions::resend::{Progress, progress};
use crate::api::webhook_logs::resends::answers::ResendState;
use crate::args::{
    DeliveriesCommand, LettersArguments, ListOfTenant, ResendsArguments, TestOfTenant, TraceOfTenant,
};

const NAME_ONE: &str = "name a webhook, or a delivery with --delivery";

/// `docket deliveries …`
pub async fn run(command: DeliveriesCommand) -> Result<()> {
    match command {
        DeliveriesCommand::List(asked) => listed(*asked).await,
        DeliveriesCommand::Show(asked) => {
            let what =
                TraceArguments { what: Traced::Delivery, id: asked.id.to_string(), printed: asked.printed };
            trace(TraceOfTenant { trace: what, at: asked.at }).await
        }
        DeliveriesCommand::Resend(mut older) => {
            older.asked.no_wait = true;
            resend((*older).into()).await
        }
        DeliveriesCommand::SetAside(older) => set_aside((*older).into()).await,
        DeliveriesCommand::UndoSetAside(mut older) => {
            older.asked.undo = true;
            set_aside((*older).into()).await
        }
        DeliveriesCommand::Stop(asked) => {
            let mut local = Local::open(&asked.at).await?;
            let asked = ResendArguments::stopping(asked.id, asked.printed);
            resend::run(&mut local, &asked, Clock::System.now()).await
        }
        DeliveriesCommand::Resends(asked) => resends(&asked).await,
    }
}

async fn listed(asked: ListOfTenant) -> Result<()> {
    let mut local = Local::open(&asked.at).await?;
    if let Some(name) = asked.webhook.name() {
        local.choose(name).await?;
    }
    list::run(&mut local, &asked.list, Style::of_stdout(Clock::System.now())).await
}

/// `docket trace`
pub async fn trace(asked: TraceOfTenant) -> Result<()> {
    let mut local = Local::open(&asked.at).await?;
    trace::run(&mut local, &asked.trace, Style::of_stdout(Clock::System.now())).await
}

/// `docket resend`
pub async fn resend(asked: LettersArguments<ResendArguments>) -> Result<()> {
    let mut local = Local::open(&asked.at).await?;
    if let Some(id) = asked.delivery {
        return local.resend_one(id, asked.asked.printed.output).await;
    }
    match asked.webhook.name() {
        Some(name) => local.choose(name).await?,
        None if asked.asked.stop.is_some() => {}
        None => anyhow::bail!(NAME_ONE),
    }
    resend::run(&mut local, &asked.asked, Clock::System.now()).await
}

/// `docket set-aside`
pub async fn set_aside(asked: LettersArguments<SetAsideArguments>) -> Result<()> {
    let mut local = Local::open(&asked.at).await?;
    if let Some(id) = asked.delivery {
        let aside = if asked.asked.undo { Aside::Undo } else { Aside::Set };
        return local.set_aside_one(id, aside, asked.asked.printed.output).await;
    }
    let Some(name) = asked.webhook.name() else { anyhow::bail!(NAME_ONE) };
    local.choose(name).await?;
    set_aside::run(&mut local, &asked.asked, Clock::System.now()).await
}

/// `docket test`
pub async fn test(asked: TestOfTenant) -> Result<()> {
    let mut local = Local::open(&asked.at).await?;
    local.choose(&asked.webhook).await?;
    test_event::run(&mut local, &asked.test).await
}

async fn resends(asked: &ResendsArguments) -> Result<()> {
    let clock = Clock::System;
    let mut reader = open(&asked.at, &clock, IfNew::Refuse).await?.reader().await?;
    let found = progress(&mut reader, None, None, None, asked.limit).await?;
    match asked.printed.output {
        Output::Json => {
            let resends: Vec<ResendState> = found.into_iter().map(Into::into).collect();
            text::json(&json!({ "resends": resends }));
        }
        Output::Table | Output::Wide => print!("{}", shown(&found, Style::of_stdout(clock.now()))),
    }
    Ok(())
}

fn shown(progress: &[Progress], style: Style) -> String {
    if progress.is_empty() {
        return "No bulk resends.\n".to_owned();
    }
    let head = [
        "RESEND",
        "CREATED",
        "BY",
        "WEBHOOK",
        "COUNT",
        "PENDING",
        "FAILED",
        "SUCCEEDED",
        "DEADLETTER",
        "WITHDRAWN",
        "STOPPED",
    ];
    let rows = progress.iter().map(|progress| {
        let Progress { resend, pending, failed, succeeded, dead_letter } = progress;
        [
            resend.id.clone(),
            time(resend.created_at_ms, style),
            resend.requested_by.clone(),
            resend.webhook_name.clone(),
            resend.count.to_string(),
            pending.to_string(),
            failed.to_string(),
            succeeded.to_string(),
            dead_letter.to_string(),
            resend.taken_back.to_string(),
            resend.stopped_at_ms.map_or("–".to_owned(), |at_ms| time(at_ms, style)),
        ]
    });
    table(head, rows)
}
