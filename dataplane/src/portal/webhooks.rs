//! Customer ▸ Webhooks. In `docket dev` the portal declares webhooks in a folder of its own; everywhere it shows those that
//! others declare, with the YAML to change.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::{EventCode, SecretBytes, TargetUrl, WebhookConfig};
use docket_domain::audit::AuditEvent;
use docket_domain::signature;
use docket_portal::logs::link;
use docket_portal::page::Section;
use docket_portal::webhooks::{self, Keeper, Settings, ShownSecret, Webhook};
use docket_program::random;
use docket_store::contacts;
use docket_store::health::{self, WebhookHealth};
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};

use super::documents::{Declared, Documents, NotWritten};
use super::session::{Posted, Viewer};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::kinds::Line;
use crate::api::request::{Described, FromFields};
use crate::api::state::ApiState;
use crate::api::times::time;
use crate::api::webhook_logs::answers::EventWord;
use crate::api::webhook_logs::test_events::send_test;

const NO_SUCH_WEBHOOK: ApiError = ApiError::NotFound("There is no such webhook");
const CHANGED: ApiError =
    ApiError::Conflict("The webhook was changed meanwhile; look at its page again, and repeat your change");
/// How long a page waits until a change is served, and how often it looks.
const SERVED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(100));

/// Where the portal can declare webhooks; `None`: it only shows them.
pub type Writes = Option<Arc<Documents>>;

/// The fields of the form of a webhook.
pub struct WebhookForm {
    settings: Settings,
    /// The version that the form was made from; `None`: of a new webhook.
    version: Option<String>,
}

impl FromFields for WebhookForm {
    fn list() -> Vec<Described> {
        Vec::new()
    }

    fn take(fields: &mut Fields) -> Option<Self> {
        let mut is_set = |name| fields.opt::<Line<8>>(name).is_some();
        let active = is_set("active");
        let events = EventCode::ALL.into_iter().filter(|code| is_set(code.as_str())).collect();
        let mut text = |name| fields.opt::<Line<4096>>(name).unwrap_or_default();
        let (display_name, target_url) = (text("displayName"), text("targetUrl"));
        let customer_code = text("customerCode");
        let version = fields.opt::<Line<64>>("version");
        Some(Self { settings: Settings { display_name, customer_code, target_url, events, active }, version })
    }
}

/// The field of a form with one button.
pub struct VersionForm(String);

impl FromFields for VersionForm {
    fn list() -> Vec<Described> {
        Vec::new()
    }

    fn take(fields: &mut Fields) -> Option<Self> {
        fields.req::<Line<64>>("version").map(Self)
    }
}

/// The field of the form that sends a test event.
pub struct TestForm(EventCode);

impl FromFields for TestForm {
    fn list() -> Vec<Described> {
        Vec::new()
    }

    fn take(fields: &mut Fields) -> Option<Self> {
        fields.req::<EventWord>("event").map(Self)
    }
}

type Name = Result<Path<(String, String)>, PathRejection>;

/// GET /portal/webhooks.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
) -> Result<Html<String>, ApiError> {
    let mut reader = viewer.caller.reader(&state).await?;
    let healths = health::by_webhook(&mut reader).await?;
    let mut all: Vec<&WebhookConfig> = viewer.caller.webhooks().served().collect();
    all.sort_by_key(|webhook| (&webhook.namespace, &webhook.name));
    let shown: Vec<Webhook> = all.into_iter().map(|webhook| shown(&viewer, webhook, &healths)).collect();
    Ok(Html(webhooks::list(&viewer.frame(&state), &shown, writes.is_some())))
}

/// GET /portal/webhooks/new.
pub async fn form(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
) -> Result<Html<String>, ApiError> {
    can_write(&writes)?;
    let customer_code = viewer.caller.customer.clone().unwrap_or_default();
    let settings = Settings { active: true, customer_code, ..Settings::default() };
    Ok(Html(webhooks::new(&viewer.frame(&state), &settings, &[])))
}

