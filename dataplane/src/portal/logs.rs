//! Webhook Logs.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{Html, Redirect};
use docket_crds::WebhookConfig;
use docket_domain::delivery::{DeadLetter, DeliveryId, FailureClass};
use docket_domain::moment;
use docket_domain::resend::Aside;
use docket_portal::delivery::{AttemptView, Detail, SentRequest};
use docket_portal::logs::{Became, Delivery, Filters, Log, TODAY, link};
use docket_portal::names::unknown_webhook;
use docket_portal::period::Range;
use docket_portal::{DONE, delivery, href, logs};
use docket_store::contacts;
use docket_store::deliveries::{self, ListedDelivery, Neighbours, StoredAttempt};
use docket_store::events::About;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use super::forms::{Posted, filled_in};
use super::session::Viewer;
use crate::api::state::ApiState;
use crate::api::webhook_logs::named::check_webhook;
use crate::api::webhook_logs::set_aside::one;
use crate::api::webhook_logs::{self, DeliverySearch, ReadDelivery, resends};
use crate::api::writes::Write;
use crate::delivery::attempt::send::headers;
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
    let (asked, mut wrong) = asked(&filters, state.clock.now());
    let is_failed = filters.iter().any(|(name, value)| name == "result" && value == Became::Failed.as_str());
    let lost_of = lost_of(&asked).and_then(|webhook| viewer.caller.webhooks().named(webhook));
    let lost_of = lost_of.filter(|webhook| webhook.active).map(|webhook| webhook.uid.clone());
    let (mut found, mut next) = (Vec::new(), None);
    match find(&state, &viewer, asked, (wrong.is_empty(), is_failed)).await {
        Ok(page) => (found, next) = page,
        Err(error) => {
            wrong.extend(error.wrong_fields()?.into_iter().map(|wrong| in_words(&viewer, &filters, wrong)))
        }
    }
    let status = status_of(&wrong);
    let waits = webhook_logs::waits(&state, &viewer.caller, &found).await?;
    let ids: Vec<String> = found.iter().map(|listed| listed.id.clone()).collect();
    let choices: BTreeSet<&str> = match viewer.caller.customer {
        None => viewer.caller.webhooks().served().map(|webhook| webhook.customer_code.as_str()).collect(),
        Some(_) => BTreeSet::new(),
    };
    let shown_codes = found.iter().map(|listed| listed.customer_code.as_str());
    let codes: Vec<&str> = choices.iter().copied().chain(shown_codes).collect();
    let mut reader = viewer.caller.reader(&state).await?;
    let took = deliveries::last_times(&mut reader, &ids).await?;
    let customer_names = contacts::customer_names(&mut reader, &codes).await?;
    let lost = match lost_of {
        Some(uid) => viewer.health(&mut reader).await?.get(&uid).map(|health| health.dead_letter),
        None => None,
    };
    let frame = viewer.frame_with_removed(&mut reader).await?;
    let row = |(listed, waits_for): (ListedDelivery, Option<String>)| {
        let took = took.get(&listed.id).copied();
        Delivery { took, waits_for, ..shown(listed) }
    };
    let log = Log {
        filters: Filters(filters),
        wrong,
        customers: choices.into_iter().map(str::to_owned).collect(),
        customer_names,
        deliveries: found.into_iter().zip(waits).map(row).collect(),
        next,
        lost: lost.filter(|lost| *lost > 0),
    };
    Ok((status, Html(logs::page(&frame, &log))))
}

/// The webhook whose lost deliveries these parameters choose; `None`: they choose others.
fn lost_of(asked: &[(String, String)]) -> Option<&str> {
    let value = |name: &str| asked.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let is_of_choice = |(name, _): &(String, String)| {
        ["webhook", "deadLetter", "cursor", "pageSize"].contains(&name.as_str())
    };
    let is_lost = value("deadLetter") == Some(DeadLetter::Open.as_str());
    value("webhook").filter(|_| is_lost && asked.iter().all(is_of_choice))
}

/// Searches if all filters are right; else returns what is wrong with them, or nothing if `is_right` says that others are wrong.
/// `is_failed`: only deliveries whose last attempt failed.
async fn find(
    state: &ApiState,
    viewer: &Viewer,
    asked: Vec<(String, String)>,
    (is_right, is_failed): (bool, bool),
) -> Result<(Vec<ListedDelivery>, Option<String>), ApiError> {
    let mut search = DeliverySearch::read(RequestFields::of_pairs(asked))?;
    check_webhook(state, &viewer.caller, &mut search).await?;
    match is_right {
        true => webhook_logs::find(state, &viewer.caller, search, is_failed).await,
        false => Ok((Vec::new(), None)),
    }
}

