//! Who may see the portal: the user of the session, and the tenant of the host.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use docket_crds::{PortalLook, WebhookConfig};
use docket_domain::audit::Actor;
use docket_listener::fair_share::Share;
use docket_portal::actors::Actors;
use docket_portal::brand::Brand;
use docket_portal::page::{Frame, Role, WebhookName};
use docket_portal::sign_in::{self, SignInPage};
use docket_portal::{ROOT, href};
use docket_store::health::{WebhookHealth, by_webhook_bounded};
use docket_store::{Connection, StoreError};
use http::header::{REFERER, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use url::{Position, Url};

use super::actors;
use super::cookies::Cookies;
use super::csrf::csrf_of;
use super::removed;
use super::writes::{NAME_PREFIX, WebhookWriter, Writes};
use crate::api::caller::{Caller, WebhookManager};
use crate::api::state::ApiState;
use crate::api::tenant::Addressed;
use crate::http::error::ApiError;
use crate::http::host::{HostKind, host};
use crate::tenancy::ServedTenant;

/// The tenant of a page: by the host alone.
pub(super) fn tenant_of(parts: &Parts, state: &ApiState) -> Result<Arc<ServedTenant>, ApiError> {
    match host(parts)?.map(|host| state.hosts.kind(&host)) {
        Some(HostKind::Subdomain(label)) => {
            state.tenants.by_subdomain(&label).ok_or(ApiError::TenantNotFound)
        }
        Some(HostKind::Legacy) => Err(ApiError::NoSuchRoute),
        Some(HostKind::Base) | None => Err(ApiError::NotFound(
            "This address names no tenant; open /portal at the tenant's own subdomain, such as acme.localhost for docket dev on localhost",
        )),
    }
}

/// A tenant's name for people.
pub(super) fn name_of(tenant: &ServedTenant) -> String {
    let config = &tenant.config;
    config.display_name.clone().unwrap_or_else(|| config.client_code.as_str().to_owned())
}

/// What pages of a tenant have of its own.
pub(super) fn brand_of(tenant: &ServedTenant) -> Brand {
    let PortalLook { color, logo } = &tenant.config.portal;
    Brand { color: color.as_deref().map(version), logo: logo.as_deref().map(version) }
}

/// The version of a colour or a logo: it changes with the text.
pub(super) fn version(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

/// A signed-in user that may see the portal, by the database's last word: an administrator of the tenant, or a contact that
/// manages the webhooks of its customer, which [`Caller`] names. A handler with this argument can't forget the check.
pub struct Viewer {
    /// The user, as the API knows it.
    pub caller: Caller,
    frame: Frame,
    /// The health of the viewer's webhooks by uid, which a page of the portal has read for its navigation.
    health: Option<HashMap<String, WebhookHealth>>,
    /// The share of the memory for the form that the user has sent.
    _body: Option<Share>,
}

impl Viewer {
    /// The same user, whose form has this share of the memory.
    #[must_use]
    pub(super) fn with_body(self, share: Option<Share>) -> Self {
        Self { _body: share, ..self }
    }

    /// What is around the user's pages.
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The frame for a page that names webhooks which may be removed: it has their last names.
    pub(super) async fn frame_with_removed(&self, reader: &mut Connection) -> Result<Frame, StoreError> {
        let removed = removed::names(reader, self.caller.customer.as_deref()).await?;
        Ok(Frame { removed, ..self.frame.clone() })
    }

    /// The health of the viewer's webhooks by uid: as the navigation counts it, or read now if the request is a form.
    pub(super) async fn health(
        &self,
        reader: &mut Connection,
    ) -> Result<HashMap<String, WebhookHealth>, StoreError> {
        match &self.health {
            Some(health) => Ok(health.clone()),
            None => health_of(&self.caller, reader).await,
        }
    }

    /// The names of the people among these actors, which rows show as texts such as `employee 52`. A contact learns the names of
    /// contacts alone.
    pub(super) async fn named(&self, reader: &mut Connection, actors: &[&str]) -> Result<Actors, StoreError> {
        if self.caller.customer.is_none() {
            return actors::named(reader, actors).await;
        }
        let is_employee = |actor: &str| matches!(Actor::person(actor), Some(Actor::Employee(_)));
        let others: Vec<&str> = actors.iter().copied().filter(|actor| !is_employee(actor)).collect();
        Ok(actors::named(reader, &others).await?.for_contact(&name_of(&self.caller.tenant)))
    }

    /// Refuses a page that concerns the whole tenant to a contact, which manages its customer's webhooks.
    pub fn must_be_administrator(&self) -> Result<(), ApiError> {
        match self.caller.customer {
            None => Ok(()),
            Some(_) => Err(ApiError::NotAdministrator),
        }
    }
}

/// Why there is no viewer.
pub enum NoViewer {
    /// The user has to sign in, to come back to this path.
    SignIn {
        /// The path.
        to: String,
        /// Whether there was a session, which has ended.
        has_ended: bool,
    },
    /// The user has to sign in to send a form, which this page keeps.
    Kept(Box<SignInPage>),
    /// Another reason.
    Api(ApiError),
}

impl From<ApiError> for NoViewer {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl IntoResponse for NoViewer {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn { to, has_ended } => {
                let ended = if has_ended { "yes" } else { "" };
                let to = href(&format!("{ROOT}/sign-in"), [("to", &*to), (ENDED, ended)]);
                Redirect::to(&to).into_response()
            }
            Self::Kept(page) => (StatusCode::UNAUTHORIZED, Html(sign_in::page(&page))).into_response(),
            Self::Api(error) => error.into_response(),
        }
    }
}

/// The parameter of the sign-in page that says that a session has ended.
pub(super) const ENDED: &str = "ended";

/// The header of a request that a page sends by itself to show what is new. It is no use of the session.
const LIVE: &str = "x-live";

/// Leads to the sign-in page, and from there back to this page, or to the page whose form the request is.
/// `has_ended`: there was a session.
pub(super) fn to_sign_in(parts: &Parts, has_ended: bool) -> NoViewer {
    let to = match (&parts.method, parts.uri.path_and_query()) {
        (&Method::GET, Some(path)) => path.to_string(),
        _ => page_of_form(parts),
    };
    NoViewer::SignIn { to, has_ended }
}

/// The path of the page that has sent a form; the portal's first page if the browser does not say.
pub(super) fn page_of_form(parts: &Parts) -> String {
    let referer = parts.headers.get(REFERER).and_then(|value| value.to_str().ok());
    let url = referer.and_then(|referer| Url::parse(referer).ok());
    let path = url.map(|url| url[Position::BeforePath..Position::AfterQuery].to_owned());
    // The page of a form to send again is at the address of the sign-in.
    local(path.filter(|path| !path.starts_with("/portal/sign-in")))
}

/// The path if it is one of the portal, else the portal's first page.
pub(super) fn local(to: Option<String>) -> String {
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

impl FromRequestParts<Arc<ApiState>> for Viewer {
    type Rejection = NoViewer;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, NoViewer> {
        let tenant = tenant_of(parts, state)?;
        let cookies = Cookies::of(parts)?;
        let Some(token) = cookies.token(&parts.headers) else {
            return Err(to_sign_in(parts, false));
        };
        let is_in_use = parts.method == Method::GET && !parts.headers.contains_key(LIVE);
        let caller = Caller::of_session(Addressed::Tenant(tenant), token, parts, state, is_in_use).await;
        let (caller, renewed) = match caller {
            Err(ApiError::InvalidToken) => return Err(to_sign_in(parts, true)),
            caller => caller?,
        };
        let seen = parts.extensions.get::<Seen>().cloned().unwrap_or_default();
        if let Some(token) = renewed {
            seen.renew(cookies.set(&token)?);
        }
        let mut frame = frame_without_role(&caller, token, state);
        // Before the first check that may refuse the user, who then sees the reason and how to sign out.
        seen.set(&frame);
        let served = Arc::clone(&caller.tenant);
        let manager = WebhookManager::of_caller(caller, state).await;
        if matches!(manager, Err(ApiError::NotAdministrator)) {
            frame.user = name_without_right(&served, &frame.user, state).await?;
            seen.set(&frame);
        }
        let WebhookManager { caller, name, customer_name } = manager?;
        frame.user = name;
        frame.role = customer_name.map_or(Role::Administrator, Role::Contact);
        frame.webhooks = names(&caller);
        frame.changeable =
            changeable_by(&caller, parts.extensions.get::<Writes>().and_then(Option::as_deref));
        let mut reader = caller.reader(state).await.map_err(ApiError::from)?;
        let found = match health_of(&caller, &mut reader).await {
            // A form works without the number of webhooks that need attention.
            Err(_) if parts.method != Method::GET => HashMap::new(),
            found => found.map_err(ApiError::from)?,
        };
        drop(reader);
        frame.attention = attention(&caller, &found);
        // A form may change it.
        let health = (parts.method == Method::GET).then_some(found);
        seen.set(&frame);
        Ok(Self { caller, frame, health, _body: None })
    }
}

/// The frame of a user whose rights are not known yet.
fn frame_without_role(caller: &Caller, token: &str, state: &ApiState) -> Frame {
    let user = caller.name();
    Frame {
        tenant: name_of(&caller.tenant),
        brand: brand_of(&caller.tenant),
        role: Role::None,
        csrf: csrf_of(token, &user),
        user,
        now: state.clock.now(),
        attention: 0,
        webhooks: Vec::new(),
        changeable: Vec::new(),
        removed: Vec::new(),
    }
}

/// The name of a user who may not see the portal, and whom rows name by this text.
async fn name_without_right(tenant: &ServedTenant, user: &str, state: &ApiState) -> Result<String, ApiError> {
    let mut reader = tenant.store.reader(&state.clock).await?;
    Ok(actors::named(&mut reader, &[user]).await?.name(user).to_owned())
}

/// The names of the served webhooks, in their order for people.
fn names(caller: &Caller) -> Vec<WebhookName> {
    let name = |webhook: &WebhookConfig| {
        let full_name = webhook.full_name();
        let name = webhook.display_name.clone().filter(|name| !name.trim().is_empty());
        WebhookName { name: name.unwrap_or_else(|| full_name.clone()), full_name }
    };
    let mut names: Vec<WebhookName> = caller.webhooks().served().map(name).collect();
    names.sort_by_cached_key(|webhook| (webhook.name.to_lowercase(), webhook.full_name.clone()));
    names
}

/// The served webhooks that the caller can change in the portal, as their names say. The page of a webhook looks at its object too, which may
/// have been changed elsewhere.
fn changeable_by(caller: &Caller, writer: Option<&WebhookWriter>) -> Vec<String> {
    let namespace = &caller.tenant.config.namespace;
    let is_own =
        |webhook: &&WebhookConfig| webhook.namespace == *namespace && webhook.name.starts_with(NAME_PREFIX);
    match writer.filter(|writer| writer.is_open()) {
        Some(_) => caller.webhooks().served().filter(is_own).map(WebhookConfig::full_name).collect(),
        None => Vec::new(),
    }
}

/// The number of served webhooks that lose deliveries or whose attempts fail.
fn attention(caller: &Caller, health: &HashMap<String, WebhookHealth>) -> usize {
    let served = caller.webhooks().served().filter_map(|webhook| health.get(&webhook.uid));
    served.filter(|health| health.dead_letter > 0 || health.retrying > 0).count()
}

/// Reads the health of the caller's webhooks, by uid.
async fn health_of(
    caller: &Caller,
    reader: &mut Connection,
) -> Result<HashMap<String, WebhookHealth>, StoreError> {
    Ok(caller.webhooks().health(by_webhook_bounded(reader).await?))
}

/// What was seen of the user of a request.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<SeenUser>>);

#[derive(Debug, Default)]
struct SeenUser {
    /// What is around the page, as far as the user is known: the page of an error has it too.
    frame: Option<Frame>,
    /// The cookie of the session if the session was renewed.
    cookie: Option<HeaderValue>,
}

impl Seen {
    fn set(&self, frame: &Frame) {
        self.0.lock().frame = Some(frame.clone());
    }

    fn renew(&self, cookie: HeaderValue) {
        self.0.lock().cookie = Some(cookie);
    }
}

/// Runs a request. Hands what is around its page to the page of its error, and the cookie of a renewed session to the browser.
pub(super) async fn framed(mut request: Request, next: Next) -> Response {
    let seen = Seen::default();
    request.extensions_mut().insert(seen.clone());
    let mut response = next.run(request).await;
    let SeenUser { frame, cookie } = std::mem::take(&mut *seen.0.lock());
    if let Some(frame) = frame {
        response.extensions_mut().insert(frame);
    }
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
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

    #[test]
    fn form_leads_back_to_the_page_that_has_sent_it() {
        let page = |referer: Option<&str>| {
            let mut request = http::Request::post("/portal/resends/probe");
            if let Some(referer) = referer {
                request = request.header(REFERER, referer);
            }
            page_of_form(&request.body(()).expect("a request").into_parts().0)
        };
        let of_resends = "/portal/resends?webhook=default%2Forders";
        assert_eq!(page(Some(&format!("https://acme.example{of_resends}"))), of_resends);
        assert_eq!(page(Some("https://acme.example/portal/webhooks/a/b#x")), "/portal/webhooks/a/b");
        let of_sign_in = "https://acme.example/portal/sign-in?to=%2Fportal";
        for other in [None, Some("https://acme.example/swagger"), Some(of_sign_in), Some("no URL")] {
            assert_eq!(page(other), "/portal", "{other:?}");
        }
    }
}
