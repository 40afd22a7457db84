//! What the pages of webhooks show.

use docket_crds::{EventCode, WebhookConfig, WebhookSpec};
use docket_domain::audit::{AuditEvent, subject};
use docket_domain::delivery::{DeadLetter, Status};
use docket_portal::logs::Delivery;
use docket_portal::period::{Period, Range};
use docket_portal::webhooks::detail::{self, Detail, Editable, Places, Show};
use docket_portal::webhooks::{Done, FormSettings, Keeper, ServedWebhook};
use docket_store::deliveries::{self, DeliveryFilter};
use docket_store::{audit, contacts};

use crate::api::state::ApiState;
use crate::api::webhook_logs;
use crate::http::error::ApiError;
use crate::http::times::timestamp;
use crate::portal::declared;
use crate::portal::logs;
use crate::portal::notifications::own;
use crate::portal::period::figures;
use crate::portal::session::Viewer;
use crate::portal::writes::Declared;

/// The number of deliveries on the page of a webhook.
const LAST: i64 = 10;
/// The number of test deliveries on the page of a webhook.
const TESTS: i64 = 3;

/// Settings that could not be saved, and each wrong field with what would be right.
pub(super) type Unsaved = Option<(FormSettings, Vec<(String, String)>)>;

/// The part of a webhook's page that a request asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// The period of the figures.
    pub(super) range: Range,
    /// Which of the last deliveries are shown.
    pub(super) show: Show,
    /// What the user has just done with the messages about the webhook, as a sentence.
    pub(super) subscribed: Option<&'static str>,
    /// What else the user has just done.
    pub(super) done: Option<Done>,
}

/// The page of a webhook that is declared and not served.
pub(super) fn unserved(
    viewer: &Viewer,
    declared: &Declared,
    version: &str,
    unsaved: &Unsaved,
    done: Option<Done>,
) -> String {
    let WebhookSpec { display_name, customer_code, target_url, events, active, .. } = declared.spec.clone();
    let display_name = display_name.unwrap_or_default();
    let settings = FormSettings { display_name, customer_code, target_url, events, active };
    let faulty = declared::of_unserved(viewer, &declared.full_name());
    let unsaved = unsaved.as_ref().map(|(settings, wrong)| (settings, &wrong[..]));
    let editable = Editable { settings: &settings, version, unsaved };
    detail::unserved(viewer.frame(), &faulty, Some(&editable), done)
}

/// The page of a webhook that is served.
pub(super) async fn served(
    state: &ApiState,
    viewer: &Viewer,
    webhook: &WebhookConfig,
    keeper: Keeper,
    unsaved: Unsaved,
    asked: Asked,
) -> Result<String, ApiError> {
    let Asked { range, show, subscribed, done } = asked;
    let own = own(state, viewer).await?;
    let shown = shown(state, viewer, &[webhook]).await?.pop().ok_or(ApiError::Internal)?;
    let places = webhook_logs::places(state, &viewer.caller, webhook.key()).await;
    let places =
        places.map(|places| Places { taken: places.taken, all: places.all, is_reduced: places.is_reduced });
    let keys = [webhook.key()];
    let mut reader = viewer.caller.reader(state).await?;
    let figures = figures(&mut reader, &keys, Some(&keys[..]), range, state.clock.now()).await?;
    let (retrying, waiting) = (shown.retrying, shown.pending - shown.retrying);
    let period = Period { retrying, waiting, ..figures };
    let found = deliveries::search(&mut reader, &state.clock, &filter(webhook, show), LAST).await?;
    let tests = deliveries::last_tests(&mut reader, &keys[0], TESTS).await?;
    let actors: Vec<&str> = tests.iter().filter_map(|test| test.requested_by.as_deref()).collect();
    let people = viewer.named(&mut reader, &actors).await?;
    let subject = subject("webhook", &webhook.full_name());
    let replaced = audit::last_times(&mut reader, AuditEvent::NextSecretPromoted, 0).await?;
    drop(reader);
    let waits = webhook_logs::waits(state, &viewer.caller, &tests).await?;
    let detail = Detail {
        places,
        replaced_at: replaced.get(&subject).copied().map(timestamp),
        period,
        show,
        deliveries: found.items.into_iter().map(logs::shown).collect(),
        tests: tests
            .into_iter()
            .zip(waits)
            .map(|(listed, waits_for)| Delivery { waits_for, ..logs::shown(listed) })
            .collect(),
        people,
        own,
        subscribed,
        done,
        ..Detail::new(shown, keeper, unsaved)
    };
    Ok(detail::page(viewer.frame(), &detail))
}

/// The search for the last deliveries to a webhook. Another customer's webhook may have had its name.
fn filter(webhook: &WebhookConfig, show: Show) -> DeliveryFilter {
    let (status, dead_letter) = match show {
        Show::All => (None, None),
        Show::Lost => (None, Some(DeadLetter::Open)),
        Show::Retrying => (Some(Status::Failed), None),
        Show::Delivered => (Some(Status::Succeeded), None),
    };
    DeliveryFilter {
        status,
        dead_letter,
        webhook: Some(webhook.full_name()),
        customer_code: Some(webhook.customer_code.to_string()),
        ..DeliveryFilter::default()
    }
}

/// What pages show of webhooks that are served, in the same order.
pub(super) async fn shown(
    state: &ApiState,
    viewer: &Viewer,
    served: &[&WebhookConfig],
) -> Result<Vec<ServedWebhook>, ApiError> {
    let mut reader = viewer.caller.reader(state).await?;
    let mut healths = viewer.health(&mut reader).await?;
    let mut faults = declared::faults(&mut reader, viewer, served).await?;
    let codes: Vec<&str> = served.iter().map(|webhook| webhook.customer_code.as_str()).collect();
    let names = contacts::customer_names(&mut reader, &codes).await?;
    let shown = |webhook: &&WebhookConfig| {
        let health = healths.remove(&webhook.uid).unwrap_or_default();
        // The faults that stop the webhook come first, then possible mistakes.
        let mut faults = faults.remove(&webhook.uid).unwrap_or_default();
        faults.extend(declared::in_words_of(viewer, viewer.caller.tenant.warnings(&webhook.uid)));
        let code = webhook.customer_code.as_str();
        ServedWebhook {
            full_name: webhook.full_name(),
            settings: settings(webhook),
            customer_name: names.get(code).map_or(code, String::as_str).to_owned(),
            takes: takes(viewer, webhook),
            lacks_customer: !names.contains_key(code),
            is_signed: webhook.secret.is_some(),
            has_next_secret: webhook.next_secret.is_some(),
            faults,
            pending: health.pending,
            retrying: health.retrying,
            dead_letter: health.dead_letter,
            last_success_at: health.last_success_at_ms.map(timestamp),
            last_dead_letter_at: health.last_dead_letter_at_ms.map(timestamp),
        }
    };
    Ok(served.iter().map(shown).collect())
}

/// The events that a webhook subscribes to and that are on in the catalogue.
pub(super) fn takes(viewer: &Viewer, webhook: &WebhookConfig) -> Vec<EventCode> {
    let takes = |code: &EventCode| viewer.caller.tenant.webhooks().takes(webhook, *code);
    EventCode::ALL.into_iter().filter(takes).collect()
}

/// The settings with which a webhook is served.
pub(super) fn settings(webhook: &WebhookConfig) -> FormSettings {
    FormSettings {
        display_name: webhook.display_name.clone().unwrap_or_default(),
        customer_code: webhook.customer_code.to_string(),
        target_url: webhook.target_url.url().to_string(),
        events: webhook.events.iter().copied().collect(),
        active: webhook.active,
    }
}
