//! A real SMTP server, which keeps the messages it gets: `aiosmtpd`, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use docket_receiver::Certificate;
use docket_rig::scratch::Folder;

use crate::languages::cache;
use crate::server::Home;
use crate::stores::write_secret;

/// An SMTP server on `127.0.0.1`; it ends when it is dropped.
#[derive(Debug)]
pub struct MailServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: Folder,
    port: u16,
    is_tls: bool,
}

/// A message that an SMTP server got.
#[derive(Debug, Clone)]
pub struct Mail {
    /// The headers in their order, each in one line.
    pub headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: String,
}

impl Mail {
    /// The value of a header, which must exist.
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {name}: {self:?}"));
        assert!(found.next().is_none(), "two {name}: {self:?}");
        value
    }

    /// The address that it was sent to.
    pub fn to(&self) -> &str {
        self.header("X-Envelope-To")
    }

    /// The first line of the body that begins with `start`.
    pub fn line(&self, start: &str) -> &str {
        let line = self.body.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no line {start}: {self:?}"))
    }

    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).expect("a message").replace("\r\n", "\n");
        let (head, body) = text.split_once("\n\n").expect("a head");
        let head = head.replace("\n ", " ").replace("\n\t", " ");
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_owned(), value.trim().to_owned())
        };
        Self { headers: head.lines().map(header).collect(), body: quoted_printable(body) }
    }
}

/// Decodes a text of RFC 2045, 6.7.
fn quoted_printable(text: &str) -> String {
    let text = text.replace("=\n", "");
    let mut parts = text.split('=');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at(2);
        bytes.extend(hex::decode(byte).expect("two digits"));
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).expect("UTF-8")
}

impl MailServer {
    /// A server without TLS, as on the machine of a relay.
    pub fn start() -> Self {
        Self::of(Folder::new("mail"), &[], false)
    }

    /// A server that speaks TLS from the first byte, and wants the user `docket` and the password `s3cret`.
    #[expect(clippy::disallowed_methods, reason = "a certificate is valid from now on")]
    pub fn with_tls() -> Self {
        let folder = Folder::new("mail");
        let now = jiff::Timestamp::now().as_second();
        Certificate::load_or_generate(folder.path(), now).expect("a certificate");
        let [certificate, key] = ["receiver.pem", "receiver-key.pem"].map(|file| folder.path().join(file));
        let arguments = [certificate, key, "docket".into(), "s3cret".into()];
        Self::of(folder, &arguments, true)
    }

    fn of(folder: Folder, arguments: &[PathBuf], is_tls: bool) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mail_server.py");
        let mut child = Command::new(cache().join("venv/bin/python"))
            .arg(script)
            .arg(folder.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("tests/run installs the Python packages of tests/requirements.txt");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self { child, input, output, folder, port: 0, is_tls };
        server.port = server.line().parse().expect("a port: is aiosmtpd installed?");
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it runs");
        line.trim().to_owned()
    }

    /// The flags for a server of Docket that sends by this one. The files are in `home`.
    pub fn flags(&self, home: &Home) -> String {
        let (scheme, credentials) = if self.is_tls { ("smtps", "docket:s3cret@") } else { ("smtp", "") };
        let file = home.log("smtp-url");
        write_secret(&file, &format!("{scheme}://{credentials}127.0.0.1:{}\n", self.port));
        let from = "--mail-from docket@docket.example --mail-interval 100ms";
        let mut flags = format!("--smtp-url-file {} {from}", file.display());
        if self.is_tls {
            let authorities = self.folder.path().join("receiver-ca.pem");
            flags += &format!(" --smtp-ca-file {}", authorities.display());
        }
        flags
    }

    /// Replies to each message with this from now on: `250 OK`, `451 later`; `silence`: with nothing; `lost`: keeps the message and
    /// closes the connection; `lost only ADDRESS`: the same for one address.
    pub fn reply(&mut self, reply: &str) {
        writeln!(self.input, "{reply}").expect("it runs");
        assert_eq!(self.line(), "changed");
    }

    /// The messages so far, in their order.
    pub fn messages(&self) -> Vec<Mail> {
        let files = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        files.retain(|file| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".eml") && !name.starts_with('.')
        });
        files.sort();
        files.iter().map(|file| Mail::read(file)).collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
