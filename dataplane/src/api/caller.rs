//! The caller of a request: the proof that both credentials were checked (Authentication, rule 6).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use docket_domain::audit::{Actor, AuditEvent, AuditRecord, Origin};
use docket_domain::token::{self, Key, TokenSubject};
use docket_store::{Connection, StoreError, employees};
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::body::OfTenant;
use super::error::ApiError;
use super::origin::origin;
use super::state::ApiState;
use super::tenant::Addressed;
use crate::tenants::ServedTenant;

/// The tenant and the verified token. A handler with this argument can't forget the check.
#[derive(Clone)]
pub struct Caller {
    /// The tenant of the key or the host; on the legacy host, of the token.
    pub tenant: Arc<ServedTenant>,
    /// The contact or employee.
    pub subject: TokenSubject,
    /// Where the request came from.
    pub origin: Origin,
}

impl Caller {
    /// A connection to the tenant's database for reading.
    pub async fn reader(&self, state: &ApiState) -> Result<Connection, StoreError> {
        self.tenant.store.ready(&state.clock).await?.reader().await
    }

    /// The caller's name in logs, with kept responses, and as the author of notes. It is the same for all its tokens.
    pub fn name(&self) -> String {
        Actor::from(&self.subject).to_string()
    }

    /// An entry of the audit about what the caller does now.
    pub fn entry(&self, state: &ApiState, event: AuditEvent) -> AuditRecord {
        state.audit.entry(event).by(&Actor::from(&self.subject)).at(self.origin.clone())
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
            ApiError::InvalidToken if is_legacy => ApiError::InvalidSession,
            error => error,
        })
    }
}

impl Caller {
    /// The caller that `token` identifies, in a request with these parts.
    pub async fn of_token(
        addressed: Addressed,
        token: &str,
        parts: &Parts,
        state: &ApiState,
    ) -> Result<Self, ApiError> {
        let tenant = match addressed {
            Addressed::Tenant(tenant) => tenant,
            Addressed::Legacy => {
                let uid = token::claimed_tenant(token).ok_or(ApiError::InvalidToken)?;
                let tenant = state.tenants.by_uid(&uid).filter(|tenant| !tenant.config.suspended);
                tenant.ok_or(ApiError::InvalidToken)?
            }
        };
        let keys: Vec<Key<'_>> = tenant
            .config
            .tokens
            .signing_keys
            .iter()
            .map(|key| Key { kid: &key.kid, secret: key.secret.expose() })
            .collect();
        let verified = token::verify(token, &keys, &tenant.config.uid, state.clock.now())
            .map_err(|_| ApiError::InvalidToken)?;
        if !state.owners.is_current(&tenant, &verified).await? {
            return Err(ApiError::InvalidToken);
        }
        // Not earlier: clients without a valid token must not use up the tenant's requests.
        state
            .rates
            .request(&tenant.uid, &tenant.config.limits, state.clock.elapsed())
            .inspect_err(|over| state.metrics.limited(&tenant.uid, over.limit))?;
        let (subject, (_, origin)) = (verified.subject, origin(parts, state)?);
        if let Some(OfTenant(of)) = parts.extensions.get() {
            let _ = of.set(tenant.config.uid.clone());
        }
        Ok(Self { tenant, subject, origin })
    }
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
    /// The caller, if it is an administrator.
    pub async fn of_caller(caller: Caller, state: &ApiState) -> Result<Self, ApiError> {
        let TokenSubject::Employee { administrator: true, employee_code } = &caller.subject else {
            return Err(ApiError::NotAdministrator);
        };
        // A token outlives the right, so the database has the last word.
        match employees::is_administrator(&mut caller.reader(state).await?, employee_code).await? {
            true => Ok(Self(caller)),
            false => Err(ApiError::NotAdministrator),
        }
    }
}

fn bearer(parts: &Parts) -> Result<&str, ApiError> {
    let mut sent = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return Err(ApiError::InvalidToken) };
    let (scheme, token) =
        value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(ApiError::InvalidToken)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(ApiError::InvalidToken) }
}
