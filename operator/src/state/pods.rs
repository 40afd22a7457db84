//! The live pods of the data plane, and whether all live pods serve a revision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_crds::conditions::{ConditionType, ReasonCode};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::state::conditions::{NewCondition, Truth, reported};

/// How soon the deletion of a Tenant checks again whether pods still serve it.
pub const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// The number of pods that a message names.
const NAMED: usize = 3;

/// The revision of each tenant that each live pod serves, by pod and tenant uid.
pub type ServedRevisions = BTreeMap<String, Arc<HashMap<String, String>>>;

/// The operator's knowledge of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// The pods are not observed.
    #[default]
    NotObserved,
    /// What they report can't be read now. What was read last; `None`: nothing since this process started.
    Unavailable(Option<ServedRevisions>),
    /// The live pods.
    Seen(ServedRevisions),
}

/// Whether every pod serves the present configuration of a tenant or a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// The verdict from the pods' reports.
    Known(NewCondition),
    /// Nothing was read since this process started, so what the status says of this generation stays.
    AsReported,
}

impl Programmed {
    /// The verdict for a status whose conditions were `previous`.
    pub fn verdict(&self, previous: &[Condition], generation: i64) -> NewCondition {
        match self {
            Self::Known(verdict) => verdict.clone(),
            Self::AsReported => {
                reported(previous, ConditionType::Programmed, generation).unwrap_or_else(unavailable)
            }
        }
    }

    /// Whether a user may wait for the part: it is not known to be served.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Known(verdict) if verdict.truth != Truth::True)
    }
}

/// Whether every pod serves a part of a tenant. `revisions`: the revisions that contain the part in its present form.
/// `is_unread`: the part changed since the pods' reports were last read.
pub fn programmed(pods: &Pods, tenant_uid: &str, revisions: &[&str], is_unread: bool) -> Programmed {
    match pods {
        Pods::NotObserved => Programmed::Known(good(
            "handed over to the data plane; the operator can't see whether pods serve it: --redis-url-file is not set",
        )),
        Pods::Unavailable(_) if is_unread => Programmed::Known(unavailable()),
        Pods::Unavailable(None) => Programmed::AsReported,
        Pods::Unavailable(Some(pods)) | Pods::Seen(pods) => {
            Programmed::Known(served_by(pods, tenant_uid, revisions))
        }
    }
}

fn good(message: &str) -> NewCondition {
    NewCondition::new(ConditionType::Programmed, Truth::True, ReasonCode::Programmed, message)
}

fn unavailable() -> NewCondition {
    let message = "handed over to the data plane; reading from Redis what its pods serve failed";
    NewCondition::new(ConditionType::Programmed, Truth::Unknown, ReasonCode::StoreUnavailable, message)
}

fn served_by(pods: &ServedRevisions, tenant_uid: &str, revisions: &[&str]) -> NewCondition {
    let pending =
        |message| NewCondition::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message);
    if pods.is_empty() {
        return pending("no pod of the data plane is alive".to_owned());
    }
    let is_late = |served: &HashMap<String, String>| {
        served.get(tenant_uid).is_none_or(|served| !revisions.contains(&served.as_str()))
    };
    let late: Vec<&str> =
        pods.iter().filter(|(_, served)| is_late(served)).map(|(pod, _)| pod.as_str()).collect();
    if late.is_empty() {
        return good("every pod of the data plane serves this generation");
    }
    let names = late[..late.len().min(NAMED)].join(", ");
    let more = if late.len() > NAMED { " and others" } else { "" };
    pending(format!("not served yet by {names}{more}"))
}

/// Whether no live pod serves a tenant any more.
pub fn is_unserved(pods: &Pods, tenant_uid: &str) -> bool {
    match pods {
        Pods::NotObserved => true,
        Pods::Unavailable(_) => false,
        Pods::Seen(pods) => pods.values().all(|served| !served.contains_key(tenant_uid)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    pub(crate) fn pods(served: &[(&str, &str)]) -> Pods {
        let one = |(pod, revision): &(&str, &str)| {
            ((*pod).to_owned(), Arc::new(HashMap::from([("u".to_owned(), (*revision).to_owned())])))
        };
        Pods::Seen(served.iter().map(one).collect())
    }

    #[test]
    fn programmed_means_every_pod_that_lives() {
        let known = |pods: &Pods, uid: &str| match programmed(pods, uid, &["r2"], false) {
            Programmed::Known(verdict) => verdict,
            Programmed::AsReported => panic!("the pods were read"),
        };
        let verdict = |served: &[(&str, &str)]| known(&pods(served), "u");
        assert_eq!(verdict(&[("a", "r2"), ("b", "r2")]).truth, Truth::True);
        let late = verdict(&[("a", "r2"), ("b", "r1"), ("c", "r1"), ("d", "r1"), ("e", "r1")]);
        assert_eq!(
            (late.truth, late.message.as_str()),
            (Truth::False, "not served yet by b, c, d and others")
        );
        let three = verdict(&[("a", "r1"), ("b", "r1"), ("c", "r1")]);
        assert_eq!(three.message, "not served yet by a, b, c");
        assert_eq!(verdict(&[]).truth, Truth::False);
        assert_eq!(known(&pods(&[("a", "r2")]), "other").truth, Truth::False);
        assert_eq!(known(&Pods::NotObserved, "u").truth, Truth::True);
    }

    #[test]
    fn what_cannot_be_read_stays_what_it_was() {
        let Pods::Seen(served) = pods(&[("a", "r2")]) else { panic!("they are seen") };
        let (away, never_read) = (Pods::Unavailable(Some(served)), Pods::Unavailable(None));
        let seen = programmed(&pods(&[("a", "r2")]), "u", &["r2"], false);
        assert_eq!(programmed(&away, "u", &["r2"], false), seen);
        assert_eq!(programmed(&never_read, "u", &["r2"], false), Programmed::AsReported);
        for pods in [&away, &never_read] {
            let changed = programmed(pods, "u", &["r2"], true);
            assert_eq!(changed, Programmed::Known(unavailable()), "what changed meanwhile is not known");
        }
        let condition = |status: &str, generation| Condition {
            type_: "Programmed".into(),
            status: status.into(),
            reason: "Pending".into(),
            message: "not served yet by a".into(),
            observed_generation: Some(generation),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        };
        let verdict = Programmed::AsReported.verdict(&[condition("False", 3)], 3);
        assert_eq!((verdict.truth, verdict.message.as_str()), (Truth::False, "not served yet by a"));
        for unknown in [vec![condition("False", 2)], vec![condition("Odd", 3)], Vec::new()] {
            assert_eq!(Programmed::AsReported.verdict(&unknown, 3), unavailable(), "{unknown:?}");
        }
    }

    #[test]
    fn a_tenant_is_unserved_when_no_pod_has_it() {
        assert!(is_unserved(&pods(&[("a", "r")]), "other"));
        assert!(!is_unserved(&pods(&[("a", "r")]), "u"));
        assert!(!is_unserved(&Pods::Unavailable(None), "u") && is_unserved(&Pods::NotObserved, "u"));
        let Pods::Seen(mut some) = pods(&[("a", "r")]) else { panic!("they are seen") };
        some.insert("b".to_owned(), Arc::default());
        assert!(!is_unserved(&Pods::Seen(some), "u"), "one of two serves it");
    }
}
