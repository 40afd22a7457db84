//! `docket deliveries`: what became of a tenant's deliveries, and sending them again.

mod shown;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use docket_crds::EventCode;
use docket_domain::delivery::DeliveryId;
use docket_folder::{Folder, Loaded};

use super::{IfNew, open};
use crate::actions::Refusal;
use crate::actions::resend::{self, DEFAULT_PER_SECOND, MAX_COUNT, Many};
use crate::args::{DeliveriesCommand, ManyArguments, TenantArguments};
use crate::clock::Clock;
use crate::store::Database;
use crate::store::deliveries::{self, DeliveryFilter};
use crate::tenants::{Held, Webhooks};
use crate::{dev, random};

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
            let declared = Declared::read(&at)?;
            match (id, many.webhook.clone()) {
                (Some(id), _) => one(&at, &database, &clock, &declared, id).await?,
                (None, Some(webhook)) => several(&at, &database, &clock, &declared, webhook, &many).await?,
                (None, None) => return Err(anyhow!("name a delivery, or a webhook with --webhook")),
            }
        }
        DeliveriesCommand::Stop { at, id } => {
            let mut transaction = open(&at, &clock, IfNew::Refuse).await?.begin(&clock).await?;
            let stopped = resend::stop(&mut transaction, &id, &requested_by(), clock.now()).await;
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
    let mut transaction = database.begin(clock).await?;
    let webhooks = declared.webhooks(at);
    let resent = resend::resend_one(&mut transaction, webhooks, id, &requested_by(), clock.now()).await;
    let (resent, _) = resent.map_err(|refusal| told(refusal, &no_such(id)))?;
    transaction.commit().await?;
    dev::serving::wake(&at.source.data_dir)?;
    println!("Delivery {} queued; a running `docket dev` sends it now.", resent.id);
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
    let webhooks = declared.webhooks(at);
    if !arguments.yes {
        let mut reader = database.reader().await?;
        let (extent, total) = resend::preview(&mut reader, webhooks, &many).await?;
        print!("{}", shown::preview(&many, extent, total));
        return Ok(());
    }
    let mut transaction = database.begin(clock).await?;
    let (resend, extent, _) =
        resend::resend_many(&mut transaction, webhooks, &many, &requested_by(), clock.now()).await?;
    transaction.commit().await?;
    dev::serving::wake(&at.source.data_dir)?;
    print!("{}", shown::started(&at.tenant, &many, &resend, extent));
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

/// What the folder declares, and what is known of the rest.
struct Declared {
    loaded: Loaded,
    held: Held,
}

impl Declared {
    /// Reads the folder; no keys are made for tenants that have none yet.
    fn read(at: &TenantArguments) -> Result<Self> {
        let folder = Folder::new(at.source.config_dir.clone(), at.source.data_dir.clone());
        let loaded = folder.without_writing().load(&mut random::fill)?;
        let held = match loaded.tenant(&at.tenant) {
            Some(served) if !loaded.incomplete => Held::These(served.held_webhooks.clone()),
            // What can't be read right now is no reason: the running `docket dev` may serve its last good version.
            _ if !loaded.problems.is_empty() => Held::AllUnknown,
            _ => Held::These(Default::default()),
        };
        Ok(Self { loaded, held })
    }

    fn webhooks(&self, at: &TenantArguments) -> Webhooks<'_> {
        static NONE: BTreeSet<EventCode> = BTreeSet::new();
        let config = self.loaded.tenant(&at.tenant).map(|served| &served.config);
        Webhooks {
            served: config.map_or(&[][..], |config| &config.webhooks),
            active_events: config.map_or(&NONE, |config| &config.active_events),
            held: &self.held,
        }
    }
}
