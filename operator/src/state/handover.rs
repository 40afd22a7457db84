//! Records which configurations of each tenant were handed over to the data plane, and which parts of them every pod serves.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use docket_crds::{Runtime, TenantConfig, WebhookConfig};

use crate::state::declared::Meta;
use crate::state::name::Name;
use crate::state::pods::{Pods, Programmed, programmed};

/// The number of revisions of a tenant that are remembered. A pod that serves an older revision is late.
const REMEMBERED: usize = 8;

/// All tenants, and the pods that serve them.
#[derive(Debug, Default)]
pub struct Handovers {
    pods: Arc<Pods>,
    /// The handovers by the Tenant's uid.
    tenants: HashMap<String, Handover>,
}

#[derive(Debug)]
struct Handover {
    tenant: Name,
    handed: HandedOver,
    /// The verdicts in the statuses of the Tenant and its Webhooks.
    verdicts: Vec<Programmed>,
}

/// The tenants whose verdicts have changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Tenants that not every pod served before: a user may wait for them.
    pub awaited: Vec<Name>,
    /// All other tenants.
    pub others: Vec<Name>,
}

impl Handovers {
    /// The live pods.
    pub fn pods(&self) -> Arc<Pods> {
        self.pods.clone()
    }

    /// Records the configurations of a tenant that were handed over: `stored` by an earlier pass, `now` by this pass.
    /// Returns everything that was handed over, and the pods to compare it with. From now on, a change of this
    /// comparison is news.
    pub fn hand_over(
        &mut self,
        meta: &Meta,
        stored: Option<&Runtime>,
        now: Option<&Runtime>,
    ) -> (HandedOver, Arc<Pods>) {
        let handover = self.tenants.entry(meta.uid.clone()).or_insert_with(|| Handover {
            tenant: meta.name.clone(),
            handed: HandedOver::default(),
            verdicts: Vec::new(),
        });
        if let Some(stored) = stored {
            handover.handed.note(stored, false);
        }
        if let Some(now) = now {
            handover.handed.note(now, matches!(*self.pods, Pods::Unavailable(_)));
        }
        handover.verdicts = handover.handed.verdicts(&self.pods, &meta.uid);
        (handover.handed.clone(), self.pods.clone())
    }

    /// Records the live pods. Returns the tenants whose verdicts this changes.
    pub fn set_pods(&mut self, pods: Pods) -> News {
        let mut news = News::default();
        if *self.pods == pods {
            return news;
        }
        if matches!(*self.pods, Pods::Unavailable(_)) {
            self.tenants.values_mut().for_each(|handover| handover.handed.read());
        }
        self.pods = Arc::new(pods);
        for (uid, handover) in &self.tenants {
            if handover.handed.verdicts(&self.pods, uid) == handover.verdicts {
                continue;
            }
            let is_awaited = handover.verdicts.iter().any(Programmed::is_awaited);
            let names = if is_awaited { &mut news.awaited } else { &mut news.others };
            names.push(handover.tenant.clone());
        }
        news
    }

    /// Records that the pods' reports can't be read now. The last reports stay.
    pub fn lose_pods(&mut self) {
        let last = match &*self.pods {
            Pods::Seen(last) => Some(last.clone()),
            Pods::NotObserved => None,
            Pods::Unavailable(_) => return,
        };
        self.pods = Arc::new(Pods::Unavailable(last));
    }

    /// Removes a Tenant that does not exist any more.
    pub fn forget(&mut self, tenant_uid: &str) {
        self.tenants.remove(tenant_uid);
    }
}

/// The handed-over configuration of one tenant: its last revisions, and for each part the revision since which it is
/// unchanged. So after a change of one Webhook, only this Webhook is not programmed until pods serve it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// The revisions, the newest at the end.
    revisions: VecDeque<String>,
    /// The number of earlier revisions, which are forgotten.
    forgotten: usize,
    /// The tenant without its webhooks.
    tenant: PartDigest,
    /// The digest of each Webhook, by uid.
    webhooks: HashMap<String, PartDigest>,
}

/// A digest of a part, and the number (from 0) of the first revision with this digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PartDigest {
    digest: u64,
    since: usize,
    /// Whether the pods' reports could not be read since the part changed.
    is_unread: bool,
}

