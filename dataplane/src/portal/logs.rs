//! Webhook Logs.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{Html, Redirect};
use docket_crds::WebhookConfig;
use docket_domain::delivery::DeliveryId;
use docket_portal::delivery::{AttemptView, Detail, SentRequest};
use docket_portal::logs::{Delivery, Filters, Log, link};
use docket_portal::{delivery, href, logs};
use docket_store::deliveries::{ListedDelivery, StoredAttempt};
use docket_store::events::About;
use http::StatusCode;

use super::forms::{Posted, filled_in};
use super::session::Viewer;
use crate::actions::set_aside::Aside;
use crate::api::state::ApiState;
use crate::api::webhook_logs::set_aside::one;
use crate::api::webhook_logs::{self, DeliverySearch, ReadDelivery, resends};
use crate::api::writes::Write;
use crate::delivery::attempt::send::{headers, mark_as_test};
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::DeliveryIdText;
use crate::http::request::{FromFields, request};
use crate::http::times::timestamp;

const NO_SUCH_DELIVERY: ApiError = ApiError::NotFound("There is no such delivery");

request! {
    /// The fields of the forms that resend a delivery or set it aside.
    query DeliveryForm {
        /// The id of the delivery.
        req delivery_id: DeliveryIdText;
    }
}

/// GET /portal/logs.
pub async fn search(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Html<String>), ApiError> {
    let filters = filled_in(&query.unwrap_or_default());
    let ((found, next), wrong) = match DeliverySearch::read(RequestFields::of_pairs(filters.clone())) {
        Ok(search) => (webhook_logs::find(&state, &viewer.caller, search).await?, Vec::new()),
        Err(error) => (<_>::default(), error.wrong_fields()?),
    };
    let status = status_of(&wrong);
    let waits = webhook_logs::waits(&state, &viewer.caller, &found).await?;
    let found = found.into_iter().zip(waits);
    let log = Log {
        filters: Filters(filters),
        wrong,
        webhooks: viewer.caller.webhooks().served().map(|webhook| webhook.full_name()).collect(),
        deliveries: found.map(|(listed, waits_for)| Delivery { waits_for, ..shown(listed) }).collect(),
        next,
    };
    Ok((status, Html(logs::page(viewer.frame(), &log))))
}

/// The status of a page whose form has these wrong fields.
pub fn status_of(wrong: &[(String, String)]) -> StatusCode {
    if wrong.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}

/// GET /portal/logs/{id}.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let Path(text) = id.map_err(|_| NO_SUCH_DELIVERY)?;
    let id = text.parse::<DeliveryId>().ok().filter(|id| id.to_string() == text).ok_or(NO_SUCH_DELIVERY)?;
    let ReadDelivery { listed, attempts, later, payload } =
        webhook_logs::read(&state, &viewer.caller, id).await?;
    let waits_for =
        webhook_logs::waits(&state, &viewer.caller, std::slice::from_ref(&listed)).await?.pop().flatten();
    // Another customer's webhook may have its name now.
    let webhook = viewer.caller.webhooks().get(&listed.webhook);
    let webhook = webhook.filter(|webhook| webhook.customer_code.as_str() == listed.customer_code);
    let secrets = webhook.map(WebhookConfig::secrets).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let sent = payload.map(|body| {
        let event = (id, listed.event_id.as_str(), listed.event_code.as_str());
        let mut headers = headers(&secrets, event, &body, state.clock.now());
        if listed.is_test {
            mark_as_test(&mut headers);
        }
        SentRequest {
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
            body: text(&body),
        }
    });
    let detail = Detail {
        event_id: listed.event_id.clone(),
        delivery: Delivery { waits_for, ..shown(listed) },
        later: later.into_iter().map(shown).collect(),
        done: filled_in(&query.unwrap_or_default()).iter().find_map(|(name, value)| done(name, value)),
        attempts: attempts.into_iter().map(attempt).collect(),
        url: webhook.map(|webhook| webhook.target_url.url().to_string()),
        sent,
    };
    Ok(Html(delivery::page(viewer.frame(), &detail)))
}

/// POST /portal/logs/resend: leads to the new delivery.
pub async fn resend(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<DeliveryForm>,
) -> Result<Redirect, ApiError> {
    let (_, made) = resends::one(&state, &viewer.caller, form.delivery_id, Write::each_time()).await?;
    Ok(Redirect::to(&link(&made.ok_or(ApiError::Internal)?.to_string())))
}

/// POST /portal/logs/set-aside: leads back to the delivery.
pub async fn set_aside(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<DeliveryForm>,
) -> Result<Redirect, ApiError> {
    change(&state, &viewer, form.delivery_id, Aside::Set).await
}

/// POST /portal/logs/undo-set-aside: leads back to the delivery.
pub async fn undo_set_aside(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<DeliveryForm>,
) -> Result<Redirect, ApiError> {
    change(&state, &viewer, form.delivery_id, Aside::Undo).await
}

async fn change(
    state: &ApiState,
    viewer: &Viewer,
    id: DeliveryId,
    aside: Aside,
) -> Result<Redirect, ApiError> {
    one(state, &viewer.caller, id, aside, Write::each_time()).await?;
    Ok(Redirect::to(&href(&link(&id.to_string()), [(DONE, word(aside))])))
}

/// The parameter with what the user has just done.
pub const DONE: &str = "done";

/// Its value.
pub const fn word(aside: Aside) -> &'static str {
    match aside {
        Aside::Set => "set-aside",
        Aside::Undo => "undo-set-aside",
    }
}

fn done(name: &str, value: &str) -> Option<&'static str> {
    match (name, value) {
        (DONE, "set-aside") => Some("The dead letter is set aside: it counts no longer."),
        (DONE, "undo-set-aside") => Some("The dead letter is not set aside any more: it counts again."),
        _ => None,
    }
}

/// A delivery in a list, without what it waits for.
pub fn shown(listed: ListedDelivery) -> Delivery {
    let About { web_order_id, work_order, invoice_number } = listed.about;
    let about = [("web order", web_order_id), ("work order", work_order), ("invoice", invoice_number)];
    Delivery {
        id: listed.id,
        event: listed.event_code,
        customer_code: listed.customer_code,
        about: about.into_iter().filter_map(|(kind, number)| Some((kind, number?))).collect(),
        webhook: listed.webhook_name,
        status: listed.status,
        attempts: listed.attempt_count,
        failure: listed.failure_class,
        cause: listed.failure_cause,
        detail: listed.failure_detail,
        http_status: listed.http_status,
        created_at: timestamp(listed.created_at_ms),
        next_attempt_at: (!listed.status.is_final()).then(|| timestamp(listed.due_at_ms)),
        waits_for: None,
        finished_at: listed.finished_at_ms.map(timestamp),
        resend_of: listed.resend_of,
        requested_by: listed.requested_by,
        is_test: listed.is_test,
        resent: listed.resent,
        set_aside: listed.set_aside.map(|(by, at_ms)| (by, timestamp(at_ms))),
    }
}

fn attempt(stored: StoredAttempt) -> AttemptView {
    AttemptView {
        number: stored.number,
        started_at: timestamp(stored.started_at_ms),
        has_ended: stored.finished_at_ms.is_some(),
        failure: stored.failure_class,
        cause: stored.failure_cause,
        detail: stored.failure_detail,
        http_status: stored.http_status,
        remote_address: stored.remote_address,
        response: stored.response_body,
        phases: [stored.dns_us, stored.connect_us, stored.tls_us, stored.first_byte_us, stored.total_us],
    }
}
