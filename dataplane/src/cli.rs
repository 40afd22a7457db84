//! The commands beside the servers: people and deliveries of a tenant, also while `docket dev` runs on the same data.

pub mod deliveries;
pub mod listen;
pub mod people;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use docket_folder::{Folder, Loaded};

use crate::args::{SourceArguments, TenantArguments};
use crate::clock::Clock;
use crate::random;
use crate::store::Database;
use crate::store::sqlite::Sqlite;
use crate::tenants::stores::file_of;

/// What a command wants of a tenant that has no data yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfNew {
    /// Begin with it, if it is declared: people are added before the first start, too.
    Begin,
    /// Nothing can be in it.
    Refuse,
}

/// A tenant's database. The data folder knows it by its client code; what is declared matters only for one that has no
/// data yet, so that a mistake in the YAML keeps nobody from the data.
async fn open(at: &TenantArguments, clock: &Clock, if_new: IfNew) -> Result<Database> {
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

/// The database of the tenant with this client code, in any case.
fn existing_file(data_dir: &Path, client_code: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(data_dir.join("tenants")).ok()?;
    let mut codes = folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok());
    let code = codes.find(|code| code.eq_ignore_ascii_case(client_code))?;
    Some(file_of(data_dir, &code)).filter(|file| file.exists())
}

fn declared(source: &SourceArguments) -> Result<Loaded> {
    Folder::new(source.config_dir.clone(), source.data_dir.clone()).load(&mut random::fill)
}

fn new_file(at: &TenantArguments, if_new: IfNew) -> Result<PathBuf> {
    let SourceArguments { config_dir, data_dir } = &at.source;
    let shown = data_dir.display();
    if if_new == IfNew::Refuse {
        bail!("there is no data of a tenant {} in {shown}; is this the --data-dir of docket dev?", at.tenant);
    }
    let loaded = declared(&at.source)?;
    let Some(served) = loaded.tenant(&at.tenant) else {
        for problem in &loaded.problems {
            eprintln!("{problem}");
        }
        let codes: Vec<&str> =
            loaded.tenants.iter().map(|served| served.config.client_code.as_str()).collect();
        let (tenant, folder) = (&at.tenant, config_dir.display());
        bail!("no tenant with clientCode {tenant} in {folder}; there are: {}", codes.join(", "));
    };
    eprintln!("Tenant {} has no data in {shown} yet; it begins now.", served.config.client_code);
    Ok(file_of(data_dir, served.config.client_code.as_str()))
}
