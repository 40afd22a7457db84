//! Issues tokens to contacts and employees.
//!
//! Five cases end in one refusal after the same work, so that neither the response nor its time distinguishes them: unknown user,
//! wrong password, inactive contact, no usable hash, and another tenant's client code.

use docket_domain::token::{self, Session, TokenKey, TokenSubject, UserFingerprint, UserKind};
use docket_listener::source::RequestSource;
use docket_program::clock::{Clock, duration};
use docket_store::audit::{self, SignedInUser};
use docket_store::people::user_key;
use docket_store::{StoreError, contacts, employees};
use secrecy::SecretString;

use crate::access::passwords::{Guests, Passwords};
use crate::access::rates::{OverLimit, Rates};
use crate::access::throttle::{Guess, KNOWN_MS, Throttle, TryLater};
use crate::refusal::SignInError;
use crate::telemetry::Metrics;
use crate::tenancy::{AtLimit, ServedTenant};

/// The most users and addresses that are learned from a tenant's audit, the latest: one tenant does not fill the memory with its
/// users.
const MOST_LEARNED: i64 = 2_000;

/// The dependencies of sign-in.
#[derive(Clone, Copy)]
pub struct SignIn<'a> {
    /// The clock.
    pub clock: &'a Clock,
    /// Checks passwords.
    pub passwords: &'a Passwords,
    /// Slows down guessing.
    pub throttle: &'a Throttle,
    /// Limits the sign-ins of a tenant.
    pub rates: &'a Rates,
    /// The tenants with too many sign-ins.
    pub at_limit: &'a AtLimit,
    /// Counts sign-ins by result.
    pub metrics: &'a Metrics,
}

/// The credentials that the caller sent.
pub struct Credentials {
    /// The client code. If the client sent one, it must be the tenant's.
    pub client_code: Option<String>,
    /// Whether the client code selected the tenant (legacy host).
    pub by_code: bool,
    /// A contact's e-mail address or an employee's check-in name.
    pub user_id: String,
    /// The password.
    pub password: SecretString,
    /// Where the request came from.
    pub source: RequestSource,
    /// The id of the portal's session that begins; `None`: the token is for the API.
    pub session: Option<[u8; 16]>,
}

/// A token and the user it was issued to.
pub struct Issued {
    /// The JWT.
    pub token: String,
    /// Its lifetime.
    pub expires_in_minutes: u32,
    /// The user that signed in.
    pub subject: TokenSubject,
    /// The user's display name.
    pub name: String,
}

