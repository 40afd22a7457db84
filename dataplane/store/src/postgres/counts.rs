//! Counts of a process's connections to PostgreSQL: which rules made requests wait, how long requests waited, and
//! which servers respond. These are plain numbers, which telemetry reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The upper bounds of the buckets of [`WaitTimes`], in seconds. A request waits for at most 4 s, and then for the
/// opening of a connection.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0];

/// How long a server counts as away after it did not respond. A process calls a server only when something needs one of its databases, so
/// a process without work for it does not learn that it is back. Some worker calls each server for its sweep once a minute.
const AWAY_FOR: Duration = Duration::from_mins(3);

/// The entry for all external databases together, whose servers the owners of tenants choose.
const EXTERNAL: &str = "external";
/// The entry for all servers together that have no entry of their own.
const OTHERS: &str = "others";

docket_crds::words! {
    /// A rule that makes a request wait for a connection. Several rules may make the same request wait, one after the other.
    pub enum Wait {
        /// The database did not respond last time, and others try it, or databases like it.
        DatabaseAway,
        /// The database has not responded yet, and others try it, or databases like it.
        DatabaseNotKnown,
        /// The tenant uses as many connections as it may.
        TenantShare,
        /// The tenant's connections are in use. The request waits for one of them, at most as long as the opening of another takes.
        OwnInUse,
        /// The process has as many connections as it may, and no rule gives the request an idle one of another tenant at once.
        ProcessLimit,
        /// The process opens as many connections at the same time as it may.
        Opening,
        /// A connection that came back stayed with the tenant that had just opened it, although another tenant needs it more.
        Kept,
        /// The process migrates as many databases at the same time as it may.
        Migration,
    }
}

docket_crds::words! {
    /// A rule that closes a connection of a tenant and gives its place to another tenant.
    pub enum Taken {
        /// No request had used the connection for some seconds.
        Unused,
        /// The tenant had at least two connections more than the other one.
        TwoMore,
        /// The other tenant had no connection.
        NoConnection,
        /// A request of the other tenant had waited long.
        WaitedLong,
    }
}

/// How long requests waited for a connection, until they got one or gave up.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitTimes {
    /// The sum of all times, in seconds.
    pub sum: f64,
    /// The upper bound of each bucket in seconds, and the number of times in it that are in no lower bucket. The last bound is
    /// infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// The counts of a process's connections.
#[derive(Debug, Default)]
pub struct Counts {
    waits: [AtomicU64; Wait::ALL.len()],
    taken: [AtomicU64; Taken::ALL.len()],
    waiting: AtomicUsize,
    /// The number of waits in each bucket. The last bucket is for times above all bounds.
    times: [AtomicU64; BOUNDS.len() + 1],
    times_us: AtomicU64,
    servers: Mutex<BTreeMap<ServerName, KnownServer>>,
}

/// The hosts of a server. Servers of the platform are ordered before external ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ServerName {
    is_external: bool,
    hosts: String,
}

/// A server and the number of tenants that use it.
#[derive(Debug)]
struct KnownServer {
    server: Arc<Server>,
    users: usize,
}

/// A server of PostgreSQL.
#[derive(Debug)]
pub struct Server {
    name: ServerName,
    state: Mutex<Option<ServerState>>,
    used: Mutex<Option<UsedConnections>>,
}

/// Which parts of a server's connections all programs together use. 1.0 means that the next login is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsedConnections {
    /// The part of the connections that the server allows to ordinary roles.
    pub server: f64,
    /// The part of its own limit that a role uses: of all roles with a limit, the largest.
    pub role: f64,
}

impl UsedConnections {
    /// Takes the larger number for the server, and the larger one for the role.
    fn or_more(self, other: Self) -> Self {
        Self { server: self.server.max(other.server), role: self.role.max(other.role) }
    }
}

/// Whether a server responded last time.
#[derive(Debug, Clone, Copy)]
enum ServerState {
    Up,
    Away { since: Instant },
}

impl Server {
    /// Records whether the server responded to the last statement, or refused the last attempt to connect.
    pub fn responded(&self, responded: bool) {
        let state = if responded { ServerState::Up } else { ServerState::Away { since: Instant::now() } };
        *self.state.lock() = Some(state);
    }

    /// Records which parts of the server's connections are used; `None`: that is not known.
    pub fn uses(&self, used: Option<UsedConnections>) {
        *self.used.lock() = used;
    }

    /// Whether the server responded last time; `None`: it was not tried yet, or not since it was away.
    fn is_up(&self, now: Instant) -> Option<bool> {
        match (*self.state.lock())? {
            ServerState::Up => Some(true),
            ServerState::Away { since } => (now.duration_since(since) < AWAY_FOR).then_some(false),
        }
    }
}

