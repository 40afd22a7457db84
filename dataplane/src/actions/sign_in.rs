//! Issues tokens to contacts and employees.
//!
//! Unknown user, wrong password, inactive contact, no usable hash and another tenant's client code are one refusal,
//! after the same work: neither the answer nor its time tells them apart.

use docket_domain::token::{self, Key, Subject};
use secrecy::SecretString;

use crate::clock::Clock;
use crate::passwords::{Busy, Passwords};
use crate::store::{StoreError, contacts, employees};
use crate::telemetry::Metrics;
use crate::tenants::Tenant;
use crate::throttle::{Guess, Throttle, TryLater};

/// What sign-in works with.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "only borrows")]
pub struct SignIn<'a> {
    /// The time.
    pub clock: &'a Clock,
    /// Checks passwords.
    pub passwords: &'a Passwords,
    /// Slows guessing down.
    pub throttle: &'a Throttle,
    /// Counts.
    pub metrics: &'a Metrics,
}

/// What the caller sent.
#[expect(missing_debug_implementations, reason = "holds a password")]
pub struct Credentials {
    /// If sent, it must be the tenant's.
    pub client_code: Option<String>,
    /// A contact's e-mail address or an employee's check-in name.
    pub user_id: String,
    /// The password.
    pub password: SecretString,
    /// Where the request came from.
    pub source: std::net::IpAddr,
}

/// A token and whom it was issued to.
#[expect(missing_debug_implementations, reason = "holds a token")]
pub struct Issued {
    /// The JWT.
    pub token: String,
    /// Its lifetime.
    pub expires_in_minutes: u32,
    /// Who signed in.
    pub subject: Subject,
    /// Display name.
    pub name: String,
}

/// No token.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// No such user with this password here.
    #[error("unknown user")]
    UnknownUser,
    /// Too many wrong guesses.
    #[error(transparent)]
    TryLater(#[from] TryLater),
    /// Too many sign-ins at once.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who may sign in here, before the password is looked at.
struct Candidate {
    subject: Subject,
    name: String,
    password_hash: Option<String>,
}

impl SignIn<'_> {
    /// Signs a contact in (POST /Auth/Token, POST /Session/Create).
    pub async fn contact(self, tenant: &Tenant, credentials: Credentials) -> Result<Issued, SignInError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let contact = contacts::find(&mut reader, &credentials.user_id).await?;
        drop(reader);
        let candidate = contact.filter(|contact| contact.active).map(|contact| Candidate {
            subject: Subject::Contact { contact_code: contact.code, customer_code: contact.customer_code },
            name: contact.name,
            password_hash: contact.password_hash,
        });
        self.check("contact", tenant, credentials, candidate).await
    }

    /// Signs an employee in (POST /Employee/SignIn).
    pub async fn employee(self, tenant: &Tenant, credentials: Credentials) -> Result<Issued, SignInError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let employee = employees::find(&mut reader, &credentials.user_id).await?;
        drop(reader);
        let candidate = employee.filter(|employee| employee.active).map(|employee| Candidate {
            subject: Subject::Employee {
                employee_code: employee.code,
                administrator: employee.administrator,
            },
            name: employee.name,
            password_hash: employee.password_hash,
        });
        self.check("employee", tenant, credentials, candidate).await
    }

    async fn check(
        self,
        kind: &str,
        tenant: &Tenant,
        credentials: Credentials,
        candidate: Option<Candidate>,
    ) -> Result<Issued, SignInError> {
        let Credentials { client_code, user_id, password, source } = credentials;
        let guess = Guess {
            tenant: tenant.config.uid.clone(),
            user: format!("{kind} {}", contacts::user_key(&user_id)),
            source,
        };
        self.throttle
            .begin(&guess, self.clock.now_ms())
            .inspect_err(|_| self.metrics.signed_in("throttled"))?;
        let right_tenant = client_code.is_none_or(|code| tenant.config.client_code.matches(&code));
        let stored =
            candidate.as_ref().filter(|_| right_tenant).and_then(|candidate| candidate.password_hash.clone());
        let right =
            self.passwords.verify(stored, password).await.inspect_err(|_| self.metrics.signed_in("busy"))?;
        let Some(Candidate { subject, name, .. }) = candidate.filter(|_| right) else {
            self.metrics.signed_in("refused");
            return Err(SignInError::UnknownUser);
        };
        self.throttle.right(&guess);
        self.metrics.signed_in("ok");
        let tokens = &tenant.config.tokens;
        let key =
            tokens.signing_keys.first().ok_or(StoreError::Unexpected("a tenant without a signing key"))?;
        let key = Key { kid: &key.kid, secret: key.secret.expose() };
        let expires_in_minutes = tokens.lifetime_minutes;
        let now = self.clock.now();
        let token = token::issue(key, &tenant.config.uid, subject.clone(), now, expires_in_minutes);
        Ok(Issued { token, expires_in_minutes, subject, name })
    }
}