/// What is wrong with a field, in the words of the form.
fn in_words(viewer: &Viewer, filters: &[(String, String)], wrong: (String, String)) -> (String, String) {
    let typed = filters.iter().find(|(name, _)| *name == wrong.0);
    let what = match (wrong.0.as_str(), typed) {
        ("webhook", Some((_, typed))) => unknown_webhook(typed, &viewer.frame().webhooks),
        ("httpStatus", _) => "enter a status from 100 to 999, or 4xx or 5xx".to_owned(),
        _ => wrong.1,
    };
    (wrong.0, what)
}

type Pairs = Vec<(String, String)>;

/// The parameters of `/WebhookLogs/Search` for what the form sends, and the fields of the form that are wrong.
fn asked(filters: &[(String, String)], now: Timestamp) -> (Pairs, Pairs) {
    let is_dated = filters.iter().any(|(name, _)| ["from", "to"].contains(&name.as_str()));
    let has_failure = filters.iter().any(|(name, _)| name == "failureClass");
    let (mut asked, mut wrong) = (Pairs::new(), Pairs::new());
    let mut ask = |name: &str, value: &str| asked.push((name.to_owned(), value.to_owned()));
    let mut refuse = |name: &str, what: &str| wrong.push((name.to_owned(), what.to_owned()));
    for (name, value) in filters {
        match name.as_str() {
            "result" => match value.parse().map(Became::parameter) {
                Ok(Some((name, value))) => ask(name, value),
                Ok(None) => {}
                Err(_) => refuse(name, "choose a result of the list"),
            },
            "last" if value == TODAY || value.parse::<Range>().is_ok() => match value.parse() {
                _ if is_dated => refuse(name, "choose either this or dates"),
                Ok(range) => ask("from", &moment::written(since(range, now))),
                Err(_) => ask("from", &now.strftime("%Y-%m-%d").to_string()),
            },
            "last" => refuse(name, "choose a time of the list"),
            "httpStatus" => match class_of(value) {
                Some(_) if has_failure => refuse(name, "choose either this or a failure"),
                Some(class) => ask("failureClass", class.as_str()),
                None => ask(name, value),
            },
            _ => ask(name, value),
        }
    }
    (asked, wrong)
}

/// The failure class that a class of HTTP statuses stands for, such as `5xx`.
fn class_of(statuses: &str) -> Option<FailureClass> {
    match statuses.to_ascii_lowercase().as_str() {
        "4xx" => Some(FailureClass::ClientError),
        "5xx" => Some(FailureClass::ServerError),
        _ => None,
    }
}

/// When a period began that ends now.
fn since(range: Range, now: Timestamp) -> Timestamp {
    let (count, minutes) = range.spans();
    now.saturating_sub(SignedDuration::from_mins(count * minutes)).unwrap_or(Timestamp::MIN)
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
    // A webhook of another customer may have the delivery's webhook name now.
    let webhook = viewer.caller.webhooks().get(&listed.webhook);
    let webhook = webhook.filter(|webhook| webhook.customer_code.as_str() == listed.customer_code);
    let secrets = webhook.map(WebhookConfig::secrets).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let sent = payload.map(|body| {
        let event = (id, listed.event_id.as_str(), listed.event_code.as_str());
        let headers = headers(&secrets, event, listed.is_test, &body, state.clock.now());
        SentRequest {
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
            body: text(&body),
        }
    });
    let actors = std::iter::once(&listed).chain(&later).flat_map(|delivery| {
        [delivery.requested_by.as_deref(), delivery.set_aside.as_ref().map(|(by, _)| by.as_str())]
    });
    let actors: Vec<&str> = actors.flatten().collect();
    let mut reader = viewer.caller.reader(&state).await?;
    let people = viewer.named(&mut reader, &actors).await?;
    let (code, ended) = (listed.customer_code.as_str(), listed.finished_at_ms);
    let Neighbours { before, after } =
        deliveries::neighbours(&mut reader, &listed.webhook, ended, &listed.id).await?;
    let names = contacts::customer_names(&mut reader, &[code]).await?;
    let frame = viewer.frame_with_removed(&mut reader).await?;
    let detail = Detail {
        people,
        event_id: listed.event_id.clone(),
        customer_name: names.get(code).map_or(code, String::as_str).to_owned(),
        previous: before,
        next: after,
        delivery: Delivery { waits_for, ..shown(listed) },
        later: later.into_iter().map(shown).collect(),
        done: filled_in(&query.unwrap_or_default()).iter().find_map(|(name, value)| done(name, value)),
        attempts: attempts.into_iter().map(attempt).collect(),
        url: webhook.map(|webhook| webhook.target_url.url().to_string()),
        sent,
    };
    Ok(Html(delivery::page(&frame, &detail)))
}

