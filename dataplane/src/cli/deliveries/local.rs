//! A tenant's deliveries, as its database has them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use docket_commands::answers::{self, Answers, Found};
use docket_commands::arguments::{DeadLetters, FilterArguments, Output, Traced};
use docket_commands::text;
use docket_commands::values::delivery_id;
use docket_crds::{EventCode, WebhookConfig};
use docket_domain::audit::{AuditEvent, AuditRecord};
use docket_domain::delivery::DeliveryId;
use docket_domain::reading::event_id;
use docket_domain::resend::{Aside, MAX_COUNT};
use docket_program::clock::Clock;
use docket_program::owner::Owner;
use docket_program::screen::clean_lines;
use docket_schedule::{SHARES, Schedule};
use docket_store::deliveries::{self, DeliveryFilter, Due, ListedDelivery};
use docket_store::walk::{Page, RowPosition};
use docket_store::{Connection, Database, Transaction, audit};
use jiff::Timestamp;
use serde_json::{Value, json, to_value};

use super::super::audit::{actor, entry};
use super::super::tenant::{CliTenant, IfNew, find, open};
use super::webhook_name;
use crate::actions::choice::Choice;
use crate::actions::meant;
use crate::actions::resend::{self, Many};
use crate::actions::set_aside;
use crate::actions::trace::{self, Declared, Sight, TraceOf};
use crate::actions::wait;
use crate::actions::{By, test_event};
use crate::api::webhook_logs::answers::DeliverySummary;
use crate::api::webhook_logs::resends::answers::{
    PreviewAnswer, ResendManyAnswer, ResendState, ResentAnswer, StopAnswer,
};
use crate::api::webhook_logs::set_aside::SetAsidePreview;
use crate::args::TenantArguments;
use crate::platform::answers::Trace;
use crate::refusal::Refusal;
use crate::tenancy::{HeldWebhooks, Webhooks};
use crate::{redis, wake};

/// A tenant, whose deliveries a command is about.
pub(super) struct Local<'a> {
    at: &'a TenantArguments,
    clock: Clock,
    database: Database,
    /// What is declared of the tenant. The log can be read without it.
    declared: Result<CliTenant>,
    /// The webhook that the command is about.
    webhook: Option<String>,
}

impl<'a> Local<'a> {
    pub(super) async fn open(at: &'a TenantArguments) -> Result<Self> {
        let clock = Clock::System;
        let database = open(at, &clock, IfNew::Refuse).await?;
        Ok(Self { at, clock, database, declared: find(at).await, webhook: None })
    }

    /// Chooses the webhook with this name. Deliveries to a webhook that no longer exists are found by its `namespace/name`.
    ///
    /// # Errors
    ///
    /// No webhook has the name; or several have it.
    pub(super) async fn choose(&mut self, name: &str) -> Result<()> {
        let found = self.declared.as_ref().ok();
        let resolved = match found {
            Some(found) => webhook_name::resolved(name, served(found), webhooks(found))?,
            None => None,
        };
        let name = match resolved {
            Some(name) => name,
            None => {
                let filter = DeliveryFilter { webhook: Some(name.to_owned()), ..DeliveryFilter::default() };
                let mut reader = self.database.reader().await?;
                let is_logged =
                    !deliveries::search(&mut reader, &self.clock, &filter, 1).await?.items.is_empty();
                // A document that can't be read may declare the webhook.
                let is_known = |found: &&CliTenant| {
                    found.runtime.is_some() && matches!(found.held, HeldWebhooks::These(_))
                };
                match found.filter(is_known) {
                    Some(found) if !is_logged => {
                        return Err(webhook_name::unknown(name, served(found), webhooks(found)));
                    }
                    _ => name.to_owned(),
                }
            }
        };
        self.webhook = Some(name);
        Ok(())
    }

    fn declared(&self) -> Result<&CliTenant> {
        self.declared.as_ref().map_err(|error| anyhow!("{error:#}"))
    }

