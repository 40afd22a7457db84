//! Customer ▸ Webhooks. The portal declares webhooks where [`writes`](super::writes) can, and shows those that others declare,
//! with the YAML to change.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::webhook::{GenerateSecret, TenantRef};
use docket_crds::{EventCode, TargetUrl, WebhookConfig, WebhookSpec, is_object_name};
use docket_domain::audit::AuditEvent;
use docket_domain::signature;
use docket_portal::logs::link;
use docket_portal::page::{Section, webhook_link};
use docket_portal::webhooks::{self, Keeper, Settings, Shown, Shows, Webhook};
use docket_program::random;
use docket_store::contacts;
use docket_store::health::{self, WebhookHealth};
use docket_store::shown_secrets;
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::declared;
use super::forms::{FromForm, Posted};
use super::session::Viewer;
use super::writes::{Declared, Found, NotWritten, Stored, Writer, Writes};
use super::yaml;
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::kinds::Line;
use crate::api::request::request;
use crate::api::state::ApiState;
use crate::api::times::timestamp;
use crate::api::webhook_logs::answers::EventWord;
use crate::api::webhook_logs::test_events::send_test;
use crate::tenants::{self, Revisions, ServedTenant};

const NO_SUCH_WEBHOOK: ApiError = ApiError::NotFound(
    "There is no such webhook; if it was added a moment ago, open this page again in some seconds",
);
/// How long a page waits until a change is served: of a folder, and of a cluster, where the operator compiles it.
const SERVED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(20));
/// The length of a secret that a user chooses, in characters.
const MIN_SECRET: usize = 16;
const MAX_SECRET: usize = 256;
/// How many webhooks a customer's contacts may add up to: they share the tenant's limit with the other customers.
const MOST_OF_CONTACTS: usize = 20;
/// For so long a form that was sent again may show the secret of its webhook, if nothing has: less than marks of shown secrets
/// are kept.
const RECENT_MS: i64 = 10 * 60 * 1000;
/// How far the clocks of two processes may differ. The id of a form with a later date is its sender's own: it would still be recent
/// when the mark is gone.
const AHEAD_MS: i64 = 60 * 1000;

/// The fields of the form of a webhook.
pub struct WebhookForm {
    settings: Settings,
    /// The id of the form of a new webhook: sent again, it adds no second one.
    form: Option<String>,
    /// The version that the form was made from; `None`: of a new webhook.
    version: Option<String>,
    /// The secret that the user chose; `None`: one is made.
    secret: Option<SecretString>,
}

impl FromForm for WebhookForm {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut fields = Fields::of_pairs(pairs);
        let mut is_set = |name| fields.opt::<Line<8>>(name).is_some();
        let active = is_set("active");
        let events = EventCode::ALL.into_iter().filter(|code| is_set(code.as_str())).collect();
        let mut text = |name| fields.opt::<Line<4096>>(name).unwrap_or_default();
        let (display_name, target_url) = (text("displayName"), text("targetUrl"));
        let customer_code = text("customerCode");
        let form = fields.opt::<Line<64>>("form");
        let version = fields.opt::<Line<64>>("version");
        let secret = fields.opt::<Line<MAX_SECRET>>("secret").map(SecretString::from);
        fields.finish()?;
        let settings = Settings { display_name, customer_code, target_url, events, active };
        Ok(Self { settings, form, version, secret })
    }
}

request! {
    /// The field of a form with one button.
    query VersionForm {
        /// The version that the form was made from.
        req version: Line<64>;
    }
}

