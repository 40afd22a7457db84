//! The API keys of a Tenant.

use serde::{Deserialize, Serialize};

use super::{SecretKeyRef, yes};
use crate::KeyVersion;
use crate::rules::{Check, Distinct, LABEL, Rule, SECRET_KEY_REF, optional, required};

/// A named API key. Set exactly one of `secretKeyRef` and `generate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeySpec {
    /// The key's name: a DNS label, unique in the tenant.
    pub name: String,
    /// Whether the key works. Requests with an inactive key get 401. Default true.
    #[serde(default = "yes")]
    pub active: bool,
    /// The API version that the key is for. Only v2 keys work on the v2 API. Default v2.
    #[serde(default)]
    pub version: KeyVersion,
    /// The Secret in the Tenant's namespace that contains the key: at least 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKeyRef>,
    /// The operator generates the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<GenerateKey>,
}

/// A key that the operator generates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateKey {
    /// When you raise this number, the operator generates a new key. Default 0.
    pub rotation_generation: i64,
}

const API_KEY: Rule = Rule::Record {
    fields: &[
        required("name", &LABEL),
        optional("active", &Rule::Flag),
        optional("version", &Rule::Choice { noun: "version", values: &["v1", "v2"] }),
        optional("secretKeyRef", &SECRET_KEY_REF),
        optional(
            "generate",
            &Rule::Record {
                fields: &[optional("rotationGeneration", &Rule::Whole(0..=i64::MAX))],
                checks: &[],
            },
        ),
    ],
    checks: &[Check {
        holds: |key| key.contains_key("secretKeyRef") != key.contains_key("generate"),
        cel: "has(self.secretKeyRef) != has(self.generate)",
        message: "set exactly one of secretKeyRef or generate",
    }],
};

pub(super) const API_KEYS: Rule =
    Rule::List { entries: 0..=8, each: &API_KEY, distinct: Distinct::By("name") };

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant::tests::{refused, with};

    #[test]
    fn api_key_without_one_source_or_own_name_is_refused() {
        let one_of = "spec.apiKeys[0]: set exactly one of secretKeyRef or generate";
        refused(with("/spec/apiKeys", json!([{"name": "a"}])), &[one_of]);
        let both = json!([{"name": "a", "generate": {}, "secretKeyRef": {"name": "s", "key": "k"}}]);
        refused(with("/spec/apiKeys", both), &[one_of]);
        let twice = json!([{"name": "a", "generate": {}}, {"name": "a", "generate": {}}]);
        refused(with("/spec/apiKeys", twice), &["spec.apiKeys[1]: \"a\" is listed twice; list it once"]);
        refused(
            with("/spec/apiKeys", json!([{"name": "a", "generate": {}, "version": "v3"}])),
            &["spec.apiKeys[0].version: unknown version \"v3\"; one of: v1, v2"],
        );
        refused(
            with("/spec/apiKeys", json!([{"name": "a", "secretKeyRef": {"name": ""}}])),
            &[
                "spec.apiKeys[0].secretKeyRef.name: must have 1 to 253 characters, not 0",
                "spec.apiKeys[0].secretKeyRef.key: is required",
            ],
        );
    }
}
