//! A proxy between a program and a server. It can be cut, reset and restored, stall in one way or both, slow questions down,
//! be cut after a number of bytes, at a chosen question to PostgreSQL, or just after PostgreSQL has committed.

mod hostile;

pub use hostile::Manner;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;

/// How often a stalled connection looks whether it may continue.
const STALL_POLL: Duration = Duration::from_millis(2);
/// The number of bytes after which the proxy is cut, if it is not to be cut.
const NEVER: i64 = i64::MAX;

/// Forwards connections to one server. Each of its threads ends with its connection.
#[derive(Debug)]
pub struct Proxy {
    /// The address on which the proxy listens.
    pub address: SocketAddr,
    state: Arc<State>,
}

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

#[derive(Debug)]
struct State {
    asked: AtomicI64,
    cut_at: Mutex<Option<Question>>,
    refusing: AtomicBool,
    /// Whether connections end with RST.
    resetting: AtomicBool,
    silent: AtomicBool,
    /// Whether each [`Way`] stalls.
    stalled: [AtomicBool; 2],
    /// How much later the server gets each question, in milliseconds.
    delay_ms: AtomicU64,
    /// The number of bytes that clients still get before the proxy is cut; [`NEVER`].
    left: AtomicI64,
    /// The number of cuts by [`cut_at_question`](Proxy::cut_at_question), [`cut_at_commit`](Proxy::cut_at_commit) and
    /// [`cut_after`](Proxy::cut_after).
    cuts: AtomicUsize,
    /// How a hostile PostgreSQL responds in place of the server; `None`: the server responds.
    hostile: Mutex<Option<Manner>>,
    /// The number of connections that the hostile PostgreSQL had.
    met: AtomicUsize,
    /// The number of connections so far.
    accepted: AtomicUsize,
    /// Both ends of each open connection, with its number.
    open: Mutex<Vec<(usize, TcpStream)>>,
}

/// The question at which the proxy is cut.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// The question with this number; numbers begin at 1 when the question is chosen.
    Number(i64),
    /// The next COMMIT that the server has done.
    Commit,
}

/// Forwards what both sides of a connection send, until the connection ends.
type Forward = fn(client: TcpStream, server: TcpStream, state: &Arc<State>);

impl Proxy {
    /// A proxy to `server` that forwards bytes without reading them.
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
        let state = Arc::new(State::new());
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

    /// Cuts the proxy once PostgreSQL reports the next COMMIT, without forwarding the report: the transaction is
    /// committed, and the client does not learn it. A COMMIT that rolled back does not count.
    pub fn cut_at_commit(&self) {
        self.state.set_cut_at(Some(Question::Commit));
    }

    /// Cuts the proxy after clients have got `bytes` more bytes, over all connections.
    pub fn cut_after(&self, bytes: u32) {
        self.state.left.store(bytes.into(), Ordering::SeqCst);
    }

    /// Ends all connections with RST, and new connections as soon as they are opened.
    pub fn reset(&self) {
        self.state.resetting.store(true, Ordering::SeqCst);
        self.state.cut();
    }

    /// Stops forwarding one way: bytes wait until [`restore`](Self::restore), and connections stay open.
    pub fn stall(&self, way: Way) {
        self.state.stalled[way as usize].store(true, Ordering::SeqCst);
    }

