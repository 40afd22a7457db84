//! Issues tokens to contacts and employees.
//!
//! Unknown user, wrong password, inactive contact, no usable hash and another tenant's client code are one refusal after
//! the same work, so that neither the response nor its time distinguishes them.

use docket_domain::token::{self, Key, Owner, TokenSubject};
use docket_program::clock::Clock;
use docket_store::{StoreError, contacts, employees};
use secrecy::SecretString;

use crate::fair_share::Busy;
use crate::passwords::{Guests, Passwords};
use crate::rates::{OverLimit, Rates};
use crate::telemetry::Metrics;
use crate::tenants::ServedTenant;
use crate::throttle::{Guess, Source, Throttle, TryLater};

/// The dependencies of sign-in.
#[derive(Clone, Copy)]
pub struct SignIn<'a> {
    /// The time.
    pub clock: &'a Clock,
    /// Checks passwords.
    pub passwords: &'a Passwords,
    /// Slows guessing down.
    pub throttle: &'a Throttle,
    /// Limits the sign-ins of a tenant.
    pub rates: &'a Rates,
    /// Counts sign-ins by result.
    pub metrics: &'a Metrics,
}

/// The credentials that the caller sent.
pub struct Credentials {
    /// The client code. If sent, it must be the tenant's.
    pub client_code: Option<String>,
    /// Whether the tenant is that of the client code (legacy host).
    pub by_code: bool,
    /// A contact's e-mail address or an employee's check-in name.
    pub user_id: String,
    /// The password.
    pub password: SecretString,
    /// Where the request came from.
    pub source: Source,
}

/// A token and the user it was issued to.
pub struct Issued {
    /// The JWT.
    pub token: String,
    /// Its lifetime.
    pub expires_in_minutes: u32,
    /// The user that signed in.
    pub subject: TokenSubject,
    /// Display name.
    pub name: String,
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The tenant has no user with this password.
    #[error("unknown user")]
    UnknownUser,
    /// Too many wrong guesses.
    #[error(transparent)]
    TryLater(#[from] TryLater),
    /// The tenant has too many sign-ins.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// Too many sign-ins at once.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A user that may sign in if the password is right.
struct Candidate {
    subject: TokenSubject,
    name: String,
    password_hash: Option<String>,
    sign_outs: i64,
}

impl SignIn<'_> {
    /// Signs a contact in (POST /Auth/Token, POST /Session/Create).
    pub async fn contact(
        self,
        tenant: &ServedTenant,
        credentials: Credentials,
    ) -> Result<Issued, SignInError> {
        let guess = self.guess(&tenant.config.uid, "contact", &credentials)?;
        self.limit(tenant, &guess)?;
        let candidate = self.find_contact(tenant, &credentials.user_id).await?;
        self.check(tenant, &guess, credentials, candidate).await
    }

    /// Signs an employee in (POST /Employee/SignIn).
    pub async fn employee(
        self,
        tenant: &ServedTenant,
        credentials: Credentials,
    ) -> Result<Issued, SignInError> {
        let guess = self.guess(&tenant.config.uid, "employee", &credentials)?;
        self.limit(tenant, &guess)?;
        let candidate = self.find_employee(tenant, &credentials.user_id).await?;
        self.check(tenant, &guess, credentials, candidate).await
    }

    /// Refuses a user of a tenant that does not exist, after the same work as for one that does (legacy host).
    pub async fn unknown_tenant(self, credentials: Credentials) -> SignInError {
        let claimed = credentials.client_code.clone().unwrap_or_default().to_ascii_lowercase();
        let refused = async {
            let guess = self.guess(&claimed, "unknown tenant", &credentials)?;
            self.verify(&guess, String::new(), None, credentials.password).await?;
            Ok::<_, SignInError>(SignInError::UnknownUser)
        };
        refused.await.unwrap_or_else(|error| error)
    }

    /// Refuses a user that has to wait, before any look-up.
    fn guess(self, tenant: &str, kind: &str, credentials: &Credentials) -> Result<Guess, TryLater> {
        let user = format!("{kind} {}", contacts::user_key(&credentials.user_id));
        let guess = Guess {
            tenant: tenant.to_owned(),
            user,
            source: credentials.source,
            by_code: credentials.by_code,
        };
        self.throttle
            .check(&guess, self.clock.elapsed())
            .inspect_err(|_| self.metrics.signed_in("throttled"))?;
        Ok(guess)
    }

    /// Refuses a user of a tenant with too many sign-ins, before any look-up.
    fn limit(self, tenant: &ServedTenant, guess: &Guess) -> Result<(), OverLimit> {
        let known = self.throttle.is_known(guess, self.clock.elapsed());
        let counted = self.rates.sign_in(&tenant.uid, &tenant.config.limits, known, self.clock.elapsed());
        counted.inspect_err(|over| {
            self.metrics.signed_in("throttled");
            self.metrics.limited(&tenant.uid, over.limit);
        })
    }

    async fn find_contact(
        self,
        tenant: &ServedTenant,
        user_id: &str,
    ) -> Result<Option<Candidate>, StoreError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let contact = contacts::find(&mut reader, user_id).await?.filter(|contact| contact.active);
        Ok(contact.map(|contact| Candidate {
            subject: TokenSubject::Contact {
                contact_code: contact.code,
                customer_code: contact.customer_code,
            },
            name: contact.name,
            password_hash: contact.password_hash,
            sign_outs: contact.sign_outs,
        }))
    }