/// POST /portal/webhooks/new: shows the secret, this once.
pub async fn create(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    Posted { viewer, form: WebhookForm { settings, .. } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let documents = can_write(&writes)?;
    let config = &viewer.caller.tenant.config;
    // A contact's customer is the user's own, whatever the form says.
    let customer_code = viewer.caller.customer.clone().unwrap_or(settings.customer_code);
    let settings = Settings { customer_code, ..settings };
    let secret = new_secret();
    let declared = Declared {
        namespace: config.namespace.clone(),
        name: format!("portal-{}", hex::encode(random::bytes::<5>())),
        tenant: config.name.clone(),
        secret: Some(secret.clone()),
        next_secret: None,
        ..declared_with(&settings)
    };
    let mut wrong = wrong(&declared);
    let mut reader = viewer.caller.reader(&state).await?;
    if wrong.is_empty() && !contacts::customer_exists(&mut reader, &settings.customer_code).await? {
        let what = "the tenant has no customer with this code; use one that it has, as in orders";
        wrong.push(("customerCode".to_owned(), what.to_owned()));
    }
    drop(reader);
    if !wrong.is_empty() {
        let page = webhooks::new(&viewer.frame(&state), &settings, &wrong);
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    documents.write(&declared, None).map_err(not_written)?;
    Ok(show_secret(&state, &viewer, &declared, secret).await)
}

/// GET /portal/webhooks/{namespace}/{name}.
pub async fn get(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    name: Name,
) -> Result<Html<String>, ApiError> {
    let webhook = find(&viewer, name)?;
    let healths = health::by_webhook(&mut viewer.caller.reader(&state).await?).await?;
    let keeper = keeper(&writes, &viewer, webhook)?;
    Ok(Html(webhooks::detail(&viewer.frame(&state), &shown(&viewer, webhook, &healths), &keeper, None)))
}

/// POST /portal/webhooks/{namespace}/{name}.
pub async fn save(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    name: Name,
    Posted { viewer, form: WebhookForm { settings, version } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let documents = can_write(&writes)?;
    let webhook = find(&viewer, name)?;
    let version = version.ok_or_else(|| ApiError::field("version", "required"))?;
    let customer_code = webhook.customer_code.to_string();
    let settings = Settings { customer_code, ..settings };
    let declared = Declared {
        secret: secret(webhook.secret.as_ref()),
        next_secret: secret(webhook.next_secret.as_ref()),
        namespace: webhook.namespace.clone(),
        name: webhook.name.clone(),
        tenant: viewer.caller.tenant.config.name.clone(),
        ..declared_with(&settings)
    };
    let wrong = wrong(&declared);
    if !wrong.is_empty() {
        let healths = health::by_webhook(&mut viewer.caller.reader(&state).await?).await?;
        let keeper = keeper(&writes, &viewer, webhook)?;
        let (frame, shown) = (viewer.frame(&state), shown(&viewer, webhook, &healths));
        let page = webhooks::detail(&frame, &shown, &keeper, Some((&settings, &wrong)));
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    documents.write(&declared, Some(&version)).map_err(not_written)?;
    changed(&state, &viewer, &declared).await;
    Ok(Redirect::to(&webhooks::link(&webhook.full_name())).into_response())
}

/// POST /portal/webhooks/{namespace}/{name}/{action}.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    Posted { viewer, form: VersionForm(version) }: Posted<VersionForm>,
) -> Result<Response, ApiError> {
    let documents = can_write(&writes)?;
    let Path((namespace, name, action)) = path.map_err(|_| NO_SUCH_WEBHOOK)?;
    let webhook = find(&viewer, Ok(Path((namespace, name))))?;
    let before = declared_as(&viewer, webhook);
    let made = new_secret();
    let is_signed = before.secret.is_some();
    let declared = match (&*action, is_signed, before.next_secret.is_some()) {
        ("activate", ..) => Declared { active: true, ..before },
        ("deactivate", ..) => Declared { active: false, ..before },
        ("rotate", false, _) => Declared { secret: Some(made.clone()), ..before },
        ("rotate", true, false) => Declared { next_secret: Some(made.clone()), ..before },
        ("promote", _, true) => Declared { secret: before.next_secret.clone(), next_secret: None, ..before },
        ("withdraw", _, true) => Declared { next_secret: None, ..before },
        ("remove", ..) => {
            documents.remove(&before.namespace, &before.name, &version).map_err(not_written)?;
            audit(&state, &viewer, AuditEvent::WebhookRemoved, &before);
            served(&state, &viewer, &before, |webhook| webhook.is_none()).await;
            return Ok(Redirect::to(Section::Webhooks.path()).into_response());
        }
        ("rotate" | "promote" | "withdraw", ..) => return Err(CHANGED),
        _ => return Err(ApiError::NoSuchRoute),
    };
    documents.write(&declared, Some(&version)).map_err(not_written)?;
    if action == "rotate" {
        return Ok(show_secret(&state, &viewer, &declared, made).await);
    }
    changed(&state, &viewer, &declared).await;
    Ok(Redirect::to(&webhooks::link(&webhook.full_name())).into_response())
}

/// POST /portal/webhooks/{namespace}/{name}/test: leads to the delivery.
pub async fn test(
    State(state): State<Arc<ApiState>>,
    name: Name,
    Posted { viewer, form: TestForm(code) }: Posted<TestForm>,
) -> Result<Redirect, ApiError> {
    let uid = &find(&viewer, name)?.uid;
    let id = send_test(&state, &viewer.caller, uid, Some(code)).await?;
    Ok(Redirect::to(&link(&id.to_string())))
}

fn can_write(writes: &Writes) -> Result<&Documents, ApiError> {
    writes.as_deref().ok_or(ApiError::Conflict(
        "The portal does not declare webhooks here; change the object, whose YAML is on the webhook's page",
    ))
}

fn find(viewer: &Viewer, name: Name) -> Result<&WebhookConfig, ApiError> {
    let Path((namespace, name)) = name.map_err(|_| NO_SUCH_WEBHOOK)?;
    viewer.caller.webhooks().served().find(|webhook| webhook.namespace == namespace && webhook.name == name).ok_or(NO_SUCH_WEBHOOK)
}

fn shown(viewer: &Viewer, webhook: &WebhookConfig, healths: &[WebhookHealth]) -> Webhook {
    let health = healths.iter().find(|health| health.webhook == webhook.uid).cloned().unwrap_or_default();
    Webhook {
        full_name: webhook.full_name(),
        settings: Settings {
            display_name: webhook.display_name.clone().unwrap_or_default(),
            customer_code: webhook.customer_code.to_string(),
            target_url: webhook.target_url.url().to_string(),
            events: webhook.events.iter().copied().collect(),
            active: webhook.active,
        },
        takes: EventCode::ALL
            .into_iter()
            .filter(|code| viewer.caller.tenant.webhooks().takes(webhook, *code))
            .collect(),
        is_signed: webhook.secret.is_some(),
        has_next_secret: webhook.next_secret.is_some(),
        pending: health.pending,
        retrying: health.retrying,
        dead_letter: health.dead_letter,
        last_success_at: health.last_success_at_ms.map(time),
    }
}

fn declared_with(settings: &Settings) -> Declared {
    let Settings { display_name, customer_code, target_url, events, active } = settings.clone();
    // As it will be served, so that the change can be recognised: https://h.example becomes https://h.example/.
    let target_url = target_url.parse::<TargetUrl>().map_or(target_url, |parsed| parsed.url().to_string());
    Declared {
        namespace: String::new(),
        name: String::new(),
        tenant: String::new(),
        display_name: Some(display_name).filter(|name| !name.is_empty()),
        customer_code,
        target_url,
        events,
        active,
        secret: None,
        next_secret: None,
    }
}

fn declared_as(viewer: &Viewer, webhook: &WebhookConfig) -> Declared {
    Declared {
        namespace: webhook.namespace.clone(),
        name: webhook.name.clone(),
        tenant: viewer.caller.tenant.config.name.clone(),
        secret: secret(webhook.secret.as_ref()),
        next_secret: secret(webhook.next_secret.as_ref()),
        ..declared_with(&shown(viewer, webhook, &[]).settings)
    }
}

/// The portal makes secrets of hexadecimal digits.
fn secret(bytes: Option<&SecretBytes>) -> Option<SecretString> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes.expose()).into_owned().into())
}

