//! Resends.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{Html, Redirect};
use docket_domain::delivery::DeliveryId;
use docket_domain::resend::Aside;
use docket_portal::logs::Filters;
use docket_portal::names::unknown_webhook;
use docket_portal::page::Section;
use docket_portal::resends::{self, Preview, ResendView, Resends, SetAside};
use docket_portal::{DONE, href};
use docket_store::Connection;
use docket_store::deliveries::{self, ListedDelivery};
use http::StatusCode;

use super::forms::{Posted, filled_in};
use super::session::Viewer;
use crate::actions::choice::Choice;
use crate::actions::resend::{Many, Progress, preview, progress};
use crate::actions::set_aside;
use crate::api::state::ApiState;
use crate::api::webhook_logs::resends::requests::{ResendMany, ResendSearch, StopResendRequest};
use crate::api::webhook_logs::resends::{many, stop_one};
use crate::api::webhook_logs::set_aside::many as set_many_aside;
use crate::api::writes::Write;
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::paging::page;
use crate::http::request::FromFields;
use crate::http::times::timestamp;
use crate::portal::logs::{shown as shown_delivery, status_of};
use crate::refusal::Refusal;

/// The parameter with the delivery that was sent first, to see whether the receiver works again.
const PROBE: &str = "probe";

/// GET /portal/resends: the resends, and what the choice in the query would resend.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Html<String>), ApiError> {
    let mut choice = filled_in(&query.unwrap_or_default());
    let (probe, done) = (take(&mut choice, PROBE), done(&mut choice));
    name_webhook(&mut choice, &viewer);
    let fields = RequestFields::of_pairs(choice.clone());
    let is_of_page =
        |(name, _): &(String, String)| ResendSearch::list().iter().any(|field| field.name == *name);
    let (many, fields, mut wrong) = match choice.iter().all(is_of_page) {
        true => (None, fields, Vec::new()),
        false => match ResendMany::read(fields) {
            Ok(many) => (Some(Many::from(many)), RequestFields::of_query(None), Vec::new()),
            Err(error) => {
                let wrong = error.wrong_fields()?.into_iter().map(in_words).collect();
                (None, RequestFields::of_query(None), wrong)
            }
        },
    };
    let ResendSearch { resend_id: id, page_size, cursor } = ResendSearch::read(fields)?;
    let mut reader = viewer.caller.reader(&state).await?;
    let (mut preview, mut to_set_aside) = (None, None);
    if let Some(many) = &many {
        let previewed = previewed(&mut reader, &viewer, many).await;
        let sendable = previewed.as_ref().map_or(0, |preview| preview.count);
        let choice = many.choice.as_of(state.clock.now());
        to_set_aside = aside(&mut reader, &viewer, &choice, sendable).await?;
        match previewed {
            Err(ApiError::Conflict(_)) => {
                let why = refused(&viewer, &many.choice.webhook, to_set_aside.is_some());
                wrong.push(("webhook".to_owned(), why));
            }
            previewed => preview = Some(previewed?),
        }
    }
    let found = progress(
        &mut reader,
        viewer.caller.concern().as_deref(),
        id.as_deref(),
        cursor.as_ref(),
        page_size + 1,
    )
    .await?;
    let (found, next) = page(found, page_size, |last| (last.resend.created_at_ms, last.resend.id.clone()));
    let probe = probed(&mut reader, &viewer, probe).await?;
    let people = viewer.named(&mut reader, &actors(&found)).await?;
    let frame = viewer.frame_with_removed(&mut reader).await?;
    let resends = Resends {
        choice: Filters(choice),
        wrong,
        preview,
        aside: to_set_aside,
        done,
        probe: probe.map(shown_delivery),
        resends: found.into_iter().map(shown).collect(),
        people,
        next,
    };
    Ok((status_of(&resends.wrong), Html(resends::page(&frame, &resends))))
}

/// Takes a parameter out of a query.
fn take(query: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let place = query.iter().position(|(other, _)| other == name)?;
    Some(query.remove(place).1)
}

/// Names the webhook of a choice: the page knows webhooks by their names, and a link may have a uid.
fn name_webhook(choice: &mut [(String, String)], viewer: &Viewer) {
    if let Some((_, name)) = choice.iter_mut().find(|(name, _)| name == "webhook")
        && let Some(webhook) = viewer.caller.webhooks().named(name)
    {
        *name = webhook.full_name();
    }
}

/// The people who started and stopped these resends.
fn actors(found: &[Progress]) -> Vec<&str> {
    let actors = found
        .iter()
        .flat_map(|found| [Some(found.resend.requested_by.as_str()), found.resend.stopped_by.as_deref()]);
    actors.flatten().collect()
}

/// What a resend of these dead letters would queue.
async fn previewed(reader: &mut Connection, viewer: &Viewer, many: &Many) -> Result<Preview, ApiError> {
    let (extent, total) = preview(reader, viewer.caller.webhooks(), many).await?;
    let (count, oldest) = (extent.count, extent.oldest_ms.map(timestamp));
    Ok(Preview { count, total, oldest, seconds: many.seconds(count) })
}

