//! The commands beside the servers: people and deliveries of a tenant, also while `docket dev` or `docket serve` runs on
//! the same data.

pub mod deliveries;
pub mod healthcheck;
pub mod listen;
pub mod people;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use docket_cluster::Cluster;
use docket_crds::TenantConfig;
use docket_folder::{Folder, Loaded};

use crate::args::{SourceArguments, TenantArguments};
use crate::tenants::Held;
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::Database;
use docket_store::postgres::Postgres;
use docket_store::sqlite::Sqlite;
use docket_store::stores::file_of;

/// Connections of a command to PostgreSQL.
const CONNECTIONS: usize = 2;

/// What a command wants of a tenant that has no data yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfNew {
    /// Begin with it, if it is declared: people are added before the first start, too.
    Begin,
    /// Nothing can be in it.
    Refuse,
}

/// A tenant's database. The data folder knows it by its client code; what is declared matters only for one that has no
/// data yet, so that a mistake in the YAML keeps nobody from the data. The one of a served tenant is where its
/// configuration says.
async fn open(at: &TenantArguments, clock: &Clock, if_new: IfNew) -> Result<Database> {
    if at.is_served() {
        return open_served(at, clock).await;
    }
    let data_dir = &at.source.data_dir;
    let file = match existing_file(data_dir, &at.tenant) {
        Some(file) => file,
        None => new_file(at, if_new)?,
    };
    let database = Database::Sqlite(Sqlite::new(file.clone()));
    let migrated = database.migrate(clock).await;
    migrated.with_context(|| format!("the database {} can't be opened", file.display()))?;
    Ok(database)
}

async fn open_served(at: &TenantArguments, clock: &Clock) -> Result<Database> {
    let declared = declared(at).await?;
    let Some(config) = &declared.config else {
        for problem in &declared.problems {
            eprintln!("{problem}");
        }
        let (tenant, place) = (&at.tenant, &declared.place);
        bail!(
            "no tenant with clientCode {tenant} is served from {place}; there are: {}",
            declared.codes.join(", ")
        );
    };
    let url = config.database.as_ref().context("the tenant's configuration names no database")?;
    let database = Database::Postgres(Postgres::new(url.expose(), CONNECTIONS)?);
    let migrated = database.migrate(clock).await;
    migrated.with_context(|| format!("the database of tenant {} can't be opened", config.client_code))?;
    Ok(database)
}

/// What is declared of a tenant, and what is known of the rest.
struct Declared {
    config: Option<TenantConfig>,
    held: Held,
    problems: Vec<String>,
    /// The client codes of all tenants.
    codes: Vec<String>,
    place: String,
}

async fn declared(at: &TenantArguments) -> Result<Declared> {
    match &at.config_namespace {
        Some(namespace) => declared_in_cluster(at, namespace).await,
        None => declared_in_folder(at),
    }
}

/// No keys are made for tenants that have none yet.
fn declared_in_folder(at: &TenantArguments) -> Result<Declared> {
    let SourceArguments { config_dir, data_dir } = &at.source;
    let mut folder = Folder::new(config_dir.clone(), data_dir.clone()).without_writing();
    if at.is_served() {
        folder = folder.with_external_databases();
    }
    let loaded = folder.load(&mut random::fill)?;
    let served = loaded.tenant(&at.tenant);
    let held = match served {
        Some(served) if !loaded.incomplete => Held::These(served.held_webhooks.clone()),
        // What can't be read right now is no reason: the running `docket dev` may serve its last good version.
        _ if !loaded.problems.is_empty() => Held::AllUnknown,
        _ => Held::These(Default::default()),
    };
    Ok(Declared {
        config: served.map(|served| served.config.clone()),
        held,
        problems: loaded.problems.iter().map(ToString::to_string).collect(),
        codes: loaded.tenants.iter().map(|served| served.config.client_code.to_string()).collect(),
        place: config_dir.display().to_string(),
    })
}

async fn declared_in_cluster(at: &TenantArguments, namespace: &str) -> Result<Declared> {
    let cluster = Cluster::new(namespace.to_owned()).await.context("--config-namespace")?;
    let loaded = cluster.load().await.context("--config-namespace")?;
    let served = loaded.tenant(&at.tenant);
    let held = served.map(|served| served.runtime.held_webhooks.clone()).unwrap_or_default();
    Ok(Declared {
        config: served.map(|served| served.runtime.config.clone()),
        held: Held::These(held),
        codes: loaded.tenants.iter().map(|served| served.runtime.config.client_code.to_string()).collect(),
        problems: loaded.problems,
        place: format!("namespace {namespace}"),
    })
}

/// The database of the tenant with this client code, in any case.
fn existing_file(data_dir: &Path, client_code: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(data_dir.join("tenants")).ok()?;
    let mut codes = folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok());
    let code = codes.find(|code| code.eq_ignore_ascii_case(client_code))?;
    Some(file_of(data_dir, &code)).filter(|file| file.exists())
}

fn load(source: &SourceArguments) -> Result<Loaded> {
    Folder::new(source.config_dir.clone(), source.data_dir.clone()).load(&mut random::fill)
}

fn declared_external(mut folder: Folder, client_code: &str) -> Result<bool> {
    let loaded = folder.load(&mut random::fill)?;
    Ok(loaded.tenant(client_code).is_some_and(|served| served.config.database.is_some()))
}

fn new_file(at: &TenantArguments, if_new: IfNew) -> Result<PathBuf> {
    let SourceArguments { config_dir, data_dir } = &at.source;
    let shown = data_dir.display();
    if if_new == IfNew::Refuse {
        bail!("there is no data of a tenant {} in {shown}; is this the --data-dir of docket dev?", at.tenant);
    }
    let loaded = load(&at.source)?;
    let Some(served) = loaded.tenant(&at.tenant) else {
        for problem in &loaded.problems {
            eprintln!("{problem}");
        }
        let codes: Vec<&str> =
            loaded.tenants.iter().map(|served| served.config.client_code.as_str()).collect();
        let (tenant, folder) = (&at.tenant, config_dir.display());
        bail!("no tenant with clientCode {tenant} in {folder}; there are: {}", codes.join(", "));
    };
    // A file that `docket serve` would never read.
    let served_from =
        Folder::new(config_dir.clone(), data_dir.clone()).without_writing().with_external_databases();
    let external = declared_external(served_from, &at.tenant)?;
    if external {
        bail!(
            "tenant {} has a database on a server (spec.database.external), and no data in {shown}: add --postgresql, \
             or start docket dev first if it is to have a file",
            at.tenant
        );
    }
    eprintln!("Tenant {} has no data in {shown} yet; it begins now.", served.config.client_code);
    Ok(file_of(data_dir, served.config.client_code.as_str()))
}
