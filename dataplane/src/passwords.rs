//! Passwords: Argon2id with OWASP's parameters. At most as many hashes run at once as configured, even if clients
//! disconnect.

use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{CustomizedPasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A longer password is refused before it is hashed.
pub const MAX_PASSWORD_CHARS: usize = 256;
/// How long a sign-in waits for a turn to hash.
const WAIT: Duration = Duration::from_secs(2);

/// OWASP's first choice for Argon2id: 19 MiB, two passes, one lane.
fn params() -> Params {
    Params::new(19 * 1024, 2, 1, None).expect("constant parameters within Argon2's limits")
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params())
}

/// Checks and hashes passwords, a limited number at a time.
#[derive(Debug, Clone)]
pub struct Passwords {
    turns: Arc<Semaphore>,
}

/// Too many sign-ins wait for a turn; the caller may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many sign-ins at once")]
pub struct Busy;

impl Passwords {
    /// With at most `parallel` hashes at a time; each takes 19 MiB and a core for some 20 ms.
    pub fn new(parallel: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(parallel)) }
    }

    /// Waits for a turn to check one password.
    pub async fn turn(&self) -> Result<Turn, Busy> {
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = tokio::time::timeout(WAIT, turn).await.map_err(|_| Busy)?.map_err(|_| Busy)?;
        Ok(Turn { _permit: turn })
    }
}

/// The right to check one password.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// Whether `password` matches the hash `stored`. Without a usable hash the same work is done and its result dropped, so
    /// that the time does not reveal whether there is one.
    pub async fn verify(self, stored: Option<String>, password: SecretString) -> bool {
        let work = move || match stored.as_deref().and_then(usable_hash) {
            Some(hash) => argon2id().verify_password(password.expose_secret().as_bytes(), &hash).is_ok(),
            None => {
                let mut out = [0; 32];
                // Only the time matters, not the result.
                let _ = argon2id().hash_password_into(
                    password.expose_secret().as_bytes(),
                    b"no such contact!",
                    &mut out,
                );
                std::hint::black_box(&out);
                false
            }
        };
        self.spend(work).await.unwrap_or(false)
    }

    /// Runs `work` on a thread that may block and moves the permit there. If this future held it, a client that disconnects
    /// would free it while its hash still runs.
    async fn spend<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let task = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(self);
            result
        });
        task.await.ok()
    }
}

/// The PHC string of a password, to be stored. The salt is sixteen random bytes.
pub fn hash(password: &SecretString, salt: [u8; 16]) -> String {
    let (algorithm, version) = (Some(Algorithm::Argon2id.as_str()), Some(Version::V0x13.into()));
    argon2id()
        .hash_password_customized(password.expose_secret().as_bytes(), &salt, algorithm, version, params())
        .expect("a salt of 16 bytes and a password of bounded length")
        .to_string()
}

/// The stored hash, if it is Argon2id with affordable parameters: a program that writes to the table must not be able to
/// make a sign-in take gigabytes.
fn usable_hash(stored: &str) -> Option<PasswordHash> {
    let hash = PasswordHash::new(stored).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let affordable = params.m_cost() <= 64 * 1024 && params.t_cost() <= 8 && params.p_cost() <= 4;
    (hash.algorithm == Algorithm::Argon2id.ident() && affordable).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[tokio::test]
    async fn right_password_matches_and_another_does_not() {
        let passwords = Passwords::new(1);
        let stored = hash(&secret("correct horse"), [1; 16]);
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(
            passwords.turn().await.expect("free").verify(Some(stored.clone()), secret("correct horse")).await
        );
        assert!(!passwords.turn().await.expect("free").verify(Some(stored), secret("correct horsf")).await);
    }

    #[tokio::test]
    async fn unusable_hash_matches_no_password() {
        let passwords = Passwords::new(1);
        for stored in [
            None,
            Some(""),
            Some("!"),
            Some("plain"),
            Some(
                "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            ),
        ] {
            let turn = passwords.turn().await.expect("free");
            assert!(!turn.verify(stored.map(str::to_owned), secret("plain")).await);
        }
    }

    #[tokio::test]
    async fn abandoned_work_keeps_its_turn_until_it_ends() {
        let passwords = Passwords::new(1);
        let (begun_tx, begun) = tokio::sync::oneshot::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let request = tokio::spawn({
            let passwords = passwords.clone();
            async move {
                let work = move || {
                    begun_tx.send(()).expect("listened to");
                    wait.recv().expect("sent");
                };
                passwords.turn().await.expect("free").spend(work).await
            }
        });
        begun.await.expect("begins");
        request.abort();
        assert!(request.await.expect_err("aborted").is_cancelled());
        assert_eq!(passwords.turns.available_permits(), 0);
        go.send(()).expect("waited for");
        assert_eq!(passwords.turn().await.expect("free again").spend(|| 1).await, Some(1));
    }
}
