//! A webhook receiver that responds as a test's script says, down to the bytes, and records what came and when.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use docket_receiver::Certificate;
use docket_rig::scratch::Folder;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{SECRET, webhook_yaml};

/// One POST, read to its end.
#[derive(Debug, Clone)]
pub struct Post {
    /// When the last byte of the POST was in.
    pub at: Instant,
    /// Path and query.
    pub path: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// The raw body.
    pub body: Vec<u8>,
}

impl Post {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// `X-Service-Delivery-Id`.
    pub fn delivery(&self) -> String {
        self.header("x-service-delivery-id").expect("a delivery id").to_owned()
    }

    /// Whether `X-Service-Signature` is the HMAC-SHA256 of the raw body by this secret, in hexadecimal.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length is a key");
        mac.update(&self.body);
        self.header("x-service-signature") == Some(&hex::encode(mac.finalize().into_bytes()))
    }

    /// The body as JSON.
    pub fn envelope(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The `id` of the envelope.
    pub fn event(&self) -> String {
        self.envelope()["id"].as_str().expect("an id").to_owned()
    }

    /// The web order that it is about.
    pub fn order(&self) -> String {
        self.envelope()["data"]["webOrderId"].as_str().expect("a web order").to_owned()
    }
}

/// A response.
#[derive(Debug, Clone)]
pub enum Response {
    /// This status and a short body.
    Status(u16),
    /// These bytes; the connection stays open.
    Raw(Vec<u8>),
    /// These bytes, then the end of the connection.
    Last(Vec<u8>),
    /// The inner response, after this time.
    After(Duration, Box<Response>),
    /// No response; the connection stays open.
    Hang,
}

impl Response {
    /// The response `answer`, sent after `delay`.
    pub fn after(delay: Duration, answer: Response) -> Self {
        Self::After(delay, Box::new(answer))
    }

    /// A whole response.
    pub fn whole(status: u16, headers: &str, body: &[u8]) -> Self {
        let head =
            format!("HTTP/1.1 {status} As Scripted\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        Self::Raw([head.as_bytes(), body].concat())
    }
}

type Script = Box<dyn FnMut(&Post) -> Response + Send>;

struct Shared {
    posts: Mutex<Vec<Post>>,
    script: Mutex<Script>,
    connections: AtomicUsize,
    answered: AtomicUsize,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver on `https://127.0.0.1`; clones are the same one. It lasts as long as its test's runtime.
#[derive(Clone)]
pub struct Receiver {
    /// The plain port behind the TLS one.
    pub plain: u16,
    port: u16,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Responds 200.
    pub async fn start() -> Self {
        Self::scripted(|_| Response::Status(200)).await
    }

    /// Responds as `script` says to what is signed with [`SECRET`], and 401 to anything else.
    pub async fn verifying(mut script: impl FnMut(&Post) -> Response + Send + 'static) -> Self {
        Self::scripted(
            move |post| {
                if post.is_signed_with(SECRET) { script(post) } else { Response::Status(401) }
            },
        )
        .await
    }

    /// Responds as `script` says, which runs once per POST, one at a time.
    pub async fn scripted(script: impl FnMut(&Post) -> Response + Send + 'static) -> Self {
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

    /// Responds by this script from now on.
    pub fn script(&self, script: impl FnMut(&Post) -> Response + Send + 'static) {
        *lock(&self.shared.script) = Box::new(script);
    }

    /// The URL of a path here.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// A Webhook to `path` here, signed with [`SECRET`], that trusts the authority of [`ca_yaml`].
    pub fn webhook_yaml(&self, tenant: &str, name: &str, customer: &str, path: &str) -> String {
        let webhook = webhook_yaml(tenant, name, customer, &self.url(path));
        format!("{webhook}  caBundleRef: {{kind: ConfigMap, name: receiver-ca}}\n")
    }

    /// The TLS port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All that came so far.
    pub fn posts(&self) -> Vec<Post> {
        lock(&self.shared.posts).clone()
    }

    /// All that came to this path so far.
    pub fn posts_to(&self, path: &str) -> Vec<Post> {
        lock(&self.shared.posts).iter().filter(|post| post.path == path).cloned().collect()
    }

    /// Forgets the POSTs that came so far. A script that needs them has to keep them.
    pub fn forget(&self) {
        lock(&self.shared.posts).clear();
    }

    /// How many came so far, since the last [`forget`](Self::forget).
    pub fn count(&self) -> usize {
        lock(&self.shared.posts).len()
    }

    /// Connections so far whose TLS handshake succeeded.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many responses were written.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some(post) = read(&mut stream, &mut buffer).await {
        // Recorded before the response: a test that sees its effect sees the POST, too.
        let mut answer = {
            let mut script = lock(&shared.script);
            lock(&shared.posts).push(post.clone());
            script(&post)
        };
        while let Response::After(delay, inner) = answer {
            tokio::time::sleep(delay).await;
            answer = *inner;
        }
        let (bytes, last) = match answer {
            Response::Status(204) => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), false),
            Response::Status(status) => {
                let body = format!("answered {status}");
                let length = body.len();
                (format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes(), false)
            }
            Response::Raw(bytes) => (bytes, false),
            Response::Last(bytes) => (bytes, true),
            Response::Hang => {
                // Waits until the sender hangs up.
                let _ = stream.read(&mut [0; 1]).await;
                return;
            }
            Response::After(..) => unreachable!("unwrapped above"),
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
            // A client speaks TLS to the plain port; web servers respond like this.
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
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/receiver_tls.py");
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
        // Once the program responds, it has read its certificate, and the folder is no longer needed.
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

/// A ConfigMap `receiver-ca` with the authority of all [`Receiver`]s.
pub fn ca_yaml() -> String {
    let indented: String = lock(&FRONT).ca_pem.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: receiver-ca}}\ndata:\n  ca.crt: |\n{indented}"
    )
}
