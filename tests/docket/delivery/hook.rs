//! A webhook receiver that answers as the case tells it to, down to the bytes, and remembers what came and when.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use docket_receiver::Certificate;
use docket_rig::scratch::Folder;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One POST, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// When its last byte was in.
    pub(crate) at: Instant,
    /// Path and query.
    pub(crate) path: String,
    /// Names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// `X-Service-Delivery-Id`.
    pub(crate) fn delivery(&self) -> String {
        self.header("x-service-delivery-id").expect("a delivery id").to_owned()
    }

    pub(crate) fn envelope(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The `id` of the envelope.
    pub(crate) fn event(&self) -> String {
        self.envelope()["id"].as_str().expect("an id").to_owned()
    }

    /// The web order that it is about.
    pub(crate) fn order(&self) -> String {
        self.envelope()["data"]["webOrderId"].as_str().expect("a web order").to_owned()
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// This status and a short body.
    Status(u16),
    /// These bytes; the connection stays open.
    Raw(Vec<u8>),
    /// These bytes, then the end of the connection.
    Last(Vec<u8>),
    /// The inner one, later.
    After(Duration, Box<Answer>),
    /// Nothing, ever.
    Hang,
}

impl Answer {
    /// The inner one, so much later.
    pub(crate) fn after(delay: Duration, answer: Answer) -> Self {
        Self::After(delay, Box::new(answer))
    }

    /// A whole answer of its own.
    pub(crate) fn whole(status: u16, headers: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 {status} As Told\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        Self::Raw([head.as_bytes(), body].concat())
    }
}

type Script = Box<dyn FnMut(&Post) -> Answer + Send>;

struct Shared {
    posts: Mutex<Vec<Post>>,
    script: Mutex<Script>,
    connections: AtomicUsize,
    answered: AtomicUsize,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver; clones are the same one. It lasts as long as its test's runtime.
#[derive(Clone)]
pub(crate) struct Hook {
    /// The plain port behind the TLS one.
    pub(crate) plain: u16,
    port: u16,
    shared: Arc<Shared>,
}

impl Hook {
    /// Answers 200.
    pub(crate) async fn start() -> Self {
        Self::scripted(|_| Answer::Status(200)).await
    }

    /// Answers what `script` says, which is asked once per POST, one at a time.
    pub(crate) async fn scripted(script: impl FnMut(&Post) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let plain = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared {
            posts: Mutex::default(),
            script: Mutex::new(Box::new(script)),
            connections: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, Arc::clone(&accepting)));
            }
        });
        let port = tokio::task::spawn_blocking(move || lock(&FRONT).open(plain)).await.expect("a TLS port");
        Self { plain, port, shared }
    }

    /// Answers this from now on.
    pub(crate) fn script(&self, script: impl FnMut(&Post) -> Answer + Send + 'static) {
        *lock(&self.shared.script) = Box::new(script);
    }

    /// The URL of a path here.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// The TLS port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// All that came so far.
    pub(crate) fn posts(&self) -> Vec<Post> {
        lock(&self.shared.posts).clone()
    }

    /// All that came to this path so far.
    pub(crate) fn posts_to(&self, path: &str) -> Vec<Post> {
        lock(&self.shared.posts).iter().filter(|post| post.path == path).cloned().collect()
    }

    /// How many came so far.
    pub(crate) fn count(&self) -> usize {
        lock(&self.shared.posts).len()
    }

    /// Connections so far whose TLS handshake went well.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many answers were written.
    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some(post) = read(&mut stream, &mut buffer).await {
        // Noted before it is answered: whoever sees the effect of an answer sees the POST, too.
        let mut answer = {
            let mut script = lock(&shared.script);
            lock(&shared.posts).push(post.clone());
            script(&post)
        };
        while let Answer::After(delay, inner) = answer {
            tokio::time::sleep(delay).await;
            answer = *inner;
        }
        let (bytes, last) = match answer {
            Answer::Status(204) => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), false),
            Answer::Status(status) => {
                let body = format!("answered {status}");
                let length = body.len();
                (format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes(), false)
            }
            Answer::Raw(bytes) => (bytes, false),
            Answer::Last(bytes) => (bytes, true),
            Answer::Hang => {
                // Until the sender hangs up.
                let _ = stream.read(&mut [0; 1]).await;
                return;
            }
            Answer::After(..) => unreachable!("unwrapped above"),
        };
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        shared.answered.fetch_add(1, Ordering::Relaxed);
        if last {
            return;
        }
    }
}

const TLS_HANDSHAKE: u8 = 22;

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Post> {
    let head_end = loop {
        if buffer.first() == Some(&TLS_HANDSHAKE) {
            // Somebody speaks TLS to the plain port; this is what web servers answer.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        }
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).expect("an ASCII head");
    let mut lines = head.trim_end().split("\r\n");
    let mut request = lines.next()?.split(' ');
    assert_eq!(request.next(), Some("POST"));
    let path = request.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").expect("a header"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse::<usize>().ok()?;
    while buffer.len() < head_end + length {
        more(stream, buffer).await?;
    }
    let rest = buffer.split_off(head_end + length);
    let body = std::mem::replace(buffer, rest).split_off(head_end);
    Some(Post { at: Instant::now(), path, headers, body })
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(1..) => Some(()),
        Ok(0) | Err(_) => None,
    }
}

/// The one process that does TLS for all receivers of this test program; it ends with us.
struct Front {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    ca_pem: String,
}

static FRONT: LazyLock<Mutex<Front>> = LazyLock::new(|| Mutex::new(Front::start()));

impl Front {
    #[expect(clippy::disallowed_methods, reason = "a certificate is valid from now on")]
    fn start() -> Self {
        let folder = Folder::new("front");
        let now = jiff::Timestamp::now().as_second();
        let certificate = Certificate::load_or_generate(folder.path(), now).expect("a certificate");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docket/delivery/front.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([folder.path().join("receiver.pem"), folder.path().join("receiver-key.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is needed for TLS");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let ca_pem = certificate.ca_pem().to_owned();
        let mut front = Self { _child: child, input, output, ca_pem };
        // It has read its certificate once it answers; then the folder may go.
        front.open(9);
        front
    }

    fn open(&mut self, plain: u16) -> u16 {
        writeln!(self.input, "{plain}").expect("the front runs");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the front answers");
        line.trim().parse().expect("a port")
    }
}

/// A ConfigMap `front-ca` with the authority of all [`Hook`]s.
pub(crate) fn ca_yaml() -> String {
    let indented: String = lock(&FRONT).ca_pem.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: front-ca}}\ndata:\n  ca.crt: |\n{indented}"
    )
}
