//! The form of a new webhook. The same form of the same user, sent again, adds no second webhook.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use docket_domain::audit::AuditEvent;
use docket_portal::webhooks::new::{self, NewForm};
use docket_portal::webhooks::{Customers, Done, FormSettings};
use docket_program::random;
use docket_store::contacts;
use http::StatusCode;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use super::editor::Editor;
use super::forms::{WebhookForm, spec, wrong};
use super::{is_of, served, to_page_of};
use crate::api::caller::Principal;
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::portal::forms::{Posted, filled_in};
use crate::portal::session::Viewer;
use crate::portal::writes::{Declared, DeclaredBy, NAME_PREFIX, NotWritten, Writes};
use crate::tenancy::ServedTenant;

/// The fewest characters of a secret that a user chooses.
const MIN_SECRET: usize = 16;
/// The number of customers to choose from. The code of another customer can be typed.
const MAX_CUSTOMERS: usize = 1_000;
/// How many webhooks a customer's contacts may add up to: they share the tenant's limit with the other customers.
const MOST_OF_CONTACTS: usize = 20;
/// For this time a form that was sent again may show the secret of its webhook, if no page has shown it. Marks of shown secrets
/// are kept longer.
const RECENT_MS: i64 = 10 * 60 * 1000;
/// How far the clocks of two processes may differ. The id of a form with a later date is its sender's own: it would still be recent
/// when the mark is gone.
const AHEAD_MS: i64 = 60 * 1000;

/// GET /portal/webhooks/new. A link may choose the customer.
pub async fn form(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let may_give = Editor::new(&state, &viewer, &writes)?.writer.is_folder();
    let mut query = filled_in(&query.unwrap_or_default()).into_iter();
    let chosen = query.find_map(|(name, value)| (name == "customerCode").then_some(value));
    let customer_code = viewer.caller.customer.clone().or(chosen).unwrap_or_default();
    let settings = FormSettings { active: true, customer_code, ..FormSettings::default() };
    let customers = customers(&state, &viewer).await?;
    let form = form_id(&state);
    let new =
        NewForm { form: &form, settings: &settings, wrong: &[], customers: customers.as_ref(), may_give };
    Ok(Html(new::page(viewer.frame(), &new)))
}

