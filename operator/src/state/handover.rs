//! What was handed over to the data plane of each tenant, and which parts of it every pod serves.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use docket_crds::{Runtime, TenantConfig, WebhookConfig};

use crate::state::conditions::Verdict;
use crate::state::declared::Meta;
use crate::state::name::Name;
use crate::state::pods::{Pods, programmed};

/// How many revisions of a tenant are remembered; a pod that serves an older one is late.
const REMEMBERED: usize = 8;

/// All tenants, and the pods that serve them.
#[derive(Debug, Default)]
pub struct Handovers {
    pods: Arc<Pods>,
    /// By the Tenant's uid.
    tenants: HashMap<String, Handover>,
}

#[derive(Debug)]
struct Handover {
    tenant: Name,
    handed: HandedOver,
    /// As reported in the statuses of the Tenant and its Webhooks.
    verdicts: Vec<Verdict>,
}

impl Handovers {
    /// The pods.
    pub fn pods(&self) -> Arc<Pods> {
        self.pods.clone()
    }

    /// These were handed over of a tenant, the last one last. Returns what was handed over so far, and the pods to
    /// compare it with; from now on a change of that comparison is news.
    pub fn hand_over(&mut self, meta: &Meta, runtimes: &[&Runtime]) -> (HandedOver, Arc<Pods>) {
        let handover = self.tenants.entry(meta.uid.clone()).or_insert_with(|| Handover {
            tenant: meta.name.clone(),
            handed: HandedOver::default(),
            verdicts: Vec::new(),
        });
        runtimes.iter().for_each(|runtime| handover.handed.note(runtime));
        handover.verdicts = handover.handed.verdicts(&self.pods, &meta.uid);
        (handover.handed.clone(), self.pods.clone())
    }

    /// These are the pods now. Returns the tenants for which that changes a verdict.
    pub fn set_pods(&mut self, pods: Pods) -> Vec<Name> {
        if *self.pods == pods {
            return Vec::new();
        }
        self.pods = Arc::new(pods);
        let news = self
            .tenants
            .iter()
            .filter(|(uid, handover)| handover.handed.verdicts(&self.pods, uid) != handover.verdicts);
        news.map(|(_, handover)| handover.tenant.clone()).collect()
    }

    /// A Tenant is gone.
    pub fn forget(&mut self, tenant_uid: &str) {
        self.tenants.remove(tenant_uid);
    }
}

/// What was handed over of one tenant: the last revisions, and since which of them each part is as it is now. So the
/// change of one Webhook makes only that Webhook unprogrammed until pods serve it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
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

impl HandedOver {
    /// Records the revision that was handed over last; the same one again changes nothing.
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
        let alone = TenantConfig { webhooks: Vec::new(), ..(**config).clone() };
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

    /// The distinct verdicts on its parts.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::state::conditions::Truth;

    fn pods(served: &[(&str, &str)]) -> Pods {
        let one = |(pod, revision): &(&str, &str)| {
            ((*pod).to_owned(), HashMap::from([("u".to_owned(), (*revision).to_owned())]))
        };
        Pods::Seen(served.iter().map(one).collect())
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
        Runtime::new(1, serde_json::from_value::<TenantConfig>(config).unwrap(), BTreeSet::new())
    }

    #[test]
    fn webhook_change_leaves_the_others_and_the_tenant_programmed() {
        let (before, after) =
            (runtime("s", &[("one", "a"), ("two", "b")]), runtime("s", &[("one", "a"), ("two", "c")]));
        let mut handed = HandedOver::default();
        handed.note(&before);
        handed.note(&after);
        handed.note(&after);
        let verdicts = |handed: &HandedOver, revision: &str| {
            let pods = pods(&[("p", revision)]);
            let webhook = |uid: &str| handed.webhook(&pods, "u", uid).map(|verdict| verdict.truth);
            (handed.tenant(&pods, "u").truth, webhook("one"), webhook("two"))
        };
        let (yes, no) = (Truth::True, Truth::False);
        assert_eq!(verdicts(&handed, &before.revision), (yes, Some(yes), Some(no)));
        assert_eq!(verdicts(&handed, &after.revision), (yes, Some(yes), Some(yes)));
        assert_eq!(verdicts(&handed, "unknown"), (no, Some(no), Some(no)));
        assert_eq!(handed.verdicts(&pods(&[("p", &before.revision)]), "u").len(), 2);

        let third = runtime("other", &[("one", "a"), ("two", "c")]);
        handed.note(&third);
        assert_eq!(verdicts(&handed, &after.revision), (no, Some(yes), Some(yes)));
        handed.note(&runtime("other", &[("one", "a")]));
        assert_eq!(verdicts(&handed, &third.revision), (yes, Some(yes), None), "it is gone");
        handed.note(&before);
        assert_eq!(verdicts(&handed, &third.revision), (no, Some(yes), Some(no)), "it is back");
    }

    #[test]
    fn only_the_last_revisions_are_remembered() {
        let mut handed = HandedOver::default();
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
