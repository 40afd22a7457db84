//! The driver of Webhooks: takes the outcome, then publishes the status.
//!
//! The Tenant decides which part of a Webhook is served: the steps from fetch to apply run in the Tenant's pass, which
//! stores the outcome of each Webhook in the index. A Webhook's own pass reads this outcome and publishes the status.

pub mod outcome;
pub mod status;

use docket_crds::{TargetUrl, Webhook, WebhookStatus};

use crate::context::Context;
use crate::kube::call_error::CallError;
use crate::state::State;
use crate::state::conditions;
use crate::state::declared::Declared;
use crate::state::done::Done;
use crate::state::name::Name;
use crate::webhook::outcome::outcome;
use crate::webhook::status::WebhookFacts;

/// Makes one pass over a Webhook.
pub async fn reconcile(context: &Context, state: &State, name: &Name) -> Result<Done, CallError> {
    let Some(webhook) = state.cluster().webhook(name) else {
        context.kube.forget_status::<Webhook>(name);
        return Ok(Done::After(None));
    };
    if webhook.meta.deleting.is_some() {
        return Ok(Done::After(None));
    }
    let previous = webhook.status();
    let now = context.clock.now();
    if webhook.meta.paused {
        publish(context, &webhook, &previous, &status::paused(&webhook.meta, &previous, now)).await?;
        return Ok(Done::After(None));
    }
    let Some(outcome) = outcome(&state.cluster(), &webhook, &previous) else {
        // The Tenant's pass comes first, and then causes a pass over this Webhook.
        return Ok(Done::After(None));
    };
    let facts = WebhookFacts {
        meta: &webhook.meta,
        outcome: &outcome,
        health: state.health(&webhook.meta.uid),
        observed: state.reads_the_board(),
        is_private: has_private_target(&webhook),
    };
    let status = status::status(&facts, &previous, now);
    publish(context, &webhook, &previous, &status).await?;
    Ok(Done::After(conditions::arrival_ends(&status.conditions, now)))
}

fn has_private_target(webhook: &Declared<Webhook>) -> bool {
    let document = webhook.document.as_ref().ok();
    let target = document.and_then(|document| document.spec.target_url.parse::<TargetUrl>().ok());
    target.is_some_and(|target| target.is_private_address())
}

async fn publish(
    context: &Context,
    webhook: &Declared<Webhook>,
    previous: &WebhookStatus,
    status: &WebhookStatus,
) -> Result<(), CallError> {
    context.kube.publish_status(webhook, previous, status, &status::events(previous, status)).await
}
