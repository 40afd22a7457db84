//! A `docket dev` on the shipped examples, as a new user starts it, but on free ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use docket_rig::ports::free_port;
use docket_tests::server::{Client, Home, JSON, Options, Server, eventually};
use serde_json::json;

/// The password of the sample users, as the program prints it and the documents say it.
pub(crate) const PASSWORD: &str = "docket-sample-1";
/// A sample contact.
pub(crate) const CONTACT: &str = "ada@quillfeather.example";

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository").to_owned()
}

/// The shipped examples with another port for the built-in receiver, and that port.
pub(crate) fn home() -> (Home, u16) {
    let home = Home::new();
    let port = free_port();
    for entry in std::fs::read_dir(repository().join("examples")).expect("examples/ is there") {
        let path = entry.expect("readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        if name.ends_with(".yaml") {
            let text = std::fs::read_to_string(&path).expect("readable");
            home.write(name, &text.replace("8443", &port.to_string()));
        }
    }
    (home, port)
}

/// A program that runs on it, and what it has printed since this start.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) banner: String,
}

impl Running {
    /// Starts it and waits until it has said all that it says at its start.
    pub(crate) async fn start(home: &Home, receiver: u16, flags: &str) -> Self {
        let before = printed(home).len();
        let mut options = Options::flags(flags);
        options.receiver = Some(receiver);
        let server = Server::start(home, options).await;
        let said = || printed(home)[before..].to_owned();
        eventually("the banner", Duration::from_secs(10), async || said().contains("Press Ctrl-C to stop."))
            .await;
        Self { server, banner: said() }
    }

    /// The API key printed for a tenant.
    pub(crate) fn key(&self, code: &str) -> String {
        let tenant = self.banner.split(&format!("Tenant {code} ")).nth(1).expect("the tenant is printed");
        let key = tenant.split("API key primary: ").nth(1).and_then(|rest| rest.lines().next());
        key.expect("its key is printed").to_owned()
    }

    /// The sample contact with both credentials.
    pub(crate) async fn sign_in(&self) -> Client {
        let key = self.key("ACME");
        let body = json!({"userId": CONTACT, "password": PASSWORD}).to_string();
        let reply = self.server.send("POST", "/Auth/Token", &[("x-api-key", &key), JSON], &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let token = reply.json()["token"].as_str().expect("a token").to_owned();
        Client { api: self.server.api, key, token }
    }
}

/// All that was printed on standard output, over restarts.
pub(crate) fn printed(home: &Home) -> String {
    std::fs::read_to_string(home.log("out")).unwrap_or_default()
}