    /// What each of these deliveries waits for. The schedule of `docket dev` is in its memory, so that only the one in Redis is asked.
    async fn waits(&self, reader: &mut Connection, listed: &[ListedDelivery]) -> Result<Vec<Option<String>>> {
        let found = self.declared.as_ref().ok().filter(|found| found.runtime.is_some());
        let config = found.and_then(|found| Some(&found.runtime.as_ref()?.config));
        let is_suspended = config.is_some_and(|config| config.suspended);
        let tenant = wait::TenantState { is_suspended, webhooks: found.map(webhooks) };
        let places = async |keys: &[String]| {
            let Ok(Notice::Serve(schedule, uid)) = Notice::new(self.at, found?) else { return None };
            schedule.places_within(uid, keys, PATIENCE).await
        };
        let waits = wait::waits(reader, self.clock.now_ms(), &tenant, listed, places).await?;
        Ok(waits.into_iter().map(|wait| wait.map(|wait| wait.to_string())).collect())
    }

    fn choice(&self, letters: &DeadLetters) -> Choice {
        let DeadLetters { event, from, to, ended_before, limit } = *letters;
        let [from_ms, to_ms, ended_before_ms] =
            [from, to, ended_before].map(|time| time.map(Timestamp::as_millisecond));
        let (webhook, limit) = (self.webhook(), limit.unwrap_or(MAX_COUNT));
        Choice { webhook, event, from_ms, to_ms, ended_before_ms, limit }
    }

    fn many(&self, letters: &DeadLetters, per_second: i64) -> Many {
        Many { choice: self.choice(letters), per_second }
    }

    /// Resends one delivery, and prints the new one.
    pub(super) async fn resend_one(&self, id: DeliveryId, output: Output) -> Result<()> {
        let found = self.declared()?;
        let notice = Notice::new(self.at, found)?;
        let mut transaction = self.database.begin(&self.clock).await?;
        let (name, now) = (requested_by(), transaction.now());
        let by = By { webhooks: webhooks(found), customer: None, name: &name };
        let resent = resend::resend_one(&mut transaction, by, id, now).await;
        let (resent, due) = resent.map_err(|refusal| refused(refusal, no_such(&id)))?;
        let record = entry(AuditEvent::DeliveryResent, transaction.now_ms());
        committed(transaction, record.about("delivery", &id.to_string())).await?;
        let then = notice.send(vec![due], now).await;
        let object = to_value(ResentAnswer::from(&resent))?;
        text::result(output, &object, &format!("Delivery {} queued; {then}.", resent.id));
        Ok(())
    }

    /// Sets one dead letter aside, or undoes that, and prints what changed.
    pub(super) async fn set_aside_one(&self, id: DeliveryId, aside: Aside, output: Output) -> Result<()> {
        let found = self.declared()?;
        let mut transaction = self.database.begin(&self.clock).await?;
        let (name, now) = (requested_by(), transaction.now());
        let by = By { webhooks: webhooks(found), customer: None, name: &name };
        let changed = set_aside::one(&mut transaction, by, id, aside, now).await;
        let changed = changed.map_err(|refusal| refused(refusal, no_such(&id)))?;
        if changed {
            let record = entry(aside.event(), transaction.now_ms());
            committed(transaction, record.about("delivery", &id.to_string())).await?;
        }
        let object = json!({"changed": i64::from(changed)});
        text::result(output, &object, &format!("Delivery {id} {}.", one_aside(aside, changed)));
        Ok(())
    }
}

fn one_aside(aside: Aside, changed: bool) -> &'static str {
    match (aside, changed) {
        (Aside::Set, true) => "set aside: it counts no longer",
        (Aside::Set, false) => "was set aside before",
        (Aside::Undo, true) => "counts again",
        (Aside::Undo, false) => "is not set aside",
    }
}

