//! Passwords: Argon2id with OWASP's parameters.
//!
//! All running hashes together use a bounded amount of memory, even if clients disconnect. One tenant's sign-ins get at most half
//! of the memory that is free or theirs already, and one sign-in can always begin. A refusal takes as long as the tenant's dearest
//! hash, so its time does not reveal which hash the user has, or whether the user exists.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::CustomizedPasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, MIN_SALT_LEN, Params, Version};
use docket_listener::fair_share::{Busy, FairShare, Share};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

/// A longer password is refused before it is hashed.
pub const MAX_PASSWORD_CHARS: usize = 256;
/// The memory of a hash in KiB, by OWASP's first choice for Argon2id, which makes two passes in one lane.
const COST_KIB: u32 = 19 * 1024;
/// The limits of a stored hash. Another program that writes to the table must not be able to make a sign-in take gigabytes or
/// minutes. A process with less memory for hashes accepts fewer KiB.
const MAX_COST_KIB: u32 = 64 * 1024;
const MAX_PASSES: u32 = 8;
const MAX_LANES: u32 = 4;
/// How often the costs of a tenant's hashes are read.
const READ_EVERY: Duration = Duration::from_secs(600);
/// The most tenants whose hashes are remembered. The next tenant makes the process forget all of them and read their hashes again.
const MAX_TENANTS: usize = 10_000;

/// The least capacity of a hash's memory, in blocks of 1 KiB. The allocator gets an allocation of this size from the system and
/// returns it at once; of smaller ones it keeps up to 19 MiB in each of many threads. Blocks that no hash touches take no memory.
const FROM_SYSTEM: usize = 33 * 1024;

fn params() -> Params {
    Params::new(COST_KIB, 2, 1, None).expect("constant parameters within Argon2's limits")
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params())
}

/// The cost of checking a hash. The time grows with the memory and with the passes; the lanes are computed one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    kib: u32,
    passes: u32,
}

impl Cost {
    /// The cost of the hashes that Docket makes.
    const DEFAULT: Self = Self { kib: COST_KIB, passes: 2 };

    fn work(self) -> u64 {
        u64::from(self.kib) * u64::from(self.passes)
    }

    fn dearest(self, other: Self) -> Self {
        if other.work() > self.work() { other } else { self }
    }

    /// Returns the work that is missing to this cost when `spent` is done; `None` if one hash can't do so little.
    fn beyond(self, spent: Option<Self>) -> Option<Self> {
        let left = self.work().saturating_sub(spent.map_or(0, Self::work));
        let kib = u32::try_from(left / u64::from(self.passes)).unwrap_or(self.kib);
        (kib >= Params::MIN_M_COST).then_some(Self { kib, passes: self.passes })
    }

    fn params(self) -> Option<Params> {
        Params::new(self.kib, self.passes, 1, None).ok()
    }
}

/// Checks and hashes passwords, a limited number at a time.
#[derive(Debug)]
pub struct Passwords {
    kib: Arc<FairShare<Guests>>,
    max_cost_kib: u32,
    spare: Arc<Spare>,
    /// What is remembered of each tenant's hashes, by the tenant's uid.
    tenants: Mutex<HashMap<String, Hashes>>,
}

/// What is remembered of the hashes of a tenant.
#[derive(Debug)]
struct Hashes {
    dearest: Cost,
    /// When the costs of the tenant's hashes were read last.
    read: Option<Duration>,
    /// Whether a hash was found that can't be used.
    has_unusable: bool,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { dearest: Cost::DEFAULT, read: None, has_unusable: false }
    }
}

/// Memory of finished hashes, which the next hashes use again: new memory is filled with zeros twice, by the system and by us,
/// which takes a third of a hash's time. The memory is released when no hash runs or waits.
type Spare = Mutex<Vec<Vec<Block>>>;

/// Sign-ins that share one queue: all of a tenant's known users, or all of its other users. So guesses delay neither the
/// tenant's known users nor another tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guests {
    /// The tenant's uid; empty if no such tenant exists.
    pub tenant: String,
    /// Whether the user has signed in from the same source lately.
    pub are_known: bool,
}

