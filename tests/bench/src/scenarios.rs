//! What is measured: one file per scenario, each with a function that returns its figures.

mod burst;
mod fanout;
mod steady;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::figures::Figure;
use crate::stage::Shape;

/// What all scenarios know.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The program to measure.
    pub(crate) docket: PathBuf,
    /// How much of it.
    pub(crate) sizes: Sizes,
}

/// How much is done in scenarios.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Sizes {
    /// Saves in the burst.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub(crate) messages: usize,
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
}

impl Scenario {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Steady => "steady",
            Self::Fanout => "fanout",
        }
    }

    /// Whether it is run without being named.
    pub(crate) fn is_short(self) -> bool {
        true
    }

    /// The shapes that it is measured in, unless one is asked for.
    pub(crate) fn shapes(self) -> &'static [Shape] {
        match self {
            Self::Burst | Self::Steady | Self::Fanout => &Shape::ALL,
        }
    }

    /// Runs it once.
    pub(crate) async fn run(self, bench: &Bench, shape: Shape) -> Vec<Figure> {
        match self {
            Self::Burst => burst::run(bench, shape).await,
            Self::Steady => steady::run(bench, shape).await,
            Self::Fanout => fanout::run(bench, shape).await,
        }
    }
}
