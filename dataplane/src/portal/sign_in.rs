//! The sign-in page, signing in and signing out.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_domain::audit::{Actor, AuditEvent};
use docket_portal::sign_in::{self, SendAgain, SignInPage};
use docket_program::random;
use docket_store::people::{self, Person};
use docket_store::{Transaction, ended_sessions};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};

use super::brand::AtHost;
use super::cookies::Cookies;
use super::csrf::{check_origin, csrf_of};
use super::forms::{FromForm, Posted, PostedByAnyone, filled_in, pairs_of};
use super::kept::{KEPT, KeptForm};
use super::session::{ENDED, brand_of, local, name_of, tenant_of};
use crate::actions::sign_in::{Credentials, Issued};
use crate::api::auth::audit;
use crate::api::caller::{session_of, verified};
use crate::api::state::ApiState;
use crate::api::writes::{Write, WriteDone};
use crate::http::body::{OfTenant, SIGN_IN_FORM_LIMIT, form_bytes};
use crate::http::error::ApiError;
use crate::http::kinds::{LineText, Password};
use crate::http::origin::origin;
use crate::http::request::request;
use crate::refusal::SignInError;

request! {
    /// The fields of the sign-in form.
    query SignInForm {
        /// The local path to go to afterwards.
        opt to: LineText<2048>;
        /// employee or contact.
        req kind: LineText<16>;
        /// An employee's check-in name, or a contact's e-mail address.
        req user_id: LineText<320>;
        /// The password.
        req password: Password;
    }
}

/// GET /portal/sign-in.
pub async fn page(
    State(state): State<Arc<ApiState>>,
    Extension(cookies): Extension<Cookies>,
    AtHost(tenant): AtHost,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Html<String> {
    let query = filled_in(&query.unwrap_or_default());
    let value = |wanted| query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let (to, has_ended) = (local(value("to")), value(ENDED).is_some());
    // A session that has ended leaves its cookie behind.
    let csrf = cookies.token(&headers).filter(|_| !has_ended).and_then(|token| {
        let subject = verified(&tenant, token, state.clock.now()).ok()?.subject;
        Some(csrf_of(token, &Actor::from(&subject).to_string()))
    });
    Html(sign_in::page(&SignInPage {
        tenant: name_of(&tenant),
        brand: brand_of(&tenant),
        to,
        has_ended,
        csrf,
        ..SignInPage::default()
    }))
}

/// POST /portal/sign-in.
pub async fn sign_in(State(state): State<Arc<ApiState>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let cookies = Cookies::of(&parts)?;
    let tenant = tenant_of(&parts, &state)?;
    // A form of another site would sign its victim in as the attacker.
    check_origin(&parts)?;
    let (source, origin) = origin(&parts, &state.proxies)?;
    let bytes = form_bytes(&parts.headers, body, SIGN_IN_FORM_LIMIT).await?;
    // The kept form may have lines, which no field of the sign-in may have.
    let (kept, pairs): (Vec<_>, Vec<_>) = pairs_of(&bytes)?.into_iter().partition(|(name, _)| name == KEPT);
    let kept = kept.first().and_then(|(_, text)| KeptForm::read(text));
    let SignInForm { to, kind, user_id, password } = SignInForm::from_form(pairs)?;
    let to = local(to);
    let credentials = Credentials {
        client_code: None,
        by_code: false,
        user_id: user_id.clone(),
        password,
        source,
        session: Some(random::bytes()),
    };
    let issued = match &*kind {
        "employee" => state.sign_in().employee(&tenant, credentials).await,
        "contact" => state.sign_in().contact(&tenant, credentials).await,
        _ => return Err(ApiError::field("kind", "must be employee or contact")),
    };
    audit(&state, Some(&tenant), origin, (&kind, &user_id), &issued);
    match issued {
        Ok(Issued { token, subject, .. }) => {
            let cookie = [(SET_COOKIE, cookies.set(&token)?)];
            let Some(kept) = kept else { return Ok((cookie, Redirect::to(&to)).into_response()) };
            OfTenant::record(&parts, &tenant);
            let user = Actor::from(&subject).to_string();
            let form = kept.form_for(&user, csrf_of(&token, &user));
            let again = SendAgain { tenant: name_of(&tenant), to, form };
            Ok((cookie, Html(sign_in::send_again(&again))).into_response())
        }
        Err(SignInError::UnknownUser) => {
            let (tenant, brand, is_contact) = (name_of(&tenant), brand_of(&tenant), kind == "contact");
            let refusal = Some(format!("No {kind} has this user id and password."));
            let kept = kept.and_then(|form| form.text());
            let page =
                SignInPage { tenant, brand, to, user_id, is_contact, refusal, kept, ..SignInPage::default() };
            Ok((StatusCode::UNAUTHORIZED, Html(sign_in::page(&page))).into_response())
        }
        Err(error) => Err(ApiError::from_sign_in(error, user_id)),
    }
}

/// POST /portal/sign-out: ends the session. None of its tokens is accepted any more, and the browser forgets the token. Users that may not
/// see the portal any more can sign out too.
pub async fn sign_out(
    State(state): State<Arc<ApiState>>,
    Extension(cookies): Extension<Cookies>,
    PostedByAnyone { tenant, token }: PostedByAnyone,
) -> Result<Response, ApiError> {
    // A token may have expired while a copy of the cookie was renewed.
    let session = session_of(&tenant, &token);
    let now = state.clock.now().as_second();
    if let Some((subject, session)) = session.filter(|(_, session)| session.ends_at() > now) {
        let (actor, limits) = (Actor::from(&subject), &tenant.config.limits);
        state
            .rates
            .request(&tenant.uid, &actor, limits, state.clock.elapsed())
            .inspect_err(|over| state.tenants.at_limit.reached(&tenant.uid, over.limit))?;
        let mut transaction = tenant.store.begin(&state.clock).await?;
        let now_ms = transaction.now_ms();
        let until_ms = session.ends_at().saturating_mul(1_000);
        match ended_sessions::end(&mut transaction, &session.digest(), until_ms, now_ms).await {
            // The schema of the previous release has no ended sessions. The browser forgets the token all the same.
            Err(error) if error.needs_migration() => {}
            ended => ended?,
        }
        transaction.commit().await?;
    }
    signed_out(cookies)
}

/// POST /portal/sign-out-everywhere: ends all tokens of the user, also for the API, within five seconds.
pub async fn sign_out_everywhere(
    State(state): State<Arc<ApiState>>,
    Extension(cookies): Extension<Cookies>,
    Posted { viewer, .. }: Posted<()>,
) -> Result<Response, ApiError> {
    let (caller, subject) = (&viewer.caller, viewer.caller.subject.clone());
    let end = async |transaction: &mut Transaction, _| {
        let (kind, code) = subject.user();
        people::end_tokens(transaction, Person { kind, code }).await?;
        let entry = caller.entry(&state, AuditEvent::SignedOut).about(kind.as_str(), code);
        Ok(WriteDone::new(&()).record(entry))
    };
    Write::each_time().perform(&state, caller, end).await?;
    signed_out(cookies)
}

fn signed_out(cookies: Cookies) -> Result<Response, ApiError> {
    Ok(([(SET_COOKIE, cookies.forget()?)], Redirect::to("/portal/sign-in")).into_response())
}
