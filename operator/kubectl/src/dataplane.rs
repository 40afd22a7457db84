//! The data plane's routes for the platform's staff, on the management port of a pod of the API: by a forwarded port, with a
//! token of the user. Its errors quote nothing of an answer but the data plane's own `detail`.

use std::net::Ipv4Addr;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::form_urlencoded::Serializer;

use crate::args::{Object, ReachArguments};
use crate::cluster::{Cluster, Problem};
use crate::show::clean;

/// The port of the pods that the routes are on.
pub(crate) const PORT: u16 = 9090;
/// The longest answer, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the data plane.
pub(crate) struct DataPlane {
    sender: SendRequest<Full<Bytes>>,
    bearer: HeaderValue,
}

/// Parameters of a query; absent ones are left out.
pub(crate) type Query<'a> = &'a [(&'a str, Option<String>)];

impl DataPlane {
    pub(crate) async fn connect(cluster: &Cluster, reach: &ReachArguments) -> Result<Self, Problem> {
        let bearer = cluster.bearer(reach.account.as_ref()).await?;
        Ok(Self { sender: reached(cluster, reach).await?, bearer })
    }

    /// GET of a route of an object in the user's namespace.
    pub(crate) async fn get(
        &mut self,
        cluster: &Cluster,
        object: &Object,
        route: &str,
        query: Query<'_>,
    ) -> Result<Value, Problem> {
        self.call(Method::GET, &path(cluster, object, route, query), Bytes::new()).await
    }

    /// POST to a route of an object in the user's namespace.
    pub(crate) async fn post(
        &mut self,
        cluster: &Cluster,
        object: &Object,
        route: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        self.call(Method::POST, &path(cluster, object, route, &[]), body.to_string().into()).await
    }

    async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Value, Problem> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "docket")
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| Problem::Found(error.to_string()))?;
        let (status, body) = sent(&mut self.sender, request).await?;
        let answer = serde_json::from_slice::<Value>(&body).ok();
        if let (true, Some(answer)) = (status.is_success(), &answer) {
            return Ok(answer.clone());
        }
        Err(refusal(status, answer.as_ref()))
    }
}

/// `/metrics` of a pod of the API, as text.
pub(crate) async fn metrics(cluster: &Cluster, reach: &ReachArguments) -> Result<Vec<u8>, Problem> {
    let mut sender = reached(cluster, reach).await?;
    let request = Request::get("/metrics").header(HOST, "docket").body(Full::default());
    let request = request.map_err(|error| Problem::Found(error.to_string()))?;
    let (status, body) = sent(&mut sender, request).await?;
    if status.is_success() { Ok(body.into()) } else { Err(refusal(status, None)) }
}

#[expect(clippy::disallowed_methods, reason = "a port of the user's own machine, which the user names")]
async fn reached(cluster: &Cluster, reach: &ReachArguments) -> Result<SendRequest<Full<Bytes>>, Problem> {
    match reach.local_port {
        Some(port) => {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            let away = |error| Problem::NoAccess(format!("nothing answers at 127.0.0.1:{port}: {error}"));
            opened(stream.map_err(away)?).await
        }
        None => opened(cluster.forwarded(&reach.release_namespace, PORT).await?).await,
    }
}

async fn opened(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Problem> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| away(&error))?;
    // It ends with the sender; a request says what went wrong.
    tokio::spawn(connection);
    Ok(sender)
}

async fn sent(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Problem> {
    let answered = timeout(TIMEOUT, async {
        sender.ready().await.map_err(|error| away(&error))?;
        let response = sender.send_request(request).await.map_err(|error| away(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|_| Problem::Found("the data plane's answer did not arrive whole".into()))?;
        Ok((status, body.to_bytes()))
    });
    let slow = || Problem::NoAccess(format!("the data plane did not answer within {} s", TIMEOUT.as_secs()));
    answered.await.map_err(|_| slow())?
}

fn away(error: &hyper::Error) -> Problem {
    Problem::NoAccess(format!("the connection to the data plane failed: {error}"))
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

/// What an answer that is no success says.
fn refusal(status: StatusCode, answer: Option<&Value>) -> Problem {
    let detail = answer.and_then(|answer| answer["detail"].as_str()).map(clean);
    match (status, detail) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE, Some(detail)) => {
            Problem::NoAccess(format!("the data plane refuses: {detail}"))
        }
        (_, Some(detail)) => Problem::Found(detail),
        (StatusCode::NOT_FOUND, None) => Problem::Found(
            "the data plane does not serve this command; set platform.enabled=true in the values of the chart".into(),
        ),
        (status, None) => Problem::Found(format!("the data plane answered {status} without saying why")),
    }
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
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::SERVICE_UNAVAILABLE] {
            let (code, text) = said(status, Some(&detail));
            assert_eq!((code, text.contains("the data plane refuses: You may not;")), (3, true), "{text}");
        }
        assert_eq!(said(StatusCode::CONFLICT, Some(&detail)), (1, "You may not".to_owned()));
        let (code, text) = said(StatusCode::NOT_FOUND, None);
        assert_eq!((code, text.contains("platform.enabled=true")), (1, true));
    }
}
