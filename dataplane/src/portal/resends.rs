//! Bulk resends.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{Html, Redirect};
use docket_domain::delivery::DeliveryId;
use docket_portal::href;
use docket_portal::logs::Filters;
use docket_portal::page::Section;
use docket_portal::resends::{self, Preview, Resend, Resends};
use docket_store::deliveries;
use http::StatusCode;

use super::session::{Posted, Viewer, fields_of, set};
use crate::actions::resend::{Many, Progress, preview, progress};
use crate::api::error::ApiError;
use crate::api::paging::page;
use crate::api::request::FromFields;
use crate::api::state::ApiState;
use crate::api::times::time;
use crate::api::webhook_logs::resends::requests::{ResendMany, ResendSearch, StopResendRequest};
use crate::api::webhook_logs::resends::{many, stop_one};
use crate::api::writes::Write;
use crate::portal::logs::{shown as shown_delivery, status_of};

/// The parameter with the delivery that was sent first, to see whether the receiver works again.
const PROBE: &str = "probe";

/// GET /portal/resends: the bulk resends, and what the choice in the query would resend.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Html<String>), ApiError> {
    let mut choice = set(&query.unwrap_or_default());
    let place = choice.iter().position(|(name, _)| name == PROBE);
    let probe = place.map(|place| choice.remove(place).1);
    let fields = fields_of(&choice);
    let is_of_page =
        |(name, _): &(String, String)| ResendSearch::list().iter().any(|field| field.name == *name);
    let (many, fields, mut wrong) = match choice.iter().all(is_of_page) {
        true => (None, fields, Vec::new()),
        false => match ResendMany::read(fields) {
            Ok(many) => (Some(Many::from(many)), fields_of(&[]), Vec::new()),
            Err(error) => (None, fields_of(&[]), error.wrong_fields()?),
        },
    };
    let ResendSearch { resend_id: id, page_size, cursor } = ResendSearch::read(fields)?;
    let mut reader = viewer.caller.reader(&state).await?;
    let preview = match many {
        None => None,
        Some(many) => {
            match preview(&mut reader, viewer.caller.webhooks(), &many).await.map_err(ApiError::from) {
                Ok((extent, total)) => {
                    let (count, oldest) = (extent.count, extent.oldest_ms.map(time));
                    Some(Preview { count, total, oldest, seconds: many.seconds(count) })
                }
                Err(ApiError::Conflict(why)) => {
                    wrong.push(("webhook".to_owned(), why.to_owned()));
                    None
                }
                Err(error) => return Err(error),
            }
        }
    };
    let found = progress(
        &mut reader,
        viewer.caller.concern().as_deref(),
        id.as_deref(),
        cursor.as_ref(),
        page_size + 1,
    )
    .await?;
    let (found, next) = page(found, page_size, |last| (last.resend.created_at_ms, last.resend.id.clone()));
    let probe = match probe.and_then(|id| id.parse::<DeliveryId>().ok()) {
        None => None,
        Some(id) => deliveries::find(&mut reader, id).await?,
    };
    let probe = probe.filter(|probe| viewer.caller.concerns(&probe.customer_code));
    let resends = Resends {
        choice: Filters(choice),
        wrong,
        preview,
        probe: probe.map(shown_delivery),
        webhooks: viewer.caller.webhooks().served().map(|webhook| webhook.full_name()).collect(),
        resends: found.into_iter().map(shown).collect(),
        next,
    };
    Ok((status_of(&resends.wrong), Html(resends::page(&viewer.frame(&state), &resends))))
}

/// POST /portal/resends.
pub async fn start(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    many(&state, &viewer.caller, form.into(), Write::each_time()).await?;
    Ok(Redirect::to(Section::Resends.path()))
}

/// POST /portal/resends/probe: sends the oldest dead letter of the choice alone, and leads back to the choice.
pub async fn probe(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    let chosen = Many::from(form);
    let alone = Many { limit: 1, ..chosen.clone() };
    let (_, made) = many(&state, &viewer.caller, alone, Write::each_time()).await?;
    let Many { webhook, from_ms, to_ms, limit, per_second } = chosen;
    let text = |ms: Option<i64>| ms.map(|ms| time(ms).to_string());
    let fields = [
        ("webhook", Some(webhook)),
        ("from", text(from_ms)),
        ("to", text(to_ms)),
        ("limit", Some(limit.to_string())),
        ("perSecond", Some(per_second.to_string())),
        (PROBE, made.map(|id| id.to_string())),
    ];
    let fields = fields.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    Ok(Redirect::to(&href(Section::Resends.path(), fields)))
}

/// POST /portal/resends/stop.
pub async fn stop(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<StopResendRequest>,
) -> Result<Redirect, ApiError> {
    stop_one(&state, &viewer.caller, form.resend_id, Write::each_time()).await?;
    Ok(Redirect::to(Section::Resends.path()))
}

fn shown(progress: Progress) -> Resend {
    let Progress { resend, pending, failed, succeeded, dead_letter, taken_back } = progress;
    Resend {
        id: resend.id,
        webhook: resend.webhook_name,
        per_second: resend.per_second,
        count: resend.count,
        requested_by: resend.requested_by,
        created_at: time(resend.created_at_ms),
        stopped: resend.stopped_by.zip(resend.stopped_at_ms.map(time)),
        states: [pending, failed, succeeded, dead_letter, taken_back],
    }
}