    /// Delays each question, or each part of the client's bytes where questions are not known. Zero ends the delay.
    pub fn delay(&self, time: Duration) {
        self.state.delay_ms.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// The number of cuts so far at a question, at a COMMIT or after a number of bytes.
    pub fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Forwards again, also what a stall has kept; returns whether the proxy was cut. A delay stays.
    pub fn restore(&self) -> bool {
        self.state.set_cut_at(None);
        self.state.left.store(NEVER, Ordering::SeqCst);
        self.state.stalled.iter().for_each(|stalled| stalled.store(false, Ordering::SeqCst));
        self.state.resetting.store(false, Ordering::SeqCst);
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
    fn new() -> Self {
        Self {
            asked: AtomicI64::new(0),
            cut_at: Mutex::default(),
            refusing: AtomicBool::new(false),
            resetting: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            stalled: Default::default(),
            delay_ms: AtomicU64::new(0),
            left: AtomicI64::new(NEVER),
            cuts: AtomicUsize::new(0),
            hostile: Mutex::default(),
            met: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            open: Mutex::default(),
        }
    }

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
        matches!(self.cut_at(), Some(Question::Number(at)) if number == at)
    }

    /// Whether the proxy is cut at this message of the server: the report of a COMMIT.
    fn cuts_at_report(&self, message: &[u8]) -> bool {
        matches!(self.cut_at(), Some(Question::Commit)) && message[0] == b'C' && message[5..] == *b"COMMIT\0"
    }

    /// Writes bytes to one end of a connection as the faults allow. `None`: the connection ends.
    fn pass(&self, to: &mut TcpStream, bytes: &[u8], way: Way) -> Option<()> {
        while self.stalled[way as usize].load(Ordering::SeqCst) {
            if self.refusing.load(Ordering::SeqCst) {
                return None;
            }
            std::thread::sleep(STALL_POLL);
        }
        let length = i64::try_from(bytes.len()).ok()?;
        if way == Way::ToClient && self.left.load(Ordering::SeqCst) != NEVER {
            let left = self.left.fetch_sub(length, Ordering::SeqCst);
            if left < length {
                let _ = to.write_all(&bytes[..usize::try_from(left).unwrap_or(0)]);
                self.cut_now();
                return None;
            }
        }
        to.write_all(bytes).ok()
    }

    /// Waits for as long as a question is delayed.
    fn wait(&self) {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            std::thread::sleep(Duration::from_millis(delay));
        }
    }

    /// Cuts the proxy at a chosen place.
    fn cut_now(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.cut();
    }

    fn cut(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        for (_, stream) in self.open.lock().expect("no thread panics").drain(..) {
            self.end(&stream);
        }
    }

    /// Ends one end of a connection: with FIN, or with RST once the last handle of it is dropped.
    fn end(&self, stream: &TcpStream) {
        let _ = if self.resetting.load(Ordering::SeqCst) {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            // The thread that reads from it wakes up and ends, and nothing is sent.
            stream.shutdown(Shutdown::Read)
        } else {
            stream.shutdown(Shutdown::Both)
        };
    }
}

fn connect(client: TcpStream, server: SocketAddr, state: &Arc<State>, forward: Forward) {
    let number = state.accepted.fetch_add(1, Ordering::SeqCst);
    let open = |end: &TcpStream| state.open.lock().expect("no thread panics").push((number, handle(end)));
    let hostile = *state.hostile.lock().expect("no thread panics");
    if let Some(manner) = hostile {
        open(&client);
        return hostile::serve(client, manner, state.met.fetch_add(1, Ordering::SeqCst));
    }
    let Ok(server) = TcpStream::connect(server) else { return };
    for end in [&client, &server] {
        let _ = end.set_nodelay(true);
        open(end);
    }
    // A cut after the check in `forwarding` did not see this connection, so it is ended here.
    if state.refusing.load(Ordering::SeqCst) {
        state.end(&client);
    } else {
        forward(client, server, state);
    }
    state.open.lock().expect("no thread panics").retain(|(other, _)| *other != number);
}

fn handle(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a handle")
}

fn forward_bytes(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let (from_server, to_client, shared) = (handle(&server), handle(&client), Arc::clone(state));
    std::thread::spawn(move || copy(from_server, to_client, Way::ToClient, &shared));
    copy(client, server, Way::ToServer, state);
}

