//! The load generator: saves over kept connections, on a thread of its own. A connection sends the next save when it has
//! the response to the last one, or at a pace that does not wait for responses.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::http::Connection;

/// No load lasts longer than this.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Who saves.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// The tenant's number, as in the paths of the receiver.
    pub(crate) tenant: u32,
    /// The whole request.
    pub(crate) request: Arc<[u8]>,
    /// Finds the number of the order in the body of a response with the status 200.
    pub(crate) number: fn(&[u8]) -> Option<u64>,
}

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Where the API is. Connections are spread over all.
    pub(crate) apis: Vec<SocketAddr>,
    /// Save number n is of client n modulo their count.
    pub(crate) clients: Vec<Client>,
    pub(crate) connections: usize,
    /// How many saves in all.
    pub(crate) messages: usize,
    /// Saves per second, begun whether or not the earlier ones have been answered; `None`: as fast as responses come.
    pub(crate) pace: Option<f64>,
}

/// A save that was answered with 200.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    pub(crate) tenant: u32,
    pub(crate) order: u64,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
}

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    pub(crate) done: Vec<Saved>,
    /// Answered with something else than 200.
    pub(crate) refused: usize,
    /// Not answered, because the connection broke.
    pub(crate) broken: usize,
    /// Begun, and neither of these when time was up.
    pub(crate) unanswered: usize,
    /// The first answer that was not 200.
    pub(crate) refusal: Option<String>,
}

/// A load under way.
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
    /// How many saves were answered with 200 so far.
    pub(crate) fn answered(&self) -> usize {
        self.progress.answered.load(Ordering::Relaxed)
    }

    /// Waits for the last response.
    pub(crate) async fn end(self) -> Saves {
        self.result.await.expect("the generator does not panic")
    }

    /// Begins no more saves.
    pub(crate) fn halt(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let (send, result) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        let own = Arc::clone(&progress);
        let generate = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let saves = LocalSet::new().block_on(&runtime, generate(self, own));
            // The scenario may have failed in the meantime.
            let _ = send.send(saves);
        };
        std::thread::Builder::new().name("generator".to_owned()).spawn(generate).expect("a thread");
        Running { result, progress }
    }

    /// Runs it to its end.
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
    // The counts show whether time was up.
    let _ = tokio::time::timeout(LIMIT, work).await;
    let mut saves = generator.saves.take();
    saves.unanswered = generator.begun.get() - saves.done.len() - saves.refused - saves.broken;
    saves
}

/// Each connection sends its next save when it has a response.
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

/// Saves begin at their times; each takes a connection that is idle, or a new one.
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
    /// The number of the next save; `None`: no more.
    fn next(&self) -> Option<usize> {
        let message = self.begun.get();
        let more = message < self.load.messages && !self.progress.stop.load(Ordering::Relaxed);
        more.then(|| self.begun.replace(message + 1))
    }

    /// A connection, as soon as a process listens.
    async fn open(&self, number: usize) -> Connection {
        loop {
            match Connection::open(self.load.apis[number % self.load.apis.len()]).await {
                Ok(connection) => return connection,
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// One save; returns the connection if it can be used again.
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
