//! The statements that migrate a PostgreSQL database. A new database gets its schema at once: what all steps make, without
//! what later steps change again.

use crate::{CREATE_VERSION_TABLE, MIGRATIONS, Migration};

/// The tables and indexes that all steps make, as `pg_dump` writes them, without the table of applied steps. A test of `store`
/// compares the file with a database that went through the steps, and writes the file when `UPDATE_SCHEMA` is set.
const BASELINE: &str = include_str!("../migrations/baseline_postgres.sql");

/// Returns the statements that apply these steps, which a PostgreSQL database of this version lacks, and record them. If
/// another program has applied the steps in the meantime, the statements fail and, in one transaction, change nothing.
pub fn statements(version: i64, steps: &[Migration]) -> String {
    let mut statements = vec![CREATE_VERSION_TABLE.to_owned()];
    if version == 0 && steps.len() == MIGRATIONS.len() {
        statements.push(BASELINE.to_owned());
    } else {
        for step in steps {
            statements.push(step.sql.postgres().to_owned());
            let indexes = step.indexes.iter().filter(|_| version == 0);
            statements.extend(indexes.map(|index| index.create.to_owned()));
        }
    }
    statements.extend(steps.iter().map(|step| {
        let name = step.name.replace('\'', "''");
        // The time comes from the server's clock, because the program may run anywhere.
        let now = "(extract(epoch FROM now()) * 1000)::bigint";
        let columns = "version, name, applied_at_ms";
        format!("INSERT INTO schema_version ({columns}) VALUES ({}, '{name}', {now})", step.version)
    }));
    statements.join(";\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_database_gets_the_baseline_and_an_older_one_its_steps() {
        let new = statements(0, MIGRATIONS);
        assert!(new.contains(BASELINE));
        for step in MIGRATIONS {
            assert!(new.contains(&format!("VALUES ({}, '{}', ", step.version, step.name)), "{}", step.name);
        }
        let step = MIGRATIONS[4];
        let of_an_older_version = statements(0, &MIGRATIONS[..5]);
        let upgrade = statements(4, &[step]);
        for (text, builds_indexes) in [(&of_an_older_version, true), (&upgrade, false)] {
            assert!(!text.contains(BASELINE) && text.contains(step.sql.postgres()), "{text}");
            assert_eq!(text.contains(step.indexes[0].create), builds_indexes, "{text}");
            assert!(text.contains("VALUES (5, '"), "{text}");
        }
        assert_eq!(upgrade.matches("INSERT INTO schema_version").count(), 1);
    }
}
