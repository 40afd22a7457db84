//! The kind `Webhook`: where the events of one customer of a tenant go.

#![cfg_attr(
    feature = "kube",
    expect(
        unreachable_pub,
        reason = "KubeSchema makes public copies of the structs, which no other module sees"
    )
)]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::{
    self, Check, DATA_KEY, DISPLAY_NAME, Field, METADATA, OBJECT_NAME, Rule, optional, required,
};
use crate::tenant::{events, yes};
use crate::{EventCode, Metadata, Violation, customer_code, target_url};

/// A Webhook as declared, without the document's `apiVersion`, `kind` and `status`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Webhook {
    /// Name and namespace.
    pub metadata: Metadata,
    /// What the user declares.
    pub spec: WebhookSpec,
}

/// The desired state of a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "kube",
    derive(kube::CustomResource, kube::KubeSchema),
    kube(
        group = "docket.dev",
        version = "v1alpha1",
        kind = "Webhook",
        root = "WebhookObject",
        status = "crate::status::WebhookStatus",
        namespaced,
        doc = "A webhook of a Docket tenant: the receiver of one customer's events.",
        derive = "PartialEq",
        shortname = "wh",
        category = "docket",
        validation = SHORT_NAME,
        selectable = ".spec.tenantRef.name",
        selectable = ".spec.customerCode",
        printcolumn(name = "Tenant", type_ = "string", json_path = ".spec.tenantRef.name"),
        printcolumn(name = "Customer", type_ = "string", json_path = ".spec.customerCode"),
        printcolumn(name = "Active", type_ = "boolean", json_path = ".spec.active"),
        printcolumn(
            name = "Ready",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="Ready")].status"#
        ),
        printcolumn(
            name = "Reason",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
        ),
        printcolumn(
            name = "Healthy",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="DeliveryHealthy")].status"#
        ),
        printcolumn(name = "Pending", type_ = "integer", json_path = ".status.deliveries.pending"),
        printcolumn(name = "Dead", type_ = "integer", json_path = ".status.deliveries.deadLetter"),
        printcolumn(name = "Signed", type_ = "boolean", json_path = ".status.signed", priority = "1"),
        printcolumn(name = "URL", type_ = "string", json_path = ".spec.targetURL", priority = "1"),
        printcolumn(
            name = "Message",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
            priority = "1"
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )
)]
pub struct WebhookSpec {
    /// A name for people, at most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The Tenant that the webhook belongs to. Immutable.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_TENANT))]
    pub tenant_ref: TenantRef,
    /// The customer whose events are sent, 1 to 64 characters, exactly as in orders. Immutable.
    #[cfg_attr(feature = "kube", x_kube(validation = SAME_CUSTOMER))]
    pub customer_code: String,
    /// The receiver: an absolute https:// URL of at most 2048 characters, without credentials and fragment.
    #[serde(rename = "targetURL")]
    pub target_url: String,
    /// The Secret in the webhook's namespace whose value signs deliveries. With neither `secretRef` nor `generateSecret`,
    /// deliveries are unsigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The operator generates the secret that signs deliveries: 64 hexadecimal digits under `secret` in the Secret
    /// `<name>.signing-secret`. This works only in the Tenant's own namespace, and not together with `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_secret: Option<GenerateSecret>,
    /// The Secret or ConfigMap in the webhook's namespace with CA certificates to trust for this receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
    /// The events to send, at least one.
    pub events: Vec<EventCode>,
    /// Whether new events are sent. Deliveries that are already queued continue. Default true.
    #[serde(default = "yes")]
    pub active: bool,
}

/// The Tenant that a webhook belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TenantRef {
    /// The Tenant's name.
    pub name: String,
    /// The Tenant's namespace. Default: the webhook's own. Another namespace works only if the Tenant's
    /// `spec.webhooks.allowedNamespaces` includes the webhook's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The Secret whose value signs deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// The Secret's name.
    pub name: String,
    /// The key in the Secret. Default `secret`.
    #[serde(default = "default_secret_key")]
    pub key: String,
    /// The key of the next secret in the Secret. Set it while the receiver changes to the next secret: webhook-signature
    /// then has a signature by each of the two. The field has no effect while the Secret lacks this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<String>,
}

fn default_secret_key() -> String {
    "secret".to_owned()
}

/// A signing secret that the operator generates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateSecret {
    /// When you raise this number, the next secret becomes the current one. If there is no next secret, the operator
    /// generates a new one, which replaces the old one at once. Default 0.
    pub rotation_generation: i64,
    /// Whether there is a next secret, which the operator generates under `next` in the same Secret. While there is one,
    /// webhook-signature has a signature by each of the two. When you raise `rotationGeneration`, the next secret becomes
    /// the current one. Default false, which removes the next secret.
    pub next: bool,
}

