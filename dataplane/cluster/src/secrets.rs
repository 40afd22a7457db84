//! What is known of the runtime Secrets, and what is served because of it. No I/O, no clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use docket_crds::ApiKeyDigest;
use docket_crds::runtime::{KEY, Runtime};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

/// What the Secrets say.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The tenants to serve, the oldest first.
    pub tenants: Vec<Served>,
    /// What is not served as it was written; names Secrets and tenants, never a value.
    pub problems: Vec<String>,
}

/// A tenant to serve.
#[derive(Debug, Clone)]
pub struct Served {
    /// As the operator wrote it, but for what another tenant had before.
    pub runtime: Arc<Runtime>,
}

impl Loaded {
    /// The tenant with this client code, in any case.
    pub fn tenant(&self, client_code: &str) -> Option<&Served> {
        self.tenants.iter().find(|served| served.runtime.config.client_code.matches(client_code))
    }
}

/// The Secrets by name.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    known: BTreeMap<String, Known>,
    /// What a list has brought so far; `None`: none is under way.
    listed: Option<BTreeMap<String, Known>>,
    /// The last list was empty, which nobody is taken from service for.
    is_emptied: bool,
}

#[derive(Debug, Clone)]
struct Known {
    uid: String,
    created: Timestamp,
    /// What was good last.
    runtime: Option<Arc<Runtime>>,
    /// Why the Secret as it is now can't be read.
    problem: Option<String>,
}

impl Secrets {
    /// One was added or changed.
    pub(crate) fn apply(&mut self, secret: &Secret) {
        let name = name(secret);
        let known = self.read(secret);
        self.known.insert(name, known);
    }

    /// One was deleted, or has lost its label.
    pub(crate) fn delete(&mut self, secret: &Secret) {
        self.known.remove(&name(secret));
    }

    /// A list begins; what is known counts until it is complete.
    pub(crate) fn begin_list(&mut self) {
        self.listed = Some(BTreeMap::new());
    }

    /// One of the list.
    pub(crate) fn listed(&mut self, secret: &Secret) {
        let known = self.read(secret);
        self.listed.get_or_insert_default().insert(name(secret), known);
    }

    /// The list is complete: what is not in it is gone. But an empty one in place of what was served is more likely a
    /// cluster that was lost than the end of every tenant.
    pub(crate) fn end_list(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        self.is_emptied = listed.is_empty() && !self.known.is_empty();
        if !self.is_emptied {
            self.known = listed;
        }
    }

    /// A Secret that was deleted and made again has no last good version: it may be another tenant's.
    fn read(&self, secret: &Secret) -> Known {
        let uid = secret.metadata.uid.clone().unwrap_or_default();
        let created =
            secret.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        match runtime(secret) {
            Ok(runtime) => Known { uid, created, runtime: Some(Arc::new(runtime)), problem: None },
            Err(problem) => {
                let last = self.known.get(&name(secret)).filter(|known| known.uid == uid);
                let runtime = last.and_then(|known| known.runtime.clone());
                Known { uid, created, runtime, problem: Some(problem) }
            }
        }
    }

    /// What is served now.
    pub(crate) fn loaded(&self) -> Loaded {
        let mut loaded = Loaded::default();
        if self.is_emptied {
            loaded.problems.push(format!(
                "the namespace has no runtime Secrets any more, which is not believed: the {} that were there go on \
                 until a Secret appears or this process is restarted",
                self.known.len()
            ));
        }
        let mut by_age: Vec<(&String, &Known)> = self.known.iter().collect();
        by_age.sort_by_key(|(name, known)| (known.created, *name));
        let mut taken = Taken::default();
        for (name, known) in by_age {
            if let Some(problem) = &known.problem {
                let then = match known.runtime {
                    Some(_) => "what was served before goes on",
                    None => "its tenant is not served",
                };
                loaded.problems.push(format!("Secret {name}: {problem}; {then}"));
            }
            if let Some(runtime) = &known.runtime {
                let runtime = taken.take(name, runtime, &mut loaded.problems);
                loaded.tenants.extend(runtime.map(|runtime| Served { runtime }));
            }
        }
        loaded
    }
}

/// What is somebody's already; each value is who has it.
#[derive(Default)]
struct Taken<'a> {
    uids: HashMap<&'a str, &'a str>,
    client_codes: HashMap<String, &'a str>,
    subdomains: HashMap<String, &'a str>,
    keys: HashMap<ApiKeyDigest, &'a str>,
}

impl<'a> Taken<'a> {
    /// What is left of a tenant, which is all of it unless somebody is wrong.
    fn take(
        &mut self,
        name: &'a str,
        runtime: &'a Arc<Runtime>,
        problems: &mut Vec<String>,
    ) -> Option<Arc<Runtime>> {
        let config = &runtime.config;
        let code = config.client_code.as_str().to_ascii_lowercase();
        let whole = self.uids.get(config.uid.as_str()).map(|other| ("uid", other));
        let whole = whole.or_else(|| self.client_codes.get(&code).map(|other| ("clientCode", other)));
        if let Some((what, other)) = whole {
            problems.push(format!(
                "Secret {name}: its {what} is Secret {other}'s already; its tenant is not served"
            ));
            return None;
        }
        self.uids.insert(&config.uid, name);
        self.client_codes.insert(code, name);
        let mut left = None;
        for subdomain in &config.subdomains {
            let other = *self.subdomains.entry(subdomain.to_ascii_lowercase()).or_insert(name);
            if other != name {
                problems.push(format!("Secret {name}: subdomain {subdomain} is Secret {other}'s already"));
                let left = left.get_or_insert_with(|| (**runtime).clone());
                left.config.subdomains.retain(|other| other != subdomain);
            }
        }
        for key in &config.api_keys {
            let other = *self.keys.entry(key.digest).or_insert(name);
            if other != name {
                problems.push(format!("Secret {name}: API key {} is Secret {other}'s already", key.name));
                let left = left.get_or_insert_with(|| (**runtime).clone());
                left.config.api_keys.retain(|other| other.digest != key.digest);
            }
        }
        Some(left.map_or_else(|| Arc::clone(runtime), Arc::new))
    }
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

/// Says where the JSON is wrong, not what stands there.
fn runtime(secret: &Secret) -> Result<Runtime, String> {
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let data = data.ok_or_else(|| format!("it has no key {KEY}"))?;
    serde_json::from_slice(&data.0).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{KEY} is not as the operator of this version writes it (line {line}, column {column})")
    })
}

#[cfg(test)]
mod tests;
