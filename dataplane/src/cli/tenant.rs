//! The tenant of a command: what is declared of it, and its database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use docket_crds::Runtime;
use docket_program::clock::Clock;
use docket_program::random;
use docket_program::screen::clean_lines;
use docket_source::{ClusterSource, Declaration, Folder, Source};
use docket_store::Database;
use docket_store::postgres::{Budget, ConnectionLimits, Postgres};
use docket_store::sqlite::Sqlite;
use docket_store::stores::file_of;

use crate::args::{SourceArguments, TenantArguments};
use crate::tenancy::HeldWebhooks;

/// Connections of a command to PostgreSQL.
const CONNECTIONS: usize = 2;

/// What a command does if the tenant has no data yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfNew {
    /// Create the database if the tenant is declared: people may be added before the first start.
    Create,
    /// Fail: the database does not exist, so nothing can be in it.
    Refuse,
}

/// What is declared of a tenant.
pub(super) struct CliTenant {
    /// Its configuration; `None` if it is not declared, or broken.
    pub(super) runtime: Option<Arc<Runtime>>,
    /// Its webhooks on hold.
    pub(super) held: HeldWebhooks,
    declaration: Declaration,
    /// The place of the tenant's declaration.
    place: String,
}

impl CliTenant {
    fn new(at: &TenantArguments, place: String, declaration: Declaration) -> Self {
        let runtime = declaration.tenant(&at.tenant).map(|tenant| Arc::clone(&tenant.runtime));
        let held = match &runtime {
            Some(runtime) if !declaration.incomplete => HeldWebhooks::These(runtime.held()),
            // A running `docket dev` may serve the last good version of what can't be read now.
            _ if !declaration.problems.is_empty() => HeldWebhooks::AllUnknown,
            _ => HeldWebhooks::These(Default::default()),
        };
        Self { runtime, held, declaration, place }
    }

    /// Returns the configuration, or an error that names the tenants that are declared. Prints what is wrong with the others.
    pub(super) fn declared(&self, client_code: &str) -> Result<&Runtime> {
        self.runtime.as_deref().ok_or_else(|| {
            for problem in &self.declaration.problems {
                eprintln!("{}", clean_lines(&problem.to_string()));
            }
            let codes = self.declaration.client_codes().join(", ");
            anyhow!("no tenant with clientCode {client_code} in {}; there are: {codes}", self.place)
        })
    }
}

/// Reads what is declared of the tenant. Generates no keys.
pub(super) async fn find(at: &TenantArguments) -> Result<CliTenant> {
    let (declaration, place) = match &at.config_namespace {
        Some(namespace) => of_cluster(namespace).await?,
        None => {
            let folder = folder(at)?;
            let folder = if at.is_served() { folder.with_external_databases() } else { folder };
            of_folder(folder, &at.source).await?
        }
    };
    Ok(CliTenant::new(at, place, declaration))
}

/// Reads what is declared in a cluster, and says where that is.
pub(super) async fn of_cluster(namespace: &str) -> Result<(Declaration, String)> {
    let cluster = ClusterSource::new(namespace.to_owned()).await.context("--config-namespace")?;
    let declaration = Source::Cluster(Box::new(cluster)).load(random::fill).await?;
    Ok((declaration, format!("namespace {namespace}")))
}

/// Reads what is declared in a folder, and says where that is. Generates no keys.
pub(super) async fn of_folder(folder: Folder, at: &SourceArguments) -> Result<(Declaration, String)> {
    let declaration = Source::Folder(Box::new(folder.without_writing())).load(random::fill).await?;
    Ok((declaration, at.config_dir.display().to_string()))
}

fn folder(at: &TenantArguments) -> Result<Folder> {
    let folder = Folder::new(at.source.config_dir.clone(), at.source.data_dir.clone());
    Ok(folder.with_limits(at.databases.limits.read()?))
}

/// Opens a tenant's database. The database of a served tenant is where its configuration says. In a data folder it is found
/// by the client code, and only a tenant without data must be declared: a mistake in the YAML makes no data inaccessible.
pub(super) async fn open(at: &TenantArguments, clock: &Clock, if_new: IfNew) -> Result<Database> {
    let (database, shown) = match at.is_served() {
        true => served_database(at).await?,
        false => file_database(at, if_new)?,
    };
    let opened = match at.config_namespace {
        // The operator migrates it, in its own order.
        Some(_) => database.expect_schema().await,
        None => database.migrate(clock).await,
    };
    opened.with_context(|| format!("{shown} can't be opened"))?;
    Ok(database)
}

async fn served_database(at: &TenantArguments) -> Result<(Database, String)> {
    let found = find(at).await?;
    let config = &found.declared(&at.tenant)?.config;
    let url = config.database.as_ref().context("the tenant's configuration names no database")?;
    let budget = Budget::new(ConnectionLimits { total: CONNECTIONS, per_tenant: CONNECTIONS });
    let postgres = match config.database_is_external {
        true => Postgres::external(
            url.expose(),
            &budget,
            &Arc::new(at.databases.external.policy(at.config_namespace.is_some())),
        )
        .context("spec.database.external")?,
        false => Postgres::within(url.expose(), &budget)?,
    };
    Ok((Database::Postgres(postgres), format!("the database of tenant {}", config.client_code)))
}

fn file_database(at: &TenantArguments, if_new: IfNew) -> Result<(Database, String)> {
    let data_dir = &at.source.data_dir;
    let file = match existing_file(data_dir, &at.tenant) {
        Some(file) => file,
        None if if_new == IfNew::Create => new_file(at)?,
        None => {
            let codes = codes(data_dir).join(", ");
            bail!(
                "no tenant with clientCode {} in {}; there are: {codes}. Is this the --data-dir of docket dev?",
                at.tenant,
                data_dir.display()
            )
        }
    };
    let shown = format!("the database {}", file.display());
    Ok((Database::Sqlite(Sqlite::new(file)), shown))
}

/// The database file of the tenant with this client code, in upper or lower case.
pub(super) fn existing_file(data_dir: &Path, client_code: &str) -> Option<PathBuf> {
    let code = codes(data_dir).into_iter().find(|code| code.eq_ignore_ascii_case(client_code))?;
    Some(file_of(data_dir, &code)).filter(|file| file.exists())
}

/// The client codes of the tenants that have data, sorted.
pub(super) fn codes(data_dir: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(data_dir.join("tenants")).into_iter().flatten();
    let mut codes: Vec<String> =
        folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok()).collect();
    codes.sort_unstable();
    codes
}

/// The file for the database of a declared tenant that has no data yet.
fn new_file(at: &TenantArguments) -> Result<PathBuf> {
    let (config_dir, data_dir) = (at.source.config_dir.display(), &at.source.data_dir);
    let shown = data_dir.display();
    let found = CliTenant::new(at, config_dir.to_string(), folder(at)?.load(&mut random::fill)?);
    let code = &found.declared(&at.tenant)?.config.client_code;
    // `docket serve` would never read the file.
    if is_external(at)? {
        bail!(
            "tenant {} has a database on a server (spec.database.external), and no data in {shown}: add --postgresql, \
             or start docket dev first to create a file",
            at.tenant
        );
    }
    eprintln!("Tenant {code} has no data in {shown} yet; creating its database.");
    Ok(file_of(data_dir, code.as_str()))
}

fn is_external(at: &TenantArguments) -> Result<bool> {
    let declaration = folder(at)?.without_writing().with_external_databases().load(&mut random::fill)?;
    let tenant = declaration.tenant(&at.tenant);
    Ok(tenant.is_some_and(|tenant| tenant.runtime.config.database.is_some()))
}
