//! `docket trigger`: one sample of an event to a receiver, over the same path as a worker's attempt.

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use docket_commands::arguments::Output;
use docket_commands::terminal::duration;
use docket_commands::text;
use docket_crds::TargetUrl;
use docket_domain::delivery::{ATTEMPT_TIMEOUT, DeliveryId};
use docket_domain::event::{EventId, envelope};
use docket_domain::sample;
use docket_egress::{EgressPolicy, Post, Sender, SystemDns, Trust};
use docket_program::clock::Clock;
use docket_program::random;
use docket_program::screen::clean_lines;
use http::HeaderMap;
use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::json;
use url::Url;

use super::http::{answered, client};
use super::{ca_file, secret_file};
use crate::args::{ReceiverUrl, TriggerArguments};
use crate::delivery::attempt::send;

/// The most bytes of an answer that are printed.
const MAX_ANSWER: usize = 2_000;

/// What became of the sample.
struct Tried {
    /// The HTTP status; `None`: no response arrived.
    status: Option<u16>,
    took: Duration,
    /// The beginning of the response.
    answer: Option<String>,
    /// Why the attempt failed.
    failure: Option<String>,
}

/// Prints the envelope, or sends it and prints what became of it.
///
/// # Errors
///
/// A field does not fit the event, a file cannot be read, or the receiver did not answer 2xx.
pub async fn run(arguments: TriggerArguments) -> Result<()> {
    let TriggerArguments { event: code, set, customer, print: _, to, secret_file, ca_file, printed } =
        arguments;
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
    let headers = send::headers(&secrets, (delivery, event.as_str(), code.as_str()), true, &body, now);
    let shown = match &to {
        ReceiverUrl::Https(to) => to.to_string(),
        ReceiverUrl::Loopback(to) => to.to_string(),
    };
    let is_for_people = printed.output != Output::Json;
    if is_for_people {
        println!("→ {code}  {event}  delivery {delivery}  {shown}");
    }
    let tried = match to {
        ReceiverUrl::Https(to) => to_receiver(&to, &trust, headers, body).await,
        ReceiverUrl::Loopback(to) => to_loopback(to, headers, body).await?,
    };
    let Tried { status, took, answer, failure } = tried;
    match is_for_people {
        true => show(status, took, answer.as_deref()),
        false => text::json(&json!({
            "event": code.as_str(),
            "eventId": event.as_str(),
            "deliveryId": delivery.to_string(),
            "to": shown,
            "httpStatus": status,
            "milliseconds": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "response": answer,
            "failure": failure,
        })),
    }
    match failure {
        None => Ok(()),
        Some(failure) => bail!("the attempt failed: {failure}"),
    }
}

/// Sends as a worker does.
async fn to_receiver(to: &TargetUrl, trust: &Trust, headers: HeaderMap, body: Vec<u8>) -> Tried {
    // The user of the command names the address, so every address is allowed, except the metadata services of clouds.
    let everywhere = vec![
        Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into(),
        Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into(),
    ];
    let sender = Sender::new(EgressPolicy::new(everywhere, vec![]), SystemDns::new(), ATTEMPT_TIMEOUT);
    let outcome = sender.post(Post { url: to.url(), trust, headers, body: body.into(), afresh: true }).await;
    let failure = outcome.failed().map(|failure| {
        let class = failure.class;
        let cause = failure.known_cause().map_or(String::new(), |cause| format!(" ({})", cause.as_str()));
        // The remedies name the fields of a Webhook.
        let remedy = failure.remedy().replace("caBundleRef", "--ca-file").replace("targetURL", "--to");
        format!("{class}{cause}. {remedy}")
    });
    let report = outcome.report();
    Tried { status: report.http_status, took: report.times.total, answer: report.answer.clone(), failure }
}

/// Sends without TLS to a receiver on this machine, whose author wants to try it.
async fn to_loopback(to: Url, headers: HeaderMap, body: Vec<u8>) -> Result<Tried> {
    let begun = Instant::now();
    let request = client(ATTEMPT_TIMEOUT, &Trust::public())?.post(to).headers(headers).body(body);
    let read = answered(request, MAX_ANSWER).await;
    let took = begun.elapsed();
    Ok(match read {
        Err(error) => {
            let failure = format!("{:#}", anyhow::Error::new(error.without_url()));
            Tried { status: None, took, answer: None, failure: Some(failure) }
        }
        Ok((status, answer)) => {
            let wrong = || format!("a delivery needs a status from 200 to 299, not {status}");
            let failure = (!(200..300).contains(&status)).then(wrong);
            Tried { status: Some(status), took, answer: Some(answer), failure }
        }
    })
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
