//! Passwords: Argon2id with OWASP's parameters. What all hashes at once take of the memory is bounded, even if clients
//! disconnect, and one tenant's sign-ins take at most half of what is free or their own, and one can always begin.

use std::sync::Arc;

use argon2::password_hash::CustomizedPasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use crate::fair_share::{Busy, FairShare, Share};

/// A longer password is refused before it is hashed.
pub const MAX_PASSWORD_CHARS: usize = 256;
/// OWASP's first choice for Argon2id takes this many KiB, and two passes in one lane.
const COST_KIB: u32 = 19 * 1024;
/// The most KiB that a stored hash may ask for, if half of the memory for hashes is as much: a program that writes to the
/// table must not be able to make a sign-in take gigabytes.
const MAX_COST_KIB: u32 = 64 * 1024;

/// The allocator takes so many blocks from the system and gives them back at once. Of fewer it keeps up to 19 MiB for each of many
/// threads. What is not touched takes no memory.
const FROM_SYSTEM: usize = 33 * 1024;

fn params() -> Params {
    Params::new(COST_KIB, 2, 1, None).expect("constant parameters within Argon2's limits")
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params())
}

/// Checks and hashes passwords, a limited number at a time.
#[derive(Debug)]
pub struct Passwords {
    kib: Arc<FairShare<Guests>>,
    max_cost_kib: u32,
    spare: Arc<Spare>,
}

/// Memory of hashes that have ended, for the next ones: new memory is filled with zeros, by the system and here again, which takes
/// a third of a hash's time. It is given back when no one hashes or waits.
type Spare = Mutex<Vec<Vec<Block>>>;

/// Sign-ins that wait for each other: those at one tenant by users who are known where they are, or by others. So guesses
/// hold up neither the tenant's own people nor another tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guests {
    /// The tenant's uid; empty for those that do not exist.
    pub tenant: String,
    /// Whether the user has signed in from there lately.
    pub are_known: bool,
}

impl Passwords {
    /// With at most this many hashes at a time, of 19 MiB and some 20 ms of a core each, and at most `bytes` of memory for
    /// them; at least one.
    pub fn new(parallel: usize, bytes: u64) -> Self {
        let affordable = usize::try_from(bytes / (u64::from(COST_KIB) * 1024)).unwrap_or(usize::MAX);
        let turns = parallel.min(affordable).clamp(1, 1024);
        let total_kib = COST_KIB * u32::try_from(turns).expect("at most 1024");
        let max_cost_kib = (total_kib / 2).clamp(COST_KIB, MAX_COST_KIB);
        let kib = Arc::new(FairShare::new(total_kib, max_cost_kib));
        Self { kib, max_cost_kib, spare: Arc::default() }
    }

    /// Waits for a turn to check a password against the hash `stored`; without a usable one, to do as much work for nothing.
    pub async fn turn(&self, guests: Guests, stored: Option<String>) -> Result<Turn, Busy> {
        let usable_kib = |stored: &String| usable_hash_kib(stored, self.max_cost_kib);
        let kib = stored.as_ref().and_then(usable_kib);
        let (stored, kib) = (stored.filter(|_| kib.is_some()), kib.unwrap_or(COST_KIB));
        let share = self.kib.take(guests, kib).await?;
        let (all, spare) = (Arc::clone(&self.kib), Arc::clone(&self.spare));
        Ok(Turn { stored, memory: Memory { share: Some(share), blocks: Vec::new(), all, spare } })
    }
}

/// The right to check one password.
pub struct Turn {
    stored: Option<String>,
    memory: Memory,
}

/// What a turn may take of the memory.
struct Memory {
    share: Option<Share>,
    blocks: Vec<Block>,
    all: Arc<FairShare<Guests>>,
    spare: Arc<Spare>,
}

