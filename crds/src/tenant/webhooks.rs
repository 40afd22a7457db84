//! Which webhooks and events a Tenant allows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::EventCode;
use crate::label_selector::{self, LabelSelector};
use crate::rules::{Check, Distinct, Rule, optional};

/// Which webhooks and events a tenant allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSettings {
    /// The namespaces whose Webhooks may name this Tenant. Default: only the Tenant's own.
    pub allowed_namespaces: AllowedNamespaces,
    /// Events that are disabled for this tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_events: Vec<EventCode>,
}

/// The namespaces whose Webhooks may name a Tenant. Its own namespace always may.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// How namespaces are chosen: Same (only the Tenant's own), All, or Selector. Default Same.
    pub from: NamespacesFrom,
    /// Selects namespaces by their labels. Set it only with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// How namespaces are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum NamespacesFrom {
    /// Only the Tenant's own namespace.
    #[default]
    Same,
    /// Every namespace.
    All,
    /// The Tenant's own namespace and those that the selector matches.
    Selector,
}

const ALLOWED_NAMESPACES: Rule = Rule::Record {
    fields: &[
        optional("from", &Rule::Choice { noun: "from", values: &["Same", "All", "Selector"] }),
        optional("selector", &label_selector::RULE),
    ],
    checks: &[Check {
        holds: |allowed| {
            let by_selector = allowed.get("from").and_then(Value::as_str) == Some("Selector");
            by_selector == allowed.contains_key("selector")
        },
        cel: "self.from == 'Selector' ? has(self.selector) : !has(self.selector)",
        message: "selector must be set only when from is Selector",
    }],
};

/// The rule for a set of event codes with this many entries.
pub(crate) const fn events(entries: std::ops::RangeInclusive<usize>) -> Rule {
    const EVENT: Rule = Rule::Choice { noun: "event", values: &EventCode::WORDS };
    Rule::List { entries, each: &EVENT, distinct: Distinct::Entries }
}

const DISABLED_EVENTS: Rule = events(0..=16);

pub(super) const WEBHOOKS: Rule = Rule::Record {
    fields: &[
        optional("allowedNamespaces", &ALLOWED_NAMESPACES),
        optional("disabledEvents", &DISABLED_EVENTS),
    ],
    checks: &[],
};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::tenant::tests::{accepted, refused, with};

    #[test]
    fn selector_is_allowed_only_with_from_selector() {
        let allowed = |value: Value| with("/spec/webhooks", json!({"allowedNamespaces": value}));
        let message = "spec.webhooks.allowedNamespaces: selector must be set only when from is Selector";
        refused(allowed(json!({"from": "Selector"})), &[message]);
        refused(allowed(json!({"from": "All", "selector": {}})), &[message]);
        refused(allowed(json!({"selector": {}})), &[message]);
        accepted(allowed(json!({"from": "Selector", "selector": {}})));
        refused(
            allowed(json!({"from": "Selector", "selector": {"matchlabels": {}}})),
            &["spec.webhooks.allowedNamespaces.selector.matchlabels: unknown field; one of: matchLabels, \
             matchExpressions"],
        );
        let operator = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        refused(
            allowed(json!({"from": "Selector", "selector": operator})),
            &[
                "spec.webhooks.allowedNamespaces.selector.matchExpressions[0]: values must be given for In and NotIn, \
             and left out for Exists and DoesNotExist",
            ],
        );
    }

    #[test]
    fn disabled_event_outside_the_catalog_is_refused() {
        refused(
            with("/spec/webhooks", json!({"disabledEvents": ["order.create"]})),
            &[
                "spec.webhooks.disabledEvents[0]: unknown event \"order.create\"; one of: order.created, order.updated, \
             order.exported, order.status_changed, note.created, invoice.created",
            ],
        );
    }
}
