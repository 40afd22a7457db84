//! Notifications: the user's own subscriptions to changes of webhooks.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::webhook_key;
use docket_domain::audit::AuditEvent;
use docket_domain::notice::WebhookState;
use docket_domain::token::TokenSubject;
use docket_portal::notifications::{self as view, Done, Notifications, SubscriptionView, Wanted};
use docket_portal::page::{Section, webhook_link};
use docket_portal::{DONE, href};
use docket_store::people::user_key;
use docket_store::subscriptions::{CONFIRM_MS, Subscription};
use docket_store::{Connection, StoreError, Transaction, contacts};
use http::StatusCode;

use super::forms::{FromForm, Posted, filled_in};
use super::session::Viewer;
use crate::actions::subscriptions::{self, NewSubscription};
use crate::api::state::ApiState;
use crate::api::writes::{Write, WriteDone};
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::{LineText, WebhookName};
use crate::http::request::request;
use crate::http::times::timestamp;

const NO_MAIL: ApiError = ApiError::Conflict(
    "E-mail is not set up here; ask the people who run Docket to connect it to a mail server",
);
const NO_SUCH_WEBHOOK: ApiError =
    ApiError::NotFound("There is no such webhook, so it has no messages; choose one on the page Webhooks");

/// The longest id of a subscription.
type SubscriptionId = LineText<64>;
/// An address as it was typed; the action checks it.
type AddressText = LineText<320>;

/// The fields of the form of a new subscription.
pub struct SubscribeForm {
    /// The webhook, by `namespace/name`; `None`: all webhooks.
    webhook: Option<String>,
    states: Vec<WebhookState>,
    email: Option<String>,
}

impl FromForm for SubscribeForm {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut fields = RequestFields::of_pairs(pairs);
        let webhook = fields.opt::<WebhookName>("webhook");
        let (states, email) = (states(&mut fields), fields.opt::<AddressText>("email"));
        fields.finish()?;
        Ok(Self { webhook, states, email })
    }
}

/// The fields of the form on the page of a webhook.
pub struct CardForm {
    /// The user's subscription to the webhook; `None`: there was none when the page was made.
    id: Option<String>,
    new: SubscribeForm,
}

impl FromForm for CardForm {
    fn from_form(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let (id, pairs): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| name == "id");
        let mut fields = RequestFields::of_pairs(id);
        let id = fields.opt::<SubscriptionId>("id");
        fields.finish()?;
        Ok(Self { id, new: SubscribeForm::from_form(pairs)? })
    }
}

/// The states whose boxes are ticked.
fn states(fields: &mut RequestFields<'_>) -> Vec<WebhookState> {
    let mut is_ticked = |state: &WebhookState| fields.opt::<LineText<8>>(state.as_str()).is_some();
    WebhookState::ALL.into_iter().filter(|state| is_ticked(state)).collect()
}

request! {
    /// The field of the form that ends a subscription.
    query EndForm {
        /// The subscription.
        req id: SubscriptionId;
    }
}

/// GET /portal/notifications.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let own = own(&state, &viewer).await?;
    let query = filled_in(&query.unwrap_or_default());
    let done = query.iter().find_map(|(name, value)| view::done(value).filter(|_| name == DONE));
    let frame = viewer.frame_with_removed(&mut viewer.caller.reader(&state).await?).await?;
    Ok(Html(view::page(&frame, &own, done, None)))
}

/// POST /portal/notifications: subscribes the user, and leads back to the page.
pub async fn subscribe(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<SubscribeForm>,
) -> Result<Response, ApiError> {
    if !state.sends_mail {
        return Err(NO_MAIL);
    }
    match add(&state, &viewer, &form).await {
        Ok(done) => Ok(to(Section::Notifications.path(), done)),
        Err(error) => refused(&state, &viewer, form, error).await,
    }
}

/// POST /portal/notifications/end: ends a subscription of the user, and leads back to the page.
pub async fn end(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form: EndForm { id } }: Posted<EndForm>,
) -> Result<Response, ApiError> {
    end_one(&state, &viewer, &id).await?;
    Ok(to(Section::Notifications.path(), Done::Ended))
}

/// POST /portal/notifications/webhook: what the user chose on the page of a webhook. It leads back to that page; a form that is wrong
/// is shown again as the form of a new subscription.
pub async fn of_webhook(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form: CardForm { id, new } }: Posted<CardForm>,
) -> Result<Response, ApiError> {
    if !state.sends_mail {
        return Err(NO_MAIL);
    }
    let named = new.webhook.as_deref().and_then(|name| viewer.caller.webhooks().named(name));
    let page = webhook_link(&named.ok_or(NO_SUCH_WEBHOOK)?.full_name());
    let done = match id {
        Some(id) if new.states.is_empty() => {
            end_one(&state, &viewer, &id).await?;
            Done::Ended
        }
        Some(id) => {
            change(&state, &viewer, &id, &new.states).await?;
            Done::Changed
        }
        None => match add(&state, &viewer, &new).await {
            Ok(done) => done,
            Err(error) => return refused(&state, &viewer, new, error).await,
        },
    };
    Ok(to(&page, done))
}

