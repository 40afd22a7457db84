//! A webhook receiver in the test's own process, which remembers all that it got.

use std::sync::{Arc, Mutex, PoisonError};

use docket_receiver::{Behaviour, Certificate, Received, Receiver, Settings};

use crate::server::SECRET;

/// A receiver that remembers.
#[expect(missing_debug_implementations, reason = "nothing of it is worth printing")]
pub struct Sink {
    receiver: Receiver,
    ca_pem: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Sink {
    /// On a free port, answering 200.
    pub async fn start() -> Self {
        Self::behaving(0, Behaviour::default()).await
    }

    /// On this port (0: a free one), behaving like this.
    pub async fn behaving(port: u16, behaviour: Behaviour) -> Self {
        let certificate = Certificate::generate(jiff_now()).expect("a certificate");
        let ca_pem = certificate.ca_pem().to_owned();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        let settings = Settings {
            listen: ([127, 0, 0, 1], port).into(),
            certificate,
            secrets: Arc::new(|_| vec![SECRET.as_bytes().to_vec()]),
            behaviour,
        };
        let receiver = Receiver::start(settings, move |one| {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(one.clone());
        });
        Self { receiver: receiver.await.expect("it starts"), ca_pem, received }
    }

    /// The URL of a path on it.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.receiver.address().port())
    }

    /// A ConfigMap named `receiver-ca` with its CA, and the lines that make a Webhook trust it.
    pub fn ca_yaml(&self) -> String {
        let indented: String = self.ca_pem.lines().map(|line| format!("    {line}\n")).collect();
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: receiver-ca}}\ndata:\n  ca.crt: |\n{indented}"
        )
    }

    /// A Webhook to `path` here that trusts the CA of [`ca_yaml`](Self::ca_yaml).
    pub fn webhook_yaml(&self, tenant: &str, name: &str, customer: &str, path: &str) -> String {
        let webhook = crate::server::webhook_yaml(tenant, name, customer, &self.url(path));
        format!("{webhook}  caBundleRef: {{kind: ConfigMap, name: receiver-ca}}\n")
    }

    /// All that has come so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops it; connections end.
    pub async fn stop(self) {
        self.receiver.stop().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a certificate is valid from now on")]
fn jiff_now() -> i64 {
    jiff::Timestamp::now().as_second()
}
