//! The board: what the pods of the data plane report in Redis, and the operator reads.
//!
//! Pods repeat every report, so the board needs no backup: after Redis has lost it, it is complete again within a
//! [`HEARTBEAT`].
//!
//! ```
//! use docket_board::{Board, ReportedHealth};
//! use docket_redis::{Error, Keys, RedisConnection, RedisUrl};
//!
//! /// One heartbeat of a pod that serves one tenant.
//! async fn beat(board: &Board) -> Result<(), Error> {
//!     let served = [("tenant-uid".to_owned(), "revision-7".to_owned())].into();
//!     board.announce("docket-api-0", &["api"], &served).await?;
//!     board.put_health(&[("webhook-uid".to_owned(), ReportedHealth::default())]).await
//! }
//!
//! let target = RedisUrl::parse("redis://cache:6379").expect("a URL");
//! let connection = RedisConnection::new(target, None).expect("no certificates to read");
//! // Connects when it is first used.
//! let board = Board::new(connection, Keys::new(None).expect("the default names"));
//! # let _ = beat(&board);
//! ```

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use docket_redis::script::Script;
use docket_redis::{Error, Keys, RedisConnection, cmd};
use parking_lot::Mutex;

/// How often a pod announces itself.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long after its last announcement a pod counts as alive.
pub const POD_COUNTS: Duration = Duration::from_secs(10);
/// How long a webhook's health is kept after a report. Workers report it at least once an hour.
pub const HEALTH_KEPT: Duration = Duration::from_secs(3 * 3600);

/// The time at a limit after which a tenant counts as at its limit.
pub const AT_LIMIT_COUNTS: Duration = Duration::from_secs(300);
/// The time below a limit after which a tenant no longer counts as at its limit.
pub const AT_LIMIT_OVER: Duration = Duration::from_secs(120);

/// The number of webhooks per call.
const CHUNK: usize = 500;

static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("announce.lua")]));
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("leave.lua")]));
static PODS: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("pods.lua")]));
static PROCESSES: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("processes.lua")]));
static PUT_AT_LIMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("at_limit.lua"), include_str!("put_at_limit.lua")]));
static LASTING: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("at_limit.lua"), include_str!("lasting.lua")]));
static PUT_HEALTH: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("put_health.lua")]));

/// The board of one installation. Create one per process: it remembers what it has written and read.
#[derive(Debug)]
pub struct Board {
    connection: RedisConnection,
    keys: Keys,
    announced: Mutex<HashMap<String, LastAnnouncement>>,
    read: Mutex<HashMap<String, (String, PodServed)>>,
}

/// A pod's last announcement, and the version that Redis gave it.
#[derive(Debug)]
struct LastAnnouncement {
    roles: String,
    served: String,
    version: String,
}

/// A pod that is alive, and its served tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodServed {
    /// The pod's name.
    pub pod: String,
    /// The pod's roles.
    pub roles: Vec<String>,
    /// The revision of each tenant that it serves, by the tenant's uid. The board has the same copy, for the next read.
    pub served: Arc<HashMap<String, String>>,
}

/// The state of a webhook's deliveries. Times are milliseconds since 1970; `None`: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportedHealth {
    /// The number of deliveries that wait for their first attempt.
    pub pending: u64,
    /// The number of open dead letters: neither resent nor set aside.
    pub dead_letter: u64,
    /// The number of deliveries that failed and will be retried.
    pub retrying: u64,
    /// When an attempt last succeeded.
    pub last_success_at_ms: Option<i64>,
    /// When an attempt last failed.
    pub last_failure_at_ms: Option<i64>,
    /// Whether the tenant lacks the webhook's customer. Older programs do not report it.
    pub lacks_customer: bool,
}

impl Board {
    /// The board. It reads and writes nothing yet.
    pub fn new(connection: RedisConnection, keys: Keys) -> Self {
        Self { connection, keys, announced: Mutex::default(), read: Mutex::default() }
    }

    /// One heartbeat of a pod. Call it every [`HEARTBEAT`], and without delay when a served revision has changed.
    /// `served` has the revision of each tenant by uid. It is sent only if it changed or Redis lost it. Names, roles,
    /// uids and revisions contain no white space.
    pub async fn announce(
        &self,
        pod: &str,
        roles: &[&str],
        served: &HashMap<String, String>,
    ) -> Result<(), Error> {
        let roles = roles.join(" ");
        let mut lines: Vec<String> =
            served.iter().map(|(uid, revision)| format!("{uid} {revision}")).collect();
        lines.sort_unstable();
        let served = lines.join("\n");
        let known = self
            .announced
            .lock()
            .get(pod)
            .filter(|last| last.roles == roles && last.served == served)
            .map(|last| last.version.clone());
        if let Some(version) = known {
            let kept: String = ANNOUNCE.run(&self.connection, &self.keys.pods(), &[pod, &version]).await?;
            if kept == version {
                return Ok(());
            }
        }
        let version = ANNOUNCE.run(&self.connection, &self.keys.pods(), &[pod, "", &roles, &served]).await?;
        self.announced.lock().insert(pod.to_owned(), LastAnnouncement { roles, served, version });
        Ok(())
    }

    /// Removes a pod that is shutting down.
    pub async fn leave(&self, pod: &str) -> Result<(), Error> {
        self.announced.lock().remove(pod);
        LEAVE.run(&self.connection, &self.keys.pods(), &[pod]).await
    }

    /// The number of live pods that have at least one of these roles.
    pub async fn processes(&self, roles: &[&str]) -> Result<u32, Error> {
        let counts = POD_COUNTS.as_millis().to_string();
        let arguments: Vec<&str> = std::iter::once(&*counts).chain(roles.iter().copied()).collect();
        PROCESSES.run(&self.connection, &self.keys.pods(), &arguments).await
    }

