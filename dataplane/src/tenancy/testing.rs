//! A tenant for tests.

use std::sync::Arc;

use docket_crds::TenantConfig;
use docket_egress::Trust;
use docket_store::Database;
use docket_store::sqlite::Sqlite;
use docket_store::stores::Store;
use serde_json::json;

use super::{HeldWebhooks, ServedTenant};

/// A tenant with this database, and without webhooks.
pub(super) fn tenant(uid: &str, database: Sqlite) -> Arc<ServedTenant> {
    let config: TenantConfig = serde_json::from_value(json!({
        "uid": uid, "namespace": "default", "name": "acme", "clientCode": "ACME", "subdomains": [], "apiKeys": [],
        "tokens": {"lifetimeMinutes": 60, "signingKeys": []}, "database": null, "suspended": false,
        "activeEvents": [], "webhooks": []
    }))
    .expect("a configuration");
    let store = Arc::new(Store::new(Database::Sqlite(database)));
    let held = HeldWebhooks::These(Default::default());
    Arc::new(ServedTenant::new(config, store, held, &Trust::none(), None))
}