/// The object that contains certificates in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaBundleRef {
    /// The kind of the object: ConfigMap or Secret.
    pub kind: ValueKind,
    /// The object's name.
    pub name: String,
    /// The key in the object. Default `ca.crt`.
    #[serde(default = "default_ca_key")]
    pub key: String,
}

fn default_ca_key() -> String {
    "ca.crt".to_owned()
}

crate::words! {
    /// The kinds of objects that can contain a value.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
    pub enum ValueKind {
        /// A ConfigMap.
        ConfigMap,
        /// A Secret.
        Secret,
    }
}

const TENANT_REF: Rule = Rule::Record {
    fields: &[
        required("name", &Rule::Text { length: 1..=50, checks: &[] }),
        optional("namespace", &Rule::Text { length: 0..=63, checks: &[] }),
    ],
    checks: &[],
};

const SECRET_REF: Rule = Rule::Record {
    fields: &[required("name", &OBJECT_NAME), optional("key", &DATA_KEY), optional("nextKey", &DATA_KEY)],
    checks: &[],
};

const CA_BUNDLE_REF: Rule = Rule::Record {
    fields: &[
        required("kind", &Rule::Choice { noun: "kind", values: &ValueKind::WORDS }),
        required("name", &OBJECT_NAME),
        optional("key", &DATA_KEY),
    ],
    checks: &[],
};

const GENERATE_SECRET: Rule = Rule::Record {
    fields: &[optional("rotationGeneration", &Rule::Whole(0..=i64::MAX)), optional("next", &Rule::Flag)],
    checks: &[],
};

const EVENTS: Rule = events(1..=16);

pub(crate) const SPEC: Rule = Rule::Record {
    fields: &[
        optional("displayName", &DISPLAY_NAME),
        required("tenantRef", &TENANT_REF),
        required("customerCode", &customer_code::RULE),
        required("targetURL", &target_url::RULE),
        optional("secretRef", &SECRET_REF),
        optional("generateSecret", &GENERATE_SECRET),
        optional("caBundleRef", &CA_BUNDLE_REF),
        required("events", &EVENTS),
        optional("active", &Rule::Flag),
    ],
    checks: &[Check {
        holds: |spec| !(spec.contains_key("secretRef") && spec.contains_key("generateSecret")),
        cel: "!(has(self.secretRef) && has(self.generateSecret))",
        message: "set at most one of secretRef or generateSecret",
    }],
};

/// The end of the name of a Webhook's generated Secret. No other generated Secret has a name with this end: after its
/// last dot, such a name has the suffix for a key or for the database.
const SECRET_SUFFIX: &str = ".signing-secret";

/// The name of the Secret that the operator generates for the Webhook of this name, if it has `generateSecret`.
pub fn generated_secret(webhook: &str) -> String {
    format!("{webhook}{SECRET_SUFFIX}")
}

/// A rule of the whole object, because the API server shows `metadata.name` only to such rules.
const SHORT_NAME: (&str, &str) = (
    "!has(self.spec.generateSecret) || self.metadata.name.size() <= 238",
    "metadata.name must be at most 238 characters with generateSecret: the generated Secret appends a suffix",
);

// What must not change: a CEL rule for the API server, and its message.
const SAME_TENANT: (&str, &str) = ("self == oldSelf", "tenantRef is immutable; create a new Webhook");
const SAME_CUSTOMER: (&str, &str) = ("self == oldSelf", "customerCode is immutable; create a new Webhook");

const DOCUMENT: &[Field] = &[
    required("apiVersion", &rules::API_VERSION),
    required("kind", &Rule::Choice { noun: "kind", values: &["Webhook"] }),
    required("metadata", &METADATA),
    required("spec", &SPEC),
    optional("status", &Rule::OpenRecord { fields: &[] }),
];

impl Webhook {
    /// Reads a document. Errors: all violations in the document.
    pub fn from_json(document: Value) -> Result<Self, Vec<Violation>> {
        let webhook: Self = rules::read(&Rule::Record { fields: DOCUMENT, checks: &[] }, document)?;
        match webhook.long_name() {
            Some(violation) => Err(vec![violation]),
            None => Ok(webhook),
        }
    }

    /// The rules of the CRD that this Webhook breaks; empty if it is valid.
    pub fn validate(&self) -> Vec<Violation> {
        let mut found = rules::check_object((&METADATA, &self.metadata), (&SPEC, &self.spec));
        found.extend(self.long_name());
        found
    }

