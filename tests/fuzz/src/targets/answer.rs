//! Answers of receivers.
//!
//! The first byte says in what pieces the rest arrives, the second how often its last 64 bytes are repeated, so that a small
//! input can be a large answer.

use bytes::Bytes;
use docket_domain::delivery::{KEPT_ANSWER_CHARS, Report};
use docket_egress::{BodyEnd, Exchange};
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Duration, Instant};

use super::block_on;

/// More than this of an answer is not read, interim answers aside: headers, a buffer, what is kept and chunk extensions.
const MOST_READ: usize = 192 * 1024;
const PIPE: usize = 4 * 1024;

pub(crate) fn run(input: &[u8]) {
    let [pieces, repeat, answer @ ..] = input else { return };
    let mut sent = answer.to_vec();
    let tail = answer[answer.len().saturating_sub(64)..].repeat(usize::from(*repeat) * 16);
    sent.extend(tail);
    block_on(exchange(usize::from(*pieces) + 1, &sent));
}

async fn exchange(piece: usize, sent: &[u8]) {
    let (ours, theirs) = duplex(PIPE);
    let mut exchange = Exchange::start(ours).await.expect("an open stream");
    let request = Request::post("/").header("host", "a.example").body(Full::new(Bytes::from_static(b"{}")));
    let mut report = Report::default();
    let attempt = async move {
        let response = exchange.send(request.expect("a request")).await.ok()?;
        let until = Instant::now() + Duration::from_secs(30);
        let (end, verdict) = exchange.read(response, until, &mut report).await;
        let is_reusable = end == BodyEnd::Whole && exchange.is_reusable();
        Some((report, end, verdict, is_reusable))
    };
    let (ended, taken) = tokio::join!(attempt, receive(theirs, piece, sent));
    let Some((report, end, verdict, _)) = ended else { return };
    let status = report.http_status.expect("an answer has a status");
    // 101 ends what is HTTP, so it is an answer; the other interim ones are skipped.
    assert!(status == 101 || (200..1000).contains(&status), "{status}");
    assert_eq!(verdict.is_ok(), (200..300).contains(&status), "{status}");
    let kept = report.answer.expect("an answer's text is kept");
    assert!(kept.chars().count() <= KEPT_ANSWER_CHARS && !kept.contains('\0'));
    assert_ne!(end, BodyEnd::TimedOut, "the receiver never waits");
    let has_interim = sent.windows(10).any(|window| window.starts_with(b"HTTP/1.") && window.ends_with(b"1"));
    assert!(has_interim || taken <= MOST_READ, "{taken} bytes were read");
}

/// Reads the request's first bytes, sends the answer in pieces and closes. Returns how much of it was taken.
async fn receive(mut stream: DuplexStream, piece: usize, sent: &[u8]) -> usize {
    let _ = stream.read(&mut [0; 1024]).await;
    let mut taken = 0;
    for bytes in sent.chunks(piece) {
        if stream.write_all(bytes).await.is_err() {
            break;
        }
        taken += bytes.len();
        tokio::task::yield_now().await;
    }
    taken
}
