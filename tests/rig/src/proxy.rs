//! A proxy between a program and a server. It can be cut and restored, fall silent, or be cut at a chosen question to
//! PostgreSQL.

mod hostile;

pub use hostile::Manner;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections to one server. Each of its threads ends with its connection.
#[derive(Debug)]
pub struct Proxy {
    /// The address on which the proxy listens.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: AtomicI64,
    cut_at: Mutex<Option<Question>>,
    refusing: AtomicBool,
    silent: AtomicBool,
    /// How a hostile PostgreSQL responds in place of the server; `None`: the server responds.
    hostile: Mutex<Option<Manner>>,
    /// The number of connections that the hostile PostgreSQL had.
    met: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

/// The question at which the proxy is cut.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// The question with this number; numbers begin at 1 when the question is chosen.
    Number(i64),
    /// The next COMMIT.
    Commit,
}

/// Forwards what both sides of a connection send, until the connection ends.
type Forward = fn(client: TcpStream, server: TcpStream, state: &Arc<State>);

impl Proxy {
    /// A proxy to `server` that forwards bytes, whatever they mean.
    pub fn to(server: SocketAddr) -> Self {
        Self::forwarding(server, forward_bytes)
    }

    /// A proxy to a PostgreSQL without TLS. It counts the questions of all connections: queries, rounds of the
    /// extended protocol, and the client's messages of a login.
    pub fn to_postgres(server: SocketAddr) -> Self {
        Self::forwarding(server, forward_messages)
    }

    fn forwarding(server: SocketAddr, forward: Forward) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if !state.refusing.load(Ordering::SeqCst) {
                    std::thread::spawn(move || connect(client, server, &state, forward));
                }
            }
        });
        Self { address, state }
    }

    /// Ends all connections, and ends new connections as soon as they are opened.
    pub fn cut(&self) {
        self.state.cut();
    }

    /// Counts questions from zero, and cuts the proxy once the server has responded to question `at`, without
    /// forwarding the response. For the server this is the same as a cut before question `at + 1`.
    pub fn cut_at_question(&self, at: i64) {
        self.state.asked.store(0, Ordering::SeqCst);
        self.state.set_cut_at(Some(Question::Number(at)));
    }

    /// Cuts the proxy once the server has responded to the next COMMIT, without forwarding the response.
    pub fn cut_at_commit(&self) {
        self.state.set_cut_at(Some(Question::Commit));
    }

    /// Forwards again; returns whether the proxy was cut.
    pub fn restore(&self) -> bool {
        self.state.set_cut_at(None);
        self.state.refusing.swap(false, Ordering::SeqCst)
    }

    /// Ends all connections. A hostile PostgreSQL responds to new ones; with `None` the server does again.
    pub fn turn_hostile(&self, manner: Option<Manner>) {
        *self.state.hostile.lock().expect("no thread panics") = manner;
        self.cut();
        self.restore();
    }

    /// Forwards nothing that the server sends from now on; connections stay open.
    pub fn fall_silent(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }
}

impl State {
    fn set_cut_at(&self, question: Option<Question>) {
        *self.cut_at.lock().expect("no thread panics") = question;
    }

    fn cut_at(&self) -> Option<Question> {
        *self.cut_at.lock().expect("no thread panics")
    }