/// What the user is subscribed to, for the pages that show it.
pub(super) async fn own(state: &ApiState, viewer: &Viewer) -> Result<Notifications, ApiError> {
    let subject = &viewer.caller.subject;
    let mut reader = viewer.caller.reader(state).await?;
    let listed = subscriptions::list(&mut reader, subject).await?;
    let own = address_of(&mut reader, subject).await?;
    let typed = listed.iter().rev().find_map(|one| one.email.clone());
    let address = own.clone().or(typed).unwrap_or_default();
    let own = own.unwrap_or_default();
    let subscriptions = listed.into_iter().map(|one| shown(one, &own)).collect();
    Ok(Notifications { sends_mail: state.sends_mail, subscriptions, address })
}

/// The address that the tenant's database has of the user: a contact signs in with it, an employee has none.
async fn address_of(reader: &mut Connection, subject: &TokenSubject) -> Result<Option<String>, StoreError> {
    match subject {
        TokenSubject::Contact { contact_code, .. } => contacts::email(reader, contact_code).await,
        TokenSubject::Employee { .. } => Ok(None),
    }
}

fn shown(one: Subscription, own_address: &str) -> SubscriptionView {
    let Subscription { id, email, webhook, states, confirmed_at_ms, created_at_ms, .. } = one;
    let name = |key: String| webhook_key::full_name(&key).unwrap_or(&key).to_owned();
    SubscriptionView {
        id,
        webhook: webhook.map(name),
        states,
        address: email.unwrap_or_else(|| own_address.to_owned()),
        confirm_until: confirmed_at_ms.is_none().then(|| timestamp(created_at_ms + CONFIRM_MS)),
    }
}

async fn add(state: &ApiState, viewer: &Viewer, form: &SubscribeForm) -> Result<Done, ApiError> {
    let caller = &viewer.caller;
    let own = address_of(&mut caller.reader(state).await?, &caller.subject).await?.map(|own| user_key(&own));
    // A contact's own address needs no confirmation, also if it was typed.
    let email = form.email.clone().filter(|email| own.as_ref() != Some(&user_key(email)));
    let new = NewSubscription { webhook: form.webhook.clone(), states: form.states.clone(), email };
    let mut done = Done::Waiting;
    let subscribe = async |transaction: &mut Transaction, now| {
        let added =
            subscriptions::subscribe(transaction, caller.webhooks(), &caller.subject, new, now).await?;
        if added.confirmed_at_ms.is_some() {
            done = Done::Added;
        }
        let entry = caller.entry(state, AuditEvent::SubscriptionAdded).about("subscription", &added.id);
        Ok(WriteDone::new(&()).record(entry))
    };
    Write::each_time().perform(state, caller, subscribe).await?;
    Ok(done)
}

async fn change(
    state: &ApiState,
    viewer: &Viewer,
    id: &str,
    states: &[WebhookState],
) -> Result<(), ApiError> {
    let caller = &viewer.caller;
    let change = async |transaction: &mut Transaction, _| {
        subscriptions::change(transaction, &caller.subject, id, states).await?;
        let entry = caller.entry(state, AuditEvent::SubscriptionAdded).about("subscription", id);
        Ok(WriteDone::new(&()).record(entry))
    };
    Write::each_time().perform(state, caller, change).await.map(drop)
}

async fn end_one(state: &ApiState, viewer: &Viewer, id: &str) -> Result<(), ApiError> {
    let caller = &viewer.caller;
    let end = async |transaction: &mut Transaction, _| {
        subscriptions::unsubscribe(transaction, &caller.subject, id).await?;
        let entry = caller.entry(state, AuditEvent::SubscriptionEnded).about("subscription", id);
        Ok(WriteDone::new(&()).record(entry))
    };
    Write::each_time().perform(state, caller, end).await.map(drop)
}

/// The page with the form that was refused.
async fn refused(
    state: &ApiState,
    viewer: &Viewer,
    form: SubscribeForm,
    error: ApiError,
) -> Result<Response, ApiError> {
    let wrong = match error {
        ApiError::NotFound(_) => {
            vec![(
                "webhook".to_owned(),
                "This webhook is not served any more. Choose another one.".to_owned(),
            )]
        }
        ApiError::Conflict(text) => vec![(String::new(), text.to_owned())],
        error => error.wrong_fields()?.into_iter().map(in_words).collect(),
    };
    let own = own(state, viewer).await?;
    let SubscribeForm { webhook, states, email } = form;
    let wanted = Wanted { webhook: webhook.unwrap_or_default(), states, address: email.unwrap_or_default() };
    let frame = viewer.frame_with_removed(&mut viewer.caller.reader(state).await?).await?;
    let page = view::page(&frame, &own, None, Some((&wanted, &wrong)));
    Ok((StatusCode::BAD_REQUEST, Html(page)).into_response())
}

/// What is wrong with a field, in the words of the form.
fn in_words((field, message): (String, String)) -> (String, String) {
    let said = match field.as_str() {
        "states" => "Choose at least one.",
        "email" => "Enter an e-mail address, such as ada@quillfeather.example.",
        _ => return (field, message),
    };
    (field, said.to_owned())
}

/// Leads to a page, which says what was done.
fn to(page: &str, done: Done) -> Response {
    Redirect::to(&href(page, [(DONE, done.as_str())])).into_response()
}
