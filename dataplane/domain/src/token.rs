//! The Bearer token: its claims, how it is issued and how it is verified (Authentication).
//!
//! A token is valid for one tenant only: it is signed with that tenant's key, and `aud` is the tenant's uid. Algorithm,
//! issuer, type and expiry are checked here. The caller passes the time.

use std::sync::Once;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::signature::{Error as SignatureError, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// `iss` of every token.
pub const ISSUER: &str = "docket";
/// `typ` of every token: an access token and nothing else (RFC 8725, 3.11).
pub const TOKEN_TYPE: &str = "at+jwt";
/// The longest accepted token, in bytes. A longer token is refused before any cryptography.
pub const MAX_TOKEN_BYTES: usize = 4096;
/// The longest session of the portal, from sign-in to its end.
pub const LONGEST_SESSION: Duration = Duration::from_secs(12 * 3600);

/// The user that a token identifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum TokenSubject {
    /// A customer's user. Sees and changes only the data of its customer.
    #[serde(rename_all = "camelCase")]
    Contact {
        /// The contact's code.
        contact_code: String,
        /// The customer it belongs to.
        customer_code: String,
    },
    /// A tenant's user. Sees and changes all of the tenant's data.
    #[serde(rename_all = "camelCase")]
    Employee {
        /// The employee's code.
        employee_code: String,
        /// Whether the employee may also see the webhook logs.
        administrator: bool,
    },
}

docket_crds::words! {
    /// The kind of a user.
    pub enum UserKind {
        /// A customer's user.
        Contact = "contact",
        /// The tenant's own user.
        Employee = "employee",
    }
}

impl TokenSubject {
    /// The kind and the code of the user.
    pub fn user(&self) -> (UserKind, &str) {
        match self {
            Self::Contact { contact_code, .. } => (UserKind::Contact, contact_code.as_str()),
            Self::Employee { employee_code, .. } => (UserKind::Employee, employee_code.as_str()),
        }
    }

    /// The customer of a contact; `None` for an employee.
    pub fn own_customer(&self) -> Option<&str> {
        match self {
            Self::Contact { customer_code, .. } => Some(customer_code),
            Self::Employee { .. } => None,
        }
    }
}

/// The state of a user on which the user's tokens depend, beside their claims. When it changes, the tokens end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFingerprint {
    digest: [u8; 32],
    /// The customer of a contact; `None` for an employee.
    customer_code: Option<String>,
}

impl UserFingerprint {
    /// The fingerprint of an active user. `password_hash` is the hash as it is stored, `sign_outs` how often the user was signed
    /// out everywhere, and `customer_code` the customer of a contact.
    pub fn new(customer_code: Option<&str>, password_hash: Option<&str>, sign_outs: i64) -> Self {
        let mut digest = Sha256::new();
        for part in [customer_code, password_hash] {
            // The length of each part comes before it, so that different pairs never give the same bytes.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            digest.update(length.to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        // Without sign-outs, programs without this feature compute the same digest.
        if sign_outs != 0 {
            digest.update(sign_outs.to_be_bytes());
        }
        Self { digest: digest.finalize().into(), customer_code: customer_code.map(str::to_owned) }
    }

    /// The mark of this user in a token. Without the tenant's key, it reveals nothing about the user.
    fn mark(&self, secret: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
        mac.update(b"owner");
        mac.update(&self.digest);
        hex::encode(&mac.finalize().into_bytes()[..16])
    }
}

/// A tenant's key that signs tokens. `kid` selects only among the tenant's own keys.
#[derive(Clone, Copy)]
pub struct TokenKey<'a> {
    /// Its name in the token's header.
    pub kid: &'a str,
    /// At least 32 random bytes.
    pub secret: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    iat: i64,
    exp: i64,
    /// The owner's mark.
    own: String,
    /// The session's id; `None`: the token is for the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sid: Option<String>,
    /// When the session's user signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth_time: Option<i64>,
    #[serde(flatten)]
    subject: TokenSubject,
}

/// A session of the portal. While it is in use, its token is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The session's random id, which is the same in all of its tokens.
    pub id: String,
    /// When the user of the session signed in, in seconds since 1970.
    pub since: i64,
}

impl Session {
    /// When the session ends at the latest, in seconds since 1970.
    pub fn ends_at(&self) -> i64 {
        self.since.saturating_add(LONGEST_SESSION.as_secs() as i64)
    }

    /// The digest of its id, by which an ended session is stored: SHA-256, hexadecimal.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(&self.id))
    }

    /// When a token of the session expires that is issued at `now`, in seconds since 1970.
    fn expiry(&self, now: Timestamp, lifetime_minutes: u32) -> i64 {
        (now.as_second() + i64::from(lifetime_minutes) * 60).min(self.ends_at())
    }
}