fn new_secret() -> SecretString {
    hex::encode(random::bytes::<32>()).into()
}

/// Each field of the form that is wrong, with what would be right.
fn wrong(declared: &Declared) -> Vec<(String, String)> {
    let in_form = |field: String| match field.strip_prefix("spec.") {
        Some("targetURL") => "targetUrl".to_owned(),
        Some(field) => field.to_owned(),
        None => field,
    };
    let violations = declared.violations().into_iter();
    violations.map(|violation| (in_form(violation.field), violation.message)).collect()
}

fn not_written(error: NotWritten) -> ApiError {
    match error {
        NotWritten::Changed => CHANGED,
        NotWritten::Io(error) => {
            tracing::error!(%error, "writing the portal's folder beside --config-dir failed");
            ApiError::Internal
        }
    }
}

fn keeper(writes: &Writes, viewer: &Viewer, webhook: &WebhookConfig) -> Result<Keeper, ApiError> {
    let version = writes.as_ref().map(|documents| documents.version(&webhook.namespace, &webhook.name));
    let version = version.transpose().map_err(|error| not_written(error.into()))?.flatten();
    let own_namespace = webhook.namespace == viewer.caller.tenant.config.namespace;
    Ok(match version.filter(|_| own_namespace) {
        Some(version) => Keeper::Portal(version),
        None => {
            let place = match writes {
                Some(_) => "a file of the configuration folder".to_owned(),
                None => format!("a Webhook object in namespace {}", webhook.namespace),
            };
            let mut object = declared_as(viewer, webhook).webhook();
            if let Some(spec) = object["spec"].as_object_mut() {
                // Of which Secret it is, the object says; its name is not known here.
                spec.remove("secretRef");
            }
            Keeper::Other { place, yaml: yaml(&object, 0) }
        }
    })
}

