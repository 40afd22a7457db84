//! Labels, annotations and the finalizer: the operator's labels on objects that it creates, and labels that users set.

/// The label on a user's Secret or ConfigMap, with the value `true`: its changes take effect immediately, not at the
/// next resync.
pub const WATCH: &str = "docket.dev/watch";
/// Kubernetes' label for the program that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The operator's value of [`MANAGED_BY`], and its name as a manager of fields.
pub const OPERATOR: &str = "docket-operator";
/// The label with the uid of the Tenant for which a Secret was created.
pub const TENANT_UID: &str = "docket.dev/tenant-uid";
/// Annotation: the Tenant for which a Secret was created, as `namespace/name`. It is not a label, because names can
/// be longer than a label's value.
pub const TENANT: &str = "docket.dev/tenant";
/// Annotation: the `rotationGeneration` or `passwordRotationGeneration` for which a value was generated.
pub const ROTATION: &str = "docket.dev/rotation-generation";
/// Annotation: the customer of the Webhook for which a signing secret was generated.
pub const CUSTOMER: &str = "docket.dev/customer-code";
/// Annotation: since when no Webhook asks for a signing secret. It is kept for a while, in case the Webhook is created again.
pub const UNUSED_SINCE: &str = "docket.dev/unused-since";
/// Annotation: the Webhook whose signing secret was set aside, because a Webhook of another customer or Tenant has its name.
pub const WEBHOOK: &str = "docket.dev/webhook";
/// Pauses the operator for an object: annotation with the value `disabled`.
pub const RECONCILE: &str = "docket.dev/reconcile";
/// Annotation: requests a reconciliation by any new value, which `status.lastHandledReconcileAt` then repeats.
pub const REQUESTED_AT: &str = "docket.dev/requestedAt";
/// Annotation: takes over the database of an earlier Tenant of this name, if its value is the database's name.
pub const ADOPT_DATABASE: &str = "docket.dev/adopt-database";
/// Label of a Tenant, with the value `true`: its database is migrated before the databases of Tenants without the label.
pub const MIGRATE_FIRST: &str = "docket.dev/migrate-first";
/// Annotation of a Tenant, with the value `true`: its database, once it is made, is not migrated.
pub const PAUSE_MIGRATIONS: &str = "docket.dev/pause-migrations";
/// The finalizer of a Tenant whose database is dropped when the Tenant is deleted.
pub const FINALIZER: &str = "docket.dev/tenant-cleanup";
