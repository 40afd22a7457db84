//! Requests to the API server without a program for each: for a benchmark, which sends tens of thousands.

use std::path::Path;
use std::time::Duration;

use docket_egress::Trust;
use reqwest::{Method, Response};
use serde_json::Value;

/// The time limit of a request that is no watch.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the API server that keeps its connections. A request that fails panics with the response.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    server: String,
    token: String,
}

impl Client {
    /// A client for the user of a kubeconfig that [`Cluster`](super::Cluster) wrote, with the URL, the file of the
    /// authority and the token of its first entries.
    pub fn new(kubeconfig: &Path) -> Self {
        let text = std::fs::read(kubeconfig).expect("the cluster wrote it");
        let kubeconfig: Value = serde_json::from_slice(&text).expect("the cluster writes JSON");
        let text =
            |pointer: &str| kubeconfig.pointer(pointer).and_then(Value::as_str).expect(pointer).to_owned();
        let authority = std::fs::read(text("/clusters/0/cluster/certificate-authority"));
        let trust = Trust::with_bundle(authority.expect("the API server wrote it")).expect("certificates");
        let http = reqwest::Client::builder().tls_backend_preconfigured(trust.tls()).no_proxy().build();
        Self {
            http: http.expect("a client"),
            server: text("/clusters/0/cluster/server"),
            token: text("/users/0/user/token"),
        }
    }

    /// POSTs an object to a path.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.call(Method::POST, path, "application/json", object).await
    }

    /// PATCHes an object by a merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> Value {
        self.call(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Begins to watch a path, which has a query. The body has an event in each line, and no end for half an hour or more.
    pub(super) async fn watch(&self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.server)).bearer_auth(&self.token);
        let response = request.send().await.expect("the API server answers");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response
    }

    async fn call(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Value {
        let request = self.http.request(method, format!("{}{path}", self.server)).bearer_auth(&self.token);
        let request = request.header("content-type", content_type).body(body.to_string()).timeout(PATIENCE);
        let response = request.send().await.expect("the API server answers");
        let status = response.status();
        let body = response.bytes().await.expect("the whole response");
        assert!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("the API server sends JSON")
    }
}
