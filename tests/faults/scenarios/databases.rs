//! Faults of PostgreSQL and of the way to it while orders are saved (T-1b).

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use docket_rig::postgres::{self, PostgresServer};
use docket_rig::proxy::Way;
use docket_rig::scratch::Folder;
use docket_rig::small_disk::SmallDisk;
use tokio_postgres::NoTls;

use crate::hook::Manner;
use crate::outcome::{Budget, Outcome};
use crate::random::Random;
use crate::scenarios::under_saves::each_in_turn;
use crate::world::{Plan, World, within};

/// Few enough that a client can use all connections up.
const SETTINGS: &str = "max_connections = 80\n";
const CLIENTS: usize = 4;
const PAUSE_MS: u64 = 40;
/// The size of the disk with the databases. An order takes some 2 KB there, and this load saves at most 200 a second.
const DISK_MEBIBYTES: u32 = 768;

/// A fault of PostgreSQL or of the network in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// All its processes are killed.
    Crash,
    /// All sessions are ended.
    Sessions,
    /// The way is cut after a COMMIT, before its report.
    Committed,
    /// The way is cut after a question, before its response.
    Question,
    /// The way is cut after a number of bytes of responses.
    Bytes,
    /// All connections are reset.
    Reset,
    /// Nothing reaches the server.
    Mute,
    /// Nothing comes from the server.
    Deaf,
    /// Each question arrives late.
    Slow,
    /// Another client has all connections.
    Exhausted,
    /// Another client has locked the orders of one tenant.
    Locked,
    /// The disk with the databases is full.
    Full,
}

impl Fault {
    /// All faults that need nothing of the world's making.
    pub(crate) const ALL: [Self; 11] = [
        Self::Crash,
        Self::Sessions,
        Self::Committed,
        Self::Question,
        Self::Bytes,
        Self::Reset,
        Self::Mute,
        Self::Deaf,
        Self::Slow,
        Self::Exhausted,
        Self::Locked,
    ];

    /// Injects the fault and takes it back after `time`; returns whether it met something. `disk`: the folder of the databases.
    pub(crate) async fn happen(
        self,
        world: &World,
        time: Duration,
        disk: Option<&Path>,
        random: &mut Random,
    ) -> bool {
        let (proxy, cuts) = (&world.to_postgres, world.to_postgres.cuts());
        let is_cut = async || within(time, async || proxy.cuts() > cuts).await;
        let met = match self {
            Self::Crash => {
                world.postgres.crash();
                tokio::time::sleep(time / 4).await;
                world.postgres.start_again();
                true
            }
            Self::Sessions => world.kill_sessions().await > 0,
            Self::Committed => {
                proxy.cut_at_commit();
                is_cut().await
            }
            Self::Question => {
                proxy.cut_at_question(1 + random.below(40).cast_signed());
                is_cut().await
            }
            Self::Bytes => {
                proxy.cut_after(u32::try_from(random.below(4_000)).unwrap_or(0));
                is_cut().await
            }
            Self::Reset => {
                proxy.reset();
                tokio::time::sleep(time / 4).await;
                true
            }
            Self::Mute | Self::Deaf => {
                proxy.stall(if self == Self::Mute { Way::ToServer } else { Way::ToClient });
                tokio::time::sleep(time).await;
                true
            }
            Self::Slow => {
                proxy.delay(Duration::from_millis(20 + random.below(100)));
                tokio::time::sleep(time).await;
                proxy.delay(Duration::ZERO);
                true
            }
            Self::Exhausted => exhaust(world, time).await,
            Self::Locked => {
                let tenant = usize::try_from(random.below(world.tenants.len() as u64)).expect("few");
                let sql = world.sql(tenant).await;
                let lock = sql.batch_execute("BEGIN; LOCK TABLE web_order IN ACCESS EXCLUSIVE MODE").await;
                tokio::time::sleep(time).await;
                let unlock = sql.batch_execute("ROLLBACK").await;
                lock.is_ok() && unlock.is_ok()
            }
            Self::Full => {
                let Some(disk) = disk else { return false };
                let ballast = disk.join("ballast");
                let is_full = fill(&ballast);
                tokio::time::sleep(time).await;
                std::fs::remove_file(&ballast).is_ok() && is_full
            }
        };
        proxy.restore();
        met
    }
}

/// Takes all connections of the server, and keeps them for a time; returns whether the server refused a further one.
async fn exhaust(world: &World, time: Duration) -> bool {
    let url = world.postgres.url("postgres");
    world.kill_sessions().await;
    let (mut taken, mut refused) = (Vec::new(), false);
    while !refused && taken.len() < 500 {
        match tokio_postgres::connect(&url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                taken.push(client);
            }
            Err(_) => refused = true,
        }
    }
    tokio::time::sleep(time).await;
    drop(taken);
    // A connection is free a moment after its client has left.
    within(Duration::from_secs(10), async || tokio_postgres::connect(&url, NoTls).await.is_ok()).await
        && refused
}

/// Writes a file until the disk is full; returns whether it is.
fn fill(path: &Path) -> bool {
    let Ok(mut file) = File::create(path) else { return false };
    for size in [1 << 20, 4_096, 1] {
        let block = vec![0_u8; size];
        while file.write_all(&block).is_ok() {}
    }
    file.write_all(&[0]).is_err()
}

/// Makes a tablespace of the server in a folder, which the server's account must own.
async fn tablespace(server: &PostgresServer, folder: &Path) -> &'static str {
    let of_server = std::fs::metadata(server.log()).expect("it has a log");
    chown(folder, Some(of_server.uid()), Some(of_server.gid())).expect("root gives files away");
    let create = format!("CREATE TABLESPACE small LOCATION '{}'", folder.display());
    postgres::client(&server.url("postgres")).await.batch_execute(&create).await.expect("a tablespace");
    "small"
}

/// Injects all faults in turn while orders are saved.
pub(crate) async fn under_saves(budget: Budget, mut random: Random) -> Outcome {
    let folder = Folder::new("faults-disk");
    let disk = SmallDisk::mount(folder.path(), DISK_MEBIBYTES);
    let path: Option<PathBuf> = disk.is_some().then(|| folder.path().to_owned());
    // Retries wait meanwhile: a database that responds late must make none of them early.
    let manner = Manner { failing: 30, slow: 20, takes_ms: 200, ..Manner::default() };
    let plan = Plan { settings: SETTINGS, manner, ..Plan::default() };
    let place = async |server: &PostgresServer| match &path {
        Some(path) => Some(tablespace(server, path).await),
        None => None,
    };
    let mut world = World::start_with(plan, &mut random, |_| Vec::new(), place).await;
    let load = world.load(CLIENTS, PAUSE_MS);
    let mut faults = Fault::ALL.to_vec();
    faults.extend(path.is_some().then_some(Fault::Full));
    let happen = async |fault: Fault, world: &mut World, random: &mut Random| {
        let time = Duration::from_millis(1_000 + random.below(3_000));
        fault.happen(world, time, path.as_deref(), random).await
    };
    let mut outcome = each_in_turn(&mut world, load, &faults, budget, random, happen).await;
    outcome.figure("full disk", if path.is_some() { "tested" } else { "skipped: nothing can be mounted" });
    // The disk must outlive the server.
    drop(world);
    drop(disk);
    outcome
}
