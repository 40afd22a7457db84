//! The live pods of the data plane, and whether all of them serve a revision.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use docket_crds::conditions::{ConditionType, ReasonCode};

use crate::state::conditions::{Truth, Verdict};

/// How soon a deletion checks again whether pods still serve the Tenant.
pub const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// How many pods a message names.
const NAMED: usize = 3;

/// What is known of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// They are not observed.
    #[default]
    NotObserved,
    /// What they report can't be read.
    Unavailable,
    /// The live pods: the revision of each tenant that each serves, by pod and tenant uid.
    Seen(BTreeMap<String, HashMap<String, String>>),
}

/// The verdict on a part of a tenant that is in these revisions as it is now.
pub fn programmed(pods: &Pods, tenant_uid: &str, revisions: &[&str]) -> Verdict {
    let good =
        |message: &str| Verdict::new(ConditionType::Programmed, Truth::True, ReasonCode::Programmed, message);
    match pods {
        Pods::NotObserved => good(
            "handed over to the data plane; the operator can't see whether pods serve it: --redis-url-file is not set",
        ),
        Pods::Unavailable => Verdict::new(
            ConditionType::Programmed,
            Truth::Unknown,
            ReasonCode::StoreUnavailable,
            "handed over to the data plane; reading from Redis what its pods serve failed",
        ),
        Pods::Seen(pods) if pods.is_empty() => Verdict::new(
            ConditionType::Programmed,
            Truth::False,
            ReasonCode::Pending,
            "no pod of the data plane is alive",
        ),
        Pods::Seen(pods) => {
            let late: Vec<&str> = pods
                .iter()
                .filter(|(_, served)| {
                    served.get(tenant_uid).is_none_or(|served| !revisions.contains(&served.as_str()))
                })
                .map(|(pod, _)| pod.as_str())
                .collect();
            match late.as_slice() {
                [] => good("every pod of the data plane serves this generation"),
                late => {
                    let names = late[..late.len().min(NAMED)].join(", ");
                    let more = if late.len() > NAMED { " and others" } else { "" };
                    let message = format!("not served yet by {names}{more}");
                    Verdict::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message)
                }
            }
        }
    }
}

/// Whether no pod that lives serves a tenant any more.
pub fn is_unserved(pods: &Pods, tenant_uid: &str) -> bool {
    match pods {
        Pods::NotObserved => true,
        Pods::Unavailable => false,
        Pods::Seen(pods) => pods.values().all(|served| !served.contains_key(tenant_uid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(served: &[(&str, &str)]) -> Pods {
        let one = |(pod, revision): &(&str, &str)| {
            ((*pod).to_owned(), HashMap::from([("u".to_owned(), (*revision).to_owned())]))
        };
        Pods::Seen(served.iter().map(one).collect())
    }

    #[test]
    fn programmed_means_every_pod_that_lives() {
        let verdict = |served: &[(&str, &str)]| programmed(&pods(served), "u", &["r2"]);
        assert_eq!(verdict(&[("a", "r2"), ("b", "r2")]).truth, Truth::True);
        let late = verdict(&[("a", "r2"), ("b", "r1"), ("c", "r1"), ("d", "r1"), ("e", "r1")]);
        assert_eq!(
            (late.truth, late.message.as_str()),
            (Truth::False, "not served yet by b, c, d and others")
        );
        assert_eq!(verdict(&[]).truth, Truth::False);
        assert_eq!(programmed(&pods(&[("a", "r2")]), "other", &["r2"]).truth, Truth::False);
        assert_eq!(programmed(&Pods::Unavailable, "u", &["r2"]).reason, ReasonCode::StoreUnavailable);
        assert_eq!(programmed(&Pods::NotObserved, "u", &["r2"]).truth, Truth::True);
    }

    #[test]
    fn a_tenant_is_unserved_when_no_pod_has_it() {
        assert!(is_unserved(&pods(&[("a", "r")]), "other"));
        assert!(!is_unserved(&pods(&[("a", "r")]), "u"));
        assert!(!is_unserved(&Pods::Unavailable, "u") && is_unserved(&Pods::NotObserved, "u"));
    }
}
