//! The stream of the audit: one JSON object per line, to a file or to standard output.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use docket_domain::audit::AuditRecord;
use docket_domain::moment;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::telemetry::{Lost, Metrics};

/// The most lines that wait for a slow reader, some 250 bytes each.
const MAX_WAITING: usize = 10_000;
/// How long the last lines may take when the process ends.
const END: Duration = Duration::from_secs(2);

/// A stream, which a thread of its own writes.
pub struct Stream(SyncSender<StreamMessage>);

enum StreamMessage {
    Line(String),
    Flush(oneshot::Sender<()>),
}

/// A line; docs/reference/audit.md describes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine<'a> {
    time: String,
    id: &'a str,
    event: &'a str,
    tenant: Option<&'a str>,
    actor: Option<&'a str>,
    subject: Option<&'a str>,
    address: Option<String>,
    request_id: Option<&'a str>,
    count: i64,
    detail: Option<&'a str>,
}

impl<'a> AuditLine<'a> {
    /// The line about an entry of this tenant.
    pub fn new(tenant: Option<&'a str>, record: &'a AuditRecord) -> Self {
        let AuditRecord { at_ms, id, event, actor, subject, origin, count, detail } = record;
        Self {
            time: Timestamp::from_millisecond(*at_ms).map_or_else(|_| String::new(), moment::written),
            id,
            event: event.as_str(),
            tenant,
            actor: actor.as_deref(),
            subject: subject.as_deref(),
            address: origin.address.map(|address| address.to_string()),
            request_id: origin.request_id.as_deref(),
            count: *count,
            detail: detail.as_deref(),
        }
    }
}

/// One line of JSON with its end.
fn line(tenant: Option<&str>, record: &AuditRecord) -> String {
    serde_json::to_string(&AuditLine::new(tenant, record)).expect("plain structs serialise") + "\n"
}

impl Stream {
    /// Opens a file to add lines to. Only its owner may read it. `-` is standard output.
    ///
    /// # Errors
    ///
    /// The file can't be opened for writing.
    pub fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::to(io::stdout(), metrics);
        }
        Self::to(OpenOptions::new().append(true).create(true).mode(0o600).open(path)?, metrics)
    }

    fn to(output: impl Write + Send + 'static, metrics: Arc<Metrics>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        std::thread::Builder::new().name("audit".into()).spawn(move || run(receiver, output, &metrics))?;
        Ok(Self(sender))
    }

    /// Queues a line. Returns `false` if too many lines wait.
    pub(super) fn write(&self, tenant: Option<&str>, record: &AuditRecord) -> bool {
        self.0.try_send(StreamMessage::Line(line(tenant, record))).is_ok()
    }

    /// Waits until all queued lines are written, for two seconds at most.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let mut message = StreamMessage::Flush(done);
        let flush = async {
            while let Err(TrySendError::Full(back)) = self.0.try_send(message) {
                message = back;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let _ = flushed.await;
        };
        // If the reader stands still, only its last lines are missing.
        let _ = tokio::time::timeout(END, flush).await;
    }
}

fn run(messages: Receiver<StreamMessage>, mut output: impl Write, metrics: &Metrics) {
    let mut is_failing = false;
    for message in messages {
        match message {
            StreamMessage::Line(line) => {
                match output.write_all(line.as_bytes()).and_then(|()| output.flush()) {
                    Ok(()) => is_failing = false,
                    Err(error) => {
                        metrics.audit_lost(Lost::Line, 1);
                        // One warning until writing works again.
                        if !std::mem::replace(&mut is_failing, true) {
                            tracing::warn!(error = %error, "audit lines can't be written; check --audit-log");
                        }
                    }
                }
            }
            StreamMessage::Flush(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use docket_domain::audit::{Actor, AuditEvent, Origin};

    use super::*;

    fn longest() -> AuditRecord {
        AuditRecord::new(AuditEvent::DeliveryResent, 1_795_219_200_000, [7; 8])
            .by(&Actor::Contact("\u{1}".repeat(9_999)))
            .about("delivery", &"\u{1}".repeat(9_999))
            .saying(Some(&"\u{1}".repeat(9_999)))
            .at(Origin { address: Some([198, 51, 100, 7].into()), request_id: Some("q".into()) })
    }

    #[test]
    fn line_has_every_field_and_no_other() {
        let record = AuditRecord::new(AuditEvent::SignedIn, 1_795_219_200_000, [7; 8]);
        let expected = "{\"time\":\"2026-11-21T00:00:00.000Z\",\"id\":\"0707070707070707\",\"event\":\"SignedIn\",\
                        \"tenant\":\"ACME\",\"actor\":null,\"subject\":null,\"address\":null,\"requestId\":null,\
                        \"count\":1,\"detail\":null}\n";
        assert_eq!(line(Some("ACME"), &record), expected);
    }

    #[test]
    fn every_field_is_documented() {
        let (_, fields) =
            include_str!("../../../docs/reference/audit.md").split_once("## Fields").expect("its section");
        let line: serde_json::Value = serde_json::from_str(&line(None, &longest())).expect("JSON");
        for field in line.as_object().expect("an object").keys() {
            assert!(fields.contains(&format!("\n| `{field}` |")), "docs/reference/audit.md lacks {field}");
        }
    }

    #[test]
    fn line_is_short_whatever_a_code_holds() {
        let line = line(Some("ACME"), &longest());
        assert!(line.len() <= 4_096 && line.matches('\n').count() == 1, "{} bytes", line.len());
    }

    /// A writer that blocks until its lock is free.
    struct Stuck(Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn reader_that_stands_still_holds_up_no_one() {
        let written = Arc::new(std::sync::Mutex::new(Vec::new()));
        let stream = Stream::to(Stuck(Arc::clone(&written)), Arc::default()).expect("a thread");
        let stuck = written.lock().expect("no panic");
        let taken = (0..3 * MAX_WAITING).filter(|_| stream.write(None, &longest())).count();
        // The writing thread has taken one line out of the queue.
        assert!((MAX_WAITING..=MAX_WAITING + 1).contains(&taken), "{taken}");
        drop(stuck);
        stream.flush().await;
        let lines = written.lock().expect("no panic").iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, taken, "what was taken is written");
    }

    #[test]
    fn file_is_added_to_and_only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("docket-audit-{}.log", std::process::id()));
        std::fs::write(&path, "before\n").expect("writable");
        drop(Stream::open(&path, Arc::default()).expect("a file"));
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "before\n");
        std::fs::remove_file(&path).expect("removable");
        drop(Stream::open(&path, Arc::default()).expect("a file"));
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_file(&path).expect("removable");
        assert!(Stream::open(Path::new("/nowhere/audit.log"), Arc::default()).is_err());
    }
}
