//! `docket deliveries`: what became of a tenant's deliveries, and sending them again.

mod shown;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use docket_crds::EventCode;
use docket_domain::delivery::DeliveryId;
use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT};
use jiff::Timestamp;

use super::{Declared, IfNew, declared, open};
use crate::actions::Refusal;
use crate::actions::resend::{self, Many};
use crate::args::{DeliveriesCommand, ManyArguments, TenantArguments};
use crate::tenants::{Webhooks, hints};
use crate::{dev, serve};
use docket_program::clock::Clock;
use docket_schedule::redis::RedisSchedule;
use docket_schedule::{SHARES, Schedule};
use docket_store::Database;
use docket_store::deliveries::{self, DeliveryFilter, Due};

/// Who asks on the command line, for the audit: the operating system's number of the user.
fn requested_by() -> String {
    format!("command line (uid {})", rustix::process::getuid().as_raw())
}

/// `docket deliveries …`
pub async fn run(command: DeliveriesCommand) -> Result<()> {
    let clock = Clock::System;
    match command {
        DeliveriesCommand::List { at, status, about, webhook, event: event_code, from, to, limit } => {
            let (from_ms, to_ms) = (from, to);
            let filter = DeliveryFilter {
                status,
                about,
                webhook,
                event_code,
                from_ms,
                to_ms,
                ..DeliveryFilter::default()
            };
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            print!("{}", shown::deliveries(&deliveries::search(&mut reader, &filter, limit).await?));
        }
        DeliveriesCommand::Show { at, id } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            let listed = deliveries::find(&mut reader, id).await?.with_context(|| no_such(id))?;
            let attempts = deliveries::attempts(&mut reader, id).await?;
            print!("{}", shown::details(&listed, &attempts));
        }
        DeliveriesCommand::Resend { at, id, many } => {
            let database = open(&at, &clock, IfNew::Refuse).await?;
            // Files are read before anybody is kept from writing.
            let declared = declared(&at).await?;
            match (id, many.webhook.clone()) {
                (Some(id), _) => one(&at, &database, &clock, &declared, id).await?,
                (None, Some(webhook)) => several(&at, &database, &clock, &declared, webhook, &many).await?,
                (None, None) => return Err(anyhow!("name a delivery, or a webhook with --webhook")),
            }
        }
        DeliveriesCommand::Stop { at, id } => {
            let mut transaction = open(&at, &clock, IfNew::Refuse).await?.begin(&clock).await?;
            let now = transaction.now();
            let stopped = resend::stop(&mut transaction, &id, &requested_by(), now).await;
            let stopped =
                stopped.map_err(|refusal| told(refusal, &format!("the tenant has no resend {id}")))?;
            transaction.commit().await?;
            print!("{}", shown::stopped(&id, stopped));
        }
        DeliveriesCommand::Resends { at, limit } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            print!("{}", shown::resends(&resend::progress(&mut reader, None, None, limit).await?));
        }
    }
    Ok(())
}

async fn one(
    at: &TenantArguments,
    database: &Database,
    clock: &Clock,
    declared: &Declared,
    id: DeliveryId,
) -> Result<()> {
    let teller = Teller::new(at, declared)?;
    let mut transaction = database.begin(clock).await?;
    let webhooks = webhooks(declared);
    let now = transaction.now();
    let resent = resend::resend_one(&mut transaction, webhooks, id, &requested_by(), now).await;
    let (resent, due) = resent.map_err(|refusal| told(refusal, &no_such(id)))?;
    transaction.commit().await?;
    let then = teller.tell(vec![due], now).await;
    println!("Delivery {} queued; {then}.", resent.id);
    Ok(())
}

async fn several(
    at: &TenantArguments,
    database: &Database,
    clock: &Clock,
    declared: &Declared,
    webhook: String,
    arguments: &ManyArguments,
) -> Result<()> {
    let many = Many {
        webhook,
        from_ms: arguments.from,
        to_ms: arguments.to,
        limit: arguments.limit.unwrap_or(MAX_COUNT),
        per_second: arguments.per_second.unwrap_or(DEFAULT_PER_SECOND),
    };
    let webhooks = webhooks(declared);
    if !arguments.yes {
        let mut reader = database.reader().await?;
        let (extent, total) = resend::preview(&mut reader, webhooks, &many).await?;
        print!("{}", shown::preview(&many, extent, total));
        return Ok(());
    }
    let teller = Teller::new(at, declared)?;
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let (resend, extent, dues) =
        resend::resend_many(&mut transaction, webhooks, &many, &requested_by(), now).await?;
    transaction.commit().await?;
    teller.tell(dues, now).await;
    let server = if at.is_served() { "docket serve" } else { "docket dev" };
    print!("{}", shown::started(&at.tenant, server, &many, &resend, extent));
    Ok(())
}

/// A refusal in the words of this command; `missing`: what is not there.
fn told(refusal: Refusal, missing: &str) -> anyhow::Error {
    match refusal {
        Refusal::NotFound(_) => anyhow!("{missing}"),
        other => other.into(),
    }
}

fn no_such(id: DeliveryId) -> String {
    format!("the tenant has no delivery {id}")
}

/// What is declared of the tenant's webhooks.
fn webhooks(declared: &Declared) -> Webhooks<'_> {
    static NONE: BTreeSet<EventCode> = BTreeSet::new();
    let config = declared.config.as_ref();
    Webhooks {
        served: config.map_or(&[][..], |config| &config.webhooks),
        active_events: config.map_or(&NONE, |config| &config.active_events),
        held: &declared.held,
    }
}

/// Has what was queued looked at now.
enum Teller<'a> {
    Dev(&'a Path),
    Serve(Box<RedisSchedule>, &'a str),
    Nobody,
}

impl<'a> Teller<'a> {
    /// Before anything is written: afterwards a wrong flag would look as if nothing had been.
    fn new(at: &'a TenantArguments, declared: &'a Declared) -> Result<Self> {
        if !at.is_served() {
            return Ok(Self::Dev(&at.source.data_dir));
        }
        let Some(config) = declared.config.as_ref().filter(|_| at.redis.redis_url_file.is_some()) else {
            return Ok(Self::Nobody);
        };
        let (connection, keys) = serve::redis::connect(&at.redis)?;
        let schedule = RedisSchedule::new(connection, &keys, SHARES);
        Ok(Self::Serve(Box::new(schedule), &config.uid))
    }

    /// It is committed: whoever can't be told finds it by the next sweep.
    async fn tell(self, dues: Vec<Due>, now: Timestamp) -> &'static str {
        let (told, now_sent, later) = match self {
            Self::Dev(data_dir) => (
                dev::reading::wake(data_dir),
                "a running `docket dev` sends it now",
                "the next sweep of a running `docket dev` finds it",
            ),
            Self::Serve(schedule, uid) => (
                schedule.put(hints(uid, dues, now)).await.map_err(Into::into),
                "a running `docket serve` sends it now",
                LATER,
            ),
            Self::Nobody => return LATER,
        };
        match told {
            Ok(()) => now_sent,
            Err(error) => {
                eprintln!("{error:#}");
                later
            }
        }
    }
}

const LATER: &str = "the next sweep of a running `docket serve` finds it";