/// The customers that an administrator may choose; `None`: the user is a contact, whose customer is fixed.
async fn customers(state: &ApiState, viewer: &Viewer) -> Result<Option<Customers>, ApiError> {
    if viewer.caller.customer.is_some() {
        return Ok(None);
    }
    let limit = MAX_CUSTOMERS as i64 + 1;
    let found = contacts::customers(&mut viewer.caller.reader(state).await?, limit).await?;
    let are_more = found.len() > MAX_CUSTOMERS;
    let known = found.into_iter().take(MAX_CUSTOMERS).map(|customer| (customer.code, customer.name));
    Ok(Some(Customers { known: known.collect(), are_more }))
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

/// The name of the webhook that this form of this user adds for this customer. A form that is sent again for another customer, after
/// its webhook was removed, gives another name: logs of the first customer show the last name of a removed webhook for people.
fn name_of_form(user: &str, form: &str, customer_code: &str) -> String {
    let digest = Sha256::digest([user, form, customer_code].join("\0"));
    format!("{NAME_PREFIX}{}", hex::encode(&digest[..5]))
}

/// POST /portal/webhooks/new: shows the secret, this once. The same form of the same user for the same customer, sent again, leads
/// to the same webhook; its secret is shown then if the first answer did not show it.
pub async fn create(
    State(state): State<Arc<ApiState>>,
    Extension(writes): Extension<Writes>,
    Posted { viewer, form: WebhookForm { settings, form, secret, .. } }: Posted<WebhookForm>,
) -> Result<Response, ApiError> {
    let editor = Editor::new(&state, &viewer, &writes)?;
    // A contact's customer is the user's own, whatever the form says.
    let customer_code = viewer.caller.customer.clone().unwrap_or(settings.customer_code);
    let settings = FormSettings { customer_code, ..settings };
    // Until the new one is served, and counts.
    let _locked = editor.writer.lock_additions(&viewer.caller.tenant.uid).await?;
    let config = &viewer.caller.tenant.config;
    let age_ms = |form: &str| age_ms(form, state.clock.now_ms());
    let form = form.filter(|form| age_ms(form).is_none_or(|age_ms| age_ms >= -AHEAD_MS));
    let form = form.unwrap_or_else(|| form_id(&state));
    let mut declared = Declared {
        namespace: config.namespace.clone(),
        name: name_of_form(&viewer.caller.name(), &form, &settings.customer_code),
        spec: spec(&viewer, &settings),
        given: None,
    };
    let mut wrong = wrong(&declared);
    if let Some(secret) = secret {
        let secret = secret.expose_secret();
        wrong.extend(wrong_secret(&editor, secret).map(|what| ("secret".to_owned(), what)));
        declared.give(secret.to_owned());
    }
    if is_declared(&editor, &declared).await {
        return match age_ms(&form).is_some_and(|age_ms| age_ms <= RECENT_MS) {
            true => added(&editor, &declared).await,
            false => Ok(to_page_of(&declared, None)),
        };
    }
    let mut reader = viewer.caller.reader(&state).await?;
    if wrong.is_empty() && !contacts::customer_exists(&mut reader, &settings.customer_code).await? {
        let what = "There is no customer with this code. Choose a customer of the list.";
        wrong.push(("customerCode".to_owned(), what.to_owned()));
    }
    drop(reader);
    // Another webhook may have been added since the request came, so this reads the tenant as it is served now.
    let tenant = state.tenants.by_uid(&viewer.caller.tenant.uid).ok_or(ApiError::TenantNotFound)?;
    wrong.extend(no_place(&tenant, &viewer, &declared).map(|what| (String::new(), what)));
    if wrong.is_empty() {
        wrong.extend(too_often(&state, &viewer).map(|what| (String::new(), what)));
    }
    if !wrong.is_empty() {
        return refused(&editor, &form, &settings, &wrong).await;
    }
    match editor.writer.create(&declared).await {
        // Another process has just added it, for the same form.
        Err(NotWritten::Changed) if is_declared(&editor, &declared).await => {}
        written => editor.recorded(editor.entry(AuditEvent::WebhookAdded, &declared), written)?,
    }
    added(&editor, &declared).await
}

/// Why the user can't choose this secret.
fn wrong_secret(editor: &Editor<'_>, secret: &str) -> Option<String> {
    if !editor.writer.is_folder() {
        return Some("The secret can't be chosen here: Docket makes it.".to_owned());
    }
    (secret.chars().count() < MIN_SECRET).then(|| format!("Choose at least {MIN_SECRET} characters."))
}

/// The answer to a form that adds no webhook: the same form, with what is wrong.
async fn refused(
    Editor { state, viewer, writer }: &Editor<'_>,
    form: &str,
    settings: &FormSettings,
    wrong: &[(String, String)],
) -> Result<Response, ApiError> {
    let customers = customers(state, viewer).await?;
    let new = NewForm { form, settings, wrong, customers: customers.as_ref(), may_give: writer.is_folder() };
    Ok((StatusCode::BAD_REQUEST, Html(new::page(viewer.frame(), &new))).into_response())
}

/// Whether the webhook is already declared with these settings, as when the same form is sent twice.
async fn is_declared(Editor { viewer, writer, .. }: &Editor<'_>, declared: &Declared) -> bool {
    let found = writer.find(&declared.namespace, &declared.name).await;
    matches!(found, Ok(DeclaredBy::Portal(found)) if found.declared == *declared && is_of(viewer, &found.declared))
}

/// The answer to the form of a new webhook.
async fn added(editor: &Editor<'_>, declared: &Declared) -> Result<Response, ApiError> {
    if declared.given.is_none() {
        return editor.show_secret(declared).await;
    }
    // Its user knows the secret.
    Ok(served(editor, declared, Done::Added).await)
}

/// Why there is no place for another webhook.
fn no_place(tenant: &ServedTenant, viewer: &Viewer, declared: &Declared) -> Option<String> {
    let config = &tenant.config;
    let own = config.webhooks.iter().filter(|webhook| webhook.namespace == config.namespace);
    let (all, most) = (own.clone().count(), config.limits.webhooks);
    if u32::try_from(all).is_ok_and(|all| all >= most) {
        return Some(format!(
            "There is no room: the tenant has {all} webhooks, and may have {most}. Remove one, or ask the people who run \
             Docket for a higher limit."
        ));
    }
    let of_customer =
        own.filter(|webhook| webhook.customer_code.as_str() == declared.spec.customer_code).count();
    let is_full = viewer.caller.customer.is_some() && of_customer >= MOST_OF_CONTACTS;
    is_full.then(|| {
        format!(
            "There is no room: you have {of_customer} webhooks. An administrator of the tenant may add more."
        )
    })
}

/// Counts a webhook that a contact adds. Returns why the contact has to wait, if it has to.
fn too_often(state: &ApiState, viewer: &Viewer) -> Option<String> {
    let Principal { tenant, customer, .. } = &*viewer.caller;
    let wait = state.rates.addition(&tenant.uid, customer.as_deref()?, state.clock.elapsed()).err()?;
    let minutes = wait.as_secs().div_ceil(60);
    Some(format!(
        "You have added many webhooks lately. You can add the next one in {minutes} min; an administrator of the tenant can add it now."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_of_one_user_one_form_and_one_customer() {
        let name = name_of_form("contact 1", "7.f", "C-1");
        assert_eq!(name, name_of_form("contact 1", "7.f", "C-1"), "sent again");
        assert!(name.starts_with(NAME_PREFIX) && docket_crds::is_object_name(&name), "{name}");
        for (user, form, customer_code) in
            [("contact 2", "7.f", "C-1"), ("contact 1", "7.g", "C-1"), ("contact 1", "7.f", "C-2")]
        {
            assert_ne!(name, name_of_form(user, form, customer_code), "{user} {form} {customer_code}");
        }
    }
}
