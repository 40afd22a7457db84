//! The schema of a tenant's database: forward-only migrations for PostgreSQL and SQLite.
//!
//! This crate contains the texts, and decides which steps a database lacks. The caller runs these steps in one
//! transaction under a lock, so that concurrent or repeated runs do no harm. With the feature `postgres`, this crate
//! connects to PostgreSQL by a URL and runs them itself.
//!
//! ```
//! use docket_schema::{AppliedMigrations, MIGRATIONS};
//!
//! // A database without a schema lacks all steps; a database that is ahead by an additive step lacks none.
//! assert_eq!(AppliedMigrations::default().missing(), Ok(MIGRATIONS));
//! let newest = MIGRATIONS.len() as i64;
//! assert_eq!(AppliedMigrations { version: newest + 1, needed: newest }.missing(), Ok(&[][..]));
//! assert!(AppliedMigrations { version: newest + 1, needed: newest + 1 }.missing().is_err());
//! ```

#[cfg(feature = "postgres")]
pub mod postgres;
mod statements;

pub use statements::statements;

/// One step forward. A released step is never edited: a correction is a new step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The number of the step: from 1, without gaps.
    pub version: i64,
    /// The name of the step for people. It ends in ` (additive)` if programs that do not know the step keep working:
    /// during an upgrade, both versions use one database.
    pub name: &'static str,
    /// The statements of the step.
    pub sql: Sql,
    /// What the step does to an existing PostgreSQL database while programs use it: which tables it locks, reads or
    /// rewrites. One line for people who plan an upgrade. It does not name the indexes, which a worker builds later.
    pub cost: &'static str,
    /// The indexes that the step adds to tables that grow. SQLite builds them within the step, and so does PostgreSQL
    /// in a new database. In an existing PostgreSQL database a worker builds them later, and programs work without
    /// them until then.
    pub indexes: &'static [Index],
}

/// An index on a table that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// The name of the index in the database.
    pub name: &'static str,
    /// The statement that builds the index and blocks writes to its table meanwhile. It begins with `CREATE INDEX`.
    pub create: &'static str,
    /// What PostgreSQL runs before a worker builds the index: it updates older rows. Empty: nothing.
    pub first: &'static str,
}

impl Index {
    /// The PostgreSQL statement that builds the index without blocking writes. It runs outside a transaction.
    pub fn create_concurrently(self) -> String {
        self.create.replacen("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
    }
}

/// The indexes that a worker builds on PostgreSQL without blocking writes, if the schema has this version. Indexes
/// of later steps may name columns that the database does not have yet.
pub fn indexes(version: i64) -> impl Iterator<Item = Index> {
    let applied = MIGRATIONS.iter().filter(move |migration| migration.version <= version);
    applied.flat_map(|migration| migration.indexes).copied()
}

/// The statements of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sql {
    /// The same statements for both databases.
    Both(&'static str),
    /// Separate statements, which end with the same tables. SQLite may keep a check that costs it little.
    Each {
        /// The statements for PostgreSQL. They hold no lock on a large table for longer than a moment.
        postgres: &'static str,
        /// The statements for SQLite.
        sqlite: &'static str,
    },
}

impl Migration {
    /// Whether programs that do not know the step keep working with it.
    pub fn is_additive(&self) -> bool {
        self.name.ends_with(ADDITIVE)
    }

    /// The name without the mark that the step is additive.
    pub fn title(&self) -> &'static str {
        self.name.strip_suffix(ADDITIVE).unwrap_or(self.name)
    }
}

impl Migration {
    /// One line for people: the step and what it costs, such as `23 ended sessions: creates a table`.
    pub fn described(&self) -> String {
        let Self { version, cost, .. } = self;
        let mark = if self.is_additive() { "" } else { " (not additive: no rollback over it)" };
        let indexes: Vec<&str> = self.indexes.iter().map(|index| index.name).collect();
        let afterwards = match indexes.is_empty() {
            true => String::new(),
            false => format!("; afterwards a worker builds {} and blocks no write", indexes.join(", ")),
        };
        format!("{version} {}{mark}: {cost}{afterwards}", self.title())
    }
}

/// What the name of an additive step ends in.
const ADDITIVE: &str = " (additive)";

impl Sql {
    /// The statements for PostgreSQL.
    pub fn postgres(self) -> &'static str {
        match self {
            Self::Both(sql) | Self::Each { postgres: sql, .. } => sql,
        }
    }

    /// The statements for SQLite.
    pub fn sqlite(self) -> &'static str {
        match self {
            Self::Both(sql) | Self::Each { sqlite: sql, .. } => sql,
        }
    }
}

