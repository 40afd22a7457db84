//! A wire between us and PostgreSQL that can be cut at each question, or go silent.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Counts the questions (queries, rounds of the extended protocol, answers of a login) of all its connections.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    asked: AtomicI64,
    /// The question at which the wire is cut; 0: never.
    cut_at: AtomicI64,
    refusing: AtomicBool,
    silent: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = shared.clone();
                if !state.refusing.load(Ordering::SeqCst) {
                    std::thread::spawn(move || connect(client, server, &state));
                }
            }
        });
        Self { port, state }
    }

    /// Forgets what was counted, and cuts everything once the server has answered question `at`, without passing the
    /// answer on. For the server that is the same as a cut before question `at + 1`.
    pub(crate) fn cut(&self, at: i64) {
        self.state.asked.store(0, Ordering::SeqCst);
        self.state.cut_at.store(at, Ordering::SeqCst);
    }

    /// Mends the wire; answers whether it had been cut.
    pub(crate) fn mend(&self) -> bool {
        self.state.cut_at.store(0, Ordering::SeqCst);
        self.state.refusing.swap(false, Ordering::SeqCst)
    }

    /// From now on nothing is passed on.
    pub(crate) fn fall_silent(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// Cuts everything, and lets nobody in.
    pub(crate) fn refuse(&self) {
        self.state.refuse();
    }
}

impl State {
    fn refuse(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        for stream in self.open.lock().expect("no thread panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(client: TcpStream, server: u16, state: &Arc<State>) {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("the server listens");
    let ends = [&client, &server].map(|end| end.try_clone().expect("a handle"));
    state.open.lock().expect("no thread panics").extend(ends);
    let answered = Arc::new(AtomicBool::new(false));
    let (from_server, to_client) =
        (server.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
    let (shared, cutting) = (state.clone(), answered.clone());
    std::thread::spawn(move || answers(from_server, to_client, &shared, &cutting));
    questions(client, server, state, &answered);
}

/// From the client: counts, and cuts.
fn questions(
    mut client: TcpStream,
    mut server: TcpStream,
    state: &State,
    cutting: &AtomicBool,
) -> Option<()> {
    // The first message has no type.
    let first = message(&mut client, false)?;
    server.write_all(&first).ok()?;
    loop {
        let Some(message) = message(&mut client, true) else {
            let _ = server.shutdown(Shutdown::Both);
            return None;
        };
        let is_question = matches!(message[0], b'Q' | b'S' | b'p');
        if is_question
            && state.asked.fetch_add(1, Ordering::SeqCst) + 1 == state.cut_at.load(Ordering::SeqCst)
        {
            cutting.store(true, Ordering::SeqCst);
        }
        server.write_all(&message).ok()?;
    }
}

/// From the server; when it is to be cut, what follows is read to its end, and not passed on.
fn answers(mut server: TcpStream, mut client: TcpStream, state: &State, cutting: &AtomicBool) -> Option<()> {
    loop {
        let Some(message) = message(&mut server, true) else {
            let _ = client.shutdown(Shutdown::Both);
            return None;
        };
        // Mended meanwhile: the question was one that nobody waits for, such as the end of a statement.
        if state.cut_at.load(Ordering::SeqCst) == 0 {
            cutting.store(false, Ordering::SeqCst);
        }
        if cutting.load(Ordering::SeqCst) {
            // Ready for the next question, or in the middle of a login.
            if matches!(message[0], b'Z' | b'R' | b'E') {
                state.refuse();
                return None;
            }
        } else if !state.silent.load(Ordering::SeqCst) {
            client.write_all(&message).ok()?;
        }
    }
}

fn message(from: &mut TcpStream, typed: bool) -> Option<Vec<u8>> {
    let mut message = vec![0; if typed { 5 } else { 4 }];
    from.read_exact(&mut message).ok()?;
    let length = message[message.len() - 4..].try_into().map(u32::from_be_bytes).ok()? as usize;
    let head = message.len();
    message.resize(head + length - 4, 0);
    from.read_exact(&mut message[head..]).ok()?;
    Some(message)
}
