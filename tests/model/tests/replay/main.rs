//! Repeats histories of the model with the SQL and the Lua of Docket, on PostgreSQL and Redis, and on SQLite with the schedule in memory.
//! After each step the real rows and the real schedule must be what the model says, and no invariant may break. Steps that a guard forbids
//! are left out: the kept histories have such steps, because they were found without the guard. At the end faults stop, and every delivery
//! becomes final.
//!
//! A step of the clock moves the stored times instead. A tick is an hour, so the time that a history takes does not matter.
//!
//! `DOCKET_MODEL_SEED` chooses other random histories, and `DOCKET_MODEL_HISTORIES` their number in each world.

mod index;
mod rows;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Outcome, Report};
use docket_model::action::Action;
use docket_model::invariants::{Checks, ROUNDS, is_final, quiet_round};
use docket_model::random::Random;
use docket_model::state::{DELIVERIES, Save, State, TASKS};
use docket_model::{Faults, Guard, World, history};
use docket_program::clock::{Clock, millis};
use docket_program::owner::Owner;
use docket_redis::{RedisConnection, RedisUrl};
use docket_rig::redis::RedisServer;
use docket_rig::tenant_database::{TenantDatabase, at, held};
use docket_schedule::Claim;
use docket_store::deliveries::{self, Lease, Started};

use index::Index;
use rows::{Begun, Rows};

/// A tick of the model.
const TICK: Duration = Duration::from_secs(3600);
const TICK_MS: i64 = 3_600_000;
/// The number of steps of a random history before faults stop.
const STEPS: usize = 40;

/// The ticks until a time, rounded up.
fn ticks(left_ms: i64) -> i8 {
    i8::try_from(-(-left_ms).div_euclid(TICK_MS)).expect("few ticks")
}

/// What a task of the model really has.
#[derive(Default)]
struct Attempt {
    claim: Option<Claim>,
    begun: Option<(Started, Lease)>,
    outcome: Option<Outcome>,
    /// Whether a commit of its end got no response.
    again: bool,
    /// How the claim ends: the time until the entry is due again.
    settle: Option<Duration>,
}

impl Attempt {
    fn claimed(claim: Claim) -> Self {
        Self { claim: Some(claim), ..Self::default() }
    }

    /// The attempt has ended, or there is none; the claim is left.
    fn ends(&mut self, settle: Option<Duration>) {
        *self = Self { claim: self.claim.take(), settle, ..Self::default() };
    }

    fn begun(&self) -> &(Started, Lease) {
        self.begun.as_ref().expect("the attempt is begun")
    }
}

/// The database, the schedule and the processes of one history.
struct Real<'a> {
    rows: Rows<'a>,
    index: Index,
    tasks: [Attempt; TASKS],
    /// Calls that the schedule has not received.
    puts: [Option<Duration>; DELIVERIES],
    /// The number of leases so far.
    leases: u64,
}

impl<'a> Real<'a> {
    fn new(rows: Rows<'a>, index: Index) -> Self {
        Self { rows, index, tasks: Default::default(), puts: Default::default(), leases: 0 }
    }

    fn lease(&mut self, process: usize) -> Lease {
        self.leases += 1;
        let owner = Owner { process: format!("process{process}"), incarnation: "1".into() };
        Lease::new(&owner, self.leases, TICK)
    }

    fn task(&mut self, task: u8) -> &mut Attempt {
        &mut self.tasks[usize::from(task)]
    }

