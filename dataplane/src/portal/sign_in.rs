//! The sign-in page, signing in and signing out.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_domain::audit::AuditEvent;
use docket_domain::token::TokenSubject;
use docket_portal::ROOT;
use docket_portal::sign_in::{self, SignInPage};
use docket_store::{Transaction, contacts, employees};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};

use super::brand::AtHost;
use super::cookies::Cookies;
use super::csrf::{check_origin, csrf_of};
use super::forms::{FromForm, Posted, PostedByAnyone, filled_in, pairs_of};
use super::session::{ENDED, brand_of, name_of, tenant_of};
use crate::actions::sign_in::{Credentials, Issued};
use crate::api::auth::audit;
use crate::api::state::ApiState;
use crate::api::writes::{Write, WriteDone};
use crate::http::body::{SIGN_IN_LIMIT, form_bytes};
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
    Extension(cookies): Extension<Cookies>,
    AtHost(tenant): AtHost,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Html<String> {
    let query = filled_in(&query.unwrap_or_default());
    let value = |wanted| query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let (to, has_ended) = (local(value("to")), value(ENDED).is_some());
    // A session that has ended leaves its cookie behind.
    let csrf = cookies.token(&headers).filter(|_| !has_ended).map(csrf_of);
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
    let bytes = form_bytes(&parts.headers, body, SIGN_IN_LIMIT).await?;
    let SignInForm { to, kind, user_id, password } = SignInForm::from_form(pairs_of(&bytes)?)?;
    let to = local(to);
    let user = user_id.clone();
    let credentials = Credentials { client_code: None, by_code: false, user_id: user, password, source };
    let issued = match &*kind {
        "employee" => state.sign_in().employee(&tenant, credentials).await,
        "contact" => state.sign_in().contact(&tenant, credentials).await,
        _ => return Err(ApiError::field("kind", "must be employee or contact")),
    };
    audit(&state, Some(&tenant), origin, (&kind, &user_id), &issued);
    match issued {
        Ok(Issued { token, expires_in_minutes, .. }) => {
            let cookie = cookies.set_cookie(&token, u64::from(expires_in_minutes) * 60)?;
            Ok(([(SET_COOKIE, cookie)], Redirect::to(&to)).into_response())
        }
        Err(SignInError::UnknownUser) => {
            let (tenant, brand, is_contact) = (name_of(&tenant), brand_of(&tenant), kind == "contact");
            let refusal = Some(format!("No {kind} has this user id and password."));
            let (has_ended, csrf) = (false, None);
            let page = SignInPage { tenant, brand, to, user_id, is_contact, has_ended, refusal, csrf };
            let text = sign_in::page(&page);
            Ok((StatusCode::UNAUTHORIZED, Html(text)).into_response())
        }
        Err(error) => Err(ApiError::from_sign_in(error, user_id)),
    }
}

/// POST /portal/sign-out: the browser forgets the token, which is valid until it expires. Users that may not see the portal
/// any more can sign out too.
pub async fn sign_out(
    Extension(cookies): Extension<Cookies>,
    PostedByAnyone: PostedByAnyone,
) -> Result<Response, ApiError> {
    signed_out(cookies)
}

/// POST /portal/sign-out-everywhere: ends all tokens of the user within five seconds, those of the API too.
pub async fn sign_out_everywhere(
    State(state): State<Arc<ApiState>>,
    Extension(cookies): Extension<Cookies>,
    Posted { viewer, .. }: Posted<()>,
) -> Result<Response, ApiError> {
    let (caller, subject) = (&viewer.caller, viewer.caller.subject.clone());
    let end = async |transaction: &mut Transaction, _| {
        let (kind, code) = match &subject {
            TokenSubject::Contact { contact_code, .. } => {
                contacts::end_tokens(transaction, contact_code).await?;
                ("contact", contact_code)
            }
            TokenSubject::Employee { employee_code, .. } => {
                employees::end_tokens(transaction, employee_code).await?;
                ("employee", employee_code)
            }
        };
        Ok(WriteDone::new(&()).record(caller.entry(&state, AuditEvent::SignedOut).about(kind, code)))
    };
    Write::each_time().perform(&state, caller, end).await?;
    signed_out(cookies)
}

fn signed_out(cookies: Cookies) -> Result<Response, ApiError> {
    let cookie = cookies.set_cookie("", 0)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/portal/sign-in")).into_response())
}

/// The path if it is one of the portal, else the portal's first page.
fn local(to: Option<String>) -> String {
    let is_local = |to: &String| {
        let Some(rest) = to.strip_prefix(ROOT) else { return false };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // No path of the portal has anything encoded in it.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let mut names = path.split('/');
        names.next() == Some("")
            && names.all(|name| name.bytes().all(is_name) && name.bytes().any(|byte| byte != b'.'))
            && query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    to.filter(is_local).unwrap_or_else(|| ROOT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_portal_are_returned_to() {
        for right in [
            "/portal",
            "/portal/logs?status=Failed",
            "/portal?x=1",
            "/portal/webhooks/default/my.orders-2",
            "/portal/logs?webhook=default%2Forders&about=a..b",
        ] {
            assert_eq!(local(Some(right.into())), right);
        }
        for wrong in [
            "https://evil.example/portal",
            "//evil.example/portal",
            "/portalevil",
            "/portal/../swagger",
            "/portal/./logs",
            "/portal/.../logs",
            "/portal/%2e%2e//evil.example",
            "/portal/%2E%2E/swagger",
            "/portal/.%2e/swagger",
            "/portal/%252e%252e/swagger",
            "/portal//evil.example",
            "/portal/logs/",
            "/portal/logs%2f..%2f..",
            "/portal/logs#//evil.example",
            "/portal\\evil",
            "/portal/\u{e4}",
            "/portal\r\nset-cookie: a=b",
            "/swagger",
            "",
        ] {
            assert_eq!(local(Some(wrong.into())), "/portal", "{wrong}");
        }
        assert_eq!(local(None), "/portal");
    }
}