impl Passwords {
    /// Creates a checker that runs at most `parallel` hashes at a time; fewer, but at least one, if `bytes` of memory hold fewer. A
    /// hash takes 19 MiB and some 20 ms of a core.
    pub fn new(parallel: usize, bytes: u64) -> Self {
        let affordable = usize::try_from(bytes / (u64::from(COST_KIB) * 1024)).unwrap_or(usize::MAX);
        let turns = parallel.min(affordable).clamp(1, 1024);
        let total_kib = COST_KIB * u32::try_from(turns).expect("at most 1024");
        let most_kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let max_cost_kib = most_kib.clamp(COST_KIB, MAX_COST_KIB);
        let kib = Arc::new(FairShare::new(total_kib, max_cost_kib));
        Self { kib, max_cost_kib, spare: Arc::default(), tenants: Mutex::default() }
    }

    /// Returns, once in ten minutes, whether the caller must read the tenant's hashes and pass them to [`read`](Self::read).
    pub fn has_to_read(&self, tenant: &str, now: Duration) -> bool {
        self.of(tenant, |hashes| {
            let is_due = hashes.read.is_none_or(|read| now.saturating_sub(read) >= READ_EVERY);
            if is_due {
                hashes.read = Some(now);
            }
            is_due
        })
    }

    /// Remembers the dearest of these hashes of a tenant. Their salts and outputs may be missing.
    pub fn read(&self, tenant: &str, hashes: &[String]) {
        let costs = hashes.iter().filter_map(|stored| self.cost(stored));
        let dearest = costs.fold(Cost::DEFAULT, Cost::dearest);
        self.of(tenant, |hashes| hashes.dearest = dearest);
    }

    /// Whether `stored` is the first hash of the tenant that can't be used. A text that stands for no password is no hash.
    pub fn is_first_unusable(&self, tenant: &str, stored: &str) -> bool {
        // Other password tables use these texts for a user without a password.
        let is_none = stored.is_empty() || stored.starts_with(['!', '*']);
        !is_none
            && self.usable(stored).is_none()
            && !self.of(tenant, |hashes| std::mem::replace(&mut hashes.has_unusable, true))
    }

    /// Which hashes can be used, in words.
    pub fn usable_hashes(&self) -> String {
        format!(
            "Argon2id in the PHC string format with at most {} KiB, {MAX_PASSES} passes and {MAX_LANES} lanes",
            self.max_cost_kib
        )
    }

    fn of<T>(&self, tenant: &str, change: impl FnOnce(&mut Hashes) -> T) -> T {
        let mut tenants = self.tenants.lock();
        if tenants.len() >= MAX_TENANTS && !tenants.contains_key(tenant) {
            tenants.clear();
        }
        change(tenants.entry(tenant.to_owned()).or_default())
    }

    /// The cost of the hash `stored`, if it is Argon2id and within the limits.
    fn cost(&self, stored: &str) -> Option<Cost> {
        let hash = PasswordHash::new(stored).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let affordable = params.m_cost() <= self.max_cost_kib
            && params.t_cost() <= MAX_PASSES
            && params.p_cost() <= MAX_LANES;
        let cost = Cost { kib: params.m_cost(), passes: params.t_cost() };
        (hash.algorithm == Algorithm::Argon2id.ident() && affordable).then_some(cost)
    }

    /// Parses the hash `stored`; `None` if a part of it is missing or wrong.
    fn usable(&self, stored: &str) -> Option<StoredHash> {
        let cost = self.cost(stored)?;
        let hash = PasswordHash::new(stored).ok()?;
        let version = hash.version.map(Version::try_from).transpose().ok()?.unwrap_or_default();
        let argon2 = Argon2::new(Algorithm::Argon2id, version, Params::try_from(&hash).ok()?);
        let salt = hash.salt.filter(|salt| salt.len() >= MIN_SALT_LEN)?.to_vec();
        Some(StoredHash { argon2, salt, output: hash.hash?, cost })
    }

