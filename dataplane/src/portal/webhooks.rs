//! The section Webhooks. The portal declares webhooks where [`writes`](super::writes) can. It shows webhooks that others
//! declare, with the YAML to change.

mod changed;
mod editor;
pub mod forms;
mod keeper;
pub mod new;
mod secret;
mod served;
mod view;

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::{WebhookConfig, WebhookSpec};
use docket_domain::audit::AuditEvent;
use docket_portal::notifications;
use docket_portal::page::{Section, webhook_link};
use docket_portal::webhooks::list::{self, Choice, List};
use docket_portal::webhooks::{Done, FormSettings, Keeper, detail};
use docket_portal::{DONE, href};
use docket_program::random;
use http::StatusCode;

use super::declared;
use super::forms::{Posted, filled_in};
use super::session::Viewer;
use super::writes::{Declared, NotWritten, WebhookEdit, Writes};
use crate::api::state::ApiState;
use crate::api::webhook_logs::test_events::send_test;
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::request::FromFields;
use editor::Editor;
use forms::{DetailQuery, ListQuery, TestForm, VersionForm, WebhookForm, spec, wrong};
use keeper::keeper;
use view::Asked;

const NO_SUCH_WEBHOOK: ApiError = ApiError::NotFound(
    "There is no such webhook; if it was added a moment ago, open this page again in some seconds",
);

type Name = Result<Path<(String, String)>, PathRejection>;

/// GET /portal/webhooks.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let query: ListQuery = read(query)?;
    let all: Vec<&WebhookConfig> = viewer.caller.webhooks().served().collect();
    let list = List {
        webhooks: view::shown(&state, &viewer, &all).await?,
        unserved: declared::unserved(&viewer),
        choice: Choice {
            text: query.q.unwrap_or_default(),
            state: query.state,
            customer: query.customer.unwrap_or_default(),
            page: query.page.and_then(|page| usize::try_from(page).ok()).unwrap_or_default(),
        },
        can_add: Editor::new(&state, &viewer, &writes).is_ok(),
        done: done(query.done),
    };
    Ok(Html(list::page(viewer.frame(), &list)))
}

/// Reads the parameters that were filled in.
fn read<Q: FromFields>(query: Option<String>) -> Result<Q, ApiError> {
    Q::read(RequestFields::of_pairs(filled_in(&query.unwrap_or_default())))
}

fn done(word: Option<String>) -> Option<Done> {
    word?.parse().ok()
}

/// GET /portal/webhooks/{namespace}/{name}.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let name = name_of(name)?;
    let query: DetailQuery = read(query)?;
    let asked = Asked {
        range: query.range.unwrap_or_default(),
        show: query.show.unwrap_or_default(),
        subscribed: query.done.as_deref().and_then(notifications::done),
        done: done(query.done),
    };
    let Some(webhook) = find(&viewer, &name) else {
        return unserved(&state, &viewer, &writes, &name, asked.done).await.map(Html);
    };
    let keeper = keeper(&writes, &viewer, webhook).await?;
    Ok(Html(view::served(&state, &viewer, webhook, keeper, None, asked).await?))
}

/// The page of a webhook that is not served: with its form if the portal declares it.
async fn unserved(
    state: &ApiState,
    viewer: &Viewer,
    writes: &Writes,
    name: &(String, String),
    done: Option<Done>,
) -> Result<String, ApiError> {
    let stored = match Editor::new(state, viewer, writes) {
        Ok(editor) => editor.stored(name).await,
        Err(_) => Err(NO_SUCH_WEBHOOK),
    };
    let held = declared::held(viewer, &format!("{}/{}", name.0, name.1));
    match (stored, held) {
        (Ok(stored), _) => Ok(view::unserved(viewer, &stored.declared, &stored.version, &None, done)),
        (Err(ApiError::NotFound(_)), Some(faulty)) => {
            Ok(detail::unserved(viewer.frame(), &faulty, None, done))
        }
        (Err(error), _) => Err(error),
    }
}

