//! Verify a signature.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use docket_crds::WebhookConfig;
use docket_domain::diagnosis::{self, StandardHeaders};
use docket_portal::logs::Filters;
use docket_portal::verify::{self, Finding, Verify};
use jiff::Timestamp;

use super::forms::{FromForm, Posted};
use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;

const FIELDS: [&str; 6] =
    ["webhook", "body", "signature", "webhookId", "webhookTimestamp", "webhookSignature"];

/// What was pasted: names and values, of which the body may have several lines.
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
    shown(&viewer, Filters::default(), None)
}

/// POST /portal/verify.
pub async fn check(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form: Pasted(sent) }: Posted<Pasted>,
) -> Result<Html<String>, ApiError> {
    let webhook =
        viewer.caller.webhooks().served().find(|webhook| webhook.full_name() == sent.value("webhook"));
    let webhook = webhook.ok_or(ApiError::NotFound("There is no such webhook"))?;
    let secrets: Vec<Vec<u8>> = webhook.secrets().into_iter().map(<[u8]>::to_vec).collect();
    let (pasted, now) = (sent.clone(), state.clock.now());
    // At most 200 HMACs for each signature and secret, 1,400 if the body is short. One form per tenant at a time; also when its user
    // has gone.
    let turn = state.diagnoses.take(viewer.caller.tenant.uid.clone(), 1).await?;
    let findings = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        findings(&secrets, &pasted, now)
    })
    .await;
    Ok(shown(&viewer, sent, Some(findings.map_err(|_| ApiError::Internal)?)))
}

fn shown(viewer: &Viewer, sent: Filters, findings: Option<Vec<Finding>>) -> Html<String> {
    let signed = viewer.caller.webhooks().served().filter(|webhook| webhook.secret.is_some());
    let webhooks = signed.map(WebhookConfig::full_name).collect();
    Html(verify::page(viewer.frame(), &Verify { sent, webhooks, findings }))
}

fn findings(secrets: &[Vec<u8>], sent: &Filters, now: Timestamp) -> Vec<Finding> {
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
