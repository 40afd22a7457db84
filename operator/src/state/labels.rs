//! Labels and annotations of the objects we make, and of those we look for.

/// On a Secret or ConfigMap of a user, with the value `true`: a change of it counts at once, not at the next resync.
pub const WATCH: &str = "docket.dev/watch";
/// Kubernetes' own label for who made an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY`].
pub const OPERATOR: &str = "docket-operator";
/// The uid of the Tenant a Secret was made for.
pub const TENANT_UID: &str = "docket.dev/tenant-uid";
/// Annotation: the Tenant a Secret was made for, as `namespace/name`. Names can be longer than a label's value.
pub const TENANT: &str = "docket.dev/tenant";
/// Annotation: the `rotationGeneration` or `passwordRotationGeneration` a value was made for.
pub const ROTATION: &str = "docket.dev/rotation-generation";
