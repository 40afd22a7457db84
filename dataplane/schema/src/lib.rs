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

/// The indexes that a worker builds on PostgreSQL without blocking writes.
pub fn indexes() -> impl Iterator<Item = Index> {
    MIGRATIONS.iter().flat_map(|migration| migration.indexes).copied()
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

/// All steps in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "orders and deliveries",
        sql: Sql::Both(include_str!("../migrations/0001_orders_and_deliveries.sql")),
        indexes: &[],
    },
    Migration {
        version: 2,
        name: "back office",
        sql: Sql::Both(include_str!("../migrations/0002_back_office.sql")),
        indexes: &[],
    },
    Migration {
        version: 3,
        name: "webhook health (additive)",
        sql: Sql::Both(include_str!("../migrations/0003_webhook_health.sql")),
        indexes: &[],
    },
    Migration {
        version: 4,
        name: "delivery queue",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0004_delivery_queue_postgres.sql"),
            sqlite: include_str!("../migrations/0004_delivery_queue_sqlite.sql"),
        },
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
        indexes: &[],
    },
    Migration {
        version: 7,
        name: "audit (additive)",
        sql: Sql::Both(include_str!("../migrations/0007_audit.sql")),
        indexes: &[],
    },
    Migration {
        version: 8,
        name: "test events (additive)",
        sql: Sql::Both(include_str!("../migrations/0008_test_events.sql")),
        indexes: &[],
    },
    Migration {
        version: 9,
        name: "contacts that manage webhooks (additive)",
        sql: Sql::Both(include_str!("../migrations/0009_contact_webhooks.sql")),
        indexes: &[],
    },
    Migration {
        version: 10,
        name: "shown secrets (additive)",
        sql: Sql::Both(include_str!("../migrations/0010_shown_secrets.sql")),
        indexes: &[],
    },
    Migration {
        version: 11,
        name: "last uses of API keys (additive)",
        sql: Sql::Both(include_str!("../migrations/0011_api_key_uses.sql")),
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
        indexes: &[],
    },
    Migration {
        version: 13,
        name: "open dead letters (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0013_open_dead_letters_postgres.sql"),
            sqlite: include_str!("../migrations/0013_open_dead_letters_sqlite.sql"),
        },
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
        indexes: &[],
    },
    Migration {
        version: 16,
        name: "seen missing webhooks (additive)",
        sql: Sql::Both(include_str!("../migrations/0016_seen_missing_webhooks.sql")),
        indexes: &[],
    },
    Migration {
        version: 17,
        name: "what stopped resends withdrew (additive)",
        sql: Sql::Both(include_str!("../migrations/0017_resends_taken_back.sql")),
        indexes: &[],
    },
    Migration {
        version: 18,
        name: "folded searches (additive)",
        sql: Sql::Both(include_str!("../migrations/0018_folded_searches.sql")),
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
        indexes: &[],
    },
    Migration {
        version: 20,
        name: "searches by external reference (additive)",
        sql: Sql::Each {
            postgres: include_str!("../migrations/0020_external_references_postgres.sql"),
            sqlite: include_str!("../migrations/0020_external_references_sqlite.sql"),
        },
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
        indexes: &[],
    },
    Migration {
        version: 22,
        name: "searches for resends (additive)",
        sql: Sql::Both(""),
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
        indexes: &[],
    },
    Migration {
        version: 24,
        name: "notices that others replaced (additive)",
        sql: Sql::Both(include_str!("../migrations/0024_replaced_notices.sql")),
        indexes: &[],
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewerSchema {
    /// The version found in the database.
    pub found: i64,
}

impl std::fmt::Display for NewerSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let newest = MIGRATIONS.len();
        write!(
            f,
            "the database has schema version {}, this Docket knows {newest}; run a newer Docket",
            self.found
        )
    }
}

impl std::error::Error for NewerSchema {}

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
}
