//! `docket listen`.

use std::sync::Arc;

use anyhow::{Context, Result};
use docket_domain::delivery::ATTEMPT_TIMEOUT;
use docket_program::clock::Clock;
use docket_program::signals::Signals;
use docket_receiver::{Behaviour, Certificate, Forward, Receiver, ReceiverSettings};

use super::{ca_file, http, secret_file};
use crate::args::{ListenArguments, ListenOutput};

/// `docket listen`: a receiver to compare your own with.
pub async fn run(arguments: ListenArguments) -> Result<()> {
    let clock = Clock::System;
    let secret = match &arguments.secret_file {
        Some(path) => vec![secret_file::read(path)?],
        None => Vec::new(),
    };
    let certificate = Certificate::load_or_generate(&arguments.certificate_dir, clock.now().as_second())?;
    let signed = !secret.is_empty();
    // Docket waits no longer for an answer.
    let trust = ca_file::read(arguments.forward_ca_file.as_deref())?;
    let client = http::client(ATTEMPT_TIMEOUT, &trust)?;
    let forward = arguments.forward_to.map(|url| Forward { client, url });
    let output = arguments.output;
    let settings = ReceiverSettings {
        listen: arguments.listen,
        certificate,
        secrets: Arc::new(move |_| secret.clone()),
        behaviour: Behaviour { fail: arguments.fail, delay: arguments.delay },
        forward,
    };
    let printer_clock = clock.clone();
    let receiver = Receiver::start(settings, move |received| {
        let now = printer_clock.now();
        println!(
            "{}",
            match output {
                ListenOutput::Lines =>
                    docket_receiver::line(received, &now.strftime("%H:%M:%SZ").to_string()),
                ListenOutput::Json => docket_receiver::json(received, &format!("{now:.3}")),
            }
        );
    })
    .await
    .context("the receiver can't start; choose another address with --listen")?;
    let mut signals = Signals::new()?;
    let address = receiver.address();
    let ca = arguments.certificate_dir.join("receiver-ca.pem");
    let notice = format!(
        "Listening on https://{address}/ for webhooks; {signatures}.\n\
         A Webhook sends here with this in its spec, and a ConfigMap beside it that holds {ca}:\n  \
         targetURL: https://{address}/\n  caBundleRef: {{kind: ConfigMap, name: listen-ca, key: ca.crt}}\n\
         `docket dev` must be allowed to reach it: --allow-egress {ip}/{bits}",
        signatures = match signed {
            true => "signatures are verified",
            false => "no --secret-file, so signatures are not verified",
        },
        ca = ca.display(),
        ip = address.ip(),
        bits = if address.is_ipv4() { 32 } else { 128 },
    );
    match output {
        ListenOutput::Lines => println!("{notice}"),
        // Standard output is for a program.
        ListenOutput::Json => eprintln!("{notice}"),
    }
    signals.next().await;
    receiver.stop().await;
    Ok(())
}
