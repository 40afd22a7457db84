//! Calls to the data plane's routes for the platform's staff, on the management port of a pod of the API: through a
//! forwarded port, with a token of the user. Errors quote only the `detail` of a response.

use std::error::Error as _;
use std::iter::successors;
use std::net::Ipv4Addr;
use std::time::Duration;

use docket_program::screen::clean;
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, retry};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::args::{Object, ReachArguments};
use crate::cluster::Cluster;
use crate::problem::Problem;

/// The port of pods that serves these routes.
pub(crate) const PORT: u16 = 9090;
/// The longest response, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// A route that every data plane with platform.enabled serves. Without a token, it responds 401.
const OLDEST_ROUTE: &str = "/platform/namespaces/default/tenants/any/deliveries";
/// The time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the data plane, with the user's token.
pub(crate) struct DataPlane {
    client: Client,
    port: u16,
    bearer: HeaderValue,
}

/// The parameters of a query. Parameters without a value are left out.
pub(crate) type Query<'a> = &'a [(&'a str, Option<String>)];

impl DataPlane {
    pub(crate) async fn connect(cluster: &Cluster, reach: &ReachArguments) -> Result<Self, Problem> {
        let bearer = cluster.bearer(reach.account.as_ref()).await?;
        Ok(Self { client: client()?, port: reached(cluster, reach).await?, bearer })
    }

    /// Sends a GET to a route of an object in the user's namespace.
    pub(crate) async fn get(
        &self,
        cluster: &Cluster,
        object: &Object,
        route: &str,
        query: Query<'_>,
    ) -> Result<Value, Problem> {
        self.call(self.client.get(url(self.port, &path(cluster, object, route, query)))).await
    }

    /// Sends a POST to a route of an object in the user's namespace.
    pub(crate) async fn post(
        &self,
        cluster: &Cluster,
        object: &Object,
        route: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        let to = url(self.port, &path(cluster, object, route, &[]));
        self.call(self.client.post(to).json(body)).await
    }

    async fn call(&self, request: RequestBuilder) -> Result<Value, Problem> {
        let (status, body) = sent(request.header(AUTHORIZATION, self.bearer.clone())).await?;
        let answer = serde_json::from_slice::<Value>(&body).ok();
        match answer {
            Some(answer) if status.is_success() => Ok(answer),
            None if matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => {
                let (status, _) = sent(self.client.get(url(self.port, OLDEST_ROUTE))).await?;
                Err(unserved(status != StatusCode::NOT_FOUND))
            }
            answer => Err(refusal(status, answer.as_ref())),
        }
    }
}

/// Reads `/metrics` of a pod of the API, as text.
pub(crate) async fn metrics(cluster: &Cluster, reach: &ReachArguments) -> Result<Vec<u8>, Problem> {
    let (status, body) = sent(client()?.get(url(reached(cluster, reach).await?, "/metrics"))).await?;
    if status.is_success() { Ok(body) } else { Err(refusal(status, None)) }
}

/// The port of 127.0.0.1 that leads to the data plane.
async fn reached(cluster: &Cluster, reach: &ReachArguments) -> Result<u16, Problem> {
    match reach.local_port {
        Some(port) => Ok(port),
        None => cluster.forwarded(&reach.release_namespace, PORT).await,
    }
}

fn url(port: u16, path: &str) -> String {
    format!("http://{}:{port}{path}", Ipv4Addr::LOCALHOST)
}

/// An HTTP client. It trusts no authority, because it only speaks plain HTTP to the user's own machine.
fn client() -> Result<Client, Problem> {
    let tls = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .retry(retry::never())
        .no_proxy()
        .timeout(TIMEOUT)
        .build()
        .map_err(failed)
}

async fn sent(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Problem> {
    let mut response = request.send().await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&part);
        if body.len() > MAX_ANSWER {
            return Err(Problem::Found(format!("the data plane's answer is longer than {MAX_ANSWER} bytes")));
        }
    }
    Ok((response.status(), body))
}

fn failed(error: reqwest::Error) -> Problem {
    if error.is_timeout() {
        let text = format!("the data plane did not answer within {} s; try again", TIMEOUT.as_secs());
        return Problem::Unavailable(text);
    }
    let what = if error.is_connect() {
        "nothing answers at the port of the data plane"
    } else {
        "the connection to the data plane failed"
    };
    let cause = successors(error.source(), |&cause| cause.source()).last().map(ToString::to_string);
    Problem::Unavailable(format!("{what}: {}", cause.unwrap_or_else(|| error.without_url().to_string())))
}

fn path(cluster: &Cluster, object: &Object, route: &str, query: Query<'_>) -> String {
    let Object { kind, name } = object;
    let mut path =
        format!("/platform/namespaces/{}/{}/{name}/{route}", cluster.own_namespace(), kind.resource());
    let given = query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query = Serializer::new(String::new()).extend_pairs(given).finish();
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    path
}

/// The problem that a response without success describes.
fn refusal(status: StatusCode, answer: Option<&Value>) -> Problem {
    let detail = answer.and_then(|answer| answer["detail"].as_str()).map(clean);
    let why = detail.clone().unwrap_or_else(|| format!("it answered {status} without saying why"));
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Problem::NoAccess(format!("the data plane refuses: {why}"))
        }
        StatusCode::TOO_MANY_REQUESTS => {
            Problem::Unavailable(format!("the data plane has too much to do: {why}; try again"))
        }
        _ if status.is_server_error() => {
            Problem::Unavailable(format!("the data plane is not available: {why}; try again"))
        }
        _ => Problem::Found(detail.unwrap_or_else(|| format!("the data plane refuses: {why}"))),
    }
}

/// The problem that the data plane does not serve the command's route. `serves_others`: it serves other such routes.
fn unserved(serves_others: bool) -> Problem {
    let text = match serves_others {
        true => concat!(
            "the data plane is older than this plugin (",
            env!("CARGO_PKG_VERSION"),
            ") and does not have the command; upgrade Docket, or use the plugin of its version"
        ),
        false => {
            "the data plane does not serve this command; set platform.enabled=true in the values of the chart"
        }
    };
    Problem::Found(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_status() {
        let detail = json!({"detail": "You may\nnot"});
        let said = |status, answer: Option<&Value>| {
            let problem = refusal(status, answer);
            (problem.exit_code(), problem.to_string())
        };
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
            let (code, text) = said(status, Some(&detail));
            assert_eq!((code, text.contains("the data plane refuses: You may not;")), (3, true), "{text}");
            assert_eq!(said(status, None).0, 3);
        }
        assert_eq!(said(StatusCode::CONFLICT, Some(&detail)), (1, "You may not".to_owned()));
    }

    #[test]
    fn data_plane_that_is_busy_or_fails_was_not_asked() {
        let detail = json!({"detail": "Redis is away"});
        for status in
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY]
        {
            for answer in [Some(&detail), None] {
                let problem = refusal(status, answer);
                assert!(matches!(problem, Problem::Unavailable(_)), "{problem}");
            }
        }
        let text = refusal(StatusCode::SERVICE_UNAVAILABLE, Some(&detail)).to_string();
        assert_eq!(text, "the data plane is not available: Redis is away; try again");
    }

    #[test]
    fn older_data_plane_is_not_one_that_serves_no_command() {
        let older = unserved(true);
        assert!(older.exit_code() == 1 && older.text().contains("is older than this plugin"), "{older}");
        assert!(unserved(false).text().contains("set platform.enabled=true"));
    }
}
