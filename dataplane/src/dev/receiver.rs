//! The built-in webhook receiver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use docket_egress::Trust;
use docket_program::clock::Clock;
use docket_receiver::{Behaviour, Certificate, Receiver, ReceiverSettings};

use crate::args::DevArguments;
use crate::tenancy::{LocalReceiver, ServedTenant, Tenants};

/// Starts the receiver. Returns it with what webhooks need to reach and trust it; `None` with `--no-receiver`.
pub(super) async fn start(
    arguments: &DevArguments,
    tenants: &Arc<Tenants>,
    clock: &Clock,
) -> Result<Option<(Receiver, LocalReceiver)>> {
    if arguments.no_receiver {
        return Ok(None);
    }
    let folder = arguments.source.data_dir.join("receiver");
    let certificate = Certificate::load_or_generate(&folder, clock.now().as_second())?;
    let trust = Trust::with_bundle(certificate.ca_pem()).context("the receiver's own certificate")?;
    let known = Arc::clone(tenants);
    // The port is known once the receiver listens: with port 0 the system chooses.
    let port = Arc::new(AtomicU16::new(0));
    let its_port = Arc::clone(&port);
    let settings = ReceiverSettings {
        listen: arguments.receiver,
        certificate,
        secrets: Arc::new(move |path| secrets_of(&known.all(), its_port.load(Ordering::Acquire), path)),
        behaviour: Behaviour::default(),
        forward: None,
    };
    let printer_clock = clock.clone();
    let receiver = Receiver::start(settings, move |received| {
        let at = printer_clock.now().strftime("%H:%M:%SZ").to_string();
        println!("{}", docket_receiver::line(received, &at));
    })
    .await
    .context(
        "the built-in receiver can't start; choose another address with --receiver, or use --no-receiver",
    )?;
    port.store(receiver.address().port(), Ordering::Release);
    let local = LocalReceiver { sockets: sockets(receiver.address()), trust };
    Ok(Some((receiver, local)))
}

/// The sockets at which a receiver with this address is reached: the loopback sockets if it listens on all addresses.
fn sockets(address: SocketAddr) -> Vec<SocketAddr> {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![(Ipv4Addr::LOCALHOST, port).into()],
        IpAddr::V6(ip) if ip.is_unspecified() => {
            vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
        }
        _ => vec![address],
    }
}

/// The secrets of the webhooks that send to this path of the receiver.
fn secrets_of(tenants: &[Arc<ServedTenant>], port: u16, path: &str) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    for tenant in tenants {
        let webhooks = tenant.config.webhooks.iter();
        let here = webhooks
            .filter(|webhook| webhook.target_url.port() == port && webhook.target_url.url().path() == path);
        let here = here.filter_map(|webhook| webhook.secret.as_ref());
        secrets.extend(here.map(|secret| secret.expose().to_vec()));
    }
    secrets
}

#[cfg(test)]
mod tests {
    use docket_crds::WebhookConfig;
    use docket_store::sqlite::Sqlite;
    use serde_json::json;

    use super::*;
    use crate::tenancy::testing::{config, served};

    #[tokio::test]
    async fn path_has_the_secrets_of_the_webhooks_that_send_to_it() {
        let webhook = |target: &str, secret: &str| {
            let webhook = json!({"uid": target, "namespace": "a", "name": "w", "displayName": null, "customerCode": "C-1",
                "targetUrl": target, "secret": null, "caBundle": null, "events": [], "active": true});
            let webhook: WebhookConfig = serde_json::from_value(webhook).expect("a webhook");
            WebhookConfig { secret: Some(secret.as_bytes().to_vec().into()), ..webhook }
        };
        let mut config = config("u");
        config.webhooks = vec![
            webhook("https://127.0.0.1:8443/one", "secret-1"),
            webhook("https://127.0.0.1:8443/two", "secret-2"),
            webhook("https://127.0.0.1:9443/one", "secret-3"),
        ];
        let tenants = [served(config, Sqlite::new("never-opened.db".into()))];
        assert_eq!(secrets_of(&tenants, 8443, "/one"), [b"secret-1".to_vec()]);
        assert_eq!(secrets_of(&tenants, 8443, "/two"), [b"secret-2".to_vec()]);
        assert!(secrets_of(&tenants, 8443, "/other").is_empty());
    }

    #[test]
    fn receiver_on_all_addresses_is_reached_on_this_machine_alone() {
        let of = |address: &str| {
            let sockets = sockets(address.parse().expect("an address"));
            sockets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("127.0.0.2:8443"), "127.0.0.2:8443");
        assert_eq!(of("0.0.0.0:8443"), "127.0.0.1:8443");
        assert_eq!(of("[::]:8443"), "127.0.0.1:8443 [::1]:8443");
        assert_eq!(of("[2001:db8::1]:8443"), "[2001:db8::1]:8443");
    }
}