/// A user that may sign in if the password is right.
struct SignInCandidate {
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
        self.sign_in(tenant, UserKind::Contact, &credentials).await
    }

    /// Signs an employee in (POST /Employee/SignIn).
    pub async fn employee(
        self,
        tenant: &ServedTenant,
        credentials: Credentials,
    ) -> Result<Issued, SignInError> {
        self.sign_in(tenant, UserKind::Employee, &credentials).await
    }

    async fn sign_in(
        self,
        tenant: &ServedTenant,
        kind: UserKind,
        credentials: &Credentials,
    ) -> Result<Issued, SignInError> {
        let guess = guess(&tenant.config.uid, kind.as_str(), credentials);
        match self.attempt(tenant, kind, &guess, credentials).await {
            Err(refusal) if self.learns(tenant, &guess, &refusal).await => {
                self.attempt(tenant, kind, &guess, credentials).await
            }
            done => done,
        }
    }

    async fn attempt(
        self,
        tenant: &ServedTenant,
        kind: UserKind,
        guess: &Guess,
        credentials: &Credentials,
    ) -> Result<Issued, SignInError> {
        self.wait(guess)?;
        self.limit(tenant, guess)?;
        let candidate = match kind {
            UserKind::Contact => self.find_contact(tenant, &credentials.user_id).await?,
            UserKind::Employee => self.find_employee(tenant, &credentials.user_id).await?,
        };
        self.check(tenant, guess, credentials, candidate).await
    }

    /// Returns whether a user who was refused as a stranger is known after all: the tenant's audit may have a sign-in from before
    /// this process started, or at another process.
    async fn learns(self, tenant: &ServedTenant, guess: &Guess, refusal: &SignInError) -> bool {
        let is_known = || self.throttle.is_known(guess, self.clock.elapsed());
        let is_of_strangers =
            matches!(refusal, SignInError::TryLater(_) | SignInError::OverLimit(_) | SignInError::Busy(_));
        if !is_of_strangers || is_known() || !self.throttle.may_learn(&tenant.uid, self.clock.elapsed()) {
            return false;
        }
        if let Err(error) = self.learn(tenant).await {
            self.throttle.learn_later(&tenant.uid, self.clock.elapsed());
            let code = tenant.config.client_code.as_str();
            tracing::warn!(
                tenant.code = code,
                error = %error,
                "reading who signed in lately failed; users who are not known here wait like strangers"
            );
        }
        is_known()
    }

    async fn learn(self, tenant: &ServedTenant) -> Result<(), StoreError> {
        let now_ms = self.clock.now_ms();
        let mut reader = tenant.store.ready(self.clock).await?.patient_reader().await?;
        for SignedInUser { user, address, at_ms } in
            audit::signed_in(&mut reader, now_ms - KNOWN_MS, MOST_LEARNED).await?
        {
            let (tenant, source) = (tenant.uid.to_string(), RequestSource::Client(address));
            let guess = Guess { tenant, user, source, by_code: false };
            self.throttle.learn(&guess, duration(now_ms - at_ms), self.clock.elapsed());
        }
        Ok(())
    }

    /// Refuses a user of a tenant that does not exist, after the same work as for a tenant that exists (legacy host).
    pub async fn unknown_tenant(self, credentials: Credentials) -> SignInError {
        let claimed = credentials.client_code.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
        let refused = async {
            let guess = guess(&claimed, "unknown tenant", &credentials);
            self.wait(&guess)?;
            self.verify(&guess, String::new(), None, credentials.password).await?;
            Ok::<_, SignInError>(SignInError::UnknownUser)
        };
        refused.await.unwrap_or_else(|error| error)
    }

    /// Refuses a user that has to wait, before any look-up.
    fn wait(self, guess: &Guess) -> Result<(), TryLater> {
        let checked = self.throttle.check(guess, self.clock.elapsed());
        checked.inspect_err(|_| self.metrics.signed_in("throttled"))
    }

    /// Refuses a user of a tenant with too many sign-ins, before any look-up.
    fn limit(self, tenant: &ServedTenant, guess: &Guess) -> Result<(), OverLimit> {
        let known = self.throttle.is_known(guess, self.clock.elapsed());
        let counted = self.rates.sign_in(&tenant.uid, &tenant.config.limits, known, self.clock.elapsed());
        counted.inspect_err(|over| {
            self.metrics.signed_in("throttled");
            self.at_limit.reached(&tenant.uid, over.limit);
        })
    }

    async fn find_contact(
        self,
        tenant: &ServedTenant,
        user_id: &str,
    ) -> Result<Option<SignInCandidate>, StoreError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let contact = contacts::find(&mut reader, user_id).await?.filter(|contact| contact.active);
        Ok(contact.map(|contact| SignInCandidate {
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
    ) -> Result<Option<SignInCandidate>, StoreError> {
        let mut reader = tenant.store.ready(self.clock).await?.reader().await?;
        let employee = employees::find(&mut reader, user_id).await?.filter(|employee| employee.active);
        Ok(employee.map(|employee| SignInCandidate {
            subject: TokenSubject::Employee {
                employee_code: employee.code,
                administrator: employee.administrator,
            },
            name: employee.name,
            password_hash: employee.password_hash,
            sign_outs: employee.sign_outs,
        }))
    }

    /// Checks the password. The guess is counted when its turn to hash comes. So the number of guesses that run uncounted is at
    /// most the number of turns, and a client that signs in many times at once with the right password is not refused.
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

    /// Reads the costs of a tenant's hashes every ten minutes, because a refusal takes as long as the dearest hash.
    async fn read_hashes(self, tenant: &ServedTenant) {
        let (uid, code) = (&tenant.config.uid, tenant.config.client_code.as_str());
        if !self.passwords.has_to_read(uid, self.clock.elapsed()) {
            return;
        }
        let read = async {
            let mut reader = tenant.store.ready(self.clock).await?.patient_reader().await?;
            contacts::hash_parameters(&mut reader).await
        };
        match read.await {
            Ok(hashes) => self.passwords.read(uid, &hashes),
            Err::<_, StoreError>(error) => tracing::warn!(
                tenant.code = code,
                error = %error,
                "reading what the passwords' hashes cost failed; until the next time, refusals of some users may take longer"
            ),
        }
    }

    /// Warns once for each tenant that a user has a hash that can't be used.
    fn warn_of_unusable(self, tenant: &ServedTenant, stored: &str) {
        if self.passwords.is_first_unusable(&tenant.config.uid, stored) {
            let (code, usable) = (tenant.config.client_code.as_str(), self.passwords.usable_hashes());
            tracing::warn!(
                tenant.code = code,
                "the stored hash of a user's password can't be used, so no password is right: it must be {usable}; \
                 the tenant's other users may have such hashes too"
            );
        }
    }

    async fn check(
        self,
        tenant: &ServedTenant,
        guess: &Guess,
        Credentials { client_code, password, session, .. }: &Credentials,
        candidate: Option<SignInCandidate>,
    ) -> Result<Issued, SignInError> {
        let right_tenant =
            client_code.as_ref().is_none_or(|code| tenant.config.client_code.matches(code.trim()));
        let candidate = candidate.filter(|_| right_tenant);
        let stored = candidate.as_ref().and_then(|candidate| candidate.password_hash.clone());
        self.read_hashes(tenant).await;
        if let Some(stored) = &stored {
            self.warn_of_unusable(tenant, stored);
        }
        let right = self.verify(guess, tenant.uid.to_string(), stored, password.clone()).await?;
        let Some(SignInCandidate { subject, name, password_hash, sign_outs }) = candidate.filter(|_| right)
        else {
            return Err(SignInError::UnknownUser);
        };
        let tokens = &tenant.config.tokens;
        let key =
            tokens.signing_keys.first().ok_or(StoreError::Unexpected("a tenant without a signing key"))?;
        let key = TokenKey { kid: &key.kid, secret: key.secret.expose() };
        let expires_in_minutes = tokens.lifetime_minutes;
        let now = self.clock.now();
        let owner = UserFingerprint::new(subject.own_customer(), password_hash.as_deref(), sign_outs);
        let owned = (subject.clone(), &owner);
        let uid = &tenant.config.uid;
        let token = match session {
            None => token::issue(key, uid, owned, now, expires_in_minutes),
            Some(id) => {
                let session = Session { id: hex::encode(id), since: now.as_second() };
                token::issue_for_session(key, uid, owned, now, expires_in_minutes, &session)
            }
        };
        Ok(Issued { token, expires_in_minutes, subject, name })
    }
}

fn guess(tenant: &str, kind: &str, credentials: &Credentials) -> Guess {
    Guess {
        tenant: tenant.to_owned(),
        user: format!("{kind} {}", user_key(&credentials.user_id)),
        source: credentials.source,
        by_code: credentials.by_code,
    }
}
