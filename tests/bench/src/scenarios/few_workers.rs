//! Bursts to receivers whose workers serve one connection each until it closes, beside Go's default client in the same run.

use std::process::Command;
use std::time::{Duration, Instant};

use super::Bench;
use crate::engine;
use crate::figures::Figure;
use crate::home::{CONNECTIONS, Home, check};
use crate::load::Load;
use crate::measure::Delivered;
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

const RECEIVERS: [Behaviour; 10] = [
    Behaviour::Few { workers: 1, takes_ms: 20 },
    Behaviour::Few { workers: 1, takes_ms: 50 },
    Behaviour::Few { workers: 8, takes_ms: 20 },
    Behaviour::Few { workers: 8, takes_ms: 50 },
    Behaviour::Few { workers: 50, takes_ms: 20 },
    Behaviour::Few { workers: 50, takes_ms: 50 },
    Behaviour::Few { workers: 150, takes_ms: 20 },
    Behaviour::Few { workers: 150, takes_ms: 50 },
    Behaviour::Apache { workers: 10, takes_ms: 50 },
    Behaviour::Apache { workers: 150, takes_ms: 50 },
];
const BURSTS: [usize; 2] = [200, 1_000];
/// The time since the first save in which a POST is a first attempt: the first retry is due 60 s after its attempt has failed.
const FIRST_ATTEMPTS: Duration = Duration::from_secs(59);
/// The rest before a run. The receiver closes idle connections after 5 s, so that no client begins with an open connection.
const REST: Duration = Duration::from_secs(6);

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let tenants: Vec<_> = RECEIVERS.map(|behaviour| vec![behaviour]).into();
    let stage = Stage::new(&bench.docket, &tenants).await;
    let go = go_client(&stage.home);
    let fleet = stage.serve(shape, &[]).await;
    let clients = stage.home.clients(&fleet).await;
    let mut figures = Vec::new();
    for (behaviour, client) in RECEIVERS.into_iter().zip(clients) {
        let url = stage.home.target(client.tenant as usize, 0);
        for messages in BURSTS {
            // This run is not counted. Prefork starts its processes when they are needed, so the first client would
            // wait for them.
            post(&go, &stage.home, &url, messages).await;
            stage.home.receiver.take();
            tokio::time::sleep(REST).await;
            let apis = fleet.apis.clone();
            let load =
                Load { apis, clients: vec![client.clone()], connections: CONNECTIONS, messages, pace: None };
            let begun = Instant::now();
            let saves = load.run().await;
            check(&saves);
            let left = FIRST_ATTEMPTS.saturating_sub(begun.elapsed());
            let arrivals = stage.home.received_of(&saves.done, left).await;
            let docket = Delivered::of(&saves.done, &arrivals, 1);
            tokio::time::sleep(REST).await;
            let (succeeded, seconds) = post(&go, &stage.home, &url, messages).await;
            stage.home.receiver.take();
            tokio::time::sleep(REST).await;
            let name = format!("{messages} to {}", name(behaviour));
            let (took, missing) = (docket.whole.as_secs_f64(), messages - succeeded);
            figures.extend([
                Figure::new(format!("{name}: first attempts that failed"), docket.lost as f64, "")
                    .at_most(missing as f64),
                Figure::new(format!("{name}: POSTs of Go's client that failed"), missing as f64, ""),
                Figure::new(format!("{name}: time"), took, "s"),
                Figure::new(format!("{name}: of the time of Go's client"), took / seconds, "").at_most(1.5),
                Figure::new(format!("{name}: duplicates"), docket.duplicates as f64, "").at_most(0.0),
            ]);
        }
    }
    figures.extend(engine::figures(&fleet).await);
    figures
}

fn name(behaviour: Behaviour) -> String {
    match behaviour {
        Behaviour::Few { workers, takes_ms } => format!("{workers} workers of {takes_ms} ms"),
        Behaviour::Apache { workers, takes_ms } => {
            format!("Apache prefork with {workers} workers of {takes_ms} ms")
        }
        _ => unreachable!("all have few workers"),
    }
}

/// Builds Go's client into the folder of the scenario; returns its path.
fn go_client(home: &Home) -> std::path::PathBuf {
    let (program, sources) = (home.file("go-client"), concat!(env!("CARGO_MANIFEST_DIR"), "/go-client"));
    let mut command = Command::new("go");
    let built = command.args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
    assert!(built.expect("go starts; tests/bench/run installs it").success(), "the client is built");
    std::fs::write(home.file("ca.pem"), &home.receiver.ca_pem).expect("the folder is ours");
    program
}

/// Sends `count` POSTs with Go's client; returns the number that succeeded, and the seconds until all had ended.
async fn post(program: &std::path::Path, home: &Home, url: &str, count: usize) -> (usize, f64) {
    let mut command = Command::new(program);
    command.arg(home.file("ca.pem")).args([url, &count.to_string()]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
    let text = String::from_utf8(output.expect("it starts").stdout).expect("text");
    let (succeeded, seconds) = text.trim().split_once(' ').expect("two numbers");
    (succeeded.parse().expect("a count"), seconds.parse().expect("seconds"))
}