    fn long_name(&self) -> Option<Violation> {
        let fits = self.spec.generate_secret.is_none() || self.metadata.name.chars().count() <= 238;
        (!fits).then(|| Violation::new("metadata.name", SHORT_NAME.1))
    }

    /// The name of the Secret that the operator generates for this Webhook; `None` without `generateSecret`.
    pub fn generated_secret(&self) -> Option<String> {
        self.spec.generate_secret.as_ref().map(|_| generated_secret(&self.metadata.name))
    }

    /// Whether deliveries are signed.
    pub const fn is_signed(&self) -> bool {
        self.spec.secret_ref.is_some() || self.spec.generate_secret.is_some()
    }

    /// The rules of the CRD that a change from `old` to this Webhook breaks.
    pub fn validate_change(&self, old: &Self) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.spec.tenant_ref != old.spec.tenant_ref {
            found.push(Violation::new("spec.tenantRef", SAME_TENANT.1));
        }
        if self.spec.customer_code != old.spec.customer_code {
            found.push(Violation::new("spec.customerCode", SAME_CUSTOMER.1));
        }
        found
    }

    /// The namespace of the Tenant that this webhook names: `spec.tenantRef.namespace`, else the webhook's own namespace.
    pub fn tenant_namespace(&self) -> &str {
        match self.spec.tenant_ref.namespace.as_deref() {
            None | Some("") => &self.metadata.namespace,
            Some(namespace) => namespace,
        }
    }
}

