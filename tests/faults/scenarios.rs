//! The scenarios: each injects one kind of fault under a load of known content, and ends with the checker.

mod cancels;
mod clocks;
mod databases;
mod inputs;
mod kills;
mod mixed;
mod pauses;
mod stores;
mod under_saves;

use std::time::Duration;

use crate::outcome::{Budget, Outcome};
use crate::random::Random;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// SIGKILL of processes that serve requests, at the points of a save.
    SaveKills,
    /// SIGKILL of workers, at the points of an attempt.
    AttemptKills,
    /// Saves that are repeated under one key over kills.
    RepeatedSaves,
    /// Faults of PostgreSQL.
    Databases,
    /// Clients that leave.
    Cancels,
    /// All faults mixed at random.
    Mixed,
    /// SIGSTOP of workers.
    Pauses,
    /// Faults of Redis.
    Stores,
    /// A Redis that hangs, and then is away.
    Away,
    /// Wall clocks that jump.
    Clocks,
    /// Signing secrets that change.
    Rotations,
    /// SIGTERM of one process after the other.
    Restarts,
    /// Inputs and requests that are wrong in every way, from the fuzzer and from the description of the API.
    Inputs,
}

impl Scenario {
    /// Runs the scenario on a thread of its own, until it has had `trials` trials or `limit` has passed. Its start and its end take
    /// half a minute more. A panic is a violation.
    pub(crate) fn run(self, trials: u32, limit: Duration, seed: u64) -> Outcome {
        let run = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(self.play(trials, limit, Random::new(seed)))
        };
        std::thread::spawn(run).join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text");
            Outcome { violations: vec![format!("the run ended with a panic: {text}")], ..Outcome::default() }
        })
    }

    async fn play(self, trials: u32, limit: Duration, random: Random) -> Outcome {
        let budget = Budget::new(trials, limit);
        match self {
            Self::SaveKills => kills::of_saves(budget, random).await,
            Self::AttemptKills => kills::of_attempts(budget, random).await,
            Self::RepeatedSaves => kills::of_repeated_saves(budget, random).await,
            Self::Databases => databases::under_saves(budget, random).await,
            Self::Cancels => cancels::leave(budget, random).await,
            Self::Mixed => mixed::faults(budget, random).await,
            Self::Pauses => pauses::of_workers(budget, random).await,
            Self::Stores => stores::under_saves(budget, random).await,
            Self::Away => stores::away(limit * 3 / 4, random).await,
            Self::Clocks => clocks::jump(budget, random).await,
            Self::Rotations => mixed::rotations(budget, random).await,
            Self::Restarts => pauses::of_restarts(budget, random).await,
            Self::Inputs => inputs::from_outside(limit, random),
        }
    }
}
