//! The users of tokens, as they are now: a token ends within five seconds after its user is deactivated, deleted, given another password,
//! moved to another customer or signed out everywhere, also by plain SQL.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use docket_domain::token::{UserFingerprint, UserKind, Verified};
use docket_program::clock::Clock;
use docket_store::{Connection, StoreError, people};
use parking_lot::Mutex;

use crate::telemetry::{Jobs, Metrics};
use crate::tenancy::lookups::{Lookup, Lookups};
use crate::tenancy::{ServedTenant, Tenants};

/// A copy is used for this long from the beginning of its query, in milliseconds.
const FRESH_MS: i64 = 5_000;
/// The most by which the clocks of two processes may differ, with the second to which a token's time is cut, in milliseconds.
const SKEW_MS: i64 = 5_000;
/// The most copies, of some 200 bytes each.
const MAX_COPIES: usize = 10_000;

/// Copies of users that have tokens, read when they are needed.
pub struct TokenUsers {
    clock: Clock,
    reads: Arc<Lookups<User>>,
    copies: Mutex<HashMap<(Arc<str>, User), Copied>>,
}

/// A user of a tenant, by code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct User {
    kind: UserKind,
    code: String,
}

#[derive(Debug, Clone)]
struct Copied {
    /// `None`: there is no such active user.
    owner: Option<UserFingerprint>,
    at_ms: i64,
}

impl Copied {
    fn is_fresh(&self, now_ms: i64) -> bool {
        // The clock may have been set back.
        (0..FRESH_MS).contains(&(now_ms - self.at_ms))
    }
}

impl TokenUsers {
    /// Creates an empty cache.
    pub fn new(clock: Clock, tenants: &Arc<Tenants>, metrics: &Arc<Metrics>) -> Self {
        Self { reads: Lookups::new(clock.clone(), tenants, metrics), clock, copies: Mutex::default() }
    }

    /// The owner of a token; `None`: the token does not belong to its subject any more. By a copy that is at most five seconds old.
    ///
    /// # Errors
    ///
    /// The database can't be read, and there is no such copy.
    pub async fn owner(
        &self,
        tenant: &Arc<ServedTenant>,
        token: &Verified<'_>,
    ) -> Result<Option<UserFingerprint>, StoreError> {
        let (kind, code) = token.subject.user();
        let key = (Arc::clone(&tenant.uid), User { kind, code: code.to_owned() });
        let now_ms = self.clock.now_ms();
        if let Some(copied) = self.copies.lock().get(&key).filter(|copied| copied.is_fresh(now_ms)) {
            let owner = copied.owner.as_ref().filter(|owner| token.belongs_to(owner));
            // A token that is newer than the copy may belong to a user with a new password.
            if owner.is_some() || token.issued_at * 1000 + SKEW_MS < copied.at_ms {
                return Ok(owner.cloned());
            }
        }
        let read = self.reads.read(tenant, key.1.clone()).await?;
        let owner = read.found.as_ref().filter(|owner| token.belongs_to(owner)).cloned();
        self.keep(key, Copied { owner: read.found, at_ms: read.at_ms });
        Ok(owner)
    }

    /// Keeps a copy. Without room it drops the copies that are too old, and then all.
    fn keep(&self, key: (Arc<str>, User), copied: Copied) {
        let mut copies = self.copies.lock();
        if copies.len() >= MAX_COPIES {
            copies.retain(|_, other| other.is_fresh(copied.at_ms));
        }
        if copies.len() >= MAX_COPIES {
            copies.clear();
        }
        copies.insert(key, copied);
    }
}

impl Lookup for User {
    type Key = Self;
    type Found = UserFingerprint;
    const MOST: usize = 1_000;
    const JOBS: Jobs = Jobs::ReadUser;

