//! From the tenants that are declared to the tenants that are served, after each change.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use docket_crds::Runtime;
use docket_egress::{EgressPolicy, Trust};
use docket_source::{Declaration, DeclaredTenant};
use docket_store::stores::Stores;

use super::faults;
use super::registry::{Revisions, Tenants};
use super::tenant::{HeldWebhooks, LocalReceiver, ServedTenant};
use crate::telemetry::Metrics;

/// Serves what a source declares.
pub struct Activation {
    stores: Arc<Stores>,
    tenants: Arc<Tenants>,
    metrics: Arc<Metrics>,
    public: Trust,
    local: Option<LocalReceiver>,
    policy: EgressPolicy,
    problems: Vec<String>,
    incomplete: bool,
}

impl Activation {
    /// Returns the tenants that are served.
    pub fn tenants(&self) -> Arc<Tenants> {
        Arc::clone(&self.tenants)
    }

    /// Serves no tenant yet. `local` is the receiver of this process, if it has one.
    pub fn new(
        stores: Arc<Stores>,
        tenants: Arc<Tenants>,
        metrics: Arc<Metrics>,
        policy: EgressPolicy,
        local: Option<LocalReceiver>,
    ) -> Self {
        Self {
            stores,
            tenants,
            metrics,
            public: Trust::public(),
            local,
            policy,
            problems: Vec::new(),
            incomplete: false,
        }
    }

    /// Serves the declared tenants and no others. A tenant whose revision has not changed is not recreated. A tenant that can't
    /// be served keeps its last good version.
    pub fn replace(&mut self, declaration: Declaration) {
        let Declaration { tenants, problems, incomplete, is_unreadable: _ } = declaration;
        let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let completeness_changed = std::mem::replace(&mut self.incomplete, incomplete) != incomplete;
        let (mut serving, mut revisions) = (Vec::with_capacity(tenants.len()), Revisions::new());
        for DeclaredTenant { runtime, .. } in tenants {
            let (uid, code) = (Arc::clone(&runtime.config.uid), runtime.config.client_code.clone());
            let before = self.tenants.by_uid(&uid);
            let revision = self.tenants.revisions.borrow().get(&*uid).cloned();
            let unchanged = !completeness_changed && revision.as_ref() == Some(&runtime.revision);
            let tenant = match before.clone().filter(|_| unchanged) {
                Some(tenant) => Ok(tenant),
                None => self.tenant(&runtime).map(Arc::new),
            };
            match tenant {
                Ok(tenant) => {
                    serving.push(tenant);
                    revisions.insert(uid.to_string(), runtime.revision.clone());
                }
                Err(error) => {
                    let then =
                        if before.is_some() { "keeps its last good configuration" } else { "is not served" };
                    problems.push(format!("Tenant {code} {then}: {error:#}"));
                    serving.extend(before);
                    revisions.extend(revision.map(|revision| (uid.to_string(), revision)));
                }
            }
        }
        self.metrics.configured(serving.len(), problems.len());
        self.stores.retain(&serving.iter().map(|tenant| &*tenant.uid).collect::<HashSet<_>>());
        self.tenants.replace(serving);
        self.report(problems);
        self.tenants.revisions.send_if_modified(|before| {
            let changed = *before != revisions;
            *before = revisions;
            changed
        });
    }

    /// Logs the problems that are new.
    fn report(&mut self, problems: Vec<String>) {
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tracing::warn!("{problem}");
        }
        self.problems = problems;
    }

    /// Makes a tenant to serve. Logs and adds the faults that only this process can find.
    fn tenant(&self, runtime: &Runtime) -> anyhow::Result<ServedTenant> {
        let config = &runtime.config;
        let (mut faults, mut warnings) = (runtime.faults.clone(), BTreeMap::new());
        for webhook in &config.webhooks {
            let found = faults::of(webhook, &self.policy, self.local.as_ref());
            // Once for all pages: they decode the webhook's certificates.
            let warned: Vec<String> = faults::warnings(webhook).collect();
            for fault in found.iter().chain(&warned) {
                tracing::warn!("Webhook {}: {fault}", webhook.full_name());
            }
            if !found.is_empty() {
                faults.entry(webhook.uid.clone()).or_default().extend(found);
            }
            if !warned.is_empty() {
                warnings.insert(webhook.uid.clone(), warned);
            }
        }
        let store = self.stores.of(config)?;
        let held = match self.incomplete {
            true => HeldWebhooks::AllUnknown,
            false => HeldWebhooks::These(runtime.held()),
        };
        let tenant = ServedTenant::new(Arc::clone(config), store, held, &self.public, self.local.as_ref());
        Ok(tenant.with_faults(faults, warnings))
    }
}