/// The delivery that was sent first, if `id` is the id of a delivery that the user may see.
async fn probed(
    reader: &mut Connection,
    viewer: &Viewer,
    id: Option<String>,
) -> Result<Option<ListedDelivery>, ApiError> {
    let Some(id) = id.and_then(|id| id.parse::<DeliveryId>().ok()) else { return Ok(None) };
    let found = deliveries::find(reader, id).await?;
    Ok(found.filter(|found| viewer.caller.concerns(&found.customer_code)))
}

/// What is wrong with a field, in the words of the form.
fn in_words((field, message): (String, String)) -> (String, String) {
    match (field.as_str(), message.as_str()) {
        ("webhook", "required") => (field, "Choose a webhook".to_owned()),
        _ => (field, message),
    }
}

/// Why no dead letter can be sent to the webhook of this name. `is_known`: a webhook with dead letters had the name.
fn refused(viewer: &Viewer, name: &str, is_known: bool) -> String {
    match viewer.caller.webhooks().named(name) {
        Some(webhook) if !webhook.active => {
            "This webhook is inactive; activate it on its page, and choose it again".to_owned()
        }
        Some(_) => {
            "This webhook is another customer's; the lost deliveries are of a webhook that had its name before"
                .to_owned()
        }
        None if is_known => {
            "This webhook is not served, so nothing can be sent to it; its lost deliveries can be set aside"
                .to_owned()
        }
        None => unknown_webhook(name, &viewer.frame().webhooks),
    }
}

/// POST /portal/resends.
pub async fn start(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    let (_, queued) = many(&state, &viewer.caller, form.into(), Write::each_time()).await?;
    Ok(to_page("started", queued.count))
}

/// Leads to the page without a choice, which says what was done and to how many deliveries.
fn to_page(done: &str, count: i64) -> Redirect {
    let count = count.to_string();
    Redirect::to(&href(Section::Resends.path(), [(DONE, done), (COUNT, count.as_str())]))
}

/// POST /portal/resends/probe: sends the oldest dead letter of the choice alone, and leads back to the choice.
pub async fn probe(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    let chosen = Many::from(form);
    let alone = Many { choice: Choice { limit: 1, ..chosen.choice.clone() }, ..chosen };
    let (_, queued) = many(&state, &viewer.caller, alone, Write::each_time()).await?;
    Ok(match queued.first {
        Some(id) => back(chosen, [(PROBE, Some(id.to_string())), (DONE, None)]),
        None => back(chosen, [(DONE, Some("started".to_owned())), (COUNT, Some("0".to_owned()))]),
    })
}

