//! Actions of the service through the library, on SQLite and on PostgreSQL; and the detector over many databases.

mod detector;
mod invoices;
mod odd_rows;
mod older_schema;
mod people;
mod resends;
mod retention;
mod subscriptions;
mod test_events;
mod trace;

use std::sync::Arc;

use docket::tenancy::{HeldWebhooks, ServedTenant};
use docket_crds::TenantConfig;
use docket_egress::Trust;
use docket_store::Database;
use docket_store::stores::Store;
use serde_json::Value;

/// A tenant with this configuration and this database.
fn tenant_of(config: Value, database: Database) -> ServedTenant {
    let config: TenantConfig = serde_json::from_value(config).expect("a configuration");
    let store = Arc::new(Store::new(database));
    ServedTenant::new(config, store, HeldWebhooks::AllUnknown, &Trust::none(), None)
}
