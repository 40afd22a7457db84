//! All routes of the API, on one screen.

pub mod auth;
pub mod caller;
mod docs;
pub mod idempotency;
pub mod invoices;
pub(crate) mod landing;
pub mod management;
pub mod middleware;
pub mod notes;
pub mod openapi;
pub mod orders;
pub mod processes;
pub mod state;
pub mod swagger;
pub mod tenant;
pub mod webhook_logs;
pub mod writes;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use http::request::Parts;

use crate::http::error::ApiError;
use crate::http::host::{HostKind, host};
use state::ApiState;

const DOCS_OFF: ApiError =
    ApiError::NotFound("The documentation is turned off here; `docket docs` writes it as files");

/// The error for a path that has no route. It names a route of this host that differs only in case, slashes or a prefix.
pub(crate) fn no_such_route(state: &ApiState, parts: &Parts, paths: &[(String, bool)]) -> ApiError {
    let is_legacy = matches!(host(parts), Ok(Some(host)) if state.hosts.kind(&host) == HostKind::Legacy);
    let mut served = paths.iter().filter(|(_, on_legacy)| *on_legacy || !is_legacy);
    let meant = served.find(|(path, _)| is_almost(path, parts.uri.path()));
    meant.map_or(ApiError::NoSuchRoute, |(path, _)| ApiError::MisspelledRoute(path.clone()))
}

/// Whether `sent` differs from `path` only in the case of letters, further slashes, and prefixes that other APIs have.
fn is_almost(path: &str, sent: &str) -> bool {
    /// Far longer than any path of the API. To compare a longer path would cost more than to refuse it.
    const LONGEST: usize = 64;
    if sent.len() > LONGEST {
        return false;
    }
    let is_prefix = |step: &&str| step.eq_ignore_ascii_case("api") || step.eq_ignore_ascii_case("v2");
    let steps = sent.split('/').filter(|step| !step.is_empty()).skip_while(is_prefix);
    steps.map(str::to_ascii_lowercase).eq(path.split('/').skip(1).map(str::to_ascii_lowercase))
}

/// The routes of `{base_url}`; the legacy host serves some of them too. `docs` says whether the documentation is on.
pub(crate) fn routes(state: &Arc<ApiState>, docs: bool) -> Router<Arc<ApiState>> {
    state.metrics.serves(openapi::paths().iter().map(|(path, _)| path.as_str()));
    let v2_only = Router::new()
        .route("/Employee/SignIn", post(auth::employee_sign_in))
        .route("/WebhookLogs/Search", get(webhook_logs::search))
        .route("/WebhookLogs/Get", get(webhook_logs::get))
        .route("/WebhookLogs/Resend", post(webhook_logs::resends::resend))
        .route("/WebhookLogs/StopResend", post(webhook_logs::resends::stop))
        .route("/WebhookLogs/SetAside", post(webhook_logs::set_aside::set))
        .route("/WebhookLogs/UndoSetAside", post(webhook_logs::set_aside::undo))
        .route("/WebhookLogs/Resends", get(webhook_logs::resends::list))
        .merge(documentation(docs))
        .route_layer(axum::middleware::from_fn_with_state(Arc::clone(state), middleware::only_v2));
    Router::new()
        // On the legacy host this route only explains the mistake.
        .route("/Auth/Token", post(auth::create_token))
        .route("/Session/Create", post(auth::create_session))
        .route("/Orders/Save", post(orders::save))
        .route("/Orders/Export", post(orders::export))
        .route("/Orders/Get", get(orders::get))
        .route("/Orders/Search", get(orders::search))
        .route("/Notes/Add", post(notes::add))
        .route("/Notes/Search", get(notes::search))
        .route("/ProcessStatus/Search", get(processes::search))
        .route("/Invoices/Search", get(invoices::search))
        .merge(v2_only)
}

/// The documentation: the two OpenAPI documents, Swagger UI with both, and the pages.
fn documentation(is_on: bool) -> Router<Arc<ApiState>> {
    let routes = Router::new()
        .route("/openapi.json", get(swagger::openapi_json))
        .route("/openapi/events.json", get(swagger::events_json))
        .route("/swagger", get(swagger::redirect))
        .route("/swagger/", get(swagger::index))
        .route("/swagger/{*file}", get(swagger::file))
        .merge(docs::router());
    match is_on {
        true => routes,
        false => routes.route_layer(from_fn(async |_: Request, _: Next| DOCS_OFF)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_almost_a_route_if_only_case_slashes_or_a_prefix_differ() {
        for sent in [
            "/auth/token",
            "/AUTH/TOKEN/",
            "//Auth//Token",
            "/api/Auth/Token",
            "/v2/auth/token",
            "/API/v2/Auth/Token",
        ] {
            assert!(is_almost("/Auth/Token", sent), "{sent}");
        }
        for sent in
            ["/", "/api", "/Auth", "/Auth/Tokens", "/Auth/Token/x", "/v1/Auth/Token", "/Auth%2FToken", "*"]
        {
            assert!(!is_almost("/Auth/Token", sent), "{sent}");
        }
    }

    #[test]
    fn each_path_says_whether_the_legacy_host_has_it() {
        let paths = openapi::paths();
        for (path, on_legacy) in [
            ("/Auth/Token", false),
            ("/Employee/SignIn", false),
            ("/WebhookLogs/Get", false),
            ("/Session/Create", true),
            ("/ProcessStatus/Search", true),
        ] {
            assert!(paths.contains(&(path.to_owned(), on_legacy)), "{path}");
        }
    }
}