impl HandedOver {
    /// Records the revision that was handed over last. The same revision again changes nothing. `is_unread`: the
    /// pods' reports can't be read now.
    pub fn note(&mut self, runtime: &Runtime, is_unread: bool) {
        if self.revisions.back() == Some(&runtime.revision) {
            return;
        }
        self.revisions.push_back(runtime.revision.clone());
        if self.revisions.len() > REMEMBERED {
            self.revisions.pop_front();
            self.forgotten += 1;
        }
        let newest = self.forgotten + self.revisions.len() - 1;
        let part = |json: serde_json::Result<Vec<u8>>, before: Option<&PartDigest>| {
            let mut hasher = DefaultHasher::new();
            json.expect("plain structs serialise").hash(&mut hasher);
            let digest = hasher.finish();
            let same = before.copied().filter(|before| before.digest == digest);
            same.unwrap_or(PartDigest { digest, since: newest, is_unread })
        };
        let config = &runtime.config;
        let alone = TenantConfig { webhooks: Vec::new(), ..(**config).clone() };
        self.tenant = part(serde_json::to_vec(&alone), Some(&self.tenant));
        let webhook = |webhook: &WebhookConfig| (serde_json::to_vec(webhook), webhook.uid.clone());
        let before = std::mem::take(&mut self.webhooks);
        let webhooks = config.webhooks.iter().map(webhook);
        self.webhooks = webhooks.map(|(json, uid)| (uid.clone(), part(json, before.get(&uid)))).collect();
    }

    /// Records that the pods' reports can be read again.
    fn read(&mut self) {
        self.webhooks.values_mut().chain([&mut self.tenant]).for_each(|part| part.is_unread = false);
    }

    /// Whether every pod serves the tenant itself.
    pub fn tenant(&self, pods: &Pods, tenant_uid: &str) -> Programmed {
        self.of(pods, tenant_uid, self.tenant.since, self.tenant.is_unread)
    }

    /// Whether every pod serves one of its Webhooks; `None`: the Webhook was not handed over.
    pub fn webhook(&self, pods: &Pods, tenant_uid: &str, webhook_uid: &str) -> Option<Programmed> {
        let part = self.webhooks.get(webhook_uid)?;
        Some(self.of(pods, tenant_uid, part.since, part.is_unread))
    }

    /// The different verdicts on its parts.
    pub fn verdicts(&self, pods: &Pods, tenant_uid: &str) -> Vec<Programmed> {
        let parts = self.webhooks.values().chain([&self.tenant]);
        let mut parts: Vec<_> = parts.map(|part| (part.since.max(self.forgotten), part.is_unread)).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.into_iter().map(|(since, is_unread)| self.of(pods, tenant_uid, since, is_unread)).collect()
    }

