//! `docket dev`, on SQLite.

use super::{Bench, kill};
use crate::figures::Figure;
use crate::home::{CONNECTIONS, Fleet, Home, check};
use crate::load::Load;
use crate::measure::{Delivered, percentile, save_times};
use crate::receiver::Behaviour;

const RATE: f64 = 100.0;
const STEADY: usize = 1_000;

pub(super) async fn run(bench: &Bench) -> Vec<Figure> {
    let home = home(bench);
    let fleet = serve(&home).await;
    let clients = home.clients(&fleet).await;
    home.warm_up(&fleet.apis, &clients, 1).await;
    let apis = fleet.apis.clone();
    let load = Load { apis, clients, connections: 8, messages: STEADY, pace: Some(RATE) };
    let saves = load.clone().run().await;
    check(&saves);
    let steady = Delivered::of(&saves.done, &home.received(STEADY).await, 1);
    let messages = bench.sizes.messages;
    let load = Load { connections: CONNECTIONS, messages, pace: None, ..load };
    let saves = load.run().await;
    check(&saves);
    let burst = Delivered::of(&saves.done, &home.received(messages).await, 1);
    vec![
        Figure::new("burst: deliveries per second", burst.rate(), "/s").at_least(5_000.0),
        Figure::new("burst: save p99", percentile(&save_times(&saves.done), 99.0), "ms"),
        Figure::new("burst: end to end p99", percentile(&burst.end_to_end, 99.0), "ms"),
        Figure::new("steady: end to end p50", percentile(&steady.end_to_end, 50.0), "ms").at_most(1.0),
        Figure::new("steady: end to end p99", percentile(&steady.end_to_end, 99.0), "ms").at_most(2.5),
        Figure::new("lost", (burst.lost + steady.lost) as f64, "").at_most(0.0),
        Figure::new("duplicates", (burst.duplicates + steady.duplicates) as f64, "").at_most(0.0),
        Figure::new("peak memory", fleet.peak_memory(), "MB"),
    ]
}

/// Kills `docket dev` with SIGKILL twenty times in twenty seconds.
pub(super) async fn kills(bench: &Bench) -> Vec<Figure> {
    let home = home(bench);
    let fleet = serve(&home).await;
    kill::crash_loop(&home, fleet).await
}

fn home(bench: &Bench) -> Home {
    let home = Home::new(&bench.docket, &[vec![Behaviour::Prompt]], |tenant| {
        (format!("managed: {{name: tenant_{tenant}}}"), String::new())
    });
    home.add_people(0, &[]);
    home
}

async fn serve(home: &Home) -> Fleet {
    let process = home.start(vec!["dev".to_owned(), "--no-receiver".to_owned()]);
    Fleet::ready(vec![process], 1).await
}
