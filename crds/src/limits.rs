//! The limits of one tenant: declared in `spec.limits`, with the platform's defaults and maxima, and as they apply.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conditions::ReasonCode;
use crate::rules::{self, Rule, optional};
use crate::{Reason, Violation};

/// The default of `databaseConnections`. It is the highest value, so that the process's own limit for each tenant applies.
const AS_THE_PROCESS_SAYS: u32 = 1000;

/// Defines the limits once: the field, its name in JSON, its range, the built-in default and its documentation.
macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident $variant:ident $name:literal $least:literal..=$most:literal = $default:expr;)*) => {
        /// What a tenant may use, as declared. What is left out has the platform's default.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
        #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
        pub struct TenantLimits {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<u32>,)*
        }

        /// What a tenant may use. A configuration of an older operator names none of them and has the built-in defaults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct Limits {
            $($(#[$doc])* pub $field: u32,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        crate::words! {
            /// The name of a limit.
            pub enum Limit {
                $($(#[$doc])* $variant = $name,)*
            }
        }

        impl Limits {
            /// The value of this limit.
            pub const fn get(&self, limit: Limit) -> u32 {
                match limit {
                    $(Limit::$variant => self.$field,)*
                }
            }

            fn get_mut(&mut self, limit: Limit) -> &mut u32 {
                match limit {
                    $(Limit::$variant => &mut self.$field,)*
                }
            }
        }

        impl TenantLimits {
            /// The declared value of this limit; `None`: it is not declared.
            pub const fn get(&self, limit: Limit) -> Option<u32> {
                match limit {
                    $(Limit::$variant => self.$field,)*
                }
            }
        }

        pub(crate) const RULE: Rule =
            Rule::Record { fields: &[$(optional($name, &Rule::Whole($least..=$most)),)*], checks: &[] };
    };
}

limits! {
    /// Requests of the tenant's clients per second, over all pods, 1 to 100000. Default 10000.
    requests_per_second RequestsPerSecond "requestsPerSecond" 1..=100_000 = 10_000;
    /// Requests that may arrive at once after a quiet time, over all pods, 1 to 1000000. Default 20000.
    request_burst RequestBurst "requestBurst" 1..=1_000_000 = 20_000;
    /// Sign-ins per minute, over all pods, 2 to 100000. Half of them are reserved for users who signed in from the same
    /// place in the last seven days. Default 12000.
    sign_ins_per_minute SignInsPerMinute "signInsPerMinute" 2..=100_000 = 12_000;
    /// Deliveries of the tenant that wait in Redis for their attempt, 100 to 1000000. Further deliveries wait in the
    /// tenant's database until a sweep finds room for them. No order is refused. Default 100000.
    queued_deliveries QueuedDeliveries "queuedDeliveries" 100..=1_000_000 = 100_000;
    /// Attempts of the tenant's deliveries at the same time, over all pods, 1 to 10000. Further attempts wait. Default 512.
    attempts_in_flight AttemptsInFlight "attemptsInFlight" 1..=10_000 = 512;
    /// Connections of each pod to the tenant's database, 1 to 1000. The default is what the pod allows each tenant, and a
    /// pod never opens more than that.
    database_connections DatabaseConnections "databaseConnections" 1..=1_000 = AS_THE_PROCESS_SAYS;
    /// Bytes of an order's body, 65536 to 1048576. Default 1048576.
    body_bytes BodyBytes "bodyBytes" 65_536..=1_048_576 = 1_048_576;
    /// Webhooks that are served, 0 to 10000. Webhooks of the Tenant's namespace come first, then Webhooks of other
    /// namespaces, each time the oldest first. Default 1000.
    webhooks Webhooks "webhooks" 0..=10_000 = 1_000;
    /// Webhooks of other namespaces that are served, 0 to 10000, the oldest first. They also count for `webhooks`. Default
    /// 100.
    foreign_webhooks ForeignWebhooks "foreignWebhooks" 0..=10_000 = 100;
}

/// What the platform gives its tenants, in a file of YAML: `defaults` to those that declare nothing else, `maxima` at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlatformLimits {
    /// The default limits, which replace the built-in ones.
    pub defaults: TenantLimits,
    /// The upper limits for each tenant, whatever the tenant declares.
    pub maxima: TenantLimits,
}

/// Why a file of limits can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimits {
    /// The file is not YAML.
    #[error("must be one YAML document: {0}")]
    NotYaml(String),
    /// Fields of the file are wrong.
    #[error("{}", listed(.0))]
    Violations(Vec<Violation>),
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

const FILE: Rule =
    Rule::Record { fields: &[optional("defaults", &RULE), optional("maxima", &RULE)], checks: &[] };

impl FromStr for PlatformLimits {
    type Err = InvalidLimits;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let document = match text.trim() {
            "" => Value::Object(serde_json::Map::new()),
            text => {
                serde_saphyr::from_str(text).map_err(|error| InvalidLimits::NotYaml(error.to_string()))?
            }
        };
        let limits: Self = rules::read(&FILE, document).map_err(InvalidLimits::Violations)?;
        let above = Limit::ALL.into_iter().filter_map(|limit| {
            let (default, most) = (limits.defaults.get(limit)?, limits.maxima.get(limit)?);
            let message =
                format!("is {default}, but maxima.{limit} is {most}; lower the first, or raise the second");
            (default > most).then(|| Violation::new(format!("defaults.{limit}"), message))
        });
        let above: Vec<Violation> = above.collect();
        if above.is_empty() { Ok(limits) } else { Err(InvalidLimits::Violations(above)) }
    }
}

