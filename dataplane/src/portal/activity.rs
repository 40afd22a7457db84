//! Activity.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Html;
use docket_domain::audit::{Actor, AuditEvent, AuditRecord};
use docket_domain::token::UserKind;
use docket_portal::activity::{self, Activity, ActivityEntry};
use docket_portal::actors::Actors;
use docket_portal::logs::Filters;
use docket_store::audit::{self, AuditFilter};
use docket_store::walk::Page;
use docket_store::{Connection, people};
use http::StatusCode;
use jiff::Timestamp;

use super::forms::filled_in;
use super::logs::status_of;
use super::session::Viewer;
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::LineText;
use crate::http::paging::{Cursor, DEFAULT_PAGE_SIZE, PageSize, cursor_of};
use crate::http::request::{FromFields, request};
use crate::http::times::{DateOrTime, timestamp};
use crate::http::words::word_schema;

word_schema!(
    /// What an entry of the audit records: [`AuditEvent`].
    AuditWord => AuditEvent,
    "What an entry of the audit records."
);

request! {
    /// The parameters of the page.
    query ActivitySearch {
        /// Only entries about this.
        opt event: AuditWord;
        /// Only entries about this webhook: its namespace/name.
        opt webhook: LineText<320>;
        /// Only what this person did and what is about it: an e-mail address, a check-in name, or an actor such as `employee 52`.
        opt person: LineText<256>;
        /// At or after: a date (meaning 00:00 UTC), or a time with an offset.
        opt from: DateOrTime;
        /// Before: a date (meaning 00:00 UTC), or a time with an offset.
        opt to: DateOrTime;
        /// Entries per page.
        def page_size: PageSize = DEFAULT_PAGE_SIZE;
        /// The cursor of the page before.
        opt cursor: Cursor;
    }
}

/// GET /portal/activity.
pub async fn search(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Html<String>), ApiError> {
    viewer.must_be_administrator()?;
    let filters = filled_in(&query.unwrap_or_default());
    let found = match ActivitySearch::read(RequestFields::of_pairs(filters.clone())) {
        Ok(search) => find(&state, &viewer, search).await,
        Err(error) => Err(error),
    };
    let (Page { items, next }, people, wrong) = match found {
        Ok((found, people)) => (found, people, Vec::new()),
        Err(error) => (Page { items: Vec::new(), next: None }, Actors::default(), error.wrong_fields()?),
    };
    let frame = viewer.frame_with_removed(&mut viewer.caller.reader(&state).await?).await?;
    let (status, entries) = (status_of(&wrong), items.into_iter().map(shown).collect());
    let activity = Activity { filters: Filters(filters), wrong, entries, people, next: cursor_of(next) };
    Ok((status, Html(activity::page(&frame, &activity))))
}

/// A page of entries, and the names of the people in them.
async fn find(
    state: &ApiState,
    viewer: &Viewer,
    search: ActivitySearch,
) -> Result<(Page<AuditRecord>, Actors), ApiError> {
    let mut reader = viewer.caller.reader(state).await?;
    let person = match &search.person {
        Some(typed) => Some(person(&mut reader, typed).await?),
        None => None,
    };
    let filter = AuditFilter {
        event: search.event,
        webhook: search.webhook,
        person,
        from_ms: search.from.map(Timestamp::as_millisecond),
        to_ms: search.to.map(Timestamp::as_millisecond),
        after: search.cursor,
    };
    let found = audit::search(&mut reader, &filter, search.page_size).await?;
    let actors = found.items.iter().flat_map(|record| [record.actor.as_deref(), record.subject.as_deref()]);
    let actors: Vec<&str> = actors.flatten().collect();
    let people = viewer.named(&mut reader, &actors).await?;
    Ok((found, people))
}

/// The actor that a user means: an actor as entries show it, or the person with this check-in name or e-mail address.
async fn person(reader: &mut Connection, typed: &str) -> Result<String, ApiError> {
    if Actor::is_shown(typed) {
        return Ok(typed.to_owned());
    }
    if let Some(code) = people::code_of(reader, UserKind::Employee, typed).await? {
        return Ok(Actor::Employee(code).to_string());
    }
    match people::code_of(reader, UserKind::Contact, typed).await? {
        Some(code) => Ok(Actor::Contact(code).to_string()),
        None => Err(ApiError::field(
            "person",
            "no user has this e-mail address or check-in name; a code is typed as in employee 52 or contact 11",
        )),
    }
}

fn shown(record: AuditRecord) -> ActivityEntry {
    ActivityEntry {
        at: timestamp(record.at_ms),
        event: record.event,
        actor: record.actor,
        subject: record.subject,
        count: record.count,
        address: record.origin.address.map(|address| address.to_string()),
        detail: record.detail,
    }
}
