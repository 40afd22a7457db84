//! `tests/bench/run`: what a release binary of Docket does under load, beside a bare forwarder, and what it must reach.

mod apache;
mod bare;
mod disk;
mod engine;
mod home;
mod http;
mod load;
mod measure;
mod order;
mod process;
mod receiver;
mod scenarios;
mod sql;
mod stage;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum as _};
use docket_rig::figures::{self, Measured, document, load_average, medians, table};
use scenarios::{Bench, Scenario};
use stage::Shape;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

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
    /// What to run [default: all that take together half an hour].
    scenarios: Vec<Scenario>,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run each scenario so often, and show the median of each figure.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// The processes to measure [default: both, where a scenario has both].
    #[arg(long, value_name = "SHAPE")]
    shape: Option<Shape>,
    /// The program to measure [default: docket beside this program].
    #[arg(long, value_name = "FILE")]
    docket: Option<PathBuf>,
    /// Run all scenarios, the long ones too.
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// What is measured, for the JSON.
    #[arg(long, value_name = "TEXT")]
    revision: Option<String>,
    /// What the scenarios can change.
    #[command(flatten)]
    bench: scenarios::Sizes,
}

fn main() {
    match Arguments::parse().command {
        // The bare forwarder runs on many threads, as Docket does. The rest runs on one thread and leaves the cores
        // to the measured processes.
        Commands::Bare(arguments) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(bare::run(arguments));
        }
        Commands::Run(arguments) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let complete = LocalSet::new().block_on(&runtime.expect("a runtime"), async {
                // The end of a branch drops its processes and files, which ends and removes them.
                tokio::select! {
                    complete = run(arguments) => complete,
                    () = ended() => {
                        eprintln!("ended by a signal before it was complete");
                        false
                    }
                }
            });
            std::process::exit(i32::from(!complete));
        }
    }
}

/// Waits for SIGINT (Ctrl-C) or SIGTERM.
async fn ended() {
    let signal = |kind| signal(kind).expect("signals can be handled");
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Runs all chosen scenarios; returns whether every one of them came to its end.
async fn run(arguments: RunArguments) -> bool {
    let beside = || std::env::current_exe().expect("a program has a path").with_file_name("docket");
    let docket = arguments.docket.unwrap_or_else(beside);
    assert!(docket.exists(), "{} is missing; tests/bench/run builds it", docket.display());
    let bench = Rc::new(Bench { docket, sizes: arguments.bench });
    let scenarios = if arguments.scenarios.is_empty() {
        let all = Scenario::value_variants().iter().copied();
        all.filter(|scenario| arguments.all || scenario.is_short()).collect()
    } else {
        arguments.scenarios
    };
    let begun = Instant::now();
    let (mut measured, mut complete) = (Vec::new(), true);
    for scenario in scenarios {
        let shapes = scenario.shapes().iter().copied();
        let shapes = shapes.filter(|shape| arguments.shape.is_none_or(|wanted| wanted == *shape));
        let first = measured.len();
        for shape in shapes {
            let mut rounds = Vec::new();
            for round in 1..=arguments.rounds {
                let (seconds, name) = (begun.elapsed().as_secs(), scenario.name());
                eprintln!(
                    "{seconds:>4} s  {name} ({}), round {round}, load {}",
                    shape.name(),
                    load_average()
                );
                let bench = Rc::clone(&bench);
                // A scenario that fails has printed why, and the next scenario runs all the same.
                let running = tokio::task::spawn_local(async move { scenario.run(&bench, shape).await });
                match running.await {
                    Ok(figures) => rounds.push(figures),
                    Err(_) => complete = false,
                }
            }
            if rounds.is_empty() {
                println!("{} ({}): FAILED\n", scenario.name(), shape.name());
                continue;
            }
            measured.push(Measured {
                scenario: scenario.name(),
                shape: shape.name(),
                figures: medians(rounds),
            });
        }
        println!("{}", table(&measured[first..]));
        // The file is written after each scenario, so that figures stay when the run is ended.
        if let Some(file) = &arguments.json {
            let text = document(arguments.revision.as_deref(), &measured);
            std::fs::write(file, text).expect("the file can be written");
        }
    }
    eprintln!("{:>4} s  done", begun.elapsed().as_secs());
    complete
}
