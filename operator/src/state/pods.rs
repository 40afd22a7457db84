//! Whether the data plane serves what was handed to it. Pure.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use docket_crds::{
    Runtime, TenantConfig, WebhookConfig,
    conditions::{ConditionType, ReasonCode},
};

use crate::state::conditions::{Truth, Verdict};

/// How often pods are asked while something is not served by all of them.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many pods a message names.
const NAMED: usize = 3;
/// How many revisions of a tenant are told apart; a pod that serves an older one is late.
const REMEMBERED: usize = 8;

/// What is known of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pods {
    /// They are not observed.
    #[default]
    NotObserved,
    /// What they report can't be read.
    Unavailable,
    /// Those that live: the revision of each tenant that each serves, by pod and tenant uid.
    Seen(BTreeMap<String, HashMap<String, String>>),
}

/// What was handed over of one tenant: the last revisions, and since which of them each part is as it is now. So a change
/// of one Webhook is a change of that Webhook alone, and what it leaves as it was goes on being served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// The newest at the end.
    revisions: VecDeque<String>,
    /// How many there were before these.
    forgotten: usize,
    /// The tenant without its webhooks.
    tenant: Part,
    /// By uid.
    webhooks: HashMap<String, Part>,
}

/// A digest of a part, and the first revision, counted from 0, since which it is that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    digest: u64,
    since: usize,
}

impl Handed {
    /// Notes the revision that was handed over last; again is no news.
    pub fn note(&mut self, runtime: &Runtime) {
        if self.revisions.back() == Some(&runtime.revision) {
            return;
        }
        self.revisions.push_back(runtime.revision.clone());
        if self.revisions.len() > REMEMBERED {
            self.revisions.pop_front();
            self.forgotten += 1;
        }
        let newest = self.forgotten + self.revisions.len() - 1;
        let part = |json: serde_json::Result<Vec<u8>>, before: Option<&Part>| {
            let mut hasher = DefaultHasher::new();
            json.expect("plain structs serialise").hash(&mut hasher);
            let digest = hasher.finish();
            before.copied().filter(|before| before.digest == digest).unwrap_or(Part { digest, since: newest })
        };
        let config = &runtime.config;
        let alone = TenantConfig { webhooks: Vec::new(), ..config.clone() };
        self.tenant = part(serde_json::to_vec(&alone), Some(&self.tenant));
        let webhook = |webhook: &WebhookConfig| (serde_json::to_vec(webhook), webhook.uid.clone());
        let before = std::mem::take(&mut self.webhooks);
        let webhooks = config.webhooks.iter().map(webhook);
        self.webhooks = webhooks.map(|(json, uid)| (uid.clone(), part(json, before.get(&uid)))).collect();
    }

    /// The verdict on the tenant itself.
    pub fn tenant(&self, pods: &Pods, tenant_uid: &str) -> Verdict {
        self.since(pods, tenant_uid, self.tenant.since)
    }

    /// The verdict on one of its Webhooks; `None`: it was not handed over.
    pub fn webhook(&self, pods: &Pods, tenant_uid: &str, webhook_uid: &str) -> Option<Verdict> {
        Some(self.since(pods, tenant_uid, self.webhooks.get(webhook_uid)?.since))
    }

    /// All that is to be said, each once.
    pub fn verdicts(&self, pods: &Pods, tenant_uid: &str) -> Vec<Verdict> {
        let parts = self.webhooks.values().chain([&self.tenant]);
        let mut since: Vec<usize> = parts.map(|part| part.since.max(self.forgotten)).collect();
        since.sort_unstable();
        since.dedup();
        since.into_iter().map(|since| self.since(pods, tenant_uid, since)).collect()
    }

    fn since(&self, pods: &Pods, tenant_uid: &str, since: usize) -> Verdict {
        let good = self.revisions.iter().skip(since.saturating_sub(self.forgotten));
        programmed(pods, tenant_uid, &good.map(String::as_str).collect::<Vec<_>>())
    }
}