    /// Makes a step that the model has made from `state`.
    async fn apply(&mut self, world: &World, state: &State, action: Action) {
        let saved = world.saved(state);
        match action {
            Action::Announce { hand_off: true } => {
                let claims = self.index.hand_off(saved.len()).await;
                for (task, claim) in self.tasks.iter_mut().zip(claims) {
                    *task = Attempt::claimed(claim);
                }
            }
            Action::Announce { hand_off: false } => self.index.announce(saved).await,
            Action::Commit => self.commit(world, state, saved, true).await,
            Action::CommitUnanswered => self.commit(world, state, saved, false).await,
            Action::Refuse if world.is_keyed => drop(self.rows.publish(saved.start, false).await),
            Action::Refuse => {
                let lease = self.hand_off_lease(state, saved.len());
                self.rows.refused_save(saved.len(), lease.as_ref()).await;
            }
            Action::Claim(task, delivery) => {
                *self.task(task) = Attempt::claimed(self.index.claim(delivery.into()).await);
            }
            Action::ClaimUnanswered(delivery) => drop(self.index.claim(delivery.into()).await),
            Action::Begin(task) => self.begin(state, task, true).await,
            Action::BeginUnanswered(task) => self.begin(state, task, false).await,
            Action::GiveBack(task) => {
                let (started, lease) = self.task(task).begun().clone();
                self.rows.give_back(&started, &lease).await;
                self.task(task).ends(state.is_served.then_some(Duration::ZERO));
            }
            Action::Post(task, succeeds) => {
                self.task(task).outcome = Some(match succeeds {
                    true => Outcome::Succeeded(Report::default()),
                    false => Outcome::Failed(FailureClass::ServerError, Report::default()),
                });
            }
            Action::Finish(task) => {
                let settle = self.finish(task).await;
                self.task(task).ends(settle);
            }
            Action::FinishUnanswered(task) => {
                self.finish(task).await;
                self.task(task).again = true;
            }
            Action::GiveUp(task) => self.task(task).ends(Some(TICK)),
            Action::Settle(task) => {
                let Attempt { claim, settle, .. } = std::mem::take(self.task(task));
                if let Some(claim) = claim {
                    self.index.settle(claim, settle).await;
                }
            }
            Action::SettleLost(task) => *self.task(task) = Attempt::default(),
            Action::Crash(0) => self.tasks[..DELIVERIES].fill_with(Attempt::default),
            Action::Crash(task) => *self.task(task) = Attempt::default(),
            Action::Renew(task) => {
                let Attempt { claim, begun, .. } = &self.tasks[usize::from(task)];
                let (started, lease) = begun.as_ref().expect("the attempt is begun");
                self.rows.renew(started, lease).await;
                if let Some(claim) = claim {
                    self.index.renew(claim).await;
                }
            }
            Action::Put(delivery) => {
                let wait = self.puts[usize::from(delivery)].take().expect("a call is pending");
                self.index.put(delivery.into(), wait).await;
            }
            Action::PutUnanswered(delivery) => {
                let wait = self.puts[usize::from(delivery)].expect("a call is pending");
                self.index.put(delivery.into(), wait).await;
            }
            Action::PutLost(delivery) => self.puts[usize::from(delivery)] = None,
            Action::Sweep => {
                let due = self.rows.sweep(state.is_served).await;
                self.will_put(due);
            }
            Action::TickDatabase => self.rows.tick(false).await,
            Action::SetBack => self.rows.tick(true).await,
            Action::TickSchedule => self.index.tick().await,
            Action::LoseIndex => self.index.lose().await,
            Action::SaveIndex => self.index.save().await,
            Action::RestoreIndex => self.index.restore().await,
            // These steps exist only in the model.
            Action::AnnounceLost
            | Action::Repeat
            | Action::DeleteWebhook
            | Action::DeclareWebhook
            | Action::RenderOtherwise => {}
        }
    }

    fn hand_off_lease(&mut self, state: &State, count: usize) -> Option<Lease> {
        let is_hand_off = state.save == Save::Announced { hand_off: true };
        is_hand_off.then(|| self.lease(0).of_first_attempts(count))
    }

