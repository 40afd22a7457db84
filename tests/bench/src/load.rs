//! The load generator: saves over kept connections, on a thread of its own. A connection sends the next save as soon
//! as it has the response to the last one. With a pace, saves begin at fixed times and do not wait for responses.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::http::Connection;

/// The longest time that a load runs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A person whose saves the generator sends.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// The tenant's number, as in the paths of the receiver.
    pub(crate) tenant: u32,
    /// The bytes of the whole request.
    pub(crate) request: Arc<[u8]>,
    /// Finds the order's number in the body of a response with status 200.
    pub(crate) number: fn(&[u8]) -> Option<u64>,
}

/// A number of saves, and how they are sent.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The addresses of the API. Connections are spread over all addresses.
    pub(crate) apis: Vec<SocketAddr>,
    /// The clients in turn: save number n is sent for client n modulo their number.
    pub(crate) clients: Vec<Client>,
    pub(crate) connections: usize,
    /// The number of saves in all.
    pub(crate) messages: usize,
    /// The saves per second, which begin whether or not earlier saves have a response; `None`: as fast as responses come.
    pub(crate) pace: Option<f64>,
}

/// A save whose response had status 200.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    pub(crate) tenant: u32,
    pub(crate) order: u64,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
}

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    pub(crate) done: Vec<Saved>,
    /// The number of saves whose response had another status than 200, or no order.
    pub(crate) refused: usize,
    /// The number of saves that had no response because the connection broke.
    pub(crate) broken: usize,
    /// The number of saves that had begun and had no response when [`LIMIT`] had passed.
    pub(crate) unanswered: usize,
    /// The first response that was not a success: its status and body.
    pub(crate) refusal: Option<String>,
}

/// A load that runs.
pub(crate) struct Running {
    result: oneshot::Receiver<Saves>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    answered: AtomicUsize,
    stop: AtomicBool,
}

impl Running {
    /// The number of saves whose response had status 200 so far.
    pub(crate) fn answered(&self) -> usize {
        self.progress.answered.load(Ordering::Relaxed)
    }

    /// Waits for the last response; returns the result.
    pub(crate) async fn end(self) -> Saves {
        self.result.await.expect("the generator does not panic")
    }

    /// Stops the load: no more saves begin.
    pub(crate) fn halt(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Starts the load on a thread of its own.
    pub(crate) fn start(self) -> Running {
        let (send, result) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        let own = Arc::clone(&progress);
        let generate = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let saves = LocalSet::new().block_on(&runtime, generate(self, own));
            // The receiver of the result is gone if the scenario has failed in the meantime.
            let _ = send.send(saves);
        };
        std::thread::Builder::new().name("generator".to_owned()).spawn(generate).expect("a thread");
        Running { result, progress }
    }

    /// Runs the load to its end.
    pub(crate) async fn run(self) -> Saves {
        self.start().end().await
    }
}

struct Generator {
    load: Load,
    begun: Cell<usize>,
    saves: RefCell<Saves>,
    progress: Arc<Progress>,
}

async fn generate(load: Load, progress: Arc<Progress>) -> Saves {
    let saves = RefCell::new(Saves::default());
    let generator = Rc::new(Generator { load, begun: Cell::new(0), saves, progress });
    let work = async {
        match generator.load.pace {
            None => closed(&generator).await,
            Some(rate) => paced(&generator, rate).await,
        }
    };
    // The counts show whether the time limit ended the load.
    let _ = tokio::time::timeout(LIMIT, work).await;
    let mut saves = generator.saves.take();
    saves.unanswered = generator.begun.get() - saves.done.len() - saves.refused - saves.broken;
    saves
}

/// Sends saves over each connection: the next save as soon as the last save has its response.
async fn closed(generator: &Rc<Generator>) {
    let mut tasks = Vec::new();
    for number in 0..generator.load.connections {
        let own = Rc::clone(generator);
        tasks.push(tokio::task::spawn_local(async move {
            let mut connection = None;
            while let Some(message) = own.next() {
                connection = own.save(message, number, connection).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

/// Begins saves at fixed times. Each save takes an idle connection, or opens a new one.
async fn paced(generator: &Rc<Generator>, rate: f64) {
    let idle = Rc::new(RefCell::new(Vec::new()));
    for number in 0..generator.load.connections {
        let connection = generator.open(number).await;
        idle.borrow_mut().push(connection);
    }
    let start = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    while let Some(message) = generator.next() {
        tokio::time::sleep_until(start + Duration::from_secs_f64(message as f64 / rate)).await;
        let (own, idle) = (Rc::clone(generator), Rc::clone(&idle));
        tasks.push(tokio::task::spawn_local(async move {
            let connection = idle.borrow_mut().pop();
            let connection = own.save(message, message, connection).await;
            idle.borrow_mut().extend(connection);
        }));
    }
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

impl Generator {
    /// The number of the next save; `None`: the load is complete or was stopped.
    fn next(&self) -> Option<usize> {
        let message = self.begun.get();
        let more = message < self.load.messages && !self.progress.stop.load(Ordering::Relaxed);
        more.then(|| self.begun.replace(message + 1))
    }

    /// Opens a connection as soon as a process listens.
    async fn open(&self, number: usize) -> Connection {
        loop {
            match Connection::open(self.load.apis[number % self.load.apis.len()]).await {
                Ok(connection) => return connection,
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Sends one save; returns its connection if that can be used again.
    async fn save(
        &self,
        message: usize,
        number: usize,
        connection: Option<Connection>,
    ) -> Option<Connection> {
        let mut connection = match connection {
            Some(connection) => connection,
            None => self.open(number).await,
        };
        let client = &self.load.clients[message % self.load.clients.len()];
        let begun = Instant::now();
        let response = connection.call(&client.request).await;
        let took = begun.elapsed();
        let mut saves = self.saves.borrow_mut();
        let Ok(response) = response else {
            saves.broken += 1;
            return None;
        };
        match (client.number)(response.body) {
            Some(order) if response.status == 200 => {
                saves.done.push(Saved { tenant: client.tenant, order, begun, took });
                self.progress.answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => {
                saves.refused += 1;
                let text = || format!("{} {}", response.status, response.text());
                saves.refusal.get_or_insert_with(text);
            }
        }
        Some(connection)
    }
}