/// Namespace and name of the Tenant in the `spec` of a Webhook in this namespace, even if other fields of the spec are wrong.
pub fn tenant_ref<'a>(spec: &'a Value, namespace: &'a str) -> Option<(&'a str, &'a str)> {
    let tenant_ref = spec.get("tenantRef")?;
    let name = tenant_ref.get("name")?.as_str()?;
    let other = tenant_ref.get("namespace").and_then(Value::as_str).filter(|other| !other.is_empty());
    Some((other.unwrap_or(namespace), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn minimal() -> Value {
        json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": "acme-orders"},
            "spec": {"tenantRef": {"name": "acme"}, "customerCode": "C-1001",
                "targetURL": "https://hooks.acme.example/orders", "events": ["order.created"]}
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut document = minimal();
        document["spec"][name] = value;
        document
    }

    fn accepted(document: Value) -> Webhook {
        let webhook = Webhook::from_json(document).unwrap();
        assert_eq!(webhook.validate(), [], "the typed object is valid, too");
        webhook
    }

    #[track_caller]
    fn refused(document: Value, expected: &[&str]) {
        let found = Webhook::from_json(document).unwrap_err();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn omitted_field_has_the_default_of_the_crd() {
        let webhook = accepted(minimal());
        assert!(webhook.spec.active);
        assert_eq!(webhook.spec.secret_ref, None);
        assert_eq!(webhook.tenant_namespace(), "default");
        let spec = accepted(with("secretRef", json!({"name": "s"}))).spec;
        assert_eq!(spec.secret_ref.unwrap().key, "secret");
        let spec = accepted(with("secretRef", json!({"name": "s", "nextKey": "next"}))).spec;
        assert_eq!(spec.secret_ref.unwrap().next_key.as_deref(), Some("next"));
        refused(
            with("secretRef", json!({"name": "s", "nextKey": "a b"})),
            &["spec.secretRef.nextKey: must be letters, digits, \"-\", \"_\" and \".\""],
        );
        let spec = accepted(with("caBundleRef", json!({"kind": "ConfigMap", "name": "c"}))).spec;
        assert_eq!(spec.ca_bundle_ref.unwrap().key, "ca.crt");
    }

    #[test]
    fn tenant_ref_may_name_another_namespace() {
        let webhook = accepted(with("tenantRef", json!({"name": "acme", "namespace": "tenants"})));
        assert_eq!(webhook.tenant_namespace(), "tenants");
        let webhook = accepted(with("tenantRef", json!({"name": "acme", "namespace": ""})));
        assert_eq!(webhook.tenant_namespace(), "default");
        refused(
            with("tenantRef", json!({"name": "a".repeat(51)})),
            &["spec.tenantRef.name: must have 1 to 50 characters, not 51"],
        );
    }

    #[test]
    fn target_url_that_is_not_absolute_https_is_refused() {
        refused(
            with("targetURL", json!("http://hooks.acme.example/")),
            &["spec.targetURL: targetURL must be an absolute https:// URL"],
        );
        refused(
            with("targetURL", json!("https://u:p@hooks.acme.example/#top")),
            &[
                "spec.targetURL: targetURL must not carry credentials; use secretRef to sign deliveries",
                "spec.targetURL: targetURL must not carry a fragment",
            ],
        );
        refused(
            with("targetURL", json!(format!("https://h/{}", "x".repeat(2048)))),
            &["spec.targetURL: must have 0 to 2048 characters, not 2058"],
        );
    }

    #[test]
    fn unknown_repeated_or_no_event_is_refused() {
        refused(
            with("events", json!(["order.created", "order.create"])),
            &[
                "spec.events[1]: unknown event \"order.create\"; one of: order.created, order.updated, order.exported, \
             order.status_changed, note.created, invoice.created",
            ],
        );
        refused(with("events", json!([])), &["spec.events: must have 1 to 16 entries, not 0"]);
        refused(
            with("events", json!(["note.created", "note.created"])),
            &["spec.events[1]: \"note.created\" is listed twice; list it once"],
        );
        refused(with("events", json!("order.created")), &["spec.events: must be a list, not a string"]);
    }

    #[test]
    fn incomplete_reference_is_refused() {
        refused(with("secretRef", json!({})), &["spec.secretRef.name: is required"]);
        refused(
            with("caBundleRef", json!({"kind": "File", "name": "x", "key": ""})),
            &[
                "spec.caBundleRef.kind: unknown kind \"File\"; one of: ConfigMap, Secret",
                "spec.caBundleRef.key: must have 1 to 253 characters, not 0",
            ],
        );
    }

    #[test]
    fn secret_is_named_or_generated() {
        let webhook = accepted(with("generateSecret", json!({})));
        assert_eq!(webhook.generated_secret().as_deref(), Some("acme-orders.signing-secret"));
        assert!(webhook.is_signed());
        assert!(!accepted(minimal()).is_signed());
        let mut both = with("generateSecret", json!({"rotationGeneration": 1}));
        both["spec"]["secretRef"] = json!({"name": "s"});
        refused(both, &["spec: set at most one of secretRef or generateSecret"]);
        refused(
            with("generateSecret", json!({"rotationGeneration": -1})),
            &["spec.generateSecret.rotationGeneration: must be a whole number of at least 0, not -1"],
        );
    }

    #[test]
    fn name_leaves_room_for_the_generated_secrets() {
        let named = |length: usize| {
            let mut document = with("generateSecret", json!({}));
            document["metadata"]["name"] = json!("a".repeat(length));
            document
        };
        assert_eq!(accepted(named(238)).generated_secret().unwrap().len(), 253);
        refused(
            named(239),
            &[
                "metadata.name: metadata.name must be at most 238 characters with generateSecret: the generated Secret \
               appends a suffix",
            ],
        );
    }

    #[test]
    fn customer_code_or_name_beyond_its_limits_is_refused() {
        refused(
            with("customerCode", json!("x".repeat(65))),
            &["spec.customerCode: must have 1 to 64 characters, not 65"],
        );
        refused(
            with("customerCode", json!("a\tb")),
            &["spec.customerCode: customerCode must not contain control characters"],
        );
        refused(
            with("displayName", json!("x".repeat(129))),
            &["spec.displayName: must have 0 to 128 characters, not 129"],
        );
    }

    #[test]
    fn unknown_or_missing_field_is_named() {
        refused(
            with("targetUrl", json!("https://h/")),
            &[
                "spec.targetUrl: unknown field; one of: displayName, tenantRef, customerCode, targetURL, secretRef, \
             generateSecret, caBundleRef, events, active",
            ],
        );
        let mut document = minimal();
        document["spec"] = json!({});
        refused(
            document,
            &[
                "spec.tenantRef: is required",
                "spec.customerCode: is required",
                "spec.targetURL: is required",
                "spec.events: is required",
            ],
        );
    }

    #[test]
    fn typed_object_obeys_the_same_rules() {
        let mut webhook = accepted(minimal());
        webhook.spec.target_url = "http://h/".into();
        webhook.spec.events.clear();
        let fields: Vec<_> = webhook.validate().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["spec.targetURL", "spec.events"]);
    }

    #[test]
    fn change_of_tenant_or_customer_is_refused() {
        let old = accepted(minimal());
        let mut new = old.clone();
        new.spec.active = false;
        assert_eq!(new.validate_change(&old), []);
        new.spec.tenant_ref.name = "beta".into();
        new.spec.customer_code = "C-2".into();
        let messages: Vec<_> =
            new.validate_change(&old).into_iter().map(|violation| violation.message).collect();
        assert_eq!(
            messages,
            [
                "tenantRef is immutable; create a new Webhook",
                "customerCode is immutable; create a new Webhook"
            ]
        );
    }
}