/// The verdict on a part of a tenant that is in these revisions as it is now.
pub fn programmed(pods: &Pods, tenant_uid: &str, revisions: &[&str]) -> Verdict {
    let good =
        |message: &str| Verdict::new(ConditionType::Programmed, Truth::True, ReasonCode::Programmed, message);
    match pods {
        Pods::NotObserved => good(
            "handed to the data plane; whether its pods serve it is not observed (the operator has no --redis-url-file)",
        ),
        Pods::Unavailable => Verdict::new(
            ConditionType::Programmed,
            Truth::Unknown,
            ReasonCode::StoreUnavailable,
            "handed to the data plane; what its pods serve can't be read from Redis",
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
    use std::collections::BTreeSet;

    use serde_json::json;

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

    fn runtime(subdomain: &str, targets: &[(&str, &str)]) -> Runtime {
        let webhook = |(uid, target): &(&str, &str)| {
            json!({"uid": uid, "namespace": "a", "name": uid, "displayName": null, "customerCode": "C",
                "targetUrl": format!("https://{target}/"), "secret": null, "caBundle": null,
                "events": ["order.created"], "active": true})
        };
        let config = json!({
            "uid": "u", "namespace": "a", "name": "t", "displayName": null, "clientCode": "T",
            "subdomains": [subdomain], "suspended": false, "apiKeys": [],
            "tokens": {"lifetimeMinutes": 60, "signingKeys": []}, "database": null, "activeEvents": [],
            "webhooks": targets.iter().map(webhook).collect::<Vec<_>>(),
        });
        Runtime::new(1, serde_json::from_value(config).unwrap(), BTreeSet::new())
    }

    #[test]
    fn a_change_of_one_webhook_leaves_the_others_and_the_tenant_programmed() {
        let (before, after) =
            (runtime("s", &[("one", "a"), ("two", "b")]), runtime("s", &[("one", "a"), ("two", "c")]));
        let mut handed = Handed::default();
        handed.note(&before);
        handed.note(&after);
        handed.note(&after);
        let told = |handed: &Handed, revision: &str| {
            let pods = pods(&[("p", revision)]);
            let webhook = |uid: &str| handed.webhook(&pods, "u", uid).map(|verdict| verdict.truth);
            (handed.tenant(&pods, "u").truth, webhook("one"), webhook("two"))
        };
        let (yes, no) = (Truth::True, Truth::False);
        assert_eq!(told(&handed, &before.revision), (yes, Some(yes), Some(no)));
        assert_eq!(told(&handed, &after.revision), (yes, Some(yes), Some(yes)));
        assert_eq!(told(&handed, "unknown"), (no, Some(no), Some(no)));
        assert_eq!(handed.verdicts(&pods(&[("p", &before.revision)]), "u").len(), 2);

        let third = runtime("other", &[("one", "a"), ("two", "c")]);
        handed.note(&third);
        assert_eq!(told(&handed, &after.revision), (no, Some(yes), Some(yes)));
        handed.note(&runtime("other", &[("one", "a")]));
        assert_eq!(told(&handed, &third.revision), (yes, Some(yes), None), "it is gone");
        handed.note(&before);
        assert_eq!(told(&handed, &third.revision), (no, Some(yes), Some(no)), "it is back");
    }

    #[test]
    fn only_the_last_revisions_are_remembered() {
        let mut handed = Handed::default();
        let first = runtime("s", &[("one", "a"), ("two", "0")]);
        handed.note(&first);
        for number in 1..=REMEMBERED {
            handed.note(&runtime("s", &[("one", "a"), ("two", &number.to_string())]));
        }
        let truth = |pods| handed.webhook(&pods, "u", "one").unwrap().truth;
        assert_eq!(truth(pods(&[("p", &first.revision)])), Truth::False, "that long behind");
        assert_eq!(truth(pods(&[("p", &handed.revisions[0])])), Truth::True);
        assert_eq!(handed.revisions.len(), REMEMBERED);
    }
}