/// Leads back to a choice, with the result of the action.
fn back(chosen: Many, more: [(&'static str, Option<String>); 2]) -> Redirect {
    let Many { choice: Choice { webhook, event, from_ms, to_ms, limit, .. }, per_second } = chosen;
    let text = |ms: Option<i64>| {
        let at = timestamp(ms?).to_string();
        // A day stays a day, which the form shows in its field of days.
        Some(at.strip_suffix("T00:00:00Z").map(str::to_owned).unwrap_or(at))
    };
    let fields = [
        ("webhook", Some(webhook)),
        ("event", event.map(|event| event.to_string())),
        ("from", text(from_ms)),
        ("to", text(to_ms)),
        ("limit", Some(limit.to_string())),
        ("perSecond", Some(per_second.to_string())),
    ];
    let fields = fields.iter().chain(&more).filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    Redirect::to(&href(Section::Resends.path(), fields))
}

/// How many dead letters the choice would set aside, and how many are; `None`: the webhook is not known. `sendable`: how many of the
/// choice can be sent again.
async fn aside(
    reader: &mut Connection,
    viewer: &Viewer,
    choice: &Choice,
    sendable: i64,
) -> Result<Option<SetAside>, ApiError> {
    let name = viewer.caller.name();
    let by = viewer.caller.by(&name);
    // What can be sent again can be set aside, so a full choice is not counted twice: 10,000 take some 50 ms.
    let to_set = match sendable == choice.limit {
        true => sendable,
        false => match set_aside::preview(reader, by, choice, Aside::Set).await {
            Err(Refusal::NotFound(_)) => return Ok(None),
            found => found?.0.count,
        },
    };
    let (to_undo, _) = set_aside::preview(reader, by, choice, Aside::Undo).await?;
    Ok(Some(SetAside { to_set, to_undo: to_undo.count, ended_before: choice.ended_before_ms.map(timestamp) }))
}

/// The count with what the user has just done, such as `7`.
const COUNT: &str = "count";

/// Takes what the user has just done out of the query.
fn done(query: &mut Vec<(String, String)>) -> Option<String> {
    let (done, count) = (take(query, DONE), take(query, COUNT));
    let count = count?.parse::<u16>().ok()?;
    let (lost, are) = if count == 1 { ("lost delivery", "is") } else { ("lost deliveries", "are") };
    match (done?.as_str(), count) {
        ("started", 0) => Some("Nothing was sent: no lost delivery of the choice is left.".to_owned()),
        ("started", _) => Some(format!("{count} {lost} {are} queued to be sent again.")),
        ("stopped", 0) => Some("The resend is stopped. Everything had been sent already.".to_owned()),
        ("stopped", _) => Some(format!(
            "The resend is stopped. {count} {lost} {are} not sent, and can be sent another time."
        )),
        ("set-aside", _) => Some(format!("{count} {lost} {are} set aside.")),
        ("undo-set-aside", _) => Some(format!("{count} {lost} {are} not set aside any more.")),
        _ => None,
    }
}

/// POST /portal/resends/set-aside: sets the dead letters of the choice aside, and leads back to it.
pub async fn set_aside(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    change(&state, &viewer, form.into(), Aside::Set).await
}

/// POST /portal/resends/undo-set-aside: undoes that.
pub async fn undo_set_aside(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<ResendMany>,
) -> Result<Redirect, ApiError> {
    change(&state, &viewer, form.into(), Aside::Undo).await
}

async fn change(state: &ApiState, viewer: &Viewer, many: Many, aside: Aside) -> Result<Redirect, ApiError> {
    let (_, count) =
        set_many_aside(state, &viewer.caller, many.choice.clone(), aside, Write::each_time()).await?;
    Ok(back(many, [(DONE, Some(aside.to_string())), (COUNT, Some(count.to_string()))]))
}

/// POST /portal/resends/stop.
pub async fn stop(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<StopResendRequest>,
) -> Result<Redirect, ApiError> {
    let (_, withdrawn) = stop_one(&state, &viewer.caller, form.resend_id, Write::each_time()).await?;
    Ok(to_page("stopped", withdrawn))
}

fn shown(progress: Progress) -> ResendView {
    let Progress { resend, pending, failed, succeeded, dead_letter } = progress;
    ResendView {
        id: resend.id,
        webhook: resend.webhook_name,
        per_second: resend.per_second,
        count: resend.count,
        requested_by: resend.requested_by,
        created_at: timestamp(resend.created_at_ms),
        stopped: resend.stopped_by.zip(resend.stopped_at_ms.map(timestamp)),
        waiting: pending,
        retrying: failed,
        arrived: succeeded,
        dead: dead_letter,
        withdrawn: resend.taken_back,
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use docket_crds::EventCode;
    use http::header::LOCATION;

    use super::*;

    #[test]
    fn what_was_done_is_a_sentence_and_no_part_of_the_choice() {
        let said = |sent: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let mut query: Vec<_> = sent.iter().map(pair).collect();
            let sentence = done(&mut query);
            (sentence, query.len())
        };
        for (word, count, sentence) in [
            ("started", "0", "Nothing was sent: no lost delivery of the choice is left."),
            ("started", "1", "1 lost delivery is queued to be sent again."),
            ("started", "2", "2 lost deliveries are queued to be sent again."),
            ("stopped", "0", "The resend is stopped. Everything had been sent already."),
            (
                "stopped",
                "1",
                "The resend is stopped. 1 lost delivery is not sent, and can be sent another time.",
            ),
            ("set-aside", "1", "1 lost delivery is set aside."),
            ("undo-set-aside", "3", "3 lost deliveries are not set aside any more."),
        ] {
            let sent = [("done", word), ("webhook", "a/b"), ("count", count)];
            assert_eq!(said(&sent), (Some(sentence.to_owned()), 1));
        }
        for sent in [
            &[("done", "started"), ("count", "<b>")][..],
            &[("done", "started"), ("count", "-1")],
            &[("done", "<b>"), ("count", "1")],
            &[("done", "started")],
            &[("count", "1")],
        ] {
            assert_eq!(said(sent), (None, 0), "{sent:?}");
        }
    }

    #[test]
    fn choice_comes_back_as_it_was_sent() {
        let choice = Choice {
            webhook: "a/b".to_owned(),
            event: Some(EventCode::OrderCreated),
            from_ms: Some(0),
            to_ms: Some(90_061_000),
            ended_before_ms: Some(1),
            limit: 7,
        };
        let chosen = Many { choice, per_second: 3 };
        let leads_to = |many, more| {
            let response = back(many, more).into_response();
            response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned)
        };
        let path = "/portal/resends?webhook=a%2Fb&event=order.created&from=1970-01-01&to=1970-01-02T01%3A01%3A01Z&limit=7&perSecond=3";
        let more = [(DONE, Some("set-aside".to_owned())), (COUNT, Some("2".to_owned()))];
        assert_eq!(leads_to(chosen.clone(), more), Some(format!("{path}&done=set-aside&count=2")));
        assert_eq!(leads_to(chosen, [(PROBE, None), (DONE, None)]), Some(path.to_owned()));
    }
}