request! {
    /// The field of the form that sends a test event.
    query TestForm {
        /// The event.
        req event: EventWord;
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
    let healths = health::by_webhook_bounded(&mut reader).await?;
    let healths = viewer.caller.webhooks().health(healths);
    let mut all: Vec<&WebhookConfig> = viewer.caller.webhooks().served().collect();
    all.sort_by_key(|webhook| (&webhook.namespace, &webhook.name));
    let mut faults = declared::faults(&mut reader, &viewer, &all).await?;
    let shown = all.into_iter().map(|webhook| {
        let faults = faults.remove(&webhook.uid).unwrap_or_default();
        shown(&viewer, webhook, healths.get(&webhook.uid), faults)
    });
    let (shown, unserved) = (shown.collect::<Vec<_>>(), declared::unserved(&viewer));
    Ok(Html(webhooks::list(&viewer.frame(&state), &shown, &unserved, is_open(&writes))))
}

/// GET /portal/webhooks/new.
pub async fn form(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
) -> Result<Html<String>, ApiError> {
    let may_give = can_write(&writes)?.is_folder();
    let customer_code = viewer.caller.customer.clone().unwrap_or_default();
    let settings = Settings { active: true, customer_code, ..Settings::default() };
    Ok(Html(webhooks::new(&viewer.frame(&state), &form_id(&state), &settings, &[], may_give)))
}

/// The id of a form of a new webhook: when it was made, in milliseconds since 1970, and what no other form has.
fn form_id(state: &ApiState) -> String {
    format!("{}.{}", state.clock.now_ms(), hex::encode(random::bytes::<8>()))
}

/// How long ago a form was made by its id, in milliseconds.
fn age_ms(form: &str, now_ms: i64) -> Option<i64> {
    let made_ms = form.split_once('.')?.0.parse::<i64>().ok()?;
    Some(now_ms.saturating_sub(made_ms))
}

/// The name of the webhook that this form of this user adds.
fn name_of_form(viewer: &Viewer, form: &str) -> String {
    let digest =
        Sha256::new().chain_update(viewer.caller.name()).chain_update([0]).chain_update(form).finalize();
    format!("portal-{}", hex::encode(&digest[..5]))
}

/// POST /portal/webhooks/new: shows the secret, this once. The same form of the same user, sent again, leads to the same
/// webhook; its secret is shown then if the first answer did not show it.
pub async fn create(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    Posted { viewer, form: WebhookForm { settings, form, secret, .. } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let writer = can_write(&writes)?;
    // A contact's customer is the user's own, whatever the form says.
    let customer_code = viewer.caller.customer.clone().unwrap_or(settings.customer_code);
    let settings = Settings { customer_code, ..settings };
    // Until the new one is served, and counts.
    let _locked = writer.lock_additions(&viewer.caller.tenant.uid).await?;
    let config = &viewer.caller.tenant.config;
    let age_ms = |form: &str| age_ms(form, state.clock.now_ms());
    let form = form.filter(|form| age_ms(form).is_none_or(|age_ms| age_ms >= -AHEAD_MS));
    let form = form.unwrap_or_else(|| form_id(&state));
    let mut declared = Declared {
        namespace: config.namespace.clone(),
        name: name_of_form(&viewer, &form),
        spec: spec(&viewer, &settings),
        given: None,
    };
    let mut wrong = wrong(&declared);
    if let Some(secret) = secret {
        let secret = secret.expose_secret();
        if !writer.is_folder() {
            wrong.push(("secret".to_owned(), "can't be chosen here; Docket makes it".to_owned()));
        } else if secret.chars().count() < MIN_SECRET {
            wrong.push(("secret".to_owned(), format!("must have at least {MIN_SECRET} characters")));
        }
        declared.give(secret.to_owned());
    }
    if is_declared(writer, &viewer, &declared).await {
        let page = webhook_link(&declared.full_name());
        return match age_ms(&form).is_some_and(|age_ms| age_ms <= RECENT_MS) {
            true => added(&state, &viewer, writer, &declared).await,
            false => Ok(Redirect::to(&page).into_response()),
        };
    }
    let mut reader = viewer.caller.reader(&state).await?;
    if wrong.is_empty() && !contacts::customer_exists(&mut reader, &settings.customer_code).await? {
        let what = "the tenant has no customer with this code; use one that it has, as in orders";
        wrong.push(("customerCode".to_owned(), what.to_owned()));
    }
    drop(reader);
    // As it is served now: another one may have been added since the request came.
    let tenant = state.tenants.by_uid(&viewer.caller.tenant.uid).ok_or(ApiError::TenantNotFound)?;
    wrong.extend(no_place(&tenant, &viewer, &declared).map(|what| (String::new(), what)));
    if !wrong.is_empty() {
        let (frame, may_give) = (viewer.frame(&state), writer.is_folder());
        let page = webhooks::new(&frame, &form, &settings, &wrong, may_give);
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    match writer.create(&declared).await {
        // Another process has just added it, for the same form.
        Err(NotWritten::Changed) if is_declared(writer, &viewer, &declared).await => {}
        written => audited(&state, &viewer, AuditEvent::WebhookAdded, &declared, written)?,
    }
    added(&state, &viewer, writer, &declared).await
}

/// Whether this very webhook is declared already, as the same form does.
async fn is_declared(writer: &Writer, viewer: &Viewer, declared: &Declared) -> bool {
    let found = writer.find(&declared.namespace, &declared.name).await;
    matches!(found, Ok(Found::Portal(found)) if found.declared == *declared && is_of(viewer, &found.declared))
}

/// The answer to the form of a new webhook.
async fn added(
    state: &ApiState,
    viewer: &Viewer,
    writer: &Writer,
    declared: &Declared,
) -> Result<Response, ApiError> {
    if declared.given.is_none() {
        return show_secret(state, viewer, writer, declared).await;
    }
    // Its user knows the secret.
    changed(state, viewer, writer, declared).await;
    Ok(Redirect::to(&webhook_link(&declared.full_name())).into_response())
}

/// Why there is no place for another webhook.
fn no_place(tenant: &ServedTenant, viewer: &Viewer, declared: &Declared) -> Option<String> {
    let config = &tenant.config;
    let own = config.webhooks.iter().filter(|webhook| webhook.namespace == config.namespace);
    let (all, most) = (own.clone().count(), config.limits.webhooks);
    if u32::try_from(all).is_ok_and(|all| all >= most) {
        return Some(format!(
            "the tenant has {all} webhooks, and may have {most}; remove one, or ask for a higher limit"
        ));
    }
    let of_customer =
        own.filter(|webhook| webhook.customer_code.as_str() == declared.spec.customer_code).count();
    let is_full = viewer.caller.customer.is_some() && of_customer >= MOST_OF_CONTACTS;
    is_full.then(|| {
        format!("the customer has {of_customer} webhooks; an administrator of the tenant may add more")
    })
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
        let writer = writes.as_deref().filter(|writer| writer.is_open()).ok_or(NO_SUCH_WEBHOOK)?;
        let stored = stored(writer, &viewer, &name).await?;
        return Ok(Html(unserved(&state, &viewer, &stored.declared, &stored.version, None)));
    };
    let shown = with_health(&state, &viewer, webhook).await?;
    let keeper = keeper(&writes, &viewer, webhook).await?;
    Ok(Html(webhooks::detail(&viewer.frame(&state), &shown, &keeper, None)))
}

/// POST /portal/webhooks/{namespace}/{name}.
pub async fn save(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    name: Name,
    Posted { viewer, form: WebhookForm { settings, version, .. } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let writer = can_write(&writes)?;
    let name = name_of(name)?;
    let version = version.ok_or_else(|| ApiError::field("version", "required"))?;
    let before = stored(writer, &viewer, &name).await?;
    let WebhookSpec { customer_code, secret_ref, generate_secret, .. } = before.declared.spec.clone();
    let settings = Settings { customer_code, ..settings };
    let spec = WebhookSpec { secret_ref, generate_secret, ..spec(&viewer, &settings) };
    let declared = Declared { spec, ..before.declared.clone() };
    let wrong = wrong(&declared);
    if !wrong.is_empty() {
        let (frame, unsaved) = (viewer.frame(&state), Some((&settings, &wrong[..])));
        let page = match find(&viewer, &name) {
            Some(webhook) => {
                let shown = with_health(&state, &viewer, webhook).await?;
                webhooks::detail(&frame, &shown, &Keeper::Portal(version), unsaved)
            }
            None => unserved(&state, &viewer, &before.declared, &version, unsaved),
        };
        return Ok((StatusCode::BAD_REQUEST, Html(page)).into_response());
    }
    let written = writer.replace(&before, &declared, &version).await;
    audited(&state, &viewer, AuditEvent::WebhookChanged, &declared, written)?;
    changed(&state, &viewer, writer, &declared).await;
    Ok(Redirect::to(&webhook_link(&declared.full_name())).into_response())
}

/// POST /portal/webhooks/{namespace}/{name}/{action}.
pub async fn act(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    Posted { viewer, form: VersionForm { version } }: Posted<VersionForm>,
) -> Result<Response, ApiError> {
    let writer = can_write(&writes)?;
    let Path((namespace, name, action)) = path.map_err(|_| NO_SUCH_WEBHOOK)?;
    let name = (namespace, name);
    let before = stored(writer, &viewer, &name).await?;
    let mut declared = before.declared.clone();
    // What is declared and what is served differ while a change is under way; then the secrets stay as they are.
    let has_next = (declared.has_next(), find(&viewer, &name).map(|webhook| webhook.next_secret.is_some()));
    let event = match (&*action, has_next) {
        ("activate", _) => {
            declared.spec.active = true;
            AuditEvent::WebhookActivated
        }
        ("deactivate", _) => {
            declared.spec.active = false;
            AuditEvent::WebhookDeactivated
        }
        ("rotate", (false, Some(false))) => {
            declared.make_next(hex::encode(random::bytes::<32>()).into_bytes().into());
            AuditEvent::NextSecretMade
        }
        ("promote", (true, Some(true))) => {
            declared.promote_next();
            AuditEvent::NextSecretPromoted
        }
        ("withdraw", (true, Some(true))) => {
            declared.drop_next();
            AuditEvent::NextSecretDropped
        }
        ("remove", _) => {
            let removed = writer.remove(&before, &version).await;
            audited(&state, &viewer, AuditEvent::WebhookRemoved, &declared, removed)?;
            served(&state, &viewer, writer, &declared, |webhook| webhook.is_none()).await;
            return Ok(Redirect::to(Section::Webhooks.path()).into_response());
        }
        ("rotate" | "promote" | "withdraw", _) => return Err(NotWritten::Changed.into()),
        _ => return Err(ApiError::NoSuchRoute),
    };
    let written = writer.replace(&before, &declared, &version).await;
    audited(&state, &viewer, event, &declared, written)?;
    if action == "rotate" {
        return show_secret(&state, &viewer, writer, &declared).await;
    }
    changed(&state, &viewer, writer, &declared).await;
    Ok(Redirect::to(&webhook_link(&declared.full_name())).into_response())
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

fn is_open(writes: &Writes) -> bool {
    writes.as_ref().is_some_and(|writer| writer.is_open())
}

fn can_write(writes: &Writes) -> Result<&Writer, ApiError> {
    writes.as_deref().filter(|writer| writer.is_open()).ok_or(ApiError::Conflict(
        "The portal does not declare webhooks here; change the object, whose YAML is on the webhook's page",
    ))
}

/// The webhook as the portal declares it now, served or not.
async fn stored(writer: &Writer, viewer: &Viewer, name: &(String, String)) -> Result<Stored, ApiError> {
    let (is_served, config) = (find(viewer, name).is_some(), &viewer.caller.tenant.config);
    let (namespace, name) = name;
    if !is_served && (*namespace != config.namespace || !is_object_name(name)) {
        return Err(NO_SUCH_WEBHOOK);
    }
    match writer.find(namespace, name).await {
        Ok(Found::Portal(stored)) if is_of(viewer, &stored.declared) => Ok(*stored),
        Ok(_) | Err(NotWritten::Changed) if !is_served => Err(NO_SUCH_WEBHOOK),
        Ok(_) => Err(ApiError::Conflict("The portal does not declare this webhook; its page says who does")),
        Err(error) => Err(error.into()),
    }
}

/// Whether it is of the viewer's tenant and, for a contact, of its customer.
fn is_of(viewer: &Viewer, declared: &Declared) -> bool {
    let tenant = &viewer.caller.tenant.config;
    declared.namespace == tenant.namespace
        && declared.spec.tenant_ref.name == tenant.name
        && viewer.caller.customer.as_ref().is_none_or(|customer| *customer == declared.spec.customer_code)
}

fn name_of(name: Name) -> Result<(String, String), ApiError> {
    name.map(|Path(name)| name).map_err(|_| NO_SUCH_WEBHOOK)
}

/// The webhook of this namespace and name, if it is served.
fn find<'a>(viewer: &'a Viewer, (namespace, name): &(String, String)) -> Option<&'a WebhookConfig> {
    let mut served = viewer.caller.webhooks().served();
    served.find(|webhook| webhook.namespace == *namespace && webhook.name == *name)
}

/// The page of a webhook that is declared and not served.
fn unserved(
    state: &ApiState,
    viewer: &Viewer,
    declared: &Declared,
    version: &str,
    unsaved: Option<(&Settings, &[(String, String)])>,
) -> String {
    let WebhookSpec { display_name, customer_code, target_url, events, active, .. } = declared.spec.clone();
    let display_name = display_name.unwrap_or_default();
    let settings = Settings { display_name, customer_code, target_url, events, active };
    let faulty = declared::of_unserved(viewer, &declared.full_name());
    webhooks::unserved(&viewer.frame(state), &faulty, &settings, version, unsaved)
}

async fn with_health(
    state: &ApiState,
    viewer: &Viewer,
    webhook: &WebhookConfig,
) -> Result<Webhook, ApiError> {
    let mut reader = viewer.caller.reader(state).await?;
    let healths = health::by_webhook_bounded(&mut reader).await?;
    let health = viewer.caller.webhooks().health(healths).remove(&webhook.uid);
    let faults = declared::faults(&mut reader, viewer, &[webhook]).await?.remove(&webhook.uid);
    Ok(shown(viewer, webhook, health.as_ref(), faults.unwrap_or_default()))
}

/// `faults`: why it can't work; what may be a mistake comes after that.
fn shown(
    viewer: &Viewer,
    webhook: &WebhookConfig,
    health: Option<&WebhookHealth>,
    mut faults: Vec<String>,
) -> Webhook {
    faults.extend(tenants::warnings(webhook));
    let health = health.cloned().unwrap_or_default();
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
        faults,
        pending: health.pending,
        retrying: health.retrying,
        dead_letter: health.dead_letter,
        last_success_at: health.last_success_at_ms.map(timestamp),
    }
}

fn spec(viewer: &Viewer, settings: &Settings) -> WebhookSpec {
    let Settings { display_name, customer_code, target_url, events, active } = settings.clone();
    // As it will be served, so that the change can be recognised: https://h.example becomes https://h.example/.
    let target_url = target_url.parse::<TargetUrl>().map_or(target_url, |parsed| parsed.url().to_string());
    WebhookSpec {
        display_name: Some(display_name).filter(|name| !name.is_empty()),
        tenant_ref: TenantRef { name: viewer.caller.tenant.config.name.clone(), namespace: None },
        customer_code,
        target_url,
        secret_ref: None,
        generate_secret: Some(GenerateSecret::default()),
        ca_bundle_ref: None,
        events,
        active,
    }
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

async fn keeper(writes: &Writes, viewer: &Viewer, webhook: &WebhookConfig) -> Result<Keeper, ApiError> {
    let own = webhook.namespace == viewer.caller.tenant.config.namespace;
    let place = format!("a Webhook object in namespace {}", webhook.namespace);
    let found = match writes {
        Some(writer) if writer.is_folder() || own && writer.is_open() => {
            match writer.find(&webhook.namespace, &webhook.name).await {
                Ok(found) => found,
                // The page is worth having without its forms.
                Err(NotWritten::Away | NotWritten::Refused(_)) => Found::Other { place, object: None },
                Err(error) => return Err(error.into()),
            }
        }
        _ => Found::Other { place, object: None },
    };
    Ok(match found {
        Found::Portal(stored) if is_of(viewer, &stored.declared) => Keeper::Portal(stored.version),
        // It was declared again since, for another tenant or customer.
        Found::Portal(..) => return Err(NotWritten::Changed.into()),
        Found::Other { place, object } => {
            // It may have been declared again since, for another tenant or customer.
            let is_its = |object: &Value| {
                object["spec"]["tenantRef"]["name"] == viewer.caller.tenant.config.name
                    && object["spec"]["customerCode"] == webhook.customer_code.as_str()
            };
            let what = if writes.as_ref().is_some_and(|writer| writer.is_folder()) {
                Shows::Document
            } else {
                Shows::Object
            };
            match object.filter(is_its) {
                Some(object) => Keeper::Other { place, what, yaml: yaml::of(&object) },
                None => Keeper::Other {
                    place,
                    what: Shows::Fields,
                    yaml: fields(&spec(viewer, &shown(viewer, webhook, None, Vec::new()).settings)),
                },
            }
        }
    })
}

/// The fields that can be changed, as YAML: what is served names neither Secrets nor certificates, so it makes no whole object.
fn fields(served: &WebhookSpec) -> String {
    let WebhookSpec { display_name, target_url, events, active, .. } = served;
    let mut spec = json!({"targetURL": target_url, "events": events, "active": active});
    if let Some(name) = display_name {
        spec["displayName"] = name.as_str().into();
    }
    format!("# {}\n{}", webhooks::LEFT_OUT, yaml::of(&json!({"spec": spec})))
}

fn audit(state: &ApiState, viewer: &Viewer, event: AuditEvent, declared: &Declared) {
    let entry = viewer.caller.entry(state, event).about("webhook", &declared.full_name());
    state.audit.record(&viewer.caller.tenant, entry);
}

/// Records a change that was made, or may have been.
fn audited(
    state: &ApiState,
    viewer: &Viewer,
    event: AuditEvent,
    declared: &Declared,
    written: Result<(), NotWritten>,
) -> Result<(), NotWritten> {
    if matches!(written, Ok(()) | Err(NotWritten::Unknown)) {
        audit(state, viewer, event, declared);
    }
    written
}

/// Waits until a change is served. Returns the webhook if it is.
async fn changed(
    state: &ApiState,
    viewer: &Viewer,
    writer: &Writer,
    declared: &Declared,
) -> Option<WebhookConfig> {
    let is_so =
        |webhook: Option<&WebhookConfig>| webhook.is_some_and(|webhook| declared.is_served_as(webhook));
    served(state, viewer, writer, declared, is_so).await
}

async fn served(
    state: &ApiState,
    viewer: &Viewer,
    writer: &Writer,
    declared: &Declared,
    is_so: impl Fn(Option<&WebhookConfig>) -> bool,
) -> Option<WebhookConfig> {
    let most = if writer.is_folder() { SERVED.0 } else { SERVED.1 };
    let Declared { namespace, name, .. } = declared;
    let mut found = None;
    let is_served = |_: &Revisions| {
        let Some(tenant) = state.tenants.by_uid(&viewer.caller.tenant.uid) else { return false };
        let mut webhooks = tenant.config.webhooks.iter();
        let webhook = webhooks.find(|webhook| webhook.namespace == *namespace && webhook.name == *name);
        let is_served = is_so(webhook);
        found = webhook.filter(|_| is_served).cloned();
        is_served
    };
    let mut revisions = state.tenants.revisions();
    // If the time is up, `found` is `None`.
    let _ = timeout(most, revisions.wait_for(is_served)).await;
    found
}

/// Shows the secret that a change has made, if nothing has shown it before.
async fn show_secret(
    state: &ApiState,
    viewer: &Viewer,
    writer: &Writer,
    declared: &Declared,
) -> Result<Response, ApiError> {
    let webhook = changed(state, viewer, writer, declared).await;
    let is_next = declared.has_next();
    let made = webhook.and_then(|webhook| if is_next { webhook.next_secret } else { webhook.secret });
    let mut shown = Shown::NotYet;
    if let Some(secret) = made {
        let bytes = secret.expose();
        let mut transaction = viewer.caller.tenant.store.begin(&state.clock).await?;
        let now_ms = transaction.now_ms();
        let digest = hex::encode(Sha256::digest(bytes));
        let is_first = shown_secrets::mark(&mut transaction, &digest, now_ms).await?;
        transaction.commit().await?;
        if is_first {
            audit(state, viewer, AuditEvent::SecretShown, declared);
        }
        shown = match is_first {
            true => Shown::Now {
                secret: String::from_utf8_lossy(bytes).into_owned(),
                whsec: signature::whsec(bytes),
            },
            false => Shown::Before,
        };
    }
    let page = webhooks::secret(&viewer.frame(state), &declared.full_name(), is_next, &shown);
    Ok(Html(page).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_no_object_and_name_what_they_leave_out() {
        let served = json!({"tenantRef": {"name": "acme"}, "customerCode": "C-1", "targetURL": "https://h.example/",
            "events": ["order.created"], "active": false, "displayName": "Orders"});
        let text = fields(&serde_json::from_value(served).expect("a spec"));
        let (first, rest) = text.split_once('\n').expect("two lines");
        for left_out in
            ["metadata", "tenantRef", "customerCode", "secretRef", "generateSecret", "caBundleRef"]
        {
            assert!(
                first.starts_with("# ") && first.contains(left_out) && !rest.contains(left_out),
                "{text}"
            );
        }
        let expected = "spec:\n  active: false\n  displayName: \"Orders\"\n  events: [\"order.created\"]\n  \
                        targetURL: \"https://h.example/\"\n";
        let mut lines: Vec<&str> = rest.lines().collect();
        let mut wanted: Vec<&str> = expected.lines().collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted, "{text}");
    }
}