/// The last step of the previous release. With this version of the schema and all later ones, this release accepts
/// saves and sign-ins, delivers and exports: a rollout replaces programs and migrates databases in any order. What
/// needs a later step reports that it is not available until the database has it.
///
/// After a release, raise it to the last step of that release, and delete what asks for steps up to it.
pub const OLDEST: i64 = 20;

/// The step from which subscriptions to changes of webhooks work as they do now.
pub const SUBSCRIPTIONS: i64 = 24;

/// The step that brought ended sessions.
pub const ENDED_SESSIONS: i64 = 23;

/// The step that brought details of entries of the audit.
pub const AUDIT_DETAILS: i64 = 25;

// A program that asks for a step that every database has is to be shortened.
const _: () = assert!(SUBSCRIPTIONS > OLDEST && ENDED_SESSIONS > OLDEST && AUDIT_DETAILS > OLDEST);

/// Steps after [`OLDEST`] that are not additive, each with the reason. Programs of the previous release stop at such a
/// step, so that a rollback over it is not possible. It is better to split the change over two releases.
pub const NOT_ADDITIVE: &[(i64, &str)] = &[];

/// The newest step.
pub const NEWEST: i64 = MIGRATIONS.len() as i64;

/// All steps in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "orders and deliveries",
        sql: Sql::Both(include_str!("../migrations/0001_orders_and_deliveries.sql")),
        cost: "creates tables",
        indexes: &[],
    },
    Migration {
        version: 2,
        name: "back office",
        sql: Sql::Both(include_str!("../migrations/0002_back_office.sql")),
        cost: "creates tables",
        indexes: &[],
    },
    Migration {
        version: 3,
        name: "webhook health (additive)",
        sql: Sql::Both(include_str!("../migrations/0003_webhook_health.sql")),
        cost: "creates an index on finished deliveries and blocks their writes meanwhile",
        indexes: &[],
    },
    Migration {
        version: 4,
        name: "delivery queue",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0004_delivery_queue_postgres.sql"),
            sqlite: include_str!("../migrations/0004_delivery_queue_sqlite.sql"),
        },
        cost: "locks the delivery tables, and moves unfinished deliveries to a table of their own",
        indexes: &[],
    },
    Migration {
        version: 5,
        name: "searches for rare values (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0005_rare_values_postgres.sql"),
            // SQLite can't drop a constraint without copying the table, and the constraint's check costs little.
            sqlite: "",
        },
        cost: "locks delivery_history for a moment to drop a constraint",
        // The indexes contain only the searched columns, so that equal entries are stored once: some 10 bytes per row.
        indexes: &[
            Index { name: "event_by_code", create: "CREATE INDEX event_by_code ON event (code)", first: "" },
            Index {
                name: "delivery_by_failure",
                create: "CREATE INDEX delivery_by_failure ON delivery_history (failure_class) \
                         WHERE failure_class IS NOT NULL",
                first: "",
            },
            Index {
                name: "web_order_by_status",
                create: "CREATE INDEX web_order_by_status ON web_order (status, order_type, customer_code)",
                first: "",
            },
        ],
    },
    Migration {
        version: 6,
        name: "sign-outs (additive)",
        sql: Sql::Both(include_str!("../migrations/0006_sign_outs.sql")),
        cost: "locks contact and employee for a moment to add a column",
        indexes: &[],
    },
    Migration {
        version: 7,
        name: "audit (additive)",
        sql: Sql::Both(include_str!("../migrations/0007_audit.sql")),
        cost: "creates a table",
        indexes: &[],
    },
    Migration {
        version: 8,
        name: "test events (additive)",
        sql: Sql::Both(include_str!("../migrations/0008_test_events.sql")),
        cost: "creates a table",
        indexes: &[],
    },
    Migration {
        version: 9,
        name: "contacts that manage webhooks (additive)",
        sql: Sql::Both(include_str!("../migrations/0009_contact_webhooks.sql")),
        cost: "locks contact for a moment to add a column",
        indexes: &[],
    },
    Migration {
        version: 10,
        name: "shown secrets (additive)",
        sql: Sql::Both(include_str!("../migrations/0010_shown_secrets.sql")),
        cost: "creates a table",
        indexes: &[],
    },
    Migration {
        version: 11,
        name: "last uses of API keys (additive)",
        sql: Sql::Both(include_str!("../migrations/0011_api_key_uses.sql")),
        cost: "creates a table",
        indexes: &[],
    },
    Migration {
        version: 12,
        // Not additive: an older program does not find the hand-offs of a process that died.
        name: "hand-offs",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0012_hand_offs_postgres.sql"),
            sqlite: include_str!("../migrations/0012_hand_offs_sqlite.sql"),
        },
        cost: "creates a table, and locks the views of deliveries for a moment to replace them",
        indexes: &[],
    },
    Migration {
        version: 13,
        name: "open dead letters (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0013_open_dead_letters_postgres.sql"),
            sqlite: include_str!("../migrations/0013_open_dead_letters_sqlite.sql"),
        },
        cost: "locks delivery_history for a moment to add columns",
        indexes: &[Index {
            name: "delivery_open",
            create: "CREATE INDEX delivery_open ON delivery_history (webhook, finished_at_ms) \
                     WHERE status = 'DeadLetter' AND resent IS NULL AND set_aside_at_ms IS NULL",
            // Resends are compared as bulk resends compare them. Older programs do not mark the deliveries that they resend.
            first: "UPDATE delivery_history d SET resent = TRUE WHERE d.status = 'DeadLetter' AND d.resent IS NULL AND (\
                    EXISTS (SELECT 1 FROM delivery_history n WHERE n.event_id = d.event_id AND n.webhook_name = d.webhook_name \
                    AND (n.created_at_ms, n.id) > (d.created_at_ms, d.id)) \
                    OR EXISTS (SELECT 1 FROM delivery_queue q WHERE q.event_id = d.event_id AND q.webhook_name = d.webhook_name))",
        }],
    },
    Migration {
        version: 14,
        name: "failure causes (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0014_failure_causes_postgres.sql"),
            sqlite: include_str!("../migrations/0014_failure_causes_sqlite.sql"),
        },
        cost: "locks attempt_history for a moment to add columns",
        indexes: &[],
    },
    Migration {
        version: 15,
        // Not additive: an older program knows webhooks only by their uids.
        name: "keys of webhooks",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0015_webhook_keys_postgres.sql"),
            sqlite: include_str!("../migrations/0015_webhook_keys_sqlite.sql"),
        },
        cost: "creates a table, and locks delivery_history for a moment to add a column and an unchecked constraint",
        indexes: &[],
    },
    Migration {
        version: 16,
        name: "seen missing webhooks (additive)",
        sql: Sql::Both(include_str!("../migrations/0016_seen_missing_webhooks.sql")),
        cost: "locks missing_webhook for a moment to add a column",
        indexes: &[],
    },
    Migration {
        version: 17,
        name: "what stopped resends withdrew (additive)",
        sql: Sql::Both(include_str!("../migrations/0017_resends_taken_back.sql")),
        cost: "locks resend for a moment to add a column",
        indexes: &[],
    },
    Migration {
        version: 18,
        name: "folded searches (additive)",
        sql: Sql::Both(include_str!("../migrations/0018_folded_searches.sql")),
        cost: "creates a table; workers fold the searched texts of older orders afterwards, a few at a time",
        indexes: &[],
    },
    Migration {
        version: 19,
        name: "addresses of servees (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0019_servee_addresses_postgres.sql"),
            // The check costs SQLite little. For a check, PostgreSQL would read the whole table.
            sqlite: include_str!("../migrations/0019_servee_addresses_sqlite.sql"),
        },
        cost: "locks work_order for a moment to add a column",
        indexes: &[],
    },
    Migration {
        version: 20,
        name: "searches by external reference (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0020_external_references_postgres.sql"),
            sqlite: include_str!("../migrations/0020_external_references_sqlite.sql"),
        },
        cost: "locks web_order for a moment to add a column",
        indexes: &[Index {
            name: "web_order_by_reference",
            create: "CREATE INDEX web_order_by_reference ON web_order (external_reference) WHERE external_reference IS NOT NULL",
            // A few rows at a time, because a save waits for a row that is being changed. Older programs do not write
            // the column.
            first: "DO $$ DECLARE after_id text := ''; last_id text; BEGIN LOOP \
                    SELECT max(id) INTO last_id FROM (SELECT id FROM web_order WHERE id > after_id ORDER BY id LIMIT 1000) AS few; \
                    EXIT WHEN last_id IS NULL; \
                    UPDATE web_order SET external_reference = body::json ->> 'externalReference' \
                    WHERE id > after_id AND id <= last_id AND external_reference IS NULL \
                    AND strpos(body, '\"externalReference\":') > 0; \
                    COMMIT; after_id := last_id; END LOOP; END $$",
        }],
    },
    Migration {
        version: 21,
        name: "subscriptions to changes of webhooks (additive)",
        sql: Sql::Both(include_str!("../migrations/0021_subscriptions.sql")),
        cost: "creates tables",
        indexes: &[],
    },
    Migration {
        version: 22,
        name: "searches for resends (additive)",
        sql: Sql::Both(""),
        cost: "changes no table",
        indexes: &[Index {
            name: "delivery_of_resend",
            create: "CREATE INDEX delivery_of_resend ON delivery_history (created_at_ms, id) WHERE resend_of IS NOT NULL",
            first: "",
        }],
    },
    Migration {
        version: 23,
        name: "ended sessions (additive)",
        sql: Sql::Both(include_str!("../migrations/0023_ended_sessions.sql")),
        cost: "creates a table",
        indexes: &[],
    },
    Migration {
        version: 24,
        name: "notices that others replaced (additive)",
        sql: Sql::Both(include_str!("../migrations/0024_replaced_notices.sql")),
        cost: "creates a table and adds four columns without values",
        indexes: &[],
    },
    Migration {
        version: 25,
        name: "details of the audit, and searches for marked dead letters (additive)",
        sql: Sql::Both(include_str!("../migrations/0025_audit_detail.sql")),
        cost: "locks audit for a moment to add a column",
        indexes: &[
            // Pages of the portal name the webhooks that were removed.
            Index {
                name: "audit_of_removal",
                create: "CREATE INDEX audit_of_removal ON audit (at_ms) WHERE event = 'WebhookRemoved'",
                first: "",
            },
            // Searches for marked dead letters do not read the open ones.
            Index {
                name: "delivery_resent",
                create: "CREATE INDEX delivery_resent ON delivery_history (webhook, created_at_ms) \
                         WHERE status = 'DeadLetter' AND resent IS NOT NULL",
                first: "",
            },
            Index {
                name: "delivery_set_aside",
                create: "CREATE INDEX delivery_set_aside ON delivery_history (webhook, created_at_ms) \
                         WHERE status = 'DeadLetter' AND set_aside_at_ms IS NOT NULL",
                first: "",
            },
        ],
    },
    Migration {
        version: 26,
        name: "searches for rare HTTP statuses, and searches of the audit (additive)",
        sql: Sql::Both(""),
        cost: "changes no table",
        indexes: &[
            // A status may be rare among many failures of its class. Nearly all deliveries succeed with 200, so they are left out.
            Index {
                name: "delivery_by_http_status",
                create: "CREATE INDEX delivery_by_http_status ON delivery_history (http_status) WHERE http_status <> 200",
                first: "",
            },
            Index {
                name: "audit_by_event",
                create: "CREATE INDEX audit_by_event ON audit (event, at_ms)",
                first: "",
            },
            Index {
                name: "audit_by_actor",
                create: "CREATE INDEX audit_by_actor ON audit (actor, at_ms) WHERE actor IS NOT NULL",
                first: "",
            },
            Index {
                name: "audit_by_subject",
                create: "CREATE INDEX audit_by_subject ON audit (subject, at_ms) WHERE subject IS NOT NULL",
                first: "",
            },
        ],
    },
];

