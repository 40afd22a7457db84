//! The schema of a new PostgreSQL database in one query: what all steps make, without what later steps change again.

use crate::MIGRATIONS;

/// The tables and indexes that all steps make, as `pg_dump` writes them. A test of `store` compares the file with a database
/// that went through the steps, and writes the file when `UPDATE_SCHEMA` is set.
const TABLES: &str = include_str!("../migrations/baseline_postgres.sql");

/// The statements that give an empty PostgreSQL database its whole schema. They fail with `duplicate_table`, and change
/// nothing, if another program was faster.
pub fn baseline() -> String {
    let applied: Vec<String> = MIGRATIONS
        .iter()
        .map(|step| {
            let name = step.name.replace('\'', "''");
            // The time comes from the server's clock, because the program may run anywhere.
            format!("({}, '{name}', (extract(epoch FROM now()) * 1000)::bigint)", step.version)
        })
        .collect();
    format!(
        "{TABLES}\nINSERT INTO schema_version (version, name, applied_at_ms) VALUES {};",
        applied.join(", ")
    )
}
