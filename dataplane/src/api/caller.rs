//! The caller of a request: the proof that both credentials were checked (Authentication, rule 6).

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use docket_crds::WebhookConfig;
use docket_domain::audit::{Actor, AuditEvent, AuditRecord, Origin};
use docket_domain::token::{self, InvalidToken, Session, TokenKey, TokenSubject, UserFingerprint, Verified};
use docket_store::{Connection, StoreError, contacts, employees, ended_sessions};
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;

use super::state::ApiState;
use super::tenant::Addressed;
use crate::actions::By;
use crate::http::body::OfTenant;
use crate::http::error::ApiError;
use crate::http::origin::origin;
use crate::tenancy::{ServedTenant, Webhooks};

/// The user for whom a request acts, and the tenant: what reads, writes and the audit need to know.
#[derive(Clone)]
pub struct Principal {
    /// The tenant.
    pub tenant: Arc<ServedTenant>,
    /// The user.
    pub actor: Actor,
    /// Where the request came from.
    pub origin: Origin,
    /// The customer whose webhooks and deliveries the user may see; `None`: all of the tenant.
    pub customer: Option<String>,
}

impl Principal {
    /// A connection to the tenant's database for reading.
    pub async fn reader(&self, state: &ApiState) -> Result<Connection, StoreError> {
        self.tenant.store.reader(&state.clock).await
    }

    /// The webhooks that the user may see.
    pub fn webhooks(&self) -> Webhooks<'_> {
        let all = self.tenant.webhooks();
        self.customer.as_deref().map_or(all, |customer| all.of(customer))
    }

    /// The keys of the webhooks that the user may see; `None`: all of the tenant.
    pub fn concern(&self) -> Option<Vec<String>> {
        self.customer.as_ref()?;
        Some(self.webhooks().served().map(WebhookConfig::key).collect())
    }

    /// Whether the user may see the deliveries of this customer's events.
    pub fn concerns(&self, customer_code: &str) -> bool {
        self.customer.as_deref().is_none_or(|customer| customer == customer_code)
    }

    /// The user as the actions for resending and setting aside take it, under its [`name`](Self::name).
    pub fn by<'a>(&'a self, name: &'a str) -> By<'a> {
        By { webhooks: self.webhooks(), customer: self.customer.as_deref(), name }
    }

    /// The name in logs, with kept responses, and as the author of notes. All tokens of a user have the same name.
    pub fn name(&self) -> String {
        self.actor.to_string()
    }

    /// Logs that the user searched `what`, such as `orders`: who has read what, without the words of the search.
    pub fn searched(&self, what: &'static str) {
        let code = self.tenant.config.client_code.as_str();
        tracing::info!(tenant.code = code, caller = self.name(), "{what} searched");
    }

    /// An entry of the audit about what the user does now.
    pub fn entry(&self, state: &ApiState, event: AuditEvent) -> AuditRecord {
        state.audit.entry(event).by(&self.actor).at(self.origin.clone())
    }
}

/// The verified user of a token, at the tenant of the key or the host (on the legacy host, of the token). A handler with this
/// argument can't forget the check.
#[derive(Clone)]
pub struct Caller {
    /// The contact or employee.
    pub subject: TokenSubject,
    principal: Principal,
}

impl Deref for Caller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.principal
    }
}

impl FromRequestParts<Arc<ApiState>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        let addressed = Addressed::from_request_parts(parts, state).await?;
        let is_legacy = matches!(addressed, Addressed::Legacy);
        let caller = match bearer(parts) {
            Ok(token) => Self::of_token(addressed, token, parts, state).await,
            Err(error) => Err(error),
        };
        caller.map_err(|error| match error {
            ApiError::NoToken if is_legacy => ApiError::NoSession,
            ApiError::InvalidToken if is_legacy => ApiError::InvalidSession,
            error => error,
        })
    }
}

impl Caller {
    /// Verifies `token`, which came with a request that has these parts.
    pub async fn of_token(
        addressed: Addressed,
        token: &str,
        parts: &Parts,
        state: &ApiState,
    ) -> Result<Self, ApiError> {
        Self::of_session(addressed, token, parts, state, false).await.map(|(caller, _)| caller)
    }

    /// Like [`of_token`](Self::of_token). Also returns the token that takes its place, if the session `is_in_use` and has to be
    /// renewed.
    pub async fn of_session(
        addressed: Addressed,
        token: &str,
        parts: &Parts,
        state: &ApiState,
        is_in_use: bool,
    ) -> Result<(Self, Option<String>), ApiError> {
        let tenant = match addressed {
            Addressed::Tenant(tenant) => tenant,
            Addressed::Legacy => {
                let uid = token::claimed_tenant(token).ok_or(ApiError::InvalidToken)?;
                let tenant = state.tenants.by_uid(&uid).filter(|tenant| !tenant.config.suspended);
                tenant.ok_or(ApiError::InvalidToken)?
            }
        };
        OfTenant::record(parts, &tenant);
        let now = state.clock.now();
        let verified = verified(&tenant, token, now).map_err(|_| ApiError::InvalidToken)?;
        let owner = state.token_users.owner(&tenant, &verified).await?.ok_or(ApiError::InvalidToken)?;
        let actor = Actor::from(&verified.subject);
        OfTenant::record_user(parts, &actor);
        // The request is counted only here: clients without a valid token must not use up the tenant's requests.
        state
            .rates
            .request(&tenant.uid, &actor, &tenant.config.limits, state.clock.elapsed())
            .inspect_err(|over| state.tenants.at_limit.reached(&tenant.uid, over.limit))?;
        if let Some(session) = verified.session() {
            // A user who signs out trusts that no copy of the cookie works any more.
            let mut reader = tenant.store.reader(&state.clock).await?;
            if ended_sessions::has_ended(&mut reader, &session.digest()).await? {
                return Err(ApiError::InvalidToken);
            }
        }
        let renewed = if is_in_use { renewed(&tenant, &verified, &owner, now) } else { None };
        let (subject, (_, origin)) = (verified.subject, origin(parts, &state.proxies)?);
        let principal = Principal { tenant, actor, origin, customer: None };
        Ok((Self { subject, principal }, renewed))
    }
}