/// A request that waits for a connection. When it is dropped, the request has a connection or has given up.
pub(super) struct ConnectionWait<'a> {
    counts: &'a Counts,
    since: Instant,
}

impl Drop for ConnectionWait<'_> {
    fn drop(&mut self) {
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.has_waited(self.since.elapsed());
    }
}

impl Counts {
    /// Returns how often this rule has made a request wait.
    pub fn waits(&self, rule: Wait) -> u64 {
        self.waits[rule as usize].load(Ordering::Relaxed)
    }

    /// Returns how many connections this rule has closed for another tenant.
    pub fn taken(&self, rule: Taken) -> u64 {
        self.taken[rule as usize].load(Ordering::Relaxed)
    }

    /// Returns how many requests wait for a connection now, including requests for which a connection is being opened.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns how long requests have waited.
    pub fn times(&self) -> WaitTimes {
        let counts = self.times.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets = BOUNDS.into_iter().chain([f64::INFINITY]).zip(counts).collect();
        let sum = Duration::from_micros(self.times_us.load(Ordering::Relaxed)).as_secs_f64();
        WaitTimes { sum, buckets }
    }

    /// Returns whether each server responded last time, by `host:port`, without servers that were not tried yet, or not for
    /// three minutes since they were away. At most `most` servers have an entry of their own, the first by name. The entry
    /// `others` stands for all further servers, and `external` for all servers that owners of tenants have chosen. These two
    /// entries are up if all of their servers are.
    pub fn servers(&self, most: usize, now: Instant) -> Vec<(String, bool)> {
        let (mut shown, mut single) = (BTreeMap::new(), 0);
        for KnownServer { server, .. } in self.servers.lock().values() {
            let Some(is_up) = server.is_up(now) else { continue };
            let name = match server.name.is_external {
                true => EXTERNAL,
                false if single < most => {
                    single += 1;
                    server.name.hosts.as_str()
                }
                false => OTHERS,
            };
            *shown.entry(name.to_owned()).or_insert(true) &= is_up;
        }
        shown.into_iter().collect()
    }

    /// Returns which parts of the connections of each server are used. External servers have no entry, nor has a server
    /// whose watcher does not know it. At most `most` servers have an entry of their own, the first by name. The entry
    /// `others` has the largest parts of all further servers.
    pub fn used_connections(&self, most: usize) -> Vec<(String, UsedConnections)> {
        let servers = self.servers.lock();
        let own = servers.values().filter(|known| !known.server.name.is_external);
        let used =
            own.filter_map(|known| Some((known.server.name.hosts.as_str(), (*known.server.used.lock())?)));
        let mut shown: BTreeMap<&str, UsedConnections> = BTreeMap::new();
        for (place, (hosts, used)) in used.enumerate() {
            let entry = shown.entry(if place < most { hosts } else { OTHERS }).or_default();
            *entry = entry.or_more(used);
        }
        shown.into_iter().map(|(name, used)| (name.to_owned(), used)).collect()
    }

    /// Adds a tenant that uses the server with these hosts, each with its port. `is_external`: the tenant's owner has
    /// chosen it.
    pub fn add_server(&self, hosts: String, is_external: bool) -> Arc<Server> {
        let name = ServerName { is_external, hosts };
        let mut servers = self.servers.lock();
        let known = servers.entry(name.clone()).or_insert_with(|| {
            let server = Server { name, state: Mutex::default(), used: Mutex::default() };
            KnownServer { server: Arc::new(server), users: 0 }
        });
        known.users += 1;
        Arc::clone(&known.server)
    }

    /// Removes a tenant that used this server. Removes the server after its last tenant.
    pub(super) fn leave_server(&self, server: &Server) {
        let mut servers = self.servers.lock();
        let Some(known) = servers.get_mut(&server.name) else { return };
        known.users -= 1;
        if known.users == 0 {
            servers.remove(&server.name);
        }
    }

