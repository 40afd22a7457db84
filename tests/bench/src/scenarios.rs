//! The scenarios: one file for each, with a function that returns its figures.

mod beside;
mod burst;
mod dev;
mod fanout;
mod few_workers;
mod flushall;
mod growth;
mod history;
mod hostile;
mod kill;
mod portal;
mod processes;
mod reads;
mod retention;
mod silent;
mod steady;
mod tenants;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::figures::Figure;
use crate::stage::Shape;

/// The arguments of all scenarios.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The program to measure.
    pub(crate) docket: PathBuf,
    /// The sizes of the scenarios.
    pub(crate) sizes: Sizes,
}

/// How much is done in scenarios.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Sizes {
    /// Saves in the burst.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub(crate) messages: usize,
    /// Finished deliveries that a long history has; by default 5,000,000, and 1,000,000 for portal and retention.
    #[arg(long, value_name = "COUNT")]
    pub(crate) history: Option<usize>,
    /// Saves per second while retention deletes.
    #[arg(long, default_value_t = 1_000.0, value_name = "COUNT")]
    pub(crate) rate: f64,
    /// In the burst, also print what each statement of PostgreSQL and each command of Redis cost. Counting slows it down.
    #[arg(long)]
    pub(crate) profile: bool,
    /// In the burst, how many milliseconds the receiver takes to respond to Docket. The goals are of 0.
    #[arg(long, default_value_t = 0, value_name = "MILLISECONDS")]
    pub(crate) receiver_takes: u64,
}

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// 10,000 saves as fast as 64 connections take the responses, beside the bare forwarder.
    Burst,
    /// 100 saves per second.
    Steady,
    /// Ten webhooks: a burst of 1,000, and lone messages.
    Fanout,
    /// A healthy tenant beside deliveries that are stuck at slow endpoints.
    Beside,
    /// 1,000 endpoints that never respond, one that hangs suddenly, and one that takes 20 s.
    Silent,
    /// Bursts to receivers with few workers; each connection holds a worker. Beside Docket, Go's default client sends them too.
    FewWorkers,
    /// A healthy tenant beside a guest that guesses, sends large bodies and floods its own queue.
    Hostile,
    /// kill -9 in the middle of 5,000.
    Kill,
    /// kill -9 between a commit and its hint in Redis.
    Hint,
    /// Twenty kill -9 in twenty seconds under saves.
    Crashloop,
    /// FLUSHALL in Redis under load.
    Flushall,
    /// `docket dev` on SQLite: burst and steady.
    Dev,
    /// `docket dev`: twenty kill -9 in twenty seconds under saves.
    Devcrashloop,
    /// The burst with 1, 2 and 4 worker processes and 2 api processes.
    Processes,
    /// A burst of 100,000 against one of 10,000.
    Growth,
    /// 500 saves per second spread over 500 databases.
    Tenants,
    /// 200 saves per second spread over 200 databases, with more connections than databases and with fewer.
    Crowded,
    /// Authorized reads beside a bare handler with the same query.
    Reads,
    /// The issue of tokens beside Argon2id alone.
    Tokens,
    /// 1,000 idle tenants (long: 20 minutes).
    Idle,
    /// The burst and all searches beside --history finished deliveries (long: 12 minutes).
    History,
    /// Every page of the portal, with each filter, beside --history finished deliveries (long: 6 minutes).
    Portal,
    /// Retention of --history deliveries while --rate saves per second run (long: 6 minutes).
    Retention,
}

impl Scenario {
    /// The scenario's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the scenario runs when the command line names none.
    pub(crate) fn is_short(self) -> bool {
        !matches!(self, Self::Idle | Self::History | Self::Portal | Self::Retention)
    }

    /// The shapes in which the scenario is measured, unless the command line names one.
    pub(crate) fn shapes(self) -> &'static [Shape] {
        match self {
            // `docket dev` is one process.
            Self::Dev | Self::Devcrashloop => &[Shape::One],
            // One process serves all pages.
            Self::Portal => &[Shape::One],
            Self::Processes => &[Shape::Roles],
            _ => &Shape::ALL,
        }
    }

    /// Runs the scenario once.
    pub(crate) async fn run(self, bench: &Bench, shape: Shape) -> Vec<Figure> {
        match self {
            Self::Burst => burst::run(bench, shape).await,
            Self::Steady => steady::run(bench, shape).await,
            Self::Fanout => fanout::run(bench, shape).await,
            Self::Beside => beside::run(bench, shape).await,
            Self::Silent => silent::run(bench, shape).await,
            Self::FewWorkers => few_workers::run(bench, shape).await,
            Self::Hostile => hostile::run(bench, shape).await,
            Self::Kill => kill::middle(bench, shape).await,
            Self::Hint => kill::hint(bench, shape).await,
            Self::Crashloop => kill::often(bench, shape).await,
            Self::Flushall => flushall::run(bench, shape).await,
            Self::Dev => dev::run(bench).await,
            Self::Devcrashloop => dev::kills(bench).await,
            Self::Processes => processes::run(bench).await,
            Self::Growth => growth::run(bench, shape).await,
            Self::Tenants => tenants::busy(bench, shape).await,
            Self::Crowded => tenants::crowded(bench, shape).await,
            Self::Reads => reads::get(bench, shape).await,
            Self::Tokens => reads::tokens(bench, shape).await,
            Self::Idle => tenants::idle(bench, shape).await,
            Self::History => history::run(bench, shape).await,
            Self::Portal => portal::run(bench).await,
            Self::Retention => retention::run(bench, shape).await,
        }
    }
}