/// Verifies that a token is one of this tenant, without looking whether its user has changed.
pub fn verified<'a>(
    tenant: &'a ServedTenant,
    token: &str,
    now: Timestamp,
) -> Result<Verified<'a>, InvalidToken> {
    token::verify(token, &keys(tenant), &tenant.config.uid, now)
}

/// The user and the session of a token of this tenant's portal, which may have expired.
pub fn session_of(tenant: &ServedTenant, token: &str) -> Option<(TokenSubject, Session)> {
    token::session_of(token, &keys(tenant), &tenant.config.uid)
}

fn keys(tenant: &ServedTenant) -> Vec<TokenKey<'_>> {
    let keys = tenant.config.tokens.signing_keys.iter();
    keys.map(|key| TokenKey { kid: &key.kid, secret: key.secret.expose() }).collect()
}

/// The token that takes the place of a session's token, if it is time. `owner`: the user as it is now.
fn renewed(
    tenant: &ServedTenant,
    verified: &Verified<'_>,
    owner: &UserFingerprint,
    now: Timestamp,
) -> Option<String> {
    let tokens = &tenant.config.tokens;
    let session = verified.session_to_renew(now, tokens.lifetime_minutes)?;
    let key = tokens.signing_keys.first()?;
    let key = TokenKey { kid: &key.kid, secret: key.secret.expose() };
    let (uid, owned) = (&tenant.config.uid, (verified.subject.clone(), owner));
    Some(token::issue_for_session(key, uid, owned, now, tokens.lifetime_minutes, session))
}

/// A user who may see webhooks: an administrator of the tenant, or a contact that manages its customer's webhooks.
pub struct WebhookManager {
    /// The user. The concern of a contact is its own customer.
    pub caller: Caller,
    /// The user's name for people.
    pub name: String,
    /// The name of a contact's customer; `None`: the user is an administrator.
    pub customer_name: Option<String>,
}

impl WebhookManager {
    /// The caller, if it is a webhook manager.
    pub async fn of_caller(mut caller: Caller, state: &ApiState) -> Result<Self, ApiError> {
        // A token outlives the right, so the database has the last word.
        let mut reader = caller.reader(state).await?;
        let TokenSubject::Contact { contact_code, customer_code } = &caller.subject else {
            let name = administrator(&mut reader, &caller).await?;
            return Ok(Self { caller, name, customer_name: None });
        };
        let names = contacts::manager(&mut reader, contact_code, customer_code).await?;
        let [name, customer_name] = names.ok_or(ApiError::NotAdministrator)?;
        caller.principal.customer = Some(customer_code.clone());
        Ok(Self { caller, name, customer_name: Some(customer_name) })
    }
}

/// The name of a caller that was an administrator of the tenant at sign-in and still is.
async fn administrator(reader: &mut Connection, caller: &Caller) -> Result<String, ApiError> {
    let TokenSubject::Employee { administrator: true, employee_code } = &caller.subject else {
        return Err(ApiError::NotAdministrator);
    };
    employees::administrator(reader, employee_code).await?.ok_or(ApiError::NotAdministrator)
}

impl AsRef<Self> for Caller {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A caller that was an administrator of the tenant at sign-in and still is. A handler with this argument can't forget
/// the check.
#[derive(Clone)]
pub struct Administrator(pub Caller);

impl AsRef<Caller> for Administrator {
    fn as_ref(&self) -> &Caller {
        &self.0
    }
}

impl FromRequestParts<Arc<ApiState>> for Administrator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        Self::of_caller(Caller::from_request_parts(parts, state).await?, state).await
    }
}

impl Administrator {
    /// Checks that the caller is an administrator.
    pub async fn of_caller(caller: Caller, state: &ApiState) -> Result<Self, ApiError> {
        // A token outlives the right, so the database has the last word.
        administrator(&mut caller.reader(state).await?, &caller).await?;
        Ok(Self(caller))
    }
}

/// The token of a request.
pub fn bearer(parts: &Parts) -> Result<&str, ApiError> {
    let mut sent = parts.headers.get_all(AUTHORIZATION).iter();
    let value = match (sent.next(), sent.next()) {
        (Some(value), None) => value.to_str().map_err(|_| ApiError::InvalidToken)?,
        (Some(_), Some(_)) => return Err(ApiError::InvalidToken),
        (None, _) => return Err(ApiError::NoToken),
    };
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    match token.trim() {
        // A token of another scheme counts as none.
        _ if !scheme.eq_ignore_ascii_case("bearer") => Err(ApiError::NoToken),
        "" => Err(ApiError::NoToken),
        token => Ok(token),
    }
}