    /// Counts a message if it is a question; returns whether the proxy is cut at this message.
    fn counts_and_cuts_at(&self, message: &[u8]) -> bool {
        if !matches!(message[0], b'Q' | b'S' | b'p') {
            return false;
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        match self.cut_at() {
            Some(Question::Number(at)) => number == at,
            Some(Question::Commit) => message[0] == b'Q' && message[5..].starts_with(b"COMMIT"),
            None => false,
        }
    }

    fn cut(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        for stream in self.open.lock().expect("no thread panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(client: TcpStream, server: SocketAddr, state: &Arc<State>, forward: Forward) {
    let hostile = *state.hostile.lock().expect("no thread panics");
    if let Some(manner) = hostile {
        state.open.lock().expect("no thread panics").push(handle(&client));
        return hostile::serve(client, manner, state.met.fetch_add(1, Ordering::SeqCst));
    }
    let Ok(server) = TcpStream::connect(server) else { return };
    for end in [&client, &server] {
        let _ = end.set_nodelay(true);
        state.open.lock().expect("no thread panics").push(handle(end));
    }
    // A cut after the check in `forwarding` did not see this connection, so it is ended here.
    if state.refusing.load(Ordering::SeqCst) {
        let _ = client.shutdown(Shutdown::Both);
        return;
    }
    forward(client, server, state);
}

fn handle(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a handle")
}

fn forward_bytes(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let (from_server, to_client, shared) = (handle(&server), handle(&client), Arc::clone(state));
    std::thread::spawn(move || copy(from_server, to_client, || shared.silent.load(Ordering::SeqCst)));
    copy(client, server, || false);
}

fn copy(mut from: TcpStream, mut to: TcpStream, is_silent: impl Fn() -> bool) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !is_silent() && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The response of a connection that is not forwarded to the client.
#[derive(Clone, Copy)]
enum Withheld {
    /// The server's next response to a login.
    Login,
    /// The response that ends with the server's ReadyForQuery message of this number, from 1.
    Ready(i64),
}

fn forward_messages(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let withheld = Arc::new(Mutex::new(None));
    let (from_server, to_client) = (handle(&server), handle(&client));
    let (shared, of_responses) = (Arc::clone(state), Arc::clone(&withheld));
    std::thread::spawn(move || forward_responses(from_server, to_client, &shared, &of_responses));
    forward_questions(client, server, state, &withheld);
}

/// Forwards the client's messages, counts its questions, and chooses the response that is withheld.
fn forward_questions(
    mut client: TcpStream,
    mut server: TcpStream,
    state: &State,
    withheld: &Mutex<Option<Withheld>>,
) -> Option<()> {
    // The first message of a connection has no type byte.
    let first = message(&mut client, false)?;
    server.write_all(&first).ok()?;
    // The server sends its first ReadyForQuery message at the end of the login.
    let mut ready = 1;
    loop {
        let Some(message) = message(&mut client, true) else {
            let _ = server.shutdown(Shutdown::Both);
            return None;
        };
        let is_login = message[0] == b'p';
        ready += i64::from(matches!(message[0], b'Q' | b'S'));
        if state.counts_and_cuts_at(&message) {
            let response = if is_login { Withheld::Login } else { Withheld::Ready(ready) };
            *withheld.lock().expect("no thread panics") = Some(response);
        }
        server.write_all(&message).ok()?;
    }
}

/// Forwards the server's messages. A response at which the proxy is cut is read to its end and not forwarded.
fn forward_responses(
    mut server: TcpStream,
    mut client: TcpStream,
    state: &State,
    withheld: &Mutex<Option<Withheld>>,
) -> Option<()> {
    let mut ready = 1;
    loop {
        let Some(message) = message(&mut server, true) else {
            let _ = client.shutdown(Shutdown::Both);
            return None;
        };
        let mut withheld = withheld.lock().expect("no thread panics");
        // The proxy was restored meanwhile: no client waits for the withheld response, such as one to the end of a statement.
        if state.cut_at().is_none() {
            *withheld = None;
        }
        let (is_withheld, is_end) = match *withheld {
            Some(Withheld::Login) => (true, matches!(message[0], b'Z' | b'R' | b'E')),
            Some(Withheld::Ready(number)) => (number == ready, number == ready && message[0] == b'Z'),
            None => (false, false),
        };
        drop(withheld);
        if is_end {
            state.cut();
            return None;
        }
        ready += i64::from(message[0] == b'Z');
        if !is_withheld && !state.silent.load(Ordering::SeqCst) {
            client.write_all(&message).ok()?;
        }
    }
}

fn message(from: &mut TcpStream, is_typed: bool) -> Option<Vec<u8>> {
    let mut message = vec![0; if is_typed { 5 } else { 4 }];
    from.read_exact(&mut message).ok()?;
    let length = message[message.len() - 4..].try_into().map(u32::from_be_bytes).ok()? as usize;
    let head = message.len();
    message.resize(head + length - 4, 0);
    from.read_exact(&mut message[head..]).ok()?;
    Some(message)
}