    /// Begins to wait for a connection.
    pub(super) fn begin(&self) -> ConnectionWait<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        ConnectionWait { counts: self, since: Instant::now() }
    }

    /// Counts a request that this rule makes wait.
    pub(super) fn wait(&self, rule: Wait) {
        self.waits[rule as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that this rule makes wait if none of these permits is free.
    pub(super) fn wait_for(&self, permits: &Semaphore, rule: Wait) {
        if permits.available_permits() == 0 {
            self.wait(rule);
        }
    }

    /// Counts a connection that this rule closes for another tenant.
    pub(super) fn take(&self, rule: Taken) {
        self.taken[rule as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn has_waited(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.times[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.times_us.fetch_add(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(servers: &[(&str, bool)]) -> Vec<(String, bool)> {
        servers.iter().map(|(name, is_up)| ((*name).to_owned(), *is_up)).collect()
    }

    #[test]
    fn rules_are_in_the_order_of_their_numbers() {
        assert!(Wait::ALL.iter().enumerate().all(|(place, rule)| *rule as usize == place));
        assert!(Taken::ALL.iter().enumerate().all(|(place, rule)| *rule as usize == place));
    }

    #[test]
    fn server_is_shown_from_its_first_response_until_its_last_tenant_leaves() {
        let counts = Counts::default();
        let (one, same) = (counts.add_server("a:1".into(), false), counts.add_server("a:1".into(), false));
        assert_eq!(counts.servers(50, Instant::now()), []);
        one.responded(false);
        assert_eq!(counts.servers(50, Instant::now()), named(&[("a:1", false)]));
        same.responded(true);
        assert_eq!(counts.servers(50, Instant::now()), named(&[("a:1", true)]));
        counts.leave_server(&one);
        assert_eq!(counts.servers(50, Instant::now()), named(&[("a:1", true)]));
        counts.leave_server(&same);
        assert_eq!(counts.servers(50, Instant::now()), []);
    }

    #[test]
    fn server_counts_as_away_for_three_minutes_after_it_did_not_respond() {
        let counts = Counts::default();
        let server = counts.add_server("a:1".into(), false);
        let after = |seconds| counts.servers(50, Instant::now() + Duration::from_secs(seconds));
        server.responded(false);
        assert_eq!(
            [after(0), after(170), after(180)],
            [named(&[("a:1", false)]), named(&[("a:1", false)]), vec![]]
        );
        server.responded(true);
        assert_eq!(after(1_000_000), named(&[("a:1", true)]));
    }

    #[test]
    fn however_many_servers_there_are_few_are_shown() {
        let counts = Counts::default();
        for number in 10..40 {
            counts.add_server(format!("own-{number}:1"), false).responded(number != 20);
            counts.add_server(format!("a-{number}:1"), true).responded(true);
        }
        let expected = [("external", true), ("others", false), ("own-10:1", true), ("own-11:1", true)];
        assert_eq!(counts.servers(2, Instant::now()), named(&expected));
        assert_eq!(counts.servers(30, Instant::now()).len(), 31);
    }

    #[test]
    fn used_connections_are_shown_of_the_platforms_servers_while_they_are_known() {
        let counts = Counts::default();
        let used = |server, role| UsedConnections { server, role };
        let servers = ["a:1", "b:1", "c:1"].map(|hosts| counts.add_server(hosts.into(), false));
        counts.add_server("x:1".into(), true).uses(Some(used(1.0, 1.0)));
        assert_eq!(counts.used_connections(50), []);
        for (server, part) in servers.iter().zip([0.25, 0.5, 0.75]) {
            server.uses(Some(used(part, 1.0 - part)));
        }
        let shown: Vec<String> = counts.used_connections(3).into_iter().map(|(name, _)| name).collect();
        assert_eq!(shown, ["a:1", "b:1", "c:1"]);
        let few = [("a:1".to_owned(), used(0.25, 0.75)), ("others".to_owned(), used(0.75, 0.5))];
        assert_eq!(counts.used_connections(1), few);
        servers[0].uses(None);
        assert_eq!(counts.used_connections(50)[0], ("b:1".to_owned(), used(0.5, 0.5)));
    }

    #[test]
    fn each_time_is_in_one_bucket() {
        let counts = Counts::default();
        for millis in [0, 1, 2, 300, 4_000, 9_000] {
            counts.has_waited(Duration::from_millis(millis));
        }
        let WaitTimes { sum, buckets } = counts.times();
        let found: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(found, [2, 1, 0, 0, 0, 1, 0, 0, 1, 1]);
        assert!((sum - 13.303).abs() < 1e-9, "{sum}");
        assert_eq!(buckets.last().map(|(bound, _)| *bound), Some(f64::INFINITY));
    }

    #[test]
    fn request_waits_until_it_has_a_connection_or_gives_up() {
        let counts = Counts::default();
        let (one, two) = (counts.begin(), counts.begin());
        assert_eq!(counts.waiting(), 2);
        drop((one, two));
        let ended: u64 = counts.times().buckets.iter().map(|(_, count)| count).sum();
        assert_eq!((counts.waiting(), ended), (0, 2));
    }

    #[test]
    fn only_a_request_without_a_permit_waits_for_one() {
        let (counts, permits) = (Counts::default(), Semaphore::new(1));
        counts.wait_for(&permits, Wait::Opening);
        let _permit = permits.try_acquire().expect("it is free");
        counts.wait_for(&permits, Wait::Opening);
        assert_eq!(Wait::ALL.map(|rule| counts.waits(rule)), [0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
