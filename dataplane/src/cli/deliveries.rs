//! `docket deliveries`: lists and shows a tenant's deliveries, resends them, and sets dead letters aside.

mod shown;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use docket_crds::EventCode;
use docket_domain::audit::AuditEvent;
use docket_domain::delivery::DeliveryId;
use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT};
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_schedule::{SHARES, Schedule};
use docket_store::deliveries::{self, DeliveryFilter, Due, ListedDelivery};
use docket_store::walk::Page;
use docket_store::{Connection, Database, audit};
use jiff::Timestamp;

use super::audit::{actor, entry};
use super::tenant::{CliTenant, IfNew, find, open};
use crate::actions::By;
use crate::actions::choice::Choice;
use crate::actions::resend::{self, Many};
use crate::actions::set_aside::{self, Aside};
use crate::actions::wait::{self, DeliveryWait};
use crate::args::{DeliveriesCommand, ManyArguments, TenantArguments};
use crate::refusal::Refusal;
use crate::tenancy::Webhooks;
use crate::{redis, wake};

fn requested_by() -> String {
    actor().to_string()
}

/// `docket deliveries …`
pub async fn run(command: DeliveriesCommand) -> Result<()> {
    let clock = Clock::System;
    match command {
        DeliveriesCommand::List {
            at,
            status,
            dead_letter,
            about,
            webhook,
            event: event_code,
            event_id,
            http_status,
            from,
            to,
            limit,
        } => {
            let (from_ms, to_ms) = (from, to);
            let mut filter = DeliveryFilter {
                status,
                dead_letter,
                about,
                webhook,
                event_code,
                event_id,
                http_status,
                from_ms,
                to_ms,
                ..DeliveryFilter::default()
            };
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            let mut listed = Vec::new();
            loop {
                let wanted = limit - listed.len() as i64;
                let Page { items, next } = deliveries::search(&mut reader, &clock, &filter, wanted).await?;
                listed.extend(items);
                filter.after = next;
                if filter.after.is_none() || listed.len() as i64 == limit {
                    break;
                }
            }
            let waits = waits(&at, &clock, &mut reader, &listed).await?;
            print!("{}", shown::deliveries(&listed, &waits));
        }
        DeliveriesCommand::Show { at, id } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            let found = deliveries::find_with_attempts(&mut reader, id).await?;
            let (listed, attempts) = found.with_context(|| no_such(id))?;
            let waits = waits(&at, &clock, &mut reader, std::slice::from_ref(&listed)).await?;
            let later = deliveries::later(&mut reader, &listed).await?;
            print!("{}", shown::details(&listed, waits.first().copied().flatten(), &attempts, &later));
        }
        DeliveriesCommand::SetAside { at, id, many } => aside(&at, &clock, id, &many, Aside::Set).await?,
        DeliveriesCommand::UndoSetAside { at, id, many } => {
            aside(&at, &clock, id, &many, Aside::Undo).await?
        }
        DeliveriesCommand::Resend { at, id, many, per_second } => {
            let database = open(&at, &clock, IfNew::Refuse).await?;
            // Before the transaction begins, which blocks other writers.
            let found = find(&at).await?;
            match (id, choice(&many)) {
                (Some(id), _) => one(&at, &database, &clock, &found, id).await?,
                (None, Some(choice)) => {
                    let per_second = per_second.unwrap_or(DEFAULT_PER_SECOND);
                    several(&at, &database, &clock, &found, many.yes, &Many { choice, per_second }).await?;
                }
                (None, None) => return Err(anyhow!(NAME_ONE)),
            }
        }
        DeliveriesCommand::Stop { at, id } => {
            let mut transaction = open(&at, &clock, IfNew::Refuse).await?.begin(&clock).await?;
            let now = transaction.now();
            let stopped = resend::stop(&mut transaction, None, &id, &requested_by(), now).await;
            let stopped =
                stopped.map_err(|refusal| refused(refusal, &format!("the tenant has no resend {id}")))?;
            let entry = entry(AuditEvent::ResendStopped, transaction.now_ms());
            let entry = entry.about("resend", &id).times(stopped.taken_back);
            audit::insert(&mut transaction, &[entry]).await?;
            transaction.commit().await?;
            print!("{}", shown::stopped(&id, stopped));
        }
        DeliveriesCommand::Resends { at, limit } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            print!("{}", shown::resends(&resend::progress(&mut reader, None, None, None, limit).await?));
        }
    }
    Ok(())
}

