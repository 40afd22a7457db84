//! A healthy tenant, first alone and then beside a guest that guesses passwords, sends bodies of 1 MiB and floods its
//! own queue.

use super::Bench;
use crate::disk::Disk;
use crate::figures::Figure;
use crate::home::check;
use crate::load::{Client, Load};
use crate::measure::{Delivered, percentile, save_times};
use crate::receiver::Behaviour;
use crate::stage::{Shape, Stage};

/// The healthy tenant's saves per second, and their number.
const RATE: f64 = 100.0;
const MESSAGES: usize = 1_500;
/// The guest's requests per second of each kind: enough to be noticed, and few enough to leave time on the shared cores.
const GUESSES: f64 = 100.0;
const BODIES: f64 = 20.0;
const FLOOD: f64 = 200.0;

pub(super) async fn run(bench: &Bench, shape: Shape) -> Vec<Figure> {
    let stage = Stage::new(&bench.docket, &[vec![Behaviour::Prompt], vec![Behaviour::Slow]]).await;
    let fleet = stage.serve(shape, &[]).await;
    let mut clients = stage.home.clients(&fleet).await;
    let guest = clients.pop().expect("there are two");
    stage.home.warm_up(&fleet.apis, &clients, 1).await;
    let load = |client: Client, rate, messages| Load {
        apis: fleet.apis.clone(),
        clients: vec![client],
        connections: 8,
        messages,
        pace: Some(rate),
    };
    let healthy = async || {
        let saves = load(clients[0].clone(), RATE, MESSAGES).run().await;
        check(&saves);
        let delivered = Delivered::of(&saves.done, &stage.home.received(MESSAGES).await, 1);
        (percentile(&save_times(&saves.done), 99.0), percentile(&delivered.end_to_end, 99.0), delivered.lost)
    };
    let (alone, alone_end, _) = healthy().await;
    let large = Client { request: with_large_body(&guest.request).into(), ..guest.clone() };
    let attacks = [(stage.home.guesses(1), GUESSES), (large, BODIES), (guest, FLOOD)]
        .map(|(client, rate)| load(client, rate, usize::MAX).start());
    let disk = Disk::watch(stage.home.file("disk"));
    let (beside, beside_end, lost) = healthy().await;
    let [disk, longest] = disk.end();
    attacks.iter().for_each(crate::load::Running::halt);
    let mut made = Vec::new();
    for attack in attacks {
        let saves = attack.end().await;
        made.push((saves.done.len() + saves.refused) as f64);
    }
    let seconds = MESSAGES as f64 / RATE;
    vec![
        Figure::new("save p99 alone", alone, "ms"),
        Figure::new("save p99 beside the guest", beside, "ms").at_most(2.0 * alone),
        Figure::new("end to end p99 alone", alone_end, "ms"),
        Figure::new("end to end p99 beside the guest", beside_end, "ms").at_most(2.0 * alone_end),
        disk,
        longest,
        Figure::new("lost", lost as f64, "").at_most(0.0),
        Figure::new("guesses of the guest", made[0], "").at_least(GUESSES * seconds / 2.0),
        Figure::new("bodies of 1 MiB of the guest", made[1], "").at_least(BODIES * seconds / 2.0),
        Figure::new("saves of the guest", made[2], "").at_least(FLOOD * seconds / 2.0),
    ]
}

/// A client's save with a body of 1 MiB, which is the longest that is accepted, and which is no order.
fn with_large_body(save: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(save);
    let head = text.split("content-length:").next().unwrap_or_default();
    let body = format!("{{\"caseNumber\":\"{}\"}}", "x".repeat((1 << 20) - 17));
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