    async fn commit(&mut self, world: &World, state: &State, saved: Range<usize>, is_answered: bool) {
        if world.is_keyed {
            let due = self.rows.publish(saved.start, true).await;
            return if is_answered {
                self.will_put(due)
            };
        }
        let lease = self.hand_off_lease(state, saved.len());
        let at_ms = self.rows.save(saved.len(), lease.as_ref()).await.expect("a commit");
        let Some(lease) = lease else {
            if is_answered {
                self.will_put(saved.map(|place| (self.rows.ids[place], Duration::ZERO)).collect());
            }
            return;
        };
        for place in saved {
            let task = &mut self.tasks[place];
            // A process that ended has no claim.
            match is_answered && task.claim.is_some() {
                true => task.begun = Some((self.rows.first_attempt(place, at_ms), lease.clone())),
                false => *task = Attempt::default(),
            }
        }
    }

    async fn begin(&mut self, state: &State, task: u8, is_answered: bool) {
        if !state.is_served {
            return self.task(task).ends(None);
        }
        let lease = self.lease(task.into());
        let claim = self.task(task).claim.as_ref().expect("a claim");
        let id = claim.entry.id;
        let place = self.rows.ids.iter().position(|ours| *ours == id).expect("one of ours");
        match self.rows.begin(place, lease).await {
            _ if !is_answered => self.task(task).ends(Some(TICK)),
            Begun::Attempt(started, lease) => self.task(task).begun = Some((started, lease)),
            Begun::Refused(again) => self.task(task).ends(again),
        }
    }

    async fn finish(&self, task: u8) -> Option<Duration> {
        let attempt = &self.tasks[usize::from(task)];
        let (started, lease) = attempt.begun();
        let end = lease.end(started.clone(), attempt.outcome.clone().expect("the POST has ended"));
        self.rows.finish(end, attempt.again).await
    }

    fn will_put(&mut self, due: Vec<(docket_domain::delivery::DeliveryId, Duration)>) {
        for (id, wait) in due {
            let place = self.rows.ids.iter().position(|ours| *ours == id).expect("one of ours");
            self.puts[place] = Some(wait);
        }
    }

    /// Compares everything with the model.
    async fn check(&self, model: &State, context: &str) {
        let token = |attempt: &Attempt| {
            let (started, lease) = attempt.begun.as_ref()?;
            Some(format!("{}{}", lease.id(), started.id))
        };
        let tokens: Vec<Option<String>> = self.tasks.iter().map(token).collect();
        assert_eq!(self.rows.read(&tokens).await, model.rows, "the rows {context}");
        let fence = |attempt: &Attempt| Some(attempt.claim.as_ref()?.fence);
        let fences: Vec<Option<u64>> = self.tasks.iter().map(fence).collect();
        self.index.check(&model.index, &fences, context).await;
    }
}

/// Repeats a history in a world with all guards, then a history without faults until every delivery is final.
async fn replay(name: &str, world: World, history: &[Action], mut real: Real<'_>) {
    let (world, mut model, mut done) = (world.guarded(), State::default(), Vec::new());
    let mut checks = Checks::new(world);
    let quiet = quiet_round(true);
    let rounds = std::iter::repeat_n(&quiet[..], ROUNDS);
    for (round, actions) in std::iter::once(history).chain(rounds).enumerate() {
        if round > 0 && is_final(&model) {
            break;
        }
        for action in actions {
            let Some(next) = world.next(&model, *action) else { continue };
            real.apply(&world, &model, *action).await;
            (model, done) = (next, [done, vec![*action]].concat());
            let context = format!("of {name} after\n{}", history::text(&[], &done));
            real.check(&model, &context).await;
            assert_eq!(checks.broken(&model), [], "{context}");
        }
    }
    assert!(is_final(&model), "{name} has an unfinished delivery");
}

fn given(name: &str, usual: u64) -> u64 {
    let given = std::env::var_os(name);
    given.map_or(usual, |text| text.to_str().and_then(|text| text.parse().ok()).expect("a number"))
}

