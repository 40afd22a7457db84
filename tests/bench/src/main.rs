//! `tests/bench/run`: what a release binary of Docket does under load, beside a bare forwarder, and what it must reach.

mod bare;
mod figures;
mod http;
mod load;
mod measure;
mod order;
mod process;
mod receiver;
mod scenarios;
mod stage;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum as _};
use figures::{Measured, json, medians, table};
use scenarios::{Bench, Scenario};
use stage::Shape;

#[derive(Debug, Parser)]
#[command(name = "docket-bench", about = "Measures a release binary of Docket on this machine")]
struct Arguments {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Runs scenarios and prints what they measured.
    Run(RunArguments),
    /// Serves as the bare forwarder; the scenarios start it.
    #[command(hide = true)]
    Bare(bare::BareArguments),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// What to run [default: all that take together less than a quarter of an hour].
    scenarios: Vec<Scenario>,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run each scenario so often, and show the median of each figure.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// The processes to measure [default: one, and for the first scenarios both].
    #[arg(long, value_name = "SHAPE")]
    shape: Option<Shape>,
    /// The program to measure [default: docket beside this program].
    #[arg(long, value_name = "FILE")]
    docket: Option<PathBuf>,
    /// What the scenarios can change.
    #[command(flatten)]
    bench: scenarios::Sizes,
}

fn main() {
    match Arguments::parse().command {
        // The bare forwarder has the runtime that Docket has; the rest leaves the cores to what is measured.
        Commands::Bare(arguments) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(bare::run(arguments));
        }
        Commands::Run(arguments) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run(arguments));
        }
    }
}

async fn run(arguments: RunArguments) {
    let beside = || std::env::current_exe().expect("a program has a path").with_file_name("docket");
    let docket = arguments.docket.unwrap_or_else(beside);
    assert!(docket.exists(), "{} is missing; tests/bench/run builds it", docket.display());
    let bench = Bench { docket, sizes: arguments.bench };
    let scenarios = if arguments.scenarios.is_empty() {
        Scenario::value_variants().iter().copied().filter(|scenario| scenario.is_short()).collect()
    } else {
        arguments.scenarios
    };
    let begun = Instant::now();
    let mut measured = Vec::new();
    for scenario in scenarios {
        let shapes = match arguments.shape {
            Some(shape) => vec![shape],
            None => scenario.shapes().to_vec(),
        };
        for shape in shapes {
            let mut rounds = Vec::new();
            for round in 1..=arguments.rounds {
                eprintln!(
                    "{:>4} s  {}, {}, round {round}",
                    begun.elapsed().as_secs(),
                    scenario.name(),
                    shape.name()
                );
                rounds.push(scenario.run(&bench, shape).await);
            }
            let name = scenario.name().to_owned();
            let one = Measured { scenario: name, shape: Some(shape), figures: medians(rounds) };
            println!("{}", table(&one));
            measured.push(one);
            // What was measured stays, also if a later scenario fails.
            if let Some(file) = &arguments.json {
                let text = serde_json::to_string_pretty(&json(&measured)).expect("it is JSON");
                std::fs::write(file, text + "\n").expect("the file can be written");
            }
        }
    }
    eprintln!("{:>4} s  done", begun.elapsed().as_secs());
}
