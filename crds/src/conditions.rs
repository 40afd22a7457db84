//! Conditions and their reasons, by the names users see in `status.conditions`, and what to do about each.

/// The types of conditions.
pub mod types {
    /// Both kinds: all other conditions are as they should be; otherwise its reason is that of the first which is not.
    pub const READY: &str = "Ready";
    /// Both kinds: the object is valid and takes nothing that is another's.
    pub const ACCEPTED: &str = "Accepted";
    /// Both kinds: every Secret and ConfigMap the object names was found and is usable.
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    /// Tenant: its database can be reached and has the schema of this version.
    pub const DATABASE_READY: &str = "DatabaseReady";
    /// Both kinds: every pod of the data plane serves this generation.
    pub const PROGRAMMED: &str = "Programmed";
    /// Webhook: its receiver takes what is sent.
    pub const DELIVERY_HEALTHY: &str = "DeliveryHealthy";
    /// Both kinds, only while true: the operator is at work on the object. Wait.
    pub const RECONCILING: &str = "Reconciling";
    /// Both kinds, only while true: the operator can't go on before somebody changes something. See the other conditions.
    pub const STALLED: &str = "Stalled";
}

// What is well.

/// `Ready`: the object is served as declared. Nothing to do.
pub const READY: &str = "Ready";
/// `Accepted`: nothing stands against the object. Nothing to do.
pub const ACCEPTED: &str = "Accepted";
/// `ResolvedRefs`: all references were resolved. Nothing to do.
pub const RESOLVED_REFS: &str = "ResolvedRefs";
/// `DatabaseReady`: the database has the schema of this version. Nothing to do.
pub const MIGRATED: &str = "Migrated";
/// `Programmed`: every pod of the data plane serves this generation. Nothing to do.
pub const PROGRAMMED: &str = "Programmed";
/// `DeliveryHealthy`: the receiver took the last delivery. Nothing to do.
pub const DELIVERING: &str = "Delivering";
/// `DeliveryHealthy`, unknown: nothing has been sent yet. Save an order of the webhook's customer to see it work.
pub const NO_DELIVERIES: &str = "NoDeliveries";

// What somebody has chosen.

/// `Ready`: `spec.suspend` is true, so API keys answer 401 and no new deliveries are made. Set it to false.
pub const SUSPENDED: &str = "Suspended";
/// `Ready`: the annotation that pauses the operator is set, and it leaves the object alone. Remove the annotation.
pub const PAUSED: &str = "Paused";

// `Ready` is false, whatever the other conditions say.

/// The API server does not let the operator do what it has to: a quota is used up, an admission policy is against it, or a
/// right is missing. Mend what the message names; the operator tries again.
pub const API_REFUSED: &str = "ApiRefused";

// `Accepted` is false.

/// The spec breaks a rule of the CRD; the object was stored before the rule was there. Change what the message names.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// An older Tenant has this client code. Delete one of the two, and create it again with another code.
pub const CLIENT_CODE_CONFLICT: &str = "ClientCodeConflict";
/// An older Tenant has this subdomain. Take it out of one of the two.
pub const SUBDOMAIN_CONFLICT: &str = "SubdomainConflict";
/// An older Tenant has this managed database. Delete one of the two, and create it again with another name.
pub const DATABASE_NAME_CONFLICT: &str = "DatabaseNameConflict";
/// No such Tenant in the webhook's own namespace. Create it, or create the Webhook again with the right name.
pub const TENANT_NOT_FOUND: &str = "TenantNotFound";
/// No such Tenant in another namespace, or it does not allow the webhook's; one reason for both, so that nobody can
/// find out which tenants there are. Have the Tenant's `spec.webhooks.allowedNamespaces` include the namespace.
pub const REF_NOT_PERMITTED: &str = "RefNotPermitted";
/// The Tenant is paused or can't be read, so nothing is decided about what is new or changed of the webhook. See the
/// Tenant's conditions.
pub const TENANT_NOT_READY: &str = "TenantNotReady";
/// The Tenant is suspended, so the webhook gets no new deliveries. Set the Tenant's `spec.suspend` to false.
pub const TENANT_SUSPENDED: &str = "TenantSuspended";

// `ResolvedRefs` is false.

/// The Secret is not there. Create it in the object's namespace.
pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
/// The Secret is there and has no such key. Add the key, or name another one.
pub const SECRET_KEY_MISSING: &str = "SecretKeyMissing";
/// The value in the Secret is not what is needed: no long hexadecimal key, no database URL, or empty. Replace it.
pub const SECRET_INVALID: &str = "SecretInvalid";
/// The ConfigMap is not there. Create it in the object's namespace.
pub const CONFIG_MAP_NOT_FOUND: &str = "ConfigMapNotFound";
/// The ConfigMap is there and has no such key. Add the key, or name another one.
pub const CONFIG_MAP_KEY_MISSING: &str = "ConfigMapKeyMissing";
/// The CA bundle holds no certificate in PEM form. Replace it.
pub const INVALID_CA_BUNDLE: &str = "InvalidCaBundle";

// `DatabaseReady` is false.

/// The operator is making the database. Wait.
pub const PROVISIONING: &str = "Provisioning";
/// The database server does not answer or refuses the operator; what was served goes on being served. Look after the
/// server, or the URL the operator was given.
pub const UNREACHABLE: &str = "Unreachable";
/// The operator was given no server of the name in `spec.database.managed.server`. Give it one, or create the Tenant
/// again with another name.
pub const SERVER_NOT_FOUND: &str = "ServerNotFound";
/// There is a database of this name that was not made for this Tenant, or an external one that another Tenant has. One of
/// an earlier Tenant of this name is taken over with the annotation `docket.dev/adopt-database: "<name>"`; of all others
/// the message says what has to be done.
pub const NOT_OWNED: &str = "NotOwned";
/// The schema could not be brought to this version; the message says which step failed. The operator tries again.
pub const MIGRATION_FAILED: &str = "MigrationFailed";
/// The database has the schema of a newer version of Docket. Install that version.
pub const SCHEMA_NEWER: &str = "SchemaNewer";

// `Programmed` is false.

/// Not made yet, or not yet served by every pod. Wait; if it stays, look at the pods that the message names.
pub const PENDING: &str = "Pending";
/// The operator can't read what the data plane reports, since Redis does not answer. Look after Redis.
pub const STORE_UNAVAILABLE: &str = "StoreUnavailable";

// `DeliveryHealthy` is false.

/// The last attempt failed and will be repeated. If it goes on, look after the receiver.
pub const RETRYING: &str = "Retrying";
/// Deliveries were given up after the last attempt. Mend the receiver, then send them again with `docket deliveries`.
pub const DEAD_LETTERED: &str = "DeadLettered";