/// A token whose signature and claims are valid. The caller must still check that it belongs to its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<'a> {
    /// The user.
    pub subject: TokenSubject,
    /// When the token was issued, in seconds since 1970.
    pub issued_at: i64,
    expires_at: i64,
    /// The session of the portal; `None`: the token is for the API, and is never renewed.
    session: Option<Session>,
    mark: String,
    secret: &'a [u8],
}

impl Verified<'_> {
    /// Whether the token was issued to the subject as it is now.
    pub fn belongs_to(&self, owner: &UserFingerprint) -> bool {
        // The mark is signed, so no sender can choose it, and time reveals nothing of use. It stands for the customer as well, but what a
        // caller may see depends on the customer that the token names.
        self.mark == owner.mark(self.secret) && self.subject.own_customer() == owner.customer_code.as_deref()
    }

    /// The session of the portal; `None`: the token is for the API.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The session, if its token has used up half of its life and a new token would last longer.
    pub fn session_to_renew(&self, now: Timestamp, lifetime_minutes: u32) -> Option<&Session> {
        let is_old = 2 * (now.as_second() - self.issued_at) >= self.expires_at - self.issued_at;
        self.session
            .as_ref()
            .filter(|session| is_old && session.expiry(now, lifetime_minutes) > self.expires_at)
    }
}

/// A token was refused. Neither the caller nor the log gets the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is not valid for this tenant at this time")]
pub struct InvalidToken;

/// Issues a token for `subject` in the tenant `tenant_uid`. It is valid for `lifetime_minutes` from `now`, as long as
/// `owner` does not change.
pub fn issue(
    key: TokenKey<'_>,
    tenant_uid: &str,
    (subject, owner): (TokenSubject, &UserFingerprint),
    now: Timestamp,
    lifetime_minutes: u32,
) -> String {
    let exp = now.as_second() + i64::from(lifetime_minutes) * 60;
    signed(key, tenant_uid, (subject, owner), (now.as_second(), exp), None)
}

/// Like [`issue`], for a session of the portal: the token expires when the session has lasted [`LONGEST_SESSION`], at the latest.
pub fn issue_for_session(
    key: TokenKey<'_>,
    tenant_uid: &str,
    owned: (TokenSubject, &UserFingerprint),
    now: Timestamp,
    lifetime_minutes: u32,
    session: &Session,
) -> String {
    let exp = session.expiry(now, lifetime_minutes);
    signed(key, tenant_uid, owned, (now.as_second(), exp), Some(session.clone()))
}

fn signed(
    key: TokenKey<'_>,
    tenant_uid: &str,
    (subject, owner): (TokenSubject, &UserFingerprint),
    (iat, exp): (i64, i64),
    session: Option<Session>,
) -> String {
    install_provider();
    let (sid, auth_time) = session.map(|session| (session.id, session.since)).unzip();
    let (iss, aud, own) = (ISSUER.into(), tenant_uid.into(), owner.mark(key.secret));
    let claims = Claims { iss, aud, iat, exp, own, sid, auth_time, subject };
    let header =
        Header { typ: Some(TOKEN_TYPE.into()), kid: Some(key.kid.into()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(key.secret))
        .expect("HS256 signs plain claims with any key")
}

/// Returns the subject of `token` if it is a token of this tenant that has not expired at `now`. The caller
/// checks whether it [belongs to](Verified::belongs_to) its owner.
pub fn verify<'a>(
    token: &str,
    keys: &[TokenKey<'a>],
    tenant_uid: &str,
    now: Timestamp,
) -> Result<Verified<'a>, InvalidToken> {
    let (claims, key) = signed_claims(token, keys, tenant_uid)?;
    // A minute of tolerance, because the clock of the issuing pod may be ahead.
    let issued_by_now = claims.iat <= now.as_second() + 60;
    if issued_by_now && now.as_second() < claims.exp {
        let session = claims.sid.zip(claims.auth_time).map(|(id, since)| Session { id, since });
        Ok(Verified {
            subject: claims.subject,
            issued_at: claims.iat,
            expires_at: claims.exp,
            session,
            mark: claims.own,
            secret: key.secret,
        })
    } else {
        Err(InvalidToken)
    }
}