fn copy(mut from: TcpStream, mut to: TcpStream, way: Way, state: &State) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        match way {
            Way::ToClient if state.silent.load(Ordering::SeqCst) => continue,
            Way::ToClient => {}
            Way::ToServer => state.wait(),
        }
        if state.pass(&mut to, &buffer[..read], way).is_none() {
            break;
        }
    }
    state.end(&to);
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
            state.end(&server);
            return None;
        };
        let is_login = message[0] == b'p';
        ready += i64::from(matches!(message[0], b'Q' | b'S'));
        if state.counts_and_cuts_at(&message) {
            let response = if is_login { Withheld::Login } else { Withheld::Ready(ready) };
            *withheld.lock().expect("no thread panics") = Some(response);
        }
        if matches!(message[0], b'Q' | b'S' | b'p') {
            state.wait();
        }
        state.pass(&mut server, &message, Way::ToServer)?;
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
            state.end(&client);
            return None;
        };
        if state.cuts_at_report(&message) {
            state.cut_now();
            return None;
        }
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
            state.cut_now();
            return None;
        }
        ready += i64::from(message[0] == b'Z');
        if !is_withheld && !state.silent.load(Ordering::SeqCst) {
            state.pass(&mut client, &message, Way::ToClient)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that handles one connection, and a proxy that `make` puts before it.
    fn before(
        make: fn(SocketAddr) -> Proxy,
        serve: impl FnOnce(TcpStream) + Send + 'static,
    ) -> (Proxy, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || serve(listener.accept().expect("a connection").0));
        let proxy = make(address);
        let client = TcpStream::connect(proxy.address).expect("it listens");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        (proxy, client)
    }

    /// Sends back what it reads.
    fn echo(mut stream: TcpStream) {
        let mut buffer = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    }

    fn says(client: &mut TcpStream, what: &[u8]) -> std::io::Result<Vec<u8>> {
        client.write_all(what)?;
        let mut back = vec![0; what.len()];
        client.read_exact(&mut back).map(|()| back)
    }

    /// Responds to the startup message, and then to each question with this tag.
    fn database(tag: &'static [u8]) -> impl FnOnce(TcpStream) + Send {
        move |mut stream: TcpStream| {
            let ready = b"Z\0\0\0\x05I";
            assert!(message(&mut stream, false).is_some());
            stream.write_all(ready).expect("the proxy reads");
            while message(&mut stream, true).is_some() {
                let length = u32::try_from(tag.len() + 4).expect("short").to_be_bytes();
                if stream.write_all(&[&b"C"[..], &length, tag, ready].concat()).is_err() {
                    return;
                }
            }
        }
    }

    const STARTUP: &[u8] = b"\0\0\0\x08\0\x03\0\0";
    const QUESTION: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

    fn asks(proxy: &Proxy, client: &mut TcpStream) -> Vec<u8> {
        client.write_all(STARTUP).expect("the proxy reads");
        client.read_exact(&mut [0; 6]).expect("it is ready");
        proxy.cut_at_commit();
        client.write_all(QUESTION).expect("the proxy reads");
        let mut report = vec![0; 12];
        let read = client.read(&mut report).expect("the report or the end");
        report.truncate(read);
        report
    }

    #[test]
    fn the_report_of_a_commit_is_cut_off() {
        let (proxy, mut client) = before(Proxy::to_postgres, database(b"COMMIT\0"));
        assert_eq!(asks(&proxy, &mut client), b"");
        assert_eq!(proxy.cuts(), 1);
        assert!(proxy.restore());
    }

    #[test]
    fn a_commit_that_rolled_back_is_forwarded() {
        let (proxy, mut client) = before(Proxy::to_postgres, database(b"ROLLBACK\0"));
        assert!(asks(&proxy, &mut client).starts_with(b"C\0\0\0"));
        assert_eq!(proxy.cuts(), 0);
        assert!(!proxy.restore());
    }

    #[test]
    fn a_client_gets_so_many_bytes_and_no_more() {
        let (proxy, mut client) = before(Proxy::to, echo);
        assert_eq!(says(&mut client, b"before").expect("an echo"), b"before");
        proxy.cut_after(3);
        client.write_all(b"after").expect("the proxy reads");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert_eq!(rest, b"aft");
        assert_eq!(proxy.cuts(), 1);
    }

    #[test]
    fn a_stall_keeps_the_bytes_of_its_way_alone() {
        for way in [Way::ToServer, Way::ToClient] {
            let (proxy, mut client) = before(Proxy::to, echo);
            proxy.stall(way);
            client.write_all(b"late").expect("the proxy reads");
            client.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
            client.read_exact(&mut [0; 4]).expect_err("nothing comes");
            client.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
            assert!(!proxy.restore(), "it was not cut");
            let mut late = [0; 4];
            client.read_exact(&mut late).expect("it comes");
            assert_eq!(&late, b"late");
        }
    }

    #[test]
    fn a_reset_is_no_end_of_file() {
        let (proxy, mut client) = before(Proxy::to, echo);
        assert_eq!(says(&mut client, b"before").expect("an echo"), b"before");
        proxy.reset();
        let error = client.read(&mut [0; 1]).expect_err("no end of file");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_delay_is_of_each_question() {
        let (proxy, mut client) = before(Proxy::to, echo);
        proxy.delay(Duration::from_millis(50));
        let begun = std::time::Instant::now();
        assert_eq!(says(&mut client, b"late").expect("an echo"), b"late");
        assert!(begun.elapsed() >= Duration::from_millis(50));
    }
}
