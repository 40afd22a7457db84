//! Labels, annotations and the finalizer: those of objects we make, and those that users set.

/// On a Secret or ConfigMap of a user, with the value `true`: a change of it counts at once, not at the next resync.
pub const WATCH: &str = "docket.dev/watch";
/// Kubernetes' label for the program that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY`].
pub const OPERATOR: &str = "docket-operator";
/// The uid of the Tenant a Secret was made for.
pub const TENANT_UID: &str = "docket.dev/tenant-uid";
/// Annotation: the Tenant a Secret was made for, as `namespace/name`. Names can be longer than a label's value.
pub const TENANT: &str = "docket.dev/tenant";
/// Annotation: the `rotationGeneration` or `passwordRotationGeneration` a value was made for.
pub const ROTATION: &str = "docket.dev/rotation-generation";
/// Annotation: the customer whose Webhook a signing secret was made for.
pub const CUSTOMER: &str = "docket.dev/customer-code";
/// Annotation: since when no Webhook asks for a signing secret. It is kept for a while, in case the Webhook is created again.
pub const UNUSED_SINCE: &str = "docket.dev/unused-since";
/// Annotation: the Webhook whose signing secret was set aside, because a Webhook of another customer or Tenant has its name.
pub const WEBHOOK: &str = "docket.dev/webhook";
/// Pauses the operator for an object: annotation with the value `disabled`.
pub const RECONCILE: &str = "docket.dev/reconcile";
/// Requests a reconciliation: annotation with any new value, echoed in `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "docket.dev/requestedAt";
/// Takes over the database of an earlier Tenant of this name: annotation with the database's name.
pub const ADOPT_DATABASE: &str = "docket.dev/adopt-database";
/// The finalizer of Tenants whose database is dropped with them.
pub const FINALIZER: &str = "docket.dev/tenant-cleanup";
