//! `docket migrate`: brings databases up to date where no operator does, or says what that would do.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use docket_commands::arguments::Output;
use docket_commands::text;
use docket_program::clock::Clock;
use docket_program::random;
use docket_program::screen::clean;
use docket_schema::{Migration, NEWEST};
use docket_source::Folder;
use docket_store::Database;
use docket_store::postgres::{Budget, ConnectionLimits, Postgres};
use docket_store::sqlite::Sqlite;
use serde_json::{Value, json};

use super::table::table;
use super::tenant::{codes, existing_file};
use crate::args::MigrateArguments;

/// Connections to a database.
const CONNECTIONS: usize = 2;

/// A database, and the client code of its tenant.
struct NamedDatabase {
    /// `None`: the command names the database and no tenant.
    client_code: Option<String>,
    database: Database,
}

/// What became of a database.
struct Migrated {
    client_code: Option<String>,
    /// The version before; `None`: it could not be read.
    from: Option<i64>,
    /// The steps that the database lacked.
    steps: &'static [Migration],
    /// Why the database could not be read or migrated.
    problem: Option<String>,
}

/// `docket migrate`
pub async fn run(arguments: MigrateArguments) -> Result<()> {
    let databases = databases(&arguments)?;
    let mut all = Vec::with_capacity(databases.len());
    for database in databases {
        all.push(migrated(database, arguments.dry_run).await);
    }
    match arguments.printed.output {
        Output::Json => text::json(&object(&all, arguments.dry_run)),
        Output::Table | Output::Wide if all.is_empty() => println!("No databases."),
        Output::Table | Output::Wide => print(&all, arguments.dry_run),
    }
    match all.iter().filter(|one| one.problem.is_some()).count() {
        0 => Ok(()),
        failed => {
            let done = if arguments.dry_run { "read" } else { "migrated" };
            bail!("{failed} of {} databases could not be {done}", all.len())
        }
    }
}

fn databases(arguments: &MigrateArguments) -> Result<Vec<NamedDatabase>> {
    let budget = Budget::new(ConnectionLimits { total: CONNECTIONS, per_tenant: CONNECTIONS });
    if let Some(file) = &arguments.database_url_file {
        return Ok(vec![NamedDatabase { client_code: None, database: at_url(file, &budget)? }]);
    }
    if arguments.databases.postgresql {
        return declared(arguments, &budget);
    }
    let data_dir = &arguments.source.data_dir;
    let files = codes(data_dir).into_iter().filter_map(|code| {
        let file = existing_file(data_dir, &code)?;
        Some(NamedDatabase { client_code: Some(code), database: Database::Sqlite(Sqlite::new(file)) })
    });
    Ok(files.collect())
}

fn at_url(file: &Path, budget: &Budget) -> Result<Database> {
    let what = || format!("--database-url-file {}", file.display());
    let url = std::fs::read_to_string(file).with_context(what)?;
    Ok(Database::Postgres(Postgres::within(url.trim(), budget).with_context(what)?))
}

/// The databases of the tenants that a folder declares.
fn declared(arguments: &MigrateArguments, budget: &Budget) -> Result<Vec<NamedDatabase>> {
    let folder = Folder::new(arguments.source.config_dir.clone(), arguments.source.data_dir.clone());
    let limits = arguments.databases.limits.read()?;
    let mut folder = folder.with_limits(limits).without_writing().with_external_databases();
    let declaration = folder.load(&mut random::fill)?;
    if let Some(problem) = declaration.problems.first() {
        bail!("{problem}; nothing was migrated, because a tenant may be missing");
    }
    let allowed = Arc::new(arguments.databases.external.policy(false));
    let databases = declaration.tenants.iter().map(|tenant| {
        let (config, code) = (&tenant.runtime.config, &tenant.runtime.config.client_code);
        let url = config.database.as_ref();
        let url = url.with_context(|| format!("tenant {code} names no database (spec.database.external)"))?;
        let postgres = Postgres::external(url.expose(), budget, &allowed)
            .with_context(|| format!("tenant {code}: spec.database.external"))?;
        Ok(NamedDatabase { client_code: Some(code.to_string()), database: Database::Postgres(postgres) })
    });
    databases.collect()
}