/// POST /portal/logs/resend: leads to the new delivery.
pub async fn resend(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<DeliveryForm>,
) -> Result<Redirect, ApiError> {
    let (_, made) = resends::one(&state, &viewer.caller, form.delivery_id, Write::each_time()).await?;
    let made = made.ok_or(ApiError::Internal)?.to_string();
    Ok(Redirect::to(&href(&link(&made), [(DONE, RESENT)])))
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
    Ok(Redirect::to(&href(&link(&id.to_string()), [(DONE, aside.as_str())])))
}

/// The value of [`DONE`] after a resend, on the page of the new delivery.
const RESENT: &str = "resent";

fn done(name: &str, value: &str) -> Option<&'static str> {
    match (name, value) {
        (DONE, RESENT) => Some("Resent. This is the new delivery, which is sent now."),
        (DONE, "set-aside") => Some("The lost delivery is set aside: it counts no longer."),
        (DONE, "undo-set-aside") => Some("The lost delivery is not set aside any more: it counts again."),
        _ => None,
    }
}

/// Shows a delivery in a list. Leaves out what the delivery waits for, and how long its last attempt took.
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
        took: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(filters: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let filters: Pairs =
            filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (asked, wrong) = asked(&filters, "2026-11-21T09:30:00Z".parse().expect("a time"));
        let shown = asked.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        (shown, wrong.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn fields_of_the_form_become_parameters_of_the_search() {
        for (field, parameter) in [
            (("result", "Lost"), "deadLetter=open"),
            (("result", "Tried again"), "status=Failed"),
            (("last", "today"), "from=2026-11-21"),
            (("httpStatus", "503"), "httpStatus=503"),
            (("httpStatus", "5XX"), "failureClass=ServerError"),
            (("httpStatus", "4xx"), "failureClass=ClientError"),
            (("last", "hour"), "from=2026-11-21T08:30:00.000Z"),
            (("last", "month"), "from=2026-10-22T09:30:00.000Z"),
            (("from", "2026-11-01T09:30:00-08:00"), "from=2026-11-01T09:30:00-08:00"),
            (("to", "2026-11-01"), "to=2026-11-01"),
            (("status", "Failed"), "status=Failed"),
            (("find", "w1"), "find=w1"),
        ] {
            assert_eq!(of(&[field]), (vec![parameter.to_owned()], Vec::new()), "{field:?}");
        }
    }

    #[test]
    fn choice_that_the_form_does_not_offer_is_refused() {
        for wrong in [("result", "Succeeded"), ("last", "year")] {
            assert_eq!(of(&[wrong]), (Vec::new(), vec![wrong.0.to_owned()]), "{wrong:?}");
        }
        for last in ["day", "today"] {
            let (asked, wrong) = of(&[("last", last), ("to", "2026-11-01")]);
            assert_eq!((asked, wrong), (vec!["to=2026-11-01".to_owned()], vec!["last".to_owned()]));
        }
        let (asked, wrong) = of(&[("httpStatus", "5xx"), ("failureClass", "Dns")]);
        assert_eq!((asked, wrong), (vec!["failureClass=Dns".to_owned()], vec!["httpStatus".to_owned()]));
    }

    #[test]
    fn only_the_lost_deliveries_of_one_webhook_are_the_choice_of_a_resend() {
        let lost_of = |filters: &[(&str, &str)]| {
            let filters: Pairs =
                filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let (asked, _) = asked(&filters, "2026-11-21T09:30:00Z".parse().expect("a time"));
            lost_of(&asked).map(str::to_owned)
        };
        let (webhook, lost) = (("webhook", "a/b"), ("result", "Lost"));
        assert_eq!(lost_of(&[webhook, lost, ("cursor", "x")]).as_deref(), Some("a/b"));
        for other in [
            &[webhook][..],
            &[lost],
            &[webhook, ("result", "Set aside")],
            &[webhook, ("result", "Failed (all)")],
            &[webhook, lost, ("last", "day")],
        ] {
            assert_eq!(lost_of(other), None, "{other:?}");
        }
    }
}