/// POST /portal/webhooks/{namespace}/{name}.
pub async fn save(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    name: Name,
    Posted { viewer, form: WebhookForm { settings, version, .. } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let editor = Editor::new(&state, &viewer, &writes)?;
    let name = name_of(name)?;
    let version = version.ok_or_else(|| ApiError::field("version", "required"))?;
    let before = editor.stored(&name).await?;
    let WebhookSpec { customer_code, secret_ref, generate_secret, .. } = before.declared.spec.clone();
    let settings = FormSettings { customer_code, active: before.declared.spec.active, ..settings };
    let spec = WebhookSpec { secret_ref, generate_secret, ..spec(&viewer, &settings) };
    let after = Declared { spec, ..before.declared.clone() };
    let wrong = wrong(&after);
    if !wrong.is_empty() {
        let unsaved = Some((settings, wrong));
        let page = match find(&viewer, &name) {
            Some(webhook) => {
                let keeper = Keeper::Portal(version);
                view::served(&state, &viewer, webhook, keeper, unsaved, Asked::default()).await?
            }
            None => view::unserved(&viewer, &before.declared, &version, &unsaved, None),
        };
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    editor.write(&before, WebhookEdit::Replace(&after), &version, AuditEvent::WebhookChanged).await?;
    Ok(served(&editor, &after, Done::Saved).await)
}

/// POST /portal/webhooks/{namespace}/{name}/{action}.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    Posted { viewer, form: VersionForm { version } }: Posted<VersionForm>,
) -> Result<Response, ApiError> {
    let editor = Editor::new(&state, &viewer, &writes)?;
    let Path((namespace, name, action)) = path.map_err(|_| NO_SUCH_WEBHOOK)?;
    let name = (namespace, name);
    let before = editor.stored(&name).await?;
    if action == "remove" {
        editor.write(&before, WebhookEdit::Remove, &version, AuditEvent::WebhookRemoved).await?;
        editor.until_removed(&before.declared).await;
        let list = href(Section::Webhooks.path(), [(DONE, Done::Removed.as_str())]);
        return Ok(Redirect::to(&list).into_response());
    }
    let mut after = before.declared.clone();
    let serves_next = find(&viewer, &name).map(|webhook| webhook.next_secret.is_some());
    let (event, done) = change(&mut after, &action, serves_next)?;
    editor.write(&before, WebhookEdit::Replace(&after), &version, event).await?;
    match done {
        Some(done) => Ok(served(&editor, &after, done).await),
        None => editor.show_secret(&after).await,
    }
}

/// Changes a webhook as a button of its page says. `serves_next`: whether the webhook is served with a next secret, if it is served.
/// Returns what to record, and what the page then says; `None`: the page shows a secret.
fn change(
    declared: &mut Declared,
    action: &str,
    serves_next: Option<bool>,
) -> Result<(AuditEvent, Option<Done>), ApiError> {
    // What is declared and what is served differ while a change is under way; then the secrets stay as they are.
    match (action, (declared.has_next(), serves_next)) {
        ("activate", _) => {
            declared.spec.active = true;
            Ok((AuditEvent::WebhookActivated, Some(Done::Activated)))
        }
        ("deactivate", _) => {
            declared.spec.active = false;
            Ok((AuditEvent::WebhookDeactivated, Some(Done::Deactivated)))
        }
        ("rotate", (false, Some(false))) => {
            declared.make_next(hex::encode(random::bytes::<32>()).into_bytes().into());
            Ok((AuditEvent::NextSecretMade, None))
        }
        ("promote", (true, Some(true))) => {
            declared.promote_next();
            Ok((AuditEvent::NextSecretPromoted, Some(Done::Promoted)))
        }
        ("withdraw", (true, Some(true))) => {
            declared.drop_next();
            Ok((AuditEvent::NextSecretDropped, Some(Done::Dropped)))
        }
        ("rotate" | "promote" | "withdraw", _) => Err(NotWritten::Changed.into()),
        _ => Err(ApiError::NoSuchRoute),
    }
}

/// POST /portal/webhooks/{namespace}/{name}/test: leads back to the webhook, whose page shows the result.
pub async fn test(
    State(state): State<Arc<ApiState>>,
    name: Name,
    Posted { viewer, form: TestForm { event } }: Posted<TestForm>,
) -> Result<Redirect, ApiError> {
    let webhook = find(&viewer, &name_of(name)?).ok_or(NO_SUCH_WEBHOOK)?;
    send_test(&state, &viewer.caller, &webhook.uid, Some(event)).await?;
    let page = href(&webhook_link(&webhook.full_name()), [(DONE, Done::TestSent.as_str())]);
    Ok(Redirect::to(&format!("{page}#test")))
}

fn name_of(name: Name) -> Result<(String, String), ApiError> {
    name.map(|Path(name)| name).map_err(|_| NO_SUCH_WEBHOOK)
}

/// The webhook of this namespace and name, if it is served.
fn find<'a>(viewer: &'a Viewer, (namespace, name): &(String, String)) -> Option<&'a WebhookConfig> {
    let mut served = viewer.caller.webhooks().served();
    served.find(|webhook| webhook.namespace == *namespace && webhook.name == *name)
}

/// Whether a webhook is of the viewer's tenant and, for a contact, of the contact's customer.
fn is_of(viewer: &Viewer, declared: &Declared) -> bool {
    let tenant = &viewer.caller.tenant.config;
    declared.namespace == tenant.namespace
        && declared.spec.tenant_ref.name == tenant.name
        && viewer.caller.customer.as_ref().is_none_or(|customer| *customer == declared.spec.customer_code)
}

/// Waits until a change is served, and leads to the webhook's page, which says what was done.
async fn served(editor: &Editor<'_>, after: &Declared, done: Done) -> Response {
    let is_served = editor.until_served(after).await.is_some();
    to_page_of(after, Some(if is_served { done } else { Done::Later }))
}

fn to_page_of(declared: &Declared, done: Option<Done>) -> Response {
    let page = href(&webhook_link(&declared.full_name()), [(DONE, done.map_or("", Done::as_str))]);
    Redirect::to(&page).into_response()
}