impl Answers for Local<'_> {
    type Error = anyhow::Error;
    type Cursor = RowPosition;

    async fn deliveries(
        &mut self,
        asked: &FilterArguments,
        size: usize,
        cursor: Option<RowPosition>,
    ) -> Result<answers::Page<RowPosition>> {
        let [from_ms, to_ms] = [asked.created.from(self.clock.now()), asked.created.to]
            .map(|time| time.map(Timestamp::as_millisecond));
        let filter = DeliveryFilter {
            status: asked.status(),
            dead_letter: asked.dead_letter,
            is_failed: false,
            webhook: self.webhook.clone(),
            event_code: asked.event,
            failure_class: asked.class,
            http_status: asked.http_status,
            id: asked.delivery_id,
            event_id: asked.event_id.clone(),
            resend_id: asked.resend_id.clone(),
            from_ms,
            to_ms,
            web_order_id: asked.order.clone(),
            work_order: asked.work_order.clone(),
            invoice_number: asked.invoice.clone(),
            about: None,
            customer_code: asked.customer.clone(),
            kind: asked.kind,
            after: cursor,
        };
        let mut reader = self.database.reader().await?;
        let size = i64::try_from(size)?;
        let Page { items, next } = match &asked.find {
            Some(text) => meant::deliveries_about(&mut reader, &self.clock, text, &filter, size).await?,
            None => deliveries::search(&mut reader, &self.clock, &filter, size).await?,
        };
        let waits = self.waits(&mut reader, &items).await?;
        let items = items.into_iter().zip(waits);
        let items = items.map(|item| to_value(DeliverySummary::new(item)));
        Ok(answers::Page { items: items.collect::<Result<_, _>>()?, next })
    }

    async fn trace(&mut self, what: Traced, id: &str) -> Result<Value> {
        // An older version may have stored an id of another form.
        let event = event_id(id).unwrap_or_else(|| id.to_owned());
        let (of, missing) = match what {
            Traced::Event => {
                (TraceOf::Event(&event), format!("the tenant has no delivery of an event {event}"))
            }
            Traced::Order => {
                let missing = format!("the tenant has no web order, work order or invoice {id}");
                (TraceOf::Number(id), missing)
            }
            Traced::Delivery => {
                let id = delivery_id(id).map_err(|why| Found(format!("the id {why}")))?;
                (TraceOf::Delivery(id), no_such(&id))
            }
        };
        let mut reader = self.database.reader().await?;
        let found = self.declared.as_ref().ok();
        let declared = found.and_then(|found| {
            let runtime = found.runtime.as_ref()?;
            let (is_suspended, faults) = (runtime.config.suspended, &runtime.faults);
            Some(Declared { webhooks: webhooks(found), is_suspended, faults })
        });
        let traced = trace::read(&mut reader, &self.clock, of, Sight::default(), declared.as_ref()).await;
        let traced = traced.map_err(|refusal| refused(refusal, missing))?;
        let waits = self.waits(&mut reader, &traced.all()).await?;
        Ok(to_value(Trace::new(traced, waits))?)
    }

    async fn preview(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value> {
        let (found, many) = (self.declared()?, self.many(letters, per_second));
        let mut reader = self.database.reader().await?;
        let (extent, total) = resend::preview(&mut reader, webhooks(found), &many).await?;
        Ok(to_value(PreviewAnswer::new(&many, extent, total))?)
    }

    async fn resend(&mut self, letters: &DeadLetters, per_second: i64) -> Result<Value> {
        let (found, many) = (self.declared()?, self.many(letters, per_second));
        let notice = Notice::new(self.at, found)?;
        let mut transaction = self.database.begin(&self.clock).await?;
        let now = transaction.now();
        let queued =
            resend::resend_many(&mut transaction, webhooks(found), &many, &requested_by(), now).await?;
        let (resend, extent, dues) = queued;
        let record = entry(AuditEvent::ResendStarted, transaction.now_ms());
        committed(transaction, record.about("resend", &resend.id).times(resend.count)).await?;
        notice.send(dues, now).await;
        Ok(to_value(ResendManyAnswer::new(&many, &resend, extent))?)
    }

    async fn progress(&mut self, resend_id: &str) -> Result<Value> {
        let mut reader = self.database.reader().await?;
        let found = resend::progress(&mut reader, None, Some(resend_id), None, 1).await?;
        let found = found.into_iter().next().ok_or_else(|| Found(no_such_resend(resend_id)))?;
        Ok(to_value(ResendState::from(found))?)
    }

    async fn stop(&mut self, resend_id: &str) -> Result<Value> {
        let mut transaction = self.database.begin(&self.clock).await?;
        let now = transaction.now();
        let stopped = resend::stop(&mut transaction, None, resend_id, &requested_by(), now).await;
        let stopped = stopped.map_err(|refusal| refused(refusal, no_such_resend(resend_id)))?;
        let record = entry(AuditEvent::ResendStopped, transaction.now_ms());
        committed(transaction, record.about("resend", resend_id).times(stopped.taken_back)).await?;
        Ok(to_value(StopAnswer::new(resend_id, stopped))?)
    }

    async fn preview_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value> {
        let (found, name) = (self.declared()?, requested_by());
        let by = By { webhooks: webhooks(found), customer: None, name: &name };
        let seen = self.choice(letters).as_of(self.clock.now());
        let mut reader = self.database.reader().await?;
        let (extent, total) = set_aside::preview(&mut reader, by, &seen, aside).await?;
        Ok(to_value(SetAsidePreview::new(extent, total, &seen))?)
    }

    async fn set_aside(&mut self, letters: &DeadLetters, aside: Aside) -> Result<Value> {
        let (found, name, choice) = (self.declared()?, requested_by(), self.choice(letters));
        let by = By { webhooks: webhooks(found), customer: None, name: &name };
        let mut transaction = self.database.begin(&self.clock).await?;
        let now = transaction.now();
        let (webhook, count) = set_aside::many(&mut transaction, by, &choice, aside, now).await?;
        if count > 0 {
            let record = entry(aside.event(), transaction.now_ms());
            committed(transaction, record.about("webhook", &webhook).times(count)).await?;
        }
        Ok(json!({ "changed": count }))
    }

    async fn test(&mut self, event: Option<EventCode>) -> Result<Value> {
        let (found, name) = (self.declared()?, requested_by());
        let notice = Notice::new(self.at, found)?;
        let mut transaction = self.database.begin(&self.clock).await?;
        let now = transaction.now();
        let webhook = self.webhook();
        let sent =
            test_event::send_test(&mut transaction, webhooks(found), &webhook, event, &name, now).await;
        let (id, due) = sent?;
        let record = entry(AuditEvent::TestSent, transaction.now_ms());
        committed(transaction, record.about("delivery", &id.to_string())).await?;
        notice.send(vec![due], now).await;
        Ok(json!({"deliveryId": id.to_string()}))
    }

    fn webhook(&self) -> String {
        self.webhook.clone().unwrap_or_default()
    }

    fn command(&self, words: &str) -> String {
        format!("docket {words} {} --tenant {}", self.webhook(), self.at.tenant)
    }
}

