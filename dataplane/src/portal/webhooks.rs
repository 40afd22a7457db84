//! Customer ▸ Webhooks. The portal declares webhooks where [`writes`](super::writes) can, and shows those that others declare,
//! with the YAML to change.

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
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::{WebhookConfig, WebhookSpec};
use docket_domain::audit::AuditEvent;
use docket_portal::logs::link;
use docket_portal::page::{Section, webhook_link};
use docket_portal::webhooks::{self, FormSettings, Keeper};
use docket_program::random;
use http::StatusCode;

use super::declared;
use super::forms::Posted;
use super::session::Viewer;
use super::writes::{Declared, NotWritten, WebhookEdit, Writes};
use crate::api::state::ApiState;
use crate::api::webhook_logs::test_events::send_test;
use crate::http::error::ApiError;
use editor::Editor;
use forms::{TestForm, VersionForm, WebhookForm, spec, wrong};
use keeper::keeper;

const NO_SUCH_WEBHOOK: ApiError = ApiError::NotFound(
    "There is no such webhook; if it was added a moment ago, open this page again in some seconds",
);

type Name = Result<Path<(String, String)>, PathRejection>;

/// GET /portal/webhooks.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
) -> Result<Html<String>, ApiError> {
    let mut all: Vec<&WebhookConfig> = viewer.caller.webhooks().served().collect();
    all.sort_by_key(|webhook| (&webhook.namespace, &webhook.name));
    let shown = view::shown(&state, &viewer, &all).await?;
    let unserved = declared::unserved(&viewer);
    let can_add = Editor::new(&state, &viewer, &writes).is_ok();
    Ok(Html(webhooks::list(viewer.frame(), &shown, &unserved, can_add)))
}

/// GET /portal/webhooks/{namespace}/{name}.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    name: Name,
) -> Result<Html<String>, ApiError> {
    let name = name_of(name)?;
    let Some(webhook) = find(&viewer, &name) else {
        let editor = Editor::new(&state, &viewer, &writes).map_err(|_| NO_SUCH_WEBHOOK)?;
        let stored = editor.stored(&name).await?;
        return Ok(Html(view::unserved(&viewer, &stored.declared, &stored.version, None)));
    };
    let keeper = keeper(&writes, &viewer, webhook).await?;
    Ok(Html(view::served(&state, &viewer, webhook, &keeper, None).await?))
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
    let settings = FormSettings { customer_code, ..settings };
    let spec = WebhookSpec { secret_ref, generate_secret, ..spec(&viewer, &settings) };
    let after = Declared { spec, ..before.declared.clone() };
    let wrong = wrong(&after);
    if !wrong.is_empty() {
        let unsaved = Some((&settings, &wrong[..]));
        let page = match find(&viewer, &name) {
            Some(webhook) => {
                view::served(&state, &viewer, webhook, &Keeper::Portal(version), unsaved).await?
            }
            None => view::unserved(&viewer, &before.declared, &version, unsaved),
        };
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    editor.write(&before, WebhookEdit::Replace(&after), &version, AuditEvent::WebhookChanged).await?;
    editor.until_served(&after).await;
    Ok(to_page_of(&after))
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
        return Ok(Redirect::to(Section::Webhooks.path()).into_response());
    }
    let mut after = before.declared.clone();
    let serves_next = find(&viewer, &name).map(|webhook| webhook.next_secret.is_some());
    let event = change(&mut after, &action, serves_next)?;
    editor.write(&before, WebhookEdit::Replace(&after), &version, event).await?;
    if action == "rotate" {
        return editor.show_secret(&after).await;
    }
    editor.until_served(&after).await;
    Ok(to_page_of(&after))
}

/// Changes a webhook as a button of its page says. `serves_next`: whether the webhook is served with a next secret, if it is served.
fn change(declared: &mut Declared, action: &str, serves_next: Option<bool>) -> Result<AuditEvent, ApiError> {
    // What is declared and what is served differ while a change is under way; then the secrets stay as they are.
    match (action, (declared.has_next(), serves_next)) {
        ("activate", _) => {
            declared.spec.active = true;
            Ok(AuditEvent::WebhookActivated)
        }
        ("deactivate", _) => {
            declared.spec.active = false;
            Ok(AuditEvent::WebhookDeactivated)
        }
        ("rotate", (false, Some(false))) => {
            declared.make_next(hex::encode(random::bytes::<32>()).into_bytes().into());
            Ok(AuditEvent::NextSecretMade)
        }
        ("promote", (true, Some(true))) => {
            declared.promote_next();
            Ok(AuditEvent::NextSecretPromoted)
        }
        ("withdraw", (true, Some(true))) => {
            declared.drop_next();
            Ok(AuditEvent::NextSecretDropped)
        }
        ("rotate" | "promote" | "withdraw", _) => Err(NotWritten::Changed.into()),
        _ => Err(ApiError::NoSuchRoute),
    }
}

/// POST /portal/webhooks/{namespace}/{name}/test: leads to the delivery.
pub async fn test(
    State(state): State<Arc<ApiState>>,
    name: Name,
    Posted { viewer, form: TestForm { event } }: Posted<TestForm>,
) -> Result<Redirect, ApiError> {
    let uid = &find(&viewer, &name_of(name)?).ok_or(NO_SUCH_WEBHOOK)?.uid;
    let id = send_test(&state, &viewer.caller, uid, Some(event)).await?;
    Ok(Redirect::to(&link(&id.to_string())))
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

fn to_page_of(declared: &Declared) -> Response {
    Redirect::to(&webhook_link(&declared.full_name())).into_response()
}