async fn migrated(NamedDatabase { client_code, database }: NamedDatabase, is_dry_run: bool) -> Migrated {
    let unread = |problem: String| Migrated {
        client_code: client_code.clone(),
        from: None,
        steps: &[],
        problem: Some(problem),
    };
    let applied = match database.applied().await {
        Ok(applied) => applied,
        Err(error) => return unread(error.to_string()),
    };
    let missing = applied.missing();
    let steps = missing.unwrap_or_default();
    let mut problem = missing.err().map(|error| error.to_string());
    if !is_dry_run && problem.is_none() {
        problem = database.migrate(&Clock::System).await.err().map(|error| error.to_string());
    }
    Migrated { client_code, from: Some(applied.version), steps, problem }
}

fn object(all: &[Migrated], is_dry_run: bool) -> Value {
    let databases = all.iter().map(|one| {
        let is_migrated = !is_dry_run && one.problem.is_none();
        json!({
            "clientCode": one.client_code,
            "schemaVersion": if is_migrated { one.from.map(|from| from.max(NEWEST)) } else { one.from },
            "newest": NEWEST,
            "migrated": is_migrated && !one.steps.is_empty(),
            "steps": one.steps.iter().map(step).collect::<Vec<_>>(),
            "problem": one.problem,
        })
    });
    json!({ "databases": databases.collect::<Vec<_>>() })
}

fn step(step: &Migration) -> Value {
    json!({
        "version": step.version,
        "name": step.title(),
        "additive": step.is_additive(),
        "cost": step.cost,
        "indexes": step.indexes.iter().map(|index| index.name).collect::<Vec<_>>(),
    })
}

fn print(all: &[Migrated], is_dry_run: bool) {
    let rows = all.iter().map(|one| {
        let state = match (&one.problem, one.steps.len()) {
            (Some(problem), _) => problem.clone(),
            (None, 0) => "up to date".to_owned(),
            (None, count) if is_dry_run => format!("{count} pending"),
            (None, count) => format!("migrated by {count}"),
        };
        [
            one.client_code.clone().unwrap_or_else(|| "–".to_owned()),
            one.from.map_or_else(|| "–".to_owned(), |from| from.to_string()),
            NEWEST.to_string(),
            state,
        ]
    });
    print!("{}", table(["CLIENT CODE", "SCHEMA", "NEWEST", "STATE"], rows));
    let first = all.iter().filter(|one| !one.steps.is_empty()).min_by_key(|one| one.from);
    if let Some(first) = first.filter(|_| is_dry_run) {
        println!();
        for step in first.steps {
            println!("{}", clean(&step.described()));
        }
        println!("\nWhat a step costs is said for PostgreSQL. A SQLite file is locked during its migration.");
    }
}

#[cfg(test)]
mod tests {
    use docket_schema::MIGRATIONS;

    use super::*;

    #[test]
    fn only_a_database_that_was_behind_was_migrated_and_has_the_newest_version() {
        let one = |from: i64, problem: Option<&str>| {
            let steps = MIGRATIONS.split_at(MIGRATIONS.len().saturating_sub(usize::from(from < NEWEST))).1;
            let problem = problem.map(str::to_owned);
            Migrated { client_code: Some("ACME".to_owned()), from: Some(from), steps, problem }
        };
        let shown = |one: Migrated, is_dry_run: bool| {
            let object = object(&[one], is_dry_run);
            let of = &object["databases"][0];
            assert_eq!((&of["newest"], &of["clientCode"]), (&json!(NEWEST), &json!("ACME")));
            let steps = of["steps"].as_array().map_or(0, Vec::len);
            (of["schemaVersion"].as_i64(), of["migrated"] == true, steps)
        };
        let before = NEWEST - 1;
        assert_eq!(shown(one(before, None), false), (Some(NEWEST), true, 1));
        assert_eq!(shown(one(before, None), true), (Some(before), false, 1));
        assert_eq!(shown(one(before, Some("away")), false), (Some(before), false, 1));
        assert_eq!(shown(one(NEWEST, None), false), (Some(NEWEST), false, 0));
    }
}
