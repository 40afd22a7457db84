//! Verify a signature.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use docket_crds::WebhookConfig;
use docket_domain::audit::AuditEvent;
use docket_domain::diagnosis::{self, StandardHeaders};
use docket_domain::event::LONGEST_EVENT_ID;
use docket_listener::fair_share::Share;
use docket_portal::logs::Filters;
use docket_portal::names::unknown_webhook;
use docket_portal::verify::{self, BodyComparison, Finding, Verify};
use docket_store::events;
use http::StatusCode;
use jiff::Timestamp;

use super::forms::{FromForm, Posted};
use super::logs::status_of;
use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;

const FIELDS: [&str; 6] =
    ["webhook", "body", "signature", "webhookId", "webhookTimestamp", "webhookSignature"];

/// What was pasted: names and values. The body may have several lines.
pub struct Pasted(Filters);

impl FromForm for Pasted {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let unknown = pairs.iter().find(|(name, _)| !FIELDS.contains(&name.as_str()));
        match unknown {
            Some((name, _)) => Err(ApiError::field(name, "is not a field of this form")),
            None => Ok(Self(Filters(pairs))),
        }
    }
}

/// GET /portal/verify.
pub async fn form(viewer: Viewer) -> Html<String> {
    shown(&viewer, Verdict { sent: Filters::default(), wrong: Vec::new(), findings: None, comparison: None })
        .1
}

/// POST /portal/verify: judges what the form has, which may be filled in by the page of a delivery.
pub async fn check(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form: Pasted(sent) }: Posted<Pasted>,
) -> Result<(StatusCode, Html<String>), ApiError> {
    let (secrets, wrong) = read(&viewer, &sent);
    if !wrong.is_empty() {
        return Ok(shown(&viewer, Verdict { sent, wrong, findings: None, comparison: None }));
    }
    let (pasted, now) = (sent.clone(), state.clock.now());
    // At most 200 HMACs for each signature and secret, 1,400 if the body is short. One form per tenant at a time; also when its user
    // has gone.
    let turn = state.diagnoses.take(viewer.caller.tenant.uid.clone(), 1).await?;
    let findings = tokio::task::spawn_blocking(move || findings(turn, &secrets, &pasted, now)).await;
    let findings = Some(findings.map_err(|_| ApiError::Internal)?);
    let comparison = comparison(&state, &viewer, &sent).await?;
    Ok(shown(&viewer, Verdict { sent, wrong, findings, comparison }))
}

/// What came of a form.
struct Verdict {
    sent: Filters,
    wrong: Vec<(String, String)>,
    findings: Option<Vec<Finding>>,
    comparison: Option<BodyComparison>,
}

fn shown(viewer: &Viewer, verdict: Verdict) -> (StatusCode, Html<String>) {
    let Verdict { sent, wrong, findings, comparison } = verdict;
    let signed = viewer.caller.webhooks().served().filter(|webhook| webhook.secret.is_some());
    let webhooks = signed.map(WebhookConfig::full_name).collect();
    let status = status_of(&wrong);
    let page = Verify { sent, wrong, webhooks, findings, comparison };
    (status, Html(verify::page(viewer.frame(), &page)))
}

/// The secrets of the chosen webhook, and what is wrong with the form.
fn read(viewer: &Viewer, sent: &Filters) -> (Vec<Vec<u8>>, Vec<(String, String)>) {
    let (name, mut wrong) = (sent.value("webhook"), Vec::new());
    let mut add = |field: &str, what: String| wrong.push((field.to_owned(), what));
    let webhook = viewer.caller.webhooks().served().find(|webhook| webhook.full_name() == name);
    let secrets = match webhook {
        _ if name.is_empty() => {
            add("webhook", "Choose a webhook".to_owned());
            Vec::new()
        }
        None => {
            add("webhook", unknown_webhook(name, &viewer.frame().webhooks));
            Vec::new()
        }
        Some(webhook) => webhook.secrets().into_iter().map(<[u8]>::to_vec).collect(),
    };
    if webhook.is_some() && secrets.is_empty() {
        add("webhook", "This webhook has no secret, so its deliveries are not signed".to_owned());
    }
    if ["signature", "webhookSignature"].iter().all(|field| sent.value(field).trim().is_empty()) {
        add("signature", "Paste this header, or webhook-signature below".to_owned());
    }
    (secrets, wrong)
}

/// How the body differs from the event that `webhook-id` names, if it names one. The audit records that the user could learn the
/// event's payload.
async fn comparison(
    state: &ApiState,
    viewer: &Viewer,
    sent: &Filters,
) -> Result<Option<BodyComparison>, ApiError> {
    let id = sent.value("webhookId").trim();
    if id.is_empty() {
        return Ok(None);
    }
    if id.len() > LONGEST_EVENT_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Some(BodyComparison::NoSuchEvent));
    }
    let mut reader = viewer.caller.reader(state).await?;
    let found = events::to_send(&mut reader, &[id.to_owned()]).await?.remove(id);
    let Some(event) = found.filter(|event| viewer.caller.concerns(&event.customer_code)) else {
        return Ok(Some(BodyComparison::NoSuchEvent));
    };
    let Some(body) = event.body else { return Ok(None) };
    let entry = viewer.caller.entry(state, AuditEvent::PayloadRead).about("event", id);
    state.audit.record_read(&viewer.caller.tenant, entry);
    Ok(Some(BodyComparison::of(&body, sent.value("body").as_bytes())))
}

/// What is wrong with each signature. The turn ends with the check.
fn findings(_turn: Share, secrets: &[Vec<u8>], sent: &Filters, now: Timestamp) -> Vec<Finding> {
    let value = |name| Some(sent.value(name).trim()).filter(|value| !value.is_empty());
    let body = sent.value("body").as_bytes();
    let fault = |fault: &dyn std::fmt::Display| fault.to_string();
    let headers = StandardHeaders {
        id: value("webhookId"),
        timestamp: value("webhookTimestamp"),
        signature: value("webhookSignature"),
    };
    let service = value("signature").map(|signature| Finding {
        header: "X-Service-Signature",
        fault: diagnosis::service(secrets, signature, &headers, body).err().map(|found| fault(&found)),
    });
    let standard = headers.signature.map(|_| Finding {
        header: "webhook-signature",
        fault: diagnosis::standard(secrets, &headers, body, now).err().map(|found| fault(&found)),
    });
    service.into_iter().chain(standard).collect()
}
