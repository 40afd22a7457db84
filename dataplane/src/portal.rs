//! The administration portal: pages of a tenant's host, at `/portal`. They read and write through the same functions as the
//! API's routes; `docket_portal` makes the HTML.

pub mod activity;
mod actors;
pub mod brand;
mod cookies;
mod csrf;
mod declared;
pub mod events;
mod form_words;
pub mod forms;
mod kept;
pub mod keys;
pub mod logs;
pub mod mail_link;
pub mod notifications;
pub mod overview;
pub mod people;
mod period;
mod removed;
pub mod resends;
pub mod session;
pub mod sign_in;
pub mod trace;
pub mod verify;
pub mod webhooks;
pub mod writes;
mod yaml;

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use docket_portal::page::Frame;
use docket_portal::{ICON, ROOT, SCRIPT, STYLES, message};
use http::{HeaderValue, header};

use crate::api::middleware::{self, Pages};
use crate::api::state::ApiState;
use crate::http::error::{ApiError, Unnumbered};
pub use cookies::Cookies;
pub use writes::{Documents, WebhookObjects, WebhookWriter, Writes};

/// No inline code, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The routes of the portal, whose errors are pages, too.
pub(crate) const PAGES: Pages = Pages { root: ROOT, finish: finished };
/// The routes, as metrics name them.
const ROUTES: [&str; 29] = [
    "/portal",
    "/portal/sign-in",
    "/portal/sign-out",
    "/portal/sign-out-everywhere",
    "/portal/logs",
    "/portal/logs/resend",
    "/portal/logs/set-aside",
    "/portal/logs/undo-set-aside",
    "/portal/logs/{id}",
    "/portal/resends",
    "/portal/resends/probe",
    "/portal/resends/stop",
    "/portal/resends/set-aside",
    "/portal/resends/undo-set-aside",
    "/portal/mail/{token}",
    "/portal/notifications",
    "/portal/notifications/end",
    "/portal/notifications/webhook",
    "/portal/activity",
    "/portal/events",
    "/portal/keys",
    "/portal/people",
    "/portal/trace",
    "/portal/verify",
    "/portal/webhooks",
    "/portal/webhooks/new",
    "/portal/webhooks/{namespace}/{name}",
    "/portal/webhooks/{namespace}/{name}/test",
    "/portal/webhooks/{namespace}/{name}/{action}",
];

/// How the portal is served.
#[derive(Debug, Clone)]
pub struct Portal {
    /// The kind of the cookies that hold its sessions.
    pub cookies: Cookies,
    /// The place where the portal declares webhooks.
    pub writes: Writes,
}

/// The routes of the portal.
pub fn router(state: &Arc<ApiState>, Portal { cookies, writes }: Portal) -> Router<Arc<ApiState>> {
    state.metrics.serves(ROUTES);
    let pages = Router::new()
        .route("/portal", get(overview::get))
        .route("/portal/sign-in", get(sign_in::page).post(sign_in::sign_in))
        .route("/portal/sign-out", post(sign_in::sign_out))
        .route("/portal/sign-out-everywhere", post(sign_in::sign_out_everywhere))
        .route("/portal/logs", get(logs::search))
        .route("/portal/logs/resend", post(logs::resend))
        .route("/portal/logs/set-aside", post(logs::set_aside))
        .route("/portal/logs/undo-set-aside", post(logs::undo_set_aside))
        .route("/portal/logs/{id}", get(logs::get))
        .route("/portal/mail/{token}", get(mail_link::page).post(mail_link::act))
        .route("/portal/notifications", get(notifications::list).post(notifications::subscribe))
        .route("/portal/notifications/end", post(notifications::end))
        .route("/portal/notifications/webhook", post(notifications::of_webhook))
        .route("/portal/activity", get(activity::search))
        .route("/portal/events", get(events::get))
        .route("/portal/keys", get(keys::get))
        .route("/portal/people", get(people::list).post(people::change))
        .route("/portal/trace", get(trace::get))
        .route("/portal/verify", get(verify::form).post(verify::check))
        .route("/portal/resends", get(resends::list).post(resends::start))
        .route("/portal/resends/probe", post(resends::probe))
        .route("/portal/resends/stop", post(resends::stop))
        .route("/portal/resends/set-aside", post(resends::set_aside))
        .route("/portal/resends/undo-set-aside", post(resends::undo_set_aside))
        .route("/portal/webhooks", get(webhooks::list))
        .route("/portal/webhooks/new", get(webhooks::new::form).post(webhooks::new::create))
        .route("/portal/webhooks/{namespace}/{name}", get(webhooks::get).post(webhooks::save))
        .route("/portal/webhooks/{namespace}/{name}/test", post(webhooks::test))
        .route("/portal/webhooks/{namespace}/{name}/{action}", post(webhooks::act))
        .route(
            "/portal/{*other}",
            any(async || ApiError::NotFound("The portal has no page of this address")),
        );
    let assets = Router::new()
        .route("/portal/portal.css", get(async || asset("text/css; charset=utf-8", STYLES)))
        .route("/portal/portal.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/portal/icon.svg", get(async || asset("image/svg+xml", ICON)))
        .route("/portal/brand.css", get(brand::stylesheet))
        .route("/portal/logo", get(brand::logo));
    pages
        .merge(assets)
        .route_layer(from_fn(session::framed))
        .route_layer(from_fn_with_state(Arc::clone(state), middleware::only_v2))
        .route_layer(Extension(cookies))
        .route_layer(Extension(writes))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "public, max-age=3600")];
    (headers, text).into_response()
}

/// Makes a page of an error, and adds the policy of pages.
fn finished(mut response: Response, request_id: &str) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Unnumbered>() {
        let frame = response.extensions_mut().remove::<Frame>();
        let text = message::page(&problem.message(&problem.fields(), request_id), frame.as_ref());
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response = Response::from_parts(parts, text.into());
    }
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