/// The kept histories and random ones, with their names and worlds. `is_shared`: the schedule outlives its processes.
fn histories(is_shared: bool) -> Vec<(String, World, Vec<Action>)> {
    let allowed = |action: Action| is_shared || !action.needs_redis();
    let mut histories = Vec::new();
    for guard in Guard::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("histories");
        let path = folder.join(guard.file()).with_extension("txt");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let history = history::parse(&text).expect("actions");
        if history.iter().all(|action| allowed(*action)) {
            histories.push((guard.file().to_owned(), World::without(guard), history));
        }
    }
    let seed = given("DOCKET_MODEL_SEED", 1);
    println!("DOCKET_MODEL_SEED={seed}");
    let mut random = Random::new(seed);
    let ended = Faults { crashes: true, unanswered: true, ..Faults::default() };
    let worlds = [World::with(Faults::ALL), World::with(Faults::ALL).of_two(), World::with(ended).keyed()];
    let count = given("DOCKET_MODEL_HISTORIES", 6);
    println!("counted: {} random histories", count * worlds.len() as u64);
    for number in 0..count {
        for (place, world) in worlds.iter().enumerate() {
            let history = random.history(world, STEPS, allowed);
            histories.push((format!("random history {number} of world {place}"), *world, history));
        }
    }
    histories
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_on_postgresql_and_redis_are_those_of_the_model() {
    let (database, server) = (TenantDatabase::postgres().await, RedisServer::start(&[]));
    let url = RedisUrl::parse(&server.url()).expect("a URL");
    let connection = RedisConnection::new(url, None).expect("no certificates to be read");
    for (number, (name, world, history)) in (0..).zip(histories(true)) {
        let rows = Rows::new(&database, number);
        let index = Index::on_redis(connection.clone(), number, &rows.webhook, rows.ids);
        replay(&name, world, &history, Real::new(rows, index)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_on_sqlite_and_in_memory_are_those_of_the_model() {
    let database = TenantDatabase::sqlite().await;
    for (number, (name, world, history)) in (0..).zip(histories(false)) {
        let rows = Rows::new(&database, number);
        let index = Index::in_memory(&rows.webhook, rows.ids);
        replay(&name, world, &history, Real::new(rows, index)).await;
    }
}

/// The history of `histories/lock-order.txt`: in each round both transactions lock the rows of the same deliveries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_and_renewals_of_the_same_deliveries_do_not_deadlock() {
    let database = TenantDatabase::postgres().await;
    let ids = database.queued(40, 0).await;
    let owner = Owner { process: "mine".into(), incarnation: "1".into() };
    for batch in 0..10 {
        let lease = Lease::new(&owner, batch, TICK);
        let mut started =
            database.write(async |t| deliveries::begin_attempts(t, &ids, &lease, millis(TICK)).await).await;
        assert_eq!(started.len(), ids.len(), "round {batch}");
        started.sort_by_key(|started| std::cmp::Reverse(started.id));
        let failed = || Outcome::Failed(FailureClass::ServerError, Report::default());
        let ends: Vec<_> = started.iter().map(|started| lease.end(started.clone(), failed())).collect();
        let finished = async {
            let writer = database.database.writer().await?;
            let next = |_, _| docket_domain::delivery::Next::RetryAt(at(0));
            deliveries::finish_attempts(writer, &Clock::System, &ends, false, next).await
        };
        let renewed = async {
            let mut transaction = database.database.begin(&Clock::System).await?;
            deliveries::renew(&mut transaction, &held(&lease, &ids), millis(TICK)).await?;
            transaction.commit().await
        };
        let (finished, renewed) = tokio::join!(finished, renewed);
        finished.expect("the two do not wait for each other");
        renewed.expect("the two do not wait for each other");
        // A fifth attempt would be the last one.
        database.run("UPDATE delivery_queue SET attempt_count = 0; DELETE FROM attempt_history").await;
    }
}
