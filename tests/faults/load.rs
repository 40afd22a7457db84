//! A load of known content: clients that save orders, and remember each save with what they learned of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use docket_tests::server::{Client, Reply, api_key, request};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::checker::{Answer, Output, Save};
use crate::hook::millis;
use crate::place::{Place, found};
use crate::random::Random;

/// One save in `REFUSED_EVERY` is wrong, one in `UNKNOWN_EVERY` has a key that no tenant has, and after one in `SEARCH_EVERY` the
/// client searches its orders.
const REFUSED_EVERY: u64 = 25;
const UNKNOWN_EVERY: u64 = 40;
const SEARCH_EVERY: u64 = 20;
/// An API key that no tenant has.
const UNKNOWN_KEY: char = '9';

/// What the clients of a load remember.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Each with the number of its tenant.
    pub(crate) saves: Vec<(usize, Save)>,
    pub(crate) outputs: Vec<Output>,
}

/// A running load.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    clients: JoinSet<Loaded>,
}

impl Load {
    /// Starts clients, which take turns with tenants and APIs. `number` distinguishes loads, so that no text is used twice.
    pub(crate) fn start(
        tenants: &[Place],
        apis: &[SocketAddr],
        clients: usize,
        pause_ms: u64,
        number: usize,
        begun: Instant,
        mut random: Random,
    ) -> Self {
        let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut running = JoinSet::new();
        for client in 0..clients {
            let saver = Saver {
                tenant: client % tenants.len(),
                tenants: tenants.to_vec(),
                apis: apis.to_vec(),
                prefix: format!("l{number}c{client}"),
                pause_ms,
                begun,
                random: random.child(),
                loaded: Loaded::default(),
            };
            running.spawn(saver.run(Arc::clone(&stop), Arc::clone(&acknowledged)));
        }
        Self { stop, acknowledged, clients: running }
    }

    /// The number of saves that are acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops all clients; returns what they remember.
    pub(crate) async fn end(self) -> Loaded {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Loaded::default();
        for loaded in self.clients.join_all().await {
            all.saves.extend(loaded.saves);
            all.outputs.extend(loaded.outputs);
        }
        all
    }
}

struct Saver {
    tenant: usize,
    tenants: Vec<Place>,
    apis: Vec<SocketAddr>,
    prefix: String,
    pause_ms: u64,
    begun: Instant,
    random: Random,
    loaded: Loaded,
}

impl Saver {
    async fn run(mut self, stop: Arc<AtomicBool>, acknowledged: Arc<AtomicUsize>) -> Loaded {
        let mut count = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            count += 1;
            let answer = self.save(count).await;
            match answer {
                Answer::Acknowledged(_) => {
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Answer::Refused(_) => {}
                // The process was killed meanwhile, or can't save now.
                Answer::Unclear => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            if count.is_multiple_of(SEARCH_EVERY) {
                self.search().await;
            }
            let pause = Duration::from_millis(self.random.below(self.pause_ms + 1));
            tokio::time::sleep(pause).await;
        }
        self.loaded
    }

    fn client(&mut self) -> Client {
        let api = self.random.one_of(&self.apis);
        Client { api, ..self.tenants[self.tenant].client.clone() }
    }

    async fn save(&mut self, count: u64) -> Answer {
        let reference = format!("{}n{count}", self.prefix);
        let mut client = self.client();
        let mut order = order(&reference, &self.tenants[self.tenant].canary);
        if count.is_multiple_of(REFUSED_EVERY) {
            order["orderType"] = json!("Nonsense");
        }
        if count.is_multiple_of(UNKNOWN_EVERY) {
            client.key = api_key(UNKNOWN_KEY);
        }
        let begun = Instant::now();
        let begun_ms = millis(begun.duration_since(self.begun));
        let reply = client.try_post("/Orders/Save", &order.to_string(), &[]).await;
        let took_ms = millis(begun.elapsed());
        if let Ok(reply) = &reply {
            self.read("a response to a save", reply);
        }
        let answer = answer(reply.ok().as_ref());
        let save = Save { reference, answer: answer.clone(), begun_ms, took_ms };
        self.loaded.saves.push((self.tenant, save));
        answer
    }

    async fn search(&mut self) {
        let client = self.client();
        let bearer = format!("Bearer {}", client.token);
        let headers = [("x-api-key", client.key.as_str()), ("authorization", bearer.as_str())];
        if let Ok(reply) = request(client.api, "GET", "/Orders/Search", &headers, "").await {
            self.read("a search", &reply);
        }
    }

    /// Remembers a response, if it says something of another tenant or is the first one of this one.
    fn read(&mut self, what: &str, reply: &Reply) {
        let text = String::from_utf8_lossy(&reply.body);
        let canaries = found(self.tenants.iter().map(|tenant| tenant.canary.as_str()), &text);
        let is_foreign = canaries.iter().any(|tenant| *tenant != self.tenant);
        let is_first = !canaries.is_empty() && self.loaded.outputs.is_empty();
        if is_foreign || is_first {
            let (what, reader) = (what.to_owned(), Some(self.tenant));
            let output = Output { what, reader, canaries, has_secret: false, has_panic: false };
            self.loaded.outputs.push(output);
        }
    }
}

/// An order with a text by which it is known.
pub(crate) fn order(reference: &str, canary: &str) -> Value {
    json!({"orderType": "Court", "clientMatterNumber": reference, "case": {"caption": canary}})
}

/// What a client learns from a response; `None`: there is none.
pub(crate) fn answer(reply: Option<&Reply>) -> Answer {
    let Some(reply) = reply else { return Answer::Unclear };
    match reply.status {
        200 => {
            let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let order = body["webOrderId"].as_str().map(str::to_owned);
            order.map_or(Answer::Unclear, Answer::Acknowledged)
        }
        // A server that closes, or is busy, has not looked at the save. The client does not rely on that.
        408 | 429 => Answer::Unclear,
        // Docket numbers each response: another program has the port of a process that was killed.
        status @ 400..500 if reply.headers.contains_key("x-request-id") => Answer::Refused(status),
        _ => Answer::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn reply(status: u16, body: &'static str) -> Reply {
        let headers = HashMap::from([("x-request-id".to_owned(), "1".to_owned())]);
        Reply { status, headers, body: body.into() }
    }

    #[test]
    fn only_a_number_acknowledges_and_only_a_client_error_refuses() {
        let acknowledged = Answer::Acknowledged("W1".to_owned());
        assert_eq!(answer(Some(&reply(200, r#"{"webOrderId":"W1"}"#))), acknowledged);
        assert_eq!(answer(Some(&reply(200, "{}"))), Answer::Unclear);
        assert_eq!(answer(Some(&reply(400, "{}"))), Answer::Refused(400));
        assert_eq!(answer(Some(&reply(503, "{}"))), Answer::Unclear);
        assert_eq!(answer(None), Answer::Unclear);
        let foreign = Reply { headers: HashMap::new(), ..reply(404, "") };
        assert_eq!(answer(Some(&foreign)), Answer::Unclear);
    }
}