    async fn find_employee(
        self,
        tenant: &ServedTenant,
        user_id: &str,
    ) -> Result<Option<Candidate>, StoreError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let employee = employees::find(&mut reader, user_id).await?.filter(|employee| employee.active);
        Ok(employee.map(|employee| Candidate {
            subject: TokenSubject::Employee {
                employee_code: employee.code,
                administrator: employee.administrator,
            },
            name: employee.name,
            password_hash: employee.password_hash,
            sign_outs: employee.sign_outs,
        }))
    }

    /// Checks the password. The guess is counted when its turn to hash comes. So at most as many guesses are under way
    /// uncounted as there are turns, and a client that signs in many times at once with the right password is not refused.
    async fn verify(
        self,
        guess: &Guess,
        tenant: String,
        stored: Option<String>,
        password: SecretString,
    ) -> Result<bool, SignInError> {
        let guests = Guests { tenant, are_known: self.throttle.is_known(guess, self.clock.elapsed()) };
        let turn = self.passwords.turn(guests, stored).await;
        let turn = turn.inspect_err(|_| self.metrics.signed_in("busy"))?;
        self.throttle
            .begin(guess, self.clock.elapsed())
            .inspect_err(|_| self.metrics.signed_in("throttled"))?;
        let right = turn.verify(password).await;
        if right {
            self.throttle.right(guess, self.clock.elapsed());
        }
        self.metrics.signed_in(if right { "ok" } else { "refused" });
        Ok(right)
    }

    async fn check(
        self,
        tenant: &ServedTenant,
        guess: &Guess,
        credentials: Credentials,
        candidate: Option<Candidate>,
    ) -> Result<Issued, SignInError> {
        let Credentials { client_code, password, .. } = credentials;
        let right_tenant = client_code.is_none_or(|code| tenant.config.client_code.matches(&code));
        let candidate = candidate.filter(|_| right_tenant);
        let stored = candidate.as_ref().and_then(|candidate| candidate.password_hash.clone());
        let right = self.verify(guess, tenant.config.uid.clone(), stored, password).await?;
        let Some(Candidate { subject, name, password_hash, sign_outs }) = candidate.filter(|_| right) else {
            return Err(SignInError::UnknownUser);
        };
        let tokens = &tenant.config.tokens;
        let key =
            tokens.signing_keys.first().ok_or(StoreError::Unexpected("a tenant without a signing key"))?;
        let key = Key { kid: &key.kid, secret: key.secret.expose() };
        let expires_in_minutes = tokens.lifetime_minutes;
        let now = self.clock.now();
        let owner = Owner::new(subject.own_customer(), password_hash.as_deref(), sign_outs);
        let owned = (subject.clone(), &owner);
        let token = token::issue(key, &tenant.config.uid, owned, now, expires_in_minutes);
        Ok(Issued { token, expires_in_minutes, subject, name })
    }
}