/// Creates the table of applied steps, if it does not exist. Runs before [`CURRENT_VERSION`].
pub const CREATE_VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version \
     (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at_ms BIGINT NOT NULL)";

/// Returns whether the table of applied steps exists, on PostgreSQL.
pub const HAS_VERSION_TABLE: &str = "SELECT to_regclass('schema_version') IS NOT NULL";

/// The query for [`AppliedMigrations`]: the highest version, and the highest that is not additive; 0 on an empty database.
pub const CURRENT_VERSION: &str = "SELECT coalesce(max(version), 0), \
     coalesce(max(CASE WHEN name NOT LIKE '% (additive)' THEN version END), 0) FROM schema_version";

/// Records a step as applied. Its parameters are version, name and milliseconds since 1970.
pub const RECORD_VERSION: &str =
    "INSERT INTO schema_version (version, name, applied_at_ms) VALUES ($1, $2, $3)";

/// The PostgreSQL advisory lock that a migration holds until its transaction ends.
pub const ADVISORY_LOCK: i64 = 0x646f_636b_6574;

/// The PostgreSQL advisory lock of the session that builds [`indexes`].
pub const INDEX_LOCK: i64 = ADVISORY_LOCK + 1;

/// A later version of Docket migrated the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database has schema version {found}, this Docket knows {newest}; run a newer Docket", newest = NEWEST)]
pub struct NewerSchema {
    /// The version found in the database.
    pub found: i64,
}