fn requested_by() -> String {
    actor().to_string()
}

/// Adds an entry to the audit and commits.
async fn committed(mut transaction: Transaction, record: AuditRecord) -> Result<()> {
    audit::insert(&mut transaction, &[record]).await?;
    transaction.commit().await?;
    Ok(())
}

/// A refusal in the words of this command. `missing` is the text for what does not exist.
fn refused(refusal: Refusal, missing: String) -> anyhow::Error {
    match refusal {
        Refusal::NotFound(_) => Found(missing).into(),
        other => other.into(),
    }
}

fn no_such(id: &DeliveryId) -> String {
    format!("the tenant has no delivery {id}")
}

fn no_such_resend(id: &str) -> String {
    format!("the tenant has no resend {id}")
}

/// The webhooks that are served.
fn served(found: &CliTenant) -> &[WebhookConfig] {
    found.runtime.as_ref().map_or(&[][..], |runtime| &runtime.config.webhooks)
}

/// The tenant's webhooks, as they are declared.
fn webhooks(found: &CliTenant) -> Webhooks<'_> {
    static NONE: BTreeSet<EventCode> = BTreeSet::new();
    let config = found.runtime.as_ref().map(|runtime| &runtime.config);
    Webhooks::new(served(found), config.map_or(&NONE, |config| &config.active_events), &found.held)
}

/// How the server learns of queued deliveries.
enum Notice<'a> {
    /// The wake file of this data folder notifies the worker.
    Dev(&'a Path),
    /// The schedule in Redis notifies the worker, for the tenant with this uid.
    Serve(Schedule, &'a str),
    /// The worker is not notified: its next sweep finds the deliveries.
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
        let (connection, keys, _) = redis::connect(&at.redis)?;
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
                eprintln!("{}", clean_lines(&format!("{error:#}")));
                later
            }
        }
    }
}

/// How long a command waits for what the schedule knows.
const PATIENCE: Duration = Duration::from_secs(2);
const LATER: &str = "the next sweep of a running `docket serve` finds it";