    fn of(&self, pods: &Pods, tenant_uid: &str, since: usize, is_unread: bool) -> Programmed {
        let good = self.revisions.iter().skip(since.saturating_sub(self.forgotten));
        programmed(pods, tenant_uid, &good.map(String::as_str).collect::<Vec<_>>(), is_unread)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::state::conditions::Truth;
    use crate::state::pods::tests::pods;

    fn truth(programmed: Programmed) -> Truth {
        match programmed {
            Programmed::Known(verdict) => verdict.truth,
            Programmed::AsReported => panic!("the pods were read"),
        }
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
        Runtime::new(1, serde_json::from_value::<TenantConfig>(config).unwrap(), BTreeMap::new())
    }

    #[test]
    fn webhook_change_leaves_the_others_and_the_tenant_programmed() {
        let (before, after) =
            (runtime("s", &[("one", "a"), ("two", "b")]), runtime("s", &[("one", "a"), ("two", "c")]));
        let mut handed = HandedOver::default();
        handed.note(&before, false);
        handed.note(&after, false);
        handed.note(&after, false);
        let verdicts = |handed: &HandedOver, revision: &str| {
            let pods = pods(&[("p", revision)]);
            let webhook = |uid: &str| handed.webhook(&pods, "u", uid).map(truth);
            (truth(handed.tenant(&pods, "u")), webhook("one"), webhook("two"))
        };
        let (yes, no) = (Truth::True, Truth::False);
        assert_eq!(verdicts(&handed, &before.revision), (yes, Some(yes), Some(no)));
        assert_eq!(verdicts(&handed, &after.revision), (yes, Some(yes), Some(yes)));
        assert_eq!(verdicts(&handed, "unknown"), (no, Some(no), Some(no)));
        assert_eq!(handed.verdicts(&pods(&[("p", &before.revision)]), "u").len(), 2);

        let third = runtime("other", &[("one", "a"), ("two", "c")]);
        handed.note(&third, false);
        assert_eq!(verdicts(&handed, &after.revision), (no, Some(yes), Some(yes)));
        handed.note(&runtime("other", &[("one", "a")]), false);
        assert_eq!(verdicts(&handed, &third.revision), (yes, Some(yes), None), "it is gone");
        handed.note(&before, false);
        assert_eq!(verdicts(&handed, &third.revision), (no, Some(yes), Some(no)), "it is back");
    }

    #[test]
    fn only_the_last_revisions_are_remembered() {
        let mut handed = HandedOver::default();
        let first = runtime("s", &[("one", "a"), ("two", "0")]);
        handed.note(&first, false);
        for number in 1..=REMEMBERED {
            handed.note(&runtime("s", &[("one", "a"), ("two", &number.to_string())]), false);
        }
        let of = |pods| truth(handed.webhook(&pods, "u", "one").unwrap());
        assert_eq!(of(pods(&[("p", &first.revision)])), Truth::False, "that long behind");
        assert_eq!(of(pods(&[("p", &handed.revisions[0])])), Truth::True);
        assert_eq!(handed.revisions.len(), REMEMBERED);
    }

    /// Reads fail for ten minutes, with passes in between.
    #[test]
    fn redis_away_is_no_news_of_anything() {
        let object = json!({"metadata": {"name": "t", "namespace": "a", "uid": "u"}});
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let meta = Meta::of(&object.metadata).unwrap();
        let runtime = runtime("s", &[("one", "a")]);
        let served = pods(&[("p", &runtime.revision)]);
        let mut handovers = Handovers::default();
        handovers.hand_over(&meta, None, Some(&runtime));
        assert_eq!(
            handovers.set_pods(served.clone()).others,
            std::slice::from_ref(&meta.name),
            "it is served now"
        );
        let (handed, seen) = handovers.hand_over(&meta, Some(&runtime), Some(&runtime));
        for _ in 0..600 {
            handovers.lose_pods();
            let (same, away) = handovers.hand_over(&meta, Some(&runtime), Some(&runtime));
            assert_eq!(same.verdicts(&away, "u"), handed.verdicts(&seen, "u"));
        }
        // Meanwhile a user changes a webhook. Its verdict is unknown; the tenant's verdict stays.
        let changed = self::runtime("s", &[("one", "b")]);
        let (handed, away) = handovers.hand_over(&meta, Some(&runtime), Some(&changed));
        assert_eq!(truth(handed.webhook(&away, "u", "one").unwrap()), Truth::Unknown);
        assert_eq!(truth(handed.tenant(&away, "u")), Truth::True);
        let news = handovers.set_pods(pods(&[("p", &changed.revision)]));
        assert_eq!(news.awaited, std::slice::from_ref(&meta.name));
        handovers.hand_over(&meta, Some(&changed), Some(&changed));
        handovers.lose_pods();
        assert_eq!(handovers.set_pods(pods(&[("p", &changed.revision)])), News::default());
    }

    #[test]
    fn new_process_without_redis_leaves_what_is_reported() {
        let object = json!({"metadata": {"name": "t", "namespace": "a", "uid": "u"}});
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let meta = Meta::of(&object.metadata).unwrap();
        let (stored, changed) =
            (runtime("s", &[("one", "a"), ("two", "a")]), runtime("s", &[("one", "a"), ("two", "b")]));
        let mut handovers = Handovers::default();
        handovers.lose_pods();
        let (handed, pods) = handovers.hand_over(&meta, Some(&stored), Some(&changed));
        assert_eq!(handed.tenant(&pods, "u"), Programmed::AsReported);
        assert_eq!(handed.webhook(&pods, "u", "one"), Some(Programmed::AsReported));
        assert_eq!(truth(handed.webhook(&pods, "u", "two").unwrap()), Truth::Unknown, "it changed");
    }

    #[test]
    fn tenant_that_is_gone_is_no_news() {
        let object = json!({"metadata": {"name": "t", "namespace": "a", "uid": "u"}});
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let meta = Meta::of(&object.metadata).unwrap();
        let runtime = runtime("s", &[("one", "a")]);
        let mut handovers = Handovers::default();
        handovers.hand_over(&meta, None, Some(&runtime));
        handovers.forget("u");
        assert_eq!(handovers.set_pods(pods(&[("p", &runtime.revision)])), News::default());
    }
}
