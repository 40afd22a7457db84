//! Overview.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Html;
use docket_crds::WebhookConfig;
use docket_domain::audit::{AuditEvent, subject};
use docket_domain::delivery::Status;
use docket_portal::overview::{self, FailedAs, Failing, LastFailed, OverviewWebhook, WebhookProblem};
use docket_portal::period::{Period, Range};
use docket_store::health::WebhookHealth;
use docket_store::recent::{self, Failures, LastFailure, MAX_COUNT, MAX_DEAD, MAX_RETRIED};
use docket_store::{Connection, StoreError, audit, contacts};

use super::declared;
use super::forms::filled_in;
use super::period::figures;
use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::http::times::timestamp;

const _: () = assert!(MAX_COUNT == docket_portal::MAX_COUNT);

/// The most webhooks whose failures are explained: those with the most dead letters first.
const EXPLAINED: usize = 10;

/// The parameter with the period of the figures.
const RANGE: &str = "range";

/// GET /portal. Of what the database has, only the tenant's own webhooks are shown.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let query = filled_in(&query.unwrap_or_default());
    let range = query.iter().find(|(name, _)| name == RANGE).map(|(_, word)| word.parse());
    let wrong = |_| ApiError::field(RANGE, "must be hour, day, week or month");
    let range = range.unwrap_or(Ok(Range::default())).map_err(wrong)?;
    let mut reader = viewer.caller.reader(&state).await?;
    let mut health = viewer.health(&mut reader).await?;
    let own: Vec<&WebhookConfig> = viewer.caller.webhooks().served().collect();
    let health: Vec<WebhookHealth> =
        own.iter().map(|webhook| health.remove(&webhook.uid).unwrap_or_default()).collect();
    let mut faults = declared::faults(&mut reader, &viewer, &own).await?;
    let codes: Vec<&str> = own.iter().map(|webhook| webhook.customer_code.as_str()).collect();
    let customers = contacts::customer_names(&mut reader, &codes).await?;
    let customer_name = |code: &str| customers.get(code).map_or(code, String::as_str).to_owned();
    let webhooks = own.iter().zip(&health).map(|(webhook, health)| OverviewWebhook {
        name: webhook.full_name(),
        customer_code: webhook.customer_code.as_str().to_owned(),
        customer_name: customer_name(webhook.customer_code.as_str()),
        active: webhook.active,
        pending: health.pending,
        retrying: health.retrying,
        dead_letter: health.dead_letter,
        last_success: health.last_success_at_ms.map(timestamp),
        last_dead_letter: health.last_dead_letter_at_ms.map(timestamp),
        faults: faults.remove(&webhook.uid).unwrap_or_default(),
    });
    let webhooks = webhooks.collect();
    let keys: Vec<String> = own.iter().map(|webhook| webhook.key()).collect();
    let names = keys.iter().map(String::as_str).zip(own.iter().map(|webhook| webhook.full_name())).collect();
    let problems = problems(&mut reader, &names, &health).await?;
    let only = viewer.caller.customer.as_ref().map(|_| &keys[..]);
    let retrying: i64 = health.iter().map(|health| health.retrying).sum();
    let waiting = health.iter().map(|health| health.pending).sum::<i64>() - retrying;
    let figures = figures(&mut reader, &keys, only, range, state.clock.now()).await?;
    let period = Period { retrying, waiting, ..figures };
    let unserved = declared::unserved(&viewer);
    Ok(Html(overview::page(viewer.frame(), webhooks, &unserved, &problems, &period)))
}

/// Why deliveries fail: of the webhooks with dead letters first, then of those whose deliveries are tried again.
async fn problems(
    reader: &mut Connection,
    names: &HashMap<&str, String>,
    health: &[WebhookHealth],
) -> Result<Vec<WebhookProblem>, StoreError> {
    let mut failing: Vec<&WebhookHealth> =
        health.iter().filter(|health| health.dead_letter > 0 || health.retrying > 0).collect();
    failing.sort_by_key(|health| std::cmp::Reverse((health.dead_letter, health.retrying)));
    failing.truncate(EXPLAINED);
    let keys: Vec<String> = failing.iter().map(|health| health.webhook.clone()).collect();
    let failures = recent::failures(reader, &keys).await?;
    let last = recent::last_failures(reader, &keys).await?;
    let changed = changes(reader, &last).await?;
    let retried: i64 = failing.iter().map(|health| health.retrying).sum();
    let problem = |health: &WebhookHealth| {
        let WebhookHealth { dead_letter, retrying, .. } = *health;
        let classes = |status: Status| -> Vec<FailedAs> {
            let own = failures.iter().filter(|own| own.webhook == health.webhook && own.status == status);
            own.map(failed_as).collect()
        };
        let webhook = names.get(health.webhook.as_str()).cloned().unwrap_or_default();
        let last = last.iter().find(|last| last.webhook == health.webhook);
        let changed_at_ms = changed.get(&subject("webhook", &webhook)).copied();
        let is_later =
            |at_ms: &i64| last.and_then(|last| last.attempted_at_ms).is_some_and(|last| *at_ms > last);
        WebhookProblem {
            webhook,
            changed_at: changed_at_ms.filter(is_later).map(timestamp),
            dead: Failing {
                count: dead_letter,
                classes: classes(Status::DeadLetter),
                of_last: (dead_letter > MAX_DEAD).then_some(MAX_DEAD),
            },
            retried: Failing {
                count: retrying,
                classes: classes(Status::Failed),
                of_last: (retried > MAX_RETRIED).then_some(MAX_RETRIED),
            },
            last: last.map(last_failed),
        }
    };
    Ok(failing.into_iter().map(problem).collect())
}

fn failed_as(failures: &Failures) -> FailedAs {
    FailedAs {
        class: failures.class,
        http_status: failures.http_status,
        cause: failures.cause,
        count: failures.count,
    }
}

fn last_failed(last: &LastFailure) -> LastFailed {
    LastFailed {
        id: last.id.clone(),
        said: last.response.clone(),
        since: timestamp(last.since_ms),
        next_attempt_at: last.next_attempt_at_ms.map(timestamp),
    }
}

/// When the settings of webhooks were last changed since the first of these failures, by the subject in the audit.
async fn changes(reader: &mut Connection, last: &[LastFailure]) -> Result<HashMap<String, i64>, StoreError> {
    match last.iter().filter_map(|last| last.attempted_at_ms).min() {
        Some(from_ms) => audit::last_times(reader, AuditEvent::WebhookChanged, from_ms).await,
        None => Ok(HashMap::new()),
    }
}