/// What each of these deliveries waits for. The schedule of `docket dev` is in its memory, so that only the one in Redis is asked.
async fn waits(
    at: &TenantArguments,
    clock: &Clock,
    reader: &mut Connection,
    listed: &[ListedDelivery],
) -> Result<Vec<Option<DeliveryWait>>> {
    if listed.iter().all(|listed| listed.status.is_final()) {
        return Ok(vec![None; listed.len()]);
    }
    // The log can be read without what is declared.
    let found = find(at).await.ok().filter(|found| found.runtime.is_some());
    let config = found.as_ref().and_then(|found| Some(&found.runtime.as_ref()?.config));
    let is_suspended = config.is_some_and(|config| config.suspended);
    let tenant = wait::TenantState { is_suspended, webhooks: found.as_ref().map(webhooks) };
    let places = async |keys: &[String]| {
        let Ok(Notice::Serve(schedule, uid)) = Notice::new(at, found.as_ref()?) else { return None };
        schedule.places_within(uid, keys, PATIENCE).await
    };
    Ok(wait::waits(reader, clock.now_ms(), &tenant, listed, places).await?)
}

async fn one(
    at: &TenantArguments,
    database: &Database,
    clock: &Clock,
    found: &CliTenant,
    id: DeliveryId,
) -> Result<()> {
    let notice = Notice::new(at, found)?;
    let mut transaction = database.begin(clock).await?;
    let name = requested_by();
    let by = By { webhooks: webhooks(found), customer: None, name: &name };
    let now = transaction.now();
    let resent = resend::resend_one(&mut transaction, by, id, now).await;
    let (resent, due) = resent.map_err(|refusal| refused(refusal, &no_such(id)))?;
    let entry = entry(AuditEvent::DeliveryResent, transaction.now_ms()).about("delivery", &id.to_string());
    audit::insert(&mut transaction, &[entry]).await?;
    transaction.commit().await?;
    let then = notice.send(vec![due], now).await;
    println!("Delivery {} queued; {then}.", resent.id);
    Ok(())
}

async fn several(
    at: &TenantArguments,
    database: &Database,
    clock: &Clock,
    found: &CliTenant,
    yes: bool,
    many: &Many,
) -> Result<()> {
    let webhooks = webhooks(found);
    if !yes {
        let mut reader = database.reader().await?;
        let (extent, total) = resend::preview(&mut reader, webhooks, many).await?;
        print!("{}", shown::preview(many, extent, total));
        return Ok(());
    }
    let notice = Notice::new(at, found)?;
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let (resend, extent, dues) =
        resend::resend_many(&mut transaction, webhooks, many, &requested_by(), now).await?;
    let entry = entry(AuditEvent::ResendStarted, transaction.now_ms()).about("resend", &resend.id);
    audit::insert(&mut transaction, &[entry.times(resend.count)]).await?;
    transaction.commit().await?;
    notice.send(dues, now).await;
    let server = if at.is_served() { "docket serve" } else { "docket dev" };
    print!("{}", shown::started(&at.tenant, server, many, &resend, extent));
    Ok(())
}

const NAME_ONE: &str = "name a delivery, or a webhook with --webhook";

/// Which dead letters of a webhook; `None`: none is named.
fn choice(many: &ManyArguments) -> Option<Choice> {
    let ManyArguments { webhook, event, from, to, limit, .. } = many;
    let (webhook, limit) = (webhook.clone()?, limit.unwrap_or(MAX_COUNT));
    Some(Choice { webhook, event: *event, from_ms: *from, to_ms: *to, ended_before_ms: None, limit })
}

