//! Every key in Redis: its name, its type, its members and its scores. No other file names a key.
//!
//! All keys carry one hash tag, so a Cluster keeps them on one node. A claim finds the next of all tenants, so it needs
//! everything in one place; and one node serves more deliveries a second than a PostgreSQL server of two cores stores
//! (docs/kubernetes/scale.md).
//!
//! Times are milliseconds since 1970 of Redis' own clock. `␀` is a byte of value 0, which is in no uid.

use std::fmt;

/// The layout of the schedule's keys. A new number whenever their content changes, so that two versions of Docket at once
/// do not read each other's keys. Each then has its own index, and the rows decide; the keys of an old layout can be deleted.
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
    /// For installations that share a Redis, each with its own `release`; `None`: the only installation.
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

    /// The keys of every transition of the schedule, in this order (`queues.lua` names them). A queue is
    /// `<tenant>␀<webhook>`, an entry `<tenant>␀<delivery>`, by uids.
    ///
    /// A queue with waiting entries is in `heads` until its first one is due, then in `ready` or, if its webhook is quick,
    /// in `ready-quick`; in none of them while the webhook has its full share in flight. So a claim never looks at a queue
    /// from which it could take nothing.
    pub fn schedule(&self) -> [String; 15] {
        [
            // HASH entry -> `w␀<webhook>␀<due>` (waiting) or `c␀<webhook>␀<fence>␀<incarnation>␀<process>` (claimed).
            self.of_schedule("entries"),
            // ZSET, all scores 0: `<tenant>␀<webhook>␀<due in 15 digits>␀<delivery>`, so each queue is a lexical range in
            // the order of time.
            self.of_schedule("waiting"),
            // ZSET entry, score: when its claim expires.
            self.of_schedule("claims"),
            // HASH tenant and queue -> claims in flight; no field for none.
            self.of_schedule("flight"),
            // HASH queue -> `<share> <quick> <full> <decreased>` of its webhook; no field for one of which nothing is
            // known. `quick`: 1 if it answers quickly; `full`: 1 if all places were in use since the share changed last;
            // `decreased`: when the share decreased last, or 0.
            self.of_schedule("shares"),
            // ZSET queue, score: when its first entry falls due.
            self.of_schedule("heads"),
            // ZSET, all scores 0: queues with something due, below the share of their webhook, which is not quick.
            self.of_schedule("ready"),
            // ZSET, all scores 0: tenants with a queue in `ready`, below their share.
            self.of_schedule("ring"),
            // The same two, of webhooks that are quick.
            self.of_schedule("ready-quick"),
            self.of_schedule("ring-quick"),
            // HASH `w<tenant>`, `q<tenant>` -> the webhook that was served last of those that are not quick and that are.
            self.of_schedule("turns"),
            // HASH tenant -> how many entries it has; no field for none.
            self.of_schedule("sizes"),
            // HASH tenant -> `<claims at once> <entries>` that it may have; no field for one with the built-in numbers.
            self.of_schedule("limits"),
            // HASH `turn`, `turn-quick`: the tenant served last in each class; `fence`: the last one given; `built`: the
            // history of the server (its replication id) for which the index is complete; `swept`: when a process began to
            // sweep.
            self.of_schedule("state"),
            // HASH incarnation of a process -> `<history>␀<number of the loss>` of the server for which it rebuilds.
            self.of_schedule("rebuilding"),
        ]
    }

    /// The last two of [`schedule`](Self::schedule).
    pub fn rebuilding(&self) -> [String; 2] {
        let [.., state, rebuilding] = self.schedule();
        [state, rebuilding]
    }

    /// A channel, not a key: gets the incarnation of the process because of which an entry falls due sooner than others look.
    pub fn changed(&self) -> String {
        self.name("changed")
    }

    /// ZSET pod, score: its last sign of life; and HASH pod -> `<version>␀<roles>␀<served>`, where the version changes
    /// with the rest (microseconds since 1970); and HASH pod -> `<roles>`, which is short.
    pub fn pods(&self) -> [String; 3] {
        [self.name("pods"), self.name("pods-served"), self.name("pods-roles")]
    }

    /// ZSET webhook, score: when its health was reported; and HASH webhook -> five numbers, see docket-board.
    pub fn webhooks(&self) -> [String; 2] {
        [self.name("webhooks"), self.name("webhooks-health")]
    }

    /// ZSET `<tenant>␀<limit>`, score: when the tenant was at that limit last; and HASH of the same -> since when.
    pub fn at_limit(&self) -> [String; 2] {
        [self.name("tenants-at-limit"), self.name("tenants-at-limit-since")]
    }

    /// STRING that exists for a while: one process does `what`, and the others need not.
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
        names.push(keys.changed());
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
    }
}
