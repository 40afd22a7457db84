//! The middleware of every request: it gives the id, writes the log line, counts, and sets headers that every response has.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use docket_crds::Limit;
use docket_listener::protection;
use docket_listener::server::ConnectionPermit;
use docket_program::random;
use http::{HeaderName, HeaderValue, header};
use tracing::Instrument;

use super::state::ApiState;
use crate::http::body::OfTenant;
use crate::http::error::{ApiError, Unnumbered};
use crate::http::host::{HostKind, host};
use crate::http::origin::RequestId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The responses of a listener.
#[derive(Clone)]
pub struct Responses {
    /// The state of the handlers.
    pub state: Arc<ApiState>,
    /// The routes whose responses are pages, if the listener has any. The error of every other route becomes problem+json.
    pub pages: Option<Pages>,
}

/// Routes whose responses are pages.
#[derive(Clone, Copy)]
pub struct Pages {
    /// The beginning of their paths.
    pub root: &'static str,
    /// Makes a page of an error, with the id of the request, and adds the headers that all pages have.
    pub finish: fn(Response, &str) -> Response,
}

/// Gives the request an id, runs it, counts it and logs it. Logs the route's pattern, not the query string, which holds
/// names.
pub async fn answer(State(responses): State<Responses>, mut request: Request, next: Next) -> Response {
    let state = &responses.state;
    let begun = Instant::now();
    let id = hex::encode(random::bytes::<10>());
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let is_https = protection::is_https(request.headers());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    // Every line that is logged on the way has the request's id.
    let span = tracing::info_span!("request", request.id = id);
    // The handler runs in its own task. So a client that disconnects cancels no write half-way and gets no free guess at a
    // password, and a panic ends one request, not the connection.
    let permit = request.extensions().get::<ConnectionPermit>().cloned();
    let of_tenant = OfTenant::default();
    request.extensions_mut().insert(of_tenant.clone());
    let handled = async move {
        let _permit = permit;
        next.run(request).await
    };
    let handled = tokio::spawn(handled.instrument(span)).await;
    let response = handled.unwrap_or_else(|_| {
        // The panic hook has logged where the panic was. Its message is left out, because it may quote the client.
        tracing::error!(request.id = id, "request handler panicked");
        ApiError::Internal.into_response()
    });
    // The check is here because every request passes here, for whatever it needed a connection.
    let limit = response.extensions().get::<Unnumbered>().and_then(Unnumbered::limit);
    if let (Some(tenant), Some(Limit::DatabaseConnections)) = (of_tenant.get(), limit) {
        state.tenants.at_limit.reached(tenant, Limit::DatabaseConnections);
    }
    let mut response = responses.finished(response, route, &id);
    // This never refuses the response of a finished write: such responses are short.
    if let Some(tenant) = of_tenant.get() {
        let sent = state.bodies.send(tenant, of_tenant.user(), response);
        response = sent.unwrap_or_else(|error| responses.finished(error.into_response(), route, &id));
    }
    finish_headers(&mut response, &id, is_https);
    let seconds = begun.elapsed().as_secs_f64();
    state.metrics.requested(route, response.status().as_u16(), seconds);
    tracing::info!(
        request.id = id,
        http.method = method.as_str(),
        http.route = route,
        http.status = response.status().as_u16(),
        duration_ms = seconds * 1e3,
        "request"
    );
    response
}

impl Responses {
    /// If the response is an error, gives it its body.
    fn finished(&self, mut response: Response, route: &str, id: &str) -> Response {
        if let Some(pages) = self.pages.filter(|pages| route.starts_with(pages.root)) {
            return (pages.finish)(response, id);
        }
        if let Some(problem) = response.extensions_mut().remove::<Unnumbered>() {
            *response.body_mut() = problem.body(id);
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        response
    }
}

fn finish_headers(response: &mut Response, id: &str, is_https: bool) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    // Orders, tokens and logs must not be cached. The documentation sets its own Cache-Control.
    protection::protect(headers, is_https);
}

/// Refuses requests to the legacy host, which does not have the routes of this layer.
pub async fn only_v2(
    State(state): State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    match host(&parts)?.map(|host| state.hosts.kind(&host)) {
        Some(HostKind::Legacy) => Err(ApiError::NoSuchRoute),
        _ => Ok(next.run(Request::from_parts(parts, body)).await),
    }
}