impl Memory {
    /// Hashes into `out`.
    fn fill(
        &mut self,
        argon2: &Argon2<'_>,
        password: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> argon2::Result<()> {
        let count = argon2.params().block_count();
        self.blocks = self.spare.lock().pop().unwrap_or_else(|| Vec::with_capacity(count.max(FROM_SYSTEM)));
        self.keep_what_is_free();
        self.blocks.resize(count, Block::default());
        argon2.hash_password_into_with_memory(password, salt, out, &mut self.blocks)
    }

    /// Spare memory and what hashes take are never more than all turns together.
    fn keep_what_is_free(&self) {
        let most = if self.all.is_unused() { 0 } else { self.all.left() / COST_KIB };
        self.spare.lock().truncate(most as usize);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Before another turn may begin, which then finds it.
        if self.blocks.len() == argon2id().params().block_count() {
            self.spare.lock().push(std::mem::take(&mut self.blocks));
        }
        self.share = None;
        self.keep_what_is_free();
    }
}

impl Turn {
    /// Whether `password` matches the stored hash. Without a usable hash the same work is done and its result dropped, so
    /// that the time does not reveal whether there is one.
    pub async fn verify(mut self, password: SecretString) -> bool {
        let stored = self.stored.take();
        let work = move |memory: &mut Memory| {
            let password = password.expose_secret().as_bytes();
            match stored {
                Some(stored) => matches(memory, &stored, password).unwrap_or(false),
                None => {
                    let mut out = [0; 32];
                    // Only the time matters, not the result.
                    let _ = memory.fill(&argon2id(), password, b"no such contact!", &mut out);
                    std::hint::black_box(&out);
                    false
                }
            }
        };
        self.spend(work).await.unwrap_or(false)
    }

    /// Runs `work` on a thread that may block and moves the permit there. If this future held it, a client that disconnects
    /// would free it while its hash still runs.
    async fn spend<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Memory) -> T + Send + 'static,
    ) -> Option<T> {
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&mut self.memory);
            drop(self);
            result
        });
        task.await.ok()
    }
}

/// Whether the password has the stored hash; `None` if that is none.
fn matches(memory: &mut Memory, stored: &str, password: &[u8]) -> Option<bool> {
    let hash = PasswordHash::new(stored).ok()?;
    let (salt, expected) = (hash.salt?, hash.hash?);
    let version = hash.version.map(Version::try_from).transpose().ok()?.unwrap_or_default();
    let argon2 = Argon2::new(Algorithm::Argon2id, version, Params::try_from(&hash).ok()?);
    let mut out = vec![0; expected.len()];
    memory.fill(&argon2, password, salt.as_ref(), &mut out).ok()?;
    // In constant time.
    Some(Output::new(&out).ok()? == expected)
}

/// The PHC string of a password, to be stored. The salt is sixteen random bytes.
pub fn hash(password: &SecretString, salt: [u8; 16]) -> String {
    let (algorithm, version) = (Some(Algorithm::Argon2id.as_str()), Some(Version::V0x13.into()));
    argon2id()
        .hash_password_customized(password.expose_secret().as_bytes(), &salt, algorithm, version, params())
        .expect("a salt of 16 bytes and a password of bounded length")
        .to_string()
}