/// Why a program that does not migrate can't use a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnfitSchema {
    /// The schema is older than [`OLDEST`].
    #[error(
        "the database has schema version {found}, this Docket works with versions {oldest} to {newest}; the operator migrates it: see \
         the Tenant's condition DatabaseReady",
        oldest = OLDEST, newest = NEWEST
    )]
    Older {
        /// The version found in the database; 0: none.
        found: i64,
    },
    /// The database has steps that the program does not know and needs.
    #[error(transparent)]
    Newer(NewerSchema),
}

/// The steps that were applied to a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppliedMigrations {
    /// The highest version applied.
    pub version: i64,
    /// The lowest version that a program must know to use the database: the steps after it are additive.
    pub needed: i64,
}

impl AppliedMigrations {
    /// The steps that the database lacks; empty if the database is ahead only by additive steps.
    pub fn missing(self) -> Result<&'static [Migration], NewerSchema> {
        let version = usize::try_from(self.version).unwrap_or(usize::MAX);
        match MIGRATIONS.get(version..) {
            Some(missing) => Ok(missing),
            None if self.needed <= MIGRATIONS.len() as i64 => Ok(&[]),
            None => Err(NewerSchema { found: self.version }),
        }
    }

    /// The version, if a program that does not migrate can use the database.
    pub fn usable(self) -> Result<i64, UnfitSchema> {
        self.missing().map_err(UnfitSchema::Newer)?;
        match self.version < OLDEST {
            true => Err(UnfitSchema::Older { found: self.version }),
            false => Ok(self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, index as i64 + 1, "{}", migration.name);
        }
    }

    #[test]
    fn missing_are_the_steps_after_the_applied_ones() {
        let missing = |version, needed| AppliedMigrations { version, needed }.missing();
        assert_eq!(missing(0, 0), Ok(MIGRATIONS));
        let newest = MIGRATIONS.len() as i64;
        assert_eq!(missing(newest, newest), Ok(&[][..]));
        assert_eq!(missing(99, newest), Ok(&[][..]), "what came after is additive");
        assert_eq!(missing(99, 98), Err(NewerSchema { found: 99 }));
        assert_eq!(missing(-1, 99), Err(NewerSchema { found: -1 }), "no program writes that");
    }

    #[test]
    fn database_is_usable_from_the_last_step_of_the_previous_release_on() {
        let usable = |version, needed| AppliedMigrations { version, needed }.usable();
        assert_eq!(usable(0, 0), Err(UnfitSchema::Older { found: 0 }));
        assert_eq!(usable(OLDEST - 1, 15), Err(UnfitSchema::Older { found: OLDEST - 1 }));
        for version in OLDEST..=NEWEST {
            assert_eq!(usable(version, 15), Ok(version));
        }
        assert_eq!(usable(NEWEST + 2, NEWEST), Ok(NEWEST + 2), "what came after is additive");
        let newer = NewerSchema { found: NEWEST + 2 };
        assert_eq!(usable(NEWEST + 2, NEWEST + 1), Err(UnfitSchema::Newer(newer)));
        let message = UnfitSchema::Older { found: 12 }.to_string();
        let versions = format!("has schema version 12, this Docket works with versions {OLDEST} to {NEWEST}");
        assert!(message.contains(&versions) && message.contains("the operator migrates it"), "{message}");
    }

    #[test]
    fn step_after_the_previous_release_is_additive_or_has_a_reason() {
        let not_additive: Vec<i64> = MIGRATIONS
            .iter()
            .filter(|step| step.version > OLDEST && !step.is_additive())
            .map(|step| step.version)
            .collect();
        let with_reason: Vec<i64> = NOT_ADDITIVE.iter().map(|(version, _)| *version).collect();
        assert_eq!(not_additive, with_reason);
        assert!(NOT_ADDITIVE.iter().all(|(_, reason)| reason.len() > 20), "a sentence says why");
    }

    /// The statements of an SQL text, without comments, in lower case and with single blanks.
    fn statements(sql: &str) -> Vec<String> {
        let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        let statements = text.split(';').map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "));
        statements.filter(|one| !one.is_empty()).collect()
    }

    /// Why the statements of the previous release may fail or mean something else after this one; `None`: they do not.
    fn contraction(statement: &str, created: &[String]) -> Option<&'static str> {
        const FORBIDDEN: [(&str, &str); 9] = [
            ("drop table", "drops a table"),
            ("drop column", "drops a column"),
            ("drop default", "an INSERT of before lacks the value"),
            (" rename ", "renames"),
            (" set not null", "refuses a NULL of before"),
            (" type ", "changes a type"),
            ("create unique index", "refuses a row of before"),
            (" set schema", "moves a table"),
            ("truncate ", "deletes rows"),
        ];
        if let Some((_, why)) = FORBIDDEN.iter().find(|(word, _)| format!(" {statement} ").contains(word)) {
            return Some(why);
        }
        let of_new_table = created.iter().any(|table| {
            ["alter table ", "insert into ", "delete from ", "update "]
                .iter()
                .any(|verb| statement.starts_with(&format!("{verb}{table} ")))
        });
        if of_new_table {
            return None;
        }
        if statement.starts_with("delete from ") {
            return Some("deletes rows");
        }
        if statement.starts_with("alter table ") {
            let adds_column = statement.contains(" add column ");
            if statement.contains(" add constraint ") || statement.contains(" add check ") {
                return Some("refuses a row of before");
            }
            if adds_column && statement.contains(" not null") && !statement.contains(" default ") {
                return Some("an INSERT of before lacks the new column");
            }
        }
        None
    }

    /// The table that a statement creates.
    fn created(statement: &str) -> Option<String> {
        let rest = statement.strip_prefix("create table ")?;
        Some(rest.split([' ', '(']).next().unwrap_or_default().to_owned())
    }

    #[test]
    fn additive_step_drops_renames_and_tightens_nothing() {
        for step in MIGRATIONS.iter().filter(|step| step.version > OLDEST && step.is_additive()) {
            for sql in [step.sql.postgres(), step.sql.sqlite()] {
                let statements = statements(sql);
                let new: Vec<String> = statements.iter().filter_map(|one| created(one)).collect();
                for statement in &statements {
                    assert_eq!(contraction(statement, &new), None, "step {}: {statement}", step.version);
                }
            }
        }
    }

    #[test]
    fn statement_that_a_program_of_before_can_feel_is_found() {
        for wrong in [
            "DROP TABLE note;",
            "ALTER TABLE contact DROP COLUMN email",
            "ALTER TABLE contact RENAME COLUMN email TO mail",
            "ALTER TABLE contact RENAME TO contacts",
            "ALTER TABLE contact ALTER COLUMN email SET NOT NULL",
            "ALTER TABLE contact ALTER COLUMN email TYPE varchar(9)",
            "ALTER TABLE contact ADD COLUMN age BIGINT NOT NULL",
            "ALTER TABLE contact ADD CONSTRAINT c CHECK (code <> '')",
            "CREATE UNIQUE INDEX one ON contact (email)",
            "DELETE FROM contact",
        ] {
            let wrong = &statements(wrong)[0];
            assert!(contraction(wrong, &[]).is_some(), "{wrong}");
        }
        for right in [
            "CREATE TABLE a (b TEXT NOT NULL); -- drop table\n",
            "ALTER TABLE contact ADD COLUMN age BIGINT NOT NULL DEFAULT 0",
            "INSERT INTO counter (name, value) VALUES ('notice', 0)",
            "CREATE OR REPLACE VIEW attempt AS SELECT 1",
        ] {
            let right = &statements(right)[0];
            assert_eq!(contraction(right, &[]), None, "{right}");
        }
    }

    #[test]
    fn each_step_says_what_it_costs() {
        for step in MIGRATIONS {
            assert!(!step.cost.is_empty() && !step.cost.contains('\n'), "{}", step.name);
            assert!(!step.title().ends_with(')'), "{}", step.name);
        }
        assert_eq!(MIGRATIONS[22].described(), "23 ended sessions: creates a table");
        assert_eq!(
            MIGRATIONS[21].described(),
            "22 searches for resends: changes no table; afterwards a worker builds delivery_of_resend and blocks no write"
        );
        assert!(
            MIGRATIONS[14]
                .described()
                .starts_with("15 keys of webhooks (not additive: no rollback over it): ")
        );
    }
}