    /// The live pods, by name. Redis sends only what has changed since the last call.
    pub async fn pods(&self) -> Result<Vec<PodServed>, Error> {
        let mut arguments = vec![POD_COUNTS.as_millis().to_string()];
        for (pod, (version, _)) in self.read.lock().iter() {
            arguments.extend([pod.clone(), version.clone()]);
        }
        let answer: Vec<(String, String, String, String)> =
            PODS.run(&self.connection, &self.keys.pods(), &arguments).await?;
        let mut read = self.read.lock();
        let mut before = std::mem::take(&mut *read);
        for (pod, version, roles, served) in answer {
            let unchanged = before.remove(&pod).filter(|(known, _)| *known == version);
            let served = unchanged.map_or_else(|| pod_served(&pod, &roles, &served), |(_, served)| served);
            read.insert(pod, (version, served));
        }
        let mut pods: Vec<PodServed> = read.values().map(|(_, served)| served.clone()).collect();
        pods.sort_by(|one, other| one.pod.cmp(&other.pod));
        Ok(pods)
    }

    /// Reports the health of webhooks, by uid. A report expires after [`HEALTH_KEPT`].
    pub async fn put_health(&self, healths: &[(String, ReportedHealth)]) -> Result<(), Error> {
        for chunk in healths.chunks(CHUNK) {
            let mut arguments = vec![HEALTH_KEPT.as_millis().to_string()];
            arguments.extend(chunk.iter().flat_map(|(uid, health)| [uid.clone(), written(health)]));
            let () = PUT_HEALTH.run(&self.connection, &self.keys.webhooks(), &arguments).await?;
        }
        Ok(())
    }

    /// Reports tenants that were at a limit just now: uid and limit of each. Neither contains a byte of value 0.
    pub async fn put_at_limit(&self, at_limit: &[(&str, &str)]) -> Result<(), Error> {
        for chunk in at_limit.chunks(CHUNK) {
            let mut arguments = vec![AT_LIMIT_OVER.as_millis().to_string()];
            arguments.extend(chunk.iter().map(|(uid, limit)| format!("{uid}\0{limit}")));
            let () = PUT_AT_LIMIT.run(&self.connection, &self.keys.at_limit(), &arguments).await?;
        }
        Ok(())
    }

    /// The tenants that have been at a limit again and again for [`AT_LIMIT_COUNTS`] or longer, without a pause of
    /// [`AT_LIMIT_OVER`]: uid and limit of each.
    pub async fn at_limit(&self) -> Result<Vec<(String, String)>, Error> {
        let arguments = [AT_LIMIT_OVER, AT_LIMIT_COUNTS].map(|time| time.as_millis().to_string());
        let counts: Vec<String> = LASTING.run(&self.connection, &self.keys.at_limit(), &arguments).await?;
        let pair = |member: &String| member.split_once('\0').map(|(uid, limit)| (uid.into(), limit.into()));
        Ok(counts.iter().filter_map(pair).collect())
    }

    /// Whether this process may do `what` now. In each interval, one of all processes may.
    pub async fn turn(&self, what: &str, every: Duration) -> Result<bool, Error> {
        let mut command = cmd("SET");
        command.arg(self.keys.turn(what)).arg("").arg("NX").arg("PX").arg(every.as_millis() as u64);
        let answer: Option<String> = self.connection.query(&command).await?;
        Ok(answer.is_some())
    }

    /// The health of webhooks, in the order of `uids`; `None`: no process has reported it.
    pub async fn webhooks(&self, uids: &[String]) -> Result<Vec<Option<ReportedHealth>>, Error> {
        let [_, health] = self.keys.webhooks();
        let mut healths = Vec::with_capacity(uids.len());
        for chunk in uids.chunks(CHUNK) {
            let values: Vec<Option<String>> =
                self.connection.query(cmd("HMGET").arg(&health).arg(chunk)).await?;
            healths.extend(values.iter().map(|value| read(value.as_deref()?)));
        }
        Ok(healths)
    }
}

fn pod_served(pod: &str, roles: &str, served: &str) -> PodServed {
    let served = served.lines().filter_map(|line| line.split_once(' '));
    PodServed {
        pod: pod.to_owned(),
        roles: roles.split_whitespace().map(str::to_owned).collect(),
        served: Arc::new(served.map(|(uid, revision)| (uid.to_owned(), revision.to_owned())).collect()),
    }
}

/// The health as text: five numbers in the order of the fields, with `-` for a missing time; then `lacks-customer` if
/// it is set.
fn written(health: &ReportedHealth) -> String {
    let time = |at: Option<i64>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let ReportedHealth { pending, dead_letter, retrying, lacks_customer, .. } = health;
    let (success, failure) = (time(health.last_success_at_ms), time(health.last_failure_at_ms));
    let customer = if *lacks_customer { " lacks-customer" } else { "" };
    format!("{pending} {dead_letter} {retrying} {success} {failure}{customer}")
}

fn read(text: &str) -> Option<ReportedHealth> {
    let mut fields = text.split(' ');
    Some(ReportedHealth {
        pending: fields.next()?.parse().ok()?,
        dead_letter: fields.next()?.parse().ok()?,
        retrying: fields.next()?.parse().ok()?,
        last_success_at_ms: fields.next()?.parse().ok(),
        last_failure_at_ms: fields.next()?.parse().ok(),
        lacks_customer: fields.next() == Some("lacks-customer"),
    })
}

#[cfg(test)]
mod tests;
