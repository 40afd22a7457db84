//! The reasons of conditions, by the names users see in `status.conditions[].reason`.

/// The spec breaks a rule of the CRD.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// The Secret is not there.
pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
/// The Secret is there and has no such key.
pub const SECRET_KEY_MISSING: &str = "SecretKeyMissing";
/// The value in the Secret is not what is needed: no long hexadecimal key, no database URL, or empty.
pub const SECRET_INVALID: &str = "SecretInvalid";
/// The ConfigMap is not there.
pub const CONFIG_MAP_NOT_FOUND: &str = "ConfigMapNotFound";
/// The ConfigMap is there and has no such key.
pub const CONFIG_MAP_KEY_MISSING: &str = "ConfigMapKeyMissing";
/// The CA bundle holds no certificate in PEM form.
pub const INVALID_CA_BUNDLE: &str = "InvalidCaBundle";
/// No such Tenant in the webhook's own namespace.
pub const TENANT_NOT_FOUND: &str = "TenantNotFound";
/// No such Tenant in another namespace, or it does not allow the webhook's; one reason for both, so that nobody can
/// find out which tenants there are.
pub const REF_NOT_PERMITTED: &str = "RefNotPermitted";
/// Another Tenant has this client code.
pub const CLIENT_CODE_CONFLICT: &str = "ClientCodeConflict";
/// Another Tenant has this subdomain.
pub const SUBDOMAIN_CONFLICT: &str = "SubdomainConflict";
/// Another Tenant has this managed database.
pub const DATABASE_NAME_CONFLICT: &str = "DatabaseNameConflict";
/// The operator has not made this key yet.
pub const PENDING: &str = "Pending";
/// The operator has not made the database yet.
pub const PROVISIONING: &str = "Provisioning";
