//! The operator of Docket. Tenants and Webhooks of a cluster become what the data plane serves.

pub mod database;