/// The KiB that the stored hash takes, if it is Argon2id with affordable parameters.
fn usable_hash_kib(stored: &str, max_kib: u32) -> Option<u32> {
    let hash = PasswordHash::new(stored).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let affordable = params.m_cost() <= max_kib && params.t_cost() <= 8 && params.p_cost() <= 4;
    (hash.algorithm == Algorithm::Argon2id.ident() && affordable).then(|| params.m_cost())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    fn guests(tenant: &str, are_known: bool) -> Guests {
        Guests { tenant: tenant.to_owned(), are_known }
    }

    async fn turn(passwords: &Passwords, stored: Option<String>) -> Turn {
        passwords.turn(guests("a", true), stored).await.expect("free")
    }

    #[tokio::test]
    async fn right_password_matches_and_another_does_not() {
        let passwords = Passwords::new(1, 100 * MIB);
        let stored = hash(&secret("correct horse"), [1; 16]);
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(turn(&passwords, Some(stored.clone())).await.verify(secret("correct horse")).await);
        assert!(!turn(&passwords, Some(stored.clone())).await.verify(secret("correct horsf")).await);
        assert!(turn(&passwords, Some(stored)).await.verify(secret("correct horse")).await, "again");
    }

    #[tokio::test]
    async fn unusable_hash_matches_no_password() {
        let passwords = Passwords::new(1, 100 * MIB);
        for stored in [
            None,
            Some(""),
            Some("!"),
            Some("plain"),
            Some(
                "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            ),
        ] {
            assert!(!turn(&passwords, stored.map(str::to_owned)).await.verify(secret("plain")).await);
        }
    }

    #[tokio::test]
    async fn memory_bounds_how_many_run_and_how_costly_one_may_be() {
        let free = |passwords: &Passwords| passwords.kib.left() / COST_KIB;
        assert_eq!(free(&Passwords::new(64, 64 * MIB)), 3);
        assert_eq!(free(&Passwords::new(2, 64 * MIB)), 2);
        assert_eq!(free(&Passwords::new(64, 0)), 1);
        let passwords = Passwords::new(64, 160 * MIB);
        let stored = |kib: u32| {
            Some(format!("$argon2id$v=19$m={kib},t=1,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAA"))
        };
        let costly = turn(&passwords, stored(60 * 1024)).await;
        assert_eq!(free(&passwords), 4);
        drop(costly);
        let unusable = turn(&passwords, stored(65 * 1024)).await;
        assert!(unusable.stored.is_none());
        assert_eq!(free(&passwords), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn spare_memory_is_kept_while_others_hash_and_never_more_than_is_free() {
        let passwords = Arc::new(Passwords::new(3, 100 * MIB));
        let spare = || passwords.spare.lock().len();
        let others = passwords.turn(guests("b", true), None).await.expect("free");
        turn(&passwords, None).await.verify(secret("one")).await;
        assert_eq!(spare(), 1);
        turn(&passwords, None).await.verify(secret("the same memory")).await;
        assert_eq!(spare(), 1);
        let most =
            [turn(&passwords, None).await, passwords.turn(guests("c", true), None).await.expect("free")];
        assert_eq!(passwords.kib.left(), 0);
        others.verify(secret("takes it")).await;
        assert_eq!(spare(), 1);
        drop(most);
        assert_eq!(spare(), 0, "no one hashes or waits");
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_leave_turns_for_known_users_and_for_other_tenants() {
        let passwords = Passwords::new(4, 100 * MIB);
        let take = |tenant, are_known| passwords.turn(guests(tenant, are_known), None);
        let _guesses = [take("a", false).await.expect("free"), take("a", false).await.expect("free")];
        assert_eq!(take("a", false).await.err(), Some(Busy));
        let _known = take("a", true).await.expect("a place of its own");
        let _other = take("b", false).await.expect("another tenant");
    }

    #[tokio::test]
    async fn abandoned_work_keeps_its_turn_until_it_ends() {
        let passwords = Arc::new(Passwords::new(1, 100 * MIB));
        let (begun_tx, begun) = tokio::sync::oneshot::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let request = tokio::spawn({
            let passwords = Arc::clone(&passwords);
            async move {
                let work = move |_: &mut Memory| {
                    begun_tx.send(()).expect("listened to");
                    wait.recv().expect("sent");
                };
                turn(&passwords, None).await.spend(work).await
            }
        });
        begun.await.expect("begins");
        request.abort();
        assert!(request.await.expect_err("aborted").is_cancelled());
        assert_eq!(passwords.kib.left(), 0);
        go.send(()).expect("waited for");
        assert_eq!(turn(&passwords, None).await.spend(|_| 1).await, Some(1));
    }
}
