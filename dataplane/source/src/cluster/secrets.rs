//! The known runtime Secrets, and the tenants that they declare. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use docket_crds::ApiKeyDigest;
use docket_crds::runtime::{KEY, Runtime, unknown_events};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::declaration::{Declaration, DeclaredTenant};
use crate::problem::ConfigProblem;

/// The Secrets by name.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    known: BTreeMap<String, KnownSecret>,
    /// The Secrets of the list so far; `None`: no list is under way.
    listed: Option<BTreeMap<String, KnownSecret>>,
    /// Whether the last list was empty although Secrets were known. It ends no tenant.
    is_emptied: bool,
}

#[derive(Debug, Clone)]
struct KnownSecret {
    uid: String,
    created: Timestamp,
    /// The last good version of the tenant.
    runtime: Option<Arc<Runtime>>,
    /// Why the current version can't be read.
    problem: Option<String>,
    /// The events of a newer operator that this version does not know.
    unknown_events: BTreeSet<String>,
}

impl Secrets {
    /// Records a Secret that was added or changed.
    pub(super) fn apply(&mut self, secret: &Secret) {
        let name = name(secret);
        let known = self.read(secret);
        self.known.insert(name, known);
    }

    /// Removes a Secret that was deleted or lost its label.
    pub(super) fn delete(&mut self, secret: &Secret) {
        self.known.remove(&name(secret));
    }

    /// Begins a list. Until it is complete, the known Secrets stay.
    pub(super) fn begin_list(&mut self) {
        self.listed = Some(BTreeMap::new());
    }

    /// Adds a Secret to the list.
    pub(super) fn listed(&mut self, secret: &Secret) {
        let known = self.read(secret);
        self.listed.get_or_insert_default().insert(name(secret), known);
    }

    /// Ends the list: a Secret that is not in it is removed. But an empty list after Secrets were known more likely
    /// means a lost cluster than the end of every tenant.
    pub(super) fn end_list(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        self.is_emptied = listed.is_empty() && !self.known.is_empty();
        if !self.is_emptied {
            self.known = listed;
        }
    }

    /// A Secret that was deleted and recreated has no last good version: it may be another tenant's.
    fn read(&self, secret: &Secret) -> KnownSecret {
        let uid = secret.metadata.uid.clone().unwrap_or_default();
        let created =
            secret.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        match runtime(secret) {
            Ok((runtime, unknown_events)) => {
                KnownSecret { uid, created, runtime: Some(Arc::new(runtime)), problem: None, unknown_events }
            }
            Err(problem) => {
                let last = self.known.get(&name(secret)).filter(|known| known.uid == uid);
                let runtime = last.and_then(|known| known.runtime.clone());
                KnownSecret { uid, created, runtime, problem: Some(problem), unknown_events: BTreeSet::new() }
            }
        }
    }

    /// The tenants to serve now, the oldest Secret first.
    pub(super) fn declaration(&self) -> Declaration {
        let is_unreadable =
            !self.known.is_empty() && self.known.values().all(|known| known.runtime.is_none());
        let mut declaration = Declaration { is_unreadable, ..Declaration::default() };
        if self.is_emptied {
            declaration.problems.push(ConfigProblem::general(format!(
                "the namespace has no runtime Secrets any more: the last {} stay active until a Secret appears or this \
                 process restarts",
                self.known.len()
            )));
        }
        let unknown: BTreeSet<&str> =
            self.known.values().flat_map(|known| &known.unknown_events).map(String::as_str).collect();
        if !unknown.is_empty() {
            let codes = unknown.into_iter().collect::<Vec<_>>().join(", ");
            declaration.problems.push(ConfigProblem::general(format!(
                "the operator is newer than this process, which ignores events that it does not know: {codes}; upgrade this process"
            )));
        }
        let mut by_age: Vec<(&String, &KnownSecret)> = self.known.iter().collect();
        by_age.sort_by_key(|(name, known)| (known.created, *name));
        let mut taken = TakenNames::default();
        for (name, known) in by_age {
            if let Some(problem) = &known.problem {
                let then = match known.runtime {
                    Some(_) => "the last good version stays active",
                    None => "its tenant is not served",
                };
                declaration.problems.push(ConfigProblem::of_secret(name, format!("{problem}; {then}")));
            }
            if let Some(runtime) = &known.runtime {
                let runtime = taken.take(name, runtime, &mut declaration.problems);
                let tenant = runtime.map(|runtime| DeclaredTenant { runtime, api_keys: Vec::new() });
                declaration.tenants.extend(tenant);
            }
        }
        declaration
    }
}

/// The uids, codes, subdomains and keys that older Secrets use; each value is the name of the Secret.
#[derive(Default)]
struct TakenNames<'a> {
    uids: HashMap<&'a str, &'a str>,
    client_codes: HashMap<String, &'a str>,
    subdomains: HashMap<String, &'a str>,
    keys: HashMap<ApiKeyDigest, &'a str>,
}

impl<'a> TakenNames<'a> {
    /// Returns a tenant without what an older Secret has, or `None` if that is the tenant itself.
    fn take(
        &mut self,
        name: &'a str,
        runtime: &'a Arc<Runtime>,
        problems: &mut Vec<ConfigProblem>,
    ) -> Option<Arc<Runtime>> {
        let config = &runtime.config;
        let code = config.client_code.as_str().to_ascii_lowercase();
        let whole = self.uids.get(&*config.uid).map(|other| ("uid", other));
        let whole = whole.or_else(|| self.client_codes.get(&code).map(|other| ("clientCode", other)));
        if let Some((what, other)) = whole {
            let message = format!("its {what} is already used by Secret {other}; its tenant is not served");
            problems.push(ConfigProblem::of_secret(name, message));
            return None;
        }
        self.uids.insert(&config.uid, name);
        self.client_codes.insert(code, name);
        let mut left = None;
        for subdomain in &config.subdomains {
            let other = *self.subdomains.entry(subdomain.to_ascii_lowercase()).or_insert(name);
            if other != name {
                let message = format!("subdomain {subdomain} is already used by Secret {other}");
                problems.push(ConfigProblem::of_secret(name, message));
                let left = left.get_or_insert_with(|| (**runtime).clone());
                Arc::make_mut(&mut left.config).subdomains.retain(|other| other != subdomain);
            }
        }
        for key in &config.api_keys {
            let other = *self.keys.entry(key.digest).or_insert(name);
            if other != name {
                let message = format!("API key {} is already used by Secret {other}", key.name);
                problems.push(ConfigProblem::of_secret(name, message));
                let left = left.get_or_insert_with(|| (**runtime).clone());
                Arc::make_mut(&mut left.config).api_keys.retain(|other| other.digest != key.digest);
            }
        }
        Some(left.map_or_else(|| Arc::clone(runtime), Arc::new))
    }
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

/// Parses a Secret: the tenant, and the events of it that this version does not know. The error says where the JSON is wrong, and quotes
/// nothing.
fn runtime(secret: &Secret) -> Result<(Runtime, BTreeSet<String>), String> {
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let data = data.ok_or_else(|| format!("it has no key {KEY}"))?;
    let runtime = Runtime::read(&data.0).map_err(|error| {
        let then = if error.is_newer() { "; upgrade the data plane" } else { "" };
        format!("{KEY} {error}{then}")
    })?;
    Ok((runtime, unknown_events(&data.0)))
}

#[cfg(test)]
mod tests;
