//! `docket trigger`: one sample of an event to a receiver, over the same path as a worker's attempt.

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use docket_commands::terminal::duration;
use docket_domain::delivery::{ATTEMPT_TIMEOUT, DeliveryId};
use docket_domain::event::{EventId, envelope};
use docket_domain::sample;
use docket_egress::{EgressPolicy, Post, Sender, SystemDns, Trust};
use docket_program::clock::Clock;
use docket_program::random;
use docket_program::screen::clean_lines;
use http::HeaderMap;
use ipnet::{Ipv4Net, Ipv6Net};
use url::Url;

use super::http::client;
use super::{ca_file, secret_file};
use crate::args::{ReceiverUrl, TriggerArguments};
use crate::delivery::attempt::send;

/// The most bytes of an answer that are printed.
const MAX_ANSWER: usize = 2_000;

/// Prints the envelope, or sends it and prints what became of it.
///
/// # Errors
///
/// A field does not fit the event, a file cannot be read, or the receiver did not answer 2xx.
pub async fn run(arguments: TriggerArguments) -> Result<()> {
    let TriggerArguments { event: code, set, customer, print: _, to, secret_file, ca_file } = arguments;
    let now = Clock::System.now();
    let mut data = sample::payload(code);
    for (field, value) in &set {
        data = sample::with(&data, field, value).map_err(|problem| anyhow::anyhow!("--set: {problem}"))?;
    }
    let (event, delivery) = (EventId::new(now, random::bytes()), DeliveryId::new(now, random::bytes()));
    let body = envelope(&event, now, &customer, &data);
    let Some(to) = to else { return print(&body) };

    let secret = secret_file.map(|path| secret_file::read(&path)).transpose()?;
    let trust = ca_file::read(ca_file.as_deref())?;
    let secrets: Vec<&[u8]> = secret.iter().map(Vec::as_slice).collect();
    let mut headers = send::headers(&secrets, (delivery, event.as_str(), code.as_str()), &body, now);
    send::mark_as_test(&mut headers);
    let to = match to {
        ReceiverUrl::Https(to) => to,
        ReceiverUrl::Loopback(to) => {
            println!("→ {code}  {event}  delivery {delivery}  {to}");
            return to_loopback(to, headers, body).await;
        }
    };
    // The user of the command names the address, so any will do; the metadata services of clouds are refused all the same.
    let everywhere = vec![
        Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into(),
        Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into(),
    ];
    let sender = Sender::new(EgressPolicy::new(everywhere, vec![]), SystemDns::new(), ATTEMPT_TIMEOUT);
    println!("→ {code}  {event}  delivery {delivery}  {to}");
    let outcome =
        sender.post(Post { url: to.url(), trust: &trust, headers, body: body.into(), afresh: true }).await;
    let report = outcome.report();
    show(report.http_status, report.times.total, report.answer.as_deref());
    match outcome.failed() {
        None => Ok(()),
        Some(failure) => {
            let class = failure.class;
            let cause = failure.known_cause().map_or(String::new(), |cause| format!(" ({})", cause.as_str()));
            // The remedies name the fields of a Webhook.
            let remedy = failure.remedy().replace("caBundleRef", "--ca-file").replace("targetURL", "--to");
            bail!("the attempt failed: {class}{cause}. {remedy}")
        }
    }
}

/// Sends without TLS to a receiver on this machine, whose author wants to try it.
async fn to_loopback(to: Url, headers: HeaderMap, body: Vec<u8>) -> Result<()> {
    let begun = Instant::now();
    let request = client(ATTEMPT_TIMEOUT, &Trust::public())?.post(to).headers(headers).body(body);
    let mut response = request
        .send()
        .await
        .map_err(|error| anyhow!("the attempt failed: {:#}", anyhow::Error::new(error.without_url())))?;
    let mut answer = Vec::new();
    while answer.len() < MAX_ANSWER
        && let Some(chunk) = response.chunk().await.map_err(|error| error.without_url())?
    {
        answer.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER - answer.len())]);
    }
    let status = response.status();
    show(Some(status.as_u16()), begun.elapsed(), Some(&String::from_utf8_lossy(&answer)));
    match status.is_success() {
        true => Ok(()),
        false => {
            bail!("the attempt failed: a delivery needs a status from 200 to 299, not {}", status.as_u16())
        }
    }
}

/// Prints a receiver's answer.
fn show(status: Option<u16>, took: Duration, answer: Option<&str>) {
    let status = status.map_or("no answer".to_owned(), |status| status.to_string());
    println!("← {status} in {}", duration(i64::try_from(took.as_micros()).unwrap_or(i64::MAX)));
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        println!("{}", clean_lines(answer).trim_end());
    }
}

/// The very bytes, with a newline for people only.
fn print(body: &[u8]) -> Result<()> {
    let mut out = io::stdout();
    let end: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
    out.write_all(&[body, end].concat()).and_then(|()| out.flush()).context("the envelope can't be printed")
}