    /// Waits for the right to check a password against the hash `stored`. Without a usable hash, the check does the same work for
    /// nothing.
    pub async fn turn(&self, guests: Guests, stored: Option<String>) -> Result<CheckPermit, Busy> {
        let stored = stored.and_then(|stored| self.usable(&stored));
        let dearest = match &stored {
            // This hash may be newer than the last read of the costs.
            Some(stored) => self.of(&guests.tenant, |hashes| {
                hashes.dearest = hashes.dearest.dearest(stored.cost);
                hashes.dearest
            }),
            None => self.tenants.lock().get(&guests.tenant).map_or(Cost::DEFAULT, |hashes| hashes.dearest),
        };
        let kib = stored.as_ref().map_or(0, |stored| stored.cost.kib).max(dearest.kib);
        let share = self.kib.take(guests, kib).await?;
        let (all, spare) = (Arc::clone(&self.kib), Arc::clone(&self.spare));
        Ok(CheckPermit {
            stored,
            dearest,
            memory: HashMemory { share: Some(share), blocks: Vec::new(), all, spare },
        })
    }
}

/// A hash to compare with.
struct StoredHash {
    argon2: Argon2<'static>,
    salt: Vec<u8>,
    output: Output,
    cost: Cost,
}

/// The right to check one password.
pub struct CheckPermit {
    stored: Option<StoredHash>,
    dearest: Cost,
    memory: HashMemory,
}

/// The memory of one check, and its share of the memory of all.
struct HashMemory {
    share: Option<Share>,
    blocks: Vec<Block>,
    all: Arc<FairShare<Guests>>,
    spare: Arc<Spare>,
}

impl HashMemory {
    /// Hashes `password` into `out`.
    fn fill(
        &mut self,
        argon2: &Argon2<'_>,
        password: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> argon2::Result<()> {
        let count = argon2.params().block_count();
        if self.blocks.is_empty() {
            let spare = self.spare.lock().pop();
            self.blocks = spare.unwrap_or_else(|| Vec::with_capacity(count.max(FROM_SYSTEM)));
            self.keep_what_is_free();
        }
        self.blocks.resize(count, Block::default());
        argon2.hash_password_into_with_memory(password, salt, out, &mut self.blocks)
    }

    /// Releases spare memory that, together with the memory of running hashes, would be more than all hashes may use.
    fn keep_what_is_free(&self) {
        let most = if self.all.is_unused() { 0 } else { self.all.left() / COST_KIB };
        self.spare.lock().truncate(most as usize);
    }
}

impl Drop for HashMemory {
    fn drop(&mut self) {
        // The memory is given back before the share ends, so that the next check finds it.
        if self.blocks.len() == argon2id().params().block_count() {
            self.spare.lock().push(std::mem::take(&mut self.blocks));
        }
        self.share = None;
        self.keep_what_is_free();
    }
}

impl CheckPermit {
    /// Returns whether `password` matches the stored hash. If it does not, or if no hash is usable, the check does as much work in
    /// all as the tenant's dearest hash, so that its time does not reveal which hash the user has, if any.
    ///
    /// If accented letters arrive as two characters each, the check tries the composed form and then the form as typed, which other
    /// programs and earlier versions of Docket have hashed. Each form takes the time of one check.
    pub async fn verify(mut self, password: SecretString) -> bool {
        let (stored, dearest) = (self.stored.take(), self.dearest);
        let work = move |memory: &mut HashMemory| {
            let composed = composed(&password);
            let is_other = composed.expose_secret() != password.expose_secret();
            let forms = [Some(composed), is_other.then_some(password)];
            forms.into_iter().flatten().any(|password| is_right(memory, stored.as_ref(), dearest, &password))
        };
        self.spend(work).await.unwrap_or(false)
    }

    /// Runs `work` on a thread that may block, and moves the permit there. If this future held the permit, a client that
    /// disconnects would free it while the hash still runs.
    async fn spend<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Option<T> {
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&mut self.memory);
            drop(self);
            result
        });
        task.await.ok()
    }
}

/// The password in Unicode's composed form.
fn composed(password: &SecretString) -> SecretString {
    SecretString::from(docket_domain::fold::composed(password.expose_secret()))
}

/// Returns whether the password has the stored hash. If not, it does as much work in all as the dearest hash.
fn is_right(
    memory: &mut HashMemory,
    stored: Option<&StoredHash>,
    dearest: Cost,
    password: &SecretString,
) -> bool {
    let password = password.expose_secret().as_bytes();
    let output = stored.and_then(|stored| {
        let mut out = vec![0; stored.output.len()];
        memory.fill(&stored.argon2, password, &stored.salt, &mut out).ok()?;
        Output::new(&out).ok()
    });
    // `Output` compares in constant time.
    let is_right = stored.zip(output).is_some_and(|(stored, output)| output == stored.output);
    let spent = stored.filter(|_| output.is_some()).map(|stored| stored.cost);
    let rest = dearest.beyond(spent).and_then(Cost::params);
    if let Some(params) = rest.filter(|_| !is_right) {
        let mut out = [0; 32];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // Only the time matters, not the result.
        let _ = memory.fill(&argon2, password, b"no such contact!", &mut out);
        std::hint::black_box(&out);
    }
    is_right
}