/// Sets dead letters aside, or undoes that.
async fn aside(
    at: &TenantArguments,
    clock: &Clock,
    id: Option<DeliveryId>,
    many: &ManyArguments,
    aside: Aside,
) -> Result<()> {
    let database = open(at, clock, IfNew::Refuse).await?;
    // Before the transaction begins, which blocks other writers.
    let found = find(at).await?;
    let name = requested_by();
    let by = By { webhooks: webhooks(&found), customer: None, name: &name };
    let choice = choice(many);
    if let Some(choice) = choice.as_ref().filter(|_| !many.yes) {
        let mut reader = database.reader().await?;
        let (extent, total) = set_aside::preview(&mut reader, by, choice, aside).await?;
        print!("{}", shown::preview_aside(&choice.webhook, aside, extent, total));
        return Ok(());
    }
    let mut transaction = database.begin(clock).await?;
    let now = transaction.now();
    let (kind, subject, count) = match (id, choice) {
        (Some(id), _) => {
            let changed = set_aside::one(&mut transaction, by, id, aside, now).await;
            let changed = changed.map_err(|refusal| refused(refusal, &no_such(id)))?;
            ("delivery", id.to_string(), i64::from(changed))
        }
        (None, Some(choice)) => {
            let (webhook, count) = set_aside::many(&mut transaction, by, &choice, aside, now).await?;
            ("webhook", webhook, count)
        }
        (None, None) => return Err(anyhow!(NAME_ONE)),
    };
    if count > 0 {
        let entry = entry(aside.event(), transaction.now_ms()).about(kind, &subject).times(count);
        audit::insert(&mut transaction, &[entry]).await?;
    }
    transaction.commit().await?;
    print!("{}", shown::aside(kind, &subject, aside, count));
    Ok(())
}

/// A refusal in the words of this command. `missing` is the text for what does not exist.
fn refused(refusal: Refusal, missing: &str) -> anyhow::Error {
    match refusal {
        Refusal::NotFound(_) => anyhow!("{missing}"),
        other => other.into(),
    }
}

fn no_such(id: DeliveryId) -> String {
    format!("the tenant has no delivery {id}")
}

/// The tenant's webhooks, as they are declared.
fn webhooks(found: &CliTenant) -> Webhooks<'_> {
    static NONE: BTreeSet<EventCode> = BTreeSet::new();
    let config = found.runtime.as_ref().map(|runtime| &runtime.config);
    let served = config.map_or(&[][..], |config| &config.webhooks);
    Webhooks::new(served, config.map_or(&NONE, |config| &config.active_events), &found.held)
}

/// How the server learns of queued deliveries.
enum Notice<'a> {
    /// By the wake file of this data folder.
    Dev(&'a Path),
    /// By the schedule in Redis, for the tenant with this uid.
    Serve(Schedule, &'a str),
    /// By its next sweep: nothing notifies it.
    None,
}

impl<'a> Notice<'a> {
    /// Call this before anything is written: an error after that would look as if nothing had been queued.
    fn new(at: &'a TenantArguments, found: &'a CliTenant) -> Result<Self> {
        if !at.is_served() {
            return Ok(Self::Dev(&at.source.data_dir));
        }
        let Some(runtime) = found.runtime.as_ref().filter(|_| at.redis.redis_url_file.is_some()) else {
            return Ok(Self::None);
        };
        let (connection, keys) = redis::connect(&at.redis)?;
        let schedule = Schedule::on_redis(connection, &keys, Owner::new(b"command line"), SHARES);
        Ok(Self::Serve(schedule, &runtime.config.uid))
    }

    /// Call this after the commit. If the server can't be notified, its next sweep finds the deliveries.
    async fn send(self, dues: Vec<Due>, now: Timestamp) -> &'static str {
        let (sent, now_sent, later) = match self {
            Self::Dev(data_dir) => (
                wake::wake(data_dir),
                "a running `docket dev` sends it now",
                "the next sweep of a running `docket dev` finds it",
            ),
            Self::Serve(schedule, uid) => (
                schedule.put(docket_schedule::hints(uid, dues, now)).await.map(drop).map_err(Into::into),
                "a running `docket serve` sends it now",
                LATER,
            ),
            Self::None => return LATER,
        };
        match sent {
            Ok(()) => now_sent,
            Err(error) => {
                eprintln!("{error:#}");
                later
            }
        }
    }
}

/// How long a command waits for what the schedule knows.
const PATIENCE: Duration = Duration::from_secs(2);
const LATER: &str = "the next sweep of a running `docket serve` finds it";