/// The user and the session of `token` if it is a token of this tenant's portal, also if it has expired: another token of the session
/// may be valid still.
pub fn session_of(token: &str, keys: &[TokenKey<'_>], tenant_uid: &str) -> Option<(TokenSubject, Session)> {
    let (claims, _) = signed_claims(token, keys, tenant_uid).ok()?;
    let (id, since) = claims.sid.zip(claims.auth_time)?;
    Some((claims.subject, Session { id, since }))
}

/// The claims of `token` if this tenant has signed it, and the key. The time is not checked.
fn signed_claims<'a>(
    token: &str,
    keys: &[TokenKey<'a>],
    tenant_uid: &str,
) -> Result<(Claims, TokenKey<'a>), InvalidToken> {
    install_provider();
    if token.len() > MAX_TOKEN_BYTES {
        return Err(InvalidToken);
    }
    let header = jsonwebtoken::decode_header(token).map_err(|_| InvalidToken)?;
    if header.alg != Algorithm::HS256 || header.typ.as_deref() != Some(TOKEN_TYPE) {
        return Err(InvalidToken);
    }
    let key = keys.iter().find(|key| header.kid.as_deref() == Some(key.kid)).copied();
    let key = key.ok_or(InvalidToken)?;
    let (message, signature) = token.rsplit_once('.').ok_or(InvalidToken)?;
    let secret = DecodingKey::from_secret(key.secret);
    match jsonwebtoken::crypto::verify(signature, message.as_bytes(), &secret, Algorithm::HS256) {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(InvalidToken),
    }
    // The library's `decode` does all this, but on each request it parses the header twice more and the claims twice more.
    let claims: Claims = insecure_decode_claims(token).map_err(|_| InvalidToken)?;
    let is_ours = claims.iss == ISSUER && claims.aud == tenant_uid;
    if is_ours { Ok((claims, key)) } else { Err(InvalidToken) }
}

/// The tenant in the claims of `token`. It is not verified: use it only to find the keys that [`verify`] needs.
pub fn claimed_tenant(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Audience {
        aud: String,
    }
    let token = Some(token).filter(|token| token.len() <= MAX_TOKEN_BYTES)?;
    insecure_decode_claims::<Audience>(token).ok().map(|claims| claims.aud)
}

/// The id of the session in the claims of `token`; `None`: it is a token for the API, or none. It is not verified.
pub fn claimed_session(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionId {
        sid: String,
    }
    let token = Some(token).filter(|token| token.len() <= MAX_TOKEN_BYTES)?;
    insecure_decode_claims::<SessionId>(token).ok().map(|claims| claims.sid)
}

/// Gives the token library an HS256 from the crates that sign deliveries. The library's own providers would bring a
/// second cryptographic stack (RSA, P-256, …) for algorithms that are refused here anyway.
fn install_provider() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |algorithm, key| {
            Hs256::new(*algorithm, key.as_bytes()).map(|signer| Box::new(signer) as Box<dyn JwtSigner>)
        },
        verifier_factory: |algorithm, key| {
            Hs256::new(*algorithm, key.try_get_as_bytes()?)
                .map(|verifier| Box::new(verifier) as Box<dyn JwtVerifier>)
        },
        key_utils: KeyUtils::new_unimplemented(),
    };
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that another crate of this process has installed a provider. That provider has HS256 too.
        let _ = PROVIDER.install_default();
    });
}

struct Hs256(Hmac<Sha256>);

