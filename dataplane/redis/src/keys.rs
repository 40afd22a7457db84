//! Every key in Redis: its name, its type, its members and its scores. No other file names a key.
//!
//! All keys have one hash tag, so a Cluster stores them on one node. A claim chooses among all tenants, so it needs
//! all keys in one place. And one node serves more deliveries a second than a PostgreSQL server of two cores stores
//! (docs/kubernetes/scale.md).
//!
//! Times are milliseconds since 1970 on Redis' own clock. `␀` is a byte of value 0, which no uid contains.

use std::fmt;

/// The layout of the schedule's keys. It gets a new number whenever their content changes, so that two versions of
/// Docket at the same time do not read each other's keys. Then each version has its own index, and the rows decide.
/// The keys of an old layout can be deleted.
const LAYOUT: u32 = 3;

/// The names of one installation's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The hash tag without its braces: `docket`, or `docket:<release>`.
    tag: String,
}

/// The release's name can't be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the release's name must be 1 to 63 letters, digits, dots, hyphens or underscores")]
pub struct BadRelease;

impl Keys {
    /// The keys of an installation. `release` separates installations that share a Redis; `None`: there is only one.
    pub fn new(release: Option<&str>) -> Result<Self, BadRelease> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        match release {
            None => Ok(Self { tag: "docket".to_owned() }),
            Some(name) if (1..=63).contains(&name.len()) && name.chars().all(allowed) => {
                Ok(Self { tag: format!("docket:{name}") })
            }
            Some(_) => Err(BadRelease),
        }
    }

    /// The keys of every transition of the schedule, in the order in which `queues.lua` names them. A queue is
    /// `<tenant>␀<webhook>`, an entry `<tenant>␀<delivery>`, by uids.
    ///
    /// A queue with waiting entries is in `heads` until its first entry is due. Then it is in `ready`, or in
    /// `ready-quick` if its webhook is quick. While the webhook has its full share in flight, the queue is in none of
    /// them. So a claim never reads a queue from which it can take nothing.
    pub fn schedule(&self) -> [String; 15] {
        [
            // HASH entry -> `w␀<webhook>␀<due>` (waiting) or `c␀<webhook>␀<fence>␀<incarnation>␀<process>` (claimed).
            self.of_schedule("entries"),
            // ZSET, all scores 0: `<tenant>␀<webhook>␀<due in 15 digits>␀<delivery>`, so each queue is a lexical range in
            // the order of time.
            self.of_schedule("waiting"),
            // ZSET entry; the score is the time at which its claim expires.
            self.of_schedule("claims"),
            // HASH tenant or queue -> number of claims in flight; no field if there are none.
            self.of_schedule("flight"),
            // HASH queue -> `<share> <quick> <full> <decreased>` of its webhook; no field if nothing is known of the
            // webhook. `quick`: 1 if it responds quickly. `full`: 1 if the whole share was in flight since the share
            // last changed. `decreased`: when the share last decreased, or 0.
            self.of_schedule("shares"),
            // ZSET queue; the score is the time at which its first entry falls due.
            self.of_schedule("heads"),
            // ZSET, all scores 0: queues with a due entry whose webhook is not quick and is below its share.
            self.of_schedule("ready"),
            // ZSET, all scores 0: tenants with a queue in `ready` that are below their share.
            self.of_schedule("ring"),
            // The same two keys for webhooks that are quick.
            self.of_schedule("ready-quick"),
            self.of_schedule("ring-quick"),
            // HASH `w<tenant>` -> the webhook that was served last among the webhooks that are not quick; `q<tenant>` -> the same
            // among the quick ones.
            self.of_schedule("turns"),
            // HASH tenant -> the number of its entries; no field if there are none.
            self.of_schedule("sizes"),
            // HASH tenant -> `<claims at once> <entries>`, its limits; no field if it has the built-in limits.
            self.of_schedule("limits"),
            // HASH `turn`, `turn-quick`: the tenant that was served last in each class. `fence`: the last fence that
            // was given. `built`: the history of the server (its replication id) for which the index is complete.
            // `swept`: when a process began to sweep.
            self.of_schedule("state"),
            // HASH incarnation of a process -> `<history>␀<number of the loss>`: the server's history for which the
            // process rebuilds.
            self.of_schedule("rebuilding"),
        ]
    }

    /// The channel (not a key) on which a process announces an entry that falls due sooner than other processes look.
    /// A message is the incarnation of the process.
    pub fn changed(&self) -> String {
        self.name("changed")
    }

    /// ZSET pod; the score is its last heartbeat. HASH pod -> `<version>␀<roles>␀<served>`; the version (microseconds
    /// since 1970) changes with the rest. HASH pod -> `<roles>`, which is short.
    pub fn pods(&self) -> [String; 3] {
        [self.name("pods"), self.name("pods-served"), self.name("pods-roles")]
    }

    /// ZSET webhook; the score is the time of its last health report. HASH webhook -> five numbers, see docket-board.
    pub fn webhooks(&self) -> [String; 2] {
        [self.name("webhooks"), self.name("webhooks-health")]
    }

    /// ZSET `<tenant>␀<limit>`; the score is the last time at which the tenant was at the limit. HASH `<tenant>␀<limit>` -> the
    /// time since when the tenant is at the limit.
    pub fn at_limit(&self) -> [String; 2] {
        [self.name("tenants-at-limit"), self.name("tenants-at-limit-since")]
    }

    /// STRING that exists for a while: the process that set it does `what`, and other processes need not.
    pub fn turn(&self, what: &str) -> String {
        self.name(&format!("turn:{what}"))
    }

    fn of_schedule(&self, what: &str) -> String {
        self.name(&format!("{LAYOUT}:{what}"))
    }

    fn name(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.tag)
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}:*", self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_differ_and_share_a_hash_tag() {
        let keys = Keys::new(Some("blue")).expect("a release");
        let mut names: Vec<String> = keys.schedule().into();
        names.extend(keys.pods());
        names.extend(keys.webhooks());
        names.extend(keys.at_limit());
        names.extend([keys.changed(), keys.turn("report"), keys.turn("mail")]);
        assert!(names.iter().all(|name| name.starts_with("{docket:blue}:")), "{names:?}");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_release_cannot_break_the_hash_tag() {
        assert_eq!(Keys::new(Some("a}b")), Err(BadRelease));
        assert_eq!(Keys::new(Some("")), Err(BadRelease));
        assert_eq!(Keys::new(None).expect("the only one").changed(), "{docket}:changed");
        let longest = "A.b-c_9".repeat(9);
        assert!(Keys::new(Some(&longest)).is_ok(), "it has 63 characters");
        for wrong in [format!("{longest}x"), "a:b".to_owned(), "a b".to_owned(), "é".to_owned()] {
            assert_eq!(Keys::new(Some(&wrong)), Err(BadRelease), "{wrong}");
        }
    }
}
