//! Tenants for tests.

use std::sync::Arc;

use docket_crds::TenantConfig;
use docket_egress::Trust;
use docket_store::Database;
use docket_store::sqlite::Sqlite;
use docket_store::stores::Store;
use serde_json::json;

use super::{HeldWebhooks, ServedTenant};

/// The configuration of a tenant without keys, events and webhooks.
pub(crate) fn config(uid: &str) -> TenantConfig {
    serde_json::from_value(json!({
        "uid": uid, "namespace": "default", "name": "acme", "clientCode": "ACME", "subdomains": [], "apiKeys": [],
        "tokens": {"lifetimeMinutes": 60, "signingKeys": []}, "database": null, "suspended": false,
        "activeEvents": [], "webhooks": []
    }))
    .expect("a configuration")
}

/// A tenant with this configuration and this database.
pub(crate) fn served(config: TenantConfig, database: Sqlite) -> Arc<ServedTenant> {
    let store = Arc::new(Store::new(Database::Sqlite(database)));
    let held = HeldWebhooks::These(Default::default());
    Arc::new(ServedTenant::new(config, store, held, &Trust::none(), None))
}

/// A tenant with this database.
pub(crate) fn tenant(uid: &str, database: Sqlite) -> Arc<ServedTenant> {
    served(config(uid), database)
}