impl Hs256 {
    fn new(algorithm: Algorithm, secret: &[u8]) -> JwtResult<Self> {
        match algorithm {
            Algorithm::HS256 => {
                Ok(Self(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")))
            }
            _ => Err(ErrorKind::InvalidAlgorithm.into()),
        }
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        Ok(self.0.clone().chain_update(message).finalize().into_bytes().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        self.0.clone().chain_update(message).verify_slice(signature).map_err(|_| SignatureError::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
    use serde_json::json;

    const KEY: TokenKey<'static> = TokenKey { kid: "k1", secret: &[7; 32] };
    const OTHER: TokenKey<'static> = TokenKey { kid: "k2", secret: &[8; 32] };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn contact() -> TokenSubject {
        TokenSubject::Contact { contact_code: "1042".into(), customer_code: "C-1001".into() }
    }

    fn token() -> String {
        issue(KEY, "uid-a", (contact(), &owner()), at(1_000), 60)
    }

    /// A token with the given header and claims, signed correctly with `KEY`.
    fn forged(header: serde_json::Value, claims: serde_json::Value) -> String {
        let part = |value: serde_json::Value| BASE64URL.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let mac = Hmac::<Sha256>::new_from_slice(KEY.secret).expect("any length").chain_update(&message);
        format!("{message}.{}", BASE64URL.encode(mac.finalize().into_bytes()))
    }

    fn good_header() -> serde_json::Value {
        json!({"alg": "HS256", "typ": TOKEN_TYPE, "kid": "k1"})
    }

    fn owner() -> UserFingerprint {
        UserFingerprint::new(Some("C-1001"), Some("$argon2id$…"), 0)
    }

    fn verified(subject: TokenSubject) -> Verified<'static> {
        let mark = owner().mark(KEY.secret);
        Verified { subject, issued_at: 1_000, expires_at: 4_600, session: None, mark, secret: KEY.secret }
    }

    fn good_claims() -> serde_json::Value {
        json!({"iss": ISSUER, "aud": "uid-a", "iat": 1_000, "exp": 4_600, "own": owner().mark(KEY.secret), "kind": "contact",
               "contactCode": "1042", "customerCode": "C-1001"})
    }

    fn verdict(token: &str) -> Result<Verified<'static>, InvalidToken> {
        verify(token, &[KEY, OTHER], "uid-a", at(1_000))
    }

    #[test]
    fn token_is_valid_for_its_subject_until_it_expires() {
        let keys = [OTHER, KEY];
        assert_eq!(verify(&token(), &keys, "uid-a", at(1_000)), Ok(verified(contact())));
        assert_eq!(verify(&token(), &keys, "uid-a", at(4_599)), Ok(verified(contact())));
        assert_eq!(verify(&token(), &keys, "uid-a", at(4_600)), Err(InvalidToken));
        assert_eq!(verify(&token(), &keys, "uid-a", at(940)), Ok(verified(contact())), "a clock ahead");
        assert_eq!(verify(&token(), &keys, "uid-a", at(939)), Err(InvalidToken));
    }

    #[test]
    fn token_belongs_to_its_subject_as_it_was_at_sign_in() {
        let token = verdict(&token()).expect("good");
        assert!(token.belongs_to(&owner()));
        let mut claims = good_claims();
        claims["customerCode"] = json!("C-1002");
        let token_of_another = forged(good_header(), claims);
        assert!(!verdict(&token_of_another).expect("signed").belongs_to(&owner()));
        for (customer, hash, sign_outs) in [
            (Some("C-1001"), Some("$argon2id$"), 0),
            (Some("C-1001"), None, 0),
            (Some("C-1002"), Some("$argon2id$…"), 0),
            (Some("C-1001"), Some("$argon2id$…"), 1),
            (None, None, 0),
        ] {
            let other = UserFingerprint::new(customer, hash, sign_outs);
            assert!(!token.belongs_to(&other), "{customer:?} {hash:?} {sign_outs}");
        }
        assert_ne!(
            UserFingerprint::new(Some("ab"), Some("c"), 0),
            UserFingerprint::new(Some("a"), Some("bc"), 0)
        );
        assert_ne!(UserFingerprint::new(None, Some(""), 0), UserFingerprint::new(Some(""), None, 0));
        assert_ne!(UserFingerprint::new(None, None, 1), UserFingerprint::new(None, None, 2));
        assert_ne!(owner().mark(KEY.secret), owner().mark(OTHER.secret));
    }

    #[test]
    fn session_of_an_expired_token_is_known_and_of_a_forged_token_is_not() {
        let session = Session { id: "s".into(), since: 1_000 };
        let token = issue_for_session(KEY, "uid-a", (contact(), &owner()), at(1_000), 60, &session);
        assert_eq!(verify(&token, &[KEY], "uid-a", at(9_000)), Err(InvalidToken));
        assert_eq!(session_of(&token, &[KEY], "uid-a"), Some((contact(), session.clone())));
        assert_eq!((session.ends_at(), session.digest().len()), (1_000 + 43_200, 64));
        let other_key = TokenKey { kid: "k1", secret: &[9; 32] };
        assert_eq!(session_of(&token, &[other_key], "uid-a"), None);
        assert_eq!(session_of(&token, &[KEY], "uid-b"), None);
        assert_eq!(session_of(&self::token(), &[KEY], "uid-a"), None, "a token for the API");
    }

    /// Whether a token of a session that began at 0, issued at this second for this many minutes, is renewed at `now`.
    fn is_renewed(issued_at: i64, minutes: u32, now: i64) -> bool {
        let session = Session { id: "s".into(), since: 0 };
        let token = issue_for_session(KEY, "uid-a", (contact(), &owner()), at(issued_at), minutes, &session);
        let verified = verify(&token, &[KEY], "uid-a", at(now)).expect("it has not expired");
        assert_eq!((verified.session.as_ref(), claimed_session(&token)), (Some(&session), Some("s".into())));
        verified.session_to_renew(at(now), minutes).is_some()
    }

    #[test]
    fn session_is_renewed_from_half_of_its_tokens_life_on() {
        assert_eq!([0, 1_799, 1_800, 3_599].map(|now| is_renewed(0, 60, now)), [false, false, true, true]);
        let token = token();
        let of_api = verify(&token, &[KEY], "uid-a", at(4_599)).expect("it has not expired");
        assert_eq!((of_api.session_to_renew(at(4_599), 60), claimed_session(&token)), (None, None));
    }

    #[test]
    fn session_ends_twelve_hours_after_the_sign_in_however_it_is_used() {
        const END: i64 = 12 * 3600;
        let session = Session { id: "s".into(), since: 0 };
        for (issued_at, minutes) in [(0, 24 * 60), (END - 1_800, 60), (END - 1, 60)] {
            let token =
                issue_for_session(KEY, "uid-a", (contact(), &owner()), at(issued_at), minutes, &session);
            assert!(verify(&token, &[KEY], "uid-a", at(END - 1)).is_ok(), "{issued_at}");
            assert_eq!(verify(&token, &[KEY], "uid-a", at(END)), Err(InvalidToken), "{issued_at}");
            assert!(
                !is_renewed(issued_at, minutes, END - 1),
                "{issued_at}: a new token would not last longer"
            );
        }
    }

    #[test]
    fn claim_of_a_newer_version_is_ignored() {
        let mut claims = good_claims();
        claims["new"] = json!("x");
        assert_eq!(verdict(&forged(good_header(), claims)), Ok(verified(contact())));
    }

    #[test]
    fn token_of_more_than_four_kilobytes_is_not_read() {
        let of_length = |pad: usize| {
            let mut claims = good_claims();
            (claims["new"], claims["sid"]) = (json!("x".repeat(pad)), json!("s"));
            forged(good_header(), claims)
        };
        let (short, long) = (of_length(2_500), of_length(3_000));
        assert!(short.len() < 4_096 && long.len() > 4_096, "{} {}", short.len(), long.len());
        let read = |token: &str| (verdict(token).is_ok(), claimed_tenant(token), claimed_session(token));
        assert_eq!(read(&short), (true, Some("uid-a".into()), Some("s".into())));
        assert_eq!(read(&long), (false, None, None));
    }

    #[test]
    fn token_of_another_tenant_or_key_is_refused() {
        assert_eq!(verify(&token(), &[KEY], "uid-b", at(1_000)), Err(InvalidToken));
        assert_eq!(verify(&token(), &[OTHER], "uid-a", at(1_000)), Err(InvalidToken));
        let same_name = TokenKey { kid: "k1", secret: &[9; 32] };
        assert_eq!(verify(&token(), &[same_name], "uid-a", at(1_000)), Err(InvalidToken));
    }

    #[test]
    fn token_without_a_header_field_or_claim_is_refused() {
        assert_eq!(verdict(&forged(good_header(), good_claims())), Ok(verified(contact())));
        for (field, value) in
            [("alg", "HS512"), ("alg", "none"), ("alg", "RS256"), ("typ", "JWT"), ("kid", "k2")]
        {
            let mut header = good_header();
            header[field] = json!(value);
            assert_eq!(verdict(&forged(header, good_claims())), Err(InvalidToken), "{field}={value}");
        }
        for field in ["typ", "kid"] {
            let mut header = good_header();
            header.as_object_mut().expect("an object").remove(field);
            assert_eq!(verdict(&forged(header, good_claims())), Err(InvalidToken), "no {field}");
        }
        for field in ["iss", "aud", "iat", "exp", "own", "kind", "contactCode", "customerCode"] {
            let mut claims = good_claims();
            claims.as_object_mut().expect("an object").remove(field);
            assert_eq!(verdict(&forged(good_header(), claims)), Err(InvalidToken), "no {field}");
        }
        let mut claims = good_claims();
        claims["iss"] = json!("someone");
        assert_eq!(verdict(&forged(good_header(), claims)), Err(InvalidToken));
    }

    #[test]
    fn malformed_token_is_refused() {
        for noise in ["", ".", "..", "a.b.c", &"x".repeat(5_000), &token()[..60], &format!("{}x", token())] {
            assert_eq!(verdict(noise), Err(InvalidToken));
        }
        // alg none with an empty signature.
        let unsigned = forged(json!({"alg": "none", "typ": TOKEN_TYPE, "kid": "k1"}), good_claims());
        let cut = unsigned.rfind('.').expect("three parts");
        assert_eq!(verdict(&unsigned[..=cut]), Err(InvalidToken));
    }
}
