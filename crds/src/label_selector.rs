//! The label selector of Kubernetes, for namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::{Check, Distinct, Rule, optional, required};

/// Selects objects by their labels. All requirements must be met, so an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that an object must have with exactly these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRequirement {
    /// The name of the label.
    pub key: String,
    /// How the label is compared: In, NotIn, Exists or DoesNotExist.
    pub operator: LabelOperator,
    /// The values to compare with. Set them only for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum LabelOperator {
    /// The label exists and has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.is_met(labels))
    }
}

impl LabelRequirement {
    fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            LabelOperator::In => listed,
            LabelOperator::NotIn => !listed,
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
const LABEL_VALUE: Rule = Rule::Text { length: 0..=63, checks: &[] };
/// An optional DNS prefix, a slash and a name.
const LABEL_KEY: Rule = Rule::Text { length: 1..=317, checks: &[] };
/// No limit of Kubernetes; a selector longer than this is a mistake.
const MAX_ENTRIES: usize = 64;

const REQUIREMENT: Rule = Rule::Record {
    fields: &[
        required("key", &LABEL_KEY),
        required("operator", &Rule::Choice { noun: "operator", values: OPERATORS }),
        optional(
            "values",
            &Rule::List { entries: 0..=MAX_ENTRIES, each: &LABEL_VALUE, distinct: Distinct::Nothing },
        ),
    ],
    checks: &[Check {
        holds: values_fit_operator,
        cel: "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        message: "values must be given for In and NotIn, and left out for Exists and DoesNotExist",
    }],
};

/// The rule for a selector.
pub(crate) const RULE: Rule = Rule::Record {
    fields: &[
        optional("matchLabels", &Rule::TextMap { entries: MAX_ENTRIES, each: &LABEL_VALUE }),
        optional(
            "matchExpressions",
            &Rule::List { entries: 0..=MAX_ENTRIES, each: &REQUIREMENT, distinct: Distinct::Nothing },
        ),
    ],
    checks: &[],
};

fn values_fit_operator(requirement: &Map<String, Value>) -> bool {
    let given = requirement.get("values").and_then(Value::as_array).is_some_and(|values| !values.is_empty());
    match requirement.get("operator").and_then(Value::as_str) {
        Some("In" | "NotIn") => given,
        Some("Exists" | "DoesNotExist") => !given,
        _ => true, // reported as an unknown operator
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: Value, labels: &[(&str, &str)]) -> bool {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        selector.matches(&labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn match_labels_must_all_match() {
        let selector = json!({"matchLabels": {"team": "acme", "tier": "1"}});
        assert!(selects(selector.clone(), &[("team", "acme"), ("tier", "1"), ("x", "y")]));
        assert!(!selects(selector, &[("team", "acme")]));
        assert!(selects(json!({}), &[]));
    }

    #[test]
    fn every_requirement_must_be_met() {
        let exists = |key: &str| json!({"key": key, "operator": "Exists"});
        let selector = json!({
            "matchLabels": {"team": "acme"}, "matchExpressions": [exists("tier"), exists("zone")],
        });
        let labels = [("team", "acme"), ("tier", "1"), ("zone", "a")];
        assert!(selects(selector.clone(), &labels));
        for left_out in 0..labels.len() {
            let mut some = labels.to_vec();
            some.remove(left_out);
            assert!(!selects(selector.clone(), &some), "{some:?}");
        }
    }

    #[test]
    fn each_operator_selects_as_in_kubernetes() {
        let with = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]});
        for (operator, values, on_a, on_c, on_none) in [
            ("In", &["a", "b"][..], true, false, false),
            ("NotIn", &["a", "b"], false, true, true),
            ("Exists", &[], true, true, false),
            ("DoesNotExist", &[], false, false, true),
        ] {
            assert_eq!(selects(with(operator, values), &[("team", "a")]), on_a, "{operator}");
            assert_eq!(selects(with(operator, values), &[("team", "c")]), on_c, "{operator}");
            assert_eq!(selects(with(operator, values), &[]), on_none, "{operator}");
        }
    }
}