/// A small object as YAML.
fn yaml(value: &serde_json::Value, depth: usize) -> String {
    let Some(object) = value.as_object() else { return format!(" {value}\n") };
    let lines = object.iter().map(|(name, value)| {
        let line_end = if value.is_object() { "\n" } else { "" };
        format!("{:1$}{name}:{line_end}{2}", "", depth * 2, yaml(value, depth + 1))
    });
    lines.collect()
}

fn audit(state: &ApiState, viewer: &Viewer, event: AuditEvent, declared: &Declared) {
    let name = format!("{}/{}", declared.namespace, declared.name);
    state.audit.record(&viewer.caller.tenant, viewer.caller.entry(state, event).about("webhook", &name));
}

/// Waits until a change is served. Returns whether it is.
async fn changed(state: &ApiState, viewer: &Viewer, declared: &Declared) -> bool {
    audit(state, viewer, AuditEvent::WebhookChanged, declared);
    served(state, viewer, declared, |webhook| {
        webhook.is_some_and(|webhook| {
            let as_served = declared_as(viewer, webhook);
            as_served.webhook() == declared.webhook()
                && as_served.next_secret.is_some() == declared.next_secret.is_some()
        })
    })
    .await
}

async fn served(
    state: &ApiState,
    viewer: &Viewer,
    declared: &Declared,
    is_so: impl Fn(Option<&WebhookConfig>) -> bool,
) -> bool {
    let (most, pause) = SERVED;
    let end = state.clock.elapsed() + most;
    loop {
        let tenant = state.tenants.by_uid(&viewer.caller.tenant.config.uid);
        let of_name = |webhook: &&WebhookConfig| {
            webhook.namespace == declared.namespace && webhook.name == declared.name
        };
        if tenant.is_some_and(|tenant| is_so(tenant.config.webhooks.iter().find(of_name))) {
            return true;
        }
        if state.clock.elapsed() >= end {
            return false;
        }
        state.clock.sleep(pause).await;
    }
}

async fn show_secret(
    state: &ApiState,
    viewer: &Viewer,
    declared: &Declared,
    secret: SecretString,
) -> Response {
    let is_served = changed(state, viewer, declared).await;
    let secret = secret.expose_secret();
    let shown = ShownSecret {
        secret: secret.to_owned(),
        whsec: signature::whsec(secret.as_bytes()),
        is_next: declared.next_secret.is_some(),
        is_served,
    };
    let full_name = format!("{}/{}", declared.namespace, declared.name);
    Html(webhooks::secret(&viewer.frame(state), &full_name, &shown)).into_response()
}