impl PlatformLimits {
    /// Lowers the limits to the platform's maxima.
    pub fn at_most(&self, mut limits: Limits) -> Limits {
        for limit in Limit::ALL {
            let value = limits.get_mut(limit);
            *value = (*value).min(self.maxima.get(limit).unwrap_or(u32::MAX));
        }
        limits
    }

    /// The limits that apply to a tenant that declares these. The reasons name each limit that is lower than declared.
    pub fn resolve(&self, declared: &TenantLimits) -> (Limits, Vec<Reason>) {
        let (mut limits, mut reasons) = (Limits::default(), Vec::new());
        for limit in Limit::ALL {
            let most = self.maxima.get(limit).unwrap_or(u32::MAX);
            let value = limits.get_mut(limit);
            *value = declared.get(limit).or(self.defaults.get(limit)).unwrap_or(*value).min(most);
            if let Some(wanted) = declared.get(limit).filter(|wanted| *wanted > most) {
                let message = format!(
                    "the platform gives at most {most}, not {wanted}; {most} holds; declare at most that"
                );
                reasons.push(Reason::new(ReasonCode::AboveMaximum, format!("spec.limits.{limit}"), message));
            }
        }
        (limits, reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_gets_what_it_declares_else_the_default_and_never_more_than_the_maximum() {
        let platform: PlatformLimits =
            "defaults: {webhooks: 20, bodyBytes: 70000}\nmaxima: {webhooks: 50, requestBurst: 100}"
                .parse()
                .unwrap();
        let declared = TenantLimits { body_bytes: Some(65_536), ..TenantLimits::default() };
        let (limits, reasons) = platform.resolve(&declared);
        assert_eq!((limits.webhooks, limits.body_bytes, limits.foreign_webhooks), (20, 65_536, 100));
        assert_eq!(limits.request_burst, 100, "the built-in default is above the maximum");
        assert_eq!(reasons, [], "which the tenant did not ask for");

        let declared = TenantLimits { webhooks: Some(51), ..TenantLimits::default() };
        let (limits, reasons) = platform.resolve(&declared);
        assert_eq!(limits.webhooks, 50);
        let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "AboveMaximum: spec.limits.webhooks: the platform gives at most 50, not 51; 50 holds; declare at most that"
            ]
        );
    }

    #[test]
    fn maxima_lower_what_is_above_them_and_nothing_else() {
        let platform: PlatformLimits = "defaults: {webhooks: 20}\nmaxima: {webhooks: 50}".parse().unwrap();
        let before = Limits { webhooks: 60, body_bytes: 70_000, ..Limits::default() };
        assert_eq!(platform.at_most(before), Limits { webhooks: 50, ..before });
        let below = Limits { webhooks: 30, ..before };
        assert_eq!(platform.at_most(below), below);
    }

    #[test]
    fn maximum_that_is_declared_exactly_holds_without_a_reason() {
        let platform: PlatformLimits = "defaults: {webhooks: 50}\nmaxima: {webhooks: 50}".parse().unwrap();
        let declared = TenantLimits { webhooks: Some(50), ..TenantLimits::default() };
        let (limits, reasons) = platform.resolve(&declared);
        assert_eq!((limits.webhooks, reasons), (50, Vec::new()));
    }

    #[test]
    fn every_default_is_within_its_range() {
        let Rule::Record { fields, .. } = RULE else { unreachable!("it is a record") };
        for (field, limit) in fields.iter().zip(Limit::ALL) {
            assert_eq!(field.name, limit.as_str());
            assert_eq!(limit.as_str().parse(), Ok(limit));
            let mut found = Vec::new();
            rules::check(field.rule, &Limits::default().get(limit).into(), field.name, &mut found);
            assert_eq!(found, []);
        }
    }

    #[test]
    fn file_with_an_unknown_field_a_wrong_value_or_a_default_above_its_maximum_is_refused() {
        let refused = |text: &str| text.parse::<PlatformLimits>().unwrap_err().to_string();
        assert!(refused("default: {}").contains("default: unknown field; one of: defaults, maxima"));
        assert!(
            refused("maxima: {webhook: 1}")
                .contains("maxima.webhook: unknown field; one of: requestsPerSecond")
        );
        assert_eq!(
            refused("maxima: {webhooks: -1, bodyBytes: 1}"),
            "maxima.bodyBytes: must be a whole number from 65536 to 1048576, not 1; maxima.webhooks: must be a whole \
             number from 0 to 10000, not -1"
        );
        assert_eq!(
            refused("defaults: {webhooks: 6}\nmaxima: {webhooks: 5}"),
            "defaults.webhooks: is 6, but maxima.webhooks is 5; lower the first, or raise the second"
        );
        assert!(refused("a: [").starts_with("must be one YAML document"));
        assert_eq!("".parse(), Ok(PlatformLimits::default()));
        assert_eq!("# nothing\ndefaults:\n".parse(), Ok(PlatformLimits::default()));
    }

    #[test]
    fn configuration_of_an_older_operator_has_the_built_in_defaults() {
        assert_eq!(serde_json::from_str::<Limits>("{}").unwrap(), Limits::default());
        let some: Limits = serde_json::from_str(r#"{"webhooks": 3, "ofANewerOperator": 1}"#).unwrap();
        assert_eq!(some, Limits { webhooks: 3, ..Limits::default() });
    }
}