/// Hashes a password for the database, as a PHC string. The salt is sixteen random bytes.
pub fn hash(password: &SecretString, salt: [u8; 16]) -> String {
    let (algorithm, version) = (Some(Algorithm::Argon2id.as_str()), Some(Version::V0x13.into()));
    argon2id()
        .hash_password_customized(
            composed(password).expose_secret().as_bytes(),
            &salt,
            algorithm,
            version,
            params(),
        )
        .expect("a salt of 16 bytes and a password of bounded length")
        .to_string()
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

    async fn turn(passwords: &Passwords, stored: Option<String>) -> CheckPermit {
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
    async fn password_with_accents_matches_composed_and_as_typed() {
        let passwords = Passwords::new(1, 100 * MIB);
        let (one, two) = ("pässwörd-é-1", "pa\u{308}sswo\u{308}rd-e\u{301}-1");
        let stored = hash(&secret(two), [1; 16]);
        // The hash that another program has made of the text as typed.
        let as_typed = argon2id().hash_password_customized(two.as_bytes(), &[1; 16], None, None, params());
        let as_typed = as_typed.expect("a hash").to_string();
        for (stored, typed, is_right) in [
            (&stored, one, true),
            (&stored, two, true),
            (&as_typed, two, true),
            (&stored, "passwörd-é-1", false),
            (&as_typed, "passwo\u{308}rd-é-1", false),
        ] {
            assert_eq!(
                turn(&passwords, Some(stored.clone())).await.verify(secret(typed)).await,
                is_right,
                "{typed}"
            );
        }
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
            Some("$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0"),
            Some("$argon2id$v=19$m=64,t=1,p=1"),
            Some("$argon2id$v=18$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            Some("$argon2id$v=19$m=64,t=1,p=1$c2Fsdw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ] {
            let turn = turn(&passwords, stored.map(str::to_owned)).await;
            assert!(turn.stored.is_none(), "it takes the time of the dearest: {stored:?}");
            assert!(!turn.verify(secret("plain")).await);
        }
    }

    #[tokio::test]
    async fn memory_bounds_how_many_run_and_how_costly_one_may_be() {
        let free = |passwords: &Passwords| passwords.kib.left() / COST_KIB;
        assert_eq!(free(&Passwords::new(64, 64 * MIB)), 3);
        assert_eq!(free(&Passwords::new(2, 50 * MIB)), 2);
        assert_eq!(free(&Passwords::new(64, 0)), 1);
        let passwords = Passwords::new(64, 160 * MIB);
        let stored = |kib: u32| {
            Some(format!("$argon2id$v=19$m={kib},t=1,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAA"))
        };
        let costly = turn(&passwords, stored(60 * 1024)).await;
        assert_eq!(free(&passwords), 4);
        drop(costly);
        let dearest = turn(&passwords, None).await;
        assert_eq!(free(&passwords), 4, "as much as the dearest that was seen");
        drop(dearest);
        passwords.read("a", &[]);
        let unusable = turn(&passwords, stored(65 * 1024)).await;
        assert!(unusable.stored.is_none());
        assert_eq!(free(&passwords), 7);
    }

    /// A hash of "correct horse" of this cost.
    fn stored(kib: u32, passes: u32, lanes: u32) -> String {
        let params = Params::new(kib, passes, lanes, None).expect("within Argon2's limits");
        let (algorithm, version) = (Some(Algorithm::Argon2id.as_str()), Some(Version::V0x13.into()));
        argon2id()
            .hash_password_customized(b"correct horse", &[7; 16], algorithm, version, params)
            .expect("a hash")
            .to_string()
    }

    #[tokio::test]
    async fn every_documented_hash_works_in_the_smallest_process_that_has_the_memory() {
        for passwords in
            [Passwords::new(4, 64 * MIB), Passwords::new(6, 128 * MIB), Passwords::new(64, 8192 * MIB)]
        {
            for (kib, passes, lanes) in
                [(64 * 1024, 3, 4), (64 * 1024, 8, 4), (64 * 1024, 1, 1), (64, 1, 1), (58_368, 3, 2)]
            {
                let stored = stored(kib, passes, lanes);
                let right =
                    turn(&passwords, Some(stored.clone())).await.verify(secret("correct horse")).await;
                assert!(right, "{stored}");
            }
        }
    }

    #[test]
    fn refusal_does_the_work_of_the_dearest_hash_whatever_the_users_hash_is() {
        let cost = |kib, passes| Cost { kib, passes };
        for dearest in [Cost::DEFAULT, cost(65_536, 3), cost(65_536, 8), cost(58_368, 3), cost(19_456, 8)] {
            for own in [None, Some(cost(8, 1)), Some(cost(64, 1)), Some(Cost::DEFAULT), Some(dearest)] {
                let rest = dearest.beyond(own);
                let done: u64 = own.into_iter().chain(rest).map(Cost::work).sum();
                assert!(done.abs_diff(dearest.work()) < 100, "{own:?} of {dearest:?}: {done}");
                assert!(
                    rest.is_none_or(|rest| rest.kib <= dearest.kib && rest.params().is_some()),
                    "{rest:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn dearest_hash_is_per_tenant_and_is_read_every_ten_minutes() {
        let passwords = Passwords::new(6, 128 * MIB);
        let dearest = async |tenant| passwords.turn(guests(tenant, true), None).await.expect("free").dearest;
        let at = Duration::from_secs;
        assert!(passwords.has_to_read("a", at(5)) && !passwords.has_to_read("a", at(604)));
        assert!(passwords.has_to_read("b", at(604)) && passwords.has_to_read("a", at(605)));
        let hashes = [
            "$argon2id$v=19$m=65536,t=3,p=4$",
            "$argon2id$v=19$m=65536,t=9,p=4",
            "$argon2i$v=19$m=65536,t=8,p=1",
            "",
        ];
        passwords.read("a", &hashes.map(|stored| stored.trim_end_matches('$').to_owned()));
        assert_eq!(dearest("a").await, Cost { kib: 65_536, passes: 3 });
        assert_eq!(dearest("b").await, Cost::DEFAULT);
        passwords.read("a", &["$argon2id$v=19$m=64,t=1,p=1".to_owned()]);
        assert_eq!(dearest("a").await, Cost::DEFAULT, "never less than that of an unknown user elsewhere");
        drop(passwords.turn(guests("a", true), Some(stored(65_536, 1, 1))).await);
        assert_eq!(dearest("a").await, Cost { kib: 65_536, passes: 1 }, "stored since");
    }

    #[test]
    fn unusable_hash_is_reported_once_per_tenant() {
        let passwords = Passwords::new(6, 128 * MIB);
        for stored in ["", "!", "*", "!$2b$12$aaaa", &stored(64 * 1024, 8, 4)] {
            assert!(!passwords.is_first_unusable("a", stored), "{stored}");
        }
        let costly = [(64 * 1024 + 1, 1, 1), (64, 9, 1), (64, 1, 5)];
        let costly = costly.map(|(kib, passes, lanes)| stored(kib, passes, lanes));
        for unusable in ["$2b$12$aaaa", "plain"].into_iter().chain(costly.iter().map(String::as_str)) {
            let passwords = Passwords::new(6, 128 * MIB);
            assert!(
                passwords.is_first_unusable("a", unusable) && !passwords.is_first_unusable("a", unusable)
            );
            assert!(passwords.is_first_unusable("b", unusable), "another tenant");
        }
        for tenant in 0..3 * MAX_TENANTS {
            passwords.has_to_read(&tenant.to_string(), Duration::ZERO);
        }
        assert!(passwords.tenants.lock().len() <= MAX_TENANTS);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn spare_memory_is_kept_while_others_hash_and_never_more_than_is_free() {
        let passwords = Arc::new(Passwords::new(3, 57 * MIB));
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
        let passwords = Arc::new(Passwords::new(1, 19 * MIB));
        let (begun_tx, begun) = tokio::sync::oneshot::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let request = tokio::spawn({
            let passwords = Arc::clone(&passwords);
            async move {
                let work = move |_: &mut HashMemory| {
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