    async fn read(
        mut reader: Connection,
        users: HashSet<Self>,
    ) -> Result<HashMap<Self, UserFingerprint>, StoreError> {
        let mut owners = HashMap::new();
        for kind in UserKind::ALL {
            let of_kind = users.iter().filter(|user| user.kind == kind);
            let codes: Vec<&str> = of_kind.map(|user| user.code.as_str()).collect();
            let read = people::owners(&mut reader, kind, &codes).await?;
            owners.extend(read.into_iter().map(|(code, owner)| (Self { kind, code }, owner)));
        }
        Ok(owners)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use docket_domain::token::{TokenKey, TokenSubject, issue, verify};
    use docket_program::clock::ManualClock;
    use docket_rig::scratch::Folder;
    use docket_store::Connection;
    use docket_store::contacts::{self, Contact};
    use docket_store::people::Person;
    use docket_store::sqlite::Sqlite;

    use super::*;
    use crate::tenancy::testing;

    const KEY: TokenKey<'static> = TokenKey { kid: "k1", secret: &[7; 32] };
    const EMAIL: &str = "ada@one.example";

    /// A tenant with one contact, of code 11, who is signed in.
    struct Rig {
        time: ManualClock,
        clock: Clock,
        tenant: Arc<ServedTenant>,
        users: TokenUsers,
        folder: Folder,
    }

    impl Rig {
        async fn new(name: &str) -> Self {
            let folder = Folder::new(name);
            let tenant = testing::tenant("uid-a", Sqlite::new(folder.path().join("tenant.db")));
            let time = ManualClock::new("2026-11-21T00:00:00Z".parse().expect("a time"));
            let clock = Clock::Manual(time.clone());
            let users = TokenUsers::new(clock.clone(), &Arc::default(), &Arc::default());
            let rig = Self { time, clock, tenant, users, folder };
            let mut transaction = rig.tenant.store.begin(&rig.clock).await.expect("a schema");
            contacts::insert_customer(&mut transaction, "C-1", "One", 0).await.expect("inserts");
            let ada = Contact {
                code: "11".into(),
                customer_code: "C-1".into(),
                name: "Ada".into(),
                password_hash: Some("$argon2id$…".into()),
                active: true,
                sign_outs: 0,
                manages_webhooks: false,
            };
            contacts::insert_contact(&mut transaction, &ada, EMAIL, 0).await.expect("inserts");
            transaction.commit().await.expect("commits");
            rig
        }

        async fn reader(&self) -> Connection {
            self.tenant.store.database().reader().await.expect("a reader")
        }

        /// A new token of the contact as it is now.
        async fn token(&self) -> String {
            let ada =
                contacts::find(&mut self.reader().await, EMAIL).await.expect("a statement").expect("Ada");
            let owner =
                UserFingerprint::new(Some(&ada.customer_code), ada.password_hash.as_deref(), ada.sign_outs);
            let subject =
                TokenSubject::Contact { contact_code: ada.code, customer_code: ada.customer_code.clone() };
            issue(KEY, "uid-a", (subject, &owner), self.clock.now(), 60)
        }

        async fn takes(&self, token: &str) -> Result<bool, StoreError> {
            let verified = verify(token, &[KEY], "uid-a", self.clock.now()).expect("a good token");
            self.users.owner(&self.tenant, &verified).await.map(|owner| owner.is_some())
        }

        async fn assert_takes(&self, token: &str, taken: bool, what: &str) {
            assert_eq!(self.takes(token).await.expect("a database"), taken, "{what}");
        }

        async fn sign_out(&self) {
            let mut transaction = self.tenant.store.begin(&self.clock).await.expect("a schema");
            let ended = people::end_tokens(&mut transaction, Person { kind: UserKind::Contact, code: "11" })
                .await
                .expect("a statement");
            transaction.commit().await.expect("commits");
            assert!(ended, "the contact exists");
        }

        /// Ends the connections and makes the file no database any more.
        async fn break_database(&self) {
            self.tenant.store.database().close_idle(Duration::ZERO).await;
            let file = self.folder.path().join("tenant.db");
            for ending in ["db-wal", "db-shm"] {
                let _ = std::fs::remove_file(file.with_extension(ending));
            }
            std::fs::write(&file, "no database").expect("writable");
        }
    }

    #[tokio::test]
    async fn tokens_end_five_seconds_after_a_sign_out_and_a_new_one_is_taken() {
        let rig = Rig::new("sign-out").await;
        let old = rig.token().await;
        rig.assert_takes(&old, true, "it is copied now").await;
        rig.sign_out().await;
        rig.time.advance(Duration::from_millis(FRESH_MS as u64 - 1));
        rig.assert_takes(&old, true, "the copy is fresh").await;
        rig.time.advance(Duration::from_millis(1));
        rig.assert_takes(&old, false, "the copy is five seconds old").await;
        let new = rig.token().await;
        rig.assert_takes(&new, true, "it is newer than the sign-out").await;
        rig.assert_takes(&old, false, "it stays ended").await;
    }

    #[tokio::test]
    async fn token_that_is_newer_than_the_copy_is_taken_at_once() {
        let rig = Rig::new("newer").await;
        let old = rig.token().await;
        rig.assert_takes(&old, true, "it is copied now").await;
        rig.sign_out().await;
        let new = rig.token().await;
        rig.assert_takes(&new, true, "the copy is read again").await;
        rig.assert_takes(&old, false, "the copy is the new one").await;
    }

    #[tokio::test]
    async fn fresh_copy_needs_no_database() {
        let rig = Rig::new("away").await;
        let token = rig.token().await;
        rig.assert_takes(&token, true, "it is copied now").await;
        rig.break_database().await;
        rig.assert_takes(&token, true, "the copy is fresh").await;
        rig.time.advance(Duration::from_millis(FRESH_MS as u64));
        assert!(rig.takes(&token).await.is_err(), "it is neither taken nor refused");
    }

    #[tokio::test]
    async fn ended_token_needs_no_database_if_it_is_certainly_older_than_the_copy() {
        for (more_ms, is_certain) in [(0, false), (1, true)] {
            let rig = Rig::new(&format!("ended-{more_ms}")).await;
            let old = rig.token().await;
            rig.sign_out().await;
            rig.time.advance(Duration::from_millis(SKEW_MS as u64 + more_ms));
            rig.assert_takes(&old, false, "it is copied now").await;
            rig.break_database().await;
            assert_eq!(rig.takes(&old).await.ok(), is_certain.then_some(false), "{more_ms}");
        }
    }

    #[tokio::test]
    async fn copy_of_a_user_says_nothing_of_the_same_code_in_another_tenant() {
        let rig = Rig::new("two-tenants").await;
        let token = rig.token().await;
        rig.assert_takes(&token, true, "it is copied now").await;
        // The other tenant has no such contact, and its key is the same here.
        let other = testing::tenant("uid-b", Sqlite::new(rig.folder.path().join("other.db")));
        other.store.begin(&rig.clock).await.expect("a schema").commit().await.expect("commits");
        let owner = UserFingerprint::new(Some("C-1"), Some("$argon2id$…"), 0);
        let subject = TokenSubject::Contact { contact_code: "11".into(), customer_code: "C-1".into() };
        let token = issue(KEY, "uid-b", (subject, &owner), rig.clock.now(), 60);
        let verified = verify(&token, &[KEY], "uid-b", rig.clock.now()).expect("a good token");
        let found = rig.users.owner(&other, &verified).await.expect("a database");
        assert_eq!(found, None);
    }

    #[tokio::test]
    async fn copy_from_the_future_is_not_used() {
        let rig = Rig::new("future").await;
        let key = (Arc::clone(&rig.tenant.uid), User { kind: UserKind::Contact, code: "11".into() });
        let at_ms = rig.clock.now_ms() + 1;
        rig.users.copies.lock().insert(key, Copied { owner: None, at_ms });
        let token = rig.token().await;
        rig.assert_takes(&token, true, "the clock was set back since").await;
    }

    #[tokio::test]
    async fn copies_are_bounded() {
        let rig = Rig::new("bound").await;
        let at_ms = rig.clock.now_ms();
        for number in 0..MAX_COPIES + 10 {
            let user = User { kind: UserKind::Contact, code: number.to_string() };
            let key = (Arc::clone(&rig.tenant.uid), user);
            rig.users.keep(key, Copied { owner: None, at_ms });
        }
        assert_eq!(rig.users.copies.lock().len(), 10);
    }
}
