//! `docket listen`.

use std::sync::Arc;

use anyhow::{Context, Result};
use docket_program::clock::Clock;
use docket_program::signals::Signals;
use docket_receiver::{Behaviour, Certificate, Receiver, Settings};

use super::secret_file;
use crate::args::ListenArguments;

/// `docket listen`: a receiver to compare your own with.
pub async fn run(arguments: ListenArguments) -> Result<()> {
    let clock = Clock::System;
    let secret = match &arguments.secret_file {
        Some(path) => vec![secret_file::read(path)?],
        None => Vec::new(),
    };
    let certificate = Certificate::load_or_generate(&arguments.certificate_dir, clock.now().as_second())?;
    let signed = !secret.is_empty();
    let settings = Settings {
        listen: arguments.listen,
        certificate,
        secrets: Arc::new(move |_| secret.clone()),
        behaviour: Behaviour { fail: arguments.fail, delay: arguments.delay },
    };
    let printer_clock = clock.clone();
    let receiver = Receiver::start(settings, move |received| {
        let at = printer_clock.now().strftime("%H:%M:%S").to_string();
        println!("{}", docket_receiver::line(received, &at));
    })
    .await
    .context("the receiver can't start; choose another address with --listen")?;
    let mut signals = Signals::new()?;
    let address = receiver.address();
    let ca = arguments.certificate_dir.join("receiver-ca.pem");
    println!(
        "Listening on https://{address}/ for webhooks; {}.",
        match signed {
            true => "signatures are verified",
            false => "no --secret-file, so signatures are not verified",
        }
    );
    println!(
        "A Webhook sends here with this in its spec, and a ConfigMap beside it that holds {}:",
        ca.display()
    );
    println!("  targetURL: https://{address}/");
    println!("  caBundleRef: {{kind: ConfigMap, name: listen-ca, key: ca.crt}}");
    println!(
        "`docket dev` must be allowed to reach it: --allow-egress {}",
        match address.ip() {
            std::net::IpAddr::V4(ip) => format!("{ip}/32"),
            std::net::IpAddr::V6(ip) => format!("{ip}/128"),
        }
    );
    signals.next().await;
    receiver.stop().await;
    Ok(())
}
